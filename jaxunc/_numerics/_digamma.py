"""The digamma function and its derivative less their leading terms: what is left of them where they nearly cancel.

Written for any array module, so that the host computes in float64 what a trace computes in its own precision.
"""

from types import ModuleType

import jax.numpy as jnp
import numpy as np

# B_{2k} / (2k) and B_{2k}, k = 1, 2, …
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def digamma_gap(x, xp: ModuleType = jnp):
    """``log x - ψ(x)`` ≈ 1/(2x), positive and falling, to relative precision for x > 0.

    From log x - ψ(x) = 1/x - log(1 + 1/x) + log(x+1) - ψ(x+1), and the asymptotic series beyond.
    """
    shifts, terms = _reach(x)
    far = x + shifts
    gap = 0.5 / far + _horner(_DIGAMMA[:terms], far) / (far * far)
    inverse = 1 / (x[..., None] + np.arange(shifts, dtype=x.dtype))
    return gap + (inverse - xp.log1p(inverse)).sum(axis=-1)


def trigamma_gap(x):
    """``x ψ'(x) - 1`` ≈ 1/(2x), positive and falling, to relative precision for x > 0: -x times `digamma_gap`'s slope.

    From ψ'(x) - 1/x = 1/(x² (x+1)) + ψ'(x+1) - 1/(x+1), and the asymptotic series beyond.
    """
    shifts, terms = _reach(x)
    far = x + shifts
    gap = x / far * (0.5 / far + _horner(_TRIGAMMA[:terms], far) / (far * far))
    steps = x[..., None] + np.arange(shifts, dtype=x.dtype)
    return gap + (x[..., None] / steps * (1 / steps) / (steps + 1)).sum(axis=-1)


def _reach(x) -> tuple[int, int]:
    """How far to shift, and how many terms then do."""
    return (10, 7) if x.dtype == "float64" else (4, 4)


def _horner(coefficients, z):
    inverse_square = 1 / (z * z)
    value = 0.0
    for coefficient in reversed(coefficients):
        value = value * inverse_square + coefficient
    return value
