r"""`optimal_votes`: the votes at which to stop two classes, with the fewest trees for a promised disagreement.

A state is (votes so far n, those for class 1 k). `ExchangeableVotes` has the two probabilities of each state: p that
the next vote is for class 1, and e that the leader loses. A vote stops where the first term of V (see `optimal_votes`)
is not larger. The larger the price L of an error, the fewer states stop, and the fewer errors are made. The least
price that keeps the promise has the fewest trees: `optimal_boundary` searches it. States that stop at a price too
large stop at all smaller ones. So only states that are reached at that price are looked at, at many prices together.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int32
from scipy.special import betainc, gammaln

from jaxunc._checks import check_integer, check_one_of, check_within, is_concrete
from jaxunc.tables import NumbersLike

from ._leader_probability import POPULATIONS, Population, checked_weights, is_final_weights
from ._vote_prior import checked_prior

DISAGREEMENT = 0.01
"""The disagreement by default."""

PRICES, ROUNDS = 16, 4
"""Number of prices that are tried together, and how often: the last ones are closer than one in a thousand."""

States = list[Float[np.ndarray, "ones"]]
"""Numbers of the states of each number of votes n: ``[n][ones]``, for 0 to n votes for class 1."""


class OptimalVotes(NamedTuple):
    """The boundary with the fewest trees for a promised disagreement, and what it costs if the prior is right."""

    least: Int32[np.ndarray, "2 polled"]
    """By number of trees the least votes with which class 0 and class 1 settle; -1 where no number does."""
    n_trees_used: float
    """Mean number of trees used."""
    disagreement: float
    """Share of instances that are settled for the wrong class: the promise, or just below."""
    polled_all: float
    """Share of instances that use ``max_trees`` trees."""


def optimal_votes(
    max_trees: int,
    disagreement: float,
    *,
    population: Population = "infinite",
    prior: NumbersLike = 1.0,
    n_trees: int | None = None,
) -> OptimalVotes:
    r"""Return the votes at which to stop so that a share of wrong answers is kept with the fewest trees.

    A rule settles votes for the class in the lead, and lets ties go on. Among the rules that settle at most a share
    ``disagreement`` of the instances for another class than the population's, this one has the least mean number of
    trees. The means are over the prior. By backward induction, with a price L of an error in trees:

    .. math:: V_n(k) = \min\{L\,e_n(k),\; 1 + (1 - p_n(k))\,V_{n+1}(k) + p_n(k)\,V_{n+1}(k + 1)\}

    after n trees, k of them for class 1, where e is the probability that the leader loses, and p that the next vote is
    for class 1. All ends at ``max_trees``, at no further price. L is the least that keeps the promise.

    Parameters
    ----------
    max_trees
        The largest number of trees that is used.
    disagreement
        The share of instances, in (0, .5).
    population
        ``"infinite"``: the class is that of an infinite ensemble; a vote that reaches ``max_trees`` is not settled, and
        counts for nothing. ``"finite"``: the class is that of ``n_trees`` trees; of a tie, class 0. With ``max_trees``
        below those the promise is about settled votes alone there, too.
    prior
        α of the Dirichlet prior, one number or one for each of two classes (`fit_vote_prior` learns it). For a finite
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
        If a number is no positive integer, the share lies outside of (0, .5), the population is unknown or has fewer
        trees than ``max_trees``, or the prior is none.

    Notes
    -----
    Each rule of this form is the best for the share that it has; a share between two of them is met by the more careful
    one. Votes that weights exclude (final counts of weight 0) go on to the end. In float64, on the host: .2 seconds for
    500 trees, 1 second for 2000.

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
    boundary = optimal_boundary(exchangeable_votes(prior, population, n_trees, max_trees), max_trees, share)
    if not boundary.is_boundary():
        raise ValueError(
            "with this prior the fewest trees stop some votes that are nearer to a tie than others that go on, which "
            "no table of least votes can say; pass a smoother prior."
        )
    least = np.concatenate([boundary.least_votes(), _at_the_end(population, n_trees, max_trees)], axis=1)
    least = np.where(least > np.arange(max_trees + 1), -1, least).astype(np.int32)
    return OptimalVotes(least, boundary.n_trees_used, boundary.disagreement, boundary.polled_all)


