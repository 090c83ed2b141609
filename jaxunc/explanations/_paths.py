"""The paths of trees as arrays, level by level: each column of a path once, with the values that pass its tests.

If several paths lead to one node, as tests of categories make them do, the node is repeated for each of them. Its cover
is divided evenly among these paths. So the shares of paths that differ in one column alone add up to those of one test.
"""

from typing import NamedTuple, TypeVar

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
        """Return ``n`` paths without columns: those of roots."""
        return cls(*(np.full((n, 0), fill) for fill in _FILLS))

    def of(self, chosen: np.ndarray) -> "Paths":
        """Return the paths that ``chosen`` selects: a mask ``[paths]`` or indices."""
        return Paths(*(part[chosen] for part in self))

    def widen(self, width: int) -> "Paths":
        """Return the paths with ``width`` entries each: unused entries are added at the end."""
        more = ((0, 0), (0, width - self.column.shape[1]))
        return Paths(*(np.pad(part, more, constant_values=fill) for part, fill in zip(self, _FILLS, strict=True)))

    def add_tests(self, column: np.ndarray) -> tuple["Paths", np.ndarray]:
        """Return (paths in which each has an entry for its ``column [paths]``, index of that entry ``[paths]``).

        A path that has no entry for the column yet gets a new one.
        """
        is_same = self.column == column[:, None]
        n_columns = (self.column >= 0).sum(axis=1)
        # ``argmax`` refuses an axis without entries.
        index = np.where(is_same.any(axis=1), is_same.argmax(axis=1) if is_same.size else 0, n_columns)
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


class _Level(NamedTuple):
    """Nodes of one level of all trees ``[nodes]``, each with the path that leads to it."""

    tree: np.ndarray
    node: np.ndarray
    edge: np.ndarray  # the edge that leads to the node; -1 for a root
    paths: Paths

    def of(self, chosen: np.ndarray) -> "_Level":
        """Return the nodes that the mask ``chosen [nodes]`` selects."""
        return _Level(self.tree[chosen], self.node[chosen], self.edge[chosen], self.paths.of(chosen))


def unroll(trees: Trees) -> Unrolled:
    """Return the paths of concrete trees, on the host; raise a ValueError if a level has more than `MOST` nodes."""
    tests = _tests(trees)
    child = tests[0]
    tree = np.arange(trees.n_trees)
    # Level by level, from the roots.
    level = _Level(tree, node=np.zeros_like(tree), edge=np.full_like(tree, -1), paths=Paths.of_roots(trees.n_trees))
    all_nodes, slices, ends = [], [], []  # by level: inner nodes, their slice among all, and leaves
    n_nodes = 0
    while len(level.node):
        is_leaf = child[level.tree, level.node] == level.node
        ends.append(level.of(is_leaf))
        inner = level.of(~is_leaf)
        if len(inner.node) > MOST:
            raise ValueError(
                f"tests of sets below each other lead to more than {MOST} paths, too many to explain: pass a model of "
                "less depth, or with fewer categories in a test."
            )
        nodes, level = _children(inner, tests, n_nodes)
        all_nodes.append(nodes)  # the last level has none, but the dtypes of a forest of lone leaves
        if len(inner.node):
            slices.append(slice(n_nodes, n_nodes + len(inner.node)))
        n_nodes += len(inner.node)
    width = max(end.paths.column.shape[1] for end in ends)
    paths = _join([end.paths.widen(width) for end in ends])
    tree, leaf, edge = (np.concatenate(part) for part in zip(*(end[:3] for end in ends), strict=True))
    return Unrolled(_join(all_nodes), slices, edge, tree, leaf, paths)


def _children(level: _Level, tests: tuple[np.ndarray, ...], first: int) -> tuple[Nodes, _Level]:
    """Return (the nodes of a level of inner nodes, the level below them).

    The level below has all left children, then all right ones. ``tests`` are those of `_tests`; ``first`` is the number
    of the level's first node in `Nodes`.
    """
    child, *test = (part[level.tree, level.node] for part in tests)
    column, threshold, missing_right = test
    paths, index = level.paths.add_tests(column)
    n = len(column)
    row = np.arange(n)
    nodes = Nodes(level.edge, level.tree, *test, *(part[row, index] for part in paths[1:]))
    # Each path goes on to a left and a right child, which narrow the values that pass.
    parent = np.tile(row, 2)
    is_right = np.repeat([False, True], n)
    edge = 2 * (first + parent) + is_right
    child_paths = paths.of(parent)
    child_paths.high[row, index] = np.minimum(nodes.high, threshold)  # of left children
    child_paths.low[n + row, index] = np.maximum(nodes.low, threshold)  # of right children
    entry = np.arange(2 * n), index[parent]  # that of the tested column, in each path
    child_paths.missing[entry] &= missing_right[parent] == is_right
    child_paths.last[entry] = edge
    return nodes, _Level(level.tree[parent], child[parent] + is_right, edge, child_paths)


