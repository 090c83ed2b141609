"""Tables of the votes with which a poll of two classes stops, by the fewest trees for a promised disagreement."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int32

from jaxunc._checks import check_integer, check_one_of, check_within, is_concrete
from jaxunc.tables import NumbersLike

from ._leader import POPULATIONS, Population
from ._optimal_boundary import optimal_boundary
from ._urns import vote_urn

DISAGREEMENT = 0.01
"""The share that is promised where none is said."""


class OptimalVotes(NamedTuple):
    """The boundary with the fewest trees for a promised disagreement, and what it costs if the prior is right."""

    least: Int32[np.ndarray, "2 polled"]
    """Least votes with which class 0 and class 1 settle a poll of so many trees; -1 where no number does."""
    n_trees_used: float
    """Mean number of trees polled."""
    disagreement: float
    """Share of instances that are settled for the wrong class: the promise, or just below."""
    polled_all: float
    """Share of instances that poll ``max_trees`` trees."""


def optimal_votes(
    max_trees: int,
    disagreement: float,
    *,
    population: Population = "infinite",
    prior: NumbersLike = 1.0,
    n_trees: int | None = None,
) -> OptimalVotes:
    r"""Return the votes at which to stop so that a share of wrong answers is kept with the fewest trees.

    Of all rules that settle a poll for the class in the lead, and let it go on at a tie, the one with the least mean
    number of trees among those that settle at most a share ``disagreement`` of the instances for another class than
    the population's. The means are over the prior. By backward induction, with a price L of an error in trees:

    .. math:: V_n(k) = \min\{L\,e_n(k),\; 1 + (1 - p_n(k))\,V_{n+1}(k) + p_n(k)\,V_{n+1}(k + 1)\}

    after n trees, k of them for class 1, where e is the probability that the leader loses, and p that the next vote is
    for class 1. The poll ends at ``max_trees``, at no further price. L is the least that keeps the promise.

    Parameters
    ----------
    max_trees
        The largest number of trees that is polled.
    disagreement
        The share of instances, in (0, .5).
    population
        ``"infinite"``: the class is that of an ensemble without end; a poll that reaches ``max_trees`` is not settled,
        and counts for nothing. ``"finite"``: of ``n_trees`` trees; of a tie, class 0. With ``max_trees`` below those
        the promise is of settled polls alone there, too.
    prior
        α of the Dirichlet prior, one number or one for each of two classes (`fit_vote_prior` learns it). Of a finite
        population also the weights of its final counts, from 0 to n_trees votes for class 1 ``[n_trees + 1]``.
    n_trees
        The finite population's number of trees; by default ``max_trees``.

    Returns
    -------
    OptimalVotes
        The table, ``[2 max_trees+1]``, for class 0 and class 1, and what is expected under the prior.

    Raises
    ------
    TypeError, ValueError
        If a number is no positive integer, the share lies outside of (0, .5), the population is unknown, it has fewer
        trees than are polled, or the prior is none.

    Notes
    -----
    Each rule of this form is the best for the share that it has; a share between two of them is met by the more careful
    one. Votes that weights exclude (final counts of weight 0) are polled to the end. In float64, on the host: .2
    seconds for 500 trees, 1 second for 2000.

    The promise is one of the mean. Instances near a tie are wrong more often than the share says, others hardly ever:
    that is what saves trees. `critical_votes` promises a confidence to each instance.

    References
    ----------
    Backward induction: Arrow, Blackwell and Girshick 1949. Kalman and Moscovich 2026 (arXiv 2606.15237) find such rules
    by linear programs.

    Examples
    --------
    >>> table = optimal_votes(100, 0.01, population="finite")
    >>> table.least[:, :8]
    array([[-1, -1, -1, -1, -1, -1,  6,  7],
           [-1, -1, -1, -1, -1, -1,  6,  7]], dtype=int32)
    >>> f"{table.n_trees_used:.1f} trees, {table.disagreement:.2%} differ"
    '24.0 trees, 1.00% differ'
    """
    check_integer("max_trees", max_trees, 1)
    check_disagreement(disagreement)
    check_one_of("population", population, POPULATIONS)
    n_trees = max_trees if n_trees is None else n_trees
    check_integer("n_trees", n_trees, 1)
    if n_trees < max_trees:
        raise ValueError(f"max_trees={max_trees}, but the population has n_trees={n_trees}.")
    if not is_concrete(prior):
        raise ValueError("prior is traced, but the table is made on the host; call it outside of jit.")
    max_trees, n_trees, share = int(max_trees), int(n_trees), float(disagreement)
    found = optimal_boundary(vote_urn(prior, population, n_trees, max_trees), max_trees, share)
    if not found.is_boundary():
        raise ValueError(
            "with this prior the fewest trees give up on some votes that are nearer to a tie than others that are "
            "polled on, which no table of least votes can say; pass a smoother prior."
        )
    least = np.concatenate([found.least_votes(), _at_the_end(population, n_trees, max_trees)], axis=1)
    least = np.where(least > np.arange(max_trees + 1), -1, least).astype(np.int32)
    return OptimalVotes(least, found.n_trees_used, found.disagreement, found.polled_all)


def check_disagreement(disagreement: Any) -> None:
    """Raise a TypeError or a ValueError unless it is a share in (0, .5)."""
    check_within("disagreement", disagreement, "(0, 0.5)", ": the share of instances that may be answered otherwise")


def _at_the_end(population: Population, n_trees: int, max_trees: int) -> Int32[np.ndarray, "2 1"]:
    """Return the votes of the last poll that are certain to win; more than there are of an infinite population."""
    if population == "infinite":
        return np.full((2, 1), max_trees + 1, np.int32)
    more_than_rival = max_trees // 2 + 1
    zero, one = max((n_trees + 1) // 2, more_than_rival), max(n_trees // 2 + 1, more_than_rival)
    return np.array([[zero], [one]], np.int32)
