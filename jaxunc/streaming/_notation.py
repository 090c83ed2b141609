"""The notation of the numbers in a text file: one `Notation` for all cells of all columns.

An `Evidence` looks at every cell, block by block, and keeps which notations explain each column. `Evidence.notation`
returns the only notation that explains all columns. It raises an error if none does, or if several do that read a cell
differently.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute

from jaxunc._checks import warn
from jaxunc.tables import DECIMALS, FALSE_WORDS, THOUSANDS, TRUE_WORDS, check_marks

compute: Any = pyarrow.compute


class Notation(NamedTuple):
    """The marks in numbers of a text file; None for a mark that is unknown, or that no number has."""

    decimal: str | None = None
    thousands: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether both marks are known, so that every cell has a single reading."""
        return self.decimal is not None and self.thousands is not None

    @property
    def is_plain(self) -> bool:
        return self.decimal in (None, ".") and self.thousands is None

    @property
    def implied(self) -> "Notation":
        """The notation with the decimal mark that follows: a comma for points between thousands, a point for commas."""
        decimal = {".": ",", ",": "."}.get(self.thousands or "")
        return self if decimal is None or self.decimal is not None else self._replace(decimal=decimal)

    @property
    def words(self) -> str:
        """The marks as a phrase for messages, such as "with points before decimals and without thousands marked"."""
        decimals = "" if self.decimal is None else f"with {_NAMES[self.decimal]} before decimals"
        thousands = f"with {_NAMES[self.thousands]} between thousands" if self.thousands else "without thousands marked"
        return f"{decimals} and {thousands}" if decimals else thousands

    def allows(self, other: "Notation") -> bool:
        """Return whether the notation ``other`` has all marks of this one that are not None."""
        return self.decimal in (None, other.decimal) and self.thousands in (None, other.thousands)

    def has(self, cell: str) -> bool:
        return re.search(_pattern(self), cell) is not None

    def reading(self, cell: str) -> str:
        """Return a cell's number in this notation, written with a point alone, or "no number"; for messages."""
        if not self.has(cell):
            return "no number"
        for mark in _WRITTEN.get(self.thousands or "", ""):
            cell = cell.replace(mark, "")
        return cell.replace(str(self.decimal), ".")


def wished_notation(decimal: str | None, thousands: str | None) -> Notation:
    """Return the notation of the marks that a caller names (None: unknown); raise a ValueError for unsuitable marks."""
    check_marks(decimal, thousands)
    return Notation(decimal, thousands)


_NAMES = {".": "points", ",": "commas", " ": "spaces", "'": "apostrophes"}
_WRITTEN = {".": ".", ",": ",", " ": " \u00a0\u2009\u202f", "'": "'\u2019"}
"""The characters that stand for each mark between thousands."""
_MARKS = "[" + re.escape("".join(_WRITTEN.values())) + "]"
ALL = tuple(Notation(decimal, mark) for decimal in DECIMALS for mark in (None, *THOUSANDS) if mark != decimal)
"""All notations; each explains numbers without a mark between thousands, too."""
_PLAIN = rf"^[-+]?(\d+([eE][-+]?\d+)?|(?i:inf|infinity|nan))$|^({'|'.join(TRUE_WORDS + FALSE_WORDS)})$"
"""Pattern of cells without marks, which are in every notation."""
_FIRST = 1000  # cells of a block that are looked at first: the rest is quicker once the decimal mark is known
_TWO_READINGS = r"^[-+]?[1-9]\d{0,2}\%s\d{3}$"
"""Pattern of cells with a mark that may be before decimals or between thousands, such as 1.234."""


def _pattern(notation: Notation) -> str:
    decimal, grouped_pattern = re.escape(str(notation.decimal)), ""
    if notation.thousands is not None:
        grouped_pattern = rf"|[1-9]\d{{0,2}}([{re.escape(_WRITTEN[notation.thousands])}]\d{{3}})+({decimal}\d*)?"
    return rf"^[-+]?((\d+({decimal}\d*)?|{decimal}\d+)([eE][-+]?\d+)?{grouped_pattern})$"


