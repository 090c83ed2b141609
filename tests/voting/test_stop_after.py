"""The sequential rule."""

import jax
import numpy as np
import pytest

from jaxunc.voting import stop_after
from jaxunc.voting._leader_probability import leader_probability
from tests._golden import golden
from tests._refusal import refusals
from tests.voting._votes import drawn_votes, naive, rows_of, same, settled_by

pytestmark = pytest.mark.once


N, K = 60, 40
"""Instances and trees of most tests, which so share their programs."""


def test_reference_cases_and_no_instances():
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
    nothing = stop_after(np.zeros((0, 5), int), 2, confidence=0.9)
    assert [nothing.n_trees_used.shape, nothing.votes.shape] == [(0,), (0, 2)]


PRIOR = np.array([0.5, 2.0, 1.0])
RULES = [
    *((n, {"prior": prior}, 0.0) for n in (2, 3, 7) for prior in (1.0, 0.3)),
    *((n, settings, 0.25) for n in (2, 3) for settings in ({}, {"population": "finite"})),
    *((n, {"prior": PRIOR[:n]}, abstaining) for n in (2, 3) for abstaining in (0.0, 0.25)),
    *((n, {"criterion": "certain"}, 0.0) for n in (2, 3, 5)),
    *((n, {"criterion": "certain"}, 0.25) for n in (2, 3)),
    *((n, {"criterion": "exact"}, abstaining) for n, abstaining in ((4, 0.0), (3, 0.25))),
]


@pytest.mark.parametrize(("n_classes", "settings", "abstaining"), RULES, ids=str)
def test_equal_to_the_loop(n_classes, settings, abstaining, rng):
    criterion = settings.get("criterion")
    n, n_trees = (20, 16) if abstaining else (N, K + n_classes % 2 if criterion == "certain" else K)
    votes = drawn_votes(rng, n, n_trees, n_classes, abstaining)
    found = stop_after(votes, n_classes, confidence=0.95, **settings)
    same(found, naive(votes, n_classes, 0.95, settled_by(n_trees, 0.95, **settings)))
    assert 0.1 < np.mean(found.settled) < 1 or criterion == "certain"
    if abstaining:
        assert not found.settled[-1]  # nobody voted
        assert found.n_trees_used[-1] == n_trees
    elif criterion == "certain":
        whole = [np.bincount(row, minlength=n_classes).argmax() for row in votes]
        np.testing.assert_array_equal(found.predicted, whole)
    elif criterion == "exact":
        assert np.mean(found.n_trees_used) < np.mean(stop_after(votes, n_classes, confidence=0.95).n_trees_used)


def test_a_prior_that_outweighs_the_votes():
    """Its votes settle by leads that are large beside the number of trees."""
    votes, prior = np.zeros((2, 200), int), 3e3
    votes[1, ::9] = 1
    found = stop_after(votes, 3, confidence=0.9, prior=prior)
    same(found, naive(votes, 3, 0.9, settled_by(200, 0.9, prior=prior)))
    assert found.settled.all()


def test_a_finite_population_of_three_classes():
    """Of two classes the probability is exact: a third that nobody votes for only adds to its rivals."""
    counts, n_trees = np.array([[5, 3, 0], [6, 1, 1]]), 12
    stays = leader_probability(counts, counts.sum(axis=1), n_trees, "bound", "finite", np.ones(3))
    draws = np.random.default_rng(0)
    for row, bound in zip(counts, stays, strict=True):
        p = draws.dirichlet(row + 1, size=200_000)
        final = row + draws.multinomial(n_trees - row.sum(), p)
        wins = np.mean(final.argmax(axis=1) == row.argmax())
        assert wins - 0.06 <= bound <= wins + 0.004


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
_stopping = lambda votes=VOTES, n_classes=2, **how: lambda: stop_after(votes, n_classes, **{"confidence": 0.9} | how)
test_refusals = refusals(
    ("even odds", _stopping(confidence=0.5), r"must lie in \(0.5, 1\)"),
    ("no tree", _stopping(VOTES[:, :0]), "one tree at least"),
    ("class 2 of two", _stopping(VOTES + 2), "holds 2, outside of the classes 0 to 1"),
    ("class -2", _stopping(VOTES - 2), "holds -2"),
    ("one class", _stopping(n_classes=1), "at least 2"),
    ("fractions", _stopping(VOTES * 1.0), "integers", TypeError),
    ("no criterion", _stopping(criterion="sure"), "sure"),
    ("no population", _stopping(population="all"), "all"),
    ("finite of three", _stopping(VOTES, 3, criterion="exact", population="finite"), "no tractable form"),
    ("traced prior", lambda: jax.eval_shape(lambda a: stop_after(VOTES, 2, prior=a), 1.0), "prior is traced, but"),
    ("trace", lambda: jax.jit(lambda v: stop_after(v, 3, confidence=0.9, criterion="exact"))(VOTES), "outside of jit"),
)
