"""Importer of XGBoost's models, from their own files."""

from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np

from jaxunc._numerics import order_key_below
from jaxunc.ensembles import TreeEnsemble
from jaxunc.forest import Intervals, TreeNodes, intervals_of_codes
from jaxunc.tables import Columns, Levels

from ._documents import integer, numbers, part, read_document
from ._given_trees import GivenTree, check_tree, ensemble_of
from ._versions import warn_if_newer

_LINKS = {
    **dict.fromkeys(("reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror", "reg:quantileerror"), "identity"),
    **dict.fromkeys(("reg:pseudohubererror", "reg:linear", "binary:logitraw"), "identity"),
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "logistic"),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), "softmax"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), "exp"),
}
_LARGEST_CATEGORY = 2**24


def from_xgboost(model: Any) -> TreeEnsemble:
    """Import an XGBoost model, exactly: every instance reaches the leaf that it reaches there.

    Parameters
    ----------
    model
        A file that ``save_model`` wrote (JSON or UBJSON), its bytes, a ``Booster``, or an ``XGBClassifier``,
        ``XGBRegressor``, ``XGBRFClassifier`` or ``XGBRFRegressor``. XGBoost is not needed for files. Of an estimator
        that stopped early, the trees up to its best iteration, which it predicts with; all trees of anything else.

    Returns
    -------
    TreeEnsemble
        Its ``raw`` is XGBoost's margin. Of several targets each is an output. Columns have the names of training;
        those of categories have their levels, where the file knows them (XGBoost 3.1 on), and else hold codes.

    Raises
    ------
    TypeError
        If ``model`` is of another kind.
    ValueError
        If the estimator is not fitted, the file is damaged, or the model has parts that are not imported: linear
        boosters, DART, vector leaves, objectives of ranking and survival. They are named.

    Warns
    -----
    UntestedVersionWarning
        If a newer XGBoost made the model than was tested.

    Notes
    -----
    XGBoost compares float32, strictly: left where x < t. Categories of a test's set go right; others go left, as do
    codes that are none. A category that was not there in training, which XGBoost refuses, goes left too. What
    a sparse matrix does not store is missing, as it is there (`Columns.absent_is_missing`).

    Trees of a boosted model are no witnesses of one question, so rules for leaf counts do not apply to them as they
    stand; ``recount(model.trees, X, y)`` counts held-out instances in them.
    """
    classes, best = None, None
    if hasattr(model, "get_booster"):
        classes, best, model = _of_estimator(model)
    if hasattr(model, "save_raw"):
        model = bytes(model.save_raw("json"))
    if not isinstance(model, str | PathLike | bytes | bytearray | memoryview):
        raise TypeError(
            f"model is a {type(model).__name__}; pass a Booster, a fitted XGBClassifier or XGBRegressor, or a file of "
            "save_model."
        )
    ensemble = from_xgboost_document(read_document(model, "XGBoost"), classes)
    return ensemble if best is None else ensemble.first_stages(best + 1)


def from_xgboost_document(document: dict, classes: tuple | None = None) -> TreeEnsemble:
    """Return the model of a document that ``save_model`` wrote; errors and warnings are those of `from_xgboost`."""
    if "version" in document:
        warn_if_newer("XGBoost", tuple(numbers(document, "version", np.int64).tolist()))
    return _of_learner(part(document, "learner"), classes)


def _of_estimator(model: Any) -> tuple[tuple | None, int | None, Any]:
    """The labels of an estimator's classes, its best iteration, and its booster."""
    try:
        booster = model.get_booster()
    except Exception as error:  # XGBoost's own NotFittedError is scikit-learn's, where that is installed
        raise ValueError(f"model ({type(model).__name__}) is not fitted; call model.fit(X, y) first.") from error
    classes = tuple(np.asarray(model.classes_).tolist()) if hasattr(model, "classes_") else None
    return classes, getattr(model, "early_stopping_rounds", None) and model.best_iteration, booster


