"""Combiners by name, and what is said of unknown ones."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxunc as ju
from jaxunc.combiners import COMBINERS, CONFIGURED, combiner_by_name
from tests._refusal import refusals

pytestmark = pytest.mark.once

PRIOR = np.array([0.625, 0.375])
COUNTS = np.array([[[3, 1], [0, 2], [5, 5]]], np.int32)


@pytest.mark.parametrize("name", COMBINERS)
def test_every_name_makes_its_combiner(name):
    options = {"s": 1} if name in ("generalized_vote", "averaged_intervals") else {}
    assert type(combiner_by_name(name, options, prior=PRIOR)) is COMBINERS[name]


@pytest.mark.parametrize("name", CONFIGURED)
def test_configured_combiners(name):
    """A short name is its rule with its options; others are added to them, or take their place."""
    kind, options = CONFIGURED[name]
    assert name not in COMBINERS
    expected = combiner_by_name(kind, options, prior=PRIOR)
    assert eqx.tree_equal(combiner_by_name(name, prior=PRIOR), expected)
    if "scorer" in options:
        other = combiner_by_name(name, {"scorer": "linear", "scorer_options": {}}, prior=PRIOR)
        assert eqx.tree_equal(other, combiner_by_name(kind, {"scorer": "linear"}, prior=PRIOR))
        assert not eqx.tree_equal(other, expected)


@pytest.mark.exhaustive
def test_options():
    """Words and switches of a scorer are structure: they choose a program; numbers are leaves, which can be learned."""
    rule = combiner_by_name("evidence", {"smoothing": 0.5, "smooth_to_prior": True}, prior=PRIOR)
    expected = ju.EvidenceAccumulation(PRIOR, 0.5, smooth_to_prior=True)
    of_classes = combiner_by_name("one_vs_rest", {"rule": "cautious", "eps": 1e-3}, prior=np.ones(3) / 3)
    for found, wanted, counts in (
        (rule, expected, COUNTS),
        (combiner_by_name("dempster", {"prior": "forest"}, prior=PRIOR), ju.DempsterRule(prior=PRIOR), COUNTS),
        (combiner_by_name("dempster", prior=PRIOR), ju.DempsterRule(), COUNTS),
        (of_classes, ju.OneVsRest(ju.CautiousRule(eps=1e-3)), jnp.array([[[3, 1, 2], [0, 2, 0]]])),
    ):
        np.testing.assert_array_equal(found(counts), wanted(counts))
    given = ju.Pooling()
    assert combiner_by_name(given, prior=PRIOR) is given
    make = lambda weighted: ju.Mean(
        Partial(ju.scorers.confidence_bounds, family="beta", statistic="area", weighted=weighted)
    )
    assert jax.tree.leaves(make(True)) == []
    assert jax.tree.structure(make(True)) == jax.tree.structure(make(True))
    assert jax.tree.structure(make(True)) != jax.tree.structure(make(False))
    expected = ju.scorers.confidence_bounds(COUNTS, family="beta", statistic="area", weighted=False).mean(axis=1)
    np.testing.assert_allclose(make(False).score(COUNTS), expected, rtol=1e-6)
    np.testing.assert_allclose(make(False).probability(COUNTS)[:, 1], 0.5 + expected / 2, rtol=1e-6)
    grid = ju.Mean(Partial(ju.scorers.plausibility, method="grid", grid_size=51))
    assert len(jax.tree.leaves(ju.Mean(Partial(ju.scorers.plausibility, prior=0.3)))) == 1
    np.testing.assert_allclose(grid.score(COUNTS), ju.Mean(ju.scorers.plausibility).score(COUNTS), atol=0.05)


def test_scorers_with_settings_and_without_bound():
    rule = combiner_by_name("mean", {"scorer": "m_estimate", "scorer_options": {"m": 4.0, "prior": 0.25}}, prior=PRIOR)
    expected = ju.Mean(Partial(ju.scorers.m_estimate, m=4.0, prior=0.25))
    np.testing.assert_array_equal(rule(COUNTS), expected(COUNTS))
    rule = combiner_by_name("median", {"scorer": "ucb"}, prior=PRIOR, n_samples=80.0)
    np.testing.assert_array_equal(rule(COUNTS), ju.Median(Partial(ju.scorers.ucb, n_samples=80.0))(COUNTS))
    np.testing.assert_allclose(ju.Mean(ju.scorers.linear).score(COUNTS), [0.0], atol=1e-7)


UNBOUNDED = "not defined for scores without a bound"


def _named(name, **options):
    return lambda: combiner_by_name(name, options, prior=PRIOR)


test_refusals = refusals(
    (
        "name",
        _named("dempsterr"),
        "name='dempsterr' is unknown. Did you mean 'dempster'.*Known are mean.*plausibility-p",
    ),
    ("number", _named(3), "name=3 is unknown"),
    ("option", _named("evidence", smooting=1), "combiner 'evidence' has no option 'smooting'; it has"),
    ("scorer of a vote", _named("vote", scorer="laplace"), "combiner 'vote' has no option 'scorer'"),
    ("scorer", _named("mean", scorer="laplase"), "scorer='laplase' is unknown. Did you mean 'laplace'"),
    ("setting", _named("mean", scorer="laplace", scorer_options={"m": 1}), "scorer 'laplace' has no setting 'm'"),
    ("no setting", _named("mean", scorer="m_estimate"), "scorer 'm_estimate' needs scorer_options with 'm', 'prior'"),
    (
        "no prior",
        lambda: combiner_by_name("one_vs_rest", prior=None),
        "prior=None, but combiner 'one_vs_rest' needs",
        TypeError,
    ),
    ("rule within", _named("one_vs_rest", rule="vot"), "name='vot' is unknown"),
    ("combiner with options", _named(ju.Vote(), ties="split"), "need a combiner's name"),
    ("ties", _named("vote", ties="splt"), "ties='splt' is unknown. Did you mean 'split'"),
    ("statistic", _named("beta_aggregation", statistic="som"), "'som' is unknown. Did you mean 'sum'"),
    ("unbounded", lambda: ju.Mean(ju.scorers.linear).probability(COUNTS), UNBOUNDED),
    ("logarithm", lambda: ju.Mean(ju.scorers.linear).log_probability(COUNTS), UNBOUNDED),
    ("three classes", lambda: ju.Mean(ju.scorers.linear).probability(np.ones((4, 3, 3))), UNBOUNDED),
)


@pytest.mark.exhaustive
def test_no_class_has_a_majority():
    """Medians and extremes may find every class improbable: then all are alike."""
    counts = jnp.array([[[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[1, 1, 0], [0, 1, 1], [1, 0, 1]]])
    for rule in (ju.Median(), ju.Maximum(), ju.GeneralizedMixture(reference="median")):
        probability = np.asarray(rule.probability(counts))
        assert np.all(np.isfinite(probability))
        np.testing.assert_allclose(probability.sum(axis=-1), 1, rtol=1e-6)
    np.testing.assert_allclose(ju.Median().probability(counts)[0], 1 / 3, rtol=1e-6)
