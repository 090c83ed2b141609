"""Out-of-sample rows: rows to learn from whose counts do not know their labels."""

from typing import Any, Literal, get_args

import jax.numpy as jnp
import numpy as np

from jaxunc._checks import as_weights, check_bool, check_integer, check_one_of, check_seed, warn
from jaxunc._numerics import padded_rows
from jaxunc.counting import has_bags, of_classes, rows_together
from jaxunc.forest import Forest
from jaxunc.interop import from_sklearn
from jaxunc.tables import (
    InstancesLike,
    LabelsLike,
    MaskLike,
    NumbersLike,
    as_labels,
    class_positions,
    encode_rows,
    is_sparse,
    plain_table,
)

from ._from_counts import check_every_class, made_rows
from ._rows import OobDataset, RoutedRows, histograms
from ._sources import LabelledData, Seen, calibration, cross_fitted, left_out, out_of_bag

Source = Literal["auto", "oob", "cross_fit", "held_out", "leave_one_out"]
FEW_TREES = 50
"""Number of trees below which the third that has not seen a row is another forest than all of them."""


def oob_dataset(
    model: Any,
    X: InstancesLike,
    y: LabelsLike,
    *,
    source: Source = "auto",
    counts: Literal["inbag", "both"] = "inbag",
    sample_weight: NumbersLike | None = None,
    tree_mask: MaskLike | None = None,
    n_folds: int = 5,
    max_rows: int = 100_000,
    random_state: Any = 0,
    allow_leaks: bool = False,
    groups: LabelsLike | None = None,
) -> OobDataset:
    """Make labelled rows for `fit_combiner`, each with counts of trees that do not know its label.

    Learned from the counts that a forest was grown on, a rule would learn that the forest is always right: on new rows
    it is then worse than the mean (by 78 to 157 % of log loss, where that was measured).

    Parameters
    ----------
    model
        A fitted scikit-learn forest, as for `jaxunc.from_sklearn`; for ``"held_out"`` and ``"leave_one_out"`` also a
        `Forest`.
    X, y
        The rows: those that the model was fitted on, in their order; other ones for ``"held_out"``. Both are checked
        (see Notes).
    source
        ``"oob"``: each row through the trees that were grown without it. ``"cross_fit"``: through a forest like it that
        is grown on the other folds. ``"held_out"``: rows that no tree was grown on, through all trees.
        ``"leave_one_out"``: through all trees, less its own label. This is for a `Forest` whose structure does not
        depend on labels (random decision trees) and which counts exactly these rows (where ``tree_mask`` says).
        ``"auto"``: out-of-bag with a bootstrap and 50 trees, cross-fitted otherwise; leave-one-out for a `Forest`.
    counts
        ``"inbag"``: the counts of the sample that each tree was grown on. ``"both"``: out-of-bag counts beside them,
        less the row's own label, which needs a bootstrap: for rules of both counts.
    sample_weight
        Weight of each row, in the loss and where out-of-bag counts are taken.
    tree_mask
        Whether a tree counts a row, ``[rows trees]``; for ``"leave_one_out"`` only.
    n_folds
        Number of folds of ``"cross_fit"``: so many forests are grown.
    max_rows
        Largest number of rows. If there are more, so many are drawn at random: a rule with a few numbers does not need
        a million.
    random_state
        Seed of the folds and the draw.
    allow_leaks
        Do not refuse ``"held_out"`` rows that look like those that the forest was grown on.
    groups
        A label for each row: those of one group are out of a bag, and left out of counts and folds, only together.
        Default: copies are, as `jaxunc.counting.oob_mask` finds them; ``range(len(y))``: each row is on its own.
        Held-out rows need none.

    Returns
    -------
    OobDataset
        What `fit_combiner` and its kin take.

    Raises
    ------
    ValueError, TypeError
        If X, y, weights or mask do not fit each other, a label is unknown, or a class of the model has no row. If the
        source cannot be had (without a bootstrap; the message says what to do), or no row has an out-of-bag tree. Where
        bags are read, if rows are not those that the model was fitted on, in their order, or those of some class are in
        nearly every bag; else, if calibration rows are those that the model was fitted on.

    Warns
    -----
    UserWarning
        If some rows are in every tree's bag: they are left out. If rows repeat others.

    Notes
    -----
    On the host. Rows see only some trees; sums over trees are scaled to all of them. Out-of-bag log loss is within .5 %
    of that on new rows from about 50 trees on; below, cross-fitting is nearer.

    **Rows out of bag** are those that the model was fitted on if they give the leaves of some trees their own counts:
    see `jaxunc.counting.oob_mask`. Where bags are drawn by weight (``class_weight="balanced"`` or ``sample_weight``,
    since scikit-learn 1.9), rows of a rare class are in most of them. Then the others are shown as few trees, drawn at
    random: were there more, rules would read the class from their number. Below five trees for a row of some class,
    where more are usual, the rows are refused. ``class_weight="balanced_subsample"`` draws all rows alike.

    **Weights** are repeats: a row of weight two is two rows to what is learned. The weak prior of the numbers is worth
    a row of weight 1.

    **Calibration rows** are refused if they give the leaves just their counts (but for a factor by class), also if each
    counts once only; if in their order the trees whose bags hold them answer best; or if, in any order, more than once,
    a part of them or mixed with others,

    * every leaf of a model of scikit-learn gets as many of them as grew it, or (without bags) none gets more. New rows
      miss leaves as often as rows drawn of the given ones with replacement do.

    * thresholds lie just halfway between two of the rows, as those of best tests do between two rows of the sample: ten
      and 1 % of the tests, in half of the features or more. Features whose values repeat in over 1 % of the rows say
      nothing. New rows of continuous features never meet a threshold to the last bit; where their values can, chance is
      measured by how often two halves of the rows agree.
    * a model with bags: 98 % of the telling rows fit some row's bags, and twenty rows tell at least. A row tells if its
      class is absent from so many leaves that by chance only one in a hundred would fit.
    * in all trees the rows find their class in their leaves, and none shares a leaf that counts one instance: new,
      independent rows do so with a probability below 1e-6.

    What cannot be seen: where values repeat, rows mixed with new ones, and rows whose classes are never in doubt (they
    do little harm); a small part of a large sample; bags of random tests (extra trees with a bootstrap) as a `Forest`,
    or a part of their sample, or in another order with large leaves;
    a part of the sample with trees that are not grown out, if values repeat. New rows that copy rows of the sample
    are taken for these.
    """
    if not isinstance(model, Forest) and not hasattr(model, "classes_"):
        raise TypeError(
            f"model is a {type(model).__name__} without classes_; pass a fitted forest of scikit-learn, or a Forest."
        )
    check_one_of("source", source, get_args(Source))
    check_one_of("counts", counts, ("inbag", "both"))
    return rows_of(
        model,
        model if isinstance(model, Forest) else from_sklearn(model),
        X,
        y,
        source=source,
        counts=counts,
        sample_weight=sample_weight,
        tree_mask=tree_mask,
        n_folds=n_folds,
        max_rows=max_rows,
        random_state=random_state,
        allow_leaks=allow_leaks,
        groups=groups,
    )


