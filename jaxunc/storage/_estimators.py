"""What files hold of an estimator: its parameters, and the attributes that its answers read.

skops writes the transformers of a pipeline; they are read only if every type in them is trusted.
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
    check_fitted,
    check_fitted_numbers,
    law_of,
    qualified_name,
    sklearn_class,
    update_algorithm,
)

TRUSTED = (
    "numpy.dtype",
    "scipy.interpolate._bsplines.BSpline",
    "sklearn.compose._column_transformer._RemainderColsList",
    "sklearn.compose._column_transformer.make_column_selector",
)
"""Types in scikit-learn's transformers that are trusted, besides those that skops trusts (estimators, arrays, …)."""
_LEAST = (0, 13)  # the oldest version of skops that checks all types in a file
Steps = list[tuple[str, Any]]  # a pipeline's transformers by name, in order, without the model in the last step


def _write_steps(steps: Steps, last: str) -> dict[str, Any]:
    """Return a pipeline's transformers ``steps``, and the name ``last`` of its last step, as a dict for a file.

    The entry "skops" is an archive that skops writes, as an array of bytes. "steps" describes each transformer, "types"
    names the types in them that neither skops nor `TRUSTED` trusts. Raises a TypeError if skops cannot write the
    transformers, or a type in them has no name by which it could be found again.
    """
    writer = _skops()
    try:
        content = writer.dumps(steps)
        types = tuple(name for name in writer.get_untrusted_types(data=content) if name not in TRUSTED)
    except Exception as error:  # a transformer may hold anything, and raise any error
        raise TypeError(
            f"the pipeline's steps {[name for name, _ in steps]} cannot be written by skops ({type(error).__name__}: "
            f"{str(error)[:200]}); pickle or joblib keep the whole estimator, for those who trust its file."
        ) from error
    if unnamed := [name for name in types if "<" in name]:  # "<locals>" or "<lambda>"
        raise TypeError(
            f"the pipeline holds {unnamed[0]}, which has no name by which it could be found again: define it at the "
            "top of a module. Or keep the whole estimator by pickle or joblib, for those who trust its file."
        )
    descriptions = tuple(f"{name}: {type(step).__name__}" for name, step in steps)
    return {"skops": np.frombuffer(content, np.uint8), "steps": descriptions, "last": last, "types": types}


def _read_steps(parts: Any, trusted: Iterable[Any]) -> tuple[Steps, str]:
    """Return a pipeline's transformers and the name of its last step, from ``parts``, the dict of `_write_steps`.

    Raises a ValueError if the dict is damaged, and for a type that skops does not trust and that is neither in
    `TRUSTED` nor in the user's list ``trusted``.
    """
    types_by_key: dict[str, Any] = {"skops": np.ndarray, "steps": tuple, "last": str, "types": tuple}
    if not isinstance(parts, dict) or any(not isinstance(parts.get(name), kind) for name, kind in types_by_key.items()):
        raise ValueError("the file's pipeline has no transformers.")
    reader = _skops()
    content = parts["skops"].astype(np.uint8, casting="equiv").tobytes()
    try:
        _check_size(content)
        trusted_names = [qualified_name(part).replace(":", ".") for part in trusted]
        types = reader.get_untrusted_types(data=content)
        if foreign := [name for name in types if name not in (*TRUSTED, *trusted_names)]:
            class_names = [name.rpartition(".")[2] for name in foreign[:3]]
            raise ValueError(
                f"the file's pipeline holds types that are not scikit-learn's: {', '.join(foreign[:5])}. If you trust "
                f"them, import them and pass them: jaxunc.load(path, known=[{', '.join(class_names)}]), or known= of "
                "predict_files."
            )
        steps = reader.loads(content, trusted=types)  # all of them were found in `TRUSTED` or ``trusted``
    except ValueError:
        raise
    except Exception as error:  # damaged bytes may make the reader raise any error
        raise ValueError(f"the file's pipeline is damaged: {type(error).__name__}: {str(error)[:200]}") from error
    are_pairs = isinstance(steps, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in steps)
    if not (are_pairs and steps and all(type(name) is str and hasattr(step, "transform") for name, step in steps)):
        raise ValueError("the file's pipeline holds no transformers.")
    return steps, parts["last"]


def _check_size(content: bytes) -> None:
    """Raise a ValueError if the zip archive with the bytes ``content`` would unpack to more bytes than it has."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
    # A compressed member may unpack to any size.
    if sum(member.file_size for member in members) > len(content) or any(member.compress_type for member in members):
        raise ValueError("the file's pipeline is damaged: its parts are larger than the file.")


def _skops() -> Any:
    """Return the module `skops.io`; raise a TypeError if skops is not installed, or older than `_LEAST`."""
    try:
        package = importlib.import_module("skops")
        reader = importlib.import_module("skops.io")
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
    """Return whether a value is an estimator of one of the library's classes; those of a subclass are not."""
    return type(value) in [getattr(estimators, name) for name in ESTIMATORS]


