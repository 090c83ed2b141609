"""Importer of XGBoost's models, from their own files."""

import json
from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np

from jaxunc._checks import warn
from jaxunc.additive import AdditiveTrees
from jaxunc.tables import Columns, Levels

from ._comparing_trees import BELOW, NOT_IN_SET, ComparingTree, check_number_of_columns, ensemble_of, set_of_codes
from ._documents import integer, numbers, part, read_document, warn_if_newer

_LINKS = {  # by objective
    **dict.fromkeys(("reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror", "reg:quantileerror"), "identity"),
    **dict.fromkeys(("reg:expectileerror", "reg:pseudohubererror", "reg:linear", "binary:logitraw"), "identity"),
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "logistic"),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), "softmax"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), "exp"),
}
_LARGEST_CATEGORY = 2**24  # codes are below it, and so exact as float32
_MARGINS = (1, 3)  # the first version whose base score of ``binary:logitraw`` is a margin; before it was a probability
_SORTED = (3, 4)  # the first version that sorts an instance's quantiles, where a model predicts several
_CUT_WORDS = (3, 1), (3, 4)
"""From the first of these versions on, and before the second, XGBoost cuts bytes off words that are not ASCII."""


def from_xgboost(model: Any) -> AdditiveTrees:
    """Import an XGBoost model, exactly: every instance reaches the leaf that it reaches there.

    Parameters
    ----------
    model
        A file that ``save_model`` wrote (JSON or UBJSON), its bytes, a ``Booster``, or an ``XGBClassifier`` or
        ``XGBRegressor``, forests (``num_parallel_tree``) with them. XGBoost is not needed for files. An estimator or
        a file that has a best iteration gives the trees up to it, with which XGBoost's estimators predict; a
        ``Booster`` gives all, as ``Booster.predict``.

    Returns
    -------
    AdditiveTrees
        Its ``raw`` is XGBoost's margin. Each of several targets is an output. Leaves that hold vectors
        (``multi_strategy="multi_output_tree"``) hold a value for each output. Columns have the names of training;
        those of categories have their levels, where the file knows them (XGBoost 3.1 on), and else hold codes.

    Raises
    ------
    TypeError
        If ``model`` is of another kind.
    ValueError
        If the estimator is not fitted, the file is damaged, or the model has parts that are not imported: linear
        boosters, several quantiles of XGBoost 3.4, objectives of ranking and survival. They are named. Also if the
        estimator's ``missing`` is a number, or if categories are words outside of ASCII, of which XGBoost 3.1 to 3.3
        keep a part.

    Warns
    -----
    UntestedVersionWarning
        If a newer XGBoost made the model than was tested.
    UserWarning
        If a file has trees behind its best iteration, which are left out.

    Notes
    -----
    NaN is the missing value. Where training took another number for it, write NaN in its place when the model is asked.
    An estimator with such a number (``missing=``) is refused; a model fitted to a ``DMatrix`` with one does not tell.

    XGBoost compares float32, strictly: left where x < t. Categories of a test's set go right; others go left, as do
    numbers that are not codes. A category that was not there in training, which XGBoost refuses, goes left too. What
    a sparse matrix does not store is missing, as in XGBoost (`Columns.absent_is_missing`).

    Combiners, which read leaf counts, do not apply to the imported model. ``count_leaves(model.trees, X, y)`` counts
    held-out instances in its trees.
    """
    if isinstance(model, str | PathLike | bytes | bytearray | memoryview):
        return from_xgboost_document(read_document(model, "XGBoost"))
    classes = None
    is_estimator = hasattr(model, "get_booster")
    if is_estimator:
        classes, model = _of_estimator(model)
    if not hasattr(model, "save_raw"):
        raise TypeError(
            f"model is a {type(model).__name__}; pass a Booster, a fitted XGBClassifier or XGBRegressor, or a file of "
            "save_model."
        )
    document = read_document(bytes(model.save_raw("json")), "XGBoost")
    all_trees, n_best = _of_document(document, classes)
    return all_trees.first_stages(n_best) if is_estimator and n_best else all_trees


def from_xgboost_document(document: dict) -> AdditiveTrees:
    """Return the model of ``document``, the content of a file; errors and warnings are those of `from_xgboost`."""
    all_trees, n_best = _of_document(document, classes=None)
    _check_missing(_attributes(document["learner"]).get("missing"), "Load it into a Booster, import that")
    n_all = all_trees.n_trees // all_trees.trees_per_stage
    if n_best in (None, n_all):
        return all_trees
    warn(
        f"the file says that its best iteration is {n_best - 1}: the first {n_best} of {n_all} are imported, which "
        "XGBoost's estimators predict with. Booster.predict adds all of them: pass the Booster for these."
    )
    return all_trees.first_stages(n_best)


