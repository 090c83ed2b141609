"""Rows to learn from, with leaf counts that do not hold the row's own label, made from a model and its data.

`oob_dataset` checks the data and takes counts from one of four sources. `count_out_of_bag`: the trees that have a row
out of bag. `count_cross_fitted`: forests grown on the other folds. `count_held_out`: all trees, for rows that no tree
was grown on. `count_left_out`: all trees, less the row's label. `_make_dataset` turns `UnseenCounts` into the data set.
"""

from typing import Any, Literal, NamedTuple, get_args

import jax.numpy as jnp
import numpy as np

from jaxunc._checks import as_weights, check_bool, check_integer, check_one_of, check_seed, warn
from jaxunc._numerics import distinct_rows, padded_rows, subtract_counts
from jaxunc.counting import (
    GroupCounts,
    LabelledRows,
    advise_on_trees,
    check_enough_unseen,
    counted_forest,
    describe_lost_rows,
    even_out_trees,
    first_of_each,
    has_bags,
    mask_by_group,
    oob_mask,
    rows_together,
    ungrouped_mask,
)
from jaxunc.forest import DEFAULT_COUNTS, Forest
from jaxunc.inference import as_mask
from jaxunc.interop import from_sklearn
from jaxunc.tables import (
    Frame,
    InstancesLike,
    LabelsLike,
    MaskLike,
    NumbersLike,
    SparseRows,
    array_of,
    as_csr,
    as_labels,
    class_positions,
    encode_rows,
    is_sparse,
    plain_pandas,
    plain_table,
)

from ._dataset import (
    LabelledData,
    OobDataset,
    RoutedRows,
    check_every_class,
    encode,
    find_leaves,
    look_up_codes,
    make_histograms,
    make_rows,
)
from ._seen_rows import KnownRowsError, find_leak

Source = Literal["auto", "oob", "cross_fit", "held_out", "leave_one_out"]

FEW_TREES = 50  # fewer trees leave a row too few out-of-bag ones, a third of all, to answer like the whole forest

BOTH = (DEFAULT_COUNTS, "oob")  # names of the two count sets: the in-bag counts and the out-of-bag counts