def write_plainly(cells: Any, notation: Notation) -> Any:
    """Return cells of numbers with decimal points and no other marks; None if a marked cell is no number.

    ``notation`` is the one in which the cells are written; if it is plain, they are returned as they are.
    """
    if notation.is_plain:
        return cells
    decimal, thousands = notation.decimal or ".", notation.thousands
    if not is_all(compute.match_substring_regex(cells, rf"{_pattern(Notation(decimal, thousands))}|^[^{_MARKS[1:]}*$")):
        return None
    if thousands is not None:
        cells = compute.replace_substring_regex(cells, f"[{re.escape(_WRITTEN[thousands])}]", "")
    return compute.replace_substring(cells, ",", ".") if decimal == "," else cells


def strip_cells(cells: Any, missing: pa.Array) -> Any:
    """Return cells without spaces around them, null for a cell that is among the words ``missing``."""
    stripped = compute.utf8_trim_whitespace(cells)
    return compute.if_else(compute.is_in(stripped, value_set=missing), pa.scalar(None, pa.string()), stripped)


class _ColumnEvidence:
    """Evidence of a column's notation: those of the ``notations`` in which all cells so far are numbers."""

    def __init__(self, notations: Sequence[Notation]):
        self.notations = list(notations)
        self.marks: set[str] = set()
        self.against: dict[Notation, str] = {}
        """For each notation that does not explain the column, the first cell that it does not explain."""
        self.two_readings: dict[str, str] = {}
        """For each mark with two readings, the first such cell."""

    def add(self, cells: Any) -> bool:
        """Look at further cells; return False if one is no number in any notation: then the column holds texts."""
        # The first cells often show the decimal mark, and then a cast tells quickly that the others have it, too.
        parts = cells.slice(0, _FIRST), cells.slice(_FIRST)
        return all(self._are_plain(part) or self._narrow_down(part) for part in parts)

    def _narrow_down(self, cells: Any) -> bool:
        """Drop the notations that do not explain all cells; return whether each cell is a number in some notation."""
        distinct = compute.drop_null(compute.unique(cells))
        is_marked = compute.match_substring_regex(distinct, _MARKS)
        marked_cells, unmarked_cells = distinct.filter(is_marked), distinct.filter(compute.invert(is_marked))
        if not is_all(compute.match_substring_regex(unmarked_cells, _PLAIN)):
            return False
        is_explained = np.zeros(len(marked_cells), bool)
        for notation in self.notations[:]:
            fits = np.asarray(compute.match_substring_regex(marked_cells, _pattern(notation)))
            is_explained |= fits
            if not fits.all():
                self.notations.remove(notation)
                self.against[notation] = marked_cells[int(np.argmin(fits))].as_py()
        # A cell that no remaining notation explains may be a number in a notation that was dropped before.
        for notation in self.against if not is_explained.all() else ():
            is_explained |= np.asarray(compute.match_substring_regex(marked_cells, _pattern(notation)))
        self._keep_marks(marked_cells)
        return bool(is_explained.all())

    def _keep_marks(self, cells: Any) -> None:
        """Keep which marks cells have, and for each mark the first cell that has two readings by it."""
        self.marks |= {mark for mark, characters in _WRITTEN.items() if is_any(_holds(cells, characters))}
        for mark in DECIMALS:
            if mark not in self.two_readings and len(matches := _matching(cells, _TWO_READINGS % mark)):
                self.two_readings[mark] = matches[0].as_py()

    @property
    def decimal(self) -> str | None:
        """The decimal mark, once a cell has shown it; None before."""
        decimals = {notation.decimal for notation in self.notations}
        return decimals.pop() if len(decimals) == 1 and decimals <= self.marks else None

    def _are_plain(self, cells: Any) -> bool:
        """Return whether cells show nothing new: numbers without marks, or with the decimal mark of earlier cells."""
        if self.decimal != "." and is_any(compute.match_substring(cells, ".")):
            return False
        try:
            (compute.replace_substring(cells, ",", ".") if self.decimal == "," else cells).cast(pa.float64())
        except pa.ArrowInvalid:
            return False
        return True


