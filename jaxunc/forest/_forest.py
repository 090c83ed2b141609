"""A forest: binary trees as arrays, and the class counts of their leaves, of one set of instances or of several."""

import dataclasses
from functools import reduce, singledispatch
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, Num, Shaped

from jaxunc._checks import check_counts, check_numbers, check_one_of, is_concrete
from jaxunc._numerics import PickledModule, as_counts, copy_in, counts_dtype, jit, padded_table
from jaxunc.tables import Columns, NumbersLike

DEFAULT_COUNTS = "own"
"""Name of the counts that leaves hold by themselves: of the sample that grew the trees, unless counted again."""

MODES = ("sum", "average", "parent", "zeros")
"""Ways to answer an instance in an empty leaf. The first two take the leaves that it reaches through the leaf's
siblings: the sum of their counts, or the average of what they say. The others take the counts of the parent, or no
counts at all."""

LARGEST_SQUARE = 2**24
"""Largest number of pairs of rows that are marked in a table instead of being sorted."""


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


LEFT_OUT = "{}(without its arrays)"
"""What stands for what `eqx.filter` has taken apart, or holds labels in place of arrays."""


class Trees(PickledModule):
    """Binary decision trees as padded arrays, whatever is stored in their leaves.

    Nodes lie in ``[trees nodes]`` arrays, the root of each tree at 0 and the two children of a node side by side.
    Leaves absorb: a leaf's child is itself, and its threshold is beyond every number. So a walk from the root ends in a
    leaf once it is as long as the tree is deep. Padding nodes are leaves that nothing reaches. A test of a set of
    categories is several nodes, whose paths end in the same two children.

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
        return _is_leaf(self.child)

    @property
    def fork(self) -> Int32[Array, "trees nodes"]:
        """The number of an empty leaf's fork; -1 for every other node."""
        return jnp.where(self.feature < 0, -1 - self.feature, -1)

    def __repr__(self) -> str:
        if not hasattr(self.feature, "shape"):
            return LEFT_OUT.format("Trees")
        return f"Trees(n_trees={self.n_trees}, n_nodes={self.n_nodes}, n_features={self.n_features})"


@jit
def _expanded(
    table: Num[Array, "rows columns"], code: Int32[Array, "trees nodes"], is_leaf: Bool[Array, "trees nodes"]
) -> Num[Array, "trees nodes columns"]:
    """Return the row of the table that each leaf has, and zeros elsewhere."""
    return jnp.where(is_leaf[..., None], table[code], jnp.zeros((), table.dtype))


@jit
def _is_leaf(child: Int32[Array, "trees nodes"]) -> Bool[Array, "trees nodes"]:
    (n_trees, n_nodes), index = child.shape, jnp.arange(child.shape[1], dtype=jnp.int32)[None]
    inner, trees = child != index, jnp.arange(n_trees)[:, None]
    # A node is in use if it is the root or somebody's child; the rest is padding. What is no inner node marks nothing.
    left = jnp.where(inner, child, n_nodes)
    used = (index == 0) | jnp.zeros_like(inner)
    used = used.at[trees, left].set(True, mode="drop").at[trees, left + 1].set(True, mode="drop")
    return used & ~inner


class CountSet(eqx.Module):
    """The class counts of all leaves, as a forest keeps them: each distinct count vector once."""

    count_table: Num[Array, "distinct columns"]
    """Distinct count vectors; row 0 is all zeros."""
    code: Int32[Array, "trees nodes"]
    """Row of ``count_table`` for each node."""
    fork_counts: Num[Array, "padded_forks columns"] | None = None
    """Counts of the multi-way tests, where something reads them."""


