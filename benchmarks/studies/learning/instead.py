"""Tuned forests, calibrators and weighted trees: what users would do instead of learning the combination.

A part of `benchmarks.studies.learning`, on its sets and folds; ``page.md`` says how each is chosen: on training rows,
out of bag. Calibrated is by temperature (the best of four clips) or isotonic regression, by a cross-validation.
"""

import time
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import KFold, StratifiedKFold

import jaxunc as ju
from benchmarks.studies.learning import methods
from benchmarks.studies.learning.methods import Calibrate, clipped_loss

INSTEAD = (
    "tuned mean", "tuned mean, calibrated", "tuned mean, P", "tuned and calibrated jointly", "pool, tuned",
    "Venn-Abers", "cross Venn-Abers", "CaliForest", "trees by Brier, isotonic",
)  # fmt: skip
"""The methods; ``page.md`` says what they are."""
LEAST_LEAVES = (1, 2, 4, 8, 16, 32)
SHARES: tuple[Any, ...] = ("sqrt", 0.25, 0.5, 1.0)
N_TREES, N_SEARCH_TREES, N_CROSS_TREES = 200, 50, 100
MANY_CELLS = 50_000
PRIOR_SHAPE, PRIOR_SCALE = 100.0, 25.0
"""Of CaliForest's prior of a row's variance; those of its authors' code."""
_temperature = partial(methods.best_calibrator, kinds=("temperature",))


class OutOfBag(NamedTuple):
    """Answers of trees for the rows that their bags lack."""

    probability: np.ndarray
    """``[rows classes]`` The mean over those trees."""
    variance: np.ndarray
    """``[rows classes]`` And their variance."""
    n_trees: np.ndarray
    """``[rows]`` How many there are."""
    weights: np.ndarray
    """``[trees]`` One over a tree's Brier score on those rows."""
    weighted: np.ndarray
    """``[rows classes]`` The mean by these weights."""


def run_instead(X, y, X_test, y_test, fold: int) -> dict:
    """{"methods": {method: measures}, "seconds": {what: seconds}, "chosen": {what: what was chosen}, "rows"}."""
    n_classes = int(y.max()) + 1
    base = _grown(X, y, fold, N_TREES, 1, "sqrt")
    own = out_of_bag(base, X, y)
    mean = base.predict_proba(X_test)
    found = {"mean": mean}
    start = time.perf_counter()
    finalists = finalists_of(X, y, fold)
    tuned = min(finalists, key=lambda one: clipped_loss(one.own, y))
    found["tuned mean"] = answers = tuned.model.predict_proba(X_test)
    seconds = {"tune": round(time.perf_counter() - start, 3)}
    found["tuned mean, calibrated"] = tuned.calibrate(answers)
    found["tuned mean, P"] = methods.best_calibrator(tuned.own, y)(answers)
    joint = min(finalists, key=lambda one: one.calibrated_loss)
    found["tuned and calibrated jointly"] = joint.calibrate(joint.model.predict_proba(X_test))
    rows = ju.learning.oob_dataset(tuned.model, X, y, counts="both")
    pool = ju.learning.fit_combiner(ju.LearnedPool(rows.prior, reads=rows.count_sets), rows).combiner
    found["pool, tuned"] = np.asarray(rows.bind(pool).probability(X_test), float)
    found["Venn-Abers"] = _venn_abers([(own.probability, y, mean)], n_classes)
    found["cross Venn-Abers"] = _venn_abers(list(_cross(X, y, X_test, fold)), n_classes)
    found["CaliForest"] = stable_isotonic(own, y)(mean)
    trees = np.stack([tree.predict_proba(np.asarray(X_test, np.float32)) for tree in base.estimators_])
    weighted = np.tensordot(own.weights / own.weights.sum(), trees, 1)
    found["trees by Brier, isotonic"] = methods.isotonic(own.weighted, y)(weighted)
    return {
        "methods": {name: methods.measures(probs, y_test) for name, probs in found.items()},
        "seconds": seconds,
        "chosen": {"tuned": [tuned.least_leaf, tuned.share, tuned.kind]},
        "rows": [len(y), n_classes],
    }


def out_of_bag(model: RandomForestClassifier, X, y) -> OutOfBag:
    """Out-of-bag answers of a fitted forest; training rows that no bag lacks are answered by even shares."""
    X, truth = np.ascontiguousarray(X, np.float32), np.eye(model.n_classes_)[y]
    n_trees, total, weights = np.zeros(len(y)), np.zeros(len(y)), []
    sums, squares, weighted = (np.zeros(truth.shape) for _ in range(3))
    for tree, bag in zip(model.estimators_, model.estimators_samples_, strict=True):
        out = np.ones(len(y), bool)
        out[bag] = False
        shares = tree.predict_proba(X[out], check_input=False)
        weight = 1 / max(np.mean(np.sum((shares - truth[out]) ** 2, axis=1)), 1e-3)
        weights.append(weight)
        n_trees[out] += 1
        total[out] += weight
        sums[out] += shares
        squares[out] += shares**2
        weighted[out] += weight * shares
    seen, even = (n_trees > 0)[:, None], 1 / model.n_classes_
    n, total = np.maximum(n_trees, 1)[:, None], np.where(seen, total[:, None], 1)
    probability = np.where(seen, sums / n, even)
    variance = np.maximum(squares / n - (sums / n) ** 2, 0)
    return OutOfBag(probability, variance, n_trees, np.array(weights), np.where(seen, weighted / total, even))


