"""Scoring the instances that were counted, each from counts without itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Num, PyTree

from jaxunc.combiners import Fold
from jaxunc.forest import Forest

from ._bind import bind
from ._instances import as_instances, check_mask
from ._recount import class_indices


def leave_one_out(
    forest: Forest,
    combiner: Fold,
    X: Num[Array, "instances features"] | np.ndarray,
    y,
    *,
    sample_weight=None,
    mask: Bool[Array, "instances trees"] | np.ndarray | None = None,
    threads: int | None = None,
) -> PyTree:
    """What a rule answers for the very instances that a forest's counts were taken from (by `recount`).

    An instance's own label is among the counts of the leaves that it reaches: scored with them, pure noise looks
    learned (an AUC of .99). Here each instance is answered from counts without itself, and with ``mask`` from the
    trees alone that were grown without it.

    Parameters
    ----------
    forest
        The forest, recounted with exactly these instances, labels, weights and mask.
    combiner
        The rule.
    X, y, sample_weight, mask
        What `recount` was given.
    threads
        As for `bind`.

    Returns
    -------
    PyTree
        The rule's `Answer` (or whatever else its ``answer`` is), one entry per instance in their order.

    Raises
    ------
    ValueError, TypeError
        As `recount` does.

    Notes
    -----
    Instances of one label and weight are scored together, from the count table less that weight: one pass for each
    distinct pair. The rule's own prior keeps the instance (a prior without it would tell its label). Leaves that held
    it alone are empty. Taking an instance out makes the other classes look a little more frequent: with few large
    leaves the ranking is pushed below chance, with the small leaves of grown-out trees it is not.
    """
    values, _ = as_instances(X, forest)
    values, labels = np.asarray(values), class_indices(forest, y)
    check_mask(mask, len(values), forest.n_trees)
    if len(labels) != len(values):
        raise ValueError(f"y has {len(labels)} labels for {len(values)} instances; pass one label per instance.")
    weights = np.ones(len(values)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weights.shape != labels.shape:
        raise ValueError(f"sample_weight has shape {weights.shape}; pass one number per instance, {labels.shape}.")
    mask = None if mask is None else np.asarray(mask)
    pairs, group = np.unique(np.stack([labels, weights], axis=1), axis=0, return_inverse=True)
    group, answers = group.ravel(), []
    order = np.argsort(group, kind="stable")
    for i, (label, weight) in enumerate(pairs):
        rows = order[np.searchsorted(group[order], i) : np.searchsorted(group[order], i, side="right")]
        bound = bind(_without(forest, int(label), weight), combiner, threads=threads)
        answers.append(bound.answer(values[rows], tree_mask=None if mask is None else mask[rows]))
    if not answers:
        return bind(forest, combiner, threads=threads).answer(values)
    back = np.argsort(order)
    return jax.tree.map(lambda *parts: jnp.asarray(np.concatenate(parts)[back]), *answers)


def _without(forest: Forest, label: int, weight: float) -> Forest:
    """The forest with one instance less of that label, in every leaf that has one."""
    table = np.asarray(forest.count_table)
    rest = table[:, label] - weight
    # What is left of a leaf that held the instance alone is nothing, not a rounding error.
    rest = np.where(rest <= 4 * np.finfo(np.float32).eps * table[:, label], 0, rest)
    table = table.copy()
    table[:, label] = rest
    return eqx.tree_at(lambda f: f.count_table, forest, jnp.asarray(table))
