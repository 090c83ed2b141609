"""Numbers of frames and arrays: as they are, or what their columns look up."""

from typing import Any

import numpy as np

from ._columns import Columns
from ._cuts import CutLookup
from ._levels import NUMBERS, is_missing
from ._table import column_of, frame_names, kind_of


def numbers_of_frame(frame: Any, columns: Columns, name: str) -> np.ndarray:
    """Return a frame as float32, columns with levels or cuts as codes."""
    plain = [j for j, lookup in enumerate(columns.lookups) if lookup is None]
    if len(plain) == columns.number:
        return _plain_numbers(frame, name)
    values = np.empty(frame.shape, np.float32)
    with np.errstate(over="ignore"):
        values[:, plain] = _plain_numbers(frame.iloc[:, plain], name)
    for j, lookup in enumerate(columns.lookups):
        if isinstance(lookup, CutLookup):
            values[:, j] = lookup.codes(_plain_numbers(frame.iloc[:, [j]], name)[:, 0])
        elif lookup is not None:
            values[:, j] = lookup.codes(frame.iloc[:, j])
    return values


def _plain_numbers(frame: Any, name: str) -> np.ndarray:
    """Return a frame of numbers as float64, NaN where they are missing; columns of objects may hold numbers too."""
    if all(kind_of(dtype) in NUMBERS for dtype in frame.dtypes):
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return _converted(frame, list(frame_names(frame)), name)


def numbers_of_array(array: np.ndarray, columns: Columns, name: str) -> np.ndarray:
    """Return an array of columns some of which are looked up as float32, those as codes."""
    plain = [j for j, lookup in enumerate(columns.lookups) if lookup is None]
    if are_numbers := array.dtype.kind in NUMBERS:
        _check_may_be_numbers(array, columns, name)
    with np.errstate(over="ignore"):
        values = array.astype(np.float32) if are_numbers else np.empty(array.shape, np.float32)
        if not are_numbers:
            values[:, plain] = _converted(array[:, plain], plain, name)
    for j, lookup in enumerate(columns.lookups):
        if isinstance(lookup, CutLookup):
            column = array[:, j].astype(np.float64) if are_numbers else _converted(array[:, [j]], [j], name)[:, 0]
            values[:, j] = lookup.codes(column)
        elif lookup is not None:
            values[:, j] = lookup.codes(array[:, j])
    return values


def _check_may_be_numbers(array: np.ndarray, columns: Columns, name: str) -> None:
    for j, lookup in enumerate(columns.lookups):
        if lookup is not None and not lookup.may_be_numbers and not np.all(np.isnan(array[:, j])):
            raise levels_are_words(columns, j, name)


def levels_are_words(columns: Columns, j: int, name: str) -> TypeError:
    """Return the error of numbers in a column whose levels are words."""
    which = repr(columns.names[j]) if columns.names else j
    return TypeError(
        f"{name} is an array of numbers, but the levels of column {which} are words. Pass a frame or an array of "
        "objects with the values; or, if these are codes already, columns without levels: columns.of_codes()."
    )


def _converted(table: Any, names: list, name: str) -> np.ndarray:
    """Convert columns to float64, one by one; raises a TypeError that names those that hold no numbers."""
    values, refused, cause = np.empty(table.shape, np.float64), [], None
    for j in range(table.shape[1]):
        column = column_of(table, j)
        try:
            values[:, j] = _as_floats(column)
        except (TypeError, ValueError) as error:
            refused.append(names[j])
            cause = error
    if refused:
        raise TypeError(
            f"{name}'s columns {refused[:5]} ({len(refused)} in all) hold no numbers; encode them as the forest's data "
            "were, or name them in nominal when trees are grown. Dates: make them numbers, for instance days since the "
            "first one."
        ) from cause
    return values


def _as_floats(column: Any) -> np.ndarray:
    """Return numbers among objects as float64; NaN for what is missing."""
    kind = kind_of(column.dtype)
    if kind in NUMBERS and not hasattr(column, "to_numpy"):
        return column
    if kind not in NUMBERS + "OUS":
        raise TypeError(f"dtype {column.dtype} is no number")
    if hasattr(column, "to_numpy"):
        return column.to_numpy(np.float64, na_value=np.nan)
    if kind == "O":
        column = np.array([np.nan if is_missing(value) else value for value in column], object)
    return column.astype(np.float64)
