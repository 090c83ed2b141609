"""Tests of whether a value lies in some of many intervals, such as sets of categories, as binary ones."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int32

from jaxunc._numerics import order_key_at_or_below

from ._assemble import TreeNodes

_LARGEST, _LEAST = order_key_at_or_below(np.array([np.inf, -np.inf])).tolist()


class Intervals(NamedTuple):
    """The numbers as neighbouring intervals, each of which goes to one side."""

    upper: Int32[np.ndarray, " inner"]
    """The largest order key of each interval but the last, rising."""
    goes_left: Bool[np.ndarray, " intervals"]
    """Whether each interval goes left."""
    missing_left: bool
    """Whether a missing value goes left."""


def intervals_of_codes(codes: np.ndarray, below: np.ndarray, last: np.ndarray, missing_left: bool) -> Intervals:
    """Return the intervals of a set of integers that goes left, all else going right.

    Parameters
    ----------
    codes
        The set, in any order.
    below, last
        For each code of the set the key below those of its numbers, and the last of theirs.
    missing_left
        Whether a missing value goes left.
    """
    order = np.argsort(codes)
    bounds = np.stack([below[order], last[order]], axis=1).ravel()
    return Intervals(bounds, np.arange(len(bounds) + 1) % 2 == 1, missing_left)


def with_interval_tests(nodes: TreeNodes, tests: Mapping[int, Intervals]) -> TreeNodes:
    """Return a tree whose given nodes make these tests, as a few binary tests of their feature each.

    A tree of binary tests, as deep as the logarithm of the number of intervals, ends in the two children of the node:
    they are the children of several nodes. New nodes lie behind those that there were.

    Parameters
    ----------
    nodes
        The tree.
    tests
        Intervals by the place of the node that tests them.
    """
    if not tests:
        return nodes
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
