"""Scores of sets of classes and of intervals of a probability: how often they hold the truth, and how wide they are."""

from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, Integer

from jaxunc._checks import check_bool, check_one_of, is_concrete
from jaxunc._numerics import jit
from jaxunc.scorers import Interval

from ._instances import (
    Labels,
    as_array,
    as_floats,
    check_columns,
    checked_labels,
    group_edges,
    mean,
    nan_unless_classes,
    one_hot,
    total,
)

Leaf = Integer[Array | np.ndarray, "instances"]


def interval_brier(interval: Interval, y: Labels, *, leaf: Leaf | None = None) -> Interval:
    r"""Return the least and the greatest Brier score that probabilities inside the intervals can have.

    .. math:: \Big[\min_{p \in [l, u]}, \max_{p \in [l, u]}\Big] \; \frac1n \sum_i (p_i - y_i)^2

    Parameters
    ----------
    interval
        Intervals of the probability of class 1 ``[instances]``, or of each of two classes ``[instances 2]``.
    y
        Class indices ``[instances]``, 0 or 1.
    leaf
        The leaf of each instance, if instances of one leaf must share one probability. Default: each has its own.

    Returns
    -------
    Interval
        Two scalars in [0, 1], in the single-class form of the paper: half of `brier_score`, which sums over classes.

    Raises
    ------
    ValueError
        If shapes do not fit or there are no instances. Outside a trace also if an interval holds NaN, has its lower end
        above its upper, an end outside [0, 1] or (two columns) no distribution. Also if a label is not a class, or
        instances of one leaf have different intervals.
    TypeError
        If the labels are neither integer nor bool.

    Notes
    -----
    The square is least at the end of the interval that is nearer to y, and greatest at the other; the paper searches a
    grid. With ``leaf``, the loss of a leaf with k instances of class 1 and m of class 0 is convex: least at k/(k + m)
    clipped to the interval, greatest at one of the ends. Without ``leaf`` the result is at least as wide.

    Gradient: that of the squares at the chosen ends, 2(p - y)/n. Under a trace labels that are not classes give NaN,
    and so do different intervals in one leaf.

    References
    ----------
    Sutton-Charani 2020, section 5.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> interval = Interval(jnp.array([0.5, 0.0]), jnp.array([1.0, 0.5]))
    >>> print(*interval_brier(interval, jnp.array([1, 0])))
    0.0 0.25
    >>> print(*interval_brier(Interval(jnp.zeros(2), jnp.ones(2)), jnp.array([1, 0]), leaf=jnp.array([7, 7])))
    0.25 0.5
    """
    interval = _checked_interval(interval)
    y = checked_labels(y, interval.lower.shape[0], 2)
    return _each_its_own(interval, y) if leaf is None else _by_leaf(interval, y, _checked_leaf(leaf, interval))


@jit
def _each_its_own(interval: Interval, y) -> Interval:
    """Return the least and the greatest mean squared error, where each instance has a probability of its own.

    ``interval`` has the ends ``[instances]`` for class 1, and ``y [instances]`` is 0 or 1.
    """

    def loss(p):
        """Return the mean squared error of probabilities ``p [instances]`` of class 1."""
        return nan_unless_classes(mean(jnp.where(y == 1, (1 - p) ** 2, p**2)), y, 2)

    lower, upper = interval
    least = loss(jnp.where(y == 1, upper, lower))
    greatest = loss(jnp.where(y == 1, lower, upper))
    return Interval(least, greatest)


