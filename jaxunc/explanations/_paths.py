"""The paths of trees as arrays, level by level: each column of a path once, with the values that pass its tests.

A node that several paths lead to, as in tests of categories, is there once for each of them. Its cover is divided
evenly among these paths. So the shares of paths that differ in one column alone add up to those of one test.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxunc._numerics import NAN_FIRST, NAN_LAST, order_key_at_or_below
from jaxunc.forest import Trees

MOST = 2**22
"""Most nodes of a level; trees with more are refused, since nested tests of large sets have a path for each way through
them. Also the most pairs of a row and a tree that `leaves_of` walks at a time."""


class Paths(NamedTuple):
    """The distinct columns of paths from a root, each with the values that pass; unused entries let everything pass."""

    column: Int[np.ndarray, "paths columns"]
    """The columns; -1 in unused entries."""
    low: Int[np.ndarray, "paths columns"]
    high: Int[np.ndarray, "paths columns"]
    """Bounds of the order keys that pass: low < key ≤ high."""
    missing: Bool[np.ndarray, "paths columns"]
    """Whether a missing value passes."""
    last: Int[np.ndarray, "paths columns"]
    """The edge behind the path's last test of the column; -1 before its first test."""

    @classmethod
    def of_roots(cls, n: int) -> "Paths":
        """Return ``n`` paths without columns, one for each root."""
        return cls(*(np.full((n, 0), fill) for fill in _FILLS))

    def of(self, chosen: np.ndarray) -> "Paths":
        """Return the paths that ``chosen`` selects, a mask or indices."""
        return Paths(*(part[chosen] for part in self))

    def widen(self, width: int) -> "Paths":
        """Return the paths with room for ``width`` columns."""
        more = ((0, 0), (0, width - self.column.shape[1]))
        return Paths(*(np.pad(part, more, constant_values=fill) for part, fill in zip(self, _FILLS, strict=True)))

    def add_tests(self, column: np.ndarray) -> tuple["Paths", np.ndarray]:
        """Return (paths with ``column`` ``[paths]`` entered, index of each path's column among its columns)."""
        same, number = self.column == column[:, None], (self.column >= 0).sum(axis=1)
        index = np.where(same.any(axis=1), same.argmax(axis=1) if same.size else 0, number)
        paths = self.widen(max(self.column.shape[1], int(index.max(initial=-1)) + 1))
        paths.column[np.arange(len(index)), index] = column
        return paths, index


_FILLS = (np.int32(-1), NAN_FIRST, NAN_LAST, np.True_, np.int32(-1))


class Nodes(NamedTuple):
    """The inner nodes of all trees, level after level. Node i has the edges 2 i (left) and 2 i + 1 (right)."""

    edge: Int[np.ndarray, "nodes"]
    """The edge that leads to the node; -1 for a root."""
    tree: Int[np.ndarray, "nodes"]
    column: Int[np.ndarray, "nodes"]
    threshold: Int[np.ndarray, "nodes"]
    missing_right: Bool[np.ndarray, "nodes"]
    low: Int[np.ndarray, "nodes"]
    high: Int[np.ndarray, "nodes"]
    missing: Bool[np.ndarray, "nodes"]
    """``low``, ``high`` and ``missing`` say what passes the tests of the node's column above it, as in `Paths`."""
    last: Int[np.ndarray, "nodes"]
    """The edge behind the last of these tests; -1 if there are none."""


class Unrolled(NamedTuple):
    """The inner nodes of trees, and a path to each leaf; a tree of one leaf has a path without edges."""

    nodes: Nodes
    levels: list[slice]
    """For each level of the trees, the slice of ``nodes`` that lies in it."""
    edge: Int[np.ndarray, "paths"]
    """The edge that leads to the leaf; -1 if the leaf is a root."""
    tree: Int[np.ndarray, "paths"]
    leaf: Int[np.ndarray, "paths"]
    paths: Paths

    @property
    def most_columns(self) -> int:
        """The largest number of distinct columns on a path."""
        return self.paths.column.shape[1]


