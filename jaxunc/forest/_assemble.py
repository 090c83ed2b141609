"""Trees as padded arrays, made on the host of the nodes of single trees in any numbering.

A *test of intervals* asks whether a value lies in some of many intervals, such as a set of categories. It is stored as
several binary tests (`with_interval_tests`), and read back as one (`interval_tests`). The nodes of these tests form a
small tree: the *first node* is its root, and each of its *last nodes* has the same two children, those of the whole.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int32, Int64

from jaxunc._checks import check_collection, check_kind, check_within
from jaxunc._numerics import NAN_LAST, distinct_rows, order_key_at_or_below, padded_table, power_of_two
from jaxunc.tables import Columns

from ._forest import Forest, Trees


class TreeNodes(NamedTuple):
    """The nodes of one tree, as arrays ``[nodes]`` in any order, the root first; leaves have negative children."""

    feature: np.ndarray
    """Column that each node tests."""
    threshold: np.ndarray
    """Order key of each node: a value with a larger key goes right."""
    left: np.ndarray
    """Index of the left child."""
    right: np.ndarray
    """Index of the right child."""
    missing_right: np.ndarray
    """Whether a missing value goes right."""


def snap_to_integers(counts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return ``counts [... classes]`` of leaves, rounded where an integer is as near as 1e-9 times the leaf's size.

    ``sizes [...]`` has the sizes; those below 1 count as 1. Counts made of scikit-learn's fractions are off by up to
    2e-13, which would break ties.
    """
    nearest = np.rint(counts)
    is_close = np.abs(counts - nearest) <= 1e-9 * np.maximum(sizes, 1.0)[..., None]
    return np.where(is_close, nearest, counts)


def lay_out(nodes: Sequence[TreeNodes], columns: Columns) -> tuple[Trees, list[np.ndarray]]:
    """Return (`Trees` of the trees in ``nodes``, for each of them the new indices of its nodes ``[nodes]``).

    Nodes lie level by level, siblings side by side; a node that the root does not lead to has the index 0. ``columns``
    is the field of `Trees`. The input is not checked; `check_trees` checks the result.
    """
    n_trees = len(nodes)
    # Widths are powers of two, so that forests share programs. Unused slots stay leaves that no path leads to: their
    # child is the slot itself, and no key passes their threshold.
    width = power_of_two(max(len(tree.feature) for tree in nodes), 64)
    feature = np.zeros((n_trees, width), np.int32)
    threshold = np.full((n_trees, width), NAN_LAST, np.int32)
    child = np.tile(np.arange(width, dtype=np.int32), (n_trees, 1))
    missing_right = np.zeros((n_trees, width), bool)
    depth = np.zeros(n_trees, np.int32)
    indices = []
    for t, tree in enumerate(nodes):
        inner, left, depth[t] = _inner_by_level(tree)
        index = np.zeros(len(tree.feature), np.int64)
        # The children of inner nodes, level by level, take the next two slots. So a right child lies behind the left
        # one and needs no index, and a tree's top levels lie together.
        index[left] = 1 + 2 * np.arange(len(left))
        left_slots = index[tree.left[inner]]
        index[tree.right[inner]] = left_slots + 1
        slots = index[inner]
        feature[t, slots] = tree.feature[inner]
        threshold[t, slots] = tree.threshold[inner]
        child[t, slots] = left_slots
        missing_right[t, slots] = tree.missing_right[inner]
        indices.append(index)
    # With the dtype given: without it JAX compiles a program for each shape.
    arrays = [jnp.asarray(array, array.dtype) for array in (feature, threshold, child, missing_right, depth)]
    return Trees(*arrays, columns=columns), indices


