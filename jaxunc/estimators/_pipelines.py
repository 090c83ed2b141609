"""Pipelines around a forest: their checks, the fit of their transformers, and the raw columns that they read."""

import copy
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from jaxunc._checks import warn
from jaxunc.interop import (
    THRESHOLDS,
    Opened,
    Steps,
    check_rows,
    is_read,
    library_of,
    n_rows,
    opened,
    steps_of,
    way_round,
)
from jaxunc.regression import TargetMap, steps_of_transformer, target_map
from jaxunc.tables import is_missing

_ANY_TYPE = "Object"  # Narwhals' name of a type that may hold anything
_FAMILIES = {"String": "words", "Categorical": "words", "Enum": "words", "Boolean": "numbers"}
"""What columns of a type hold (`family`), by narwhals' name of the type."""


def warn_of_threshold(estimator: Any) -> None:
    """Warn if ``estimator`` is a threshold classifier, frozen or not: its threshold will not be used."""
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    if isinstance(estimator, THRESHOLDS):
        warn(
            f"the threshold of {type(estimator).__name__} is left: this classifier decides by its own probabilities. "
            f"Put it around this one instead: {type(estimator).__name__}(FrozenEstimator(this))."
        )


def check_steps(model_or_pipeline: Any, forest: Any) -> None:
    """Raise a TypeError if ``forest``, the last step of a pipeline, is no model, or a step makes or drops rows."""
    if model_or_pipeline is not forest and (forest is None or isinstance(forest, str)):
        raise TypeError(f"estimator is a pipeline whose last step is {forest!r}; make the last step a forest.")
    if samplers := [name for name, step in steps_of(model_or_pipeline) if hasattr(step, "fit_resample")]:
        raise TypeError(
            f"estimator is a pipeline whose step {samplers[0]!r} makes or drops rows, so counts of leaves would be of "
            "other rows than are given. Sample before fit, or take class_weight='balanced_subsample' in the forest; a "
            "fitted forest goes without it: FrozenEstimator(sklearn.pipeline.Pipeline(its other steps))."
        )


def check_model(model_or_pipeline: Any, forest: Any, *, fitted: bool) -> None:
    """Raise a TypeError unless a model or pipeline can be fitted as a forest of classes.

    ``forest`` is the last step of a pipeline, or the model itself. If it came ``fitted``, only the steps are checked.
    """
    check_steps(model_or_pipeline, forest)
    if fitted or isinstance(forest, type) or not hasattr(forest, "get_params"):
        return
    is_alone = model_or_pipeline is forest
    start = f"estimator is a {type(forest).__name__}" if is_alone else f"its last step is a {_name(forest)}"
    if isinstance(forest, BaseEstimator) and is_regressor(forest):
        raise TypeError(
            f"{start} that predicts numbers; pass one of classes. How sure a number is, UncertainForestRegressor says: "
            "see docs/how_to/how_sure_is_a_number.md. Sums of a regressor: jaxunc.from_any(model).predict(X)."
        )
    if (stages := rounds(forest)) is not None and stages != 1:
        raise TypeError(
            f"{start}, a boosted model, whose trees correct each other: combiners take forests, whose trees all answer "
            "the same question (random forests, XGBRFClassifier, boosting_type='rf'). Fitted, it is taken by "
            "jaxunc.from_any(model), and its leaves by jaxunc.count_leaves(jaxunc.from_any(model).trees, X, y). "
            "See docs/libraries.md."
        )
    if stages is None and isinstance(forest, BaseEstimator) and not is_read(forest):
        raise TypeError(f"{start}; from_sklearn imports no such model. {way_round(forest)}")


def _name(model: Any) -> str:
    """Return the name of a model's class."""
    return type(model).__name__


def without_transform(estimator: Any) -> tuple[Opened, TransformedTargetRegressor | None]:
    """Return (model, transform): an estimator without its `TransformedTargetRegressor`, and this transform, or None.

    The model is taken out of its wrappers, as by `opened`. The transform may be the last step of a pipeline; the
    regressor inside of it takes its place.
    """
    model = opened(estimator)
    transform = model.forest
    frozen = model.fitted
    if not isinstance(transform, TransformedTargetRegressor):
        return model, None
    # A frozen transform has a fitted regressor, unless it is an unfitted one around a frozen model.
    regressor = getattr(transform, "regressor_", transform.regressor) if frozen else transform.regressor

    def replace_last(part: Any) -> Any:
        """Return a model or pipeline with the regressor, frozen if the estimator is, in place of its last step."""
        part = opened(FrozenEstimator(part) if frozen else part).whole
        if not isinstance(part, Pipeline):
            return FrozenEstimator(regressor) if frozen else regressor
        name, last = part.steps[-1]  # which may be a pipeline in turn
        return Pipeline([*part.steps[:-1], (name, replace_last(last))], memory=part.memory)

    whole = opened(replace_last(model.whole))
    return whole._replace(fitted=whole.fitted or frozen), transform


