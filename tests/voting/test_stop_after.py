"""The sequential rule."""

import jax
import numpy as np
import pytest

from jaxunc.voting import stop_after
from jaxunc.voting._leader_probability import leader_probability
from tests._golden import golden
from tests._refusal import refusals
from tests.voting._votes import drawn_votes, finite_loss, lower_bound, naive, rows_of, same

pytestmark = pytest.mark.once


N, K = 60, 40
"""Instances and trees of most tests, which so share their programs."""


def test_reference_cases():
    cases = golden("infinite_ensemble")["stopping"]
    longest = max(len(case["votes"]) for case in cases)
    for case in cases:
        votes = np.full((1, longest), -1)  # who abstains in the end changes nothing, and one shape serves all
        votes[0, : len(case["votes"])] = case["votes"]
        found = stop_after(votes, case["C"], confidence=case["pi"])
        assert (int(found.n_trees_used[0]) if found.settled[0] else None) == case["stop_after"]
        if found.settled[0]:
            assert int(found.predicted[0]) == case["predicted"]
            np.testing.assert_array_equal(found.votes[0], case["counts_at_stop"])
        else:
            assert int(found.n_trees_used[0]) == longest


def check(votes, n_classes, settled, **settings):
    found = stop_after(votes, n_classes, confidence=0.95, **settings)
    same(found, naive(votes, n_classes, 0.95, settled))
    return found


@pytest.mark.parametrize(
    ("n_classes", "prior"),
    [*((n, prior) for n in (2, 3, 7) for prior in (1.0, 0.3)), (2, np.array([0.5, 2])), (3, np.array([0.5, 2, 1]))],
    ids=str,
)
def test_the_bound(n_classes, prior, rng):
    votes = drawn_votes(rng, N, K, n_classes)
    found = check(votes, n_classes, lambda counts, _: lower_bound(counts, prior) > 0.95, prior=prior)
    assert 0.3 < np.mean(found.settled) < 1


def test_the_exact_probability_stops_earlier(rng):
    votes = drawn_votes(rng, N, K, 4)

    def settled(counts, _):
        top = np.sort(counts)
        leading = counts[None], counts[None].sum(axis=1), 0
        return top[-1] > top[-2] and leader_probability(*leading, "exact", "infinite", np.ones(4))[0] > 0.95

    exact = check(votes, 4, settled, criterion="exact")
    bound = stop_after(votes, 4, confidence=0.95)
    assert np.all(np.asarray(exact.n_trees_used) <= np.asarray(bound.n_trees_used))
    assert np.mean(exact.n_trees_used) < np.mean(bound.n_trees_used)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("n_trees", [K, K + 1])
def test_certainty(n_classes, n_trees, rng):
    votes = drawn_votes(rng, N, n_trees, n_classes)

    def settled(counts, t):
        top = np.sort(counts)
        return top[-1] - top[-2] > n_trees - t

    found = check(votes, n_classes, settled, criterion="certain")
    whole = np.array([np.bincount(row, minlength=n_classes).argmax() for row in votes])
    np.testing.assert_array_equal(found.predicted, whole)


def test_a_finite_population_of_three_classes(rng):
    n_trees, votes = 12, drawn_votes(rng, 30, 12, 3)
    found = stop_after(votes, 3, confidence=0.9, population="finite")
    infinite = stop_after(votes, 3, confidence=0.9)
    certain = stop_after(votes, 3, confidence=0.9, criterion="certain")
    assert np.all(np.asarray(found.n_trees_used) <= np.asarray(certain.n_trees_used))
    assert np.mean(found.n_trees_used) < np.mean(infinite.n_trees_used)
    # Of two classes the probability is exact: a third that nobody votes for only adds to its rivals.
    counts = np.array([[5, 3, 0], [6, 1, 1]])
    stays = leader_probability(counts, counts.sum(axis=1), n_trees, "bound", "finite", np.ones(3))
    draws = np.random.default_rng(0)
    for row, bound in zip(counts, stays, strict=True):
        p = draws.dirichlet(row + 1, size=200_000)
        final = row + draws.multinomial(n_trees - row.sum(), p)
        wins = np.mean(final.argmax(axis=1) == row.argmax())
        assert bound <= wins + 0.004
        assert bound >= wins - 0.06


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [{}, {"prior": np.array([0.5, 2.0, 1.0])}, {"criterion": "certain"}, {"population": "finite"}],
    ids=["bound", "prior", "certain", "finite"],
)
@pytest.mark.exhaustive(keep=4)  # each of the settings once
def test_trees_that_abstain(n_classes, settings, rng):
    n_trees, votes = 16, drawn_votes(rng, 20, 16, n_classes, abstaining=0.25)
    prior = settings.get("prior", np.ones(3))[:n_classes]

    def settled(counts, t):
        top = np.sort(counts)
        if settings.get("criterion") == "certain":
            return top[-1] - top[-2] > n_trees - t
        if settings.get("population") == "finite":
            return top[-1] > top[-2] and finite_loss(counts, t, n_trees) < 0.05
        return lower_bound(counts, prior) > 0.95

    found = check(votes, n_classes, settled, **settings | ({"prior": prior} if "prior" in settings else {}))
    assert 0.1 < np.mean(found.settled) < 1
    assert not found.settled[-1]  # nobody voted
    assert found.n_trees_used[-1] == n_trees


