"""Importer of scikit-learn's models whose leaves hold values: boosting, trees and forests of regressors."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import sklearn
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor

from jaxunc.additive import AdditiveTrees
from jaxunc.forest import Trees
from jaxunc.tables import Columns, Levels

from ._comparing_trees import AT_MOST, IN_SET, NOT_IN_SET, ComparingTree, ensemble_of, set_of_codes
from ._sklearn import check_fitted, columns_of, tree_of, warn_if_missing_is_lost

_HISTOGRAM_MODELS = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
GROWN = (RandomForestRegressor, ExtraTreesRegressor, BaggingRegressor, DecisionTreeRegressor)
"""Regressors whose leaves answer a statistic of the rows that grew them, by default the mean."""
_BOOSTED = (GradientBoostingClassifier, GradientBoostingRegressor)
_FORESTS = (RandomForestRegressor, ExtraTreesRegressor)
_CONSTANT = ("prior", "most_frequent", "uniform", "constant")  # strategies that answer the same for all instances
_CLASSIFIER_LOSSES = ("log_loss", "exponential")
_REGRESSOR_LOSSES = ("squared_error", "absolute_error", "huber", "quantile")
_TREE_MODELS = (*_BOOSTED, *_FORESTS, DecisionTreeRegressor)
ALL_VALUE_MODELS = (*_TREE_MODELS, *_HISTOGRAM_MODELS)  # the kinds of models that `from_sklearn_values` takes
_SUPPORTED = ", ".join(kind.__name__ for kind in ALL_VALUE_MODELS)
_LINKS = {"IdentityLink": "identity", "LogLink": "exp", "LogitLink": "logistic", "MultinomialLogit": "softmax"}
_FIELDS = (
    "value", "feature_idx", "num_threshold", "missing_go_to_left", "left", "right", "is_leaf", "is_categorical",
    "bitset_idx",
)  # fmt: skip
"""Fields of nodes that are read in models of histogram-based boosting (histogram-based models below)."""
_PARTS = ("_predictors", "_baseline_prediction", "_preprocessor", "_loss", "n_features_in_")
"""Attributes that are read of histogram-based models."""


def from_sklearn_values(model: Any) -> AdditiveTrees:
    """Import a fitted scikit-learn model whose leaves hold values, exactly: each instance reaches its leaf there.

    Parameters
    ----------
    model
        A fitted ``HistGradientBoostingClassifier``, ``HistGradientBoostingRegressor``, ``GradientBoostingClassifier``,
        ``GradientBoostingRegressor``, ``RandomForestRegressor``, ``ExtraTreesRegressor``, ``DecisionTreeRegressor`` or
        ``ExtraTreeRegressor``. Several outputs, early stopping, missing values, categories, sample weights.

    Returns
    -------
    AdditiveTrees
        Its ``predict`` is scikit-learn's ``predict_proba`` for classifiers, ``predict`` for regressors. Its ``raw`` is
        the ``decision_function``, for the exponential loss twice that.

    Raises
    ------
    TypeError
        If ``model`` is of another kind.
    ValueError
        If ``model`` is not fitted, its loss is unknown, or its ``init`` is a model that answers more than a constant.
        If trees (not histogram-based ones) test categories by a hash or are of an unknown form, as `from_sklearn` says.
        If a column of categories had both None and NaN in training, which scikit-learn tells apart.
        If this scikit-learn keeps the trees of histogram-based boosting, which have no public form, in another form.

    Warns
    -----
    UserWarning
        As `from_sklearn`, for forests of scikit-learn-intelex.

    Notes
    -----
    scikit-learn tests ``float32(x) <= t`` with a float64 threshold: thresholds are rounded down to float32, which
    changes no answer. Histogram-based boosting compares float64; there columns with categories have them as levels. If
    None was among these in training, scikit-learn takes it for a category; here NaN counts as that category, too.

    A missing value goes where scikit-learn learned it to go. If no training row at a node had one, it goes to the child
    that more of these rows went to, as in scikit-learn.
    """
    name = type(model).__name__
    if isinstance(model, _HISTOGRAM_MODELS):
        return _of_histograms(model)
    if not isinstance(model, _TREE_MODELS):
        raise TypeError(f"model is a {name}; expected one of {_SUPPORTED}.")
    check_fitted(model)
    if isinstance(model, _BOOSTED):
        return _boosted(model)
    members = model.estimators_ if isinstance(model, _FORESTS) else [model]
    warn_if_missing_is_lost(model, [member.tree_ for member in members])
    columns = columns_of(model, [(member, None) for member in members])
    share = 1 / len(members)
    trees = _member_trees(model, columns, members, share)
    return ensemble_of(trees, columns, np.zeros(trees[0].leaf_values.shape[1]), "identity", averaged=True)


def _member_trees(model: Any, columns: Columns, members: Sequence[Any], factor: float) -> list[ComparingTree]:
    """Return ``members``, trees of ``model`` that see all ``columns``, with leaf values multiplied by ``factor``."""
    return [
        tree_of(model, columns, member, where=None, leaf_values=member.tree_.value[:, :, 0] * factor)
        for member in members
    ]


class GrownLeaves(NamedTuple):
    """Statistics of the rows that each leaf of a scikit-learn regressor was grown on, ``[trees nodes]``, float64."""

    trees: Trees
    size: np.ndarray  # the rows' weight, each counted as often as it was drawn
    value: np.ndarray  # the number that the leaf predicts
    impurity: np.ndarray  # the impurity by the model's criterion; the variance for squared errors


def grown_leaves(model: Any) -> GrownLeaves:
    """Return the leaves of ``model``, a fitted tree, forest or bag of scikit-learn that predicts one number.

    A TypeError or a ValueError for other models, as `from_sklearn_values` raises, and for several outputs.
    """
    name = type(model).__name__
    if not isinstance(model, GROWN):
        raise TypeError(f"model is a {name}; expected a forest, bag or tree of scikit-learn that predicts numbers.")
    check_fitted(model)
    members = list(getattr(model, "estimators_", [model]))
    if wrong := [type(member).__name__ for member in members if not isinstance(member, DecisionTreeRegressor)]:
        raise TypeError(
            f"model is a {name} of {wrong[0]}; expected one of DecisionTreeRegressor or ExtraTreeRegressor."
        )
    if members[0].tree_.value.shape[1] > 1:
        raise ValueError(f"model predicts {members[0].tree_.value.shape[1]} numbers; fit one model for each.")
    trees = [member.tree_ for member in members]
    warn_if_missing_is_lost(model, trees)
    seen_columns = getattr(model, "estimators_features_", [None] * len(members))
    columns = columns_of(model, list(zip(members, seen_columns, strict=True)))
    # Leaf values are the leaves' own indices, exact in float32 up to 2^24: they tell where `ensemble_of` puts leaves.
    node_numbers = [np.arange(tree.node_count, dtype=np.float64)[:, None] for tree in trees]
    comparing_trees = [
        tree_of(model, columns, member, where, leaf_values)
        for member, where, leaf_values in zip(members, seen_columns, node_numbers, strict=True)
    ]
    ensemble = ensemble_of(comparing_trees, columns, np.zeros(1), "identity", averaged=True)
    index = np.asarray(ensemble.values)[:, :, 0].astype(np.int64)  # scikit-learn's index of each leaf, [trees nodes]

    def by_node(arrays: list[np.ndarray]) -> np.ndarray:
        """Return arrays ``[nodes]``, one of each tree in scikit-learn's order, as ``[trees nodes]``."""
        return np.stack([array[tree_index] for array, tree_index in zip(arrays, index, strict=True)])

    return GrownLeaves(
        trees=ensemble.trees,
        size=by_node([tree.weighted_n_node_samples for tree in trees]),
        value=by_node([tree.value[:, 0, 0] for tree in trees]),
        impurity=by_node([tree.impurity for tree in trees]),
    )


