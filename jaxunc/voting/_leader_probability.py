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

from ._win_probability import NODES, race_nodes

Criterion = Literal["bound", "exact", "certain", "optimal"]
Population = Literal["infinite", "finite"]
POPULATIONS: tuple[Population, ...] = get_args(Population)
Votes = Int[np.ndarray, "n classes"]

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
    """Return the probability that the leader, the first of the classes with most votes, wins.

    ``votes`` are those of the ``polled`` trees used so far, ``alpha`` is the α of the Dirichlet prior. For a finite
    population, and for "certain", the class wins if it wins the vote of all ``n_trees`` trees. Otherwise it has to win
    the vote of an infinite ensemble: "exact" integrates, "bound" and "optimal" have a lower bound (exact for two
    classes). With two classes and a finite population ``alpha`` may also hold weights of the final counts.
    """
    if len(alpha) != votes.shape[1]:  # weights of final counts
        return leads_at_the_end(votes, alpha)
    if criterion == "certain" or population == "finite":
        return np.maximum(1 - loss(votes, polled, n_trees, alpha), 0.0)
    if criterion in ("bound", "optimal") or votes.shape[1] == 2:
        return _by_pairs(votes, alpha)
    distinct_votes, inverse = np.unique(votes, axis=0, return_inverse=True)
    return _exact(distinct_votes, alpha)[inverse.reshape(-1)]