@jit
def _by_leaf(interval: Interval, y, leaf) -> Interval:
    """Return the least and the greatest mean squared error, where all instances of a leaf have one probability.

    ``interval`` has the ends for class 1 ``[instances]``; where they differ within a leaf, the result is NaN. ``y`` is
    0 or 1 and ``leaf`` the number of the leaf, both ``[instances]``.
    """
    n = y.shape[0]
    # Instances are sorted by leaf, and leaves numbered from 0. A trace does not know the number of leaves, so arrays
    # over leaves have length n: with fewer leaves the last entries belong to none, and add 0 to the loss.
    order = jnp.argsort(leaf)
    is_first, _ = group_edges(leaf[order])
    leaf_number = jnp.cumsum(is_first, dtype=jnp.int32) - 1  # of each sorted instance
    sorted_lower, sorted_upper = (end[order] for end in interval)
    dtype = sorted_lower.dtype
    n_ones = jax.ops.segment_sum((y[order] == 1).astype(dtype), leaf_number, n, indices_are_sorted=True)
    n_zeros = jax.ops.segment_sum((y[order] == 0).astype(dtype), leaf_number, n, indices_are_sorted=True)
    has_rows = n_ones + n_zeros > 0
    lower = jnp.zeros(n, dtype).at[leaf_number].set(sorted_lower, indices_are_sorted=True)
    upper = jnp.zeros(n, sorted_upper.dtype).at[leaf_number].set(sorted_upper, indices_are_sorted=True)
    is_shared = jnp.all((lower[leaf_number] == sorted_lower) & (upper[leaf_number] == sorted_upper))
    share_of_ones = n_ones / jnp.where(has_rows, n_ones + n_zeros, 1.0)

    def loss(p):
        """Return the summed squared error in each leaf at probabilities ``p`` of class 1, one for each leaf."""
        return n_ones * (1 - p) ** 2 + n_zeros * p**2

    def mean_loss(loss_by_leaf):
        value = jnp.where(is_shared, total(loss_by_leaf) / n, jnp.nan)
        return nan_unless_classes(value, y, 2)

    # The loss of a leaf is convex in p, with its minimum at the share of ones: it is greatest at one of the ends.
    least = loss(jnp.clip(share_of_ones, lower, upper))
    greatest = jnp.maximum(loss(lower), loss(upper))
    return Interval(mean_loss(least), mean_loss(greatest))


def _checked_interval(interval: Interval) -> Interval:
    """Return the interval of class 1 ``[instances]``, checked to have its ends in order and in [0, 1].

    Of ends ``[instances 2]``, a column for each class, the interval is what both columns allow. Raises a TypeError
    unless ``interval`` has ends, a ValueError if their shapes or values do not fit.
    """
    if not (hasattr(interval, "lower") and hasattr(interval, "upper")):
        raise TypeError(
            f"interval is a {type(interval).__name__}; pass jaxunc.scorers.Interval(lower, upper), such as "
            "smoothing.correction_interval gives."
        )
    lower = as_array(interval.lower, name="interval.lower")
    upper = as_array(interval.upper, name="interval.upper")
    if lower.shape != upper.shape or lower.ndim not in (1, 2) or (lower.ndim == 2 and lower.shape[1] != 2):
        raise ValueError(
            f"interval has ends of shapes {lower.shape} and {upper.shape}; expected [instances], the probability of "
            "class 1, or [instances 2], one for each of two classes."
        )
    if is_concrete(lower, upper):
        low, high = np.asarray(lower), np.asarray(upper)
        if np.isnan(low).any() or np.isnan(high).any():
            raise ValueError("interval holds NaN; every instance needs one. Leave those rows out first.")
        if (low > high).any():
            row = int(np.argwhere(low > high)[0, 0])
            raise ValueError(
                f"interval {row} has its lower end {low[row]} above its upper end {high[row]}; swap them, or see how "
                "they were made."
            )
        if low.min(initial=0) < 0 or high.max(initial=1) > 1:  # `initial`: without instances the labels are refused
            raise ValueError(
                f"interval ends reach from {low.min():.6g} to {high.max():.6g}; probabilities lie in [0, 1]."
            )
    if lower.ndim == 2:
        lower, upper = _of_class_one(lower, upper)
    return Interval(as_floats(lower), as_floats(upper))


