"""Priors learned from votes."""

import numpy as np
import pytest

from jaxunc.stopping import fit_vote_prior, stop_after
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
        return np.mean(np.asarray(found.predicted)[settled] != right[settled]), np.mean(found.n_polled)

    (uniform, early), (fitted, late) = wrong(1.0), wrong(prior)
    assert uniform > 0.07
    assert fitted < 0.055
    assert late > early


@pytest.mark.parametrize("votes", [np.tile([50, 0], (20, 1)), np.tile([0, 3, 0], (5, 1))])
def test_votes_that_never_disagree_give_a_prior_that_can_be_used(votes):
    for symmetric in (False, True):
        prior = fit_vote_prior(votes, symmetric=symmetric)
        assert np.all(prior > 0)
        assert np.all(np.isfinite(prior))


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
