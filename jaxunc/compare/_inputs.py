"""Inputs of a study, from files: a table for trees to grow on, a model and a table as it reads it.

A table holds features as numbers, classes as codes, and notes of what was done to get there.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import equinox as eqx
import joblib
import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from pandas.api import types
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier

from jaxunc._checks import nearest
from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Answer
from jaxunc.counting import copies_of
from jaxunc.forest import Trees
from jaxunc.inference import Answering, BoundForest, bind
from jaxunc.streaming import (
    SOME_CLASSES,
    DataChunk,
    Notation,
    Wanted,
    answering,
    as_frame,
    check_float32,
    check_text,
    columns,
    data_file,
    file_chunks,
    find_counters,
    find_leaks,
    is_quantity,
    labelled_table,
    listed,
    load_model,
    refuse_numbers_as_text,
    row_numbers,
    texts_like_numbers,
)
from jaxunc.tables import encode_arrow

from ._evaluate import Answers
from ._settings import OWN, OWN_CALIBRATED

_CHUNK_ROWS = 2**16


class Table(NamedTuple):
    """Data for classification, or with numbers for a target."""

    name: str
    """Name of the data."""
    X: Float[np.ndarray, "instances features"]
    """Features as numbers; NaN is a missing value."""
    y: Int[np.ndarray, " instances"] | Float[np.ndarray, " instances"]
    """Classes as positions in ``class_labels``, or numbers as float64."""
    class_labels: tuple[str, ...]
    """The classes in sorted order; of two, the second is the positive one. None of numbers."""
    notes: tuple[str, ...] = ()
    """Notes of what was done to the columns, a sentence each."""
    warnings: tuple[str, ...] = ()
    """Reasons to doubt the results, a sentence each."""
    nominal: tuple[int, ...] = ()
    """Positions of the columns whose numbers are ranks of words, for trees that can tell them from numbers."""
    names: tuple[str, ...] = ()
    """Names of the columns of ``X``, if they are known."""
    frame: pd.DataFrame | None = None
    """The columns as the file has them; its index holds the rows' numbers there, from 1."""
    taken: str = ""
    """What a target of numbers was taken for, and how it is taken for the other."""

    @property
    def codes(self) -> Int[np.ndarray, " instances"]:
        """The target as integers, the same for equal values."""
        return np.unique(self.y, return_inverse=True)[1]


def breast_cancer() -> Table:
    """Return scikit-learn's diagnostic breast-cancer data of Wisconsin (569 instances, 30 features)."""
    data = cast(Any, load_breast_cancer())
    frame = pd.DataFrame(data.data, pd.RangeIndex(1, len(data.data) + 1), data.feature_names)
    labels = tuple(map(str, data.target_names))
    return Table(
        "breast cancer (from scikit-learn)", data.data, data.target, labels, names=tuple(frame.columns), frame=frame
    )


def study_table(
    path: str | Path,
    target: str | None,
    drop: Sequence[str] = (),
    numbers: bool | None = None,
    notation: Notation = Notation(),  # noqa: B008
) -> Table:
    """Read a file of CSV, Parquet or Arrow and prepare it for forests of trees; ``target`` names the column to predict.

    The columns to ``drop`` are left out. The target holds ``numbers``, or classes; None lets the column say which.
    ``notation`` has the marks of numbers that are asked for of a text file.

    String, categorical, date and bool columns become the ranks of their values in sorted order. Missing values stay
    missing (NaN). Columns that hold one value or none are left out, as are rows without a target. `Table.notes` says
    what was done.

    Raises a ValueError if the file is missing, empty or of another format; the target is not given, unknown, constant,
    missing in all rows, or not of the kind that is asked for; a column holds infinite values; or no column is left.
    """
    table, left_out = labelled_table(path, target, drop, alone="number" if numbers else "class", notation=notation)
    frame = as_frame(table)
    column = cast(pd.Series, frame[target])
    y, labels, how_taken, remarks = _numbers(column, path, numbers) or (
        *_classes(column),
        _taken_for_classes(column),
        (),
    )
    features = frame.drop(columns=str(target))
    features.index = pd.Index(row_numbers(path, str(target), notation)) if left_out else pd.RangeIndex(1, len(y) + 1)
    values, notes, nominal = _features(features, path)
    X = np.column_stack(list(values.values()))
    left = (left_out,) if left_out else ()
    table = Table(
        Path(path).name, X, y, labels, (*left, *notes, *remarks), (), nominal, tuple(values), features, how_taken
    )
    leaks = find_leaks(values, table.codes) if labels else ()
    copies = _find_copies(X, table.codes, "class" if labels else "target")
    return table._replace(warnings=(*leaks, *find_counters(values), *texts_like_numbers(features), *copies))


