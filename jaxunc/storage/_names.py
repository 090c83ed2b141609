"""Names in files: of classes, scorers, and attributes of fitted estimators; and checks of these attributes."""

import importlib
import inspect
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from jaxunc import combiners, decisions, regression, scorers, smoothing
from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Combiner
from jaxunc.forest import CountSet, Forest, Forks, Trees
from jaxunc.regression import BoundLaw, LeafMoments, LeafScales, NumberLaw, TargetBins
from jaxunc.tables import Columns, Levels, LevelsOfCatBoost, LevelsOfYdf

_SKLEARN_MODULES = {"Bagging": "ensemble", "DecisionTree": "tree", "ExtraTree": "tree", "ExtraTrees": "ensemble"}
_SKLEARN_MODULES |= dict.fromkeys(("RandomForest", "GradientBoosting", "HistGradientBoosting"), "ensemble")
SKLEARN = {
    name + kind: f"sklearn.{module}"
    for name, module in _SKLEARN_MODULES.items()
    for kind in ("Classifier", "Regressor")
}
"""{model of scikit-learn: its module} of models that an estimator's parameter may hold; files have their settings."""

REGRESSOR = "UncertainForestRegressor"
"""The estimator that predicts numbers."""
ESTIMATORS = (
    *("CautiousForestClassifier", "CombinedForestClassifier"),
    *("RandomDecisionTreesClassifier", "TransductiveTreeClassifier", REGRESSOR),
)

FORMER_CLASSES = {"Blend": "Stack", "Counting": "CountSet", "TreeEnsemble": "AdditiveTrees"}
"""{name of a class in files of version 0.2.0: its name now}."""


def update_algorithm(params: dict[str, Any]) -> dict[str, Any]:
    """Return an estimator's parameters in a file; the former name "nodes" of an algorithm is replaced by "grouped"."""
    is_former = str(params.get("algorithm")) == "nodes"
    return params | {"algorithm": "grouped"} if is_former else params


@lru_cache(1)
def classes() -> dict[str, type]:
    """Return {name in files: class} of the library's classes that files may name; former names are keys, too."""
    combiner_classes = {}
    for module in (combiners, decisions, regression, smoothing):
        combiner_classes |= {name: part for name, part in vars(module).items() if _is_combiner(part)}
    array_classes = (Forest, Trees, Forks, CountSet, Columns, Levels, LevelsOfYdf, LevelsOfCatBoost, AdditiveTrees)
    regressor_classes = (
        regression.LeafMoments,
        regression.LeafScales,
        regression.NumberLaw,
        regression.TargetBins,
        regression.Strata,
        regression.TargetMap,
    )
    class_of = {part.__name__: part for part in (*array_classes, *regressor_classes)} | combiner_classes
    return class_of | {former: class_of[now] for former, now in FORMER_CLASSES.items()}


@lru_cache(1)
def scorer_names() -> dict[str, Callable]:
    """Return {name in files: function} of the library's scorers."""
    return scorers.FUNCTIONS_OF_COUNTS


def name_of(part: Any, names: dict[str, Any]) -> str:
    """Return the name in files of ``part``, a class or a function: ``module:name`` if it is a user's.

    ``names`` is {name in files: class or function} of the library's. Raises a TypeError if ``part`` has no name by
    which it could be found again.
    """
    if names.get(getattr(part, "__name__", "")) is part:
        return part.__name__
    name = qualified_name(part)
    if not name or "<" in name:
        raise TypeError(
            f"{part!r} has no name by which it could be found again; define it at the top of a module, and pass it to "
            "jaxunc.load(path, known=[...])."
        )
    return name


def qualified_name(part: Any) -> str:
    """Return ``module:name`` of ``part``, a class or a function; "" for an object without a module or a name."""
    module = getattr(part, "__module__", None)
    name = getattr(part, "__qualname__", None)
    return f"{module}:{name}" if module and name else ""


