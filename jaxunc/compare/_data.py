"""Tables from files: features as numbers, classes as codes, and notes of what was done to get there."""

from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from pandas.api import types
from sklearn.datasets import load_breast_cancer

from jaxunc.counting import copies_of
from jaxunc.streaming import (
    as_frame,
    check_float32,
    columns,
    find_counters,
    find_leaks,
    labelled_table,
    listed,
    texts_like_numbers,
)

# A numeric target with more distinct values than this, fractions among them, is no set of classes.
_MOST_NUMERIC_CLASSES = 20


class Table(NamedTuple):
    """Data for classification."""

    name: str
    """Name of the data."""
    X: Float[np.ndarray, "instances features"]
    """Features as numbers; NaN is a missing value."""
    y: Int[np.ndarray, " instances"]
    """Classes as positions in ``class_labels``."""
    class_labels: tuple[str, ...]
    """The classes in sorted order; of two, the second is the positive one."""
    notes: tuple[str, ...] = ()
    """Notes of what was done to the columns, a sentence each."""
    warnings: tuple[str, ...] = ()
    """Reasons to doubt the results, a sentence each."""
    nominal: tuple[int, ...] = ()
    """Positions of the columns whose numbers are ranks of words, for trees that can tell them from numbers."""


def breast_cancer() -> Table:
    """Return scikit-learn's diagnostic breast-cancer data of Wisconsin (569 instances, 30 features)."""
    data = cast(Any, load_breast_cancer())
    return Table("breast cancer (from scikit-learn)", data.data, data.target, tuple(map(str, data.target_names)))


def read_table(path: str | Path, target: str | None) -> Table:
    """Read a file and prepare it for forests of trees.

    String, categorical, date and bool columns become the ranks of their values in sorted order; missing values stay
    missing (NaN); columns that hold one value or none are left out, as are rows without a class. `Table.notes` says
    what was done.

    Parameters
    ----------
    path
        A file of CSV (comma, semicolon or tab between cells; may be compressed by gzip), Parquet or Arrow.
    target
        Name of the column that holds the classes.

    Returns
    -------
    Table
        Numbers for trees, labels, and notes of what was done.

    Raises
    ------
    ValueError
        If the file is missing, empty or of another format; the target is not given, unknown, constant, missing in all
        rows or a quantity rather than classes; a column holds infinite values; or no column is left.
    """
    table, left_out = labelled_table(path, target)
    frame = as_frame(table)
    y, labels = _classes(cast(pd.Series, frame[target]))
    features = frame.drop(columns=str(target))
    values, notes, nominal = _features(features, path)
    X = np.column_stack(list(values.values()))
    doubts = (*find_leaks(values, y), *find_counters(values), *texts_like_numbers(features), *_find_copies(X, y))
    return Table(Path(path).name, X, y, labels, (*((left_out,) if left_out else ()), *notes), doubts, nominal)


def _classes(column: pd.Series) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the codes and labels of the target column."""
    target = column.name
    codes, levels = _factorize(column)
    if types.is_numeric_dtype(levels.dtype) and not types.is_bool_dtype(levels.dtype):
        # Large integers are no floats.
        numbers = levels.to_numpy(dtype=np.int64 if types.is_integer_dtype(levels.dtype) else np.float64)
        integral = bool(np.all(numbers == np.rint(numbers)))
        if len(levels) > _MOST_NUMERIC_CLASSES and not (integral and len(levels) < len(codes) / 5):
            raise ValueError(
                f"--target={target!r} holds {len(levels)} different numbers in {len(codes)} rows: a quantity "
                "(regression), but expected a class for every row. Choose another column, or cut this one into ranges "
                "first."
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
        said = ", ".join(f"{copy!r} = {first!r}" for copy, first in copies[:5])
        notes.append(
            f"Identical columns ({said}{f' and {len(copies) - 5} more' * (len(copies) > 5)}): kept, though trees that "
            "draw features at random see them more often."
        )
    return values, tuple(notes), tuple(i for i, name in enumerate(values) if name in encoded)


def _copies(values: dict[str, np.ndarray]) -> list[tuple[str, str]]:
    """Return (column, the first with the same values), for each column that is not the first."""
    seen: dict[bytes, str] = {}
    # Adding 0 makes -0 and 0 the same bytes.
    first = {name: seen.setdefault((numbers + 0.0).tobytes(), name) for name, numbers in values.items()}
    return [(name, other) for name, other in first.items() if name != other]


def _as_numbers(column: pd.Series, name: str, path: str | Path) -> tuple[np.ndarray, bool]:
    """Return a column as float64, missing values as NaN, and whether it was encoded."""
    if types.is_bool_dtype(column.dtype) or not types.is_any_real_numeric_dtype(column.dtype):
        codes, _ = _factorize(column)
        return np.where(codes < 0, np.nan, codes.astype(np.float64)), True
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    check_float32(values, name, path)
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


def _find_copies(X: np.ndarray, y: Int[np.ndarray, "instances"]) -> tuple[str, ...]:
    """Return a sentence of warning if rows look like copies of others, values and class."""
    groups = copies_of(X.astype(np.float32), y)
    if groups is None:
        return ()
    distinct = int(groups.max()) + 1
    return (
        f"{len(y) - distinct} of {len(y)} rows repeat others, values and class: copies, it seems (oversampling, a "
        f"join). They are kept in one fold, and out of bag only together, as {distinct} rows. Better leave them out.",
    )
