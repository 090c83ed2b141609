"""Values in the cells of a table: which are missing, numbers or words, and how they are written as words.

Levels of a nominal column are words. Equal values must be the same word, whatever type they have: 1 and 1.0, or a
moment of Python, NumPy or pandas. `kind_of_type` tells what a value is, `as_word` and `moment_word` write it.
"""

import datetime
import decimal
import fractions
import functools
import numbers
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64

from jaxunc._checks import check_one_of

MISSING_WORDS: tuple[str, ...] = (
    *("", "?", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A"),
    *("NaN", "nan", "-NaN", "-nan", "NULL", "null", "None"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
"""Cells of text files that mean a missing value by default, those of pandas among them."""
TRUE_WORDS: tuple[str, ...] = ("true", "True", "TRUE")
FALSE_WORDS: tuple[str, ...] = ("false", "False", "FALSE")
DECIMALS = (".", ",")  # marks before the decimals of a number in a text file
THOUSANDS = (".", ",", " ", "'")
"""Marks between thousands of such a number; a space stands for narrow spaces, too, an apostrophe for the curved one."""
Kind = Literal["missing", "bool", "number", "word", "quantity", "several"]
"""Kinds of values. A "quantity" is a date, a time or a complex number, "several" a list or another collection."""
_MISSING = ("NoneType", "NAType", "NaTType", "MaskedConstant")
_QUANTITIES = (np.datetime64, np.timedelta64, np.complexfloating, complex)
_QUANTITIES += (datetime.date, datetime.time, datetime.timedelta)
_NAMED_QUANTITIES = ("Period", "Interval", "DateOffset", "MonthDayNano")
"""Names of types of pandas and Arrow, so that neither has to be imported."""
_NUMBERS = (numbers.Real, decimal.Decimal)
_PLAIN = {int, float, bool, type(None)}  # types whose values NumPy reads as floats as Python does, None as NaN
_LARGEST_WRITTEN = 1e300  # from this size on a decimal or fraction as a word keeps its own form, not a number's digits
BYTES = (bytes, bytearray, memoryview)


@functools.cache
def kind_of_type(python_type: type) -> Kind:
    """Return the kind of the values of a type; floats are a "number", though NaN is a missing value."""
    if python_type.__name__ in _MISSING:
        return "missing"
    # Before numbers: NumPy's time spans are a subclass of its integers.
    if issubclass(python_type, _QUANTITIES) or python_type.__name__ in _NAMED_QUANTITIES:
        return "quantity"
    if issubclass(python_type, bool | np.bool_):
        return "bool"
    if issubclass(python_type, (str, *BYTES)):
        return "word"
    if issubclass(python_type, list | dict | set | np.ndarray):
        return "several"
    return "number" if issubclass(python_type, _NUMBERS) or hasattr(python_type, "__float__") else "word"


def kinds_of(values: Iterable[Any]) -> set[Kind]:
    """Return the set of the kinds that these values have."""
    return {kind_of_type(python_type) for python_type in set(map(type, values))}


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT, NumPy's mark of a masked value, or pandas' NA."""
    if kind_of_type(type(value)) == "missing":
        return True
    return value.is_nan() if isinstance(value, decimal.Decimal) else bool(value != value)  # only NaN is not itself


def check_marks(decimal: str | None, thousands: str | None) -> None:
    """Raise a ValueError unless the two are different marks of numbers; None, an unknown mark, is accepted."""
    if decimal is not None:
        check_one_of("decimal", decimal, DECIMALS)
    if thousands is not None:
        check_one_of("thousands", thousands, THOUSANDS)
        if decimal == thousands:
            raise ValueError(f"thousands={thousands!r} is the decimal mark, too; name two different marks.")


def are_missing(values: np.ndarray) -> np.ndarray:
    """Return whether each value of an array is missing; texts never are, and objects are as `is_missing` says."""
    if values.dtype.kind == "O":
        return np.array([is_missing(value) for value in values.ravel().tolist()], bool).reshape(values.shape)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    return np.isnan(values) if values.dtype.kind in "fc" else np.zeros(values.shape, bool)


def floats_of(values: Collection[Any]) -> Float64[np.ndarray, " values"]:
    """Return numbers, and texts that read as numbers, as an array of float64; a missing value becomes NaN.

    Raises a TypeError or a ValueError for any other value.
    """
    if set(map(type, values)) <= _PLAIN:
        with suppress(OverflowError):  # an integer beyond float64
            return np.array(values, np.float64)
    if kinds_of(values) & {"quantity", "several"}:
        odd = next(value for value in values if kind_of_type(type(value)) in ("quantity", "several"))
        raise TypeError(f"a {type(odd).__name__} is no number")
    return np.array([np.nan if is_missing(value) else _as_float(value) for value in values], np.float64)


def _as_float(value: Any) -> float:
    """Return a number, or a text that reads as one, as a float; infinity for a number beyond float64."""
    try:
        return float(value)
    except OverflowError:  # an integer or a fraction beyond float64
        return np.inf if value > 0 else -np.inf


def as_word(value: Any) -> str:
    """Return a value as a string; equal numbers become the same string, so 1.0 is ``"1"``.

    Raises a TypeError for bytes that are not UTF-8.
    """
    if isinstance(value, BYTES):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError as error:
            raise TypeError(f"{bytes(value)!r:.60} is no UTF-8 text; decode the column first") from error
    if isinstance(value, decimal.Decimal | fractions.Fraction):
        value = _plain_number(value)
    if isinstance(value, float | np.floating) and value.is_integer():
        value = int(value)
    return str(value)  # a narrow float of NumPy in its own shortest form: float32(0.1) as 0.1


def _plain_number(value: decimal.Decimal | fractions.Fraction) -> Any:
    """Return the integer, or else the float, that is the same number as ``value``; ``value`` itself if there is none.

    NaN and numbers of size `_LARGEST_WRITTEN` or more are returned unchanged.
    """
    nearest_float = _as_float(value)
    if not abs(nearest_float) < _LARGEST_WRITTEN:  # true of NaN, too
        return value
    if value == (integer := int(value)):
        return integer
    exact = fractions.Fraction(value)
    is_float = exact == fractions.Fraction(nearest_float)
    is_written_so = exact == fractions.Fraction(repr(nearest_float))  # Decimal("0.1") is no float, but is written 0.1
    return nearest_float if is_float or is_written_so else value


_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z|[+-]\d\d:?\d\d(?::?\d\d)?)?)?"
)
"""A date or a moment: day, hour, minute, second, fraction of a second, offset of the time zone."""
_SPAN = re.compile(r"(?=.)(?:(-?\d+) days?(?:,? \+?(?=\d)|$))?(?:(\d+):(\d\d):(\d\d)(?:\.(\d{1,9}))?)?")
"""A time span as pandas and Python write it: days, hours, minutes, seconds, fraction of a second."""
_COUNT = re.compile(r"(-?\d+) (weeks|days|hours|minutes|seconds|milliseconds|microseconds|nanoseconds)")
"""A time span as NumPy writes it: a number, and its unit."""
_NANOSECONDS = {"weeks": 604_800 * 10**9, "days": 86_400 * 10**9, "hours": 3_600 * 10**9, "minutes": 60 * 10**9}
_NANOSECONDS |= {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}
MOMENTS = (datetime.date, np.datetime64, datetime.timedelta, np.timedelta64)  # types that `moment_word` takes


class MomentWord(str):
    """A string that was written for a date, a moment or a time span; `time_key` tells which are the same time."""

    __slots__ = ()


def moment_word(value: Any) -> MomentWord:
    """Return a date, a moment or a time span as ``str`` writes it; NumPy's moments are written as Python's are."""
    return MomentWord(_as_python_writes(value) if isinstance(value, np.datetime64) else value)


def _as_python_writes(value: np.datetime64) -> str:
    """Return a moment of NumPy as Python and pandas write it: a space before the time, 0, 6 or 9 decimals of seconds.

    A moment in a unit of a day or longer is written as the day alone.
    """
    unit, _ = np.datetime_data(value.dtype)
    if unit in "YMWD":  # years, months, weeks or days
        return str(value.astype("M8[D]"))
    text = str(value.astype("M8[s]") if unit in ("h", "m") else value)  # NumPy would leave out minutes or seconds
    day, _, time = text.partition("T")
    seconds, _, fraction = time.partition(".")
    digits = fraction.rstrip("0")
    if not digits:
        return f"{day} {seconds}"
    # Python writes six digits, pandas nine if there are nanoseconds. Finer digits are kept.
    n_digits = 6 if len(digits) <= 6 else 9
    return f"{day} {seconds}.{digits.ljust(n_digits, '0')}"


def moment_key(word: str) -> Any:
    """Return a key that is equal for all words that write one moment; None for a word that writes no moment.

    A date is the moment at which it begins. Moments in different time zones at the same time have the same key.
    """
    if not (match := _MOMENT.fullmatch(word)):
        return None
    day, hour, minute, second, fraction, offset = match.groups()
    fraction = (fraction or "").ljust(9, "0")  # nanoseconds, kept apart: Python's moments end at microseconds
    try:
        moment = datetime.datetime.fromisoformat(f"{day} {hour or '00'}:{minute or '00'}:{second or '00'}")
        if offset is None:
            return moment, fraction
        zone = datetime.datetime.fromisoformat(f"2000-01-01T00:00:00{offset}").tzinfo
        return moment.replace(tzinfo=zone).astimezone(datetime.UTC), fraction
    except (ValueError, OverflowError):
        return None


def time_key(word: str) -> Any:
    """Return a key that is equal for all words that write one moment, or one time span; None for any other word."""
    if (moment := moment_key(word)) is not None:
        return moment
    if match := _COUNT.fullmatch(word):
        return int(match[1]) * _NANOSECONDS[match[2]]
    if not (match := _SPAN.fullmatch(word)):
        return None
    *parts, fraction = match.groups()  # parts: days, hours, minutes and seconds
    seconds = sum(int(digits or 0) * unit for digits, unit in zip(parts, (86_400, 3_600, 60, 1), strict=True))
    return seconds * 10**9 + int((fraction or "").ljust(9, "0"))
