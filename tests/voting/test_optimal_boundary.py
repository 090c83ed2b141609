"""The fewest trees for a promised disagreement."""

import itertools
from fractions import Fraction
from functools import lru_cache
from math import comb

import jax
import numpy as np
import pytest

import jaxunc as ju
from jaxunc import voting
from jaxunc.voting import optimal_votes, stop_after
from jaxunc.voting._optimal_boundary import OptimalBoundary, Region
from tests._refusal import refusals, refuses
from tests.voting._votes import drawn_votes, finite_loss, forest_of_votes, naive, same

pytestmark = [pytest.mark.once, pytest.mark.room]

N, K = 200, 40
"""Instances and trees of forests that vote, which so share their programs."""
WEIGHTS = {
    "uniform": lambda t: [Fraction(1, t + 1)] * (t + 1),
    "skew": lambda t: [Fraction(2 * k + 1, (t + 1) ** 2) for k in range(t + 1)],
    "a gap": lambda t: [Fraction(0 if k == 1 else 1, t) for k in range(t + 1)],
    "ends": lambda t: [Fraction(3 if k in (0, t) else 1, t + 5) for k in range(t + 1)],
}


class Poll:
    """A poll in fractions: which states it has, and what a rule costs there."""

    def __init__(self, weights, horizon: int, wrong_one):
        """``wrong_one(n, k)``: the chance that class 1 loses."""
        self.horizon, n_trees = horizon, len(weights) - 1

        @lru_cache
        def path(n, k):
            """The probability of one order of n votes, k of them for class 1."""
            of = lambda final: Fraction(comb(n_trees - n, final - k), comb(n_trees, final))
            return sum(weights[final] * of(final) for final in range(k, n_trees - n + k + 1))

        states = [(n, k) for n in range(1, horizon) for k in range(n + 1) if 2 * k != n]
        self.states = [state for state in states if path(*state)]
        self.path, self.wrong_one = path, wrong_one

    def costs(self, stops) -> tuple[Fraction, Fraction]:
        """Mean trees, and the share of wrong answers, of the rule that stops in these states."""
        values = {(self.horizon, k): (0, 0) for k in range(self.horizon + 1)}
        for n in range(self.horizon - 1, -1, -1):
            for k in range(n + 1):
                if (n, k) in stops:
                    wrong = self.wrong_one(n, k)
                    values[n, k] = 0, wrong if 2 * k > n else 1 - wrong
                elif self.path(n, k):
                    p = self.path(n + 1, k + 1) / self.path(n, k)
                    no, yes = values[n + 1, k], values[n + 1, k + 1]
                    values[n, k] = 1 + (1 - p) * no[0] + p * yes[0], (1 - p) * no[1] + p * yes[1]
                else:
                    values[n, k] = 0, 0
        return values[0, 0]

    def rules(self):
        """All of them."""
        for chosen in itertools.product((False, True), repeat=len(self.states)):
            yield {state for state, stops in zip(self.states, chosen, strict=True) if stops}

    def rule_of(self, least):
        """The states in which a table stops."""
        reached = lambda n, votes, c: 0 <= least[c, n] <= votes
        return {(n, k) for n, k in self.states if reached(n, k, 1) or reached(n, n - k, 0)}


