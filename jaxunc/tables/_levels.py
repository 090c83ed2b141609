"""Levels of one nominal column, and codes of its values: positions among the levels.

`fit_levels` finds the levels, a `Lookup` looks values up. Both read a column by `read_entries`: its values, of each
value once where that is cheap, and which of them each instance has.
"""

import itertools
import math
from collections.abc import Container
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from jaxunc._numerics import KeptWhileAlive

from ._cells import (
    FALSE_WORDS,
    MOMENTS,
    TRUE_WORDS,
    MomentWord,
    as_word,
    is_missing,
    kind_of_type,
    moment_word,
    same_moment,
    same_time,
)
from ._frames import NUMBERS, QUANTITIES

UNSEEN = -1
"""Code of a value that is no level."""
LARGEST_CODE = 2**24
"""Largest number of levels: integers up to here are exact in float32."""


MOST_CATEGORIES = 2**12
"""Categories up to which all are looked up, also those that no row has, and kept."""


class Levels(NamedTuple):
    """The values of a nominal column; their positions are its codes."""

    values: tuple[Any, ...]
    """Strings or numbers, each once; those that were fitted are sorted."""
    has_missing: bool
    """Whether missing values are a level of their own, the last one."""


class LevelsOfYdf(Levels):
    """Levels of YDF, which writes bools among words in small letters."""

    __slots__ = ()


class LevelsOfCatBoost(Levels):
    """Levels of CatBoost, which writes bools among words as the numbers 0 and 1."""

    __slots__ = ()


_BOOLS = {LevelsOfYdf: ("false", "true"), LevelsOfCatBoost: ("0", "1")}


class Entries(NamedTuple):
    """Values of a nominal column, and the position of each instance's value among them."""

    values: np.ndarray | list[str]
    """Numbers or strings; not all need be distinct."""
    index: Int[np.ndarray, " instances"]
    """The position of each instance's value, -1 where it is missing."""


def fit_levels(column: Any) -> Levels:
    """Return the distinct values of a column, sorted: as numbers if its type is one of numbers, else as strings.

    Whole floats among words are written as integers, as before a value was missing. Unused categories are no levels.
    """
    values, index = read_entries(column)
    distinct = _distinct_words(values) if isinstance(values, list) else np.unique(values).tolist()
    return Levels(tuple(distinct), bool(np.any(index < 0)))


def _distinct_words(values: list[str]) -> list[str]:
    """Return the distinct words, sorted; of several spellings of one moment only the first in sorted order."""
    words = set(map(str, values))
    moments = sorted({str(word) for word in values if type(word) is MomentWord})
    first: dict[Any, str] = {}
    for word in moments:
        if first.setdefault(same_time(word) or word, word) != word:
            words.discard(word)
    return sorted(words)


class Lookup:
    """The levels of a column, made ready for looking up values."""

    def __init__(self, levels: Levels):
        self._values = levels.values
        self._bools = _BOOLS.get(type(levels))
        self._missing = len(levels.values) if levels.has_missing else UNSEEN
        self._has_words = any(isinstance(value, str) for value in levels.values[:1])
        self._kept: KeptWhileAlive[np.ndarray] = KeptWhileAlive()

    def codes(self, column: Any) -> Int[np.ndarray, " instances"]:
        """Return the position of each value among the levels; -1 if it is not a level.

        A missing value has the last code if missing is a level, else -1. Numbers are compared as words where either the
        column or the levels hold words.
        """
        categories = getattr(column.dtype, "categories", None)
        if categories is None or len(categories) > MOST_CATEGORIES:
            return self._codes(*read_entries(column))
        # Of the same categories once, whatever rows have them.
        of_categories = self._kept.get((categories,), None, lambda: self._codes(*read_entries(categories)))
        return np.append(of_categories, self._missing)[np.asarray(column.cat.codes)]

    def _codes(self, values: np.ndarray | list[str], index: Int[np.ndarray, " instances"]) -> np.ndarray:
        if isinstance(values, list) or self._has_words:
            # As words where either side has words: a column that held numbers as text once may come as numbers, and
            # vice versa.
            words = values if isinstance(values, list) else list(map(_word_of, values.tolist()))
            codes = np.fromiter((self._index.get(word, UNSEEN) for word in words), np.int64, len(values))
            if self._moments and (unseen := np.flatnonzero(codes == UNSEEN).tolist()):
                code_of = {word: self._of_moment(word) for word in {words[i] for i in unseen}}
                codes[unseen] = [code_of[words[i]] for i in unseen]
            if self._bools is not None and _BoolWord in set(map(type, words)):
                false, true = (self._index.get(word, UNSEEN) for word in self._bools)
                is_bool = np.fromiter((type(word) is _BoolWord for word in words), bool, len(words))
                codes = np.where(is_bool, [true if word == "True" else false for word in words], codes)
        else:
            codes = self._among_numbers(values)
        return np.append(codes, self._missing)[index]

    def read_cell(self, cell: str, missing_words: Container[str]) -> str | None:
        """Read a cell of a text file: a level, whatever else it could mean, another word, or None if it is missing.

        Levels that are bools, and whole floats, may be written in other ways.
        """
        if cell in self._index:
            return cell
        if self._moments and (code := self._moments.get(same_moment(cell.strip()))) is not None:
            return as_word(self._values[code])
        stripped = cell.strip()
        if stripped in missing_words:
            return None
        return self._ways_to_write.get(stripped, _as_written_whole(cell))

    @cached_property
    def _ways_to_write(self) -> dict[str, str]:
        """Spellings of levels that are bools; numbers are bools only where no level is a word."""
        if not (self._index and set(self._index) <= {"True", "False"}):
            return {}
        words = dict.fromkeys(TRUE_WORDS, "True") | dict.fromkeys(FALSE_WORDS, "False")
        return words if self._has_words else {**words, "1": "True", "0": "False"}

    @cached_property
    def may_be_numbers(self) -> bool:
        """Whether numbers can be levels: not if all levels are words that read as no number."""
        return not self._has_words or any(map(_reads_as_number, self._values))

    @cached_property
    def _index(self) -> dict[str, int]:
        return {as_word(value): code for code, value in enumerate(self._values)}

    @cached_property
    def _moments(self) -> dict[Any, int]:
        """Levels that are moments or spans of time: how one is written depends on what carries it."""
        codes: dict[Any, int] = {}
        for word, code in self._index.items():
            if (moment := same_time(word)) is not None:
                codes.setdefault(moment, code)
        return codes

    def _of_moment(self, word: str) -> int:
        """Return the code of the level at the same time, or -1. A plain text counts as a time only if a whole day."""
        if type(word) is MomentWord:
            return self._moments.get(same_time(word), UNSEEN)
        return self._moments.get(same_moment(word), UNSEEN) if word[10:] in ("", " 00:00:00") else UNSEEN

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        values = np.array(self._values)
        order = np.argsort(values)
        return values[order], order

    def _among_numbers(self, values: np.ndarray) -> np.ndarray:
        levels, order = self._sorted
        if not len(levels):
            return np.full(len(values), UNSEEN)
        # By bisection among sorted levels: no Python object is made of a value.
        index = np.minimum(np.searchsorted(levels, values), len(levels) - 1)
        return np.where(levels[index] == values, order[index], UNSEEN)


