"""Mass functions on the sets ∅, {0}, …, {C-1}, Ω, in this order along the last axis: as probabilities; their checks."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxunc._checks import check_numbers, is_concrete
from jaxunc._numerics import copy_in, float_dtype, jit, safe_divide


def pignistic(masses: Float[Array, "... sets"]) -> Float[Array, "... classes"]:
    r"""Probabilities that share the mass of ignorance equally among the classes.

    .. math:: BetP(c) = \frac{m(\{c\}) + m(\Omega)/C}{1 - m(\emptyset)}

    Parameters
    ----------
    masses
        Masses ≥ 0 that add to 1, last axis [∅, {0}, …, {C-1}, Ω]: four entries for two classes.

    Returns
    -------
    Array
        Probabilities of the classes.

    Raises
    ------
    ValueError
        If there are fewer than four sets or (outside a trace) masses are negative or do not add to 1.

    Notes
    -----
    Total conflict, m(∅) = 1: uniform, and gradient 0 there; elsewhere smooth. 1 - m(∅) is added up from the other
    masses, which keeps its digits near total conflict.

    References
    ----------
    Smets and Kennes 1994.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(pignistic(jnp.array([[0.0, 0.0, 0.75, 0.25], [0.5, 0.25, 0.125, 0.125], [1.0, 0.0, 0.0, 0.0]])))
    [[0.125 0.875]
     [0.625 0.375]
     [0.5   0.5  ]]
    """
    return _pignistic(checked(masses))


@jit
def _pignistic(masses):
    n_classes = masses.shape[-1] - 2
    agreed = masses[..., 1:].sum(axis=-1, keepdims=True)
    return safe_divide(masses[..., 1:-1] + masses[..., -1:] / n_classes, agreed, 1 / n_classes)


def checked(masses: Array | np.ndarray, *, trees: bool = False) -> Float[Array, "... sets"]:
    """Return the masses as floats; a ValueError if they are no masses, or (with ``trees``) lack an axis of trees."""
    check_numbers("masses", masses)
    masses = copy_in(masses)
    expected = "[... trees sets]" if trees else "[... sets]"
    if masses.ndim < 1 + trees or masses.shape[-1] < 4:
        raise ValueError(
            f"masses has shape {masses.shape}; expected {expected} with the sets empty, singletons, Ω "
            "(four for two classes)."
        )
    if trees and masses.shape[-2] == 0:
        raise ValueError(f"masses has shape {masses.shape}: there is no tree to combine.")
    if is_concrete(masses):
        values = np.asarray(masses, dtype=float)
        # Masses that were computed may be below 0, or miss 1, by rounding.
        if not (values.min(initial=0) >= -1e-6 and np.allclose(values.sum(-1), 1, atol=1e-4)):
            raise ValueError("masses must be >= 0 and add to 1 along the last axis.")
    return masses.astype(float_dtype(masses))


def not_negative(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return max(x, 0) with the gradient of x, for differences that are below zero by rounding only."""
    return x + lax.stop_gradient(jnp.maximum(x, 0) - x)
