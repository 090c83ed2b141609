"""Importer of LightGBM's models, from their own text files."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxunc.additive import AdditiveTrees

from ._comparing_trees import AT_MOST, IN_SET, ComparingTree, ensemble_of, set_of_codes
from ._documents import GIVEN, version_in, warn_if_newer
from ._lightgbm_files import ModelText, columns_of, integer, read_model_text, row, text

_LINKS = {  # by objective; "" is one that the user wrote
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity"),
    **dict.fromkeys(("lambdarank", "rank_xendcg", ""), "identity"),
    **dict.fromkeys(("binary", "cross_entropy", "multiclassova"), "logistic"),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
    "multiclass": "softmax",
}
_CUSTOM_OBJECTIVES = ("custom", "none", "null", "na")  # names that files give to an objective that the user wrote
_OLD_NAMES = {"xentropy": "cross_entropy", "xentlambda": "cross_entropy_lambda"}
_ZERO = float(np.float32(1e-35))  # numbers within it of 0 count as 0
_BELOW_ZERO = float(np.nextafter(-_ZERO, -np.inf))  # the largest number below those that count as 0
_BEHIND_ZERO = float(np.nextafter(_ZERO, np.inf))  # the smallest number above those that count as 0
_CATEGORICAL, _DEFAULT_LEFT = 1, 2  # bits of a decision_type
_NONE_MISSING, _MISSING_ZERO, _MISSING_NAN = 0, 1, 2  # what its higher bits say: which number is missing
_MOST_WORDS = 2**26  # of 32 bits each, from which a tree's sets are refused: categories stay below 2^31


def from_lightgbm(model: Any, *, category_columns: Sequence[int | str] | None = None) -> AdditiveTrees:
    """Import a LightGBM model, exactly: every instance reaches the leaf that it reaches there.

    Parameters
    ----------
    model
        A text file that ``save_model`` wrote, its bytes or its text, a ``Booster``, or a fitted ``LGBMClassifier``,
        ``LGBMRegressor`` or ``LGBMRanker``. LightGBM is not needed for files. A model that stopped early gives the
        trees up to its best iteration.
    category_columns
        The columns, by name or position, that had pandas' category type in training. Needed where the file does not
        tell them: LightGBM writes equal files for such a column and for plain integers that are named as categorical.

    Returns
    -------
    AdditiveTrees
        Its ``raw`` is LightGBM's raw score, times the parameter ``sigmoid`` where that is not 1. Columns have the names
        of training, with LightGBM's underlines for spaces; data may have either. Category columns of a frame have their
        levels.

    Raises
    ------
    TypeError
        If ``model`` is of another kind, such as all boosters of ``lightgbm.cv``, or ``category_columns`` are no names
        and positions.
    ValueError
        If the estimator is not fitted, the file is damaged, or the model has parts that are not imported, which are
        named: linear trees, ``reg_sqrt``, the objective ``cross_entropy_lambda``. Also if the frame of training had
        categories, and their columns are neither given nor known. Also if an estimator has ``pred_early_stop``, by
        which it answers from its first trees.

    Warns
    -----
    UntestedVersionWarning
        If the file's version is newer than those that were tested.

    Notes
    -----
    LightGBM compares float64: left where x <= t. Numbers within 1e-35 of 0 count as 0. A test without a side for
    missing values takes NaN for 0; with ``zero_as_missing`` 0 is missing, too. Categories are numbers truncated toward
    0; negative ones, NaN and those that are not in a test's set go right.

    LightGBM narrows arrays of integers to float32 before it predicts; here they are compared as float64, as the columns
    of frames are there. Files keep six digits of ``sigmoid``.

    The raw score of ``boosting="rf"`` is LightGBM's sum divided by the number of iterations, from which LightGBM
    computes probabilities. A ranker's ``predict`` is its scores.
    """
    classes, is_classifier = None, False
    if hasattr(type(model), "booster_"):
        classes, is_classifier, model = _of_estimator(model)
    if isinstance(boosters := getattr(model, "boosters", None), list):
        raise TypeError(f"model is a {type(model).__name__} of {len(boosters)} boosters; pass one: model.boosters[0].")
    if hasattr(model, "model_to_string"):
        model = model.model_to_string()
    if not isinstance(model, GIVEN):
        raise TypeError(
            f"model is a {type(model).__name__}; pass a Booster, a fitted LGBMClassifier or LGBMRegressor, or a file "
            "of save_model."
        )
    return _of_text(read_model_text(model), classes, is_classifier, category_columns)


def _of_estimator(model: Any) -> tuple[tuple | None, bool, Any]:
    """Return (class labels or None, whether it is a classifier, booster) of ``model``, an estimator of LightGBM.

    A ValueError if it is not fitted, or answers from its first trees (``pred_early_stop``).
    """
    try:
        booster = model.booster_
    except Exception as error:  # LightGBM's own error is scikit-learn's, where that is installed
        raise ValueError(f"model ({type(model).__name__}) is not fitted; call model.fit(X, y) first.") from error
    if getattr(model, "get_params", dict)().get("pred_early_stop"):
        raise ValueError(
            f"model ({type(model).__name__}) has pred_early_stop, by which it answers from its first trees where they "
            "are sure: here all trees are asked. Pass model.booster_, which asks all, too."
        )
    is_classifier = hasattr(model, "classes_")
    labels = tuple(np.asarray(model.classes_).tolist()) if is_classifier else None
    return labels, is_classifier, booster


def _of_text(
    model: ModelText, classes: tuple | None, is_classifier: bool, category_columns: Sequence | None
) -> AdditiveTrees:
    """Return the additive trees that ``model``, a file's text, describes; a ValueError if it is not imported.

    ``classes`` are the class labels of an estimator, None for a file; ``is_classifier`` says whether it has them.
    ``category_columns`` are the columns of pandas' category type; None to infer them from the file.
    """
    header = model.header
    version = version_in(text(header, "version"))
    if version < (2,):
        raise ValueError(f"the model's version is {header['version']!r:.20}; from_lightgbm reads v2 and later.")
    warn_if_newer("LightGBM", version)
    # The header names no objective if the user wrote it. Then the parameters of training say so, or are absent.
    trained_with = model.parameters.get("objective", "custom")
    if "objective" not in header and trained_with not in _CUSTOM_OBJECTIVES:
        raise ValueError(f"the model has no objective, and was trained with {trained_with!r:.40}; is the file whole?")
    name_of_outputs = "num_tree_per_iteration" if "num_tree_per_iteration" in header else "num_class"
    n_outputs = integer(header, name_of_outputs)
    objective, sigmoid = _objective(header, n_outputs)
    n_trees = len(model.trees)
    if n_outputs < 1 or n_trees == 0 or n_trees % n_outputs:
        raise ValueError(f"the model has {n_trees} trees, {n_outputs} for each iteration.")
    columns = columns_of(model, category_columns)
    # Leaf values are scaled, so that their sum is the raw score: an average over iterations where the file says so.
    averaged = "average_output" in header
    n_iterations = n_trees // n_outputs
    scale = sigmoid / n_iterations if averaged else sigmoid
    trees = [_tree(f"tree {t}", tree, scale) for t, tree in enumerate(model.trees)]
    return ensemble_of(
        trees,
        columns,
        np.zeros(n_outputs),
        _LINKS[objective],
        trees_per_stage=n_outputs,
        class_labels=_labels(objective, n_outputs, classes, is_classifier),
        averaged=averaged,
    )


def _objective(header: dict[str, str], n_outputs: int) -> tuple[str, float]:
    """Return (name of the objective, its parameter sigmoid or 1); the name is "" if the user wrote the objective.

    ``header`` has the file's lines by name. A ValueError for an objective that is not imported, or that does not have
    ``n_outputs`` trees in each iteration.
    """
    name, *settings = header.get("objective", "").split() or [""]
    name = _OLD_NAMES.get(name, name)
    parameters = {}
    for setting in settings:  # such as "sigmoid:1"
        key, _, value = setting.partition(":")
        parameters[key] = value
    allowed = {"binary": {"sigmoid"}, "multiclass": {"num_class"}, "multiclassova": {"num_class", "sigmoid"}}
    if name not in _LINKS or not set(parameters) <= allowed.get(name, set()):
        imported_names = sorted(filter(None, _LINKS))
        raise ValueError(
            f"the model's objective is {' '.join([name, *settings])!r:.60}; from_lightgbm imports "
            f"{', '.join(imported_names)}, without reg_sqrt."
        )
    n_classes = int(row(parameters, "num_class", np.int64, 1)[0]) if "num_class" in parameters else n_outputs
    is_multiclass = name.startswith("multiclass")
    if (is_multiclass and "num_class" not in parameters) or n_classes != n_outputs:
        raise ValueError(f"the model's objective {name!r:.60} has other classes than the {n_outputs} outputs.")
    if name and not is_multiclass and n_outputs != 1:
        raise ValueError(f"the model's objective {name!r:.60} has {n_outputs} trees in each iteration; expected one.")
    sigmoid = float(row(parameters, "sigmoid", np.float64, 1)[0]) if "sigmoid" in parameters else 1.0
    if not 0 < sigmoid < np.inf:
        raise ValueError(f"the model's sigmoid is {sigmoid}; expected a positive number.")
    return name, sigmoid


def _labels(objective: str, n_outputs: int, classes: tuple | None, is_classifier: bool) -> tuple | None:
    """Return the class labels of a model with this ``objective``; None if the objective has no classes.

    Labels are ``classes``, those of an estimator, or 0, 1, … if that is None. A ValueError if ``classes`` do not fit
    the ``n_outputs`` sums. Also if ``is_classifier``, and the objective has a name and no classes.
    """
    # The targets of cross_entropy may be any shares in [0, 1]; those of a classifier are its labels.
    has_classes = objective in ("binary", "multiclass", "multiclassova")
    if not has_classes and not (is_classifier and objective == "cross_entropy"):
        if is_classifier and objective:  # a user's own objective has no name: the model answers sums
            raise ValueError(
                f"model is a classifier with the objective {objective!r:.60}, without classes; pass booster_."
            )
        return None
    n_classes = max(2, n_outputs)  # two classes have one sum
    if classes is not None and len(classes) != n_classes:
        raise ValueError(
            f"model has {len(classes)} classes, and its trees are for {n_classes}. Fit it to as many, or pass "
            "model.booster_, whose labels are 0, 1, …."
        )
    return classes or tuple(range(n_classes))


def _tree(what: str, tree: dict[str, str], scale: float) -> ComparingTree:
    """Return the tree that ``tree``, lines of a file by name, describes: its inner nodes first, then its leaves.

    Leaf values are multiplied by ``scale``. A ValueError, which calls the tree ``what``, if the lines do not fit
    together, or leaves hold linear models.
    """
    if tree.get("is_linear", "0").strip() != "0":
        raise ValueError("the model has linear trees (linear_tree), whose leaves hold no values; fit it without.")
    n_leaves = integer(tree, "num_leaves")
    if n_leaves < 1:
        raise ValueError(f"{what} has {n_leaves} leaves.")
    leaf_values = row(tree, "leaf_value", np.float64, n_leaves) * scale
    n_inner = n_leaves - 1  # a tree without inner nodes has no lines about them
    names = ("decision_type", "split_feature", "left_child", "right_child")
    decision_type, feature, *children = (
        row(tree, name, np.int64, n_inner) if n_inner else np.zeros(0, np.int64) for name in names
    )
    bound = row(tree, "threshold", np.float64, n_inner) if n_inner else np.zeros(0)
    missing_kind = decision_type >> 2  # above the two bits _CATEGORICAL and _DEFAULT_LEFT
    if np.any((decision_type < 0) | (missing_kind > _MISSING_NAN)):
        raise ValueError(f"{what} has tests of unknown decision_type {decision_type.max()}.")
    # The file numbers inner nodes 0, 1, …, and leaves -1, -2, ….
    if any(np.any((side >= n_inner) | (side < -n_leaves)) for side in children):
        raise ValueError(f"{what} has children that are none of its {n_inner} tests and {n_leaves} leaves.")
    # Thresholds within 1e-35 of 0 are moved, so that all numbers that count as 0 go where 0 goes.
    threshold = np.where(np.abs(bound) <= _ZERO, np.where(bound >= 0, _ZERO, _BELOW_ZERO), bound)
    zero_left = threshold >= 0
    default_left = (decision_type & _DEFAULT_LEFT) != 0
    # Where nothing is missing NaN counts as 0.
    missing_left = np.where(missing_kind == _NONE_MISSING, zero_left, default_left)
    is_category = (decision_type & _CATEGORICAL) != 0
    # Where 0 is missing, and goes to the other side than numbers next to it, the test becomes one of a set.
    zero_apart = ~is_category & (missing_kind == _MISSING_ZERO) & (zero_left != default_left)
    sets = {i: _set_without_zero(float(threshold[i])) for i in np.flatnonzero(zero_apart).tolist()}
    if is_category.any():
        sets |= _sets_of_categories(what, tree, np.flatnonzero(is_category), bound)
        missing_left = missing_left & ~is_category  # NaN is in no set of categories
    compare = np.where(is_category | zero_apart, IN_SET, AT_MOST)
    # Leaf -1 - k becomes node n_inner + k. Leaves have no children (-1), and test nothing.
    left, right = (np.append(np.where(side < 0, n_inner - 1 - side, side), np.full(n_leaves, -1)) for side in children)
    return ComparingTree(
        feature=np.append(feature, np.zeros(n_leaves, np.int64)),
        compare=np.append(compare, np.full(n_leaves, AT_MOST)),
        value=np.append(threshold, np.zeros(n_leaves)),
        left=left,
        right=right,
        missing_left=np.append(missing_left, np.zeros(n_leaves, bool)),
        sets=sets,
        leaf_values=np.append(np.zeros(n_inner), leaf_values)[:, None],
    )


def _set_without_zero(threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the set of numbers that go left where 0 does not go with its neighbours, as (first numbers, ends).

    They are the numbers at or below ``threshold``, without those that count as 0 if it is 0 or more, else with these.
    """
    end = float(np.nextafter(threshold, np.inf))
    if threshold >= 0:  # numbers that count as 0 go right
        return np.array([-np.inf, _BEHIND_ZERO]), np.array([-_ZERO, end])
    return np.array([-np.inf, -_ZERO]), np.array([end, _BEHIND_ZERO])


