"""Area under the ROC curve: how well a number ranks."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Real

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
    nan_unless_classes,
    one_hot,
    sort_key,
    total,
)


def auc(
    score: Real[Array | np.ndarray, "instances"] | Real[Array | np.ndarray, "instances classes"],
    y: Labels,
) -> Float[Array, ""]:
    r"""Probability that a random positive instance is ranked above a random negative one, ties counting one half.

    .. math:: \frac{1}{n_+ n_-} \sum_{i: y_i = 1} \sum_{j: y_j = 0} \Big([s_i > s_j] + \tfrac12 [s_i = s_j]\Big)

    Parameters
    ----------
    score
        ``[instances]``: numbers that rank the instances, larger for class 1, such as `margin` of class scores. Or
        ``[instances classes]``: the mean, over the classes, of each class's column against the rest.
    y
        Class indices: 0 and 1, or in [0, classes).

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
    More than one column: classes that no instance has, or all have, are left out of the mean. Two columns are two
    classes against the rest; that equals the area of their margin only if one column mirrors the other. Under a trace,
    NaN and labels that are no class give NaN.

    Computed by sorting, O(n log n). Pairs are counted by instance as integers and added in two-float arithmetic, so a
    million instances in float32 cost no digits. Scores are compared exactly: integers as integers, subnormals too,
    and NumPy's 64-bit numbers as they are; -0 and +0 tie. Less than 2³⁰ instances. Gradient: 0 (a step function).

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


def auc_reliability(
    reliability: Real[Array | np.ndarray, "instances"],
    correct: Labels,
) -> Float[Array, ""]:
    """Area under the ROC curve of a reliability: how well it tells right predictions from wrong ones.

    This is `auc` with "correct" as the positive class.

    Parameters
    ----------
    reliability
        A number per prediction, larger where it is to be trusted more: its probability, or one less its uncertainty.
    correct
        Whether the prediction was right: bool, or 0 and 1.

    Returns
    -------
    Array
        A scalar in [0, 1]; 1/2 for a reliability that says nothing; NaN if all predictions are right, or all wrong.

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances or, outside a trace, a reliability is NaN or ``correct`` not
        0 or 1.
    TypeError
        If ``correct`` is neither integer nor bool.

    Notes
    -----
    As `auc`: exact, O(n log n), gradient 0.

    References
    ----------
    Costa et al. 2013, "AUC reliability".

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> probs, y = jnp.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]]), jnp.array([0, 0, 1])
    >>> print(auc_reliability(probs.max(axis=-1), probs.argmax(axis=-1) == y))
    1.0
    """
    reliability = as_array(reliability, name="reliability")
    check_column(reliability, name="reliability", remedy="From probabilities take the largest of each row.")
    correct = checked_labels(correct, reliability.shape[0], 2, name="correct")
    return _auc(checked_scores(reliability, name="reliability"), correct)


@jit
def _auc(score, y):
    return nan_unless_classes(_area(score, y == 1), y, 2)


@jit
def _auc_one_vs_rest(score, y):
    n_classes = score.shape[-1]
    areas = jax.vmap(lambda column, c: _area(column, y == c))(score.T, jnp.arange(n_classes, dtype=y.dtype))
    size = jnp.sum(one_hot(y, n_classes), axis=0)
    defined = (size > 0) & (size < y.shape[0])
    mean = jnp.sum(jnp.where(defined, areas, 0.0)) / jnp.sum(defined).astype(areas.dtype)
    return nan_unless_classes(mean, y, n_classes)


def _area(score, positive):
    """The area for one score ``[instances]``; NaN if a class is missing or a score is NaN."""
    n, dtype = score.shape[0], as_floats(score).dtype
    keys, positive = lax.sort((sort_key(score), positive), num_keys=1)
    first, last = group_edges(keys)
    # Negatives before and up to the end of each group of equal scores, handed to the whole group.
    counted = jnp.cumsum(~positive, dtype=jnp.int32)
    before = jnp.where(first, counted - (~positive).astype(jnp.int32), 0)
    through = jnp.where(last, counted, n)
    # Running extremes hand the counts at a group's edges to all of its members: both rise along the order.
    twice_beaten = lax.cummax(before) + lax.cummin(through, reverse=True)
    # Doubled, so that ties, which count one half, stay integers.
    twice_pairs = total(jnp.where(positive, twice_beaten, 0).astype(dtype))
    n_negative = counted[-1]
    n_positive = n - n_negative
    area = twice_pairs / (2 * jnp.maximum(n_positive, 1)).astype(dtype) / jnp.maximum(n_negative, 1).astype(dtype)
    undefined = (n_positive == 0) | (n_negative == 0) | jnp.any(jnp.isnan(score))
    return jnp.where(undefined, jnp.nan, area)
