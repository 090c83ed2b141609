"""Numbers as bits: floats as integers of the same order, and two 32-bit numbers in one 8-byte element.

XLA on CPU flushes subnormal floats to zero before it compares them, but not integers. So `order_key` makes comparisons
exact on every backend. One gather reads both numbers of a paired array. `count_before` counts booleans.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Complex64, Float, Int32, Int64

NAN_FIRST = np.int32(np.iinfo(np.int32).min)
"""Key of a missing value that goes left: smaller than the key of every number."""
NAN_LAST = np.int32(np.iinfo(np.int32).max)
"""Key of a missing value that goes right, and of a leaf's threshold: nothing is larger."""


def order_key(x: Float[Array, "..."]) -> Int32[Array, "..."]:
    """Return integer keys of the float32 numbers ``x``, in the same order: ``key(a) < key(b)`` exactly where ``a < b``.

    Subnormals are told apart. Let b be the bits of a float32 as a signed integer. The key is b where b >= 0, and
    -2³¹ - b where b < 0; so -0 and +0 share the key 0. NaN has a key beyond those of the infinities; callers replace it
    by `NAN_FIRST` or `NAN_LAST`.
    """
    bits = lax.bitcast_convert_type(jnp.asarray(x, jnp.float32), jnp.int32)
    return jnp.where(bits < 0, jnp.int32(NAN_FIRST) - bits, bits)


def order_key_at_or_below(thresholds: np.ndarray) -> np.ndarray:
    """Return for each float64 threshold t the order key of the largest float32 that is not above t, on the host.

    For float32 x the test ``float64(x) <= t`` is then exactly ``order_key(x) <= key``. Rounding t to the nearest
    float32 would change answers where data and thresholds lie on one grid of decimals.
    """
    wide = np.asarray(thresholds, dtype=np.float64)
    # A threshold beyond float32 becomes infinite, and the step down from it is the largest float32.
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
        below = np.nextafter(narrow, np.float32(-np.inf))
    bits = np.where(narrow.astype(np.float64) > wide, below, narrow).view(np.int32)
    return np.where(bits < 0, NAN_FIRST - bits, bits)


def order_key_below(thresholds: np.ndarray) -> np.ndarray:
    """Return for each float64 threshold t the order key of the largest float32 below t, on the host.

    For float32 x the test ``float64(x) < t`` is then exactly ``order_key(x) <= key``.
    """
    wide = np.asarray(thresholds, dtype=np.float64)
    with np.errstate(over="ignore"):
        is_float32 = wide.astype(np.float32).astype(np.float64) == wide
    # A threshold that is a float32 itself has the float32 below it one key before; that of others is below already.
    return order_key_at_or_below(wide) - is_float32.astype(np.int32)


def pair_words(first: Array, second: Array) -> Complex64[Array, "..."]:
    """Return two 32-bit arrays of one shape as one complex array, whose numbers programs may move but not compute with.

    Arrays that outlive a program are joined by `pair_bits` instead.
    """
    real = lax.bitcast_convert_type(first, jnp.float32)
    imaginary = lax.bitcast_convert_type(second, jnp.float32)
    return lax.complex(real, imaginary)


def split_words(pairs: Complex64[Array, "..."], first: DTypeLike, second: DTypeLike) -> tuple[Array, Array]:
    """Return the two 32-bit arrays that `pair_words` has joined; ``first`` and ``second`` are their dtypes."""
    return lax.bitcast_convert_type(lax.real(pairs), first), lax.bitcast_convert_type(lax.imag(pairs), second)


def pair_bits(first: Any, second: Any) -> Any:
    """Return the 32-bit arrays ``first`` and ``second``, of one shape, as one array of 64-bit integers.

    ``first`` makes the lower halves. The result is NumPy's if the arrays are, else JAX's. It may outlive a program:
    code that computes with the floats of a pytree (an optimiser, a moving average, mixed precision) leaves integers as
    they are. JAX moves 64-bit integers in its 32-bit mode, too, but makes them only in its 64-bit mode.
    """
    if isinstance(first, np.ndarray):
        halves = np.empty((*first.shape, 2), "<u4")
        halves[..., 0] = first.view(np.uint32)
        halves[..., 1] = second.view(np.uint32)
        return halves.view("<i8")[..., 0]
    with jax.enable_x64(True):
        low = lax.bitcast_convert_type(first, jnp.uint32).astype(jnp.int64)
        high = lax.bitcast_convert_type(second, jnp.uint32).astype(jnp.int64)
        return low | lax.shift_left(high, jnp.full_like(high, 32))


