"""Reliability by one transduction: the distribution of the predicted class's tree against that of the tree without."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from jaxunc._checks import check_class_axis, check_counts

from ._certainty import label_average, transductive_leaf_counts


class Reliability(NamedTuple):
    """Predictions and how far each is to be trusted."""

    predicted: Int[np.ndarray, " instances"]
    """The position of the predicted class among the sorted labels."""
    reliability: Float[np.ndarray, " instances"]
    """In (0, 1]; only their order has a meaning."""
    probability: Float[np.ndarray, "instances classes"]
    """Laplace's estimate of the leaf without the instance."""


class Threshold(NamedTuple):
    """Where reliable predictions begin."""

    value: float
    """Predictions are reliable if theirs is larger; -inf if no threshold tells anything."""
    gain: float
    """The information about "correct" that it gives, in bits."""


def kukar_kononenko(
    X_train, y_train, X, *, nominal=None, candidates: str = "boundary", min_leaf: int = 2
) -> Reliability:
    """Predict by a greedy tree, and compare its leaf with that of the tree which has x with the predicted label.

    Parameters
    ----------
    X_train, y_train, X, nominal, candidates, min_leaf
        As for `jaxunc.transduction.transductive_certainty`.

    Returns
    -------
    Reliability
        Predictions, reliabilities :math:`2^{-J}` (`j_divergence`), and the tree's probabilities.

    Raises
    ------
    TypeError, ValueError
        As `jaxunc.transduction.transductive_certainty`.

    References
    ----------
    Kukar and Kononenko 2002; as compared in Costa, Verwer and Blockeel 2013, section 2.2, who do not print the
    divergence.

    Examples
    --------
    >>> import jaxunc as ju
    >>> found = ju.transduction.kukar_kononenko([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], [[0.5], [1.5]])
    >>> print(found.predicted, found.reliability.round(3))
    [0 0] [0.986 0.986]
    """
    settings = {"nominal": nominal, "candidates": candidates, "min_leaf": min_leaf}
    return reliability_of(transductive_leaf_counts(X_train, y_train, X, **settings, inductive=True))


def reliability_of(counts: Num[np.ndarray, "instances labels classes"]) -> Reliability:
    """What `kukar_kononenko` makes of leaf counts with ``inductive=True``, those of leave-one-out for instance.

    Raises
    ------
    ValueError
        If the labels are not one more than the classes, or counts are negative.
    """
    check_class_axis(counts)
    check_counts(counts)
    counts = np.asarray(counts)
    if counts.ndim != 3 or counts.shape[1] != counts.shape[2] + 1:
        raise ValueError(
            f"counts has shape {counts.shape}; expected [instances, classes + 1, classes]: pass inductive=True where "
            "leaves are counted."
        )
    inductive = label_average(counts[:, -1:])
    predicted = inductive.argmax(axis=1)
    transductive = label_average(counts[np.arange(len(counts)), predicted][:, None])
    return Reliability(predicted, 2.0 ** -j_divergence(inductive, transductive), inductive)


def j_divergence(p: Float[np.ndarray, "... classes"], q: Float[np.ndarray, "... classes"]):
    r"""The symmetric Kullback-Leibler divergence in bits, :math:`J=\sum_c (p_c-q_c)\log_2(p_c/q_c)`.

    An array ``[...]``: infinite where a class has probability 0 in one distribution alone; 0 where the two are equal.

    Examples
    --------
    >>> import numpy as np
    >>> float(j_divergence(np.array([0.5, 0.5]), np.array([0.25, 0.75])).round(4))
    0.3962
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = (p - q) * (np.log2(p) - np.log2(q))
    return np.where(p == q, 0.0, terms).sum(axis=-1)


def reliability_threshold(
    reliability: Float[np.ndarray, " instances"], correct: Bool[np.ndarray, " instances"]
) -> Threshold:
    """The threshold that says most about which predictions are correct: the largest information gain.

    Parameters
    ----------
    reliability
        Of predictions whose outcome is known, for instance by leaving out each training instance.
    correct
        Whether each was right.

    Returns
    -------
    Threshold
        Halfway between two reliabilities; the lowest of several with the same gain.

    Raises
    ------
    ValueError
        If there are none, lengths differ, or a reliability is NaN.

    References
    ----------
    Kukar and Kononenko 2002: the supervised procedure.

    Examples
    --------
    >>> import numpy as np
    >>> reliability_threshold(np.array([0.2, 0.3, 0.7, 0.9]), np.array([False, False, True, True])).value
    0.5
    """
    reliability, correct = np.asarray(reliability, float), np.asarray(correct, bool)
    if reliability.ndim != 1 or reliability.shape != correct.shape or not len(correct):
        raise ValueError(
            f"reliability has shape {reliability.shape} and correct {correct.shape}; pass one of each per prediction."
        )
    if np.isnan(reliability).any():
        raise ValueError("reliability holds NaN; leave such predictions out.")
    order = np.argsort(reliability, kind="stable")
    ascending, n = reliability[order], len(order)
    right = np.cumsum(correct[order])
    cut = np.flatnonzero(ascending[1:] > ascending[:-1])
    if not len(cut):
        return Threshold(-np.inf, 0.0)
    size = cut + 1
    low, high = size * _entropy(right[cut] / size), (n - size) * _entropy((right[-1] - right[cut]) / (n - size))
    gain = _entropy(right[-1] / n) - (low + high) / n
    best = int(np.argmax(gain.round(12)))
    if gain[best] < 1e-12:
        return Threshold(-np.inf, 0.0)
    return Threshold(float(ascending[cut[best] : cut[best] + 2].mean()), float(gain[best]))


def _entropy(p):
    """Of a coin, in bits."""
    p = np.asarray(p, float)
    q = 1 - p
    return -p * np.log2(np.where(p > 0, p, 1)) - q * np.log2(np.where(q > 0, q, 1))
