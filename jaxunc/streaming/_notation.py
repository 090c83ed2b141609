"""The notation of the numbers in a text file: one `Notation` for all cells of all columns.

A notation explains a column if all its cells are numbers in the notation. An `Evidence` looks at every cell, block by
block, and keeps the notations that explain each column. `Evidence.notation` returns the notation that explains all
columns. It raises an error if none does, or if several do that read a cell differently.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
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
        """Whether numbers have no marks but decimal points, so that a cast reads them."""
        return self.decimal in (None, ".") and self.thousands is None

    @property
    def implied(self) -> "Notation":
        """The notation, with an unknown decimal mark replaced by the one that the mark between thousands implies.

        Points between thousands imply commas before decimals, commas imply points; other marks imply none.
        """
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
        """Return whether a cell, a text, is a number in this notation."""
        return re.search(_pattern(self), cell) is not None

    def reading(self, cell: str) -> str:
        """Return the number that a cell is in this notation, written with a decimal point alone, or "no number"."""
        if not self.has(cell):
            return "no number"
        for mark in _WRITTEN.get(self.thousands or "", ""):
            cell = cell.replace(mark, "")
        return cell.replace(str(self.decimal), ".")


def wished_notation(decimal: str | None, thousands: str | None) -> Notation:
    """Return the `Notation` with the marks that a caller names, None for an unknown one.

    Raises a ValueError for a mark that numbers do not have, and if both are the same.
    """
    check_marks(decimal, thousands)
    return Notation(decimal, thousands)


_NAMES = {".": "points", ",": "commas", " ": "spaces", "'": "apostrophes"}  # names of marks in messages
_WRITTEN = {".": ".", ",": ",", " ": " \u00a0\u2009\u202f", "'": "'\u2019"}
"""The characters that stand for each mark between thousands."""
_LETTERS = re.escape("".join(_WRITTEN.values()))  # the characters of all marks, in a pattern
_MARKS = f"[{_LETTERS}]"  # pattern of any mark
ALL = tuple(Notation(decimal, mark) for decimal in DECIMALS for mark in (None, *THOUSANDS) if mark != decimal)
"""All notations; each explains numbers without a mark between thousands, too."""
_PLAIN = rf"^[-+]?(\d+([eE][-+]?\d+)?|(?i:inf|infinity|nan))$|^({'|'.join(TRUE_WORDS + FALSE_WORDS)})$"
"""Pattern of cells without marks, which are in every notation."""
_FIRST = 1000  # cells of a block that are looked at first: the rest is quicker once the decimal mark is known
_TWO_READINGS = r"^[-+]?[1-9]\d{0,2}\%s\d{3}$"
"""Pattern of cells with a mark that may be before decimals or between thousands, such as 1.234."""


def _pattern(notation: Notation) -> str:
    """Return the regular expression of cells that are numbers in a notation with a decimal mark."""
    decimal = re.escape(str(notation.decimal))
    with_groups = ""  # the alternative of a number with marks between thousands
    if notation.thousands is not None:
        with_groups = rf"|[1-9]\d{{0,2}}([{re.escape(_WRITTEN[notation.thousands])}]\d{{3}})+({decimal}\d*)?"
    return rf"^[-+]?((\d+({decimal}\d*)?|{decimal}\d+)([eE][-+]?\d+)?{with_groups})$"


def write_plainly(cells: Any, notation: Notation) -> Any:
    """Return numbers that are written in ``notation`` as texts with decimal points and no other marks.

    ``cells`` and the result are Arrow arrays of strings; with a plain notation ``cells`` are returned. None if a cell
    with marks is no number in the notation.
    """
    if notation.is_plain:
        return cells
    decimal = notation.decimal or "."
    thousands = notation.thousands
    without_marks = f"^[^{_LETTERS}]*$"
    pattern = f"{_pattern(Notation(decimal, thousands))}|{without_marks}"
    if not is_all(compute.match_substring_regex(cells, pattern)):
        return None
    if thousands is not None:
        cells = compute.replace_substring_regex(cells, f"[{re.escape(_WRITTEN[thousands])}]", "")
    return compute.replace_substring(cells, ",", ".") if decimal == "," else cells


def strip_cells(cells: Any, missing: pa.Array) -> Any:
    """Return cells, Arrow strings, without spaces around them; null for a cell that is then a ``missing`` word."""
    stripped = compute.utf8_trim_whitespace(cells)
    return compute.if_else(compute.is_in(stripped, value_set=missing), pa.scalar(None, pa.string()), stripped)


class _ColumnEvidence:
    """Evidence of one column's notation: which of the given ``notations`` explain all cells so far."""

    def __init__(self, notations: Sequence[Notation]):
        self.notations = list(notations)
        self.marks: set[str] = set()  # marks that some cell has
        self.against: dict[Notation, str] = {}
        """For each notation that does not explain the column, the first cell that it does not explain."""
        self.two_readings: dict[str, str] = {}
        """For each mark that may be before decimals or between thousands in some cell, the first such cell."""

    def add(self, cells: Any) -> bool:
        """Look at further ``cells``, Arrow strings; return whether each is a number in some notation, and no text."""
        # The first cells often show the decimal mark, and then a cast tells quickly that the others have it, too.
        parts = (cells.slice(0, _FIRST), cells.slice(_FIRST))
        return all(self._are_plain(part) or self._narrow_down(part) for part in parts)

    def _narrow_down(self, cells: Any) -> bool:
        """Drop the notations that do not explain all ``cells``; return whether each is a number in some notation.

        A notation that was dropped counts as well.
        """
        distinct_cells = compute.drop_null(compute.unique(cells))
        is_marked = compute.match_substring_regex(distinct_cells, _MARKS)
        marked_cells = distinct_cells.filter(is_marked)
        unmarked_cells = distinct_cells.filter(compute.invert(is_marked))
        if not is_all(compute.match_substring_regex(unmarked_cells, _PLAIN)):
            return False
        is_explained = np.zeros(len(marked_cells), bool)  # whether each cell is a number in some notation
        for notation in self.notations[:]:
            fits = np.asarray(compute.match_substring_regex(marked_cells, _pattern(notation)))
            is_explained |= fits
            if not fits.all():
                self.notations.remove(notation)
                self.against[notation] = marked_cells[int(np.argmin(fits))].as_py()  # the first that does not fit
        if not is_explained.all():
            for notation in self.against:  # the notations that were dropped
                is_explained |= np.asarray(compute.match_substring_regex(marked_cells, _pattern(notation)))
        self._keep_marks(marked_cells)
        return bool(is_explained.all())

    def _keep_marks(self, cells: Any) -> None:
        """Add the marks in ``cells`` to ``marks``, and the first cells in which a mark has two readings."""
        self.marks |= {mark for mark, characters in _WRITTEN.items() if is_any(_holds(cells, characters))}
        for mark in DECIMALS:
            if mark not in self.two_readings and len(matches := _matching(cells, _TWO_READINGS % mark)):
                self.two_readings[mark] = matches[0].as_py()

    @property
    def decimal(self) -> str | None:
        """The decimal mark, if all notations left have the same one, and a cell has it; else None."""
        decimals = {notation.decimal for notation in self.notations}
        return decimals.pop() if len(decimals) == 1 and decimals <= self.marks else None

    def _are_plain(self, cells: Any) -> bool:
        """Return whether all ``cells`` are numbers with no mark but the decimal mark that earlier cells have shown."""
        if self.decimal != "." and is_any(compute.match_substring(cells, ".")):
            return False
        if self.decimal == ",":
            cells = compute.replace_substring(cells, ",", ".")
        try:
            cells.cast(pa.float64())
        except pa.ArrowInvalid:
            return False
        return True