class UnseenCounts(NamedTuple):
    """Count vectors of the leaves that rows reach, without the row's own label, as entries of a table."""

    forest: Forest  # forest to which learned combiners will be bound
    count_sets: tuple[str, ...]  # names of the count sets whose counts stand side by side in the table
    table: np.ndarray  # distinct count vectors ``[distinct columns]``
    code: np.ndarray  # index in the table of each row's count vector in each tree, ``[rows trees]``
    mask: np.ndarray | None = None  # whether a tree counts for a row ``[rows trees]``; None if all do
    X: np.ndarray | None = None
    """Features of dense rows, where ``forest`` routes them to these leaves, for numbers per tree; else None."""
    groups: np.ndarray | None = None  # group of each row, as a number; None if each row is a group


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
    """Make labelled rows for `fit_combiner`, each with counts that do not hold its own label.

    From the counts that a forest was grown on, a combiner would learn that the forest is always right. On new rows it
    is then worse than the mean (by 78 to 157 % of log loss, where that was measured).

    Parameters
    ----------
    model
        A fitted scikit-learn forest, as for `jaxunc.from_sklearn`; for ``"held_out"`` and ``"leave_one_out"`` also a
        `Forest`.
    X, y
        The rows: those that the model was fitted on, in their order; for ``"held_out"`` other rows. It is checked
        whether they are (see Notes).
    source
        ``"oob"``: each row through the trees that were grown without it. ``"cross_fit"``: each row through a forest
        like the model that is grown on the other folds. ``"held_out"``: rows that no tree was grown on, through all
        trees. ``"leave_one_out"``: each row through all trees, less its own label. This is for a `Forest` whose
        structure does not depend on labels (random decision trees) and which counts exactly these rows (where
        ``tree_mask`` says). ``"auto"``: ``"oob"`` with a bootstrap and 50 trees or more, else ``"cross_fit"``;
        ``"leave_one_out"`` for a `Forest`.
    counts
        ``"inbag"``: the counts of the sample that each tree was grown on. ``"both"``: out-of-bag counts beside them,
        less the row's own label, for combiners that read both; this needs a bootstrap.
    sample_weight
        Weight of each row, in the loss and where out-of-bag counts are taken. Rows of weight 0 are left out.
    tree_mask
        Whether a tree counts a row, ``[rows trees]``; for ``"leave_one_out"`` only.
    n_folds
        Number of folds of ``"cross_fit"``, and of the forests that are grown.
    max_rows
        Largest number of rows to learn from, drawn at random if there are more: a combiner with a few numbers does not
        need a million rows.
    random_state
        Seed of the folds and the draw.
    allow_leaks
        Whether to take ``"held_out"`` rows even if they look like rows that the forest was grown on.
    groups
        A label for each row: rows of one group are out of a bag, and left out of counts and folds, only together.
        Default: copies are a group, as `jaxunc.counting.oob_mask` finds them; ``range(len(y))``: each row is a group.
        Held-out rows need no groups.

    Returns
    -------
    OobDataset
        Rows for `fit_combiner` and the other functions here. ``answer(combiner)`` is a combiner's answer for each row.
        ``bind(combiner)`` binds it to ``forest``, which holds the counts that were read. ``with_weight(weight)`` are
        the same rows with other weights. ``prior`` holds the class frequencies of the forest's sample, ``count_sets``
        the names of the counts.

    Raises
    ------
    ValueError, TypeError
        If X, y, weights or mask do not fit each other, a label is unknown, or a class of the model has no row. If the
        model does not allow the source (such as ``"oob"`` without a bootstrap), or no row has an out-of-bag tree. Where
        bags are read, if rows are not those that the model was fitted on, in their order, or rows of some class are in
        nearly every bag. If held-out rows are rows that the model was fitted on.

    Warns
    -----
    UserWarning
        If some rows are in every tree's bag, which are left out. If rows are copies of other rows.

    Notes
    -----
    On the host. Rows are answered by some trees only; sums over trees are scaled to all trees. From about 50 trees on,
    out-of-bag log loss is within .5 % of that on new rows; with fewer trees, cross-fitting is nearer.

    **Rows out of bag** are those that the model was fitted on if they give the leaves of some trees their own counts:
    see `jaxunc.counting.oob_mask`. Where bags are drawn by weight (``class_weight="balanced"`` or ``sample_weight``,
    since scikit-learn 1.9), rows of a rare class are in most of them. Then rows of other classes get as few
    trees, drawn at random: else combiners would read the class from the number of trees. If rows of some class have
    fewer than five trees, where more are usual, the rows are refused. ``class_weight="balanced_subsample"`` draws all
    rows alike.

    **Weights** are repeats: a row of weight two counts as two rows. The weak prior of the numbers is worth a row of
    weight 1.

    **Held-out rows** are refused if they give the leaves just their counts (but for a factor by class), also if each
    copied row counts once; or if, in the order of the sample, they are answered best by trees whose bags hold them. In
    any order, repeated, in part or mixed with other rows, they are refused if

    * every leaf of a model of scikit-learn gets as many of them as grew it or more, or (without bags) no leaf gets
      more. New rows would miss leaves as often as bootstrap samples of the given rows do.

    * thresholds lie just halfway between two of the rows, as those of best tests do between two rows of the sample: in
      ten tests and 1 % of all at least, in half of the features or more. Features whose values repeat in over 1 % of
      the rows are left out. New rows of continuous features never meet a threshold to the last bit; where values are
      rounded, chance is measured by how often two halves of the rows agree.
    * for a model with bags, 98 % of at least twenty rows fit the bags of some row of the sample. Only rows are compared
      whose class is absent from so many leaves that by chance one in a hundred would fit.
    * in all trees the leaves of the rows count their class, and no two rows share a leaf that counts one instance: for
      new, independent rows this has a probability below 1e-6.

    Two less certain signs give a warning, for scikit-learn's forests: leaves get rows more evenly than by chance; or,
    of a leaf's one row and two rows that reach the leaf, the leaf's row has the odd label too seldom.

    Some leaks are not detected: where values repeat, rows mixed with new rows, and rows whose classes are never in
    doubt (these do little harm); a small part of a large sample; bags of random tests (extra trees with a bootstrap) as
    a `Forest`, or a part of their sample, or in another order with large leaves; a part of the sample with trees that
    are not grown out, if values repeat. New rows that copy rows of the sample are taken for rows of the sample.
    """
    if not isinstance(model, Forest) and not hasattr(model, "classes_"):
        raise TypeError(
            f"model is a {type(model).__name__} without classes_; pass a fitted forest of scikit-learn, or a Forest."
        )
    check_one_of("source", source, get_args(Source))
    check_one_of("counts", counts, ("inbag", "both"))
    settings: dict[str, Any] = {"sample_weight": sample_weight, "tree_mask": tree_mask, "n_folds": n_folds}
    settings |= {"max_rows": max_rows, "random_state": random_state, "allow_leaks": allow_leaks, "groups": groups}
    forest = model if isinstance(model, Forest) else from_sklearn(model)
    return make_oob_dataset(model, forest, X, y, source=source, counts=counts, **settings)


