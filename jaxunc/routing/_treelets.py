"""The top of every tree as tests that are made on whole rows, without a gather: which, and where they lead.

The tallest inner nodes of a tree hang together, since a parent is taller than its children. An *exit* is an edge that
leaves them. Each test rules out the exits on its left where it goes right; of those that are left at the end the first
is the one that the instance takes (the idea of QuickScorer, Lucchese et al. 2015, for the top of a tree).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int32

MOST_TESTS = 31
"""One less than the bits of a word: the exits that are left."""


class Top(NamedTuple):
    """The tests at the top of each tree. Where a tree has fewer, the others are its root and rule out nothing."""

    node: Int32[np.ndarray, "trees tests"]
    """The nodes whose tests are made."""
    exits: Int32[np.ndarray, "trees tests"]
    """The exits that remain where the test goes right, a bit each: the leftmost is the highest."""
    entry: Int32[np.ndarray, "trees exits"]
    """The node behind each exit, from the left."""
    rest: Int32[np.ndarray, "trees"]
    """Tests on the longest path below."""


def treelets(child: Int32[np.ndarray, "trees nodes"]) -> Top:
    """The tallest nodes of trees whose right children lie behind the left ones, and whose leaves are their own."""
    n_trees, n_nodes = child.shape
    n_tests = min(MOST_TESTS, max(1, n_nodes // 2))
    height, trees = _heights(child), np.arange(n_trees)
    # What is below the tests so far, each with its stretch of a line that the root has all of: halves go to children.
    node, tall = np.zeros((n_trees, n_tests + 1), np.int32), np.full((n_trees, n_tests + 1), -1)
    start, width = np.zeros((n_trees, n_tests + 1), np.int64), np.full((n_trees, n_tests + 1), 2**62)
    tall[:, 0], start[:, 1:] = height[:, 0], 2**62  # beyond the line: no exit
    tests, begin, half = np.zeros((3, n_trees, n_tests), np.int64)
    for j in range(n_tests):
        tallest = np.argmax(tall, axis=1)
        at, behind = (trees, tallest), (trees, j + 1)
        inner, left = tall[at] > 0, child[trees, node[at]]
        tests[:, j], begin[:, j], half[:, j] = (
            np.where(inner, node[at], 0),
            start[at],
            np.where(inner, width[at] // 2, 0),
        )
        node[behind] = np.where(inner, left + 1, 0)
        node[at] = np.where(inner, left, node[at])
        tall[behind] = np.where(inner, height[trees, node[behind]], -1)
        tall[at] = np.where(inner, height[trees, node[at]], tall[at])
        start[behind] = np.where(inner, start[at] + half[:, j], 2**62)
        width[at] = width[behind] = np.where(inner, half[:, j], width[at])
    order = np.argsort(start, axis=1, kind="stable")
    entry, start = np.take_along_axis(node, order, 1), np.take_along_axis(start, order, 1)[:, None]
    ruled_out = (start >= begin[..., None]) & (start < (begin + half)[..., None])
    bits = np.uint32(1) << (31 - np.arange(n_tests + 1, dtype=np.uint32))
    exits = ~np.where(ruled_out, bits, np.uint32(0)).sum(axis=2, dtype=np.uint32)
    rest = np.maximum(tall, 0).max(axis=1)
    return Top(tests.astype(np.int32), exits.view(np.int32), entry, rest.astype(np.int32))


def _heights(child: Int32[np.ndarray, "trees nodes"]) -> Int32[np.ndarray, "trees nodes"]:
    """Tests on the longest path below each node that a root leads to."""
    n_trees, n_nodes = child.shape
    roots = np.arange(n_trees) * n_nodes
    below = (child + roots[:, None].astype(np.int64 if child.size > 2**31 - 1 else np.int32)).ravel()
    levels, level = [], roots
    while level.size:
        level = level[below[level] != level]
        levels.append(level)
        level = np.concatenate([below[level], below[level] + 1])
    height = np.zeros(child.size, np.int32)
    for level in reversed(levels):
        left = below[level]
        height[level] = 1 + np.maximum(height[left], height[left + 1])
    return height.reshape(child.shape)
