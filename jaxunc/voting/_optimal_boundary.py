r"""`optimal_votes`: the votes at which to stop two classes, with the fewest trees for a promised disagreement.

A state is (n, k): n votes so far, k of them for class 1. `ExchangeableVotes` has two probabilities for each state: p
that the next vote is for class 1, and e that the leader loses. A vote stops where the first term of V (see
`optimal_votes`) is at most the second. The larger the price L of an error, the fewer states stop, and the fewer errors
are made. `optimal_boundary` searches for the least price that keeps the promise, since it takes the fewest trees. The
search looks only at states that are reached at its highest price: what stops there stops at all lower prices.
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
    """Least votes that keep a promised disagreement with the fewest trees, and their costs if the prior is right."""

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

    A rule settles votes for the class in the lead, and lets ties go on. The share of instances that it settles for
    another class than the population's may be ``disagreement`` at most. Of all such rules the returned one has the
    least mean number of trees. Means are over the prior. It is found by backward induction; an error costs L trees:

    .. math:: V_n(k) = \min\{L\,e_n(k),\; 1 + (1 - p_n(k))\,V_{n+1}(k) + p_n(k)\,V_{n+1}(k + 1)\}

    after n votes, k of them for class 1; V is 0 at ``max_trees``. Here e is the probability that the leader loses, p
    that the next vote is for class 1, and L the least price that keeps ``disagreement``.

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
    Each price gives the best rule for the share of errors that it makes. Where ``disagreement`` lies between the shares
    of two rules, the rule with fewer errors is returned. Votes that weights exclude (all final counts that they can
    lead to have weight 0) go on to the end. In float64, on the host: .2 seconds for 500 trees, 1 second for 2000.

    The disagreement is a mean: instances near a tie are wrong more often, others hardly ever, and that saves trees.
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
    max_trees, n_trees = int(max_trees), int(n_trees)
    votes = exchangeable_votes(prior, population, n_trees, max_trees)
    boundary = optimal_boundary(votes, max_trees, float(disagreement))
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
    """Return how many votes of ``max_trees`` trees make class 0, and class 1, certain to win the population's vote.

    A finite population has ``n_trees`` trees. Where no number of votes is enough, the number is above ``max_trees``.
    """
    if population == "infinite":
        return np.full((2, 1), max_trees + 1, np.int32)
    more_than_rival = max_trees // 2 + 1  # no rule settles a tie
    least_zeros = max((n_trees + 1) // 2, more_than_rival)  # half is enough: class 0 wins a tie
    least_ones = max(n_trees // 2 + 1, more_than_rival)
    return np.array([[least_zeros], [least_ones]], np.int32)


class ExchangeableVotes(NamedTuple):
    """The probabilities of the next vote and of an error after n votes for two classes, k of them for class 1.

    The order of the votes does not matter. n goes from 0 to a horizon, the largest number of votes.
    """

    next_one: Callable[[int], Float[np.ndarray, "ones"]]
    """Function of n: the probability that the next vote is for class 1, for k = 0 … n."""
    wrong: States
    """Probability ``[n][k]`` that the leading class loses. Infinite where a vote must not stop: at ties, and in states
    that the prior excludes."""


def exchangeable_votes(prior: NumbersLike, population: Population, n_trees: int, horizon: int) -> ExchangeableVotes:
    """Return the probabilities of the next vote and of an error in all states of up to ``horizon`` votes.

    ``prior`` is that of `optimal_votes`. A finite population has ``n_trees`` trees, and class 0 wins its ties. Raises a
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
    """Return the probabilities of `exchangeable_votes` by ``weights [n_trees + 1]`` of final counts, which add to 1.

    The probability f_n(k) of one order of n votes, k of them for class 1, is f_{n+1}(k) + f_{n+1}(k+1): the next vote
    is for class 0, or for class 1.
    """
    k = np.arange(n_trees + 1)
    log_factorial = gammaln(np.arange(n_trees + 2) + 1.0)
    # log f at n = n_trees. A final count k has C(n_trees, k) orders, all of the same probability.
    with np.errstate(divide="ignore"):
        log_f = np.log(weights) - log_factorial[n_trees] + log_factorial[k] + log_factorial[n_trees - k]
    next_chances: States = [np.zeros(0)] * n_trees
    excluded: list[Bool[np.ndarray, "ones"]] = [np.isneginf(log_f)] * (n_trees + 1)
    for n in range(n_trees - 1, -1, -1):
        log_f_with_one = log_f[1:]
        log_f = np.logaddexp(log_f[:-1], log_f[1:])
        excluded[n] = np.isneginf(log_f)
        # Numbers for votes that the prior excludes do not matter: they go on to the end. 0 avoids -inf - -inf.
        log_divisor = np.where(excluded[n], 0.0, log_f)
        next_chances[n] = np.where(excluded[n], 0.5, np.exp(log_f_with_one - log_divisor))
    next_one = next_chances.__getitem__
    wrong = _wrong(*_chances_to_win(next_one, n_trees, horizon), next_one)
    # ``wrong`` ends at the horizon.
    wrong = [np.where(is_excluded, np.inf, error) for is_excluded, error in zip(excluded, wrong, strict=False)]
    return ExchangeableVotes(next_one, wrong)


