"""Logarithms of probabilities, as scikit-learn has them."""

import numpy as np

from jaxunc.tables import InstancesLike


class LogProbabilities:
    """``predict_log_proba`` of classifiers that say probabilities."""

    def predict_proba(self, X: InstancesLike) -> np.ndarray:
        """Class probabilities ``[instances classes]``, in the order of ``classes_``."""
        raise NotImplementedError

    def predict_log_proba(self, X: InstancesLike) -> np.ndarray:
        """Logarithms of the class probabilities ``[instances classes]``; -inf where one is zero.

        For losses take ``bound_.log_probability`` of a classifier with a rule: it is finite, and does not underflow.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
