"""Sums along an axis that have the same bits in every program, and what is made of them.

A compiler sums floats in the order that suits the whole array: of as many rows in another one than of a few. A rule
whose classes or trees were summed so would answer with other bits in other batches.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Num, Shaped


def sum_in_order(x: Shaped[Array, "..."], axis: int = -1, *, keepdims: bool = False) -> Num[Array, "..."]:
    """Return the sum along an axis, whose rounding depends on the numbers and the length of the axis alone.

    Up to 32 numbers are added from the first to the last. In a rule of differentiation tangents are summed plainly:
    this sum has a derivative, and no transpose.
    """
    axis = axis % x.ndim
    total = _sum(x, axis) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.sum(x, axis=axis)
    return jnp.expand_dims(total, axis) if keepdims else total


def add_up(x: Any, axis: int, *, keepdims: bool = False) -> Any:
    """Return the sum along an axis of an array of the host, or `sum_in_order` of one of JAX."""
    if isinstance(x, np.ndarray):
        return x.sum(axis=axis, keepdims=keepdims)
    return sum_in_order(x, axis, keepdims=keepdims)


def is_sum_in_order(params: dict[str, Any]) -> bool:
    """Return whether a reduction of a traced program, with these parameters, is one of these sums."""
    number = jnp.zeros((), params["jaxpr"].in_avals[0].dtype)
    return str(params["jaxpr"]) == str(jax.make_jaxpr(_add)(number, number))


def _add(total: Array, x: Array) -> Array:
    # In words that no compiler takes for a sum: those it reorders.
    return jnp.where(jnp.isnan(x), x, total + x)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _sum(x: Float[Array, "..."], axis: int) -> Float[Array, "..."]:
    return lax.reduce(x, jnp.zeros((), x.dtype), _add, (axis,))


@_sum.defjvp
def _sum_jvp(axis, primals, tangents):
    return _sum(*primals, axis), jnp.sum(*tangents, axis=axis)


def scale_and_move(x: Float[Array, "..."], scale: Array, move: Array) -> Float[Array, "..."]:
    """Return ``scale x + move``, rounded twice: fused or not by the shape of the program, it would be once or twice."""
    product = scale * x
    return jnp.where(jnp.isnan(product), jnp.asarray(jnp.nan, product.dtype), product) + move


def rounded(product: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return a finite product as it is, in words that keep a compiler from fusing it with the sum that it enters."""
    most = jnp.finfo(product.dtype).max
    return jnp.clip(product, -most, most)


def log_softmax(x: Float[Array, "... classes"]) -> Float[Array, "... classes"]:
    """Return what `jax.nn.log_softmax` does along the last axis, by a sum in order."""
    shifted = x - lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True))
    return shifted - jnp.log(sum_in_order(jnp.exp(shifted), keepdims=True))


def softmax(x: Float[Array, "... classes"]) -> Float[Array, "... classes"]:
    """Return what `jax.nn.softmax` does along the last axis, by a sum in order."""
    power = jnp.exp(x - lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True)))
    return power / sum_in_order(power, keepdims=True)


def log_average(logs: Float[Array, "... terms"], weights: Float[Array, "terms"]) -> Float[Array, "..."]:
    """Return log Σ w exp(x) of the last axis, by a sum in order; w ≥ 0, and what w = 0 weighs may be anything."""
    logs = jnp.where(weights != 0, logs, -jnp.inf)
    most = jnp.max(logs, axis=-1, keepdims=True)
    most = lax.stop_gradient(jnp.where(jnp.isfinite(most), most, jnp.zeros_like(most)))
    return jnp.log(sum_in_order(jnp.exp(logs - most) * weights)) + most[..., 0]