def _chances_to_win(next_one, n_trees: int, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (probability that class 1 wins the vote of all ``n_trees`` trees, probability that it does not win).

    Both are ``[horizon + 1]``, by the number of votes for class 1 among the first ``horizon`` votes. In a tie class 1
    does not win. ``next_one`` is that of `ExchangeableVotes`.
    """
    won = (2 * np.arange(n_trees + 1) > n_trees).astype(float)
    lost = 1 - won
    for n in range(n_trees - 1, horizon - 1, -1):  # from the states of n + 1 votes to those of n
        p = next_one(n)
        won, lost = ((1 - p) * chance[:-1] + p * chance[1:] for chance in (won, lost))
    return won, lost


def _wrong(won, lost, next_one) -> States:
    """Return for each state the probability that the leading class loses; infinite for ties.

    ``won`` and ``lost`` are the probabilities at the horizon that class 1 wins, and that it does not: two arrays, since
    1 - ``won`` would lose digits. ``next_one`` is that of `ExchangeableVotes`.
    """
    horizon = len(won) - 1
    wrong = [np.zeros(0)] * (horizon + 1)
    for n in range(horizon, -1, -1):
        if n < horizon:  # from the states of n + 1 votes to those of n
            p = next_one(n)
            won, lost = ((1 - p) * chance[:-1] + p * chance[1:] for chance in (won, lost))
        wrong[n] = np.where(2 * np.arange(n + 1) > n, lost, won)
        if n % 2 == 0:
            wrong[n][n // 2] = np.inf  # a tie
    return wrong


class Region(NamedTuple):
    """The reachable states in which a vote goes on: for each n, from the least to the largest number for class 1."""

    first: list[int]  # by n, the least number of votes for class 1 with which a vote goes on
    last: list[int]  # the largest one


class OptimalBoundary(NamedTuple):
    """The states in which a vote goes on, and the mean costs over the prior.

    The last three fields are those of `OptimalVotes`.
    """

    goes_on: list[Bool[np.ndarray, "ones"]]
    """Whether a vote goes on, by n, for ``region.first[n]`` to ``region.last[n]`` votes for class 1."""
    region: Region
    horizon: int  # largest number of trees that is used
    n_trees_used: float
    disagreement: float
    polled_all: float

    def least_votes(self) -> Int32[np.ndarray, "2 polled"]:
        """Return the least votes for class 0, and for class 1, with which a vote stops after n votes, ``[2 horizon]``.

        The number is n + 1 where a class stops with no number of votes.
        """
        least = np.empty((2, self.horizon), np.int32)
        for n in range(self.horizon):
            open_ones = np.zeros(0)  # no state of n votes is reached: stop at any lead
            if n < len(self.goes_on):
                open_ones = self.region.first[n] + np.flatnonzero(self.goes_on[n])
            # One vote more than in a tie, and than in any state that goes on.
            least[1, n] = max(n // 2, open_ones.max(initial=0)) + 1
            least[0, n] = n - min((n + 1) // 2, open_ones.min(initial=n)) + 1
        return least

    def is_boundary(self) -> bool:
        """Return whether `least_votes` describes the boundary: no reachable state below the least votes stops."""
        least = self.least_votes()
        for n, (first, goes_on) in enumerate(zip(self.region.first, self.goes_on, strict=False)):
            stopping_ones = first + np.flatnonzero(~goes_on)
            if np.any((stopping_ones < least[1, n]) & (n - stopping_ones < least[0, n])):
                return False
        return True


def optimal_boundary(votes: ExchangeableVotes, horizon: int, disagreement: float) -> OptimalBoundary:
    """Return the boundary with the fewest trees whose share of errors is ``disagreement`` or less.

    At most ``horizon`` trees vote, with the probabilities ``votes``. Trees and errors are means over the prior.
    """
    # Never to stop costs `horizon` trees, so at the price `high` the share of errors is half of the promise at most.
    low, high = 1.0, 2 * horizon / disagreement
    region, _ = _stop_at_price(votes, horizon, high)
    for _ in range(ROUNDS):
        prices = np.geomspace(low, high, PRICES)
        keeps_promise = _errors(votes, region, prices) <= disagreement
        keeps_promise[-1] = True  # known of the highest price, whatever its sums round to
        best = int(np.argmax(keeps_promise))  # the least price that keeps the promise
        high = prices[best]
        if best == 0:
            break
        low = prices[best - 1]
    region, goes_on = _stop_at_price(votes, horizon, high)
    return OptimalBoundary(goes_on, region, horizon, *_mean_costs(votes, region, goes_on, horizon))


def _stop_at_price(votes: ExchangeableVotes, horizon: int, price: float) -> tuple[Region, list[np.ndarray]]:
    """Return the fields ``region`` and ``goes_on`` of the best `OptimalBoundary` if an error costs ``price`` trees."""
    region = Region([], [])
    goes_on = []
    first_reached, last_reached = 0, 0  # votes for class 1 that are reached after n votes
    for is_open in _going_on(votes, horizon, price):
        open_ones = first_reached + np.flatnonzero(is_open[first_reached : last_reached + 1])
        if not len(open_ones):
            break
        first, last = int(open_ones[0]), int(open_ones[-1])
        region.first.append(first)
        region.last.append(last)
        goes_on.append(is_open[first : last + 1])
        first_reached, last_reached = first, last + 1  # the next vote is for class 0, or for class 1
    return region, goes_on


def _going_on(votes: ExchangeableVotes, horizon: int, price: float) -> list[np.ndarray]:
    """Return for each state ``[n][k]`` whether going on costs less than stopping, if an error costs ``price`` trees.

    n is less than ``horizon``, the largest number of trees.
    """
    value = np.zeros(horizon + 1)  # the least cost in each state of n + 1 votes; 0 at the horizon
    goes_on = []
    for n in range(horizon - 1, -1, -1):
        p = votes.next_one(n)
        cost_further = 1 + (1 - p) * value[:-1] + p * value[1:]
        cost_stopped = price * votes.wrong[n]
        goes_on.append(cost_stopped > cost_further)
        value = np.minimum(cost_stopped, cost_further)
    return goes_on[::-1]


def _errors(
    votes: ExchangeableVotes, region: Region, prices: Float[np.ndarray, "prices"]
) -> Float[np.ndarray, "prices"]:
    """Return the share of errors that the best boundary makes at each price of an error.

    ``region`` is that of one price (`_stop_at_price`), and ``prices`` are at most that price.
    """
    price = prices[:, None]
    end = len(region.first)
    # Cost and share of errors ``[prices states]``, in the reachable states of n votes, from the last n back to 0.
    last_error = _reachable(votes, region, end)
    cost = price * last_error
    error = np.broadcast_to(last_error, (len(prices), len(last_error)))
    for n in range(end - 1, -1, -1):
        first = region.first[n]
        inner = slice(first, region.last[n] + 1)
        p = votes.next_one(n)[inner]
        wrong = votes.wrong[n][inner]
        cost_further = 1 + (1 - p) * cost[:, :-1] + p * cost[:, 1:]
        cost_stopped = price * wrong
        stops = cost_stopped <= cost_further
        error = np.where(stops, wrong, (1 - p) * error[:, :-1] + p * error[:, 1:])
        cost = np.where(stops, cost_stopped, cost_further)
        # Widen to all reachable states of n votes, which may begin below the region's: those outside of it stop.
        offset = first - (region.first[n - 1] if n else 0)
        stop_error = np.tile(_reachable(votes, region, n), (len(prices), 1))
        stop_cost = price * stop_error
        of_region = slice(offset, offset + len(p))
        stop_cost[:, of_region], stop_error[:, of_region] = cost, error
        cost, error = stop_cost, stop_error
    return error[:, 0]


def _reachable(votes: ExchangeableVotes, region: Region, n: int) -> Float[np.ndarray, "ones"]:
    """Return the probability of an error in each reachable state of n votes, if votes stop there.

    A state is reachable if a state of n - 1 votes in ``region`` leads to it. At the horizon the result is 0: a vote
    that is still open then is no error.
    """
    first, last = (region.first[n - 1], region.last[n - 1] + 1) if n else (0, 0)
    is_horizon = n == len(votes.wrong) - 1
    return np.zeros(last + 1 - first) if is_horizon else votes.wrong[n][first : last + 1]


def _mean_costs(votes: ExchangeableVotes, region: Region, goes_on: list, horizon: int) -> tuple[float, float, float]:
    """Return (mean number of trees used, disagreement, share of votes that ``horizon`` trees leave open).

    These are means over the prior, of the boundary with the fields ``region`` and ``goes_on`` (`OptimalBoundary`).
    """
    end = len(goes_on)
    errors = _reachable(votes, region, end)
    # Rows: trees still to be used, errors, and votes that the horizon leaves open; columns: reachable states.
    costs = np.stack([np.zeros_like(errors), errors, np.full_like(errors, end == horizon)])
    for n in range(end - 1, -1, -1):
        first, last = region.first[n], region.last[n] + 1
        p = votes.next_one(n)[first:last]
        is_open = goes_on[n]
        further = (1 - p) * costs[:, :-1] + p * costs[:, 1:]
        further[0] += 1
        stop_error = _reachable(votes, region, n)
        costs = np.stack([np.zeros_like(stop_error), stop_error, np.zeros_like(stop_error)])
        offset = first - (region.first[n - 1] if n else 0)
        of_region = costs[:, offset : offset + len(is_open)]  # a view
        of_region[:, is_open] = further[:, is_open]  # all others stop
    trees, error, unsettled = (float(cost[0]) for cost in costs)
    return trees, error, unsettled
