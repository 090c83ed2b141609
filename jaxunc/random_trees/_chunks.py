"""Work through long arrays piece by piece: what one piece needs stays in the cache of a core."""

from collections.abc import Callable
from typing import TypeVar

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int32

from jaxunc._numerics import split_words

Carry = TypeVar("Carry")


def over_chunks(n: Array, size: int, body: Callable[[Array, Carry], Carry], carry: Carry) -> Carry:
    """Run ``body(start, carry)`` for the pieces of ``size`` that hold the first n entries."""
    # A traced number of pieces: a step costs what is open, not what there is room for.
    return lax.fori_loop(0, (n + (size - 1)) // size, lambda i, carry: body(i * size, carry), carry)


def piece(array: Array, start, size: int) -> Array:
    """Return ``array[start : start + size]``."""
    return lax.dynamic_slice(array, (start,), (size,))


def with_piece(array: Array, start, values: Array) -> Array:
    """Return the array with values from ``start`` on."""
    return lax.dynamic_update_slice(array, values, (start,))


def at(array: Array, index: Int32[Array, "..."]) -> Array:
    """Return ``array[index]``, the index being within bounds."""
    return array.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def pair_at(pairs: Array, index: Int32[Array, "..."]) -> tuple[Array, Array]:
    """Return both numbers of pairs, by one gather of 8-byte elements."""
    return split_words(at(pairs, index), jnp.int32, jnp.int32)


def put(array: Array, index: Int32[Array, "n"], keep: Bool[Array, "n"], values) -> Array:
    """Return the array with values at different places, where they are to be kept."""
    # What is not kept goes beyond the end, and is dropped: no branch, and no read of the old value.
    return array.at[jnp.where(keep, index, array.shape[0])].set(
        values, mode="drop", unique_indices=True, wrap_negative_indices=False
    )