def assemble(
    nodes: Sequence[TreeNodes],
    counts: Sequence[np.ndarray],
    *,
    columns: Columns,
    prior: np.ndarray,
    n_samples: float,
    class_labels: tuple[Any, ...],
) -> Forest:
    """Return a forest of the trees ``nodes`` with class ``counts``, an array ``[nodes classes]`` for each tree.

    Counts are read at leaves. ``columns`` is the field of `Trees`; ``prior``, ``n_samples`` and ``class_labels`` are
    those of `Forest`. Only types and ranges are checked, by a TypeError or a ValueError; `check_forest` checks the
    result.
    """
    check_kind("nodes", nodes, Sequence, "a list of TreeNodes, one per tree")
    check_collection("counts", counts, "a list of arrays [nodes classes], one per tree")
    check_kind("columns", columns, Columns, "Columns, such as jaxunc.tables.Columns(n_features)")
    check_collection("class_labels", class_labels, "a tuple of labels")
    check_within("prior", prior, "[0, 1]", shape=None)
    check_within("n_samples", n_samples, "[0, inf)")
    if not nodes:
        raise ValueError(f"nodes={nodes!r} holds no tree; pass one TreeNodes at least.")
    trees, indices = lay_out(nodes, columns)
    # Distinct rows of each tree first: there are few, so that sorting those of all trees together is quick.
    leaf_rows = []  # the distinct counts of each tree
    leaf_slots = []  # (the indices of its leaves, the row of each among the distinct counts)
    for tree, index, tree_counts in zip(nodes, indices, counts, strict=True):
        leaves = np.flatnonzero(tree.left < 0)
        rows, row_of_leaf = distinct_rows(tree_counts[leaves])
        leaf_rows.append(rows)
        leaf_slots.append((index[leaves], row_of_leaf))
    # Row 0 is the zero vector: counts are not negative, so it is the first of the sorted rows.
    table, table_row = distinct_rows(np.concatenate([np.zeros((1, len(class_labels))), *leaf_rows]))
    # Each tree's distinct rows begin where those of the trees before end; row 0 comes before all of them.
    ends = np.cumsum([1] + [len(rows) for rows in leaf_rows])
    code = np.zeros((trees.n_trees, trees.n_nodes), np.int32)
    for t, (slots, row_of_leaf) in enumerate(leaf_slots):
        code[t, slots] = table_row[ends[t] : ends[t + 1]][row_of_leaf]
    dtype = jnp.result_type(float)
    return Forest(
        trees=trees,
        count_table=padded_table(table),
        code=jnp.asarray(code, code.dtype),
        prior=jnp.asarray(np.asarray(prior, dtype), dtype),
        n_samples=jnp.asarray(np.asarray(n_samples, dtype), dtype),
        class_labels=class_labels,
    )


def _inner_by_level(tree: TreeNodes) -> tuple[np.ndarray, np.ndarray, int]:
    """Return (inner nodes, distinct left children, depth) of ``tree``; the depth is the tests on the longest path.

    Left children are in the order in which `lay_out` gives them slots, level by level. If nodes share children, a
    child's level is the length of the longest path to it.
    """
    # In a tree no two nodes have the same left child.
    is_tree = np.bincount(tree.left[tree.left >= 0], minlength=1).max() < 2
    children = np.stack([tree.left, tree.right], axis=1)
    longest = np.zeros(len(tree.left), np.int64)  # the length of the longest path to each node: the last one written
    levels = []  # the inner nodes of each level; nodes that share a child put it on several
    level = np.array([0])
    while True:
        longest[level] = len(levels)
        level = level[tree.left[level] >= 0]
        if not level.size:
            break
        levels.append(level)
        level = children[level].ravel()
        level = level if is_tree else np.unique(level)
    inner = np.concatenate(levels) if levels else np.zeros(0, np.int64)
    if is_tree:
        return inner, tree.left[inner], len(levels)
    inner = np.unique(inner)
    left = np.unique(tree.left[inner])
    return inner, left[np.argsort(longest[left], kind="stable")], len(levels)


_LARGEST, _LEAST = order_key_at_or_below(np.array([np.inf, -np.inf])).tolist()
"""Order keys of +inf and -inf."""

_MOST_CELLS = 2**24
"""Most pairs of a test and a code that `column_sets` marks at a time, a byte for each."""


class Intervals(NamedTuple):
    """A test of intervals: neighbouring intervals cover all numbers, and each of them goes left or right."""

    upper: Int32[np.ndarray, " inner"]
    """The largest order key in each interval but the last, in rising order."""
    goes_left: Bool[np.ndarray, " intervals"]
    """Whether each interval goes left."""
    missing_left: bool
    """Whether a missing value goes left."""


class IntervalNode(NamedTuple):
    """A test of intervals that a tree stores as several nodes; all their paths end in the same two children."""

    tree: int
    node: int
    """The test's first node, as its index in the tree."""
    child: int
    """The left child of the test's last nodes."""
    intervals: Intervals


