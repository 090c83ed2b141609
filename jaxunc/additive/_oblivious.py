"""Oblivious trees, as CatBoost grows them: all nodes of a level make one test, whose outcome is a bit of the leaf.

Trees share their borders, so the values of a block of instances become codes once: a code is the number of borders
below the value. All tests compare these small integers. Codes, leaves and sums are loops, each compiled for the width
of its integers.

As in `AdditiveTrees.values` the axis *each* holds the values of a leaf: one, or one for each output.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32, UInt

from jaxunc._checks import is_concrete
from jaxunc._numerics import TwoFloat, ceil_div, cores, take, two_sum
from jaxunc.forest import Trees
from jaxunc.inference import (
    GAP_OF_CODES,
    SMALL,
    Borders,
    BoundForest,
    Chunk,
    HostProgram,
    Part,
    Shapes,
    block_size,
    by_column,
    codes_of,
    column_keys,
    cut,
    default_walk,
    drive,
)
from jaxunc.tables import Encoded

MOST_OUTPUTS = 32
"""Most values of a leaf in trees that are handled here, since each value is looked up by itself."""

MOST_TOGETHER = 512
"""Most trees of a *group*: their leaves are found for a whole block before values are added, in a megabyte of cache."""

MOST_WALKED = 1024
"""Instances times trees up to which the calling thread walks the trees, since other threads would take longer."""


class ObliviousTests(NamedTuple):
    """The tests and leaf values of oblivious trees, in groups; the levels of a tree are in order, the root's first.

    A *row of codes* has the code of each instance in one column. A column has a second row if some tests send missing
    values left, and others right.
    """

    borders: Borders
    """The borders of all tests, each once, by row of codes."""
    missing_right: Bool[Array, "rows"]
    """For each row of codes whether missing values are above all borders; else they are below all."""
    tested: Int32[Array, "groups trees levels"]
    """The row of codes that each level tests."""
    rank: UInt[Array, "groups trees levels"]
    """Rank of each level's border among those of its row: larger codes go right. At levels that a less deep tree lacks,
    it is the largest number of the type, which no code exceeds."""
    values: Float[Array, "groups trees each leaves"]
    """Values of the leaves; zeros for trees that pad the last group."""


def levels_of(trees: Trees, values: Float[Array, "trees nodes each"]) -> ObliviousTests | None:
    """Return the tests of ``trees`` if they are oblivious, with their leaves' ``values``; else None.

    ``values`` are those of `AdditiveTrees`. Also None for traced trees, for more than `MOST_OUTPUTS` values of a leaf,
    and on accelerators.
    """
    if not is_concrete(trees, values) or trees.forks is not None or values.shape[2] > MOST_OUTPUTS:
        return None
    if default_walk() != "blocks":
        return None
    child = np.asarray(trees.child)
    depth = np.asarray(trees.tree_depth)
    nodes = np.arange(child.shape[1])
    # Trees must be complete, with nodes numbered level by level.
    is_inner = nodes < 2.0 ** depth[:, None] - 1  # floats, since integers may overflow for a deep tree
    if not np.array_equal(child, np.where(is_inner, 2 * nodes + 1, nodes)):
        return None
    # Every node must make the test of the first node of its level.
    first_of_level = 2 ** np.floor(np.log2(nodes + 1)).astype(np.int64) - 1
    arrays = [np.asarray(array) for array in (trees.feature, trees.threshold, trees.missing_right)]
    if any(np.any((array != array[:, first_of_level]) & is_inner) for array in arrays):
        return None
    # All trees get as many levels as the deepest; less deep ones lack the first of these, [trees levels].
    deepest = int(depth.max())
    tree = np.arange(len(depth))[:, None]
    level = np.arange(deepest) - (deepest - depth[:, None])  # as the tree counts its own; negative for those it lacks
    is_level = level >= 0
    node = 2 ** np.maximum(level, 0) - 1  # the first node of each level stands for all
    # Leaves that a less deep tree lacks are clipped: its missing levels send all left, so that none comes there.
    leaves = np.minimum(2 ** depth[:, None] - 1 + np.arange(2**deepest), len(nodes) - 1)
    leaf_values = np.moveaxis(np.asarray(values)[tree, leaves], 2, 1)
    feature, threshold, missing_right = (array[tree, node][is_level] for array in arrays)
    return _group_tests(np.stack([feature, missing_right, threshold], axis=1), is_level, leaf_values)


def _group_tests(tests: np.ndarray, is_level: np.ndarray, values: np.ndarray) -> ObliviousTests:
    """Return the tests of oblivious trees with ranks in place of borders, in groups of equal size.

    ``is_level [trees levels]`` says which levels a tree has: less deep trees lack the first ones. ``tests`` has a row
    for each level that a tree has: feature, whether missing values go right, threshold. ``values [trees each leaves]``
    are the values of the leaves. A rank is the border's position among those of all trees with the same feature and
    side of missing values.
    """
    # The distinct borders, and which of them each level has; the distinct rows of codes, and which of them each border
    # belongs to.
    borders, border = np.unique(tests, axis=0, return_inverse=True)
    rows, row = np.unique(borders[:, :2], axis=0, return_inverse=True)
    rank = np.arange(len(row)) - np.searchsorted(row, row)  # borders are sorted by row, so that a row's are together
    # The narrowest unsigned type whose largest number is no rank.
    n_ranks = int(rank.max(initial=0)) + 1
    dtype = np.min_scalar_type(n_ranks)
    columns = rows if len(rows) else np.zeros((1, 2), np.int64)  # without tests one row, which no level reads
    shared_borders = Borders.of(row, borders[:, 2], columns[:, 0])
    missing_right = np.zeros(len(shared_borders.column), bool)
    missing_right[: len(columns)] = columns[:, 1]
    row_of_level = np.zeros(is_level.shape, np.int32)
    rank_of_level = np.full(is_level.shape, np.iinfo(dtype).max, dtype)
    row_of_level[is_level] = row[border.reshape(-1)]
    rank_of_level[is_level] = rank[border.reshape(-1)]
    n_groups = max(1, ceil_div(len(values), MOST_TOGETHER))
    size = ceil_div(len(values), n_groups)

    def grouped(array: np.ndarray, neutral: int = 0) -> Array:
        """Return an array ``[trees ...]`` cut into ``[groups trees ...]``; ``neutral`` pads the last group."""
        padded = np.full((n_groups * size, *array.shape[1:]), neutral, array.dtype)
        padded[: len(array)] = array
        return jax.device_put(padded.reshape(n_groups, size, *array.shape[1:]))

    return ObliviousTests(
        borders=shared_borders,
        missing_right=jnp.asarray(missing_right),
        tested=grouped(row_of_level),
        rank=grouped(rank_of_level, np.iinfo(dtype).max),
        values=grouped(values),
    )


class ObliviousSums:
    """Oblivious trees bound to the sums of their leaf values: `answer` is as that of a bound forest.

    Sums are sums of two floats. ``levels`` are the tests that `levels_of` returns, for data of ``n_features`` columns.
    ``walk()`` returns the same trees as an ordinary bound forest, which answers few instances faster.
    """

    def __init__(self, levels: ObliviousTests, n_features: int, walk: Callable[[], BoundForest[TwoFloat]]):
        self._levels, self._n_features, self._walk = levels, n_features, walk
        self._n_trees = levels.tested.shape[0] * levels.tested.shape[1]

    def walk_for(self, n_instances: int) -> BoundForest[TwoFloat] | None:
        """Return the same trees as an ordinary bound forest if that is faster for ``n_instances``; else None."""
        return self._walked if n_instances * self._n_trees <= MOST_WALKED else None

    @cached_property
    def _walked(self) -> BoundForest[TwoFloat]:
        """The same trees as an ordinary bound forest, made when it is first used."""
        return self._walk()

    def answer(self, X: Encoded) -> TwoFloat:
        """Return the sums over trees ``[instances each]`` for instances ``X`` that `encode_for` returned."""
        if (walk := self.walk_for(len(X.values))) is not None:
            return walk.answer(X)
        n_columns = max(len(self._levels.missing_right), self._n_features * (1 + X.missing))
        block = block_size("blocks", self._levels.values.shape[1], n_columns)
        small = tuple(Chunk(size, min(size, block)) for size in SMALL)
        shapes = Shapes(Chunk(2048, block), Chunk(8192, block), small)
        threads = cores()

        def score(part: Part) -> TwoFloat:
            """Return the sums for the instances of a part of ``X``."""
            return _sums(X.missing, part.chunk.block, self._levels, part.of(X.values), np.int32(part.n_blocks))

        return drive(score, cut(len(X.values), shapes, threads), threads)


@partial(HostProgram, static_argnums=(0, 1))
def _sums(missing: bool, block: int, levels: ObliviousTests, x: Array, n_blocks: Array) -> TwoFloat:
    """Return the sums of leaf values ``[instances each]`` for ``x``, the rows of a chunk.

    Only the first ``n_blocks`` blocks, of ``block`` instances each, are answered; other rows are zeros. ``missing``
    tells whether values may be missing.
    """
    n_outputs = levels.values.shape[2]
    dtype = levels.values.dtype
    borders = levels.borders
    if missing:  # `column_keys` has each column twice; missing values are largest in the second copy
        borders = borders._replace(column=borders.column + x.shape[1] * levels.missing_right.astype(jnp.int32))

    def add_block(i, sums):
        """Return ``sums``, (high, low) of all instances, with those of block ``i`` filled in."""
        rows = lax.dynamic_slice_in_dim(x, i * block, block)
        codes = codes_of(by_column(column_keys(rows, missing=missing)), block, borders)
        codes = codes.astype(levels.rank.dtype)
        zeros = [(jnp.zeros(block, dtype),) * 2 for _ in range(n_outputs)]
        # Unsigned, so that JAX adds no operations for negative indices.
        trees = levels.tested.astype(jnp.uint32), levels.rank, levels.values
        totals, _ = lax.scan(partial(_with_group, codes), zeros, trees)  # (high, low) of each output
        parts = [jnp.stack(columns, axis=1) for columns in zip(*totals, strict=True)]
        return tuple(lax.dynamic_update_slice_in_dim(a, b, i * block, 0) for a, b in zip(sums, parts, strict=True))

    start = jnp.zeros((x.shape[0], n_outputs), dtype)
    high, low = lax.fori_loop(0, n_blocks, add_block, (start, start))
    return TwoFloat(*two_sum(high, low))


def _with_group(codes: UInt[Array, "rows row"], sums: list, trees: tuple) -> tuple[list, None]:
    """Return (a block's sums plus the leaf values of a group of trees, None): a step of `lax.scan`.

    ``codes`` are those of `codes_of`. ``sums`` has (high, low) ``[block]`` for each value of a leaf. ``trees`` has
    (tested, rank, values) of the group (`ObliviousTests`). Trees are added one by one, as `exact_sum` does.
    """
    tested, rank, values = trees
    block = codes.shape[1] - GAP_OF_CODES
    depth = tested.shape[1]
    # A leaf's number has a bit for each level, the root's the highest.
    wide_type = jnp.uint16 if depth <= 16 else jnp.uint32
    leaf_type = jnp.uint8 if depth <= 8 else wide_type

    def leaves(_, tree):
        """Return (None, the number of each instance's leaf in one tree); ``tree`` is its (tested, rank)."""
        tested, rank = tree
        leaf = jnp.zeros(block, leaf_type)
        for level in range(depth):
            row = lax.dynamic_slice(codes, (tested[level], jnp.uint32(0)), (1, block)).reshape(-1)
            leaf = leaf | ((row > rank[level]).astype(leaf_type) << (depth - 1 - level))
        return None, leaf

    def add(sums, tree):
        """Return (``sums`` plus a tree's values, None): ``sums`` are (high, low), ``tree`` is (leaves, values)."""
        high, low = sums
        leaf, values = tree
        high, error = two_sum(high, take(values, leaf.astype(jnp.int32)))
        return (high, low + error), None

    leaf = lax.scan(leaves, None, (tested, rank))[1]
    # A loop for each output: XLA makes no vectors of a loop that looks up several, which takes a third longer.
    return [lax.scan(add, total, (leaf, values[:, k]))[0] for k, total in enumerate(sums)], None