def _of_class_one(lower, upper):
    """Return the ends [max(l₁, 1-u₀), min(u₁, 1-l₀)] for class 1 that ends of both classes, ``[instances 2]``, allow.

    Raises a ValueError if some row allows none.
    """
    xp = np if isinstance(lower, np.ndarray) and isinstance(upper, np.ndarray) else jnp
    dtypes = [end.dtype for end in (lower, upper) if jnp.issubdtype(end.dtype, jnp.floating)]
    rounding = 2 * max((float(jnp.finfo(dtype).eps) for dtype in dtypes), default=0.0)
    lower_of_one, upper_of_one = lower[:, 1], upper[:, 1]
    lower_from_zero, upper_from_zero = 1 - upper[:, 0], 1 - lower[:, 0]
    # An end moves only by more than rounding: else equal ends would cease to be equal, since 1 - (1 - p) is not p.
    least = xp.where(lower_from_zero > lower_of_one + rounding, lower_from_zero, lower_of_one)
    greatest = xp.where(upper_from_zero < upper_of_one - rounding, upper_from_zero, upper_of_one)
    if is_concrete(least, greatest):
        gap = np.asarray(least - greatest)
        if gap.max(initial=0) > 1e-6:  # smaller gaps are rounding in float32, and are closed below
            row = int(np.argmax(gap))
            raise ValueError(
                f"interval {row} holds no distribution: class 0 in [{lower[row, 0]}, {upper[row, 0]}] and class 1 in "
                f"[{lower[row, 1]}, {upper[row, 1]}] cannot add to 1."
            )
    return least, xp.maximum(least, greatest)


def _checked_leaf(leaf, interval: Interval):
    """Return ``leaf [instances]`` with leaves numbered from 0, or as it is if it is traced.

    Raises a ValueError unless it holds integers, or if instances of one leaf have different intervals.
    """
    leaf = as_array(leaf, name="leaf")
    n = interval.lower.shape[0]
    if leaf.shape != (n,) or not jnp.issubdtype(leaf.dtype, jnp.integer):
        raise ValueError(
            f"leaf has shape {leaf.shape} and dtype {leaf.dtype}; expected integers of shape ({n},), the leaf of each "
            "instance, such as a column of jaxunc.leaf_index."
        )
    if not is_concrete(leaf):
        return jnp.asarray(leaf)
    # Leaves are numbered anew, since JAX would cut 64-bit indices to 32 bits, and different leaves could become one.
    _, first_row, leaf_number = np.unique(np.asarray(leaf), return_index=True, return_inverse=True)
    if is_concrete(interval):
        for end in map(np.asarray, interval):
            if (end != end[first_row][leaf_number]).any():
                raise ValueError(
                    "instances of one leaf have different intervals; a leaf has one. Leave leaf out to choose each "
                    "instance's probability by itself."
                )
    return jnp.asarray(leaf_number, jnp.int32)


Sets: TypeAlias = Bool[Array | np.ndarray, "instances classes"]
"""Set of classes predicted for each instance, as bools: whether each class is in it."""

_COEFFICIENTS = {50: (1.0, 0.0), 65: (1.6, 0.6), 80: (2.2, 1.2)}
"""{kind of `discounted_utility`: a and b of the utility a x - b x²}."""


def determinacy(membership: Sets, y: Labels | None = None) -> Float[Array, ""]:
    r"""Share of instances for which a single class is predicted.

    With :math:`Y_i` the set of instance i:

    .. math:: \frac1n \sum_i [|Y_i| = 1]

    Parameters
    ----------
    membership
        Bools ``[instances classes]``: whether each class is in the set.
    y
        Ignored; it is a parameter so that all metrics can be called alike.

    Returns
    -------
    Array
        A scalar in [0, 1].

    Raises
    ------
    ValueError
        If the shape does not fit, there are no instances or, outside a trace, a set is empty.
    TypeError
        If the sets are no bools.

    Notes
    -----
    Under a trace empty sets give NaN. Gradient: none. `single_set_accuracy` and `discounted_utility` tell whether the
    predictions are right.

    References
    ----------
    Corani and Zaffalon 2008, section 5 ("determinacy").

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(determinacy(jnp.array([[True, False], [True, True], [False, True], [False, True]])))
    0.75
    """
    return _determinacy(_checked_sets(membership))


@jit
def _determinacy(membership):
    """Return `determinacy`, a scalar, of checked sets."""
    sizes = _sizes_of(membership)
    return _nan_unless_sets(_ratio(sizes == 1, jnp.ones_like(sizes, bool)), sizes)


