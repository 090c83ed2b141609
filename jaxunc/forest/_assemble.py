"""Assembly of padded arrays from the nodes of single trees, in any numbering (on the host)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxunc._checks import check_collection, check_kind, check_within
from jaxunc._numerics import NAN_LAST, distinct_rows, padded_table, power_of_two
from jaxunc.tables import Columns

from ._forest import Forest, Trees


class TreeNodes(NamedTuple):
    """Nodes of one tree in any order, the root first; children are negative at leaves."""

    feature: np.ndarray
    """Column that each node tests."""
    threshold: np.ndarray
    """Order key of each node: what is larger goes right."""
    left: np.ndarray
    """Place of the child for what is not larger."""
    right: np.ndarray
    """Place of the child for what is larger."""
    missing_right: np.ndarray
    """Whether a missing value goes right."""


def snap_to_integers(counts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Round counts within 1e-9 of a leaf's size of an integer to that integer.

    scikit-learn stores fractions; multiplied by the size they are off by up to 2e-13, which breaks ties and parities.
    """
    nearest = np.rint(counts)
    close = np.abs(counts - nearest) <= 1e-9 * np.maximum(sizes, 1.0)[..., None]
    return np.where(close, nearest, counts)


def lay_out(nodes: Sequence[TreeNodes], columns: Columns) -> tuple[Trees, list[np.ndarray]]:
    """Lay out trees side by side, children adjacent, levels in order; also return each node's new index.

    Trusts its input; `check_trees` does not.
    """
    n_trees = len(nodes)
    # Unused slots stay leaves that no path leads to: their own child, with a threshold that no key passes.
    width = power_of_two(max(len(t.feature) for t in nodes), 64)
    feature = np.zeros((n_trees, width), np.int32)
    threshold = np.full((n_trees, width), NAN_LAST, np.int32)
    child = np.tile(np.arange(width, dtype=np.int32), (n_trees, 1))
    missing_right = np.zeros((n_trees, width), bool)
    depth = np.zeros(n_trees, np.int32)
    indices = []
    for t, tree in enumerate(nodes):
        inner, left, depth[t] = _inner_by_level(tree)
        index = np.zeros(len(tree.feature), np.int64)
        # The children of inner nodes, in order of level, take the next two slots: a right child is found without an
        # index of its own, and a tree's top levels lie together.
        index[left] = 1 + 2 * np.arange(len(left))
        pairs = index[tree.left[inner]]
        index[tree.right[inner]] = pairs + 1
        slots = index[inner]
        feature[t, slots] = tree.feature[inner]
        threshold[t, slots] = tree.threshold[inner]
        child[t, slots] = pairs
        missing_right[t, slots] = tree.missing_right[inner]
        indices.append(index)
    # By their own dtype: without one JAX compiles a program for each shape.
    arrays = [jnp.asarray(array, array.dtype) for array in (feature, threshold, child, missing_right, depth)]
    return Trees(*arrays, columns=columns), indices


def assemble(
    nodes: Sequence[TreeNodes],
    counts: Sequence[np.ndarray],
    *,
    columns: Columns,
    prior: np.ndarray,
    n_samples: float,
    class_labels: tuple[Any, ...],
) -> Forest:
    """Make a forest of trees and of the class counts of their nodes ``[nodes classes]``, which are read at leaves.

    Trusts its input; `check_forest` does not. ``prior`` adds to 1; for ``n_samples`` see `Forest.n_samples`.
    """
    check_kind("nodes", nodes, Sequence, "a list of TreeNodes, one per tree")
    check_collection("counts", counts, "a list of arrays [nodes classes], one per tree")
    check_kind("columns", columns, Columns, "Columns, such as jaxunc.tables.Columns(n_features)")
    check_collection("class_labels", class_labels, "a tuple of labels")
    check_within("prior", prior, "[0, 1]", shape=None)
    check_within("n_samples", n_samples, "[0, inf)")
    if not nodes:
        raise ValueError(f"nodes={nodes!r} holds no tree; pass one TreeNodes at least.")
    trees, indices = lay_out(nodes, columns)
    code = np.zeros((trees.n_trees, trees.n_nodes), np.int32)
    leaf_rows, leaf_slots = [], []
    for tree, index, tree_counts in zip(nodes, indices, counts, strict=True):
        leaves = np.flatnonzero(tree.left < 0)
        # Tree by tree first: sorting a tree's few distinct rows is far less than sorting the leaves of all.
        rows, inverse = distinct_rows(tree_counts[leaves])
        leaf_rows.append(rows)
        leaf_slots.append((index[leaves], inverse))
    # Row 0 is the zero vector: counts are not negative, so it is the first of the sorted rows.
    table, inverse = distinct_rows(np.concatenate([np.zeros((1, len(class_labels))), *leaf_rows]))
    ends, dtype = np.cumsum([1] + [len(rows) for rows in leaf_rows]), jnp.result_type(float)
    for t, (slots, local) in enumerate(leaf_slots):
        code[t, slots] = inverse[ends[t] : ends[t + 1]][local]
    return Forest(
        trees=trees,
        count_table=padded_table(table),
        code=jnp.asarray(code, code.dtype),
        prior=jnp.asarray(np.asarray(prior, dtype), dtype),
        n_samples=jnp.asarray(np.asarray(n_samples, dtype), dtype),
        class_labels=class_labels,
    )


def _inner_by_level(tree: TreeNodes) -> tuple[np.ndarray, np.ndarray, int]:
    """Order inner nodes level by level (the top of a tree stays in one cache line); also left children, and the depth.

    Where nodes share children, a node's level is the number of tests on the longest path to it, and children are
    ordered by theirs.
    """
    is_tree = np.bincount(tree.left[tree.left >= 0], minlength=1).max() < 2
    children = np.stack([tree.left, tree.right], axis=1)
    longest, levels, level = np.zeros(len(tree.left), np.int64), [], np.array([0])
    while True:
        longest[level] = len(levels)
        level = level[tree.left[level] >= 0]
        if not level.size:
            break
        levels.append(level)
        level = children[level].ravel()
        level = level if is_tree else np.unique(level)
    inner = np.concatenate(levels) if levels else np.zeros(0, np.int64)
    if is_tree:
        return inner, tree.left[inner], len(levels)
    inner = np.unique(inner)
    left = np.unique(tree.left[inner])
    return inner, left[np.argsort(longest[left], kind="stable")], len(levels)
