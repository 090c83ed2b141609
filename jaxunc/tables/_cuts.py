"""Columns whose numbers are compared as float64: the number of thresholds below a value stands for it."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxunc._numerics import rounded_down


class CutLookup:
    """The thresholds of a column, made ready for placing values among them."""

    may_be_numbers = True

    def __init__(self, cuts: Sequence[float]):
        self.cuts = np.array(cuts, np.float64)

    def codes(self, values: Float[np.ndarray, " instances"]) -> Float[np.ndarray, " instances"]:
        """Return how many cuts are below each value; NaN for NaN."""
        return np.where(np.isnan(values), np.nan, np.searchsorted(self.cuts, values))

    def traced_codes(self, values: Float[Array, " instances"]) -> Float[Array, " instances"]:
        """Return the same in a program: float32 is compared with the largest float32 not above each cut."""
        cuts = rounded_down(self.cuts) if values.dtype == jnp.float32 else self.cuts
        codes = jnp.searchsorted(jnp.asarray(cuts), values).astype(jnp.float32)
        return jnp.where(jnp.isnan(values), jnp.nan, codes)


def check_cuts(j: int, cuts: Any) -> None:
    """Raise a ValueError unless cuts are finite numbers that rise."""
    known = np.asarray(cuts, np.float64)
    if known.ndim != 1 or not np.isfinite(known).all() or np.any(np.diff(known) <= 0):
        raise ValueError(f"cuts[{j}]={cuts!r:.60} must be finite numbers that rise: the thresholds of the column.")
