"""Intervals of the probability of class 1 as the interval-valued metrics take them, and what these answer with."""

import jax.numpy as jnp
import numpy as np

from jaxunc._checks import is_concrete
from jaxunc.intervals import Interval

from ._instances import as_array, as_floats, checked_labels


def checked_interval(interval: Interval, *, floats: bool = True) -> Interval:
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
    return Interval(as_floats(lower), as_floats(upper)) if floats else Interval(lower, upper)


def _of_class_one(lower, upper):
    xp = np if isinstance(lower, np.ndarray) and isinstance(upper, np.ndarray) else jnp
    own, other = (lower[:, 1], upper[:, 1]), (1 - upper[:, 0], 1 - lower[:, 0])
    dtypes = [end.dtype for end in (lower, upper) if jnp.issubdtype(end.dtype, jnp.floating)]
    rounding = 2 * max((float(jnp.finfo(dtype).eps) for dtype in dtypes), default=0.0)
    both = (
        xp.where(other[0] > own[0] + rounding, other[0], own[0]),
        xp.where(other[1] < own[1] - rounding, other[1], own[1]),
    )
    if is_concrete(both) and (apart := np.asarray(both[0] - both[1])).max(initial=0) > 1e-6:
        row = int(np.argmax(apart))
        raise ValueError(
            f"interval {row} holds no distribution: class 0 in [{lower[row, 0]}, {upper[row, 0]}] and class 1 in "
            f"[{lower[row, 1]}, {upper[row, 1]}] cannot add to 1."
        )
    return both[0], xp.maximum(both[0], both[1])


def checked_binary(y, interval: Interval):
    """Return the labels, 0 or 1, one for each interval."""
    return checked_labels(y, interval.lower.shape[0], 2)


def checked_leaf(leaf, interval: Interval):
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
    _, first, place = np.unique(np.asarray(leaf), return_index=True, return_inverse=True)
    if is_concrete(interval):
        for end in map(np.asarray, interval):
            if (end != end[first][place]).any():
                raise ValueError(
                    "instances of one leaf have different intervals; a leaf has one. Leave leaf out to choose each "
                    "instance's probability by itself."
                )
    return jnp.asarray(place, jnp.int32)
