"""Intervals: the bounds of numbers that are not known exactly."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float


class Interval(NamedTuple):
    """Closed intervals, ``lower <= upper``: a probability of class 1 ``[...]``, or one per class ``[... classes]``.

    A pytree of two arrays of the same shape, JAX or NumPy.
    """

    lower: Float[jax.Array | np.ndarray, "..."]
    upper: Float[jax.Array | np.ndarray, "..."]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names that `columns` knows."""
        return ("interval",)

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """Both ends, by class."""
        return {name: np.asarray(part) for name, part in self._asdict().items()}
