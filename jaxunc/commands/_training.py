"""Inputs of ``jaxunc fit``, checked before hours are spent: the data, the output, the combiner, a pickled forest."""

import dataclasses
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from jaxunc._checks import join_names
from jaxunc.combiners import COMBINERS, CONFIGURED, Answer, check_name, combiner_by_name
from jaxunc.counting import OtherRowsError, has_bags, oob_mask
from jaxunc.estimators import without_transform
from jaxunc.inference import bind
from jaxunc.interop import from_sklearn, library_of, steps_of, transformed
from jaxunc.learning import KnownRowsError, check_held_out
from jaxunc.regression import BoundLaw
from jaxunc.streaming import (
    Notation,
    as_frame,
    columns,
    describe_counters,
    describe_leaks,
    describe_number_texts,
    labelled_table,
    notation_of,
    row_numbers,
)
from jaxunc.tables import (
    SOME_CLASSES,
    Columns,
    Levels,
    check_float32,
    class_values,
    encode_instances,
    fit_columns,
    number_target,
    numbers_as_floats,
)

_OPTIONS = "--estimator uncertain", "--estimator combined"
"""Options by which a target is a number, and by which it holds classes; error messages name them."""
_OTHER_ANSWERS = {"generalized_vote", "averaged_intervals"}  # combiners whose answers are not class scores
MOST_LEVELS = 100  # most different values of a text column that is used although ``--words`` does not name it


