"""A forest: binary trees as arrays, and the class counts of their leaves, one count set or several."""

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
"""Name of a forest's main count set: the counts of the sample that grew the trees, unless they were counted again."""

MODES = ("sum", "average", "parent", "zeros")
"""Ways to answer an instance in an empty leaf. In the first two the instance is routed on to leaves below the empty
leaf's siblings: "sum" adds the counts of these leaves, "average" averages their statistics. "parent" takes the counts
of the node with the multi-way test, "zeros" takes no counts."""

LARGEST_SQUARE = 2**24
"""Largest number of possible pairs of rows that `_distinct_pairs` marks in a table of bytes; more are sorted."""


class Forks(eqx.Module):
    """Multi-way tests with a child that no instance reached when the tree was grown.

    A multi-way test, here called a fork, is stored as binary tests, so that its children lie at several depths. The
    children that no instance reached are *empty leaves*. `Trees.feature` has the fork of an empty leaf; the arrays here
    have the other children.
    """

    tree: Int32[Array, "forks"]
    """The tree of each fork."""
    first: Int32[Array, "ends"]
    """Start of each fork's children in ``node``; the last entry is the length of ``node``."""
    node: Int32[Array, "members"]
    """The topmost node of each child that is not empty, fork after fork."""

    @property
    def number(self) -> int:
        """Number of forks."""
        return self.tree.shape[0]


LEFT_OUT = "{}(without its arrays)"
"""The ``repr`` of a module whose fields are not arrays, as after `eqx.filter`, or in a pytree of labels."""


class Trees(PickledModule):
    """Binary decision trees as padded arrays, without the contents of their leaves.

    Nodes lie in ``[trees nodes]`` arrays, the root of each tree at 0 and the two children of a node side by side.
    Leaves absorb: a leaf's child is the leaf itself, and its threshold is beyond every number. So a walk from the root
    is in a leaf once it is as long as the tree is deep. Padding nodes are leaves that no path leads to. A test of a set
    of categories is several nodes, whose paths end in the same two children.

    Instances are compared as integer order keys of float32 (`jaxunc._numerics.order_key`). An instance goes right where
    the key of its feature is larger than the node's ``threshold``.
    """

    feature: Int32[Array, "trees nodes"]
    """Feature tested by an inner node; 0 in a leaf, and ``-1 - fork`` in an empty leaf of the fork with this number."""
    threshold: Int32[Array, "trees nodes"]
    """Order key of the largest float32 that goes left; 2³¹ - 1 in a leaf."""
    child: Int32[Array, "trees nodes"]
    """Left child of an inner node, whose right child is the node behind it; in a leaf, the index of the leaf."""
    missing_right: Bool[Array, "trees nodes"]
    """Whether a missing value (NaN) goes right."""
    tree_depth: Int32[Array, "trees"]
    """Number of tests on the longest path of each tree."""
    columns: Columns = eqx.field(static=True)
    """The columns of the data: their number, names, and the levels of nominal ones."""
    forks: Forks | None = None
    """Multi-way tests with empty leaves; None if no leaf is empty."""

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
        """Number of tests on the longest path of all trees, 0 without trees (not available under a trace)."""
        return int(np.max(np.asarray(self.tree_depth), initial=0))

    @property
    def is_leaf(self) -> Bool[Array, "trees nodes"]:
        """Whether a node is a leaf that a path leads to, empty ones among them; neither inner nodes nor padding."""
        return _is_leaf(self.child)

    @property
    def fork(self) -> Int32[Array, "trees nodes"]:
        """The number of the fork that an empty leaf belongs to; -1 for every other node."""
        return jnp.where(self.feature < 0, -1 - self.feature, -1)

    def __repr__(self) -> str:
        if not hasattr(self.feature, "shape"):
            return LEFT_OUT.format("Trees")
        return f"Trees(n_trees={self.n_trees}, n_nodes={self.n_nodes}, n_features={self.n_features})"


@jit
def _expand_rows(
    table: Num[Array, "rows columns"], code: Int32[Array, "trees nodes"], is_leaf: Bool[Array, "trees nodes"]
) -> Num[Array, "trees nodes columns"]:
    """Return row ``code`` of ``table`` for each node that is a leaf by ``is_leaf``, and zeros for other nodes."""
    return jnp.where(is_leaf[..., None], table[code], jnp.zeros((), table.dtype))


