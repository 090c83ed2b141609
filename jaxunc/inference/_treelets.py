"""The top of every tree as tests that are made on whole rows, without a gather: which, and where they lead.

The tallest inner nodes of a tree hang together, since a parent is taller than its children. An *exit* is an edge that
leaves them. Each test rules out the exits on its left where it goes right; of those that are left at the end the first
is the one that the instance takes (the idea of QuickScorer, Lucchese et al. 2015, for the top of a tree).

Several paths may lead to a node: tests of one category against the others have children in common. Such nodes, and all
below them, are left to the walk.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Int32

MOST_TESTS = 31
"""One less than the bits of a word: the exits that are left."""


class Top(NamedTuple):
    """The tests at the top of each tree. Where a tree has fewer, the others are its root and rule out nothing."""

    tests: Int32[Array, "trees tests"]
    """The nodes whose tests are made."""
    exits: Int32[Array, "trees tests"]
    """The exits that remain where the test goes right, a bit each: the leftmost is the highest."""
    entry: Int32[Array, "trees exits"]
    """The node behind each exit, from the left."""
    rest: Int32[Array, "trees"]
    """Tests on the longest path below."""


def tallest(child: Int32[np.ndarray, "trees nodes"]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The arrays of a `Top` of the tallest nodes. Right children lie behind the left ones; leaves are their own."""
    n_trees, n_nodes = child.shape
    n_tests = min(MOST_TESTS, max(1, n_nodes // 2))
    (height, rank), trees = _heights(child), np.arange(n_trees)[:, None]
    tests = np.argpartition(-rank, n_tests - 1, axis=1)[:, :n_tests]
    tests = np.take_along_axis(tests, np.argsort(-rank[trees, tests], axis=1), 1)  # parents come first
    inner, children = rank[trees, tests] > 0, child[trees, tests][..., None] + np.arange(2)
    # Whether a test is the left or right child of another: [trees parents sides tests].
    leads_to = (children[..., None] == tests[:, None, None]) & (inner[:, :, None] & inner[:, None])[:, :, None]
    # Each test has a stretch of a line, the root all of it; the left child has its first half, the right one the other.
    begin, half = np.zeros((2, n_trees, n_tests), np.int64)
    half[:, 0] = 2**61
    parent, is_right = leads_to.any(axis=2).argmax(axis=1), leads_to[:, :, 1].any(axis=1)
    for j in range(1, n_tests):
        above = trees[:, 0], parent[:, j]
        half[:, j], begin[:, j] = half[above] // 2, begin[above] + is_right[:, j] * half[above]
    half = np.where(inner, half, 0)
    # A child that is no test is an exit, at the beginning of its half; a place that is none lies beyond the line.
    is_exit = inner[..., None] & ~leads_to.any(axis=3)
    start = np.where(is_exit, begin[..., None] + np.stack([np.zeros_like(half), half], axis=2), 2**62).reshape(
        n_trees, -1
    )
    order = np.argsort(start, axis=1)[:, : n_tests + 1]
    entry = np.take_along_axis(np.where(is_exit, children, 0).reshape(n_trees, -1), order, 1)
    start = np.take_along_axis(start, order, 1)[:, None]
    ruled_out = (start >= begin[..., None]) & (start < (begin + half)[..., None])
    bits = np.uint32(1) << (31 - np.arange(n_tests + 1, dtype=np.uint32))
    exits = ~np.where(ruled_out, bits, np.uint32(0)).sum(axis=2, dtype=np.uint32)
    # Where a tree has fewer exits than places, the others lead nowhere.
    rest = np.where(start[:, 0] < 2**62, height[trees, entry], 0).max(axis=1)
    return np.where(inner, tests, 0).astype(np.int32), exits.view(np.int32), entry.astype(np.int32), rest


def _heights(child: Int32[np.ndarray, "trees nodes"]) -> tuple[np.ndarray, np.ndarray]:
    """Tests on the longest path below each node that a root leads to; and the same with 0 where several paths do."""
    n_trees, n_nodes = child.shape
    roots = np.arange(n_trees) * n_nodes
    left_of = (child + roots[:, None]).ravel()
    several = _led_to_twice(left_of)
    level, levels = roots, []
    while level.size:
        left = left_of[level]
        inner = left != level
        level, left = level[inner], left[inner]
        levels.append((level, left))
        level = np.stack([left, left + 1], axis=1).ravel()
        if several is not None:
            several[level] |= several[levels[-1][0]].repeat(2)
            level = np.unique(level)
    height = np.zeros(child.size, np.int32)
    for level, left in reversed(levels):
        height[level] = 1 + np.maximum(height[left], height[left + 1])
    rank = height if several is None else np.where(several, 0, height)
    return height.reshape(child.shape), rank.reshape(child.shape)


def _led_to_twice(left_of: np.ndarray) -> np.ndarray | None:
    """Nodes that are children of several, or `None` where each has one parent, as in trees."""
    left = left_of[left_of != np.arange(left_of.size)]
    is_child = np.zeros(left_of.size, bool)
    is_child[left] = True
    is_child[left + 1] = True
    if np.count_nonzero(is_child) == 2 * left.size:
        return None
    return np.bincount(np.concatenate([left, left + 1]), minlength=left_of.size) > 1