class Evidence:
    """Evidence of a file's notation, gathered from its cells block by block.

    ``names`` are the columns to look at, ``missing`` the words for missing values, and ``wish`` has the marks that the
    caller names. A column with a cell that is not a number in any notation is left out: it holds texts.
    """

    def __init__(self, names: Sequence[str], missing: pa.Array, wish: Notation):
        self._missing = missing
        self._all = [notation for notation in ALL if wish.allows(notation)]
        self._columns = {name: _ColumnEvidence(self._all) for name in names}

    @property
    def decimal(self) -> str | None:
        """The decimal mark of the first column that shows one; None if no column does."""
        return next((column.decimal for column in self._columns.values() if column.decimal), None)

    @property
    def texts(self) -> dict[str, pa.DataType]:
        """The columns that are not left out, each with the type of strings."""
        return dict.fromkeys(self._columns, pa.string())

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The columns of `texts`, with the type of floats for those whose numbers are known to have `decimal`."""
        decimal = self.decimal
        is_settled = lambda column: decimal is not None and column.decimal == decimal
        return {name: pa.float64() if is_settled(column) else pa.string() for name, column in self._columns.items()}

    def add(self, block: pa.Table) -> None:
        """Look at the cells of a block's columns of strings; columns that Arrow read as floats show nothing new."""
        for name, column in list(self._columns.items()):
            if pa.types.is_string(block[name].type) and not column.add(strip_cells(block[name], self._missing)):
                del self._columns[name]

    def notation(self, file: Path, separator: str, usual: Notation = Notation()) -> Notation:  # noqa: B008
        """Return the notation of the file; where its cells have two readings, the notation ``usual`` decides.

        ``usual`` is the notation of the model's data, ``separator`` the mark between cells. Raises a ValueError if
        ``usual`` does not decide either, or no notation explains all cells. The message has a cell's readings, and the
        options that decide.
        """
        columns = {name: column for name, column in self._columns.items() if column.marks}  # others fit every notation
        notations = self._explaining(columns)
        if not notations and usual != Notation():
            # Columns that hold no numbers with the usual decimal mark are texts.
            allowed = [notation for notation in self._all if usual.decimal in (None, notation.decimal)]
            readable = [column for column in columns.values() if set(allowed) & set(column.notations)]
            columns = dict(enumerate(readable))
            notations = [notation for notation in self._explaining(columns) if notation in allowed]
        if not notations:
            raise self._odds_error(file)
        marks = set().union(*(column.marks for column in columns.values()))
        notations = _keep_by_separator(notations, marks, separator)
        if len({_roles(notation, marks) for notation in notations}) > 1:
            matching = [notation for notation in notations if usual.allows(notation)] if usual != Notation() else []
            if len({_roles(notation, marks) for notation in matching}) != 1:
                raise self._readings_error(file, notations)
            _tell_two_readings(file, self._with_two_readings(), matching[0])
            notations = matching
        return _drop_absent_marks(notations[0], marks)

    def _explaining(self, columns: dict[Any, _ColumnEvidence]) -> list[Notation]:
        return [notation for notation in self._all if all(notation in column.notations for column in columns.values())]

    def _with_two_readings(self) -> tuple[str, str, str]:
        """Return a column's name, a cell of it, and the mark in this cell that has two readings."""
        return next(
            (name, cell, mark)
            for name, evidence in self._columns.items()
            for mark, cell in sorted(evidence.two_readings.items())
        )

    def _readings_error(self, file: Path, left: list[Notation]) -> ValueError:
        """Return the error for a file that the notations ``left`` explain: it has a cell, its readings and options."""
        name, cell, mark = self._with_two_readings()
        readings = " or ".join(notation.reading(cell) for notation in (Notation(mark), Notation(_other(mark), mark)))
        return ValueError(
            f"{file}: {cell!r:.40} in column {name!r} is {readings}, and no cell of the file tells which. Pass "
            f"decimal={mark!r} for the first, thousands={mark!r} for the second."
        )

    def _odds_error(self, file: Path) -> ValueError:
        """Return the error for a file without a notation: it names two cells that no notation explains together."""
        cells = [(name, cell) for name, column in self._columns.items() for cell in column.against.values()]
        pairs = ((a, b) for i, a in enumerate(cells[:64]) for b in cells[i + 1 : 64])
        at_odds = ((a, b) for a, b in pairs if not any(n.has(a[1]) and n.has(b[1]) for n in self._all))
        pair = next(at_odds, (cells[0], cells[-1]))
        first, second = (next(n for n in self._all if n.has(cell)) for _, cell in pair)
        mark_name = "decimal" if first.decimal != second.decimal else "thousands"
        options = [f"{mark_name}={getattr(n, mark_name)!r}" for n in (first, second)]
        words = " and ".join(f"{cell!r:.40} in column {name!r}" for name, cell in pair)
        cell = pair[0][1]
        return ValueError(
            f"{file} writes numbers in two ways: {words}. {cell!r:.40} is {first.reading(cell)} with {options[0]}, "
            f"and {second.reading(cell)} with {options[1]}. Write all numbers of a file in one way; or pass one of "
            "these, and columns that are written otherwise are texts."
        )


