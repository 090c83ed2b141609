"""Meaning of the cells of text files: numbers, bools, missing values, strings."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute

from jaxunc.tables import FALSE_WORDS, TRUE_WORDS

from ._arrays import texts
from ._formats import UnreadableError

compute: Any = pyarrow.compute  # its functions are made when it is imported
Kind = Literal["number", "boolean", "either"]
"""Kind of a column that is not nominal. Where a model does not know, its numbers may be bools."""

EXPECTED = {"number": "numbers", "boolean": "true and false", "either": "numbers, true and false"}
_TEXT = pa.string()
_WHOLE = r"^(0|-?[1-9][0-9]{0,19})$"
"""Pattern of integers; -0 is a float."""


class NumberReader:
    """A converter of the cells of one column to float64, part by part.

    Each cell is read by itself: spaces around it are dropped, a missing word is null, and a bool is 0 or 1. Only the
    mark before decimals is one for the whole column: a file that is not separated by commas may have decimal commas.
    """

    def __init__(self, name: str, kind: Kind, missing_words: Sequence[str], *, may_have_commas: bool):
        self._name, self._kind, self._may_have_commas = name, kind, may_have_commas
        self._missing = _words(missing_words)
        self._marks: set[str] = set()
        self._n_read = 0

    def __call__(self, cells: Any) -> Any:
        """Return the numbers of a part; raises an UnreadableError that names the first cell that holds none."""
        known = known_cells(cells, self._missing)
        numbers = self.floats(known)
        if numbers is None:
            # Cell by cell only now: the cast of a whole part says that a cell is wrong, not which.
            row = next(i for i in range(len(known)) if self.floats(known.slice(i, 1)) is None)
            raise UnreadableError(
                f"row {self._n_read + row} of column {self._name!r} holds {cells[row].as_py()!r:.60}; the model's "
                f"column holds {EXPECTED[self._kind]}"
            )
        self._n_read += len(cells)
        return numbers

    def floats(self, known: Any) -> Any:
        """Return the numbers of cells without spaces, null where they are missing; None if one of them holds none.

        Raises an UnreadableError for decimal commas and points in one column.
        """
        words = known if self._kind == "number" else _booleans_as_digits(known)
        if self._may_have_commas:
            self._marks |= {mark for mark in ",." if _any(compute.match_substring(words, mark))}
            if len(self._marks) == 2:
                raise UnreadableError(f"column {self._name!r} holds numbers with decimal commas and with points")
            words = compute.replace_substring(words, ",", ".") if "," in self._marks else words
        try:
            numbers = words.cast(pa.float64())
        except pa.ArrowInvalid:
            return None
        # 0 and 1 are the only numbers that are their own squares.
        if self._kind == "boolean" and _any(compute.not_equal(compute.multiply(numbers, numbers), numbers)):
            return None
        return numbers


def typed(cells: Any, missing_words: Sequence[str], *, may_have_commas: bool) -> Any:
    """Return a whole column as what all its cells are: bools, integers, numbers, or else strings as they stand.

    Missing words are null. A column without other cells is one of numbers. Where commas may stand in numbers, a column
    has commas or points before decimals, not both.
    """
    known = known_cells(cells, _words(missing_words))
    # Of each value one: columns of few values, as bools are, are told by a few comparisons.
    distinct = compute.drop_null(compute.unique(known))
    if len(distinct) and _all(compute.is_in(distinct, value_set=_words(TRUE_WORDS + FALSE_WORDS))):
        true = compute.is_in(known, value_set=_words(TRUE_WORDS))
        return compute.if_else(compute.is_null(known), pa.scalar(None, pa.bool_()), true)
    if len(distinct) and _all(compute.match_substring_regex(distinct, _WHOLE)):
        for whole in (pa.int64(), pa.uint64()):
            with suppress(pa.ArrowInvalid):  # more than 64 bits
                return known.cast(whole)
    with suppress(UnreadableError):
        numbers = NumberReader("", "number", missing_words, may_have_commas=may_have_commas).floats(known)
        if numbers is not None:
            return numbers
    return compute.if_else(compute.is_null(known), pa.scalar(None, _TEXT), cells)


def known_cells(cells: Any, missing: pa.Array) -> Any:
    """Return cells without spaces around them, null where they mean a missing value."""
    stripped = compute.utf8_trim_whitespace(cells)
    return compute.if_else(compute.is_in(stripped, value_set=missing), pa.scalar(None, _TEXT), stripped)


def _words(words: Sequence[str]) -> pa.Array:
    return texts([word.strip() for word in words])


def _booleans_as_digits(words: Any) -> Any:
    for digit, same in (("1", TRUE_WORDS), ("0", FALSE_WORDS)):
        found = compute.is_in(words, value_set=_words(same))
        words = compute.if_else(found, digit, words) if _any(found) else words
    return words


def _any(mask: Any) -> bool:
    return bool(compute.any(mask).as_py())


def _all(mask: Any) -> bool:
    return bool(compute.all(mask).as_py())