def check_output(path: str) -> None:
    """Raise a ValueError unless a file can be made at ``path``, in a folder that exists."""
    folder = Path(path).parent
    if not path or Path(path).is_dir():
        raise ValueError(
            f"--output={path!r} names no file, but {'a folder' if path else 'nothing'}; add a file's name."
        )
    if not folder.is_dir():
        raise ValueError(f"--output={path!r}: {str(folder)!r} is no folder. Make it first, or choose another one.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"--output={path!r}: the folder {str(folder)!r} cannot be written to. Choose another one.")


class Data(NamedTuple):
    """Rows of a file to fit on."""

    X: Any  # raw columns: a frame, or an array for a model that was fitted without column names
    y: np.ndarray  # labels, or numbers as floats
    notes: list[str]  # sentences on the data that the user should read
    notation: Notation  # how numbers are written in the file


def training_data(
    path: str,
    target: str,
    drop: list[str],
    words: list[str],
    *,
    with_booleans: bool,
    numbers: bool | None = False,
    wish: Notation,
) -> Data:
    """Return the rows of a file that have a target, for a new model to be fitted to.

    Targets are numbers if ``numbers`` is True, and labels if it is False; with None the column decides. The columns
    ``drop`` are left out, and the text columns ``words`` may have more than `MOST_LEVELS` values. With
    ``with_booleans``, for scikit-learn, columns of bools with missing values become nullable bools. ``wish`` has the
    marks in numbers that the options name. Raises a ValueError if the data cannot be read or fitted.
    """
    table, missing_note = labelled_table(path, target, drop, alone=None if numbers else "class", notation=wish)
    _check_types(table.schema, path, target)
    frame = as_frame(table)
    X = numbers_as_floats(cast(pd.DataFrame, frame.drop(columns=target)), with_booleans=with_booleans)
    column = cast(pd.Series, frame[target])
    notes = [missing_note] if missing_note else []
    y = number_target(column, path, numbers, options=_OPTIONS)
    if y is None:
        y = class_values(column, path)
        if numbers is None:
            notes += _many_integers(column)
    elif numbers is None:
        notes.append(f"{target!r} is a number of {len(np.unique(y))} different values, so a regressor is fitted.")
    _check_numbers(X, path, target, wish)
    _check_words(X, words, path)
    return Data(X, y, [*notes, *_doubts(X, y)], notation_of(table))


def rows_of_a_fit(path: str, target: str, drop: list[str], fitted: Any, *, numbers: bool, wish: Notation) -> Data:
    """Return the rows of a file that have a target, for the model ``fitted``, which was fitted before.

    Columns that the model was not fitted on are left out, whatever they hold, as are the columns ``drop``. ``numbers``
    says whether targets are numbers, or labels. ``wish`` has the marks in numbers that the options name. Raises a
    ValueError for faults of the file or the target.
    """
    table, missing_note = labelled_table(path, target, drop, alone=None if numbers else "class", notation=wish)
    frame = as_frame(table)
    X = cast(pd.DataFrame, frame.drop(columns=target))
    model_or_pipeline = without_transform(FrozenEstimator(fitted))[0].whole  # frozen: it is taken as fitted
    names = getattr(model_or_pipeline, "feature_names_in_", None)
    if names is not None and list(names) == [f"Column_{j}" for j in range(len(names))]:
        names = None  # LightGBM makes these names for an array
    names_read = X.columns if names is None else [str(name) for name in names if name in X.columns]
    X = cast(pd.DataFrame, X[names_read]).copy()
    for name in [name for name in X.columns if X[name].dtype == object]:
        column = cast(pd.Series, X[name])
        X[name] = column.where(column.notna(), np.nan)  # the missing value that pandas' readers give
    column = cast(pd.Series, frame[target])
    y = number_target(column, path, numbers, options=_OPTIONS)
    if y is None:
        y = class_values(column, path)
    # A frame or an array, as the model was fitted to; some steps do not keep which.
    rows = X.to_numpy() if names is None and hasattr(model_or_pipeline, "n_features_in_") else X
    return Data(rows, y, [missing_note] if missing_note else [], notation_of(table))


def counts_of_rows(fitted: Any, X: Any, y: np.ndarray) -> tuple[str, str]:
    """Return the value of ``counts`` that suits a fitted model and rows, and a clause that says why.

    ``X`` holds the raw rows and ``y`` their targets. For a classifier of scikit-learn that was fitted to these rows it
    is "oob" if the trees have bags, else "inbag". For a regressor of scikit-learn with bags that was fitted to as many
    rows it is "oob". In all other cases it is "held_out". Raises a ValueError if a classifier with bags was fitted to
    as many rows, but not to these.
    """
    whole, forest, _ = without_transform(FrozenEstimator(fitted))[0]
    rows = transformed(steps_of(whole), X)
    if library_of(forest) != "sklearn":
        return "held_out", f"the {len(y)} rows are taken as held out: they must be none that the model was fitted on"
    out_of_bag = "oob", f"of the {len(y)} rows each is read through the trees that were grown without it"
    if is_regressor(forest):
        # UncertainForestRegressor checks whether the forest was grown on these rows: here their number suffices.
        if has_bags(forest) and getattr(forest, "_n_samples", None) == len(y):
            return out_of_bag
        return "held_out", f"the {len(y)} rows count as held out"
    if has_bags(forest):
        try:
            # Only its error counts here: groups of one row each spare the search for copies, and a warning of them.
            oob_mask(forest, len(y), X=rows, y=y, groups=np.arange(len(y)))
            return out_of_bag
        except OtherRowsError as error:
            if getattr(forest, "_n_samples", None) == len(y):
                raise ValueError(
                    f"DATA has as many rows as the forest was fitted on, {len(y)}, which are not as it saw them: in "
                    "another order, or by a step that makes other rows when it is fitted (TargetEncoder). Pass them as "
                    "they went into fit; or other rows; or add --counts held_out, if it was fitted on none of these."
                ) from error
            return "held_out", f"the {len(y)} rows are not those that the forest was fitted on: they count as held out"
    try:
        check_held_out(forest, from_sklearn(forest), rows, y)
        return "held_out", f"the {len(y)} rows count as held out"
    except KnownRowsError:
        return "inbag", "the forest was fitted on these rows and has no bags (bootstrap), so nothing is learned of them"


def _doubts(X: pd.DataFrame, y: np.ndarray) -> tuple[str, ...]:
    """Return warnings of columns in ``X`` that leak the targets ``y``, number the rows, or hold numbers as texts."""
    values = dict(zip(X.columns, encode_instances(X, fit_columns(X)).values.T, strict=True))
    leaks = ()
    if y.dtype.kind != "f":  # labels
        leaks = describe_leaks(values, np.unique(y, return_inverse=True)[1])
    return *leaks, *describe_counters(values), *describe_number_texts(X)


def _check_types(schema: pa.Schema, path: str, target: str) -> None:
    """Raise a ValueError for columns of lists or bytes, and for dates or times in columns besides ``target``."""
    type_tests = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary)
    if nested := [field.name for field in schema if any(is_type(field.type) for is_type in type_tests)]:
        raise ValueError(
            f"{path} has lists or bytes in the cells of {columns(nested)}: give each entry a column of its own, or "
            "leave them out with --drop."
        )
    if dates := [field.name for field in schema if field.name != target and pa.types.is_temporal(field.type)]:
        raise ValueError(
            f"{path} has dates or times in {columns(dates)}, which no classifier here takes: make them numbers, for "
            "instance days since the first one, or leave them out with --drop."
        )