def find(name: Any, names: dict[str, Any], trusted: Iterable[Any], what: str) -> Any:
    """Return the class or function that a file calls ``name``: one of the library's, or of a user's list ``trusted``.

    ``names`` is {name in files: class or function} of the library's. Raises a ValueError for any other name; ``what``
    is "class" or "scorer" in its message.
    """
    if isinstance(name, str) and name in names:
        return names[name]
    for candidate in trusted:
        if qualified_name(candidate) == name:
            return candidate
    shown = repr(name)[:100]
    if isinstance(name, str) and ":" in name:
        raise ValueError(
            f"the file names the {what} {shown}, which is not jaxunc's. If you trust it, import it and pass it: "
            f"jaxunc.load(path, known=[{name.rpartition(':')[2][:60]}])."
        )
    raise ValueError(f"the file names the {what} {shown}, which jaxunc does not know.")


def sklearn_class(name: Any) -> type:
    """Return the class of scikit-learn that a file calls ``name``; raise a ValueError unless it is in `SKLEARN`."""
    if not isinstance(name, str) or name not in SKLEARN:
        raise ValueError(f"the file names the model {name!r:.100}; known are {', '.join(SKLEARN)}.")
    return getattr(importlib.import_module(SKLEARN[name]), name)


def _is_combiner(part: Any) -> bool:
    """Return whether ``part`` is a class of combiners other than `Combiner` itself."""
    return inspect.isclass(part) and issubclass(part, Combiner) and part is not Combiner


ARRAYS = ("classes_", "feature_names_in_", "nominal_", "oob_set_", "oob_decision_function_", "calibration_")
"""Names of fitted attributes that are NumPy arrays."""
OF_NUMBERS = {"moments_": LeafMoments | LeafScales, "bins_": TargetBins, "law_": NumberLaw, "_reads_given": bool}
"""{fitted attribute: its type} of attributes that a regressor has, and no classifier."""
KEPT = (*ARRAYS, *OF_NUMBERS, "n_features_in_", "oob_score_", "forest_", "combiner_", "_columns", "_raw_types")
"""Names of the fitted attributes that files hold, since answers read them; a sample of transduction is kept apart."""


def check_fitted(name: str, fitted: dict[str, Any], *, raw: bool = False) -> dict[str, Any]:
    """Return ``fitted``, {fitted attribute: value} of a classifier of class ``name`` in a file, if it is sound.

    Raises a ValueError unless the attributes are complete and suit each other. With ``raw`` the estimator is a
    pipeline, whose raw columns may differ in number from the forest's.
    """
    if unknown := sorted(set(fitted) - set(KEPT)):
        raise ValueError(f"the file gives {name} the attributes {unknown[:5]}, which it does not have.")
    kinds: dict[str, Any] = {**dict.fromkeys(ARRAYS, np.ndarray), "n_features_in_": int, "oob_score_": float}
    kinds |= {"forest_": Forest, "combiner_": Combiner, "_columns": Columns, "_raw_types": tuple}
    needs_forest = has_forest(name)
    required = {"classes_", "forest_", "combiner_"} if needs_forest else {"classes_"}
    n_columns = _check_kinds(name, fitted, required, kinds, raw=raw)
    labels = fitted["classes_"]
    if labels.ndim != 1 or len(labels) < 2:
        raise broken(name, "classes_ and n_features_in_")
    if not _is_calibration(fitted.get("calibration_"), len(labels)):
        raise broken(name, "calibration_")
    if needs_forest:
        forest = fitted["forest_"]
        if (forest.n_features != n_columns and not raw) or tuple(labels.tolist()) != forest.class_labels:
            raise broken(name, "classes_ and n_features_in_")
    return fitted