class RowSettings(NamedTuple):
    """Arguments of `oob_dataset` besides the model, X and y."""

    source: Source = "auto"
    counts: Literal["inbag", "both"] = "inbag"
    sample_weight: NumbersLike | None = None
    groups: LabelsLike | None = None
    tree_mask: MaskLike | None = None
    n_folds: int = 5
    max_rows: int = 100_000
    random_state: Any = 0
    allow_leaks: bool = False


def make_oob_dataset(model: Any, forest: Forest, X: InstancesLike, y: LabelsLike, **settings: Any) -> OobDataset:
    """Make the data set as `oob_dataset` does, of a model and its forest; ``settings`` are fields of `RowSettings`."""
    source, counts, sample_weight, groups, tree_mask, n_folds, max_rows, random_state, allow_leaks = RowSettings(
        **settings
    )
    check_integer("max_rows", max_rows, 1)
    check_integer("n_folds", n_folds, 2)
    check_seed(random_state)
    check_bool("allow_leaks", allow_leaks)
    source = _choose_source(model, source, forest.n_trees)
    if tree_mask is not None and source != "leave_one_out":
        raise ValueError(f"tree_mask says which rows a forest counts; source={source!r} needs none.")
    table: Any = X if is_sparse(X) else plain_table(X)
    if not table.shape:
        raise TypeError(f"X={X!r:.60} is no table; pass instances [instances features].")
    labels = forest.class_labels
    position = class_positions(labels, y)
    n_rows = table.shape[0]
    if n_rows != len(position):
        raise ValueError(f"y has {len(position)} labels for {n_rows} rows; pass one label per row.")
    weight = as_weights(sample_weight, len(position))
    check_every_class(labels, position, weight)
    rows = np.flatnonzero(weight > 0)
    if len(rows) > max_rows:
        rows = rows[np.sort(np.random.default_rng(random_state).permutation(len(rows))[:max_rows])]
    group_numbers = None
    if source != "held_out":  # no leaf counts labels of held-out rows
        # Encoding refuses what scikit-learn would refuse, with the name of the column.
        group_numbers = rows_together(encode_rows(table, forest.trees.columns).values, position, groups, weight=weight)
    data = LabelledData(table, as_labels(y), position, weight, sample_weight is not None, rows, group_numbers)
    if source == "cross_fit":
        row_counts = count_cross_fitted(model, forest, data, counts, n_folds, random_state)
    elif source == "oob":
        row_counts = count_out_of_bag(model, forest, data, counts)
    elif source == "held_out":
        row_counts = count_held_out(model, forest, data, counts, allow_leaks)
    else:
        row_counts = count_left_out(model, data, counts, tree_mask)
    if group_numbers is not None:
        row_counts = row_counts._replace(groups=group_numbers[rows])
    return _make_dataset(row_counts, source, position[rows], weight[rows])


def _choose_source(model: Any, source: Source, n_trees: int) -> Source:
    """Return ``source``, or for "auto" one that suits model and ``n_trees``; raise a ValueError for an unfit one."""
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
        return "oob" if bags and n_trees >= FEW_TREES else "cross_fit"
    if source == "oob" and not bags:
        raise ValueError(
            f"source='oob' needs trees that leave rows out, and {type(model).__name__} has none (no bootstrap). Take "
            "source='cross_fit', which grows it again on parts of the rows, or fit it with bootstrap=True."
        )
    return source


