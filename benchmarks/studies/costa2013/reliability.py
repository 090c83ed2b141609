"""Kukar and Kononenko's reliability, which the paper compares with, by one transduction.

The tree with the instance under the class that is predicted for it is compared with the tree without the instance. The
paper does not print the divergence of the two leaves. References: Kukar and Kononenko 2002; Costa, Verwer and Blockeel
2013, section 2.2.
"""

import enum
import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from jaxunc.transduction import label_average

LEAST_GAIN = 1e-12
"""Information, in bits, below which a threshold says nothing."""


class Reliability(NamedTuple):
    """Predictions and how far each is to be trusted."""

    predicted: Int[np.ndarray, " instances"]
    """Position of the predicted class among the sorted labels."""
    reliability: Float[np.ndarray, " instances"]
    """Reliability of the prediction, in (0, 1]; only the order has a meaning."""
    probability: Float[np.ndarray, "instances classes"]
    """Laplace's estimate from the leaf without the instance."""


class ThresholdStatus(enum.IntEnum):
    """Outcome of the search for a threshold."""

    FOUND = 0
    """More of the predictions above it are right than of those below."""
    TELLS_NOTHING = 1
    """No threshold gains anything: all predictions are right, or none is, or all reliabilities are the same."""
    INVERTED = 2
    """The best threshold has fewer right predictions above it than below: reliability points the wrong
    way."""


class Threshold(NamedTuple):
    """Threshold above which predictions are reliable."""

    value: float
    """Threshold: predictions with a larger reliability are reliable. ∞ calls none reliable, -∞ all."""
    gain: float
    """Information about "correct" that the threshold gives, in bits; 0 unless one was found."""
    status: ThresholdStatus


def reliability_of(counts: Num[np.ndarray, "instances labels classes"]) -> Reliability:
    """Reliabilities 2^-J from leaf counts made with ``inductive=True``, whose last label stands for no label."""
    # The last label stands for none: the leaf of x in the tree that has not seen it.
    inductive = label_average(counts[:, -1:])
    predicted = inductive.argmax(axis=1)
    transductive = label_average(counts[np.arange(len(counts)), predicted][:, None])
    return Reliability(predicted, 2.0 ** -j_divergence(inductive, transductive), inductive)


def j_divergence(p: Float[np.ndarray, "... classes"], q: Float[np.ndarray, "... classes"]) -> np.ndarray | np.float64:
    r"""The symmetric Kullback-Leibler divergence in bits, :math:`J=\sum_c (p_c-q_c)\log_2(p_c/q_c)`.

    An array ``[...]``: infinite where a class has probability 0 in one distribution alone; 0 where the two are equal.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        # 0 · (log 0 - log 0) is NaN; where both are equal the term is 0.
        terms = (p - q) * (np.log2(p) - np.log2(q))
    return np.where(p == q, 0.0, terms).sum(axis=-1)


def reliability_threshold(
    reliability: Float[np.ndarray, " instances"], correct: Bool[np.ndarray, " instances"]
) -> Threshold:
    """The threshold that says most about which predictions are correct: the largest information gain.

    ``reliability`` is of predictions whose outcome is known, by `reliability_of` for instance. The
    threshold lies halfway between two reliabilities; of several with the same gain it is the lowest that has more right
    predictions above than below. INVERTED (with a warning): the value is ∞, which calls none reliable. TELLS_NOTHING:
    -∞, which calls all reliable, or ∞ if none was right.

    Information gain has no direction. A reliability may order predictions by chance or the wrong way, as happens with
    few wrong predictions. Then the largest gain may be that of a threshold above which fewer are right.

    Reference: Kukar and Kononenko 2002, the supervised procedure.
    """
    nothing = Threshold(-np.inf if correct.any() else np.inf, 0.0, ThresholdStatus.TELLS_NOTHING)
    order = np.argsort(reliability, kind="stable")
    ascending, n = reliability[order], len(order)
    right = np.cumsum(correct[order])
    cut = np.flatnonzero(ascending[1:] > ascending[:-1])
    if not len(cut):
        return nothing
    size = cut + 1
    below, above = right[cut] / size, (right[-1] - right[cut]) / (n - size)
    gain = _entropy(right[-1] / n) - (size * _entropy(below) + (n - size) * _entropy(above)) / n
    if gain.max() < LEAST_GAIN:
        return nothing
    # Gains that are equal but for rounding tie, so that the lowest threshold wins on every machine.
    gain = gain.round(12)
    best = np.flatnonzero(gain == gain.max())
    upright = best[above[best] > below[best]]
    if not len(upright):
        at = best[0]
        warnings.warn(
            f"these reliabilities point the wrong way: the threshold that tells most, {_between(ascending, cut[at])}, "
            f"has {above[at]:.0%} right predictions above it and {below[at]:.0%} below. The value is inf, which calls "
            "none reliable. Take more predictions whose outcome is known, or another reliability.",
            stacklevel=2,
        )
        return Threshold(np.inf, 0.0, ThresholdStatus.INVERTED)
    at = upright[0]
    return Threshold(_between(ascending, cut[at]), float(gain[at]), ThresholdStatus.FOUND)


def _between(ascending, place) -> float:
    return float(ascending[place : place + 2].mean())


def _entropy(p):
    p = np.asarray(p, float)
    q = 1 - p
    return -p * np.log2(np.where(p > 0, p, 1)) - q * np.log2(np.where(q > 0, q, 1))