def _keep_by_separator(left: list[Notation], marks: set[str], separator: str) -> list[Notation]:
    """Return the notations ``left``; only those with decimal points if commas separate cells, and none is in a number.

    ``marks`` are those in numbers of the file, ``separator`` is the mark between cells.
    """
    with_points = [notation for notation in left if notation.decimal == "."]
    return with_points if with_points and separator == "," and "," not in marks else left


def _roles(notation: Notation, marks: set[str]) -> tuple[bool, ...]:
    return tuple(notation.decimal == mark for mark in DECIMALS if mark in marks)


def _drop_absent_marks(notation: Notation, marks: set[str]) -> Notation:
    """Return a notation without marks that are not among ``marks``, those that cells hold.

    A decimal mark that follows from the mark between thousands is filled in (`Notation.implied`).
    """
    thousands = notation.thousands if notation.thousands in marks else None
    return Notation(notation.decimal if notation.decimal in marks else None, thousands).implied


def _other(mark: str) -> str:
    return "," if mark == "." else "."


def _tell_two_readings(file: Path, place: tuple[str, str, str], notation: Notation) -> None:
    """Warn that a cell is read in ``notation``, though it has another reading that no cell of the file excludes.

    ``place`` has the cell's column, the cell, and the mark with two readings.
    """
    name, cell, mark = place
    is_decimal = notation.decimal == mark
    other = Notation(_other(mark), mark) if is_decimal else Notation(mark)
    warn(
        f"{file}: {cell!r:.40} in column {name!r} is read as {notation.reading(cell)}, as numbers of the model's data "
        f"are written; no cell of the file tells it from {other.reading(cell)}, which "
        f"{'thousands' if is_decimal else 'decimal'}={mark!r} makes it."
    )


def tell_other_notation(file: Path, notation: Notation, usual: Notation) -> None:
    """Warn if a file's notation differs from ``usual``, that of the model's data."""
    if usual == Notation():
        return
    decimal = notation.decimal not in (None, usual.decimal) and usual.decimal is not None
    if decimal or notation.thousands not in (None, usual.thousands):
        warn(
            f"{file} writes numbers {notation.words}, and the model's data had them {usual.words}; they are read as "
            "they are written."
        )


def _holds(cells: Any, letters: str) -> Any:
    return compute.match_substring_regex(cells, f"[{re.escape(letters)}]")


def _matching(cells: Any, pattern: str) -> Any:
    return cells.filter(compute.match_substring_regex(cells, pattern))


def is_any(mask: Any) -> bool:
    return bool(compute.any(mask).as_py())


def is_all(mask: Any) -> bool:
    return compute.all(mask).as_py() is not False
