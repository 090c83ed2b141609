"""Oblivious trees, as CatBoost grows them: all nodes of a level make one test, so that a leaf's number is its answers.

Each test is made on whole rows, and a tree costs one look-up: half of the time of a walk at depth 6.
"""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32

from jaxunc._checks import is_concrete
from jaxunc._numerics import NAN_LAST, TwoFloat, cores, take, two_sum
from jaxunc.forest import Trees
from jaxunc.inference import (
    Chunk,
    HostProgram,
    Part,
    Shapes,
    block_size,
    by_column,
    column_keys,
    cut,
    default_walk,
    drive,
)
from jaxunc.tables import Encoded

MOST_OUTPUTS = 32
"""Values of a leaf up to which each is looked up by itself."""


class ObliviousTests(NamedTuple):
    """The tests of every level, the root's first, and the leaves that they number."""

    feature: Int32[Array, "trees levels"]
    threshold: Int32[Array, "trees levels"]
    """Order keys. Where a tree has fewer levels the first ones go left always."""
    missing_right: Bool[Array, "trees levels"]
    values: Float[Array, "trees each leaves"]


def levels_of(trees: Trees, values: Float[Array, "trees nodes each"]) -> ObliviousTests | None:
    """Return the levels of oblivious trees; None of others, of traced ones, and on accelerators."""
    if not is_concrete(trees, values) or trees.forks is not None or values.shape[2] > MOST_OUTPUTS:
        return None
    if default_walk() != "blocks":
        return None
    child, depth = np.asarray(trees.child), np.asarray(trees.tree_depth)
    nodes = np.arange(child.shape[1])
    is_inner = nodes < 2.0 ** depth[:, None] - 1  # of whole trees, in the order of their levels
    if not np.array_equal(child, np.where(is_inner, 2 * nodes + 1, nodes)):
        return None
    first = 2 ** np.floor(np.log2(nodes + 1)).astype(np.int64) - 1
    parts = [np.asarray(part) for part in (trees.feature, trees.threshold, trees.missing_right)]
    if any(np.any((part != part[:, first]) & is_inner) for part in parts):
        return None
    deepest, rows = int(depth.max()), np.arange(len(depth))[:, None]
    level = np.arange(deepest) - (deepest - depth[:, None])
    at, is_level = 2 ** np.maximum(level, 0) - 1, level >= 0
    feature, threshold, missing_right = (part[rows, at] for part in parts)
    leaves = np.minimum(2 ** depth[:, None] - 1 + np.arange(2**deepest), len(nodes) - 1)
    return ObliviousTests(
        jnp.asarray(np.where(is_level, feature, 0)),
        jnp.asarray(np.where(is_level, threshold, NAN_LAST)),
        jnp.asarray(missing_right & is_level),
        jnp.asarray(np.moveaxis(np.asarray(values)[rows, leaves], 2, 1)),
    )


class ObliviousSums:
    """The sums of leaf values, to twice the precision of a float, asked like a bound forest."""

    def __init__(self, levels: ObliviousTests, n_features: int):
        self._levels, self._n_features = levels, n_features

    def answer(self, X: Encoded) -> TwoFloat:
        """Return the sums ``[instances each]``."""
        n_columns = self._n_features * (1 + X.missing)
        block = block_size("blocks", len(self._levels.feature), n_columns)
        small = tuple(Chunk(size, min(size, block)) for size in (1, 8, 64, 512))
        shapes, threads = Shapes(Chunk(2048, block), Chunk(8192, block), small), cores()

        def score(part: Part) -> TwoFloat:
            return _sums(X.missing, part.chunk.block, self._levels, part.of(X.values), np.int32(part.n_blocks))

        return drive(score, cut(len(X.values), shapes, threads), threads)


@partial(HostProgram, static_argnums=(0, 1))
def _sums(missing: bool, block: int, levels: ObliviousTests, x: Array, n_blocks: Array) -> TwoFloat:
    """The sums of a chunk, of its first blocks."""
    tested = levels.feature + x.shape[1] * levels.missing_right.astype(jnp.int32) if missing else levels.feature
    each, start = levels.values.shape[1], jnp.zeros((x.shape[0], levels.values.shape[1]), levels.values.dtype)

    def one(i, sums):
        rows = lax.dynamic_slice_in_dim(x, i * block, block)
        keys = by_column(column_keys(rows, missing=missing))
        none = [(jnp.zeros(block, levels.values.dtype),) * 2 for _ in range(each)]
        found, _ = lax.scan(partial(_with_tree, keys), none, (tested, levels.threshold, levels.values))
        found = [jnp.stack(part, axis=1) for part in zip(*found, strict=True)]
        return tuple(lax.dynamic_update_slice_in_dim(a, b, i * block, 0) for a, b in zip(sums, found, strict=True))

    high, low = lax.fori_loop(0, n_blocks, one, (start, start))
    return TwoFloat(*two_sum(high, low))


def _with_tree(keys: Int32[Array, "columns row"], sums: list, tree: tuple) -> tuple[list, None]:
    """The sums of a block with one more tree, added as `exact_sum` does."""
    tested, threshold, values = tree
    block = sums[0][0].shape[0]
    leaf = jnp.zeros(block, jnp.int32)
    for level in range(tested.shape[0]):
        # Unsigned: no code for rows that are counted from the end.
        row = lax.dynamic_slice(keys, (tested[level].astype(jnp.uint32), jnp.uint32(0)), (1, block))
        leaf = 2 * leaf + (row.reshape(-1) > threshold[level]).astype(jnp.int32)
    found = []
    for (high, low), own in zip(sums, values, strict=True):
        high, error = two_sum(high, take(own, leaf))
        found.append((high, low + error))
    return found, None
