"""Importer of fitted scikit-learn classifiers of trees."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from jaxunc._checks import check_counts
from jaxunc.forest import Forest, assemble, snap_to_integers
from jaxunc.tables import Columns, NumbersLike

from ._sklearn_tree import nodes_of, warn_if_missing_is_lost

_FORESTS = (RandomForestClassifier, ExtraTreesClassifier)
_SUPPORTED = "DecisionTree, ExtraTree, RandomForest, ExtraTrees and Bagging (of trees) classifiers"


def from_sklearn(model: Any, *, prior: NumbersLike | None = None) -> Forest:
    """Import a fitted scikit-learn forest, exactly: every float32 instance reaches the leaf that it reaches there.

    Parameters
    ----------
    model
        A fitted ``DecisionTreeClassifier``, ``ExtraTreeClassifier``, ``RandomForestClassifier``,
        ``ExtraTreesClassifier`` or ``BaggingClassifier`` of trees (feature subsets included). Two classes or more,
        labels of any type, missing values, class and sample weights.
    prior
        Class probabilities for rules that measure evidence against a prior, in the order of ``model.classes_``.
        Default: the class frequencies of the samples that the trees were grown on. With class or sample weights
        those are weighted frequencies (with ``class_weight="balanced"`` equal ones), not the classes' shares of the
        data: pass the shares if that is what you mean.

    Returns
    -------
    Forest
        Leaf counts are those of the sample that each tree was grown on (in-bag): integers if the weights are.

    Raises
    ------
    TypeError
        If ``model`` is of another kind (a regressor, a pipeline, a bag of something else).
    ValueError
        If ``model`` is not fitted, has several outputs or a single class, or was grown with negative sample weights.
        Also if its trees test sets of categories (``categorical_features``), have arrays by node that this version
        does not know, or send an instance elsewhere than their thresholds say, where they are stored in another form.

    Warns
    -----
    UserWarning
        If ``model`` is a forest of scikit-learn-intelex of which no node sends missing values left: older versions lose
        where they go (its issue 3356; 2026.2 does not). Complete instances are answered exactly.

    Notes
    -----
    scikit-learn tests ``float32(x) <= t`` with a float64 threshold: thresholds are rounded down to float32, which
    changes no answer. Counts are its fractions times the size of the leaf, snapped to integers within 1e-9 of it.
    """
    members = list(_member_trees(model))  # which checks the model
    warn_if_missing_is_lost(model, [estimator.tree_ for estimator, _ in members])
    classes = np.asarray(model.classes_)
    nodes = [nodes_of(estimator, columns) for estimator, columns in members]
    counts = [_counts(estimator, len(classes)) for estimator, _ in members]
    for own in counts:
        check_counts(own, "model's leaf counts")
    # Class frequencies of the samples that the trees were grown on: their roots hold all instances.
    roots = np.stack([own[0] for own in counts])
    names = getattr(model, "feature_names_in_", None)
    forest = assemble(
        nodes,
        counts,
        columns=Columns(int(model.n_features_in_), None if names is None else tuple(map(str, names))),
        prior=roots.sum(axis=0) / roots.sum(),
        n_samples=float(roots.sum(axis=1).mean()),
        class_labels=tuple(classes.tolist()),
    )
    return forest if prior is None else forest.with_prior(prior)


def _member_trees(model) -> Iterator[tuple[DecisionTreeClassifier, np.ndarray | None]]:
    """Return the single trees of a model, each with the columns of the data that it sees (None: all)."""
    name = type(model).__name__
    if not isinstance(model, (*_FORESTS, DecisionTreeClassifier, BaggingClassifier)):
        raise TypeError(
            f"model is a {name}; from_sklearn imports {_SUPPORTED}. Boosted trees and regressors, whose leaves hold "
            "values: jaxunc.from_sklearn_values(model). For a pipeline or a search, pass its fitted final estimator "
            "and the transformed data."
        )
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ValueError(f"model ({name}) is not fitted; call model.fit(X, y) first.") from error
    if (n_outputs := getattr(model, "n_outputs_", 1)) != 1:
        raise ValueError(f"model ({name}) has {n_outputs} outputs; fit one forest per output and import each.")
    if len(labels := np.asarray(model.classes_).tolist()) < 2:
        raise ValueError(f"model ({name}) knows one class only, {labels}; counts that tell classes apart need two.")
    if isinstance(model, DecisionTreeClassifier):
        yield model, None
    elif isinstance(model, _FORESTS):
        for estimator in model.estimators_:
            yield estimator, None
    else:
        # A bag may show each tree some columns only: its features are positions among these.
        for estimator, columns in zip(model.estimators_, model.estimators_features_, strict=True):
            if not isinstance(estimator, DecisionTreeClassifier):
                raise TypeError(
                    f"model is a bag of {type(estimator).__name__}; only bags of single decision trees are forests."
                )
            yield estimator, np.asarray(columns)


def _counts(estimator: DecisionTreeClassifier, n_classes: int) -> np.ndarray:
    """Return the class counts of one tree's nodes, with classes as the whole ensemble numbers them."""
    sizes = estimator.tree_.weighted_n_node_samples
    own = snap_to_integers(estimator.tree_.value[:, 0, :] * sizes[:, None], sizes)
    if len(estimator.classes_) == n_classes:
        return own
    # A bagged tree that missed a class: its own classes are positions among the ensemble's.
    counts = np.zeros((len(own), n_classes))
    counts[:, np.asarray(estimator.classes_, dtype=np.int64)] = own
    return counts