def _boosted(model: Any) -> AdditiveTrees:
    """Return the additive trees of ``model``, a fitted gradient boosting model; leaf values include the learning rate.

    A ValueError for a loss or an ``init`` that is not imported.
    """
    is_classifier = isinstance(model, GradientBoostingClassifier)
    losses = _CLASSIFIER_LOSSES if is_classifier else _REGRESSOR_LOSSES
    if model.loss not in losses:
        raise ValueError(f"model's loss is {model.loss!r}; known are {', '.join(losses)}. Upgrade jaxunc.")
    members = np.asarray(model.estimators_)
    n_outputs = members.shape[1]
    # This loss's probabilities are logistic in twice the sum. `_loss` is of the fit: set_params does not change it.
    scale = 2.0 if type(model._loss).__name__ == "ExponentialLoss" else 1.0
    factor = model.learning_rate * scale
    columns = columns_of(model, [(member, None) for member in members.ravel()])
    trees = _member_trees(model, columns, list(members.ravel()), factor)
    if is_classifier:
        link = "logistic" if n_outputs == 1 else "softmax"
        labels = tuple(np.asarray(model.classes_).tolist())
    else:
        link = "identity"
        labels = None
    base = _base(model, members) * scale
    return ensemble_of(trees, columns, base, link, trees_per_stage=n_outputs, class_labels=labels)


