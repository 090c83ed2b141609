"""Walking instances to their leaves, in the form that suits the backend.

* *blocks* (CPU): one tree at a time over a block of instances that stays in the cache, each tree to its own depth.
* *levels* (GPU, TPU): all trees at once, one level per kernel; blocks are as large as the memory allows.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int32, PyTree

from jaxunc._checks import is_concrete
from jaxunc.forest import Forest

from ._plan import TOP_LEVELS, Plan, split_words, take

BLOCK = 2048
"""Instances per block on CPU: in larger ones XLA splits every level over its threads, at a loss."""

DEVICE_BYTES = 950_000_000
"""Memory that one block may take for its intermediate values on an accelerator."""


def default_form() -> str:
    """The form for the default backend."""
    return "blocks" if jax.default_backend() == "cpu" else "levels"


def unrolled_depth(form: str, forest: Forest) -> int:
    """How many levels to unroll: a structure in the form "levels" alone, and only where the host knows it."""
    if form == "blocks":
        return 0
    return forest.depth if is_concrete(forest.tree_depth) else -1


def block_size(form: str, n_trees: int, n_columns: int) -> int:
    """Instances that are walked at a time."""
    return BLOCK if form == "blocks" else max(1, DEVICE_BYTES // (12 * n_trees + 4 * n_columns))


def walk_tree(tree: Plan, keys: Int32[Array, "columns block"]) -> Int32[Array, "block"]:
    """The leaf of one tree (a slice of a plan) for each instance of a block."""
    block = keys.shape[1]
    child_bits = (tree.nodes.shape[0] - 1).bit_length()
    lane, flat_keys = jnp.arange(block, dtype=jnp.int32), keys.reshape(-1)

    def descend(_, node):
        threshold, word = split_words(take(tree.nodes, node), jnp.int32, jnp.uint32)
        if tree.feature is None:
            column, child = (word >> child_bits).astype(jnp.int32), word & jnp.uint32(2**child_bits - 1)
        else:
            column, child = take(tree.feature, node), word
        return child.astype(jnp.int32) + (take(flat_keys, column * block + lane) > threshold).astype(jnp.int32)

    return lax.fori_loop(TOP_LEVELS, tree.depth, descend, _enter(tree, keys))


def _enter(tree: Plan, keys: Int32[Array, "columns block"]) -> Int32[Array, "block"]:
    """The node below the top levels: all their tests on whole rows, which costs less than a gather for each."""
    path = jnp.zeros(keys.shape[1], jnp.int32)
    for level in range(TOP_LEVELS):
        tests = range(2**level - 1, 2 ** (level + 1) - 1)
        rows = [lax.dynamic_index_in_dim(keys, tree.top_feature[i], keepdims=False) > tree.top_key[i] for i in tests]
        for bit in reversed(range(level)):
            turned, half = (path >> bit) & 1 == 1, len(rows) // 2
            rows = [jnp.where(turned, rows[half + i], rows[i]) for i in range(half)]
        path = 2 * path + rows[0].astype(jnp.int32)
    return take(tree.entry, path)


def walk_levels(plan: Plan, keys: Int32[Array, "block columns"], depth: int) -> Int32[Array, "block trees"]:
    """The leaf of every tree for each instance, as an index into the flat ``[trees nodes]`` arrays.

    ``depth`` is a structure here (if it is not known, -1, a loop runs several kernels per level): one kernel per level
    needs what the barriers are for. Keys and nodes must
    exist before the first level, each level must end before the next begins, and the two halves of a node must be
    read from two values (the compiler joins the loads again), else levels fall apart into several kernels.
    """
    block, n_columns = keys.shape
    n_trees, n_nodes = plan.nodes.shape
    child_bits = (n_nodes - 1).bit_length()
    flat_keys, nodes = lax.optimization_barrier(keys.reshape(-1)), plan.nodes.reshape(-1)
    again = lax.optimization_barrier(nodes)
    row = jnp.arange(block, dtype=jnp.int32)[:, None] * n_columns

    def descend(node):
        place = plan.offset + node
        threshold, word = split_words(take(nodes, place), jnp.int32, jnp.uint32)
        if plan.feature is None:
            column = (split_words(take(again, place), jnp.int32, jnp.uint32)[1] >> child_bits).astype(jnp.int32)
            child = word & jnp.uint32(2**child_bits - 1)
        else:
            column, child = take(plan.feature.reshape(-1), place), word
        return lax.optimization_barrier(child.astype(jnp.int32) + (take(flat_keys, row + column) > threshold))

    node = jnp.zeros((block, n_trees), jnp.int32)
    if depth < 0:
        return plan.offset + lax.fori_loop(0, jnp.max(plan.depth), lambda _, node: descend(node), node)
    for _ in range(depth):
        node = descend(node)
    return plan.offset + node


def over_blocks(body: Callable, carry: PyTree, n_instances: int, size: int) -> PyTree:
    """``carry = body(carry, start, first)`` for each block of instances ``start … start + size``.

    The last block is moved back to end with the data rather than padded; its instances before ``first`` were seen.
    """
    size = min(size, n_instances)
    n_blocks = -(-n_instances // size)
    if n_blocks == 1:
        return body(carry, 0, 0)

    def one(i, carry):
        return body(carry, jnp.minimum(i * size, n_instances - size), i * size)

    return lax.fori_loop(0, n_blocks, one, carry)