def _of_estimator(model: Any) -> tuple[tuple | None, Any]:
    """Return (class labels or None, booster) of ``model``, an estimator of XGBoost.

    A ValueError if it is not fitted, or takes a number for a missing value.
    """
    try:
        booster = model.get_booster()
    except Exception as error:  # XGBoost's own NotFittedError is scikit-learn's, where that is installed
        raise ValueError(f"model ({type(model).__name__}) is not fitted; call model.fit(X, y) first.") from error
    _check_missing(getattr(model, "missing", None), "Call model.set_params(missing=np.nan), import that")
    labels = tuple(np.asarray(model.classes_).tolist()) if hasattr(model, "classes_") else None
    return labels, booster


def _check_missing(missing: Any, remedy: str) -> None:
    """Raise a ValueError, with the advice ``remedy``, unless ``missing``, a mark of missing values, is NaN or None."""
    if not (missing is None or missing != missing):
        raise ValueError(
            f"the estimator takes {missing!r:.30} for a missing value (missing=), and here NaN alone is one. {remedy}, "
            "and write NaN in the place of this number in the data: np.where(X == number, np.nan, X)."
        )


def _of_document(document: dict, classes: tuple | None) -> tuple[AdditiveTrees, int | None]:
    """Return (the model of all trees in ``document``, the number of iterations up to the best one, or None).

    ``classes`` are the labels of an estimator's classes, or None.
    """
    version = tuple(numbers(document, "version", np.int64).tolist()) if "version" in document else ()
    warn_if_newer("XGBoost", version)
    learner = part(document, "learner")
    all_trees = _of_learner(learner, version, classes)
    attributes = _attributes(learner)
    if "best_iteration" not in attributes:
        return all_trees, None
    n_best = integer(attributes, "best_iteration") + 1
    n_all = all_trees.n_trees // all_trees.trees_per_stage
    if n_best > n_all:
        raise ValueError(
            f"the model says that its best iteration is {n_best - 1}, and has {n_all}; XGBoost's estimators refuse it, "
            "too. Take the attribute away: booster.set_attr(best_iteration=None)."
        )
    return all_trees, n_best if n_best > 0 else None  # XGBoost takes 0 iterations for all


def _of_learner(learner: dict, version: tuple[int, ...], classes: tuple | None) -> AdditiveTrees:
    """Return the model of all trees of a document's ``learner``; a ValueError for what is not imported.

    ``version`` is XGBoost's. ``classes`` are the labels of an estimator's classes, or None.
    """
    booster = part(learner, "gradient_booster")
    objective = part(learner, "objective", "name", kind=str)
    name = part(booster, "name", kind=str)
    if name not in ("gbtree", "dart"):
        raise ValueError(f"the model's booster is {name!r:.60}; from_xgboost imports 'gbtree' and 'dart'.")
    if objective not in _LINKS:
        raise ValueError(f"the objective is {objective!r:.60}; from_xgboost imports {', '.join(sorted(_LINKS))}.")
    params = part(learner, "learner_model_param")
    n_features = integer(params, "num_feature")
    n_classes = integer(params, "num_class")
    n_targets = integer(params, "num_target") if "num_target" in params else 1
    n_outputs = max(1, n_classes, n_targets)
    model = part(booster, "model") if name == "gbtree" else part(booster, "gbtree", "model")
    columns = _columns(learner, model, n_features, version)
    documents = part(model, "trees", kind=list)
    if not documents:
        raise ValueError("the model has no trees.")
    if objective == "reg:expectileerror" and n_outputs > 1:
        raise ValueError("the model has several expectiles, whose trees add differences; fit a model for each.")
    if objective == "reg:quantileerror" and n_outputs > 1 and version >= _SORTED:
        raise ValueError("the model has several quantiles, which XGBoost sorts from 3.4 on; fit a model for each.")
    trees = [_tree(f"tree {t}", tree, columns, n_outputs) for t, tree in enumerate(documents)]
    if len(widths := {tree.leaf_values.shape[1] for tree in trees}) > 1:
        raise ValueError("the model has trees whose leaves hold a number beside ones whose leaves hold vectors.")
    trees = _weigh_leaves(trees, booster if name == "dart" else model)
    per_round = n_outputs if widths == {1} else 1  # trees of an iteration without parallel ones
    per_stage = per_round * _parallel_trees(learner, model, per_round)
    # Labels come from a live classifier. A file may tell that it was one's.
    is_classifier = classes is not None or _attributes(learner).get("_estimator_type") == "classifier"
    labels = _labels(objective, n_outputs, n_targets, classes, is_classifier)
    base = _base(params, objective, n_outputs, version)
    return ensemble_of(trees, columns, base, _LINKS[objective], trees_per_stage=per_stage, class_labels=labels)


