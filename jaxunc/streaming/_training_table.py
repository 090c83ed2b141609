"""Whole files to fit on: `read_table` finds types of columns, `labelled_table` returns the rows that have a target."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as parquet
from jaxtyping import Int

from jaxunc._checks import join_names, suggest
from jaxunc.tables import usual_type

from ._chunks import FAULTS, reason_of
from ._csv import csv_table
from ._notation import Notation
from ._sources import (
    FORMATS,
    UnreadableError,
    check_distinct,
    check_text,
    data_file,
    file_for_arrow,
    format_of,
    is_index,
    refuse_changes,
)

if TYPE_CHECKING:
    import pandas as pd

compute: Any = pyarrow.compute


def read_table(path: Path, notation: Notation = Notation()) -> pa.Table:  # noqa: B008
    """Return all rows of a data file as a table; a column of a text file has a type that fits all its cells.

    ``notation`` has the marks of decimals and thousands that the caller names; `notation_of` tells from the table those
    that a text file has. Raises a ValueError if the file cannot be read, or has no rows.
    """
    file_format = format_of(path)
    if file_format != "CSV":
        check_text([path], notation)
    try:
        if path.stat().st_size == 0:
            raise UnreadableError("it is empty")
        with refuse_changes(path):
            if file_format == "CSV":
                table, notation = csv_table(path, notation)
            elif file_format == "Parquet":
                table = _parquet_table(path)
            else:
                table = _arrow_table(path)
            table = _without_index(table)
        table.validate(full=True)
        check_distinct(table.schema.names)
        if not table.num_rows or not table.num_columns:
            raise UnreadableError(f"it has {table.num_rows} rows and {table.num_columns} columns")
        # Other metadata are dropped: those of a Parquet file may be any bytes.
        marks = {name: mark for name, mark in notation._asdict().items() if mark is not None}
        return pa.Table.from_arrays(list(map(usual_type, table.columns)), names=table.schema.names, metadata=marks)
    except (*FAULTS, UnicodeDecodeError) as error:
        raise ValueError(
            f"DATA={str(path)!r} cannot be read as {file_format}: {reason_of(error)}. Pass {FORMATS}, with rows."
        ) from error


def notation_of(table: pa.Table) -> Notation:
    """Return the notation of the text file from which `read_table` made this table; without marks for other files."""
    marks = {key.decode(): mark.decode() for key, mark in (table.schema.metadata or {}).items()}
    return Notation(marks.get("decimal"), marks.get("thousands"))


def labelled_table(
    path: str | Path,
    target: str | None,
    drop: Sequence[str] = (),
    *,
    alone: str | None = "class",
    notation: Notation = Notation(),  # noqa: B008
) -> tuple[pa.Table, str | None]:
    """Return the rows of the file ``path`` that have a target, and a note on rows without one, None if there are none.

    ``target`` is the name of the target's column, and ``drop`` has names of columns to leave out. ``notation`` is
    as for `read_table`. Raises a ValueError for faults of the file, the target or the columns to
    drop; with ``alone="class"`` also if all targets are equal, with "number" if all are one number.
    """
    table = read_table(data_file(path), notation)
    names = table.schema.names
    if target is None:
        raise ValueError(
            f"--target is missing: it names the column that holds the classes. {path} has the columns "
            f"{join_names(names, 20)}; for the last one, add --target {names[-1]!r}."
        )
    options = [("--target", target), *(("--drop", name) for name in drop)]
    for option, name in options:
        if name not in names:
            raise ValueError(
                f"{option}={name!r}: {path} has no column {name!r}.{suggest(name, names)} "
                f"It has {join_names(names, 20)}."
            )
    if target in drop:
        raise ValueError(f"--drop holds {target!r}, which is the --target: the classes cannot be left out.")
    table = table.select([name for name in names if name not in drop])
    if table.num_columns < 2:
        remedy = f"--drop fewer than {join_names(drop)}" if drop else f"--target={target!r} is all that it has"
        raise ValueError(f"{path} has no column besides the target; {remedy}.")
    table, note = rows_with_target(table, target)
    if alone:
        _check_several(table.column(target), target, path, alone)
    return table, note


def _check_several(column: Any, target: str, path: str | Path, alone: str) -> None:
    """Raise a ValueError if all values of the target's ``column`` are equal; lists are not compared.

    Equal numbers are refused always, other equal values only if ``alone`` is "class" and not "number". The message
    names ``target`` and ``path``.
    """
    if not pa.types.is_nested(column.type) and len(distinct := compute.unique(column)) < 2:
        # Integers may be classes; floats and decimals that are left here have fractions, and are numbers.
        has_fractions = pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
        if has_fractions or (alone == "number" and pa.types.is_integer(column.type)):
            raise ValueError(
                f"--target={target!r} of {path} holds one number alone, {distinct[0].as_py()}, in all {len(column)} "
                "rows, so nothing is to be told of it. Choose another column, or add rows with other numbers."
            )
        if alone == "class":
            raise ValueError(
                f"--target={target!r} of {path} holds one class alone, {str(distinct[0].as_py())!r}; two or more are "
                "to be told apart. Choose another column, or add rows of other classes."
            )


def rows_with_target(table: pa.Table, target: str) -> tuple[pa.Table, str | None]:
    """Return the rows of a table that have a target, and a note on rows without one, None if there are none.

    If all floats in the column ``target`` are whole, they become integers: a missing value may have made floats of
    them. Raises a ValueError if no row has a target, or one is infinite or beyond 2⁵³.
    """
    missing = compute.is_null(table.column(target), nan_is_null=True)
    n_missing = compute.sum(missing).as_py()
    if n_missing == table.num_rows:
        raise ValueError(f"--target={target!r} is missing in all {n_missing} rows; choose another column.")
    note = None
    if n_missing:
        first = compute.index(missing, value=True).as_py() + 1
        note = (
            f"{n_missing} of {table.num_rows} rows have no {target!r} (first in row {first} of the data) and are left "
            "out. If a text that reads as missing is a class (empty cells, '?', 'NA', 'None', 'null', 'nan' and the "
            "like), rename it."
        )
        table = table.filter(compute.invert(missing))
    column = table.column(target)
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        values = column.cast(pa.float64()).to_numpy()
        if (infinite := np.isinf(values)).any():
            rows = np.flatnonzero(~missing.to_numpy())[infinite] + 1  # as the file counts them, from 1
            raise ValueError(
                f"--target={target!r} is infinite in {len(rows)} of {len(missing)} rows (row {rows[0]} of the data "
                "first), and expected is a finite number, or a class. Leave such a cell empty, so that its row is left "
                "out."
            )
        if np.abs(values).max() >= 2**53:  # where not every integer is a float64
            raise ValueError(
                f"--target={target!r} holds numbers beyond 2^53, of which floats merge some: classes would be lost. "
                "Write classes as text, such as 'c123', and a quantity in a larger unit."
            )
        if np.all(values == np.rint(values)):
            table = table.set_column(table.schema.get_field_index(target), target, pa.array(values.astype(np.int64)))
    return table, note


def as_frame(table: pa.Table) -> "pd.DataFrame":
    """Return a table as a pandas frame; with missing values integers become floats, and bools objects.

    Decimals and columns of nulls become floats. Raises a ValueError for columns of lists.
    """
    for i, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            raise ValueError(f"the column {field.name!r} of DATA holds {field.type}; give each part its own column.")
        if pa.types.is_decimal(field.type) or pa.types.is_null(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.float64()))
    return table.to_pandas(ignore_metadata=True)


def row_numbers(path: str | Path, target: str, notation: Notation) -> Int[np.ndarray, " rows"]:
    """Return the numbers, from 1, of the rows of a file with a value in the column ``target``.

    ``notation`` has the marks of decimals and thousands that the caller names.
    """
    is_missing = read_table(data_file(path), notation).column(target).is_null(nan_is_null=True)
    return np.flatnonzero(~is_missing.to_numpy()) + 1


def _parquet_table(path: Path) -> pa.Table:
    """Return the whole table of a Parquet file; raise an UnreadableError if rows are missing."""
    with parquet.ParquetFile(path, page_checksum_verification=True) as parquet_file:
        table = parquet_file.read()
        if table.num_rows != parquet_file.metadata.num_rows:
            raise UnreadableError(f"{table.num_rows} of its {parquet_file.metadata.num_rows} rows could be read")
        return table


def _arrow_table(path: Path) -> pa.Table:
    """Return the whole table of an Arrow file."""
    with file_for_arrow(path) as (_, stream):  # not mapped: access to pages that are cut off would kill the process
        table = pa.ipc.open_file(stream).read_all()
        del stream
    return table


def _without_index(table: pa.Table) -> pa.Table:
    """Return a table without the columns that are an unnamed index of pandas."""
    return table.select([i for i, name in enumerate(table.schema.names) if not is_index(name)])