def test_who_abstains_is_no_vote(rng):
    """Of an infinite ensemble the answer is that of the votes cast, at the tree that cast the last of them."""
    votes = drawn_votes(rng, N, K, 3, abstaining=0.3)
    order = np.argsort(votes < 0, axis=1, kind="stable")
    first = np.take_along_axis(votes, order, axis=1)  # who abstains comes last
    for criterion in ("bound", "exact"):
        found, alike = (stop_after(v, 3, confidence=0.9, criterion=criterion) for v in (votes, first))
        np.testing.assert_array_equal(found.votes, alike.votes)
        np.testing.assert_array_equal(found.settled, alike.settled)
        done = np.asarray(found.settled)
        last = np.take_along_axis(order, np.asarray(alike.n_trees_used)[:, None] - 1, axis=1)[:, 0] + 1
        np.testing.assert_array_equal(np.asarray(found.n_trees_used)[done], last[done])


@pytest.mark.parametrize(("n_classes", "population"), [(3, "infinite"), (2, "infinite"), (2, "finite")])
def test_traced(n_classes, population, rng):
    votes = drawn_votes(rng, N, K, n_classes, abstaining=0.03)
    settings = {"confidence": 0.9, "population": population}
    found = jax.jit(lambda v: stop_after(v, n_classes, **settings))(votes)
    expected = stop_after(votes, n_classes, **settings)
    if population == "finite":  # instances with an abstention are not settled, and the others are as without any
        n_trees_used = np.asarray(found.n_trees_used)
        abstained = np.array([np.any(row[:t] < 0) for row, t in zip(votes, n_trees_used, strict=True)])
        assert not np.any(np.asarray(found.settled) & abstained)
        clean = stop_after(np.maximum(votes, 0), 2, **settings)
        found, expected = (rows_of(of, ~abstained) for of in (found, clean))
        assert np.sum(~abstained) > 5
    same(found, expected)


VOTES = np.zeros((2, 8), int)


def _stopping(votes=VOTES, n_classes=2, **settings):
    return lambda: stop_after(votes, n_classes, **{"confidence": 0.9} | settings)


test_refusals = refusals(
    ("even odds", _stopping(confidence=0.5), r"must lie in \(0.5, 1\)"),
    ("no tree", _stopping(VOTES[:, :0]), "one tree at least"),
    ("class 2 of two", _stopping(VOTES + 2), "holds 2, outside of the classes 0 to 1"),
    ("class -2", _stopping(VOTES - 2), "holds -2"),
    ("one class", _stopping(n_classes=1), "at least 2"),
    ("fractions", _stopping(VOTES * 1.0), "integers", TypeError),
    ("no criterion", _stopping(criterion="sure"), "sure"),
    ("no population", _stopping(population="all"), "all"),
    ("negative prior", _stopping(prior=-1.0), "positive"),
    ("prior in words", _stopping(prior="uniform"), "positive"),
    ("finite of three", _stopping(VOTES, 3, criterion="exact", population="finite"), "no tractable form"),
    ("trace", lambda: jax.jit(lambda v: stop_after(v, 3, confidence=0.9, criterion="exact"))(VOTES), "outside of jit"),
)


def test_no_instances():
    found = stop_after(np.zeros((0, 5), int), 2, confidence=0.9)
    assert found.n_trees_used.shape == (0,)
    assert found.votes.shape == (0, 2)
