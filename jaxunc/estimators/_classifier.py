"""Bases of the classifiers, checks of parameters that several of them have, and data on their way in."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_consistent_length, check_X_y
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from jaxunc._checks import as_weights, refuse_masked
from jaxunc._numerics import Pickled
from jaxunc.combiners import (
    COMBINERS,
    CONFIGURED,
    Answer,
    Combiner,
    Uncertainty,
    UncertaintyDecomposition,
    check_name,
    combiner_by_name,
    kind_of,
    margin,
)
from jaxunc.forest import Forest
from jaxunc.inference import BoundForest, bind
from jaxunc.tables import (
    Columns,
    Frame,
    InstancesLike,
    array_of,
    as_csr,
    as_labels,
    check_names,
    is_sparse,
    plain_pandas,
    plain_table,
    refuse_quantities,
)


class ProbabilityClassifier(Pickled, ClassifierMixin, BaseEstimator):
    """A classifier of scikit-learn that answers with probabilities, and is written and read by its attributes."""

    def predict_proba(self, X: InstancesLike) -> np.ndarray:
        """Class probabilities ``[instances classes]``, in the order of ``classes_``."""
        raise NotImplementedError

    def predict_log_proba(self, X: InstancesLike) -> np.ndarray:
        """Logarithms of the class probabilities ``[instances classes]``; -inf where one is zero.

        For losses take ``bound_.log_probability`` of a classifier with a combiner: it is finite, and does not
        underflow.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class CombinerClassifier(ProbabilityClassifier):
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

        Raises a ValueError for combiners over scores without a bound, which have none.
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
    """Return class scores; where leaves contradict each other (all are -inf), the logarithm of the probability."""
    scores = np.asarray(class_scores)
    lost = np.isneginf(scores).all(axis=1, keepdims=True)
    return np.where(lost, log_probability(lost), scores) if lost.any() else scores


def combiner_for(combiner: Any, options: Any, prior, *, n_samples, n_trees: int) -> Combiner:
    """Return the combiner of a name and its options, or the one that is given; it must answer with class scores."""
    combiner = combiner_by_name(combiner, options, prior=prior, n_samples=n_samples)
    check_class_scores(combiner, n_trees, len(prior))
    return combiner


_BIND_IT = "bind it to forest_ instead: jaxunc.bind(model.forest_, combiner)."


def check_class_scores(combiner: Combiner, n_trees: int, n_classes: int, advice: str = _BIND_IT) -> Answer:
    """Return the shapes of a combiner's answer for one instance; a TypeError unless it answers with class scores."""
    answer = jax.eval_shape(combiner.answer, jax.ShapeDtypeStruct((1, n_trees, n_classes), jnp.result_type(float)))
    if not isinstance(answer, Answer):
        raise TypeError(
            f"combiner {type(combiner).__name__} answers with {kind_of(answer)}, not with class scores; {advice}"
        )
    return answer


def check_combiner(combiner: Any, options: Any = None, *, further: Iterable[str] = ()) -> None:
    """Raise a TypeError or a ValueError unless it may be a combiner, its name or None, and its options."""
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
    """Raise a TypeError unless it may say which columns are nominal; `fit_columns` compares it with the data."""
    if nominal is None or isinstance(nominal, str):
        return
    plain = isinstance(nominal, list | tuple) or hasattr(nominal, "dtype")
    if not plain or any(not isinstance(part, str | bool | int | np.bool_ | np.integer) for part in nominal):
        raise TypeError(f"nominal={nominal!r:.60} must be 'auto', None, or names, positions or booleans of columns.")


def checked_weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    """Return a number ≥ 0 for each instance; None for none, and for weights of one. Raises a ValueError for others."""
    if sample_weight is None:
        return None
    refuse_masked("sample_weight", sample_weight)  # first, since scikit-learn takes what lies under a mask
    weights = _check_sample_weight(sample_weight, X)
    as_weights(weights, len(weights))
    return None if np.all(weights == 1) else weights


def validated(estimator: Any, X: Any, *y: Any, reset: bool, **checks: Any) -> Any:
    """Return X as an array of numbers, or in rows of a sparse matrix, and its labels, as ``validate_data`` does.

    Raises what that does, and a TypeError for dates, which scikit-learn takes for numbers.
    """
    X = as_csr(X, for_sklearn=True) if is_sparse(X) else numbers_among_objects(plain_table(X))
    y = tuple(labels_given(estimator, labels) for labels in y)
    if isinstance(X, Frame):
        take_names(estimator, X, reset=reset)
        checks = {"estimator": estimator, **checks}
        values: Any = array_of(X, "X")
        return check_X_y(values, *y, **checks) if y else check_array(values, input_name="X", **checks)
    return validate_data(estimator, X, *y, reset=reset, **checks)


def mixed_data(estimator: Any, X: Any, *y: Any, reset: bool) -> Any:
    """Return X checked, as a frame if it came as one, else as an array of any type; and its labels."""
    X, y = X if is_sparse(X) else plain_table(X), tuple(labels_given(estimator, labels) for labels in y)
    if not (hasattr(X, "iloc") or isinstance(X, Frame)):
        checks = {"dtype": None, "ensure_all_finite": "allow-nan", "ensure_min_samples": int(reset)}
        return validate_data(estimator, X, *y, reset=reset, **checks)
    # Columns of several types have no array in common: each is checked where it is encoded.
    y = tuple(validate_data(estimator, y=labels, reset=reset) for labels in y)
    if len(X.shape) != 2:
        raise ValueError(
            f"X has shape {X.shape}; expected a frame (instances, features). One column? Pass X.to_frame()."
        )
    if len(X) < int(reset) or not X.shape[1]:
        raise ValueError(f"X has shape {X.shape}; expected (instances, features), at least one of each.")
    check_consistent_length(X, *y)
    if isinstance(X, Frame):
        take_names(estimator, X, reset=reset)
    else:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    return (X, *y) if y else X


def labels_given(estimator: Any, y: Any) -> Any:
    """Return labels as `as_labels` does; a ValueError in scikit-learn's words if there are none."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    return as_labels(y)


def numbers_among_objects(X: Any) -> Any:
    """Return an array of objects, or columns of a pandas frame, as numbers where they hold nothing else.

    Raises a TypeError for dates, times and complex numbers among them.
    """
    refuse_quantities(X, "X")
    if isinstance(X, jax.Array):
        return np.array(X)  # scikit-learn's trees read no array that cannot be written to where values are missing
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        return plain_pandas(X)
    if isinstance(X, Frame) or len(X.shape) != 2 or X.dtype.kind != "O":
        return X
    values = array_of(X, "X")
    return X if values.dtype == object else values


def plain_numbers(X: Any, has_levels: bool) -> Any:
    """Return an array of objects that has no nominal column as numbers; anything else as it is."""
    return array_of(X, "X") if not has_levels and isinstance(X, np.ndarray) and X.dtype == object else X


def take_names(estimator: Any, frame: Frame, *, reset: bool) -> None:
    """Keep the names of a frame's columns, or compare them, as scikit-learn does where it knows the kind of frame."""
    n = frame.shape[1]
    if reset:
        estimator.n_features_in_, estimator.feature_names_in_ = n, np.array(frame.columns, object)
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        check_names(frame.columns, Columns(len(names), tuple(map(str, names))), "X")
    elif n != estimator.n_features_in_:
        raise ValueError(f"X has {n} features, but {type(estimator).__name__} expects {estimator.n_features_in_}.")
