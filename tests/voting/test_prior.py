"""Priors learned from votes."""

import numpy as np
import pytest

from jaxunc.voting import VotePriorWarning, fit_vote_prior, stop_after
from tests._refusal import refuses

pytestmark = pytest.mark.once


def test_the_prior_that_drew_the_votes(rng):
    alpha = np.array([0.4, 1.5, 0.8])
    votes = np.array([rng.multinomial(60, p) for p in rng.dirichlet(alpha, size=4000)])
    np.testing.assert_allclose(fit_vote_prior(votes), alpha, rtol=0.1)
    alike = np.array([rng.multinomial(60, p) for p in rng.dirichlet(np.full(3, 0.7), size=4000)])
    found = fit_vote_prior(alike, symmetric=True)
    assert np.all(found == found[0])
    np.testing.assert_allclose(found, 0.7, rtol=0.05)


def test_a_doubtful_sample_stops_later_and_errs_less(rng):
    """Where p is near a half the uniform prior is too sure; the fitted one keeps what it promises."""
    p = rng.beta(12, 12, size=4000)
    votes = (rng.random((4000, 101)) < p[:, None]).astype(np.int32)
    prior = fit_vote_prior(np.stack([(1 - votes).sum(1), votes.sum(1)], axis=1)[:1000], symmetric=True)
    right = (p > 0.5).astype(int)

    def wrong(prior):
        found = stop_after(votes, 2, confidence=0.95, prior=prior)
        settled = np.asarray(found.settled)
        return np.mean(np.asarray(found.predicted)[settled] != right[settled]), np.mean(found.n_trees_used)

    (uniform, early), (fitted, late) = wrong(1.0), wrong(prior)
    assert uniform > 0.07
    assert fitted < 0.055
    assert late > early


@pytest.mark.parametrize(
    ("votes", "reason"),
    [
        (np.tile([50, 0], (50, 1)), "differ no more than by chance|do trees disagree"),
        (np.tile([0, 3, 0], (5, 1)), "differ no more than by chance|do trees disagree"),
        (np.repeat([[9, 0], [0, 9]], 4, axis=0), "do trees disagree"),
        (np.array([[7, 6]]), "instances: 1"),
        (np.tile([25, 25], (30, 1)), "differ no more than by chance"),
    ],
    ids=str,
)
@pytest.mark.parametrize("symmetric", [False, True])
def test_votes_that_say_nothing_leave_the_uniform_prior(votes, reason, symmetric):
    with pytest.warns(VotePriorWarning, match=reason):
        np.testing.assert_array_equal(fit_vote_prior(votes, symmetric=symmetric), 1.0)


def test_instances_that_differ_little_are_no_failure(rng):
    """α is large there, and the search is of both kinds."""
    votes = rng.binomial(400, rng.beta(30, 30, size=600))
    votes = np.stack([400 - votes, votes], axis=1)
    for symmetric in (False, True):
        np.testing.assert_allclose(fit_vote_prior(votes, symmetric=symmetric), 30, rtol=0.2)


def test_a_class_that_nobody_votes_for(rng):
    votes = np.array([rng.multinomial(20, p) for p in rng.dirichlet([0.5, 0.8], size=200)])
    prior = fit_vote_prior(np.insert(votes, 1, 0, axis=1))
    assert prior[1] == pytest.approx(1e-3)
    np.testing.assert_allclose(prior[[0, 2]], fit_vote_prior(votes), rtol=1e-4)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (np.eye(3), "two votes or more"),
        (np.array([3, 4]), "instances classes"),
        (np.array([[3, -4]]), "negative"),
        (np.ones((3, 1)), "two or more"),
    ],
)
def test_refusals(votes, message):
    with refuses(ValueError, message):
        fit_vote_prior(votes)
