"""Floats as integers of the same order, so that comparisons are exact on every backend.

XLA on CPU flushes subnormal floats to zero before it compares them; integers it leaves alone.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int32

NAN_FIRST = np.int32(np.iinfo(np.int32).min)
"""Key of a missing value that goes left: smaller than the key of every number."""

NAN_LAST = np.int32(np.iinfo(np.int32).max)
"""Key of a missing value that goes right, and of a leaf's threshold: nothing is larger."""


def order_key(x: Float[Array, "..."]) -> Int32[Array, "..."]:
    """Return integer keys with ``key(a) < key(b)`` exactly when ``a < b``, subnormals included.

    With b the bits of the float32 as a signed integer, the key is b where b >= 0 and -2³¹ - b
    where b < 0; so -0 and +0 share the key 0. NaN has a key beyond that of the infinities: callers
    replace it by ``NAN_FIRST`` or ``NAN_LAST``.
    """
    bits = lax.bitcast_convert_type(jnp.asarray(x, jnp.float32), jnp.int32)
    return jnp.where(bits < 0, jnp.int32(NAN_FIRST) - bits, bits)


def order_key_at_or_below(thresholds: np.ndarray) -> np.ndarray:
    """Return keys of the largest float32 not above each float64 threshold (on the host).

    For float32 x the test ``float64(x) <= t`` is then exactly ``order_key(x) <= key``: rounding t
    down changes no answer, rounding it to nearest does where data and thresholds lie on one grid of decimals.
    """
    wide = np.asarray(thresholds, dtype=np.float64)
    # A threshold beyond float32 becomes infinite, which the step down then makes the largest float32.
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
        below = np.nextafter(narrow, np.float32(-np.inf))
    bits = np.where(narrow.astype(np.float64) > wide, below, narrow).view(np.int32)
    return np.where(bits < 0, NAN_FIRST - bits, bits)


def order_key_below(thresholds: np.ndarray) -> np.ndarray:
    """Return keys of the largest float32 below each float64 threshold (on the host).

    For float32 x the test ``float64(x) < t`` is then exactly ``order_key(x) <= key``. The key before -inf is no
    number's.
    """
    wide = np.asarray(thresholds, dtype=np.float64)
    with np.errstate(over="ignore"):
        is_float32 = wide.astype(np.float32).astype(np.float64) == wide
    return order_key_at_or_below(wide) - is_float32.astype(np.int32)
