"""Checks of the invariants of the arrays of trees and forests, on the host.

JAX clamps an index that is out of range, without a message. So arrays that come from elsewhere (files, other libraries,
hand-made trees) are checked before they are used.
"""

import numpy as np
from jaxtyping import Array

from jaxunc._checks import check_one_of
from jaxunc._numerics import NAN_LAST

from ._forest import MODES, Forest, Trees, check_is_forest

CACHED_NODES = 2**18
"""Number of nodes that are checked together: about as many as the cache of a CPU holds, which is faster."""

DEEPEST = 2**16
"""A tree's depth must be smaller. No learned tree is as deep, and a walk would take too long."""


def check_trees(trees: Trees) -> Trees:
    """Return ``trees`` unchanged if their arrays are valid; else raise a ValueError that names all faults.

    Wrong shapes, checked first, and broken multi-way tests, checked last, are named alone. Raises a TypeError for other
    objects than trees.
    """
    if not isinstance(trees, Trees):
        raise TypeError(f"trees is a {type(trees).__name__}; pass Trees, such as forest.trees.")
    _check_shapes({name: getattr(trees, name) for name in ("feature", "threshold", "child", "missing_right")})
    _raise_if_broken(trees, "trees", _TREE_CHECKS)
    if not _forks_are_whole(trees):
        raise ValueError(f"the arrays make no valid trees: {_FORK_MESSAGE}.")
    return trees


def check_forest(forest: Forest) -> Forest:
    """Return ``forest`` unchanged if its arrays are valid; else raise a ValueError that names all faults.

    Wrong shapes, checked first, and broken multi-way tests, checked last, are named alone. Raises a TypeError for other
    objects than forests.
    """
    check_is_forest(forest)
    trees = forest.trees
    names = ("feature", "threshold", "child", "missing_right")
    _check_shapes({name: getattr(trees, name) for name in names} | _codes(forest))
    _check_class_columns(forest)
    _raise_if_broken(forest, "forest", _TREE_CHECKS | _COUNT_CHECKS)
    if not _forks_are_whole(trees):
        raise ValueError(f"the arrays make no valid forest: {_FORK_MESSAGE}.")
    n_forks = 0 if trees.forks is None else trees.forks.number
    for count_set in (forest, *forest.further.values()):
        if count_set.fork_counts is not None and len(count_set.fork_counts) < n_forks:
            raise ValueError(
                f"fork_counts has {len(count_set.fork_counts)} rows for {n_forks} multi-way tests; one is needed each."
            )
    return forest


def _check_all(forest: Trees | Forest) -> dict[str, bool]:
    """Return {name: whether it holds} for the invariants in `_TREE_CHECKS` and, of a forest, in `_COUNT_CHECKS`."""
    if isinstance(forest, Forest):
        return _check_all(forest.trees) | {name: check(forest) for name, (check, _) in _COUNT_CHECKS.items()}
    # A few trees at a time, whose nodes stay in the cache.
    step = max(1, CACHED_NODES // forest.n_nodes)
    node_groups = [_Nodes(forest, slice(start, start + step)) for start in range(0, max(1, forest.n_trees), step)]
    return {name: all(check(nodes) for nodes in node_groups) for name, (check, _) in _TREE_CHECKS.items()}


def _raise_if_broken(checked: Trees | Forest, what: str, checks: dict) -> None:
    """Raise a ValueError, with a message for each invariant that ``checked``, trees or a forest, breaks.

    ``checks`` has (check, message) by the invariant's name. The error calls the object ``what``.
    """
    broken = [checks[name][1] for name, holds in _check_all(checked).items() if not holds]
    if broken:
        raise ValueError(f"the arrays make no valid {what}: " + "; ".join(broken) + ".")


def _check_shapes(arrays: dict[str, Array]) -> None:
    """Raise a ValueError unless ``arrays``, by their names, have one shape (trees, nodes), of two nodes or more."""
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) != 1 or any(len(shape) != 2 or shape[1] < 2 for shape in shapes.values()):
        raise ValueError(
            f"node arrays of a forest must share one shape (trees, nodes), two nodes at least, but have {shapes}."
        )


def _codes(forest: Forest) -> dict[str, Array]:
    """Return the array ``code`` of each count set of ``forest``, by the names that errors give them."""
    return {"code": forest.code} | {
        f"further[{name!r}].code": count_set.code for name, count_set in forest.further.items()
    }


def _check_class_columns(forest: Forest) -> None:
    """Raise a ValueError unless the count tables of ``forest`` have a column for each class, and its prior an entry.

    Also raise it if the mode of empty leaves is none of `MODES`.
    """
    n_labels = len(forest.class_labels)
    shapes = {"count_table": np.shape(forest.count_table), "prior": np.shape(forest.prior)}
    tables = {"fork_counts": forest.fork_counts}
    for name, count_set in forest.further.items():
        tables |= {
            f"further[{name!r}].count_table": count_set.count_table,
            f"further[{name!r}].fork_counts": count_set.fork_counts,
        }
    shapes |= {name: np.shape(table) for name, table in tables.items() if table is not None}
    # Numbers of columns that occur; -1 for an array that is no table.
    columns = {shape[1] if len(shape) == 2 else -1 for name, shape in shapes.items() if name != "prior"}
    if shapes["prior"] != (n_labels,) or columns != {n_labels}:
        raise ValueError(
            f"the forest has {n_labels} class labels, but its arrays have shapes {shapes}; expected a column of counts "
            "for each class, and one prior probability."
        )
    check_one_of("empty_leaves", forest.empty_leaves, MODES)


