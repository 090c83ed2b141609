"""Base classes of the classifiers, and checks of their parameters."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from jaxunc._numerics import Pickled
from jaxunc.combiners import COMBINERS, CONFIGURED, Answer, Combiner, check_name, combiner_by_name, kind_of, margin
from jaxunc.forest import Forest
from jaxunc.inference import BoundForest
from jaxunc.interop import Steps
from jaxunc.tables import InstancesLike

from ._deciding import Deciding


class ProbabilityClassifier(Deciding, Pickled, ClassifierMixin, BaseEstimator):
    """Base of classifiers with ``predict_proba``; their attributes are their whole state."""

    def predict_proba(self, X: InstancesLike) -> np.ndarray:
        """Class probabilities ``[instances classes]``, in the order of ``classes_``."""
        raise NotImplementedError

    def predict_log_proba(self, X: InstancesLike) -> np.ndarray:
        """Logarithms of the class probabilities ``[instances classes]``; -inf for a probability of 0.

        For losses take ``bound_.log_probability`` of a classifier with a combiner: it is finite, and does not
        underflow.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class CombinerClassifier(ProbabilityClassifier):
    """Base of classifiers that answer by a combiner bound to a forest. `_instances` makes X what the forest reads."""

    combiner: Any
    combiner_options: Any
    forest_: Forest
    classes_: np.ndarray
    bound_: BoundForest
    _steps: Steps = ()  # transformers of a pipeline before its forest

    def _instances(self, X) -> Any:
        raise NotImplementedError

    def predict(self, X: InstancesLike) -> np.ndarray:
        """The label of the class with the largest class score, ``[instances]``."""
        best = np.argmax(self._class_scores(X), axis=1)
        return self.classes_[best]

    def predict_proba(self, X: InstancesLike) -> np.ndarray:
        """Class probabilities ``[instances classes]``, in the order of ``classes_``.

        Raises a ValueError for a combiner of scores without a bound, which has no probabilities.
        """
        check_is_fitted(self, "forest_")
        return np.asarray(self.bound_.probability(self._instances(X)))

    def decision_function(self, X: InstancesLike) -> np.ndarray:
        """Numbers to rank by: for two classes the margin ``[instances]``, else class scores ``[instances classes]``.

        Unlike probabilities they do not saturate.
        """
        scores = self._class_scores(X)
        return margin(scores) if len(self.classes_) == 2 else scores

    def _probability_and_class(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return probabilities ``[instances classes]``, and the predicted classes by position ``[instances]``."""
        check_is_fitted(self, "forest_")
        rows = self._instances(X)
        answer = self.bound_.answer(rows)
        # A combiner whose scores have no bound has no probabilities: to ask for them raises, with advice.
        shares = self.bound_.probability(rows) if answer.probability is None else answer.probability
        return np.asarray(shares), np.asarray(answer.predicted)

    def _class_scores(self, X) -> np.ndarray:
        check_is_fitted(self, "forest_")
        X = self._instances(X)
        return decisive(self.bound_(X), lambda _: self.bound_.log_probability(X))


def decisive(class_scores, log_probability: Callable) -> np.ndarray:
    """Return class scores ``[instances classes]``, with log probabilities in place of rows of -inf.

    The leaves of such an instance together exclude every class. ``log_probability`` takes the mask of these instances,
    bools ``[instances 1]``, returns ``[instances classes]``, and is called only if there are any.
    """
    scores = np.asarray(class_scores)
    is_excluded = np.isneginf(scores).all(axis=1, keepdims=True)
    return np.where(is_excluded, log_probability(is_excluded), scores) if is_excluded.any() else scores


def combiner_for(combiner: Any, options: Any, prior, *, n_samples, n_trees: int) -> Combiner:
    """Return ``combiner``, or the combiner of that name with its ``options``; a TypeError if it has no class scores.

    ``prior [classes]`` and ``n_samples``, the number of instances, are those of the forest with ``n_trees``.
    """
    combiner = combiner_by_name(combiner, options, prior=prior, n_samples=n_samples)
    check_class_scores(combiner, n_trees, len(prior))
    return combiner


_BIND_IT = "bind it to forest_ instead: jaxunc.bind(model.forest_, combiner)."
"""Advice of an error on a combiner without class scores."""


def check_class_scores(combiner: Combiner, n_trees: int, n_classes: int, advice: str = _BIND_IT) -> Answer:
    """Return the shapes of a combiner's answer for one instance of ``n_trees`` trees and ``n_classes`` classes.

    Raises a TypeError, which ends in ``advice``, unless the combiner answers with class scores.
    """
    answer = jax.eval_shape(combiner.answer, jax.ShapeDtypeStruct((1, n_trees, n_classes), jnp.result_type(float)))
    if not isinstance(answer, Answer):
        raise TypeError(
            f"combiner {type(combiner).__name__} answers with {kind_of(answer)}, not with class scores; {advice}"
        )
    return answer


def check_combiner(combiner: Any, options: Any = None, *, further: Iterable[str] = ()) -> None:
    """Raise a TypeError unless ``combiner`` is a `Combiner`, a name or None, and ``options`` map names, or are None.

    Raises a ValueError for a name that is neither a combiner's nor in ``further``.
    """
    if isinstance(combiner, str):
        check_name("combiner", combiner, (*further, *COMBINERS, *CONFIGURED))
    elif not isinstance(combiner, Combiner | None):
        raise TypeError(
            f"combiner={combiner!r:.60} is a {type(combiner).__name__}; pass a combiner, its name, or None."
        )
    if options is not None and not (isinstance(options, Mapping) and all(isinstance(name, str) for name in options)):
        raise TypeError(
            f"combiner_options={options!r:.60} must be options of the combiner by name, such as {{'smoothing': 0.5}}."
        )


def check_nominal(nominal: Any) -> None:
    """Raise a TypeError unless ``nominal`` is None, a text or columns; `fit_columns` compares it with the data."""
    if nominal is None or isinstance(nominal, str):
        return
    is_collection = isinstance(nominal, list | tuple) or hasattr(nominal, "dtype")
    if not is_collection or any(not isinstance(column, str | bool | int | np.bool_ | np.integer) for column in nominal):
        raise TypeError(f"nominal={nominal!r:.60} must be 'auto', None, or names, positions or booleans of columns.")
