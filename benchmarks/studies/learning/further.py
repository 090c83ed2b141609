"""Further parts of the study of learning: hierarchical shrinkage, the share of noisy labels, counts of every leaf.

`benchmarks.studies.learning` runs them on its folds.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from benchmarks.studies.learning.methods import best_calibrator, clipped_loss, measures
from jaxunc.learning import OobDataset, RoutedRows, WeighedPart, best_step, descend, log_loss_of

# Hierarchical shrinkage: every leaf drawn towards its ancestors, by one number that is chosen out of bag. The class
# shares of a leaf become
#
#     p_root + Σ (p_child - p_parent) / (1 + λ / n_parent)
#
# over the steps of its path, n the bootstrapped rows of a node; the forest's answer is their mean (Agarwal, Tan, Ronen,
# Singh and Yu 2022, eq. 1). λ is the one of `STRENGTHS` whose out-of-bag answers have the least log loss.

SHRINKAGE = ("shrinkage", "shrinkage, P")
"""The methods; ``page.md`` says what they are."""
STRENGTHS = (0.0, 0.1, 1.0, 10.0, 25.0, 50.0, 100.0, 500.0)
"""Values of λ: those of the paper and of its authors' package."""


def run_shrinkage(model: RandomForestClassifier, X, y, X_test, y_test) -> dict:
    """{"methods": {method: measures}, "chosen": λ, "rows"} of a fitted forest."""
    own = shrunk_out_of_bag(model, X, y)
    best = int(np.argmin([clipped_loss(shares, y) for shares in own]))
    answers = shrunk_answers(model, X_test, STRENGTHS[best : best + 1])[0]
    found = {"mean": model.predict_proba(X_test), "shrinkage": answers}
    found["shrinkage, P"] = best_calibrator(own[best], y)(answers)
    return {
        "methods": {name: measures(probability, y_test) for name, probability in found.items()},
        "chosen": STRENGTHS[best],
        "rows": [len(y), model.n_classes_],
    }


def shrunk_nodes(tree, strengths=STRENGTHS) -> np.ndarray:
    """Class shares ``[strengths nodes classes]`` of every node of a scikit-learn tree, shrunk to its ancestors."""
    shares = tree.value[:, 0, :] / tree.value[:, 0, :].sum(axis=1, keepdims=True)
    found = np.repeat(shares[None], len(strengths), axis=0)
    parents = np.array([0])
    while len(parents := parents[tree.children_left[parents] >= 0]):
        factor = 1 / (1 + np.asarray(strengths)[:, None, None] / tree.weighted_n_node_samples[parents, None])
        for children in (tree.children_left, tree.children_right):
            at = children[parents]
            found[:, at] = found[:, parents] + (shares[at] - shares[parents]) * factor
        parents = np.concatenate([tree.children_left[parents], tree.children_right[parents]])
    return found


def shrunk_answers(model: RandomForestClassifier, X, strengths=STRENGTHS) -> np.ndarray:
    """The means over trees ``[strengths rows classes]``."""
    at = model.apply(X)
    return np.mean([shrunk_nodes(t.tree_, strengths)[:, at[:, i]] for i, t in enumerate(model.estimators_)], axis=0)


def shrunk_out_of_bag(model: RandomForestClassifier, X, y) -> np.ndarray:
    """The same of trees whose bags lack a row; rows that no bag lacks are answered by even shares."""
    at, n_trees = model.apply(X), np.zeros(len(y))
    sums = np.zeros((len(STRENGTHS), len(y), model.n_classes_))
    for i, (tree, bag) in enumerate(zip(model.estimators_, model.estimators_samples_, strict=True)):
        out = np.setdiff1d(np.arange(len(y)), bag)
        sums[:, out] += shrunk_nodes(tree.tree_)[:, at[out, i]]
        n_trees[out] += 1
    return np.where(n_trees[:, None] > 0, sums / np.maximum(n_trees, 1)[:, None], 1 / model.n_classes_)


# What the pool's share of noisy labels costs and saves: learned, nearly nothing, and none at all. `LearnedPool` learns
# a share ε of labels that say nothing. Learning starts at 1 %, and the weak prior of its numbers lies around that. So
# the pool's least loss is about ε/2 of two classes.

