"""Nemenyi's test: how far apart two average ranks must be."""

import numpy as np
import scipy.stats

from jaxunc._checks import check_integer, check_within


def nemenyi_difference(n_methods: int, n_blocks: int, *, alpha: float = 0.05) -> float:
    r"""Critical difference: average ranks farther apart than this differ, all pairs taken together.

    .. math:: CD = q_\alpha \sqrt{\frac{k (k + 1)}{6 N}}

    for k methods on N blocks. Here q is the upper α quantile of the studentised range of k means with infinitely many
    degrees of freedom, divided by √2.

    Parameters
    ----------
    n_methods
        Number of methods k ≥ 2.
    n_blocks
        Number of blocks (data sets) N ≥ 2.
    alpha
        Probability, in (0, 1), of finding any difference where there is none.

    Returns
    -------
    float
        The difference, in ranks.

    Raises
    ------
    ValueError
        If there are fewer than two methods or blocks, or alpha lies outside (0, 1).
    TypeError
        If n_methods or n_blocks is no integer.

    Notes
    -----
    The test is conservative, and more so with many methods or ties. `cliques` of ``abs(r_i - r_j) > CD`` are the bars
    of the diagram. The quantile is found by integration and takes milliseconds.

    References
    ----------
    Nemenyi 1963; Demšar 2006, section 3.2.2 and table 5(a).

    Examples
    --------
    >>> print(f"{nemenyi_difference(4, 14, alpha=0.1):.2f}")
    1.12
    """
    check_integer("n_methods", n_methods, 2, ": there is nothing to compare")
    check_integer("n_blocks", n_blocks, 2, ": there is nothing to compare")
    check_within("alpha", alpha, "(0, 1)", "; it is the probability of a false alarm, 0.05 for one")
    quantile = float(scipy.stats.studentized_range.isf(alpha, n_methods, np.inf))
    return quantile / 2**0.5 * (n_methods * (n_methods + 1) / (6 * n_blocks)) ** 0.5
