"""Names of classes and scorers in files."""

import importlib
import inspect
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from jaxunc import combiners, decisions, regression, scorers, smoothing
from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Combiner
from jaxunc.forest import CountSet, Forest, Forks, Trees
from jaxunc.tables import Columns, Levels, LevelsOfCatBoost, LevelsOfYdf

_SKLEARN_MODULES = {"Bagging": "ensemble", "DecisionTree": "tree", "ExtraTree": "tree", "ExtraTrees": "ensemble"}
_SKLEARN_MODULES |= dict.fromkeys(("RandomForest", "GradientBoosting", "HistGradientBoosting"), "ensemble")
SKLEARN = {
    name + kind: f"sklearn.{module}"
    for name, module in _SKLEARN_MODULES.items()
    for kind in ("Classifier", "Regressor")
}
"""Models of scikit-learn that a fitted estimator may have been made from; a file holds their settings."""

REGRESSOR = "UncertainForestRegressor"
"""The one that answers numbers."""
ESTIMATORS = (
    *("CautiousForestClassifier", "CombinedForestClassifier"),
    *("RandomDecisionTreesClassifier", "TransductiveTreeClassifier", REGRESSOR),
)

FORMER_CLASSES = {"Blend": "Stack", "Counting": "CountSet", "TreeEnsemble": "AdditiveTrees"}
"""Names in files of version 0.2.0, and what they are called now."""


def current(params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of a file, where transduction's algorithm that is gone is the one in its place."""
    return params | {"algorithm": "grouped"} if str(params.get("algorithm")) == "nodes" else params


@lru_cache(1)
def classes() -> dict[str, type]:
    rooms = (combiners, decisions, regression, smoothing)
    of_combiners = {name: part for room in rooms for name, part in vars(room).items() if _is_combiner(part)}
    arrays = (Forest, Trees, Forks, CountSet, Columns, Levels, LevelsOfYdf, LevelsOfCatBoost, AdditiveTrees)
    numbers = (regression.LeafMoments, regression.LeafScales, regression.NumberLaw, regression.TargetBins)
    class_of = {part.__name__: part for part in (*arrays, *numbers)} | of_combiners
    return class_of | {former: class_of[now] for former, now in FORMER_CLASSES.items()}


@lru_cache(1)
def scorer_names() -> dict[str, Callable]:
    return scorers.FUNCTIONS_OF_COUNTS


def name_of(part: Any, names: dict[str, Any]) -> str:
    """Return the name of a class or a function, ``module:name`` for the user's own; a TypeError if it has none."""
    if names.get(getattr(part, "__name__", "")) is part:
        return part.__name__
    name = own_name(part)
    if not name or "<" in name:
        raise TypeError(
            f"{part!r} has no name by which it could be found again; define it at the top of a module, and pass it to "
            "jaxunc.load(path, known=[...])."
        )
    return name


def own_name(part: Any) -> str:
    """Return ``module:name`` of a user's own class or function; empty for what has none."""
    module, name = getattr(part, "__module__", None), getattr(part, "__qualname__", None)
    return f"{module}:{name}" if module and name else ""


def find(name: Any, names: dict[str, Any], trusted: Iterable[Any], what: str) -> Any:
    """Return the class or function of that name: the library's, or one of those that the caller trusts."""
    if isinstance(name, str) and name in names:
        return names[name]
    for part in trusted:
        if own_name(part) == name:
            return part
    shown = repr(name)[:100]
    if isinstance(name, str) and ":" in name:
        raise ValueError(
            f"the file names the {what} {shown}, which is not jaxunc's. If you trust it, import it and pass it: "
            f"jaxunc.load(path, known=[{name.rpartition(':')[2][:60]}])."
        )
    raise ValueError(f"the file names the {what} {shown}, which jaxunc does not know.")


def sklearn_class(name: Any) -> type:
    if not isinstance(name, str) or name not in SKLEARN:
        raise ValueError(f"the file names the model {name!r:.100}; known are {', '.join(SKLEARN)}.")
    return getattr(importlib.import_module(SKLEARN[name]), name)


def _is_combiner(part: Any) -> bool:
    return inspect.isclass(part) and issubclass(part, Combiner) and part is not Combiner