def unroll(trees: Trees) -> Unrolled:
    """Return the paths of concrete trees, on the host; raise a ValueError if a level has more than `MOST` nodes."""
    child, column, threshold, missing_right = _tests(trees)
    tree, n = np.arange(trees.n_trees), 0
    node, edge, paths = np.zeros_like(tree), np.full_like(tree, -1), Paths.of_roots(trees.n_trees)
    inner, levels, ends = [], [], []
    while len(node):
        is_leaf = child[tree, node] == node
        ends.append((edge[is_leaf], tree[is_leaf], node[is_leaf], paths.of(is_leaf)))
        tree, node, edge, paths = tree[~is_leaf], node[~is_leaf], edge[~is_leaf], paths.of(~is_leaf)
        if len(node) > MOST:
            raise ValueError(
                f"tests of sets below each other lead to more than {MOST} paths, too many to explain: pass a model of "
                "less depth, or with fewer categories in a test."
            )
        every = np.arange(len(node))
        paths, index = paths.add_tests(column[tree, node])
        test = tuple(part[tree, node] for part in (column, threshold, missing_right))
        inner.append((edge, tree, *test, *(part[every, index] for part in paths[1:])))
        levels.append(slice(n, n + len(node)))
        both, right = np.tile(every, 2), np.repeat([False, True], len(node))
        at, key, edge, n = (np.arange(2 * len(node)), index[both]), test[1][both], 2 * (n + both) + right, n + len(node)
        paths = paths.of(both)
        paths.low[at] = np.where(right, np.maximum(paths.low[at], key), paths.low[at])
        paths.high[at] = np.where(right, paths.high[at], np.minimum(paths.high[at], key))
        paths.missing[at] &= test[2][both] == right
        paths.last[at] = edge
        tree, node = tree[both], child[tree, node][both] + right
    width = max(part.column.shape[1] for *_, part in ends)
    ends = [(*of_end, *part.widen(width)) for *of_end, part in ends]
    nodes, (edge, tree, leaf, *parts) = (
        [np.concatenate(part) for part in zip(*each, strict=True)] for each in (inner, ends)
    )
    return Unrolled(Nodes(*nodes), levels[:-1], edge, tree, leaf, Paths(*parts))


def leaves_of(trees: Trees, values: Float[np.ndarray, "rows features"]) -> Int[np.ndarray, "rows trees"]:
    """Return the leaf of each encoded row in each of the concrete trees, on the host, for few rows."""
    child, column, threshold, missing_right = _tests(trees)
    tree, leaves = np.arange(trees.n_trees), np.zeros((len(values), trees.n_trees), np.int32)
    size = max(1, MOST // trees.n_trees)
    for start in range(0, len(values), size):
        rows, node = values[start : start + size], leaves[start : start + size]
        key, absent = order_key_at_or_below(rows), np.isnan(rows)
        while ((left := child[tree, node]) != node).any():
            at = np.arange(len(rows))[:, None], column[tree, node]
            right = np.where(absent[at], missing_right[tree, node], key[at] > threshold[tree, node])
            node[...] = np.where(left == node, node, left + right)
    return leaves


def _tests(trees: Trees) -> tuple[np.ndarray, ...]:
    """Return (first child, column, threshold, whether missing goes right) ``[trees nodes]``, on the host."""
    parts = trees.child, trees.feature, trees.threshold, trees.missing_right
    child, column, *others = map(np.asarray, parts)
    return child, np.maximum(column, 0), *others


def shares_of_cover(
    unrolled: Unrolled, cover: Float[np.ndarray, "trees nodes"]
) -> tuple[Float[np.ndarray, "inner"], Float[np.ndarray, "inner"], Float[np.ndarray, "paths"]]:
    """Return the chances with which an instance takes each way where a column is not known, by the rows in leaves.

    ``cover`` is the number of rows in each leaf of the trees that are ``unrolled``.

    For each inner node: the share of its rows that goes left (one half where no row came), and the product of the
    shares at the tests of its column above it (1 if there are none). For each path: the product of all its shares.
    """
    nodes, levels, n = unrolled.nodes, unrolled.levels, len(unrolled.nodes.edge)
    times = np.zeros(cover.shape)
    np.add.at(times, (unrolled.tree, unrolled.leaf), 1)
    # One entry for each edge; the last entry belongs to roots, whose edge is -1.
    rows, passing, arriving = (np.ones(2 * n + 1) for _ in range(3))
    rows[unrolled.edge] = (cover / np.maximum(times, 1))[unrolled.tree, unrolled.leaf]
    left, above = np.empty(n), np.empty(n)
    for level in reversed(levels):
        both = rows[2 * level.start : 2 * level.stop].reshape(-1, 2)
        below = rows[nodes.edge[level]] = both.sum(axis=1)
        left[level] = np.where(below > 0, both[:, 0] / np.where(below > 0, below, 1), 0.5)
    for level in levels:
        share = np.stack([left[level], 1 - left[level]], axis=1)
        above[level] = passing[nodes.last[level]]
        for product, before in ((passing, above[level]), (arriving, arriving[nodes.edge[level]])):
            product[2 * level.start : 2 * level.stop] = (before[:, None] * share).ravel()
    return left, above, arriving[unrolled.edge]
