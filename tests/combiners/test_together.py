"""Averages of rules: both counts, order of names, degenerate weights, what is refused; calibrated certainty."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from tests._refusal import refusals

PRIOR = np.array([0.5, 0.3125, 0.1875])


@pytest.fixture
def counts(rng):
    return jnp.asarray(rng.integers(0, 9, (20, 7, 3)) + np.array([1, 0, 0]))


@pytest.mark.exhaustive
def test_averages_by_name_in_any_order_and_of_a_sequence(counts):
    mean, pooling = ju.Mean(), ju.Pooling()
    wanted = 0.25 * mean.probability(counts) + 0.75 * pooling.probability(counts)
    for blend in (ju.Stack({"a": mean, "z": pooling}, [0.25, 0.75]), ju.Stack({"z": pooling, "a": mean}, [0.75, 0.25])):
        np.testing.assert_allclose(blend.probability(counts), wanted, atol=1e-6)
    alike = ju.Stack({"a": mean, "z": pooling}).probability(counts)
    np.testing.assert_allclose(alike, (mean.probability(counts) + pooling.probability(counts)) / 2, atol=1e-6)
    blend = ju.Stack({"pooling": ju.Pooling(), "mean": ju.Mean()}, [0.0, 1.0])
    np.testing.assert_allclose(blend.probability(counts), ju.Mean().probability(counts), atol=1e-6)
    slope = jax.grad(lambda rule: rule.log_probability(counts)[0, 0])(blend)
    pooled, averaged = (rule.probability(counts)[0, 0] for rule in (pooling, mean))
    np.testing.assert_allclose(slope.weights, [0, pooled / averaged - 1], atol=1e-5)
    rules = [ju.Pooling(), ju.Mean()] + [ju.Vote()] * 9
    weights = np.array([0.6, 0.3] + [0.1] + [0] * 8)
    blend = ju.Stack(rules, weights)
    assert list(blend.rules) == [f"{i:02}" for i in range(11)]
    wanted = sum(w * np.asarray(r.probability(counts)) for w, r in zip(weights, rules, strict=True))
    np.testing.assert_allclose(blend.probability(counts), wanted, rtol=1e-5)
    assert list(ju.Stack(tuple(rules[:2])).rules) == ["0", "1"]


@pytest.mark.exhaustive
def test_rules_of_one_kind_read_the_inbag_counts(counts, rng):
    others = jnp.asarray(rng.integers(0, 5, counts.shape))
    pool = ju.LearnedPool(PRIOR, reads=("own", "oob"), strength=1.0)
    blend, wide = ju.Stack({"pool": pool, "mean": ju.Mean()}), jnp.concatenate([counts, others], axis=-1)
    assert blend.count_sets == ("own", "oob")
    wanted = (pool.probability(wide) + ju.Mean().probability(counts)) / 2
    np.testing.assert_allclose(blend.probability(wide), wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("rule", "settings", "scores"),
    [
        (ju.Mean(), {"clip": 1e-8, "one_vs_rest": True}, [np.log(1e-8), -1e-8]),
        (ju.EvidenceAccumulation(0.5, smoothing=0.0), {"clip": 0.0}, [-np.inf, 0]),
    ],
    ids=["one against the rest", "veto"],
)
def test_calibrated_certainty(rule, settings, scores):
    """The clip holds however small it is, and a veto stays one; slopes are finite."""

    def total(scale, counts):
        answer = ju.Calibrated(rule, scale, **settings).answer(counts)
        return answer.log_probability[1], answer.class_scores

    slopes, actual = jax.jit(jax.grad(total, (0, 1), has_aux=True))(1.0, jnp.array([[0.0, 5.0]]))
    np.testing.assert_allclose(actual - actual[1], np.array(scores) - scores[1], rtol=1e-5)
    assert all(np.isfinite(slope).all() for slope in slopes)


BOTH = {"mean": ju.Mean(), "vote": ju.Vote()}
UNBOUNDED = [ju.Mean(ju.scorers.linear)]
test_refusals = refusals(
    ("no names", lambda: ju.Stack({}), "rules is empty"),
    ("no rules", lambda: ju.Stack([]), "rules is empty"),
    ("a word by name", lambda: ju.Stack({"mean": "mean"}), "is no Combiner", TypeError),
    ("a word", lambda: ju.Stack(["mean"]), r"rules\['0'\]='mean' is no Combiner", TypeError),
    ("one rule", lambda: ju.Stack(ju.Mean()), "are no combiners by name", TypeError),
    ("a number as a name", lambda: ju.Stack({0: ju.Mean()}), "are no combiners by name", TypeError),
    ("two weights of one", lambda: ju.Stack([ju.Mean()], [0.5, 0.5]), "one number for each of 1 combiners"),
    ("weights", lambda: ju.Stack(BOTH, [0.5, 0.6]), "add to 1"),
    ("scores", lambda: jax.eval_shape(ju.Stack(UNBOUNDED), np.ones((4, 3, 2))), "no probabilities to average"),
)