def is_model(value: Any) -> bool:
    """Return whether a value is a model of scikit-learn whose settings files keep, as an estimator's parameter."""
    return isinstance(value, BaseEstimator) and type(value).__name__ in SKLEARN


def parts_of(value: Any, *, steps: bool = True) -> dict[str, dict[str, Any]]:
    """Return {"params": parameters, "fitted": fitted attributes} of an estimator, both by name.

    With ``steps`` the fitted attributes include a pipeline's transformers. A model of scikit-learn has no fitted
    attributes here. Callbacks and random states that are not numbers become None. Raises a NotFittedError for an
    estimator of the library that is not fitted.
    """
    params = {name: _param(parameter) for name, parameter in value.get_params(deep=False).items()}
    if is_model(value):
        return {"params": params, "fitted": {}}
    # Two attributes, since a fit that was interrupted may leave only the first.
    attribute_of_fit = "law_" if type(value).__name__ == REGRESSOR else "classes_"
    check_is_fitted(value, (attribute_of_fit, "bound_"))
    value._check_parameters()  # what this refuses, reading the file would refuse
    fitted = {name: vars(value)[name] for name in KEPT if vars(value).get(name) is not None}
    if steps and steps_of_estimator(value):
        fitted["transformers"] = _write_steps(value._steps, _last_step(value))
    fitted["chosen"] = value._chosen  # settings of the fit, on which answers depend
    if "law_" in fitted:
        fitted["bins_"] = fitted["bins_"]._replace(codes=np.zeros(0, np.int64))  # no answer reads codes
        return {"params": params, "fitted": fitted}
    if isinstance(value.bound_, BoundSample):
        presorted = value.bound_.sample
        fitted["sample"] = {
            "columns": presorted.columns,
            "labels": list(presorted.class_labels),
            "label": presorted.label,
            "values": values_of(presorted),
        }
    return {"params": params, "fitted": fitted}


def _param(part: Any) -> Any:
    """Return the value ``part`` of an estimator's parameter as files keep it.

    A pipeline, a frozen estimator or a model of a transformed target becomes the model in it. This library's forests,
    models of others than scikit-learn, callbacks and generators of random numbers become None.
    """
    if isinstance(part, FrozenEstimator | Pipeline | TransformedTargetRegressor):
        part = estimators.without_transform(part)[0].forest  # fitted steps are kept apart
    if isinstance(part, Forest | AdditiveTrees) or library_of(part) not in (None, "sklearn"):
        return None
    is_callback = callable(part) and not isinstance(part, Combiner)
    is_generator = type(part).__name__ in ("RandomState", "Generator")
    return None if is_callback or is_generator else part


