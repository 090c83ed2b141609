"""Numbers of frames and arrays: as they are, or what their columns look up."""

from typing import Any

import numpy as np

from ._columns import Columns
from ._cuts import CutLookup
from ._frames import Frame, is_frame
from ._table import NUMBERS, as_floats, column_of, dtypes_of, frame_names, is_named, kind_of


def numbers_of_frame(frame: Any, columns: Columns, name: str) -> np.ndarray:
    """Return a frame as float32 or float64, columns with levels or cuts as codes."""
    plain = [j for j, lookup in enumerate(columns.lookups) if lookup is None]
    if columns.nominal is not None:
        _check_codes(frame, [j for j in plain if columns.nominal[j]], name)
    if len(plain) == columns.number:
        return _plain_numbers(frame, plain, name)
    values = np.empty(frame.shape, np.float32)
    with np.errstate(over="ignore"):
        values[:, plain] = _plain_numbers(frame, plain, name)
    for j, lookup in enumerate(columns.lookups):
        if isinstance(lookup, CutLookup):
            values[:, j] = lookup.codes(_plain_numbers(frame, [j], name)[:, 0])
        elif lookup is not None:
            values[:, j] = lookup.codes(column_of(frame, j))
    return values


def _check_codes(frame: Any, places: list[int], name: str) -> None:
    """Raise a TypeError where codes are expected and a frame has categories, whose values are no codes."""
    dtypes = list(dtypes_of(frame)) if places else []
    names = frame_names(frame)
    if odd := [names[j] for j in places if hasattr(dtypes[j], "categories") and not _are_codes(dtypes[j].categories)]:
        raise TypeError(
            f"{name}'s columns {odd[:5]} ({len(odd)} in all) are categories, and the model knows the codes of its "
            f"categories alone, not their values. Pass the codes that training had: {name}[column].cat.codes, with the "
            "categories in the order of training, and NaN in the place of -1."
        )


def _are_codes(categories: Any) -> bool:
    """Return whether the values of categories are their codes."""
    return list(categories) == list(range(len(categories)))


def _plain_numbers(frame: Any, places: list[int], name: str) -> np.ndarray:
    """Return columns of numbers as float64, NaN where they are missing; columns of objects may hold numbers too."""
    if not isinstance(frame, Frame):
        whole = frame if len(places) == frame.shape[1] else frame.iloc[:, places]
        if all(kind_of(dtype) in NUMBERS for dtype in dtypes_of(whole)):
            return whole.to_numpy(dtype=np.float64, na_value=np.nan)
    names = frame_names(frame)
    return _converted(frame, places, [names[j] for j in places], name)


def numbers_of_array(array: np.ndarray, columns: Columns, name: str) -> np.ndarray:
    """Return an array of columns some of which are looked up as float32, those as codes."""
    plain = [j for j, lookup in enumerate(columns.lookups) if lookup is None]
    if are_numbers := array.dtype.kind in NUMBERS:
        _check_may_be_numbers(array, columns, name)
    with np.errstate(over="ignore"):
        values = array.astype(np.float32) if are_numbers else np.empty(array.shape, np.float32)
        if not are_numbers:
            values[:, plain] = _converted(array, plain, plain, name)
    for j, lookup in enumerate(columns.lookups):
        if isinstance(lookup, CutLookup):
            column = array[:, j].astype(np.float64) if are_numbers else _converted(array, [j], [j], name)[:, 0]
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


def array_of(table: Any, name: str) -> np.ndarray:
    """Return a frame or an array of objects as float64 if it holds numbers alone, else as objects.

    Raises a TypeError that names the columns that hold dates and the like.
    """
    places = list(range(table.shape[1]))
    if any(is_named(table, j) for j in places):
        values = np.empty(table.shape, object)
        for j in places:
            values[:, j] = column_of(table, j)
        return values
    return _converted(table, places, list(frame_names(table)) if is_frame(table) else places, name)


def plain_pandas(frame: Any) -> Any:
    """Return a frame of pandas with numbers where a column holds nothing else, but as objects or of Arrow's types."""
    odd = [j for j, dtype in enumerate(frame.dtypes) if kind_of(dtype) not in NUMBERS and not is_named(frame, j)]
    if odd:
        frame = frame.copy()
        for j in odd:
            frame.isetitem(j, as_floats(column_of(frame, j)))
    return frame


def _converted(table: Any, places: list[int], names: list, name: str) -> np.ndarray:
    """Convert columns to float64, one by one; raises a TypeError that names those that hold no numbers."""
    values, refused, cause = np.empty((table.shape[0], len(places)), np.float64), [], None
    for i, j in enumerate(places):
        try:
            values[:, i] = as_floats(column_of(table, j))
        except (TypeError, ValueError) as error:
            refused.append(names[i])
            cause = error
    if refused:
        raise TypeError(
            f"{name}'s columns {refused[:5]} ({len(refused)} in all) hold no numbers; encode them as the forest's data "
            "were, or name them in nominal when trees are grown. Dates: make them numbers, for instance days since the "
            "first one."
        ) from cause
    return values
