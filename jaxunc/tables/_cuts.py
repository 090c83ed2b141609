"""Columns whose numbers are compared as float64: the number of thresholds below a value stands for it."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxunc._numerics import order_key, order_key_at_or_below


class CutLookup:
    """The thresholds of a column, made ready for placing values among them."""

    may_be_numbers = True

    def __init__(self, cuts: Sequence[float]):
        self.cuts = np.array(cuts, np.float64)

    def codes(self, values: Float[np.ndarray, " instances"]) -> Float[np.ndarray, " instances"]:
        """Return how many cuts are below each value; NaN for NaN."""
        return np.where(np.isnan(values), np.nan, np.searchsorted(self.cuts, values))

    def traced_codes(self, values: Float[Array, " instances"]) -> Float[Array, " instances"]:
        """Return the same in a program."""
        if values.dtype == jnp.float64:
            codes = jnp.searchsorted(jnp.asarray(self.cuts), values)
        else:
            # As order keys, which no backend takes for zero.
            codes = jnp.searchsorted(jnp.asarray(order_key_at_or_below(self.cuts)), order_key(values))
        return jnp.where(jnp.isnan(values), jnp.nan, codes.astype(jnp.float32))


def check_cuts(j: int, cuts: Any) -> None:
    """Raise a ValueError unless cuts are finite numbers that rise."""
    known = np.asarray(cuts, np.float64)
    if known.ndim != 1 or not np.isfinite(known).all() or np.any(np.diff(known) <= 0):
        raise ValueError(f"cuts[{j}]={cuts!r:.60} must be finite numbers that rise: the thresholds of the column.")
