"""Data in memory as Arrow's: tables of frames, columns by name and arrays; columns of answers and class labels.

Numbers that a model reads may become floats. Columns that are carried along keep their values exactly, or are refused.
`arrow_numbers`, `arrow_texts` and `arrow_labels` make arrays from buffers, without `pyarrow.array`: it imports pandas
if that is installed, which takes longer than all other steps of a short run.
"""

import datetime
import decimal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from jaxunc._checks import as_native
from jaxunc.tables import (
    Frame,
    as_floats,
    as_frame,
    is_frame,
    is_missing,
    is_pandas,
    is_sparse,
    moment_word,
    plain_table,
)

Positions = Callable[[Sequence[str]], tuple[list[int], list[int]]]
"""A function from the names of all columns to two lists of positions: columns to read, and columns to carry along."""
_FAULTS = (pa.ArrowException, TypeError, ValueError, OverflowError)  # errors for values that Arrow has no type for


def tables_of(source: Any, positions: Positions) -> Iterator[pa.Table]:
    """Yield the rows of a source in memory as Arrow tables: the columns to read, then those to carry along.

    Raises a TypeError for a source that is no table, and for values that Arrow has no type for.
    """
    if isinstance(source, pa.Table):
        yield select_at(source, positions)
    elif isinstance(source, pa.RecordBatch):
        yield select_at(pa.Table.from_batches([source]), positions)
    elif is_sparse(source):
        raise TypeError("source is a sparse matrix, which is not streamed; pass source.toarray(), in parts if large.")
    elif hasattr(source, "to_batches") and not hasattr(source, "columns"):  # a dataset of Arrow
        for batch in source.to_batches():
            yield select_at(pa.Table.from_batches([batch]), positions)
    elif hasattr(source, "dtype") and not is_frame(source):  # an array
        yield _table_of_array(source, positions)
    elif not isinstance(source, pa.RecordBatchReader) and (frame := as_frame(source, "source")) is not None:
        yield table_of_frame(source, frame, positions)
    elif isinstance(source, Iterable) and not isinstance(source, str | bytes):  # a reader of Arrow, too
        for part in source:
            yield from tables_of(part, positions)
    else:
        raise TypeError(
            f"source is a {type(source).__name__}; pass a file, a folder, a list of files, an Arrow table, reader or "
            "dataset, a frame, a dictionary of columns, an array, or an iterable of such."
        )


def select_at(table: pa.Table, positions: Positions) -> pa.Table:
    """Return a table of the columns of ``table`` to read, then those to carry along, as ``positions`` says."""
    read, carried = positions(table.schema.names)
    return table.select([*read, *carried])


def table_of_columns(columns: Mapping[Any, Any], *, exact: bool = False) -> pa.Table:
    """Return {name: column} as a table; raise a TypeError for values that Arrow has no type for.

    Without ``exact`` a column of such values becomes floats if they are numbers.
    """
    return pa.table({str(name): _column(column, str(name), exact) for name, column in columns.items()})


def table_of_pandas(frame: Any, *, exact: bool = False) -> pa.Table:
    """Return a pandas frame as a table, without its index; raise a TypeError for values that Arrow has no type for.

    Without ``exact`` a column of such values becomes floats if they are numbers.
    """
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        for j, data_type in enumerate(table.schema.types):
            # Of objects Arrow may truncate times, and take texts among bytes for bytes: `_column` reads these.
            may_differ = pa.types.is_temporal(data_type) or pa.types.is_binary(data_type)
            if may_differ and _holds_objects(frame.iloc[:, j]):
                column = _column(frame.iloc[:, j], table.schema.names[j], exact)
                table = table.set_column(j, table.schema.names[j], column)
        return table
    except _FAULTS:
        arrays = [_column(frame.iloc[:, j], str(name), exact) for j, name in enumerate(frame.columns)]
        return pa.Table.from_arrays(arrays, names=list(map(str, frame.columns)))


def table_of_frame(source: Any, frame: Any, positions: Positions) -> pa.Table:
    """Return a table of the columns of a frame or dictionary to read, then of those to carry along.

    ``frame`` is what `as_frame` returns for the ``source``.
    """
    read, carried = positions(list(map(str, frame.columns)))
    if is_pandas(frame):
        return join_tables(table_of_pandas(frame.iloc[:, read]), table_of_pandas(frame.iloc[:, carried], exact=True))
    # Polars 1.30 hands Arrow the addresses of Python's objects, or ends the process: no frame with such a column.
    if not isinstance(source, Mapping) and "Object" not in map(str, getattr(source, "dtypes", ())):
        with suppress(*_FAULTS):
            return pa.table(source).select([*read, *carried])  # in the source's types
    columns = list(source.items() if isinstance(source, Mapping) else zip(frame.columns, frame.parts, strict=True))
    return _table_of_pairs(columns, read, columns, carried)


