"""Logarithms, factorials and entropies in forms that stay accurate and differentiable at the ends of their ranges.

Functions whose leading terms nearly cancel return the remainder alone: `log1p_minus`, `digamma_gaps`, `log_gamma_gap`,
`stirling_error`, `entropy_gap`. With z = x + 1/2, Γ(x+1) = x! obeys log x! = z log z - z + ½ log 2π + δ(2z) - δ(z). So
quotients of factorials become logarithms of ratios near one plus differences of δ, and no term has the size of log x!.
Where a function takes the array module ``xp``, the host computes in float64 what a trace computes in its own precision.
"""

from itertools import pairwise
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float


def log1p_minus(
    x: Float[Array | np.ndarray, "..."], xp: ModuleType = jnp, *, ratio: Float[Array, "..."] | None = None
) -> Float[Array | np.ndarray, "..."]:
    """Return ``log(1 + x) - x`` for x > -1, without cancellation near zero.

    ``xp`` is the module of x, NumPy or `jax.numpy`. Callers who have 1 + x more exactly than by adding pass it as
    ``ratio``. With r = x/(2 + x), the value is r (2 Σ_{k≥1} r^{2k}/(2k+1) - x) for |x| < 0.4, the difference elsewhere.
    """
    is_small = xp.abs(x) < 0.4
    # Both forms are computed everywhere: each takes 0 where it is not used, so that its gradient is finite.
    r = xp.where(is_small, x / (2 + x), 0.0)
    square = r * r
    series = xp.zeros_like(r)
    # As |r| is at most 1/4, each term is below a sixteenth of the one before: so many terms reach the last digit.
    terms = 14 if x.dtype == jnp.float64 else 6
    for k in range(terms, 0, -1):
        series = square * (series + 1.0 / (2 * k + 1))
    far = xp.where(is_small, 0.0, x)
    log = xp.log1p(far) if ratio is None else xp.log(xp.where(is_small, 1.0, ratio))
    return xp.where(is_small, r * (2 * series - x), log - far)


