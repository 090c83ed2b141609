"""The engine without a leaf table: it looks up the statistics of distinct count vectors for each instance and tree.

It serves forests whose leaf table would be large, and forests whose empty leaves are followed. There further rows serve
instances in empty leaves. In the mode "sum" such a row has the summed counts of the leaves that an instance reaches
from there, and is lifted like all rows. In the mode "average" it is the average of their statistics.

`answer_by_rows` goes by *stretches* of `STRETCH` instances, each cut into blocks. It routes the instances of a stretch
to their leaves, makes the rows, and merges the rows of each block in one program, `_merge_rows`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, PyTree

from jaxunc._numerics import counts_dtype, distinct_rows, jit, padded_rows, padded_table, power_of_two
from jaxunc.combiners import Combiner, combine_counts, has_tree_fields, lift_rows, merge_kinds, merged, read_answer
from jaxunc.forest import Forest, Trees
from jaxunc.tables import SparseRows

from ._drive import Chunk, Part, Shapes, cut, drive_on_host, thread_map
from ._leaves import SMALLEST_ROUND, Empty, counts_reached, empty_pairs, planned_leaf_index, sums_reached
from ._merge_leaves import Traced, leaf_table
from ._plan import Plan, make_plan, tall_top
from ._walk import Walk

STRETCH = 2**15
"""Number of instances whose sums of counts are lifted together, each distinct sum once."""
ROW_COUNTS = 2**20
"""About how many counts (instances times trees times classes) a block has, to limit its memory. A block has at least 16
and at most 1024 instances in any case."""


class BlockLeaves(NamedTuple):
    """The leaves that the instances of a block reach."""

    leaves: np.ndarray
    """The leaf of each instance in each tree, ``[instances trees]``."""
    empty: Empty
    """The pairs of an instance and a tree in which the instance ends in an empty leaf, and is routed on."""
    sums: np.ndarray
    """Summed counts of the leaves that a pair of ``empty`` reaches, ``[pairs classes]``; none in the mode "average"."""


RowsAnswer = Callable[[Part, BlockLeaves, Any], PyTree]
"""Function that answers a block of instances: (part, leaves of the instances, tree mask or None) → answer."""


class ByRows(eqx.Module):
    """The engine without a leaf table: each leaf is looked up as a row of the statistics of distinct count vectors."""

    forest: Forest
    reading: Forest
    """The forest with the count sets that the combiner reads (`Forest.reading`)."""
    plan: Plan
    """The trees' plan, for data with missing values."""
    walk: Walk = eqx.field(static=True)

    @classmethod
    def of(cls, forest: Forest, combiner: Combiner, walk: Walk) -> "ByRows":
        """Return the engine of a forest and a combiner; raise a ValueError if the combiner does not suit the forest."""
        Traced.of(forest, combiner)  # which raises the error
        plan = make_plan(forest.trees, missing=True, top=tall_top(forest.trees))
        return cls(forest, forest.reading(combiner.count_sets), plan, walk)

    def on(self, trees: Trees) -> "ByRows":
        """Return this engine with ``trees``, which are its own trees on only the columns that they test."""
        plan = make_plan(trees, missing=True, top=self.plan.top)
        forest = dataclasses.replace(self.forest, trees=trees)
        reading = dataclasses.replace(self.reading, trees=trees)
        return ByRows(forest, reading, plan, self.walk)