class Forest(PickledModule):
    """A forest: trees, and the counts in their leaves.

    A leaf's class counts are row ``code`` of ``count_table``, which holds each distinct count vector once (row 0 is
    all zeros, the counts of inner and padding nodes): whatever depends on the leaf alone is computed per distinct
    vector, of which a grown-out forest with 130 000 leaves has about a thousand.

    Empty leaves own no counts: ``empty_leaves`` says what counts instances in one are given (`with_empty_leaves`).

    Beside these, its *own* counts, a forest may hold further ones of other instances by name (`with_count_set`), such
    as those out of bag. A combiner says by `Combiner.count_sets` which it reads.
    """

    trees: Trees
    """The structure."""
    count_table: Num[Array, "distinct columns"]
    """The distinct class counts of the leaves, a column per class (for each counting, of those that `reading` puts side
    by side): integers as int32, others as floats."""
    code: Int32[Array, "trees nodes"]
    """Row of ``count_table`` for each node."""
    prior: Float[Array, "classes"]
    """Class frequencies, by weight, of the samples that the trees were grown on."""
    n_samples: Float[Array, ""]
    """Instances (or their weight) that a tree was grown on, averaged over the trees."""
    class_labels: tuple[Any, ...] = eqx.field(static=True)
    """The label of each class, in the order of the class axis."""
    fork_counts: Num[Array, "padded_forks columns"] | None = None
    """Counts of the multi-way tests themselves, those of instances in their empty leaves among them, padded by zero
    rows; None where they are the sums of the leaves below, and nothing reads them."""
    empty_leaves: str = eqx.field(static=True, default="sum")
    """Answer for an instance in an empty leaf: see `with_empty_leaves`."""
    further: dict[str, CountSet] = eqx.field(default_factory=dict)
    """Further counts of the same leaves, by name."""

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.trees.n_trees

    @property
    def n_nodes(self) -> int:
        """Number of node slots of each tree, padding included."""
        return self.trees.n_nodes

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_labels)

    @property
    def count_sets(self) -> tuple[str, ...]:
        """The names of the counts that a leaf has: ``"own"``, and those of further ones."""
        return (DEFAULT_COUNTS, *self.further)

    @property
    def n_features(self) -> int:
        """Number of columns that the data must have."""
        return self.trees.n_features

    @property
    def depth(self) -> int:
        """Number of tests on the longest path of the forest (not available under a trace)."""
        return self.trees.depth

    @property
    def follows_forks(self) -> bool:
        """Whether instances in empty leaves are routed on, through the other children of the multi-way test."""
        return self.trees.forks is not None and self.empty_leaves in ("sum", "average")

    @property
    def counts(self) -> Num[Array, "trees nodes columns"]:
        """Class counts of the leaves' own; zeros in inner and padding nodes, and in empty leaves that are followed."""
        return _expanded(*self.leaf_rows(), self.trees.is_leaf)

    def leaf_rows(self) -> tuple[Num[Array, "rows columns"], Int32[Array, "trees nodes"]]:
        """Return the own count vectors ``[rows columns]`` that leaves may have, and each leaf's row: what is lifted.

        The row of an empty leaf is that of its multi-way test in the mode "parent", else that of no counts.
        """
        if self.fork_counts is None or self.empty_leaves != "parent":
            return self.count_table, self.code
        dtype = counts_dtype(self.count_table, self.fork_counts)
        table = jnp.concatenate([self.count_table.astype(dtype), self.fork_counts.astype(dtype)])
        fork = self.trees.fork
        # Counts of the tests are appended as further rows: an empty leaf reads its parent's without being copied.
        return table, jnp.where(fork >= 0, len(self.count_table) + fork, self.code)

    def with_counts(self, counts: Shaped[Array | np.ndarray, "trees nodes classes"]) -> "Forest":
        """Return the same trees with other class counts of their own, differentiable in them.

        Parameters
        ----------
        counts
            Class counts of the leaves, ≥ 0, shape ``[trees nodes classes]``. Rows of inner nodes and of empty leaves
            are never read: a multi-way test has the sum of the leaves below it.

        Raises
        ------
        ValueError
            If the shape is another one, or, outside a trace, a count is negative or not finite. Also if the trees are
            traced and empty leaves are given the counts of their parent.
        """
        counts = as_counts(counts)
        expected = (self.n_trees, self.n_nodes, self.count_table.shape[1])
        if counts.shape != expected:
            raise ValueError(
                f"counts has shape {counts.shape}; this forest needs {expected} (trees, nodes, classes). "
                "Start from forest.counts and change its values."
            )
        check_counts(counts)
        rows = self.n_trees * self.n_nodes
        # A row for each node: traced counts cannot be sorted for distinct ones.
        code = jnp.arange(rows, dtype=jnp.int32).reshape(self.n_trees, self.n_nodes)
        if self.trees.forks is not None:
            counts = jnp.where((self.trees.feature < 0)[..., None], jnp.zeros_like(counts), counts)
        table = counts.reshape(rows, counts.shape[-1])
        forest = dataclasses.replace(self, count_table=table, code=code, fork_counts=None)
        return forest._with_counts_of_forks()

    def _with_counts_of_forks(self) -> "Forest":
        """Return the forest with counts of its multi-way tests, where its mode reads them."""
        if self.trees.forks is None or self.fork_counts is not None or self.empty_leaves != "parent":
            return self
        counts = self.count_table[self.code]
        sums = counts_of_forks(self.trees, np.asarray(counts) if is_concrete(counts) else counts)
        return dataclasses.replace(self, fork_counts=padded_table(sums) if isinstance(sums, np.ndarray) else sums)

    def with_count_set(self, name: str, counted: "Forest") -> "Forest":
        """Return the same forest with further counts of its leaves, for combiners that read several.

        Parameters
        ----------
        name
            Name of the counts, by which combiners ask for them. `LearnedPool` reads ``"oob"`` beside the own ones.
        counted
            A forest of the same trees, whose own counts are taken: ``count_leaves(forest, X, y,
            tree_mask=oob_mask(model, len(y), X=X, y=y))``.

        Raises
        ------
        TypeError
            If ``counted`` is no forest, or the name no string.
        ValueError
            If the name is ``"own"`` or empty, the trees are not the same, or labels or empty leaves' modes differ.
        """
        if not isinstance(name, str):
            raise TypeError(f"name={name!r:.60} must be a string, such as 'oob'.")
        if not name or name == DEFAULT_COUNTS:
            raise ValueError(
                f"name={name!r} is not free: the forest's own counts are {DEFAULT_COUNTS!r}. Take another."
            )
        if not isinstance(counted, Forest):
            raise TypeError(
                f"counted is a {type(counted).__name__}; pass a Forest, such as count_leaves(forest, X, y)."
            )
        if self.class_labels != counted.class_labels:
            raise ValueError(f"the forests' labels differ: {self.class_labels} and {counted.class_labels}.")
        if not have_same_arrays(self.trees, counted.trees) or self.empty_leaves != counted.empty_leaves:
            raise ValueError("the forests are not of the same trees; pass a forest and its recount.")
        return dataclasses.replace(self, further={**self.further, name: counted._default_counts()})

    def of_counting(self, name: str) -> "Forest":
        """Return the same trees with the named counts as their only ones. Raises a ValueError without such counts."""
        return self.reading((name,))

    def reading(self, names: tuple[str, ...]) -> "Forest":
        """Return the same trees with the named counts, side by side in the columns of ``count_table``.

        For what looks up leaves, and hands their columns to a combiner. Traceable.

        Raises a ValueError if there are no counts of such a name.

        Parameters
        ----------
        names
            Names of counts, ``"own"`` among them, in the order of the columns.
        """
        if names == (DEFAULT_COUNTS,) and not self.further:
            return self
        if missing := [name for name in names if name not in self.count_sets]:
            raise ValueError(
                f"counts {missing[0]!r} are asked of a forest that has {', '.join(map(repr, self.count_sets))}: add "
                f"them by forest.with_count_set({missing[0]!r}, count_leaves(forest, X, y, tree_mask=...))."
            )
        sets = {DEFAULT_COUNTS: self._default_counts(), **self.further}
        read = reduce(side_by_side, [sets[name] for name in names])
        forest = dataclasses.replace(
            self, count_table=read.count_table, code=read.code, fork_counts=read.fork_counts, further={}
        )
        return forest._with_counts_of_forks()

    def _default_counts(self) -> CountSet:
        return CountSet(self.count_table, self.code, self.fork_counts)

    def with_prior(self, prior: NumbersLike) -> "Forest":
        """Return the same forest with other prior class probabilities, for combiners that read ``forest.prior``."""
        check_numbers("prior", prior)
        prior = copy_in(prior, self.prior.dtype)
        if prior.shape != self.prior.shape:
            raise ValueError(
                f"prior has shape {prior.shape}; pass one probability per class, shape {self.prior.shape}."
            )
        if is_concrete(prior) and not (np.all(np.asarray(prior) >= 0) and abs(float(prior.sum()) - 1) < 1e-4):
            raise ValueError(f"prior={np.asarray(prior).tolist()} must hold probabilities that add to 1.")
        return eqx.tree_at(lambda f: f.prior, self, prior)

    def with_empty_leaves(self, mode: str) -> "Forest":
        """Return the same forest with another answer for instances that end in an empty leaf.

        Empty leaves are children of multi-way tests that no instance of the sample reached: a value that was absent
        from the node, or from the whole sample.

        Parameters
        ----------
        mode
            ``"sum"``: the counts of all leaves that the instance reaches through the leaf's non-empty siblings,
            recursively, summed (the published default). ``"average"``: what a combiner lifts from each of those leaves,
            averaged. ``"parent"``: the counts of the node with the multi-way test. ``"zeros"``: no counts.
            The last two are statistics of the leaf: they work under `jax.jit`, too, and at no cost. Modes may be
            changed back and forth, before or after `count_leaves` and smoothing.

        Raises
        ------
        ValueError
            If the mode is unknown, or "parent" is chosen for traced trees.

        References
        ----------
        Busch et al. 2021, published code (empty leaf modes 3, 2, 0, 1).
        """
        check_one_of("mode", mode, MODES)
        if mode == self.empty_leaves:
            return self
        return dataclasses.replace(self, empty_leaves=mode)._with_counts_of_forks()

    def __repr__(self) -> str:
        if not (hasattr(self.trees.feature, "shape") and hasattr(self.count_table, "shape")):
            return LEFT_OUT.format("Forest")
        return (
            f"Forest(n_trees={self.n_trees}, n_nodes={self.n_nodes}, n_classes={self.n_classes}, "
            f"n_features={self.n_features}, distinct leaves={self.count_table.shape[0]}"
            + (f", count_sets={self.count_sets})" if self.further else ")")
        )


