"""Dates, moments and spans of time as words: one of them alike, whatever carries it."""

import datetime
import re
from typing import Any

import numpy as np

_TEXT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z|[+-]\d\d:?\d\d(?::?\d\d)?)?)?"
)
_SPAN = re.compile(r"(?=.)(?:(-?\d+) days?(?:,? \+?(?=\d)|$))?(?:(\d+):(\d\d):(\d\d)(?:\.(\d{1,9}))?)?")
"""As pandas and Python write one."""
_COUNT = re.compile(r"(-?\d+) (weeks|days|hours|minutes|seconds|milliseconds|microseconds|nanoseconds)")
"""As NumPy writes one."""
_NANOSECONDS = {
    "weeks": 604_800 * 10**9,
    "days": 86_400 * 10**9,
    "hours": 3_600 * 10**9,
    "minutes": 60 * 10**9,
    "seconds": 10**9,
    "milliseconds": 10**6,
    "microseconds": 10**3,
    "nanoseconds": 1,
}
MOMENTS = (datetime.date, np.datetime64, datetime.timedelta, np.timedelta64)
"""Types of what `moment_word` takes."""


class MomentWord(str):
    """A date, a moment or a span of time as a word: equal ones are one level, unlike texts."""

    __slots__ = ()


def moment_word(value: Any) -> MomentWord:
    """Return a date, a moment or a span as its carrier writes it; a moment of NumPy as Python and pandas do."""
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
        zone = datetime.datetime.fromisoformat(f"2000-01-01T00:00:00{offset}").tzinfo
        return moment.replace(tzinfo=zone).astimezone(datetime.UTC), fraction
    except (ValueError, OverflowError):
        return None


def same_time(word: str) -> Any:
    """Return what words of one moment, or of one span of time, have in common; None for any other word."""
    if (moment := same_moment(word)) is not None:
        return moment
    if found := _COUNT.fullmatch(word):
        return int(found[1]) * _NANOSECONDS[found[2]]
    if not (found := _SPAN.fullmatch(word)):
        return None
    days, *time, fraction = found.groups()
    whole = sum(int(part or 0) * size for part, size in zip((days, *time), (86_400, 3_600, 60, 1), strict=True))
    return whole * 10**9 + int((fraction or "").ljust(9, "0"))
