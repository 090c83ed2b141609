"""Coverage by the values of a column: the share of each value's rows whose targets lie in 90 % intervals."""

from typing import Any, NamedTuple

import numpy as np

from jaxunc.regression import Strata

COVERAGE = 0.9  # coverage of the intervals whose targets are counted


class HeldShare(NamedTuple):
    """Number of rows with a value of the column, and the share of their targets in 90 % intervals; NaN for no rows."""

    rows: int
    share: float


def check_coverage_by(by: Any) -> None:
    """Raise a TypeError or a ValueError unless ``by`` is a column's name, its position, or None."""
    if by is None or isinstance(by, str):
        return
    if isinstance(by, bool | np.bool_) or not isinstance(by, int | np.integer):
        raise TypeError(f"coverage_by={by!r:.60} is no column; pass its name, or its position from 0 on.")
    if by < 0:
        raise ValueError(f"coverage_by={by} is no column of X; the first is 0.")


def held_shares(strata: Strata, number: np.ndarray, is_held: np.ndarray, weight: np.ndarray) -> dict[Any, HeldShare]:
    """Return for each value of the strata's column how many rows have it, and the share of targets in intervals.

    ``number`` is the stratum of each row, ``is_held`` whether its target is in its interval, and ``weight`` how often
    it counts in the share; arrays are ``[rows]``.
    """
    size = len(strata.values)
    count, total, inside = (np.bincount(number, terms, minlength=size) for terms in (None, weight, weight * is_held))
    share = np.divide(inside, total, out=np.full(len(count), np.nan), where=total > 0)
    return {value: HeldShare(int(n), float(held)) for value, n, held in zip(strata.values, count, share, strict=True)}
