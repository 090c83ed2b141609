"""Mass functions on the sets ∅, {0}, …, {C-1}, Ω, in this order along the last axis: the checks of all files."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxunc._checks import check_numbers, is_concrete
from jaxunc._numerics import float_dtype


def checked(masses: Array | np.ndarray, *, trees: bool = False, name: str = "masses") -> Float[Array, "... sets"]:
    """Return the masses as floats; a ValueError if they are no masses, or (with ``trees``) lack an axis of trees."""
    check_numbers(name, masses)
    masses = jnp.asarray(masses)
    expected = "[... trees sets]" if trees else "[... sets]"
    if masses.ndim < 1 + trees or masses.shape[-1] < 4:
        raise ValueError(
            f"{name} has shape {masses.shape}; expected {expected} with the sets empty, singletons, Ω "
            "(four for two classes)."
        )
    if trees and masses.shape[-2] == 0:
        raise ValueError(f"{name} has shape {masses.shape}: there is no tree to combine.")
    if is_concrete(masses):
        values = np.asarray(masses, dtype=float)
        # Masses that were computed may be below 0, or miss 1, by rounding.
        if not (values.min(initial=0) >= -1e-6 and np.allclose(values.sum(-1), 1, atol=1e-4)):
            raise ValueError(f"{name} must be >= 0 and add to 1 along the last axis.")
    return masses.astype(float_dtype(masses))


def not_negative(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return max(x, 0) with the gradient of x, for differences that are below zero by rounding only."""
    return x + lax.stop_gradient(jnp.maximum(x, 0) - x)