def stable_isotonic(own: OutOfBag, y) -> Calibrate:
    """CaliForest's calibration (Park and Ho 2020): isotonic regression in which rows that trees agree on count more.

    A row of n out-of-bag trees with variance v has the weight (100 + n/2) / (25 + n v/2): the mean precision by a gamma
    prior.
    """
    n = own.n_trees[:, None]
    weights = (PRIOR_SHAPE + n / 2) / (PRIOR_SCALE + n * own.variance / 2)
    return methods.isotonic(own.probability, y, weights)


class _Finalist(NamedTuple):
    """Settings with all trees, and the calibrator that is better for them."""

    least_leaf: int
    share: Any
    model: RandomForestClassifier
    own: np.ndarray
    kind: str
    calibrated_loss: float
    calibrate: Calibrate


def finalists_of(X, y, fold: int) -> list[_Finalist]:
    n_trees = N_SEARCH_TREES // (2 if X.size > MANY_CELLS else 1)
    losses, calibrated = {}, {}
    for settings in _candidates(X.shape[1]):
        own = out_of_bag(_grown(X, y, fold, n_trees, *settings), X, y).probability
        losses[settings] = clipped_loss(own, y)
        calibrated[settings] = clipped_loss(_temperature(own, y)(own), y)
    best = [sorted(of, key=lambda one, of=of: of[one])[:2] for of in (losses, calibrated)]
    finalists = []
    for least_leaf, share in dict.fromkeys([(1, "sqrt"), *best[0], *best[1]]):
        model = _grown(X, y, fold, N_TREES, least_leaf, share)
        own = out_of_bag(model, X, y).probability
        finalists.append(_Finalist(least_leaf, share, model, own, *_simple_calibrator(own, y)))
    return finalists


def _candidates(n_columns: int) -> list[tuple[int, Any]]:
    """Least leaves and columns per split, without those that are the same number of columns."""
    by_number = {int(np.sqrt(n_columns)) if s == "sqrt" else max(1, int(s * n_columns)): s for s in reversed(SHARES)}
    return [(leaf, share) for leaf in LEAST_LEAVES for share in by_number.values()]


def _grown(X, y, fold: int, n_trees: int, least_leaf: int, share) -> RandomForestClassifier:
    model = RandomForestClassifier(n_trees, min_samples_leaf=least_leaf, max_features=share, random_state=fold)
    return model.fit(X, y)


def _simple_calibrator(own: np.ndarray, y: np.ndarray) -> tuple[str, float, Calibrate]:
    """Temperature or isotonic regression, by cross-validation: name, loss, and what was fitted on all rows."""
    kinds, losses = {"temperature": _temperature, "isotonic": methods.isotonic}, {}
    folds = list(KFold(5, shuffle=True, random_state=0).split(own))
    for name, fit in kinds.items():
        of_folds = [clipped_loss(fit(own[a], y[a])(own[b]), y[b]) for a, b in folds]
        losses[name] = float(np.average(of_folds, weights=[len(b) for _, b in folds]))
    best = min(losses, key=losses.__getitem__)
    return best, losses[best], kinds[best](own, y)


def _cross(X, y, X_test, fold: int):
    """Five parts of the rows, each answered by a forest of the others: what Venn-Abers predictors calibrate."""
    n_parts = min(5, int(np.bincount(y).min()))
    for a, b in StratifiedKFold(n_parts, shuffle=True, random_state=fold).split(X, y):
        model = _grown(X[a], y[a], fold, N_CROSS_TREES, 1, "sqrt")
        yield model.predict_proba(X[b]), y[b], model.predict_proba(X_test)


def _venn_abers(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], n_classes: int) -> np.ndarray:
    """Each class against the rest, normalised; of two classes the second alone."""
    columns = []
    for c in [1] if n_classes == 2 else range(n_classes):
        pairs = [methods.venn_abers_pair(own[:, c], y == c, new[:, c]) for own, y, new in parts]
        columns.append(methods.merged_pair(*pairs[0]) if len(pairs) == 1 else methods.merged_pairs(pairs))
    if n_classes == 2:
        return np.stack([1 - columns[0], columns[0]], axis=1)
    shares = np.stack(columns, axis=1)
    return shares / shares.sum(axis=1, keepdims=True)
