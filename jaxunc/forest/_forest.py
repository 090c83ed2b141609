"""The arrays of a forest."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, Num

from jaxunc._checks import check_counts, check_one_of, is_concrete
from jaxunc._numerics import as_counts

from ._distinct import distinct_counts
from ._siblings import MODES, Siblings, settle_empty_leaves


class Forest(eqx.Module):
    """A forest of binary decision trees, as padded arrays.

    Nodes lie in ``[trees nodes]`` arrays, the root of each tree at 0 and the two children of a node side by side.
    Leaves absorb: a leaf's child is itself and its threshold is beyond every number, so a walk of any length from
    the root ends in a leaf once it is as long as the tree is deep. Padding nodes are leaves that nothing reaches.

    A leaf's class counts are row ``code`` of ``count_table``, which holds each distinct count vector once (row 0 is
    all zeros, the counts of inner and padding nodes): whatever depends on the leaf alone is computed per distinct
    vector, of which a grown-out forest with 130 000 leaves has about a thousand.

    Instances are compared as integer order keys of float32 (`jaxunc._numerics.order_key`): one goes right where the
    key of its feature is larger than the node's ``threshold``.
    """

    feature: Int32[Array, "trees nodes"]
    """Feature tested by an inner node; 0 in a leaf."""
    threshold: Int32[Array, "trees nodes"]
    """Order key of the largest float32 that goes left; 2³¹ - 1 in a leaf."""
    child: Int32[Array, "trees nodes"]
    """Left child of an inner node, its right child being the next; a leaf's own index."""
    missing_right: Bool[Array, "trees nodes"]
    """Whether a missing value (NaN) goes right."""
    tree_depth: Int32[Array, "trees"]
    """Number of tests on the longest path of each tree."""
    count_table: Num[Array, "distinct classes"]
    """The distinct class counts of the leaves: integers as int32, others as floats."""
    code: Int32[Array, "trees nodes"]
    """Row of ``count_table`` for each node."""
    prior: Float[Array, "classes"]
    """Class frequencies, by weight, of the samples that the trees were grown on."""
    n_samples: Float[Array, ""]
    """Instances (or their weight) that a tree was grown on, averaged over the trees."""
    class_labels: tuple = eqx.field(static=True)
    """The label of each class, in the order of the class axis."""
    feature_names: tuple[str, ...] | None = eqx.field(static=True, default=None)
    """The names that the columns of the data must have, where known."""
    siblings: Siblings | None = None
    """Where instances in empty leaves go on; None if no leaf is empty, which costs nothing."""
    empty_leaves: str = eqx.field(static=True, default="sum")
    """What an instance in an empty leaf is given: see `with_empty_leaves`."""
    n_features: int = eqx.field(static=True, kw_only=True)
    """Number of columns that the data must have."""

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.feature.shape[0]

    @property
    def n_nodes(self) -> int:
        """Number of node slots of each tree, padding included (a power of two)."""
        return self.feature.shape[1]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.count_table.shape[1]

    @property
    def depth(self) -> int:
        """Number of tests on the longest path of the forest (not available under a trace)."""
        return int(np.max(np.asarray(self.tree_depth), initial=0))

    @property
    def counts(self) -> Num[Array, "trees nodes classes"]:
        """Class counts of the leaves; zeros in inner and padding nodes."""
        trees, index = jnp.arange(self.n_trees)[:, None], jnp.arange(self.n_nodes, dtype=jnp.int32)
        inner = self.child != index
        left = jnp.where(inner, self.child, self.n_nodes)
        used = (index == 0) | jnp.zeros_like(inner)
        used = used.at[trees, left].set(True, mode="drop").at[trees, left + 1].set(True, mode="drop")
        counts = self.count_table[self.code]
        return jnp.where((used & ~inner)[..., None], counts, jnp.zeros_like(counts))

    def with_counts(self, counts: Num[Array | np.ndarray, "trees nodes classes"]) -> "Forest":
        """The same trees with other class counts, differentiable in them.

        Parameters
        ----------
        counts
            Class counts of the leaves, ≥ 0, shape ``[trees nodes classes]``. Rows of inner nodes are never read, those
            of empty leaves not where `with_empty_leaves` follows their siblings.

        Raises
        ------
        ValueError
            If the shape is another one, or (outside a trace) a count is negative or not finite.
        """
        counts = as_counts(counts)
        expected = (self.n_trees, self.n_nodes, self.n_classes)
        if counts.shape != expected:
            raise ValueError(
                f"counts has shape {counts.shape}; this forest needs {expected} (trees, nodes, classes). "
                "Start from forest.counts and change its values."
            )
        check_counts(counts)
        rows = self.n_trees * self.n_nodes
        code = jnp.arange(rows, dtype=jnp.int32).reshape(self.n_trees, self.n_nodes)
        siblings = None if self.siblings is None else dataclasses.replace(self.siblings, counted=None)
        table = counts.reshape(rows, self.n_classes)
        return dataclasses.replace(self, count_table=table, code=code, siblings=siblings)

    def with_prior(self, prior) -> "Forest":
        """The same forest with other prior class probabilities, for rules that read ``forest.prior``."""
        prior = jnp.asarray(prior, self.prior.dtype)
        if prior.shape != self.prior.shape:
            raise ValueError(
                f"prior has shape {prior.shape}; pass one probability per class, shape {self.prior.shape}."
            )
        if is_concrete(prior) and not (np.all(np.asarray(prior) >= 0) and abs(float(prior.sum()) - 1) < 1e-4):
            raise ValueError(f"prior={np.asarray(prior).tolist()} must hold probabilities that add to 1.")
        return eqx.tree_at(lambda f: f.prior, self, prior)

    def with_empty_leaves(self, mode: str) -> "Forest":
        """The same forest with another answer for instances that end in an empty leaf.

        Empty leaves are children of multi-way tests that no instance of the sample reached: a value that was absent
        from the node, or from the whole sample.

        Parameters
        ----------
        mode
            ``"sum"``: the counts of all leaves that the instance reaches through the leaf's non-empty siblings,
            recursively, summed (the published default). ``"average"``: what a rule lifts from each of those leaves,
            averaged. ``"parent"``: the counts of the node with the multi-way test. ``"zeros"``: no counts.
            The last two are statistics of the leaf: they stream, also under `jax.jit`, at no cost. Modes may be changed
            back and forth, and before or after `recount`.

        Raises
        ------
        ValueError
            If the mode is unknown, or "parent" is chosen or left under a trace.

        References
        ----------
        Busch et al. 2021, published code (empty leaf modes 3, 2, 0, 1).
        """
        check_one_of("mode", mode, MODES)
        if mode == self.empty_leaves:
            return self
        forest = dataclasses.replace(self, empty_leaves=mode)
        if self.siblings is None or "parent" not in (mode, self.empty_leaves):
            return forest
        if not is_concrete(self):
            raise ValueError(
                f"with_empty_leaves({mode!r}) sums on the host and cannot be traced; call it before jit, grad or vmap."
            )
        table, code = distinct_counts(settle_empty_leaves(forest, np.asarray(self.counts)))
        return dataclasses.replace(forest, count_table=table, code=code)

    def __repr__(self) -> str:
        return (
            f"Forest(n_trees={self.n_trees}, n_nodes={self.n_nodes}, n_classes={self.n_classes}, "
            f"n_features={self.n_features}, distinct leaves={self.count_table.shape[0]})"
        )
