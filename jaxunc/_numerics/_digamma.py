"""Log Γ and its derivatives less their leading terms: the remainders, where they nearly cancel.

Written for any array module, so that the host computes in float64 what a trace computes in its own precision.
"""

from itertools import pairwise
from types import ModuleType

import jax.numpy as jnp

# B_{2k} / (2k) and B_{2k}, k = 1, 2, …
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_LOG_GAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def digamma_gaps(x, xp: ModuleType = jnp):
    """Return ``log x - ψ(x)`` and ``x ψ'(x) - 1``: both ≈ 1/(2x), positive, falling; to relative precision for x > 0.

    The second is -x times the slope of the first. From log x - ψ(x) = 1/x - log(1 + 1/x) + log(x+1) - ψ(x+1) and
    ψ'(x) - 1/x = 1/(x² (x+1)) + ψ'(x+1) - 1/(x+1), and the asymptotic series beyond. Step by step, without an axis of
    steps: so it is vectorised along the last axis of x.
    """
    shifts, terms = (10, 7) if x.dtype == "float64" else (4, 4)
    inverses = [1 / (x + shift) for shift in range(shifts + 1)]
    far = inverses[-1]
    gap = far * (0.5 + far * _horner(_DIGAMMA[:terms], far * far))
    slope = x * far * (far * (0.5 + far * _horner(_TRIGAMMA[:terms], far * far)))
    for one, following in pairwise(inverses):
        gap = gap + (one - xp.log1p(one))
        slope = slope + x * one * one * following
    return gap, slope


def log_gamma_gap(x, xp: ModuleType = jnp):
    """Return δ(x) = log Γ(x) - (x-½) log x + x - ½ log 2π ≈ 1/(12x), for x > 0; on the host with ``xp=numpy``.

    From δ(x) = δ(x+1) + (x+½) log(1+1/x) - 1 and the asymptotic series beyond; absolute error a few roundings of 1.
    `stirling_error` is the same with a gradient, for x ≥ 1/2.
    """
    shifts, terms = (10, 7) if x.dtype == "float64" else (4, 4)
    near = xp.where(x < shifts, x, 1.0)
    steps = sum((near + (i + 0.5)) * xp.log1p(1 / (near + i)) - 1 for i in range(shifts))
    far = 1 / xp.where(x < shifts, x + shifts, x)
    return far * _horner(_LOG_GAMMA[:terms], far * far) + xp.where(x < shifts, steps, 0.0)


def _horner(coefficients, x):
    value = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value
