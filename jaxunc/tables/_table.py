"""Data as people hand them in: frames, arrays and lists."""

from typing import Any

import numpy as np


def is_frame(data: Any) -> bool:
    """Return whether data are a pandas frame."""
    return hasattr(data, "columns") and hasattr(data, "iloc")


def as_table(data: Any, name: str) -> Any:
    """Return frames and arrays as they are, lists as arrays (of objects if they hold strings); TypeError if sparse."""
    if hasattr(data, "tocsr"):
        raise dense_alone(name)
    return plain_table(data)


def plain_table(data: Any) -> Any:
    """Return what `as_table` does of data that are not sparse."""
    if is_frame(data) or (hasattr(data, "dtype") and hasattr(data, "shape")):
        return data
    array = np.asarray(data)
    return np.asarray(data, dtype=object) if array.dtype.kind in "US" else array


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
    return table.iloc[:, j] if is_frame(table) else np.asarray(table)[:, j]


def kind_of(dtype: Any) -> str:
    """Return the kind of a dtype as NumPy names it; "O" for what it does not know."""
    return getattr(dtype, "kind", "O")