_Record = TypeVar("_Record", Nodes, Paths)


def _join(records: list[_Record]) -> _Record:
    """Return one record whose fields hold the arrays of all ``records``, one after the other."""
    return type(records[0])(*map(np.concatenate, zip(*records, strict=True)))


def leaves_of(trees: Trees, values: Float[np.ndarray, "rows features"]) -> Int[np.ndarray, "rows trees"]:
    """Return the leaf of each encoded row in each of the concrete trees, on the host, for few rows."""
    child, column, threshold, missing_right = _tests(trees)
    tree = np.arange(trees.n_trees)
    leaves = np.zeros((len(values), trees.n_trees), np.int32)
    block_rows = max(1, MOST // trees.n_trees)
    for start in range(0, len(values), block_rows):
        block = slice(start, start + block_rows)
        rows = values[block]
        node = leaves[block]  # a view: leaves are written by the walk
        key = order_key_at_or_below(rows)
        is_missing = np.isnan(rows)
        while ((left := child[tree, node]) != node).any():  # a leaf is its own child
            cell = np.arange(len(rows))[:, None], column[tree, node]  # of the rows, that each test reads
            goes_right = np.where(is_missing[cell], missing_right[tree, node], key[cell] > threshold[tree, node])
            node[...] = np.where(left == node, node, left + goes_right)
    return leaves


def _tests(trees: Trees) -> tuple[np.ndarray, ...]:
    """Return (left child, column, threshold, whether missing goes right) of nodes, ``[trees nodes]``, on the host."""
    arrays = trees.child, trees.feature, trees.threshold, trees.missing_right
    child, column, *others = map(np.asarray, arrays)
    return child, np.maximum(column, 0), *others


def shares_of_cover(
    unrolled: Unrolled, cover: Float[np.ndarray, "trees nodes"]
) -> tuple[Float[np.ndarray, "inner"], Float[np.ndarray, "inner"], Float[np.ndarray, "paths"]]:
    """Return the shares of rows by which an instance goes left or right where a column is not known.

    These are three arrays:

    * for each inner node the share of its rows that goes left, one half where no row came;
    * for each inner node the product of the shares at the tests of its column above it, 1 if there are none;
    * for each path the product of all its shares.

    ``cover`` is the number of rows in each leaf of the trees that are ``unrolled``.
    """
    nodes, levels = unrolled.nodes, unrolled.levels
    n_nodes = len(nodes.edge)
    n_paths = np.zeros(cover.shape)  # to each leaf: its rows are divided evenly among them
    np.add.at(n_paths, (unrolled.tree, unrolled.leaf), 1)
    # Three numbers of each edge, and in the last entry of roots, whose edge is -1: rows that take the edge, the product
    # of the shares at tests of its column up to it, and the product of all shares up to it.
    rows, passing, arriving = (np.ones(2 * n_nodes + 1) for _ in range(3))
    rows[unrolled.edge] = (cover / np.maximum(n_paths, 1))[unrolled.tree, unrolled.leaf]
    left, above = np.empty(n_nodes), np.empty(n_nodes)
    for level in reversed(levels):  # upwards: a node has the rows of its children
        child_rows = rows[2 * level.start : 2 * level.stop].reshape(-1, 2)
        node_rows = child_rows.sum(axis=1)
        rows[nodes.edge[level]] = node_rows
        left[level] = np.where(node_rows > 0, child_rows[:, 0] / np.where(node_rows > 0, node_rows, 1), 0.5)
    for level in levels:  # downwards: products of the shares above
        share = np.stack([left[level], 1 - left[level]], axis=1)
        above[level] = passing[nodes.last[level]]
        edges = slice(2 * level.start, 2 * level.stop)  # of the level's nodes
        passing[edges] = (above[level][:, None] * share).ravel()
        arriving[edges] = (arriving[nodes.edge[level]][:, None] * share).ravel()
    return left, above, arriving[unrolled.edge]