def _base(model: Any, members: np.ndarray) -> np.ndarray:
    """Return the numbers ``[outputs]`` that ``model``, a gradient boosting model, adds to the sums of its trees.

    ``members [stages outputs]`` are its single trees. A ValueError if its ``init`` answers more than a constant.
    """
    init = model.init_
    if not (isinstance(init, str) and init == "zero"):
        if not isinstance(init, DummyClassifier | DummyRegressor):
            raise ValueError(
                f"model's init is a {type(init).__name__}, whose answers differ by instance; only constants are added "
                "to trees. Fit with init=None or init='zero'."
            )
        if isinstance(init, DummyClassifier) and init.strategy not in _CONSTANT:
            raise ValueError(f"model's init draws at random (strategy={init.strategy!r}); fit with init=None.")
    # The answer to any one instance, less the values of the leaves that it reaches, is what all answers have besides.
    instance = np.zeros((1, model.n_features_in_), np.float32)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        raw = model.decision_function(instance) if hasattr(model, "classes_") else model.predict(instance)

    def leaf_value(tree: Any) -> float:
        """Return the value of the leaf that the instance reaches in a low-level tree."""
        return tree.value[tree.apply(instance)[0], 0, 0]

    leaf_values = [[leaf_value(member.tree_) for member in stage] for stage in members]  # [stages outputs]
    return np.asarray(raw, np.float64).ravel() - model.learning_rate * np.sum(leaf_values, axis=0)


def _of_histograms(model: Any) -> AdditiveTrees:
    """Return the additive trees of ``model``, a histogram-based one; a ValueError for an unknown form.

    Categories that training did not have go where missing values go.
    """
    if not hasattr(model, "_predictors"):
        raise ValueError(f"model ({type(model).__name__}) is not fitted; call model.fit(X, y) first.")
    if absent := [part for part in _PARTS if not hasattr(model, part)]:
        raise ValueError(f"{_unknown_form()} (no {', '.join(absent)}).")
    link = type(getattr(model._loss, "link", None)).__name__
    if link not in _LINKS:
        raise ValueError(f"the model's loss {type(model._loss).__name__} has a {link}; expected {', '.join(_LINKS)}.")
    columns, order = _histogram_columns(model)
    base = np.asarray(model._baseline_prediction, np.float64).ravel()
    if any(len(stage) != len(base) for stage in model._predictors):
        raise ValueError(f"{_unknown_form()} (iterations of other than {len(base)} trees).")
    stage_trees = [tree for stage in model._predictors for tree in stage]
    if not stage_trees:
        raise ValueError("the model has no trees.")
    trees = [_histogram_tree(f"tree {t}", tree, columns, order) for t, tree in enumerate(stage_trees)]
    labels = getattr(model, "classes_", None)
    classes = None if labels is None else tuple(np.asarray(labels).tolist())
    n_expected = max(2, len(base))  # two classes have one sum
    if classes is not None and len(classes) != n_expected:
        raise ValueError(f"model has {len(classes)} classes, and its trees are for {n_expected}. Fit it to as many.")
    return ensemble_of(trees, columns, base, _LINKS[link], trees_per_stage=len(base), class_labels=classes)


def _unknown_form() -> str:
    """Return the beginning of messages about a model whose attributes or arrays are of an unknown form."""
    return f"scikit-learn {sklearn.__version__} keeps the model's trees in another form than is known"


