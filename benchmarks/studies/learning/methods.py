"""What the study of learning compares: plain baselines, calibrators, fixed rules and learned ones."""

import bisect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.stats import wilcoxon
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score

import jaxunc as ju
from benchmarks.cells import method_rows
from benchmarks.pages import bold, table_rows

CLIPS = (1e-2, 1e-3, 1e-4, 1e-6)
KINDS = ("temperature", "platt", "vector", "one-vs-rest")
LEAST = 1e-6
"""What a probability is raised to where something is chosen by `clipped_loss`."""
Calibrate = Callable[[np.ndarray], np.ndarray]


class Calibrator(NamedTuple):
    """Clipped log probabilities, scaled and moved."""

    kind: str
    clip: float
    scale: np.ndarray
    bias: np.ndarray
    loss: float

    def __call__(self, probability: np.ndarray) -> np.ndarray:
        return _apply(self.kind, self.scale, self.bias, _features(self.kind, probability, self.clip))


def best_calibrator(probability: np.ndarray, y: np.ndarray, kinds: Sequence[str] = KINDS) -> Calibrator:
    """The best of sixteen (four kinds, four clips) by their log loss on these rows."""
    fitted = [fit_calibrator(kind, clip, probability, y) for kind in kinds for clip in CLIPS]
    return min(fitted, key=lambda calibrator: calibrator.loss)


def fit_calibrator(kind: str, clip: float, probability: np.ndarray, y: np.ndarray) -> Calibrator:
    """The calibrator of that kind with the least log loss."""
    features, n_classes = _features(kind, probability, clip), probability.shape[1]
    n_scales = 1 if kind in ("temperature", "platt") else n_classes
    n_biases = 0 if kind == "temperature" else n_classes

    def unpacked(numbers):
        bias = numbers[n_scales:] if n_biases else np.zeros(n_classes)
        return np.broadcast_to(numbers[:n_scales], n_classes), bias

    def loss_and_slope(numbers):
        scale, bias = unpacked(numbers)
        shares = _apply(kind, scale, bias, features)
        # As weak a prior as the learned rules have.
        off = numbers - start
        penalty = 0.5 * np.sum(off[:n_scales] ** 2) + 0.125 * np.sum(off[n_scales:] ** 2)
        slope = _slope(kind, features * scale + bias, shares, own)
        by_scale, by_bias = np.mean(slope * features, axis=0), np.mean(slope, axis=0)
        by_scale = by_scale.sum(keepdims=True) if n_scales == 1 else by_scale
        whole = np.concatenate([by_scale, by_bias[:n_biases]]) + off * spreads / len(y)
        return -np.mean(np.log(shares[own > 0])) + penalty / len(y), whole

    own, spreads = np.eye(n_classes)[y], np.repeat([1.0, 0.25], [n_scales, n_biases])
    start = np.concatenate([np.ones(n_scales), np.zeros(n_biases)])
    found = minimize(loss_and_slope, start, jac=True, method="L-BFGS-B")
    return Calibrator(kind, clip, *unpacked(found.x), found.fun)


def _features(kind: str, probability: np.ndarray, clip: float) -> np.ndarray:
    shares = np.clip(probability, clip, 1 - clip if kind == "one-vs-rest" else 1)
    return np.log(shares) - (np.log1p(-shares) if kind == "one-vs-rest" else 0)


def _apply(kind: str, scale, bias, features: np.ndarray) -> np.ndarray:
    values = features * scale + bias
    if kind == "one-vs-rest":
        shares = np.clip(1 / (1 + np.exp(-np.clip(values, -60, 60))), 1e-12, 1)
        return shares / shares.sum(axis=1, keepdims=True)
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    return np.clip(shares / shares.sum(axis=1, keepdims=True), 1e-12, 1)


