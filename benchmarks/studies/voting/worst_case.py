"""What a promise for each share of votes costs, beside one for their mean: by linear programs.

    python -m benchmarks voting --parts worst-case [--trees 200]

A rule may be random: of the polls in a state some stop. With r(n, k) of C(n, k) orders of votes still polled there,
the mean number of trees and the disagreement at every final count K are linear in what stops and what goes on. The
means are over a prior of K, uniform or Beta(.2, .3); the promise is about the mean, or about each K.

What is found is kept in ``worst-case.json`` beside the page of `benchmarks.studies.voting`, which has a table of it.
"""

import time

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix
from scipy.special import gammaln
from scipy.stats import betabinom

from jaxunc.voting import optimal_votes

PRIORS = {"uniform": (1.0, 1.0), "Beta(.2, .3)": (0.2, 0.3)}


def program(n_trees: int, alpha: tuple[float, float]):
    """Return cost, flow and disagreement by final count of what stops in each state; then what goes on in each."""
    final = np.arange(n_trees + 1)
    weights = betabinom.pmf(final, n_trees, *alpha)
    states = [(n, k) for n in range(n_trees) for k in range(n + 1)]
    number = {state: i for i, state in enumerate(states)}
    n_states = len(states)
    log = gammaln(np.arange(n_trees + 2) + 1.0)
    cost, entries = np.zeros(2 * n_states), []
    wrong = np.zeros((n_trees + 1, 2 * n_states))
    for i, (n, k) in enumerate(states):
        # Of orders with K votes for class 1 the share that begins with k among n.
        there = (final >= k) & (final - k <= n_trees - n)
        at = final[there]
        share = np.zeros(n_trees + 1)
        share[there] = np.exp(
            log[n] - log[k] - log[n - k] + log[n_trees - n] - log[at - k] - log[n_trees - n - at + k]
            - (log[n_trees] - log[at] - log[n_trees - at])
        )  # fmt: skip
        # What goes on costs one tree; all that stops costs no more.
        cost[n_states + i] = share @ weights
        wrong[:, i] = share * (final * 2 <= n_trees if 2 * k > n else final * 2 > n_trees)
        # r(n, k) C(n, k) = those that went on in (n - 1, k) and in (n - 1, k - 1): of shares k / n and (n - k) / n.
        entries += [(1.0, i, i), (1.0, i, n_states + i)]
        for before, part in (((n - 1, k), n - k), ((n - 1, k - 1), k)):
            if before in number:
                entries.append((-part / n, i, n_states + number[before]))
    value, row, column = zip(*entries, strict=True)
    flow = coo_matrix((value, (row, column)), shape=(n_states, 2 * n_states))
    start = np.zeros(n_states)
    start[0] = 1
    bounds = [(0, 0 if 2 * k == n else None) for n, k in states] + [(0, None)] * n_states
    return cost, flow, start, wrong, weights, bounds


def solved(n_trees: int, alpha: tuple[float, float], promise: float) -> dict:
    """Return what a promise of the mean costs, and one of each final count, and the table of `optimal_votes`.

    Mean trees; mean and largest disagreement; the counts at which there is as much as promised; in how many states some
    polls stop and some go on; seconds.
    """
    cost, flow, start, wrong, weights, bounds = program(n_trees, alpha)
    found = {}
    for name, of in {"mean": weights[None] @ wrong, "each": wrong}.items():
        clock = time.perf_counter()
        result = linprog(cost, of, np.full(len(of), promise), flow, start, bounds, method="highs")
        by_final = wrong @ result.x
        found[name] = {
            "trees": round(float(result.fun), 4),
            "mean": float(f"{weights @ by_final:.4g}"),
            "worst": float(f"{by_final.max():.4g}"),
            "at": np.flatnonzero(by_final > promise * (1 - 1e-6)).tolist() if name == "each" else [],
            "random": int(np.sum((result.x[: len(start)] > 1e-9) & (result.x[len(start) :] > 1e-9))),
            "seconds": round(time.perf_counter() - clock, 2),
        }
    clock = time.perf_counter()
    table = optimal_votes(n_trees, promise, population="finite", prior=np.array(alpha[::-1]))
    seconds = round(time.perf_counter() - clock, 3)
    mean = float(f"{table.disagreement:.4g}")
    return found | {"table": {"trees": round(table.n_trees_used, 4), "mean": mean, "seconds": seconds}}


def worst_cases(n_trees: int) -> dict:
    """What all promises cost under all priors."""
    cases = [
        {"prior": prior, "promise": promise, **solved(n_trees, alpha, promise)}
        for prior, alpha in PRIORS.items()
        for promise in (0.01, 0.001)
    ]
    return {"trees": n_trees, "cases": cases}
