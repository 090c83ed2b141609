"""What rules refuse, and what they say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from tests._forests import toy_forest
from tests._refusal import refusals, refuses
from tests._rules import RULES, make

pytestmark = pytest.mark.once

COUNTS = np.ones((4, 3, 2))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    ("counts", "match"),
    [
        (np.array([[[1.0, -1.0], [1, 1], [1, 1]]]), "counts holds negative"),
        (np.array([[[1.0, np.nan], [1, 1], [1, 1]]]), "counts holds NaN"),
        (np.array([[[1.0, np.inf], [1, 1], [1, 1]]]), "counts holds NaN or infinite"),
        (np.ones(2), "tree axis"),
        (np.ones((3, 1)), "last axis"),
        (np.ones(()), "last axis"),
    ],
    ids=["negative", "nan", "infinite", "no trees", "one class", "scalar"],
)
def test_counts(name, counts, match):
    refuses(ValueError, match, make(name, 2, 3), counts)


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.binary_only])
def test_rules_for_two_classes(name):
    with refuses(ValueError, "scorer returned shape" if name == "mean_own_scorer" else "OneVsRest"):
        make(name, 3, 3)(np.ones((4, 3, 3)))


class Least(ju.Combiner):
    """The smallest count of class 1."""

    merge = "min"

    def lift(self, counts):
        return counts[..., 1]

    def finish(self, stat):
        return stat


THREE = np.ones((4, 3, 3))
FOUR_TREES = ju.Weighted(ju.Mean(), np.ones(4))
TOGETHER = ju.combiners.Together


def _made(kind, *settings, **others):
    return lambda: kind(*settings, **others)


def _asked(rule, counts=COUNTS):
    return lambda: rule(counts)


def _scored(scorer, counts=COUNTS):
    return lambda: ju.Mean(scorer)(counts)


test_refusals = refusals(
    ("without trees", _asked(ju.Mean(), COUNTS[:, :0]), "without any tree"),
    ("margin of three", lambda: ju.margin(np.ones((4, 3))), "margin compares two classes"),
    *(
        (f"prior {prior}", _made(ju.EvidenceAccumulation, np.asarray(prior)), words)
        for prior, words in (
            ([1.0, 0.0], "prior.*not positive: "),
            ([1.0, 1e-40], "prior.*not positive, as float32 holds it: "),
            ([1.5, -0.5], "prior.*not positive"),
            ([0.5, 0.6], "prior.*adds to 1.1"),
            ([np.nan, 1.0], "prior"),
            (0.0, "prior"),
            (1.5, "prior"),
            ([[0.5, 0.5], [0.5, 0.5]], "prior has shape"),
        )
    ),
    ("prior of three", _asked(ju.EvidenceAccumulation(np.array([0.2, 0.3, 0.5]))), "prior has 3 classes"),
    *(
        (f"smoothing {s}", _made(ju.EvidenceAccumulation, 0.5, s), f"smoothing={s} must be")
        for s in (-0.1, np.nan, np.inf)
    ),
    (
        "prior term",
        _made(ju.EvidenceAccumulation, 0.5, prior_term="lg"),
        "prior_term='lg' is unknown. Did you mean 'log'.*'log', 'published_code'",
    ),
    ("prior that rounds to 1", _made(ju.DempsterRule, prior=1 - 1e-9), r"prior=1.0 must lie in \(0, 1\): .* float32"),
    *((f"eps {eps}", _made(ju.DempsterRule, eps=eps), f"eps={eps} must lie in") for eps in (-1e-5, 1.0, 2, np.nan)),
    *(
        (
            f"weight {w}",
            _made(ju.Weighted, ju.Mean(), np.array([1.0, w, 1.0])),
            "weights=.* must be finite numbers >= 0",
        )
        for w in (-1.0, np.nan, np.inf)
    ),
    ("one weight", _made(ju.Weighted, ju.Mean(), np.asarray(1.0)), "weights has shape"),
    ("weights of two axes", _made(ju.Weighted, ju.Mean(), np.ones((3, 2))), "weights has shape"),
    ("four weights", _asked(FOUR_TREES), r"weights.*\(4,\).*3 trees"),
    (
        "four weights bound",
        lambda: ju.bind(toy_forest(2), FOUR_TREES),
        r"weights has shape \(4,\), but there are 12 trees",
    ),
    ("four weights within", _asked(TOGETHER(a=TOGETHER(b=FOUR_TREES))), "weights"),
    ("weights of a minimum", _made(ju.Weighted, Least(), np.ones(3)), "Least merges by"),
    ("none together", lambda: TOGETHER(), "at least one combiner"),
    ("function together", _made(TOGETHER, mean=ju.scorers.probability), "mean=.*is no Combiner", TypeError),
    ("several by class", _asked(ju.OneVsRest(TOGETHER(mean=ju.Mean())), THREE), "answers with dict", TypeError),
    ("preferences by class", _asked(ju.OneVsRest(ju.GeneralizedVote(1.0)), THREE), "with Preference", TypeError),
    *(
        (f"{kind} by class", _asked(ju.OneVsRest(ju.UncertaintyDecomposition(kind)), THREE), "Uncertainty", TypeError)
        for kind in ("plausibility", "entropy")
    ),
    ("scores of classes", _scored(lambda counts: counts), "scorer returned shape"),
    ("a column of scores", _scored(lambda counts: counts[..., None]), "scorer returned shape"),
    ("one score", _scored(lambda counts: jnp.sum(counts)), "scorer returned shape"),
    ("one score of three", _scored(lambda counts: counts[..., 0], THREE), "scorer returned shape"),
    *((f"scorer {s}", _made(ju.Mean, s), "scorer=.*not a function", TypeError) for s in (None, "probability", 3)),
)


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
            refuses(ValueError, "merge='(product|mean)' is unknown", call)


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
        refuses(ValueError, r"Crooked.lift returned an array of shape", call)


def test_readouts_that_a_rule_has_not():
    np.testing.assert_array_equal(ju.margin(np.array([[1.0, 3.0]])), [2])
    rule = Least()
    np.testing.assert_array_equal(rule(COUNTS), 1)
    for readout in ("score", "probability", "log_probability"):
        refuses(ValueError, f"no {readout}", getattr(rule, readout), COUNTS)


@pytest.mark.exhaustive
def test_values_are_not_checked_under_a_trace():
    """Inside a program values are unknown; shapes are still refused."""
    rule = ju.EvidenceAccumulation(0.5)
    jax.jit(rule.__class__.__call__)(rule, -COUNTS)
    assert jax.jit(lambda p: ju.EvidenceAccumulation(p).prior)(jnp.array([0.7, 0.7])).shape == (2,)
    refuses(ValueError, "last axis", jax.jit(rule.__class__.__call__), rule, COUNTS[..., :1])