def with_interval_tests(nodes: TreeNodes, tests: Mapping[int, Intervals]) -> TreeNodes:
    """Return the tree ``nodes`` with tests of intervals: ``tests`` has them by the indices of their nodes.

    Such a node keeps its feature and its two children, and becomes the first node of its test. New nodes lie behind the
    nodes of the tree. The test's binary tests are as deep as the logarithm of the number of intervals.
    """
    builder = _NodesWithTests(nodes)
    for node, intervals in tests.items():
        builder.add(node, _merge_intervals(intervals))
    return builder.nodes()


def _merge_intervals(test: Intervals) -> Intervals:
    """Return ``test`` without empty intervals, and with neighbours that go to the same side as one interval."""
    upper = np.asarray(test.upper)
    goes_left = np.asarray(test.goes_left, bool)
    # An interval with the same upper key as the one before it is empty. (Keys are compared, not subtracted: the
    # difference of keys of two signs may not fit into int32.)
    is_not_empty = np.append(True, upper[1:] > upper[:-1]) if len(upper) else np.zeros(0, bool)
    upper = upper[is_not_empty]
    goes_left = np.append(goes_left[:-1][is_not_empty], goes_left[-1])
    # An interval ends where the side changes.
    changes = goes_left[1:] != goes_left[:-1]
    return Intervals(upper[changes], np.append(goes_left[:-1][changes], goes_left[-1]), test.missing_left)


class _NodesWithTests:
    """The nodes of a tree to which `add` adds tests of intervals; ``nodes`` are the tree without these tests."""

    def __init__(self, nodes: TreeNodes):
        self._tree = nodes
        self._arrays = [np.array(array) for array in nodes]  # the fields of `TreeNodes`, changed in place
        self._new: list[tuple[int, int, int, int, bool]] = []  # the fields of each new node
        self._number = len(nodes.feature)  # of nodes, new ones among them

    def nodes(self) -> TreeNodes:
        """Return the nodes of the tree, and behind them the new ones."""
        new_values = zip(*self._new, strict=True) if self._new else ((),) * 5  # of each field
        old_and_new = zip(self._arrays, new_values, strict=True)
        return TreeNodes(*(np.append(old, np.array(new, old.dtype)) for old, new in old_and_new))

    def add(self, node: int, test: Intervals) -> None:
        """Replace the test of ``node`` by ``test``, one of intervals that `_merge_intervals` returned."""
        children = int(self._tree.left[node]), int(self._tree.right[node])
        # A left interval and the right one behind it are one binary test. Tests above it cut between such pairs.
        pairs = np.flatnonzero(test.goes_left[1:])
        bounds = [0, *(pairs + 1).tolist(), len(test.goes_left)]
        self._write(node, int(self._tree.feature[node]), children, test, bounds)

    def _write(self, index: int | None, feature: int, children: tuple[int, int], test: Intervals, bounds: list) -> int:
        """Write binary tests of ``feature`` for neighbouring intervals of ``test``; return the index of the topmost.

        A *last node* is for one interval, or for a left one and the right one behind it; its children are ``children``.
        The nodes above choose among last nodes by bisection. ``bounds`` has the first interval of each last node, and
        the end of the last interval. The topmost node is written at ``index``, or, if that is None, as a new node.
        """
        if len(bounds) > 2:
            middle = len(bounds) // 2
            left = self._write(None, feature, children, test, bounds[: middle + 1])
            right = self._write(None, feature, children, test, bounds[middle:])
            # A missing value goes left down to the test of the first intervals, which sends it to its side.
            missing_right = False
            return self._put(index, (feature, int(test.upper[bounds[middle] - 1]), left, right, missing_right))
        first, end = bounds  # one interval, or a left one and the right one behind it
        # A single interval goes to one side: no key is beyond the largest, and every key is beyond the least less 1.
        sends_all = _LARGEST if test.goes_left[first] else _LEAST - 1
        threshold = int(test.upper[first]) if end - first == 2 else sends_all
        missing_right = first == 0 and not test.missing_left
        return self._put(index, (feature, threshold, *children, missing_right))

    def _put(self, index: int | None, row: tuple[int, int, int, int, bool]) -> int:
        """Write a node with the fields ``row`` at ``index`` or, if that is None, as a new one; return its index."""
        if index is None:
            self._new.append(row)
            self._number += 1
            return self._number - 1
        for array, value in zip(self._arrays, row, strict=True):
            array[index] = value
        return index


