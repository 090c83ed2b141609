"""The part of an estimator that goes into a file: its parameters, and what it needs to answer."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from jaxunc import estimators
from jaxunc._renamed import RENAMED_PARAMETERS, RENAMED_VALUES
from jaxunc.combiners import Combiner
from jaxunc.forest import Forest
from jaxunc.greedy import Presorted, sorted_sample, values_of
from jaxunc.routing import bind
from jaxunc.tables import Columns
from jaxunc.transduction import BoundSample

from ._names import ESTIMATORS, SKLEARN, sklearn_class

ARRAYS = ("classes_", "feature_names_in_", "nominal_", "oob_set_", "oob_decision_function_")
"""Names of attributes that are NumPy arrays."""
KEPT = (*ARRAYS, "n_features_in_", "oob_score_", "forest_", "combiner_", "_columns")
"""Fitted attributes that are kept, beside the sample of transduction. Scikit-learn's own forest is not, nor how
learning went: no answer reads them."""


def is_estimator(value: Any) -> bool:
    """Return whether a value is one of the library's classifiers."""
    return type(value) in [getattr(estimators, name) for name in ESTIMATORS]


def is_model(value: Any) -> bool:
    """Return whether a value is a model of scikit-learn, as a parameter; its settings are kept."""
    return isinstance(value, BaseEstimator) and type(value).__name__ in SKLEARN


def state_of(value: Any) -> dict[str, dict[str, Any]]:
    """Return the parameters, and what was fitted. Callbacks and random states that are no numbers become None."""
    params = {name: _param(part) for name, part in value.get_params(deep=False).items()}
    if is_model(value):
        return {"params": params, "fitted": {}}
    check_is_fitted(value, "classes_")
    value._check_parameters()  # else they would be refused where the file is read
    fitted = {name: getattr(value, name) for name in KEPT if getattr(value, name, None) is not None}
    fitted["chosen"] = value._chosen
    if isinstance(value.bound_, BoundSample):
        sample = value.bound_.sample
        labels = list(sample.class_labels)
        parts = {"columns": sample.columns, "labels": labels, "label": sample.label, "values": values_of(sample)}
        fitted["sample"] = parts
    return {"params": params, "fitted": fitted}


def _param(part: Any) -> Any:
    while isinstance(part, FrozenEstimator):
        part = part.estimator
    is_callback = callable(part) and not isinstance(part, Combiner)
    return None if is_callback or type(part).__name__ in ("RandomState", "Generator") else part


def restored(name: Any, params: dict[str, Any], fitted: dict[str, Any]) -> Any:
    """Make the estimator with these parameters and attributes; raises a ValueError if they do not belong together."""
    # Files of before have the names of before.
    params = {RENAMED_PARAMETERS.get(key, key): part for key, part in params.items()}
    if params.get("counts") in list(RENAMED_VALUES):
        params["counts"] = RENAMED_VALUES[params["counts"]]
    make: Callable = getattr(estimators, name) if name in ESTIMATORS else sklearn_class(name)
    if unknown := sorted(set(params) - set(make().get_params(deep=False))):
        raise ValueError(f"the file gives {name} the parameters {unknown[:5]}, which it does not have.")
    # By its constructor, so that what is not in the file is as in a new one.
    model = make(**params)
    if name not in ESTIMATORS:
        return model
    wide, sample, chosen = (fitted.pop(part, None) for part in ("wide", "sample", "chosen"))
    if isinstance(chosen, dict):
        chosen = {RENAMED_PARAMETERS.get(key, key): part for key, part in chosen.items()}
    if isinstance(wide, Forest):  # of files of the first versions, in which it was another forest
        fitted["forest_"] = wide
    _check(name, fitted, needs_forest=name != "TransductiveTreeClassifier")
    chosen = _chosen_of(name, model, chosen)
    vars(model).update(fitted)
    if "forest_" in fitted:
        model.bound_ = bind(model.forest_, model.combiner_)
        model._chosen = chosen
    else:
        model._hold(_sample_of(name, sample, fitted["classes_"]), fitted.get("combiner_"), chosen)
    return model


def _chosen_of(name: str, model: Any, chosen: Any) -> dict[str, Any]:
    """Return the choices that the model made when it was fitted, checked like the parameters."""
    try:
        model._check_parameters()
        now = model._choices()
        if not isinstance(chosen, dict) or set(chosen) != set(now):
            raise _broken(name, "choices")
        if own := {key: value for key, value in chosen.items() if key in model.get_params(deep=False)}:
            type(model)(**own)._check_parameters()
        elif not all(isinstance(value, bool) for value in chosen.values()):
            raise _broken(name, "choices")
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"the file's {name} has a parameter that it does not take: {error}") from error
    return chosen


def _check(name: str, fitted: dict[str, Any], *, needs_forest: bool) -> None:
    if unknown := sorted(set(fitted) - set(KEPT)):
        raise ValueError(f"the file gives {name} the attributes {unknown[:5]}, which it does not have.")
    kinds: dict[str, Any] = {**dict.fromkeys(ARRAYS, np.ndarray), "n_features_in_": int, "oob_score_": float}
    kinds |= {"forest_": Forest, "combiner_": Combiner, "_columns": Columns}
    needed = {"classes_", "n_features_in_", *(("forest_", "combiner_") if needs_forest else ())}
    for attribute in sorted(needed | set(fitted)):
        if not isinstance(fitted.get(attribute), kinds[attribute]):
            raise _broken(name, attribute)
    number, classes = fitted["n_features_in_"], fitted["classes_"]
    if classes.ndim != 1 or len(classes) < 2 or isinstance(number, bool) or number < 1:
        raise _broken(name, "classes_ and n_features_in_")
    names = fitted.get("feature_names_in_")
    if names is not None and names.shape != (number,):
        raise _broken(name, "feature_names_in_")
    if needs_forest:
        forest = fitted["forest_"]
        if forest.n_features != number or tuple(classes.tolist()) != forest.class_labels:
            raise _broken(name, "classes_ and n_features_in_")


def _sample_of(name: str, parts: Any, classes: np.ndarray) -> Presorted:
    try:
        columns, label, values = parts["columns"], np.asarray(parts["label"]), np.asarray(parts["values"], np.float32)
        labels = tuple(parts["labels"])
        inside = values.shape == (len(label), columns.number) and label.dtype.kind == "i" and len(labels) >= 2
        inside &= labels == tuple(classes.tolist())
    except (KeyError, TypeError, AttributeError) as error:
        raise _broken(name, "sample") from error
    codes = values[:, columns.is_nominal] if inside else values
    if not inside or label.min(initial=0) < 0 or label.max(initial=0) >= len(labels) or np.isinf(values).any():
        raise _broken(name, "sample")
    if np.any((codes < 0) | (codes > 2**24) | (codes != np.rint(codes))) or 0 in values.shape:
        raise _broken(name, "sample")
    return sorted_sample(columns, labels, label, values)


def _broken(name: str, attribute: str) -> ValueError:
    return ValueError(f"the file's {name} has no {attribute} that fits the rest of it.")