def _last_step(model: Any) -> str:
    """Return the name of the last step of the innermost pipeline in ``model.estimator``; "forest" without one."""
    estimator = estimators.without_transform(model.estimator)[0].whole
    while isinstance(estimator, Pipeline) and isinstance(estimator.steps[-1][1], Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator.steps[-1][0] if isinstance(estimator, Pipeline) else "forest"


def restore(name: Any, params: dict[str, Any], fitted: dict[str, Any], trusted: Iterable[Any] = ()) -> Any:
    """Return the estimator that a file describes: an instance of the class ``name``, fitted if it is the library's.

    ``params`` and ``fitted`` are the parameters and the fitted attributes of `parts_of`. A pipeline's transformers may
    hold the types ``trusted``, besides scikit-learn's. Raises a ValueError if parameters and attributes do not suit
    each other.
    """
    params = update_algorithm(params)
    model_class: Callable = getattr(estimators, name) if name in ESTIMATORS else sklearn_class(name)
    if unknown := sorted(set(params) - set(model_class().get_params(deep=False))):
        raise ValueError(f"the file gives {name} the parameters {unknown[:5]}, which it does not have.")
    # By its constructor, so that attributes which the file lacks are those of a new estimator.
    model = model_class(**params)
    if name not in ESTIMATORS:
        return model
    steps: Steps = []
    last_name = ""
    if "transformers" in fitted:
        steps, last_name = _read_steps(fitted.pop("transformers"), trusted)
        model._steps = steps
    refit(model, name, fitted)
    if steps and model.estimator is not None:  # the parameter comes back as an unfitted pipeline
        unfitted_steps = [(step, clone(transformer, safe=False)) for step, transformer in _rename_steps(steps)]
        model.estimator = Pipeline([*unfitted_steps, (last_name, model.estimator)])
    if name == REGRESSOR and model.estimator is not None and (map_ := model.law_.target_map) is not None:
        model.estimator = TransformedTargetRegressor(model.estimator, func=map_.forward, inverse_func=map_.inverse)
    return model


def _rename_steps(steps: Steps) -> Steps:
    """Return a nested pipeline's transformers with distinct names: one that occurred before gets its position added."""
    names = [name for name, _ in steps]
    return [(f"{name}-{i}" if name in names[:i] else name, step) for i, (name, step) in enumerate(steps)]


def refit(model: Any, name: str, fitted: dict[str, Any]) -> None:
    """Make ``model``, an estimator of class ``name``, fitted by the attributes ``fitted`` that `parts_of` returned.

    Raises a ValueError if the attributes do not suit each other or the model's parameters.
    """
    raw = bool(vars(model).get("_steps"))
    chosen = fitted.pop("chosen", None)
    if name == REGRESSOR:
        _check_parameters(name, model)
        absent_attributes = {"forest_": None, "oob_distribution_": None, "coverage_by_value_": None}
        vars(model).update(absent_attributes | check_fitted_numbers(name, fitted, raw=raw))
        model.bound_ = law_of(vars(model))
        # Earlier files of regressors lack the settings of the fit: those of the parameters stand in.
        model._chosen = model._choices() if chosen is None else _check_choices(name, model, chosen)
        return
    sample = fitted.pop("sample", None)  # `check_fitted` does not know it
    if isinstance(chosen, dict):
        chosen = update_algorithm(chosen)
    fitted = check_fitted(name, fitted, raw=raw)
    chosen = _check_choices(name, model, chosen)
    vars(model).update(fitted)
    if "forest_" in fitted:
        model.bound_ = bind(model.forest_, model.combiner_)
        model._chosen = chosen
    else:
        model._hold(_sample_of(name, sample, fitted["classes_"]), fitted.get("combiner_"), chosen)


def _check_parameters(name: str, model: Any) -> None:
    """Raise a ValueError unless ``model``, an estimator of class ``name``, takes its own parameters."""
    try:
        model._check_parameters()
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"the file's {name} has a parameter that it does not take: {error}") from error


def _check_choices(name: str, model: Any, chosen: Any) -> dict[str, Any]:
    """Return ``chosen``, {setting: value} of the fit that a file kept; raise a ValueError if a setting is not sound.

    ``model`` is an estimator of class ``name`` with the file's parameters, which are checked, too. The settings must be
    those in the model's `_choices`.
    """
    _check_parameters(name, model)
    try:
        settings = model._choices()
        if not isinstance(chosen, dict) or set(chosen) != set(settings):
            raise broken(name, "choices")
        parameter_names = model.get_params(deep=False)
        parameters = {key: value for key, value in chosen.items() if key in parameter_names}
        if parameters:
            # A new model checks the values that its parameters had in the fit.
            type(model)(**parameters)._check_parameters()
        else:
            # Settings that are no parameters, such as whether NaN is allowed, are bools, but for the type of numbers.
            for key, value in chosen.items():
                is_sound = value in ("float32", "float64") if key == "dtype" else isinstance(value, bool)
                if not is_sound:
                    raise broken(name, "choices")
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"the file's {name} has a parameter that it does not take: {error}") from error
    return chosen


def _sample_of(name: str, parts: Any, classes: np.ndarray) -> Presorted:
    """Return the sorted training set of a transductive estimator from ``parts``, the "sample" of `parts_of`.

    ``classes`` are the labels that the file gives the estimator, which is of class ``name``. Raises a ValueError if a
    part is absent or not sound.
    """
    try:
        columns = parts["columns"]
        class_code = np.asarray(parts["label"])  # position of each row's class among the labels
        values = np.asarray(parts["values"], np.float32)
        labels = tuple(parts["labels"])
        fits = values.shape == (len(class_code), columns.number) and class_code.dtype.kind == "i" and len(labels) >= 2
        fits &= labels == tuple(classes.tolist())
    except (KeyError, TypeError, AttributeError) as error:
        raise broken(name, "sample") from error
    if not fits or class_code.min(initial=0) < 0 or class_code.max(initial=0) >= len(labels) or np.isinf(values).any():
        raise broken(name, "sample")
    # Codes of nominal columns are whole numbers; up to 2**24 float32 holds each.
    codes = values[:, columns.is_nominal]
    if np.any((codes < 0) | (codes > 2**24) | (codes != np.rint(codes))) or 0 in values.shape:
        raise broken(name, "sample")
    return sorted_sample(columns, labels, class_code, values)
