"""Class counts: checked and in a type that holds them, and tables of distinct count vectors, each of them once."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Num

from jaxunc._checks import as_native, check_class_axis, check_counts, check_numbers, is_concrete

from ._programs import copy_in, power_of_two
from ._sums import float_dtype

AnyCounts = TypeVar("AnyCounts", Array, np.ndarray)
LARGEST_TABLE, ENTRIES_A_ROW = 2**22, 32
"""Largest table that is looked up instead of sorting, in entries, and those that take as long as sorting a row."""


def as_counts(counts) -> Num[Array, "..."]:
    """Return the counts for JAX. Integers of the host that do not fit its 32 bits become floats.

    Floats of 16 bits become float32: they hold no count beyond 65504, and fewer digits than a sum over trees needs.
    Bools count one instance or none. Raises a TypeError for what holds no numbers.
    """
    check_numbers("counts", counts)
    if not isinstance(counts, jax.Array) and is_concrete(counts):
        # On the host: as soon as JAX has them, numbers beyond 32 bits are cut without a word.
        counts = as_native(np.asarray(counts))
        narrow = jax.dtypes.canonicalize_dtype(counts.dtype)
        if np.issubdtype(narrow, np.integer) and narrow != counts.dtype and counts.size:
            limits = np.iinfo(narrow)
            if counts.min() < limits.min or counts.max() > limits.max:
                counts = counts.astype(jnp.result_type(float))
    counts = copy_in(counts)
    if counts.dtype == jnp.bool_:
        return counts.astype(jnp.int32)
    narrow_float = jnp.issubdtype(counts.dtype, jnp.floating) and counts.dtype.itemsize < 4
    return counts.astype(jnp.float32) if narrow_float else counts


def checked_counts(counts) -> Num[Array, "... classes"]:
    """Return counts as `as_counts` does; a ValueError unless they are finite, >= 0, and have an axis of classes."""
    counts = as_counts(counts)
    check_class_axis(counts)
    check_counts(counts)
    return counts


def counts_dtype(*tables) -> jnp.dtype:
    """Return the dtype that holds all of these counts: that of floats if there are any, else of the widest integers."""
    dtypes = [jax.dtypes.canonicalize_dtype(table.dtype) for table in tables]
    if any(jnp.issubdtype(dtype, jnp.floating) for dtype in dtypes):
        return float_dtype(*tables)
    return jnp.dtype(np.result_type(*dtypes))


def subtract_counts(counts: AnyCounts, part: AnyCounts) -> AnyCounts:
    """Return counts less those that an instance adds, of NumPy or JAX; exact zeros for a leaf that held it alone."""
    rest = counts - part
    nothing = 4 * float(np.finfo(np.float32).eps) * counts.astype(float_dtype(counts))
    return rest.__array_namespace__().where(rest.astype(nothing.dtype) <= nothing, rest.dtype.type(0), rest)


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows, sorted, and the index of each row among them; by columns, much faster than by rows."""
    most = min(LARGEST_TABLE, ENTRIES_A_ROW * len(rows))
    if rows.size and rows.min() >= 0 and rows.max() < most:
        # Small counts, as in leaves, number the vectors: no sorting.
        sides = np.array([column.max() for column in rows.T], np.int64) + 1
        small = rows.astype(np.int32) if np.log2(sides).sum() <= np.log2(most) + 1e-9 else None
        if small is not None and (rows.dtype.kind in "iu" or np.array_equal(small, rows)):
            # The vectors as numbers of a mixed radix: marks in a table find the distinct ones and their order at once.
            number = np.zeros(len(rows), np.int32)
            for column, side in zip(small.T, sides, strict=True):
                number *= int(side)
                number += column
            seen = np.zeros(np.prod(sides), np.int32)
            seen[number] = 1
            present = np.flatnonzero(seen)
            index = np.cumsum(seen, dtype=np.int32) - 1
            return np.stack(np.unravel_index(present, tuple(sides)), axis=1).astype(rows.dtype), index[number]
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = np.any([column[1:] != column[:-1] for column in ordered.T], axis=0)
    index = np.empty(len(rows), np.int64)
    index[order] = np.cumsum(is_new) - 1
    return ordered[is_new], index


def distinct_counts(counts: np.ndarray) -> tuple[jnp.ndarray, jnp.ndarray]:
    """Return the ``count_table`` and ``code`` of counts ``[trees nodes classes]``."""
    n_trees, n_nodes, n_classes = counts.shape
    rows, inverse = distinct_rows(np.concatenate([np.zeros((1, n_classes)), counts.reshape(-1, n_classes)]))
    return padded_table(rows), jnp.asarray(inverse[1:].reshape(n_trees, n_nodes).astype(np.int32), jnp.int32)


def padded_table(table: np.ndarray):
    """Return `narrowest_counts`, with zero rows up to a power of two."""
    padded = np.zeros((power_of_two(len(table), 1024), table.shape[1]))
    padded[: len(table)] = table
    return narrowest_counts(padded)


def narrowest_counts(table: np.ndarray) -> jnp.ndarray:
    dtype = narrowest_dtype(table)
    return jnp.asarray(table.astype(dtype), dtype)  # JAX would compile a program that converts


def narrowest_dtype(table: np.ndarray) -> np.dtype:
    """Return int32 for integer counts where they fit, else the dtype of floats."""
    # Integers stay integers, so that sums and ties over trees are exact; fractions come from weights.
    integral = np.all(table == np.rint(table)) and table.max(initial=0) < 2**31
    return np.dtype(np.int32) if integral else jnp.result_type(float)


def one_row(weight: np.ndarray) -> float:
    """Return what one row weighs: 1, as weights are repeats, or the largest of the weights where that is smaller."""
    return float(min(1, weight.max(initial=0))) or 1.0
