"""Models that a classifier is given: which are taken, and whose counts their leaves hold."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from jaxunc.additive import AdditiveTrees, uncounted_forest
from jaxunc.forest import Forest
from jaxunc.interop import from_any, library_of

_VALUES_ALONE = ("xgboost", "lightgbm", "catboost")
"""Libraries whose leaves never hold counts."""


def n_trees_of(model: Any) -> int:
    """Return how many trees a model is to have; 1 for no number of trees, which scikit-learn refuses itself."""
    number = getattr(model, "n_estimators", 1)
    return int(number) if isinstance(number, int | np.integer) and number > 0 else 1


def is_supported(model: Any, *, fitted: bool) -> bool:
    """Return whether a model may be fitted, or taken as it is; its importer refuses what else is wrong with it."""
    if isinstance(model, type):
        return False
    return isinstance(model, BaseEstimator) or (
        fitted and (isinstance(model, Forest | AdditiveTrees) or library_of(model) is not None)
    )


def is_foreign(model: Any) -> bool:
    """Return whether a model is none of scikit-learn, so that its bags are unknown and it is not grown again."""
    return isinstance(model, Forest | AdditiveTrees) or library_of(model) not in (None, "sklearn")


def forest_of(model: Any) -> Forest:
    """Return the forest of a fitted model: with its own counts, or with none where its leaves hold values.

    Raises a TypeError for what is no classifier, and a ValueError for what is not fitted, and for boosted trees.
    """
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    name, found = type(model).__name__, from_any(model)
    if isinstance(found, Forest):
        return found
    if found.class_labels is None:
        raise TypeError(
            f"estimator is a {name} that predicts numbers; pass one of classes. How sure a number is, "
            "UncertainForestRegressor says: see docs/how_to/how_sure_is_a_number.md. Sums of a regressor: "
            "jaxunc.from_any(model).predict(X)."
        )
    if not found.is_forest:
        stages = found.n_trees // found.trees_per_stage
        raise ValueError(
            f"estimator is a {name} whose {stages} stages of trees correct each other, but combiners take trees that "
            "all answer the same question. Random forests are taken (XGBoost's num_parallel_tree with one round, "
            "boosting_type='rf', YDF's). To count held-out instances in boosted leaves nevertheless, say so: "
            "trees = jaxunc.from_any(model).trees, FrozenEstimator(jaxunc.count_leaves(trees, X, y)), counts='inbag'. "
            "See docs/libraries.md."
        )
    return uncounted_forest(found)


def has_own_counts(forest: Forest) -> bool:
    """Return whether leaves hold counts, which came with the model."""
    return bool(np.asarray(forest.count_table).any())


def same_trees(one: Forest, other: Forest) -> bool:
    parts = ("feature", "threshold", "child")
    return all(np.array_equal(getattr(one.trees, part), getattr(other.trees, part)) for part in parts)


def check_own_counts(counts: str, model: Any, forest: Forest | None = None) -> None:
    """Raise a ValueError if a model's own counts are asked for, and it has none; also before it is fitted."""
    holds_none = library_of(model) in _VALUES_ALONE if forest is None else not has_own_counts(forest)
    if counts == "inbag" and holds_none:
        raise ValueError(
            f"counts='inbag' are counts that the model's leaves hold, and those of {type(model).__name__} hold values. "
            "Take counts='held_out': instances that the model was not fitted to are counted in its leaves."
        )


def classes_of(model: Any, forest: Forest) -> np.ndarray:
    """Return the labels of the classes as an array, of the type that the model has them in."""
    if isinstance(model, BaseEstimator):
        return np.asarray(model.classes_)  # pyright: ignore[reportAttributeAccessIssue]
    labels = np.array(forest.class_labels)
    return labels if tuple(labels.tolist()) == forest.class_labels else np.array(forest.class_labels, object)