class Evidence:
    """Evidence of a text file's notation, gathered from its cells block by block.

    ``names`` are the columns to look at, ``missing`` the words for missing values, and ``wish`` has the marks that the
    caller names. A column with a cell that is a number in no notation is left out: it holds texts.
    """

    def __init__(self, names: Sequence[str], missing: pa.Array, wish: Notation):
        self._missing = missing
        self._all = [notation for notation in ALL if wish.allows(notation)]
        self._columns = {name: _ColumnEvidence(self._all) for name in names}

    @property
    def decimal(self) -> str | None:
        """The decimal mark of the first column whose cells have shown one; None if no column's have."""
        return next((column.decimal for column in self._columns.values() if column.decimal), None)

    @property
    def texts(self) -> dict[str, pa.DataType]:
        """{column: Arrow's type of strings} of the columns whose cells so far are numbers in some notation."""
        return dict.fromkeys(self._columns, pa.string())

    @property
    def types(self) -> dict[str, pa.DataType]:
        """{column: type} of the columns in `texts`: floats where cells have shown `decimal`, else strings."""
        decimal = self.decimal
        if decimal is None:
            return self.texts
        return {
            name: pa.float64() if column.decimal == decimal else pa.string() for name, column in self._columns.items()
        }

    def add(self, block: pa.Table) -> None:
        """Look at the cells of a table, ``block``; columns of floats, which Arrow has read, show nothing new."""
        for name, column in list(self._columns.items()):
            if pa.types.is_string(block[name].type) and not column.add(strip_cells(block[name], self._missing)):
                del self._columns[name]

    def notation(self, file: Path, separator: str, usual: Notation = Notation()) -> Notation:  # noqa: B008
        """Return the notation that explains all columns of the file; ``usual`` decides between several.

        ``usual`` is the notation of the model's data, and ``separator`` the mark between cells. Raises a ValueError if
        no notation explains all columns, or if a cell has two readings and ``usual`` does not decide.
        """
        columns = [column for column in self._columns.values() if column.marks]  # the others fit every notation
        notations = self._explaining(columns)
        is_usual_known = usual != Notation()
        if not notations and is_usual_known:
            # Columns that hold no numbers with the usual decimal mark are texts.
            with_usual_decimal = [notation for notation in self._all if usual.decimal in (None, notation.decimal)]
            columns = [column for column in columns if set(with_usual_decimal) & set(column.notations)]
            notations = [notation for notation in self._explaining(columns) if notation in with_usual_decimal]
        if not notations:
            raise self._odds_error(file)
        marks = set().union(*(column.marks for column in columns))
        notations = _keep_by_separator(notations, marks, separator)
        # Notations that give points and commas the same roles read every cell alike: any of them will do.
        if len({_roles(notation, marks) for notation in notations}) > 1:
            usual_notations = [notation for notation in notations if is_usual_known and usual.allows(notation)]
            if len({_roles(notation, marks) for notation in usual_notations}) != 1:
                raise self._readings_error(file)
            _tell_two_readings(file, self._with_two_readings(), usual_notations[0])
            notations = usual_notations
        return _drop_absent_marks(notations[0], marks)

    def _explaining(self, columns: Sequence[_ColumnEvidence]) -> list[Notation]:
        """Return the notations that explain all of these columns."""
        return [notation for notation in self._all if all(notation in column.notations for column in columns)]

    def _with_two_readings(self) -> tuple[str, str, str]:
        """Return (column's name, cell, mark) of the first cell whose mark may be decimal or between thousands."""
        return next(
            (name, cell, mark)
            for name, evidence in self._columns.items()
            for mark, cell in sorted(evidence.two_readings.items())
        )

    def _readings_error(self, file: Path) -> ValueError:
        """Return the error for a file with a cell of two readings; it names these, and the options that decide."""
        name, cell, mark = self._with_two_readings()
        as_decimal = Notation(mark)
        as_thousands = Notation(_other(mark), mark)
        readings = f"{as_decimal.reading(cell)} or {as_thousands.reading(cell)}"
        return ValueError(
            f"{file}: {cell!r:.40} in column {name!r} is {readings}, and no cell of the file tells which. Pass "
            f"decimal={mark!r} for the first, thousands={mark!r} for the second."
        )

    def _odds_error(self, file: Path) -> ValueError:
        """Return the error for a file that no notation explains: it names two cells that are not of one notation."""
        cells = [(name, cell) for name, column in self._columns.items() for cell in column.against.values()]
        # The number of pairs grows with the square of the cells, so only the first cells are paired.
        pair = next(self._pairs_at_odds(cells[:64]), (cells[0], cells[-1]))
        (_, cell), (_, other_cell) = pair
        first = next(notation for notation in self._all if notation.has(cell))
        second = next(notation for notation in self._all if notation.has(other_cell))
        mark_name = "decimal" if first.decimal != second.decimal else "thousands"
        options = [f"{mark_name}={getattr(notation, mark_name)!r}" for notation in (first, second)]
        words = " and ".join(f"{cell!r:.40} in column {name!r}" for name, cell in pair)
        return ValueError(
            f"{file} writes numbers in two ways: {words}. {cell!r:.40} is {first.reading(cell)} with {options[0]}, "
            f"and {second.reading(cell)} with {options[1]}. Write all numbers of a file in one way; or pass one of "
            "these, and columns that are written otherwise are texts."
        )

    def _pairs_at_odds(self, cells: list[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
        """Yield the pairs of ``cells``, each (column's name, cell), that are not both numbers in any notation."""
        for a, b in itertools.combinations(cells, 2):
            if not any(notation.has(a[1]) and notation.has(b[1]) for notation in self._all):
                yield a, b


def _keep_by_separator(left: list[Notation], marks: set[str], separator: str) -> list[Notation]:
    """Return the notations ``left``, or those of them with decimal points if commas stand nowhere but between cells.

    ``separator`` is the mark between the file's cells, and ``marks`` are those in its numbers.
    """
    with_points = [notation for notation in left if notation.decimal == "."]
    return with_points if with_points and separator == "," and "," not in marks else left


def _roles(notation: Notation, marks: set[str]) -> tuple[bool, ...]:
    """Return whether the point is the decimal mark, and whether the comma is; only for those among ``marks``."""
    return tuple(notation.decimal == mark for mark in DECIMALS if mark in marks)


def _drop_absent_marks(notation: Notation, marks: set[str]) -> Notation:
    """Return a notation with None for each mark not among ``marks``, except an implied decimal (`Notation.implied`)."""
    thousands = notation.thousands if notation.thousands in marks else None
    return Notation(notation.decimal if notation.decimal in marks else None, thousands).implied


def _other(mark: str) -> str:
    """Return a comma for a point, and a point for a comma."""
    return "," if mark == "." else "."


def _tell_two_readings(file: Path, ambiguous: tuple[str, str, str], notation: Notation) -> None:
    """Warn that the ``ambiguous`` cell, (column's name, cell, mark with two readings), is read in ``notation``."""
    name, cell, mark = ambiguous
    is_decimal = notation.decimal == mark
    other_notation = Notation(_other(mark), mark) if is_decimal else Notation(mark)
    warn(
        f"{file}: {cell!r:.40} in column {name!r} is read as {notation.reading(cell)}, as numbers of the model's data "
        f"are written; no cell of the file tells it from {other_notation.reading(cell)}, which "
        f"{'thousands' if is_decimal else 'decimal'}={mark!r} makes it."
    )


def tell_other_notation(file: Path, notation: Notation, usual: Notation) -> None:
    """Warn if a file's notation differs from ``usual``, that of the model's data."""
    if usual == Notation():
        return
    has_other_decimal = notation.decimal not in (None, usual.decimal) and usual.decimal is not None
    if has_other_decimal or notation.thousands not in (None, usual.thousands):
        warn(
            f"{file} writes numbers {notation.words}, and the model's data had them {usual.words}; they are read as "
            "they are written."
        )


def _holds(cells: Any, letters: str) -> Any:
    """Return whether each of ``cells``, Arrow strings, has one of the ``letters``."""
    return compute.match_substring_regex(cells, f"[{re.escape(letters)}]")


def _matching(cells: Any, pattern: str) -> Any:
    """Return those of ``cells``, Arrow strings, that match a pattern."""
    return cells.filter(compute.match_substring_regex(cells, pattern))


def is_any(mask: Any) -> bool:
    """Return whether an Arrow array of bools has a true entry; null is not true."""
    return bool(compute.any(mask).as_py())


def is_all(mask: Any) -> bool:
    """Return whether an Arrow array of bools has no false entry; null is not false."""
    return compute.all(mask).as_py() is not False