NOISE_SETS = (
    "mushroom", "wine", "iris", "breast-w", "banknote", "wdbc", "kr-vs-kp", "seeds", "dermatology", "ionosphere",
    "diabetes", "tic-tac-toe",
)  # fmt: skip
"""Sets on which forests make few errors, and two on which they make many."""
NOISE = {"pool": None, "noise around .1 %": 1e-3, "noise around .01 %": 1e-4, "no noise": 0.0}
"""Where the share of noisy labels starts (None: where it does by itself; 0: it is none)."""


def run_noise(rows_of: Callable[[str], ju.learning.OobDataset], X_test, y_test) -> dict:
    """{"methods": {method: measures}, "noise": {method: ε}, "rows"} of a fold's out-of-bag rows."""
    rows = rows_of("both")
    found, learned = {}, {}
    for name, start in NOISE.items():
        told = {"noise": start} if start else {}
        rule = ju.LearnedPool(rows.prior, reads=rows.count_sets, **told)
        fitted = ju.learning.fit_combiner(rule, rows, freeze=() if start != 0 else ("noise",)).combiner
        found[name] = measures(np.asarray(rows.bind(fitted).probability(X_test), float), y_test)
        learned[name] = float(f"{float(fitted.noise):.4g}")
    return {"methods": found, "noise": learned, "rows": [rows.n, len(rows.prior)]}


# Learned counts of the leaves: every leaf of every tree has numbers of its own (Ren et al. 2015).

SPREAD, SMALLEST, VALIDATION = 0.3, 0.1, 0.2
"""How far the logarithm of a count is expected to move; what is added to each count, so that one of 0, which stays 0
times any factor, can grow; the share of the rows that is set apart."""


class _CountsProblem(NamedTuple):
    routed: RoutedRows
    counts: Array
    y: Array
    weight: Array
    n_trees: Array


def fit_leaf_counts(rows: OobDataset, n_steps: int) -> ju.Forest:
    r"""Learn the counts of every leaf for the mean, from rows that are routed at every step through one forest.

    .. math:: w'_{tc} = (w_{tc} + \epsilon) \, e^{u_{tc}}, \qquad
              L + \frac{1}{n} \sum_{t,c} \frac{u_{tc}^2}{2 \sigma^2}

    A share of the rows is set apart: learning stops when these have not got better for ten steps.
    """
    routed, forest, dtype = rows.routed, rows.routed.forest, jnp.result_type(float)
    is_leaf = forest.trees.is_leaf[..., None]
    counts = jnp.where(is_leaf, forest.counts.astype(dtype) + SMALLEST, jnp.zeros((), dtype))
    # Rows are set apart by their weights, not taken out: both problems have the same shapes and share programs.
    weight, for_rows = np.asarray(rows.weight), jax.random.split(jax.random.key(0))[0]
    apart = rows.as_groups(np.asarray(jax.random.uniform(for_rows, (len(weight),))) < VALIDATION)
    n_trees = jnp.asarray(float(rows.n_trees))

    def problem(which) -> _CountsProblem:
        own = jnp.asarray(np.where(which, weight, 0), dtype)
        return _CountsProblem(routed, counts, rows.y, own, n_trees)

    other, evaluate = problem(apart), jax.jit(_loss_of)
    steps = descend(_objective, (), jnp.zeros_like(counts), [WeighedPart(1.0, problem(~apart))])
    apart_loss = lambda moved: float(evaluate(moved, other))
    best, _, _ = best_step(steps, apart_loss, n_steps=n_steps, patience=10, report=lambda *_: None)
    return forest.with_counts(jnp.where(is_leaf, counts * jnp.exp(best.numbers), 0))


def _loss_of(moved: Array, problem: _CountsProblem) -> Array:
    forest = problem.routed.forest.with_counts(problem.counts * jnp.exp(moved))
    merged = problem.routed._replace(forest=forest).merge(ju.Mean(), problem.n_trees)
    return log_loss_of(ju.Mean().finish(merged), problem.y, problem.weight)


def _objective(shape: tuple, moved: Array, problem: _CountsProblem) -> Array:
    # The losses are means over rows, so that the prior is divided by their number, too.
    held = 0.5 * jnp.sum((moved / SPREAD) ** 2) / jnp.sum(problem.weight).astype(moved.dtype)
    return _loss_of(moved, problem) + held
