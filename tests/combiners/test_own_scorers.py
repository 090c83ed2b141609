"""Scorers of a user's own: scores beyond their width are refused, not cut."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxunc as ju
from tests._forests import toy_forest

pytestmark = pytest.mark.once
COUNTS = np.array([[3, 1], [0, 4]])


def counted(counts):
    """The lead of class 1, without a bound."""
    return (counts[..., 1] - counts[..., 0]).astype(jnp.float32)


def small(counts):
    """Shares, between -1/2 and 1/2."""
    return counts[..., 1] / counts.sum(axis=-1) - 0.5


@ju.scorers.scorer(width=2.0)
def signed(counts):
    """Shares, between -1 and 1."""
    return 2 * small(counts)


@ju.scorers.scorer(width=1.0, reads_sizes=True)
def too_wide(counts):
    """Shares, wider than is declared."""
    return 2 * small(counts)


@ju.scorers.scorer(width=float("inf"))
def unbounded(counts):
    """The lead, as it is."""
    return counted(counts)


@pytest.mark.parametrize("kind", [ju.Mean, ju.Median, ju.Maximum, ju.GeneralizedMixture])
@pytest.mark.parametrize("scorer", [counted, too_wide, Partial(counted)])
def test_scores_beyond_the_width_are_refused(kind, scorer):
    with pytest.raises(ValueError, match=r"gives the leaf \[.*\] the score .*width="):
        kind(scorer).probability(COUNTS)
    with pytest.raises(ValueError, match=r"gives the leaf \[.*\] the score .*width="):
        ju.bind(toy_forest(2, 4), ju.combiners.Together(one=kind(scorer), two=ju.Vote()))


def test_rules_by_tree_are_asked_too():
    with pytest.raises(ValueError, match=r"the score .*width="):
        ju.bind(toy_forest(2, 4), ju.Weighted(ju.Mean(counted), jnp.arange(1.0, 5.0)))


@pytest.mark.parametrize("scorer", [small, signed, unbounded])
def test_scores_within_it_are_taken(scorer):
    assert np.isfinite(ju.Mean(scorer)(COUNTS)).all()
    assert np.isfinite(jax.jit(ju.Mean(scorer))(COUNTS)).all()
    assert np.isfinite(ju.bind(toy_forest(2, 4), ju.Mean(scorer))(np.zeros((3, toy_forest(2, 4).n_features)))).all()


class Bare(ju.Combiner):
    """A rule that answers with an array."""

    merge = "sum"

    def lift(self, counts):
        """The counts."""
        return counts.astype(jnp.float32)

    def finish(self, stat):
        """The sums, as they are."""
        return stat


@pytest.mark.parametrize(
    "ask",
    [
        lambda rule: rule.probability(COUNTS),
        lambda rule: rule.score(COUNTS),
        lambda rule: ju.bind(toy_forest(2, 4), rule).probability(np.zeros((3, toy_forest(2, 4).n_features))),
        lambda rule: ju.Calibrated(rule)(COUNTS),
        lambda rule: ju.OneVsRest(rule)(np.array([[1, 2, 3]])),
    ],
)
def test_an_array_is_called_an_array(ask):
    with pytest.raises((TypeError, ValueError), match=r"answers with an array") as caught:
        ask(Bare())
    assert "Tracer" not in str(caught.value)
