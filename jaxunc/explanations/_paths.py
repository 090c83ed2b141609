"""The paths of trees as arrays, level by level: each column of a path once, with the values that it lets pass.

A node that several paths lead to, as tests of categories have them, is there once for each. Its cover is shared out
evenly among them: then the shares of paths that differ in one column alone add up to those of one test.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxunc._numerics import NAN_FIRST, NAN_LAST
from jaxunc.forest import Trees

MOST = 2**22
"""Nodes of a level beyond which trees are refused: nested tests of large sets have a path for each way through them."""


class Paths(NamedTuple):
    """The distinct columns of paths from a root; where a path has fewer, the others let everything pass."""

    column: Int[np.ndarray, "paths columns"]
    """The columns, -1 behind the last."""
    low: Int[np.ndarray, "paths columns"]
    high: Int[np.ndarray, "paths columns"]
    """Order keys that pass: low < key ≤ high."""
    missing: Bool[np.ndarray, "paths columns"]
    """Whether a missing value passes."""

    @classmethod
    def of_roots(cls, n: int) -> "Paths":
        """Return paths of no column."""
        return cls(*(np.full((n, 0), fill) for fill in _FILLS))

    def of(self, chosen: np.ndarray) -> "Paths":
        """Return some of the paths."""
        return Paths(*(part[chosen] for part in self))

    def as_wide_as(self, width: int) -> "Paths":
        """Return the paths with room for so many columns."""
        more = ((0, 0), (0, width - self.column.shape[1]))
        return Paths(*(np.pad(part, more, constant_values=fill) for part, fill in zip(self, _FILLS, strict=True)))

    def with_tests(self, column: np.ndarray) -> tuple["Paths", np.ndarray]:
        """Return the paths with a column each that is tested next, and its place."""
        same, number = self.column == column[:, None], (self.column >= 0).sum(axis=1)
        place = np.where(same.any(axis=1), same.argmax(axis=1) if same.size else 0, number)
        paths = self.as_wide_as(max(self.column.shape[1], int(place.max(initial=-1)) + 1))
        paths.column[np.arange(len(place)), place] = column
        return paths, place


_FILLS = (np.int32(-1), NAN_FIRST, NAN_LAST, np.True_)


class Level(NamedTuple):
    """The inner nodes of all trees at one depth, and their children: first all left ones, then all right ones."""

    tree: Int[np.ndarray, "nodes"]
    node: Int[np.ndarray, "nodes"]
    place: Int[np.ndarray, "nodes"]
    """The place of the tested column in the path."""
    low: Int[np.ndarray, "nodes"]
    high: Int[np.ndarray, "nodes"]
    missing: Bool[np.ndarray, "nodes"]
    """What passes the tests of this column above: all at its first test."""
    child: Int[np.ndarray, "children"]
    """The nodes of the children."""
    is_inner: Bool[np.ndarray, "children"]
    """Whether a child is a node of the next level."""


class Unrolled(NamedTuple):
    """Levels of trees, and the leaves at the ends of their paths, level after level; trees of one leaf come first."""

    levels: list[Level]
    tree: Int[np.ndarray, "paths"]
    leaf: Int[np.ndarray, "paths"]
    paths: Paths

    @property
    def most_columns(self) -> int:
        """The most distinct columns on a path."""
        return self.paths.column.shape[1]


def unroll(trees: Trees) -> Unrolled:
    """Return the paths of trees with values, on the host."""
    child, column, threshold, missing_right = (
        np.asarray(part) for part in (trees.child, np.maximum(trees.feature, 0), trees.threshold, trees.missing_right)
    )
    single = child[:, 0] == 0
    (tree, node), (leaf, root) = ((own, np.zeros_like(own)) for own in map(np.flatnonzero, (~single, single)))
    ends = [(leaf, root, Paths.of_roots(len(leaf)))]
    paths, levels = Paths.of_roots(len(tree)), []
    while len(node):
        if len(node) > MOST:
            raise ValueError(
                f"tests of sets below each other lead to more than {MOST} paths, too many to explain: pass a model of "
                "less depth, or with fewer categories in a test."
            )
        every = np.arange(len(node))
        paths, place = paths.with_tests(column[tree, node])
        low, high, missing = (part[every, place] for part in paths[1:])
        both, right = np.tile(every, 2), np.repeat([False, True], len(node))
        children = child[tree, node][both] + right
        is_inner = child[tree[both], children] != children
        levels.append(Level(tree, node, place, low, high, missing, children, is_inner))
        below, at, key = paths.of(both), (np.arange(2 * len(node)), place[both]), threshold[tree, node][both]
        below.low[at] = np.where(right, np.maximum(below.low[at], key), below.low[at])
        below.high[at] = np.where(right, below.high[at], np.minimum(below.high[at], key))
        below.missing[at] &= missing_right[tree, node][both] == right
        ends.append((tree[both][~is_inner], children[~is_inner], below.of(~is_inner)))
        paths, tree, node = below.of(is_inner), tree[both][is_inner], children[is_inner]
    width = max(each.column.shape[1] for *_, each in ends)
    trees_of, leaves, parts = zip(*ends, strict=True)
    parts = zip(*(part.as_wide_as(width) for part in parts), strict=True)
    return Unrolled(levels, np.concatenate(trees_of), np.concatenate(leaves), Paths(*map(np.concatenate, parts)))


class Shares(NamedTuple):
    """How the rows that make a cover are shared out: chances of a column that is not known."""

    left: list[Float[np.ndarray, "nodes"]]
    """Of each level's nodes: the share of their rows that goes left."""
    above: list[Float[np.ndarray, "nodes"]]
    """Of each level's nodes: the product of shares at the tests of its column above; 1 at the first."""
    passing: Float[np.ndarray, "paths columns"]
    """Of each path: the product of shares at the tests of a column."""


def shares_of_cover(unrolled: Unrolled, cover: Float[np.ndarray, "trees nodes"]) -> Shares:
    """Return the shares of rows, from the number in each leaf. Where no row came, both sides have one half."""
    times = np.zeros(cover.shape)
    np.add.at(times, (unrolled.tree, unrolled.leaf), 1)
    cover = cover / np.maximum(times, 1)
    below, left = np.zeros(0), []
    for level in reversed(unrolled.levels):
        rows = np.where(level.is_inner, 0.0, cover[np.tile(level.tree, 2), level.child])
        rows[level.is_inner] = below
        both = rows.reshape(2, -1)
        below = both.sum(axis=0)
        left.insert(0, np.where(below > 0, both[0] / np.where(below > 0, below, 1), 0.5))
    n_roots = len(unrolled.levels[0].tree) if unrolled.levels else 0
    z, above, ends = np.ones((n_roots, unrolled.most_columns)), [], []
    ends.append(np.ones((len(unrolled.tree) - sum(np.sum(~level.is_inner) for level in unrolled.levels), z.shape[1])))
    for level, share in zip(unrolled.levels, left, strict=True):
        above.append(z[np.arange(len(z)), level.place])
        z = np.tile(z, (2, 1))
        z[np.arange(len(z)), np.tile(level.place, 2)] *= np.concatenate([share, 1 - share])
        ends.append(z[~level.is_inner])
        z = z[level.is_inner]
    return Shares(left, above, np.concatenate(ends))
