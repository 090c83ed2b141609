"""Importer of fitted scikit-learn classifiers of trees; pipelines are opened, and asked for their rows.

A tree is read through its public attributes alone (`tree_of`). How it stores its nodes may change between versions. So
where they are stored in an unknown form, the tree is asked where instances go, and the answers are compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from jaxunc._checks import warn
from jaxunc.forest import Forest, snap_to_integers
from jaxunc.tables import Columns, NumbersLike, is_sparse, plain_table

from ._comparing_trees import AT_MOST, ComparingTree, forest_of

Steps = Sequence[tuple[str, Any]]  # transformers by their names, in their order
THRESHOLDS = (FixedThresholdClassifier, TunedThresholdClassifierCV)


class Opened(NamedTuple):
    """A model without the wrappers around it."""

    whole: Any  # a pipeline or forest, taken out of its wrappers: frozen estimators, fitted searches, threshold setters
    forest: Any  # the last step of the pipeline; else the whole
    fitted: bool  # whether a wrapper was a frozen estimator


def opened(estimator: Any) -> Opened:
    """Return the model inside an estimator's wrappers; it opens searches and threshold setters only in a frozen one."""
    whole, fitted = _unwrapped(estimator, fitted=False)
    forest = whole
    while isinstance(forest, Pipeline):
        if not (isinstance(forest.steps, list | tuple) and forest.steps and isinstance(forest.steps[-1], list | tuple)):
            return Opened(whole, None, fitted)  # which is refused
        forest, fitted = _unwrapped(forest.steps[-1][1], fitted=fitted)
    return Opened(whole, forest, fitted)


def _unwrapped(model: Any, *, fitted: bool) -> tuple[Any, bool]:
    """Return (the model inside of frozen estimators and fitted searches, whether it is ``fitted`` or was frozen).

    ``fitted`` says whether a wrapper around ``model`` is frozen. Only then searches and threshold setters are opened.
    """
    while True:
        # Searches of any library have a best estimator; thresholds are found for one.
        names = ("best_estimator_", "estimator_") if isinstance(model, THRESHOLDS) else ("best_estimator_",)
        models = [getattr(model, name) for name in names if isinstance(model, BaseEstimator) and hasattr(model, name)]
        if isinstance(model, FrozenEstimator):
            model, fitted = model.estimator, True
        elif fitted and models:
            model = models[0]
        else:
            return model, fitted


def steps_of(whole: Any) -> Steps:
    """Return the transformers before the forest in ``whole``, also of nested pipelines, not copied; [] without any."""
    steps: list[tuple[str, Any]] = []
    while isinstance(whole, Pipeline):
        steps += [(name, step) for name, step in whole.steps[:-1] if step is not None and step != "passthrough"]
        whole, _ = _unwrapped(whole.steps[-1][1], fitted=True)
    return steps


def transformed(steps: Steps, X: Any) -> Any:
    """Return the rows of ``X`` after all ``steps``; a ValueError if their number changes, or a step is not fitted."""
    n_before = n_rows(X)
    try:
        for _, step in steps:
            X = step.transform(X)
    except NotFittedError as error:
        raise ValueError(
            f"a step of {[name for name, _ in steps]} is not fitted, and the forest is: {error} Freeze the whole "
            "fitted pipeline: FrozenEstimator(pipeline)."
        ) from error
    check_rows(X, n_before, steps)
    return X


def check_rows(X: Any, n: int, steps: Sequence[Any]) -> None:
    if (n_made := n_rows(X)) != n:
        raise ValueError(
            f"the pipeline's steps {[name for name, _ in steps]} made {n_made} rows of {n}, and each row needs its "
            "answer. Drop or add rows before fit, not in the pipeline."
        )


def n_rows(X: Any) -> int:
    if not hasattr(X, "shape") and not hasattr(X, "__len__"):
        raise TypeError(f"X is a {type(X).__name__}; pass the raw columns that the pipeline was fitted on.")
    if _is_mapping(X):
        return max(map(len, X.values()), default=0)
    return X.shape[0] if hasattr(X, "shape") else len(X)


