"""The part of an estimator that goes into a file: its parameters, and what it needs to answer.

Transformers of a pipeline are as skops writes them, and read only where every type in them is trusted.
"""

import importlib
import io
import zipfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from jaxunc import estimators
from jaxunc._types import steps_of_estimator
from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Combiner
from jaxunc.forest import Forest
from jaxunc.inference import bind
from jaxunc.interop import library_of
from jaxunc.transduction import BoundSample, Presorted, sorted_sample, values_of

from ._names import (
    ESTIMATORS,
    KEPT,
    REGRESSOR,
    SKLEARN,
    broken,
    checked,
    checked_numbers,
    current,
    law_of,
    qualified_name,
    sklearn_class,
)

TRUSTED = (
    "numpy.dtype",
    "scipy.interpolate._bsplines.BSpline",
    "sklearn.compose._column_transformer._RemainderColsList",
    "sklearn.compose._column_transformer.make_column_selector",
)
"""Types that transformers of scikit-learn hold, beside those that skops trusts: its estimators, arrays, functions of
NumPy's numbers."""
_LEAST = (0, 13)
"""Version of skops before which files could name types that were not checked."""
Steps = list[tuple[str, Any]]


def _written(steps: Steps, last: str) -> dict[str, Any]:
    """Return transformers as arrays and texts; a TypeError for what skops cannot write, or nobody could read again."""
    writer = _skops()
    try:
        content = writer.dumps(steps)
        types = tuple(name for name in writer.get_untrusted_types(data=content) if name not in TRUSTED)
    except Exception as error:  # whatever the transformers hold
        raise TypeError(
            f"the pipeline's steps {[name for name, _ in steps]} cannot be written by skops ({type(error).__name__}: "
            f"{str(error)[:200]}); pickle or joblib keep the whole estimator, for those who trust its file."
        ) from error
    if unnamed := [name for name in types if "<" in name]:
        raise TypeError(
            f"the pipeline holds {unnamed[0]}, which has no name by which it could be found again: define it at the "
            "top of a module. Or keep the whole estimator by pickle or joblib, for those who trust its file."
        )
    descriptions = tuple(f"{name}: {type(step).__name__}" for name, step in steps)
    return {"skops": np.frombuffer(content, np.uint8), "steps": descriptions, "last": last, "types": types}


def _read(parts: Any, trusted: Iterable[Any]) -> tuple[Steps, str]:
    """Return the transformers, and the name of the last step; a ValueError for types that nobody trusts, and damage."""
    kinds: dict[str, Any] = {"skops": np.ndarray, "steps": tuple, "last": str, "types": tuple}
    if not isinstance(parts, dict) or any(not isinstance(parts.get(name), kind) for name, kind in kinds.items()):
        raise ValueError("the file's pipeline has no transformers.")
    reader, content = _skops(), parts["skops"].astype(np.uint8, casting="equiv").tobytes()
    try:
        _check_size(content)
        trusted_names = [qualified_name(part).replace(":", ".") for part in trusted]
        types = reader.get_untrusted_types(data=content)
        if foreign := [name for name in types if name not in (*TRUSTED, *trusted_names)]:
            names = [name.rpartition(".")[2] for name in foreign[:3]]
            raise ValueError(
                f"the file's pipeline holds types that are not scikit-learn's: {', '.join(foreign[:5])}. If you trust "
                f"them, import them and pass them: jaxunc.load(path, known=[{', '.join(names)}]), or known= of "
                "predict_files."
            )
        steps = reader.loads(content, trusted=types)
    except ValueError:
        raise
    except Exception as error:  # whatever the bytes make of the reader
        raise ValueError(f"the file's pipeline is damaged: {type(error).__name__}: {str(error)[:200]}") from error
    pairs = isinstance(steps, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in steps)
    if not pairs or not steps or any(type(name) is not str or not hasattr(step, "transform") for name, step in steps):
        raise ValueError("the file's pipeline holds no transformers.")
    return steps, parts["last"]