def _make_dataset(row_counts: UnseenCounts, source: str, y: np.ndarray, weight: np.ndarray) -> OobDataset:
    """Return the data set of the rows that some tree counts for; warn of other rows, and leave them out.

    ``source`` made ``row_counts``; ``y [rows]`` has the rows' classes, and ``weight [rows]`` their weights. Raises a
    ValueError if no row is left.
    """
    forest = row_counts.forest
    if row_counts.mask is not None and not (has_tree := np.any(row_counts.mask, axis=1)).all():
        if not has_tree.any():
            raise ValueError("every row is in every tree's bag; grow more trees, or take source='cross_fit'.")
        warn(
            f"{np.sum(~has_tree)} of {len(y)} rows are in every tree's bag and are left out"
            f"{describe_lost_rows(has_tree, y, forest.class_labels)}. {advise_on_trees(has_tree, row_counts.groups)}"
        )
        y = y[has_tree]
        weight = weight[has_tree]
        row_counts = row_counts._replace(
            code=row_counts.code[has_tree],
            mask=row_counts.mask[has_tree],
            X=None if row_counts.X is None else row_counts.X[has_tree],
            groups=None if row_counts.groups is None else row_counts.groups[has_tree],
        )
    row_histograms = make_histograms(row_counts.table, row_counts.code, row_counts.mask)
    pad = lambda array: jnp.asarray(padded_rows(np.asarray(array), len(row_histograms.code)))  # as the histograms are
    routed = None
    if row_counts.X is not None:
        routed = RoutedRows(forest, pad(row_counts.X), None if row_counts.mask is None else pad(row_counts.mask))
    return make_rows(
        row_histograms,
        y,
        weight,
        n_trees=forest.n_trees,
        class_labels=forest.class_labels,
        count_sets=row_counts.count_sets,
        source=source,
        prior=np.asarray(forest.prior, float),
        learned_for=forest,
        groups=row_counts.groups,
        routed=routed,
    )


def count_out_of_bag(model: Any, forest: Forest, data: LabelledData, counts: str) -> UnseenCounts:
    """Return the counts of each row's leaves in the trees that have the row out of bag.

    ``counts`` is "inbag"; with "both", columns of out-of-bag counts, less the row's own group, follow the in-bag ones.
    """
    mask = oob_mask(model, len(data.y), X=data.X, y=data.y, sample_weight=data.weights, groups=data.group_numbers)
    ungrouped = ungrouped_mask(model, len(data.y), data.X, data.y)
    check_enough_unseen(mask, ungrouped, data.position, forest.class_labels, data.weight)
    # As many trees for rows of each class: else combiners would read the class from the number of trees.
    row_mask = even_out_trees(mask, data.position, forest.n_classes, data.weight)[data.rows]
    if counts == "inbag":
        codes = look_up_codes(forest, find_leaves(forest, data))
        return UnseenCounts(forest, (DEFAULT_COUNTS,), *codes, row_mask, _values_to_route(forest, data))
    # Out-of-bag counts need the leaves of all rows, not only of the rows to learn from.
    all_leaves = find_leaves(forest, data.all_rows())
    counted_rows = LabelledRows(data.X, data.y, data.weights, mask=mask, leaves=all_leaves)
    oob_counts = counted_forest(forest, model, "oob", counted_rows)
    leaves = all_leaves if len(data.rows) == len(all_leaves) else all_leaves[data.rows]
    forest = forest.with_count_set("oob", oob_counts.forest)
    weight = None if oob_counts.sample_weight is None else np.asarray(oob_counts.sample_weight)
    row_counts = UnseenCounts(forest, BOTH, *look_up_codes(forest.reading(BOTH), leaves), row_mask)
    # Of the two sets side by side only the second, the out-of-bag counts, holds the row's label.
    first = forest.n_classes
    if data.groups is not None:
        return _subtract_group(row_counts, data, all_leaves, weight, first, mask)
    weight = None if weight is None else weight[data.rows]
    return _subtract_label(row_counts, data.position[data.rows], weight, first)


