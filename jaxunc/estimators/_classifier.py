"""Base classes of the classifiers, and checks of their parameters."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from jaxunc._numerics import Pickled
from jaxunc.combiners import COMBINERS, CONFIGURED, Answer, Combiner, check_name, combiner_by_name, kind_of, margin
from jaxunc.forest import Forest
from jaxunc.inference import BoundForest
from jaxunc.interop import Steps
from jaxunc.tables import InstancesLike

from ._checked_data import check_fitted
from ._deciding import Deciding


class ProbabilityClassifier(Deciding, Pickled, ClassifierMixin, BaseEstimator):
    """Base class of classifiers with ``predict_proba``, whose attributes are their whole state."""

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
    """Base class of classifiers that answer by a combiner bound to a forest.

    A subclass says by `_instances` how rows X become the rows that the forest reads.
    """

    combiner: Any
    combiner_options: Any
    forest_: Forest
    classes_: np.ndarray
    bound_: BoundForest
    _steps: Steps = ()  # transformers of a pipeline before its forest

    def _instances(self, X) -> Any:
        """Return rows X as the forest reads them."""
        raise NotImplementedError

    def predict(self, X: InstancesLike) -> np.ndarray:
        """The label of the class with the largest class score, ``[instances]``."""
        best = np.argmax(self._class_scores(X), axis=1)
        return self.classes_[best]

    def predict_proba(self, X: InstancesLike) -> np.ndarray:
        """Class probabilities ``[instances classes]``, in the order of ``classes_``.

        Raises a ValueError for a combiner of scores without a bound, which has no probabilities.
        """
        check_fitted(self, "forest_")
        return np.asarray(self.bound_.probability(self._instances(X)))

    def decision_function(self, X: InstancesLike) -> np.ndarray:
        """Numbers to rank by: for two classes the margin ``[instances]``, else class scores ``[instances classes]``.

        Unlike probabilities they do not saturate.
        """
        scores = self._class_scores(X)
        return margin(scores) if len(self.classes_) == 2 else scores

    def _probability_and_class(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return probabilities ``[instances classes]``, and the predicted classes by position ``[instances]``."""
        check_fitted(self, "forest_")
        rows = self._instances(X)
        answer = self.bound_.answer(rows)
        # A combiner whose scores have no bound has no probabilities: to ask for them raises, with advice.
        shares = self.bound_.probability(rows) if answer.probability is None else answer.probability
        return np.asarray(shares), np.asarray(answer.predicted)

    def _class_scores(self, X) -> np.ndarray:
        """Return the class scores of instances X, ``[instances classes]``, as `decisive` returns them."""
        check_fitted(self, "forest_")
        X = self._instances(X)
        return decisive(self.bound_(X), lambda _: self.bound_.log_probability(X))


def decisive(class_scores, log_probability: Callable) -> np.ndarray:
    """Return ``class_scores [instances classes]``, with log probabilities in place of rows that are -inf throughout.

    The leaves of an instance with such a row exclude, together, every class. ``log_probability`` takes the mask of
    these instances, bools ``[instances 1]``, and returns ``[instances classes]``; it is called only if there are any.
    """
    scores = np.asarray(class_scores)
    excludes_all = np.isneginf(scores).all(axis=1, keepdims=True)
    if not excludes_all.any():
        return scores
    return np.where(excludes_all, log_probability(excludes_all), scores)


def combiner_for(combiner: Any, options: Any, prior, *, n_samples, n_trees: int) -> Combiner:
    """Return ``combiner``, a combiner or the name of one, as a combiner for a forest of ``n_trees`` trees.

    ``options`` are those of a named combiner. ``prior [classes]`` and ``n_samples`` (instances) are the forest's.
    Raises a TypeError if the combiner has no class scores.
    """
    combiner = combiner_by_name(combiner, options, prior=prior, n_samples=n_samples)
    check_class_scores(combiner, n_trees, len(prior))
    return combiner


_BIND_IT = "bind it to forest_ instead: jaxunc.bind(model.forest_, combiner)."
"""Advice of an error on a combiner without class scores."""


def check_class_scores(combiner: Combiner, n_trees: int, n_classes: int, advice: str = _BIND_IT) -> Answer:
    """Return an `Answer` whose fields are the shapes of a combiner's answer for one instance.

    The instance is one of ``n_trees`` trees and ``n_classes`` classes. Raises a TypeError, which ends in ``advice``,
    unless the combiner answers with class scores.
    """
    counts = jax.ShapeDtypeStruct((1, n_trees, n_classes), jnp.result_type(float))
    answer = jax.eval_shape(combiner.answer, counts)
    if not isinstance(answer, Answer):
        raise TypeError(
            f"combiner {type(combiner).__name__} answers with {kind_of(answer)}, not with class scores; {advice}"
        )
    return answer


def check_combiner(combiner: Any, options: Any = None, *, further: Iterable[str] = ()) -> None:
    """Raise a TypeError or a ValueError unless ``combiner`` and ``options`` may be an estimator's parameters.

    They may be a `Combiner`, the name of one, a name in ``further``, or None; and a mapping from names, or None.
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
    """Raise a TypeError unless the parameter ``nominal`` is None, a text, or names, positions or booleans of columns.

    `fit_columns` compares it with the data.
    """
    if nominal is None or isinstance(nominal, str):
        return
    is_collection = isinstance(nominal, list | tuple) or hasattr(nominal, "dtype")
    kinds = str | bool | int | np.bool_ | np.integer
    if not is_collection or not all(isinstance(column, kinds) for column in nominal):
        raise TypeError(f"nominal={nominal!r:.60} must be 'auto', None, or names, positions or booleans of columns.")
