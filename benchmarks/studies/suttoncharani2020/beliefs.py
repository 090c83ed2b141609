"""Belief functions of leaves, and bounds of metrics over intervals, which the paper's study alone reads: in float64.

Masses lie on the sets ∅, {0}, {1}, Ω, in this order along the last axis, as `jaxunc.belief` has them.
"""

import numpy as np

from jaxunc.metrics import auc
from jaxunc.scorers import Interval
from jaxunc.smoothing import BetaPrior


def predictive_mass(counts: np.ndarray, prior: BetaPrior) -> np.ndarray:
    """The predictive belief function of leaves ``[leaves 2]``: what smoothing would move is mass of ignorance.

    Equation 3, clipped as the published code clips the interval. A leaf without instances has m(Ω) = 1.
    """
    alpha, n = np.array([prior.beta, prior.alpha], float), counts.sum(axis=-1, keepdims=True)
    weight = alpha.sum()
    share = counts / np.maximum(n, 1)
    expected = alpha / weight if weight > 0 else np.full(2, 0.5)
    moved = weight / np.maximum(n + weight, 1e-300) * np.abs(expected - share)
    # Not 1 less the masses: large leaves lose less than the last digit of 1.
    lost = np.where(n > 0, np.minimum(moved / 2, share), 0.5)
    rest = lost.sum(axis=-1, keepdims=True)
    return np.concatenate([np.zeros_like(rest), np.where(n > 0, share - lost, 0.0), rest], axis=-1)


def jousselme_distance(masses: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Jousselme's distance of mass functions in [0, 1], where sets that overlap are near each other.

    With δ = m - m', a sum of squares, so that nothing cancels: half of δ_∅² + Σ_c (δ_c + δ_Ω/C)² + (1 - 1/C) δ_Ω².
    For two classes and m(∅) = 0 the square of the distance to the class that came is (BetP(1) - y)² + m(Ω)²/4.
    Reference: Jousselme, Grenier and Bossé 2001.
    """
    apart = np.asarray(masses, float) - other
    n_classes = apart.shape[-1] - 2
    empty, classes, omega = apart[..., 0], apart[..., 1:-1] + apart[..., -1:] / n_classes, apart[..., -1]
    return np.sqrt((empty**2 + np.sum(classes**2, axis=-1) + (1 - 1 / n_classes) * omega**2) / 2)


def interval_log_loss(interval: Interval, y: np.ndarray, *, clip: float) -> Interval:
    """The least and the greatest log loss of probabilities inside the intervals, clipped to [clip, 1 - clip]."""
    good, bad = (np.where(y == 1, *ends) for ends in ((interval.upper, interval.lower), interval))

    def of(p):
        with np.errstate(divide="ignore"):
            loss = -np.where(y == 1, np.log(p), np.log1p(-p))
        return np.clip(loss, -np.log1p(-clip), -np.log(clip)).mean()

    return Interval(of(good), of(bad))


def interval_auc(interval: Interval, y: np.ndarray, *, method: str = "exact") -> Interval:
    """The least and the greatest area under the curve of probabilities inside the intervals; two sorts.

    ``"published"``: what the paper's code reports, the areas of all lower and of all upper ends, in order. Those bound
    nothing: probabilities inside the intervals can have areas beyond both.
    """
    lower, upper = interval
    if method == "published":
        areas = auc(lower, y), auc(upper, y)
        return Interval(min(areas), max(areas))
    # Worst: positives at their lower ends, negatives at their upper ones; best: the other way round.
    return Interval(auc(np.where(y == 1, lower, upper), y), auc(np.where(y == 1, upper, lower), y))