def _check_size(content: bytes) -> None:
    """Raise a ValueError for an archive that takes more memory than its own size, as hostile ones do."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
    if sum(member.file_size for member in members) > len(content) or any(member.compress_type for member in members):
        raise ValueError("the file's pipeline is damaged: its parts are larger than the file.")


def _skops() -> Any:
    try:
        package, reader = importlib.import_module("skops"), importlib.import_module("skops.io")
    except ImportError as error:
        raise TypeError(
            "a pipeline's transformers are kept in a file by skops, which is not installed: pip install 'skops>=0.13'. "
            "Or keep the whole estimator by pickle or joblib, for those who trust its file."
        ) from error
    version = tuple(int(part) for part in str(package.__version__).split(".")[:2] if part.isdigit())
    if version < _LEAST:
        raise TypeError(
            f"skops {package.__version__} reads types that were not checked; files of pipelines need 0.13 or later: "
            "pip install -U skops."
        )
    return reader


def is_estimator(value: Any) -> bool:
    return type(value) in [getattr(estimators, name) for name in ESTIMATORS]


def is_model(value: Any) -> bool:
    """Return whether a value is a model of scikit-learn, as a parameter; its settings are kept."""
    return isinstance(value, BaseEstimator) and type(value).__name__ in SKLEARN


def state_of(value: Any, *, steps: bool = True) -> dict[str, dict[str, Any]]:
    """Return an estimator's parameters and fitted attributes; with ``steps`` also a pipeline's transformers.

    Callbacks and random states that are no numbers become None.
    """
    params = {name: _param(part) for name, part in value.get_params(deep=False).items()}
    if is_model(value):
        return {"params": params, "fitted": {}}
    # A part alone where `fit` broke off.
    check_is_fitted(value, ("law_" if type(value).__name__ == REGRESSOR else "classes_", "bound_"))
    value._check_parameters()  # else they would be refused where the file is read
    fitted = {name: vars(value)[name] for name in KEPT if vars(value).get(name) is not None}
    if steps and steps_of_estimator(value):
        fitted["transformers"] = _written(value._steps, _last_of(value))
    if "law_" in fitted:
        fitted["bins_"] = fitted["bins_"]._replace(codes=np.zeros(0, np.int64))  # of the rows of the fit
        return {"params": params, "fitted": fitted}
    fitted["chosen"] = value._chosen
    if isinstance(value.bound_, BoundSample):
        sample_set, labels = value.bound_.sample, list(value.bound_.sample.class_labels)
        sample = {
            "columns": sample_set.columns,
            "labels": labels,
            "label": sample_set.label,
            "values": values_of(sample_set),
        }
        fitted["sample"] = sample
    return {"params": params, "fitted": fitted}


def _param(part: Any) -> Any:
    if isinstance(part, FrozenEstimator | Pipeline | TransformedTargetRegressor):
        part = estimators.without_transform(part)[0].forest  # the steps before it are kept as they were fitted
    if isinstance(part, Forest | AdditiveTrees) or library_of(part) not in (None, "sklearn"):
        return None
    is_callback = callable(part) and not isinstance(part, Combiner)
    return None if is_callback or type(part).__name__ in ("RandomState", "Generator") else part


def _last_of(model: Any) -> str:
    """Return the name of the last step of a pipeline."""
    whole = estimators.without_transform(model.estimator)[0].whole
    while isinstance(whole, Pipeline) and isinstance(whole.steps[-1][1], Pipeline):
        whole = whole.steps[-1][1]
    return whole.steps[-1][0] if isinstance(whole, Pipeline) else "forest"


def restored(name: Any, params: dict[str, Any], fitted: dict[str, Any], trusted: Iterable[Any] = ()) -> Any:
    """Make the estimator with these parameters and attributes; raises a ValueError if they do not belong together.

    ``trusted`` are types that the transformers of a pipeline may have, beside scikit-learn's.
    """
    params = current(params)
    make: Callable = getattr(estimators, name) if name in ESTIMATORS else sklearn_class(name)
    if unknown := sorted(set(params) - set(make().get_params(deep=False))):
        raise ValueError(f"the file gives {name} the parameters {unknown[:5]}, which it does not have.")
    # By its constructor, so that what is not in the file is as in a new one.
    model = make(**params)
    if name not in ESTIMATORS:
        return model
    steps, last = _read(fitted.pop("transformers"), trusted) if "transformers" in fitted else ([], "")
    if steps:
        model._steps = steps
    refit(model, name, fitted)
    if steps and model.estimator is not None:
        model.estimator = Pipeline(
            [
                *((step, clone(transformer, safe=False)) for step, transformer in _renamed(steps)),
                (last, model.estimator),
            ]
        )
    if name == REGRESSOR and model.estimator is not None and (kept := model.law_.target_map) is not None:
        model.estimator = TransformedTargetRegressor(model.estimator, func=kept.forward, inverse_func=kept.inverse)
    return model


def _renamed(steps: Steps) -> Steps:
    """Return steps, of pipelines in pipelines, with names that differ."""
    names = [name for name, _ in steps]
    return [(f"{name}-{i}" if name in names[:i] else name, step) for i, (name, step) in enumerate(steps)]


def refit(model: Any, name: str, fitted: dict[str, Any]) -> None:
    """Give the estimator what was fitted; raises a ValueError if that does not belong together, or to it."""
    raw = bool(vars(model).get("_steps"))
    if name == REGRESSOR:
        _check_parameters(name, model)
        vars(model).update(
            {"forest_": None, "oob_distribution_": None, "coverage_by_value_": None}
            | checked_numbers(name, fitted, raw=raw)
        )
        model.bound_ = law_of(vars(model))
        return
    sample, chosen = (fitted.pop(part, None) for part in ("sample", "chosen"))
    if isinstance(chosen, dict):
        chosen = current(chosen)
    fitted = checked(name, fitted, raw=raw)
    chosen = _chosen_of(name, model, chosen)
    vars(model).update(fitted)
    if "forest_" in fitted:
        model.bound_ = bind(model.forest_, model.combiner_)
        model._chosen = chosen
    else:
        model._hold(_sample_of(name, sample, fitted["classes_"]), fitted.get("combiner_"), chosen)


def _check_parameters(name: str, model: Any) -> None:
    try:
        model._check_parameters()
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"the file's {name} has a parameter that it does not take: {error}") from error


def _chosen_of(name: str, model: Any, chosen: Any) -> dict[str, Any]:
    """Return the choices that the model made when it was fitted, checked like the parameters."""
    _check_parameters(name, model)
    try:
        now = model._choices()
        if not isinstance(chosen, dict) or set(chosen) != set(now):
            raise broken(name, "choices")
        if parameters := {key: value for key, value in chosen.items() if key in model.get_params(deep=False)}:
            type(model)(**parameters)._check_parameters()
        elif not all(isinstance(value, bool) for value in chosen.values()):
            raise broken(name, "choices")
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"the file's {name} has a parameter that it does not take: {error}") from error
    return chosen


def _sample_of(name: str, parts: Any, classes: np.ndarray) -> Presorted:
    try:
        columns, label, values = parts["columns"], np.asarray(parts["label"]), np.asarray(parts["values"], np.float32)
        labels = tuple(parts["labels"])
        inside = values.shape == (len(label), columns.number) and label.dtype.kind == "i" and len(labels) >= 2
        inside &= labels == tuple(classes.tolist())
    except (KeyError, TypeError, AttributeError) as error:
        raise broken(name, "sample") from error
    codes = values[:, columns.is_nominal] if inside else values
    if not inside or label.min(initial=0) < 0 or label.max(initial=0) >= len(labels) or np.isinf(values).any():
        raise broken(name, "sample")
    if np.any((codes < 0) | (codes > 2**24) | (codes != np.rint(codes))) or 0 in values.shape:
        raise broken(name, "sample")
    return sorted_sample(columns, labels, label, values)