def rows_of(
    model: Any,
    forest: Forest,
    X: InstancesLike,
    y: LabelsLike,
    *,
    source: Source = "auto",
    counts: Literal["inbag", "both"] = "inbag",
    sample_weight: NumbersLike | None = None,
    tree_mask: MaskLike | None = None,
    n_folds: int = 5,
    max_rows: int = 100_000,
    random_state: Any = 0,
    allow_leaks: bool = False,
    groups: LabelsLike | None = None,
) -> OobDataset:
    """Make `oob_dataset` where the model is imported already."""
    check_integer("max_rows", max_rows, 1)
    check_integer("n_folds", n_folds, 2)
    check_seed(random_state)
    check_bool("allow_leaks", allow_leaks)
    source = _source(model, source, forest.n_trees)
    if tree_mask is not None and source != "leave_one_out":
        raise ValueError(f"tree_mask says which rows a forest counts; source={source!r} needs none.")
    table: Any = X if is_sparse(X) else plain_table(X)
    if not table.shape:
        raise TypeError(f"X={X!r:.60} is no table; pass instances [instances features].")
    X = table
    labels = forest.class_labels
    position = class_positions(labels, y)
    n_rows = table.shape[0]
    if n_rows != len(position):
        raise ValueError(f"y has {len(position)} labels for {n_rows} rows; pass one label per row.")
    weight = as_weights(sample_weight, len(position))
    check_every_class(labels, position, weight)
    rows = np.arange(len(position))
    if len(rows) > max_rows:
        rows = np.sort(np.random.default_rng(random_state).permutation(len(rows))[:max_rows])
    together = None
    if source != "held_out":  # whose labels no leaf counts
        # What scikit-learn would refuse without saying whose it is, too.
        together = rows_together(encode_rows(X, forest.trees.columns).values, position, groups)
    data = LabelledData(X, as_labels(y), position, weight, sample_weight is not None, rows, together)
    if source == "cross_fit":
        seen = cross_fitted(model, forest, data, counts, n_folds, random_state)
    elif source == "oob":
        seen = out_of_bag(model, forest, data, counts)
    elif source == "held_out":
        seen = calibration(model, forest, data, counts, allow_leaks)
    else:
        seen = left_out(model, data, counts, tree_mask)
    seen = seen._replace(groups=None if together is None else together[rows])
    return _made(seen, source, position[rows], weight[rows])