def map_of(transform: TransformedTargetRegressor, y: np.ndarray, *, fitted: bool) -> TargetMap:
    """Return the map by which a `TransformedTargetRegressor` transforms targets.

    If ``transform`` came ``fitted``, its own transformer makes the map; else a copy that is fitted to ``y [rows]``.
    """
    if fitted:
        check_is_fitted(transform)
        transformer: Any = transform.transformer_
    else:
        func = transform.func
        inverse_func = transform.inverse_func
        lacks_one = (func is None) != (inverse_func is None)
        has_both_kinds = transform.transformer is not None and not (func is None and inverse_func is None)
        if has_both_kinds or lacks_one:
            raise ValueError(
                "estimator is a TransformedTargetRegressor with part of what it needs, or too much: pass func and "
                "inverse_func, or a transformer."
            )
        if transform.transformer is None:  # the inverse is checked by `target_map`
            transformer = FunctionTransformer(func, inverse_func, validate=True, check_inverse=False)
        else:
            transformer = clone(transform.transformer)
        transformer.fit(y[:, None])
    methods = (transformer.transform, transformer.inverse_transform)
    return target_map(steps_of_transformer(transformer, y), methods, y)


CATBOOST_ROUNDS = ("iterations", "n_estimators", "num_boost_round", "num_trees")
LIGHTGBM_ROUNDS = (
    "num_iterations", "n_iter", "nrounds", "max_iter", "num_tree", "num_round", "num_trees", "num_rounds",
    "num_iteration", "num_boost_round", "n_estimators",
)  # fmt: skip
"""Names that a library has for the number of rounds; of those that are set, LightGBM takes the first."""


def _first_of(names: Sequence[str], params: dict[str, Any]) -> Any:
    """Return the value of the first of ``names`` whose value in ``params`` is not None; None if there is none."""
    for name in names:
        if params.get(name) is not None:
            return params[name]
    return None


def n_estimators(model: Any) -> Any:
    """Return the parameter ``n_estimators`` of a model, which LightGBM may call otherwise; 1 if the model has none."""
    if library_of(model) == "lightgbm" and hasattr(model, "get_params"):
        return _first_of(LIGHTGBM_ROUNDS, model.get_params(deep=False))
    return getattr(model, "n_estimators", 1)


def rounds(model: Any) -> int | None:
    """Return the number of boosting stages of an unfitted model, as its parameters say.

    A forest of XGBoost or LightGBM, whose leaves hold values, has 1; a model that never boosts has None.
    """
    library = library_of(model)
    params = model.get_params(deep=False)
    if library == "catboost":
        return _first_of(CATBOOST_ROUNDS, params) or 1000  # its default
    if library == "xgboost":
        is_forest = "RF" in _name(model)  # XGBRFClassifier, XGBRFRegressor
        return 1 if is_forest else params.get("n_estimators") or 100  # None stands for 100
    if library == "lightgbm":
        kind = _first_of(("boosting", "boost", "boosting_type"), params)
        return 1 if kind in ("rf", "random_forest") else n_estimators(model)
    if _name(model).removeprefix("Hist").startswith("GradientBoosting"):
        return params.get("max_iter", params.get("n_estimators"))
    return None


def reads_categories(model: Any, X: Any) -> bool:
    """Return whether X is a frame with a categorical column, and the model of a kind that reads such columns itself.

    For CatBoost a column of words is categorical, too. Rows without ``columns`` give False.
    """
    library = library_of(model)
    if library not in ("lightgbm", "xgboost", "catboost") and not _name(model).startswith("HistGradientBoosting"):
        return False
    categorical = ("category", "Categorical", "Enum")  # how the names of such types begin
    if library == "catboost":
        categorical += ("object", "str", "String")
    types = getattr(X, "dtypes", ()) if hasattr(X, "columns") else ()
    return any(str(dtype).startswith(categorical) for dtype in types)


