"""Answers of every classifier that has a forest and a rule."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from jaxunc._numerics import Pickled
from jaxunc.combiners import Combiner, Uncertainty, UncertaintyDecomposition, combiner_by_name, margin
from jaxunc.forest import Forest
from jaxunc.inference import BoundForest, bind
from jaxunc.tables import InstancesLike

from ._log_probabilities import LogProbabilities
from ._parameters import check_class_scores


def rule_for(combiner: Any, options: Any, prior, *, n_samples, n_trees: int) -> Combiner:
    """The rule of a name and its options, or the rule that is given; it must answer with class scores."""
    rule = combiner_by_name(combiner, options, prior=prior, n_samples=n_samples)
    check_class_scores(rule, n_trees, len(prior))
    return rule


class RuleClassifier(Pickled, LogProbabilities, ClassifierMixin, BaseEstimator):
    """Predictions from ``forest_`` and ``combiner_``, bound as ``bound_``, for what ``_instances`` makes of X."""

    combiner: Any
    combiner_options: Any
    forest_: Forest
    classes_: np.ndarray
    bound_: BoundForest

    def _instances(self, X) -> Any:
        raise NotImplementedError

    def predict(self, X: InstancesLike) -> np.ndarray:
        """The class with the largest class score, ``[instances]``."""
        best = np.argmax(self._class_scores(X), axis=1)
        return self.classes_[best]

    def predict_proba(self, X: InstancesLike) -> np.ndarray:
        """Class probabilities ``[instances classes]``, in the order of ``classes_``.

        Raises a ValueError for rules over scores without a bound, which have none.
        """
        check_is_fitted(self, "forest_")
        return np.asarray(self.bound_.probability(self._instances(X)))

    def decision_function(self, X: InstancesLike) -> np.ndarray:
        """The number to rank by: for two classes the margin ``[instances]``, else class scores ``[instances classes]``.

        Unlike probabilities it does not saturate.
        """
        scores = self._class_scores(X)
        return margin(scores) if len(self.classes_) == 2 else scores

    def predict_uncertainty(
        self, X: InstancesLike, kind: Literal["entropy", "plausibility", "interval"] = "entropy"
    ) -> Uncertainty:
        """Total, aleatoric and epistemic uncertainty ``[instances]`` each: see `UncertaintyDecomposition`."""
        check_is_fitted(self, "forest_")
        parts = bind(self.forest_, UncertaintyDecomposition(kind))(self._instances(X))
        return Uncertainty(*map(np.asarray, parts))

    def _class_scores(self, X) -> np.ndarray:
        check_is_fitted(self, "forest_")
        X = self._instances(X)
        return decisive(self.bound_(X), lambda _: self.bound_.log_probability(X))


def decisive(class_scores, log_probability: Callable) -> np.ndarray:
    """Class scores, but where the leaves contradict each other (all are -inf) the logarithm of the probability."""
    scores = np.asarray(class_scores)
    lost = np.isneginf(scores).all(axis=1, keepdims=True)
    return np.where(lost, log_probability(lost), scores) if lost.any() else scores