def single_set_accuracy(membership: Sets, y: Labels) -> Float[Array, ""]:
    r"""Accuracy on the instances for which a single class is predicted.

    With :math:`Y_i` the set of instance i, and :math:`y_i` its class:

    .. math:: \frac{\sum_i [Y_i = \{y_i\}]}{\sum_i [|Y_i| = 1]}

    Parameters
    ----------
    membership
        Bools ``[instances classes]``: whether each class is in the set.
    y
        Class indices ``[instances]`` in [0, classes).

    Returns
    -------
    Array
        A scalar in [0, 1]; NaN if no set is a single class.

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances or, outside a trace, a set is empty or a label no class.
    TypeError
        If the sets are no bools, or the labels neither integer nor bool.

    Notes
    -----
    Under a trace empty sets and labels that are no class give NaN. Gradient: none. Read it beside `determinacy`: it is
    high for a model that decides only the clearest instances.

    References
    ----------
    Corani and Zaffalon 2008, section 5 ("single accuracy").

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> membership = jnp.array([[True, False], [True, True], [False, True]])
    >>> print(single_set_accuracy(membership, jnp.array([0, 0, 0])))
    0.5
    """
    membership = _checked_sets(membership)
    return _single_set_accuracy(membership, checked_labels(y, *membership.shape))


@jit
def _single_set_accuracy(membership, y):
    """Return `single_set_accuracy`, a scalar, of checked arguments."""
    n_classes = membership.shape[1]
    sizes = _sizes_of(membership)
    single = sizes == 1
    right = jnp.any(membership & one_hot(y, n_classes), axis=1)
    return _nan_unless_sets(nan_unless_classes(_ratio(right & single, single), y, n_classes), sizes)


def set_size(membership: Sets, y: Labels | None = None, *, indeterminate_only: bool = False) -> Float[Array, ""]:
    r"""Mean number of classes in the sets; with ``indeterminate_only``, in the sets of more than one class.

    With :math:`Y_i` the set of instance i:

    .. math:: \frac1n \sum_i |Y_i|, \qquad
              \text{indeterminate only: } \frac{\sum_{i: |Y_i| > 1} |Y_i|}{\sum_i [|Y_i| > 1]}

    The result is a scalar in [1, classes]; with ``indeterminate_only`` in [2, classes], or NaN if there is no such set.
    Of two classes the mean size is 2 minus the determinacy. The sum of sizes must be below 2³¹. ``membership``, ``y``
    (ignored), errors and all else are as for `determinacy`.

    References
    ----------
    Corani and Zaffalon 2008, section 5 ("indeterminate output size").

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> membership = jnp.array([[True, False, False], [True, True, False], [True, True, True], [False, True, False]])
    >>> print(set_size(membership), set_size(membership, indeterminate_only=True))
    1.75 2.5
    """
    check_bool("indeterminate_only", indeterminate_only)
    membership = _checked_sets(membership)
    return _indeterminate_size(membership) if indeterminate_only else _size(membership)


@jit
def _size(membership):
    """Return the mean number of classes in checked sets."""
    sizes = _sizes_of(membership)
    return _nan_unless_sets(_ratio(sizes, jnp.ones_like(sizes)), sizes)


@jit
def _indeterminate_size(membership):
    """Return the mean number of classes in those of checked sets that hold more than one; NaN if there are none."""
    sizes = _sizes_of(membership)
    several = sizes > 1
    return _nan_unless_sets(_ratio(jnp.where(several, sizes, 0), several), sizes)


def _ratio(part: Array, whole: Array) -> Float[Array, ""]:
    """Return sum(part) / sum(whole), of arrays of integers or bools; NaN if sum(whole) is 0."""
    part_sum = jnp.sum(part, dtype=jnp.int32).astype(float)
    whole_sum = jnp.sum(whole, dtype=jnp.int32).astype(float)
    return jnp.where(whole_sum > 0, part_sum / jnp.maximum(whole_sum, 1.0), jnp.nan)


