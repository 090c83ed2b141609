"""Distinct count vectors, once each."""

import jax.numpy as jnp
import numpy as np

from ._sizes import power_of_two

LARGEST_TABLE, ENTRIES_A_ROW = 2**22, 32
"""Largest table that is looked up instead of sorting, in entries, and those that take as long as sorting a row."""


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows, sorted, and the place of each row among them. By columns: much faster than by rows."""
    most = min(LARGEST_TABLE, ENTRIES_A_ROW * len(rows))
    if rows.size and rows.min() >= 0 and rows.max() < most:
        # Small counts, as in leaves, number the vectors: no sorting.
        sides = np.array([column.max() for column in rows.T], np.int64) + 1
        small = rows.astype(np.int32) if np.prod(sides.astype(np.float64)) <= most else None
        if small is not None and (rows.dtype.kind in "iu" or np.array_equal(small, rows)):
            # The vectors as numbers of a mixed radix: marks in a table find the distinct ones and their order at once.
            number = np.zeros(len(rows), np.int32)
            for column, side in zip(small.T, sides, strict=True):
                number *= int(side)
                number += column
            seen = np.zeros(np.prod(sides), np.int32)
            seen[number] = 1
            present = np.flatnonzero(seen)
            place = np.cumsum(seen, dtype=np.int32) - 1
            return np.stack(np.unravel_index(present, tuple(sides)), axis=1).astype(rows.dtype), place[number]
    # Column by column: rows that are equal so far share a number, which stays below rows times values.
    group = np.zeros(len(rows), np.int64)
    for column in rows.T:
        values, index = np.unique(column, return_inverse=True)
        _, group = np.unique(group * len(values) + index, return_inverse=True)
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    return rows[first], inverse


def distinct_counts(counts: np.ndarray) -> tuple[jnp.ndarray, jnp.ndarray]:
    """Return the ``count_table`` and ``code`` of counts ``[trees nodes classes]``."""
    n_trees, n_nodes, n_classes = counts.shape
    rows, inverse = distinct_rows(np.concatenate([np.zeros((1, n_classes)), counts.reshape(-1, n_classes)]))
    return padded_table(rows), jnp.asarray(inverse[1:].reshape(n_trees, n_nodes), jnp.int32)


def padded_table(table: np.ndarray):
    """Return `narrowest_counts`, with zero rows up to a power of two."""
    padded = np.zeros((power_of_two(len(table), 1024), table.shape[1]))
    padded[: len(table)] = table
    return narrowest_counts(padded)


def narrowest_counts(table: np.ndarray) -> jnp.ndarray:
    """Return counts on the device, in `narrowest_dtype`."""
    return jnp.asarray(table, narrowest_dtype(table))


def narrowest_dtype(table: np.ndarray) -> np.dtype:
    """Return int32 for integer counts where they fit, else the dtype of floats."""
    # Integers stay integers, so that sums and ties over trees are exact; fractions come from weights.
    integral = np.all(table == np.rint(table)) and table.max(initial=0) < 2**31
    return np.dtype(np.int32) if integral else jnp.result_type(float)
