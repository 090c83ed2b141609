"""How well a number ranks: the area under the ROC curve, and accuracy or risk after uncertain rows are rejected."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Real

from jaxunc._checks import check_integer
from jaxunc._numerics import jit

from ._instances import (
    Labels,
    as_array,
    as_floats,
    check_column,
    check_columns,
    checked_labels,
    checked_scores,
    group_edges,
    mean,
    nan_unless_classes,
    one_hot,
    sort_key,
    total,
)


def auc(
    score: Real[Array | np.ndarray, "instances"] | Real[Array | np.ndarray, "instances classes"], y: Labels
) -> Float[Array, ""]:
    r"""Probability that a random positive instance is ranked above a random negative one, ties counting one half.

    .. math:: \frac{1}{n_+ n_-} \sum_{i: y_i = 1} \sum_{j: y_j = 0} \Big([s_i > s_j] + \tfrac12 [s_i = s_j]\Big)

    Parameters
    ----------
    score
        ``[instances]``: numbers that rank the instances, larger for class 1, such as `margin` of class scores. Or
        ``[instances classes]``, a column per class: the result is the mean of the areas of each class against the rest.
    y
        Class indices: 0 and 1, or in [0, classes). Or whether each prediction was right, if ``score`` is a certainty
        such as a probability: then the area says how well the certainty tells right predictions from wrong ones.

    Returns
    -------
    Array
        A scalar in [0, 1]; NaN where the area is undefined, which is when only one class occurs.

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances or, outside a trace, a score is NaN or a label no class.
    TypeError
        If the labels are neither integer nor bool.

    Notes
    -----
    Columns of classes that no instance has, or all have, are left out of the mean. For two columns the result equals
    the area of their margin only if one column mirrors the other. Under a trace NaN and labels that are no class give
    NaN.

    Computed by sorting, O(n log n), for fewer than 2³⁰ instances; a million of them in float32 cost no digits. Scores
    are compared exactly, NumPy's 64-bit numbers too; -0 and +0 tie. Gradient: 0 (a step function).

    References
    ----------
    Mann and Whitney 1947; Fawcett 2006 (more classes, each against the rest; here unweighted); Costa et al. 2013.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(auc(jnp.array([0.1, 0.4, 0.4, 0.8]), jnp.array([0, 0, 1, 1])))
    0.875
    >>> print(auc(jnp.array([[0.7, 0.3, 0.0], [0.2, 0.5, 0.3], [0.4, 0.4, 0.2]]), jnp.array([0, 1, 0])))
    1.0
    """
    score = as_array(score, name="score")
    if score.ndim == 1:
        y = checked_labels(y, score.shape[0], 2)
        return _auc(checked_scores(score, name="score"), y)
    check_columns(score, name="score")
    y = checked_labels(y, *score.shape)
    return _auc_one_vs_rest(checked_scores(score, name="score"), y)


@jit
def _auc(score, y):
    """Return `auc`, a scalar, of checked ``score [instances]`` and classes ``y``, 0 or 1."""
    return nan_unless_classes(_area(score, y == 1), y, 2)


@jit
def _auc_one_vs_rest(score, y):
    """Return `auc`, a scalar, of checked ``score [instances classes]`` and classes ``y``: the mean of areas by class.

    A class that no instance has, or all have, is left out; if no class is left, the mean, 0/0, is NaN.
    """
    n_classes = score.shape[-1]
    areas = jax.vmap(lambda column, c: _area(column, y == c))(score.T, jnp.arange(n_classes, dtype=y.dtype))
    size = jnp.sum(one_hot(y, n_classes), axis=0)
    defined = (size > 0) & (size < y.shape[0])
    mean_area = jnp.sum(jnp.where(defined, areas, 0.0)) / jnp.sum(defined).astype(areas.dtype)
    return nan_unless_classes(mean_area, y, n_classes)


def _area(score, positive):
    """Return the area under the ROC curve of ``score [instances]``; ``positive [instances]`` are bools.

    The area is NaN if no instance is positive, or all are, or a score is NaN.
    """
    dtype = as_floats(score).dtype
    keys, positive = lax.sort((sort_key(score), positive), num_keys=1)
    negatives_before, negatives_through = _count_by_ties(keys, ~positive)
    # Twice the negatives that an instance beats, a tied one counting a half: those below it, plus those not above it.
    twice_beaten = negatives_before + negatives_through
    twice_pairs = total(jnp.where(positive, twice_beaten, 0).astype(dtype))
    n_negative = negatives_through[-1]
    n_positive = score.shape[0] - n_negative
    area = twice_pairs / (2 * jnp.maximum(n_positive, 1)).astype(dtype) / jnp.maximum(n_negative, 1).astype(dtype)
    undefined = (n_positive == 0) | (n_negative == 0) | jnp.any(jnp.isnan(score))
    return jnp.where(undefined, jnp.nan, area)


class RejectionCurve(NamedTuple):
    """Accuracy of the kept instances by the share of instances that is rejected, in increasing order of the share."""

    rejected: Float[Array | np.ndarray, "points"]
    """Share of instances that is rejected."""
    accuracy: Float[Array | np.ndarray, "points"]
    """Share of right predictions among the kept instances."""


class RiskCoverageCurve(NamedTuple):
    """Risk of the kept instances by the share of instances that is kept, in increasing order of the share."""

    coverage: Float[Array | np.ndarray, "points"]
    """Share of instances that is kept."""
    risk: Float[Array | np.ndarray, "points"]
    """Share of wrong predictions among the kept instances."""


def accuracy_rejection_curve(
    certainty: Real[Array | np.ndarray, "instances"], correct: Labels, *, n_points: int | None = None
) -> RejectionCurve:
    r"""Accuracy over the instances that are kept when the least certain share is rejected.

    With ρ that share, the n instances in order of certainty, the most certain first, and H(t) the right ones among the
    first t:

    .. math:: \mathrm{acc}(\rho) = \frac{H(t)}{t}, \qquad t = (1 - \rho)\, n

    Parameters
    ----------
    certainty
        A number per prediction, larger where it is to be trusted more: its probability, or the negative of its
        uncertainty. Only the order counts.
    correct
        Whether the prediction was right: bool, or 0 and 1.
    n_points
        Number m ≥ 1 of points: t = jn/m for j = 1 … m. None: one per instance, m = n.

    Returns
    -------
    RejectionCurve
        ``rejected`` (0, 1/m, …, 1 - 1/m) and ``accuracy``, each ``[points]``.

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances, n_points < 1 or, outside a trace, a certainty is NaN or
        ``correct`` not 0 or 1.
    TypeError
        If ``correct`` is neither integer nor bool, or n_points is no integer.

    Notes
    -----
    Within a group of equal certainties H grows linearly, its expectation if they are rejected in random order. So the
    order of the instances does not matter. H is linear between whole numbers too; where t < 1 the accuracy is that of
    the most certain group. Under a trace NaN and values of ``correct`` that are not 0 or 1 make the accuracies NaN.

    Cost, exactness and gradient are those of `auc`.

    References
    ----------
    Chow 1970; Nadeem, Zucker and Hanczar 2010.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> curve = accuracy_rejection_curve(jnp.array([0.9, 0.6, 0.6, 0.5]), jnp.array([1, 1, 0, 0]))
    >>> print(curve.rejected, curve.accuracy)
    [0.   0.25 0.5  0.75] [0.5       0.6666667 0.75      1.       ]
    """
    accuracy = jnp.flip(_share_by_coverage(certainty, correct, n_points, counted=1))
    m = accuracy.shape[0]
    return RejectionCurve(jnp.asarray(np.arange(m) / m, accuracy.dtype), accuracy)


def risk_coverage_curve(
    certainty: Real[Array | np.ndarray, "instances"], correct: Labels, *, n_points: int | None = None
) -> RiskCoverageCurve:
    r"""Share of wrong predictions (risk) over the instances that are kept, by the share that is kept (coverage).

    It is 1 minus the accuracy of `accuracy_rejection_curve`, in the opposite order. With γ the coverage, the n
    instances in order of certainty, the most certain first, and M(t) the wrong ones among the first t:

    .. math:: \mathrm{risk}(\gamma) = \frac{M(t)}{t}, \qquad t = \gamma n

    Returns ``coverage`` (1/m, 2/m, …, 1) and ``risk``, each ``[points]``; small risks keep their digits. ``certainty``,
    ``correct``, ``n_points`` (m), errors and all else are as for `accuracy_rejection_curve`.

    References
    ----------
    El-Yaniv and Wiener 2010; Geifman and El-Yaniv 2017.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> curve = risk_coverage_curve(jnp.array([0.9, 0.6, 0.6, 0.5]), jnp.array([1, 1, 0, 0]), n_points=2)
    >>> print(curve.coverage, curve.risk)
    [0.5 1. ] [0.25 0.5 ]
    """
    risk = _share_by_coverage(certainty, correct, n_points, counted=0)
    m = risk.shape[0]
    return RiskCoverageCurve(jnp.asarray(np.arange(1, m + 1) / m, risk.dtype), risk)


def area_under_risk_coverage(certainty: Real[Array | np.ndarray, "instances"], correct: Labels) -> Float[Array, ""]:
    r"""Mean of the risks over all coverages (AURC); smaller is better.

    .. math:: \frac1n \sum_{k=1}^n \mathrm{risk}(k/n)

    The result is a scalar in [0, 1]: 0 if all predictions are right, 1 if all are wrong, and the share of wrong ones if
    all certainties are equal. It depends on the predictions as well as on their order: compare certainties of the same
    predictions only. ``certainty``, ``correct`` and all else are as for `risk_coverage_curve`.

    References
    ----------
    Geifman, Uziel and El-Yaniv 2019.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(area_under_risk_coverage(jnp.array([0.9, 0.8, 0.7, 0.6]), jnp.array([1, 1, 1, 0])))
    0.0625
    """
    return _mean(_share_by_coverage(certainty, correct, n_points=None, counted=0))


def _share_by_coverage(certainty, correct, n_points, counted):
    """Return the shares of hits ``[points]`` among the j n/m most certain of n instances, for j = 1 … m.

    A hit has ``correct == counted``: a right answer if ``counted`` is 1, an error if it is 0. The number m is
    ``n_points``, or n if that is None. Raises the errors of `accuracy_rejection_curve`.
    """
    certainty = as_array(certainty, name="certainty")
    check_column(certainty, name="certainty", remedy="From probabilities take the largest of each row.")
    n = certainty.shape[0]
    correct = checked_labels(correct, n, 2, name="correct")
    n_points = n if n_points is None else n_points
    check_integer("n_points", n_points, 1, "; None is a point per instance")
    # Integer arithmetic splits jn/m into last + fraction, 0 < fraction <= 1: a fraction of instance ``last`` is kept.
    steps = np.arange(1, n_points + 1, dtype=np.int64) * n
    last = -(-steps // n_points) - 1
    fraction = (steps - last * n_points) / n_points
    certainty = checked_scores(certainty, name="certainty")
    dtype = as_floats(certainty).dtype
    return _share_among_kept(certainty, correct, counted, jnp.asarray(last, jnp.int32), jnp.asarray(fraction, dtype))


@jit
def _share_among_kept(certainty, correct, counted, last, fraction):
    """Return the shares of hits ``[points]``, where ``correct == counted``, among the most certain instances.

    For each point the ``last`` most certain ones are kept, and a ``fraction`` of the next. Of a group of equal
    certainties the same share of each instance is kept.
    """
    dtype = fraction.dtype
    # The bitwise complement reverses the order of integers without overflow.
    keys, is_hit = lax.sort((~sort_key(certainty), correct == counted), num_keys=1)
    # Of the group of ties that instance ``last`` is in: hits before its start and up to its end, and its start and end.
    hits_before, hits_through = (counts[last] for counts in _count_by_ties(keys, is_hit))
    start, end = (counts[last] for counts in _count_by_ties(keys, jnp.ones_like(is_hit)))
    # Within the group hits are spread evenly: its rate of hits times the number of its instances that are kept.
    rate = (hits_through - hits_before).astype(dtype) / (end - start).astype(dtype)
    kept_of_group = (last - start).astype(dtype) + fraction
    # Numerator and denominator are rounded alike, so the share is exactly 1 where all are hits, and never larger.
    share = (hits_before.astype(dtype) + kept_of_group * rate) / (start.astype(dtype) + kept_of_group)
    share = jnp.where(jnp.any(jnp.isnan(certainty)), jnp.nan, share)
    return nan_unless_classes(share, correct, 2)


def _count_by_ties(keys, is_counted):
    """Return for each sorted key the numbers of counted keys before its group of equal keys, and up to the group's end.

    ``is_counted`` holds for each of ``keys`` whether it is counted.
    """
    is_first, is_last = group_edges(keys)
    count = jnp.cumsum(is_counted, dtype=jnp.int32)
    # Both counts rise along the order, so running extremes spread them from a group's edges to all of its members.
    before = lax.cummax(jnp.where(is_first, count - is_counted.astype(jnp.int32), 0))
    through = lax.cummin(jnp.where(is_last, count, keys.shape[0]), reverse=True)
    return before, through


_mean = jit(mean)
