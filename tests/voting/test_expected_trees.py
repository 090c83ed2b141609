"""How many trees a vote takes."""

import jax
import numpy as np
import pytest

from jaxunc.voting import VotePriorWarning, critical_votes, expected_trees, forest_size_for, stop_after
from tests._refusal import refusals

pytestmark = pytest.mark.once


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


@pytest.mark.parametrize("p", [(0.5, 0.5), (0.45, 0.55), (0.0, 1.0)])
@pytest.mark.exhaustive
def test_two_classes_by_simulation(p, rng):
    votes = (rng.random((20_000, 200)) < p[1]).astype(np.int32)
    result = stop_after(votes, 2, confidence=0.99)
    found = expected_trees(np.array(p), 0.99, max_trees=200)
    polled = np.asarray(result.n_trees_used)
    assert abs(found.n_trees_used - polled.mean()) < 5 * polled.std() / 20_000**0.5 + 1e-3
    assert abs(found.settled - np.mean(result.settled)) < 0.02


@pytest.mark.exhaustive
def test_three_classes(rng):
    p = np.array([[0.2, 0.5, 0.3], [0.05, 0.9, 0.05]])
    found = expected_trees(p, 0.95, max_trees=100)
    for row, mean in zip(p, found.n_trees_used, strict=True):
        votes = rng.choice(3, size=(5000, 100), p=row).astype(np.int32)
        assert abs(np.mean(stop_after(votes, 3, confidence=0.95).n_trees_used) - mean) < 0.08 * mean
    votes = np.array([rng.multinomial(40, p) for p in rng.dirichlet([1, 2.5, 1.5], size=60)])
    plan = forest_size_for(votes, 0.95, max_trees=300, key=jax.random.key(1))
    assert 0 < plan.settled[-1] <= 1


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
