"""The probability that the class in the lead wins, on the host in float64, once for each distinct vote.

| population | two classes | more classes |
|---|---|---|
| infinite | `_by_pairs`: Eq. 8, exact | `_by_pairs`: a bound; `_exact`: the integral |
| finite | 1 - `loss`, exact | 1 - `loss`, a bound |
| finite, with weights of final counts | `leads_at_the_end`, exact | |
"""

from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betainc, gammainc, gammaln, logsumexp

from jaxunc._checks import check_numbers, is_concrete
from jaxunc.tables import NumbersLike

Criterion = Literal["bound", "exact", "certain", "optimal"]
Population = Literal["infinite", "finite"]
POPULATIONS: tuple[Population, ...] = get_args(Population)
Votes = Int[np.ndarray, "n classes"]

NODES = 128  # number of points at which an integrand is summed

RACE_ENTRIES = 2**18  # number of votes times classes times nodes that are integrated at a time

PAIR_ENTRIES = 2**17  # number of entries of a table of distinct votes and trees that remain


def leader_probability(
    votes: Votes,
    polled: Int[np.ndarray, "n"],
    n_trees: int,
    criterion: Criterion,
    population: Population,
    alpha: Float[np.ndarray, "classes"] | Float[np.ndarray, "ones"],
) -> Float[np.ndarray, "n"]:
    """Return the probability that the class in the lead (the first of several) wins, by a criterion of `stop_after`.

    ``votes`` are those of the ``polled`` trees used so far, ``alpha`` is the α of the Dirichlet prior. For a finite
    population, and for "certain", the class has to win the vote of all ``n_trees`` trees, else that of an infinite
    ensemble. "optimal" has the probabilities of "bound"; its ``alpha`` may be weights of final counts.
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
    """Return Eq. 8 (`win_probability`): the product over rivals of the probability that the leader's share is larger.

    ``alpha [classes]`` is the α of the Dirichlet prior.
    """
    n, n_classes = votes.shape
    width = int(votes.max(initial=0)) + 1
    if n_classes == 2:  # both votes as one integer, and one look-up for all instances
        pair = votes[:, 0].astype(np.int64) * width + votes[:, 1]
        seen = _distinct(pair, width * width)
        table, zeros, ones = np.zeros(int(seen.max(initial=0)) + 1), seen // width + alpha[0], seen % width + alpha[1]
        leads = seen % width > seen // width
        table[seen] = betainc(np.where(leads, zeros, ones), np.where(leads, ones, zeros), 0.5)
        return table[pair]
    leader, probability = votes.argmax(axis=1), np.ones(n)
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
    """Return the distinct values, sorted; all are below ``limit``. With a small limit marks are faster than sorting."""
    if limit > 2**24:
        return np.unique(values)
    marks = np.zeros(limit, bool)
    marks[values] = True
    return np.flatnonzero(marks)


def _exact(votes: Votes, alpha):
    """Return ∫ g^{a-1} e^{-g}/Γ(a) Π_j P(a_j, g) dg, the exact probability that the leader's share is the largest.

    a = votes + α is the leader's, a_j that of rival j; P is the regularised lower incomplete gamma function.
    """
    size = max(1, RACE_ENTRIES // (NODES * votes.shape[1]))
    parts = [_race(votes[start : start + size], alpha) for start in range(0, len(votes), size)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _race(votes: Votes, alpha):
    """Return `_exact` for some of the votes ``[n classes]``, by a sum over `NODES` values of log g."""
    leader, shape = votes.argmax(axis=1)[:, None], votes + alpha
    leader_shape = np.take_along_axis(shape, leader, axis=1)
    steps = np.linspace(-12, 9, NODES)
    # Nodes in units of the standard deviation of log g around the leader's mode, where the integrand lives.
    x = np.log(leader_shape) + steps / np.sqrt(leader_shape)
    density = np.exp(leader_shape * x - np.exp(x) - gammaln(leader_shape))
    density = density * (steps[1] - steps[0]) / np.sqrt(leader_shape)
    below = gammainc(shape[:, :, None], np.exp(x)[:, None, :])
    np.put_along_axis(below, leader[:, :, None], 1.0, axis=1)
    return (density * below.prod(axis=1)).sum(axis=1)


def loss(
    votes: Int[np.ndarray, "n classes"],
    polled: Int[np.ndarray, "n"],
    n_trees: int,
    alpha: Float[np.ndarray, "classes"],
    *,
    limit: float = np.inf,
) -> Float[np.ndarray, "n"]:
    """Return an upper bound on the probability that the class in the lead loses the vote of all ``n_trees`` trees.

    ``votes`` are those of the ``polled`` trees used so far, abstaining ones included; ``alpha`` is the α of the
    Dirichlet prior. The bound is the sum over rivals of the probability that the rival ends ahead: exact for two
    classes. Of the trees that remain, m vote for the leader or the rival (Beta-binomial), and k of these for the rival.
    The rival wins with more votes than the leader, or with equally many if its class comes first. Abstaining is one
    more answer, of α = 0: trees go on to abstain as often as so far. Where the runner-up's probability alone is
    ``limit`` or more, the other rivals are left out.
    """
    n, n_classes = votes.shape
    rows, rivals, leader = np.arange(n), np.arange(n_classes), votes.argmax(axis=1)
    leader_votes, rest, first = votes[rows, leader][:, None], (n_trees - polled)[:, None], rivals < leader[:, None]
    # Rivals that cannot come ahead even with all remaining trees add nothing.
    able = (votes + rest + first > leader_votes) & (rivals != leader[:, None])
    second = np.where(rivals == leader[:, None], -1, votes).argmax(axis=1)
    lost = np.zeros(votes.shape)

    def add(row, rival):
        lost[row, rival] = overtaken(votes[row], leader[row], rival, n_trees - polled[row], n_trees, alpha)

    # The runner-up first: where it alone has too much, the others need not be computed.
    able_rows = np.flatnonzero(able[rows, second])
    add(able_rows, second[able_rows])
    able[rows, second] = False
    add(*np.nonzero(able & (lost[rows, second] < limit)[:, None]))
    return lost.sum(axis=1)


def allowed_loss(confidence: float) -> float:
    """Return the `loss` below which a vote is settled: a hair less than 1 - ``confidence``.

    So rounding lets no loss pass that equals 1 - ``confidence``.
    """
    return (1 - confidence) * (1 - 1e-12)


def overtaken(votes, leader, rival, remaining, n_trees: int, alpha) -> Float[np.ndarray, "n"]:
    """Return the probability that a rival is ahead of the leader once all ``n_trees`` trees have voted, ``[n]``.

    ``leader`` and ``rival`` are classes ``[n]``, ``votes [n classes]`` the votes so far, and ``remaining [n]`` the
    numbers of trees that have not voted; ``alpha [classes]`` is the α of the Dirichlet prior. Computed once for each
    distinct case: the order of the two classes (the classes themselves if α differs between classes), their votes, and
    the trees that remain.
    """
    rows = np.arange(len(votes))
    leaders_votes, rivals_votes = (votes[rows, classes].astype(np.int64) for classes in (leader, rival))
    # With one α for all classes only the order of the two matters, so that more votes are the same case.
    pair = rival < leader if np.all(alpha == alpha[0]) else leader * len(alpha) + rival
    size = n_trees + 1
    case = ((pair * size + leaders_votes) * size + rivals_votes) * size + remaining
    _, first_of, which = np.unique(case, return_index=True, return_inverse=True)
    probability, step = np.zeros(len(first_of)), max(1, PAIR_ENTRIES // size)
    pairs = pair[first_of]
    for number in np.unique(pairs):
        at = np.flatnonzero(pairs == number)
        i, j = leader[first_of[at[0]]], rival[first_of[at[0]]]
        shapes = float(alpha[i]), float(alpha[j]), float(np.delete(alpha, [i, j]).sum())
        for start in range(0, len(at), step):
            some = at[start : start + step]
            first = first_of[some], None
            ahead_votes, behind_votes, left = leaders_votes[first], rivals_votes[first], remaining[first]
            ahead = _ahead(ahead_votes, behind_votes, left, bool(j < i), n_trees, shapes)
            probability[some] = _at_the_end(ahead, ahead_votes + behind_votes, left, n_trees, shapes)
    return probability[which.reshape(-1)]


def overtaken_by_one(votes: int, rival_votes: int, n_trees: int, alpha: tuple[float, float], *, first: bool) -> float:
    """Return `overtaken` for one vote of two classes, no tree abstaining, after ``votes`` votes for the leader.

    ``alpha`` has the leader's α and the rival's; ``first`` says whether the rival is class 0, which wins ties.
    """
    mine, its, left = (np.array([[number]]) for number in (votes, rival_votes, n_trees - votes - rival_votes))
    return float(_ahead(mine, its, left, first, n_trees, (*alpha, 0.0))[0, -1])


def _ahead(leads, trails, remaining, first: bool, n_trees: int, shapes) -> Float[np.ndarray, "n votes"]:
    """Return the probability that the rival is ahead after m = 0, 1, … more votes for the leader or the rival.

    ``leads``, ``trails`` (votes of leader and rival) and ``remaining`` (trees that have not voted, of ``n_trees``) are
    ``[n 1]``; a row is valid up to m = remaining. ``shapes`` starts with the α of leader and rival. With ``first`` a
    tie counts as ahead. From m to m + 1 the probability changes only at the border: a level rival goes ahead, or one
    that is one vote ahead becomes level.
    """
    a, b, _ = shapes
    m = np.minimum(np.arange(int(remaining.max()) + 1), remaining)
    # How many of m votes the rival needs to be level (even difference) or one ahead (odd).
    k = (m + leads - trails + 1) // 2  # level, or one ahead
    level, there = (m + leads - trails) % 2 == 0, k <= m
    k = np.minimum(k, m)
    ones, owns, others, both = (_log_gammas(n_trees, shape) for shape in (1.0, a, b, a + b))
    log = ones[m] - ones[k] - ones[m - k] + others[trails + k] - others[trails] + owns[leads + m - k] - owns[leads]
    border = np.where(there, np.exp(log - both[leads + trails + m] + both[leads + trails]), 0.0)
    change = border * np.where(level, trails + k + b, -(leads + m - k + a)) / (leads + trails + m + a + b)
    ahead = np.zeros_like(border)
    # At m = 0 the rival is behind (or level), so the sum starts at 0.
    np.cumsum(change[:, :-1], axis=1, out=ahead[:, 1:])
    return np.maximum(np.where(level, ahead + border, ahead) if first else ahead, 0.0)


def _at_the_end(ahead, pair, remaining, n_trees: int, shapes) -> Float[np.ndarray, "n"]:
    """Return the mean of ``ahead`` over m, the number of remaining trees that vote for the leader or the rival.

    Of ``n_trees`` trees so far ``pair [n 1]`` voted for leader or rival, and ``remaining [n 1]`` have not voted.
    ``shapes`` are the leader's α, the rival's, and the sum of all other α.
    """
    a, b, prior = shapes
    neither = n_trees - remaining - pair  # votes for others, and trees that abstained
    mean = np.take_along_axis(ahead, remaining, axis=1)[:, 0]
    some = np.flatnonzero(neither + prior > 0)
    if not len(some):
        return mean
    pair, remaining, neither = (values[some] for values in (pair, remaining, neither))
    m = np.arange(ahead.shape[1])
    there, m = m <= remaining, np.minimum(m, remaining)
    ones, both, others, all_ = (_log_gammas(n_trees, shape) for shape in (1.0, a + b, prior, a + b + prior))
    log = ones[remaining] - ones[m] - ones[remaining - m] + both[pair + m] - both[pair]
    log += others[neither + remaining - m] - others[neither] - all_[n_trees] + all_[n_trees - remaining]
    weighed = np.where(there, np.exp(log) * ahead[some], 0.0)
    mean[some] = np.cumsum(weighed, axis=1)[:, -1]  # in one order, whatever the length
    return mean


@lru_cache(maxsize=64)
def _log_gammas(limit: int, shape: float) -> Float[np.ndarray, "values"]:
    """Return log Γ(i + shape) for i = 0 … ``limit``."""
    return gammaln(np.arange(limit + 1) + shape)


def is_final_weights(prior: NumbersLike, population: str, n_trees: int) -> bool:
    """Return whether ``prior`` has a weight for each final count of a finite population, 0 to n_trees for class 1."""
    # With one tree the two numbers are an α for each class, and there is nothing to stop.
    return population == "finite" and n_trees > 1 and is_concrete(prior) and np.shape(prior) == (n_trees + 1,)


def checked_weights(prior: NumbersLike) -> Float[np.ndarray, "ones"]:
    """Return weights of final counts, scaled to add to 1; a ValueError if one is negative or infinite, or all are 0."""
    check_numbers("prior", prior)
    weights = np.asarray(prior, float)
    if not (np.all(weights >= 0) and np.all(np.isfinite(weights)) and weights.sum() > 0):
        raise ValueError(
            "prior has an entry for each final count of the votes for class 1, which must be weights: finite, not "
            "negative, and not all 0."
        )
    return weights / weights.sum()


def leads_at_the_end(votes: Int[np.ndarray, "n 2"], weights: Float[np.ndarray, "ones"]) -> Float[np.ndarray, "n"]:
    """Return the probability that the leader of two classes wins the vote of all trees, by weights of the final counts.

    Class 0 wins ties. The probability is NaN for votes that the weights exclude, unless all trees have voted.
    """
    distinct, which = np.unique(votes, axis=0, return_inverse=True)
    probabilities = np.array([_leads(int(zeros), int(ones), weights) for zeros, ones in distinct])
    return probabilities[which.reshape(-1)] if len(probabilities) else np.zeros(0)


def _leads(zeros: int, ones: int, weights: Float[np.ndarray, "ones"]) -> float:
    """Return `leads_at_the_end` after ``zeros`` votes for class 0 and ``ones`` for class 1."""
    n_trees, n = len(weights) - 1, zeros + ones
    if n == n_trees:
        return 1.0
    # The weight of a final count, times the share of its orders that begin with these votes in their order.
    final = ones + np.flatnonzero(weights[ones : n_trees - zeros + 1])
    if not len(final):
        return float("nan")
    log_ways = lambda of, some: gammaln(of + 1) - gammaln(some + 1) - gammaln(of - some + 1)
    chance = np.log(weights[final]) + log_ways(n_trees - n, final - ones) - log_ways(n_trees, final)
    chance = np.exp(chance - logsumexp(chance))
    return float(chance[(2 * final > n_trees) == (ones > zeros)].sum())
