"""Numbers carried as an unevaluated sum of two floats: about twice the precision of one.

Sums over ten thousand trees, and of counts up to 10⁹, stay exact or nearly so in float32.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, UInt32

from ._in_order import rounded


def float_dtype(*arrays) -> jnp.dtype:
    """Return the dtype to compute in: the arrays' own if they are floats, else the default (float64 under x64)."""
    # Of an array's dtype alone: to put one on a device is a program for its shape.
    found = [jax.dtypes.canonicalize_dtype((a if hasattr(a, "dtype") else jnp.asarray(a)).dtype) for a in arrays]
    floats = [dtype for dtype in found if jnp.issubdtype(dtype, jnp.floating)]
    return jnp.result_type(*floats) if floats else jnp.result_type(float)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum s and its exact rounding error e: ``a + b = s + e`` (Knuth)."""
    s = a + b
    # What of b arrived in s, and then what of a: the differences are exact, whichever of both is larger.
    b_seen = s - a
    return s, (a - (s - b_seen)) + (b - b_seen)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded product p and its rounding error e: ``a b = p + e`` (Dekker), to twice the precision."""
    # Cut by the bits: Dekker's own way to halve a float is undone by compilers that fuse a product and a sum.
    bits = {4: jnp.int32, 8: jnp.int64}[a.dtype.itemsize]
    keep = jnp.asarray(-(1 << (jnp.finfo(a.dtype).nmant + 2) // 2), bits)

    def split(x):
        high = lax.bitcast_convert_type(lax.bitcast_convert_type(x, bits) & keep, x.dtype)
        return high, x - high

    p = rounded(a * b)
    (a_high, a_low), (b_high, b_low) = split(a), split(b)
    # Each product is rounded before it is added, in every program: the last bit of a small difference shows it.
    middle = (a_high * b_high - p) + rounded(a_high * b_low) + rounded(a_low * b_high)
    return p, middle + rounded(a_low * b_low)


class TwoFloat(NamedTuple):
    """The number ``high + low``, with ``|low|`` at most half a unit in the last place of ``high``."""

    high: Float[Array, "..."]
    low: Float[Array, "..."]

    @property
    def value(self) -> Float[Array, "..."]:
        """The nearest single float."""
        return self.high + self.low

    def plus(self, other: "TwoFloat") -> "TwoFloat":
        """Add, to twice the precision."""
        high, error = two_sum(self.high, other.high)
        return type(self)(*two_sum(high, error + (self.low + other.low)))

    def minus(self, other: "TwoFloat") -> "TwoFloat":
        """Subtract, to twice the precision: equal numbers give exactly zero, unequal ones never do."""
        return self.plus(TwoFloat(-other.high, -other.low))

    def divided_by(self, divisor: float | int) -> "TwoFloat":
        """Divide by a plain number, to twice the precision."""
        # Chosen for each number: of a constant XLA makes its reciprocal, and of a number times both the number itself.
        b = jnp.where(jnp.isnan(self.high), self.high, jnp.asarray(divisor, self.high.dtype))
        quotient = self.high / b
        p, e = _two_product(quotient, b)
        rest = ((self.high - p) - e) + self.low
        return type(self)(*two_sum(quotient, rest / b))


def two_float_from_limbs(low: UInt32[Array, "..."], high: Int[Array, "..."]) -> TwoFloat:
    """Return the integer ``high 2³² + low`` as two floats: exact below 2⁴⁸ in float32, below 2⁵³ in float64."""
    dtype = jnp.result_type(float)
    total, error = two_sum(high.astype(dtype) * 2.0**32, (low >> 16).astype(dtype) * 2.0**16)
    total, last_error = two_sum(total, (low & 0xFFFF).astype(dtype))
    return TwoFloat(*two_sum(total, error + last_error))
