"""Coverage by the values of a column: how many targets of each value's rows 90 % intervals hold."""

from typing import Any, NamedTuple

import numpy as np

from jaxunc.regression import Moments, NumberLaw, Strata, interval_levels

COVERAGE = 0.9
"""Coverage of the intervals by which shares are counted."""


class HeldShare(NamedTuple):
    """How many rows have a value, and the share of their targets that 90 % intervals hold; NaN of no rows."""

    rows: int
    share: float


def check_coverage_by(by: Any) -> None:
    """Raise a TypeError or a ValueError unless a column's name or position is given, or None."""
    if by is None or isinstance(by, str):
        return
    if isinstance(by, bool | np.bool_) or not isinstance(by, int | np.integer):
        raise TypeError(f"coverage_by={by!r:.60} is no column; pass its name, or its position from 0 on.")
    if by < 0:
        raise ValueError(f"coverage_by={by} is no column of X; the first is 0.")


def held_residuals(law: NumberLaw) -> np.ndarray:
    """Return whether each residual of a law lies in the law's interval of residuals, by stratum where it has strata."""
    unit, held = Moments(np.zeros(1), np.ones(1), np.zeros(1)), np.zeros(len(law.residuals), bool)
    parts = [(law, slice(None))]
    if law.strata is not None:
        parts = [(law.of_stratum(k), law.strata.number == k) for k in range(len(law.strata.values))]
    for part, rows in parts:
        of_unit = part._replace(added=0.0, least=1.0)
        low, high = of_unit.quantile(unit, interval_levels(COVERAGE), None)[0]
        held[rows] = (low <= law.residuals[rows]) & (law.residuals[rows] <= high)
    return held


def held_shares(strata: Strata, number: np.ndarray, held: np.ndarray, weight: np.ndarray) -> dict[Any, HeldShare]:
    """Return for each value of the column its number of rows, and the weighted share of them that is ``held``."""
    rows, total, inside = (
        np.bincount(number, each, minlength=len(strata.values)) for each in (None, weight, weight * held)
    )
    share = np.divide(inside, total, out=np.full(len(rows), np.nan), where=total > 0)
    return {value: HeldShare(int(n), float(part)) for value, n, part in zip(strata.values, rows, share, strict=True)}