def answer_by_rows(engine: ByRows, combiner: Combiner, readout: str | None, values, mask, threads: int) -> PyTree:
    """Return the answer, or one read-out of it, for any number of instances ``[instances features]`` on the host.

    ``values`` are the encoded instances, ``mask`` is a tree mask of NumPy or None. In the walk "blocks" the blocks of a
    stretch are shared by ``threads``.
    """
    forest, reading = engine.forest, engine.reading
    values = values if isinstance(values, SparseRows) else np.asarray(values)
    block_size = int(np.clip(ROW_COUNTS // (forest.n_trees * forest.n_classes), 16, 1024))
    table, code = (np.asarray(array) for array in reading.leaf_rows())
    threads = threads if engine.walk == "blocks" else 1

    def score(stretch: Part) -> PyTree:
        """Return the answer for all instances of a stretch, computed block by block."""
        x = values[stretch.start : stretch.stop]
        in_mask = None if mask is None else mask[stretch.start : stretch.stop]
        parts = cut(stretch.n_instances, Shapes(Chunk(block_size, block_size)), threads=1)
        route_part = lambda part: _route(engine, part.of(x))
        blocks = dict(zip(parts, thread_map(threads)(route_part, parts), strict=True))
        if forest.follows_forks and forest.empty_leaves == "average":
            answer_block = _with_averages(engine, combiner, readout, x, code)
        else:
            answer_block = _with_sums(combiner, readout, table, code, blocks)
        # A block's answer is fetched before the thread begins the next, so that their memory does not add up.
        return drive_on_host(lambda part: answer_block(part, blocks[part], part.of(in_mask)), parts, threads)

    stretches = cut(len(values), Shapes(Chunk(STRETCH, STRETCH)), threads=1)
    return jax.device_put(drive_on_host(score, stretches, threads=1))


def _route(engine: ByRows, x) -> BlockLeaves:
    """Return the leaves that the instances ``x`` of a block reach; in the mode "sum" with the sums of counts."""
    forest = engine.forest
    leaves = np.asarray(planned_leaf_index(forest.trees, engine.plan, x, engine.walk))
    if not forest.follows_forks:  # no pair is routed on
        no_pairs = np.zeros(0, np.int64)
        no_sums = np.zeros((0, engine.reading.count_table.shape[1]))
        return BlockLeaves(leaves, Empty(no_pairs, no_pairs, no_pairs), no_sums)
    empty = empty_pairs(forest.trees, leaves)
    sums = np.zeros(0)
    if forest.empty_leaves == "sum":
        sums = counts_reached(engine.reading, engine.plan, x, empty)
    return BlockLeaves(leaves, empty, sums)


def _with_sums(combiner: Combiner, readout: str | None, table, code, blocks: dict[Part, BlockLeaves]) -> RowsAnswer:
    """Return the function that answers the blocks of one stretch of instances, where each leaf has a row of counts.

    ``table [rows classes]`` and ``code [trees nodes]`` are those of `Forest.leaf_rows`; ``blocks`` has all blocks of
    the stretch. In the mode "sum", where an instance ends in an empty leaf of a tree, a sum of counts takes the leaf's
    place. The rows of distinct sums lie behind those of ``table``.
    """
    block_sums = [block.sums for block in blocks.values()]
    distinct, sum_index = distinct_rows(np.concatenate(block_sums))
    # The row of each pair's sum behind the rows of ``table``, cut where the next block's pairs begin.
    block_ends = np.cumsum([len(sums) for sums in block_sums])
    sum_rows = np.split(len(table) + sum_index, block_ends[:-1])
    sum_rows_of = dict(zip(blocks, sum_rows, strict=True))
    table = jnp.asarray(table)
    sum_table = padded_table(distinct)
    # Both tables get one type, since their planes are joined below: of integer counts a combiner may make other planes
    # than of floats.
    dtype = counts_dtype(table, sum_table)
    both_tables = table.astype(dtype), sum_table.astype(dtype)
    by_tree = has_tree_fields(combiner)
    counts = np.concatenate([np.asarray(rows) for rows in both_tables])
    stat = None
    if not by_tree:
        table_stat, sum_stat = (lift_rows(combiner, rows) for rows in both_tables)
        stat = jax.tree.map(_concatenate_rows, table_stat, sum_stat)

    def answer(part: Part, block: BlockLeaves, mask) -> PyTree:
        """Return the answer of a stretch's ``part``, whose leaves are ``block``; ``mask`` is its tree mask or None."""
        rows = code[np.arange(len(code)), block.leaves].astype(np.int32)
        rows[block.empty.instance, block.empty.tree] = sum_rows_of[part]
        if by_tree:  # each tree lifts counts by settings of its own, so that no lifted row serves all trees
            return combine_counts(combiner, counts[rows], readout, mask)
        return _merge_rows(combiner, stat, rows, readout, mask)

    return answer


def _with_averages(engine: ByRows, combiner: Combiner, readout: str | None, x, code) -> RowsAnswer:
    """Return the function that answers the blocks of one stretch of instances, in the mode "average" of empty leaves.

    ``x`` are the stretch's instances, and ``code [trees nodes]`` is that of `Forest.leaf_rows`. The statistics
    that ``combiner`` lifts are rows of a table. Where an instance ends in an empty leaf of a tree, the average of the
    leaves that it is routed on to is one more row, at the table's end.
    """
    by_tree = has_tree_fields(combiner)
    if by_tree:  # a row for each leaf of each tree
        stat = jax.tree.map(np.asarray, leaf_table(engine.forest, combiner))
        code = np.arange(code.size, dtype=np.int32).reshape(code.shape)
    else:
        stat = jax.tree.map(np.asarray, lift_rows(combiner, engine.reading.leaf_rows()[0]))
    arrays, structure = jax.tree.flatten(stat)
    n_row_axes = 2 if by_tree else 1  # of trees and nodes, or of rows
    is_plane = [array.ndim >= n_row_axes for array in arrays]  # other arrays are a number for each tree, or for all
    plane_indices = np.flatnonzero(is_plane).tolist()
    planes = [arrays[i].reshape(-1, *arrays[i].shape[n_row_axes:]) for i in plane_indices]  # [rows ...]
    kinds = merge_kinds(combiner.merge, stat)
    # In an average 0 stands for the neutral value of a minimum or a maximum; NaN equals no value of other planes.
    neutral = [{"min": np.inf, "max": -np.inf}.get(kinds[i], np.nan) for i in plane_indices]

    def answer(part: Part, block: BlockLeaves, mask) -> PyTree:
        """Return the answer of a stretch's ``part``, whose leaves are ``block``; ``mask`` is its tree mask or None."""

        def read(tree, node):
            """Return the planes at leaves, and before them a 1 for each leaf, whose sum is the number of leaves."""
            leaf_arrays = [np.ones(len(node))]
            for plane, neutral_value in zip(planes, neutral, strict=True):
                at_leaves = plane[code[tree, node]]
                leaf_arrays.append(np.where(at_leaves == neutral_value, 0, at_leaves))
            return leaf_arrays

        n_leaves, *sums = sums_reached(engine.forest.trees, engine.plan, part.of(x), block.empty, read)
        n_new = power_of_two(len(n_leaves), SMALLEST_ROUND)  # padded to few sizes, for few programs
        n_rows = planes[0].shape[0] if planes else 0
        rows = code[np.arange(len(code)), block.leaves].astype(np.int32)
        rows[block.empty.instance, block.empty.tree] = n_rows + np.arange(len(n_leaves))
        stat_arrays = list(arrays)
        for i, plane, total in zip(plane_indices, planes, sums, strict=True):
            stat_arrays[i] = _append_averages(plane, total, n_leaves, n_new)
        return _merge_rows(combiner, structure.unflatten(stat_arrays), rows, readout, mask, tuple(is_plane))

    return answer


@jit(static_argnames=("readout", "is_plane"))
def _merge_rows(
    combiner: Combiner,
    stat: PyTree,
    rows: Int32[Array, "instances trees"],
    readout: str | None,
    mask: Bool[Array, "instances trees"] | None,
    is_plane: tuple[bool, ...] | None = None,
) -> PyTree:
    """Return the answer, or one ``readout`` of it, for instances whose leaves in each tree are ``rows`` of ``stat``.

    The arrays of ``stat``, a lifted statistic, are planes ``[rows ...]``, numbers per tree ``[trees]``, or a number for
    all trees. ``is_plane`` tells which are planes; for None these are all arrays with an axis.
    """
    arrays, structure = jax.tree.flatten(stat)
    is_plane = is_plane or tuple(array.ndim > 0 for array in arrays)
    leaf_arrays = []
    for array, has_rows in zip(arrays, is_plane, strict=True):
        if has_rows:
            leaf_arrays.append(array.at[rows.T].get(mode="promise_in_bounds"))  # [trees instances ...]
        else:
            leaf_arrays.append(jnp.broadcast_to(array, rows.shape[1:]))  # [trees]
    leaf_stat = structure.unflatten(leaf_arrays)
    mask_by_tree = None if mask is None else mask.T  # [trees instances]
    return read_answer(combiner.finish(merged(combiner, leaf_stat, mask_by_tree)), readout)


def _concatenate_rows(first: Any, second: Any) -> Any:
    """Return the rows of ``first``, then those of ``second``; of two equal numbers, which have no rows, ``first``."""
    return jax.device_put(np.concatenate([first, second])) if first.ndim else first


def _append_averages(plane: np.ndarray, total: np.ndarray, sizes: np.ndarray, number: int) -> np.ndarray:
    """Return the rows of ``plane``, and behind them ``number`` rows: the averages ``total / sizes``, then zeros.

    ``total [pairs ...]`` has a sum over leaves for each pair that ends in an empty leaf, and ``sizes [pairs]`` the
    number of these leaves.
    """
    averages = total / np.maximum(sizes, 1).reshape(-1, *[1] * (total.ndim - 1))
    return np.concatenate([plane.astype(np.result_type(plane, np.float32)), padded_rows(averages, number)])
