"""Tests of whether a value lies in some of many intervals, such as sets of categories, as binary ones, and back."""

import heapq
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int32

from jaxunc._numerics import order_key_at_or_below

from ._assemble import TreeNodes
from ._forest import Trees

_LARGEST, _LEAST = order_key_at_or_below(np.array([np.inf, -np.inf])).tolist()


class Intervals(NamedTuple):
    """The numbers as neighbouring intervals, each of which goes to one side."""

    upper: Int32[np.ndarray, " inner"]
    """The largest order key of each interval but the last, rising."""
    goes_left: Bool[np.ndarray, " intervals"]
    """Whether each interval goes left."""
    missing_left: bool
    """Whether a missing value goes left."""


class IntervalNode(NamedTuple):
    """A test of intervals that trees make by several nodes, which share the children."""

    tree: int
    node: int
    """The first of its nodes."""
    child: int
    """The left child of the last ones."""
    intervals: Intervals


def intervals_of_codes(codes: np.ndarray, below: np.ndarray, last: np.ndarray, missing_left: bool) -> Intervals:
    """Return the intervals of a set of integers, in any order, that goes left, all else going right.

    For each code: the key ``below`` those of its numbers, and the ``last`` of theirs.
    """
    order = np.argsort(codes)
    bounds = np.stack([below[order], last[order]], axis=1).ravel()
    return Intervals(bounds, np.arange(len(bounds) + 1) % 2 == 1, missing_left)


def with_interval_tests(nodes: TreeNodes, tests: Mapping[int, Intervals]) -> TreeNodes:
    """Return a tree whose given nodes make these tests, as a few binary tests of their feature each.

    A tree of binary tests, as deep as the logarithm of the number of intervals, ends in the two children of the node:
    they are the children of several nodes. New nodes lie behind those that there were.
    """
    made = _Made(nodes)
    for node, intervals in tests.items():
        made.add(node, _joined(intervals))
    return made.nodes()


def _joined(test: Intervals) -> Intervals:
    """Join empty intervals and neighbours of one side."""
    upper, goes_left = np.asarray(test.upper), np.asarray(test.goes_left, bool)
    # An interval that ends where the one before does is empty: the last of those with one end counts. (Keys are
    # compared, not subtracted: the difference of two signs leaves int32.)
    starts = np.append(True, upper[1:] > upper[:-1]) if len(upper) else np.zeros(0, bool)
    upper, goes_left = upper[starts], np.append(goes_left[:-1][starts], goes_left[-1])
    changes = goes_left[1:] != goes_left[:-1]
    return Intervals(upper[changes], np.append(goes_left[:-1][changes], goes_left[-1]), test.missing_left)


class _Made:
    """The nodes of a tree while tests are added."""

    def __init__(self, nodes: TreeNodes):
        self._given = nodes
        self._arrays = [np.array(part) for part in nodes]
        self._new: list[tuple[int, int, int, int, bool]] = []
        self._number = len(nodes.feature)

    def nodes(self) -> TreeNodes:
        """All nodes."""
        columns = zip(*self._new, strict=True) if self._new else ((),) * 5
        parts = zip(self._arrays, columns, strict=True)
        return TreeNodes(*(np.append(old, np.array(new, old.dtype)) for old, new in parts))

    def add(self, node: int, test: Intervals) -> None:
        """Replace a node's test."""
        children = int(self._given.left[node]), int(self._given.right[node])
        # Left then right is one binary test; the cuts between such pairs are tests of a tree above.
        pairs = np.flatnonzero(test.goes_left[1:])
        bounds = [0, *(pairs + 1).tolist(), len(test.goes_left)]
        self._node(node, int(self._given.feature[node]), children, test, bounds)

    def _node(self, place: int | None, feature: int, children: tuple[int, int], test: Intervals, bounds: list) -> int:
        if len(bounds) > 2:
            middle = len(bounds) // 2
            # A missing value goes left until the first of the intervals, whose test knows.
            left = self._node(None, feature, children, test, bounds[: middle + 1])
            right = self._node(None, feature, children, test, bounds[middle:])
            return self._put(place, (feature, int(test.upper[bounds[middle] - 1]), left, right, False))
        first, end = bounds
        whole = _LARGEST if test.goes_left[first] else _LEAST - 1
        threshold = int(test.upper[first]) if end - first == 2 else whole
        missing_right = first == 0 and not test.missing_left
        return self._put(place, (feature, threshold, *children, missing_right))

    def _put(self, place: int | None, row: tuple[int, int, int, int, bool]) -> int:
        if place is None:
            self._new.append(row)
            self._number += 1
            return self._number - 1
        for array, value in zip(self._arrays, row, strict=True):
            array[place] = value
        return place


