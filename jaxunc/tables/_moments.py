"""Dates and moments as words: one moment alike, whatever carries it."""

import datetime
import re
from typing import Any

import numpy as np

_TEXT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z|[+-]\d\d:?\d\d(?::?\d\d)?)?)?"
)


class MomentWord(str):
    """A date or a moment as a word: equal moments are one level, which texts are only if they are equal."""

    __slots__ = ()


def moment_word(value: datetime.date | np.datetime64) -> MomentWord:
    """Return a date or a moment as Python and pandas write it, a moment of NumPy too."""
    return MomentWord(_as_python_writes(value) if isinstance(value, np.datetime64) else value)


def _as_python_writes(value: np.datetime64) -> str:
    unit, _ = np.datetime_data(value.dtype)
    if unit in "YMWD":
        return str(value.astype("M8[D]"))
    text = str(value.astype("M8[s]") if unit in ("h", "m") else value)
    day, _, time = text.partition("T")
    whole, _, fraction = time.partition(".")
    digits = fraction.rstrip("0")
    # Python writes no fraction, or six digits; pandas nine if there are nanoseconds, and what is finer stays.
    digits = digits.ljust(6 if len(digits) <= 6 else 9, "0") if digits else ""
    return f"{day} {whole}{'.' * bool(digits)}{digits}"


def same_moment(word: str) -> Any:
    """Return what words of one moment have in common; None for a word that is no date and no moment.

    A date is the moment at which it begins. Moments of different zones are the same if they
    are at the same time.
    """
    if not (found := _TEXT.fullmatch(word)):
        return None
    day, hour, minute, second, fraction, offset = found.groups()
    fraction = (fraction or "").ljust(9, "0")
    try:
        moment = datetime.datetime.fromisoformat(f"{day} {hour or '00'}:{minute or '00'}:{second or '00'}")
        if offset is None:
            return moment, fraction
        return moment - datetime.datetime.fromisoformat(f"2000-01-01T00:00:00{offset}").utcoffset(), fraction, "UTC"
    except (ValueError, OverflowError):
        return None