def _table_of_array(source: Any, positions: Positions) -> pa.Table:
    """Return a table of the columns of an array to read, then of those to carry along.

    ``source`` is an array ``[instances features]``, whose columns are named "0", "1", …, or a structured one.
    """
    table = plain_table(source, "source")
    if isinstance(table, Frame):  # from a structured array; masked integers are floats in the frame
        read, carried = positions(table.columns)
        columns = list(zip(table.columns, table.parts, strict=True))
        return _table_of_pairs(columns, read, [(name, source[name]) for name in table.columns], carried)
    if len(table.shape) != 2:
        raise ValueError(f"an array of shape {table.shape} is no table; pass (instances, features).")
    array = np.asarray(table)  # Arrow does not read arrays of JAX
    original = source if isinstance(source, np.ma.MaskedArray) else array  # for columns that keep their values
    read, carried = positions([str(j) for j in range(array.shape[1])])
    columns = [(str(j), array[:, j]) for j in range(array.shape[1])]
    originals = [(str(j), original[:, j]) for j in range(array.shape[1])]
    return _table_of_pairs(columns, read, originals, carried)


def _table_of_pairs(columns: list, read: list[int], originals: list, carried_positions: list[int]) -> pa.Table:
    """Return a table of ``columns`` at the positions ``read``, then of ``originals`` at ``carried_positions``.

    Both are lists of pairs (name, values). Values of the originals stay as they are.
    """
    carried = table_of_columns(dict(originals[j] for j in carried_positions), exact=True)
    return join_tables(table_of_columns(dict(columns[j] for j in read)), carried)


def join_tables(read: pa.Table, carried: pa.Table) -> pa.Table:
    """Return a table of the columns of the table ``read``, then of those of ``carried``; names may occur twice."""
    return pa.Table.from_arrays([*read.columns, *carried.columns], schema=pa.schema([*read.schema, *carried.schema]))


def _column(column: Any, name: str, exact: bool) -> Any:
    """Return the column ``name`` of any library as an Arrow array; with ``exact`` its values stay as they are.

    Raises a TypeError for values that Arrow has no type for; without ``exact`` such numbers become floats or decimals.
    """
    if str(getattr(column, "dtype", "")).startswith("Sparse"):
        column = column.to_numpy()
    if isinstance(column, np.ndarray) and not isinstance(column, np.ma.MaskedArray):
        if column.dtype.kind == "M" and (unit := np.datetime_data(column.dtype)[0]) in "YMWhm":
            column = column.astype("M8[s]" if unit in "hm" else "M8[D]")  # Arrow lacks the units of years to minutes
        column = as_native(column)  # Arrow reads only the machine's byte order
    try:
        if isinstance(column, pa.Array | pa.ChunkedArray):
            return column
        if _holds_objects(column):
            array = _arrow_of_objects(column, name)
            if exact and pa.types.is_binary(array.type) and any(isinstance(value, str) for value in column):
                raise TypeError("texts and bytes are in it")  # Arrow has made bytes of the texts
            return array
        # NaN in an array that is carried along stays NaN, and does not become null.
        return pa.array(column, from_pandas=not (exact and isinstance(column, np.ndarray)))
    except _FAULTS as error:
        if exact:
            raise TypeError(
                f"column {name!r} is carried along, and Arrow has no type that holds its values as they are: {error}. "
                "Make texts of them, or leave the column out."
            ) from error
        try:  # Arrow has no type for fractions, large integers and narrow floats, which are numbers
            return _arrow_of_numbers(column)
        except _FAULTS:
            raise TypeError(f"column {name!r} holds values that Arrow has no type for: {error}") from error


def _arrow_of_numbers(column: Any) -> pa.Array:
    """Return a column of numbers as an Arrow array of floats; of large integers as decimals, which keep all digits.

    Raises one of `_FAULTS` for values that are no numbers.
    """
    values = np.asarray(column, None if hasattr(column, "dtype") else object)
    numbers = as_floats(values)  # raises for others
    if values.dtype == object and all(is_missing(value) or type(value) is int for value in values.tolist()):
        cells = [None if is_missing(value) else decimal.Decimal(value) for value in values.tolist()]
        with suppress(*_FAULTS):  # integers of more than 76 digits
            return pa.array(cells)
    return pa.array(numbers, from_pandas=True)


def _holds_objects(column: Any) -> bool:
    """Return whether a column has the dtype of objects, or none."""
    return getattr(getattr(column, "dtype", None), "kind", "O") == "O"