def read_entries(column: Any) -> Entries:
    """Read the values of a column, each value once where that is cheap."""
    if hasattr(column.dtype, "categories"):
        return _of_categories(column)
    kind = getattr(column.dtype, "kind", "O")
    if getattr(column.dtype, "type", None) is str and hasattr(column, "factorize"):  # texts of pandas, and no objects
        index, words = column.factorize()
        return Entries(words.tolist(), index)
    if kind not in NUMBERS:
        # NumPy's dates as a list may be bare integers.
        return _of_objects(list(column) if kind in QUANTITIES else np.asarray(column).tolist())
    if hasattr(column, "isna"):  # pandas: only what is known has a plain dtype
        missing = np.asarray(column.isna(), bool)
        values = np.asarray(column[~missing] if missing.any() else column)
    else:
        values = np.asarray(column)
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        values = values[~missing]
    return Entries(values, np.where(missing, -1, np.cumsum(~missing) - 1))


def _of_categories(column: Any) -> Entries:
    codes = np.asarray(column.cat.codes, np.int64)
    categories = column.cat.categories
    # Categories may be declared that no row has; they are no levels.
    present = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(categories)))
    position = np.full(len(categories) + 1, -1)  # the last one for code -1
    position[present] = np.arange(len(present))
    values, index = read_entries(categories[present])
    return Entries(values, np.append(index, -1)[position[codes]])


_ALIKE = {str, int, float, bytes, type(None)}
"""Types whose equal values are the same word: 1 and 1.0, but not True.

So are dates, NumPy's moments and pandas'. Python's moments are not: an hour that comes twice is equal to itself.
"""


class _BoolWord(str):
    """A bool as a word: a text of the same letters is another word where a library writes bools otherwise."""

    __slots__ = ()


def _word_of(value: Any) -> str:
    if isinstance(value, MOMENTS):
        return moment_word(value)
    return (_BoolWord if isinstance(value, bool | np.bool_) else str)(as_word(value))


def _of_objects(values: list) -> Entries:
    kinds = {kind for kind in set(map(type, values)) if kind_of_type(kind) != "missing"}
    if kinds <= _ALIKE or all(kind in MOMENTS[:2] or kind.__name__ == "Timestamp" for kind in kinds):
        # Equal values of these types are the same word, so a dict may merge them. True and 1 are equal too, but not the
        # same.
        index = {value: i for i, value in enumerate(dict.fromkeys(values))}
        position = np.fromiter(map(index.__getitem__, values), np.int64, len(values))
        values = list(index)
    else:
        if several := {kind.__name__ for kind in set(map(type, values)) if kind_of_type(kind) == "several"}:
            raise TypeError(
                f"a nominal column holds a {sorted(several)[0]} in a cell; give each of its entries a column of its "
                "own, or make it one text."
            )
        position = np.arange(len(values))
    missing = np.array([not isinstance(value, str) and is_missing(value) for value in values], bool)
    present = itertools.compress(values, (~missing).tolist())
    words = [value if type(value) is str else _word_of(value) for value in present]
    return Entries(words, np.where(missing, -1, np.cumsum(~missing) - 1)[position])


def _as_written_whole(cell: str) -> str:
    """Return a whole float as people's frames hold it among strings, 1.0 as 1; any other cell as it is."""
    if not cell.endswith(".0"):
        return cell
    try:
        return as_word(float(cell)) if repr(float(cell)) == cell else cell
    except ValueError:
        return cell


def _reads_as_number(word: str) -> bool:
    try:
        return word in ("True", "False") or math.isfinite(float(word))
    except ValueError:
        return False
