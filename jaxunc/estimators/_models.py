"""Models that a classifier takes, fitted or not, and their forests."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from jaxunc.additive import AdditiveTrees, uncounted_forest
from jaxunc.forest import Forest
from jaxunc.interop import from_any, library_of

from ._pipelines import n_estimators

_VALUE_LIBRARIES = ("xgboost", "lightgbm", "catboost")  # libraries whose leaves hold values, never counts


def n_trees_of(model: Any, n_classes: int = 2) -> int:
    """Return the number of trees that a model, fitted or not, has for ``n_classes`` classes; 1 if that is unknown."""
    n_rounds = n_estimators(model)
    trees_per_round = getattr(model, "num_parallel_tree", None) or 1  # of XGBoost
    has_vectors = getattr(model, "multi_strategy", None) == "multi_output_tree"  # a tree for all classes
    if n_classes > 2 and library_of(model) in ("xgboost", "lightgbm") and not has_vectors:
        trees_per_round *= n_classes  # a tree for each class
    is_number = isinstance(n_rounds, int | np.integer) and n_rounds > 0
    return int(n_rounds) * trees_per_round if is_number else 1


def is_supported(model: Any, *, fitted: bool) -> bool:
    """Return whether a model is of a type that a classifier takes; the importer of the type checks the rest.

    All estimators with scikit-learn's base class are taken. If the model came ``fitted``, a `Forest`, an
    `AdditiveTrees` and a model of a known library are taken, too.
    """
    if isinstance(model, type):
        return False
    if isinstance(model, BaseEstimator):
        return True
    return fitted and (isinstance(model, Forest | AdditiveTrees) or library_of(model) is not None)


def is_foreign(model: Any) -> bool:
    """Return whether a model is a `Forest`, an `AdditiveTrees` or of a known library other than scikit-learn.

    The bags of such a model may be unknown, and it cannot be grown again.
    """
    return isinstance(model, Forest | AdditiveTrees) or library_of(model) not in (None, "sklearn")


def forest_of(model: Any) -> Forest:
    """Return the forest of a fitted model, with the model's counts, or without counts where its leaves hold values.

    Raises a TypeError for a regressor, and a ValueError for boosted trees and for a model that is not fitted.
    """
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    name = type(model).__name__
    ensemble = from_any(model)
    if isinstance(ensemble, Forest):
        return ensemble
    if ensemble.class_labels is None:
        raise TypeError(
            f"estimator is a {name} that predicts numbers; pass one of classes. How sure a number is, "
            "UncertainForestRegressor says: see docs/how_to/how_sure_is_a_number.md. Sums of a regressor: "
            "jaxunc.from_any(model).predict(X)."
        )
    if not ensemble.is_forest:
        stages = ensemble.n_trees // ensemble.trees_per_stage
        raise ValueError(
            f"estimator is a {name} whose {stages} stages of trees correct each other, but combiners take trees that "
            "all answer the same question. Random forests are taken (XGBoost's num_parallel_tree with one round, "
            "boosting_type='rf', YDF's). To count held-out instances in boosted leaves nevertheless, say so: "
            "trees = jaxunc.from_any(model).trees, FrozenEstimator(jaxunc.count_leaves(trees, X, y)), counts='inbag'. "
            "See docs/libraries.md."
        )
    return uncounted_forest(ensemble)


def holds_counts(forest: Forest) -> bool:
    """Return whether any leaf of a forest has a count above 0."""
    return bool(np.asarray(forest.count_table).any())


def trees_agree(first: Forest, second: Forest) -> bool:
    """Return whether the nodes of two forests have the same features, thresholds and children."""
    fields = ("feature", "threshold", "child")
    return all(np.array_equal(getattr(first.trees, field), getattr(second.trees, field)) for field in fields)


def check_model_counts(counts: str, model: Any, forest: Forest | None = None) -> None:
    """Raise a ValueError if ``counts`` is "inbag" and the leaves of the model hold no counts.

    ``forest`` is the fitted model's, or None for an unfitted model, whose library then tells what leaves hold.
    """
    holds_none = library_of(model) in _VALUE_LIBRARIES if forest is None else not holds_counts(forest)
    if counts == "inbag" and holds_none:
        raise ValueError(
            f"counts='inbag' are counts that the model's leaves hold, and those of {type(model).__name__} hold values. "
            "Take counts='held_out': instances that the model was not fitted to are counted in its leaves."
        )


def classes_of(model: Any, forest: Forest) -> np.ndarray:
    """Return the class labels as an array ``[classes]``: those of a scikit-learn model, else those of its forest.

    Labels keep their types: those that NumPy would convert to one type become objects.
    """
    if isinstance(model, BaseEstimator):
        return np.asarray(model.classes_)  # pyright: ignore[reportAttributeAccessIssue]
    labels = np.array(forest.class_labels)
    are_kept = tuple(labels.tolist()) == forest.class_labels
    return labels if are_kept else np.array(forest.class_labels, object)