def known_to_sklearn(X: Any) -> Any:
    """Return ``X`` as a type that scikit-learn knows: mappings of columns and Arrow tables become pandas frames.

    So do arrays with named fields. What has only ``__array__`` becomes an array. In arrays masked values become missing
    values, and numbers get this machine's byte order. Anything else stays as it is.
    """
    if not hasattr(X, "shape") and not hasattr(X, "__len__") and hasattr(X, "__array__"):
        return np.asarray(X)
    if isinstance(X, np.ma.MaskedArray) and X.dtype.names is None:  # scikit-learn would read what is under the mask
        X = plain_table(X)
    if isinstance(X, np.ndarray) and not X.dtype.isnative:  # XGBoost reads the bytes as if they were
        X = X.astype(X.dtype.newbyteorder("="))
    fields = X.dtype.names if isinstance(X, np.ndarray) else None
    table: Any = X if fields is None else {name: X[name] for name in fields}
    if _is_mapping(table):
        import pandas as pd

        return pd.DataFrame({str(name): column for name, column in table.items()})
    is_arrow = hasattr(table, "to_batches") or hasattr(table, "to_struct_array")  # a table, or a batch of rows
    return table.to_pandas() if is_arrow and not hasattr(table, "iloc") else table


def _is_mapping(X: Any) -> bool:
    return isinstance(X, Mapping) and not is_sparse(X)  # some sparse matrices are mappings, too


_FORESTS = (RandomForestClassifier, ExtraTreesClassifier)
_MODELS = (*_FORESTS, DecisionTreeClassifier, BaggingClassifier)
_SUPPORTED = "DecisionTree, ExtraTree, RandomForest, ExtraTrees and Bagging (of trees) classifiers"
READ = (
    "children_left", "children_right", "feature", "threshold", "missing_go_to_left", "n_node_samples",
    "weighted_n_node_samples", "value",
)  # fmt: skip
"""Arrays by node that importers read."""
UNDERSTOOD = frozenset({*READ, "impurity", "split_kind", "left_cat_bitset"})  # arrays whose meaning is known
STORED = frozenset({
    "left_child",
    "right_child",
    "feature",
    "threshold",
    "impurity",
    "n_node_samples",
    "weighted_n_node_samples",
    "missing_go_to_left",
})  # fmt: skip
"""Names of the fields of nodes up to scikit-learn 1.9, where a node is these and nothing else."""
PROBES = 2**22  # values of the instances that a tree is asked about at a time
_VALUES = (
    "Boosted trees and regressors, whose leaves hold values: jaxunc.from_sklearn_values(model). See docs/libraries.md."
)
_WAYS = {
    "UncertainForestRegressor": "Fitted, pass the forest itself, its estimator_; what is known of doubt has moments_.",
    "Pipeline": "A fitted pipeline on raw columns is taken whole by CombinedForestClassifier(FrozenEstimator(pipeline))"
    " of jaxunc.estimators; or pass pipeline[-1], and pipeline[:-1].transform(X) as its data. "
    "See docs/how_to/use_a_pipeline.md.",
    "BaseSearchCV": "Fitted, pass its best_estimator_; or search around the estimator of jaxunc: GridSearchCV("
    "CombinedForestClassifier(forest), {'estimator__max_depth': [4, 8]}).",
    "BaseThresholdClassifier": "Pass the model whose threshold it sets (fitted, its estimator_); or put it around the "
    "estimator of jaxunc.",
    "CalibratedClassifierCV": "Pass the model that it calibrates: CombinedForestClassifier learns from out-of-bag rows "
    "how sure leaves are; or put it around that: CalibratedClassifierCV(CombinedForestClassifier(forest)).",
    "_BaseHeterogeneousEnsemble": "It mixes several models: pass one of its estimators_ that is a forest, or put the "
    "estimator of jaxunc into the place of that one.",
    "FrozenEstimator": "Pass the model inside: frozen.estimator.",
    "BaseEnsemble": _VALUES,
    "MetaEstimatorMixin": "It fits models for parts of the answer: pass a forest, which tells several classes apart by "
    "itself, or put it around the estimator of jaxunc.",
    "ProbabilityClassifier": "An estimator of jaxunc needs nothing around it: it ends a pipeline itself.",
    "AdaBoostClassifier": "Its trees correct each other: take a random forest.",
}
"""For messages: what to pass in place of a model that is not imported, by the name of its class or of a base of it."""
ACCELERATED = ("sklearnex", "daal4py", "onedal")  # packages of scikit-learn-intelex


