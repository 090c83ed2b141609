"""Values that float32 cannot tell apart."""

from typing import Any

import numpy as np

from jaxunc._checks import warn
from jaxunc._numerics import ceil_div

from ._columns import Columns
from ._frames import is_frame
from ._instances import Encoded
from ._table import as_floats, as_table, column_of

MOST_MERGED = 0.01
"""Share of a column's distinct values that may be merged in silence: some of many random numbers are alike."""

MOST_LOOKED_AT = 2**17
"""Largest number of instances that are looked at."""


class MergedValuesWarning(UserWarning):
    """Trees compare numbers as float32, in which many different values of a column are equal."""


def warn_of_merged_values(X: Any, columns: Columns, name: str = "X") -> None:
    """Warn of numeric columns in which float32 merges more than 1 % of the distinct values.

    Parameters
    ----------
    X
        Data that `encode_instances` has taken; what is float32 already has nothing to merge.
    columns, name
        See `encode_instances`.

    Warns
    -----
    MergedValuesWarning
        It names the columns, and how many values are left of how many. More than 2¹⁷ instances are judged by so many of
        them, evenly spaced.
    """
    if isinstance(X, Encoded):
        return
    table, found = as_table(X, name), []
    if not is_frame(table) and (table.dtype.itemsize <= 2 or table.dtype == np.float32):
        return
    step = ceil_div(table.shape[0], MOST_LOOKED_AT) or 1
    for j in np.flatnonzero(~columns.is_nominal).tolist():
        values = _as_float64(column_of(table, j)[::step])
        narrow = values.astype(np.float32)
        # The usual case, and the quick one: nothing was rounded, so nothing was merged.
        if np.array_equal(narrow, values):
            continue
        ascending = np.sort(values)
        n_values, n_left = (1 + np.count_nonzero(np.diff(part)) for part in (ascending, ascending.astype(np.float32)))
        if n_values - n_left > MOST_MERGED * n_values:
            which = repr(columns.names[j]) if columns.names else str(j)
            found.append(f"{which} ({n_left} of {n_values} distinct values are left)")
    if found:
        more = f" and {len(found) - 5} more" * (len(found) > 5)
        warn(
            "trees compare numbers as float32, which merges different values in "
            f"{name}'s columns {', '.join(found[:5])}{more}. Subtract a column's mean or smallest value before, in "
            "float64.",
            MergedValuesWarning,
        )


def _as_float64(column: Any) -> np.ndarray:
    """Return the numbers that are known, as float64."""
    values = as_floats(column).astype(np.float64, copy=False)
    return values[~np.isnan(values)]