def _of_learner(learner: dict, classes: tuple | None) -> TreeEnsemble:
    booster, objective = part(learner, "gradient_booster"), part(learner, "objective", "name", kind=str)
    name = part(booster, "name", kind=str)
    if name != "gbtree":
        raise ValueError(f"the model's booster is {name!r}; from_xgboost imports 'gbtree', whose trees add up.")
    if objective not in _LINKS:
        raise ValueError(f"the model's objective is {objective!r}; from_xgboost imports {', '.join(sorted(_LINKS))}.")
    params = part(learner, "learner_model_param")
    n_features = integer(params, "num_feature")
    n_classes, n_targets = integer(params, "num_class"), integer(params, "num_target") if "num_target" in params else 1
    n_outputs = max(1, n_classes, n_targets)
    model = part(booster, "model")
    columns = _columns(learner, model, n_features)
    given = part(model, "trees", kind=list)
    if not given:
        raise ValueError("the model has no trees.")
    trees = [_tree(f"tree {t}", tree, columns) for t, tree in enumerate(given)]
    info = numbers(model, "tree_info", np.int64)
    parallel = max(1, integer(model, "gbtree_model_param", "num_parallel_tree"))
    if len(trees) % (n_outputs * parallel):
        raise ValueError(f"the model has {len(trees)} trees, which are not shared out among {n_outputs} outputs.")
    if not np.array_equal(info, np.arange(len(trees)) % (n_outputs * parallel) // parallel):
        raise ValueError(f"the model's trees are for the outputs {info[:9].tolist()}…; expected {parallel} for each.")
    if objective not in ("binary:logistic", "multi:softprob", "multi:softmax") or n_targets > 1:
        classes = None
    elif classes is None:
        classes = tuple(range(max(2, n_outputs)))
    return ensemble_of(
        trees,
        columns,
        _base(params, objective, n_outputs),
        _LINKS[objective],
        trees_per_stage=n_outputs * parallel,
        class_labels=classes,
    )


def _base(params: dict, objective: str, n_outputs: int) -> np.ndarray:
    """What is added to the sums: the base score as the link would have made it."""
    text = part(params, "base_score", kind=(str, int, float))
    try:
        given = np.array([float(one) for one in str(text).strip("[]").split(",")], np.float32)
    except ValueError:
        raise ValueError(f"the model's base_score is {text!r:.60}; expected numbers.") from None
    if len(given) not in (1, n_outputs):
        raise ValueError(f"the model's base_score has {len(given)} numbers for {n_outputs} outputs.")
    with np.errstate(divide="ignore", invalid="ignore"):
        if objective in ("binary:logistic", "reg:logistic", "binary:logitraw"):
            given = -np.log(np.float32(1) / given - np.float32(1))
        elif _LINKS[objective] == "exp":
            given = np.log(given)
    return np.broadcast_to(given, (n_outputs,))


def _columns(learner: dict, model: dict, n_features: int) -> Columns:
    if not 0 < n_features <= _LARGEST_CATEGORY:
        raise ValueError(f"the model claims {n_features} columns.")
    names = learner.get("feature_names") or None
    kinds = learner.get("feature_types") or None
    # Nothing is made of columns that a few bytes claim.
    for name, given in (("feature_names", names), ("feature_types", kinds)):
        if given is None:
            continue
        if not isinstance(given, list) or len(given) != n_features or not all(isinstance(one, str) for one in given):
            raise ValueError(f"the model's {name} are {given!r:.60}; expected {n_features} strings.")
    nominal = tuple(kind == "c" for kind in kinds or ())
    if not any(nominal):
        return Columns(n_features, None if names is None else tuple(names), absent_is_missing=True)
    levels = _levels(model, nominal)
    return Columns(n_features, None if names is None else tuple(names), nominal, levels, absent_is_missing=True)


def _levels(model: dict, nominal: tuple[bool, ...]) -> tuple[Levels | None, ...] | None:
    """The categories of training, in the order of their codes, where the model was fitted to a frame with them."""
    known = model.get("cats")
    if not isinstance(known, dict) or not known.get("enc"):
        return None
    encoded = part(known, "enc", kind=list)
    if len(encoded) != len(nominal):
        raise ValueError(f"the model has categories for {len(encoded)} columns of {len(nominal)}.")
    return tuple(_column_levels(own) if is_nominal else None for own, is_nominal in zip(encoded, nominal, strict=True))


def _column_levels(encoded: Any) -> Levels | None:
    if not isinstance(encoded, dict) or "offsets" not in encoded:
        found = tuple(np.asarray(part(encoded, "values", kind=(list, np.ndarray))).tolist())
    else:
        ends = numbers(encoded, "offsets", np.int64)
        # Strings as bytes, one behind the other.
        text = bytes(numbers(encoded, "values", np.int64).astype(np.uint8))
        if len(ends) and (ends[0] != 0 or ends[-1] != len(text) or np.any(np.diff(ends) < 0)):
            raise ValueError("the model's categories have ends that are no parts of their text.")
        found = tuple(text[a:b].decode("utf-8") for a, b in pairwise(ends.tolist()))
    return Levels(found, has_missing=True) if found else None


def _tree(what: str, tree: Any, columns: Columns) -> GivenTree:
    part({what: tree}, what)
    if integer(tree, "tree_param", "size_leaf_vector") > 1:
        raise ValueError("the model has leaves that hold vectors (multi_output_tree); grow one tree for each output.")
    left, right = numbers(tree, "left_children", np.int64), numbers(tree, "right_children", np.int64)
    feature, split = numbers(tree, "split_indices", np.int64), numbers(tree, "split_conditions", np.float32)
    default_left = numbers(tree, "default_left", np.int64) != 0
    nodes = TreeNodes(feature, order_key_below(split), left, right, ~default_left)
    check_tree(what, nodes, columns.number)
    return GivenTree(nodes, split[:, None], _set_tests(what, tree, nodes, columns))


def _set_tests(what: str, tree: dict, nodes: TreeNodes, columns: Columns) -> dict[int, Intervals]:
    kinds = numbers(tree, "split_type", np.int64) if "split_type" in tree else np.zeros(len(nodes.left), np.int64)
    places = np.flatnonzero(kinds == 1) if len(kinds) == len(nodes.left) else np.array([-1])
    places = places[nodes.left[places] >= 0]
    if not len(places):
        return {}
    of, first, size = (numbers(tree, f"categories_{name}", np.int64) for name in ("nodes", "segments", "sizes"))
    codes = numbers(tree, "categories", np.int64)
    if not (len(of) == len(first) == len(size)) or np.any(first < 0) or np.any(first + size > len(codes)):
        raise ValueError(f"{what} has sets of categories that do not lie among its categories.")
    if np.any(codes < 0) or np.any(codes >= _LARGEST_CATEGORY) or np.any(size < 0):
        raise ValueError(f"{what} has a set with categories that are no codes.")
    where = {int(node): codes[a : a + n] for node, a, n in zip(of, first, size, strict=True)}
    if not set(places.tolist()) <= set(where):
        raise ValueError(f"{what} has a test of categories without a set.")
    return {
        int(i): _set_test(where[int(i)], columns, int(nodes.feature[i]), not nodes.missing_right[i]) for i in places
    }


def _set_test(codes: np.ndarray, columns: Columns, j: int, missing_left: bool) -> Intervals:
    """A test whose set goes right; where missing values have a code of their own, that goes where they go."""
    levels = columns.levels[j] if columns.levels is not None else None
    codes = np.unique(codes)
    if levels is not None and not missing_left:
        codes = np.union1d(codes, [len(levels.values)])
    test = intervals_of_codes(codes, order_key_below(codes), order_key_below(codes + 1), missing_left)
    return test._replace(goes_left=~test.goes_left)