def _check_kinds(name: str, fitted: dict[str, Any], required: set[str], kinds: dict[str, Any], *, raw: bool) -> int:
    """Return the number of columns that an estimator was fitted to, by ``fitted``, {fitted attribute: value} in a file.

    ``name`` is the estimator's class; with ``raw`` it is a pipeline. Raises a ValueError unless the attributes in
    ``required`` are present, all have their types in ``kinds``, and each column has a name and a type if any has.
    """
    attributes = required | set(fitted)
    if not raw:
        attributes.add("n_features_in_")
    for attribute in sorted(attributes):
        if not isinstance(fitted.get(attribute), kinds[attribute]):
            raise broken(name, attribute)
    n_columns = fitted.get("n_features_in_", 1)  # a pipeline that reads a list of texts has no number of columns
    names = fitted.get("feature_names_in_")
    types = fitted.get("_raw_types")
    if isinstance(n_columns, bool) or n_columns < 1:
        raise broken(name, "n_features_in_")
    if names is not None and names.shape != (n_columns,):
        raise broken(name, "feature_names_in_")
    if types is not None and (len(types) != n_columns or not all(isinstance(raw_type, str) for raw_type in types)):
        raise broken(name, "_raw_types")
    return n_columns


def check_fitted_numbers(name: str, fitted: dict[str, Any], *, raw: bool = False) -> dict[str, Any]:
    """Return ``fitted``, {fitted attribute: value} of a regressor of class ``name`` in a file, if it is sound.

    Raises a ValueError unless the attributes are complete and suit each other. With ``raw`` the estimator is a
    pipeline, whose raw columns may differ in number from the trees'.
    """
    kinds: dict[str, Any] = {**OF_NUMBERS, "n_features_in_": int, "forest_": Forest}
    kinds |= {"feature_names_in_": np.ndarray, "_raw_types": tuple}
    if unknown := sorted(set(fitted) - set(kinds)):
        raise ValueError(f"the file gives {name} the attributes {unknown[:5]}, which it does not have.")
    n_columns = _check_kinds(name, fitted, set(OF_NUMBERS), kinds, raw=raw)
    trees = fitted["moments_"].kept.trees
    n_bins = fitted["bins_"].n_bins
    forest = fitted.get("forest_")
    if trees.n_features != n_columns and not raw:
        raise broken(name, "n_features_in_ and feature_names_in_")
    # With a single bin, and for boosted models, there is no forest of bin counts.
    lacks_forest = n_bins == 1 or isinstance(fitted["moments_"], LeafScales)
    if (forest is None) != lacks_forest:
        raise broken(name, "forest_ and bins_")
    if forest is not None and (forest.class_labels != tuple(range(n_bins)) or forest.n_features != trees.n_features):
        raise broken(name, "forest_ and bins_")
    return fitted


def law_of(fitted: dict[str, Any]) -> BoundLaw:
    """Return the bound law that answers for a regressor; ``fitted`` is {fitted attribute: value}."""
    return BoundLaw(fitted["moments_"], fitted["bins_"], fitted.get("forest_"), fitted["law_"])


def _is_calibration(rows: np.ndarray | None, n_classes: int) -> bool:
    """Return whether ``rows``, the attribute ``calibration_``, is None or an array of sound calibration rows.

    A row has a probability, a class of ``n_classes``, and perhaps a weight.
    """
    if rows is None:
        return True
    if rows.dtype != np.float32 or rows.ndim != 2 or rows.shape[1] not in (2, 3):
        return False
    probability, classes, *weight = rows.T  # classes are floats, too, in one array of float32; the weight may be absent
    are_probabilities = (probability >= 0) & (probability <= 1.001)  # rounding may exceed 1
    are_classes = (classes >= 0) & (classes < n_classes) & (classes % 1 == 0)
    if not np.all(are_probabilities & are_classes):
        return False
    return all(bool(np.all((column > 0) & np.isfinite(column))) for column in weight)


def has_forest(name: str) -> bool:
    """Return whether estimators of class ``name`` answer by a forest; those of transduction keep a sample instead."""
    return name != "TransductiveTreeClassifier"


def broken(name: str, attribute: str) -> ValueError:
    """Return the error for an ``attribute`` in a file that is absent or damaged; ``name`` is the estimator's class."""
    return ValueError(f"the file's {name} has no {attribute} that fits the rest of it.")
