"""Levels of one nominal column, and codes of its values: positions among the levels.

`fit_levels` finds the levels, a `Lookup` looks values up. Both read a column by `read_entries`, which returns its
`Entries`: the values, each once where that is cheap, and for each instance the position of its value.
"""

import datetime
import itertools
import math
import re
from collections.abc import Container
from contextlib import suppress
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
    moment_key,
    moment_word,
    time_key,
)
from ._frames import NUMBERS, QUANTITIES

UNSEEN = -1  # code of a value that is not a level
LARGEST_CODE = 2**24  # integers up to this one are exact in float32; a column has fewer levels
MOST_CATEGORIES = 2**12  # most categories of a column whose codes are kept, for later columns of the same categories


class Levels(NamedTuple):
    """The values of a nominal column; their positions are its codes."""

    values: tuple[Any, ...]  # strings or numbers, each once; `fit_levels` sorts them
    has_missing: bool  # whether missing values are one more level, after ``values``


class LevelsOfYdf(Levels):
    """Levels of YDF, which writes bools among words in small letters."""

    __slots__ = ()


class LevelsOfCatBoost(Levels):
    """Levels of CatBoost, which writes bools among words as the numbers 0 and 1."""

    __slots__ = ()


_BOOLS = {LevelsOfYdf: ("false", "true"), LevelsOfCatBoost: ("0", "1")}  # how libraries write False and True


class Entries(NamedTuple):
    """The values in a nominal column, and for each instance the position of its value among them."""

    values: np.ndarray | list[str]  # numbers or strings, none missing; a value may occur several times
    index: Int[np.ndarray, " instances"]  # position of each instance's value in ``values``, -1 if it is missing


def fit_levels(column: Any) -> Levels:
    """Return the distinct values of a column as `Levels`, sorted: numbers if its dtype is one of numbers, else strings.

    As a string a whole float has no decimals: a missing value may have turned integers into floats. Categories that no
    row has are not levels. Raises a TypeError for lists and bytes that are not UTF-8.
    """
    values, index = read_entries(column)
    distinct = _distinct_words(values) if isinstance(values, list) else np.unique(values).tolist()
    return Levels(tuple(distinct), bool(np.any(index < 0)))


def _distinct_words(values: list[str]) -> list[str]:
    """Return the distinct words in ``values``, sorted; of `MomentWord`s for one time only the first in sorted order."""
    words = set(map(str, values))
    moment_words = sorted({str(word) for word in values if type(word) is MomentWord})
    first_spelling: dict[Any, str] = {}  # by time; a word that has no key stands for itself
    for word in moment_words:
        if first_spelling.setdefault(time_key(word) or word, word) != word:
            words.discard(word)
    return sorted(words)


