"""What the study of learning compares: plain baselines, calibrators, fixed rules and learned ones."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
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
        shares = _apply(kind, *unpacked(numbers), features)
        # As weak a prior as the learned rules have.
        penalty = 0.5 * np.sum((numbers[:n_scales] - 1) ** 2) + 0.125 * np.sum(numbers[n_scales:] ** 2)
        return -np.mean(np.log(shares[np.arange(len(y)), y])) + penalty / len(y)

    start = np.concatenate([np.ones(n_scales), np.zeros(n_biases)])
    found = minimize(loss, start, method="L-BFGS-B")
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


MEASURES = ("log_loss", "brier", "auc", "accuracy", "u65", "u80")
"""What is measured of probabilities; the last two of the sets with the highest expected utility."""


def measures(probability: np.ndarray, y: np.ndarray) -> list[float]:
    """`MEASURES` of probabilities; logarithms of a probability of 0 are those of 1e-15."""
    probability = probability / probability.sum(axis=1, keepdims=True)
    own = np.clip(probability[np.arange(len(y)), y], 1e-15, 1)
    n_classes = probability.shape[1]
    if n_classes == 2:
        auc = roc_auc_score(y, probability[:, 1])
    else:
        present = [c for c in range(n_classes) if np.any(y == c)]
        auc = np.mean([roc_auc_score(y == c, probability[:, c]) for c in present])
    brier = np.mean(np.sum((probability - np.eye(n_classes)[y]) ** 2, axis=1))
    accuracy = np.mean(np.argmax(probability, axis=1) == y)
    values = [-np.mean(np.log(own)), brier, auc, accuracy, *set_utilities(probability, y)]
    return [round(float(value), 6) for value in values]


def set_utilities(predicted: np.ndarray, y: np.ndarray) -> list[float]:
    """u65 and u80 of sets ``[rows classes]``, or of those with the highest expected utility by these probabilities."""
    found = []
    for kind in (65, 80):
        sets = predicted
        if predicted.dtype != bool:
            sets = np.asarray(ju.decisions.expected_utility_set(predicted, kind))
        found.append(round(float(ju.metrics.discounted_utility(sets, y, kind=kind)), 6))
    return found


def conformal_sets(own: np.ndarray, own_y: np.ndarray, predicted: np.ndarray, confidence: float = 0.9) -> np.ndarray:
    """Conformal sets (crepes) of the hinge score, calibrated on honest rows; none is empty."""
    from crepes import ConformalClassifier
    from crepes.extras import hinge

    classifier = ConformalClassifier().fit(hinge(own, np.arange(own.shape[1]), own_y))
    sets = np.asarray(classifier.predict_set(hinge(predicted), confidence=confidence)).astype(bool)
    best = np.eye(predicted.shape[1], dtype=bool)[np.argmax(predicted, axis=1)]
    return np.where(sets.any(axis=1, keepdims=True), sets, best)