def _many_integers(column: pd.Series) -> list[str]:
    """Return a list with a note that more than `SOME_CLASSES` integers are taken for classes, or an empty list."""
    n_values = int(cast(Any, column.nunique()))
    if column.dtype.kind not in "iu" or n_values <= SOME_CLASSES:
        return []
    note = f"{column.name!r} holds {n_values} different integers, which are taken for classes"
    return [f"{note}: for a number, add --estimator uncertain."]


def _check_numbers(X: pd.DataFrame, path: str, target: str, wish: Notation) -> None:
    """Raise a ValueError, with the row's number in the file, for a float in ``X`` that is infinite or beyond float32.

    For that number, which counts rows without a ``target``, too, the file is read once more, with the marks ``wish``.
    """

    def row_number(row):
        """Return the number in the file of a row of X."""
        return int(row_numbers(path, target, wish)[row])

    for name in [name for name in X.columns if X[name].dtype.kind == "f"]:
        check_float32(X[name].to_numpy(np.float64, na_value=np.nan), name, path, row_number)


def _check_words(X: pd.DataFrame, words: list[str], path: str) -> None:
    """Raise a ValueError for text columns of more than `MOST_LEVELS` values that are not in ``words``.

    Such texts are mostly names of rows, dates or numbers. It is also raised if ``words`` names a column without texts.
    """
    texts = [name for name in X.columns if X[name].dtype.kind not in "iufb"]
    if others := [name for name in words if name not in texts]:
        raise ValueError(f"--words names {join_names(others)}, which of {path} are no texts: {columns(texts)} are.")
    sizes = {name: int(cast(Any, X[name]).nunique()) for name in texts if name not in words}
    many = [name for name, size in sizes.items() if size > MOST_LEVELS]
    if many:
        argument = shlex.join(map(str, many))  # the columns as they are typed in a shell
        raise ValueError(
            f"{path} has texts of many values in {columns(many)}: {sizes[many[0]]} different ones in {many[0]!r}. "
            f"Names of rows, leave them out with --drop {argument}; dates and numbers, write them plainly (1234.5, "
            f"days since the first one); kinds of things, say so with --words {argument}."
        )


def with_levels(model: Any, columns: Columns) -> Any:
    """Change an estimator that was fitted to codes so that it takes values, which ``columns`` encode, and return it."""
    by = getattr(model, "coverage_by", None)
    if by is not None:
        _name_strata(model, cast(Any, columns.levels)[cast(Any, columns.names).index(by)])
    _change_columns(model, lambda _: columns)
    if hasattr(model, "moments_"):
        del model.estimator_  # it reads codes, and would take values for codes
    return model


def _name_strata(model: Any, levels: Levels | None) -> None:
    """Replace the codes of an estimator's strata by their levels; do nothing if ``levels`` is None, for numbers."""
    if levels is None:
        return
    names = (*levels.values, None)  # the last code is that of a missing value
    if model.coverage_by_value_ is not None:
        model.coverage_by_value_ = {names[int(code)]: share for code, share in model.coverage_by_value_.items()}
    if (strata := model.law_.strata) is not None:
        model.law_ = model.law_._replace(strata=strata.rename_levels(levels))