def discounted_utility(membership: Sets, y: Labels, *, kind: Literal[65, 80, 50] = 65) -> Float[Array, ""]:
    r"""Mean utility of sets of classes: how much right sets are worth, discounted by their size; larger is better.

    With x = [y ∈ Y]/\|Y\| for an instance with the set Y:

    .. math:: u_{50} = x, \qquad u_{65} = 1.6 x - 0.6 x^2, \qquad u_{80} = 2.2 x - 1.2 x^2

    A right single class is worth 1 and a wrong set 0. A right set of two is worth .50, .65 or .80. The first is the
    discounted accuracy, that of a random choice from the set; the others reward a set for the doubt that it tells of.

    Parameters
    ----------
    membership
        Bools ``[instances classes]``: whether each class is in the set.
    y
        Class indices ``[instances]`` in [0, classes).
    kind
        50, 65 or 80: what a right set of two classes is worth, in hundredths.

    Returns
    -------
    Array
        A scalar in [0, 1].

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances or the kind is unknown. Outside a trace also if a set is empty
        or a label no class.
    TypeError
        If the sets are no bools, or the labels neither integer nor bool.

    Notes
    -----
    For single classes it is the accuracy. Sets of more classes are worth less and less: with 80, one of three is worth
    .60. Under a trace empty sets and labels that are no class give NaN. The sum is compensated. Gradient: none.

    References
    ----------
    Zaffalon, Corani and Mauá 2012, section 4; Zhang, Quost and Masson 2021 (U65).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> membership = jnp.array([[True, False], [True, True], [True, False]])
    >>> y = jnp.array([0, 1, 1])
    >>> for kind in (50, 65, 80):
    ...     print(f"{float(discounted_utility(membership, y, kind=kind)):.4f}")
    0.5000
    0.5500
    0.6000
    """
    check_one_of("kind", kind, tuple(_COEFFICIENTS))
    membership = _checked_sets(membership)
    return _discounted_utility(membership, checked_labels(y, *membership.shape), kind)


@jit(static_argnames="kind")
def _discounted_utility(membership, y, kind):
    """Return `discounted_utility`, a scalar, of checked arguments."""
    n_classes = membership.shape[1]
    sizes = _sizes_of(membership)
    right = jnp.any(membership & one_hot(y, n_classes), axis=1)
    dtype = jnp.result_type(float)
    share = jnp.where(right, 1 / jnp.maximum(sizes, 1).astype(dtype), 0.0)
    a, b = _COEFFICIENTS[kind]
    return _nan_unless_sets(nan_unless_classes(mean(share * (a - b * share)), y, n_classes), sizes)


def _checked_sets(membership) -> Bool[Array, "instances classes"]:
    """Return ``membership [instances classes]`` as a JAX array.

    Raises a TypeError unless it holds bools, a ValueError for another shape, no instances, or an empty set.
    """
    membership = as_array(membership, name="membership", numbers=False)
    if membership.dtype != bool:
        raise TypeError(
            f"membership has dtype {membership.dtype}; expected booleans [instances classes], True for each class in "
            "the set, as jaxunc.decisions makes them. From class indices: np.eye(n_classes, dtype=bool)[y]."
        )
    check_columns(membership, name="membership")
    if not len(membership):
        raise ValueError("membership is empty: a mean over no instances is undefined.")
    if is_concrete(membership):
        empty = ~np.asarray(membership).any(axis=1)
        if empty.any():
            raise ValueError(
                f"membership holds {empty.sum()} empty sets (the first in row {np.argmax(empty)}); a prediction names "
                "one class at least. Where nothing is known, let it hold all."
            )
    return jnp.asarray(membership)


def _sizes_of(membership: Bool[Array, "instances classes"]) -> Int32[Array, "instances"]:
    """Return the number of classes in each set of ``membership``."""
    return jnp.sum(membership, axis=1, dtype=jnp.int32)


def _nan_unless_sets(value: Float[Array, ""], sizes: Int32[Array, "instances"]) -> Float[Array, ""]:
    """Return ``value``, or NaN, in place of an error under a trace, if one of the sets' sizes is 0."""
    return jnp.where(jnp.all(sizes > 0), value, jnp.nan)
