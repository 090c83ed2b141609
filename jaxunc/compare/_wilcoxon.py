"""Wilcoxon's signed-rank test of every pair of methods."""

from functools import partial

import numpy as np
import scipy.stats

from ._pairwise import Correction, PairwiseTests, pairwise
from ._values import Values, checked_values, tie_groups, tie_threshold

_EXACT = 50
"""Largest number of blocks whose distribution is counted out, as SciPy does; beyond it the normal one is taken."""


def pairwise_wilcoxon(
    values: Values,
    *,
    larger_is_better: bool,
    correction: Correction = "holm",
    decimals: int = 9,
) -> PairwiseTests:
    r"""Two-sided signed-rank tests of all pairs of methods over data sets.

    With :math:`d_b` the difference of two methods on block b and :math:`r_b` the rank of :math:`|d_b|`:

    .. math:: p = \min\!\big(1,\ 2 P(T \le \min(R_+, R_-))\big), \qquad
              R_\pm = \sum_{b: \pm d_b > 0} r_b, \qquad T = \sum_{b: d_b \ne 0} r_b\, \epsilon_b

    where each ε is 0 or 1 with probability one half. The p-values are then adjusted for the number of pairs.

    Parameters
    ----------
    values
        A value per block (a data set) and method, two or more of each.
    larger_is_better
        True for accuracies and areas, False for losses, errors and times. Only the wins depend on it.
    correction
        ``"holm"``, ``"bonferroni"`` or ``"none"``.
    decimals
        Differences below 10^-decimals are 0, and absolute differences that close have equal ranks.

    Returns
    -------
    PairwiseTests
        ``p_values`` and ``wins`` ``[methods methods]``.

    Raises
    ------
    ValueError
        If there are fewer than two blocks or methods, a value is NaN or infinite, or the correction is unknown.
    TypeError
        If the values are no numbers or decimals is no integer.

    Notes
    -----
    Zero differences are ranked with the others and then favour neither method (Pratt). Splitting their ranks evenly, as
    Demšar does, is the same test when p-values are exact. Two methods that tie on all blocks: p = 1.

    Up to 50 blocks p-values are exact, ties and zeros included; beyond, they are SciPy's normal approximation. The
    least possible p-value is 2^(1 - N): with fewer than 6 blocks nothing is significant at 0.05. Blocks must be
    independent; for splits of one data set take `pairwise_corrected_t`.

    References
    ----------
    Wilcoxon 1945; Pratt 1959; Demšar 2006, section 3.1.3; Benavoli, Corani and Mangili 2016 (pairwise signed ranks
    rather than average ranks, because those depend on the other methods).

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[0.9, 0.8], [0.8, 0.75], [0.7, 0.68], [0.6, 0.63], [0.95, 0.8], [0.5, 0.3]])
    >>> tests = pairwise_wilcoxon(values, larger_is_better=True)
    >>> print(tests.p_values[0, 1], tests.wins.tolist())
    0.09375 [[0, 5], [1, 0]]
    """
    threshold = tie_threshold(decimals)
    return pairwise(
        checked_values(values),
        partial(_p_value, threshold=threshold),
        threshold=threshold,
        larger_is_better=larger_is_better,
        correction=correction,
    )


def _p_value(differences, threshold):
    # Whole numbers in the order of the sizes, 0 where there is no difference: they have the same ranks without noise.
    sizes = tie_groups(np.concatenate([[0.0], np.abs(differences)]), threshold)[1:]
    signed = np.sign(differences) * sizes
    if not np.any(signed):
        return 1.0
    if len(signed) > _EXACT:
        _, p_value = scipy.stats.wilcoxon(signed, zero_method="pratt")
        return float(np.asarray(p_value))
    return _exact_p_value(signed)


def _exact_p_value(signed):
    # Doubled ranks are integers, ties included; their sums are counted out by adding one rank at a time.
    twice = np.rint(2 * scipy.stats.rankdata(np.abs(signed))).astype(int)
    smaller = min(int(twice[signed > 0].sum()), int(twice[signed < 0].sum()))
    chance = np.zeros(smaller + 1)  # of each sum of ranks, as far as it is asked for
    chance[0] = 1.0
    for step in twice[signed != 0]:
        chance[step:] += chance[:-step]
        chance /= 2
    return min(1.0, 2 * float(chance.sum()))
