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


class Least(ju.Combiner):
    """The smallest count of class 1."""

    merge = "min"

    def lift(self, counts):
        return counts[..., 1]

    def finish(self, stat):
        return stat


THREE = jnp.ones((4, 3, 3))
FOUR_TREES = ju.Weighted(ju.Mean(), np.ones(4))
TOGETHER = ju.combiners.Together
UNCERTAINTIES = [ju.UncertaintyDecomposition(kind) for kind in ("plausibility", "entropy")]
PRIORS = [
    (np.array([1.0, 0.0]), "prior.*not positive"),
    (np.array([1.5, -0.5]), "prior.*not positive"),
    (np.array([0.5, 0.6]), "prior.*adds to"),
    *((prior, "prior") for prior in (np.array([np.nan, 1.0]), 0.0, 1.5)),
    (np.ones((2, 2)) / 2, "prior has shape"),
]
WEIGHTS = [
    *(([1.0, wrong, 1.0], "weights=.* must be") for wrong in (-1.0, np.nan, np.inf)),
    *((wrong, "weights has shape") for wrong in (1.0, np.ones((3, 2)))),
]
REFUSED = [
    (ValueError, "margin compares two classes", lambda: ju.margin(jnp.ones((4, 3)))),
    *((ValueError, match, lambda prior=prior: ju.EvidenceAccumulation(prior)) for prior, match in PRIORS),
    (ValueError, "prior has 3 classes", lambda: ju.EvidenceAccumulation(np.array([0.2, 0.3, 0.5]))(COUNTS)),
    *((ValueError, "smoothing", lambda s=s: ju.EvidenceAccumulation(0.5, s)) for s in (-0.1, np.nan, np.inf)),
    (
        *(ValueError, "prior_term='linear' is unknown.*'log', 'published_code'"),
        lambda: ju.EvidenceAccumulation(0.5, prior_term="linear"),
    ),
    *((ValueError, "eps", lambda eps=eps: ju.DempsterRule(eps=eps)) for eps in (-1e-5, 1.0, 2, np.nan)),
    *((ValueError, match, lambda w=w: ju.Weighted(ju.Mean(), np.asarray(w))) for w, match in WEIGHTS),
    (ValueError, r"weights.*\(4,\).*3 trees", lambda: FOUR_TREES(COUNTS)),
    (ValueError, r"weights.*\(4,\).*12 trees", lambda: ju.bind(toy_forest(2), FOUR_TREES)),
    (ValueError, "weights", lambda: TOGETHER(a=TOGETHER(b=FOUR_TREES))(COUNTS)),
    (ValueError, "Least merges by", lambda: ju.Weighted(Least(), np.ones(3))),
    (ValueError, "at least one combiner", TOGETHER),
    (TypeError, "mean=.*is no Combiner", lambda: TOGETHER(mean=ju.scorers.probability)),
    (TypeError, "Together answers with dict", lambda: ju.OneVsRest(TOGETHER(mean=ju.Mean()))(THREE)),
    (TypeError, "GeneralizedVote answers with Preference", lambda: ju.OneVsRest(ju.GeneralizedVote(1.0))(THREE)),
    *(
        (TypeError, "UncertaintyDecomposition answers with Uncertainty", lambda rule=rule: ju.OneVsRest(rule)(THREE))
        for rule in UNCERTAINTIES
    ),
    *(
        (ValueError, "scorer returned shape", lambda scorer=scorer: ju.Mean(scorer)(COUNTS))
        for scorer in (lambda counts: counts, lambda counts: counts[..., None], lambda counts: jnp.sum(counts))
    ),
    (ValueError, "scorer returned shape", lambda: ju.Mean(lambda counts: counts[..., 0])(THREE)),
    *(
        (TypeError, "scorer=.*not a function", lambda scorer=scorer: ju.Mean(scorer))
        for scorer in (None, "probability", 3)
    ),
]


@pytest.mark.parametrize(("error", "match", "call"), REFUSED)
def test_refused(error, match, call):
    with refuses(error, match):
        call()


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
        for call in (lambda rule=rule: rule(COUNTS), lambda rule=rule: ju.bind(toy_forest(2), rule)):
            with refuses(ValueError, "merge='(product|mean)' is unknown"):
                call()


@pytest.mark.parametrize(
    "lift",
    [lambda counts: jnp.ones(7), lambda counts: counts.T, lambda counts: {"good": counts, "bad": jnp.ones((2, 3, 4))}],
)
def test_lifts_of_wrong_shape(lift):
    class Crooked(Least):
        merge = "sum"

        def lift(self, counts):
            return lift(counts)

    for call in (lambda: Crooked()(COUNTS), lambda: ju.inference.leaf_table(toy_forest(2), Crooked())):
        with refuses(ValueError, r"Crooked.lift returned an array of shape"):
            call()


def test_readouts_that_a_rule_has_not():
    np.testing.assert_array_equal(ju.margin(jnp.array([[1.0, 3.0]])), [2])
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
