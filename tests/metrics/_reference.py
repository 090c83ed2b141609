"""The metrics once more, in float64 or whole numbers, straight from their definitions."""

import math
from fractions import Fraction

import numpy as np


def auc(score, y) -> float:
    """Pairs counted as whole numbers (twice, so that a tie counts one)."""
    score, y = np.asarray(score), np.asarray(y)
    above, below = score[y == 1], np.sort(score[y == 0])
    if not len(above) or not len(below):
        return math.nan
    sides = (np.searchsorted(below, above, side=side).astype(object).sum() for side in ("left", "right"))
    return float(Fraction(int(sum(sides)), 2 * len(above) * len(below)))


def auc_one_vs_rest(scores, y) -> float:
    """The mean over the classes for which there is an area."""
    areas = [auc(scores[:, c], y == c) for c in range(scores.shape[1])]
    areas = [a for a in areas if not math.isnan(a)]
    return math.fsum(areas) / len(areas) if areas else math.nan


def brier_score(probs, y) -> float:
    """Sum over classes, mean over instances, exactly added."""
    errors = np.asarray(probs, np.float64) - np.eye(probs.shape[1])[y]
    return math.fsum((errors**2).ravel()) / len(y)


def log_loss(probs, y) -> float:
    """Exactly added."""
    return -math.fsum(np.log(np.asarray(probs, np.float64)[np.arange(len(y)), y])) / len(y)


def calibration_error(probs, y, n_bins: int, norm: str, strategy: str) -> float:
    """Bin by bin; each confidence is compared with every edge."""
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == y
    n = len(y)
    if strategy == "uniform":
        edges = [probs.dtype.type(b / n_bins) for b in range(1, n_bins)]
    else:
        edges = [np.sort(confidence)[math.ceil(Fraction(b * n, n_bins)) - 1] for b in range(1, n_bins)]
    bins = np.array([sum(c > edge for edge in edges) for c in confidence])
    inside = [bins == b for b in range(n_bins) if np.any(bins == b)]
    gaps = np.array([abs(correct[i].mean() - confidence[i].astype(np.float64).mean()) for i in inside])
    shares = np.array([i.mean() for i in inside])
    return float({"l1": shares @ gaps, "l2": math.sqrt(shares @ gaps**2), "max": gaps.max()}[norm])
