"""Two 32-bit numbers in one 8-byte element, so that one gather reads both."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Complex64, Int32, Int64


def pair_words(first: Array, second: Array) -> Complex64[Array, "..."]:
    """Join two 32-bit arrays into one of 8-byte elements, for the way through a program: any pattern survives.

    Only moved, never computed with. What a program returns, and others may compute with, is kept by `pair_bits`.
    """
    return lax.complex(*(lax.bitcast_convert_type(half, jnp.float32) for half in (first, second)))


def split_words(pairs: Complex64[Array, "..."], first: DTypeLike, second: DTypeLike) -> tuple[Array, Array]:
    """Return the two 32-bit arrays of `pair_words`."""
    return lax.bitcast_convert_type(lax.real(pairs), first), lax.bitcast_convert_type(lax.imag(pairs), second)


def pair_bits(first: Array, second: Array) -> Int64[Array, "..."]:
    """Join two 32-bit arrays into one of 8-byte elements, to be kept.

    They are integers, so that what computes with the floats of a tree of arrays (an optimiser, a moving average, mixed
    precision) leaves them. JAX moves 64-bit integers in its 32-bit mode, too, and asks for the other to make them.
    """
    with jax.enable_x64(True):
        low, high = (lax.bitcast_convert_type(half, jnp.uint32).astype(jnp.int64) for half in (first, second))
        return low | lax.shift_left(high, jnp.full_like(high, 32))


def split_bits(pairs: Int64[Array, "..."], first: DTypeLike, second: DTypeLike) -> tuple[Array, Array]:
    """Return the two 32-bit arrays of `pair_bits`; raise a TypeError of what is no longer made of bits."""
    _check_bits(pairs, jnp.int64)
    low = lax.convert_element_type(pairs, jnp.uint32)
    high = lax.convert_element_type(lax.shift_right_logical(pairs, lax.full_like(pairs, 32)), jnp.uint32)
    return lax.bitcast_convert_type(low, first), lax.bitcast_convert_type(high, second)


def as_bits(numbers: Array) -> Array:
    """Return the bits of floats as integers of their size, to be kept as `pair_bits` are; other numbers as they are."""
    if not jnp.issubdtype(numbers.dtype, jnp.floating):
        return numbers
    return lax.bitcast_convert_type(numbers, _BITS[numbers.dtype.itemsize])


def of_bits(bits: Array, dtype: DTypeLike) -> Array:
    """Return the numbers of `as_bits`; raise a TypeError of what is no longer made of bits."""
    if not jnp.issubdtype(dtype, jnp.floating):
        _check_bits(bits, dtype)
        return bits
    _check_bits(bits, _BITS[jnp.dtype(dtype).itemsize])
    return lax.bitcast_convert_type(bits, dtype)


_BITS = {1: jnp.int8, 2: jnp.int16, 4: jnp.int32, 8: jnp.int64}


def _check_bits(bits: Array, expected: DTypeLike) -> None:
    if bits.dtype != expected:
        raise TypeError(
            f"an array that holds bits has the dtype {bits.dtype}; expected {jnp.dtype(expected)}: something computed "
            "with the arrays of a bound forest, or made them anew in JAX's 32-bit mode, which cuts 64-bit integers. "
            "Change the rule or the forest, and bind them again; map floats; make arrays within jax.enable_x64(True)."
        )


_TAKE = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))


def take(flat: Array, index: Int32[Array, "..."]) -> Array:
    """Return ``flat[index]`` without bounds handling, for indices that are known to be in range: it is cheaper."""
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.gather(flat, index[..., None], _TAKE, slice_sizes=(1,), mode=mode)
