"""Counts below multi-way tests: those of the leaves under their children, and of their empty leaves."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Num

from jaxunc._checks import is_concrete

from ._trees import Trees

MODES = ("sum", "average", "parent", "zeros")
"""Ways to answer an instance in an empty leaf. The first two take the leaves that it reaches through the leaf's
siblings: the sum of their counts, or the average of what they say. The others take the counts of the parent, or no
counts at all."""


def counts_of_forks(
    trees: Trees, counts: Num[Array | np.ndarray, "trees nodes classes"], counted: np.ndarray | None = None
) -> Num[Array | np.ndarray, "forks classes"]:
    """Return the counts of every fork's node.

    They are the sums of the leaves below its children, and what is ``counted`` beside them.

    ``counts`` are read at leaves that are not empty, on the host in float64; they may be traced, the trees not. Raises
    a ValueError if these are.
    """
    assert trees.forks is not None
    if not is_concrete(trees):
        raise ValueError(
            "what is counted below multi-way tests is summed along the trees, which cannot be traced: choose "
            "with_empty_leaves('parent') and call with_counts before jit, grad or vmap, or close over the trees."
        )
    forks = trees.forks
    tree, first, node = (np.asarray(part) for part in (forks.tree, forks.first, forks.node))
    owner = np.repeat(np.arange(forks.number), np.diff(first))
    below = _totals(trees, counts)[tree[owner], node]
    if not isinstance(below, np.ndarray):
        return jnp.zeros((forks.number, below.shape[-1]), below.dtype).at[owner].add(below)
    sums = np.zeros((forks.number, below.shape[-1])) if counted is None else counted.astype(np.float64)
    np.add.at(sums, owner, below)
    return sums


def _totals(trees: Trees, counts):
    """Return the counts of the leaves below each node."""
    child, empty = np.asarray(trees.child), np.asarray(trees.feature) < 0
    levels = []
    tree, place = np.arange(len(child)), np.zeros(len(child), np.int64)
    while True:
        inner = child[tree, place] != place
        tree, place = tree[inner], place[inner]
        if not len(tree):
            break
        levels.append((tree, place, child[tree, place]))
        left = child[tree, place]
        tree, place = np.concatenate([tree, tree]), np.concatenate([left, left + 1])
    if is_concrete(counts):
        # From the bottom up: every inner node is the sum of its two children, once both are known.
        totals = np.where(empty[..., None], 0, np.asarray(counts, np.float64))
        for tree, place, left in reversed(levels):
            totals[tree, place] = totals[tree, left] + totals[tree, left + 1]
        return totals
    totals = jnp.where(empty[..., None], jnp.zeros_like(counts), counts)
    for tree, place, left in reversed(levels):
        totals = totals.at[tree, place].set(totals[tree, left] + totals[tree, left + 1])
    return totals