class _Nodes:
    """Arrays ``[trees nodes]``, on the host, of those of ``trees`` in ``tree_range``, as checks read them.

    ``absorbs`` says which nodes are leaves, or padding; ``index [nodes]`` is a node's index in its tree.
    """

    def __init__(self, trees: Trees, tree_range: slice):
        self.n_features = trees.n_features
        self.n_forks = 0 if trees.forks is None else trees.forks.number
        arrays = trees.feature, trees.threshold, trees.child, trees.tree_depth
        self.feature, self.threshold, self.child, self.tree_depth = (np.asarray(array)[tree_range] for array in arrays)
        self.n_trees, self.n_nodes = self.child.shape
        self.index = np.arange(self.n_nodes, dtype=np.int32)
        self.absorbs = self.child == self.index


def _children_after_parents(nodes: _Nodes) -> bool:
    """Return whether both children of each inner node lie behind the node, and inside the tree's ``nodes``."""
    return bool((nodes.absorbs | ((nodes.child > nodes.index) & (nodes.child < nodes.n_nodes - 1))).all())


def _leaves_absorb(nodes: _Nodes) -> bool:
    """Return whether all leaves in ``nodes`` have the threshold that no key exceeds: a walk stays in a leaf."""
    return bool((~nodes.absorbs | (nodes.threshold == NAN_LAST)).all())


def _features_in_range(nodes: _Nodes) -> bool:
    """Return whether each node's feature is a column, or, in an empty leaf, ``-1 -`` the number of a fork."""
    is_empty = nodes.absorbs & (nodes.feature >= -nodes.n_forks)
    return bool((((nodes.feature >= 0) | is_empty) & (nodes.feature < nodes.n_features)).all())


def _depths_reach_leaves(nodes: _Nodes) -> bool:
    """Return whether each ``tree_depth`` reaches the tree's leaves, and is below `DEEPEST` and the number of nodes."""
    depth = nodes.tree_depth
    if depth.shape != (nodes.n_trees,):
        return False
    return _reach(nodes) and bool((depth < min(nodes.n_nodes, DEEPEST)).all())