def positive_class(table: Table, name: str | None) -> str | None:
    """Return the class to be found: of two the one that is named, else the rarer; a ValueError if there is none."""
    labels = table.class_labels
    if name is None:
        return labels[int(np.argmin(np.bincount(table.y)[::-1]) == 0)] if len(labels) == 2 else None
    if name not in labels:
        raise ValueError(
            f"--positive={name!r} is no class of the target.{nearest(name, labels)} It holds {', '.join(labels[:10])}."
        )
    if len(labels) > 2:
        raise ValueError(
            f"--positive={name!r} is for two classes, and the target holds {len(labels)}. Make a column that holds "
            f"{name!r} and 'other', and name it with --target."
        )
    return name


def _is_of_numbers(column: pd.Series) -> bool:
    return types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype)


def _numbers(
    column: pd.Series, path: str | Path, wants_numbers: bool | None
) -> tuple[np.ndarray, tuple[str, ...], str, tuple[str, ...]] | None:
    """Return targets that are numbers, no labels, what is said of them, and notes; None for classes."""
    target = column.name
    if wants_numbers and not _is_of_numbers(column):
        raise ValueError(
            f"--laws compares laws of numbers, and --target={target!r} holds {column.dtype}; leave --laws out for "
            "classes, or write numbers plainly (1234.5)."
        )
    if wants_numbers is None and not _is_of_numbers(column):
        refuse_numbers_as_text(column, path, "--combiners")
    if wants_numbers is False or not _is_of_numbers(column):
        return None
    y = column.to_numpy(np.float64)
    if not wants_numbers and not is_quantity(y):
        return None
    remark = f"{target!r} is taken for a number, of {len(np.unique(y))} different values"
    remark += "" if wants_numbers else "; --combiners takes it for classes"
    spread, notes = float(np.std(y)), ()
    # Differences below 1e-6 count as ties, whatever the units.
    if not 1e-2 <= spread < 1e7:
        unit = 10.0 ** np.floor(np.log10(spread))
        y, notes = y / unit, (f"{target!r} is counted in units of {unit:g}.",)
    return y, (), remark, notes


def _taken_for_classes(column: pd.Series) -> str:
    """Say that numbers were taken for classes; nothing of others, or of two values."""
    n_values = int(cast(Any, column.nunique()))
    if not _is_of_numbers(column) or n_values < 3:
        return ""
    return f"{column.name!r} holds {n_values} different numbers, taken for classes; --laws takes them for a number"


