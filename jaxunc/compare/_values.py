"""Tables of values as the tests take them: checks, and which differences are ties."""

from typing import TypeAlias

import numpy as np
from jaxtyping import Array, Float, Int, Real

from jaxunc._checks import check_integer

Values: TypeAlias = Real[Array | np.ndarray, "blocks methods"]
"""Table of one value per block (a data set or a split) and method."""


def checked_values(values, *, least: int = 2) -> Float[np.ndarray, "blocks methods"]:
    """Return the values in float64; an error unless there are enough blocks and methods, and all are finite."""
    values = checked_numbers(values, name="values")
    if values.ndim != 2 or min(values.shape) < least:
        alone = " One method has nothing to be compared with, and one block shows no spread." * (least > 1)
        raise ValueError(
            f"values has shape {values.shape}; expected [blocks methods], a row per data set or split and a column per "
            f"method, {'two' if least > 1 else 'one'} or more of each.{alone}"
        )
    if len(off := np.argwhere(~np.isfinite(values))):
        block, method = off[0].tolist()
        raise ValueError(
            f"values holds {values[block, method]} at block {block}, method {method} ({len(off)} such in all); every "
            "method needs a finite value on every block. Leave out the blocks, or the methods, that lack values."
        )
    return values


def checked_numbers(values, *, name: str) -> Float[np.ndarray, "..."]:
    """Return the values in float64; a TypeError unless they are numbers."""
    values = np.asarray(values)
    if values.dtype.kind not in "iuf":
        raise TypeError(f"{name} has dtype {values.dtype}; expected numbers. Turn other entries into floats first.")
    return values.astype(np.float64)


def tie_threshold(decimals: int) -> float:
    """Return the least difference that counts; raises a TypeError unless ``decimals`` is an integer."""
    check_integer("decimals", decimals)
    return 10.0**-decimals


def tie_groups(values: Float[np.ndarray, "*blocks items"], threshold: float) -> Int[np.ndarray, "*blocks items"]:
    """Number the groups of ties 0, 1, … in the order of the last axis: neighbours closer than the threshold share one.

    Rounding would part equal values that noise puts on two sides of a boundary, as it does with k/1024 at 9 decimals.
    """
    order = np.argsort(values, axis=-1, kind="stable")
    steps = np.diff(np.take_along_axis(values, order, axis=-1), axis=-1, prepend=-np.inf) >= threshold
    groups = np.empty(values.shape, int)
    np.put_along_axis(groups, order, np.cumsum(steps, axis=-1) - 1, axis=-1)
    return groups
