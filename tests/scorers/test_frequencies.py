"""Relative frequencies, smoothed ones and the unbounded scores: reference values, gradients, edges, settings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxunc as ju
from jaxunc.scorers import confidence_bounds, laplace, linear, m_estimate, probability, ucb
from tests._golden import column, golden
from tests._refusal import refuses

LEAVES = golden("scorers")
COUNTS = np.stack([column(LEAVES, "n_neg"), column(LEAVES, "n_pos")], axis=-1)


SETTINGS = [tuple(float(part.split("=")[1]) for part in name.split(",")) for name in LEAVES[0]["m_estimate_pos"]]
SCORERS = [
    pytest.param(probability, id="probability"),
    pytest.param(laplace, id="laplace"),
    pytest.param(Partial(m_estimate, m=2.5, prior=0.25), id="m_estimate"),
    pytest.param(linear, id="linear"),
    pytest.param(Partial(ucb, n_samples=1000), id="ucb"),
]


def test_gradient_of_the_probability(tolerance):
    counts = jnp.array([[3.0, 5.0], [0.0, 4.0], [4.0, 0.0], [0.0, 0.0]])
    gradient = jax.grad(lambda c: jnp.sum(probability(c)))(counts)
    n = np.array([8.0, 4.0, 4.0, np.inf])
    expected = np.stack([-np.asarray(counts)[:, 1] / n**2, np.asarray(counts)[:, 0] / n**2], axis=-1)
    tolerance.check(gradient, expected)


@pytest.mark.once
@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.uint16, jnp.uint32])
@pytest.mark.parametrize("scorer", [probability, laplace, confidence_bounds])
@pytest.mark.exhaustive(keep=1)
def test_unsigned_counts_do_not_wrap(scorer, dtype):
    counts = [[9, 3], [3, 9], [200, 100], [4, 4], [0, 0]]
    np.testing.assert_array_equal(scorer(jnp.array(counts, dtype)), scorer(jnp.array(counts)))


@pytest.mark.parametrize("dtype", [np.int32, float])
@pytest.mark.parametrize(("scorer", "name"), [(probability, "p_prob"), (laplace, "p_lap"), (linear, "linear")])
def test_golden(scorer, name, dtype, tolerance):
    scores = scorer(jnp.asarray(COUNTS.astype(dtype)))
    tolerance.check(scores, column(LEAVES, name))
    np.testing.assert_array_equal(np.sign(scores), np.sign(COUNTS[:, 1] - COUNTS[:, 0]))


def test_golden_ucb(tolerance):
    by_leaf = jax.jit(jax.vmap(lambda counts, size: ucb(counts, n_samples=size)))
    scores = by_leaf(jnp.asarray(COUNTS), jnp.asarray(column(LEAVES, "N_all")))
    tolerance.check(scores, column(LEAVES, "ucb"))


@pytest.mark.parametrize(("m", "prior"), SETTINGS)
def test_golden_m_estimate(m, prior, tolerance):
    name = f"m={m:g},prior={prior:g}"
    scores = m_estimate(jnp.asarray(COUNTS.astype(np.int32)), m=m, prior=prior)
    tolerance.check(scores, column(LEAVES, "m_estimate_pos", name) - 0.5, scale=1.0)
    tolerance.check(m_estimate(jnp.asarray(COUNTS), m=m, prior=jnp.array([1 - prior, prior])), scores, scale=1.0)


@pytest.mark.exhaustive
def test_golden_multiclass(tolerance):
    for entry in golden("scorers_multiclass"):
        counts, n_classes = jnp.asarray(entry["counts"]), len(entry["counts"])
        tolerance.check(laplace(counts) + 1 / n_classes, entry["laplace"], scale=1.0)
        smoothed = m_estimate(counts, m=3.0, prior=jnp.asarray(entry["prior"]))
        tolerance.check(smoothed + 1 / n_classes, entry["m_estimate_m=3"], scale=1.0)
        w = np.array(entry["counts"], float)
        tolerance.check(probability(counts), entry["p_prob_centred"], scale=1.0)
        tolerance.check(linear(counts), (n_classes * w - w.sum()) / (n_classes - 1), scale=1.0)
        share = np.array(entry["p_prob_centred"])
        tolerance.check(ucb(counts, n_samples=50), share * np.sqrt(w.sum() / np.log(50)), scale=1.0)


@pytest.mark.exhaustive(keep=2)
@pytest.mark.parametrize("scorer", SCORERS)
def test_same_under_jit_and_vmap(scorer):
    counts = jnp.asarray(COUNTS[:12].reshape(3, 4, 2))
    eager = scorer(counts)
    assert eager.shape == (3, 4)
    np.testing.assert_allclose(jax.jit(lambda c: scorer(c))(counts), eager, rtol=3e-7)
    np.testing.assert_allclose(jax.jit(jax.vmap(scorer, in_axes=1, out_axes=1))(counts), eager, rtol=3e-7)


@pytest.mark.parametrize("scorer", SCORERS)
def test_gradient_inside_and_at_the_edges(scorer, tolerance):
    """Central differences of the float64 formula inside, finite at the edges, zero at an empty leaf."""
    counts = jnp.array([[3.0, 5.0], [0.0, 4.0], [1.0, 0.0], [1e9, 1e9], [0.0, 0.0]])
    gradient = np.asarray(jax.jit(jax.vmap(jax.grad(scorer)))(counts))
    assert np.all(np.isfinite(gradient))

    def reference(c):
        n = c.sum()
        if scorer is probability:
            return c[1] / n
        if scorer is laplace:
            return (c[1] + 1) / (n + 2)
        if scorer is linear:
            return c[1] - c[0]
        if scorer.func is ucb:
            return (c[1] / n - 0.5) * np.sqrt(n / np.log(1000))
        return (c[1] + 2.5 * 0.25) / (n + 2.5)

    for i in range(3):
        for by in range(2):
            step = 1e-5 * np.eye(2)[by]
            c = np.asarray(counts[i], np.float64)
            slope = (reference(c + step) - reference(c - step)) / 2e-5
            np.testing.assert_allclose(gradient[i, by], slope, rtol=1e-5, atol=1e-6)
    if scorer is probability or getattr(scorer, "func", None) is ucb:
        np.testing.assert_array_equal(gradient[-1], 0)


@pytest.mark.exhaustive
def test_settings_have_gradients_and_no_weight_is_none():
    counts = jnp.array([2.0, 6.0])
    by_m, by_prior = jax.grad(lambda m, p: m_estimate(counts, m=m, prior=p), argnums=(0, 1))(4.0, 0.5)
    np.testing.assert_allclose([by_m, by_prior], [(0.5 - 8 / 12) / 12, 4 / 12], rtol=1e-6)
    rule = ju.Mean(Partial(m_estimate, m=jnp.asarray(4.0), prior=jnp.asarray(0.5)))
    learned = jax.grad(lambda r: r.score(counts[None]))(rule)
    np.testing.assert_allclose(learned.scorer.keywords["m"], by_m, rtol=1e-6)
    empty = jnp.zeros(2)
    np.testing.assert_allclose(m_estimate(empty, m=0.0, prior=0.25), -0.25)
    assert np.all(np.isfinite(jax.grad(lambda c: m_estimate(c, m=0.0, prior=0.25))(empty)))
    counts = jnp.asarray(COUNTS)
    np.testing.assert_allclose(m_estimate(counts, m=0.0, prior=0.5), probability(counts), rtol=1e-6)
    np.testing.assert_allclose(m_estimate(counts, m=2.0, prior=0.5), laplace(counts), rtol=1e-6)


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.exhaustive
def test_differences_of_integers_are_exact(scorer):
    counts = jnp.array([[10**9, 10**9 + 1], [10**9, 10**9]], jnp.int32)
    scores = scorer(counts)
    assert scores[0] > scores[1]
    assert scores[1] == 0 or "prior" in getattr(scorer, "keywords", {})
    unsigned = scorer(jnp.array([[200, 3]], jnp.uint8))
    np.testing.assert_allclose(unsigned, scorer(jnp.array([[200, 3]], jnp.int32)))
    three = jnp.array([10**9, 10**9 + 1, 10**9], jnp.int32)
    if "prior" in getattr(scorer, "keywords", {}):
        scorer = Partial(m_estimate, m=3.0, prior=jnp.full(3, 1 / 3))
    assert scorer is probability or scorer(three).argmax() == 1  # more than two shares are rounded first


@pytest.mark.parametrize(
    ("scorer", "n_classes", "settings", "message"),
    [
        (m_estimate, 2, {"m": -1.0, "prior": 0.5}, "m=-1.0 must be a finite number >= 0"),
        (m_estimate, 2, {"m": 1.0, "prior": 1.5}, "add to 1"),
        (m_estimate, 2, {"m": 1.0, "prior": jnp.array([0.5, 0.25, 0.25])}, r"shape \(3,\)"),
        (m_estimate, 2, {"m": 1.0, "prior": jnp.array([0.5, 0.4])}, "add to 1"),
        (m_estimate, 3, {"m": 1.0, "prior": 0.5}, r"pass one probability per class, shape \(3,\)\."),
        *((ucb, 2, {"n_samples": n}, "n_samples=.* must be a finite number >= 2") for n in (0, 1)),
    ],
)
def test_bad_settings(scorer, n_classes, settings, message):
    with refuses(ValueError, message):
        scorer(jnp.ones(n_classes), **settings)