def _arrow_of_objects(column: Any, name: str) -> pa.Array:
    """Return a column of Python's objects as an Arrow array; times keep their nanoseconds, which Arrow may truncate.

    Raises one of `_FAULTS`, which may name the column ``name``, for values that Arrow has no type for.
    """
    # Below, moments are dates and times, and spans are durations.
    try:
        array = pa.array(column, from_pandas=True)
    except _FAULTS:  # Arrow refuses some mixtures of kinds of moments, such as dates among times
        moments = _arrow_of_moments(list(column), name)
        if moments is None:  # some values are no moments: Arrow's error stands
            raise
        return moments
    if pa.types.is_duration(array.type):
        return _arrow_of_spans(array, list(column))
    if pa.types.is_temporal(array.type):
        moments = _arrow_of_moments(list(column), name)
        return array if moments is None else moments  # None: Arrow's array is exact
    return array


def _arrow_of_spans(array: pa.Array, spans: list) -> pa.Array:
    """Return durations, ``spans``, in nanoseconds if some have any; else ``array``, what Arrow has made of them."""
    if not any(getattr(span, "nanoseconds", 0) for span in spans):
        return array
    return pa.array([None if is_missing(span) else _nanoseconds(span) for span in spans], pa.duration("ns"))


def _arrow_of_moments(values: list, name: str) -> pa.Array | None:
    """Return dates and times as an Arrow array of timestamps, in UTC if they have time zones.

    None if Arrow itself reads the values as exactly, or some value is neither a date nor a time. Raises a TypeError,
    which names the column ``name``, if only some of the values have a time zone.
    """
    kinds = {kind for kind in set(map(type, values)) if issubclass(kind, datetime.date | np.datetime64)}
    moments = [None if is_missing(value) else value for value in values]
    has_zone = {getattr(moment, "tzinfo", None) is not None for moment in moments if moment is not None}
    # Arrow may truncate values of several kinds, and the nanoseconds of pandas; mixed zones are refused below.
    may_truncate = len(kinds) > 1 or len(has_zone) > 1 or any(hasattr(kind, "nanosecond") for kind in kinds)
    if not kinds or not may_truncate or not all(moment is None or type(moment) in kinds for moment in moments):
        return None
    if len(has_zone) > 1:
        raise TypeError(f"column {name!r} holds moments with a time zone and others without one; give all of them one.")
    in_utc = has_zone == {True}  # all have a time zone
    if in_utc:
        moments = [None if value is None else value.astimezone(datetime.UTC).replace(tzinfo=None) for value in moments]
    words = ["NaT" if value is None else moment_word(value) for value in moments]
    # More than six decimals of a second need nanoseconds.
    unit = "ns" if any(len(word.partition(".")[2]) > 6 for word in words) else "us"
    return pa.array(np.array(words, f"M8[{unit}]"), pa.timestamp(unit, "UTC" if in_utc else None))


def _nanoseconds(span: datetime.timedelta) -> int:
    """Return the nanoseconds of a duration of Python or pandas."""
    microseconds = (span.days * 86_400 + span.seconds) * 10**6 + span.microseconds
    return microseconds * 1000 + getattr(span, "nanoseconds", 0)


def arrow_numbers(array: np.ndarray) -> pa.Array:
    """Return a NumPy array of numbers or bools as an Arrow array; contiguous numbers are not copied."""
    data_type = pa.from_numpy_dtype(array.dtype)
    # Arrow has eight bools in a byte, the first in its lowest bit.
    values = np.packbits(array, bitorder="little") if array.dtype == bool else np.ascontiguousarray(array)
    return pa.Array.from_buffers(data_type, len(array), [None, pa.py_buffer(values)])


def arrow_texts(words: Sequence[str]) -> pa.Array:
    """Return texts as an Arrow array of strings."""
    encoded = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def arrow_labels(values: Sequence[Any]) -> pa.Array:
    """Return the labels of classes as an Arrow array, of strings if they are of several kinds.

    Raises a ValueError if two labels are equal as strings.
    """
    if all(type(value) is str for value in values):
        return arrow_texts(values)
    if all(type(value) is int and abs(value) < 2**63 for value in values):
        return arrow_numbers(np.array(values, np.int64))
    if all(type(value) is int and 0 <= value < 2**64 for value in values):
        return arrow_numbers(np.array(values, np.uint64))
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array(list(values))
    # Labels of several kinds, or beyond 64 bits, become texts.
    words = [str(value) for value in values]
    if len(set(words)) < len(words):
        raise ValueError(f"the class labels {list(values)[:10]!r:.200} are of kinds that one column cannot tell apart.")
    return arrow_texts(words)