def interval_nodes(trees: Trees) -> tuple[list[IntervalNode], Bool[np.ndarray, "trees nodes"]]:
    """Return the tests of intervals whose nodes share children, and which nodes are theirs but not the first.

    What `with_interval_tests` made of a node becomes one again, so that no node has two parents. Raises a ValueError if
    nodes share children in any other way.
    """
    child = np.asarray(trees.child)
    within = np.zeros(child.shape, bool)
    tree, node = np.nonzero(reached_nodes(trees) & (child != np.arange(trees.n_nodes)))
    left = tree * trees.n_nodes + child[tree, node]
    number = np.bincount(np.concatenate([left, left + 1]), minlength=child.size).reshape(child.shape)
    found = []
    for t in np.flatnonzero(np.any(number > 1, axis=1)).tolist():
        shared = _Shared(trees, t, node[tree == t], number[t])
        found += [shared.read(left) for left in np.unique(shared.child[shared.inner][shared.is_shared]).tolist()]
        within[t, list(shared.within)] = True
    return found, within


def reached_nodes(trees: Trees) -> Bool[np.ndarray, "trees nodes"]:
    """Return which nodes the roots lead to."""
    child = np.asarray(trees.child)
    reached = np.zeros(child.shape, bool)
    tree, node = np.arange(len(child)), np.zeros(len(child), np.int64)
    while len(tree):
        reached[tree, node] = True
        left = child[tree, node]
        inner = left != node
        tree, left = tree[inner], left[inner]
        tree, node = np.concatenate([tree, tree]), np.concatenate([left, left + 1])
        fresh = ~reached[tree, node]
        # Nodes with several parents are followed once.
        flat = np.unique(tree[fresh] * child.shape[1] + node[fresh])
        tree, node = np.divmod(flat, child.shape[1])
    return reached


class _Shared:
    """One tree some of whose nodes share children."""

    def __init__(self, trees: Trees, t: int, inner: np.ndarray, n_parents: np.ndarray):
        arrays = trees.feature, trees.threshold, trees.child, trees.missing_right
        self._feature, self._threshold, self.child, self._missing_right = (np.asarray(one[t]) for one in arrays)
        self._t, self._n_parents, self.inner = t, n_parents, inner
        self.is_shared = np.maximum(n_parents[self.child[inner]], n_parents[self.child[inner] + 1]) > 1
        self._parent = np.zeros(len(self.child), np.int64)
        for side in (0, 1):
            self._parent[self.child[inner] + side] = inner
        self.within: set[int] = set()

    def read(self, left: int) -> IntervalNode:
        """The test whose last nodes have this left child."""
        last = self.inner[self.child[self.inner] == left].tolist()
        if not self._n_parents[left] == self._n_parents[left + 1] == len(last):
            raise self._refusal()
        first, own = self._first(last)
        self.within |= own - {first}
        upper, goes_left = self._pieces(first, left, own)
        node = first
        while self.child[node] != left:
            node = int(self.child[node] + self._missing_right[node])
        test = Intervals(np.array(upper[:-1], np.int32), np.array(goes_left, bool), not self._missing_right[node])
        return IntervalNode(self._t, first, left, _joined(test))

    def _first(self, last: list[int]) -> tuple[int, set[int]]:
        """The node that all paths to these lead through, and all nodes on these paths behind it."""
        own, heads = set(last), [-node for node in last]
        heapq.heapify(heads)
        while len(heads) > 1:
            # Children lie after parents: nothing that is still to be climbed lies below the one that comes last.
            node = -heapq.heappop(heads)
            if self._n_parents[node] != 1:
                raise self._refusal()
            if (parent := int(self._parent[node])) not in own:
                own.add(parent)
                heapq.heappush(heads, -parent)
        return -heads[0], own

    def _pieces(self, first: int, left: int, own: set[int]) -> tuple[list[int], list[bool]]:
        """The intervals between the tests of these nodes: the last key of each, and whether it goes left."""
        upper, goes_left, todo = [], [], [(first, _LEAST - 1, _LARGEST)]
        while todo:
            node, low, high = todo.pop()
            if self._feature[node] != self._feature[first] or node not in own:
                raise self._refusal()
            cut = min(max(int(self._threshold[node]), low), high)
            below = int(self.child[node])
            if below == left:
                upper += [cut, high]
                goes_left += [True, False]
            else:
                todo += [(below + 1, cut, high), (below, low, cut)]
        kept = [i for i, end in enumerate(upper) if end > (upper[i - 1] if i else _LEAST - 1)]
        return [upper[i] for i in kept], [goes_left[i] for i in kept]

    def _refusal(self) -> ValueError:
        return ValueError(
            f"tree {self._t} has nodes with several parents that are no test of intervals of one column, and other "
            "libraries have trees. Give each parent a copy of what is below."
        )
