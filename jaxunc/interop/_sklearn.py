"""Importer of fitted scikit-learn classifiers of trees; pipelines are opened, and asked for their rows.

A tree is read through its public attributes alone (`tree_of`). How it stores its nodes may change between versions. So
where they are stored in an unknown form, the tree is asked where instances go, and the answers are compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
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
from jaxunc.tables import Columns, NumbersLike, is_pandas, is_sparse, plain_table

from ._comparing_trees import AT_MOST, ComparingTree, forest_of

Steps = Sequence[tuple[str, Any]]  # transformers by their names, in their order
THRESHOLDS = (FixedThresholdClassifier, TunedThresholdClassifierCV)  # estimators that set a threshold


class Opened(NamedTuple):
    """A model without its wrappers: frozen estimators, fitted searches, and estimators that set a threshold."""

    whole: Any  # the model inside: a pipeline or a forest
    forest: Any  # the last step of a pipeline; else the whole
    fitted: bool  # whether a wrapper was a frozen estimator, so that the model is fitted


def opened(estimator: Any) -> Opened:
    """Return what is inside ``estimator``; searches and `THRESHOLDS` are opened only inside of a frozen estimator."""
    whole, fitted = _unwrapped(estimator, fitted=False)
    forest = whole
    while isinstance(forest, Pipeline):
        if not (isinstance(forest.steps, list | tuple) and forest.steps and isinstance(forest.steps[-1], list | tuple)):
            return Opened(whole, None, fitted)  # which is refused
        forest, fitted = _unwrapped(forest.steps[-1][1], fitted=fitted)
    return Opened(whole, forest, fitted)


def _unwrapped(model: Any, *, fitted: bool) -> tuple[Any, bool]:
    """Return (``model`` without its wrappers, ``fitted`` or whether one of them is a frozen estimator).

    ``fitted`` says whether a wrapper around ``model`` is frozen. Only then are searches and `THRESHOLDS` opened.
    """
    while True:
        # Where the fitted model may be: searches of any library have a best estimator.
        names = ("best_estimator_", "estimator_") if isinstance(model, THRESHOLDS) else ("best_estimator_",)
        inner = [getattr(model, name) for name in names if isinstance(model, BaseEstimator) and hasattr(model, name)]
        if isinstance(model, FrozenEstimator):
            model = model.estimator
            fitted = True
        elif fitted and inner:
            model = inner[0]
        else:
            return model, fitted


def steps_of(whole: Any) -> Steps:
    """Return the transformers before the forest in ``whole``, a model without wrappers, also of nested pipelines.

    They are not copied; [] if the model is no pipeline.
    """
    steps: list[tuple[str, Any]] = []
    while isinstance(whole, Pipeline):
        steps += [(name, step) for name, step in whole.steps[:-1] if step is not None and step != "passthrough"]
        whole, _ = _unwrapped(whole.steps[-1][1], fitted=True)
    return steps


def transformed(steps: Steps, X: Any) -> Any:
    """Return what ``steps`` make of ``X``; a ValueError if one is not fitted, or the number of rows changes."""
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
    """Raise a ValueError unless ``X``, which ``steps`` of a pipeline made, has ``n`` rows, as before the steps."""
    if (n_made := n_rows(X)) != n:
        raise ValueError(
            f"the pipeline's steps {[name for name, _ in steps]} made {n_made} rows of {n}, and each row needs its "
            "answer. Drop or add rows before fit, not in the pipeline."
        )


def n_rows(X: Any) -> int:
    """Return the number of rows of ``X``, an array, frame, list or mapping of columns; else a TypeError."""
    if not hasattr(X, "shape") and not hasattr(X, "__len__"):
        raise TypeError(f"X is a {type(X).__name__}; pass the raw columns that the pipeline was fitted on.")
    if _is_mapping(X):
        return max(map(len, X.values()), default=0)
    return X.shape[0] if hasattr(X, "shape") else len(X)


def known_to_sklearn(X: Any) -> Any:
    """Return ``X`` as a table of a type that scikit-learn knows.

    Mappings of columns, Arrow tables and arrays with named fields become pandas frames. What has only ``__array__``
    becomes an array. In arrays masked values become missing values; in them and in pandas frames numbers get this
    machine's byte order. Anything else stays as it is.
    """
    if not hasattr(X, "shape") and not hasattr(X, "__len__") and hasattr(X, "__array__"):
        return np.asarray(X)
    if isinstance(X, np.ndarray | jax.Array) and getattr(X.dtype, "names", None) is None:
        # scikit-learn would read what is under a mask, and takes bfloat16 for bytes.
        X = plain_table(X) if isinstance(X, np.ma.MaskedArray) or X.dtype.kind == "V" else X
    if isinstance(X, np.ndarray) and not _is_native(X.dtype):  # XGBoost would read the bytes in the native order
        X = X.astype(X.dtype.newbyteorder("="))
    fields = X.dtype.names if isinstance(X, np.ndarray) else None
    table: Any = X if fields is None else {name: X[name] for name in fields}
    if _is_mapping(table):
        import pandas as pd

        # By position: pandas would align series by their indices.
        columns = {name: column.array if isinstance(column, pd.Series) else column for name, column in table.items()}
        table = pd.DataFrame({str(name): column for name, column in columns.items()})
    if is_pandas(table):
        new_dtypes = {name: dtype.newbyteorder("=") for name, dtype in table.dtypes.items() if not _is_native(dtype)}
        return table.astype(new_dtypes) if new_dtypes else table
    is_arrow = hasattr(table, "to_batches") or hasattr(table, "to_struct_array")  # a table, or a batch of rows
    is_frame = hasattr(table, "iloc")  # one like pandas'
    return table.to_pandas() if is_arrow and not is_frame else table


def _is_native(dtype: Any) -> bool:
    """Return whether a dtype has this machine's byte order; True for pandas' own dtypes, which have none."""
    return not isinstance(dtype, np.dtype) or dtype.isnative


def _is_mapping(X: Any) -> bool:
    """Return whether ``X`` is a mapping of columns by name."""
    return isinstance(X, Mapping) and not is_sparse(X)  # some sparse matrices are mappings, too


_FORESTS = (RandomForestClassifier, ExtraTreesClassifier)
_MODELS = (*_FORESTS, DecisionTreeClassifier, BaggingClassifier)
_SUPPORTED = "DecisionTree, ExtraTree, RandomForest, ExtraTrees and Bagging (of trees) classifiers"
READ = (
    "children_left", "children_right", "feature", "threshold", "missing_go_to_left", "n_node_samples",
    "weighted_n_node_samples", "value",
)  # fmt: skip
"""Names of the arrays by node that importers read."""
UNDERSTOOD = frozenset({*READ, "impurity", "split_kind", "left_cat_bitset"})  # those whose meaning is known
STORED = frozenset({
    "left_child", "right_child", "feature", "threshold", "impurity", "n_node_samples", "weighted_n_node_samples",
    "missing_go_to_left",
})  # fmt: skip
"""Names of the fields of nodes up to scikit-learn 1.9, where a node is these and nothing else."""
PROBES = 2**22  # instances that a tree is asked about at a time have about as many values
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
    trees = [
        tree_of(model, columns, estimator, seen_columns, _counts(estimator, len(classes)))
        for estimator, seen_columns in members
    ]
    roots = np.stack([tree.leaf_values[0] for tree in trees])
    forest = forest_of(trees, columns, tuple(classes.tolist()), roots)
    return forest if prior is None else forest.with_prior(prior)


def is_read(model: Any) -> bool:
    """Return whether an unfitted model is of a kind that `from_sklearn` imports."""
    if isinstance(model, BaggingClassifier):
        resamples = hasattr(model, "sampling_strategy")  # then it is a bag of pipelines
        return isinstance(getattr(model, "estimator", None), DecisionTreeClassifier | None) and not resamples
    return isinstance(model, _MODELS)


def way_round(model: Any) -> str:
    """Return a text for messages: what to do with ``model``, which `from_sklearn` does not import."""
    if isinstance(model, BaggingClassifier):
        return (
            "Of bags, only bags of single decision trees are forests, and a forest is one already: "
            "RandomForestClassifier(n_estimators, max_samples=share)."
        )
    return next((_WAYS[kind.__name__] for kind in type(model).__mro__ if kind.__name__ in _WAYS), _VALUES)


def check_fitted(model: Any) -> None:
    """Raise a ValueError if ``model``, a model of scikit-learn, is not fitted."""
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ValueError(f"model ({type(model).__name__}) is not fitted; call model.fit(X, y) first.") from error


def _member_trees(model) -> Iterator[tuple[DecisionTreeClassifier, np.ndarray | None]]:
    """Yield (a single tree, the columns of the data that it sees or None for all) for each tree of ``model``.

    An error, as `from_sklearn` documents it, if the model is not imported.
    """
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
    """Return class counts ``[nodes classes]`` of ``estimator``, a single tree; its ensemble has ``n_classes``.

    They are integers if the sample weights are.
    """
    sizes = estimator.tree_.weighted_n_node_samples
    tree_counts = snap_to_integers(estimator.tree_.value[:, 0, :] * sizes[:, None], sizes)
    if len(estimator.classes_) == n_classes:
        return tree_counts
    # The sample of a bagged tree had no row of some class. The tree's own classes are positions among the ensemble's.
    counts = np.zeros((len(tree_counts), n_classes))
    counts[:, np.asarray(estimator.classes_, dtype=np.int64)] = tree_counts
    return counts


def tree_of(
    model: Any, columns: Columns, estimator: Any, where: np.ndarray | None, leaf_values: np.ndarray
) -> ComparingTree:
    """Return the tree of ``estimator``, a single tree, with ``leaf_values [nodes values]`` in its leaves.

    ``estimator`` is ``model`` itself, or one of its trees. ``columns`` are the model's (`columns_of`). ``where`` has
    the columns of the data that the tree sees, None for all. A ValueError if the tree may be read wrongly.
    """
    tree = estimator.tree_
    labels = {}
    codes = None
    _refuse_what_is_unknown(tree)
    is_known_form = _stored_fields(tree) == STORED
    # Trees are asked what their tests of categories do, and whether arrays in an unknown form mean what they say.
    if not is_known_form or _may_test_categories(estimator):
        from ._sklearn_categories import ask_codes, labels_of, nodes_with_sets

        labels = labels_of(model, estimator)
        nodes = nodes_with_sets(estimator, labels, where)
        if len(nodes) or not is_known_form:
            paths = _Paths(tree)
            codes = ask_codes(tree, paths, nodes, labels, PROBES)
            _check_by_asking(tree, paths, codes)
    # A bagged tree numbers the columns that it sees; leaves have -2, which must not index from the end.
    feature = tree.feature if where is None else where[np.maximum(tree.feature, 0)]
    comparing_tree = ComparingTree(
        feature=feature,
        compare=np.full(len(feature), AT_MOST),
        value=tree.threshold,
        left=tree.children_left,
        right=tree.children_right,
        missing_left=tree.missing_go_to_left != 0,
        sets={},
        leaf_values=leaf_values,
    )
    if codes is None:
        return comparing_tree
    from ._sklearn_categories import with_sets

    return with_sets(comparing_tree, codes, labels, where, columns)


def _may_test_categories(estimator: Any) -> bool:
    """Return whether ``estimator``, a single tree, may test categories: only then `_sklearn_categories` is needed."""
    tree = estimator.tree_
    may_have_sets = getattr(estimator, "is_categorical_", None) is not None or hasattr(tree, "split_kind")
    return may_have_sets or bool(np.any(tree.threshold == -np.inf))


def columns_of(model: Any, members: Sequence[tuple[Any, np.ndarray | None]]) -> Columns:
    """Return the columns of the data of ``model``, with the levels of nominal ones.

    ``members`` are its single trees, each with the columns that it sees, as `_member_trees` yields them.
    """
    names = getattr(model, "feature_names_in_", None)
    columns = Columns(int(model.n_features_in_), None if names is None else tuple(map(str, names)))
    if not any(_may_test_categories(estimator) for estimator, _ in members):
        return columns
    from ._sklearn_categories import with_categories

    return with_categories(columns, model, members)


def warn_if_missing_is_lost(model: Any, trees: list[Any]) -> None:
    """Warn if ``model`` is of scikit-learn-intelex, and does not say where missing values go, as before 2026.2.

    Then no node of ``trees``, its low-level trees, sends them left.
    """
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
    """Return the names of the fields that ``tree``, a low-level tree, stores of a node; empty if it does not tell."""
    try:
        return frozenset(tree.__getstate__()["nodes"].dtype.names)
    except (AttributeError, KeyError, TypeError):
        return frozenset()


@lru_cache
def _public_names(kind: type) -> frozenset[str]:
    """Return the names of the members of the class ``kind`` that do not begin with an underline."""
    return frozenset(name for name in dir(kind) if not name.startswith("_"))


def _refuse_what_is_unknown(tree: Any) -> None:
    """Raise a ValueError if ``tree`` lacks an array of `READ`, or has a public array by node beside `UNDERSTOOD`.

    An array is by node if its first axis has an entry for each node. One of a single axis, with as many entries as the
    tree has columns or outputs, is taken for one by column or by output.
    """
    absent = [name for name in READ if not hasattr(tree, name)]
    n_nodes = len(tree.children_left) if "children_left" not in absent else 0  # 0: no array is taken for one by node
    unknown = []
    for name in sorted(_public_names(type(tree)) - UNDERSTOOD):
        array = getattr(tree, name, None)
        if isinstance(array, np.ndarray) and n_nodes > 1 and array.shape[:1] == (n_nodes,):
            may_be_by_column = array.ndim == 1 and n_nodes in (tree.n_features, tree.n_outputs)  # or by output
            if not may_be_by_column:
                unknown.append(name)
    if absent or unknown:
        raise ValueError(
            f"model's trees have arrays by node that this version of jaxunc does not know (unknown: {unknown}, absent: "
            f"{absent}), so its splits might be read wrongly. Upgrade jaxunc, or fit with another scikit-learn."
        )


def _check_by_asking(tree: Any, paths: "_Paths", codes: Any) -> None:
    """Raise a ValueError if ``tree.apply`` sends an instance to another leaf than its public arrays and ``codes`` say.

    ``paths`` makes the instances: for each child one that comes there, and a second that also has values in columns
    that its path does not test; for each test one with a missing value. ``codes`` are the tree's `CodesLeft`.
    """
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    inner = np.flatnonzero(left >= 0)
    if not len(inner):
        return
    chunk_size = max(1, PROBES // int(tree.n_features))
    children = np.concatenate([left[inner], right[inner]])
    # Ways to make instances, and the nodes that they are made for.
    trials = ((paths.reach, children), (paths.mix, children), (paths.add_missing, inner))
    for make_rows, nodes in trials:
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

    Arrays have an entry for each node. ``feature`` is the column that the node tests, and ``parent`` its parent, -1 for
    the root. ``value`` is a number by which the parent sends an instance to the node; ``needs_value`` says whether that
    is needed to come there.
    """

    def __init__(self, tree: Any):
        """Read the arrays of ``tree``, a low-level tree; each value is the float32 next to the parent's threshold."""
        left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
        inner = np.flatnonzero(left >= 0)
        self.n_features = int(tree.n_features)
        self.feature = np.asarray(tree.feature)
        self.parent = np.full(len(left), -1)
        self.parent[left[inner]] = self.parent[right[inner]] = inner
        below = _largest_at_or_below(np.asarray(tree.threshold)[inner])
        # Where the threshold is infinity every number goes left, and only a missing value may go right.
        above = np.where(below == np.inf, np.float32(np.nan), np.nextafter(below, np.float32(np.inf)))
        self.value = np.zeros(len(left), np.float32)
        self.value[left[inner]] = below
        self.value[right[inner]] = above
        self.needs_value = self.parent >= 0
        self.needs_value[left[inner[below == np.inf]]] = False  # a number that tests above ask for comes there, too

    def reach(self, nodes: np.ndarray) -> np.ndarray:
        """Return for each node an instance that reaches it, ``[nodes columns]``: 0 in columns that are not tested."""
        rows = np.zeros((len(nodes), self.n_features), np.float32)
        # The nodes themselves, then their parents, and so on up to the roots; -1 above a root.
        path = [nodes]
        while (parents := np.where(path[-1] >= 0, self.parent[path[-1]], -1)).max() >= 0:
            path.append(parents)
        for level_nodes in reversed(path):  # from the root down: the last test of a column has the last word
            indices = np.flatnonzero((level_nodes >= 0) & self.needs_value[level_nodes])
            children = level_nodes[indices]
            rows[indices, self.feature[self.parent[children]]] = self.value[children]
        return rows

    def mix(self, nodes: np.ndarray) -> np.ndarray:
        """Return the instances of `reach`, with zeros replaced by values that lead to another of ``nodes``."""
        rows = self.reach(nodes)
        other_rows = self.reach(np.roll(nodes, len(nodes) // 3 + 1))  # any other node will do
        return np.where(rows == 0, other_rows, rows)

    def add_missing(self, nodes: np.ndarray) -> np.ndarray:
        """Return the instances of `reach`, each with a missing value in the column that its node of ``nodes`` tests."""
        rows = self.reach(nodes)
        rows[np.arange(len(nodes)), self.feature[nodes]] = np.nan
        return rows


def _largest_at_or_below(thresholds: np.ndarray) -> np.ndarray:
    """Return for each of ``thresholds``, float64, the largest float32 that is not above it."""
    with np.errstate(over="ignore"):
        narrow = thresholds.astype(np.float32)
    return np.where(narrow.astype(np.float64) > thresholds, np.nextafter(narrow, np.float32(-np.inf)), narrow)


def _leaves(tree: Any, rows: np.ndarray, codes: Any) -> np.ndarray:
    """Return the leaf of ``tree`` that each of ``rows`` reaches, by public arrays and ``codes``, its `CodesLeft`."""
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    feature, threshold = np.asarray(tree.feature), np.asarray(tree.threshold)
    missing_left = np.asarray(tree.missing_go_to_left) != 0
    row = np.arange(len(rows))
    node = np.zeros(len(rows), np.int64)  # where each row is, at first the root
    while (is_inner := left[node] >= 0).any():
        value = rows[row, np.maximum(feature[node], 0)]  # leaves have -2
        goes_left = np.where(np.isnan(value), missing_left[node], value <= threshold[node])
        goes_left = codes.decide(node, value, goes_left)
        node = np.where(is_inner, np.where(goes_left, left[node], right[node]), node)
    return node
