"""Data as trees test them: C-contiguous float32, nominal values as codes, checked on the host.

Four functions take data: `encode_instances` dense data, `encode_rows` also sparse matrices, `encode_traced` also arrays
that JAX traces, and `encode_arrow` tables of Arrow. `_numbers` makes codes of columns with levels or cuts.
`warn_of_merged_values` tells where float32 merges values.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32

from jaxunc._checks import check_bool, check_kind, is_concrete, warn
from jaxunc._numerics import ceil_div, copy_in, default_platform, map_over_devices

from ._cells import floats_of
from ._columns import Columns, CutLookup
from ._frames import (
    NUMBERS,
    Encoded,
    as_floats,
    as_narwhals,
    as_table,
    categories_are_codes,
    check_distinct_names,
    column_of,
    dense_alone,
    frame_names,
    is_frame,
    is_sparse,
    plain_table,
)
from ._levels import Lookup
from ._numbers import (
    as_csr,
    error_of_categories,
    error_of_infinite,
    numbers_of_array,
    numbers_of_frame,
    rows_of,
    rows_of_columns,
)

MOST_MERGED = 0.01  # largest share of distinct values that may merge without a warning: of random numbers a few do
MOST_EXAMINED = 2**17  # most instances that `warn_of_merged_values` examines


def encode_instances(data: Any, columns: Columns, name: str = "X", *, infinite: bool = False) -> Encoded:
    """Encode dense data ``[instances features]`` of any type as trees test them: as an `Encoded`.

    The values are C-contiguous float32, NaN where they are missing. Columns with levels or cuts hold codes. A value
    that is not a level has the code -1, and so has a missing value unless missing is a level. A JAX array on an
    accelerator stays there, unless a column has levels or cuts. ``name`` is the data's name in messages.

    Raises a TypeError for a sparse matrix, for columns that hold no numbers and have no levels, and for an array of
    numbers if a column's levels are words. Raises a ValueError if the number, names or order of the columns are not
    those of ``columns``, or a value is infinite or too large for float32 (unless ``infinite``).
    """
    if is_sparse(data):
        raise dense_alone(name)
    return encode_rows(data, columns, name, infinite=infinite)


def encode_rows(data: Any, columns: Columns, name: str = "X", *, infinite: bool = False) -> Encoded:
    """Encode dense data or a sparse matrix as trees test them: as an `Encoded`.

    Dense data are encoded as by `encode_instances`. The ``values`` of a sparse matrix are `SparseRows`, some rows of
    which become dense at a time. ``name`` is the data's name in messages, and ``infinite`` allows infinite values.
    """
    if type(data) is np.ndarray and type(columns) is Columns:
        rows = plain_rows(data, columns)
        if rows is not None:
            return Encoded(rows, missing=False)
    check_bool("infinite", infinite)
    # Data on an accelerator stay there; on a CPU NumPy shares JAX's memory, and is quicker.
    values, missing = unchecked_rows(data, columns, name, infinite=infinite, on_device=default_platform() != "cpu")
    if missing is not None:
        return data if isinstance(data, Encoded) else Encoded(values, missing)
    with np.errstate(over="ignore", invalid="ignore"):
        values = values.astype(np.float32) if isinstance(values, jax.Array) else values
        # A finite sum has finite terms alone. It is one cheap pass; others follow only where the sum is not finite.
        if np.isfinite(values.sum()):
            return Encoded(values, missing=False)
    if not infinite:
        refuse_infinite(values, name)
    return Encoded(values, bool(_numpy_of(values).isnan(values).any()))


def unchecked_rows(
    data: Any, columns: Columns, name: str = "X", *, infinite: bool = False, on_device: bool = True
) -> tuple[Any, bool | None]:
    """Return (data as trees test them, whether a value is missing); the latter is None if it was not searched for.

    Dense data are searched neither for missing nor for infinite values: the program that takes them has to do this, and
    `refuse_infinite` raises the error. Sparse data are searched, and ``infinite`` allows infinite values in them. With
    ``on_device`` a JAX array keeps its device and dtype, unless a column has levels or cuts.
    """
    check_kind("columns", columns, Columns, "Columns, such as fit_columns(X)")
    if isinstance(data, Encoded):
        check_shape(data.values.shape, columns, name)
        return data
    if type(data) is not np.ndarray and is_sparse(data):
        check_shape(data.shape, columns, name)
        return rows_of(as_csr(data, name), columns, name, infinite=infinite)
    table = plain_table(data, name)
    # Most calls pass an array, which is known without the slower look at the members of a frame.
    if type(table) is not np.ndarray and is_frame(table):
        check_names(frame_names(table), columns, name)
        check_shape(table.shape, columns, name)
        values = numbers_of_frame(table, columns, name)
    else:
        stays = on_device and isinstance(table, jax.Array) and not columns.looks_up
        values: Any = table if stays else np.asarray(table)
        if not columns.looks_up and values.dtype.kind not in NUMBERS + "O":
            raise TypeError(f"{name} has dtype {values.dtype}; pass numbers; encode text columns as in training.")
        check_shape(values.shape, columns, name)
        if stays:
            return values, None
        if columns.looks_up or values.dtype.kind == "O":
            values = numbers_of_array(values, columns, name)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(values, dtype=np.float32), None


def refuse_infinite(values: Any, name: str = "X") -> None:
    """Raise a ValueError if a value of an array ``[instances features]`` is infinite as float32; it names the first."""
    with np.errstate(over="ignore"):
        beyond = _numpy_of(values).isinf(values.astype(np.float32))
    if beyond.any():
        row, column = map(int, np.argwhere(beyond)[0])
        raise error_of_infinite(f"{name}[{row}, {column}]")


def _numpy_of(values: Any) -> Any:
    """Return the module `jax.numpy` for an array of JAX, `numpy` for any other."""
    return jnp if isinstance(values, jax.Array) else np


MOST_PLAIN = 2**13  # most values of an array that `plain_rows` takes: it reads all of them once more


def plain_rows(data: np.ndarray, columns: Columns) -> np.ndarray | None:
    """Return a small array of finite floats as float32, as `encode_rows` would: a short way for few rows.

    None for any other data: more than `MOST_PLAIN` values, other dtypes, strided or transposed arrays, float64 numbers
    too large for float32, and columns with levels or cuts.
    """
    if data.size > MOST_PLAIN or not data.flags.c_contiguous:
        return None
    if data.ndim != 2 or data.shape[1] != columns.number or columns.looks_up:
        return None
    # The sum of squares is finite only if all values are. With the cold caches that a program leaves behind, it takes a
    # third of the time of `np.isfinite`.
    if data.dtype == np.float32:
        is_finite = math.isfinite(np.vdot(data, data)) or np.isfinite(data).all()
        return data if is_finite else None
    if data.dtype == np.float64 and np.vdot(data, data) < _LARGEST_SQUARE:
        return data.astype(np.float32)
    return None


_LARGEST_SQUARE = 1e77  # numbers with a square below it are below 3.2e38, and finite in float32


def holds_float32(data: Any) -> bool:
    """Return whether data are an array or a sparse matrix of a dtype whose numbers float32 holds without rounding."""
    dtype = getattr(data, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in NUMBERS and np.can_cast(dtype, np.float32)


def encode_traced(data: Any, columns: Columns, name: str = "X") -> Float32[jax.Array, "instances features"]:
    """Encode dense data, which JAX may trace, as a float32 array of JAX; infinite values are allowed.

    In a traced array, values of a column with cuts become codes, and those of a column with levels must be codes
    already. Only the shape of a traced array is checked. Other data are encoded as by `encode_instances`, and raise its
    errors.
    """
    if isinstance(data, Encoded):
        check_shape(data.values.shape, columns, name)
        return copy_in(data.values)
    if is_concrete(data):
        data, _ = encode_instances(data, columns, name, infinite=True)
        return copy_in(data, jnp.float32)
    check_shape(np.shape(data), columns, name)
    traced = data if columns.cuts is None else map_over_devices(lambda _, x: _with_codes(columns, x), data)
    return jnp.asarray(traced, jnp.float32)


def _with_codes(columns: Columns, data: Any) -> Any:
    """Return a traced array ``[instances features]`` as float32, with codes in columns that have cuts."""
    parts = []
    for j, lookup in enumerate(columns.lookups):
        values = data[:, j]
        parts.append(lookup.traced_codes(values) if isinstance(lookup, CutLookup) else values)
    return jnp.stack([jnp.asarray(part, jnp.float32) for part in parts], axis=1)


def encode_arrow(
    table: Any, columns: Columns, name: str = "data", *, are_cells: bool = False, first: int = 0
) -> Encoded:
    """Encode an Arrow table or record batch as trees test it: as an `Encoded`; its columns are in the model's order.

    Numbers and bools may have any width. Columns with levels hold strings (or bytes that are UTF-8), numbers or
    dictionaries of these. Null and NaN are missing values. With ``are_cells`` strings come from a text file, where
    ``columns.missing_words`` are missing, too. In messages ``name`` is the table's name, and ``first`` is the number of
    its first row. Raises a TypeError for a table of another kind, for columns of lists, and for dictionaries other than
    0, 1, 2, … where codes are expected; a ValueError for another number of columns, and for infinite values.
    """
    check_kind("columns", columns, Columns, "Columns, such as fit_columns(X)")
    check_bool("are_cells", are_cells)
    if not hasattr(type(table), "num_columns"):
        raise TypeError(f"table={table!r:.60} is a {type(table).__name__}; pass an Arrow table, or a record batch.")
    if table.num_columns != columns.number:
        raise ValueError(f"{name} has {table.num_columns} columns; expected {columns.number}.")
    parts = []
    for j, lookup in enumerate(columns.lookups):
        what = f"{name}: column {table.schema.names[j]!r}"
        column = usual_type(table.column(j))
        missing = frozenset(columns.missing_words) if are_cells else None
        if isinstance(lookup, CutLookup):
            parts.append(lookup.codes(_arrow_numbers(column, what).astype(np.float64)))
        elif lookup is None:
            if columns.nominal is not None and columns.nominal[j] and _is_of_values(column):
                raise error_of_categories([table.schema.names[j]], name)
            parts.append(_arrow_numbers(column, what))
        else:
            parts.append(_arrow_codes(column, lookup, missing, what))
    values = rows_of_columns(parts, table.num_rows)
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return Encoded(values, missing=False)
    beyond = np.isinf(values)
    if beyond.any():
        row, j = map(int, np.argwhere(beyond)[0])
        raise ValueError(
            f"{name}: row {first + row} of the data is infinite or too large for float32 (largest 3.4e38) in column "
            f"{table.schema.names[j]!r}. Clip it, or make it null if it stands for a missing value."
        )
    return Encoded(values, bool(np.isnan(values).any()))


def _is_of_values(column: Any) -> bool:
    """Return whether an Arrow column is a dictionary of values, not of the codes 0, 1, 2, …"""
    import pyarrow as pa

    return pa.types.is_dictionary(column.type) and categories_are_codes(as_narwhals(column)) is False


def usual_type(column: Any) -> Any:
    """Return an Arrow column without run-end encoding, and as bools if it is of the extension type bool8."""
    import pyarrow as pa
    import pyarrow.compute

    if pa.types.is_run_end_encoded(column.type):
        return pyarrow.compute.call_function("run_end_decode", [column])
    if getattr(column.type, "extension_name", None) == "arrow.bool8":
        return column.cast(pa.bool_())
    return column


def _arrow_numbers(column: Any, what: str) -> np.ndarray:
    """Return an Arrow column of numbers or bools as a NumPy array, NaN for null; bools are 0 and 1.

    Raises a TypeError, in which ``what`` is the column's name, for any other column.
    """
    import pyarrow as pa

    is_dictionary = pa.types.is_dictionary(column.type)
    dtype = column.type.value_type if is_dictionary else column.type
    needs_cast = pa.types.is_boolean(dtype) or pa.types.is_null(dtype)  # NumPy could not share their memory
    if not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype) or needs_cast):
        raise TypeError(
            f"{what} holds {dtype}, no numbers. Encode it as the forest's data were; dates: make them numbers, for "
            "instance days since the first one."
        )
    if is_dictionary:  # of numbers: Arrow can decode these, unlike dictionaries of views or lists
        column = column.dictionary_decode() if isinstance(column, pa.Array) else column.cast(dtype)
    if pa.types.is_decimal(dtype):
        return floats_of(column.to_pylist())  # rounded once; Arrow's own cast rounds twice
    if needs_cast:
        column = column.cast(pa.float64())
    if column.null_count:
        if pa.types.is_integer(column.type):
            column = column.cast(pa.float64(), safe=False)  # integers beyond 2⁵³ are rounded, not refused
        column = column.fill_null(float("nan"))
    if not isinstance(column, pa.ChunkedArray):
        return _on_host(column)
    arrays = [_on_host(chunk) for chunk in column.chunks] or [np.zeros(0)]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)  # one chunk is not copied


def _on_host(part: Any) -> np.ndarray:
    """Return an Arrow array of numbers without nulls as a NumPy array."""
    # Not by Arrow's ``to_numpy``, which imports pandas if it is installed.
    return np.from_dlpack(part) if len(part) else np.zeros(0, part.type.to_pandas_dtype())


def _arrow_codes(column: Any, lookup: Lookup, missing_words: frozenset[str] | None, what: str) -> np.ndarray:
    """Return the code of each value of an Arrow column, ``[rows]``: its position among the levels of ``lookup``.

    With ``missing_words`` strings are cells of a text file: one of these words is missing, unless it is a level. Raises
    a TypeError, in which ``what`` is the column's name, for lists and for bytes that are not UTF-8.
    """
    import pyarrow as pa

    if pa.types.is_nested(column.type):
        raise TypeError(f"{what} holds {column.type}; expected strings, numbers or booleans. Give each part a column.")
    if not pa.types.is_dictionary(column.type):
        try:
            # Nulls stay in the indices: in the dictionary (null_encoding="encode") Arrow makes "" of string_view's.
            column = column.dictionary_encode()
        except pa.ArrowNotImplementedError as error:
            raise TypeError(f"{what} holds {column.type}; expected strings, numbers or booleans.") from error
    chunks = column.unify_dictionaries().chunks if isinstance(column, pa.ChunkedArray) else [column]
    chunk_codes = []
    for chunk in chunks:
        dictionary = chunk.dictionary.to_pylist()
        if missing_words is not None:
            dictionary = [lookup.read_cell(v, missing_words) if isinstance(v, str) else v for v in dictionary]
        entries = np.empty(len(dictionary) + 1, object)  # the last stays None, a missing value: nulls get its index
        entries[:-1] = dictionary
        try:
            codes_of_entries = lookup.codes(entries)
        except TypeError as error:
            raise TypeError(f"{what}: {error}") from error
        index = chunk.indices.cast(pa.int64())  # an int8, for one, may have no number left for the index of None
        if index.null_count:
            index = index.fill_null(len(dictionary))
        chunk_codes.append(codes_of_entries[_on_host(index)])
    return np.concatenate(chunk_codes) if chunk_codes else np.zeros(0)


def check_shape(shape: tuple[Any, ...], columns: Columns, name: str) -> None:
    """Raise a ValueError, about data called ``name``, unless their shape is that of instances with these columns."""
    if len(shape) != 2:
        hint = f" One instance? Pass {name}[None]." if len(shape) == 1 else ""
        raise ValueError(f"{name} has shape {shape}; expected (instances, features).{hint}")
    if shape[1] != columns.number:
        raise ValueError(
            f"{name} has {shape[1]} features, but the training data had {columns.number}. "
            "Pass the same columns in the same order."
        )


def check_names(names_of_data: tuple[str, ...], columns: Columns, name: str) -> None:
    """Raise a ValueError, about data called ``name``, unless their names are those of ``columns``, in this order.

    Where ``columns`` have no names, any will do.
    """
    expected = columns.names
    if expected is None:
        return
    check_distinct_names(names_of_data, name)
    if names_of_data == expected or tuple(map(columns.as_known, names_of_data)) == expected:
        return
    spelling_of = match_names(names_of_data, columns, name)
    known_names = {columns.as_known(column) for column in names_of_data}
    absent = [column for column in expected if column not in known_names]
    unknown = [column for column in names_of_data if columns.as_known(column) not in set(expected)]
    if absent or unknown:
        raise ValueError(
            f"{name}'s columns are not those of the training data: missing {absent[:5]}, unexpected "
            f"{unknown[:5]} ({len(absent)} and {len(unknown)} in all)."
        )
    # All names are there, in another order; the message spells them as the data do.
    right_order = [spelling_of[column] for column in expected]
    if tuple(right_order) == expected:
        shown = "list(model.columns.names)"
    else:
        shown = f"{right_order[:10]}{', …' * (len(right_order) > 10)}"
    raise ValueError(
        f"{name}'s columns are in another order than the training data's; pass {name}[{shown}], with the columns that "
        "are known."
    )


def match_names(names_of_data: Sequence[str], columns: Columns, where: str) -> dict[str, str]:
    """Return {name in ``columns``: its spelling in ``names_of_data``} of the names that the data have.

    Raises a ValueError, about data called ``where``, if two of their columns match one name.
    """
    spellings: dict[str, list[str]] = {}
    for name in names_of_data:
        spellings.setdefault(columns.as_known(name), []).append(name)
    known_names = [name for name in columns.names or () if name in spellings]
    if several := [spellings[name] for name in known_names if len(spellings[name]) > 1]:
        raise ValueError(f"{where} has the columns {several[0]}, which the model calls alike; keep one of them.")
    return {name: spellings[name][0] for name in known_names}


class MergedValuesWarning(UserWarning):
    """Trees compare numbers as float32, which makes many different values of a column equal."""


def warn_of_merged_values(X: Any, columns: Columns, name: str = "X") -> None:
    """Warn of numeric columns of ``X`` in which float32 merges more than 1 % of the distinct values.

    ``X`` are data that `encode_instances` has taken without an error, and messages call them ``name``. At most 2¹⁷
    instances are examined, evenly spaced.
    """
    if isinstance(X, Encoded):
        return
    table = as_table(X, name)
    merged = []
    if not is_frame(table) and (table.dtype.itemsize <= 2 or table.dtype == np.float32):
        return
    step = ceil_div(table.shape[0], MOST_EXAMINED) or 1
    for j in np.flatnonzero(~columns.is_nominal).tolist():
        values = as_floats(column_of(table, j)[::step]).astype(np.float64, copy=False)
        values = values[~np.isnan(values)]
        # The usual case, told quickly: float32 rounds nothing, so it merges nothing.
        if np.array_equal(values.astype(np.float32), values):
            continue
        ascending = np.sort(values)
        n_values = _count_distinct(ascending)
        n_left = _count_distinct(ascending.astype(np.float32))
        if n_values - n_left > MOST_MERGED * n_values:
            column = repr(columns.names[j]) if columns.names else str(j)
            merged.append(f"{column} ({n_left} of {n_values} distinct values are left)")
    if merged:
        more = f" and {len(merged) - 5} more" if len(merged) > 5 else ""
        warn(
            f"trees compare numbers as float32, which merges different values in {name}'s columns "
            f"{', '.join(merged[:5])}{more}. Subtract a column's mean or smallest value before, in float64.",
            MergedValuesWarning,
        )


def _count_distinct(ascending: np.ndarray) -> int:
    """Return the number of distinct values in an array that is sorted and not empty."""
    return 1 + int(np.count_nonzero(np.diff(ascending)))