def check_disagreement(disagreement: Any) -> None:
    """Raise a TypeError or a ValueError unless it is a share in (0, .5)."""
    check_within("disagreement", disagreement, "(0, 0.5)", ": the share of instances that may be answered otherwise")


def _at_the_end(population: Population, n_trees: int, max_trees: int) -> Int32[np.ndarray, "2 1"]:
    """Return the votes of ``max_trees`` trees that are certain to win; more than there are if there is no end."""
    if population == "infinite":
        return np.full((2, 1), max_trees + 1, np.int32)
    more_than_rival = max_trees // 2 + 1
    zeros, ones = max((n_trees + 1) // 2, more_than_rival), max(n_trees // 2 + 1, more_than_rival)
    return np.array([[zeros], [ones]], np.int32)


class ExchangeableVotes(NamedTuple):
    """Votes of two classes in random order, so that (votes so far, votes for class 1) says all; up to a horizon."""

    next_one: Callable[[int], Float[np.ndarray, "ones"]]
    """After n votes: the probability that the next is for class 1, by how many of the n were."""
    wrong: States
    """Probability that the class in the lead loses; infinite for ties and for votes that the prior excludes."""


def exchangeable_votes(prior: NumbersLike, population: Population, n_trees: int, horizon: int) -> ExchangeableVotes:
    """Return the probabilities of at most ``horizon`` votes: with a Beta prior, or weights of the final counts.

    Class 0 wins the ties of a finite population, which has ``n_trees``. Raises a ValueError for a prior that is none.
    """
    if is_final_weights(prior, population, n_trees):
        return _by_weights(checked_weights(prior), n_trees, horizon)
    alpha_of_zero, alpha_of_one = map(float, checked_prior(prior, 2))

    def next_one(n: int) -> Float[np.ndarray, "ones"]:
        return (alpha_of_one + np.arange(n + 1)) / (alpha_of_zero + alpha_of_one + n)

    if population == "finite":
        won, lost = _chances_to_win(next_one, n_trees, horizon)
    else:
        k = np.arange(horizon + 1)
        won = betainc(alpha_of_zero + horizon - k, alpha_of_one + k, 0.5)
        lost = betainc(alpha_of_one + k, alpha_of_zero + horizon - k, 0.5)
    return ExchangeableVotes(next_one, _wrong(won, lost, next_one))


def _by_weights(weights: Float[np.ndarray, "ones"], n_trees: int, horizon: int) -> ExchangeableVotes:
    """Return the votes by weights of final counts: f_n(k) = f_{n+1}(k) + f_{n+1}(k+1) for one order of n votes."""
    k, log = np.arange(n_trees + 1), gammaln(np.arange(n_trees + 2) + 1.0)
    with np.errstate(divide="ignore"):
        paths = np.log(weights) - log[n_trees] + log[k] + log[n_trees - k]
    chances: States = [np.zeros(0)] * n_trees
    excluded: list[Bool[np.ndarray, "ones"]] = [np.isneginf(paths)] * (n_trees + 1)
    for n in range(n_trees - 1, -1, -1):
        before = np.logaddexp(paths[:-1], paths[1:])
        excluded[n] = np.isneginf(before)
        # What follows votes that the prior excludes does not matter: they go on to the end.
        chances[n] = np.where(excluded[n], 0.5, np.exp(paths[1:] - np.where(excluded[n], 0.0, before)))
        paths = before
    next_one = chances.__getitem__
    wrong = _wrong(*_chances_to_win(next_one, n_trees, horizon), next_one)
    wrong = [np.where(out, np.inf, of) for out, of in zip(excluded, wrong, strict=False)]
    return ExchangeableVotes(next_one, wrong)


def _chances_to_win(next_one, n_trees: int, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities that class 1 wins the vote of all trees, and that it does not, after ``horizon`` votes.

    Both ``[horizon + 1]``, by how many of these votes are for class 1. A tie of all trees is not won.
    """
    won = (2 * np.arange(n_trees + 1) > n_trees).astype(float)
    lost = 1 - won
    for n in range(n_trees - 1, horizon - 1, -1):
        p = next_one(n)
        won, lost = ((1 - p) * of[:-1] + p * of[1:] for of in (won, lost))
    return won, lost


def _wrong(won, lost, next_one) -> States:
    """Return by n the probability that the leader loses; both chances, since 1 less one of them would round away."""
    wrong = [np.zeros(0)] * len(won)
    for n in range(len(won) - 1, -1, -1):
        if n < len(won) - 1:
            p = next_one(n)
            won, lost = ((1 - p) * of[:-1] + p * of[1:] for of in (won, lost))
        wrong[n] = np.where(2 * np.arange(n + 1) > n, lost, won)
        if n % 2 == 0:
            wrong[n][n // 2] = np.inf
    return wrong


class Region(NamedTuple):
    """Votes for class 1 between which a vote goes on: by n the first and the last number, reachable ones alone."""

    first: list[int]
    last: list[int]


class OptimalBoundary(NamedTuple):
    """States in which a vote stops, and what that costs under the prior."""

    goes_on: list[Bool[np.ndarray, "ones"]]
    """By n, for the reachable votes for class 1 from ``region.first[n]`` on: whether the vote goes on."""
    region: Region
    horizon: int
    n_trees_used: float
    disagreement: float
    polled_all: float

    def least_votes(self) -> Int32[np.ndarray, "2 polled"]:
        """Return the least votes with which class 0 and class 1 stop after n; n + 1 where none do."""
        least = np.empty((2, self.horizon), np.int32)
        for n in range(self.horizon):
            # A vote that cannot get here stops at any lead.
            on = self.region.first[n] + np.flatnonzero(self.goes_on[n]) if n < len(self.goes_on) else np.zeros(0)
            least[1, n] = max(n // 2, on.max(initial=0)) + 1
            least[0, n] = n - min((n + 1) // 2, on.min(initial=n)) + 1
        return least

    def is_boundary(self) -> bool:
        """Return whether all leads stop from the least on, and none before: what a table of least votes can say."""
        least = self.least_votes()
        for n, (first, goes_on) in enumerate(zip(self.region.first, self.goes_on, strict=False)):
            ones = first + np.flatnonzero(~goes_on)
            if np.any((ones < least[1, n]) & (n - ones < least[0, n])):
                return False
        return True


def optimal_boundary(votes: ExchangeableVotes, horizon: int, disagreement: float) -> OptimalBoundary:
    """Return the boundary with the fewest trees among those that keep the promise."""
    # Never to stop costs the horizon, so that at this price no more than the promise is spent on errors.
    low, high = 1.0, 2 * horizon / disagreement
    region, _ = _stop_at_price(votes, horizon, high)
    for _ in range(ROUNDS):
        prices = np.geomspace(low, high, PRICES)
        # The largest is known to keep the promise, whatever its sums round to.
        i = int(np.argmax(np.append(_errors(votes, region, prices)[:-1] <= disagreement, True)))
        high = prices[i]
        if i == 0:
            break
        low = prices[i - 1]
    region, goes_on = _stop_at_price(votes, horizon, high)
    return OptimalBoundary(goes_on, region, horizon, *_costs(votes, region, goes_on, horizon))


def _stop_at_price(votes: ExchangeableVotes, horizon: int, price: float) -> tuple[Region, list[np.ndarray]]:
    """Return the states that go on where a wrong answer costs ``price`` trees: their region, and by n which of it do.

    A region has the first and the last number of votes for class 1 that go on among those that can be reached.
    """
    first, last, goes_on, low, high = [], [], [], 0, 0
    for flags in _going_on(votes, horizon, price):
        ones = low + np.flatnonzero(flags[low : high + 1])
        if not len(ones):
            break
        low, high = int(ones[0]), int(ones[-1])
        first.append(low)
        last.append(high)
        goes_on.append(flags[low : high + 1])
        high += 1
    return Region(first, last), goes_on


def _going_on(votes: ExchangeableVotes, horizon: int, price: float) -> list[np.ndarray]:
    """Return by n, for every number of votes for class 1, whether to go on costs less than to stop."""
    value, on = np.zeros(horizon + 1), []
    for n in range(horizon - 1, -1, -1):
        p = votes.next_one(n)
        further, stopped = 1 + (1 - p) * value[:-1] + p * value[1:], price * votes.wrong[n]
        on.append(stopped > further)
        value = np.minimum(stopped, further)
    return on[::-1]


def _errors(
    votes: ExchangeableVotes, region: Region, prices: Float[np.ndarray, "prices"]
) -> Float[np.ndarray, "prices"]:
    """Return the probability of a wrong answer at each price, none of them above that of the region."""
    price, end = prices[:, None], len(region.first)
    chance = _reachable(votes, region, end)
    value, error = price * chance, np.broadcast_to(chance, (len(prices), len(chance)))
    for n in range(end - 1, -1, -1):
        first, last = region.first[n], region.last[n] + 1
        p, chance = votes.next_one(n)[first:last], votes.wrong[n][first:last]
        further, stopped = 1 + (1 - p) * value[:, :-1] + p * value[:, 1:], price * chance
        stops = stopped <= further
        error = np.where(stops, chance, (1 - p) * error[:, :-1] + p * error[:, 1:])
        value = np.where(stops, stopped, further)
        # Around those that may go on lie reachable ones that stop at all of the prices.
        before, whole = first - (region.first[n - 1] if n else 0), _reachable(votes, region, n)
        around = [np.broadcast_to(whole, (len(prices), len(whole))).copy() for _ in range(2)]
        around[0] *= price
        for of, inside in zip(around, (value, error), strict=True):
            of[:, before : before + inside.shape[1]] = inside
        value, error = around
    return error[:, 0]


def _reachable(votes: ExchangeableVotes, region: Region, n: int) -> Float[np.ndarray, "ones"]:
    """Return the probability of an error in each reachable state of n votes, where all stop; 0 at the horizon."""
    first, last = (region.first[n - 1], region.last[n - 1] + 1) if n else (0, 0)
    return votes.wrong[n][first : last + 1] if n < len(votes.wrong) - 1 else np.zeros(last + 1 - first)


def _costs(votes: ExchangeableVotes, region: Region, goes_on: list, horizon: int) -> tuple[float, float, float]:
    """Return what is expected: trees used, disagreement, and unsettled votes."""
    end = len(goes_on)
    errors = _reachable(votes, region, end)
    costs = np.stack([np.zeros_like(errors), errors, np.full_like(errors, end == horizon)])
    for n in range(end - 1, -1, -1):
        first, last = region.first[n], region.last[n] + 1
        p, on = votes.next_one(n)[first:last], goes_on[n]
        further = (1 - p) * costs[:, :-1] + p * costs[:, 1:]
        further[0] += 1
        whole = _reachable(votes, region, n)
        costs = np.stack([np.zeros_like(whole), whole, np.zeros_like(whole)])
        before = first - (region.first[n - 1] if n else 0)
        inside = costs[:, before : before + len(on)]
        inside[:, on] = further[:, on]
    trees, error, unsettled = (float(of[0]) for of in costs)
    return trees, error, unsettled
