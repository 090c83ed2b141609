"""Further counts of a forest's leaves, beside those that rules read by default."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, Num

from jaxunc._checks import is_concrete
from jaxunc._numerics import counts_dtype, padded_table

OWN = "own"
"""Name of the counts that a forest shows as its own: of the sample that grew it, unless it was counted again."""

LARGEST_SQUARE = 2**24
"""Largest number of pairs of rows that are marked in a table instead of being sorted."""


class CountSet(eqx.Module):
    """The class counts of all leaves, as a forest keeps them: each distinct count vector once."""

    count_table: Num[Array, "distinct columns"]
    """Distinct count vectors; row 0 is all zeros."""
    code: Int32[Array, "trees nodes"]
    """Row of ``count_table`` for each node."""
    fork_counts: Num[Array, "padded_forks columns"] | None = None
    """Counts of the multi-way tests, where something reads them."""


def side_by_side(first: CountSet, second: CountSet) -> CountSet:
    """Join two countings into one with the columns of both (traceable).

    Where values are known, each distinct pair of rows is kept once.
    """
    if is_concrete(first, second):
        table, code = _distinct_pairs(first, second)
    else:
        rows = [one.count_table[one.code].reshape(first.code.size, -1) for one in (first, second)]
        table = jnp.concatenate(_of_one_dtype(*rows), axis=1)
        code = jnp.arange(first.code.size, dtype=jnp.int32).reshape(first.code.shape)
    forks = None
    if first.fork_counts is not None and second.fork_counts is not None:
        forks = jnp.concatenate(_of_one_dtype(first.fork_counts, second.fork_counts), axis=1)
    return CountSet(table, code, forks)


def _distinct_pairs(first: CountSet, second: CountSet) -> tuple[Array, Array]:
    tables = [np.asarray(one.count_table, np.float64) for one in (first, second)]
    a, b = (np.asarray(one.code, np.int64) for one in (first, second))
    n_second = len(tables[1])
    # A pair of rows as one integer; int64, since two large tables have more pairs than 32 bits number.
    pair = (a * n_second + b).ravel()
    if len(tables[0]) * n_second <= LARGEST_SQUARE:
        present = np.zeros(len(tables[0]) * n_second, bool)
        present[pair] = present[0] = True  # row 0 is that of no counts, as in every forest
        pairs, code = np.flatnonzero(present), (np.cumsum(present, dtype=np.int32) - 1)[pair]
    else:
        pairs, code = np.unique(np.concatenate([[0], pair]), return_inverse=True)
        code = code[1:]
    table = padded_table(np.concatenate([tables[0][pairs // n_second], tables[1][pairs % n_second]], axis=1))
    return table, jnp.asarray(code.reshape(a.shape), jnp.int32)


def _of_one_dtype(first: Array, second: Array) -> list[Array]:
    dtype = counts_dtype(first, second)
    return [first.astype(dtype), second.astype(dtype)]