@jit
def _is_leaf(child: Int32[Array, "trees nodes"]) -> Bool[Array, "trees nodes"]:
    """Return whether each node is a leaf that a path leads to; ``child`` has the left child of each (`Trees.child`)."""
    n_trees, n_nodes = child.shape
    index = jnp.arange(n_nodes, dtype=jnp.int32)[None]
    inner = child != index
    trees = jnp.arange(n_trees)[:, None]
    # The root and the children of inner nodes are in use, all other nodes are padding. Index ``n_nodes`` is dropped.
    left = jnp.where(inner, child, n_nodes)
    is_used = (index == 0) | jnp.zeros_like(inner)
    is_used = is_used.at[trees, left].set(True, mode="drop").at[trees, left + 1].set(True, mode="drop")
    return is_used & ~inner


class CountSet(eqx.Module):
    """A count set: the class counts of all leaves of a forest. Each distinct count vector is stored once."""

    count_table: Num[Array, "distinct columns"]
    """The distinct count vectors, in rows; row 0 is all zeros."""
    code: Int32[Array, "trees nodes"]
    """Row of ``count_table`` for each node."""
    fork_counts: Num[Array, "padded_forks columns"] | None = None
    """Counts at the node of each fork, as `Forest.fork_counts`."""


class Forest(PickledModule):
    """A forest: trees, and the counts in their leaves.

    A leaf's class counts are row ``code`` of ``count_table``, which holds each distinct count vector once. Row 0 is
    all zeros, the counts of inner and padding nodes. So whatever depends on a leaf's counts alone is computed per
    distinct vector. A fully grown forest with 130 000 leaves has about a thousand of them.

    An empty leaf holds no counts; ``empty_leaves`` says which counts an instance in it is given (`with_empty_leaves`).

    Beside these counts, the count set ``"own"``, a forest may hold counts of other instances in the same leaves
    (`with_count_set`), such as out-of-bag counts. `Combiner.count_sets` names the count sets that a combiner reads.
    """

    trees: Trees
    """The trees, without counts."""
    count_table: Num[Array, "distinct columns"]
    """The distinct class counts of the leaves, int32 if all are integers, else floats: a column for each class, or,
    where `reading` has put several count sets side by side, a column for each class of each set."""
    code: Int32[Array, "trees nodes"]
    """Row of ``count_table`` for each node."""
    prior: Float[Array, "classes"]
    """Class frequencies, by weight, of the samples that the trees were grown on."""
    n_samples: Float[Array, ""]
    """Number of instances (or their weight) that a tree was grown on, averaged over the trees."""
    class_labels: tuple[Any, ...] = eqx.field(static=True)
    """The label of each class, in the order of the class axis."""
    fork_counts: Num[Array, "padded_forks columns"] | None = None
    """Counts at the node of each fork, instances in the fork's empty leaves included; rows of zeros pad them. None if
    they equal the sums of the leaves below, and no combiner reads them."""
    empty_leaves: str = eqx.field(static=True, default="sum")
    """How an instance in an empty leaf is answered: one of the modes of `with_empty_leaves`."""
    further: dict[str, CountSet] = eqx.field(default_factory=dict)
    """Further count sets of the same leaves, by name; empty without any."""

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
        """The names of the forest's count sets: ``"own"``, and the names of the further ones."""
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
        """The class counts of each leaf (count set ``"own"``); zeros in inner and padding nodes.

        An empty leaf has the counts of its multi-way test in the mode ``"parent"``, else zeros.
        """
        return _expand_rows(*self.leaf_rows(), self.trees.is_leaf)

    def leaf_rows(self) -> tuple[Num[Array, "rows columns"], Int32[Array, "trees nodes"]]:
        """Return (count table ``[rows columns]``, row of each node ``[trees nodes]``), as combiners read counts.

        The counts are those of `counts`. An empty leaf has a row of zeros. In the mode ``"parent"`` it has the row of
        its multi-way test, whose counts the table then holds, too.
        """
        if self.fork_counts is None or self.empty_leaves != "parent":
            return self.count_table, self.code
        dtype = counts_dtype(self.count_table, self.fork_counts)
        table = jnp.concatenate([self.count_table.astype(dtype), self.fork_counts.astype(dtype)])
        fork = self.trees.fork
        # The tests' counts are further rows of the table, so that the empty leaves of one test share a row.
        return table, jnp.where(fork >= 0, len(self.count_table) + fork, self.code)

    def with_counts(self, counts: Shaped[Array | np.ndarray, "trees nodes classes"]) -> "Forest":
        """Return the same trees with other class counts of the set ``"own"``; differentiable in the counts.

        Parameters
        ----------
        counts
            Class counts of the leaves, ≥ 0, ``[trees nodes classes]``. Rows of inner nodes and of empty leaves are
            never read: the node with a multi-way test has the sum of the counts of the leaves below it.

        Raises
        ------
        ValueError
            If ``counts`` has another shape, or, outside a trace, a count is negative or not finite. Also if the trees
            are traced and empty leaves have the mode ``"parent"``.
        """
        counts = as_counts(counts)
        expected = (self.n_trees, self.n_nodes, self.count_table.shape[1])
        if counts.shape != expected:
            raise ValueError(
                f"counts has shape {counts.shape}; this forest needs {expected} (trees, nodes, classes). "
                "Start from forest.counts and change its values."
            )
        check_counts(counts)
        n_rows = self.n_trees * self.n_nodes
        # A row for each node: traced counts cannot be sorted for distinct ones.
        code = jnp.arange(n_rows, dtype=jnp.int32).reshape(self.n_trees, self.n_nodes)
        if self.trees.forks is not None:
            counts = jnp.where((self.trees.feature < 0)[..., None], jnp.zeros_like(counts), counts)
        table = counts.reshape(n_rows, counts.shape[-1])
        forest = dataclasses.replace(self, count_table=table, code=code, fork_counts=None)
        return forest._with_counts_of_forks()

    def _with_counts_of_forks(self) -> "Forest":
        """Return the forest with its `fork_counts` summed up, if they are lacking and the mode ``"parent"`` reads them.

        Else return the forest unchanged. Raises a ValueError if the trees are traced.
        """
        if self.trees.forks is None or self.fork_counts is not None or self.empty_leaves != "parent":
            return self
        counts = self.count_table[self.code]
        sums = counts_of_forks(self.trees, np.asarray(counts) if is_concrete(counts) else counts)
        if isinstance(sums, np.ndarray):
            sums = padded_table(sums)
        return dataclasses.replace(self, fork_counts=sums)

    def with_count_set(self, name: str, counted: "Forest") -> "Forest":
        """Return the same forest with a further count set of its leaves, for combiners that read several.

        Parameters
        ----------
        name
            Name of the count set, by which combiners read it. `LearnedPool` reads ``"oob"`` beside ``"own"``.
        counted
            A forest of the same trees, whose count set ``"own"`` becomes the further one: ``count_leaves(forest, X, y,
            tree_mask=oob_mask(model, len(y), X=X, y=y))``.

        Raises
        ------
        TypeError
            If ``counted`` is not a forest, or the name not a string.
        ValueError
            If the name is ``"own"`` or empty, or if the forests differ in trees, class labels or mode of empty leaves.
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
        """Return the same trees with the count set ``name`` alone, as ``"own"``; a ValueError if there is none."""
        return self.reading((name,))

    def reading(self, names: tuple[str, ...]) -> "Forest":
        """Return the same trees with the named count sets side by side in the columns of ``count_table``.

        A combiner that reads several count sets takes them in this form. The result has no further ones. Traceable.

        Raises a ValueError if there is no count set of one of these names.

        Parameters
        ----------
        names
            Names among `count_sets`, in the order of the columns.
        """
        if names == (DEFAULT_COUNTS,) and not self.further:
            return self
        if missing := [name for name in names if name not in self.count_sets]:
            raise ValueError(
                f"counts {missing[0]!r} are asked of a forest that has {', '.join(map(repr, self.count_sets))}: add "
                f"them by forest.with_count_set({missing[0]!r}, count_leaves(forest, X, y, tree_mask=...))."
            )
        sets = {DEFAULT_COUNTS: self._default_counts(), **self.further}
        # Sets that were added before the mode became "parent" lack the counts of their forks.
        count_sets = [self._with_set(sets[name])._with_counts_of_forks()._default_counts() for name in names]
        return self._with_set(reduce(side_by_side, count_sets))._with_counts_of_forks()

    def _with_set(self, counts: CountSet) -> "Forest":
        """Return the same trees with ``counts`` as their only count set, ``"own"``."""
        fields = {"count_table": counts.count_table, "code": counts.code, "fork_counts": counts.fork_counts}
        return dataclasses.replace(self, **fields, further={})

    def _default_counts(self) -> CountSet:
        """Return the count set ``"own"`` as an object, without the trees."""
        return CountSet(self.count_table, self.code, self.fork_counts)

    def with_prior(self, prior: NumbersLike) -> "Forest":
        """Return the same forest with other prior class probabilities, for combiners made with ``forest.prior``.

        Raises a TypeError unless ``prior`` holds numbers. Raises a ValueError if it has the wrong shape, or if concrete
        probabilities are negative or do not add to 1.

        Parameters
        ----------
        prior
            Probabilities ``[classes]``.
        """
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
        """Return the same forest with another mode of answering instances that end in an empty leaf.

        Empty leaves are children of multi-way tests that no instance of the sample reached. Their value was absent from
        the node, or from the whole sample.

        Parameters
        ----------
        mode
            ``"sum"``: the summed counts of all leaves that the instance reaches through the leaf's non-empty siblings,
            recursively (the published default). ``"average"``: the average of the statistics that a combiner lifts from
            those leaves. ``"parent"``: the counts of the node with the multi-way test. ``"zeros"``: no counts.
            The last two are statistics of the empty leaf: they also work under `jax.jit`, and cost nothing. Modes may
            be changed back and forth, before or after `count_leaves` and smoothing.

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
    """Return whether two pytrees hold equal arrays in the same order; their structures are not compared."""
    first_arrays, second_arrays = jax.tree.leaves(first), jax.tree.leaves(second)
    return first is second or (
        len(first_arrays) == len(second_arrays) and all(map(np.array_equal, first_arrays, second_arrays))
    )


