"""Tables with planted causes of doubt, forests whose leaves count them, and which column each method names first."""

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import jaxunc as ju

N_TREES, N_ASKED, N_SAMPLE, N_PERMUTED = 20, 128, 50, 10
"""Trees of a forest, instances for each cause, rows of a background sample, permutations of a column."""
N_COLUMNS, NOISY, HOLE = 8, 2, 3
CAUSES = {"aleatoric": NOISY, "epistemic": HOLE}
COPY_NOISE = 0.1
LEARNERS = {"forest": RandomForestClassifier, "extra trees": ExtraTreesClassifier}
METHODS = ("explain, by cover", "explain, by rows", "permutation", "SHAP of the mean")
DOUBT = ju.UncertaintyDecomposition("plausibility")


class Design(NamedTuple):
    """How a table is drawn, and whose rows the leaves count."""

    others_grow: bool
    """Whether the trees were grown on other rows, without a hole."""
    used: bool
    """Whether labels depend on the hole's column."""
    copies: bool = False
    """Whether there is a copy of each planted column, with noise."""

    @property
    def n_columns(self) -> int:
        """With the copies, which are the last columns, in the order of `CAUSES`."""
        return N_COLUMNS + len(CAUSES) * self.copies


DESIGNS = {
    "own, idle": Design(others_grow=False, used=False),
    "own, used": Design(others_grow=False, used=True),
    "other, idle": Design(others_grow=True, used=False),
    "other, used": Design(others_grow=True, used=True),
}


def rows(rng: np.random.Generator, n: int, design: Design, *, hole: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return a table and its labels: a coin where the noisy column is above .4, rows nowhere in the hole."""
    X = rng.uniform(-1, 1, (2 * n, N_COLUMNS))
    if hole:
        X = X[~((X[:, HOLE] > 0) & (X[:, HOLE] < 0.5))]
    X = X[:n]
    y = X[:, [0, 1, HOLE][: 2 + design.used]].sum(axis=1) > 0
    return _columns(rng, X, design), np.where(X[:, NOISY] > 0.4, rng.random(n) < 0.5, y)


def asked(rng: np.random.Generator, design: Design) -> np.ndarray:
    """Return instances, half of them where labels are noise, the other half in the hole, none in both."""
    X = rng.uniform(-1, 1, (2 * N_ASKED, N_COLUMNS))
    X[:N_ASKED, NOISY], X[:N_ASKED, HOLE] = rng.uniform(0.5, 1, N_ASKED), rng.uniform(-1, 0, N_ASKED)
    X[N_ASKED:, NOISY], X[N_ASKED:, HOLE] = rng.uniform(-1, 0.3, N_ASKED), rng.uniform(0.1, 0.4, N_ASKED)
    return _columns(rng, X, design)


def _columns(rng: np.random.Generator, X: np.ndarray, design: Design) -> np.ndarray:
    copies = X[:, [*CAUSES.values()]] + rng.normal(0, COPY_NOISE, (len(X), len(CAUSES)))
    return np.concatenate([X, copies], axis=1)[:, : design.n_columns].astype(np.float32)


class Case(NamedTuple):
    """One seed's model, the rows that its leaves count, and instances."""

    model: Any
    X: np.ndarray
    y: np.ndarray
    asked: np.ndarray


def case(design: Design, learner: str, leaf: int, n: int, seed: int) -> Case:
    """Return what one seed draws."""
    rng = np.random.default_rng(seed)
    X, y = rows(rng, n, design, hole=True)
    grown = rows(rng, n, design, hole=False) if design.others_grow else (X, y)
    model = LEARNERS[learner](N_TREES, min_samples_leaf=leaf, random_state=seed).fit(*grown)
    return Case(model, X, y, asked(rng, design))


def named_first(design: Design, learner: str, leaf: int, n: int, n_seeds: int) -> dict[str, dict[str, list]]:
    """Return {cause: {method: [of each seed: shares of instances that have the planted column first, or its copy]}}."""
    cases = [case(design, learner, leaf, n, seed) for seed in range(n_seeds)]
    together = _by_cover(cases)
    found: dict[str, dict[str, list]] = {cause: {name: [] for name in METHODS} for cause in CAUSES}
    for seed, one in enumerate(cases):
        forest = ju.count_leaves(ju.from_sklearn(one.model), one.X, one.y)
        of_rows = np.asarray(ju.explain(forest, DOUBT, one.asked, background=one.X[:N_SAMPLE]).values)
        by_cover, mean = (values[2 * N_ASKED * seed :][: 2 * N_ASKED] for values in together)
        permuted = permutation(ju.bind(forest, DOUBT).answer, one.X, one.asked, np.random.default_rng(seed))
        for at, (cause, column) in enumerate(CAUSES.items()):
            half = slice(N_ASKED * at, N_ASKED * (at + 1))
            scores = by_cover[half, :, at], of_rows[half, :, at], permuted[half, :, at], np.abs(mean[half, :, 1])
            for name, score in zip(METHODS, scores, strict=True):
                first = score.argmax(axis=1)
                of = [float(np.mean(first == which)) for which in (column, N_COLUMNS + at)]
                found[cause][name].append(of[: 1 + design.copies])
    return found


def _by_cover(cases: list[Case]) -> tuple[np.ndarray, np.ndarray]:
    """The values of doubt and of the mean, of all cases in one forest, each by its own trees: one program for all."""
    model = copy(cases[0].model)
    model.estimators_ = [tree for one in cases for tree in one.model.estimators_]
    model.n_estimators = len(model.estimators_)
    own = np.repeat(np.eye(len(cases), dtype=bool), N_TREES, axis=1)
    X, y = (np.concatenate(part) for part in zip(*((one.X, one.y) for one in cases), strict=True))
    forest = ju.count_leaves(ju.from_sklearn(model), X, y, tree_mask=own.repeat(len(cases[0].y), axis=0))
    instances, mask = np.concatenate([one.asked for one in cases]), own.repeat(2 * N_ASKED, axis=0)
    doubt, mean = (ju.explain(forest, rule, instances, tree_mask=mask).values for rule in (DOUBT, ju.Mean()))
    return np.asarray(doubt), np.asarray(mean)


def permutation(
    answer: Callable[[np.ndarray], Any], X: np.ndarray, instances: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return by how much doubt falls where a column's value is another row's ``[instances columns cause]``."""
    n, n_columns = instances.shape
    changed = np.tile(instances, (1 + N_PERMUTED * n_columns, 1, 1))
    for at in range(N_PERMUTED * n_columns):
        changed[1 + at, :, at % n_columns] = rng.permutation(X[:, at % n_columns])[:n]
    answers = jax.tree.map(np.asarray, answer(changed.reshape(-1, n_columns)))
    doubt = np.stack([getattr(answers, cause) for cause in CAUSES], axis=-1).reshape(len(changed), n, len(CAUSES))
    others = doubt[1:].reshape(N_PERMUTED, n_columns, n, len(CAUSES)).mean(axis=0)
    return doubt[0][:, None] - others.swapaxes(0, 1)