def _histogram_columns(model: Any) -> tuple[Columns, np.ndarray]:
    """Return (columns of the data of ``model``, a histogram-based one; the column of each feature of its trees).

    Trees have categorical features first. A ValueError for columns with both None and NaN.
    """
    n_columns = int(model.n_features_in_)
    names = getattr(model, "feature_names_in_", None)
    names = None if names is None else tuple(names.tolist())
    if model._preprocessor is None:
        return Columns(n_columns, names, cuts=((),) * n_columns), np.arange(n_columns)
    is_categorical = np.asarray(model.is_categorical_, bool)
    encoders = getattr(model._preprocessor, "named_transformers_", {})
    categories = getattr(encoders.get("encoder"), "categories_", ())
    if len(is_categorical) != n_columns or len(categories) != np.count_nonzero(is_categorical):
        raise ValueError(f"{_unknown_form()} (categories of {len(categories)} columns).")
    column_of_feature = np.argsort(~is_categorical, kind="stable")
    levels: list[Levels | None] = [None] * n_columns
    for j, column_categories in zip(column_of_feature[: len(categories)].tolist(), categories, strict=True):
        values = np.asarray(column_categories).tolist()
        # The encoder lists None and NaN last. None is a category of the trees, too; NaN is missing there.
        has_nan = bool(values) and isinstance(values[-1], float) and values[-1] != values[-1]
        if has_nan and values[-2:-1] == [None]:
            raise ValueError(
                f"column {j} had None and NaN in training, which scikit-learn tells apart, and here both are missing. "
                "Fit with one of them: frame.fillna(np.nan)."
            )
        has_none = values[-1:] == [None]
        levels[j] = Levels(tuple(values[:-1] if has_nan or has_none else values), has_missing=has_none)
    cuts = tuple(() if level_list is None else None for level_list in levels)
    return Columns(n_columns, names, tuple(is_categorical.tolist()), tuple(levels), cuts=cuts), column_of_feature


def _histogram_tree(what: str, tree: Any, columns: Columns, order: np.ndarray) -> ComparingTree:
    """Return ``tree``, one of a histogram-based model, as a `ComparingTree`; the data have ``columns``.

    ``order`` has the column of each feature of the tree. A ValueError, which calls it ``what``, for an unknown form.
    """
    nodes = tree.nodes
    if absent := [name for name in _FIELDS if name not in (nodes.dtype.names or ())]:
        raise ValueError(f"{_unknown_form()} (nodes without {', '.join(absent)}).")
    is_leaf = nodes["is_leaf"] != 0
    left, right = (np.where(is_leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    feature = np.where(is_leaf, 0, nodes["feature_idx"].astype(np.int64))
    if feature.min() < 0 or feature.max() >= columns.number:
        raise ValueError(f"{what} tests column {feature.max()} of {columns.number}.")
    feature = order[feature]
    missing_left = nodes["missing_go_to_left"] != 0
    compare = np.full(len(feature), AT_MOST)
    sets = {}
    for i in np.flatnonzero(~is_leaf & (nodes["is_categorical"] != 0)).tolist():
        levels = None if columns.levels is None else columns.levels[feature[i]]
        if levels is None or nodes["bitset_idx"][i] >= len(tree.raw_left_cat_bitsets):
            raise ValueError(f"{what} tests categories of column {feature[i]}, which has none.")
        # Whether each category goes left: a bit each, from the lowest of the first word on.
        words = np.asarray(tree.raw_left_cat_bitsets[nodes["bitset_idx"][i]], "<u4")
        n_categories = len(levels.values) + levels.has_missing
        goes_left = np.unpackbits(words.view(np.uint8), bitorder="little")[:n_categories] != 0
        # What is no category goes where missing values go: the set holds the categories of the other side.
        compare[i] = NOT_IN_SET if missing_left[i] else IN_SET
        sets[i] = set_of_codes(np.flatnonzero(goes_left != missing_left[i]))
    return ComparingTree(
        feature=feature,
        compare=compare,
        value=nodes["num_threshold"].copy(),
        left=left,
        right=right,
        missing_left=missing_left,
        sets=sets,
        leaf_values=nodes["value"][:, None],
    )
