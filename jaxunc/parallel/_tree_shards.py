"""Placement of a forest's trees on the devices of a mesh: on each those of its place along 'tree'."""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, PyTree

from jaxunc._numerics import ceil_div
from jaxunc.inference import PackedTrees, Spec

from ._grid import Grid


class Placed(NamedTuple):
    """Inputs of the compiled programs. (Tuples are taken apart sooner than modules.)"""

    arrays: tuple
    """Plan, leaf tables and numbers per tree, all trees in front, dealt out along 'tree'."""
    totals: list
    """The carry of the numbers per tree over all trees, on every device."""
    spec: Spec


def place(grid: Grid, stream: PackedTrees) -> Placed:
    """Deal a stream's trees out, in their order.

    Padded by trees that contribute nothing, so that every device has as many. Only a device's own trees travel to it,
    and only those of this process's devices are cut: the whole is read where it lies.
    """
    per_shard = trees_per_shard(grid, stream.n_trees)
    # Cut where the trees lie: slices of a forest that is larger than a device must not pass through one. Nodes are
    # 64-bit integers, which JAX takes from the host in its 64-bit mode alone.
    with jax.default_device(next(iter(stream.plan.depth.devices()))), jax.enable_x64(True):

        @lru_cache
        def shard_of(number: int) -> list[np.ndarray]:
            start, stop = (min(stream.n_trees, end * per_shard) for end in (number, number + 1))
            trees = stream.of_trees(start, stop) if grid.n_tree > 1 else stream
            trees = trees.padded(per_shard - (stop - start)) if stop - start < per_shard else trees
            return [np.asarray(array) for array in jax.tree.leaves(trees.arrays[:3])]

        leaves, structure = jax.tree.flatten(stream.arrays[:3])
        placed = [
            jax.make_array_from_callback(
                (grid.n_tree * per_shard, *leaf.shape[1:]),
                grid.sharding("tree"),
                lambda index, i=i: shard_of(first_of(index) // per_shard)[i],
            )
            for i, leaf in enumerate(leaves)
        ]
    return Placed(jax.tree.unflatten(structure, placed), on_every_device(grid, stream.totals), stream.spec)


def first_of(index: Any) -> int:
    """Return where the part of an array begins, along its first axis, that JAX asks for."""
    return index[0].start or 0


def trees_per_shard(grid: Grid, n_trees: int) -> int:
    """Return the number of trees of a device, padding included."""
    return ceil_div(n_trees, grid.n_tree)


def on_every_device(grid: Grid, arrays: PyTree[Array]) -> PyTree:
    """Return small arrays on every device; as they are where one process has all: programs spread them themselves."""
    return arrays if grid.is_alone else jax.tree.map(lambda leaf: _spread(grid, leaf), arrays)


def _spread(grid: Grid, leaf):
    if not hasattr(leaf, "dtype"):
        return leaf
    if getattr(leaf, "weak_type", False) and not leaf.shape:
        return leaf.item()  # a Python number: it takes the type of what it meets, as it did
    values = np.asarray(leaf)
    return jax.make_array_from_callback(values.shape, grid.sharding(), lambda index: values[index])
