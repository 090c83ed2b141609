"""The table of a study, from a file: features as numbers, a target, and notes on how columns were converted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from sklearn.datasets import load_breast_cancer

from jaxunc._checks import join_names, suggest
from jaxunc.counting import copies_of
from jaxunc.streaming import (
    Notation,
    as_frame,
    columns,
    describe_counters,
    describe_leaks,
    describe_number_texts,
    labelled_table,
    row_numbers,
)
from jaxunc.tables import class_codes, feature_numbers, is_numeric, number_target


class Table(NamedTuple):
    """The data of a study: features, and a target of classes or numbers."""

    name: str
    """Name of the data."""
    X: Float[np.ndarray, "instances features"]
    """Features as numbers; NaN is a missing value."""
    y: Int[np.ndarray, " instances"] | Float[np.ndarray, " instances"]
    """Classes as positions in ``class_labels``, or numbers as float64."""
    class_labels: tuple[str, ...]
    """Labels of the classes, in the order of their numbers in ``y``; empty if the target is a number."""
    notes: tuple[str, ...] = ()
    """Notes of what was done to the columns, a sentence each."""
    warnings: tuple[str, ...] = ()
    """Reasons to doubt the results, a sentence each."""
    nominal: tuple[int, ...] = ()
    """Positions of the columns whose numbers are ranks of words; random decision trees take them as nominal."""
    names: tuple[str, ...] = ()
    """Names of the columns of ``X``, if they are known."""
    frame: pd.DataFrame | None = None
    """The columns as the file has them, indexed by the rows' numbers there, from 1; None if there is no file."""
    taken: str = ""
    """Whether a column of numbers was taken for classes or for a number, and the option that changes it; else empty."""

    @property
    def codes(self) -> Int[np.ndarray, " instances"]:
        """The target as integers from 0, in the order of its values, the same for equal values."""
        return np.unique(self.y, return_inverse=True)[1]


def breast_cancer() -> Table:
    """Return scikit-learn's diagnostic breast-cancer data of Wisconsin (569 instances, 30 features)."""
    data = cast(Any, load_breast_cancer())
    frame = pd.DataFrame(data.data, pd.RangeIndex(1, len(data.data) + 1), data.feature_names)
    labels = tuple(map(str, data.target_names))
    names = tuple(frame.columns)
    return Table("breast cancer (from scikit-learn)", data.data, data.target, labels, names=names, frame=frame)


def study_table(
    path: str | Path,
    target: str | None,
    drop: Sequence[str] = (),
    numbers: bool | None = None,
    notation: Notation = Notation(),  # noqa: B008
) -> Table:
    """Return the table of a file of CSV, Parquet or Arrow; ``target`` names the column to predict.

    The columns to ``drop`` are left out. ``numbers`` is True for a target that is a number and False for classes; None
    lets the column decide. ``notation`` has the marks in numbers of a text file, as far as the user names them.

    String, categorical, date and bool columns become the ranks of their values in sorted order. Columns that hold one
    value or none are left out, as are rows without a target. `Table.notes` says what was done.

    Raises a ValueError if the file is missing, empty or of another format, a column holds infinite values, or no
    column is left. Also if the target is None, unknown, constant, all missing, or not of the kind in ``numbers``.
    """
    arrow_table, missing_note = labelled_table(
        path, target, drop, alone="number" if numbers else "class", notation=notation
    )
    frame = as_frame(arrow_table)
    column = cast(pd.Series, frame[target])
    target_numbers = number_target(column, path, numbers, options=("--laws", "--combiners"))
    if target_numbers is None:
        y, labels = class_codes(column)
        taken = _describe_classes(column)
        unit_notes = ()
    else:
        labels = ()
        taken = _describe_number(target_numbers, column, numbers)
        y, unit_notes = _in_units(target_numbers, str(target))
    features = frame.drop(columns=str(target))
    if missing_note is None:
        features.index = pd.RangeIndex(1, len(y) + 1)
    else:  # rows are left out, so that numbers in the file have gaps
        features.index = pd.Index(row_numbers(path, str(target), notation))
    values, column_notes, nominal = _features(features, path)
    missing_notes = () if missing_note is None else (missing_note,)
    table = Table(
        name=Path(path).name,
        X=np.column_stack(list(values.values())),
        y=y,
        class_labels=labels,
        notes=(*missing_notes, *column_notes, *unit_notes),
        nominal=nominal,
        names=tuple(values),
        frame=features,
        taken=taken,
    )
    leaks = describe_leaks(values, table.codes) if labels else ()
    copies = _describe_copies(table.X, table.codes, "class" if labels else "target")
    return table._replace(warnings=(*leaks, *describe_counters(values), *describe_number_texts(features), *copies))


def positive_class(table: Table, name: str | None) -> str | None:
    """Return the positive class: ``name`` or, if it is None, the rarer of two classes, of equally frequent the second.

    Without a ``name``, return None unless there are two classes. Raises a ValueError if ``name`` is not a class of the
    table, or one of more than two.
    """
    labels = table.class_labels
    if name is None and len(labels) != 2:
        return None
    if name is None:
        n_first, n_second = np.bincount(table.y, minlength=2)
        return labels[1] if n_second <= n_first else labels[0]
    if name not in labels:
        raise ValueError(
            f"--positive={name!r} is no class of the target.{suggest(name, labels)} It holds {', '.join(labels[:10])}."
        )
    if len(labels) > 2:
        raise ValueError(
            f"--positive={name!r} is for two classes, and the target holds {len(labels)}. Make a column that holds "
            f"{name!r} and 'other', and name it with --target."
        )
    return name


