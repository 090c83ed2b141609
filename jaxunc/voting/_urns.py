"""Urns of votes: how likely the next vote is for class 1, and which class wins, given the votes so far.

Two classes. A vote's probability has a beta prior, or the final counts of a finite population have any weights. Either
way the votes are exchangeable, so that (votes polled, votes for class 1) says all.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import betainc, gammaln

from jaxunc.tables import NumbersLike

from ._final_weights import checked_weights, is_final_weights
from ._leader import Population
from ._prior import checked_prior

States = list[Float[np.ndarray, "ones"]]
"""Numbers of the states of each number of votes n: ``[n][ones]``, for 0 to n votes for class 1."""


class VoteUrn(NamedTuple):
    """Votes of two classes, up to a largest number of them."""

    next_one: Callable[[int], Float[np.ndarray, "ones"]]
    """Of n votes polled: the probability that the next is for class 1, by how many of the n were."""
    wrong: States
    """Probability that the class in the lead loses; infinite for ties and for votes that the prior excludes."""


def vote_urn(prior: NumbersLike, population: Population, n_trees: int, horizon: int) -> VoteUrn:
    """Return the urn of a vote that polls ``horizon`` trees at most; a finite population has ``n_trees``.

    Class 0 wins the ties of a finite population. Raises a ValueError for a prior that is none.
    """
    if is_final_weights(prior, population, n_trees):
        return _weighted_urn(checked_weights(prior), n_trees, horizon)
    zero, one = map(float, checked_prior(prior, 2))

    def next_one(n: int) -> Float[np.ndarray, "ones"]:
        return (one + np.arange(n + 1)) / (zero + one + n)

    if population == "finite":
        won, lost = _won_by_all(n_trees)
        won, lost = (_before(chance, next_one, n_trees, horizon) for chance in (won, lost))
    else:
        k = np.arange(horizon + 1)
        won, lost = betainc(zero + horizon - k, one + k, 0.5), betainc(one + k, zero + horizon - k, 0.5)
    return VoteUrn(next_one, _wrong(won, lost, next_one))


def _weighted_urn(weights: Float[np.ndarray, "ones"], n_trees: int, horizon: int) -> VoteUrn:
    """Return the urn of weights of final counts: f_n(k) = f_{n+1}(k) + f_{n+1}(k+1) for one order of n votes."""
    k, log = np.arange(n_trees + 1), gammaln(np.arange(n_trees + 2) + 1.0)
    with np.errstate(divide="ignore"):
        paths = np.log(weights) - log[n_trees] + log[k] + log[n_trees - k]
    chances: States = [np.zeros(0)] * n_trees
    excluded: list[Bool[np.ndarray, "ones"]] = [np.isneginf(paths)] * (n_trees + 1)
    for n in range(n_trees - 1, -1, -1):
        before = np.logaddexp(paths[:-1], paths[1:])
        excluded[n] = np.isneginf(before)
        # What follows votes that the prior excludes does not matter: nobody gets there by it, and all is polled.
        chances[n] = np.where(excluded[n], 0.5, np.exp(paths[1:] - np.where(excluded[n], 0.0, before)))
        paths = before
    won, lost = (_before(of, chances.__getitem__, n_trees, horizon) for of in _won_by_all(n_trees))
    wrong = _wrong(won, lost, chances.__getitem__)
    return VoteUrn(chances.__getitem__, [np.where(out, np.inf, of) for out, of in zip(excluded, wrong, strict=False)])


def _won_by_all(n_trees: int) -> tuple[Float[np.ndarray, "ones"], Float[np.ndarray, "ones"]]:
    won = 2 * np.arange(n_trees + 1) > n_trees
    return won.astype(float), (~won).astype(float)


def _before(chance: np.ndarray, next_one, after: int, n: int) -> np.ndarray:
    """Return a probability given n votes, from that given more: the mean over the votes between."""
    for m in range(after - 1, n - 1, -1):
        p = next_one(m)
        chance = (1 - p) * chance[:-1] + p * chance[1:]
    return chance


def _wrong(won, lost, next_one) -> States:
    """Return by n the probability that the leader loses; both chances, since 1 less one of them would round away."""
    found = [np.zeros(0)] * len(won)
    for n in range(len(won) - 1, -1, -1):
        if n < len(won) - 1:
            p = next_one(n)
            won, lost = ((1 - p) * of[:-1] + p * of[1:] for of in (won, lost))
        found[n] = np.where(2 * np.arange(n + 1) > n, lost, won)
        if n % 2 == 0:
            found[n][n // 2] = np.inf
    return found