def _classes(column: pd.Series) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the codes and labels of the target column."""
    target = column.name
    codes, levels = _factorize(column)
    if types.is_numeric_dtype(levels.dtype) and not types.is_bool_dtype(levels.dtype):
        # Large integers are no floats.
        numbers = levels.to_numpy(dtype=np.int64 if types.is_integer_dtype(levels.dtype) else np.float64)
        integral = bool(np.all(numbers == np.rint(numbers)))
        if len(levels) > SOME_CLASSES and not (integral and len(levels) < len(codes) / 5):
            raise ValueError(
                f"--target={target!r} holds {len(levels)} different numbers in {len(codes)} rows: a quantity, but "
                "combiners need a class for every row. Leave out --combiners and --model, to compare laws of numbers; "
                "or choose another column, or cut this one into ranges first."
            )
        levels = pd.Index(numbers.astype(np.int64)) if integral else levels
    labels = tuple(map(str, levels))
    if len(set(labels)) < len(labels):
        same = next(label for label in labels if labels.count(label) > 1)
        raise ValueError(f"--target={target!r} holds different classes that both read {same!r}; rename one of them.")
    return codes.astype(np.int64), labels


def _features(frame: pd.DataFrame, path: str | Path) -> tuple[dict[str, np.ndarray], tuple[str, ...], tuple[int, ...]]:
    """Return the other columns as numbers, by name, notes of what was done, and the positions of encoded ones."""
    values, encoded, constant, empty = {}, [], [], []
    for name in frame.columns:
        column = cast(pd.Series, frame[name])
        numbers, is_nominal = _as_numbers(column, name, path)
        missing = np.isnan(numbers)
        # Columns that say nothing are left out: trees could draw them, and find no test.
        if missing.all():
            empty.append(name)
        elif not missing.any() and numbers.min() == numbers.max():
            constant.append(name)
        else:
            values[name] = numbers
            encoded += [name] if is_nominal else []
    if not values:
        raise ValueError(
            f"DATA has no feature to learn from: all {frame.shape[1]} columns besides the target are constant or "
            "empty. Add columns that differ between rows."
        )
    notes = []
    if encoded:
        notes.append(f"{columns(encoded)} without numbers: encoded by the rank of each value in sorted order.")
    if constant or empty:
        parts = [
            f"{kind}: {listed(which)}" for kind, which in (("constant", constant), ("all missing", empty)) if which
        ]
        notes.append(f"Left out as uninformative ({'; '.join(parts)}).")
    with_missing = [name for name, numbers in values.items() if np.isnan(numbers).any()]
    if with_missing:
        n_missing = sum(int(np.isnan(values[name]).sum()) for name in with_missing)
        notes.append(f"{n_missing} missing values in {columns(with_missing)}: left to the trees as missing.")
    if copies := _copies(values):
        remarks = ", ".join(f"{copy!r} = {first!r}" for copy, first in copies[:5])
        notes.append(
            f"Identical columns ({remarks}{f' and {len(copies) - 5} more' * (len(copies) > 5)}): kept, though "
            "trees that "
            "draw features at random see them more often."
        )
    return values, tuple(notes), tuple(i for i, name in enumerate(values) if name in encoded)


def _as_numbers(column: pd.Series, name: str, path: str | Path) -> tuple[np.ndarray, bool]:
    """Return a column as float64, missing values as NaN, and whether it was encoded."""
    if types.is_bool_dtype(column.dtype) or not types.is_any_real_numeric_dtype(column.dtype):
        codes, _ = _factorize(column)
        return np.where(codes < 0, np.nan, codes.astype(np.float64)), True
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    check_float32(values, name, path, lambda row: column.index[row])
    return values, False


def _factorize(column: pd.Series) -> tuple[np.ndarray, pd.Index]:
    """Return ranks of the values in sorted order (-1: missing; a categorical keeps its own order), and the values."""
    # No codes of `jaxunc.tables`, which name things: most forests here compare ranks, so dates, categories and numbers
    # keep their order, and what is missing stays missing.
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.remove_unused_categories()
        return column.cat.codes.to_numpy(), column.cat.categories
    if column.dtype == object and types.infer_dtype(column, skipna=True) not in ("decimal", "date", "boolean"):
        column = column.map(str, na_action="ignore")  # mixed kinds have no order
    codes, levels = pd.factorize(column, sort=True)
    return codes, pd.Index(levels)


def _copies(values: dict[str, np.ndarray]) -> list[tuple[str, str]]:
    """Return (column, the first with the same values), for each column that is not the first."""
    seen: dict[bytes, str] = {}
    # Adding 0 makes -0 and 0 the same bytes.
    first = {name: seen.setdefault((numbers + 0.0).tobytes(), name) for name, numbers in values.items()}
    return [(name, other) for name, other in first.items() if name != other]


def _find_copies(X: np.ndarray, y: Int[np.ndarray, "instances"], target: str) -> tuple[str, ...]:
    """Return a sentence of warning if rows look like copies of others, values and target."""
    groups = copies_of(X.astype(np.float32), y)
    if groups is None:
        return ()
    distinct = int(groups.max()) + 1
    return (
        f"{len(y) - distinct} of {len(y)} rows repeat others, values and {target}: copies, it seems (oversampling, a "
        f"join). They are kept in one fold, and out of bag only together, as {distinct} rows. Better leave them out.",
    )


class RefittedModel(NamedTuple):
    """A forest of scikit-learn, or a pipeline that ends in one, fitted anew to each training part."""

    steps: Pipeline | None
    """What comes before the forest, and reads the raw columns; None if the forest reads the table's numbers."""
    forest: Any
    columns: list[str]
    """The raw columns that the steps read, in order."""
    about: dict[str, Any]
    """Name, number of trees, a hash of the file, and the steps."""

    def fit(
        self, table: Table, train: np.ndarray, seed: int
    ) -> tuple[Any, Callable[..., np.ndarray], Any, tuple[str, ...]]:
        """Fit to rows; return the forest, what makes of rows what it reads, that of these rows, and its names."""
        model: Any = clone(self.forest)
        model.set_params(random_state=seed)
        if isinstance(weights := model.class_weight, dict):
            place = {label: c for c, label in enumerate(table.class_labels)}
            model.set_params(class_weight={place[_label(label)]: weight for label, weight in weights.items()})
        X, names, read = table.X[train], table.names, partial(np.take, table.X, axis=0)
        if self.steps is not None:
            steps: Any = clone(self.steps)
            frame = cast(pd.DataFrame, table.frame)[self.columns]
            try:
                X = _dense(steps.fit_transform(frame.iloc[train], table.y[train]))
            except Exception as error:  # whatever the steps of others raise
                raise ValueError(
                    f"--model={self.about['name']!r}: its steps cannot be fitted to DATA ({type(error).__name__}: "
                    f"{str(error)[:200]}). Pass the columns that they were made for, of the same types."
                ) from error
            if len(X) != len(train):
                raise ValueError(
                    f"--model={self.about['name']!r}: its steps make {len(X)} rows of {len(train)}; leave out those "
                    "that drop or make rows."
                )
            try:
                names = tuple(map(str, steps.get_feature_names_out()))
            except (AttributeError, ValueError):
                names = ()
            read = lambda rows: _dense(steps.transform(frame.iloc[rows]))
        return model.fit(X, table.y[train]), read, X, names