def _by_pairs(votes: Votes, alpha):
    """Return the product, over all rivals, of the probability that the leader beats the rival (Eq. 8), ``[n]``.

    The leader beats a rival with a smaller share of an infinite ensemble's votes. ``alpha [classes]`` is the prior's.
    """
    n, n_classes = votes.shape
    base = int(votes.max(initial=0)) + 1  # votes are digits of this base in the integers below
    if n_classes == 2:
        return _of_two_classes(votes, alpha, base)
    leader = votes.argmax(axis=1)
    probability = np.ones(n)
    for leader_class in range(n_classes):
        rows = np.flatnonzero(leader == leader_class)
        leader_key = votes[rows, leader_class].astype(np.int64) * base
        for rival in range(n_classes):
            if rival == leader_class or not len(rows):
                continue
            # Leader's and rival's votes as one integer: each case is computed once, and looked up for all instances.
            key = leader_key + votes[rows, rival]
            keys = _distinct(key, base * base)
            table = np.zeros(keys[-1] + 1)
            table[keys] = betainc(keys % base + alpha[rival], keys // base + alpha[leader_class], 0.5)
            probability[rows] *= table[key]
    return probability


def _of_two_classes(votes: Int[np.ndarray, "n 2"], alpha, base: int) -> Float[np.ndarray, "n"]:
    """Return the probability of `_by_pairs` for two classes, ``[n]``; all votes are below ``base``."""
    # Both classes' votes as one integer: each case is computed once, and looked up for all instances.
    key = votes[:, 0].astype(np.int64) * base + votes[:, 1]
    keys = _distinct(key, base * base)
    votes0, votes1 = keys // base, keys % base
    shape0, shape1 = votes0 + alpha[0], votes1 + alpha[1]
    one_leads = votes1 > votes0
    table = np.zeros(int(keys.max(initial=0)) + 1)
    table[keys] = betainc(np.where(one_leads, shape0, shape1), np.where(one_leads, shape1, shape0), 0.5)
    return table[key]


def _distinct(values: Int[np.ndarray, "n"], limit: int) -> Int[np.ndarray, "distinct"]:
    """Return the distinct ``values`` in ascending order; all are from 0 to ``limit`` - 1."""
    # Marking each value is faster than sorting, unless a byte for each possible one takes more than 16 MiB.
    if limit > 2**24:
        return np.unique(values)
    marks = np.zeros(limit, bool)
    marks[values] = True
    return np.flatnonzero(marks)


def _exact(votes: Votes, alpha):
    """Return the exact probability that the leader's share is the largest: ∫ g^{a-1} e^{-g}/Γ(a) Π_j P(a_j, g) dg.

    a is the leader's votes + α, a_j the same of rival j, and P the regularised lower incomplete gamma function.
    ``alpha [classes]`` is the α of the Dirichlet prior, and the result is ``[n]``.
    """
    block_size = max(1, RACE_ENTRIES // (len(NODES) * votes.shape[1]))
    blocks = [_race(votes[start : start + block_size], alpha) for start in range(0, len(votes), block_size)]
    return np.concatenate(blocks) if blocks else np.zeros(0)


def _race(votes: Votes, alpha):
    """Return the integral of `_exact` for a block of votes ``[n classes]``, by a sum over `race_nodes` of log g."""
    leader = votes.argmax(axis=1)[:, None]
    gamma_shape = votes + alpha
    leader_shape = np.take_along_axis(gamma_shape, leader, axis=1)
    node, weight = race_nodes(leader_shape[:, 0], gamma_shape.sum(axis=1), np)
    log_g = np.log1p(leader_shape) + node  # `race_nodes` are relative to log(a + 1)
    # The density of log g for the leader's gamma variable g, and below the probabilities that rivals' are smaller.
    density = weight * np.exp(leader_shape * log_g - np.exp(log_g) - gammaln(leader_shape))
    a = gamma_shape[:, :, None]
    x = log_g[:, None, :]
    # Below exp(-36), 2e-16, P(a, g) is the first term of its series, a power of g; g itself may be no float.
    rival_below = np.where(x < -36, np.exp(a * np.minimum(x, 0) - gammaln(a + 1)), gammainc(a, np.exp(x)))
    np.put_along_axis(rival_below, leader[:, :, None], 1.0, axis=1)  # the leader is no rival of its own
    return (density * rival_below.prod(axis=1)).sum(axis=1)


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
    Dirichlet prior. The bound is the sum over rivals of the probability that the rival ends ahead (`overtaken`): exact
    for two classes. Abstention counts as one more class, of α = 0: trees go on to abstain as often as so far. Where the
    runner-up's probability alone is ``limit`` or more, the sum leaves out the other rivals.
    """
    n, n_classes = votes.shape
    rows = np.arange(n)
    rivals = np.arange(n_classes)
    leader = votes.argmax(axis=1)
    leader_votes = votes[rows, leader][:, None]
    remaining = n_trees - polled
    # Rivals that cannot come ahead even with all remaining trees add nothing.
    wins_tie = rivals < leader[:, None]
    is_rival = rivals != leader[:, None]
    can_win = (votes + remaining[:, None] + wins_tie > leader_votes) & is_rival
    runner_up = np.where(is_rival, votes, -1).argmax(axis=1)  # -1: less than any rival's votes
    chances = np.zeros(votes.shape)

    def set_chance(row, rival):
        """Set ``chances[row, rival]``, for arrays of rows and rivals."""
        chances[row, rival] = overtaken(votes[row], leader[row], rival, remaining[row], n_trees, alpha)

    # The runner-up first: where its chance alone reaches the limit, the others are not needed.
    rows_of_runner_up = np.flatnonzero(can_win[rows, runner_up])
    set_chance(rows_of_runner_up, runner_up[rows_of_runner_up])
    can_win[rows, runner_up] = False
    is_needed = can_win & (chances[rows, runner_up] < limit)[:, None]
    set_chance(*np.nonzero(is_needed))
    return chances.sum(axis=1)


def allowed_loss(confidence: float) -> float:
    """Return the number below which a `loss` settles a vote: 1 - ``confidence``, less a rounding error.

    So a loss that equals 1 - ``confidence`` does not settle the vote.
    """
    return (1 - confidence) * (1 - 1e-12)


def overtaken(votes, leader, rival, remaining, n_trees: int, alpha) -> Float[np.ndarray, "n"]:
    """Return the probability that a rival is ahead of the leader once all ``n_trees`` trees have voted, ``[n]``.

    ``leader`` and ``rival`` are classes ``[n]``, ``votes [n classes]`` the votes so far, and ``remaining [n]`` the
    numbers of trees that have not voted; ``alpha [classes]`` is the α of the Dirichlet prior. The rival is ahead with
    more votes than the leader, or with equally many if its class comes first.
    """
    rows = np.arange(len(votes))
    leaders_votes, rivals_votes = (votes[rows, classes].astype(np.int64) for classes in (leader, rival))
    # The probability is computed once for each distinct case: classes, their votes, and trees that remain. With one α
    # for all classes only the order of the two classes matters, so fewer cases are distinct.
    class_pair = rival < leader if np.all(alpha == alpha[0]) else leader * len(alpha) + rival
    base = n_trees + 1
    case = ((class_pair * base + leaders_votes) * base + rivals_votes) * base + remaining
    _, first_row, inverse = np.unique(case, return_index=True, return_inverse=True)
    probability = np.zeros(len(first_row))
    block_size = max(1, PAIR_ENTRIES // base)
    pair_of_case = class_pair[first_row]
    for pair in np.unique(pair_of_case):
        cases = np.flatnonzero(pair_of_case == pair)
        row_of_pair = first_row[cases[0]]  # any row: all have these classes, or classes of the same α and order
        leader_class, rival_class = leader[row_of_pair], rival[row_of_pair]
        other_alpha = np.delete(alpha, [leader_class, rival_class]).sum()
        shapes = float(alpha[leader_class]), float(alpha[rival_class]), float(other_alpha)
        wins_tie = bool(rival_class < leader_class)
        for start in range(0, len(cases), block_size):
            block = cases[start : start + block_size]
            row = first_row[block][:, None]
            leader_votes, rival_votes, trees_left = leaders_votes[row], rivals_votes[row], remaining[row]
            rival_ahead = _ahead(leader_votes, rival_votes, trees_left, wins_tie, n_trees, shapes)
            probability[block] = _at_the_end(rival_ahead, leader_votes + rival_votes, trees_left, n_trees, shapes)
    return probability[inverse.reshape(-1)]


def overtaken_by_one(votes: int, rival_votes: int, n_trees: int, alpha: tuple[float, float], *, first: bool) -> float:
    """Return the probability that, of two classes, the rival is ahead of the leader once all ``n_trees`` trees voted.

    No tree abstains. So far ``votes`` trees voted for the leader and ``rival_votes`` for the rival. ``alpha`` has the
    leader's α and the rival's. ``first`` says whether the rival is class 0, which is ahead in a tie.
    """
    leader, rival, remaining = (np.array([[n]]) for n in (votes, rival_votes, n_trees - votes - rival_votes))
    return float(_ahead(leader, rival, remaining, first, n_trees, (*alpha, 0.0))[0, -1])


def _ahead(leader_votes, rival_votes, remaining, first: bool, n_trees: int, shapes) -> Float[np.ndarray, "n votes"]:
    """Return the probability that the rival is ahead after m = 0, 1, … more votes for the leader or the rival.

    ``leader_votes``, ``rival_votes`` and ``remaining`` (trees that have not voted, of ``n_trees``) are ``[n 1]``. The
    result has a column for each m, valid up to m = remaining. ``shapes`` are the leader's α, the rival's, and one more
    number, which is not read. With ``first`` the rival is ahead in a tie, too.

    Say that the leader has l votes, the rival r ≤ l, and k of the m are the rival's, with Beta-binomial probability
    P_m(k). A_m, the probability that the rival has more votes, starts at A_0 = 0. One more vote changes who is ahead
    only from a tie, or from one vote ahead:

        m + l - r even, k = (m + l - r) / 2, a tie:          A_{m+1} = A_m + P_m(k) · P(the next is the rival's)
        m + l - r odd, k = (m + l - r + 1) / 2, one ahead:   A_{m+1} = A_m - P_m(k) · P(the next is the leader's)
    """
    leader_alpha, rival_alpha, _ = shapes
    m = np.minimum(np.arange(int(remaining.max()) + 1), remaining)
    k = (m + leader_votes - rival_votes + 1) // 2  # of an even and of an odd m + l - r
    is_tie = (m + leader_votes - rival_votes) % 2 == 0
    is_possible = k <= m
    k = np.minimum(k, m)  # an index in range, also where k is not possible
    leader_end, rival_end = leader_votes + m - k, rival_votes + k  # votes after m more
    pair = leader_votes + rival_votes
    gamma_shapes = 1.0, leader_alpha, rival_alpha, leader_alpha + rival_alpha
    lg_1, lg_leader, lg_rival, lg_pair = (_log_gammas(n_trees, shape) for shape in gamma_shapes)
    log_p = lg_1[m] - lg_1[k] - lg_1[m - k] + lg_rival[rival_end] - lg_rival[rival_votes]
    log_p = log_p + lg_leader[leader_end] - lg_leader[leader_votes] - lg_pair[pair + m] + lg_pair[pair]
    p = np.where(is_possible, np.exp(log_p), 0.0)  # P_m(k)
    # A_{m+1} - A_m: each class gets the next vote in proportion to its votes + α.
    change = p * np.where(is_tie, rival_end + rival_alpha, -(leader_end + leader_alpha))
    change = change / (pair + m + leader_alpha + rival_alpha)
    ahead = np.zeros_like(p)
    np.cumsum(change[:, :-1], axis=1, out=ahead[:, 1:])
    return np.maximum(np.where(is_tie, ahead + p, ahead) if first else ahead, 0.0)


def _at_the_end(ahead, pair, remaining, n_trees: int, shapes) -> Float[np.ndarray, "n"]:
    """Return the probability that the rival is ahead once all ``n_trees`` trees have voted, ``[n]``.

    It is the mean of ``ahead``, a result of `_ahead`, over m: the number of remaining trees that vote for the leader or
    the rival. So far ``pair [n 1]`` trees have voted for the two, and ``remaining [n 1]`` have not voted. ``shapes``
    are the leader's α, the rival's, and the sum of all other α.
    """
    leader_alpha, rival_alpha, other_alpha = shapes
    pair_alpha = leader_alpha + rival_alpha
    neither = n_trees - remaining - pair  # votes for others, and trees that abstained
    # Where no tree can vote for another class, all remaining trees vote for the two: m = remaining.
    mean = np.take_along_axis(ahead, remaining, axis=1)[:, 0]
    rows = np.flatnonzero(neither + other_alpha > 0)
    if not len(rows):
        return mean
    pair, remaining, neither = pair[rows], remaining[rows], neither[rows]
    m = np.arange(ahead.shape[1])
    is_possible = m <= remaining
    m = np.minimum(m, remaining)
    # The probability that m of the remaining trees vote for the two: Beta-binomial, of the pair against all others.
    gamma_shapes = 1.0, pair_alpha, other_alpha, pair_alpha + other_alpha
    lg_1, lg_pair, lg_rest, lg_all = (_log_gammas(n_trees, shape) for shape in gamma_shapes)
    log_share = lg_1[remaining] - lg_1[m] - lg_1[remaining - m] + lg_pair[pair + m] - lg_pair[pair]
    log_share += lg_rest[neither + remaining - m] - lg_rest[neither] - lg_all[n_trees] + lg_all[n_trees - remaining]
    weighted = np.where(is_possible, np.exp(log_share) * ahead[rows], 0.0)
    mean[rows] = np.cumsum(weighted, axis=1)[:, -1]  # in one order, whatever the length
    return mean


@lru_cache(maxsize=64)
def _log_gammas(limit: int, shape: float) -> Float[np.ndarray, "values"]:
    """Return log Γ(i + shape) for i = 0 … ``limit``, ``[limit + 1]``."""
    return gammaln(np.arange(limit + 1) + shape)


def is_final_weights(prior: NumbersLike, population: str, n_trees: int) -> bool:
    """Return whether ``prior`` holds weights of final counts: one for each number of votes for class 1, 0 to n_trees.

    Such weights are for a finite ``population``; other priors are α.
    """
    # With one tree the two numbers are an α for each class, and there is nothing to stop.
    return population == "finite" and n_trees > 1 and is_concrete(prior) and np.shape(prior) == (n_trees + 1,)


def checked_weights(prior: NumbersLike) -> Float[np.ndarray, "ones"]:
    """Return ``prior``, which holds weights of final counts, scaled to add to 1.

    Raises a ValueError if a weight is negative, infinite or NaN, or all are 0.
    """
    check_numbers("prior", prior)
    weights = np.asarray(prior, float)
    if not (np.all(weights >= 0) and np.all(np.isfinite(weights)) and weights.sum() > 0):
        raise ValueError(
            "prior has an entry for each final count of the votes for class 1, which must be weights: finite, not "
            "negative, and not all 0."
        )
    return weights / weights.sum()


def leads_at_the_end(votes: Int[np.ndarray, "n 2"], weights: Float[np.ndarray, "ones"]) -> Float[np.ndarray, "n"]:
    """Return the probability that the leader of two classes wins the vote of all trees; class 0 wins ties.

    ``weights`` has the probability of each final number of votes for class 1. The result is NaN for ``votes`` so far
    that the weights exclude, unless all trees have voted.
    """
    distinct, inverse = np.unique(votes, axis=0, return_inverse=True)
    probabilities = np.array([_leads(int(zeros), int(ones), weights) for zeros, ones in distinct])
    return probabilities[inverse.reshape(-1)] if len(probabilities) else np.zeros(0)


def _leads(zeros: int, ones: int, weights: Float[np.ndarray, "ones"]) -> float:
    """Return the probability of `leads_at_the_end`, after ``zeros`` votes for class 0 and ``ones`` for class 1."""
    n_trees = len(weights) - 1
    n = zeros + ones
    if n == n_trees:
        return 1.0
    final = ones + np.flatnonzero(weights[ones : n_trees - zeros + 1])  # final counts that can still be reached
    if not len(final):
        return float("nan")  # the weights exclude these votes

    def log_binomial(total, chosen):
        return gammaln(total + 1) - gammaln(chosen + 1) - gammaln(total - chosen + 1)

    # The weight of a final count, times the share of its orders that begin with these votes in their order.
    log_chance = np.log(weights[final]) + log_binomial(n_trees - n, final - ones) - log_binomial(n_trees, final)
    chance = np.exp(log_chance - logsumexp(log_chance))
    leader_wins = (2 * final > n_trees) == (ones > zeros)  # class 1 leads and wins, or neither
    return float(chance[leader_wins].sum())
