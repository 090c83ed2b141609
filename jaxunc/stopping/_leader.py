"""The probability that the class in the lead wins, on the host in float64, once for each distinct vote."""

from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betainc, betaln, gammainc, gammaln

Criterion = Literal["bound", "exact", "certain"]
Population = Literal["infinite", "finite"]
Votes = Int[np.ndarray, "n classes"]

NODES = 128
ENTRIES = 2**18
"""Votes times classes that are integrated at a time."""


def leader_probability(
    votes: Votes, n_trees: int, criterion: Criterion, population: Population, alpha: Float[np.ndarray, "classes"]
) -> Float[np.ndarray, "n"]:
    """What a criterion compares with the confidence, of the first class with most votes; 1 for "certain".

    A finite population has ``n_trees`` trees, of which these voted.
    """
    if criterion == "certain":
        return np.ones(len(votes))
    if population == "infinite" and (criterion == "bound" or votes.shape[1] == 2):
        return _by_pairs(votes, alpha)
    distinct, which = np.unique(votes, axis=0, return_inverse=True)
    found = _exact(distinct, alpha) if population == "infinite" else _stays(distinct, alpha, n_trees)
    return found[which.reshape(-1)]


def _by_pairs(votes: Votes, alpha):
    """Eq. 8: the product over rivals of the probability that the leader's share is larger."""
    n, n_classes = votes.shape
    leader, probability, width = votes.argmax(axis=1), np.ones(n), int(votes.max(initial=0)) + 1
    for own in range(n_classes):
        rows = np.flatnonzero(leader == own)
        mine = votes[rows, own].astype(np.int64) * width
        for rival in range(n_classes):
            if rival == own or not len(rows):
                continue
            pair = mine + votes[rows, rival]
            seen = _distinct(pair, width * width)
            table = np.zeros(seen[-1] + 1)
            table[seen] = betainc(seen % width + alpha[rival], seen // width + alpha[own], 0.5)
            probability[rows] *= table[pair]
    return probability


def _distinct(values: Int[np.ndarray, "n"], limit: int) -> Int[np.ndarray, "distinct"]:
    """Sorted; by marks where there are few possible values, which is faster than to sort."""
    if limit > 2**24:
        return np.unique(values)
    marks = np.zeros(limit, bool)
    marks[values] = True
    return np.flatnonzero(marks)


def _exact(votes: Votes, alpha):
    """∫ g^{a-1} e^{-g}/Γ(a) Π_j P(a_j, g) dg for the leader's a = votes + α, in parts (see `_gamma_race.py`)."""
    size = max(1, ENTRIES // (NODES * votes.shape[1]))
    parts = [_race(votes[start : start + size], alpha) for start in range(0, len(votes), size)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _race(votes: Votes, alpha):
    leader, shape = votes.argmax(axis=1)[:, None], votes + alpha
    own = np.take_along_axis(shape, leader, axis=1)
    steps = np.linspace(-12, 9, NODES)
    x = np.log(own) + steps / np.sqrt(own)
    density = np.exp(own * x - np.exp(x) - gammaln(own)) * (steps[1] - steps[0]) / np.sqrt(own)
    below = gammainc(shape[:, :, None], np.exp(x)[:, None, :])
    np.put_along_axis(below, leader[:, :, None], 1.0, axis=1)
    return (density * below.prod(axis=1)).sum(axis=1)


def _stays(votes: Votes, alpha, n_trees: int):
    """At least the probability that no rival is ahead when all trees have voted: 1 less the sum over rivals.

    Two classes: exact. Of the R trees that remain, m vote for the leader or the rival, Beta-binomial, and of those k
    for the rival.
    """
    return np.array([1 - sum(overtaken(row, alpha, rival, n_trees) for rival in range(len(row))) for row in votes])


def overtaken(votes: Int[np.ndarray, "classes"], alpha, rival: int, n_trees: int) -> float:
    """The probability that a rival is ahead of the leader when all trees have voted; a tie is the first class's."""
    leader = int(votes.argmax())
    if rival == leader:
        return 0.0
    rest, shape = n_trees - int(votes.sum()), votes + alpha
    own, other = shape[leader], shape[rival]
    others = shape.sum() - own - other
    m = np.array([[rest]]) if len(votes) == 2 else np.arange(rest + 1)[:, None]
    k = np.arange(rest + 1)
    lead = votes[leader] - votes[rival] + m - 2 * k
    ahead = (k <= m) & ((lead < 0) | ((lead == 0) & (rival < leader)))
    k = np.minimum(k, m)
    log_m = _log_beta_binomial(m, rest, own + other, others) if len(votes) > 2 else 0.0
    return float(np.exp(log_m + _log_beta_binomial(k, m, other, own))[ahead].sum())


def _log_beta_binomial(k, n, a, b):
    return -np.log(n + 1) - betaln(n - k + 1, k + 1) + betaln(k + a, n - k + b) - betaln(a, b)
