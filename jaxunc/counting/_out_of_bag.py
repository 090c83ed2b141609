"""Out-of-bag instances: those that a tree was not grown on.

`oob_mask` reads a model's bags. Bags hold positions, so `check_grown_on` checks that the caller's rows are those that
the forest was grown on, in their order: the rows of a tree's bag have to give the counts of its leaves. The bags of a
forest of YDF are drawn anew, and `ydf_bags` compares them with what the model keeps.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxunc._checks import as_weights, check_integer, warn
from jaxunc.tables import (
    Columns,
    Frame,
    InstancesLike,
    LabelsLike,
    NumbersLike,
    SparseRows,
    as_floats,
    as_frame,
    as_labels,
    class_positions,
    encode_rows,
    fit_columns,
    is_sparse,
    plain_table,
)

from ._copies import as_groups, mask_by_group, rows_together

COMPARED_TREES = 3
"""Number of trees whose counts are compared: the first, the last (which another ``fit`` may have grown), and one
between."""

_KIND = "RandomForestModel"  # YDF's class of random forests


class OtherRowsError(ValueError):
    """Rows are not those on which a forest was grown, or are in another order."""


def oob_mask(
    model: Any,
    n: int,
    *,
    X: InstancesLike | None = None,
    y: LabelsLike | None = None,
    sample_weight: NumbersLike | None = None,
    learner: Any = None,
    groups: LabelsLike | None = None,
) -> np.ndarray:
    """Return a mask of the instances that each tree of a bootstrapped model has not seen.

    Parameters
    ----------
    model
        A fitted scikit-learn ``RandomForestClassifier`` or ``ExtraTreesClassifier`` with ``bootstrap=True``, or a
        ``BaggingClassifier`` that leaves instances out. Or a random forest of YDF 0.14 or later for classification.
    n
        Number of instances that the model was fitted on.
    X, y, sample_weight
        These instances, their labels and weights, in the order of the fit: all are compared with the model (see
        Notes). Default: only n is compared.
    learner
        For a model of YDF: the ``RandomForestLearner`` that trained it. Default: a learner with YDF's own
        ``random_seed`` and bootstrap.
    groups
        A label for each instance, none of them missing: instances of one label are out of a bag only together. Default:
        copies form groups if X and y are given; else each instance is a group by itself.

    Returns
    -------
    numpy.ndarray
        Booleans ``[instances trees]``, True where the instance is out of the tree's bag. For `count_leaves`, and as the
        ``tree_mask`` of training instances.

    Raises
    ------
    TypeError
        If the model has no bags, labels of groups have no order, or a learner is given for a model that is not YDF's.
    ValueError
        If a label of a group is missing: give such an instance a group of its own. If the model is one of
        imbalanced-learn, is not fitted, was fitted without bootstrap, or on another number of instances. If X and y are
        not the instances that it was fitted on, in their order; or y or weights are given without X, or weights for a
        model of YDF.

    Warns
    -----
    UserWarning
        If instances repeat others: see Notes. If the bags of a YDF model are those of its default seed, and X and y are
        not given.

    Notes
    -----
    A bag holds positions. With instances in another order the mask is True for instances that the tree has seen, and
    labels leak: so pass X and y where you have them. In three trees, the instances of the tree's bag have to give the
    counts that its leaves hold (but for a factor by class: class weights). If the forest was grown with sample weights
    that are not given, the leaves' numbers of instances and their classes are compared. The comparison misses a few
    instances that changed places within a leaf, or that none of the three trees drew.

    YDF's models keep no seed; a learner of the same settings draws the same bags, by the same build of YDF. With X and
    y the counts in the leaves of all trees have to agree. Without X and y hardly anything reveals another seed.

    A tree that has seen a **copy** of an instance knows its label. So instances that are equal in all values and the
    label are unseen only together, if they look copied: by oversampling, a join. Where few values are possible, new
    instances equal old ones as often, and each instance is a group by itself. Few values show by distinct rows that
    agree in a part of the columns: a quarter of them, or as many as there are repeats. Rows that are all repeated
    equally often are copies. Copies in a table of one column, and some in tables of a few levels, look like chance:
    pass ``groups``.
    """
    if is_ydf_forest(model):
        if sample_weight is not None:
            raise ValueError("YDF's bags are compared with leaves that count instances; leave sample_weight out.")
        bags = bags_of(model, n, X=X, y=y, learner=learner)
        if groups is None and X is not None:
            return _mask_of_bags(bags, n, rows_together(*ydf_cells(model, X, y)))
        return _mask_of_bags(bags, n, None if groups is None else as_groups(groups, n))
    bags = bags_of(model, n, learner=learner)
    if X is None and (y is not None or sample_weight is not None):
        raise ValueError("y and sample_weight are compared with the model only if X is given; pass X too.")
    if X is not None:
        values, position = check_grown_on(model, bags, X, y, sample_weight=sample_weight)
        groups = rows_together(values, position, groups, weight=sample_weight)
    else:
        groups = None if groups is None else as_groups(groups, n)
    return _mask_of_bags(bags, n, groups)


def bags_of(model: Any, n: int, *, X: Any = None, y: Any = None, learner: Any = None) -> list[np.ndarray]:
    """Return the bag of each tree: positions of instances of the fit, from 0 to n - 1, each as often as it was drawn.

    ``n`` is the number of instances that ``model`` was fitted on. The bags of a YDF model are drawn anew by ``learner``
    (None: one of YDF's default seed), and are compared with the instances ``X`` and labels ``y``, if given. For other
    models X and y are not read. Raises as `oob_mask` does.
    """
    from sklearn.exceptions import NotFittedError  # slow to import
    from sklearn.utils.validation import check_is_fitted

    name = type(model).__name__
    if is_ydf_forest(model):
        check_integer("n", n, 1, ": the number of training instances")
        return ydf_bags(model, n, learner=learner, X=X, y=y)
    if learner is not None:
        raise TypeError(f"learner is for random forests of YDF, and model is a {name}; leave it out.")
    if not hasattr(type(model), "estimators_samples_"):
        raise TypeError(
            f"model is a {name}, which has no bags; pass a random forest, extra trees or bagging classifier."
        )
    if reason := reason_against_bags(model):
        raise ValueError(f"model: {reason}")
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ValueError(f"model ({name}) is not fitted; call model.fit(X, y) first.") from error
    if not has_bags(model):
        raise ValueError(
            f"model ({name}) was fitted with bootstrap=False: every tree has seen every instance. "
            'Fit with bootstrap=True, or count on other instances (counts="held_out").'
        )
    check_integer("n", n, 1, ": the number of training instances")
    bags = model.estimators_samples_
    # scikit-learn draws bags anew, by the model's seeds and its number of rows: they are right for this number alone.
    last_position = max((int(np.max(bag)) for bag in bags if len(bag)), default=-1)
    expected = getattr(model, "_n_samples", None)
    if last_position >= n or (expected is not None and expected != n):
        n_fitted = expected if expected is not None else f"at least {last_position + 1}"
        raise OtherRowsError(
            f"n={n}, but model was fitted on {n_fitted} instances; pass these, or take 'held_out' for other ones."
        )
    return bags


def ungrouped_mask(model: Any, n: int, X: InstancesLike, y: LabelsLike) -> np.ndarray:
    """Return the `oob_mask` ``[instances trees]`` of a model, with each instance as a group by itself.

    ``X`` and ``y`` are the ``n`` instances of the fit and their labels. A scikit-learn model is not compared with them:
    callers have called `oob_mask` with X and y before.
    """
    if is_ydf_forest(model):
        # Without X and y YDF's bags would be those of its default seed, with a warning.
        return oob_mask(model, n, X=X, y=y, groups=np.arange(n))
    return oob_mask(model, n)


def _mask_of_bags(bags: list[np.ndarray], n: int, groups: np.ndarray | None) -> np.ndarray:
    """Return the mask ``[n trees]``: True where neither the row nor another row of its group is in the tree's bag.

    ``bags`` has positions of rows for each tree; ``groups`` is as for `mask_by_group`.
    """
    mask = np.ones((n, len(bags)), dtype=bool)
    for tree, bag in enumerate(bags):
        mask[bag, tree] = False
    return mask_by_group(mask, groups)


def has_bags(model: Any) -> bool:
    """Return whether the trees of ``model``, of YDF or scikit-learn, leave instances out; False for other models."""
    if is_ydf_forest(model):
        return bool(model.out_of_bag_evaluations())
    if not hasattr(type(model), "estimators_samples_") or reason_against_bags(model):
        return False
    return bool(getattr(model, "bootstrap", True)) or getattr(model, "max_samples", None) not in (None, 1.0)


def reason_against_bags(model: Any) -> str | None:
    """Return why the bags of a model of imbalanced-learn cannot be used, as text; None for any other model.

    Such forests sample rows by class before they draw bags, so that bags hold positions in a sample that is not kept.
    """
    if not any(kind.__module__.partition(".")[0] == "imblearn" for kind in type(model).__mro__):
        return None
    return (
        f"{type(model).__name__} draws its bags from rows that it samples by class first, so which rows are out of a "
        "bag is not known. Take counts='held_out' or 'inbag'; or scikit-learn's RandomForestClassifier(bootstrap=True, "
        "class_weight='balanced_subsample'), whose bags are known."
    )


class _Bag(NamedTuple):
    """Counts of the rows of a tree's bag in the tree's leaves: three arrays ``[leaves classes]``."""

    once: np.ndarray
    """Number of rows, each counted once."""
    drawn: np.ndarray
    """Number of rows, each counted as often as it was drawn."""
    weighted: np.ndarray
    """Sum of the rows' weights, each added as often as the row was drawn."""


def check_grown_on(
    model: Any, bags: list[np.ndarray], X: InstancesLike, y: Any, *, sample_weight: NumbersLike | None = None
) -> tuple[np.ndarray | SparseRows, np.ndarray]:
    """Return the encoded rows, and the position ``[rows]`` of each row's class, if the rows grew a scikit-learn model.

    Raise an `OtherRowsError` for other rows: the rows of a tree's bag have to give the counts in its leaves. If the
    model was grown with sample weights that are not given, they have to give the leaves' sizes and classes. ``X`` and
    ``y`` are the rows and their labels, in the order of the fit; ``bags`` has positions of rows, an array for each
    tree.
    """
    names = getattr(model, "feature_names_in_", None)
    leaves_in_tree = _leaves_by_categories(model, X)
    columns = Columns(int(model.n_features_in_), None if names is None else tuple(map(str, names)))
    if leaves_in_tree is not None:
        columns = fit_columns(X)
    values = encode_rows(X, columns).values
    values = values if isinstance(values, SparseRows) else np.asarray(values)
    position = class_positions(tuple(np.asarray(model.classes_).tolist()), y)
    if len(position) != len(values):
        raise ValueError(f"y has {len(position)} labels for {len(values)} instances; pass one label per instance.")
    weight = as_weights(sample_weight, len(values))
    for t in _compared_trees(len(bags)):
        times_drawn = np.bincount(bags[t], minlength=len(values))
        bag_rows = np.flatnonzero(times_drawn)  # each row is routed once, however often it was drawn
        leaves = _route(model, t, values[bag_rows]) if leaves_in_tree is None else leaves_in_tree(t)[bag_rows]
        tree = model.estimators_[t]
        is_leaf = tree.tree_.children_left < 0
        # (node, class) as one number: the counts of a tree are one bincount.
        cells = leaves * len(model.classes_) + position[bag_rows]
        bag = _count_bag(cells, times_drawn[bag_rows], weight[bag_rows], is_leaf, len(model.classes_))
        if not _may_have_grown(bag, tree, is_leaf):
            raise OtherRowsError(
                f"X and y are not the rows that this {type(model).__name__} was grown on, in their order: with them "
                f"the bag of tree {t} does not give the counts in its leaves. Which rows are out of a tree's bag is "
                "known by their positions alone, so with rows in another order labels leak. Pass X and y just as they "
                "went into model.fit (and its sample_weight). Rows in another order, or others, cannot be used out of "
                "bag: for rows that were held out take 'held_out'."
            )
    return values, position


def _compared_trees(n_trees: int) -> list[int]:
    """Return the numbers of the trees whose counts are compared: first, middle and last, or all of few."""
    if n_trees <= COMPARED_TREES:
        return list(range(n_trees))
    return [0, n_trees // 2, n_trees - 1]


def _route(model: Any, t: int, rows: np.ndarray | SparseRows) -> np.ndarray:
    """Return the leaf ``[rows]`` that each of the encoded ``rows`` reaches in tree ``t`` of a scikit-learn model."""
    matrix = rows.matrix() if isinstance(rows, SparseRows) else rows
    if hasattr(model, "estimators_features_"):
        matrix = matrix[:, model.estimators_features_[t]]
    if not isinstance(rows, SparseRows):
        matrix = np.ascontiguousarray(matrix)
    return model.estimators_[t].tree_.apply(matrix)


def _leaves_by_categories(model: Any, X: Any) -> Callable[[int], np.ndarray] | None:
    """Return a function from a tree's number to the leaves ``[rows]`` of the rows X; None unless trees test categories.

    Trees that test categories (scikit-learn 1.10) read codes, which the forest or the estimator around a tree makes of
    the raw rows ``X``.
    """
    if all(getattr(tree, "is_categorical_", None) is None for tree in model.estimators_):
        return None
    if hasattr(model, "apply"):  # a forest; a bag of trees has no such method, and its trees read a part of the columns
        leaves = np.asarray(model.apply(X))
        return lambda t: leaves[:, t]
    rows = np.asarray(X)
    return lambda t: model.estimators_[t].apply(rows[:, model.estimators_features_[t]])


def _count_bag(
    cells: np.ndarray, times_drawn: np.ndarray, weight: np.ndarray, is_leaf: np.ndarray, n_classes: int
) -> _Bag:
    """Return the counts of a bag's rows in the leaves of a tree.

    ``cells`` has node · ``n_classes`` + class of each row, ``times_drawn`` how often the row was drawn, and ``weight``
    its weight; all are ``[rows]``. ``is_leaf [nodes]`` is the mask of the tree's leaves.
    """
    n_nodes = len(is_leaf)

    def count(row_weights: np.ndarray | None) -> np.ndarray:
        return np.bincount(cells, row_weights, n_nodes * n_classes).reshape(n_nodes, n_classes)[is_leaf]

    return _Bag(once=count(None), drawn=count(times_drawn), weighted=count(times_drawn * weight))


def _may_have_grown(bag: _Bag, tree: Any, is_leaf: np.ndarray) -> bool:
    """Return whether a scikit-learn tree may have been grown on the rows of a bag, as the counts in its leaves tell.

    ``bag`` has the counts of these rows in the leaves, and ``is_leaf [nodes]`` is the mask of the leaves.
    """
    leaf_sizes = tree.tree_.n_node_samples[is_leaf]
    # scikit-learn passes a bag to a tree as copies of rows, which add to a leaf's size, or as weights, which do not.
    has_copies = leaf_sizes.sum() > bag.once.sum()
    row_counts = bag.drawn if has_copies else bag.once
    if getattr(tree, "monotonic_cst", None) is not None:  # the values of such a tree are not frequencies
        return bool(np.array_equal(row_counts.sum(axis=1), leaf_sizes))
    counts = counts_in_nodes(tree, is_leaf, n_classes=row_counts.shape[1])
    if _are_proportional(counts, bag.drawn) or _are_proportional(counts, bag.weighted):
        return True
    # If one factor for each class turns a tree's counts into numbers of drawn rows, its rows were weighted by class
    # alone. Had it grown on this bag, its counts would have been proportional to the bag's above.
    if _sum_to_sizes(counts, bag.drawn.sum(axis=1)):
        return False
    return _may_be_weighted(counts, row_counts, leaf_sizes)


def _sum_to_sizes(counts: np.ndarray, sizes: np.ndarray) -> bool:
    """Return whether ``counts [leaves classes]``, with one factor for each class, sum up to ``sizes [leaves]``.

    The answer is False without more leaves than classes: then factors would fit whatever the counts are.
    """
    n_leaves, n_classes = counts.shape
    if n_leaves <= n_classes:
        return False
    class_factors = np.linalg.lstsq(counts, sizes, rcond=None)[0]
    return bool(np.allclose(counts @ class_factors, sizes, rtol=1e-6, atol=0))


def _may_be_weighted(counts: np.ndarray, row_counts: np.ndarray, sizes: np.ndarray) -> bool:
    """Return whether a tree's ``counts [leaves classes]`` may be sums of unknown weights ≥ 0 of the rows in its leaves.

    ``row_counts [leaves classes]`` has the number of rows that reach each leaf, by class. ``sizes [leaves]`` has the
    number of rows of positive weight that grew the leaf.
    """
    lacks_rows = (row_counts.sum(axis=1) < sizes).any()
    counts_without_rows = (counts[row_counts == 0] > 0).any()
    if lacks_rows or counts_without_rows:
        return False
    # If the sizes hold all rows, no weight is 0: then a class with rows in a leaf has a count there.
    all_have_weight = row_counts.sum() == sizes.sum()
    is_absent = (counts <= 0) & (row_counts > 0) & (counts.sum(axis=0) > 0)
    return not (all_have_weight and is_absent.any())


def counts_in_nodes(tree: Any, nodes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the weighted class counts ``[nodes classes]`` that a scikit-learn tree holds in some of its nodes.

    ``nodes`` has positions of nodes, or is a mask of them. ``n_classes`` is the number of the model's classes; a class
    that the tree's bag lacks has counts of 0.
    """
    counts_of_tree = tree.tree_.value[nodes, 0] * tree.tree_.weighted_n_node_samples[nodes, None]
    if counts_of_tree.shape[1] == n_classes:
        return counts_of_tree
    counts = np.zeros((len(counts_of_tree), n_classes))
    counts[:, np.asarray(tree.classes_, np.int64)] = counts_of_tree
    return counts


def _are_proportional(counts: np.ndarray, contents: np.ndarray) -> bool:
    """Return whether ``counts`` are ``contents`` times one factor for each class; both are ``[leaves classes]``."""
    class_sums = contents.sum(axis=0)
    class_factors = counts.sum(axis=0) / np.where(class_sums > 0, class_sums, 1)
    tolerance = 1e-6 * counts.sum() / len(counts)
    return bool(np.allclose(counts, contents * class_factors, rtol=1e-6, atol=tolerance))


def is_ydf_forest(model: Any) -> bool:
    """Return whether a model is a random forest of YDF for classification, which may have bags."""
    kind = type(model)
    is_forest = kind.__module__.partition(".")[0] == "ydf" and kind.__name__ == _KIND
    return is_forest and model.task().name == "CLASSIFICATION"


def ydf_bags(
    model: Any, n: int, *, learner: Any = None, X: InstancesLike | None = None, y: LabelsLike | None = None
) -> list[np.ndarray]:
    """Return the bag of each tree of a YDF forest, drawn anew: positions of instances, from 0 to n - 1.

    A model keeps neither its seed nor its bags; a ``learner`` of the same settings draws the same bags (None: a learner
    of YDF's default seed). With the instances ``X`` and labels ``y`` of the fit, the bags have to give the counts of
    all leaves. Without X hardly anything can be compared, and without X and a learner there is a warning.
    """
    n_grown = int(model.data_spec().created_num_rows)
    if n_grown != n:
        raise ValueError(f"n={n}, but model was fitted on {n_grown} instances; pass the number of training instances.")
    is_assumed = learner is None
    if is_assumed:
        package: Any = importlib.import_module("ydf")
        learner = package.RandomForestLearner(label=model.label(), num_trees=model.num_trees())
    if not hasattr(learner, "in_bag_example_indices"):
        raise TypeError(
            f"learner is a {type(learner).__name__}, which tells no bags; pass the RandomForestLearner of YDF 0.14 or "
            "later that trained the model."
        )
    try:
        bags = [learner.in_bag_example_indices(num_examples=n, tree_idx=t) for t in range(model.num_trees())]
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"YDF's learner does not tell the bags of this model: {error}") from error
    bags = [np.asarray(bag, np.int64) for bag in bags]
    if X is None:
        _check_evaluations(model, bags, n)
        if is_assumed:
            warn(
                "YDF's models keep no seed: these are the bags of its default one, and without X and y little tells "
                "whether they are the model's. Pass X and y, or the learner."
            )
    else:
        _check_leaves(model, bags, X, y, n)
    return bags


_REMEDY = (
    "Pass the learner that trained the model, if its random_seed or its bootstrap is not YDF's default: "
    "forest.with_count_set('oob', "
    "count_leaves(forest, X, y, tree_mask=oob_mask(model, n, X=X, y=y, learner=learner))). "
    "For rows that were held out take 'held_out'."
)


def _check_evaluations(model: Any, bags: list[np.ndarray], n: int) -> None:
    """Raise a ValueError unless ``bags`` leave out as many of n instances as a YDF model's own evaluations count.

    An evaluation counts the instances that are out of some bag. The first one is of a single tree, whichever (YDF takes
    trees as they are ready), and the last one is of all trees.
    """
    n_evaluated = [int(entry.evaluation.num_examples) for entry in model.out_of_bag_evaluations()]
    if not n_evaluated:
        raise ValueError("the model has no out-of-bag evaluations that its bags could be compared with; pass X and y.")
    is_in_bag = [np.bincount(bag, minlength=n) > 0 for bag in bags]  # [trees instances]
    n_left_out = [int(np.sum(~in_tree)) for in_tree in is_in_bag]
    n_out_of_some_bag = np.sum(~np.all(is_in_bag, axis=0))
    if n_evaluated[0] not in n_left_out or n_evaluated[-1] != n_out_of_some_bag:
        raise ValueError(f"the learner's bags are not those that the model was grown on. {_REMEDY}")


def _check_leaves(model: Any, bags: list[np.ndarray], X: InstancesLike, y: LabelsLike | None, n: int) -> None:
    """Raise a ValueError unless the rows of each tree's bag give the counts in the leaves of a YDF model.

    ``X`` and ``y`` are the ``n`` rows of the fit and their labels, and ``bags`` has positions of rows for each tree.
    Also raise it if there are not n labels, or YDF cannot read X.
    """
    labels = tuple(model.label_classes())
    position = _positions(model, y)
    if len(position) != n:
        raise ValueError(
            f"y has {len(position)} labels, but model was fitted on {n} instances; pass all, in their order."
        )
    try:
        leaves = np.asarray(model.predict_leaves(_dataset(model, X, len(position))))
    except (ValueError, TypeError, RuntimeError, KeyError, AttributeError) as error:
        raise ValueError(f"YDF cannot read X as the columns {model.input_feature_names()}: {error}") from error
    for t, (bag, tree) in enumerate(zip(bags, model.iter_trees(), strict=True)):
        leaf_values = _leaf_values(tree.root)
        cells = leaves[bag, t] * len(labels) + position[bag]  # (leaf, class) as one number
        bag_counts = np.bincount(cells, minlength=len(leaf_values) * len(labels)).reshape(-1, len(labels))
        tree_counts = np.array([np.multiply(value.probability, value.num_examples) for value in leaf_values])
        # Tolerances for counts that are products of rounded probabilities.
        if bag_counts.shape != tree_counts.shape or not np.allclose(bag_counts, tree_counts, rtol=1e-5, atol=1e-3):
            raise ValueError(
                f"with X and y in their order the bag of tree {t} does not give the counts in its leaves: these are "
                f"not the rows that this {_KIND} was grown on, or it was grown with weights. {_REMEDY}"
            )


def ydf_cells(model: Any, X: InstancesLike, y: LabelsLike | None) -> tuple[np.ndarray, np.ndarray]:
    """Return codes of the instances X, float32 ``[instances features]``, and the position of each instance's class.

    Values of a column have the same code if they are equal as texts. ``y`` has the labels.
    """
    position = _positions(model, y)
    columns = _dataset(model, X, len(position))
    codes = [np.unique(columns[feature.name].astype(str), return_inverse=True)[1] for feature in model.input_features()]
    return np.stack(codes, axis=1).astype(np.float32), position


def _positions(model: Any, y: LabelsLike | None) -> np.ndarray:
    """Return the positions of the labels ``y`` among a YDF model's classes, compared as texts; a ValueError if None."""
    if y is None:
        raise ValueError("y is None, but X is given; pass the labels, too.")
    return class_positions(tuple(model.label_classes()), np.asarray(as_labels(y)).astype(str))


def _leaf_values(root: Any) -> list:
    """Return YDF's values of the leaves below the node ``root``, in YDF's order: below negative children first."""
    leaf_values = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_leaf:
            leaf_values.append(node.value)
        else:
            stack += [node.pos_child, node.neg_child]  # the last one is visited next
    return leaf_values


def _dataset(model: Any, X: Any, n: int) -> Any:
    """Return the ``n`` rows X as a YDF model reads them: a dict from names to columns, arrays ``[instances]``.

    YDF demands a column of labels, too, and ignores it; it holds the first class.
    """
    features = model.input_features()
    label = np.full(n, model.label_classes()[0], object)
    table = X.toarray() if is_sparse(X) else plain_table(X)
    if (frame := as_frame(table)) is not None:
        columns = _frame_columns(X, frame, [feature.name for feature in features], n)
    else:
        columns = _array_columns(np.asarray(table), features, n)
    for feature in features:
        if feature.semantic.name == "NUMERICAL" and columns[feature.name].dtype == object:  # which YDF takes for words
            columns[feature.name] = as_floats(columns[feature.name])
    return {**columns, model.label(): label}


def _frame_columns(X: Any, frame: Any, names: list[str], n: int) -> dict[str, np.ndarray]:
    """Return the columns ``names`` of a table X of ``n`` rows as a dict of arrays; ``frame`` is `as_frame` of X.

    Raises a ValueError for another number of rows, and for a name that is missing or not unique.
    """
    _check_columns(list(frame.columns), names)
    _check_rows(frame.shape[0], n)
    # Frames of other libraries are read themselves: ``frame`` may hold their columns by other types.
    is_plain = isinstance(frame, Frame) and (frame is X or not hasattr(X, "columns"))
    column_of = dict(zip(frame.columns, frame.parts, strict=True)) if is_plain else X
    return {name: np.asarray(column_of[name]) for name in names}


def _array_columns(values: np.ndarray, features: Any, n: int) -> dict[str, np.ndarray]:
    """Return the columns of an array ``[instances features]`` of ``n`` rows, by the names of a YDF model's features.

    Numbers of boolean features become bools, True above 0. Raises a ValueError for another shape.
    """
    if values.ndim != 2 or values.shape[1] != len(features):
        raise ValueError(
            f"X has shape {values.shape}; pass instances [instances features], of {len(features)} features."
        )
    _check_rows(len(values), n)
    columns = {feature.name: values[:, j] for j, feature in enumerate(features)}
    for feature in features:
        if feature.semantic.name == "BOOLEAN":
            columns[feature.name] = np.asarray(columns[feature.name], np.float64) > 0
    return columns


def _check_columns(names: list, expected: list[str]) -> None:
    """Raise a ValueError unless each of the ``expected`` names is among ``names``, a table's columns, exactly once."""
    absent = [name for name in expected if names.count(name) == 0]
    repeated = [name for name in expected if names.count(name) > 1]
    for at_fault, fault in ((absent, "lacks"), (repeated, "has several times")):
        if at_fault:
            raise ValueError(f"X {fault} {at_fault[:5]} ({len(at_fault)} in all); its columns are {names[:10]}.")


def _check_rows(n_rows: int, n: int) -> None:
    """Raise a ValueError unless X has as many instances, ``n_rows``, as y has labels, ``n``."""
    if n_rows != n:
        raise ValueError(f"X has {n_rows} instances and y {n} labels; pass one label for each.")
