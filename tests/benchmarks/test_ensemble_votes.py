"""The vote of finitely many trees: all votes one by one, the majority of two classes, drawn votes."""

from fractions import Fraction
from itertools import product
from math import factorial, prod

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.studies.voting.ensemble_votes import ensemble_vote_probability
from tests._golden import golden

pytestmark = pytest.mark.once


def enumerated(p, n_trees: int) -> list[float]:
    """The sum of Eq. 2 over all votes that a class wins, in fractions."""
    shares, won = [Fraction(float(of)) for of in p], [Fraction(0)] * len(p)
    for votes in product(range(n_trees + 1), repeat=len(p)):
        if sum(votes) == n_trees:
            ways = factorial(n_trees) // prod(map(factorial, votes))
            won[int(np.argmax(votes))] += ways * prod(of**v for of, v in zip(shares, votes, strict=True))
    return [float(of) for of in won]


@pytest.mark.parametrize(("n_classes", "n_trees"), [(2, 1), (2, 6), (2, 7), (3, 2), (3, 8), (4, 5), (5, 4)])
def test_the_sum_over_all_votes(n_classes, n_trees, rng):
    p = rng.dirichlet(np.ones(n_classes), size=3)
    expected = [enumerated(row, n_trees) for row in p]
    np.testing.assert_allclose(ensemble_vote_probability(p, n_trees), expected, rtol=1e-12, atol=1e-14)


def test_two_classes_are_a_majority():
    """Equation 4: of an odd number of trees the majority is strict."""
    for case in golden("infinite_ensemble")["eq4"]:
        if case["t"] % 2:
            found = ensemble_vote_probability(np.array([case["p1"], 1 - case["p1"]]), case["t"])
            assert found[0] == pytest.approx(case["prob_strict_majority"], abs=1e-12)
    even = ensemble_vote_probability(np.array([0.3, 0.7]), 40)
    assert even[1] == pytest.approx(binom.sf(20, 40, 0.7), abs=1e-6)  # the first class wins ties


@pytest.mark.parametrize("n_trees", [1, 101, pytest.param(5001, marks=pytest.mark.exhaustive)])
def test_they_add_to_one(n_trees, rng):
    found = ensemble_vote_probability(np.stack([[0.5, 0.5], rng.dirichlet(np.ones(2))]), n_trees)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=0, atol=2e-15 * n_trees)


def test_many_classes_and_trees(rng, monkeypatch):
    p = rng.dirichlet(np.ones(7))
    found = ensemble_vote_probability(p, 301)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    votes = rng.multinomial(301, p, size=40_000)
    drawn = np.bincount(votes.argmax(axis=1), minlength=7) / 40_000
    np.testing.assert_allclose(found, drawn, atol=4 * 0.5 / 200)
    monkeypatch.setattr("benchmarks.studies.voting.ensemble_votes.PRODUCT_ENTRIES", 5000)
    np.testing.assert_allclose(ensemble_vote_probability(p, 301), found, rtol=1e-9)


def test_certain_votes_and_shapes():
    np.testing.assert_allclose(ensemble_vote_probability(np.eye(3), 9), np.eye(3), atol=1e-14)
    p = np.array([[[0.2, 0.8], [0.5, 0.5]]])
    assert ensemble_vote_probability(p, 3).shape == (1, 2, 2)
    assert ensemble_vote_probability(p[:0], 3).shape == (0, 2, 2)
    np.testing.assert_allclose(ensemble_vote_probability(np.array([0.5, 0.5]), 2), [0.75, 0.25])
