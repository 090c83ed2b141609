"""Data as people hand them in: frames, arrays and lists."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from ._cells import floats_of, is_missing, kinds_of
from ._frames import Frame, as_frame, is_frame, is_pandas, plain_array

NUMBERS = "fiub"
"""Dtype kinds of NumPy that hold numbers."""

QUANTITIES = "mMc"
"""Dtype kinds with a scale of their own, which are no names of anything: times, dates, complex numbers."""


def as_table(data: Any, name: str) -> Any:
    """Return a frame of pandas, a `Frame`, or an array (of objects if a list holds strings); TypeError if sparse."""
    if hasattr(data, "tocsr"):
        raise dense_alone(name)
    return plain_table(data, name)


def plain_table(data: Any, name: str = "X") -> Any:
    """Return what `as_table` does of data that are not sparse."""
    if type(data) is np.ndarray and data.dtype.kind in NUMBERS:
        return data  # first, since a server asks it for every row
    if isinstance(data, jax.Array):
        narrow = data.dtype.kind == "V" and not jnp.issubdtype(data.dtype, jax.dtypes.extended)
        return data.astype(jnp.float32) if narrow else data
    if hasattr(data, "iloc") and not hasattr(data, "columns"):
        return data  # a series, whose shape is refused
    frame = as_frame(data, name)
    return plain_array(data, name) if frame is None else frame


def dense_alone(name: str) -> TypeError:
    """Return the error of sparse data where none are taken."""
    return TypeError(
        f"{name} is a sparse matrix, but this takes dense data alone; pass {name}.toarray(), in parts if large."
    )


def frame_names(frame: Any) -> tuple[str, ...]:
    """Return the names of a frame's columns, as strings."""
    return tuple(map(str, frame.columns))


def column_of(table: Any, j: int) -> Any:
    """Return one column of a frame or an array."""
    if isinstance(table, Frame):
        return table.parts[j]
    return table.iloc[:, j] if is_pandas(table) else np.asarray(table)[:, j]


def kind_of(dtype: Any) -> str:
    """Return the kind of a dtype as NumPy names it; "O" for what it does not know."""
    return getattr(dtype, "kind", "O")


def dtypes_of(frame: Any) -> list[Any]:
    """Return the dtype of each column of a frame."""
    return [part.dtype for part in frame.parts] if isinstance(frame, Frame) else list(frame.dtypes)


def holds_bools(frame: Any, j: int) -> bool:
    """Return whether a frame's column holds bools as numbers, some of which may be missing."""
    column = column_of(frame, j)
    if (kind := kind_of(column.dtype)) != "O" or is_named(frame, j):
        return kind == "b"
    return _are_bools(values := _values(column)) and any(isinstance(value, bool | np.bool_) for value in values)


def is_named(table: Any, j: int) -> bool:
    """Return whether a column holds names of things: categories, words, or objects that are neither numbers nor dates.

    Of a frame also a column in which all is missing, and of pandas bools among which some are: there objects have the
    one and the other, and a missing flag is a value of its own.
    """
    column = column_of(table, j)
    if has_categories(column.dtype) or (isinstance(table, Frame) and table.categorical[j]):
        return True
    if (kind := kind_of(column.dtype)) in NUMBERS + QUANTITIES:
        return False
    if kind in "US":
        return True
    found = kinds_of(values := _values(column))
    if found & {"word", "several", "quantity"}:
        return "quantity" not in found
    some_missing = any(map(is_missing, values))
    if is_pandas(table) and some_missing and _are_bools(values):
        return True
    return is_frame(table) and some_missing and all(map(is_missing, values))


def has_categories(dtype: Any) -> bool:
    """Return whether a dtype of pandas is one of categories, its own or Arrow's."""
    return hasattr(dtype, "categories") or str(getattr(dtype, "pyarrow_dtype", "")).startswith("dictionary")


def as_floats(column: Any) -> np.ndarray:
    """Return a column's numbers; NaN for what is missing. A TypeError or a ValueError if it holds anything else."""
    kind = kind_of(column.dtype)
    if kind in QUANTITIES:
        raise TypeError(f"dtype {column.dtype} is no number")
    if kind not in NUMBERS or has_categories(column.dtype):
        return floats_of(_values(column))
    return column.to_numpy(np.float64, na_value=np.nan) if hasattr(column, "to_numpy") else np.asarray(column)


def holds_only_numbers(table: Any) -> Bool[np.ndarray, " features"]:
    """Return whether each column of a frame or an array has a type of numbers."""
    if is_frame(table):
        return np.array([kind_of(dtype) in NUMBERS for dtype in dtypes_of(table)], bool)
    return np.full(table.shape[1], table.dtype.kind in NUMBERS)


def refuse_quantities(table: Any, name: str) -> None:
    """Raise a TypeError if a column of a frame or an array holds dates, times and the like, or complex numbers."""
    if not is_frame(table) and table.dtype.kind != "O":
        odd = [table.dtype] if table.dtype.kind in "mM" else []
    else:
        names = frame_names(table) if is_frame(table) else range(table.shape[1] if len(table.shape) == 2 else 0)
        odd = [which for j, which in enumerate(names) if _holds_quantities(column_of(table, j))]
    if odd:
        raise TypeError(
            f"{name}'s columns {odd[:5]} ({len(odd)} in all) hold dates, times or complex numbers. Dates: make them "
            "numbers, for instance days since the first one."
        )


def _holds_quantities(column: Any) -> bool:
    if (kind := kind_of(column.dtype)) in NUMBERS + QUANTITIES + "U":
        return kind in QUANTITIES
    return "quantity" in kinds_of(_values(column))


def _are_bools(values: list[Any]) -> bool:
    return all(isinstance(value, bool | np.bool_) or is_missing(value) for value in values)


def _values(column: Any) -> list[Any]:
    return (column.to_numpy(object) if hasattr(column, "to_numpy") else np.asarray(column)).tolist()