def finite_poll(weights, horizon: int) -> Poll:
    n_trees = len(weights) - 1

    def wrong_one(n, k):
        chance = [
            weights[final] * Fraction(comb(n_trees - n, final - k), comb(n_trees, final)) if k <= final else 0
            for final in range(n_trees - n + k + 1)
        ]
        return sum(chance[: n_trees // 2 + 1]) / sum(chance)

    return Poll(weights, horizon, wrong_one)


def infinite_poll(horizon: int) -> Poll:
    """Under the uniform prior: all final counts are equally likely, and p < 1/2 has a binomial sum."""
    wrong_one = lambda n, k: Fraction(sum(comb(n + 1, j) for j in range(k + 1, n + 2)), 2 ** (n + 1))
    return Poll([Fraction(1, horizon + 1)] * (horizon + 1), horizon, wrong_one)


def check_all(poll: Poll, table) -> None:
    """No rule with as few errors has fewer trees; what the table says of itself is so."""
    trees, wrong = poll.costs(poll.rule_of(table.least))
    assert table.n_trees_used == pytest.approx(float(trees), abs=1e-12)
    assert table.disagreement == pytest.approx(float(wrong), abs=1e-12)
    for rule in poll.rules():
        others, their_wrong = poll.costs(rule)
        assert their_wrong > wrong or others >= trees, (rule, others, trees)


@pytest.mark.parametrize(
    ("weights", "n_trees", "max_trees"),
    [
        *[("uniform", 4, 4), ("skew", 4, 4), ("a gap", 4, 3), ("ends", 5, 4), ("skew", 7, 3), ("uniform", 3, 3)],
        ("uniform", None, 4),
        *(pytest.param(name, 5, 5, marks=pytest.mark.exhaustive) for name in WEIGHTS),
    ],
)
def test_no_rule_of_a_few_trees_is_better(weights, n_trees, max_trees):
    """``n_trees`` of None: of an ensemble without end."""
    q = WEIGHTS[weights](n_trees or max_trees)
    poll = finite_poll(q, max_trees) if n_trees else infinite_poll(max_trees)
    of_finite = {"population": "finite", "prior": np.array([float(of) for of in q]), "n_trees": n_trees}
    for share in (0.3, 0.1, 0.02) if max_trees == 5 else (0.4, 0.2, 0.1, 0.05, 0.01):
        table = optimal_votes(max_trees, share, **of_finite if n_trees else {})
        assert table.disagreement <= share
        check_all(poll, table)
        assert n_trees or np.all(table.least[:, -1] == -1)  # a vote of all trees is not settled


def test_weights_of_a_beta_prior_are_that_prior():
    from scipy.stats import betabinom

    for alpha in ([1.0, 1.0], [0.3, 2.0]):
        weights = betabinom.pmf(np.arange(61), 60, alpha[1], alpha[0])
        for max_trees in (60, 40):
            found = [
                optimal_votes(max_trees, 0.01, population="finite", prior=np.array(prior), n_trees=60)
                for prior in (alpha, weights)
            ]
            np.testing.assert_array_equal(found[0].least, found[1].least)
            np.testing.assert_allclose(found[0][1:], found[1][1:], rtol=1e-9)


@pytest.mark.parametrize("population", ["finite", "infinite"])
@pytest.mark.parametrize("prior", [1.0, np.array([0.1, 0.6]), np.array([9.0, 7.0])], ids=str)
def test_the_promise_is_kept_and_costs_trees(population, prior):
    shares = (0.2, 0.05, 0.01, 0.002, 0.0005)
    tables = [optimal_votes(80, share, population=population, prior=prior) for share in shares]
    assert all(table.disagreement <= share for table, share in zip(tables, shares, strict=True))
    trees = np.array([table.n_trees_used for table in tables])
    assert np.all(np.diff(trees) >= 0)
    least = np.where([table.least < 0 for table in tables], 99, [table.least for table in tables])
    assert np.all(np.diff(least[:, :, 1:80], axis=0) >= 0)  # who promises more stops in fewer states
    assert all(0 <= table.polled_all <= 1 for table in tables)


def test_a_finite_population_needs_fewer_trees_than_the_bound():
    """As many disagree under the uniform prior, for which the bound is exact."""
    n_trees, rng = 500, np.random.default_rng(0)
    votes = (rng.random((3000, n_trees)) < rng.random((3000, 1))).astype(np.int32)
    whole = stop_after(votes, 2, criterion="certain").predicted
    by_bound = stop_after(votes, 2, confidence=0.99)
    share = float(np.mean(by_bound.predicted != whole))
    optimal = stop_after(votes, 2, disagreement=share, criterion="optimal", population="finite")
    assert np.mean(optimal.n_trees_used) < 0.9 * np.mean(by_bound.n_trees_used)


@pytest.mark.parametrize("population", ["finite", "infinite"])
@pytest.mark.parametrize("alpha", [(0.4, 0.3), (3.0, 2.0)])
def test_by_simulation(population, alpha, rng):
    n, n_trees = 20_000, 60
    p = rng.beta(*alpha[::-1], size=n)
    votes = (rng.random((n, n_trees)) < p[:, None]).astype(np.int32)
    prior = np.array(alpha)
    table = optimal_votes(n_trees, 0.02, population=population, prior=prior)
    found = stop_after(votes, 2, disagreement=0.02, criterion="optimal", population=population, prior=prior)
    winner = 2 * votes.sum(axis=1) > n_trees if population == "finite" else p > 0.5
    wrong = np.asarray(found.settled) & (np.asarray(found.predicted) != winner)
    assert abs(wrong.mean() - table.disagreement) < 3 * wrong.std() / n**0.5
    assert wrong.mean() < 0.02 + 2 * wrong.std() / n**0.5
    polled = np.asarray(found.n_trees_used)
    assert abs(polled.mean() - table.n_trees_used) < 4 * polled.std() / n**0.5
    assert abs(np.mean(polled == n_trees) - table.polled_all) < 0.01


reaches = lambda least, counts, t: bool(any(0 <= least[c, t] <= counts[c] for c in (0, 1)))


@pytest.mark.parametrize("population", ["infinite", "finite"])
@pytest.mark.parametrize("max_trees", [K, 25])
@pytest.mark.exhaustive(keep=1)
def test_forests_vote_by_the_table(population, max_trees, rng):
    votes = drawn_votes(rng, N, K, 2)
    forest, X = forest_of_votes(votes, 2)
    prior = np.array([0.7, 0.4])
    settings = {"disagreement": 0.02, "criterion": "optimal", "population": population, "prior": prior}
    of_all = K if population == "finite" else max_trees
    least = optimal_votes(max_trees, 0.02, population=population, prior=prior, n_trees=of_all).least
    expected = naive(votes[:, :max_trees], 2, 0.98, lambda counts, t: reaches(least, counts, t))
    found = [ju.predict_until_settled(forest, X, max_trees=max_trees, **settings)]
    found.append(voting.bind_vote(forest, max_trees=max_trees, walk="levels", **settings)(X))
    if max_trees == of_all:
        polled = votes[:, :max_trees]
        found.append(stop_after(polled, 2, **settings))
        found.append(jax.jit(lambda votes: stop_after(votes, 2, **settings))(polled))
    for result in found:
        same(result, expected)
    if population == "infinite":
        chance = np.asarray(voting.win_probability(found[0].votes, prior=prior)).max(axis=1)
        np.testing.assert_allclose(found[0].probability, chance, atol=3e-6)
    elif max_trees == K:
        assert np.all(found[0].probability[found[0].n_trees_used == K] == 1)


def test_weights_of_final_counts_in_a_forest(rng):
    votes = drawn_votes(rng, N, K, 2)
    forest, X = forest_of_votes(votes, 2)
    weights = np.bincount(votes.sum(axis=1), minlength=41) + 0.5
    settings = {"disagreement": 0.02, "criterion": "optimal", "population": "finite", "prior": weights}
    found = ju.predict_until_settled(forest, X, **settings)
    same(found, stop_after(votes, 2, **settings))
    i = int(np.argmin(found.probability))
    zeros, ones = found.votes[i]
    final, rest = np.arange(41), 40 - zeros - ones
    ways = weights * [comb(rest, k - ones) / comb(40, k) if k >= ones else 0 for k in range(41)]
    right = (2 * final > 20 * 2) == (ones > zeros)
    assert found.probability[i] == pytest.approx(np.sum(ways[right]) / np.sum(ways), rel=1e-5)


def test_votes_that_weights_exclude_go_on_to_the_end():
    votes = np.ones((N, K), np.int32)
    votes[1, 4], votes[2, 0] = 0, 0
    forest, X = forest_of_votes(votes, 2)
    ties_alone = (np.arange(41) == 20).astype(float)  # which class 0 wins
    settings = {"disagreement": 1e-12, "criterion": "optimal", "population": "finite", "prior": ties_alone}
    found = ju.predict_until_settled(forest, X, **settings)
    assert found.n_trees_used[:3].tolist() == [40, 40, 1]
    assert found.predicted[:3].tolist() == [1, 1, 0]
    assert found.probability[:3].tolist() == [1, 1, 1]
    some = ju.predict_until_settled(forest, X, max_trees=30, **settings)
    assert np.isnan(some.probability[:3]).tolist() == [True, True, False]
    assert some.settled[:3].tolist() == [True, True, True]  # 29 of 40 are certain


def test_trees_that_abstain(rng):
    n_trees, votes = 20, drawn_votes(rng, 40, 20, 2, abstaining=0.1)
    forest, X = forest_of_votes(votes, 2)
    least = optimal_votes(n_trees, 0.1).least
    infinite = naive(votes, 2, 0.9, lambda counts, _: reaches(least, counts, counts.sum()))
    of_all = optimal_votes(n_trees, 0.1, population="finite").least

    def settled(counts, t):
        if counts.sum() == t:
            return reaches(of_all, counts, t)
        return counts[0] != counts[1] and finite_loss(counts, t, n_trees) < 0.1

    finite = naive(votes, 2, 0.9, settled)
    for population, expected in (("infinite", infinite), ("finite", finite)):
        settings = {"disagreement": 0.1, "criterion": "optimal", "population": population}
        for result in (stop_after(votes, 2, **settings), ju.predict_until_settled(forest, X, **settings)):
            same(result, expected)
    assert not result.settled[-1]  # nobody voted
    refuses(ValueError, "trees abstain; pass α", stop_after, votes, 2, **settings, prior=np.ones(21))


def test_the_default_promise_is_one_in_a_hundred(rng):
    votes = drawn_votes(rng, N, K, 2)
    for criterion, promise in (("optimal", {"disagreement": 0.01}), ("bound", {"confidence": 0.99})):
        same(*(stop_after(votes, 2, criterion=criterion, **how) for how in ({}, promise)))


def test_what_is_no_boundary_is_seen():
    """Nothing that was tried gives up on near ties alone; if a prior did, its table would not say so."""
    on = [np.array([True]), np.array([True, True]), np.array([True]), np.array([True, False, False, True])]
    made = OptimalBoundary(on, Region([0, 0, 1, 0], [0, 1, 1, 3]), 4, 0.0, 0.0, 0.0)
    assert not made.is_boundary()
    assert made._replace(goes_on=[*on[:3], np.array([False, True, True, False])]).is_boundary()


VOTES = np.zeros((2, 8), int)
finite = {"population": "finite"}
traced = lambda: jax.jit(lambda a: optimal_votes(9, 0.1, prior=a).n_trees_used)(1.0)
test_refusals = refusals(
    ("no tree", lambda: optimal_votes(0, 0.01), "max_trees=0"),
    ("even odds", lambda: optimal_votes(9, 0.5), r"must lie in \(0, 0.5\)"),
    ("certainty", lambda: optimal_votes(9, 0.0), r"must lie in \(0, 0.5\)"),
    ("no population", lambda: optimal_votes(9, 0.1, population="infnite"), "Did you mean 'infinite'"),
    ("too few trees", lambda: optimal_votes(9, 0.1, n_trees=8), "n_trees=8"),
    ("weights without end", lambda: optimal_votes(9, 0.1, prior=np.ones(10)), "positive"),
    ("negative weights", lambda: optimal_votes(9, 0.1, **finite, prior=-np.ones(10)), "weights"),
    ("no weights", lambda: optimal_votes(9, 0.1, **finite, prior=np.zeros(10)), "not all 0"),
    ("traced", traced, "outside of jit"),
    ("confidence", lambda: stop_after(VOTES, 2, criterion="optimal", confidence=0.9), "pass disagreement=0.01"),
    ("no criterion", lambda: stop_after(VOTES, 2, disagreement=0.1), "choose criterion='optimal'"),
    ("three classes", lambda: stop_after(VOTES, 3, criterion="optimal"), "is for two classes"),
    ("prior in words", lambda: stop_after(VOTES, 2, criterion="optimal", prior="uniform"), "positive"),
    ("exact of three", lambda: voting.expected_trees(np.full(3, 1 / 3), criterion="exact"), "no table for 3 classes"),
)
