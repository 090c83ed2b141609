"""Exact bounds of the Brier score of probabilities that are known as intervals."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Integer

from jaxunc._checks import is_concrete
from jaxunc._numerics import jit
from jaxunc.intervals import Interval

from ._instances import Labels, as_array, as_floats, checked_labels, group_edges, mean, nan_unless_classes, total

Leaf = Integer[Array | np.ndarray, "instances"]


def interval_brier(interval: Interval, y: Labels, *, leaf: Leaf | None = None) -> Interval:
    r"""The least and the greatest Brier score that probabilities inside the intervals can have.

    .. math:: \Big[\min_{p \in [l, u]}, \max_{p \in [l, u]}\Big] \; \frac1n \sum_i (p_i - y_i)^2

    Parameters
    ----------
    interval
        Intervals of the probability of class 1 ``[instances]``, or of each of two classes ``[instances 2]``.
    y
        Class indices ``[instances]``, 0 or 1.
    leaf
        The leaf of each instance, if instances of one leaf must share one probability. Default: each chooses its own.

    Returns
    -------
    Interval
        Two scalars in [0, 1], in the single-class form of the paper: half of `brier_score`, which sums over classes.

    Raises
    ------
    ValueError
        If shapes do not fit or there are no instances. Outside a trace also if an interval has NaN, its lower end above
        its upper, an end outside [0, 1] or (two columns) is no distribution; a label is no class; or instances of one
        leaf have different intervals.
    TypeError
        If the labels are neither integer nor bool.

    Notes
    -----
    The square falls in p where y = 1 and rises where y = 0. So the bounds are at the ends: at the good one (upper for y
    = 1, lower for y = 0) and at the bad one. The paper browses a grid. With ``leaf``, a leaf with a instances of class
    1 and b of class 0 has a convex loss: least at a/(a+b) clipped to the interval, greatest at one of the ends. A
    `Interval` that does not see the coupling is wider.

    Gradient: of the ends that were chosen, 2(p - y)/n. Under a trace labels that are no class give NaN, and so
    do different intervals in one leaf.

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
    def of(p):
        return nan_unless_classes(mean(jnp.where(y == 1, (1 - p) ** 2, p**2)), y, 2)

    lower, upper = interval
    return Interval(of(jnp.where(y == 1, upper, lower)), of(jnp.where(y == 1, lower, upper)))


@jit
def _by_leaf(interval: Interval, y, leaf) -> Interval:
    n = y.shape[0]
    order = jnp.argsort(leaf)
    first, _ = group_edges(leaf[order])
    index = jnp.cumsum(first, dtype=jnp.int32) - 1
    lower, upper = sorted_ends = tuple(end[order] for end in interval)
    ones = jax.ops.segment_sum((y[order] == 1).astype(lower.dtype), index, n, indices_are_sorted=True)
    zeros = jax.ops.segment_sum((y[order] == 0).astype(lower.dtype), index, n, indices_are_sorted=True)
    here = ones + zeros > 0
    # Of the leaf: its instances have the same ends.
    lower, upper = (jnp.zeros(n, end.dtype).at[index].set(end, indices_are_sorted=True) for end in sorted_ends)
    shared = jnp.all((lower[index] == sorted_ends[0]) & (upper[index] == sorted_ends[1]))
    share = ones / jnp.where(here, ones + zeros, 1.0)

    def of(p):
        return ones * (1 - p) ** 2 + zeros * p**2

    best, worst = of(jnp.clip(share, lower, upper)), jnp.maximum(of(lower), of(upper))
    values = (jnp.where(shared, total(bound) / n, jnp.nan) for bound in (best, worst))
    return Interval(*(nan_unless_classes(value, y, 2) for value in values))


def _checked_interval(interval: Interval) -> Interval:
    """Return the interval of class 1 ``[instances]``; a ValueError unless its ends are in order and in [0, 1].

    Two columns, one for each class, are narrowed to what both allow: p₁ in [max(l₁, 1-u₀), min(u₁, 1-l₀)]. Class 0
    moves an end by more than rounding only: 1 - (1 - p) is not p, and intervals whose ends are equal would cease to
    tie.
    """
    if not (hasattr(interval, "lower") and hasattr(interval, "upper")):
        raise TypeError(
            f"interval is a {type(interval).__name__}; pass jaxunc.intervals.Interval(lower, upper), such as "
            "smoothing.correction_interval gives."
        )
    lower, upper = as_array(interval.lower, name="interval.lower"), as_array(interval.upper, name="interval.upper")
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
            row = int(np.argmax(np.any((low > high).reshape(len(low), -1), axis=1)))
            raise ValueError(
                f"interval {row} has its lower end {low[row]} above its upper end {high[row]}; swap them, or see how "
                "they were made."
            )
        if low.min(initial=0) < 0 or high.max(initial=1) > 1:
            raise ValueError(
                f"interval ends reach from {low.min():.6g} to {high.max():.6g}; probabilities lie in [0, 1]."
            )
    if lower.ndim == 2:
        lower, upper = _of_class_one(lower, upper)
    return Interval(as_floats(lower), as_floats(upper))


def _of_class_one(lower, upper):
    xp = np if isinstance(lower, np.ndarray) and isinstance(upper, np.ndarray) else jnp
    of_one, other = (lower[:, 1], upper[:, 1]), (1 - upper[:, 0], 1 - lower[:, 0])
    dtypes = [end.dtype for end in (lower, upper) if jnp.issubdtype(end.dtype, jnp.floating)]
    rounding = 2 * max((float(jnp.finfo(dtype).eps) for dtype in dtypes), default=0.0)
    both = (
        xp.where(other[0] > of_one[0] + rounding, other[0], of_one[0]),
        xp.where(other[1] < of_one[1] - rounding, other[1], of_one[1]),
    )
    if is_concrete(both) and (apart := np.asarray(both[0] - both[1])).max(initial=0) > 1e-6:
        row = int(np.argmax(apart))
        raise ValueError(
            f"interval {row} holds no distribution: class 0 in [{lower[row, 0]}, {upper[row, 0]}] and class 1 in "
            f"[{lower[row, 1]}, {upper[row, 1]}] cannot add to 1."
        )
    return both[0], xp.maximum(both[0], both[1])


def _checked_leaf(leaf, interval: Interval):
    """Return the leaf of each instance; a ValueError if instances of one leaf have different intervals."""
    leaf, n = as_array(leaf, name="leaf"), interval.lower.shape[0]
    if leaf.shape != (n,) or not jnp.issubdtype(leaf.dtype, jnp.integer):
        raise ValueError(
            f"leaf has shape {leaf.shape} and dtype {leaf.dtype}; expected integers of shape ({n},), the leaf of each "
            "instance, such as a column of jaxunc.leaf_index."
        )
    if not is_concrete(leaf):
        return jnp.asarray(leaf)
    # Numbered anew: JAX would cut indices of 64 bits to 32, and leaves would merge.
    _, first, index = np.unique(np.asarray(leaf), return_index=True, return_inverse=True)
    if is_concrete(interval):
        for end in map(np.asarray, interval):
            if (end != end[first][index]).any():
                raise ValueError(
                    "instances of one leaf have different intervals; a leaf has one. Leave leaf out to choose each "
                    "instance's probability by itself."
                )
    return jnp.asarray(index, jnp.int32)
