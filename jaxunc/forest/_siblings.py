"""The side table of empty leaves: children of multi-way tests that no instance of the sample reached."""

import dataclasses
from typing import TYPE_CHECKING

import equinox as eqx
import numpy as np
from jaxtyping import Array, Int32, Num

from ._distinct import narrowest_counts

if TYPE_CHECKING:
    from ._forest import Forest

MODES = ("sum", "average", "parent", "zeros")
"""What an instance in an empty leaf is given: the counts of all leaves that it reaches through the leaf's siblings,
summed; the average of what those leaves say; the counts of the parent; or no counts at all."""


class Siblings(eqx.Module):
    """For every empty leaf the non-empty children of the same multi-way test.

    A multi-way test is stored as binary tests, so its children lie at several depths. They form a *group*.
    """

    group: Int32[Array, "trees nodes"]
    """The group of an empty leaf; -1 for every other node."""
    first: Int32[Array, "ends"]
    """Where the members of each group begin in ``node``, and after the last their number."""
    node: Int32[Array, "members"]
    """The topmost nodes of the non-empty children, group after group."""
    counted: Num[Array, "groups classes"] | None = None
    """Counts of the instances in a group's empty leaves, which the trees were not grown on; None if there are none.
    They count in the parent alone, whichever mode it is that reads it."""


def count_in_parents(siblings: Siblings, counts: np.ndarray) -> Siblings:
    """The table with what is counted in empty leaves, of counts ``[trees nodes classes]`` (on the host)."""
    group = np.asarray(siblings.group)
    counted = np.zeros((len(siblings.first) - 1, counts.shape[-1]))
    np.add.at(counted, group[group >= 0], counts[group >= 0])
    return dataclasses.replace(siblings, counted=narrowest_counts(counted) if counted.any() else None)


def settle_empty_leaves(forest: "Forest", counts: np.ndarray) -> np.ndarray:
    """Counts ``[trees nodes classes]`` with those of empty leaves as the forest's mode has them (on the host).

    In the mode "parent" the sum over all leaves below the multi-way test, and what is counted in its empty ones; else
    zero: modes that follow the siblings read no counts there.
    """
    table = forest.siblings
    if table is None:
        return counts
    group, first, node = (np.asarray(part) for part in (table.group, table.first, table.node))
    empty = group >= 0
    settled = np.where(empty[..., None], 0, counts)
    if forest.empty_leaves == "parent":
        n_groups = len(first) - 1
        tree = np.zeros(n_groups, np.int64)
        tree[group[empty]] = np.nonzero(empty)[0]
        sums = np.zeros((n_groups, counts.shape[-1])) if table.counted is None else np.array(table.counted, np.float64)
        member_of = np.repeat(np.arange(n_groups), np.diff(first))
        np.add.at(sums, member_of, _totals(forest, settled)[tree[member_of], node])
        settled = settled.astype(np.float64)
        settled[empty] = sums[group[empty]]
    return settled


def _totals(forest: "Forest", counts: np.ndarray) -> np.ndarray:
    """Counts of the leaves below each node."""
    child = np.asarray(forest.child)
    totals = np.array(counts, np.float64)
    tree, place = np.arange(len(child)), np.zeros(len(child), np.int64)
    levels = []
    while True:
        inner = child[tree, place] != place
        tree, place = tree[inner], place[inner]
        if not len(tree):
            break
        levels.append((tree, place))
        left = child[tree, place]
        tree, place = np.concatenate([tree, tree]), np.concatenate([left, left + 1])
    for tree, place in reversed(levels):
        left = child[tree, place]
        totals[tree, place] = totals[tree, left] + totals[tree, left + 1]
    return totals