def _dense(values: Any) -> np.ndarray:
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values, np.float32)


def read_refitted_model(path: str, table: Table) -> RefittedModel:
    """Open a pickled forest of scikit-learn, or a Pipeline whose last step is one, which runs what code it holds.

    Raises a ValueError if it cannot be opened, is something else, or reads columns that the table lacks.
    """
    try:
        model: Any = joblib.load(path)
    except Exception as error:  # whatever the bytes make of the reader
        raise ValueError(
            f"--model={path!r} cannot be opened as a pickle ({type(error).__name__}: {str(error)[:200]}); --trust is "
            "for files of joblib.dump or pickle.dump. Leave it out for others."
        ) from error
    steps = list(model.named_steps.values()) if isinstance(model, Pipeline) else [model]
    if odd := next((type(step).__name__ for step in steps if hasattr(step, "fit_resample")), None):
        raise ValueError(f"--model={path!r} holds {odd}, which drops or makes rows; leave this step out.")
    if not steps or not isinstance(steps[-1], RandomForestClassifier | ExtraTreesClassifier | DecisionTreeClassifier):
        last = type(steps[-1]).__name__ if steps else "nothing"
        kind = f"a {type(model).__name__}" + f" that ends in {last}" * isinstance(model, Pipeline)
        raise ValueError(
            f"--model={path!r} holds {kind}; expected a forest of scikit-learn, or a Pipeline whose last step is one. "
            "Of wrapped ones (calibrated, searched) pass the forest or pipeline inside."
        )
    before = model[:-1] if len(steps) > 1 else None
    raw = [str(name) for name in cast(pd.DataFrame, table.frame).columns]
    columns = [str(name) for name in getattr(model, "feature_names_in_", raw)] if before is not None else raw
    if lacking := [name for name in columns if name not in raw]:
        raise ValueError(
            f"--model={path!r} reads the columns {listed(lacking)}, which DATA lacks.{nearest(lacking[0], raw)} It has "
            f"{listed(raw, 20)}."
        )
    if isinstance(weights := getattr(steps[-1], "class_weight", None), dict) and (
        odd := [str(one) for one in weights if _label(one) not in table.class_labels]
    ):
        raise ValueError(f"--model={path!r} has class weights of {listed(odd)}, which the target does not hold.")
    about = {
        "name": Path(path).name,
        "n_trees": getattr(steps[-1], "n_estimators", 1),
        "boosted": False,
        "steps": [type(step).__name__ for step in steps],
        "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
    }
    return RefittedModel(before, steps[-1], columns, about)


class GivenModel(NamedTuple):
    """A model that combiners are compared on; its columns hold codes, as the table made for it does."""

    trees: Trees
    """Trees, whose leaves count the training parts."""
    own: Answering
    """What answers as the model does."""
    about: dict[str, Any]
    """Name, kind, number of trees, whether they are boosted, and a hash of the file."""

    def answers(self, X: np.ndarray, y: np.ndarray) -> dict[str, Answers]:
        """Return what answers as the model does, and as it does calibrated on these rows, by Platt's regression."""
        fitted: Any = LogisticRegression(C=100.0, max_iter=1000).fit(_evidence(self.own.answer(X)), y)

        def calibrated(rows: np.ndarray) -> Answer:
            shares = fitted.predict_proba(_evidence(self.own.answer(rows)))
            logs = np.log(np.maximum(shares, np.finfo(np.float32).tiny))
            return Answer(logs, None, shares, logs)

        return {OWN: self.own.answer, OWN_CALIBRATED: calibrated}


