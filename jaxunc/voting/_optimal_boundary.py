r"""`optimal_votes`: the votes at which to stop two classes, with the fewest trees for a promised disagreement.

A state is (n, k): n votes so far, k of them for class 1. `ExchangeableVotes` has two probabilities for each state: p
that the next vote is for class 1, and e that the leader loses. A vote stops where the first term of V (see
`optimal_votes`) is at most the second. The larger the price L of an error, the fewer states stop, and the fewer errors
are made. The least price that keeps the promise takes the fewest trees: `optimal_boundary` searches for it. States that
stop at a high price stop at all lower ones. So the search looks only at states that are reached at its highest price.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int32
from scipy.special import betainc, gammaln

from jaxunc._checks import check_integer, check_one_of, check_within
from jaxunc.tables import NumbersLike

from ._leader_probability import POPULATIONS, Population, checked_weights, is_final_weights
from ._vote_prior import checked_prior

DISAGREEMENT = 0.01  # the disagreement by default

PRICES, ROUNDS = 16, 4
"""Number of prices that are tried together, and number of rounds: the last prices are within 1/1000 of each other."""

States = list[Float[np.ndarray, "ones"]]  # one number for each state, ``[n][k]``: k of n votes are for class 1


class OptimalVotes(NamedTuple):
    """The boundary with the fewest trees for a promised disagreement, and what it costs if the prior is right."""

    least: Int32[np.ndarray, "2 polled"]
    """Least votes with which class 0 and class 1 are settled, by number of trees used; -1 where no number is enough."""
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
    r"""Return the votes at which to stop, such that a limit on wrong answers is kept with the fewest trees.

    A rule settles votes for the class in the lead, and lets ties go on. Among the rules that settle at most a share
    ``disagreement`` of the instances for another class than the population's, this one has the least mean number of
    trees. Shares and means are over the prior. Computed by backward induction, where an error costs L trees:

    .. math:: V_n(k) = \min\{L\,e_n(k),\; 1 + (1 - p_n(k))\,V_{n+1}(k) + p_n(k)\,V_{n+1}(k + 1)\}

    after n votes, k of them for class 1. Here e is the probability that the leader loses, and p the probability that
    the next vote is for class 1. At ``max_trees`` V is 0. L is the least price that keeps the promise.

    Parameters
    ----------
    max_trees
        The largest number of trees that is used.
    disagreement
        The share of instances that may be settled for the wrong class, in (0, .5).
    population
        ``"infinite"``: the right class is the winner of an infinite ensemble. ``"finite"``: it is the winner of
        ``n_trees`` trees, class 0 in a tie. The promise is about settled votes alone: a vote that is open after
        ``max_trees`` trees is not an error.
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
        If a number is not a positive integer, the share lies outside of (0, .5), the population is unknown or has fewer
        trees than ``max_trees``, or the prior is traced or invalid, or so uneven that no such table is optimal.

    Notes
    -----
    Each price gives the best rule for the share of errors that it makes. Where the promise lies between the shares of
    two rules, the more careful rule is returned. Votes that weights exclude (final counts of weight 0) go on to the
    end. In float64, on the host: .2 seconds for 500 trees, 1 second for 2000.

    The promise is about the mean: instances near a tie are wrong more often, others hardly ever, and that saves trees.
    `critical_votes` promises a confidence to each instance.

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
    max_trees, n_trees, share = int(max_trees), int(n_trees), float(disagreement)
    boundary = optimal_boundary(exchangeable_votes(prior, population, n_trees, max_trees), max_trees, share)
    if not boundary.is_boundary():
        raise ValueError(
            "with this prior the fewest trees stop some votes that are nearer to a tie than others that go on, which "
            "no table of least votes can say; pass a smoother prior."
        )
    least = np.concatenate([boundary.least_votes(), _certain_votes(population, n_trees, max_trees)], axis=1)
    least = np.where(least > np.arange(max_trees + 1), -1, least).astype(np.int32)
    return OptimalVotes(least, boundary.n_trees_used, boundary.disagreement, boundary.polled_all)


def check_disagreement(disagreement: Any) -> None:
    """Raise a TypeError or a ValueError unless ``disagreement`` is a number in (0, .5)."""
    check_within("disagreement", disagreement, "(0, 0.5)", ": the share of instances that may be answered otherwise")


