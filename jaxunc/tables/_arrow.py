"""Columns of Arrow, as trees test them."""

from typing import Any

import numpy as np

from jaxunc._checks import check_bool, check_kind

from ._cells import floats_of
from ._columns import Columns
from ._cuts import CutLookup
from ._instances import Encoded
from ._levels import Lookup

CACHED_ROWS = 2048
"""Number of rows that are laid out together: columns become rows three times faster in the cache."""


def encode_arrow(table: Any, columns: Columns, name: str = "data", *, are_cells: bool = False) -> Encoded:
    """Encode an Arrow table or record batch with these columns, in their order, as float32 ``[instances features]``.

    Parameters
    ----------
    table
        Numbers and bools of any width, decimals among them; for nominal columns with levels strings (or bytes that are
        UTF-8), numbers or dictionaries of them. Null and NaN are missing values.
    columns
        The columns of the data, as the model knows them; names are not looked at.
    name
        Name of the data in messages.
    are_cells
        Whether strings are cells of a text file, in which ``columns.missing_words`` mean missing values.

    Returns
    -------
    Encoded
        The same as `encode_instances` returns for these data in a frame.

    Raises
    ------
    TypeError
        If a column holds no numbers and has no levels, or lists.
    ValueError
        If the number of columns differs, or a value is infinite or too large for float32.
    """
    check_kind("columns", columns, Columns, "Columns, such as fit_columns(X)")
    check_bool("are_cells", are_cells)
    if not hasattr(table, "num_columns"):
        raise TypeError(f"table={table!r:.60} is a {type(table).__name__}; pass an Arrow table, or a record batch.")
    if table.num_columns != columns.number:
        raise ValueError(f"{name} has {table.num_columns} columns; expected {columns.number}.")
    values = np.empty((table.num_rows, columns.number), np.float32)
    parts = []
    for j, lookup in enumerate(columns.lookups):
        what = f"{name}: column {table.schema.names[j]!r}"
        column = _plain(table.column(j))
        missing = frozenset(columns.missing_words) if are_cells else None
        if isinstance(lookup, CutLookup):
            parts.append(lookup.codes(_numbers(column, what).astype(np.float64)))
        else:
            parts.append(_numbers(column, what) if lookup is None else _codes(column, lookup, missing, what))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(values), CACHED_ROWS):
            block = values[start : start + CACHED_ROWS]
            for j, part in enumerate(parts):
                own = part[start : start + CACHED_ROWS]
                # Frames become float64 first: large integers are rounded twice there, and here.
                block[:, j] = own.astype(np.float64) if own.dtype.kind in "iu" else own
        if np.isfinite(values.sum()):
            return Encoded(values, False)
    beyond = np.isinf(values)
    if beyond.any():
        row, j = map(int, np.argwhere(beyond)[0])
        raise ValueError(
            f"{name}: row {row} of column {table.schema.names[j]!r} is infinite or too large for float32 (largest "
            "3.4e38). Clip it, or make it null if it stands for a missing value."
        )
    return Encoded(values, bool(np.isnan(values).any()))


def _plain(column: Any) -> Any:
    """Return a column of runs, or of an extension's bools, as one of the usual type of the same values."""
    import pyarrow as pa
    import pyarrow.compute

    if pa.types.is_run_end_encoded(column.type):
        return pyarrow.compute.call_function("run_end_decode", [column])
    if getattr(column.type, "extension_name", None) == "arrow.bool8":
        return column.cast(pa.bool_())
    return column


def _numbers(column: Any, what: str) -> np.ndarray:
    """Return the numbers of a column; NaN where it is null."""
    import pyarrow as pa

    is_coded = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if is_coded else column.type
    is_other = pa.types.is_boolean(kind) or pa.types.is_null(kind)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or is_other):
        raise TypeError(
            f"{what} holds {kind}, no numbers. Encode it as the forest's data were; dates: make them numbers, for "
            "instance days since the first one."
        )
    if is_coded:  # of what Arrow can decode: not of views or lists
        column = column.dictionary_decode() if isinstance(column, pa.Array) else column.cast(kind)
    if pa.types.is_decimal(kind):
        return floats_of(column.to_pylist())  # rounded once, which Arrow's own cast is not
    if is_other:
        column = column.cast(pa.float64())
    if column.null_count:
        if pa.types.is_integer(column.type):
            column = column.cast(pa.float64(), safe=False)
        column = column.fill_null(float("nan"))
    if not isinstance(column, pa.ChunkedArray):
        return _on_host(column)
    parts = [_on_host(part) for part in column.chunks] or [np.zeros(0)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _on_host(part: Any) -> np.ndarray:
    """Return an array without nulls as NumPy's. Arrow's ``to_numpy`` imports pandas, where that is installed."""
    return np.from_dlpack(part) if len(part) else np.zeros(0, part.type.to_pandas_dtype())


def _codes(column: Any, lookup: Lookup, missing_words: frozenset[str] | None, what: str) -> np.ndarray:
    """Return the codes of a column's values: each distinct one is looked up once."""
    import pyarrow as pa

    if pa.types.is_nested(column.type):
        raise TypeError(f"{what} holds {column.type}; expected strings, numbers or booleans. Give each part a column.")
    if not pa.types.is_dictionary(column.type):
        # A text is looked up once for each distinct value, not for each row.
        try:
            column = column.dictionary_encode(null_encoding="encode")
        except pa.ArrowNotImplementedError as error:
            raise TypeError(f"{what} holds {column.type}; expected strings, numbers or booleans.") from error
    parts = column.unify_dictionaries().chunks if isinstance(column, pa.ChunkedArray) else [column]
    found = []
    for part in parts:
        words, place = part.dictionary.to_pylist(), part.indices
        if missing_words is not None:
            words = [lookup.read_cell(word, missing_words) if isinstance(word, str) else word for word in words]
        with_null = np.empty(len(words) + 1, object)
        with_null[:-1] = words
        try:
            codes = lookup.codes(with_null)
        except TypeError as error:
            raise TypeError(f"{what}: {error}") from error
        place = place.fill_null(len(words)) if place.null_count else place
        found.append(codes[_on_host(place).astype(np.int64)])
    return np.concatenate(found) if found else np.zeros(0)
