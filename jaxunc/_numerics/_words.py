"""Two 32-bit numbers in one 8-byte element, so that one gather reads both."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Complex64, Int32


def pair_words(first: Array, second: Array) -> Complex64[Array, "..."]:
    """Join two 32-bit arrays into one of 8-byte elements. Only moved, never computed with: any pattern survives.

    (A complex number is the only 8-byte element that needs no 64-bit mode.)
    """
    return lax.complex(*(lax.bitcast_convert_type(half, jnp.float32) for half in (first, second)))


def split_words(pairs: Complex64[Array, "..."], first: DTypeLike, second: DTypeLike) -> tuple[Array, Array]:
    """Return the two 32-bit arrays of `pair_words`."""
    return lax.bitcast_convert_type(lax.real(pairs), first), lax.bitcast_convert_type(lax.imag(pairs), second)


@contextmanager
def bits_are_no_numbers() -> Iterator[None]:
    """A context for programs that return `pair_words`, for users who have JAX look for NaN or infinity in results."""
    with jax.debug_nans(False), jax.debug_infs(False):
        yield


_TAKE = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))


def take(flat: Array, index: Int32[Array, "..."]) -> Array:
    """Return ``flat[index]`` without bounds handling, for indices that are known to be in range: it is cheaper."""
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.gather(flat, index[..., None], _TAKE, slice_sizes=(1,), mode=mode)
