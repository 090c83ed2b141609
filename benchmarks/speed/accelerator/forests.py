"""Forests of any depth with random tests and counts, made without fitting, and rows for them.

The first levels are complete. Below, where a level would have more tests than `WIDTH` allows, one child of each pair
goes on, which nine of ten rows take: paths are as long as in trees that are grown out, and places as few.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxunc as ju
from jaxunc.tables import Columns

N_FEATURES, N_SAMPLES = 30, 10_000
MOST_TESTS = 4096
"""Tests of a tree, about: 15 500 rows grown out have 4400."""
DISTINCT = 1024
"""Count vectors."""
GOES_ON = 0.9
"""Share of the rows that follow the long paths, a level at a time."""


def make_forest(
    depth: int, n_trees: int, *, n_classes: int = 2, share: float = 0.5, seed: int = 0
) -> tuple[ju.Forest, np.ndarray]:
    """Return a forest, and the level of each of its nodes (that of a node's place in every tree).

    ``share``: expected frequency of class 1 in the leaves.
    """
    rng, width = np.random.default_rng(seed), _width(depth)
    n_tests = [min(2**level, width) for level in range(depth)]
    n_nodes = 1 + 2 * sum(n_tests)
    padded = 1 << n_nodes.bit_length()  # a place behind the last child, as in imported forests
    leaf = np.broadcast_to(np.arange(padded, dtype=np.int32), (n_trees, padded))
    child, threshold = leaf.copy(), np.full((n_trees, padded), 2**31 - 1, np.int32)
    feature, levels = np.zeros_like(child), np.full(padded, depth)
    trees, first, size, parents = np.arange(n_trees)[:, None], 0, 1, np.zeros((n_trees, 0), np.int64)
    for level, tests in enumerate(n_tests):
        levels[first : first + size] = level
        all_go_on = tests == size
        # Of each pair one goes on, to whose side the parent's threshold then sends most rows.
        side = np.zeros((n_trees, tests), np.int64) if all_go_on else rng.integers(0, 2, (n_trees, tests))
        node = first + (np.arange(tests)[None] if all_go_on else 2 * np.arange(tests)[None] + side)
        feature[trees, node] = rng.integers(0, N_FEATURES, node.shape)
        threshold[trees, node] = rng.random(node.shape, np.float32).view(np.int32)
        child[trees, node] = first + size + 2 * np.arange(tests)
        if not all_go_on:
            most = rng.uniform(2 * GOES_ON - 1, 1, side.shape)
            threshold[trees, parents] = np.where(side == 0, most, 1 - most).astype(np.float32).view(np.int32)
        parents = np.broadcast_to(node, (n_trees, tests))
        first, size = first + size, 2 * tests
    levels[first:] = depth
    inner = child != leaf
    arrays = (feature, threshold, child, inner & (rng.random(child.shape) < 0.5), np.full(n_trees, depth, np.int32))
    table = _counts(rng, n_classes, share)
    forest = ju.Forest(
        trees=ju.forest.Trees(*map(jnp.asarray, arrays), columns=Columns(N_FEATURES)),
        count_table=jnp.asarray(table),
        code=jnp.asarray(np.where(inner, 0, rng.integers(1, DISTINCT, child.shape)).astype(np.int32)),
        prior=jnp.full(n_classes, 1 / n_classes),
        n_samples=jnp.asarray(float(N_SAMPLES)),
        class_labels=tuple(range(n_classes)),
    )
    return forest, levels


def _width(depth: int) -> int:
    """The most tests of a level, a power of two."""
    return 1 << max(0, (MOST_TESTS // max(depth - 8, 1)).bit_length() - 1)


def _counts(rng: np.random.Generator, n_classes: int, share: float) -> np.ndarray:
    """Count vectors; the first is that of no instance."""
    of_class = np.full(n_classes, (1 - share) / (n_classes - 1))
    of_class[1] = share
    sizes = 1 + rng.geometric(0.1, DISTINCT)
    table = np.array([rng.multinomial(size, rng.dirichlet(4 * of_class)) for size in sizes], np.int32)
    table[0] = 0
    return table


def make_rows(n: int, *, missing: float = 0.0) -> jax.Array:
    """Return uniform rows on the device; ``missing`` is the share of values that are NaN."""
    key, other = jax.random.split(jax.random.key(n))
    rows = jax.random.uniform(key, (n, N_FEATURES), jnp.float32)
    return jnp.where(jax.random.uniform(other, rows.shape) < missing, jnp.nan, rows) if missing else rows


def leaves_on_host(forest: ju.Forest, rows: np.ndarray) -> np.ndarray:
    """Return the leaf of each row in each tree, without compiling anything: for positive values that are all there."""
    arrays = forest.trees.feature, forest.trees.threshold, forest.trees.child
    feature, threshold, child = map(np.asarray, arrays)
    trees, row = np.arange(forest.n_trees), np.arange(len(rows))[:, None]
    keys, node = rows.view(np.int32), np.zeros((len(rows), forest.n_trees), np.int32)
    for _ in range(forest.depth):
        node = child[trees, node] + (keys[row, feature[trees, node]] > threshold[trees, node])
    return node


def mean_path(forest: ju.Forest, levels: np.ndarray) -> float:
    """Return the tests that a row passes in a tree, on average."""
    return float(levels[leaves_on_host(forest, np.asarray(make_rows(200)))].mean())
