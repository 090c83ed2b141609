"""Pipelines around a forest: which are taken, how they are fitted, and the raw columns that they read."""

import copy
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from jaxunc._checks import warn
from jaxunc.interop import THRESHOLDS, Steps, check_rows, is_read, library_of, n_rows, steps_of, way_round

_MAY_BE_ANY = "Object"
_FAMILIES = {"String": "words", "Categorical": "words", "Enum": "words", "Boolean": "numbers"}


def warn_of_threshold(estimator: Any) -> None:
    """Warn of a threshold around a model, which says what the model decides and not what its leaves hold."""
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    if isinstance(estimator, THRESHOLDS):
        warn(
            f"the threshold of {type(estimator).__name__} is left: this classifier decides by its own probabilities. "
            f"Put it around this one instead: {type(estimator).__name__}(FrozenEstimator(this))."
        )


def check_model(whole: Any, forest: Any, *, fitted: bool) -> None:
    """Raise a TypeError unless the last step may be fitted, or taken as it is, before the work of fitting it."""
    if whole is not forest and (forest is None or isinstance(forest, str)):
        raise TypeError(f"estimator is a pipeline whose last step is {forest!r}; make the last step a forest.")
    if samplers := [name for name, step in steps_of(whole) if hasattr(step, "fit_resample")]:
        raise TypeError(
            f"estimator is a pipeline whose step {samplers[0]!r} makes or drops rows, so counts of leaves would be of "
            "other rows than are given. Sample before fit, or take class_weight='balanced_subsample' in the forest; a "
            "fitted forest goes without it: FrozenEstimator(sklearn.pipeline.Pipeline(its other steps))."
        )
    if fitted or isinstance(forest, type) or not hasattr(forest, "get_params"):
        return
    where = f"estimator is a {type(forest).__name__}" if whole is forest else f"its last step is a {_name(forest)}"
    if isinstance(forest, BaseEstimator) and is_regressor(forest):
        raise TypeError(
            f"{where} that predicts numbers; pass one of classes. How sure a number is, UncertainForestRegressor says: "
            "see docs/how_to/how_sure_is_a_number.md. Sums of a regressor: jaxunc.from_any(model).predict(X)."
        )
    if (stages := rounds(forest)) is not None and stages != 1:
        raise TypeError(
            f"{where}, a boosted model, whose trees correct each other: combiners take forests, whose trees all answer "
            "the same question (random forests, XGBRFClassifier, boosting_type='rf'). Fitted, it is taken by "
            "jaxunc.from_any(model), and its leaves by jaxunc.count_leaves(jaxunc.from_any(model).trees, X, y). "
            "See docs/libraries.md."
        )
    if stages is None and isinstance(forest, BaseEstimator) and not is_read(forest):
        raise TypeError(f"{where}; from_sklearn imports no such model. {way_round(forest)}")


def _name(model: Any) -> str:
    return type(model).__name__


def rounds(model: Any) -> int | None:
    """Return how many stages an unfitted model has whose leaves hold values; None for others."""
    library = library_of(model)
    if library == "catboost":
        return 1000
    params = model.get_params(deep=False)
    if library == "xgboost":
        is_forest = "RF" in _name(model)
        return 1 if is_forest else params.get("n_estimators") or 100
    if library == "lightgbm":
        kind = params.get("boosting", params.get("boosting_type"))
        return 1 if kind in ("rf", "random_forest") else params.get("n_estimators")
    if _name(model).removeprefix("Hist").startswith("GradientBoosting"):
        return params.get("max_iter", params.get("n_estimators"))
    return None


def copies_of_steps(whole: Any) -> Steps:
    """Return the fitted transformers so that fitting the pipeline again changes no answer, where they can be copied."""
    try:
        return copy.deepcopy(steps_of(whole))
    except Exception:  # someone's own, which holds what has no copy
        return steps_of(whole)


def fit_transformers(whole: Pipeline, X: Any, y: Any, sample_weight: Any) -> Any:
    """Fit the transformers of a pipeline in place, and return the rows as its forest is to see them.

    As its ``fit`` does, with its memory. Weights go to the transformers that request them, where routing is enabled.
    """
    pipeline: Any = whole
    while isinstance(pipeline, Pipeline):
        if len(pipeline.steps) > 1:
            own, n = pipeline[:-1], n_rows(X)
            X = own.fit_transform(X, y, **_requested(own, sample_weight))
            pipeline.steps = [*own.steps, pipeline.steps[-1]]  # those that come from its memory are others
            check_rows(X, n, own.steps)
        pipeline = pipeline.steps[-1][1]
    return X