def count_cross_fitted(
    model: Any, forest: Forest, data: LabelledData, counts: str, n_folds: int, random_state
) -> UnseenCounts:
    """Return the counts of each row's leaves in a forest that is grown, with the model's parameters, on other folds.

    ``n_folds`` folds are drawn by ``random_state``. ``counts`` is "inbag"; with "both", columns of out-of-bag counts
    follow the in-bag ones. ``forest`` is that of ``model``, with the same classes and number of trees. It is returned
    with the counts, since learned combiners are bound to it.
    """
    if counts == "both" and not has_bags(model):
        raise ValueError(
            f"counts='both' needs out-of-bag counts, and {type(model).__name__} has no bootstrap: take counts='inbag'."
        )
    folds = _draw_folds(data, n_folds, random_state)
    take_rows = _row_taker(data.X)
    count_sets = BOTH if counts == "both" else (DEFAULT_COUNTS,)
    tables = []  # by fold; they will stand one below the other
    codes = np.zeros((len(data.y), forest.n_trees), np.int64)  # indices in the tables of all folds
    n_before = 0  # number of entries in the tables of the folds before
    for k, (train, held_out) in enumerate(folds):
        weights = None if data.weights is None else data.weights[train]
        train_rows = LabelledRows(take_rows(train), data.y[train], weights, data.group_numbers[train])
        fold_model = _fit_copy(model, train_rows, seed=k)
        fold_forest = from_sklearn(fold_model)
        if fold_forest.class_labels != forest.class_labels:
            raise ValueError("a class is in one fold alone; pass more rows or groups of it, or fewer folds (n_folds).")
        if counts == "both":
            oob_counts = counted_forest(fold_forest, fold_model, "oob", train_rows)
            fold_forest = fold_forest.with_count_set("oob", oob_counts.forest)
        leaves = find_leaves(fold_forest, data._replace(X=take_rows(held_out), rows=np.arange(len(held_out))))
        table, code = look_up_codes(fold_forest.reading(count_sets), leaves)
        codes[held_out] = code + n_before
        tables.append(table)
        n_before += len(table)
    table_of_all, index = distinct_rows(np.concatenate(tables))
    if counts == "both":  # learned combiners, bound to the whole forest, will read its out-of-bag counts, too
        all_rows = LabelledRows(data.X, data.y, data.weights, data.group_numbers)
        oob_counts = counted_forest(forest, model, "oob", all_rows)
        forest = forest.with_count_set("oob", oob_counts.forest)
    return UnseenCounts(forest, count_sets, table_of_all, np.asarray(index)[codes[data.rows]])