def _slope(kind: str, values, shares, own) -> np.ndarray:
    """Of the log loss, in the values that `_apply` makes shares of."""
    if kind != "one-vs-rest":
        return shares - own
    each = 1 / (1 + np.exp(-np.clip(values, -60, 60)))
    return each * (1 - each) / each.sum(axis=1, keepdims=True) - own * (1 - each)


def isotonic(probability: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> Calibrate:
    """Isotonic regression of each class against the rest, clipped to 1/(n + 2) and normalised.

    ``weights [rows classes]`` say how much a row counts.
    """
    n, n_classes = probability.shape
    least = 1 / (n + 2)
    of_class = [None] * n_classes if weights is None else weights.T
    fits: list[Any] = [
        IsotonicRegression(out_of_bounds="clip").fit(probability[:, c], y == c, of_class[c])
        for c in ([1] if n_classes == 2 else range(n_classes))
    ]

    def calibrated(probs: np.ndarray) -> np.ndarray:
        if n_classes == 2:
            positive = np.clip(fits[0].predict(probs[:, 1]), least, 1 - least)
            return np.stack([1 - positive, positive], axis=1)
        shares = np.clip(np.stack([fit.predict(probs[:, c]) for c, fit in enumerate(fits)], axis=1), least, 1 - least)
        return shares / shares.sum(axis=1, keepdims=True)

    return calibrated


MEASURES = ("log_loss", "brier", "auc", "accuracy", "u65", "u80", "log_loss_clipped")
"""What is measured of probabilities; u65 and u80 of the sets with the highest expected utility.

``log_loss`` takes probabilities below 1e-15 for 1e-15, ``log_loss_clipped`` those below 1e-6 for 1e-6. Cells of the
parts that were run first lack the latter.
"""


def measures(probability: np.ndarray, y: np.ndarray) -> list[float]:
    """`MEASURES` of probabilities, which need not add to 1."""
    probability = probability / probability.sum(axis=1, keepdims=True)
    log_loss, clipped, brier, auc, accuracy = plain_measures(probability, y)
    return [log_loss, brier, auc, accuracy, *set_utilities(probability, y), clipped]


PLAIN_MEASURES = ("log_loss", "log_loss_clipped", "brier", "auc", "accuracy")


def plain_measures(probability: np.ndarray, y: np.ndarray) -> list[float]:
    """`PLAIN_MEASURES` of probabilities that add to 1."""
    own = probability[np.arange(len(y)), y]
    log_loss, clipped = (-np.mean(np.log(np.clip(own, least, 1))) for least in (1e-15, 1e-6))
    n_classes = probability.shape[1]
    asked = [1] if n_classes == 2 else np.unique(y)
    auc = np.mean([roc_auc_score(y == c, probability[:, c]) for c in asked])
    brier = np.mean(np.sum((probability - np.eye(n_classes)[y]) ** 2, axis=1))
    accuracy = np.mean(np.argmax(probability, axis=1) == y)
    return [round(float(value), 6) for value in (log_loss, clipped, brier, auc, accuracy)]


def set_utilities(predicted: np.ndarray, y: np.ndarray) -> list[float]:
    """u65 and u80 of sets ``[rows classes]``, or of those with the highest expected utility by these probabilities."""
    found = []
    for kind in (65, 80):
        sets = predicted
        if predicted.dtype != bool:
            sets = np.asarray(ju.decisions.expected_utility_set(predicted, kind))
        found.append(round(float(ju.metrics.discounted_utility(sets, y, kind=kind)), 6))
    return found


def clipped_loss(probability: np.ndarray, y: np.ndarray) -> float:
    """The log loss that choices are made by."""
    return float(-np.mean(np.log(np.clip(probability[np.arange(len(y)), y], LEAST, 1))))


class _Given(ClassifierMixin, BaseEstimator):
    """A classifier whose instances are its probabilities, for libraries that want a classifier."""

    def __init__(self, n_classes: int):
        self.n_classes = n_classes

    def fit(self, X, y=None):
        self.classes_ = np.arange(self.n_classes)
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return np.argmax(X, axis=1)


def adaptive_sets(own: np.ndarray, own_y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Adaptive prediction sets (MAPIE), of three classes and more, calibrated on out-of-sample rows; none is empty."""
    own_shares, shares = (probs / probs.sum(axis=1, keepdims=True) for probs in (own, predicted))
    return filled(mapie_sets(_Given(own.shape[1]).fit(own), own_shares, own_y, shares, "aps"), predicted)


def mapie_sets(model: Any, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, score: str) -> np.ndarray:
    """Conformal sets (MAPIE) at 90 % of a fitted model, calibrated on rows that it has not seen; some may be empty."""
    from mapie.classification import SplitConformalClassifier

    settings = {"confidence_level": 0.9, "conformity_score": score, "prefit": True, "random_state": 0}
    _, sets = SplitConformalClassifier(model, **settings).conformalize(X, y).predict_set(X_test)
    return np.asarray(sets[:, :, 0], bool)


def conformal_sets(
    own: np.ndarray, own_y: np.ndarray, predicted: np.ndarray, *, by_class: bool = False, **settings: Any
) -> np.ndarray:
    """Conformal sets (crepes) of the hinge score at 90 %, calibrated on out-of-sample rows; some may be empty.

    A class is in if of the n rows (``by_class``: of those of this class) enough are no surer of their own. ``settings``
    are those of ``predict_set``: by default ties are broken at random, by ``seed``.
    """
    from crepes import ConformalClassifier
    from crepes.extras import hinge

    classes, alphas, settings = np.arange(own.shape[1]), hinge(predicted), {"confidence": 0.9, **settings}
    classifier = ConformalClassifier().fit(hinge(own, classes, own_y), bins=own_y if by_class else None)
    if not by_class:
        return np.asarray(classifier.predict_set(alphas, **settings), bool)
    of_class = (classifier.predict_set(alphas, bins=np.full(len(alphas), c), **settings)[:, c] for c in classes)
    return np.stack([np.asarray(one, bool) for one in of_class], axis=1)


def filled(sets: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """The sets, or the most probable class where one is empty."""
    best = np.eye(predicted.shape[1], dtype=bool)[np.argmax(predicted, axis=1)]
    return np.where(sets.any(axis=1, keepdims=True), sets, best)


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (set, fold, method) with `MEASURES`, or as many of them as its cell has."""
    return method_rows(found, MEASURES)


def paired(frame: pd.DataFrame, first: str, second: str, measure: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Means over the folds that both have, a number per set."""
    by = frame.pivot_table(index=["set", "fold"], columns="method", values=measure)
    means = by.reindex(columns=[first, second]).dropna().groupby("set").mean()
    return means[first].to_numpy(), means[second].to_numpy(), list(means.index)


def duel(frame: pd.DataFrame, first: str, second: str, measure: str) -> str:
    """How the first did against the second, by relative gains in losses; nothing where a method is missing."""
    a, b, _ = paired(frame, first, second, measure)
    if not len(a):
        return ""
    is_loss = measure in ("log_loss", "log_loss_clipped", "brier")
    better, worse = (np.sum(a < b), np.sum(a > b)) if is_loss else (np.sum(a > b), np.sum(a < b))
    with np.errstate(invalid="ignore", divide="ignore"):  # no loss at all on either side is no gain
        gain = np.median(np.nan_to_num(1 - a / b) if is_loss else a - b)
    shown = f"{100 * gain:+.1f} %" if is_loss else f"{gain:+.4f}"
    differs = np.any(a != b) and len(a) > 5 and wilcoxon(a, b).pvalue < 0.05
    return bold(f"{better}:{worse} {shown}", differs)


def largest(frame: pd.DataFrame, first: str, second: str, measure: str) -> str:
    """The four sets on which the first does worst against the second, and its loss there as a share of the other's."""
    a, b, sets = paired(frame, first, second, measure)
    order = np.argsort(-a / b)[:4]
    return ", ".join(f"{sets[i]} {a[i] / b[i]:.3f}" for i in order)


def how_many(found: Mapping[Any, dict]) -> str:
    """How many sets the cells are of, and how many of the five folds."""
    folds = pd.Series([cell.data for cell in found]).value_counts()
    most, least, whole = folds.max(), folds.min(), (folds == folds.max()).sum()
    if most == least:
        return f"{len(folds)} sets, {most} of 5 folds."
    return f"{len(folds)} sets: {most} of 5 folds of {whole} of them, {least} of the others."


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    return "\n".join([table_rows([head]), "|" + "---|" * len(head), table_rows(rows)])


# Venn-Abers predictors, exact and in O(n log n): isotonic regression with the new row in either class.


def venn_abers_pair(scores: np.ndarray, positive: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Isotonic fits at each new score, once as a negative (p0) and once as a positive (p1).

    Rows of equal scores are one block. The isotonic fits of all beginnings, and of all ends, of the sorted blocks are
    kept as stacks that share their lower parts. A new row joins its neighbours in both until the means increase; the
    order of joins does not matter, so that this is the fit of all rows and the new one. Scores of the rows that
    calibrate, and whether these are positive, are ``[rows]``; the new scores, p0 and p1 are ``[instances]``.
    """
    levels, at = np.unique(scores, return_inverse=True)
    rows = np.bincount(at, minlength=len(levels)).tolist()
    positives = np.bincount(at[np.asarray(positive, bool)], minlength=len(levels)).tolist()
    places, blocks = levels.tolist(), list(zip(positives, rows, strict=True))
    before = _stacks(blocks)
    after = _stacks([(n - p, n) for p, n in reversed(blocks)])  # mirrored: ends of the list, of negatives
    asked, where = np.unique(new, return_inverse=True)
    found = [[_fitted(float(score), label, places, blocks, before, after) for score in asked] for label in (0, 1)]
    p0, p1 = np.asarray(found, float).reshape(2, -1)
    return p0[where], p1[where]


def merged_pair(p0: np.ndarray, p1: np.ndarray) -> np.ndarray:
    """One probability of a pair: p1 / (1 - p0 + p1), the least regret by log loss (Vovk, Petej and Fedorova 2015)."""
    return p1 / (1 - p0 + p1)


def merged_pairs(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """One probability of several pairs, by geometric means, as cross Venn-Abers predictors have it."""
    ones = np.exp(np.mean([np.log(p1) for _, p1 in pairs], axis=0))
    zeros = np.exp(np.mean([np.log(1 - p0) for p0, _ in pairs], axis=0))
    return ones / (zeros + ones)


def _stacks(blocks: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """The top block of the isotonic fit of each beginning, and how many blocks lie before it: where to read on.

    A block is how many positives there are, and how many rows.
    """
    tops: list[tuple[int, int, int]] = []
    for end, (p, n) in enumerate(blocks):
        below = end
        while below and tops[below - 1][0] * n >= p * tops[below - 1][1]:
            more_p, more_n, below = tops[below - 1]
            p, n = p + more_p, n + more_n
        tops.append((p, n, below))
    return tops


def _fitted(score, label, places, blocks, before, after) -> float:
    """The fit's value at a new row of that score and label."""
    left = bisect.bisect_left(places, score)
    same = left < len(places) and places[left] == score
    p, n = (blocks[left][0] + label, blocks[left][1] + 1) if same else (label, 1)
    right = len(places) - left - same  # how many blocks lie after it
    while True:
        if left and before[left - 1][0] * n >= p * before[left - 1][1]:
            more_p, more_n, left = before[left - 1]
            p, n = p + more_p, n + more_n
        elif right and (after[right - 1][1] - after[right - 1][0]) * n <= p * after[right - 1][1]:
            negatives, more_n, right = after[right - 1]
            p, n = p + more_n - negatives, n + more_n
        else:
            return p / n