def _sets_of_categories(what: str, tree: dict[str, str], indices: np.ndarray, thresholds: np.ndarray) -> dict:
    """Return {node: the set of numbers that go left} for the nodes ``indices``, which test categories.

    A set is (first numbers, ends) of intervals, one for each category. ``tree`` has the file's lines by name, and
    ``thresholds [nodes]`` the indices of these nodes' sets. A ValueError, which calls the tree ``what``, without sets.
    """
    n_sets = integer(tree, "num_cat")
    ends = row(tree, "cat_boundaries", np.int64, n_sets + 1)
    words = row(tree, "cat_threshold", np.uint64)
    is_whole = ends[0] == 0 and ends[-1] == len(words) and np.all(np.diff(ends) >= 0)
    if not is_whole or np.any(words >= 2**32) or len(words) >= _MOST_WORDS:
        raise ValueError(f"{what} has sets of categories that do not lie in its {len(words)} words.")
    sets = {}
    for node in indices.tolist():
        if thresholds[node] not in range(n_sets):
            raise ValueError(f"{what} tests set {thresholds[node]} of {n_sets} sets of categories.")
        set_index = int(thresholds[node])
        # Bit j of a set, from the lowest bit of its first word, tells whether category j is in it.
        set_words = words[ends[set_index] : ends[set_index + 1]].astype("<u4")
        codes = np.flatnonzero(np.unpackbits(set_words.view(np.uint8), bitorder="little"))
        first, end = set_of_codes(codes)
        # Numbers are truncated toward 0, so that those above -1 count as 0.
        first = np.where(codes == 0, np.nextafter(-1.0, np.inf), first)
        sets[node] = first, end
    return sets