def _certain_votes(population: Population, n_trees: int, max_trees: int) -> Int32[np.ndarray, "2 1"]:
    """Return the least votes of ``max_trees`` trees with which class 0 and class 1 are certain to win the population's.

    The number is larger than ``max_trees`` where no number of votes is enough.
    """
    if population == "infinite":
        return np.full((2, 1), max_trees + 1, np.int32)
    more_than_rival = max_trees // 2 + 1
    least_zeros, least_ones = max((n_trees + 1) // 2, more_than_rival), max(n_trees // 2 + 1, more_than_rival)
    return np.array([[least_zeros], [least_ones]], np.int32)


class ExchangeableVotes(NamedTuple):
    """Probabilities of votes for two classes, where the order of the votes does not matter.

    Each probability belongs to a state (n, k): k of the n votes so far are for class 1. n goes up to a horizon.
    """

    next_one: Callable[[int], Float[np.ndarray, "ones"]]
    """Function of n: the probability that the next vote is for class 1, for k = 0 … n."""
    wrong: States
    """Probability ``[n][k]`` that the leading class loses. Infinite where a vote must not stop: at ties, and in states
    that the prior excludes."""


def exchangeable_votes(prior: NumbersLike, population: Population, n_trees: int, horizon: int) -> ExchangeableVotes:
    """Return the probabilities of at most ``horizon`` votes, by a Beta prior or by weights of the final counts.

    ``prior`` is as for `optimal_votes`. A finite population has ``n_trees`` trees, and class 0 wins its ties. Raises a
    ValueError for an invalid prior.
    """
    if is_final_weights(prior, population, n_trees):
        return _by_weights(checked_weights(prior), n_trees, horizon)
    alpha_of_zero, alpha_of_one = map(float, checked_prior(prior, 2))

    def next_one(n: int) -> Float[np.ndarray, "ones"]:
        return (alpha_of_one + np.arange(n + 1)) / (alpha_of_zero + alpha_of_one + n)

    if population == "finite":
        won, lost = _chances_to_win(next_one, n_trees, horizon)
    else:
        # By the Beta distribution of class 0's share after k votes for class 1, which wins if that share is below 1/2.
        k = np.arange(horizon + 1)
        won = betainc(alpha_of_zero + horizon - k, alpha_of_one + k, 0.5)
        lost = betainc(alpha_of_one + k, alpha_of_zero + horizon - k, 0.5)
    return ExchangeableVotes(next_one, _wrong(won, lost, next_one))


def _by_weights(weights: Float[np.ndarray, "ones"], n_trees: int, horizon: int) -> ExchangeableVotes:
    """Return `exchangeable_votes` by ``weights [n_trees + 1]`` of the final counts, scaled to add to 1.

    The probability f_n(k) of one order of n votes, k of them for class 1, is f_{n+1}(k) + f_{n+1}(k+1).
    """
    k, log_factorial = np.arange(n_trees + 1), gammaln(np.arange(n_trees + 2) + 1.0)
    # A final count k has C(n_trees, k) orders, all of the same probability.
    with np.errstate(divide="ignore"):
        log_paths = np.log(weights) - log_factorial[n_trees] + log_factorial[k] + log_factorial[n_trees - k]
    next_chances: States = [np.zeros(0)] * n_trees
    excluded: list[Bool[np.ndarray, "ones"]] = [np.isneginf(log_paths)] * (n_trees + 1)
    for n in range(n_trees - 1, -1, -1):
        shorter_paths = np.logaddexp(log_paths[:-1], log_paths[1:])
        excluded[n] = np.isneginf(shorter_paths)
        # The value does not matter where the prior excludes the votes: they go on to the end.
        next_chances[n] = np.where(excluded[n], 0.5, np.exp(log_paths[1:] - np.where(excluded[n], 0.0, shorter_paths)))
        log_paths = shorter_paths
    next_one = next_chances.__getitem__
    wrong = _wrong(*_chances_to_win(next_one, n_trees, horizon), next_one)
    wrong = [np.where(is_excluded, np.inf, error) for is_excluded, error in zip(excluded, wrong, strict=False)]
    return ExchangeableVotes(next_one, wrong)


def _chances_to_win(next_one, n_trees: int, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities that class 1 wins the vote of all trees, and that it does not, after ``horizon`` votes.

    Both ``[horizon + 1]``, by how many of these votes are for class 1. A tie of all ``n_trees`` trees is not won.
    ``next_one`` is as in `ExchangeableVotes`.
    """
    won = (2 * np.arange(n_trees + 1) > n_trees).astype(float)
    lost = 1 - won
    for n in range(n_trees - 1, horizon - 1, -1):
        p = next_one(n)
        won, lost = ((1 - p) * chance[:-1] + p * chance[1:] for chance in (won, lost))
    return won, lost


def _wrong(won, lost, next_one) -> States:
    """Return for each state the probability that the leader loses; infinite for ties.

    ``won`` and ``lost`` are, for each state at the horizon, the probabilities that class 1 wins and that it does not:
    two arrays, since 1 - ``won`` would round away. ``next_one`` is as in `ExchangeableVotes`.
    """
    wrong = [np.zeros(0)] * len(won)
    for n in range(len(won) - 1, -1, -1):
        if n < len(won) - 1:
            p = next_one(n)
            won, lost = ((1 - p) * chance[:-1] + p * chance[1:] for chance in (won, lost))
        wrong[n] = np.where(2 * np.arange(n + 1) > n, lost, won)
        if n % 2 == 0:
            wrong[n][n // 2] = np.inf
    return wrong


class Region(NamedTuple):
    """The least and the largest number of votes for class 1 with which a vote goes on, by n, among reachable states."""

    first: list[int]
    last: list[int]


class OptimalBoundary(NamedTuple):
    """States in which a vote goes on, and what it costs to stop in others under the prior (as in `OptimalVotes`)."""

    goes_on: list[Bool[np.ndarray, "ones"]]
    """Whether a vote goes on, by n, for ``region.first[n]`` to ``region.last[n]`` votes for class 1."""
    region: Region
    horizon: int  # largest number of trees that is used
    n_trees_used: float
    disagreement: float
    polled_all: float

    def least_votes(self) -> Int32[np.ndarray, "2 polled"]:
        """Return the least votes with which class 0 and class 1 stop, by number of votes n; n + 1 where none do."""
        least = np.empty((2, self.horizon), np.int32)
        for n in range(self.horizon):
            # States that cannot be reached stop at any lead.
            open_ones = self.region.first[n] + np.flatnonzero(self.goes_on[n]) if n < len(self.goes_on) else np.zeros(0)
            least[1, n] = max(n // 2, open_ones.max(initial=0)) + 1
            least[0, n] = n - min((n + 1) // 2, open_ones.min(initial=n)) + 1
        return least

    def is_boundary(self) -> bool:
        """Return whether all reachable states with fewer than the least votes go on, so that a table says all."""
        least = self.least_votes()
        for n, (first, goes_on) in enumerate(zip(self.region.first, self.goes_on, strict=False)):
            ones = first + np.flatnonzero(~goes_on)
            if np.any((ones < least[1, n]) & (n - ones < least[0, n])):
                return False
        return True


def optimal_boundary(votes: ExchangeableVotes, horizon: int, disagreement: float) -> OptimalBoundary:
    """Return the boundary with the fewest trees, ``horizon`` at most, among those that keep the ``disagreement``."""
    # Never to stop costs `horizon` trees, so at the price `high` the share of errors is half of the promise at most.
    low, high = 1.0, 2 * horizon / disagreement
    region, _ = _stop_at_price(votes, horizon, high)
    for _ in range(ROUNDS):
        prices = np.geomspace(low, high, PRICES)
        # The highest price is known to keep the promise, whatever its sums round to.
        best = int(np.argmax(np.append(_errors(votes, region, prices)[:-1] <= disagreement, True)))
        high = prices[best]
        if best == 0:
            break
        low = prices[best - 1]
    region, goes_on = _stop_at_price(votes, horizon, high)
    return OptimalBoundary(goes_on, region, horizon, *_mean_costs(votes, region, goes_on, horizon))


def _stop_at_price(votes: ExchangeableVotes, horizon: int, price: float) -> tuple[Region, list[np.ndarray]]:
    """Return (region, `OptimalBoundary.goes_on`) of the best boundary if a wrong answer costs ``price`` trees."""
    region, goes_on = Region([], []), []
    first_reached, last_reached = 0, 0  # votes for class 1 that are reached after n votes
    for is_open in _going_on(votes, horizon, price):
        ones = first_reached + np.flatnonzero(is_open[first_reached : last_reached + 1])
        if not len(ones):
            break
        first, last = int(ones[0]), int(ones[-1])
        region.first.append(first)
        region.last.append(last)
        goes_on.append(is_open[first : last + 1])
        first_reached, last_reached = first, last + 1
    return region, goes_on


def _going_on(votes: ExchangeableVotes, horizon: int, price: float) -> list[np.ndarray]:
    """Return for each state ``[n][k]`` whether going on costs less than stopping, if an error costs ``price`` trees."""
    value, goes_on = np.zeros(horizon + 1), []
    for n in range(horizon - 1, -1, -1):
        p = votes.next_one(n)
        cost_further, cost_stopped = 1 + (1 - p) * value[:-1] + p * value[1:], price * votes.wrong[n]
        goes_on.append(cost_stopped > cost_further)
        value = np.minimum(cost_stopped, cost_further)
    return goes_on[::-1]


def _errors(
    votes: ExchangeableVotes, region: Region, prices: Float[np.ndarray, "prices"]
) -> Float[np.ndarray, "prices"]:
    """Return the probability of a wrong answer at each price of an error.

    No price may be above the one that ``region`` was made at.
    """
    price, end = prices[:, None], len(region.first)
    chance = _reachable(votes, region, end)
    cost, error = price * chance, np.broadcast_to(chance, (len(prices), len(chance)))
    for n in range(end - 1, -1, -1):
        first, last = region.first[n], region.last[n] + 1
        p, chance = votes.next_one(n)[first:last], votes.wrong[n][first:last]
        cost_further, cost_stopped = 1 + (1 - p) * cost[:, :-1] + p * cost[:, 1:], price * chance
        stops = cost_stopped <= cost_further
        error = np.where(stops, chance, (1 - p) * error[:, :-1] + p * error[:, 1:])
        cost = np.where(stops, cost_stopped, cost_further)
        # Widen to the reachable states of n votes: those outside of the region stop, at all of the prices.
        offset = first - (region.first[n - 1] if n else 0)
        stop_error = np.tile(_reachable(votes, region, n), (len(prices), 1))
        stop_cost = price * stop_error
        for reachable, inside in ((stop_cost, cost), (stop_error, error)):
            reachable[:, offset : offset + inside.shape[1]] = inside
        cost, error = stop_cost, stop_error
    return error[:, 0]


def _reachable(votes: ExchangeableVotes, region: Region, n: int) -> Float[np.ndarray, "ones"]:
    """Return the probability of an error in each reachable state of n votes if it stops there; 0 at the horizon."""
    first, last = (region.first[n - 1], region.last[n - 1] + 1) if n else (0, 0)
    return votes.wrong[n][first : last + 1] if n < len(votes.wrong) - 1 else np.zeros(last + 1 - first)


def _mean_costs(votes: ExchangeableVotes, region: Region, goes_on: list, horizon: int) -> tuple[float, float, float]:
    """Return the mean number of trees used, the disagreement, and the share of votes that ``horizon`` trees leave open.

    They are means over the prior, for votes that go on where ``goes_on`` (`OptimalBoundary`) says so.
    """
    end = len(goes_on)
    errors = _reachable(votes, region, end)
    # Rows: trees still to be used, errors, and votes that the horizon leaves open; columns: reachable states.
    costs = np.stack([np.zeros_like(errors), errors, np.full_like(errors, end == horizon)])
    for n in range(end - 1, -1, -1):
        first, last = region.first[n], region.last[n] + 1
        p, is_open = votes.next_one(n)[first:last], goes_on[n]
        further = (1 - p) * costs[:, :-1] + p * costs[:, 1:]
        further[0] += 1
        stop_error = _reachable(votes, region, n)
        costs = np.stack([np.zeros_like(stop_error), stop_error, np.zeros_like(stop_error)])
        offset = first - (region.first[n - 1] if n else 0)
        inside = costs[:, offset : offset + len(is_open)]
        inside[:, is_open] = further[:, is_open]
    trees, error, unsettled = (float(cost[0]) for cost in costs)
    return trees, error, unsettled
