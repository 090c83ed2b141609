"""Shapley values against a background sample, path by path.

A coalition takes its columns from the instance, and the others from a row of the sample. Each column of a leaf's path
lets the instance through or stops it, and likewise the row. Let a be the number of columns that stop the row, and b the
number that stop the instance. A coalition reaches the leaf if it has all a columns and none of the b columns. No
coalition does if a column stops both. Otherwise the leaf's statistic v adds::

    v (a - 1)! b! / (a + b)!     to each of the a columns
    -v a! (b - 1)! / (a + b)!    to each of the b columns

The shares are means over the rows of the sample.
"""

from functools import partial, reduce
from math import comb
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxunc._numerics import ceil_div, multiple_of, order_key, padded_rows, power_of_two
from jaxunc.inference import Chunk, HostProgram, Shapes
from jaxunc.tables import Encoded

from ._calls import Kernel
from ._paths import Unrolled

ROWS = 64
"""Number of the sample's rows in a block."""
SIZES = {"cpu": (16, 64), "accelerator": (512, 512)}
"""(Number of paths in a block, number of instances in a call, or in a block of an accelerator's one call). On a CPU a
block's arrays stay in the cache; an accelerator takes as long for few paths and instances as for many."""
FEW = 8
"""Number of instances in small calls."""
BLOCK_BYTES = 2**29
"""Memory of a block on an accelerator; blocks have fewer instances rather than more memory."""
MOST_FEATURES = 2**10
"""Largest number of columns for which an accelerator sums the paths' shares by a product of matrices: additions at
indices wait for each other, and come in any order."""


def paths_on_device(unrolled: Unrolled, table: Float[np.ndarray, "paths stat"], platform: str) -> tuple[Any, ...]:
    """Return (number of blocks, blocks of paths, (a factors, b factors)) on the device.

    ``unrolled`` has the trees' paths, and ``table`` the statistic of the leaf at the end of each. ``platform``, "cpu"
    or "accelerator", sets the size of blocks: arrays ``[blocks paths …]`` of the first four fields of `Paths`, of each
    path's tree, and of its leaf's statistic. The factors are those of the module's formulas, in tables ``[a b]``.
    """
    n_paths = len(table)
    width = multiple_of(4, unrolled.most_columns)
    dtype = jnp.result_type(float)
    # Padding adds nothing, since its paths have the statistic 0. By it forests of similar size share programs.
    arrays = (*unrolled.paths.widen(width)[:4], unrolled.tree.astype(np.int32), table.astype(dtype))
    size, _ = SIZES[platform]
    numbers = range(width + 1)
    blocks = [padded_rows(array, power_of_two(n_paths, size)).reshape(-1, size, *array.shape[1:]) for array in arrays]

    def a_factor(a: int, b: int) -> float:
        """Return (a - 1)! b! / (a + b)!; 0 for a = 0."""
        return 1 / (a * comb(a + b, a)) if a else 0

    a_factors = np.array([[a_factor(a, b) for b in numbers] for a in numbers], dtype)
    b_factors = np.ascontiguousarray(a_factors.T)  # a! (b - 1)! / (a + b)!
    return jax.device_put((np.int32(ceil_div(n_paths, size)), blocks, (a_factors, b_factors)))