def copy_steps(model_or_pipeline: Any) -> Steps:
    """Return a copy of a pipeline's fitted transformers (or these, if they cannot be copied); none without a pipeline.

    Another fit of the pipeline then changes no answer.
    """
    try:
        return copy.deepcopy(steps_of(model_or_pipeline))
    except Exception:  # a user's transformer may raise anything
        return steps_of(model_or_pipeline)


def fit_transformers(whole: Pipeline, X: Any, y: Any, sample_weight: Any) -> Any:
    """Fit the transformers of the pipeline ``whole`` in place, as its ``fit`` does, and return their output for X.

    The pipeline's memory is used. Weights go to transformers that request them, if metadata routing is enabled.
    """
    pipeline: Any = whole
    # The last step of a pipeline may be a pipeline itself.
    while isinstance(pipeline, Pipeline):
        if len(pipeline.steps) > 1:
            transformers = pipeline[:-1]
            n = n_rows(X)
            X = transformers.fit_transform(X, y, **_request_weights(transformers, sample_weight))
            pipeline.steps = [*transformers.steps, pipeline.steps[-1]]  # the memory may have replaced steps
            check_rows(X, n, transformers.steps)
        pipeline = pipeline.steps[-1][1]
    return X


def _request_weights(pipeline: Any, sample_weight: Any) -> dict[str, Any]:
    """Return weights as a keyword of ``fit_transform``; empty without weights, or if no transformer requests them."""
    if sample_weight is None or not get_config()["enable_metadata_routing"]:
        return {}
    requests = pipeline.get_metadata_routing().consumes("fit_transform", ["sample_weight"])
    return {"sample_weight": sample_weight} if requests else {}


def column_types(X: Any) -> tuple[str, ...] | None:
    """Return narwhals' name of each column's type; None for rows that are neither a frame nor an array of numbers."""
    if getattr(X, "ndim", 0) == 2 and not hasattr(X, "columns") and X.dtype.kind in "fiub":  # an array of numbers
        if X.dtype.kind == "b":
            name = "Boolean"
        elif X.dtype.kind == "u":
            name = "U" + X.dtype.name.lstrip("u").capitalize()  # such as UInt8
        else:
            name = X.dtype.name.capitalize()  # such as Int64, Float32
        return (name,) * X.shape[1]
    frame = _frame_of(X)
    return None if frame is None else tuple(_type_of(frame[name]) for name in frame.columns)


def _frame_of(X: Any) -> Any:
    """Return X as a narwhals frame if its columns have distinct text names; else None."""
    names = list(getattr(X, "columns", ()))
    if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        return None
    frame: Any = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _type_of(column: Any) -> str:
    """Return narwhals' name of the type of a ``column``, a series of narwhals.

    The name is `_ANY_TYPE` for a column of missing values alone, and for categories that are numbers.
    """
    if len(column) and column.null_count() == len(column):
        return _ANY_TYPE
    categories = getattr(getattr(column.to_native(), "dtype", None), "categories", None)
    if getattr(getattr(categories, "dtype", None), "kind", "O") in "iufb":  # pandas' categories of numbers
        return _ANY_TYPE
    return str(column.dtype).partition("(")[0]


def family(raw_type: str) -> str | None:
    """Return what columns of a type, by narwhals' name, hold: "numbers", "words", "dates", or None if it may be any."""
    if raw_type.startswith(("Int", "UInt", "Float", "Decimal")):
        return "numbers"
    if raw_type.startswith(("Date", "Time", "Duration")):
        return "dates"
    return _FAMILIES.get(raw_type)


def restore_types(X: Any, names: Sequence[str], types: Sequence[str], positions: Sequence[int]) -> Any:
    """Return raw rows X with the types of the fit in columns of missing values alone, on which encoders would fail.

    Such columns of pandas become floats, or objects for words. ``names`` and ``types`` are those of all raw columns of
    the fit, and ``positions`` those of the columns that are read. Raises a TypeError if one of these is of another
    `family` than in the fit, and a ValueError if one is absent from a frame without rows.
    """
    frame = _frame_of(X)
    if frame is None:
        return X
    present = set(frame.columns)
    typed_columns = {}  # columns of missing values alone, with a type of their family
    for j in positions:
        name = names[j]
        if name not in present:
            if not len(frame):  # with rows, the transformers refuse absent columns themselves
                raise ValueError(f"columns are missing: {sorted({names[j] for j in positions} - present)}")
            continue
        expected = family(types[j])
        if expected is None:
            continue
        raw_type = _type_of(frame[name])
        if family(raw_type) not in (None, expected):
            raise TypeError(
                f"X's column {name!r} holds {family(raw_type)}, and held {expected} when the pipeline was fitted. "
                f"Pass {expected}, such "
                f"as by frame[{name!r}].astype({'str' if expected == 'words' else 'float'!r})."
            )
        # pandas alone gives a column of missing values another type than before; columns of dates are left as they are.
        may_lack_type = raw_type == _ANY_TYPE and hasattr(X, "iloc") and expected != "dates"
        if may_lack_type and frame[name].null_count() == len(frame) > 0:
            typed_columns[name] = np.full(len(frame), np.nan, float if expected == "numbers" else object)
    return X.assign(**typed_columns) if typed_columns else X