def _labels(objective: str, n_outputs: int, n_targets: int, classes: tuple | None, is_classifier: bool) -> tuple | None:
    """Return the class labels of a model: ``classes`` or, if that is None, 0, 1, …; None if there are no classes.

    There are none if the model has several targets, or its ``objective`` is not one of classes. A ValueError if
    ``classes`` do not fit the ``n_outputs`` sums.
    """
    is_of_classes = objective in ("binary:logistic", "multi:softprob", "multi:softmax")
    is_of_classes = is_of_classes or (objective == "reg:logistic" and is_classifier)
    if not is_of_classes or n_targets > 1:
        return None
    n_classes = max(2, n_outputs)  # two classes have one sum
    if classes is None:
        return tuple(range(n_classes))
    if len(classes) != n_classes:
        raise ValueError(
            f"model has {len(classes)} classes, and its trees are for {n_classes}. Fit it to as many, or pass "
            "model.get_booster(), whose labels are 0, 1, …."
        )
    return classes


def _weigh_leaves(trees: list[ComparingTree], model: dict) -> list[ComparingTree]:
    """Return ``trees`` with their leaf values multiplied by DART's weights of trees, if ``model`` has any.

    ``model`` is the part of the document that may have them.
    """
    if "weight_drop" not in model:  # before XGBoost 3.4 only DART has it
        return trees
    weights = numbers(model, "weight_drop", np.float64)
    if len(weights) != len(trees):
        raise ValueError(f"the model has {len(weights)} weights of DART for {len(trees)} trees.")
    with np.errstate(over="ignore", invalid="ignore"):
        return [
            tree._replace(leaf_values=(weight * tree.leaf_values).astype(np.float32))
            for tree, weight in zip(trees, weights, strict=True)
        ]


def _attributes(learner: dict) -> dict:
    """Return the attributes of a document's ``learner``, as {name: value}, with those of an estimator.

    Estimators before XGBoost 2.0 wrote theirs as one attribute, a text in JSON.
    """
    attributes = part(learner, "attributes") if "attributes" in learner else {}
    try:
        of_estimator = json.loads(attributes.get("scikit_learn", "{}"))
    except (ValueError, TypeError, RecursionError):
        return dict(attributes)
    return of_estimator | attributes if isinstance(of_estimator, dict) else dict(attributes)


def _parallel_trees(learner: dict, model: dict, n_outputs: int) -> int:
    """Return how many trees an iteration adds for each of ``n_outputs``; a ValueError unless trees are in that order.

    ``n_outputs`` is 1 if leaves hold vectors. ``learner`` and its ``model`` are objects of the document.
    """
    output_of_tree = numbers(model, "tree_info", np.int64)
    params = part(model, "gbtree_model_param")
    attributes = _attributes(learner)
    if "num_parallel_tree" in params:
        n_parallel = integer(params, "num_parallel_tree")
    elif n_outputs > 1:  # before XGBoost 1.6 files do not tell the number
        n_parallel = int(np.argmax(output_of_tree != 0))  # the trees before the first of output 1
    elif "best_ntree_limit" in attributes and "best_iteration" in attributes:  # the limit counts parallel trees
        n_parallel = integer(attributes, "best_ntree_limit") // max(1, integer(attributes, "best_iteration") + 1)
    else:
        n_parallel = 1
    n_parallel = max(1, n_parallel)
    n_trees = len(model["trees"])
    n_in_stage = n_outputs * n_parallel
    if "iteration_indptr" in model and n_outputs == 1:
        ends = numbers(model, "iteration_indptr", np.int64)
        if not np.array_equal(ends, np.arange(0, n_trees + 1, n_in_stage)):
            raise ValueError(
                f"the model's iterations end at the trees {ends[:9].tolist()}…; expected {n_in_stage} in each."
            )
    if n_trees % n_in_stage:
        raise ValueError(f"the model has {n_trees} trees, which are not shared out among {n_outputs} outputs.")
    expected_outputs = np.arange(n_trees) % n_in_stage // n_parallel  # such as 0 0 1 1 2 2, over and over
    if not np.array_equal(output_of_tree, expected_outputs):
        raise ValueError(
            f"the model's trees are for the outputs {output_of_tree[:9].tolist()}…; expected {n_parallel} for each."
        )
    return n_parallel