def _requested(pipeline: Any, sample_weight: Any) -> dict[str, Any]:
    if sample_weight is None or not get_config()["enable_metadata_routing"]:
        return {}
    asked = pipeline.get_metadata_routing().consumes("fit_transform", ["sample_weight"])
    return {"sample_weight": sample_weight} if asked else {}


def column_types(X: Any) -> tuple[str, ...] | None:
    """Return the type of each column of raw rows, as narwhals calls it; None for what has no columns with types."""
    if hasattr(X, "dtype") and len(getattr(X, "shape", ())) == 2 and X.dtype.kind in "fiub":
        name = {"b": "Boolean", "u": "U", "i": "", "f": ""}[X.dtype.kind]
        return (name if name == "Boolean" else name + X.dtype.name.lstrip("u").capitalize(),) * X.shape[1]
    frame = _frame_of(X)
    return None if frame is None else tuple(_type_of(frame[name]) for name in frame.columns)


def _frame_of(X: Any) -> Any:
    """Return a frame whose columns have names of their own; None for others, which are the transformers' to refuse."""
    names = list(getattr(X, "columns", ()))
    if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        return None
    frame: Any = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _type_of(column: Any) -> str:
    if len(column) and column.null_count() == len(column):
        return _MAY_BE_ANY
    categories = getattr(getattr(column.to_native(), "dtype", None), "categories", None)
    if getattr(getattr(categories, "dtype", None), "kind", "O") in "iufb":  # of numbers, in pandas
        return _MAY_BE_ANY
    return str(column.dtype).partition("(")[0]


def family(kind: str) -> str | None:
    """Return what a column of a type holds: numbers, words or dates; None where it may be any."""
    if kind.startswith(("Int", "UInt", "Float", "Decimal")):
        return "numbers"
    return _FAMILIES.get(kind, "dates" if kind.startswith(("Date", "Time", "Duration")) else None)


def as_fitted(X: Any, names: Sequence[str], types: Sequence[str], read: Sequence[int]) -> Any:
    """Return a frame whose columns are of the kinds that the pipeline was fitted on; a TypeError if some are others.

    A column of pandas that is all missing becomes one of the kind that it had, since encoders fail on others. What a
    column is called, and that one is missing, is the transformers' to refuse, which take no frame without rows.
    """
    frame = _frame_of(X)
    if frame is None:
        return X
    given, changed = set(frame.columns), {}
    for j in read:
        if names[j] not in given:
            if not len(frame):
                raise ValueError(f"columns are missing: {sorted({names[j] for j in read} - given)}")
            continue
        if (expected := family(types[j])) is None:
            continue
        kind = _type_of(frame[names[j]])
        if family(kind) not in (None, expected):
            raise TypeError(
                f"X's column {names[j]!r} holds {family(kind)}, and held {expected} when the pipeline was fitted. Pass "
                f"{expected}, such as by frame[{names[j]!r}].astype({'str' if expected == 'words' else 'float'!r})."
            )
        known = kind != _MAY_BE_ANY or expected == "dates" or not hasattr(X, "iloc")
        if not known and frame[names[j]].null_count() == len(frame) > 0:
            changed[names[j]] = np.full(len(frame), np.nan, float if expected == "numbers" else object)
    return X.assign(**changed) if changed else X


def columns_read(steps: Steps, names: Sequence[str] | None, number: int) -> tuple[int, ...]:
    """Return the positions of the raw columns that are read: all but those that a first `ColumnTransformer` drops."""
    first = steps[0][1] if steps else None
    while isinstance(first, Pipeline) and first.steps:
        first = first.steps[0][1]
    every = tuple(range(number))
    if names is None or not isinstance(first, ColumnTransformer):
        return every
    kept: set[str] = set()
    for _, transformer, columns in getattr(first, "transformers_", []):
        if isinstance(transformer, str) and transformer == "drop":
            continue
        own = [columns] if isinstance(columns, str) else list(columns) if np.iterable(columns) else [columns]
        if not all(isinstance(name, str) for name in own):
            return every  # by their positions, among all columns
        kept |= set(own)
    return tuple(j for j in every if names[j] in kept) if kept <= set(names) else every