def _draw_folds(data: LabelledData, n_folds: int, random_state: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return for each fold of a cross-fitting the positions (rows to grow a forest on, rows that it is to answer).

    Folds are drawn by ``random_state``. Rows of a group are in the same fold, and rows of weight 0 in none. Raises a
    ValueError if the other rows, or their groups, are fewer than ``n_folds``.
    """
    from sklearn.model_selection import KFold, StratifiedKFold

    n_rows = int(np.sum(data.weight > 0))
    if n_rows < n_folds:
        raise ValueError(f"{n_rows} rows do not make {n_folds} folds.")
    # Folds are made of groups, each of which its first row stands for.
    first_rows = np.arange(len(data.y)) if data.groups is None else first_of_each(data.groups)
    first_rows = first_rows[data.weight[first_rows] > 0]
    if len(first_rows) < n_folds:
        raise ValueError(
            f"{n_rows} rows in {len(first_rows)} groups do not make {n_folds} folds, since rows of one group (of "
            "groups=; without it, rows that repeat others) are left out together. Pass n_folds of at most the number "
            "of groups, and two groups at least."
        )
    classes = data.position[first_rows]
    # Stratified only where every class has a row for each fold: else scikit-learn warns.
    fold_class = StratifiedKFold if np.bincount(classes).min() >= n_folds else KFold
    splits = fold_class(n_folds, shuffle=True, random_state=random_state).split(np.zeros(len(first_rows)), classes)
    with_groups = lambda positions: _rows_of_groups(first_rows[positions], data.groups)
    return [(with_groups(train), with_groups(held_out)) for train, held_out in splits]


def _row_taker(X):
    """Return a function that takes positions, and returns these rows of X: a frame, a sparse matrix or an array."""
    if hasattr(X, "iloc"):
        frame = plain_pandas(X)
        return lambda rows: frame.iloc[rows]
    if is_sparse(X):
        values = as_csr(X, for_sklearn=True)
    elif isinstance(X, Frame):
        values = array_of(X, "X")
    else:
        values = np.asarray(X)
    return lambda rows: values[rows]


def _rows_of_groups(rows: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Return the positions of all rows in the ``groups [rows]`` of some ``rows``; for None ``rows`` themselves."""
    return rows if groups is None else np.flatnonzero(np.isin(groups, groups[rows]))


def _fit_copy(model: Any, rows: LabelledRows, *, seed: int) -> Any:
    """Return a copy of a scikit-learn ``model``, fitted to ``rows``.

    Its random state is ``seed`` in place of None, so that the same call learns the same numbers.
    """
    from sklearn.base import clone

    fitted: Any = clone(model)
    if fitted.get_params().get("random_state", 0) is None:
        fitted.set_params(random_state=seed)
    fitted.fit(rows.X, rows.y, **({} if rows.sample_weight is None else {"sample_weight": rows.sample_weight}))
    return fitted


def count_held_out(model: Any, forest: Forest, data: LabelledData, counts: str, allow_leaks: bool) -> UnseenCounts:
    """Return the counts of each row's leaves in all trees; raise a `KnownRowsError` for rows of the forest's sample.

    ``allow_leaks`` lets such rows pass. ``counts`` is "inbag", or "both" for out-of-bag counts beside the in-bag ones.
    """
    count_sets = BOTH if counts == "both" else (DEFAULT_COUNTS,)
    leaves = find_leaves(forest, data)
    table, code = look_up_codes(forest.reading(count_sets), leaves)
    if not allow_leaks and (reason := find_leak(model, forest, data, table, code, leaves)):
        raise KnownRowsError(
            f"these rows are the sample that the forest was grown on, or hold many of its rows: {reason}. Its leaves "
            "hold their labels, and a combiner learned from them would take the forest to be always right. Pass rows "
            "that were held out; or source='oob' or 'cross_fit', with the whole sample in its order. (allow_leaks=True "
            "learns from these rows nevertheless.)"
        )
    values = _values_to_route(forest, data) if count_sets == (DEFAULT_COUNTS,) else None
    return UnseenCounts(forest, count_sets, table, code, X=values)


def count_left_out(forest: Forest, data: LabelledData, counts: str, tree_mask) -> UnseenCounts:
    """Return the counts of each row's leaves, less the row itself, or less its whole group.

    ``tree_mask [rows trees]`` says which trees count which row, for all rows of the data; None: all trees count all.
    ``counts`` must be "inbag". Raises a ValueError unless the leaves of rows count them.
    """
    if counts != "inbag":
        raise ValueError("a Forest has one kind of counts; counts='both' needs a model with a bootstrap.")
    leaves = find_leaves(forest, data)
    mask = as_mask(tree_mask, len(data.y), forest.n_trees)
    all_mask = None if mask is None else np.asarray(mask)
    row_mask = None if all_mask is None else mask_by_group(all_mask, data.groups)[data.rows]
    # Empty leaves are marked by a negative feature.
    if (np.asarray(forest.trees.feature) < 0)[np.arange(forest.n_trees), leaves].any():
        raise ValueError(
            "the forest does not count these rows: some end in empty leaves. Call count_leaves(forest, X, y)."
        )
    row_counts = UnseenCounts(forest, (DEFAULT_COUNTS,), *look_up_codes(forest, leaves), row_mask)
    classes = data.position[data.rows]
    weight = data.weight[data.rows]
    class_counts = row_counts.table[row_counts.code, classes[:, None]]  # of each row's class in its leaves
    # A count below the row's weight, but for rounding, cannot hold the row: subtraction would make it negative.
    lacks_row = class_counts < weight[:, None] * (1 - 1e-6)
    if row_mask is not None:
        lacks_row &= row_mask
    if lacks_row.any():
        raise ValueError(
            "some row's own label is not among the counts of its leaves: leave_one_out needs a forest that counts "
            "exactly these rows. Call count_leaves(forest, X, y, sample_weight=..., tree_mask=...) first."
        )
    if data.groups is None:
        return _subtract_label(row_counts, classes, weight if data.has_weights else None, first=0)
    all_leaves = leaves if len(data.rows) == len(data.y) else find_leaves(forest, data.all_rows())
    return _subtract_group(row_counts, data, all_leaves, data.weights, first=0, mask=all_mask)


def _subtract_label(
    row_counts: UnseenCounts, classes: np.ndarray, weight: np.ndarray | None, first: int
) -> UnseenCounts:
    """Return ``row_counts`` with each row's weight subtracted from the count of its class, in all its leaves.

    The counts to change are the table's columns from ``first`` on, one for each class. ``classes [rows]`` has the class
    of each row, and ``weight [rows]`` its weight (None: 1).
    """
    n_classes = row_counts.table.shape[1] - first
    if weight is None:
        weights = np.ones(1)
        weight_index = np.zeros(len(classes), np.int64)
    else:
        weights, weight_index = np.unique(weight, return_inverse=True)
    n_keys = n_classes * len(weights)  # of each count vector
    # (count vector, class, weight) as one integer, of each row in each tree: each combination is subtracted once. Keys
    # outside of the mask may get the position of another key, which is never read.
    key = row_counts.code.astype(np.int64) * n_keys + (classes * len(weights) + weight_index)[:, None]
    used_keys = key.ravel() if row_counts.mask is None else key[row_counts.mask]
    if len(row_counts.table) * n_keys <= 2**24:  # a table of all keys costs less than sorting the keys
        is_used = np.zeros(len(row_counts.table) * n_keys, bool)
        is_used[used_keys] = True
        keys = np.flatnonzero(is_used)
        position = (np.cumsum(is_used, dtype=np.int32) - 1)[key]  # of each key in ``keys``
    else:
        keys = np.unique(used_keys)
        position = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    # From a key back to the count vector, the column of the class, and the weight.
    vectors = row_counts.table[keys // n_keys]
    column = first + keys % n_keys // len(weights)
    amount = weights[keys % len(weights)]
    index = np.arange(len(vectors))
    vectors[index, column] = subtract_counts(vectors[index, column], amount)
    table, code = distinct_rows(vectors)
    return row_counts._replace(table=table, code=np.asarray(code)[position])


def _subtract_group(
    row_counts: UnseenCounts,
    data: LabelledData,
    leaves: np.ndarray,
    weight: np.ndarray | None,
    first: int,
    mask: np.ndarray | None,
) -> UnseenCounts:
    """Return ``row_counts`` less what each row's group adds to the counts of the row's leaves.

    The counts to change are the table's columns from ``first`` on, one for each class. The other arguments are of all
    rows of the data: ``leaves [rows trees]`` has the leaf of each row in each tree, and ``weight [rows]`` the row's
    weight (None: 1). ``mask [rows trees]`` is True where the tree counts the row (None: everywhere).
    """
    n_classes = row_counts.table.shape[1] - first
    weight = np.ones(len(data.y)) if weight is None else weight
    group_counts = GroupCounts.of(data.groups, leaves, data.position, weight, n_classes, mask)
    tables = []  # by tree; they will stand one below the other
    codes = np.empty(row_counts.code.shape, np.int64)  # indices in the tables of all trees
    n_before = 0  # number of entries in the tables of the trees before
    # Tree by tree, so that no array holds the vectors of all rows in all trees.
    for t in range(row_counts.code.shape[1]):
        vectors = row_counts.table[row_counts.code[:, t]]
        counts_of_group = group_counts.table[group_counts.code[data.rows, t]]
        vectors[:, first:] = subtract_counts(vectors[:, first:], counts_of_group)
        distinct, position = distinct_rows(vectors)
        tables.append(np.asarray(distinct))
        codes[:, t] = np.asarray(position) + n_before
        n_before += len(tables[-1])
    table, position = distinct_rows(np.concatenate(tables))
    return row_counts._replace(table=table, code=np.asarray(position)[codes])


def _values_to_route(forest: Forest, data: LabelledData) -> np.ndarray | None:
    """Return the features ``[rows features]`` of the rows to learn from, to be routed at every step; None if sparse."""
    values = encode(forest, data)
    return None if isinstance(values, SparseRows) else values