class IntervalTests(NamedTuple):
    """All tests of intervals that trees store as several nodes, as arrays; an `IntervalNode` is one such test.

    A *piece* is the range of order keys that reach one of a test's last nodes. Pieces are sorted by test, then by key.
    """

    tree: Int64[np.ndarray, " tests"]
    """The tree of each test."""
    node: Int64[np.ndarray, " tests"]
    """The first node of each test."""
    child: Int64[np.ndarray, " tests"]
    """The left child of the test's last nodes."""
    missing_left: Bool[np.ndarray, " tests"]
    """Whether a missing value goes left."""
    within: Bool[np.ndarray, "trees nodes"]
    """Whether a node belongs to a test and is not its first node."""
    of: Int64[np.ndarray, " pieces"]
    """The test that each piece belongs to."""
    below: Int64[np.ndarray, " pieces"]
    """The key just below the piece: keys ``below + 1 … cut`` go left, ``cut + 1 … last`` go right."""
    cut: Int64[np.ndarray, " pieces"]
    """The last key that goes left; ``below`` if none does."""
    last: Int64[np.ndarray, " pieces"]
    """The last key of the piece."""


def interval_tests(trees: Trees) -> IntervalTests | None:
    """Return all tests of intervals that ``trees`` store as several nodes; None if no nodes share children."""
    # Nodes are numbered over all trees: by their index in the flattened arrays.
    n_nodes = trees.n_nodes
    child = (np.asarray(trees.child) + np.arange(trees.n_trees)[:, None] * n_nodes).ravel()
    has_several = has_several_parents(child)
    if has_several is None:
        return None
    arrays = trees.feature, trees.threshold, trees.missing_right
    feature, threshold, missing_right = (np.asarray(array).ravel() for array in arrays)
    end, tests = _ends_of_tests(child, feature, has_several)
    pieces, within = _pieces_of_tests(child, threshold, end, tests)
    # A missing value goes from each test's first node down to one of its last nodes, which has the end as its child. A
    # right child is the node behind the left one.
    last_node = tests
    while (is_above := child[last_node] != end[last_node]).any():
        last_node = np.where(is_above, child[last_node] + missing_right[last_node], last_node)
    tree, node = np.divmod(tests, n_nodes)
    return IntervalTests(
        tree, node, end[tests] - tree * n_nodes, ~missing_right[last_node], within.reshape(trees.child.shape), *pieces.T
    )