def restore_missing(X: Any, names: Sequence[str], steps: Steps) -> Any:
    """Return rows X with missing values as the ``steps`` of a pipeline know them, as None or as NaN.

    Frames of pandas that are made of one row, of Arrow's tables or of files have NaN for words, and frames of Polars
    have None; encoders take the other one for another category. ``names`` are those of all raw columns of the fit.
    """
    marks = {}
    for name, categories in known_categories(steps, names).items():
        missing_values = [value for value in categories if is_missing(value)]
        # An imputer knows one value alone: one of NaN leaves None as it is, in the fit, too.
        if missing_values == [None] or (len(missing_values) == 1 < len(categories)):
            marks[name] = missing_values[0]
    if not hasattr(X, "iloc"):
        if (frame := _frame_of(X)) is None:
            return X
        with_mark = [frame[name] for name in frame.columns if marks.get(name) is not None]
        if not any(column.null_count() for column in with_mark if not column.dtype.is_numeric()):
            return X
        X = frame.to_pandas()
    columns = {}
    for name, mark in marks.items():
        may_differ = name in X.columns and (mark is None or X[name].dtype == object)
        if may_differ and not (is_present := X[name].notna()).all():
            columns[name] = X[name].astype(object).where(is_present, mark)
    return X.assign(**columns) if columns else X


def known_categories(steps: Steps, names: Sequence[str]) -> dict[str, list[Any]]:
    """Return {raw column: categories that the first of the ``steps`` knows in it}.

    An imputer knows the value that it takes for a missing one. Columns without an encoder or imputer are left out, and
    those that a `ColumnTransformer` selects by position. ``names`` are those of all raw columns of the fit.
    """
    first_step = _first_step(steps)
    parts: list[tuple[Any, Any]] = [(first_step, list(names))]
    if isinstance(first_step, ColumnTransformer):
        parts = [(transformer, columns) for _, transformer, columns in getattr(first_step, "transformers_", [])]
    categories: dict[str, list[Any]] = {}
    for transformer, columns in parts:
        step = _first_step([("", transformer)])
        selection = [columns] if isinstance(columns, str) else columns
        if not isinstance(selection, list) or not set(map(str, selection)) <= set(names):
            continue
        if hasattr(step, "categories_"):
            categories |= zip(selection, map(list, step.categories_), strict=True)
        elif hasattr(step, "missing_values"):
            categories |= {name: [step.missing_values] for name in selection}
    return categories


def _first_step(steps: Steps) -> Any:
    """Return the first step, or the first one within it if that is a pipeline; None without steps."""
    step = steps[0][1] if steps else None
    while isinstance(step, Pipeline) and step.steps:
        step = step.steps[0][1]
    return step


def columns_read(steps: Steps, names: Sequence[str] | None, number: int) -> tuple[int, ...]:
    """Return the positions of the raw columns that the ``steps`` of a pipeline read, among ``number`` columns.

    They are those that a `ColumnTransformer` as the first step names and does not drop. All columns are read without
    such a step or without ``names``, and if the step selects by position.
    """
    first_step = _first_step(steps)
    all_positions = tuple(range(number))
    if names is None or not isinstance(first_step, ColumnTransformer):
        return all_positions
    names_read: set[str] = set()
    for _, transformer, columns in getattr(first_step, "transformers_", []):
        if isinstance(transformer, str) and transformer == "drop":
            continue
        is_single = isinstance(columns, str) or not np.iterable(columns)
        selection: list[Any] = [columns] if is_single else list(columns)
        if not all(isinstance(name, str) for name in selection):
            return all_positions  # it selects by position, among all columns
        names_read |= set(selection)
    if not names_read <= set(names):  # the step was fitted on columns of other names
        return all_positions
    return tuple(j for j in all_positions if names[j] in names_read)