def keep_notation(model: Any, notation: Notation) -> None:
    """Set the notation in a fitted estimator's columns: how numbers are written in the file that it was fitted on."""
    _change_columns(model, lambda columns: dataclasses.replace(columns, **notation._asdict()))


def _change_columns(model: Any, change: Callable[[Columns], Columns]) -> None:
    """Replace the columns of a fitted estimator by ``change(columns)``, in each of its attributes that holds them."""

    def replace_columns(trees):
        return dataclasses.replace(trees, columns=change(trees.columns))

    if hasattr(model, "_columns"):
        model._columns = change(model._columns)
    if hasattr(model, "moments_"):  # a regressor, whose leaf means and forest share their trees
        kept = model.moments_.kept
        trees = replace_columns(kept.trees)
        model.moments_ = type(model.moments_).of(kept._replace(trees=trees))
        model.forest_ = None if model.forest_ is None else dataclasses.replace(model.forest_, trees=trees)
        model.bound_ = BoundLaw(model.moments_, model.bins_, model.forest_, model.law_)
    elif hasattr(model, "forest_"):
        model.forest_ = dataclasses.replace(model.forest_, trees=replace_columns(model.forest_.trees))
        model.bound_ = bind(model.forest_, model.combiner_)
    else:  # a transductive classifier has a sample, and no forest
        sample = model.bound_.sample
        model.bound_.sample = sample._replace(columns=change(sample.columns))


def check_combiner(name: str, n_classes: int, *, learns: bool) -> None:
    """Raise a ValueError unless ``name`` is that of a combiner which gives scores to ``n_classes`` classes.

    The name ``learned`` passes if the estimator ``learns`` combiners.
    """
    names = [key for key in (*COMBINERS, *CONFIGURED) if key not in _OTHER_ANSWERS]
    if learns:
        names.append("learned")
    if check_name("--combiner", name, names) == "learned":
        return
    try:
        # A combiner of two classes refuses more when it is made, or by the shape of counts, [instances trees classes].
        combiner = combiner_by_name(name, prior=np.full(n_classes, 1 / n_classes), n_samples=1.0)
        answer = jax.eval_shape(combiner.answer, jax.ShapeDtypeStruct((1, 1, n_classes), np.float32))
        assert isinstance(answer, Answer)
    except ValueError as error:
        if n_classes == 2:
            raise
        raise ValueError(
            f"--combiner {name} compares two classes, and there are {n_classes}. Take --combiner one_vs_rest, which "
            "compares each class with all others, or mean, mixture, evidence, vote, pooling."
        ) from error


def unpickle(path: str) -> tuple[Any, bool]:
    """Return (fitted model, whether it predicts numbers) of a pickle; this runs any code that the pickle holds.

    Raises a ValueError if the file is missing, damaged, or holds no fitted classifier or regressor.
    """
    import joblib

    if not Path(path).is_file():
        fault = "is a folder" if Path(path).is_dir() else "does not exist"
        raise ValueError(f"--import={path!r} {fault}; pass a file of joblib.dump or pickle.dump.")
    try:
        model = joblib.load(path)
    except Exception as error:  # damaged bytes, and code in the pickle, may raise any
        raise ValueError(
            f"--import={path!r} cannot be opened as a pickle ({type(error).__name__}: {str(error)[:200]}); pass a file "
            "of joblib.dump or pickle.dump. Modules of your own are found by PYTHONPATH=FOLDER. A table goes without "
            "--import: jaxunc fit DATA --target COLUMN."
        ) from error
    if not (isinstance(model, BaseEstimator) and (is_classifier(model) or is_regressor(model))):
        raise ValueError(
            f"--import={path!r} holds a {type(model).__name__}; pass a fitted classifier or regressor of scikit-learn: "
            "a decision tree, random forest, extra trees, a bag of trees, or a pipeline that ends in one."
        )
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ValueError(
            f"--import={path!r} holds a {type(model).__name__} that is not fitted; fit it and dump it again."
        ) from error
    return model, is_regressor(model)
