"""Scoring the instances that were counted, each from counts without itself."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxunc._checks import as_weights
from jaxunc.combiners import Fold, combine_counts
from jaxunc.forest import Forest

from ._empty_leaves import follows_siblings, in_empty_leaf
from ._index import leaf_index
from ._instances import as_instances, as_mask
from ._leaves import leaf_counts
from ._recount import class_indices

ENTRIES = 2**21
"""Counts that are held at a time."""


def leave_one_out(
    forest: Forest,
    combiner: Fold,
    X,
    y,
    *,
    sample_weight=None,
    mask=None,
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
    The rule's own prior keeps the instance (a prior without it would tell its label). Leaves that held it alone are
    empty. Taking an instance out makes the other classes look a little more frequent: with few large leaves the ranking
    is pushed below chance, with the small leaves of grown-out trees it is not.

    Block by block through ``[block trees classes]``, one core; float32 counts are exact up to 2²⁴.
    """
    values, _ = as_instances(X, forest)
    values, labels = np.asarray(values), class_indices(forest, y)
    n = len(values)
    if len(labels) != n:
        raise ValueError(f"y has {len(labels)} labels for {n} instances; pass one label per instance.")
    weights = as_weights(sample_weight, n)
    if np.all(weights == np.rint(weights)) and weights.max(initial=0) < 2**31:
        weights = weights.astype(np.int32)  # as the counts are
    mask = as_mask(mask, n, forest.n_trees)
    mask = np.ones((n, forest.n_trees), bool) if mask is None else np.asarray(mask)
    size = int(np.clip(ENTRIES // (forest.n_trees * forest.n_classes), 16, 1024))
    blocks = [slice(start, start + size) for start in range(0, max(n, 1), size)]
    answers = [
        _answer_without_own(forest, combiner, *(_filled(part[block], size) for part in (values, labels, weights, mask)))
        for block in blocks
    ]
    return jax.tree.map(lambda *parts: jnp.asarray(np.concatenate(parts)[:n]), *answers)


def _filled(part: np.ndarray, size: int) -> np.ndarray:
    return np.pad(part, [(0, size - len(part)), *[(0, 0)] * (part.ndim - 1)])


def _answer_without_own(forest, combiner, values, labels, weights, mask) -> PyTree:
    counts = leaf_counts(forest, values)
    own = np.eye(forest.n_classes, dtype=weights.dtype)[labels] * weights[:, None]
    # What was counted in an empty leaf is not among the counts of its siblings.
    counted = ~in_empty_leaf(forest, leaf_index(forest, values)) if follows_siblings(forest) else True
    rest = counts - jnp.where(jnp.reshape(counted, (*np.shape(counted), 1)), own[:, None], 0)
    # What is left of a leaf that held the instance alone is nothing, not a rounding error.
    rest = jnp.where(rest <= 4 * jnp.finfo(jnp.float32).eps * counts, 0, rest)
    return combine_counts(combiner, rest, None, jnp.asarray(mask))