def _describe_classes(column: pd.Series) -> str:
    """Return a sentence that the column's numbers were taken for classes; empty for words, or less than 3 values."""
    n_values = int(cast(Any, column.nunique()))
    if not is_numeric(column) or n_values < 3:
        return ""
    return f"{column.name!r} holds {n_values} different numbers, taken for classes; --laws takes them for a number"


def _describe_number(y: np.ndarray, column: pd.Series, numbers: bool | None) -> str:
    """Return a sentence that the target ``column``, whose values are ``y``, was taken for a number.

    Unless ``numbers`` is True, because the user asked for a number, it names the option that takes it for classes.
    """
    sentence = f"{column.name!r} is taken for a number, of {len(np.unique(y))} different values"
    return sentence if numbers else f"{sentence}; --combiners takes it for classes"


def _in_units(y: np.ndarray, target: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the targets ``y``, divided by a power of ten if they scatter little or hugely, and notes on that unit.

    ``target`` is the name of their column.
    """
    spread = float(np.std(y))
    if 1e-2 <= spread < 1e7:  # much above 1e-6, below which studies take differences of scores for ties
        return y, ()
    unit = 10.0 ** np.floor(np.log10(spread))
    return y / unit, (f"{target!r} is counted in units of {unit:g}.",)


def _features(frame: pd.DataFrame, path: str | Path) -> tuple[dict[str, np.ndarray], tuple[str, ...], tuple[int, ...]]:
    """Return {name: the column as numbers} of a frame, notes on the conversion, and the positions of columns of ranks.

    Constant and empty columns are left out. Raises a ValueError, which names the file by its ``path``, if no column is
    left or one holds infinite values.
    """
    values = {}
    encoded, constant, empty = [], [], []  # names of columns
    for name in frame.columns:
        column = cast(pd.Series, frame[name])
        numbers, is_nominal = feature_numbers(column, name, path)
        is_missing = np.isnan(numbers)
        # Constant columns are left out: trees that draw features could draw them, and find no test.
        if is_missing.all():
            empty.append(name)
        elif not is_missing.any() and numbers.min() == numbers.max():
            constant.append(name)
        else:
            values[name] = numbers
            if is_nominal:
                encoded.append(name)
    if not values:
        raise ValueError(
            f"DATA has no feature to learn from: all {frame.shape[1]} columns besides the target are constant or "
            "empty. Add columns that differ between rows."
        )
    nominal = tuple(i for i, name in enumerate(values) if name in encoded)
    return values, _describe_columns(values, encoded, constant, empty), nominal


def _describe_columns(
    values: dict[str, np.ndarray], encoded: list[str], constant: list[str], empty: list[str]
) -> tuple[str, ...]:
    """Return notes on columns: which were encoded or left out, hold missing values, or are identical.

    ``values`` is {name: column} of those that are used. The lists hold names: of columns ``encoded`` as ranks, and of
    those left out as ``constant`` or ``empty``.
    """
    notes = []
    if encoded:
        notes.append(f"{columns(encoded)} without numbers: encoded by the rank of each value in sorted order.")
    if constant or empty:
        kinds = {"constant": constant, "all missing": empty}
        clauses = [f"{kind}: {join_names(names)}" for kind, names in kinds.items() if names]
        notes.append(f"Left out as uninformative ({'; '.join(clauses)}).")
    with_missing = [name for name, numbers in values.items() if np.isnan(numbers).any()]
    if with_missing:
        n_missing = sum(int(np.isnan(values[name]).sum()) for name in with_missing)
        notes.append(f"{n_missing} missing values in {columns(with_missing)}: left to the trees as missing.")
    if copies := _copies(values):
        pairs = [f"{copy!r} = {original!r}" for copy, original in copies[:5]]
        more = f" and {len(copies) - 5} more" if len(copies) > 5 else ""
        notes.append(
            f"Identical columns ({', '.join(pairs)}{more}): kept, though trees that draw features at random see them "
            "more often."
        )
    return tuple(notes)


def _copies(values: dict[str, np.ndarray]) -> list[tuple[str, str]]:
    """Return (name, name of the first column like it) for each column in ``values`` that repeats an earlier one."""
    first_by_bytes: dict[bytes, str] = {}
    copies = []
    for name, numbers in values.items():
        # Adding 0 makes -0 and 0 the same bytes.
        original = first_by_bytes.setdefault((numbers + 0.0).tobytes(), name)
        if original != name:
            copies.append((name, original))
    return copies


def _describe_copies(X: np.ndarray, y: Int[np.ndarray, "instances"], target: str) -> tuple[str, ...]:
    """Return one sentence, in a tuple, if rows repeat others in features ``X`` and target ``y``; else an empty tuple.

    ``target`` is the word for ``y`` in the sentence.
    """
    groups = copies_of(X.astype(np.float32), y)
    if groups is None:
        return ()
    n_distinct = int(groups.max()) + 1
    return (
        f"{len(y) - n_distinct} of {len(y)} rows repeat others, values and {target}: copies, it seems (oversampling, a "
        f"join). They are kept in one fold, and out of bag only together, as {n_distinct} rows. Better leave them out.",
    )


def label_text(value: Any) -> str:
    """Return a class label as text; a whole number has no decimals, so that 1 and 1.0 are one label."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