def _base(params: dict, objective: str, n_outputs: int, version: tuple[int, ...]) -> np.ndarray:
    """Return the numbers ``[outputs]`` that are added to the sums: the base scores in ``params``, before the link.

    ``params`` is the document's ``learner_model_param``. XGBoost writes base scores as answers: a probability becomes
    its logit, a positive mean its logarithm, by the ``objective`` and the ``version`` of XGBoost.
    """
    text = part(params, "base_score", kind=(str, int, float))
    try:
        scores = np.array([float(word) for word in str(text).strip("[]").split(",")], np.float32)
    except ValueError:
        raise ValueError(f"the model's base_score is {text!r:.60}; expected numbers.") from None
    if len(scores) not in (1, n_outputs):
        raise ValueError(f"the model's base_score has {len(scores)} numbers for {n_outputs} outputs.")
    link = _LINKS[objective]
    if version and version < _MARGINS and objective == "binary:logitraw":
        link = "logistic"  # the score was a probability then
    with np.errstate(divide="ignore", invalid="ignore"):
        if link == "logistic":
            scores = -np.log(np.float32(1) / scores - np.float32(1))
        elif link == "exp":
            scores = np.log(scores)
    return np.broadcast_to(scores, (n_outputs,))


def _columns(learner: dict, model: dict, n_features: int, version: tuple[int, ...]) -> Columns:
    """Return the ``n_features`` columns of the data, with names and levels; a ValueError if these are damaged.

    The document's ``learner`` has the names, and its ``model`` the levels. ``version`` is XGBoost's.
    """
    check_number_of_columns(n_features)
    names = learner.get("feature_names") or None
    kinds = learner.get("feature_types") or None
    # Lists are checked before anything as long as the number of columns, which a damaged file may claim, is made.
    for name, texts in (("feature_names", names), ("feature_types", kinds)):
        is_list = isinstance(texts, list) and len(texts) == n_features and all(isinstance(text, str) for text in texts)
        if texts is not None and not is_list:
            raise ValueError(f"the model's {name} are {texts!r:.60}; expected {n_features} strings.")
    nominal = tuple(kind == "c" for kind in kinds or ())
    names = None if names is None else tuple(names)
    if not any(nominal):
        return Columns(n_features, names, absent_is_missing=True)
    are_cut = _CUT_WORDS[0] <= version < _CUT_WORDS[1]
    levels = _levels(model, nominal, are_cut=are_cut)
    return Columns(n_features, names, nominal, levels, absent_is_missing=True)


def _levels(model: dict, nominal: tuple[bool, ...], *, are_cut: bool) -> tuple[Levels | None, ...] | None:
    """Return the levels of each column, None for a column that has none; None if ``model`` has no levels at all.

    ``nominal`` says which columns have categories, and ``are_cut`` whether the version is one that cuts words
    (`_CUT_WORDS`). A ValueError for words that may be cut, and for damaged categories.
    """
    categories = model.get("cats")
    if not isinstance(categories, dict) or not categories.get("enc"):
        return None
    encoded = part(categories, "enc", kind=list)
    if len(encoded) != len(nominal):
        raise ValueError(f"the model has categories for {len(encoded)} columns of {len(nominal)}.")
    columns = enumerate(zip(encoded, nominal, strict=True))
    return tuple(_column_levels(j, entry, are_cut) if is_nominal else None for j, (entry, is_nominal) in columns)


def _column_levels(j: int, encoded: Any, are_cut: bool) -> Levels | None:
    """Return the levels of column ``j``, whose entry in the file is ``encoded``; None if it lists no categories."""
    if not isinstance(encoded, dict) or "offsets" not in encoded:
        values = tuple(np.asarray(part(encoded, "values", kind=(list, np.ndarray))).tolist())
    else:
        offsets = numbers(encoded, "offsets", np.int64)
        # Strings as bytes, one behind the other.
        text = bytes(numbers(encoded, "values", np.int64).astype(np.uint8))
        if len(offsets) and (offsets[0] != 0 or offsets[-1] != len(text) or np.any(np.diff(offsets) < 0)):
            raise ValueError("the model's categories have ends that are no parts of their text.")
        codec = "ascii" if are_cut else "utf-8"
        try:
            values = tuple(text[start:end].decode(codec) for start, end in pairwise(offsets.tolist()))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"the categories of column {j} are words outside of ASCII, of which XGBoost 3.1 to 3.3 keep a part "
                "alone. Fit the model with XGBoost 3.4 or later, or with other words."
            ) from error
    return Levels(values, has_missing=True) if values else None