def from_sklearn(model: Any, *, prior: NumbersLike | None = None) -> Forest:
    """Import a fitted scikit-learn forest, exactly: every float32 instance reaches the leaf that it reaches there.

    Parameters
    ----------
    model
        A fitted ``DecisionTreeClassifier``, ``ExtraTreeClassifier``, ``RandomForestClassifier``,
        ``ExtraTreesClassifier`` or ``BaggingClassifier`` of trees (feature subsets included). Two classes or more,
        labels of any type, missing values, categories (``categorical_features``), class and sample weights.
    prior
        Class probabilities for combiners that measure evidence against a prior, in the order of ``model.classes_``.
        Default: the class frequencies of the samples that the trees were grown on. With class or sample weights
        those are weighted frequencies (with ``class_weight="balanced"`` equal ones), not the classes' shares of the
        data: pass the shares if that is what you mean.

    Returns
    -------
    Forest
        Leaf counts are those of the sample that each tree was grown on (in-bag): integers if the weights are.

    Raises
    ------
    TypeError
        If ``model`` is of another kind (a regressor, a pipeline, a bag of something else).
    ValueError
        If ``model`` is not fitted, has several outputs or a single class, or was grown with negative sample weights.
        Also if its trees test categories by a random hash, as extra trees do, or categories whose values scikit-learn
        does not tell. Also if trees have arrays by node that this version does not know. Also if they are stored in
        another form, and send an instance elsewhere than their thresholds say.

    Warns
    -----
    UserWarning
        If ``model`` is a forest of scikit-learn-intelex of which no node sends missing values left: older versions lose
        where they go (its issue 3356; 2026.2 does not). Complete instances are answered exactly.

    Notes
    -----
    scikit-learn tests ``float32(x) <= t`` with a float64 threshold: thresholds are rounded down to float32, which
    changes no answer. Counts are its fractions times the size of the leaf, snapped to integers within 1e-9 of it.

    A missing value goes where scikit-learn learned it to go. Where no training row at a node had one, it goes to
    the child that more of these rows went to, right if as many. So does scikit-learn's ``predict``.

    For each category the tree is asked whether it goes left at a test. Categories are levels of their column; a number
    counts as the category of its word, too. An unknown category goes where missing values go, as in scikit-learn.
    """
    members = list(_member_trees(model))  # which checks the model
    warn_if_missing_is_lost(model, [estimator.tree_ for estimator, _ in members])
    classes = np.asarray(model.classes_)
    columns = columns_of(model, members)
    trees = [tree_of(model, columns, *member, _counts(member[0], len(classes))) for member in members]
    roots = np.stack([tree.leaf_values[0] for tree in trees])
    forest = forest_of(trees, columns, tuple(classes.tolist()), roots)
    return forest if prior is None else forest.with_prior(prior)


def is_read(model: Any) -> bool:
    """Return whether an unfitted model is of a kind that `from_sklearn` imports."""
    bagged = getattr(model, "estimator", None) if isinstance(model, BaggingClassifier) else None
    resamples = hasattr(model, "sampling_strategy") and isinstance(model, BaggingClassifier)  # a bag of pipelines
    return isinstance(model, _MODELS) and isinstance(bagged, DecisionTreeClassifier | None) and not resamples


def way_round(model: Any) -> str:
    """Return, as text for a message, what to do with a model that `from_sklearn` does not import."""
    if isinstance(model, BaggingClassifier):
        return (
            "Of bags, only bags of single decision trees are forests, and a forest is one already: "
            "RandomForestClassifier(n_estimators, max_samples=share)."
        )
    return next((_WAYS[kind.__name__] for kind in type(model).__mro__ if kind.__name__ in _WAYS), _VALUES)