class Lookup:
    """Look-up of a column's values among its ``levels``."""

    def __init__(self, levels: Levels):
        self._values = levels.values
        self._missing = len(levels.values) if levels.has_missing else UNSEEN  # code of a missing value
        self._has_words = any(isinstance(value, str) for value in levels.values[:1])  # whether levels are strings
        self._has_bools = any(isinstance(value, bool | np.bool_) for value in levels.values[:1])
        are_numbers = not (self._has_words or self._has_bools)
        # Words for False and True, if a library has its own or levels are numbers; else None.
        self._bools = _BOOLS.get(type(levels), ("0", "1") if are_numbers else None)
        self._kept: KeptWhileAlive[np.ndarray] = KeptWhileAlive()  # codes of categories that were looked up

    def codes(self, column: Any) -> Int[np.ndarray, " instances"]:
        """Return the code of each value in a column: its position among the levels, or -1 if it is not a level.

        A missing value has the last code if missing is a level, else -1. Numbers are compared as words if the column or
        the levels hold words. Raises a TypeError for lists and bytes that are not UTF-8.
        """
        categories = getattr(column.dtype, "categories", None)
        if categories is None or len(categories) > MOST_CATEGORIES:
            return self._look_up(column)
        # The same categories are looked up once, whichever rows have them.
        codes_of_categories = self._kept.get((categories,), None, lambda: self._look_up(categories))
        with_missing = np.append(codes_of_categories, self._missing)  # pandas' code -1, of a missing value, is the last
        return with_missing[np.asarray(column.cat.codes)]

    def _look_up(self, column: Any) -> Int[np.ndarray, " instances"]:
        """Return the code of each value of a column, or of each category of an index of pandas."""
        values, index = read_entries(column)
        # A column that once held numbers as text may hold numbers now, and vice versa: then words are compared.
        if self._has_words and not isinstance(values, list):
            values = list(map(_word_of, values.tolist()))
        codes = self._among_words(values) if isinstance(values, list) else self._among_numbers(values)
        return np.append(codes, self._missing)[index]  # index -1, of a missing value, is the last

    def read_cell(self, cell: str, missing_words: Container[str]) -> str | None:
        """Return, as a string, the level that a cell of a text file holds; None for a cell in ``missing_words``.

        A cell that is a level is never missing. The cell may spell a bool, a time or a whole float otherwise than the
        level, and any number if levels are numbers. A cell without a level is returned as a word that is no level.
        """
        if cell in self._index:  # before all else, since a level may be one of the ``missing_words``
            return cell
        if self._moments and (code := self._moments.get(moment_key(cell.strip()))) is not None:
            return as_word(self._values[code])
        stripped = cell.strip()
        if stripped in missing_words:
            return None
        word = _without_decimals(cell) if self._has_words else _word_of_number(cell)
        return self._spellings.get(stripped, word)

    @cached_property
    def _spellings(self) -> dict[str, str]:
        """{spelling of a bool: level} if all levels are bools, else empty; with 0 and 1 if levels are no strings."""
        if not (self._index and set(self._index) <= {"True", "False"}):
            return {}
        words = dict.fromkeys(TRUE_WORDS, "True") | dict.fromkeys(FALSE_WORDS, "False")
        return words if self._has_words else {**words, "1": "True", "0": "False"}

    @cached_property
    def may_be_numbers(self) -> bool:
        """Whether a number can be a level: levels are numbers, or a level reads as a number or a bool."""
        return not self._has_words or any(map(_reads_as_number, self._values))

    @cached_property
    def _index(self) -> dict[str, int]:
        """{level as a word: its code}."""
        return {as_word(value): code for code, value in enumerate(self._values)}

    @cached_property
    def _code_of_word(self) -> dict[str, int]:
        """{word of the data: its code}: `_index`, and 0 and 1 for levels that are bools."""
        return self._index | ({str(int(value)): i for i, value in enumerate(self._values)} if self._has_bools else {})

    @cached_property
    def _moments(self) -> dict[Any, int]:
        """{`time_key` of a level: its code} of the levels that are moments or time spans."""
        codes: dict[Any, int] = {}
        for word, code in self._index.items():
            if (moment := time_key(word)) is not None:
                codes.setdefault(moment, code)
        return codes

    def _of_moment(self, word: str) -> int:
        """Return the code of the level that is the same time as a word; -1 if there is none.

        A word that was a text in the data is compared only if it writes a whole day.
        """
        if type(word) is MomentWord:
            return self._moments.get(time_key(word), UNSEEN)
        # A date has ten characters, and midnight may follow.
        writes_day = word[10:] in ("", " 00:00:00")
        return self._moments.get(moment_key(word), UNSEEN) if writes_day else UNSEEN

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """The levels, which are numbers, in rising order, and the code of each."""
        values = np.array(self._values)
        order = np.argsort(values)
        return values[order], order

    @cached_property
    def are_large(self) -> bool:
        """Whether some level is an integer so large that float64 may not tell it from its neighbours."""
        return any(isinstance(value, int) and abs(value) >= 2**53 for value in self._values)

    @cached_property
    def _code_of_number(self) -> dict[Any, int]:
        """{level: its code}."""
        return {value: code for code, value in enumerate(self._values)}

    def _among_words(self, words: list[str]) -> np.ndarray:
        """Return the code of each word, ``[words]``: the position of the level that it is, or `UNSEEN`.

        A time or a bool of the data may be spelled otherwise than the level.
        """
        codes = np.fromiter((self._code_of_word.get(word, UNSEEN) for word in words), np.int64, len(words))
        unseen_rows = np.flatnonzero(codes == UNSEEN).tolist() if self._moments else []
        if unseen_rows:
            code_of = {word: self._of_moment(word) for word in {words[i] for i in unseen_rows}}  # each word once
            codes[unseen_rows] = [code_of[words[i]] for i in unseen_rows]
        if self._bools is not None and _BoolWord in set(map(type, words)):
            code_of_false, code_of_true = (self._index.get(word, UNSEEN) for word in self._bools)
            is_bool = np.fromiter((type(word) is _BoolWord for word in words), bool, len(words))
            codes_as_bools = [code_of_true if word == "True" else code_of_false for word in words]
            codes = np.where(is_bool, codes_as_bools, codes)
        return codes

    def _among_numbers(self, values: np.ndarray) -> np.ndarray:
        """Return the code of each number, ``[values]``: the position of the level that it equals, or `UNSEEN`."""
        levels, order = self._sorted
        if not len(levels):
            return np.full(len(values), UNSEEN)
        # Where NumPy would compare large numbers as float64, Python's own are compared to the last digit.
        if self.are_large and np.result_type(levels, values) in (np.float64, object):
            codes = (self._code_of_number.get(value, UNSEEN) for value in values.tolist())
            return np.fromiter(codes, np.int64, len(values))
        # Bisection among sorted levels makes no Python object of a value. The last level is tried for larger values.
        index = np.minimum(np.searchsorted(levels, values), len(levels) - 1)
        return np.where(levels[index] == values, order[index], UNSEEN)


