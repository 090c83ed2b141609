"""The counting of instances into the leaves of trees."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jaxunc._checks import as_weights, distinct_labels
from jaxunc._numerics import distinct_counts, narrowest_counts, padded_table
from jaxunc.forest import Forest, Trees, check_is_forest, counts_of_forks
from jaxunc.inference import as_mask, known_plan, leaf_index_on_host, on_tested
from jaxunc.tables import (
    InstancesLike,
    LabelsLike,
    MaskLike,
    NumbersLike,
    SparseRows,
    as_labels,
    class_positions,
    encode_rows,
)

CHUNK = 16384
"""Number of instances whose leaf indices are held at a time."""


def count_leaves(
    forest: Forest | Trees,
    X: InstancesLike,
    y: LabelsLike,
    *,
    sample_weight: NumbersLike | None = None,
    tree_mask: MaskLike | None = None,
    leaves: NumbersLike | None = None,
) -> Forest:
    """Return the same trees with new counts: those of the given instances, in the leaves that they reach.

    Which counts a forest holds decides what its leaves can say. Counts of the sample that a grown-out tree was grown on
    are pure by construction; counts of instances that it has not seen tell how uncertain it is.

    Parameters
    ----------
    forest
        The forest, or trees of any kind.
    X
        Instances, as for `bind`.
    y
        Their labels, among ``forest.class_labels``; of trees alone the distinct labels, sorted, become the classes.
    sample_weight
        Weight of each instance in the counts, ≥ 0; default 1.
    tree_mask
        Whether an instance counts in a tree, ``[instances trees]``: with `oob_mask`, only those that were grown without
        it. Default: all.
    leaves
        The leaf of each instance in each tree, `leaf_index` of X, where it is known: so several countings share one
        routing. Default: X is routed.

    Returns
    -------
    Forest
        With the new counts and, from the same instances, a new ``prior`` and ``n_samples``.

    Raises
    ------
    ValueError
        If X, y, the weights, the mask or the leaves differ in length, or a label is unknown (it is named). If a weight
        is negative or not finite, a leaf is no leaf of its tree, or no instance counts anywhere; of trees alone if
        there is but one label.

    Notes
    -----
    On the host; not differentiable. Instances in an empty leaf (see `Forest.with_empty_leaves`) count in its parent
    alone. Leaves that no instance reaches are empty. Out-of-bag counts are for **new**
    instances: an instance's own label is among the counts of its out-of-bag leaves.
    """
    check_is_forest(forest, or_trees=True)
    trees = forest.trees if isinstance(forest, Forest) else forest
    values = encode_rows(X, trees.columns).values
    values = values if isinstance(values, SparseRows) else np.asarray(values)
    class_labels = forest.class_labels if isinstance(forest, Forest) else _labels_of(y)
    labels = class_positions(class_labels, y)
    n, n_classes = len(values), len(class_labels)
    if len(labels) != n:
        raise ValueError(f"y has {len(labels)} labels for {n} instances; pass one label per instance.")
    tree_mask = as_mask(tree_mask, n, trees.n_trees)
    tree_mask = None if tree_mask is None else np.asarray(tree_mask)
    weights = as_weights(sample_weight, n)
    total = np.bincount(labels, weights=weights, minlength=n_classes)
    if not total.sum() > 0:
        raise ValueError("no instance has a positive weight; there is nothing to count.")
    leaves = None if leaves is None else _checked_leaves(leaves, trees, n)
    counts = _counted(trees, values, leaves, labels, weights, tree_mask, n_classes)
    fork_counts = None
    if trees.forks is not None:
        # Instances in empty leaves are counted in the test itself; the leaves stay empty, as they are for every
        # combiner.
        fork = np.asarray(trees.fork)
        counted = np.zeros((trees.forks.number, n_classes))
        np.add.at(counted, fork[fork >= 0], counts[fork >= 0])
        counted = np.asarray(narrowest_counts(counted))  # as counts are kept
        fork_counts = padded_table(np.asarray(counts_of_forks(trees, counts, counted)))
        counts[fork >= 0] = 0
    table, code = distinct_counts(counts)
    dtype = jnp.result_type(float)
    new = {
        "count_table": table,
        "code": code,
        "fork_counts": fork_counts,
        "further": {},
        "prior": jnp.asarray(total / total.sum(), dtype),
        "n_samples": jnp.asarray(total.sum(), dtype),
    }
    if isinstance(forest, Forest):
        return dataclasses.replace(forest, **new)
    return Forest(trees=trees, class_labels=class_labels, **new)


def _labels_of(y) -> tuple:
    labels = distinct_labels(as_labels(y))[0]
    if len(labels) < 2:
        raise ValueError(f"y holds {len(labels)} label(s), {labels.tolist()}; counts that tell classes apart need two.")
    return tuple(labels.tolist())


def _checked_leaves(leaves, trees: Trees, n: int) -> np.ndarray:
    leaves = np.asarray(leaves)
    if leaves.shape != (n, trees.n_trees) or leaves.dtype.kind not in "iu":
        raise ValueError(
            f"leaves is of {leaves.dtype} and has shape {leaves.shape}; pass leaf_index(trees, X), integers of shape "
            f"{(n, trees.n_trees)} (instances, trees)."
        )
    inside = np.all((leaves >= 0) & (leaves < trees.n_nodes))
    if not (inside and np.asarray(trees.is_leaf)[np.arange(trees.n_trees), leaves].all()):
        raise ValueError("leaves holds nodes that are no leaves of these trees; pass leaf_index(trees, X).")
    return leaves


def _counted(trees: Trees, values, leaves, labels, weights, tree_mask, n_classes: int) -> np.ndarray:
    """Return the counts of every node ``[trees nodes classes]``, in float64."""
    counts, plan = np.zeros((trees.n_trees, trees.n_nodes * n_classes)), None
    narrow, rows = on_tested(trees, values)
    for start in range(0, len(values), CHUNK):
        part = slice(start, start + CHUNK)
        if leaves is None:
            plan = plan or known_plan(narrow)
            here = leaf_index_on_host(narrow, plan, rows[part])
        else:
            here = leaves[part]
        # (leaf, class) as one cell: a tree's counts of a chunk are one bincount.
        cells, row_weights = here * n_classes + labels[part, None], weights[part]
        for tree in range(trees.n_trees):
            counted = row_weights if tree_mask is None else row_weights * tree_mask[part, tree]
            counts[tree] += np.bincount(cells[:, tree], weights=counted, minlength=counts.shape[1])
    return counts.reshape(trees.n_trees, trees.n_nodes, n_classes)