def side_by_side(first: CountSet, second: CountSet) -> CountSet:
    """Return two count sets of the same nodes as one: the columns of ``first``, and behind them those of ``second``.

    Traceable. Outside of traces each distinct pair of rows is stored once, else each node has a row.
    """
    if is_concrete(first, second):
        table, code = _distinct_pairs(first, second)
    else:
        rows = [count_set.count_table[count_set.code].reshape(first.code.size, -1) for count_set in (first, second)]
        table = jnp.concatenate(_to_common_dtype(*rows), axis=1)
        code = jnp.arange(first.code.size, dtype=jnp.int32).reshape(first.code.shape)
    fork_counts = None
    if first.fork_counts is not None and second.fork_counts is not None:
        tables = _to_common_dtype(first.fork_counts, second.fork_counts)
        n_rows = min(map(len, tables))  # traced ones are not padded
        fork_counts = jnp.concatenate([table[:n_rows] for table in tables], axis=1)
    return CountSet(table, code, fork_counts)


def _distinct_pairs(first: CountSet, second: CountSet) -> tuple[Array, Array]:
    """Return (``count_table``, ``code``) of two concrete count sets side by side; each pair of rows is stored once."""
    first_table, second_table = (np.asarray(count_set.count_table, np.float64) for count_set in (first, second))
    first_code, second_code = (np.asarray(count_set.code, np.int64) for count_set in (first, second))
    n_second = len(second_table)
    # A pair of rows as one integer; int64, since two large tables may have more than 2³¹ pairs.
    pair = (first_code * n_second + second_code).ravel()
    # Row 0, all zeros, stays the first row: the pair 0 is always there.
    n_possible = len(first_table) * n_second
    if n_possible <= LARGEST_SQUARE:
        occurs = np.zeros(n_possible, bool)
        occurs[pair] = True
        occurs[0] = True
        pairs = np.flatnonzero(occurs)
        code = (np.cumsum(occurs, dtype=np.int32) - 1)[pair]  # a pair's position among those that occur
    else:
        pairs, code = np.unique(np.concatenate([[0], pair]), return_inverse=True)
        code = code[1:]  # without the pair 0 that was put in front
    table = padded_table(np.concatenate([first_table[pairs // n_second], second_table[pairs % n_second]], axis=1))
    return table, jnp.asarray(code.reshape(first_code.shape).astype(np.int32), jnp.int32)


def _to_common_dtype(first: Array, second: Array) -> list[Array]:
    """Return two arrays of counts, both with the dtype that holds both (`counts_dtype`)."""
    dtype = counts_dtype(first, second)
    return [first.astype(dtype), second.astype(dtype)]


def check_is_forest(value: Any, name: str = "forest", *, or_trees: bool = False) -> None:
    """Raise a TypeError, which calls ``value`` by ``name``, unless it is a `Forest` or, with ``or_trees``, `Trees`."""
    if isinstance(value, Forest) or (or_trees and isinstance(value, Trees)):
        return
    raise TypeError(f"{name} is a {type(value).__name__}. {way_to_forest(value)}")


@singledispatch
def way_to_forest(value: Any) -> str:
    """Return a sentence, for messages, that says how to get a `Forest` from ``value``, which is none.

    Other packages register functions for their own classes.
    """
    if type(value).__module__.partition(".")[0] == "sklearn":
        return "It is scikit-learn's: pass jaxunc.from_sklearn(model), the fitted model imported. See docs/start.md."
    if isinstance(getattr(value, "forest", None), Forest):
        return "Pass its forest."
    return "Pass a Forest, such as jaxunc.from_sklearn(model)."


def counts_of_forks(
    trees: Trees, counts: Num[Array | np.ndarray, "trees nodes classes"], counted: np.ndarray | None = None
) -> Num[Array | np.ndarray, "forks classes"]:
    """Return the class counts at each fork's node: the sum of the counts of the leaves below the fork's children.

    ``counts`` are read at leaves that are not empty; concrete ones are summed as float64, by NumPy. ``counted [forks
    classes]``, None without any, are the counts of instances in the empty leaves. They are added to concrete ``counts``
    alone. Raises a ValueError if the trees are traced.
    """
    assert trees.forks is not None
    if not is_concrete(trees):
        raise ValueError(
            "what is counted below multi-way tests is summed along the trees, which cannot be traced: choose "
            "with_empty_leaves('parent') and call with_counts before jit, grad or vmap, or close over the trees."
        )
    forks = trees.forks
    tree, start, child_node = (np.asarray(array) for array in (forks.tree, forks.first, forks.node))
    owner = np.repeat(np.arange(forks.number), np.diff(start))  # the fork of each child
    child_counts = _totals(trees, counts)[tree[owner], child_node]
    if not isinstance(child_counts, np.ndarray):
        return jnp.zeros((forks.number, child_counts.shape[-1]), child_counts.dtype).at[owner].add(child_counts)
    sums = np.zeros((forks.number, child_counts.shape[-1])) if counted is None else counted.astype(np.float64)
    np.add.at(sums, owner, child_counts)
    return sums


def _totals(trees: Trees, counts):
    """Return for each node the summed ``counts [trees nodes classes]`` of the leaves below it, in the same shape.

    A leaf has its own counts, an empty leaf zeros. Concrete counts are summed as float64, by NumPy. The ``trees`` must
    be concrete.
    """
    child = np.asarray(trees.child)
    is_empty = np.asarray(trees.feature) < 0
    levels = []  # (tree, node, left child) of the inner nodes of each level, from the roots down
    tree = np.arange(len(child))
    node = np.zeros(len(child), np.int64)
    while True:
        is_inner = child[tree, node] != node
        tree, node = tree[is_inner], node[is_inner]
        if not len(tree):
            break
        left = child[tree, node]
        levels.append((tree, node, left))
        tree = np.concatenate([tree, tree])
        node = np.concatenate([left, left + 1])
    # From the bottom up, so that both children have their sums before their parent.
    if is_concrete(counts):
        totals = np.where(is_empty[..., None], 0, np.asarray(counts, np.float64))
        for tree, node, left in reversed(levels):
            totals[tree, node] = totals[tree, left] + totals[tree, left + 1]
        return totals
    totals = jnp.where(is_empty[..., None], jnp.zeros_like(counts), counts)
    for tree, node, left in reversed(levels):
        totals = totals.at[tree, node].set(totals[tree, left] + totals[tree, left + 1])
    return totals