def kernel_by_background(paths: tuple[Any, ...], sample: Encoded, n_features: int, platform: str) -> Kernel:
    """Return the `Kernel` of Shapley values against the rows of a background ``sample``.

    ``paths`` is a result of `paths_on_device`, for the same ``platform``: "cpu" or "accelerator". The trees have
    ``n_features`` columns.
    """
    n_blocks, blocks, factors = paths
    column, *_, table = blocks
    _, n_paths, width = column.shape
    n_stats = table.shape[-1]
    dtype = table.dtype
    n_rows = len(sample.values)
    rows = padded_rows(np.asarray(sample.values), multiple_of(ROWS, n_rows))
    counts = padded_rows(np.full(n_rows, 1 / n_rows, dtype), len(rows))  # padding has the weight 0
    # The largest power of two of instances whose arrays take no more than `BLOCK_BYTES`.
    instance_bytes = n_paths * (3 * ROWS + (3 + n_stats) * width) * dtype.itemsize
    max_rows = min(SIZES[platform][1], max(FEW, power_of_two(BLOCK_BYTES // instance_bytes + 1) // 2))
    shapes = Shapes(Chunk(max_rows, max_rows), None, (Chunk(FEW, FEW),))
    by_product = platform != "cpu" and n_features <= MOST_FEATURES
    arrays = (n_blocks, (column, *blocks[1:]), rows, counts, factors)
    return Kernel(_values, by_product, arrays, shapes, depends_on_missing=False)


@partial(HostProgram, static_argnums=(0, 1))
def _values(_, by_product: bool, arrays: tuple, x: Array, mask: Array | None) -> Array:
    """Return the Shapley values of the instances ``x``, ``[instances features stat]``, summed over blocks of paths.

    ``arrays`` are the number of blocks, the blocks, the background sample, the weights of its rows, and two tables
    ``[a b]``: (a - 1)! b! / (a + b)! for a columns, and a! (b - 1)! / (a + b)! for b columns. If ``by_product``, a
    product of matrices adds the paths' shares to their columns, else additions at indices do. ``mask [instances
    trees]`` is the tree mask, or None.
    """
    n_blocks, blocks, rows, row_weights, factors = arrays
    instance_keys = _keys(x)
    row_keys = _keys(rows.reshape(-1, ROWS, rows.shape[1]))
    n_features = x.shape[1]
    n_stats = blocks[-1].shape[2]
    dtype = row_weights.dtype

    def add_paths(block, total):
        """Add the values of the ``block``-th block of paths to ``total`` ``[features stat instances]``.

        As in the module's formulas, a is the number of columns that stop a background row, and b the number of those
        that stop the instance. A path adds to the sum if no column stops both.
        """
        *paths, tree, table = (lax.dynamic_index_in_dim(array, block, keepdims=False) for array in blocks)
        index = jnp.maximum(paths[0], 0)  # of columns; unused entries stop nothing, and so add 0 to column 0
        stops = _find_stops(paths, index, instance_keys)
        bits = _as_bits(stops)
        b = stops.sum(axis=1)

        def add_rows(sums, row_block):
            """Return both sums with the shares of a block of background rows added, and None, as `lax.scan` asks.

            The sums are of the shares of a columns, and of the factors of b columns, which are equal for all of these.
            The block is ``(keys, whether missing, weights)``.
            """
            a_sum, b_sum = sums
            *keys, weight = row_block
            row_stops = _find_stops(paths, index, keys)
            row_bits = _as_bits(row_stops)
            a = row_stops.sum(axis=1)
            # Whether no column stops both, and some coalition reaches the leaf, ``[paths rows instances]``.
            common_bits = [i[:, None] & r[:, :, None] for i, r in zip(bits, row_bits, strict=True)]
            is_reached = reduce(jnp.bitwise_or, common_bits) == 0
            a_factors, b_factors = (
                jnp.where(is_reached, array[a[:, :, None], b[:, None]], 0) * weight[:, None] for array in factors
            )
            a_shares = jnp.einsum("pcr,pri->pci", row_stops.astype(dtype), a_factors, precision=lax.Precision.HIGHEST)
            return (a_sum + a_shares, b_sum + b_factors.sum(axis=1)), None

        start = jnp.zeros(stops.shape, dtype), jnp.zeros(b.shape, dtype)
        (a_shares, b_shares), _ = lax.scan(add_rows, start, (*row_keys, row_weights.reshape(-1, ROWS)))
        # The shares of b columns, those that stop the instance, are negative.
        shares = a_shares - jnp.where(stops, b_shares[:, None], 0)
        if mask is not None:
            shares = jnp.where(mask.T[tree][:, None], shares, 0)
        path_values = shares[:, :, None] * table[:, None, :, None]
        path_values = path_values.reshape(-1, *path_values.shape[2:])  # [paths*columns stat instances]
        if by_product:
            is_of_column = (index.ravel() == jnp.arange(n_features, dtype=index.dtype)[:, None]).astype(dtype)
            return total + jnp.einsum("fk,ksi->fsi", is_of_column, path_values, precision=lax.Precision.HIGHEST)
        return total.at[index.ravel()].add(path_values)

    start = jnp.zeros((n_features, n_stats, len(x)), dtype)
    return lax.fori_loop(0, n_blocks, add_paths, start).transpose(2, 0, 1)


def _find_stops(paths, index: Array, instances) -> Array:
    """Return whether each column of each path stops each instance, ``[paths columns instances]``.

    ``paths`` are the first four fields of `Paths`, ``index`` their columns, 0 in unused entries, ``instances`` `_keys`.
    """
    column, low, high, passes_missing = paths
    key, missing = (array[index] for array in instances)
    passes = jnp.where(missing, passes_missing[..., None], (key > low[..., None]) & (key <= high[..., None]))
    return ~passes & (column >= 0)[..., None]


def _as_bits(stops: Array) -> list[Array]:
    """Return ``stops [paths columns instances]`` as integers ``[paths instances]`` with a bit for each of 32 columns.

    So one `&` for 32 columns shows whether one of them stops both an instance and a row.
    """
    powers = jnp.uint32(1) << jnp.arange(stops.shape[1], dtype=jnp.uint32) % 32
    return [
        jnp.where(stops[:, k : k + 32], powers[k : k + 32, None], 0).sum(axis=1, dtype=jnp.uint32)
        for k in range(0, stops.shape[1], 32)
    ]


def _keys(x: Array) -> tuple[Array, Array]:
    """Return (order keys, whether missing), both ``[... columns instances]``, of ``x [... instances columns]``."""
    x = jnp.swapaxes(x, -1, -2)
    return order_key(x), jnp.isnan(x)