def read_entries(column: Any) -> Entries:
    """Return the `Entries` of a pandas series, an index of categories, or a NumPy array.

    Their values are numbers if its dtype is one of numbers, else strings. Raises a TypeError for lists in cells, and
    for bytes that are not UTF-8.
    """
    if hasattr(column.dtype, "categories"):
        return _read_categories(column)
    kind = getattr(column.dtype, "kind", "O")
    if getattr(column.dtype, "type", None) is str and hasattr(column, "factorize"):  # pandas' dtype of texts
        index, words = column.factorize()
        return Entries(words.tolist(), index)
    if kind not in NUMBERS:
        # ``tolist`` would make bare integers of some of NumPy's dates.
        return _read_objects(list(column) if kind in QUANTITIES else np.asarray(column).tolist())
    if hasattr(column, "isna"):  # pandas: without its missing values a column has a plain dtype
        missing = np.asarray(column.isna(), bool)
        values = np.asarray(column[~missing] if missing.any() else column)
    else:
        values = np.asarray(column)
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        values = values[~missing]
    return Entries(values, np.where(missing, -1, np.cumsum(~missing) - 1))


def _read_categories(column: Any) -> Entries:
    """Return the `Entries` of a categorical column of pandas; the values are the categories that some row has."""
    codes = np.asarray(column.cat.codes, np.int64)
    categories = column.cat.categories
    used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(categories)))
    position = np.full(len(categories) + 1, -1)  # by code; the last is for code -1, a missing value
    position[used] = np.arange(len(used))
    values, index = read_entries(categories[used])
    return Entries(values, np.append(index, -1)[position[codes]])  # -1, of a missing value, is the last here, too


_ALIKE = {str, int, float, bytes, type(None)}
"""Types whose equal values are the same word: 1 and 1.0, but not True."""


class _BoolWord(str):
    """A bool of the data as a word, "True" or "False"; its type tells it from a text of the same letters."""

    __slots__ = ()


def _word_of(value: Any) -> str:
    """Return a value of the data as a word: a `MomentWord` of a time, a `_BoolWord` of a bool, else a string."""
    if isinstance(value, MOMENTS):
        return moment_word(value)
    word = as_word(value)
    return _BoolWord(word) if isinstance(value, bool | np.bool_) else word


def _read_objects(values: list) -> Entries:
    """Return the `Entries` of a list of Python objects: a text as it is, any other value as `_word_of` writes it.

    Raises a TypeError for a cell that holds several values.
    """
    types = {cls for cls in set(map(type, values)) if kind_of_type(cls) != "missing"}
    # Not Python's moments, which may be equal and yet two words: in an hour that a clock repeats.
    are_moments = all(cls in (datetime.date, np.datetime64) or cls.__name__ == "Timestamp" for cls in types)
    if types <= _ALIKE or are_moments:  # equal values are the same word: each is written once
        index_of = {value: i for i, value in enumerate(dict.fromkeys(values))}
        position = np.fromiter(map(index_of.__getitem__, values), np.int64, len(values))
        values = list(index_of)
    else:
        if several := {cls.__name__ for cls in set(map(type, values)) if kind_of_type(cls) == "several"}:
            raise TypeError(
                f"a nominal column holds a {sorted(several)[0]} in a cell; give each of its entries a column of its "
                "own, or make it one text."
            )
        position = np.arange(len(values))
    missing = np.array([not isinstance(value, str) and is_missing(value) for value in values], bool)
    present = itertools.compress(values, (~missing).tolist())
    words = [value if type(value) is str else _word_of(value) for value in present]
    word_of_value = np.where(missing, -1, np.cumsum(~missing) - 1)  # its position in ``words``
    return Entries(words, word_of_value[position])


def _without_decimals(cell: str) -> str:
    """Return a cell that holds a whole float without its decimals, ``"1"`` for ``"1.0"``; any other cell unchanged."""
    if not cell.endswith(".0"):
        return cell
    try:
        return as_word(float(cell)) if repr(float(cell)) == cell else cell
    except ValueError:
        return cell


def _word_of_number(cell: str) -> str:
    """Return the number that a cell holds as `as_word` writes it, with all digits; any other cell unchanged."""
    if "_" in cell or not cell.isascii():  # Python alone reads underlines and digits of other scripts as numbers
        return cell
    with suppress(ValueError):
        return as_word(int(re.sub(r"\.0*$", "", cell)))  # as an integer first, since floats round large ones
    with suppress(ValueError):
        return as_word(float(cell))
    return cell


def _reads_as_number(word: str) -> bool:
    """Return whether a word is "True", "False" or a finite number."""
    try:
        return word in ("True", "False") or math.isfinite(float(word))
    except ValueError:
        return False
