"""Coverage by the values of a column: the share of each value's rows whose targets lie in 90 % intervals."""

from typing import Any, NamedTuple

import numpy as np

from jaxunc.regression import Moments, NumberLaw, Strata, interval_levels

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


def held_residuals(law: NumberLaw) -> np.ndarray:
    """Return whether each residual of a law lies in the 90 % interval of all residuals, or of its stratum's."""
    unit, is_held = Moments(np.zeros(1), np.ones(1), np.zeros(1)), np.zeros(len(law.residuals), bool)
    parts = [(law, slice(None))]
    if law.strata is not None:
        parts = [(law.of_stratum(k), law.strata.number == k) for k in range(len(law.strata.values))]
    for part, rows in parts:
        unit_law = part._replace(added=0.0, least=1.0)
        low, high = unit_law.quantile(unit, interval_levels(COVERAGE), None)[0]
        is_held[rows] = (low <= law.residuals[rows]) & (law.residuals[rows] <= high)
    return is_held


def held_shares(strata: Strata, number: np.ndarray, is_held: np.ndarray, weight: np.ndarray) -> dict[Any, HeldShare]:
    """Return for each value of the strata's column its number of rows, and the share of their weight where ``is_held``.

    ``number`` is the stratum of each row, and ``is_held`` whether its target is in its interval; arrays are ``[rows]``.
    """
    n = len(strata.values)
    rows, total, inside = (np.bincount(number, each, minlength=n) for each in (None, weight, weight * is_held))
    share = np.divide(inside, total, out=np.full(len(rows), np.nan), where=total > 0)
    return {value: HeldShare(int(n), float(part)) for value, n, part in zip(strata.values, rows, share, strict=True)}