def check_fitted(model: Any) -> None:
    """Raise a ValueError for a model of scikit-learn that is not fitted."""
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ValueError(f"model ({type(model).__name__}) is not fitted; call model.fit(X, y) first.") from error


def _member_trees(model) -> Iterator[tuple[DecisionTreeClassifier, np.ndarray | None]]:
    """Yield (tree, columns of the data that it sees, None for all) for each tree of a model; an error for others."""
    name = type(model).__name__
    if not isinstance(model, _MODELS):
        raise TypeError(f"model is a {name}; from_sklearn imports {_SUPPORTED}. {way_round(model)}")
    check_fitted(model)
    if (n_outputs := getattr(model, "n_outputs_", 1)) != 1:
        raise ValueError(f"model ({name}) has {n_outputs} outputs; fit one forest per output and import each.")
    if len(labels := np.asarray(model.classes_).tolist()) < 2:
        raise ValueError(f"model ({name}) knows one class only, {labels}; counts that tell classes apart need two.")
    if isinstance(model, DecisionTreeClassifier):
        yield model, None
    elif isinstance(model, _FORESTS):
        for estimator in model.estimators_:
            yield estimator, None
    else:
        # A bag may show each tree some columns only: its features are positions among these.
        for estimator, columns in zip(model.estimators_, model.estimators_features_, strict=True):
            if not isinstance(estimator, DecisionTreeClassifier):
                name = type(estimator).__name__
                raise TypeError(
                    f"model is a bag of {name}; only bags of single decision trees are forests. A forest is a bag "
                    "already: RandomForestClassifier(n_estimators, max_samples=share)."
                )
            yield estimator, np.asarray(columns)


def _counts(estimator: DecisionTreeClassifier, n_classes: int) -> np.ndarray:
    """Return the counts ``[nodes classes]`` of ``estimator``, a single tree, for the ``n_classes`` of its ensemble."""
    sizes = estimator.tree_.weighted_n_node_samples
    tree_counts = snap_to_integers(estimator.tree_.value[:, 0, :] * sizes[:, None], sizes)
    if len(estimator.classes_) == n_classes:
        return tree_counts
    # A bagged tree that missed a class: its own classes are positions among the ensemble's.
    counts = np.zeros((len(tree_counts), n_classes))
    counts[:, np.asarray(estimator.classes_, dtype=np.int64)] = tree_counts
    return counts


def tree_of(
    model: Any, columns: Columns, estimator: Any, where: np.ndarray | None, leaf_values: np.ndarray
) -> ComparingTree:
    """Return the tree of ``estimator``, itself ``model`` or one of its trees; a ValueError if it may be read wrongly.

    ``columns`` are the model's (`columns_of`), ``where`` has those that the tree sees (None: all). The tree gets the
    ``leaf_values [nodes values]``.
    """
    tree, labels, codes = estimator.tree_, {}, None
    _refuse_what_is_unknown(tree)
    is_known_form = _stored_fields(tree) == STORED
    if not is_known_form or _may_test_categories(estimator):
        from ._sklearn_categories import ask_codes, labels_of, nodes_with_sets

        labels = labels_of(model, estimator)
        nodes = nodes_with_sets(estimator, labels, where)
        if len(nodes) or not is_known_form:
            paths = _Paths(tree)
            codes = ask_codes(tree, paths, nodes, labels, PROBES)
            _check_by_asking(tree, paths, codes)
    # A bagged tree numbers the columns that it was given; leaves have -2, which must not index from the end.
    feature = tree.feature if where is None else where[np.maximum(tree.feature, 0)]
    compare, missing_left = np.full(len(feature), AT_MOST), tree.missing_go_to_left != 0
    children = tree.children_left, tree.children_right
    comparing_tree = ComparingTree(feature, compare, tree.threshold, *children, missing_left, {}, leaf_values)
    if codes is None:
        return comparing_tree
    from ._sklearn_categories import with_sets

    return with_sets(comparing_tree, codes, labels, where, columns)


