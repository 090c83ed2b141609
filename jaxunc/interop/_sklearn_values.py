"""Importer of scikit-learn's models whose leaves hold values: gradient boosting, trees and forests of regressors."""

import warnings
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.validation import check_is_fitted

from jaxunc.additive import AdditiveTrees
from jaxunc.tables import Columns

from ._given_trees import GivenTree, check_tree, ensemble_of
from ._hist_gradient_boosting import HISTOGRAM_MODELS, from_hist_gradient_boosting
from ._sklearn_tree import nodes_of, warn_if_missing_is_lost

_BOOSTED = (GradientBoostingClassifier, GradientBoostingRegressor)
_FORESTS = (RandomForestRegressor, ExtraTreesRegressor)
VALUE_MODELS = (*_BOOSTED, *_FORESTS, DecisionTreeRegressor)
"""The kinds of models that are imported."""
_CONSTANT = ("prior", "most_frequent", "uniform", "constant")
_CLASSIFIER_LOSSES, _REGRESSOR_LOSSES = (
    ("log_loss", "exponential"),
    ("squared_error", "absolute_error", "huber", "quantile"),
)


ALL_VALUE_MODELS = (*VALUE_MODELS, *HISTOGRAM_MODELS)
"""The kinds of models that `from_sklearn_values` takes."""
_SUPPORTED = ", ".join(kind.__name__ for kind in ALL_VALUE_MODELS)


def from_sklearn_values(model: Any) -> AdditiveTrees:
    """Import a fitted scikit-learn model whose leaves hold values, exactly: every instance reaches its leaf there.

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
        If ``model`` is not fitted, its loss is unknown, or its ``init`` is no constant: a model of its own, whose
        answers are no leaf's. If trees (not histogram-based ones) test categories or are of an unknown form, as
        `from_sklearn` says. If histogram-based boosting of this scikit-learn keeps its trees in another form, which
        has no public one.

    Warns
    -----
    UserWarning
        As `from_sklearn`, for forests of scikit-learn-intelex.

    Notes
    -----
    scikit-learn tests ``float32(x) <= t`` with a float64 threshold: thresholds are rounded down to float32, which
    changes no answer. Histogram-based boosting compares float64; there columns with categories have them as levels.
    """
    name = type(model).__name__
    if isinstance(model, HISTOGRAM_MODELS):
        return from_hist_gradient_boosting(model)
    fitted: Any = model
    if not isinstance(model, VALUE_MODELS):
        raise TypeError(f"model is a {name}; expected one of {_SUPPORTED}.")
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ValueError(f"model ({name}) is not fitted; call model.fit(X, y) first.") from error
    names = getattr(model, "feature_names_in_", None)
    columns = Columns(int(fitted.n_features_in_), None if names is None else tuple(map(str, names)))
    if isinstance(model, _BOOSTED):
        return _boosted(model, columns)
    members = model.estimators_ if isinstance(model, _FORESTS) else [model]
    warn_if_missing_is_lost(model, [member.tree_ for member in members])
    trees = [_tree(f"tree {t}", member, columns, 1 / len(members)) for t, member in enumerate(members)]
    return ensemble_of(trees, columns, np.zeros(trees[0].values.shape[1]), "identity", averaged=True)


def _tree(what: str, member: Any, columns: Columns, factor: float) -> GivenTree:
    nodes = nodes_of(member, None)
    check_tree(what, nodes, columns.number)
    return GivenTree(nodes, member.tree_.value[:, :, 0] * factor, {})


def _boosted(model: Any, columns: Columns) -> AdditiveTrees:
    is_classifier = isinstance(model, GradientBoostingClassifier)
    known = _CLASSIFIER_LOSSES if is_classifier else _REGRESSOR_LOSSES
    if model.loss not in known:
        raise ValueError(f"model's loss is {model.loss!r}; known are {', '.join(known)}. Upgrade jaxunc.")
    members = np.asarray(model.estimators_)
    n_outputs = members.shape[1]
    # Its probabilities are logistic in twice the sum. The loss of the fit, which set_params does not change.
    scale = 2.0 if type(model._loss).__name__ == "ExponentialLoss" else 1.0
    trees = [
        _tree(f"tree {t}", member, columns, model.learning_rate * scale) for t, member in enumerate(members.ravel())
    ]
    link = "identity" if not is_classifier else "logistic" if n_outputs == 1 else "softmax"
    return ensemble_of(
        trees,
        columns,
        _base(model, members) * scale,
        link,
        trees_per_stage=n_outputs,
        class_labels=tuple(np.asarray(model.classes_).tolist()) if is_classifier else None,
    )


def _base(model: Any, members: np.ndarray) -> np.ndarray:
    """What the model adds to its trees: its answer for some instance, less theirs."""
    init = model.init_
    if not (isinstance(init, str) and init == "zero"):
        if not isinstance(init, DummyClassifier | DummyRegressor):
            raise ValueError(
                f"model's init is a {type(init).__name__}, whose answers differ by instance; only constants are added "
                "to trees. Fit with init=None or init='zero'."
            )
        if isinstance(init, DummyClassifier) and init.strategy not in _CONSTANT:
            raise ValueError(f"model's init draws at random (strategy={init.strategy!r}); fit with init=None.")
    anyone = np.zeros((1, model.n_features_in_), np.float32)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        raw = model.decision_function(anyone) if hasattr(model, "classes_") else model.predict(anyone)
    own = [[member.tree_.value[member.tree_.apply(anyone)[0], 0, 0] for member in stage] for stage in members]
    return np.asarray(raw, np.float64).ravel() - model.learning_rate * np.sum(own, axis=0)
