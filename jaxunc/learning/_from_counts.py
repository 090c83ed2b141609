"""Rows to learn from that are made of counts: of leaves that some other way of leaving labels out has shown."""

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Num

from jaxunc._checks import as_weights, check_class_axis, check_collection, check_counts, check_numbers, distinct_labels
from jaxunc._numerics import distinct_rows, padded_rows
from jaxunc.forest import OWN
from jaxunc.inference import as_mask
from jaxunc.tables import LabelsLike, MaskLike, NumbersLike, as_labels, class_positions

from ._rows import Histograms, OobDataset, RoutedRows, histograms


def rows_from_counts(
    counts: Num[np.ndarray, "rows trees classes"],
    y: LabelsLike,
    *,
    sample_weight: NumbersLike | None = None,
    tree_mask: MaskLike | None = None,
    class_labels: Iterable[Any] | None = None,
) -> OobDataset:
    """Make rows for `fit_combiner` of leaf counts that do not hold the rows' own labels.

    For leaves that `oob_dataset` cannot show: those of `jaxunc.transduction.leave_one_out_leaf_counts`, of
    another library's trees, of a leave-one-out or a cross-fitting of your own. **Nothing is checked here but the
    arrays.** Were the counts those that the trees were grown on, what is learned would take the forest to be always
    right. Where `oob_dataset` serves, take that: it refuses such rows.

    Parameters
    ----------
    counts
        The class counts of each row's leaves, without its own label ``[rows trees classes]``. A transductive leaf may
        hold the instance with the label that it was inserted with, since that is not its own.
    y
        The label of each row.
    sample_weight
        The weight of each row, in the loss and in the prior: 2 is the same as the row twice.
    tree_mask
        Whether a tree counts for a row ``[rows trees]``, such as one that lacks it in its bag. At least one tree must
        count for each row. Sums over trees are scaled to all of them.
    class_labels
        The label of each column of the counts. Default: the distinct labels of y, sorted.

    Returns
    -------
    OobDataset
        What `fit_combiner` and its kin take. Its ``prior`` is that of y. It belongs to no forest, so that ``bind`` and
        rules with numbers per tree raise a ValueError: bind what was learned by `jaxunc.bind`, or call it on counts.

    Raises
    ------
    TypeError
        If counts, weights or mask are of the wrong kind, or the labels have no order.
    ValueError
        If the arrays do not fit each other, or counts are negative or not finite. If a class has no row, a label no
        class, or a row no tree.

    Notes
    -----
    On the host. A leaf of no instances is taken as it is; rules say what they make of it.

    Examples
    --------
    >>> import jaxunc as ju
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> known = ju.transduction.leave_one_out_leaf_counts(X[::2], y[::2])  # the leaves of each row, without its label
    >>> rows = ju.learning.rows_from_counts(known, y[::2])
    >>> learned = ju.learning.fit_combiner(ju.LearnedPool(rows.prior), rows).combiner
    >>> new = ju.transduction.transductive_leaf_counts(X[::2], y[::2], X[1::2])
    >>> learned.probability(new).shape
    (75, 3)
    """
    check_numbers("counts", counts)
    table = np.asarray(counts)
    if table.ndim != 3 or not table.size:
        raise ValueError(f"counts has shape {table.shape}; pass class counts of leaves, [rows trees classes].")
    check_class_axis(table)
    check_counts(table)
    n_rows, n_trees, n_classes = table.shape
    labels = _labels(class_labels, y, n_classes)
    position = class_positions(labels, y)
    if len(position) != n_rows:
        raise ValueError(f"y has {len(position)} labels for {n_rows} rows of counts; pass one label per row.")
    weight = as_weights(sample_weight, n_rows)
    check_every_class(labels, position, weight)
    mask = as_mask(tree_mask, n_rows, n_trees)
    if mask is not None and not (some := np.any(mask, axis=1)).all():
        raise ValueError(f"tree_mask leaves row {int(np.argmin(some))} no tree; leave such rows out.")
    distinct, code = distinct_rows(table.reshape(-1, n_classes).astype(np.float64))
    shown = histograms(distinct, np.asarray(code).reshape(n_rows, n_trees), None if mask is None else np.asarray(mask))
    shares = np.bincount(position, weights=weight, minlength=n_classes)
    return made_rows(
        shown,
        position,
        weight,
        n_trees=n_trees,
        class_labels=labels,
        count_sets=(OWN,),
        source="counts",
        prior=shares / shares.sum(),
    )


def _labels(class_labels, y, n_classes: int) -> tuple[Any, ...]:
    if class_labels is None:
        labels, name = tuple(distinct_labels(as_labels(y))[0].tolist()), "y"
    else:
        check_collection("class_labels", class_labels, "labels, one per class")
        labels, name = tuple(class_labels), "class_labels"
    if len(labels) != n_classes:
        raise ValueError(
            f"counts have {n_classes} classes, {name} {len(labels)}: {list(labels)[:5]}. Pass class_labels, the label "
            "of each column of the counts."
        )
    return labels


def made_rows(
    shown: Histograms, y: np.ndarray, weight: np.ndarray, *, routed: RoutedRows | None = None, **rest: Any
) -> OobDataset:
    """Return rows with these histograms; what stands beside them is padded as they are, with weight 0."""
    n_rows = len(shown.code)
    return OobDataset(
        histograms=shown,
        y=jnp.asarray(padded_rows(y, n_rows), jnp.int32),
        weight=jnp.asarray(padded_rows(weight, n_rows), jnp.result_type(float)),
        n=len(y),
        routed=routed,
        **rest,
    )


def check_every_class(labels: tuple[Any, ...], position: np.ndarray, weight: np.ndarray) -> None:
    """Raise a ValueError unless every class has a row that counts."""
    # A class without rows would have its bias learned from nothing, and drift to minus infinity.
    absent = [label for c, label in enumerate(labels) if not weight[position == c].any()]
    if absent:
        raise ValueError(f"no row is of class {absent[0]!r}: nothing can be learned of it. Pass rows of every class.")
