"""Check that rows are those that a forest was grown on, in their order: its bags and its leaves' counts tell."""

from typing import Any, NamedTuple

import numpy as np

from jaxunc._checks import as_weights
from jaxunc.tables import Columns, InstancesLike, NumbersLike, SparseRows, class_positions, encode_rows

TREES = 3
"""Number of trees that are asked: the first, the last (which another ``fit`` may have grown), and one between."""


class _Bag(NamedTuple):
    """Contents of a tree's leaves, filled by its bag with the given rows: each array ``[leaves classes]``."""

    rows: np.ndarray
    """Number of distinct rows."""
    drawn: np.ndarray
    """Number of rows, each as often as it was drawn."""
    weighted: np.ndarray
    """Weight of the rows, each as often as it was drawn."""


def check_grown_on(
    model: Any, bags: list[np.ndarray], X: InstancesLike, y: Any, *, sample_weight: NumbersLike | None = None
) -> tuple[np.ndarray | SparseRows, np.ndarray]:
    """Return the given rows and their classes' positions, which by a model's bags give its leaves' own counts.

    Raises a ValueError unless they do.

    Sample weights that the model was grown with need not be given: then the leaves' sizes and classes have to agree.
    """
    names = getattr(model, "feature_names_in_", None)
    columns = Columns(int(model.n_features_in_), None if names is None else tuple(map(str, names)))
    values = encode_rows(X, columns).values
    values = values if isinstance(values, SparseRows) else np.asarray(values)
    position = class_positions(tuple(np.asarray(model.classes_).tolist()), y)
    if len(position) != len(values):
        raise ValueError(f"y has {len(position)} labels for {len(values)} instances; pass one label per instance.")
    weight, n_classes = as_weights(sample_weight, len(values)), len(model.classes_)
    for t in sorted({0, len(bags) // 2, len(bags) - 1}) if len(bags) > TREES else range(len(bags)):
        tree, times = model.estimators_[t], np.bincount(bags[t], minlength=len(values))
        inside = np.flatnonzero(times)
        # Each row once, however often it was drawn: ``times`` counts it.
        own = values[inside].matrix() if isinstance(values, SparseRows) else values[inside]
        if hasattr(model, "estimators_features_"):
            own = own[:, model.estimators_features_[t]]
        node = tree.tree_.apply(own if isinstance(values, SparseRows) else np.ascontiguousarray(own))
        cell, number = node * n_classes + position[inside], tree.tree_.node_count
        leaves = tree.tree_.children_left < 0
        told = (None, times[inside], times[inside] * weight[inside])
        bag = _Bag(*(np.bincount(cell, w, number * n_classes).reshape(number, n_classes)[leaves] for w in told))
        if not _agrees(tree, leaves, bag):
            raise ValueError(
                f"X and y are not the rows that this {type(model).__name__} was grown on, in their order: with them "
                f"the bag of tree {t} does not give the counts in its leaves. Which rows are out of a tree's bag is "
                "known by their positions alone, so with rows in another order labels leak. Pass X and y just as they "
                "went into model.fit (and its sample_weight). Rows in another order, or others, cannot be used out of "
                "bag: for rows that were held out take 'held_out'."
            )
    return values, position


def _agrees(tree: Any, leaves: np.ndarray, bag: _Bag) -> bool:
    """Return whether a bag may have given the counts of a tree's leaves."""
    sizes = tree.tree_.n_node_samples[leaves]
    seen = bag.drawn if sizes.sum() > bag.rows.sum() else bag.rows  # by sample weights, or by copies of rows
    if getattr(tree, "monotonic_cst", None) is not None:  # its values are no frequencies
        return bool(np.array_equal(seen.sum(axis=1), sizes))
    counts = _leaf_counts(tree, leaves, bag.rows.shape[1])
    if any(_proportional(counts, given) for given in (bag.drawn, bag.weighted)):
        return True
    if len(counts) > counts.shape[1]:  # weights by class alone are told by the leaves' sizes: then labels differ
        per_class, size = np.linalg.lstsq(counts, bag.drawn.sum(axis=1), rcond=None)[0], bag.drawn.sum(axis=1)
        if np.allclose(counts @ per_class, size, rtol=1e-6, atol=0):
            return False
    # The forest may have been grown with weights that are not told, some of them 0.
    absent = (counts <= 0) & (seen > 0) & (counts.sum(axis=0) > 0)
    # No row may be missing from its leaf, nor a leaf hold more than the rows that reach it.
    whole = seen.sum() == sizes.sum()
    too_few = (seen.sum(axis=1) < sizes).any() or (counts[seen == 0] > 0).any()
    return not (too_few or (whole and absent.any()))


def _leaf_counts(tree: Any, leaves: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the counts of leaves by the classes of the whole model.

    Those classes are positions in the model's list where a bagged tree missed some.
    """
    own = tree.tree_.value[leaves, 0] * tree.tree_.weighted_n_node_samples[leaves, None]
    if own.shape[1] == n_classes:
        return own
    counts = np.zeros((len(own), n_classes))
    counts[:, np.asarray(tree.classes_, np.int64)] = own
    return counts


def _proportional(counts: np.ndarray, given: np.ndarray) -> bool:
    """Return whether counts are equal but for a factor by class: class weights, which may differ from tree to tree."""
    whole = given.sum(axis=0)
    factor = counts.sum(axis=0) / np.where(whole > 0, whole, 1)
    return bool(np.allclose(counts, given * factor, rtol=1e-6, atol=1e-6 * counts.sum() / len(counts)))