def split_bits(pairs: Int64[Array, "..."], first: DTypeLike, second: DTypeLike) -> tuple[Array, Array]:
    """Return the arrays, of dtypes ``first`` and ``second``, that `pair_bits` joined; a TypeError if not of int64."""
    _check_bits(pairs, jnp.int64)
    low = lax.convert_element_type(pairs, jnp.uint32)
    high = lax.convert_element_type(lax.shift_right_logical(pairs, lax.full_like(pairs, 32)), jnp.uint32)
    return lax.bitcast_convert_type(low, first), lax.bitcast_convert_type(high, second)


def as_bits(numbers: Any) -> Any:
    """Return floats as integers of the same bits, which may outlive a program (`pair_bits`); others unchanged."""
    if not jnp.issubdtype(numbers.dtype, jnp.floating):
        return numbers
    dtype = _BITS[numbers.dtype.itemsize]
    return numbers.view(dtype) if isinstance(numbers, np.ndarray) else lax.bitcast_convert_type(numbers, dtype)


def of_bits(bits: Array, dtype: DTypeLike) -> Array:
    """Return the numbers of type ``dtype`` that `as_bits` made into ``bits``; a TypeError if the dtypes do not fit."""
    if not jnp.issubdtype(dtype, jnp.floating):
        _check_bits(bits, dtype)
        return bits
    _check_bits(bits, _BITS[jnp.dtype(dtype).itemsize])
    return lax.bitcast_convert_type(bits, dtype)


_BITS = {1: jnp.int8, 2: jnp.int16, 4: jnp.int32, 8: jnp.int64}


def _check_bits(bits: Array, expected: DTypeLike) -> None:
    """Raise a TypeError, which tells the likely causes, unless ``bits`` has the ``expected`` dtype."""
    if bits.dtype != expected:
        raise TypeError(
            f"an array that holds bits has the dtype {bits.dtype}; expected {jnp.dtype(expected)}: something computed "
            "with the arrays of a bound forest, or made them anew in JAX's 32-bit mode, which cuts 64-bit integers. "
            "Change the rule or the forest, and bind them again; map floats; make arrays within jax.enable_x64(True)."
        )


_TAKE = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))


def take(flat: Array, index: Int32[Array, "..."]) -> Array:
    """Return ``flat[index]`` of an array of one axis; all indices must be in range, since bounds are not checked."""
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.gather(flat, index[..., None], _TAKE, slice_sizes=(1,), mode=mode)


def take_rows(table: Array, index: Int32[Array, "..."]) -> Array:
    """Return the rows ``table[index]``, ``[... columns]``; all indices must be in range: bounds are not checked."""
    return table.at[index].get(mode="promise_in_bounds")


_BIT_POSITIONS = np.arange(32, dtype=np.uint32)


def count_before(flags: Bool[Array, "n"]) -> Int32[Array, "n"]:
    """Return how many of the ``flags`` before each position are True; n must be a multiple of 32.

    A plain ``cumsum`` costs twice as much on a CPU.
    """
    # 32 booleans are the bits of a word: a running sum over words, and bit counts within each word.
    words = jnp.sum(flags.reshape(-1, 32).astype(jnp.uint32) << _BIT_POSITIONS, axis=1, dtype=jnp.uint32)
    n_in_word = lax.population_count(words).astype(jnp.int32)
    n_before_word = jnp.cumsum(n_in_word) - n_in_word
    lower_bits = (np.uint32(1) << _BIT_POSITIONS) - np.uint32(1)  # for each position the bits below it
    n_within_word = lax.population_count(words[:, None] & lower_bits).astype(jnp.int32)
    return (n_before_word[:, None] + n_within_word).reshape(-1)
