"""A rule for each class against the rest, whose numbers differ by class: each answers as it would alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxunc as ju
from jaxunc.combiners import combine_counts, combiner_by_name
from tests._forests import forest_of_leaves, random_counts
from tests._refusal import refusals

PRIOR = np.array([0.625, 0.25, 0.125])
N, K = 20, 6
MAKERS = {
    "dempster": lambda p: ju.DempsterRule(prior=p),
    "cautious": lambda p: ju.CautiousRule(prior=p),
    "evidence": lambda p: ju.EvidenceAccumulation(p),
    "mean": lambda p: ju.Mean(Partial(ju.scorers.plausibility, prior=p)),
    "median": lambda p: ju.Median(Partial(ju.scorers.m_estimate, m=2.0, prior=p)),
    "pooling": lambda p: ju.Pooling(),
    "weighted": lambda p: ju.Weighted(ju.EvidenceAccumulation(p), np.arange(1.0, K + 1) * p),
    "discounted": lambda p: ju.DempsterRule(prior=p, reliability=np.linspace(p, 1, K)),
}


def against_rest(counts, c):
    return jnp.stack([counts.sum(axis=-1) - counts[..., c], counts[..., c]], axis=-1)


def alone(make, counts, mask=None):
    """Margins and log probabilities of the binary rules, one class at a time."""
    answers = [combine_counts(make(p), against_rest(counts, c), None, mask) for c, p in enumerate(PRIOR)]
    margins = np.stack([ju.margin(answer.class_scores) for answer in answers], axis=-1)
    return margins, np.stack([answer.probability[..., 1] for answer in answers], axis=-1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", MAKERS)
def test_each_class_as_alone(name, rng, tolerance, x64):
    make, counts = MAKERS[name], jnp.asarray(random_counts(rng, (N, K), 3))
    rule = ju.OneVsRest([make(p) for p in PRIOR])
    mask = jnp.asarray(rng.random((N, K)) < 0.7)
    answers = [(rule.answer(counts), None), (combine_counts(rule, counts, None, mask), mask)]
    if not (x64 and name == "pooling"):  # bind does not pair the 64-bit integers that counts against the rest are then
        forest, X = forest_of_leaves(np.asarray(counts))
        bound = ju.bind(forest, rule)
        answers += [(bound.answer(X), None), (bound.answer(X, tree_mask=np.asarray(mask)), mask)]
    for answer, allowed in answers:
        margins, probability = alone(make, counts, allowed)
        tolerance.check(answer.class_scores, margins, kind="pi", scale=1.0)
        tolerance.check(answer.probability, probability / probability.sum(axis=-1, keepdims=True), scale=1.0, kind="pi")
        assert answer.score is None


@pytest.mark.once
@pytest.mark.parametrize(
    "rule",
    [ju.DempsterRule(), ju.CautiousRule(), ju.Median(), ju.Weighted(ju.Mean(), np.arange(1.0, K + 1))],
    ids=["dempster", "cautious", "median", "weighted"],
)
@pytest.mark.exhaustive
def test_equal_rules_are_one(rule, rng, tolerance):
    counts = jnp.asarray(random_counts(rng, (N, K), 3))
    both, one = ju.OneVsRest([rule] * 3).answer(counts), ju.OneVsRest(rule).answer(counts)
    tolerance.check(both.class_scores, one.class_scores, scale=1.0)
    tolerance.check(both.probability, one.probability, scale=1.0)


def test_each_class_of_every_count_set(rng, tolerance):
    sets = [jnp.asarray(random_counts(rng, (N, K), 3)) for _ in range(2)]
    pool = ju.LearnedPool([0.5, 0.5], reads=("own", "oob"), inbag_weight=0.25)
    pairs = [jnp.concatenate([against_rest(counts, c) for counts in sets], axis=-1) for c in range(3)]
    margins = np.moveaxis(ju.margin(pool(jnp.stack(pairs))), 0, -1)
    for rule in (ju.OneVsRest(pool), ju.OneVsRest([pool] * 3)):
        tolerance.check(rule(jnp.concatenate(sets, axis=-1)), margins, kind="pi", scale=1.0)


@pytest.mark.once
def test_the_rest_beside_a_class_that_outweighs_it():
    """Counts of weighted instances: in float32 10⁷ + 0.75 less 10⁷ is 1."""
    counts = np.array([[[1e7, 0.5, 0.25]], [[1e9, 0.5, 0.0]]], np.float32)
    rest = np.stack([counts[..., 1:].sum(axis=-1), counts[..., 0]], axis=-1)
    margins = ju.OneVsRest(ju.DempsterRule(eps=0.0))(counts)[:, 0]
    np.testing.assert_allclose(margins, ju.margin(ju.DempsterRule(eps=0.0)(rest)), rtol=1e-6)


def test_scores_without_bound_have_no_probability(rng):
    counts = jnp.asarray(random_counts(rng, (N, K), 3))
    rule = ju.OneVsRest([ju.Mean(Partial(ju.scorers.ucb, n_samples=n)) for n in (50.0, 60.0, 70.0)])
    assert rule.answer(counts).probability is None


@pytest.mark.once
@pytest.mark.exhaustive
def test_the_priors_can_be_learned_and_are_as_many_as_the_classes(rng):
    counts = jnp.asarray(random_counts(rng, (N, K), 3).astype(float))
    rule = ju.OneVsRest([ju.DempsterRule(prior=p) for p in PRIOR])
    slopes = jax.jit(jax.grad(lambda rule: jnp.sum(rule.log_probability(counts)[:, 0])))(rule)
    priors = [one.prior for one in slopes.rule]
    assert len(priors) == 3
    assert all(np.isfinite(prior) and prior != 0 for prior in priors)


@pytest.mark.once
@pytest.mark.exhaustive
def test_by_name(rng, tolerance):
    counts = jnp.asarray(random_counts(rng, (N, K), 3))
    by_name = lambda **options: combiner_by_name("one_vs_rest", options, prior=PRIOR)
    even = ju.OneVsRest(ju.DempsterRule(prior=1 / 3))
    own = ju.OneVsRest([ju.DempsterRule(prior=p) for p in PRIOR])
    np.testing.assert_array_equal(by_name(rule="dempster-p")(counts), even(counts))
    np.testing.assert_array_equal(by_name(rule="dempster-p", priors="even")(counts), even(counts))
    for priors in ("forest", PRIOR, PRIOR.tolist()):
        tolerance.check(by_name(rule="dempster-p", priors=priors)(counts), own(counts), scale=1.0)
    evidence = ju.OneVsRest([ju.EvidenceAccumulation(p, 0.5) for p in PRIOR])
    tolerance.check(by_name(rule="evidence", smoothing=0.5, priors="forest")(counts), evidence(counts), scale=1.0)


def _one_vs_rest(*rules):
    return lambda: ju.OneVsRest([*rules])


def _by_name(priors):
    return lambda: combiner_by_name("one_vs_rest", {"priors": priors}, prior=PRIOR)


THREE = np.ones((4, 3, 3))
test_refusals = pytest.mark.once(
    refusals(
        ("none", _one_vs_rest(), "empty list"),
        ("kinds", _one_vs_rest(ju.Mean(), ju.Vote()), r"rule\[1\]=.*more than numbers"),
        ("options", _one_vs_rest(ju.DempsterRule(True), ju.DempsterRule()), r"rule\[1\]=.*more than numbers"),
        ("shapes", lambda: ju.OneVsRest([ju.DempsterRule(), ju.DempsterRule(reliability=np.ones(3))]), "than numbers"),
        ("function in a list", _one_vs_rest(ju.Mean(), ju.scorers.probability), "no Combiner", TypeError),
        ("function", lambda: ju.OneVsRest(ju.scorers.probability), "no Combiner", TypeError),
        ("two of 3", lambda: _one_vs_rest(ju.Mean(), ju.Mean())()(THREE), "2 combiners, but counts have 3 classes"),
        ("columns", lambda: ju.OneVsRest(ju.LearnedPool([0.5, 0.5], reads=("a", "b")))(THREE), "counts have 3 columns"),
        ("preferences", lambda: ju.OneVsRest([ju.GeneralizedVote(1.0)] * 3)(THREE), "with Preference", TypeError),
        ("priors in words", _by_name("own"), "priors='own' is unknown.*'even', 'forest'"),
        ("priors of two", _by_name([0.5, 0.5]), "priors has shape"),
    )
)