def lambert_w_of_exp(log_x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return ``log W(x)`` for ``log_x = log x``, W being Lambert's function: the root y of ``y + exp(y) = log_x``."""
    # The root is near log x where x is small, and near log log x where x is large.
    low_guess = log_x - jnp.log1p(jnp.exp(jnp.minimum(log_x, 1.0)))
    high_guess = jnp.log(jnp.maximum(log_x, 1.0))
    guess = jnp.where(log_x < 1, low_guess, high_guess)

    def newton(_, y):
        power = jnp.exp(y)
        return y - (y + power - log_x) / (1 + power)

    # y + exp(y) is convex, so after one step Newton's method comes down from above: four are enough from this guess.
    return lax.fori_loop(0, 4, newton, guess)


# B_{2k} / (2k) and B_{2k}, k = 1, 2, …
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def digamma_gaps(x, xp: ModuleType = jnp):
    """Return (``log x - ψ(x)``, ``x ψ'(x) - 1``) for x > 0: both are about 1/(2x), positive and falling.

    Both have relative precision. The second is -x times the slope of the first. ``xp`` is the module of x, NumPy or
    `jax.numpy`. Steps lead from x to larger numbers, for which asymptotic series hold: log x - ψ(x) = 1/x - log(1 +
    1/x) + log(x+1) - ψ(x+1), and ψ'(x) - 1/x = 1/(x² (x+1)) + ψ'(x+1) - 1/(x+1). A loop takes the steps: an axis of
    steps would keep a compiler from vectorising along the last axis of x.
    """
    # So many steps and terms that the terms left out are below a rounding of the type.
    shifts, terms = (10, 7) if x.dtype == "float64" else (4, 4)
    inverses = [1 / (x + shift) for shift in range(shifts + 1)]
    far = inverses[-1]
    gap = far * (0.5 + far * _horner(_DIGAMMA[:terms], far * far))
    slope = x * far * (far * (0.5 + far * _horner(_TRIGAMMA[:terms], far * far)))
    for inverse, next_inverse in pairwise(inverses):
        gap = gap + (inverse - xp.log1p(inverse))
        slope = slope + x * inverse * inverse * next_inverse
    return gap, slope


def log_gamma_gap(x, xp: ModuleType = jnp):
    """Return δ(x) = log Γ(x) - (x-½) log x + x - ½ log 2π for x > 0: about 1/(12x).

    ``xp`` is the module of x, NumPy or `jax.numpy`. Steps δ(x) = δ(x+1) + (x+½) log(1+1/x) - 1 lead to large x, for
    which the asymptotic series holds. The absolute error is a few roundings of 1. `stirling_error` is the same function
    with a gradient, for x ≥ 1/2.
    """
    # Steps are computed everywhere, at a harmless number where they are not used.
    shifts, terms = (10, 7) if x.dtype == "float64" else (4, 4)
    near = xp.where(x < shifts, x, 1.0)
    steps = sum((near + (i + 0.5)) * xp.log1p(1 / (near + i)) - 1 for i in range(shifts))
    far = 1 / xp.where(x < shifts, x + shifts, x)
    return far * _horner(_SERIES[:terms], far * far) + xp.where(x < shifts, steps, 0.0)


def _horner(coefficients, x):
    """Return the polynomial c_0 + c_1 x + c_2 x² + … by Horner's rule; ``coefficients`` are c_0, c_1, c_2, …"""
    value = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value


# (-1)^k B_{2k} / (2k (2k-1)), k = 1, 2, …
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


@jax.custom_jvp
def stirling_error(z: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return δ(z) = log Γ(z) - (z-½) log z + z - ½ log 2π, for z ≥ 1/2: about 1/(12 z).

    The asymptotic series converges fast for large z; steps δ(z) = δ(z+1) + (z+½) log(1+1/z) - 1 lead there from small
    z. The absolute error is 1e-15 in float64 and 3e-7 in float32; for z ≥ 10 this is the relative error.
    """
    shifts, terms, near, far = _shift(z)
    steps = sum((near + (i + 0.5)) * jnp.log1p(1 / (near + i)) - 1 for i in range(shifts))
    return _horner(_SERIES[:terms], 1 / (far * far)) / far + jnp.where(z < shifts, steps, 0.0)


@stirling_error.defjvp
def _stirling_error_jvp(primals, tangents):
    """Return δ(z) and its tangent δ'(z) dz, given ``primals`` (z,) and ``tangents`` (dz,): the gradient's rule."""
    (z,), (dz,) = primals, tangents
    shifts, terms, near, far = _shift(z)
    steps = sum(jnp.log1p(1 / (near + i)) - (near + (i + 0.5)) / ((near + i) * (near + (i + 1))) for i in range(shifts))
    series = [-(2 * k + 1) * coefficient for k, coefficient in enumerate(_SERIES[:terms])]
    inverse_square = 1 / (far * far)
    slope = _horner(series, inverse_square) * inverse_square + jnp.where(z < shifts, steps, 0.0)
    return stirling_error(z), slope * dz


def _shift(z):
    """Return (number of steps, number of terms of the series, argument of the steps, argument of the series) for δ(z).

    Steps are taken where z is less than their number. They lead from z, the argument of the steps, to that of the
    series. Elsewhere the argument of the series is z, and that of the steps is 1, which is not used.
    """
    shifts, terms = (10, 8) if z.dtype == jnp.float64 else (3, 5)
    is_small = z < shifts
    return shifts, terms, jnp.where(is_small, z, 1.0), jnp.where(is_small, z + shifts, z)


def entropy_gap(t: Float[Array, "..."], rest: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return S(t) = (1+t) log(1+t) + (1-t) log(1-t) for 0 ≤ t < 1; ``rest`` is 1 - t > 0, to relative precision.

    The relative error stays small near t = 0, where S(t) ≈ t². It also does near t = 1, where 1 - t would lose digits
    if it was computed from t.
    """
    is_near = t < 0.5  # both forms are computed everywhere, each at a harmless number where it is not used
    near_t = jnp.where(is_near, t, 0.25)
    series = 2 * near_t * near_t + (1 + near_t) * log1p_minus(near_t) + (1 - near_t) * log1p_minus(-near_t)
    far_t = jnp.where(is_near, 0.5, t)
    far_rest = jnp.where(is_near, 0.5, rest)
    return jnp.where(is_near, series, (1 + far_t) * jnp.log1p(far_t) + far_rest * jnp.log(far_rest))
