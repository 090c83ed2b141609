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


def _bins(confidence, n_bins: int, strategy: str) -> np.ndarray:
    """The bin of each confidence: it is compared with every edge."""
    if strategy == "uniform":
        edges = [confidence.dtype.type(b / n_bins) for b in range(1, n_bins)]
    else:
        ranks = [math.ceil(Fraction(b * len(confidence), n_bins)) for b in range(1, n_bins)]
        edges = np.sort(confidence)[np.array(ranks, int) - 1]
    return np.array([sum(c > edge for edge in edges) for c in confidence])


def calibration_error(probs, y, n_bins: int, norm: str, strategy: str) -> float:
    """Bin by bin."""
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == y
    bins = _bins(confidence, n_bins, strategy)
    inside = [bins == b for b in range(n_bins) if np.any(bins == b)]
    gaps = np.array([abs(correct[i].mean() - confidence[i].astype(np.float64).mean()) for i in inside])
    shares = np.array([i.mean() for i in inside])
    return float({"l1": shares @ gaps, "l2": math.sqrt(shares @ gaps**2), "max": gaps.max()}[norm])


def reliability_curve(probs, y, n_bins: int, strategy: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bin by bin."""
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == y
    bins = _bins(confidence, n_bins, strategy)
    inside = [np.flatnonzero(bins == b) for b in range(n_bins)]
    means = [[of[i].mean(dtype=np.float64) if len(i) else math.nan for i in inside] for of in (confidence, correct)]
    return np.array(means[0]), np.array(means[1]), np.array([len(i) for i in inside])


def risk_coverage(certainty, correct, n_points: int) -> np.ndarray:
    """Hits in expectation, group by group of equal certainties, as fractions."""
    certainty, correct, n = np.asarray(certainty), np.asarray(correct), len(certainty)
    risks = []
    for j in range(1, n_points + 1):
        kept = left = Fraction(j * n, n_points)
        wrong = Fraction(0)
        for value in np.unique(certainty)[::-1]:
            group = certainty == value
            taken = min(left, Fraction(int(group.sum())))
            wrong += taken * Fraction(int((group & (correct == 0)).sum()), int(group.sum()))
            left -= taken
        risks.append(float(wrong / kept))
    return np.array(risks)


def interval_score(ends, y, coverage) -> float:
    """Width, and how far values miss an interval, in units of half of what it may miss."""
    found = []
    for (low, high), value in zip(ends, y, strict=True):
        miss = low - value if value < low else value - high if value > high else 0.0
        found.append(high - low + 2 / (1 - coverage) * miss)
    return np.mean(found)


def pinball_loss(predicted, y, levels) -> float:
    """What lies above a quantile costs its level, what lies below it the rest."""
    lost = lambda apart, level: level * apart if apart >= 0 else (level - 1) * apart
    rows = zip(predicted, y, strict=True)
    return np.mean([lost(value - q, level) for row, value in rows for q, level in zip(row, levels, strict=True)])


def crps(values, y, probs) -> float:
    """The mean distance of a draw from the value, less half that of two draws."""
    found = []
    for v, value, p in zip(values, y, probs, strict=True):
        spread = sum(a * b * abs(s - t) for a, s in zip(p, v, strict=True) for b, t in zip(p, v, strict=True))
        found.append(sum(a * abs(s - value) for a, s in zip(p, v, strict=True)) - spread / 2)
    return np.mean(found)