def _ends_of_tests(child: np.ndarray, feature: np.ndarray, has_several: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (the end of each node or -1, the first nodes of all tests of intervals).

    A node's *end* is a left child that several nodes share, and that all paths from the node lead to. The nodes on
    these paths test one column. ``has_several`` says which nodes have several parents. ``child`` and ``feature`` are
    fields of `Trees`, flattened, with nodes numbered over all trees.
    """
    nodes = np.arange(len(child))
    inner = np.flatnonzero(child != nodes)
    has_shared = has_several[child[inner]] | has_several[child[inner] + 1]
    parent = np.full(len(nodes), -1)
    unshared = inner[~has_shared]
    parent[child[unshared]] = parent[child[unshared] + 1] = unshared
    # Last nodes have an end at once. A node above has it where its two children agree.
    end = np.full(len(nodes), -1)
    level = inner[has_shared]  # the nodes whose end was found last
    end[level] = child[level]
    upper_levels = [level[:0]]  # nodes above last nodes, by the round that found their ends; none in the first
    while level.size:
        node = np.unique(parent[level])
        node = node[node >= 0]
        left = child[node]
        ends_agree = (end[left] >= 0) & (end[left] == end[left + 1])
        ends_agree &= (feature[left] == feature[node]) & (feature[left + 1] == feature[node])
        level = node[ends_agree]
        end[level] = end[child[level]]
        upper_levels.append(level)
    # A test's first node is the topmost of these: its parent is not among them.
    upper_nodes = np.sort(np.concatenate(upper_levels))
    is_upper = np.append(np.zeros(len(nodes), bool), False)  # the last entry is for the parent -1 of a root
    is_upper[upper_nodes] = True
    return end, upper_nodes[~is_upper[parent[upper_nodes]]]


def _pieces_of_tests(
    child: np.ndarray, threshold: np.ndarray, end: np.ndarray, tests: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (the pieces of all tests, whether each node is in a test, but not its first node).

    Pieces are sorted rows of the fields ``of``, ``below``, ``cut`` and ``last`` of `IntervalTests`. ``tests`` are the
    tests' first nodes, and ``end [nodes]`` has the left child that the last nodes of a node's test share. ``child`` and
    ``threshold`` are fields of `Trees`, flattened, with nodes numbered over all trees.
    """
    pieces = [np.zeros((0, 4), np.int64)]
    within = np.zeros(len(child), bool)
    # From each test's first node down, with the range of keys that reach each node: below < key <= last.
    node = tests
    test = np.arange(len(tests))
    below = np.full(len(tests), _LEAST - 1, np.int64)
    last = np.full(len(tests), _LARGEST)
    while node.size:
        cut = np.clip(threshold[node].astype(np.int64), below, last)
        is_last = child[node] == end[node]
        pieces.append(np.stack([test, below, cut, last], axis=1)[is_last])
        node, test, below, cut, last = (array[~is_last] for array in (node, test, below, cut, last))
        # The left child gets the keys up to the cut, the right one those above.
        node = np.concatenate([child[node], child[node] + 1])
        test = np.tile(test, 2)
        below, last = np.concatenate([below, cut]), np.concatenate([cut, last])
        within[node] = True
    piece = np.concatenate(pieces)
    return piece[np.lexsort(piece.T[::-1])], within  # by the first column, then by the next


def has_several_parents(left_of: np.ndarray) -> Bool[np.ndarray, " nodes"] | None:
    """Return whether each node has several parents; None if no node has, as in ordinary trees.

    ``left_of [nodes]`` has each node's left child, in a leaf the leaf itself. Nodes are numbered over all trees.
    """
    left = left_of[left_of != np.arange(left_of.size)]
    is_child = np.zeros(left_of.size, bool)
    is_child[left] = is_child[left + 1] = True
    if np.count_nonzero(is_child) == 2 * left.size:
        return None
    return np.bincount(np.concatenate([left, left + 1]), minlength=left_of.size) > 1


def interval_nodes(trees: Trees) -> tuple[list[IntervalNode], Bool[np.ndarray, "trees nodes"]]:
    """Return (tests of intervals that ``trees`` store as several nodes, whether each node is in a test, but not first).

    Raises a ValueError if a node has two parents even when each test is taken for one node.
    """
    all_tests = interval_tests(trees)
    if all_tests is None:
        return [], np.zeros(trees.child.shape, bool)
    _check_parents(trees, all_tests)
    # Each piece is two intervals: the keys ``below + 1 … cut`` go left, ``cut + 1 … last`` go right.
    below = np.stack([all_tests.below, all_tests.cut], axis=1).ravel()
    upper = np.stack([all_tests.cut, all_tests.last], axis=1).ravel()
    has_keys = upper > below
    upper = upper[has_keys].astype(np.int32)
    goes_left = np.tile([True, False], len(all_tests.of))[has_keys]
    test = all_tests.of.repeat(2)[has_keys]
    # The intervals of test i lie between ends[i] and ends[i + 1].
    ends = np.searchsorted(test, np.arange(len(all_tests.tree) + 1)).tolist()
    fields = (array.tolist() for array in (all_tests.tree, all_tests.node, all_tests.child, all_tests.missing_left))
    tests = []
    for (start, end), tree, node, child, missing_left in zip(pairwise(ends), *fields, strict=True):
        intervals = Intervals(upper[start : end - 1], goes_left[start:end], missing_left)
        tests.append(IntervalNode(tree, node, child, _merge_intervals(intervals)))
    return tests, all_tests.within


def _check_parents(trees: Trees, tests: IntervalTests) -> None:
    """Raise a ValueError if a node of ``trees`` has several parents, when each of ``tests`` counts as one node."""
    child = np.array(trees.child)
    child[tests.tree, tests.node] = tests.child
    tree, node = np.nonzero(reached_nodes(child) & ~tests.within & (child != np.arange(trees.n_nodes)))
    left = child[tree, node]
    n_parents = np.zeros(child.shape, np.int64)
    np.add.at(n_parents, (np.tile(tree, 2), np.append(left, left + 1)), 1)
    if np.any(n_parents > 1):
        raise ValueError(
            f"tree {np.argwhere(n_parents > 1)[0, 0]} has nodes with several parents that are no test of intervals of "
            "one column, and other libraries have trees. Give each parent a copy of what is below."
        )


class ColumnSets(NamedTuple):
    """The distinct sets of values that tests of intervals of one column send right.

    A set holds codes of values. A value's code is the number of borders that are below its order key; the largest code
    is that of a missing value.
    """

    border: Int32[np.ndarray, " borders"]
    """The fields ``below``, ``cut`` and ``last`` of all pieces of these tests, each key once, in rising order."""
    goes_right: Bool[np.ndarray, "sets codes"]
    """Whether each set sends each code right."""
    tree: Int64[np.ndarray, " sets"]
    """The first tree that tests each set, by which the sets are sorted."""
    test: Int64[np.ndarray, " tests"]
    """The tests of this column, as positions in `IntervalTests`."""
    number: Int64[np.ndarray, " tests"]
    """The number of the set that each test sends right."""


def column_sets(tests: IntervalTests, test: Int64[np.ndarray, " tests"]) -> ColumnSets:
    """Return the sets that tests of one column send right; ``test`` has the positions of these tests in ``tests``."""
    index = np.full(len(tests.tree), -1)  # of each test in ``test``; -1 for tests of other columns
    index[test] = np.arange(len(test))
    is_of_column = index[tests.of] >= 0
    below, cut, last = tests.below[is_of_column], tests.cut[is_of_column], tests.last[is_of_column]
    border = np.unique(np.concatenate([below, cut, last]))
    # For each piece with keys that go left: its test, and the codes of these keys, first <= code < end.
    goes_left = below < cut
    owner = index[tests.of[is_of_column]][goes_left]
    first_code, end_code = (np.searchsorted(border, bound[goes_left]) + 1 for bound in (below, cut))
    packed_rows = []  # bits of a row for each test: which codes go right
    n_together = max(1, _MOST_CELLS // len(border))
    for start in range(0, len(test), n_together):
        stop = min(start + n_together, len(test))
        piece_range = slice(*np.searchsorted(owner, [start, stop]))
        # Codes go right but for those of pieces that go left: +1 at a piece's first code and -1 behind its last one add
        # up to 1 at each of its codes.
        change = np.zeros((stop - start, len(border) + 2), np.int8)
        change[owner[piece_range] - start, first_code[piece_range]] += 1
        change[owner[piece_range] - start, end_code[piece_range]] -= 1
        goes_right = np.cumsum(change[:, :-1], axis=1, dtype=np.int8) == 0
        goes_right[:, -1] = ~tests.missing_left[test[start:stop]]
        packed_rows.append(np.packbits(goes_right, axis=1))
    packed_rows = np.concatenate(packed_rows)
    _, first_test, set_of_test = np.unique(packed_rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first_test)  # tests are sorted by tree: so sets are in the order of the trees that test them
    goes_right = np.unpackbits(packed_rows[first_test[order]], axis=1, count=len(border) + 1).astype(bool)
    set_number = np.argsort(order)[set_of_test.ravel()]  # the position of each test's set in this order
    return ColumnSets(border.astype(np.int32), goes_right, tests.tree[test[first_test[order]]], test, set_number)


def reached_nodes(child: Int32[np.ndarray, "trees nodes"]) -> Bool[np.ndarray, "trees nodes"]:
    """Return whether a path from the root leads to each node; ``child`` has left children, as `Trees.child`."""
    reached = np.zeros(child.shape, bool)
    tree = np.arange(len(child))
    node = np.zeros(len(child), np.int64)
    while len(tree):
        reached[tree, node] = True
        left = child[tree, node]
        inner = left != node
        tree, left = tree[inner], left[inner]
        tree = np.concatenate([tree, tree])
        node = np.concatenate([left, left + 1])
        is_new = ~reached[tree, node]
        # Nodes with several parents are visited once.
        flat_index = np.unique(tree[is_new] * child.shape[1] + node[is_new])
        tree, node = np.divmod(flat_index, child.shape[1])
    return reached
