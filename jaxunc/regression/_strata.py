"""Strata, the rows with one value of a column: intervals are to keep their coverage within each, not only over all."""

from typing import Any, NamedTuple, cast

import numpy as np

from jaxunc._numerics import unit_weight
from jaxunc.tables import (
    Columns,
    Levels,
    Lookup,
    as_floats,
    column_of,
    encode_arrow,
    fit_levels,
    frame_names,
    is_frame,
    is_sparse,
    plain_table,
)

LEAST_ROWS = 19
"""Fewest residuals for a 90 % interval by ranks."""


class Strata(NamedTuple):
    """Strata: groups of rows with the same value of one column; and the stratum of each residual of a law."""

    column: Columns
    """Description of the column alone; its levels are the values that rows of the fit have."""
    position: int
    """Position of the column among those that ``fit`` was given."""
    is_raw: bool
    """Whether the column is a raw one of a pipeline, which the trees do not see."""
    number: np.ndarray
    """Number of each residual's stratum, ``[residuals]``: a position in ``values``."""

    @property
    def label(self) -> str:
        """The column's name in messages, in quotation marks; without names its position."""
        names = self.column.names
        return repr(names[0]) if names else str(self.position)

    @property
    def values(self) -> tuple[Any, ...]:
        """The value of each stratum; None for the stratum of missing values, which is the last."""
        levels = self._levels
        return (*levels.values, *(None,) * levels.has_missing)

    @property
    def _levels(self) -> Levels:
        levels: Any = self.column.levels
        return levels[0]

    def numbers(self, X: Any, *, first: int = 0) -> np.ndarray:
        """Return the number of each row's stratum ``[rows]``.

        X has the columns that ``fit`` was given. Raises a ValueError for a row whose value no row of the fit had; the
        message counts rows from ``first``.
        """
        column: Any = _column(X, self.column.names, self.position)
        codes = cast(Lookup, self.column.lookups[0]).codes(column)
        return self._refuse_unseen(codes, column, "X", first)

    def numbers_of_arrow(self, table: Any, name: str, *, are_cells: bool, first: int) -> np.ndarray:
        """Return the number of each row's stratum ``[rows]``, for an Arrow ``table`` with the columns of the fit.

        The columns are in the fit's order. ``are_cells`` says whether strings are cells of a text file. Messages call
        the table ``name`` and count its rows from ``first``. Raises a ValueError for a value that no row of the fit
        had, and what `encode_arrow` raises.
        """
        column = table.select([self.position])
        if str(column.schema.types[0]) == "bool":  # a number, as in frames
            column = column.set_column(0, column.schema.names[0], column.column(0).cast("uint8"))
        codes = encode_arrow(column, self.column, name, are_cells=are_cells).values[:, 0].astype(np.int64)
        return self._refuse_unseen(codes, column.column(0), name, first)

    def _refuse_unseen(self, numbers: np.ndarray, column: Any, where: str, first: int) -> np.ndarray:
        """Return the ``numbers`` of rows' strata; raise a ValueError if one is below 0, for a value not in the fit.

        The message names the first such row: its value in ``column``, its data ``where``, its number from ``first`` on.
        """
        if len(unseen_rows := np.flatnonzero(numbers < 0)):
            row = int(unseen_rows[0])
            value = column.iloc[row] if hasattr(column, "iloc") else column[row]
            value = value.as_py() if hasattr(value, "as_py") else value  # of Arrow
            raise ValueError(
                f"row {first + row} of {where} has {value!s:.60} in column {self.label}, by which coverage is "
                f"promised, and no row of the fit had: it knows {', '.join(map(str, self.values[:10]))}. Fit again "
                "with rows like it, or leave it out."
            )
        return numbers

    def check_enough(self, numbers: np.ndarray, what: str, weight: np.ndarray) -> None:
        """Raise a ValueError for a stratum with fewer rows, or less weight, than 90 % intervals by ranks need.

        ``numbers [rows]`` are the rows' strata, and ``weight [rows]`` says how often each counts, in the unit
        `unit_weight` of its stratum; the message calls the rows ``what``.
        """
        n = len(self.values)
        rows = np.bincount(numbers, minlength=n)
        units = [unit_weight(weight[numbers == k]) for k in range(n)]
        sizes = np.minimum(rows, np.bincount(numbers, weight, minlength=n) / units)
        if (sizes * (1 + 1e-12) < LEAST_ROWS).any():  # sums of weights are rounded
            rarest = int(np.argmin(sizes))
            weight_text = f", which weigh {sizes[rarest]:.4g}" if sizes[rarest] < rows[rarest] else ""
            raise ValueError(
                f"coverage_by={self.label}: {rows[rarest]} {what} have {self.values[rarest]}{weight_text}, and ranks "
                f"of their own need {LEAST_ROWS} for 90 % intervals, 1 / tail - 1. Pass more such rows, or join values "
                "in a column that is made for it."
            )

    def rename_levels(self, levels: Levels) -> "Strata":
        """Return the same strata for rows that hold values in place of the codes that ``fit`` was given.

        A code is a position in ``levels.values``, or the next number for a missing value.
        """
        value_of_code = (*levels.values, None)
        value_of_stratum = [value_of_code[int(code)] for code in self._levels.values]
        values = tuple(value for value in value_of_stratum if value is not None)
        column_levels = (type(levels)(values, has_missing=len(values) < len(value_of_stratum)),)
        return self._replace(column=Columns(1, self.column.names, (True,), column_levels))


