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
    """Return whether each residual of a law lies in the 90 % interval of the residuals, bools ``[residuals]``.

    The interval is that of all residuals or, if the law has strata, of those of the residual's stratum.
    """
    # For a mean of 0 and a variance of 1, quantiles of a target are those of the residuals themselves.
    unit, is_covered = Moments(np.zeros(1), np.ones(1), np.zeros(1)), np.zeros(len(law.residuals), bool)
    laws = [(law, slice(None))]
    if law.strata is not None:
        laws = [(law.of_stratum(k), law.strata.number == k) for k in range(len(law.strata.values))]
    for row_law, rows in laws:
        unit_law = row_law._replace(added=0.0, least=1.0)
        low, high = unit_law.quantile(unit, interval_levels(COVERAGE), None)[0]
        is_covered[rows] = (low <= law.residuals[rows]) & (law.residuals[rows] <= high)
    return is_covered


def held_shares(strata: Strata, number: np.ndarray, is_held: np.ndarray, weight: np.ndarray) -> dict[Any, HeldShare]:
    """Return for each value of the strata's column how many rows have it, and the share of targets in intervals.

    ``number`` is the stratum of each row, ``is_held`` whether its target is in its interval, and ``weight`` how often
    it counts in the share; arrays are ``[rows]``.
    """
    size = len(strata.values)
    count, total, inside = (np.bincount(number, terms, minlength=size) for terms in (None, weight, weight * is_held))
    share = np.divide(inside, total, out=np.full(len(count), np.nan), where=total > 0)
    return {value: HeldShare(int(n), float(held)) for value, n, held in zip(strata.values, count, share, strict=True)}
