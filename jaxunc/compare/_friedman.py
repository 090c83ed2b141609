"""Friedman's test: whether any method differs from the others."""

from typing import NamedTuple

import numpy as np
import scipy.stats

from ._ranks import ranks
from ._values import Values, checked_values


class Friedman(NamedTuple):
    """Friedman's chi-square and the F of Iman and Davenport, each with its p-value."""

    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float


def friedman(values: Values, *, decimals: int = 9) -> Friedman:
    r"""Test of the hypothesis that all methods are equally good, by their ranks on N blocks.

    With :math:`r_{bj}` the ranks of k methods, :math:`R_j` their sums, and the mean rank (k + 1)/2:

    .. math:: A = \sum_j \Big(R_j - \tfrac{N (k + 1)}{2}\Big)^2, \qquad
              B = \sum_{bj} \Big(r_{bj} - \tfrac{k + 1}{2}\Big)^2

    .. math:: \chi^2 = \frac{(k - 1) A}{B}, \qquad F = \frac{(N - 1) \chi^2}{N (k - 1) - \chi^2}

    with k - 1 degrees of freedom, and for F with k - 1 and (k - 1)(N - 1).

    Parameters
    ----------
    values
        A value per block (a data set) and method, two or more of each. Whether larger is better does not matter.
    decimals
        Differences below 10^-decimals count as ties.

    Returns
    -------
    Friedman
        ``statistic`` (chi-square, corrected for ties), ``p_value``, ``f_statistic`` and ``f_p_value``.

    Raises
    ------
    ValueError
        If there are fewer than two blocks or methods, or a value is NaN or infinite.
    TypeError
        If the values are no numbers or decimals is no integer.

    Notes
    -----
    All methods tie on every block: both statistics are 0, both p-values 1. All blocks agree: F is infinite, its p-value
    0. Without ties B = N k (k² - 1) / 12, the printed form of the references; with ties it is smaller, as the spread
    of the ranks is. The chi-square needs about N > 10 and k > 5; F is the better
    approximation. Blocks must be independent: data sets, not splits of one.

    References
    ----------
    Friedman 1937; Iman and Davenport 1980; Demšar 2006, section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[0.9, 0.8, 0.7], [0.8, 0.7, 0.6], [0.7, 0.6, 0.5], [0.5, 0.6, 0.4]])
    >>> print(*(f"{number:.4f}" for number in friedman(values)))
    6.5000 0.0388 13.0000 0.0066
    """
    ranked = ranks(checked_values(values), larger_is_better=True, decimals=decimals)
    n_blocks, k = ranked.shape
    # Sums of quarters of whole numbers, so that the degenerate cases are met exactly.
    of_methods = float(np.sum((ranked.sum(axis=0) - n_blocks * (k + 1) / 2) ** 2))
    of_ranks = float(np.sum((ranked - (k + 1) / 2) ** 2))
    if of_methods == 0:
        return Friedman(0.0, 1.0, 0.0, 1.0)
    statistic, rest = (k - 1) * of_methods / of_ranks, n_blocks * of_ranks - of_methods
    f_statistic = (n_blocks - 1) * of_methods / rest if rest > 0 else np.inf
    f_p_value = scipy.stats.f.sf(f_statistic, k - 1, (k - 1) * (n_blocks - 1))
    return Friedman(statistic, float(scipy.stats.chi2.sf(statistic, k - 1)), f_statistic, float(f_p_value))