def _may_test_categories(estimator: Any) -> bool:
    """Return whether ``estimator``, a single tree, may test categories; only then `_sklearn_categories` is imported."""
    tree = estimator.tree_
    may_have_sets = getattr(estimator, "is_categorical_", None) is not None or hasattr(tree, "split_kind")
    return may_have_sets or bool(np.any(tree.threshold == -np.inf))


def columns_of(model: Any, members: Sequence[tuple[Any, np.ndarray | None]]) -> Columns:
    """Return a model's columns with their levels; ``members`` are its trees, each with the columns that it sees."""
    names = getattr(model, "feature_names_in_", None)
    columns = Columns(int(model.n_features_in_), None if names is None else tuple(map(str, names)))
    if not any(_may_test_categories(estimator) for estimator, _ in members):
        return columns
    from ._sklearn_categories import with_categories

    return with_categories(columns, model, members)


def warn_if_missing_is_lost(model: Any, trees: list[Any]) -> None:
    """Warn if ``trees`` of a scikit-learn-intelex ``model`` do not say where missing values go, as before 2026.2."""
    if type(model).__module__.partition(".")[0] not in ACCELERATED:
        return
    if any(np.any(tree.missing_go_to_left) for tree in trees) or all(tree.node_count == 1 for tree in trees):
        return
    warn(
        f"model ({type(model).__name__} of scikit-learn-intelex) does not say where missing values go: no node sends "
        "them left. Its answers for complete instances are imported exactly; those for missing values are not known. "
        "Impute them, fit with scikit-learn itself, or upgrade scikit-learn-intelex.",
        UserWarning,
    )


def _stored_fields(tree: Any) -> frozenset[str]:
    """Return the names of the fields in which a tree stores its nodes; empty where the tree does not tell them."""
    try:
        return frozenset(tree.__getstate__()["nodes"].dtype.names)
    except (AttributeError, KeyError, TypeError):
        return frozenset()


@lru_cache
def _public_names(kind: type) -> frozenset[str]:
    return frozenset(name for name in dir(kind) if not name.startswith("_"))


def _refuse_what_is_unknown(tree: Any) -> None:
    """Raise a ValueError if a tree lacks an array of `READ`, or has a public array by node besides `UNDERSTOOD`."""
    absent = [name for name in READ if not hasattr(tree, name)]
    n_nodes = len(tree.children_left) if "children_left" not in absent else 0
    other_arrays = {name: getattr(tree, name, None) for name in sorted(_public_names(type(tree)) - UNDERSTOOD)}
    unknown = [
        name
        for name, array in other_arrays.items()
        if isinstance(array, np.ndarray) and n_nodes > 1 and array.shape[:1] == (n_nodes,)
        and not (array.ndim == 1 and n_nodes in (tree.n_features, tree.n_outputs))  # by column, or by output
    ]  # fmt: skip
    if absent or unknown:
        raise ValueError(
            f"model's trees have arrays by node that this version of jaxunc does not know (unknown: {unknown}, absent: "
            f"{absent}), so its splits might be read wrongly. Upgrade jaxunc, or fit with another scikit-learn."
        )


