"""The learned pool: what it contains, both counts, noise, words, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jaxunc as ju
from tests._refusal import refusals

PRIOR = np.array([0.625, 0.375])
BOTH = ("own", "oob")


@pytest.fixture
def counts(rng):
    return rng.integers(0, 9, (20, 7, 2)) + np.array([1, 0])


M_ESTIMATE = jax.tree_util.Partial(ju.scorers.m_estimate, m=2.0, prior=jnp.asarray(PRIOR))
CONTAINED = {
    "mean": ({}, ju.Mean()),
    "pooling": ({"size_power": 1.0}, ju.Pooling()),
    "m-estimate": ({"strength": 2.0}, ju.Mean(M_ESTIMATE)),
}


@pytest.mark.parametrize("name", CONTAINED)
def test_it_contains(name, counts, tolerance):
    """It starts as the mean."""
    settings, other = CONTAINED[name]
    pool, expected = (jax.tree.map(np.asarray, of.answer(counts)) for of in (ju.LearnedPool(PRIOR, **settings), other))
    tolerance.check(pool.probability, expected.probability, kind="closed", scale=1.0)
    if name == "mean":
        np.testing.assert_array_equal(np.argmax(pool.class_scores, axis=1), np.argmax(expected.class_scores, axis=1))


def test_both_counts_are_weighed(counts, rng, tolerance):
    others = rng.integers(0, 5, counts.shape)
    both = ju.LearnedPool(PRIOR, reads=BOTH, inbag_weight=0.25, strength=1.0, size_power=0.5)
    alone = ju.LearnedPool(PRIOR, strength=1.0, size_power=0.5)
    wide = both.probability(np.concatenate([counts, others], axis=-1))
    summed = alone.probability(0.25 * counts + others)
    tolerance.check(wide, summed, kind="closed", scale=1.0, what="both counts")
    assert (both.count_sets, alone.count_sets) == (BOTH, ("own",))
    assert ju.Calibrated(ju.Weighted(both, np.ones(7))).count_sets == BOTH


def test_noise_and_the_logarithmic_pool(counts):
    """Noise leaves a share to every class; towards a power of 0 it is the logarithmic pool."""
    certain, noisy = ju.LearnedPool(PRIOR, scale=50.0), ju.LearnedPool(PRIOR, scale=50.0, noise=0.125)
    answer = jax.tree.map(np.asarray, noisy.answer(counts))
    assert answer.probability.min() >= 0.0625 - 1e-6
    np.testing.assert_array_equal(answer.class_scores, certain.answer(counts).class_scores)
    np.testing.assert_allclose(np.exp(answer.log_probability), answer.probability, rtol=1e-5)
    share = (counts + PRIOR) / (counts.sum(axis=-1, keepdims=True) + 1)
    logs = np.log(share).mean(axis=1)
    pool = ju.LearnedPool(PRIOR, strength=1.0, mean_power=0.01).answer(counts).probability
    np.testing.assert_allclose(pool, np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True), atol=0.01)


@pytest.mark.exhaustive(keep=4)
@pytest.mark.parametrize(
    "leaves",
    [[[0, 0], [0, 0]], [[5, 0], [3, 0]], [[2, 2], [1, 1]], [[10**9, 1], [1, 10**9]]],
    ids=["empty", "pure", "tied", "huge"],
)
@pytest.mark.parametrize("settings", [{}, {"strength": 0.5, "size_power": 3.0, "mean_power": 0.25, "noise": 0.01}])
def test_gradients_are_finite(leaves, settings):
    counts = np.tile(np.array(leaves), (5000, 1))
    slopes = slope_of_settings(ju.LearnedPool(PRIOR, **settings), counts)
    assert all(np.all(np.isfinite(part)) for part in jax.tree.leaves(slopes) if part.dtype != jax.dtypes.float0)


@jax.jit
def slope_of_settings(rule, counts):
    return jax.grad(lambda rule: rule.log_probability(counts)[0], allow_int=True)(rule)


@pytest.mark.parametrize(
    ("power", "leaves", "share"),
    [
        (5.0, [[10**9, 1], [3 * 10**8, 10**9], [1, 3]], 0.39398633),
        (-5.0, [[10**9, 1], [3 * 10**8, 10**9], [4 * 10**8, 10**9]], 0.76637460),
        (-7.0, [[0, 0], [5, 1], [1, 0]], 0.625),
    ],
)
def test_steep_powers(power, leaves, share):
    """Weights whose quotients are floats, though some weights are none of float32."""
    pool, counts = ju.LearnedPool(PRIOR, size_power=power), np.array(leaves)
    np.testing.assert_allclose(pool.probability(counts)[0], share, rtol=1e-5)
    slopes = slope_of_settings(pool, counts)
    assert all(np.all(np.isfinite(part)) for part in jax.tree.leaves(slopes) if part.dtype != jax.dtypes.float0)


def test_a_prior_in_half_precision_is_kept_in_float32(counts):
    for settings in ({}, {"mean_power": 0.3}, {"size_power": -4.0}, {"strength": 1e6}):
        found, expected = (ju.LearnedPool(prior, **settings) for prior in (PRIOR.astype(np.float16), PRIOR))
        found, expected = found.probability(counts), expected.probability(counts)
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_gradients(counts, x64):
    if not x64:
        pytest.skip("finite differences need float64; the other run makes them")
    rule = ju.LearnedPool(PRIOR, strength=0.5, size_power=0.3, mean_power=0.7, noise=0.01)
    check_grads(lambda r: r.log_probability(counts), (rule,), order=1, modes=["rev"], rtol=1e-5)


def test_a_class_that_a_leaf_lacks_has_a_slope():
    """As in the mean, whatever the leaf weighs."""
    leaf, pool = jnp.array([[5.0, 0.0]]), lambda m, power: ju.LearnedPool(PRIOR, strength=m, size_power=power)
    slope = jax.jit(jax.grad(lambda m, power: pool(m, power).probability(leaf)[1]))
    np.testing.assert_allclose([slope(0.0, power) for power in (0.0, 1.0, -1.0)], PRIOR[1] / 5, rtol=1e-3)


def test_words():
    said = ju.LearnedPool(PRIOR, size_power=0.2, strength=0.5, scale=1.6, noise=0.02).describe()
    wanted = ("counts 1.58 times as much", "0.5 instances of the prior", "more certain", "2 % of the labels")
    assert not [words for words in wanted if words not in said]


def _pool(**settings):
    return lambda: ju.LearnedPool(PRIOR, **settings)


test_refusals = refusals(
    ("power", _pool(mean_power=0.0), "mean_power=0.0 must be a finite number > 0"),
    ("strength", _pool(strength=-1.0), "strength=-1.0"),
    ("noise", _pool(noise=1.0), "noise=1.0"),
    ("scale", _pool(scale=np.ones(3)), r"scale has shape \(3,\)"),
    ("weight of nothing", _pool(inbag_weight=1.0), "pass reads="),
    ("a word", _pool(reads="own"), "reads=", TypeError),
    ("a number", _pool(reads=(1,)), "reads=", TypeError),
    ("no counts", _pool(reads=()), "reads="),
    ("the same counts twice", _pool(reads=("own",) * 2), "reads="),
    ("one of both", lambda counts: _pool(reads=BOTH)()(counts), "expects those of 2 classes for each of"),
)


def test_counts_that_rules_of_several_read():
    assert ju.combiners.Together(a=ju.LearnedPool(PRIOR, reads=BOTH), b=ju.Mean()).count_sets == BOTH
