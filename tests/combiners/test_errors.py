"""What rules refuse, and what they say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from tests._forests import toy_forest
from tests._refusal import refuses
from tests._rules import RULES, make

pytestmark = pytest.mark.once

COUNTS = jnp.ones((4, 3, 2))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    ("counts", "match"),
    [
        (jnp.array([[[1.0, -1.0], [1, 1], [1, 1]]]), "counts holds negative"),
        (jnp.array([[[1.0, jnp.nan], [1, 1], [1, 1]]]), "counts holds NaN"),
        (jnp.array([[[1.0, jnp.inf], [1, 1], [1, 1]]]), "counts holds NaN or infinite"),
        (jnp.ones(2), "tree axis"),
        (jnp.ones((3, 1)), "last axis"),
        (jnp.ones(()), "last axis"),
    ],
    ids=["negative", "nan", "infinite", "no trees", "one class", "scalar"],
)
def test_counts(name, counts, match):
    with refuses(ValueError, match):
        make(name, 2, 3)(counts)


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.binary_only])
def test_rules_for_two_classes(name):
    with refuses(ValueError, "scorer returned shape" if name == "mean_own_scorer" else "OneVsRest"):
        make(name, 3, 3)(jnp.ones((4, 3, 3)))


def test_margin_is_binary():
    with refuses(ValueError, "margin compares two classes"):
        ju.margin(jnp.ones((4, 3)))
    np.testing.assert_array_equal(ju.margin(jnp.array([[1.0, 3.0]])), [2])


@pytest.mark.parametrize(
    ("prior", "match"),
    [
        (np.array([1.0, 0.0]), "prior.*not positive"),
        (np.array([1.5, -0.5]), "prior.*not positive"),
        (np.array([0.5, 0.6]), "prior.*adds to"),
        (np.array([np.nan, 1.0]), "prior"),
        (0.0, "prior"),
        (1.5, "prior"),
        (np.ones((2, 2)) / 2, "prior has shape"),
    ],
    ids=str,
)
def test_evidence_prior(prior, match):
    with refuses(ValueError, match):
        ju.EvidenceAccumulation(prior)


def test_evidence_prior_of_other_classes():
    with refuses(ValueError, "prior has 3 classes"):
        ju.EvidenceAccumulation(np.array([0.2, 0.3, 0.5]))(COUNTS)


@pytest.mark.parametrize("smoothing", [-0.1, np.nan, np.inf])
def test_evidence_smoothing(smoothing):
    with refuses(ValueError, "smoothing"):
        ju.EvidenceAccumulation(0.5, smoothing)


def test_evidence_prior_term():
    with refuses(ValueError, "prior_term='linear' is unknown.*'log', 'published_code'"):
        ju.EvidenceAccumulation(0.5, prior_term="linear")


@pytest.mark.parametrize("eps", [-1e-5, 1.0, 2, np.nan])
def test_dempster_eps(eps):
    with refuses(ValueError, "eps"):
        ju.DempsterRule(eps=eps)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ([1.0, -1.0, 1.0], "weights=.* must be"),
        ([1.0, np.nan, 1.0], "weights=.* must be"),
        ([1.0, np.inf, 1.0], "weights=.* must be"),
        (1.0, "weights has shape"),
        (np.ones((3, 2)), "weights has shape"),
    ],
    ids=["negative", "nan", "infinite", "number", "matrix"],
)
def test_weights(weights, match):
    with refuses(ValueError, match):
        ju.Weighted(ju.Mean(), np.asarray(weights))


def test_weights_of_another_number_of_trees():
    rule = ju.Weighted(ju.Mean(), np.ones(4))
    with refuses(ValueError, r"weights.*\(4,\).*3 trees"):
        rule(COUNTS)
    with refuses(ValueError, r"weights.*\(4,\).*12 trees"):
        ju.bind(toy_forest(2), rule)
    with refuses(ValueError, "weights"):
        ju.combiners.Together(a=ju.combiners.Together(b=rule))(COUNTS)


class Least(ju.Combiner):
    """The smallest count of class 1."""

    merge = "min"

    def lift(self, counts):
        return counts[..., 1]

    def finish(self, stat):
        return stat


def test_weights_multiply_sums_alone():
    with refuses(ValueError, "Least merges by"):
        ju.Weighted(Least(), np.ones(3))


def test_together_needs_rules():
    with refuses(ValueError, "at least one combiner"):
        ju.combiners.Together()
    with refuses(TypeError, "mean=.*is no Combiner"):
        ju.combiners.Together(mean=ju.scorers.probability)


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        (ju.combiners.Together(mean=ju.Mean()), "Together answers with dict"),
        (ju.GeneralizedVote(1.0), "GeneralizedVote answers with Preference"),
        (ju.UncertaintyDecomposition("plausibility"), "UncertaintyDecomposition answers with Uncertainty"),
        (ju.UncertaintyDecomposition("entropy"), "UncertaintyDecomposition answers with Uncertainty"),
    ],
    ids=["together", "vote", "plausibility", "entropy"],
)
def test_rules_without_class_scores_against_the_rest(rule, answer):
    with refuses(TypeError, answer):
        ju.OneVsRest(rule)(jnp.ones((4, 3, 3)))


def test_unknown_merges():
    class Product(Least):
        merge = "product"

    class Nested(Least):
        @property
        def merge(self):
            return {"a": "sum", "b": "mean"}

        def lift(self, counts):
            return {"a": counts[..., 1], "b": counts[..., 0]}

    for rule in (Product(), Nested()):
        with refuses(ValueError, "merge='(product|mean)' is unknown"):
            rule(COUNTS)
        with refuses(ValueError, "merge='(product|mean)' is unknown"):
            ju.bind(toy_forest(2), rule)


@pytest.mark.parametrize(
    "lift",
    [
        lambda counts: jnp.ones(7),
        lambda counts: counts.T,
        lambda counts: {"good": counts, "bad": jnp.ones((2, 3, 4))},
    ],
)
def test_lifts_of_wrong_shape(lift):
    class Crooked(Least):
        merge = "sum"

        def lift(self, counts):
            return lift(counts)

    with refuses(ValueError, r"Crooked.lift returned an array of shape"):
        Crooked()(COUNTS)
    with refuses(ValueError, r"Crooked.lift returned an array of shape"):
        ju.inference.leaf_table(toy_forest(2), Crooked())


@pytest.mark.parametrize(
    "scorer", [lambda counts: counts, lambda counts: counts[..., None], lambda counts: jnp.sum(counts)]
)
def test_scorers_of_wrong_shape(scorer):
    with refuses(ValueError, "scorer returned shape"):
        ju.Mean(scorer)(COUNTS)


def test_scorers_of_one_number_for_many_classes():
    with refuses(ValueError, "scorer returned shape"):
        ju.Mean(lambda counts: counts[..., 0])(jnp.ones((4, 3, 3)))


@pytest.mark.parametrize("scorer", [None, "probability", 3])
def test_scorers_that_are_no_function(scorer):
    with refuses(TypeError, "scorer=.*not a function"):
        ju.Mean(scorer)


def test_readouts_that_a_rule_has_not():
    rule = Least()
    np.testing.assert_array_equal(rule(COUNTS), 1)
    for readout in ("score", "probability", "log_probability"):
        with refuses(ValueError, f"no {readout}"):
            getattr(rule, readout)(COUNTS)


@pytest.mark.exhaustive
def test_values_are_not_checked_under_a_trace():
    """Inside a program values are unknown; shapes are still refused."""
    rule = ju.EvidenceAccumulation(0.5)
    jax.jit(rule.__class__.__call__)(rule, -COUNTS)
    assert jax.jit(lambda p: ju.EvidenceAccumulation(p).prior)(jnp.array([0.7, 0.7])).shape == (2,)
    with refuses(ValueError, "last axis"):
        jax.jit(rule.__class__.__call__)(rule, COUNTS[..., :1])