def _check_by_asking(tree: Any, paths: "_Paths", codes: Any) -> None:
    """Raise a ValueError if ``tree.apply`` sends an instance elsewhere than its public arrays and ``codes`` say.

    ``paths`` makes three kinds of instances: for either side of each test, the same with values in columns that the
    path does not test, and with a missing value for each test. ``codes`` are the tree's `CodesLeft`.
    """
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    inner = np.flatnonzero(left >= 0)
    if not len(inner):
        return
    chunk_size = max(1, PROBES // int(tree.n_features))
    children = np.concatenate([left[inner], right[inner]])
    for make_rows, nodes in ((paths.reach, children), (paths.mix, children), (paths.add_missing, inner)):
        for start in range(0, len(nodes), chunk_size):
            chunk = nodes[start : start + chunk_size]
            rows = make_rows(chunk)
            differs = np.flatnonzero(np.asarray(tree.apply(rows)) != _leaves(tree, rows, codes))
            if len(differs):
                raise ValueError(
                    "model's trees store their nodes in a form that this version of jaxunc does not know, and on the "
                    f"way to node {chunk[differs[0]]} one sends an instance elsewhere than its thresholds say. Upgrade "
                    "jaxunc, or fit with another scikit-learn."
                )


class _Paths:
    """Instances that reach chosen nodes of a tree, made from the tests on their paths.

    ``value`` has for each node a number that leads from its parent to it; ``needs_value`` says whether reaching the
    node needs that number.
    """

    def __init__(self, tree: Any):
        """Read a tree's arrays; values are the numbers that are nearest to the thresholds."""
        left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
        inner = np.flatnonzero(left >= 0)
        self.feature, self.n_features = np.asarray(tree.feature), int(tree.n_features)
        self.parent, self.value = np.full(len(left), -1), np.zeros(len(left), np.float32)
        self.parent[left[inner]] = self.parent[right[inner]] = inner
        below = _largest_at_or_below(np.asarray(tree.threshold)[inner])
        above = np.where(below == np.inf, np.float32(np.nan), np.nextafter(below, np.float32(np.inf)))
        self.value[left[inner]], self.value[right[inner]] = below, above  # behind infinity comes what is missing
        self.needs_value = self.parent >= 0
        self.needs_value[left[inner[below == np.inf]]] = False  # any number comes there: the path before it says which

    def reach(self, nodes: np.ndarray) -> np.ndarray:
        """Return for each node an instance that reaches it by thresholds; columns without a test on its path are 0."""
        rows, path = np.zeros((len(nodes), self.n_features), np.float32), [nodes]
        while (parents := np.where(path[-1] >= 0, self.parent[path[-1]], -1)).max() >= 0:
            path.append(parents)
        for level_nodes in reversed(path):  # from the root down: the last test of a column has the last word
            indices = np.flatnonzero((level_nodes >= 0) & self.needs_value[level_nodes])
            rows[indices, self.feature[self.parent[level_nodes[indices]]]] = self.value[level_nodes[indices]]
        return rows

    def mix(self, nodes: np.ndarray) -> np.ndarray:
        """Return the instances of `reach`, with zeros replaced by values that lead to another of ``nodes``."""
        rows, others = self.reach(nodes), self.reach(np.roll(nodes, len(nodes) // 3 + 1))
        return np.where(rows == 0, others, rows)

    def add_missing(self, nodes: np.ndarray) -> np.ndarray:
        """Return for each node the instance of `reach`, with a missing value in the column that this node tests."""
        rows = self.reach(nodes)
        rows[np.arange(len(nodes)), self.feature[nodes]] = np.nan
        return rows


def _largest_at_or_below(thresholds: np.ndarray) -> np.ndarray:
    """Return for each float64 threshold the largest float32 that is not above it."""
    with np.errstate(over="ignore"):
        narrow = thresholds.astype(np.float32)
    return np.where(narrow.astype(np.float64) > thresholds, np.nextafter(narrow, np.float32(-np.inf)), narrow)


def _leaves(tree: Any, rows: np.ndarray, codes: Any) -> np.ndarray:
    """Return the leaf that each row reaches by a tree's public arrays, and at tests of categories by its ``codes``."""
    left, right, feature = np.asarray(tree.children_left), np.asarray(tree.children_right), np.asarray(tree.feature)
    threshold, missing_left = np.asarray(tree.threshold), np.asarray(tree.missing_go_to_left) != 0
    node, row = np.zeros(len(rows), np.int64), np.arange(len(rows))
    while (is_inner := left[node] >= 0).any():
        value = rows[row, np.maximum(feature[node], 0)]  # leaves have -2
        goes_left = np.where(np.isnan(value), missing_left[node], value <= threshold[node])
        goes_left = codes.decide(node, value, goes_left)
        node = np.where(is_inner, np.where(goes_left, left[node], right[node]), node)
    return node
