"""Differences of counts, taken before anything is rounded: 10⁹ + 1 against 10⁹ is no tie in float32."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Num

from jaxunc._numerics import as_counts, float_dtype, sum_in_order


def excess(counts: Num[Array, "... classes"]) -> Float[Array, "... classes"]:
    """C w_c - N: how far each class is above an even share, times the number of classes."""
    counts = as_counts(counts)
    # Above the least count nothing is negative, so unsigned counts do not wrap. It cancels: so does its gradient.
    above = (counts - lax.stop_gradient(jnp.min(counts, axis=-1, keepdims=True))).astype(float_dtype(counts))
    return counts.shape[-1] * above - sum_in_order(above, keepdims=True)


def lead(counts: Num[Array, "... 2"]) -> Float[Array, "..."]:
    """w⁺ - w⁻."""
    return excess(counts)[..., 1]


def has_odd_total(counts: Num[Array, "... classes"]) -> Bool[Array, "..."]:
    """Return whether N is an odd integer; False where it is no integer."""
    rest = jnp.sum(counts % 2, axis=-1)  # the total itself might overflow or round
    return rest % 2 == 1