def read_given_model(
    path: str | Path,
    data: str | Path,
    target: str | None,
    notation: Notation = Notation(),  # noqa: B008
) -> tuple[Table, GivenModel]:
    """Read the file of a fitted model (of `jaxunc.save`, or that `jaxunc.from_any` reads), and a table as it reads it.

    The table holds the codes that the model reads; columns are found by name where the model knows names. The target
    holds labels of the model.

    Raises a ValueError if a file cannot be read, the model is no classifier of trees, columns are missing, or the
    target holds what is no class of the model.
    """
    loaded = load_model(path)
    if getattr(loaded, "_steps", ()):
        raise ValueError(
            f"--model={str(path)!r} takes raw columns through a pipeline, and compare reads what comes to its forest: "
            "jaxunc.save(path, model.bound_), and as DATA the rows that the steps before the forest make."
        )
    bound = answering(loaded)
    if target is None:
        raise ValueError("--target is missing: it names the column of DATA that holds the classes.")
    if not isinstance(bound, AdditiveTrees | BoundForest):
        raise ValueError(f"--model={str(path)!r} holds a {type(bound).__name__}; pass a classifier of trees.")
    trees = bound.trees if isinstance(bound, AdditiveTrees) else bound.forest.trees
    if not isinstance(bound.blank_answer(), Answer):
        raise ValueError(f"--model={str(path)!r} answers with no probabilities; save it with another combiner.")
    labels = tuple(map(_label, bound.class_labels or ()))
    check_text([data_file(data)], notation)
    X, y, rows, notes = _read(data_file(data), Wanted(trees.columns, None, (target,), notation), labels)
    table = Table(Path(data).name, X, y, labels, notes, frame=rows)
    boosted = isinstance(bound, AdditiveTrees) and not bound.is_forest
    about = {
        "name": Path(path).name,
        "n_trees": trees.n_trees,
        "boosted": boosted,
        "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
    }
    trees, model = _of_codes(bound)
    return table, GivenModel(trees, model, about)


def _of_codes(model: AdditiveTrees | BoundForest) -> tuple[Trees, Any]:
    """Return the trees and the model for data that hold codes already."""
    columns = model.columns.of_codes()
    if isinstance(model, BoundForest):
        trees = dataclasses.replace(model.forest.trees, columns=columns)
        return trees, bind(dataclasses.replace(model.forest, trees=trees), model.combiner)
    trees = dataclasses.replace(model.trees, columns=columns)
    return trees, eqx.tree_at(lambda part: part.trees, model, trees)


def _read(path: Path, wanted: Wanted, labels: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the table as the model's trees test it, positions of classes, row numbers, and notes of rows left out."""
    columns, (target,) = wanted.columns, wanted.keep
    if columns.names is not None and target in columns.names:
        raise ValueError(f"--target={target!r} is a column that the model reads; name the column of the classes.")
    chunks = list(file_chunks(path, wanted, _CHUNK_ROWS))
    if not chunks:
        raise ValueError(f"{path} has 0 rows.")
    values = [
        encode_arrow(chunk.features, columns, chunk.where, are_cells=chunk.are_cells, first=chunk.first).values
        for chunk in chunks
    ]
    labels_read = [label for chunk in chunks for label in _targets(chunk)]
    has_label = np.array([label is not None for label in labels_read])
    place = {label: c for c, label in enumerate(labels)}
    if odd := next((label for label in labels_read if label is not None and label not in place), None):
        raise ValueError(
            f"--target={target!r} of {path} holds {odd!r}, and the model's classes are {', '.join(labels[:10])}. Files "
            "of XGBoost, LightGBM, treelite and some others know classes by their positions alone, in the order of "
            "training: write these numbers into the column."
        )
    if not has_label.any():
        raise ValueError(f"--target={target!r} is missing in all {len(labels_read)} rows; choose another column.")
    X = np.concatenate([np.asarray(chunk) for chunk in values])[has_label]
    y = np.array([place[label] for label in labels_read if label is not None], np.int64)
    left = int(np.sum(~has_label))
    rows = pd.DataFrame(index=np.flatnonzero(has_label) + 1)
    return X, y, rows, (f"{left} of {len(labels_read)} rows have no {target!r} and are left out.",) * (left > 0)


def _targets(chunk: DataChunk) -> list[str | None]:
    column = chunk.kept.column(0).to_pylist()
    return [None if value is None or value != value or value == "" else _label(value) for value in column]


def _label(value: Any) -> str:
    """Return a class as text: 1 and 1.0 are one."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _evidence(answer: Answer) -> np.ndarray:
    """Return log probabilities to calibrate, of two classes their difference, as far as float32 resolves them."""
    logs = np.maximum(np.asarray(answer.log_probability, np.float64), -80.0)
    return logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs
