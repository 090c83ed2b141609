"""Answers for the instances that leaves count, each from counts without the instance itself."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxunc._checks import as_weights, is_concrete
from jaxunc._numerics import counts_dtype, map_over_devices, own_settings, subtract_counts
from jaxunc._types import AnswerT, PyTree
from jaxunc.combiners import Combiner, as_combiner, combine_counts
from jaxunc.forest import DEFAULT_COUNTS, Forest, check_is_forest
from jaxunc.inference import (
    Chunk,
    Part,
    Shapes,
    as_mask,
    cut,
    drive,
    leaf_index,
    make_plan,
    on_tested,
    planned_leaf_counts,
    planned_leaf_index,
    refuse_average,
)
from jaxunc.tables import (
    Encoded,
    InstancesLike,
    LabelsLike,
    MaskLike,
    NumbersLike,
    SparseRows,
    class_positions,
    encode_rows,
    encode_traced,
)

from ._copies import GroupCounts, mask_by_group, rows_together

LEFT_OUT_COUNTS = 2**21
"""Most counts ``[block trees classes]`` that are held at a time; it sets the size of a block."""


def leave_one_out(
    forest: Forest,
    combiner: Combiner[AnswerT],
    X: InstancesLike,
    y: LabelsLike,
    *,
    sample_weight: NumbersLike | None = None,
    tree_mask: MaskLike | None = None,
    groups: LabelsLike | None = None,
) -> AnswerT:
    """Return a combiner's answer for each instance that a forest counts, from counts without the instance's own label.

    An instance's own label is among the counts of the leaves that it reaches: scored with them, pure noise looks
    learned (an AUC of .99). Here each instance is answered from counts without itself, and with ``tree_mask`` from the
    trees alone that were grown without it.

    Parameters
    ----------
    forest
        The forest, as `count_leaves` returned it for exactly these instances, labels, weights and mask.
    combiner
        The combiner; it reads the forest's own counts alone.
    X, y, sample_weight, tree_mask
        The arguments that `count_leaves` was given. Under a trace y holds positions in ``forest.class_labels``.
    groups
        A label for each instance, which is answered without all instances of its label. Default: without its copies,
        as `jaxunc.counting.oob_mask` finds them, with a warning; under a trace without itself alone.

    Returns
    -------
    PyTree
        The combiner's `Answer` (or whatever else its ``answer`` is), one entry per instance in their order.

    Raises
    ------
    ValueError, TypeError
        As `count_leaves` does. If the combiner reads other counts, groups are given under a trace, or empty leaves are
        averaged (`Forest.with_empty_leaves`).

    Notes
    -----
    The combiner's prior still counts the instance (a prior without it would tell its label). Leaves that held it alone
    are empty. Without an instance the other classes look a little more frequent: with few large leaves this pushes the
    ranking below chance, with the small leaves of grown-out trees it does not.

    On one core, in blocks of ``[block trees classes]`` counts; float32 counts are exact up to 2²⁴. Traceable and
    differentiable in the combiner and the forest's counts, then in one block, unless empty leaves are followed.
    """
    traced = not is_concrete(X, y, sample_weight, tree_mask, forest, combiner)
    combiner = as_combiner(combiner)
    check_is_forest(forest)
    if combiner.count_sets != (DEFAULT_COUNTS,):
        raise ValueError(
            f"{type(combiner).__name__} reads the counts {combiner.count_sets}; the own label can be taken out of the "
            "forest's own counts alone. Rows for such combiners are made by jaxunc.learning.oob_dataset."
        )
    refuse_average(forest)
    if traced:
        if groups is not None:
            raise ValueError("groups are found on the host: leave them out under a trace, or call outside of it.")
        values = encode_traced(X, forest.trees.columns)
        labels = jnp.asarray(y)
    else:
        all_values = encode_rows(X, forest.trees.columns).values
        labels = class_positions(forest.class_labels, y)
        trees, values = on_tested(forest.trees, all_values)
        forest = dataclasses.replace(forest, trees=trees)
        values = values if isinstance(values, SparseRows) else np.asarray(values)
    plan = make_plan(forest.trees, missing=True)
    n = values.shape[0]
    if labels.shape != (n,):
        raise ValueError(f"y has {labels.shape[0]} labels for {n} instances; pass one label per instance.")
    mask = as_mask(tree_mask, n, forest.n_trees)
    if traced:
        weights = jnp.ones(n, jnp.int32) if sample_weight is None else jnp.asarray(sample_weight)
        beside = (forest, plan, combiner)
        return map_over_devices(_answer_without_label, values, labels, weights, mask, beside=beside)
    weights = as_weights(sample_weight, n)
    groups = rows_together(all_values, np.asarray(labels), groups, weight=weights)
    # As integers: float weights would turn all counts into floats, and rounding would decide ties.
    if np.all(weights == np.rint(weights)) and weights.max(initial=0) < 2**31:
        weights = weights.astype(np.int32)
    mask = np.ones((n, forest.n_trees), bool) if mask is None else np.asarray(mask)
    block_rows = int(np.clip(LEFT_OUT_COUNTS // (forest.n_trees * forest.n_classes), 16, 1024))
    if groups is not None:
        group_table, group_code = _count_groups(forest, values, groups, labels, weights, mask)
        mask = mask_by_group(mask, groups)

    def score(part: Part) -> PyTree:
        if groups is None:
            part_labels = np.asarray(part.of(labels))
            part_weights = np.asarray(part.of(weights))
            row_counts = _row_counts(part_labels, part_weights, forest.n_classes)
        else:
            row_counts = group_table[np.asarray(part.of(group_code))]
        return _answer_without_row(forest, plan, combiner, part.of(values), row_counts, part.of(mask))

    parts = cut(n, Shapes(Chunk(block_rows, block_rows)), 1)
    return drive(score, parts, 1)


def _count_groups(forest: Forest, values, groups, labels, weights: np.ndarray, mask) -> GroupCounts:
    """Return the class counts of each row's group in the row's leaves, by weight.

    ``values [rows features]`` has the encoded rows; ``groups`` (numbers), ``labels`` (positions of classes) and
    ``weights`` are ``[rows]``, and ``mask [rows trees]`` says which trees count which row. Counts are int32 if weights
    are, and int32 holds them.
    """
    leaves = np.asarray(leaf_index(forest, Encoded(values, missing=True)))
    counts = GroupCounts.of(groups, leaves, labels, weights, forest.n_classes, mask)
    if weights.dtype == np.int32 and counts.table.max(initial=0) < 2**31:
        return counts._replace(table=counts.table.astype(np.int32))
    return counts


def _answer_without_label(beside: tuple, values, labels, weights, mask) -> PyTree:
    """Return the combiner's answer for each row, from counts without the row's own; may be traced.

    ``beside`` is (forest, plan, combiner), as for `_answer_without_row`; other arguments are those of `_row_counts`.
    """
    forest, plan, combiner = beside
    row_counts = _row_counts(labels, weights, forest.n_classes)
    return _answer_without_row(forest, plan, combiner, values, row_counts, mask)


@own_settings()
def _row_counts(labels, weights, n_classes: int) -> Array:
    """Return what each row adds to its leaf's counts, ``[rows 1 classes]``: its weight in its class, else 0.

    ``labels`` (positions of classes) and ``weights`` are ``[rows]``.
    """
    weights = jnp.asarray(weights)
    return (jnp.eye(n_classes, dtype=weights.dtype)[labels] * weights[:, None])[:, None]


@own_settings()
def _answer_without_row(forest, plan, combiner, values, row_counts, mask) -> PyTree:
    """Return the combiner's answer for each row, from the counts of the row's leaves minus ``row_counts``.

    ``plan`` has the forest's trees packed for walking, and ``values [rows features]`` has the encoded rows.
    ``row_counts`` is what the row itself adds to its leaves' counts, ``[rows 1 classes]``, or what its group adds,
    ``[rows trees classes]``. ``mask [rows trees]`` says which trees count; None: all.
    """
    values = jnp.asarray(values)
    leaves = planned_leaf_index(forest.trees, plan, values)
    counts = planned_leaf_counts(forest, plan, values, leaves)
    row_counts = jnp.broadcast_to(row_counts, counts.shape)
    # In an empty leaf ``counts`` are those of the leaf's siblings, which do not hold the instance: subtract nothing.
    if forest.follows_forks:  # only empty leaves have a feature below 0 (`Trees.fork`)
        is_empty = forest.trees.feature[jnp.arange(forest.n_trees), leaves] < 0
        row_counts = jnp.where(is_empty[..., None], jnp.zeros_like(row_counts), row_counts)
    dtype = counts_dtype(counts, row_counts)
    other_counts = subtract_counts(counts.astype(dtype), row_counts.astype(dtype))
    mask = None if mask is None else jnp.asarray(mask)
    return combine_counts(combiner, other_counts, None, mask)
