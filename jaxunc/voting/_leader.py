"""The probability that the class in the lead wins, on the host in float64, once for each distinct vote."""

from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betainc, gammainc, gammaln

from ._final_weights import leads_at_the_end
from ._overtaken import loss

Criterion = Literal["bound", "exact", "certain", "optimal"]
Population = Literal["infinite", "finite"]
POPULATIONS: tuple[Population, ...] = get_args(Population)
Votes = Int[np.ndarray, "n classes"]

NODES = 128
ENTRIES = 2**18
"""Number of votes times classes that are integrated at a time."""


def leader_probability(
    votes: Votes,
    polled: Int[np.ndarray, "n"],
    n_trees: int,
    criterion: Criterion,
    population: Population,
    alpha: Float[np.ndarray, "classes"] | Float[np.ndarray, "ones"],
) -> Float[np.ndarray, "n"]:
    """Return the probability that a criterion compares with the confidence, for the first class with most votes.

    A finite population has ``n_trees`` trees, of which so many were ``polled`` and these voted; "certain" is about it,
    too: 1 where nothing can change any more. Trees that abstained say nothing of an infinite population's winner.
    "optimal" has the probabilities of "bound"; ``alpha`` may be weights of final counts there.
    """
    if len(alpha) != votes.shape[1]:
        return leads_at_the_end(votes, alpha)
    if criterion == "certain" or population == "finite":
        return np.maximum(1 - loss(votes, polled, n_trees, alpha), 0.0)
    if criterion in ("bound", "optimal") or votes.shape[1] == 2:
        return _by_pairs(votes, alpha)
    distinct, which = np.unique(votes, axis=0, return_inverse=True)
    return _exact(distinct, alpha)[which.reshape(-1)]


def _by_pairs(votes: Votes, alpha):
    """Return Eq. 8: the product over rivals of the probability that the leader's share is larger."""
    n, n_classes = votes.shape
    leader, probability, width = votes.argmax(axis=1), np.ones(n), int(votes.max(initial=0)) + 1
    for leading in range(n_classes):
        rows = np.flatnonzero(leader == leading)
        mine = votes[rows, leading].astype(np.int64) * width
        for rival in range(n_classes):
            if rival == leading or not len(rows):
                continue
            # Leader's and rival's votes as one integer: each pair is computed once, and looked up for all instances.
            pair = mine + votes[rows, rival]
            seen = _distinct(pair, width * width)
            table = np.zeros(seen[-1] + 1)
            table[seen] = betainc(seen % width + alpha[rival], seen // width + alpha[leading], 0.5)
            probability[rows] *= table[pair]
    return probability


def _distinct(values: Int[np.ndarray, "n"], limit: int) -> Int[np.ndarray, "distinct"]:
    """Return the distinct values, sorted; by marks where there are few possible ones, which is faster than to sort."""
    if limit > 2**24:
        return np.unique(values)
    marks = np.zeros(limit, bool)
    marks[values] = True
    return np.flatnonzero(marks)


def _exact(votes: Votes, alpha):
    """Return ∫ g^{a-1} e^{-g}/Γ(a) Π_j P(a_j, g) dg for the leader's a = votes + α, in parts (see `_gamma_race.py`)."""
    size = max(1, ENTRIES // (NODES * votes.shape[1]))
    parts = [_race(votes[start : start + size], alpha) for start in range(0, len(votes), size)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _race(votes: Votes, alpha):
    leader, shape = votes.argmax(axis=1)[:, None], votes + alpha
    own = np.take_along_axis(shape, leader, axis=1)
    steps = np.linspace(-12, 9, NODES)
    # Nodes in units of the standard deviation of log g around the leader's mode, where the integrand lives.
    x = np.log(own) + steps / np.sqrt(own)
    density = np.exp(own * x - np.exp(x) - gammaln(own)) * (steps[1] - steps[0]) / np.sqrt(own)
    below = gammainc(shape[:, :, None], np.exp(x)[:, None, :])
    np.put_along_axis(below, leader[:, :, None], 1.0, axis=1)
    return (density * below.prod(axis=1)).sum(axis=1)