def _reach(nodes: _Nodes) -> bool:
    """Return whether every path from a root in ``nodes`` ends in a leaf after at most ``tree_depth`` tests.

    Nodes are visited level by level, each once, after the last of its parents: the nodes that make one test of
    intervals share their children. A cycle would not be noticed here; `_children_after_parents` excludes it.
    """
    # Nodes are numbered over all trees: by their index in the flattened arrays.
    index = np.arange(nodes.child.size)
    root = index.reshape(nodes.child.shape) - nodes.index  # of each node's tree
    # A child out of range is clipped: another check reports it, this one must not fail.
    child = (root + np.clip(nodes.child, 0, nodes.n_nodes - 2)).ravel()
    inner = ~nodes.absorbs.ravel()
    # How many parents of each node were not visited yet.
    n_open_parents = np.bincount(child[inner], minlength=len(index) + 1)
    n_open_parents[1:] += n_open_parents[:-1].copy()  # a right child is the one behind the left
    position = np.zeros(len(index), np.int64)
    level = np.flatnonzero((n_open_parents[:-1] == 0) & inner)
    depth = 0
    while len(level):
        if np.any(depth >= nodes.tree_depth[level // nodes.n_nodes]) or depth > DEEPEST:
            return False
        children = np.concatenate([child[level], child[level] + 1])
        np.subtract.at(n_open_parents, children, 1)
        # A node may become ready twice in one level: the occurrence whose position was written last is kept.
        newly_ready = children[(n_open_parents[children] == 0) & inner[children]]
        position[newly_ready] = np.arange(len(newly_ready))
        level = newly_ready[position[newly_ready] == np.arange(len(newly_ready))]
        depth += 1
    return True


def _codes_in_range(forest: Forest) -> bool:
    """Return whether each ``code`` in the count sets of ``forest`` is the index of a row of the count table."""
    count_sets = forest, *forest.further.values()
    codes = [(np.asarray(count_set.code), count_set.count_table.shape[0]) for count_set in count_sets]
    return all(((code >= 0) & (code < n_rows)).all() for code, n_rows in codes)


def _counts_admissible(forest: Forest) -> bool:
    """Return whether all counts of ``forest``, those of forks included, and ``n_samples`` are finite and >= 0."""
    arrays = [forest.n_samples]
    for count_set in (forest, *forest.further.values()):
        arrays.append(count_set.count_table)
        if count_set.fork_counts is not None:
            arrays.append(count_set.fork_counts)
    return all((np.isfinite(array) & (array >= 0)).all() for array in map(np.asarray, arrays))


def _prior_is_distribution(forest: Forest) -> bool:
    """Return whether the prior of ``forest`` has no negative entry, and adds to 1."""
    prior = np.asarray(forest.prior)
    return bool((prior >= 0).all() and np.abs(prior.sum() - 1) < 1e-4)


# (function that checks an invariant of `_Nodes`, message if it is broken), by the invariant's name
_TREE_CHECKS = {
    "children_after_parents": (
        _children_after_parents,
        "an inner node's children must lie after it and inside the tree's nodes",
    ),
    "leaves_absorb": (_leaves_absorb, "a leaf's threshold must be 2**31 - 1, so that a walk stays in it"),
    "features_in_range": (
        _features_in_range,
        "every tested feature must be one of the n_features columns, and an empty leaf's one of the forks",
    ),
    "depths_reach_leaves": (
        _depths_reach_leaves,
        "a walk of tree_depth tests, fewer than there are nodes, must end in a leaf",
    ),
}


# (function that checks an invariant of a `Forest`, message if it is broken), by the invariant's name
_COUNT_CHECKS = {
    "codes_in_range": (_codes_in_range, "every code must be a row of count_table"),
    "counts_admissible": (_counts_admissible, "class counts and n_samples must be finite and >= 0"),
    "prior_is_distribution": (_prior_is_distribution, "prior must hold probabilities that add to 1"),
}


_FORK_MESSAGE = (
    "the children and the empty leaves of every multi-way test must together be all that lies below its node, once "
    "each, or instances would be routed on without end"
)


def _forks_are_whole(trees: Trees) -> bool:
    """Return whether each fork's children and empty leaves are all that lies below one node, once each."""
    if trees.forks is None:
        return True
    forks = trees.forks
    child = np.asarray(trees.child)
    label = np.array(trees.fork)
    tree, start, child_node = (np.asarray(array) for array in (forks.tree, forks.first, forks.node))
    reached = np.asarray(trees.is_leaf) | (child != np.arange(trees.n_nodes))  # all nodes but padding
    n_trees, n_nodes = child.shape
    # Each fork must have a child, and all numbers of trees and nodes must be in range; no root is a child.
    if start.shape != (forks.number + 1,):
        return False
    if start[0] != 0 or start[-1] != len(child_node) or np.any(np.diff(start) < 1):
        return False
    if np.any((tree < 0) | (tree >= n_trees)) or np.any((child_node < 1) | (child_node >= n_nodes)):
        return False
    # Each child and empty leaf of a fork is labelled with the fork's number. Empty leaves have the label already.
    owner = np.repeat(np.arange(forks.number), np.diff(start))  # the fork of each child
    empty_leaf = np.nonzero(label >= 0)
    # A fork's empty leaves must be in its tree, and its children must not be empty leaves.
    if np.any(tree[label[empty_leaf]] != empty_leaf[0]) or np.any(label[tree[owner], child_node] >= 0):
        return False
    n_parts = np.bincount(label[empty_leaf], minlength=forks.number) + np.diff(start)
    label[tree[owner], child_node] = owner
    is_labelled = label >= 0
    # A node that is a child twice, of one fork or of two, has only one label, so that there are too few labels.
    if np.count_nonzero(is_labelled) != n_parts.sum() or not reached[is_labelled].all():
        return False
    return _each_becomes_one(child, label, n_parts)


def _each_becomes_one(child: np.ndarray, label: np.ndarray, parts: np.ndarray) -> bool:
    """Return whether the labelled nodes of each fork merge, from the bottom up, into a single node.

    A fork is a multi-way test, and its number is the label of its children and empty leaves. ``label [trees nodes]`` is
    -1 elsewhere. ``parts [forks]`` is how many nodes have each label. Both are changed in place. ``child`` is
    `Trees.child`.

    Two siblings with the same label are replaced by their parent, which takes the label. The last one, the node of the
    multi-way test, does not take it: as a child of another fork it has that fork's label.
    """
    # In this function a node's number is its index in the flattened arrays of all trees.
    left_of = (child + np.arange(len(child))[:, None] * child.shape[1]).ravel()
    label = label.ravel()
    inner_node = np.flatnonzero(left_of != np.arange(child.size))
    parent = np.full(child.size, -1)
    parent[left_of[inner_node]] = parent[left_of[inner_node] + 1] = inner_node
    labelled = np.flatnonzero(label >= 0)  # the nodes that were labelled in the last round
    while len(labelled):
        node = np.sort(parent[labelled])
        node = node[np.diff(node, prepend=-1) > 0]  # np.unique hashes, which takes far longer
        left = left_of[node]
        merges = (label[left] >= 0) & (label[left] == label[left + 1])
        node = node[merges]
        fork = label[left[merges]]
        np.subtract.at(parts, fork, 1)  # two labelled nodes become one
        is_unfinished = parts[fork] > 1  # a node that stands for its whole fork is done
        labelled = node[is_unfinished]
        fork = fork[is_unfinished]
        if np.any(label[labelled] >= 0):  # a part of a fork, though it is a child or an empty leaf itself
            return False
        label[labelled] = fork
    return bool(np.all(parts == 1))
