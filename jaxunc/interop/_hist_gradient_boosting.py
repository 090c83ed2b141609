"""Importer of scikit-learn's histogram-based gradient boosting."""

from typing import Any

import numpy as np
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from jaxunc.additive import AdditiveTrees
from jaxunc.forest import TreeNodes
from jaxunc.tables import Columns, Levels

from ._given_trees import check_tree, ensemble_of
from ._wide_tests import WideTest, WideTree, with_cuts

HISTOGRAM_MODELS = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
_LINKS = {"IdentityLink": "identity", "LogLink": "exp", "LogitLink": "logistic", "MultinomialLogit": "softmax"}
_FIELDS = (
    "value",
    "feature_idx",
    "num_threshold",
    "missing_go_to_left",
    "left",
    "right",
    "is_leaf",
    "is_categorical",
    "bitset_idx",
)
_PARTS = ("_predictors", "_baseline_prediction", "_preprocessor", "_loss", "n_features_in_")


def from_hist_gradient_boosting(model: Any) -> AdditiveTrees:
    """Import a HistGradientBoostingClassifier or -Regressor, exactly.

    Parameters
    ----------
    model
        The fitted model. All its iterations count, as in its own predictions.

    Returns
    -------
    AdditiveTrees
        Its ``raw`` is scikit-learn's raw prediction. Categorical columns have their categories as levels.

    Raises
    ------
    TypeError
        If ``model`` is of another kind.
    ValueError
        If it is not fitted, if its loss has a link that is not imported, or if this scikit-learn keeps its trees in
        another form, which has no public one.

    Notes
    -----
    scikit-learn compares float64: left where x <= t. A missing value, and a category that was not there in training, go
    where the node sends missing values.
    """
    if not isinstance(model, HISTOGRAM_MODELS):
        raise TypeError(
            f"model is a {type(model).__name__}; pass a HistGradientBoostingClassifier or a "
            "HistGradientBoostingRegressor."
        )
    if not hasattr(model, "_predictors"):
        raise ValueError(f"model ({type(model).__name__}) is not fitted; call model.fit(X, y) first.")
    if absent := [part for part in _PARTS if not hasattr(model, part)]:
        raise ValueError(f"{_another_form()} (no {', '.join(absent)}).")
    link = type(getattr(model._loss, "link", None)).__name__
    if link not in _LINKS:
        raise ValueError(f"the model's loss {type(model._loss).__name__} has a {link}; expected {', '.join(_LINKS)}.")
    columns, order = _columns(model)
    base = np.asarray(model._baseline_prediction, np.float64).ravel()
    if any(len(stage) != len(base) for stage in model._predictors):
        raise ValueError(f"{_another_form()} (iterations of other than {len(base)} trees).")
    given = [tree for stage in model._predictors for tree in stage]
    if not given:
        raise ValueError("the model has no trees.")
    trees, columns = with_cuts([_tree(f"tree {t}", tree, columns, order) for t, tree in enumerate(given)], columns)
    labels = getattr(model, "classes_", None)
    classes = None if labels is None else tuple(np.asarray(labels).tolist())
    if classes is not None and len(classes) != max(2, len(base)):
        raise ValueError(f"the model has {len(classes)} classes, and {len(base)} trees in each iteration.")
    return ensemble_of(trees, columns, base, _LINKS[link], trees_per_stage=len(base), class_labels=classes)


def _another_form() -> str:
    return f"scikit-learn {sklearn.__version__} keeps the model's trees in another form than is known"


def _columns(model: Any) -> tuple[Columns, np.ndarray]:
    """The columns of data, and which of them each feature of the trees is: categorical ones come first."""
    number = int(model.n_features_in_)
    names = getattr(model, "feature_names_in_", None)
    names = None if names is None else tuple(names.tolist())
    if model._preprocessor is None:
        return Columns(number, names), np.arange(number)
    is_categorical = np.asarray(model.is_categorical_, bool)
    encoders = getattr(model._preprocessor, "named_transformers_", {})
    categories = getattr(encoders.get("encoder"), "categories_", ())
    if len(is_categorical) != number or len(categories) != np.count_nonzero(is_categorical):
        raise ValueError(f"{_another_form()} (categories of {len(categories)} columns).")
    order = np.argsort(~is_categorical, kind="stable")
    levels: list[Levels | None] = [None] * number
    for j, known in zip(order[: len(categories)].tolist(), categories, strict=True):
        values = np.asarray(known).tolist()
        # NaN, always the last, is a category of the encoder's, and none of the trees'.
        has_nan = bool(values) and isinstance(values[-1], float) and values[-1] != values[-1]
        levels[j] = Levels(tuple(values[:-1] if has_nan else values), has_missing=False)
    return Columns(number, names, tuple(is_categorical.tolist()), tuple(levels)), order


def _tree(what: str, tree: Any, columns: Columns, order: np.ndarray) -> WideTree:
    given = tree.nodes
    if absent := [name for name in _FIELDS if name not in (given.dtype.names or ())]:
        raise ValueError(f"{_another_form()} (nodes without {', '.join(absent)}).")
    is_leaf = given["is_leaf"] != 0
    left, right = (np.where(is_leaf, -1, given[side].astype(np.int64)) for side in ("left", "right"))
    feature = np.where(is_leaf, 0, given["feature_idx"].astype(np.int64))
    nodes = TreeNodes(feature, given["num_threshold"].copy(), left, right, given["missing_go_to_left"] == 0)
    check_tree(what, nodes, columns.number)
    nodes = nodes._replace(feature=order[feature])
    tests = {}
    for i in np.flatnonzero(~is_leaf & (given["is_categorical"] != 0)).tolist():
        levels = (columns.levels or (None,) * columns.number)[nodes.feature[i]]
        if levels is None or given["bitset_idx"][i] >= len(tree.raw_left_cat_bitsets):
            raise ValueError(f"{what} tests categories of column {nodes.feature[i]}, which has none.")
        words = np.asarray(tree.raw_left_cat_bitsets[given["bitset_idx"][i]], "<u4")
        in_set = np.unpackbits(words.view(np.uint8), bitorder="little")[: len(levels.values)] != 0
        tests[i] = _set_test(in_set, bool(given["missing_go_to_left"][i]))
    return WideTree(nodes, given["value"][:, None], tests)


def _set_test(in_set: np.ndarray, missing_left: bool) -> WideTest:
    """A test of codes whose set goes left; codes below and above are no categories, and count as missing."""
    upper = np.arange(-1, len(in_set), dtype=np.float64)
    return WideTest(upper, np.concatenate([[missing_left], in_set, [missing_left]]), missing_left)
