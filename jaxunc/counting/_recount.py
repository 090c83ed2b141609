"""Counting instances into the leaves of a forest."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jaxunc._checks import as_weights, distinct_labels
from jaxunc.forest import Forest, count_in_parents, distinct_counts, settle_empty_leaves

from ._index import planned_leaf_index
from ._instances import as_instances, as_mask
from ._plan import make_plan

CHUNK = 16384
"""Instances whose leaf indices are held at a time."""


def recount(
    forest: Forest,
    X,
    y,
    *,
    sample_weight=None,
    mask=None,
) -> Forest:
    """The same trees with new counts: those of the instances given, in the leaves that they reach.

    Which counts a forest holds decides what its leaves can say. Counts of the sample that a grown-out tree was grown on
    are pure by construction; counts of instances that it has not seen tell how uncertain it is.

    Parameters
    ----------
    forest
        The forest.
    X
        Instances, as for `bind`.
    y
        Their labels, among ``forest.class_labels``.
    sample_weight
        What each instance counts, ≥ 0; default 1.
    mask
        Which trees an instance counts in, ``[instances trees]``: with `oob_mask`, only those that were grown without
        it. Default: all.

    Returns
    -------
    Forest
        With the new counts and, from the same instances, a new ``prior`` and ``n_samples``.

    Raises
    ------
    ValueError
        If X, y, the weights or the mask differ in length, a label is unknown (it is named), a weight is negative or not
        finite, or no instance counts anywhere.

    Notes
    -----
    On the host; not differentiable. Instances in an empty leaf (see `Forest.with_empty_leaves`) count in its parent
    alone. Leaves that no instance reaches are empty. Out-of-bag counts are for **new**
    instances: an instance's own label is among the counts of its out-of-bag leaves.
    """
    values, _ = as_instances(X, forest)
    values = np.asarray(values)
    labels = class_indices(forest, y)
    n, n_classes = len(values), forest.n_classes
    if len(labels) != n:
        raise ValueError(f"y has {len(labels)} labels for {n} instances; pass one label per instance.")
    mask = as_mask(mask, n, forest.n_trees)
    weights = as_weights(sample_weight, n)
    counts, plan = np.zeros((forest.n_trees, forest.n_nodes * n_classes)), make_plan(forest, missing=True)
    for start in range(0, n, CHUNK):
        part = slice(start, start + CHUNK)
        cells = np.asarray(planned_leaf_index(forest, plan, jnp.asarray(values[part]))) * n_classes + labels[part, None]
        own = weights[part]
        for tree in range(forest.n_trees):
            counted = own if mask is None else own * np.asarray(mask[part, tree])
            counts[tree] += np.bincount(cells[:, tree], weights=counted, minlength=counts.shape[1])
    total = np.bincount(labels, weights=weights, minlength=n_classes)
    if not total.sum() > 0:
        raise ValueError("no instance has a positive weight; there is nothing to count.")
    counts = counts.reshape(forest.n_trees, forest.n_nodes, n_classes)
    if forest.siblings is not None:
        forest = dataclasses.replace(forest, siblings=count_in_parents(forest.siblings, counts))
    table, code = distinct_counts(settle_empty_leaves(forest, counts))
    dtype = forest.prior.dtype
    return dataclasses.replace(
        forest,
        count_table=table,
        code=code,
        prior=jnp.asarray(total / total.sum(), dtype),
        n_samples=jnp.asarray(total.sum(), dtype),
    )


def class_indices(forest: Forest, y) -> np.ndarray:
    """Positions of labels among the forest's classes; raises a ValueError that names unknown ones, and a TypeError for
    labels that have no order."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}; pass one label per instance, shape (instances,).")
    place = {label: i for i, label in enumerate(forest.class_labels)}
    distinct, inverse = distinct_labels(labels)
    unknown = [label for label in distinct.tolist() if label not in place]
    if unknown:
        raise ValueError(
            f"y holds labels that the forest does not know: {unknown[:5]}; "
            f"its classes are {list(forest.class_labels)[:10]}."
        )
    return np.array([place[label] for label in distinct.tolist()], dtype=np.int64)[inverse]
