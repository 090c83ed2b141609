"""What the study of learning compares: plain baselines, calibrators, fixed rules and learned ones."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score

import jaxunc as ju

CLIPS = (1e-2, 1e-3, 1e-4, 1e-6)
KINDS = ("temperature", "platt", "vector", "one-vs-rest")


class Calibrator(NamedTuple):
    """Clipped log probabilities, scaled and moved."""

    kind: str
    clip: float
    scale: np.ndarray
    bias: np.ndarray
    loss: float

    def __call__(self, probability: np.ndarray) -> np.ndarray:
        """Calibrated probabilities."""
        return _apply(self.kind, self.scale, self.bias, _features(self.kind, probability, self.clip))


def best_calibrator(probability: np.ndarray, y: np.ndarray) -> Calibrator:
    """The best of sixteen (four kinds, four clips) by their log loss on these rows."""
    fitted = [fit_calibrator(kind, clip, probability, y) for kind in KINDS for clip in CLIPS]
    return min(fitted, key=lambda calibrator: calibrator.loss)


def fit_calibrator(kind: str, clip: float, probability: np.ndarray, y: np.ndarray) -> Calibrator:
    """The calibrator of that kind with the least log loss."""
    features, n_classes = _features(kind, probability, clip), probability.shape[1]
    n_scales = 1 if kind in ("temperature", "platt") else n_classes
    n_biases = 0 if kind == "temperature" else n_classes

    def unpacked(numbers):
        scale = np.broadcast_to(numbers[:n_scales], n_classes)
        bias = numbers[n_scales:] if n_biases else np.zeros(n_classes)
        return scale, bias

    def loss(numbers):
        """With its slope."""
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
    found = minimize(loss, start, jac=True, method="L-BFGS-B")
    return Calibrator(kind, clip, *unpacked(found.x), found.fun)


def _features(kind: str, probability: np.ndarray, clip: float) -> np.ndarray:
    shares = np.clip(probability, clip, 1 - clip if kind == "one-vs-rest" else 1)
    return np.log(shares) - (np.log1p(-shares) if kind == "one-vs-rest" else 0)


def _apply(kind: str, scale, bias, features: np.ndarray) -> np.ndarray:
    values = features * scale + bias
    if kind == "one-vs-rest":
        shares = 1 / (1 + np.exp(-np.clip(values, -60, 60)))
        return np.clip(shares, 1e-12, 1) / np.sum(np.clip(shares, 1e-12, 1), axis=1, keepdims=True)
    values = values - values.max(axis=1, keepdims=True)
    shares = np.exp(values)
    return np.clip(shares / shares.sum(axis=1, keepdims=True), 1e-12, 1)


def _slope(kind: str, values, shares, own) -> np.ndarray:
    """Of the log loss, in the values that `_apply` makes shares of."""
    if kind != "one-vs-rest":
        return shares - own
    each = 1 / (1 + np.exp(-np.clip(values, -60, 60)))
    return each * (1 - each) / each.sum(axis=1, keepdims=True) - own * (1 - each)


def isotonic(probability: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Isotonic regression of each class against the rest, clipped to 1/(n + 2) and normalised."""
    n, n_classes = probability.shape
    least = 1 / (n + 2)
    fits: list[Any] = [
        IsotonicRegression(out_of_bounds="clip").fit(probability[:, c], y == c)
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
    """`MEASURES` of probabilities."""
    probability = probability / probability.sum(axis=1, keepdims=True)
    log_loss, clipped, brier, auc, accuracy = plain_measures(probability, y)
    return [log_loss, brier, auc, accuracy, *set_utilities(probability, y), clipped]


PLAIN_MEASURES = ("log_loss", "log_loss_clipped", "brier", "auc", "accuracy")


def plain_measures(probability: np.ndarray, y: np.ndarray) -> list[float]:
    """`PLAIN_MEASURES` of probabilities that add to 1."""
    own = probability[np.arange(len(y)), y]
    log_loss, clipped = (-np.mean(np.log(np.clip(own, least, 1))) for least in (1e-15, 1e-6))
    n_classes = probability.shape[1]
    if n_classes == 2:
        auc = roc_auc_score(y, probability[:, 1])
    else:
        present = [c for c in range(n_classes) if np.any(y == c)]
        auc = np.mean([roc_auc_score(y == c, probability[:, c]) for c in present])
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


def adaptive_sets(own: np.ndarray, own_y: np.ndarray, predicted: np.ndarray, confidence: float = 0.9) -> np.ndarray:
    """Adaptive prediction sets (MAPIE), of three classes and more, calibrated on out-of-sample rows; none is empty."""
    from mapie.classification import SplitConformalClassifier

    given = _Given(own.shape[1]).fit(own)
    classifier = SplitConformalClassifier(
        given, confidence_level=confidence, conformity_score="aps", prefit=True, random_state=0
    )
    as_shares = lambda probs: probs / probs.sum(axis=1, keepdims=True)  # noqa: E731
    _, sets = classifier.conformalize(as_shares(own), own_y).predict_set(as_shares(predicted))
    return filled(sets[:, :, 0], predicted)


def conformal_sets(own: np.ndarray, own_y: np.ndarray, predicted: np.ndarray, confidence: float = 0.9) -> np.ndarray:
    """Conformal sets (crepes) of the hinge score, calibrated on out-of-sample rows; none is empty.

    Ties are broken at random, by a fixed seed.
    """
    from crepes import ConformalClassifier
    from crepes.extras import hinge

    classifier = ConformalClassifier().fit(hinge(own, np.arange(own.shape[1]), own_y))
    sets = np.asarray(classifier.predict_set(hinge(predicted), confidence=confidence, seed=0)).astype(bool)
    return filled(sets, predicted)


def filled(sets: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """The sets, or the most probable class where one is empty."""
    best = np.eye(predicted.shape[1], dtype=bool)[np.argmax(predicted, axis=1)]
    return np.where(sets.any(axis=1, keepdims=True), sets, best)
