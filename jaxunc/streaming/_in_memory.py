"""Data in memory as Arrow's: tables of frames, columns by name and arrays; columns of answers and class labels.

`tables_of` takes a source of any kind. `arrow_numbers`, `arrow_texts` and `arrow_labels` make arrays of their buffers:
`pyarrow.array` imports pandas wherever that is installed, which takes longer than all else in a short run.
"""

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from jaxunc._checks import as_native
from jaxunc.tables import Frame, as_floats, as_frame, is_missing, is_pandas, is_sparse, moment_word, plain_table

_FAULTS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def tables_of(source: Any) -> Iterator[pa.Table]:
    """Yield tables of Arrow; raises a TypeError or a ValueError for a source that Arrow cannot hold."""
    if isinstance(source, pa.Table):
        yield source
    elif isinstance(source, pa.RecordBatch):
        yield pa.Table.from_batches([source])
    elif is_sparse(source):
        raise TypeError("source is a sparse matrix, which is not streamed; pass source.toarray(), in parts if large.")
    elif hasattr(source, "to_batches") and not hasattr(source, "columns"):  # a dataset of Arrow
        for batch in source.to_batches():
            yield pa.Table.from_batches([batch])
    elif hasattr(source, "dtype"):
        yield _of_array(source)
    elif not isinstance(source, pa.RecordBatchReader) and (frame := as_frame(source, "source")) is not None:
        yield table_of_columns(source) if isinstance(source, Mapping) else _of_frame(source, frame)
    elif isinstance(source, Iterable) and not isinstance(source, str | bytes):
        for part in source:
            yield from tables_of(part)
    else:
        raise TypeError(
            f"source is a {type(source).__name__}; pass a file, a folder, a list of files, an Arrow table, reader or "
            "dataset, a frame, a dictionary of columns, an array, or an iterable of such."
        )


def table_of_columns(columns: Mapping[Any, Any]) -> pa.Table:
    """Return columns by name as a table; raises a TypeError for a column that Arrow has no type for."""
    return pa.table({str(name): _column(column, str(name)) for name, column in columns.items()})


def table_of_pandas(frame: Any) -> pa.Table:
    """Return a frame of pandas as a table, without its index; raises as `table_of_columns`."""
    try:
        whole = pa.Table.from_pandas(frame, preserve_index=False)
        for j, kind in enumerate(whole.schema.types):
            if pa.types.is_temporal(kind) and _is_of_objects(frame.iloc[:, j]):
                whole = whole.set_column(j, whole.schema.names[j], _column(frame.iloc[:, j], whole.schema.names[j]))
        return whole
    except _FAULTS:
        every = [_column(frame.iloc[:, j], str(name)) for j, name in enumerate(frame.columns)]
        return pa.Table.from_arrays(every, names=list(map(str, frame.columns)))


def _of_frame(source: Any, frame: Any) -> pa.Table:
    if is_pandas(frame):
        return table_of_pandas(frame)
    # Of Python's objects in a frame of Polars, Arrow gets their places in memory, or ends the process (Polars 1.30).
    if "Object" not in map(str, getattr(source, "dtypes", ())):
        with suppress(*_FAULTS):
            return pa.table(source)  # in types of its own
    return table_of_columns(dict(zip(frame.columns, frame.parts, strict=True)))


def _of_array(source: Any) -> pa.Table:
    table = plain_table(source, "source")
    if isinstance(table, Frame):  # of a structured array
        return table_of_columns(dict(zip(table.columns, table.parts, strict=True)))
    if len(table.shape) != 2:
        raise ValueError(f"an array of shape {table.shape} is no table; pass (instances, features).")
    array = np.asarray(table)  # of JAX's, too, which Arrow does not read
    return table_of_columns({str(j): array[:, j] for j in range(array.shape[1])})


def _column(column: Any, name: str) -> Any:
    if isinstance(column, np.ndarray) and not isinstance(column, np.ma.MaskedArray):
        if column.dtype.kind == "M" and (unit := np.datetime_data(column.dtype)[0]) in "YMWhm":
            column = column.astype("M8[s]" if unit in "hm" else "M8[D]")  # units that Arrow does not know
        column = as_native(column)  # Arrow reads no bytes in another order than the machine's
    try:
        if isinstance(column, pa.Array | pa.ChunkedArray):
            return column
        return _of_objects(column, name) if _is_of_objects(column) else pa.array(column, from_pandas=True)
    except _FAULTS as error:
        try:  # fractions, large integers and narrow floats are numbers, though no type of Arrow
            return pa.array(as_floats(column), from_pandas=True)
        except (AttributeError, TypeError, ValueError):
            raise TypeError(f"column {name!r} holds values that Arrow has no type for: {error}") from error


def _is_of_objects(column: Any) -> bool:
    return getattr(getattr(column, "dtype", None), "kind", "O") == "O"


def _of_objects(column: Any, name: str) -> pa.Array:
    """Return Python values as a column of Arrow, moments among them whole: Arrow would cut some."""
    try:
        plain = pa.array(column, from_pandas=True)
        if not pa.types.is_temporal(plain.type):
            return plain
    except _FAULTS:
        plain = None
    values = list(column)
    kinds = {kind for kind in set(map(type, values)) if issubclass(kind, datetime.date | np.datetime64)}
    moments = [None if is_missing(value) else value for value in values]
    zones = {getattr(value, "tzinfo", None) is not None for value in moments if value is not None}
    cuts = len(kinds) > 1 or len(zones) > 1 or any(hasattr(kind, "nanosecond") for kind in kinds)
    if not kinds or not cuts or not all(type(value) in kinds or value is None for value in moments):
        return pa.array(column, from_pandas=True) if plain is None else plain
    if len(zones) > 1:
        raise TypeError(f"column {name!r} holds moments with a time zone and others without one; give all of them one.")
    if zones == {True}:
        moments = [None if value is None else value.astimezone(datetime.UTC).replace(tzinfo=None) for value in moments]
    words = ["NaT" if value is None else moment_word(value) for value in moments]
    unit = "ns" if any(len(word.partition(".")[2]) > 6 for word in words) else "us"
    return pa.array(np.array(words, f"M8[{unit}]"), pa.timestamp(unit, "UTC" if zones == {True} else None))


def arrow_numbers(array: np.ndarray) -> pa.Array:
    """Return the numbers or bools of a NumPy array; numbers are not copied if they are contiguous."""
    kind = pa.from_numpy_dtype(array.dtype)
    # Arrow has eight bools in a byte, the first in its lowest bit.
    held = np.packbits(array, bitorder="little") if array.dtype == bool else np.ascontiguousarray(array)
    return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(held)])


def arrow_texts(words: Sequence[str]) -> pa.Array:
    encoded = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def arrow_labels(values: Sequence[Any]) -> pa.Array:
    """Return an array of class labels; raises a ValueError for labels that one column cannot tell apart."""
    if all(type(value) is str for value in values):
        return arrow_texts(values)
    if all(type(value) is int and abs(value) < 2**63 for value in values):
        return arrow_numbers(np.array(values, np.int64))
    if all(type(value) is int and 0 <= value < 2**64 for value in values):
        return arrow_numbers(np.array(values, np.uint64))
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array(list(values))
    # Of several kinds, or beyond 64 bits: as texts.
    words = [str(value) for value in values]
    if len(set(words)) < len(words):
        raise ValueError(f"the class labels {list(values)[:10]!r:.200} are of kinds that one column cannot tell apart.")
    return arrow_texts(words)
