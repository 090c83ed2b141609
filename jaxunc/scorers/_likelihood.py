"""The normalised likelihood of a leaf at any θ, in its logarithm."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxunc._numerics import log1p_minus

NOTHING = 1e-30
"""Stand-in for a count of zero, relative to the leaf: as good as nothing, but it has a logarithm."""


def count_or_nothing(count: Float[Array, "..."], total: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the count, or ``NOTHING`` of the total where it is zero: slopes that are infinite there become large."""
    return count + jnp.where(count > 0, 0.0, NOTHING * jax.lax.stop_gradient(total))


@jax.custom_jvp
def log_likelihood(z, rest, gap, w, v):
    """log L(θ) = w log(θ/p) + v log((1-θ)/(1-p)) for counts w, v > 0 at θ = (1+z)/2, where p = w/(w+v).

    ``rest`` = 1 - z and ``gap`` = z - (w-v)/(w+v) are given apart, as exactly as they are known. With φ(x) = log(1+x) -
    x this is w φ(θ/p - 1) + v φ((1-θ)/(1-p) - 1): the linear parts of both logarithms cancel. The gradient is that of
    the first formula, in which p drops out: log(θ/p) for w, log((1-θ)/(1-p)) for v.
    """
    ratio_w, ratio_v = _ratios(z, rest, w, v)
    step = gap * (w + v) / 2
    return w * _phi(step / w, ratio_w) + v * _phi(-step / v, ratio_v)


def _ratios(z, rest, w, v):
    """θ/p and (1-θ)/(1-p), kept positive."""
    tiny = jnp.finfo(z.dtype).tiny
    half = (w + v) / 2
    return jnp.maximum((1 + z) * (half / w), tiny), jnp.maximum(rest * (half / v), tiny)


def _phi(x, ratio):
    """Return φ(x), where ratio = 1 + x is known more exactly than by adding."""
    far = x < -0.4
    return jnp.where(far, jnp.log(ratio) - x, log1p_minus(jnp.where(far, 0.0, x)))


@log_likelihood.defjvp
def _log_likelihood_jvp(primals, tangents):
    z, rest, _, w, v = primals
    dz, _, _, dw, dv = tangents
    ratio_w, ratio_v = _ratios(z, rest, w, v)
    tiny = jnp.finfo(z.dtype).tiny
    slope = w / jnp.maximum(1 + z, tiny) - v / jnp.maximum(rest, tiny)
    return log_likelihood(*primals), dw * jnp.log(ratio_w) + dv * jnp.log(ratio_v) + dz * slope
