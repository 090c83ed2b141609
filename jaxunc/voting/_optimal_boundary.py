r"""The fewest trees for a promised disagreement: backward induction with a price for each wrong answer.

With e the probability that the leader loses, p that the next vote is for class 1, and L trees as the price of an error,

.. math:: V_n(k) = \min(L\,e_n(k),\; 1 + (1 - p)\,V_{n+1}(k) + p\,V_{n+1}(k+1)), \qquad V_{horizon} = 0,

and a vote stops where the first is not larger. The larger the price, the fewer states stop, and the fewer errors are
made; the least price that keeps the promise has the fewest trees. States that stop at a price too large stop at all
smaller ones, so only what can be reached at that price is looked at, at many prices together.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int32

from ._urns import VoteUrn

PRICES, ROUNDS = 16, 4
"""Number of prices that are tried together, and how often: the last ones are closer than one in a thousand."""


class Region(NamedTuple):
    """Votes for class 1 between which a poll goes on: by n the first and the last number, reachable ones alone."""

    first: list[int]
    last: list[int]


class OptimalBoundary(NamedTuple):
    """States in which a vote stops, and what that costs under the prior."""

    goes_on: list[Bool[np.ndarray, "ones"]]
    """By n, for the reachable votes for class 1 from ``region.first[n]`` on: whether the poll goes on."""
    region: Region
    horizon: int
    n_trees_used: float
    disagreement: float
    polled_all: float

    def least_votes(self) -> Int32[np.ndarray, "2 polled"]:
        """Return the least votes with which class 0 and class 1 stop a poll of n; n + 1 where none do."""
        least = np.empty((2, self.horizon), np.int32)
        for n in range(self.horizon):
            # A poll that cannot get here stops at any lead.
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


def optimal_boundary(urn: VoteUrn, horizon: int, disagreement: float) -> OptimalBoundary:
    """Return the boundary with the fewest trees among those that keep the promise."""
    # Never to stop costs the horizon, so that at this price no more than the promise is spent on errors.
    low, high = 1.0, 2 * horizon / disagreement
    region, _ = _reached(urn, horizon, high)
    for _ in range(ROUNDS):
        prices = np.geomspace(low, high, PRICES)
        # The largest is known to keep the promise, whatever its sums round to.
        place = int(np.argmax(np.append(_errors(urn, region, prices)[:-1] <= disagreement, True)))
        high = prices[place]
        if place == 0:
            break
        low = prices[place - 1]
    region, goes_on = _reached(urn, horizon, high)
    return OptimalBoundary(goes_on, region, horizon, *_costs(urn, region, goes_on, horizon))


def _reached(urn: VoteUrn, horizon: int, price: float) -> tuple[Region, list[Bool[np.ndarray, "ones"]]]:
    """Return which reachable states go on at a price."""
    value, on = np.zeros(horizon + 1), []
    for n in range(horizon - 1, -1, -1):
        p = urn.next_one(n)
        further, stopped = 1 + (1 - p) * value[:-1] + p * value[1:], price * urn.wrong[n]
        on.append(stopped > further)
        value = np.minimum(stopped, further)
    first, last, goes_on, low, high = [], [], [], 0, 0
    for some in reversed(on):
        places = low + np.flatnonzero(some[low : high + 1])
        if not len(places):
            break
        low, high = int(places[0]), int(places[-1])
        first.append(low)
        last.append(high)
        goes_on.append(some[low : high + 1])
        high += 1
    return Region(first, last), goes_on


def _errors(urn: VoteUrn, region: Region, prices: Float[np.ndarray, "prices"]) -> Float[np.ndarray, "prices"]:
    """Return the probability of a wrong answer at each price, none of them above that of the region."""
    price, end = prices[:, None], len(region.first)
    chance = _reachable(urn, region, end)
    value, error = price * chance, np.broadcast_to(chance, (len(prices), len(chance)))
    for n in range(end - 1, -1, -1):
        first, last = region.first[n], region.last[n] + 1
        p, chance = urn.next_one(n)[first:last], urn.wrong[n][first:last]
        further, stopped = 1 + (1 - p) * value[:, :-1] + p * value[:, 1:], price * chance
        stops = stopped <= further
        error = np.where(stops, chance, (1 - p) * error[:, :-1] + p * error[:, 1:])
        value = np.where(stops, stopped, further)
        # Around those that may go on lie reachable ones that stop at all of the prices.
        before, whole = first - (region.first[n - 1] if n else 0), _reachable(urn, region, n)
        around = [np.broadcast_to(whole, (len(prices), len(whole))).copy() for _ in range(2)]
        around[0] *= price
        for of, inside in zip(around, (value, error), strict=True):
            of[:, before : before + inside.shape[1]] = inside
        value, error = around
    return error[:, 0]


def _reachable(urn: VoteUrn, region: Region, n: int) -> Float[np.ndarray, "ones"]:
    """Return the probability of an error in each reachable state of n votes, where all stop; 0 at the horizon."""
    first, last = (region.first[n - 1], region.last[n - 1] + 1) if n else (0, 0)
    return urn.wrong[n][first : last + 1] if n < len(urn.wrong) - 1 else np.zeros(last + 1 - first)


def _costs(urn: VoteUrn, region: Region, goes_on: list, horizon: int) -> tuple[float, float, float]:
    """Return what is expected: trees polled, disagreement, and unsettled votes."""
    end = len(goes_on)
    errors = _reachable(urn, region, end)
    costs = np.stack([np.zeros_like(errors), errors, np.full_like(errors, end == horizon)])
    for n in range(end - 1, -1, -1):
        first, last = region.first[n], region.last[n] + 1
        p, on = urn.next_one(n)[first:last], goes_on[n]
        further = (1 - p) * costs[:, :-1] + p * costs[:, 1:]
        further[0] += 1
        whole = _reachable(urn, region, n)
        costs = np.stack([np.zeros_like(whole), whole, np.zeros_like(whole)])
        before = first - (region.first[n - 1] if n else 0)
        inside = costs[:, before : before + len(on)]
        inside[:, on] = further[:, on]
    trees, error, unsettled = (float(of[0]) for of in costs)
    return trees, error, unsettled