def _tree(what: str, tree: Any, columns: Columns, n_outputs: int) -> ComparingTree:
    """Return the tree that ``tree``, its JSON, describes; a ValueError, which calls it ``what``, if it is damaged.

    The model has ``columns`` and ``n_outputs``.
    """
    part({what: tree}, what)  # an error unless it is an object
    left = numbers(tree, "left_children", np.int64)
    right = numbers(tree, "right_children", np.int64)
    feature = numbers(tree, "split_indices", np.int64)
    split = numbers(tree, "split_conditions", np.float32)  # a threshold; at leaves the value
    missing_left = numbers(tree, "default_left", np.int64) != 0
    kind = numbers(tree, "split_type", np.int64) if "split_type" in tree else np.zeros(len(left), np.int64)
    if any(len(array) != len(left) for array in (right, feature, split, missing_left, kind)):
        raise ValueError(f"{what} has {len(left)} nodes, but arrays of other lengths.")
    values = split[:, None]
    if (width := integer(tree, "tree_param", "size_leaf_vector")) > 1:
        if width != n_outputs:
            raise ValueError(f"{what} has leaves that hold {width} numbers; the model has {n_outputs} outputs.")
        values = _vectors(what, tree, left < 0, right, width)
        right = np.where(left < 0, -1, right)  # those of leaves may be indices of vectors
    is_set = (kind == 1) & (left >= 0)
    sets = {}
    for node, codes in _codes_of_sets(what, tree, np.flatnonzero(is_set).tolist()).items():
        j = int(feature[node])
        levels = columns.levels[j] if columns.levels is not None and 0 <= j < columns.number else None
        # Codes in the set go right. So does a missing value, if its code, behind the last level, is put into the set.
        codes_of_missing = [] if levels is None or missing_left[node] else [len(levels.values)]
        sets[node] = set_of_codes(np.union1d(codes, codes_of_missing))
    compare = np.where(is_set, NOT_IN_SET, BELOW)
    return ComparingTree(feature, compare, split.astype(np.float64), left, right, missing_left, sets, values)


def _vectors(what: str, tree: dict, is_leaf: np.ndarray, right: np.ndarray, width: int) -> np.ndarray:
    """Return the leaf values ``[nodes width]`` of ``tree`` (JSON), whose leaves hold vectors of ``width`` numbers.

    ``right`` has the right children of nodes. A ValueError, which calls the tree ``what``, if vectors are missing.
    """
    # From XGBoost 3.2 on leaves have a list of their own, and a leaf's right child is its index there. Before, each
    # node had a vector in base_weights; since then these may be of the gradients that were reduced to find splits.
    name = "leaf_weights" if "leaf_weights" in tree else "base_weights"
    index = np.where(is_leaf, right if name == "leaf_weights" else np.arange(len(right)), 0)
    values = numbers(tree, name, np.float32)
    if len(values) % width or index.min() < 0 or (index.max() + 1) * width > len(values):
        raise ValueError(f"{what} has {name} of {len(values)} numbers, which are no vectors of {width} for its leaves.")
    return values.reshape(-1, width)[index]


def _codes_of_sets(what: str, tree: dict, indices: list[int]) -> dict[int, np.ndarray]:
    """Return {node: the categories that go right} for ``indices``, the nodes of ``tree`` (JSON) that test categories.

    A ValueError, which calls the tree ``what``, if a node has no set, or sets are damaged.
    """
    if not indices:
        return {}
    # For each set its node, the position of its first category in ``codes``, and its length.
    nodes, first, size = (numbers(tree, f"categories_{name}", np.int64) for name in ("nodes", "segments", "sizes"))
    codes = numbers(tree, "categories", np.int64)
    if not (len(nodes) == len(first) == len(size)) or np.any(first < 0) or np.any(first + size > len(codes)):
        raise ValueError(f"{what} has sets of categories that do not lie among its categories.")
    if np.any(codes < 0) or np.any(codes >= _LARGEST_CATEGORY) or np.any(size < 0):
        raise ValueError(f"{what} has a set with categories that are no codes.")
    sets = {int(node): codes[start : start + length] for node, start, length in zip(nodes, first, size, strict=True)}
    if not set(indices) <= set(sets):
        raise ValueError(f"{what} has a test of categories without a set.")
    return {node: sets[node] for node in indices}
