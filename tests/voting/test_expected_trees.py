"""How many trees a vote takes."""

import jax
import numpy as np
import pytest

from jaxunc.voting import VotePriorWarning, critical_votes, expected_trees, forest_size_for, stop_after
from tests._refusal import refusals

pytestmark = pytest.mark.once
POPULATIONS = ("finite", "infinite")


def test_two_classes_by_enumeration():
    table, p = critical_votes(14, 0.9), 0.7

    def walk(ones, t, weight):
        """The mean number of trees from here on, and the probability of being settled."""
        if t and 0 <= table[t] <= max(ones, t - ones):
            return weight * t, weight
        if t == 14:
            return weight * t, 0.0
        up, down = walk(ones + 1, t + 1, weight * p), walk(ones, t + 1, weight * (1 - p))
        return up[0] + down[0], up[1] + down[1]

    expected = walk(0, 0, 1.0)
    found = expected_trees(np.array([0.3, 0.7]), 0.9, max_trees=14)
    np.testing.assert_allclose((found.n_trees_used, found.settled), expected, rtol=1e-5)
    certain = expected_trees(np.array([0.0, 1.0]), criterion="certain", max_trees=9)
    assert certain.n_trees_used == pytest.approx(5)


OPTIMAL = {"disagreement": 0.01, "criterion": "optimal"}


@pytest.mark.parametrize(
    ("p", "n_trees", "settings"),
    [
        *(
            pytest.param(p, n_trees, {"confidence": confidence}, marks=pytest.mark.exhaustive)
            for n_trees, confidence, of in (
                (200, 0.99, [(0.5, 0.5), (0.45, 0.55), (0.0, 1.0)]),
                (100, 0.95, [(0.2, 0.5, 0.3), (0.05, 0.9, 0.05)]),
            )
            for p in of
        ),
        *(pytest.param((0.4, 0.6), 60, OPTIMAL | {"population": of}, marks=pytest.mark.room) for of in POPULATIONS),
    ],
    ids=str,
)
def test_by_simulation(p, n_trees, settings, rng):
    n_classes, n = len(p), 20_000
    votes = rng.choice(n_classes, size=(n, n_trees), p=p).astype(np.int32)
    result, found = stop_after(votes, n_classes, **settings), expected_trees(np.array(p), max_trees=n_trees, **settings)
    polled = np.asarray(result.n_trees_used)
    drawn_as_well = 0.08 * polled.mean() if n_classes == 3 else 1e-3
    assert abs(found.n_trees_used - polled.mean()) < 5 * polled.std() / n**0.5 + drawn_as_well
    assert abs(found.settled - np.mean(result.settled)) < 0.02


@pytest.mark.exhaustive
def test_plans(rng):
    p = rng.beta(0.5, 0.5, size=1500)
    votes = rng.binomial(50, p)
    plan = forest_size_for(np.stack([50 - votes, votes], axis=1), 0.99, share=0.9, max_trees=1000)
    assert np.all(np.diff(plan.settled) >= -1e-6)
    assert np.all(np.diff(plan.n_trees_used) >= 0)
    truth = expected_trees(np.stack([1 - p, p], axis=1), 0.99, max_trees=1000)
    assert abs(plan.unsettled - np.mean(1 - truth.settled)) < 0.02
    assert abs(plan.n_trees_used[-1] / np.mean(truth.n_trees_used) - 1) < 0.2
    share = np.mean(expected_trees(np.stack([1 - p, p], axis=1), 0.99, max_trees=plan.needed).settled)
    assert abs(share - 0.9) < 0.02
    with pytest.warns(VotePriorWarning):
        assert forest_size_for(np.array([[25, 25]] * 30), 0.99, share=0.99, max_trees=60).needed is None
    votes = np.array([rng.multinomial(40, p) for p in rng.dirichlet([1, 2.5, 1.5], size=60)])
    assert 0 < forest_size_for(votes, 0.95, max_trees=300, key=jax.random.key(1)).settled[-1] <= 1


@pytest.mark.exhaustive
def test_more_trees_settle_more_but_slowly():
    """As the docstring of ``unsettled`` says: it shrinks with the root of the number of trees."""
    p = np.linspace(0.001, 0.999, 999)
    left = [1 - expected_trees(np.stack([1 - p, p], axis=1), 0.99, max_trees=n).settled.mean() for n in (200, 2000)]
    assert 0.25 < left[1] / left[0] < 0.4


HALF = np.array([0.5, 0.5])
test_refusals = refusals(
    ("sum", lambda: expected_trees(np.array([0.5, 0.6]), 0.9), "p must hold probabilities .*add to 1"),
    ("certainty", lambda: expected_trees(HALF, 1.0), r"must lie in \(0.5, 1\)"),
    ("no tree", lambda: expected_trees(HALF, 0.9, max_trees=0), "at least 1"),
    ("prior", lambda: expected_trees(np.full(3, 1 / 3), 0.9, prior=np.array([1.0, 2, 3])), "pass a number"),
    ("no instance", lambda: forest_size_for(np.zeros((0, 2)), 0.9), "one instance"),
    ("share", lambda: forest_size_for(np.ones((3, 2)), 0.9, share=1.0), "share"),
)
