"""Logarithms and quotients in forms that stay accurate and differentiable at the edges."""

from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ._in_order import sum_in_order


def log1p_minus(x: Float[Array | np.ndarray, "..."], xp: ModuleType = jnp) -> Float[Array | np.ndarray, "..."]:
    """Return ``log(1 + x) - x`` without cancellation near zero, for x > -1; on the host with ``xp=numpy``.

    With r = x/(2 + x): r (2 Σ_{k≥1} r^{2k}/(2k+1) - x) for |x| < 0.4, the plain difference elsewhere.
    """
    small = xp.abs(x) < 0.4
    r = xp.where(small, x / (2 + x), 0.0)
    square = r * r
    series = xp.zeros_like(r)
    terms = 14 if x.dtype == jnp.float64 else 6
    for k in range(terms, 0, -1):
        series = square * (series + 1.0 / (2 * k + 1))
    plain = xp.log1p(xp.where(small, 0.0, x)) - xp.where(small, 0.0, x)
    return xp.where(small, r * (2 * series - x), plain)


def lambert_w_of_exp(log_x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return ``log W(x)`` from ``log x``, W being Lambert's function: the root y of y + exp(y) = log x."""
    guess = jnp.where(log_x < 1, log_x - jnp.log1p(jnp.exp(jnp.minimum(log_x, 1.0))), jnp.log(jnp.maximum(log_x, 1.0)))

    def newton(_, y):
        power = jnp.exp(y)
        return y - (y + power - log_x) / (1 + power)

    # y + exp(y) is convex, so after one step Newton's method comes down from above: four are enough from this guess.
    return lax.fori_loop(0, 4, newton, guess)


def safe_divide(numerator: Array, denominator: Array, otherwise: float | Array = 0.0) -> Array:
    """Return ``numerator / denominator``, and ``otherwise`` where the denominator is zero, with gradient 0 there."""
    zero = denominator == 0
    return jnp.where(zero, otherwise, numerator / jnp.where(zero, 1, denominator))


def divide_by_shared(numerator: Array, denominator: Array, otherwise: float | Array = 0.0) -> Array:
    """Return what `safe_divide` does, each quotient correctly rounded where numerators share a denominator.

    XLA would multiply by the reciprocal of what is broadcast: 41/41 become 0.99999994, and 0.5 - 20.5/41 not zero. A
    denominator chosen for each numerator is none. A barrier would do too, for one more kernel on a GPU.
    """
    numerator = jnp.asarray(numerator, jnp.result_type(numerator, denominator, float))
    nan = jnp.asarray(jnp.nan, numerator.dtype)
    return safe_divide(numerator, jnp.where(jnp.isnan(numerator), nan, denominator), otherwise)


def shares_of(counts: Float[Array, "... classes"]) -> Float[Array, "... classes"]:
    """Return counts divided by their sum; equal shares where it is zero, with gradient 0 there."""
    return divide_by_shared(counts, sum_in_order(counts, keepdims=True), 1 / counts.shape[-1])


@jax.custom_jvp
def floored_log(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return ``log(max(x, tiny))``, tiny being the smallest normal float: finite at zero, as a loss needs it.

    The gradient is 1/max(x, √tiny): large and finite at zero, so that a loss can still move away from it.
    """
    return jnp.log(jnp.maximum(x, jnp.finfo(x.dtype).tiny))


@floored_log.defjvp
def _floored_log_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return floored_log(x), dx / jnp.maximum(x, jnp.finfo(x.dtype).tiny ** 0.5)
