"""The structure of a forest: binary trees as arrays, where multi-way tests went, and what is counted below these."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Num

from jaxunc._checks import is_concrete
from jaxunc._numerics import PickledModule
from jaxunc.tables import Columns


class Forks(eqx.Module):
    """Multi-way tests with a child that no instance reached when the tree was grown.

    A multi-way test is stored as binary ones, so its children lie at several depths, and between and beside them are
    *empty leaves*. An empty leaf points at its fork (`Trees.feature`); here is where the fork's other children are.
    """

    tree: Int32[Array, "forks"]
    """The tree of each fork."""
    first: Int32[Array, "ends"]
    """Start of each fork's children in ``node``; the last entry is the number of all."""
    node: Int32[Array, "members"]
    """The topmost nodes of the children that are not empty, fork after fork."""

    @property
    def number(self) -> int:
        """Number of forks."""
        return self.tree.shape[0]


class Trees(PickledModule):
    """Binary decision trees as padded arrays, whatever is stored in their leaves.

    Nodes lie in ``[trees nodes]`` arrays, the root of each tree at 0 and the two children of a node side by side.
    Leaves absorb: a leaf's child is itself, and its threshold is beyond every number. So a walk from the root ends in a
    leaf once it is as long as the tree is deep. Padding nodes are leaves that nothing reaches.

    Instances are compared as integer order keys of float32 (`jaxunc._numerics.order_key`): one goes right where the
    key of its feature is larger than the node's ``threshold``.
    """

    feature: Int32[Array, "trees nodes"]
    """Feature tested by an inner node; in a leaf 0, in an empty leaf -1 less the number of its fork."""
    threshold: Int32[Array, "trees nodes"]
    """Order key of the largest float32 that goes left; 2³¹ - 1 in a leaf."""
    child: Int32[Array, "trees nodes"]
    """Left child of an inner node, its right child being the next; a leaf's own index."""
    missing_right: Bool[Array, "trees nodes"]
    """Whether a missing value (NaN) goes right."""
    tree_depth: Int32[Array, "trees"]
    """Number of tests on the longest path of each tree."""
    columns: Columns = eqx.field(static=True)
    """The columns of the data: their number, names, and the levels of nominal ones."""
    forks: Forks | None = None
    """Multi-way tests with empty leaves; None if no leaf is empty, which costs nothing."""

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.feature.shape[0]

    @property
    def n_nodes(self) -> int:
        """Number of node slots of each tree, padding included."""
        return self.feature.shape[1]

    @property
    def n_features(self) -> int:
        """Number of columns that the data must have."""
        return self.columns.number

    @property
    def depth(self) -> int:
        """Number of tests on the longest path of all trees (not available under a trace)."""
        return int(np.max(np.asarray(self.tree_depth), initial=0))

    @property
    def is_leaf(self) -> Bool[Array, "trees nodes"]:
        """Whether a node is a leaf that a path leads to, empty ones among them; neither inner nodes nor padding."""
        trees, index = jnp.arange(self.n_trees)[:, None], jnp.arange(self.n_nodes, dtype=jnp.int32)[None]
        inner = self.child != index
        # A node is in use if it is the root or somebody's child; the rest is padding. What is no inner node marks
        # nothing.
        left = jnp.where(inner, self.child, self.n_nodes)
        used = (index == 0) | jnp.zeros_like(inner)
        used = used.at[trees, left].set(True, mode="drop").at[trees, left + 1].set(True, mode="drop")
        return used & ~inner

    @property
    def fork(self) -> Int32[Array, "trees nodes"]:
        """The number of an empty leaf's fork; -1 for every other node."""
        return jnp.where(self.feature < 0, -1 - self.feature, -1)

    def __repr__(self) -> str:
        return f"Trees(n_trees={self.n_trees}, n_nodes={self.n_nodes}, n_features={self.n_features})"


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
