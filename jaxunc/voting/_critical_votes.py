"""Critical votes: how many a class needs among so many trees, as tables in exact arithmetic."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from jaxtyping import Int32
from scipy.special import betainc

from jaxunc._checks import check_confidence, check_integer
from jaxunc.tables import NumbersLike

from ._overtaken import allowed_loss, overtaken_by_one
from ._prior import checked_prior


def critical_votes(max_trees: int, confidence: float, *, prior: NumbersLike = 1.0) -> Int32[np.ndarray, "..."]:
    r"""Return the least votes of t trees with which the leader of two classes wins the infinite vote.

    .. math:: t^*(t; \pi) = \min\{t_1 \ge t/2 : I_{1/2}(t - t_1 + \alpha,\; t_1 + \alpha) > \pi\}

    Computed in integers (by the binomial sum of Eq. 7) if α is one, so that no rounding decides; a confidence such as
    .99 is the double of that name. For any other prior the incomplete beta function in float64. Trees that abstain are
    not among the t.

    Parameters
    ----------
    max_trees
        The largest t.
    confidence
        π in (.5, 1), both excluded.
    prior
        α of the Dirichlet prior: one number, or one for each of two classes.

    Returns
    -------
    np.ndarray
        ``[max_trees + 1]``, by t; -1 where no number of votes suffices. With a prior for each class
        ``[2 max_trees+1]``, for class 0 and class 1.

    Raises
    ------
    TypeError, ValueError
        If ``max_trees`` is no positive integer, the confidence lies outside of (.5, 1), or the prior is not positive.

    References
    ----------
    Hernández-Lobato et al. 2011, section 2.2 and Figure 3.

    Examples
    --------
    >>> critical_votes(8, 0.99)
    array([-1, -1, -1, -1, -1, -1,  6,  7,  8], dtype=int32)
    """
    check_integer("max_trees", max_trees, 1)
    check_confidence(confidence)
    alpha: np.ndarray = checked_prior(prior, 2)
    tables = np.stack([_table(max_trees, confidence, alpha[c], alpha[1 - c]) for c in range(1 if _alike(prior) else 2)])
    return tables[0] if _alike(prior) else tables


def critical_final_votes(
    max_trees: int, confidence: float, *, prior: NumbersLike = 1.0
) -> Int32[np.ndarray, "2 polled"]:
    r"""Return the least votes with which a class leads when all ``max_trees`` trees have voted, at this confidence.

    Given t votes, those of the T - t trees that remain are Beta-binomial; the class that leads wins unless the others
    overtake it, class 0 also by a tie (argmax takes the first). ``[2 max_trees+1]``, for class 0 and class 1; -1 where
    no number of votes suffices. No tree abstains: where one may, `stop_after` judges without a table. The forerunner of
    the paper (Hernández-Lobato et al. 2009).

    Parameters
    ----------
    max_trees
        Trees that vote in the end, T ≥ 1.
    confidence
        The probability of having won that suffices, in (0, 1).
    prior
        α of the Beta prior, > 0: one number, or one for each class.
    """
    check_integer("max_trees", max_trees, 1)
    check_confidence(confidence)
    alpha: np.ndarray = checked_prior(prior, 2)

    def lost(c: int) -> Callable[[int, int], float]:
        shapes = float(alpha[c]), float(alpha[1 - c])
        return lambda t, rival: overtaken_by_one(t - rival, rival, max_trees, shapes, first=c == 1)

    return np.stack([_least_votes(max_trees, lost(c), allowed_loss(confidence)) for c in (0, 1)])


def _alike(prior) -> bool:
    return np.ndim(prior) == 0


def _table(max_trees: int, confidence: float, own: float, other: float) -> Int32[np.ndarray, "polled"]:
    if own == other == 1:
        return _exact_table(max_trees, confidence)
    lost = lambda t, rival: float(betainc(t - rival + own, rival + other, 0.5))  # noqa: E731
    return _least_votes(max_trees, lost, 1 - confidence)


def _exact_table(max_trees: int, confidence: float) -> Int32[np.ndarray, "polled"]:
    """Tabulate the least votes where the leader loses with 2⁻ⁿ Σ_{k≤m} C(n, k), n = t + 1.

    Here m is the rival's votes; both sums go from n to n + 1.
    """
    # Whole numbers from here on: a vote that just reaches the confidence must not depend on rounding.
    allowed = 1 - Fraction(float(confidence))
    least, m = np.full(max_trees + 1, -1, np.int32), -1
    ways, total = 0, 0  # C(n, m), and the sum up to it
    for n in range(2, max_trees + 2):
        # Pascal's rule: Σ_{k≤m} C(n+1, k) = 2 Σ_{k≤m} C(n, k) - C(n, m).
        total, ways = 2 * total - ways, ways + ways * m // (n - m) if m >= 0 else 0
        more = ways * (n - m) // (m + 1) if m >= 0 else 1  # C(n, m + 1)
        if (total + more) * allowed.denominator < allowed.numerator << n:
            total, ways, m = total + more, more, m + 1
        if m >= 0:
            least[n - 1] = n - 1 - m
    return least


def _least_votes(max_trees: int, lost: Callable[[int, int], float], allowed: float) -> Int32[np.ndarray, "polled"]:
    """Return by t the least votes with ``lost(t, votes of the rival) < allowed``; the rival's grow by one at most."""
    least, rival = np.full(max_trees + 1, -1, np.int32), -1
    for t in range(1, max_trees + 1):
        while 2 * (rival + 1) < t and lost(t, rival + 1) < allowed:
            rival += 1
        if rival >= 0:
            least[t] = t - rival
    return least
