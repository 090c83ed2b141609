"""Sums over instances that keep their digits, however many there are and whichever way the compiler adds."""

import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxunc._numerics import TwoFloat


@jax.custom_jvp
def total(values: Float[Array, "instances"]) -> Float[Array, ""]:
    """Return the sum, to twice the precision and then rounded: about √n lanes side by side, then the lanes one by one.

    Infinities and NaN are added as usual. The gradient is that of a plain sum.
    """
    # A scan over rows of √n lanes: two-float additions one by one would be a loop of n, all at once lose the order.
    lanes = math.isqrt(values.shape[0]) + 1
    rows = jnp.pad(values, (0, -values.shape[0] % lanes)).reshape(-1, lanes)
    by_lane = _added(TwoFloat(rows, jnp.zeros_like(rows)))
    # With infinities two-float arithmetic gives NaN; their plain sum is right.
    plain = jnp.sum(values)
    return jnp.where(jnp.isfinite(plain), _added(by_lane).value, plain)


@total.defjvp
def _total_jvp(primals, tangents):
    (values,), (d_values,) = primals, tangents
    return total(values), jnp.sum(d_values)


def mean(values: Float[Array, "instances"]) -> Float[Array, ""]:
    """Return the mean, rounded twice."""
    return total(values) / values.shape[0]


def _added(parts: TwoFloat) -> TwoFloat:
    """Return the sum over the leading axis, added in order."""
    start = TwoFloat(jnp.zeros_like(parts.high[0]), jnp.zeros_like(parts.low[0]))
    return lax.scan(lambda sum_so_far, part: (sum_so_far.plus(part), None), start, parts)[0]
