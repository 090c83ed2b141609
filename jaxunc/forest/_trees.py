"""The structure of a forest: binary trees as arrays, and where multi-way tests went."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

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