def strata_of(X: Any, by: str | int, *, is_raw: bool) -> Strata:
    """Return the strata of the rows X by the column ``by``, a name or a position, without any residuals.

    ``is_raw`` says whether the column is a raw one of a pipeline. Raises a ValueError if X has no such column, and a
    TypeError for values that cannot be levels.
    """
    table = X if is_sparse(X) else plain_table(X)
    names = frame_names(table) if is_frame(table) else None
    position = by
    if isinstance(by, str):
        if names is None or by not in names:
            columns_text = "has no names: pass a position" if names is None else f"has {', '.join(names[:10])}"
            raise ValueError(f"coverage_by={by!r} is no column of X, which {columns_text}.")
        position = names.index(by)
    position = int(position)
    n = table.shape[1]
    if position >= n:
        raise ValueError(f"coverage_by={position} is no column of X, which has {n}; the first is 0.")
    name = None if names is None else (names[position],)
    try:
        levels = fit_levels(_column(table, name, position))
    except TypeError as error:
        raise TypeError(f"coverage_by={by!r}: {error}") from error
    return Strata(Columns(1, name, (True,), (levels,)), position, is_raw, np.zeros(0, np.int64))


def check_strata(strata: Strata, n: int) -> None:
    """Raise a ValueError unless ``strata`` are of one column with levels, each of n residuals in one, none empty."""
    number = strata.number
    levels = strata.column.levels
    if strata.column.number != 1 or levels is None or levels[0] is None or strata.position < 0:
        raise ValueError("strata of a law are of no column with levels.")
    if number.shape != (n,) or number.dtype.kind != "i":
        raise ValueError(f"strata of a law are of {number.shape} residuals; expected {n}.")
    sizes = np.bincount(number[number >= 0], minlength=len(strata.values))
    if (number < 0).any() or len(sizes) > len(strata.values) or not sizes.all():
        raise ValueError("strata of a law have residuals of none of its values, or none of some.")


def _column(X: Any, names: tuple[str, ...] | None, position: int) -> Any:
    """Return the column of ``X [rows columns]`` at ``position``, or in a frame the one named ``names[0]``.

    ``names`` is None if the column has no name. Raises a ValueError if a frame has no column of that name.
    """
    if is_sparse(X):
        return X.tocsc()[:, [position]].toarray()[:, 0]
    table = plain_table(X)
    if names is not None and is_frame(table):
        frame_columns = frame_names(table)
        if names[0] not in frame_columns:
            raise ValueError(f"X has no column {names[0]!r}, by which coverage is promised; pass it, too.")
        position = frame_columns.index(names[0])
    column = column_of(table, position)
    # Text files have bools as numbers where models take them for such.
    return as_floats(column) if getattr(column.dtype, "kind", "O") == "b" else column
