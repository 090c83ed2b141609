"""Shapley values against a background sample, path by path.

A coalition takes its columns from the instance, and the others from a row of the sample. Each column of a leaf's path
lets the instance through or stops it, and likewise the row. Let a be the number of columns that stop the row, and b the
number that stop the instance. A coalition reaches the leaf if it has all a columns and none of the b columns. No
coalition does if a column stops both. Otherwise the leaf's statistic v adds::

    v (a - 1)! b! / (a + b)!     to each of the a columns
    -v a! (b - 1)! / (a + b)!    to each of the b columns

The shares are means over the rows of the sample.
"""

from math import comb

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxunc._checks import is_concrete, outside_traces
from jaxunc._numerics import (
    ceil_div,
    cores,
    default_platform,
    multiple_of,
    order_key,
    own_settings,
    padded_rows,
    power_of_two,
)
from jaxunc.inference import Chunk, HostProgram, Part, Shapes, cut, drive
from jaxunc.tables import Encoded

from ._paths import Unrolled

PATHS, ROWS = 16, 64
"""Number of paths in a block; number of the sample's rows in a block, and of instances in a call."""
_SHAPES = Shapes(Chunk(ROWS, ROWS), None, (Chunk(8, 8),))


def values_by_background(
    unrolled: Unrolled,
    table: Float[np.ndarray, "paths stat"],
    X: Encoded,
    sample: Encoded,
    mask: np.ndarray | Array | None,
) -> Float[Array, "instances features stat"]:
    """Return the Shapley values of each column; ``table`` holds the statistic of the leaf at the end of each path."""
    n, width, dtype = len(table), multiple_of(4, unrolled.most_columns), jnp.result_type(float)
    # Padding adds nothing: paths have the statistic 0, rows the weight 0. Forests of like size share programs.
    parts = (*unrolled.paths.widen(width)[:4], unrolled.tree.astype(np.int32), table.astype(dtype))
    arrays = [padded_rows(part, power_of_two(n, PATHS)) for part in parts]
    n_rows = len(sample.values)
    rows = padded_rows(np.asarray(sample.values), multiple_of(ROWS, n_rows))
    counts = padded_rows(np.full(n_rows, 1 / n_rows, dtype), len(rows))
    each = range(width + 1)
    weight = np.array([[1 / (a * comb(a + b, a)) if a else 0 for b in each] for a in each], dtype)
    constants = jax.device_put((arrays, rows, counts, (weight, np.ascontiguousarray(weight.T))))
    threads = cores() if default_platform() == "cpu" else 1

    def answer_part(part: Part) -> Array:
        return _values(np.int32(ceil_div(n, PATHS)), *constants, part.of(X.values), part.of(mask))

    if not is_concrete(X.values, mask):  # within someone's program
        with own_settings():
            return _values.function(np.int32(ceil_div(n, PATHS)), *constants, X.values, mask)
    with outside_traces():
        return drive(answer_part, cut(len(X.values), _SHAPES, threads), threads)


@HostProgram
def _values(n_blocks, arrays, rows, counts, weights, x, mask):
    """Return the Shapley values of a part of the instances ``[instances features stat]``, summed over blocks of paths.

    ``arrays`` are the paths, with the trees and statistics of their leaves. ``rows`` are the background sample, and
    ``counts`` their weights. ``weights`` are the factors of the a columns and of the b columns, two tables by a and b.
    """
    keys, sample = (_keys(part) for part in (x, rows.reshape(-1, ROWS, rows.shape[1])))
    n_features, n_stats, dtype = x.shape[1], arrays[-1].shape[1], counts.dtype

    def add_paths(block, total):
        *paths, tree, table = (lax.dynamic_slice_in_dim(part, block * PATHS, PATHS) for part in arrays)
        column, low, high, passes_missing = paths
        index = jnp.maximum(column, 0)

        def find_stops(instances):
            """Return which columns of paths stop which instances, ``[paths columns instances]``, and these as bits."""
            key, missing = (part[index] for part in instances)
            passes = jnp.where(missing, passes_missing[..., None], (key > low[..., None]) & (key <= high[..., None]))
            stops = ~passes & (column >= 0)[..., None]
            powers = jnp.uint32(1) << jnp.arange(stops.shape[1], dtype=jnp.uint32) % 32
            return stops, [
                jnp.where(stops[:, k : k + 32], powers[k : k + 32, None], 0).sum(axis=1, dtype=jnp.uint32)
                for k in range(0, stops.shape[1], 32)
            ]

        stops, bits = find_stops(keys)
        b = stops.sum(axis=1)

        def add_rows(sums, row_block):
            *instances, count = row_block
            row_stops, row_bits = find_stops(instances)
            a = row_stops.sum(axis=1)
            is_reached = sum((x[:, None] & y[:, :, None]) for x, y in zip(bits, row_bits, strict=True)) == 0
            a_factors, b_factors = (
                jnp.where(is_reached, part[a[:, :, None], b[:, None]], 0) * count[:, None] for part in weights
            )
            a_shares = jnp.einsum("pcr,pri->pci", row_stops.astype(dtype), a_factors, precision=lax.Precision.HIGHEST)
            return (sums[0] + a_shares, sums[1] + b_factors.sum(axis=1)), None

        start = jnp.zeros(stops.shape, dtype), jnp.zeros(b.shape, dtype)
        (a_shares, b_shares), _ = lax.scan(add_rows, start, (*sample, counts.reshape(-1, ROWS)))
        shares = a_shares - jnp.where(stops, b_shares[:, None], 0)
        if mask is not None:
            shares = jnp.where(mask.T[tree][:, None], shares, 0)
        path_values = shares[:, :, None] * table[:, None, :, None]
        return total.at[index.ravel()].add(path_values.reshape(-1, *path_values.shape[2:]))

    start = jnp.zeros((n_features, n_stats, len(x)), dtype)
    return lax.fori_loop(0, n_blocks, add_paths, start).transpose(2, 0, 1)


def _keys(x: Array) -> tuple[Array, Array]:
    """Return the values' order keys, and whether they are missing, both ``[... columns instances]``."""
    x = jnp.swapaxes(x, -1, -2)
    return order_key(x), jnp.isnan(x)