def _made(seen: Seen, source: str, y: np.ndarray, weight: np.ndarray) -> OobDataset:
    """Make rows of those that see a tree at least, as padded histograms."""
    code, mask, X, groups = seen.code, seen.mask, seen.X, seen.groups
    if mask is not None and not (kept := np.any(mask, axis=1)).all():
        if not kept.any():
            raise ValueError("every row is in every tree's bag; grow more trees, or take source='cross_fit'.")
        warn(
            f"{np.sum(~kept)} of {len(y)} rows are in every tree's bag and are left out"
            f"{of_classes(kept, y, seen.forest.class_labels)}. Use more trees."
        )
        code, mask, X, y, weight = code[kept], mask[kept], None if X is None else X[kept], y[kept], weight[kept]
        groups = None if groups is None else groups[kept]
    found = histograms(seen.table, code, mask)
    # The histograms are padded to a rounded number of rows; everything beside them gets as many.
    padded = lambda array: jnp.asarray(padded_rows(np.asarray(array), len(found.code)))  # noqa: E731
    forest = seen.forest
    return made_rows(
        found,
        y,
        weight,
        n_trees=forest.n_trees,
        class_labels=forest.class_labels,
        count_sets=seen.count_sets,
        source=source,
        prior=np.asarray(forest.prior, float),
        learned_for=forest,
        groups=groups,
        routed=None if X is None else RoutedRows(forest, padded(X), None if mask is None else padded(mask)),
    )


def _source(model: Any, source: Source, n_trees: int) -> Source:
    if isinstance(model, Forest):
        if source in ("auto", "leave_one_out", "held_out"):
            return "leave_one_out" if source == "auto" else source
        raise ValueError(
            f"source={source!r} needs the fitted model, which knows its bags and can be grown again; a Forest has "
            "'leave_one_out' (random trees alone) and 'held_out'."
        )
    if source == "leave_one_out":
        raise ValueError(
            f"source='leave_one_out' takes labels out of counts, but {type(model).__name__} chose its tests by the "
            "labels too: pass a Forest of random trees, or take source='cross_fit'."
        )
    bags = has_bags(model)
    if source == "auto":
        # With few trees a third of them is another forest than all: growing it again on folds tells more.
        return "oob" if bags and n_trees >= FEW_TREES else "cross_fit"
    if source == "oob" and not bags:
        raise ValueError(
            f"source='oob' needs trees that leave rows out, and {type(model).__name__} has none (no bootstrap). Take "
            "source='cross_fit', which grows it again on parts of the rows, or fit it with bootstrap=True."
        )
    return source