def have_same_arrays(first: Any, second: Any) -> bool:
    """Whether two modules hold the same numbers."""
    a, b = jax.tree.leaves(first), jax.tree.leaves(second)
    return first is second or (len(a) == len(b) and all(map(np.array_equal, a, b)))


def side_by_side(first: CountSet, second: CountSet) -> CountSet:
    """Join two countings into one with the columns of both (traceable).

    Where values are known, each distinct pair of rows is kept once.
    """
    if is_concrete(first, second):
        table, code = _distinct_pairs(first, second)
    else:
        rows = [count_set.count_table[count_set.code].reshape(first.code.size, -1) for count_set in (first, second)]
        table = jnp.concatenate(_of_one_dtype(*rows), axis=1)
        code = jnp.arange(first.code.size, dtype=jnp.int32).reshape(first.code.shape)
    forks = None
    if first.fork_counts is not None and second.fork_counts is not None:
        forks = jnp.concatenate(_of_one_dtype(first.fork_counts, second.fork_counts), axis=1)
    return CountSet(table, code, forks)


def _distinct_pairs(first: CountSet, second: CountSet) -> tuple[Array, Array]:
    tables = [np.asarray(count_set.count_table, np.float64) for count_set in (first, second)]
    a, b = (np.asarray(count_set.code, np.int64) for count_set in (first, second))
    n_second = len(tables[1])
    # A pair of rows as one integer; int64, since two large tables have more pairs than 32 bits number.
    pair = (a * n_second + b).ravel()
    if len(tables[0]) * n_second <= LARGEST_SQUARE:
        present = np.zeros(len(tables[0]) * n_second, bool)
        present[pair] = present[0] = True  # row 0 is that of no counts, as in every forest
        pairs, code = np.flatnonzero(present), (np.cumsum(present, dtype=np.int32) - 1)[pair]
    else:
        pairs, code = np.unique(np.concatenate([[0], pair]), return_inverse=True)
        code = code[1:]
    table = padded_table(np.concatenate([tables[0][pairs // n_second], tables[1][pairs % n_second]], axis=1))
    return table, jnp.asarray(code.reshape(a.shape).astype(np.int32), jnp.int32)


def _of_one_dtype(first: Array, second: Array) -> list[Array]:
    dtype = counts_dtype(first, second)
    return [first.astype(dtype), second.astype(dtype)]


def check_is_forest(value: Any, name: str = "forest", *, or_trees: bool = False) -> None:
    """Raise a TypeError that says what to pass unless it is a `Forest` (with ``or_trees`` also for `Trees`)."""
    if isinstance(value, Forest) or (or_trees and isinstance(value, Trees)):
        return
    raise TypeError(f"{name} is a {type(value).__name__}. {way_to_forest(value)}")


@singledispatch
def way_to_forest(value: Any) -> str:
    """Return a sentence on how to come from a value to a `Forest`; rooms above register their kinds."""
    if type(value).__module__.partition(".")[0] == "sklearn":
        return "It is scikit-learn's: pass jaxunc.from_sklearn(model), the fitted model imported. See docs/start.md."
    if isinstance(getattr(value, "forest", None), Forest):
        return "Pass its forest."
    return "Pass a Forest, such as jaxunc.from_sklearn(model)."


def counts_of_forks(
    trees: Trees, counts: Num[Array | np.ndarray, "trees nodes classes"], counted: np.ndarray | None = None
) -> Num[Array | np.ndarray, "forks classes"]:
    """Return the counts of every fork's node: sums of the leaves below its children, and what is ``counted`` beside.

    ``counts`` are read at leaves that are not empty, on the host in float64; they may be traced, the trees not (a
    ValueError).
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
    tree, index = np.arange(len(child)), np.zeros(len(child), np.int64)
    while True:
        inner = child[tree, index] != index
        tree, index = tree[inner], index[inner]
        if not len(tree):
            break
        levels.append((tree, index, child[tree, index]))
        left = child[tree, index]
        tree, index = np.concatenate([tree, tree]), np.concatenate([left, left + 1])
    if is_concrete(counts):
        # From the bottom up: every inner node is the sum of its two children, once both are known.
        totals = np.where(empty[..., None], 0, np.asarray(counts, np.float64))
        for tree, index, left in reversed(levels):
            totals[tree, index] = totals[tree, left] + totals[tree, left + 1]
        return totals
    totals = jnp.where(empty[..., None], jnp.zeros_like(counts), counts)
    for tree, index, left in reversed(levels):
        totals = totals.at[tree, index].set(totals[tree, left] + totals[tree, left + 1])
    return totals
