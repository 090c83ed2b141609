"""Relative frequencies, smoothed ones and the unbounded scores: reference values, gradients, edges, settings."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxunc as ju
from jaxunc.scorers import confidence_bounds, laplace, linear, m_estimate, probability, ucb
from tests._exhaustive import a_few_of
from tests._golden import column, golden
from tests._refusal import refusals

LEAVES = golden("scorers")
COUNTS = np.stack([column(LEAVES, "n_neg"), column(LEAVES, "n_pos")], axis=-1)
SETTINGS = [tuple(float(part.split("=")[1]) for part in name.split(",")) for name in LEAVES[0]["m_estimate_pos"]]
SCORERS = {
    "probability": probability,
    "laplace": laplace,
    "m_estimate": Partial(m_estimate, m=2.5, prior=np.array([0.75, 0.25], jnp.result_type(float))),
    "linear": linear,
    "ucb": Partial(ucb, n_samples=1000),
}


@jax.jit
def of_three_scorers(counts):
    return probability(counts), laplace(counts), confidence_bounds(counts)


@pytest.mark.once
@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.uint16, jnp.uint32])
@pytest.mark.exhaustive(keep=1)
def test_unsigned_counts_do_not_wrap(dtype):
    counts = np.array([[9, 3], [3, 9], [200, 100], [4, 4], [0, 0]])
    np.testing.assert_array_equal(*(of_three_scorers(jnp.asarray(counts.astype(of))) for of in (dtype, np.int32)))


@lru_cache
def scores(dtype) -> dict:
    """What all scorers say of the leaves, by one program."""

    @jax.jit
    def of_all(counts, sizes, settings):
        found = {"p_prob": probability(counts), "p_lap": laplace(counts), "linear": linear(counts)}
        found["ucb"] = jax.vmap(lambda leaf, size: ucb(leaf, n_samples=size))(counts, sizes)
        of_each = lambda m, prior: m_estimate(counts, m=m, prior=prior)
        found["m_estimate"] = [of_each(m, prior[1]) for m, prior in settings]
        found["prior of each class"] = [of_each(m, prior) for m, prior in settings]
        return found

    settings = [(m, np.array([1 - prior, prior], jnp.result_type(float))) for m, prior in SETTINGS]
    return of_all(COUNTS.astype(dtype), column(LEAVES, "N_all").astype(jnp.result_type(float)), settings)


@pytest.mark.parametrize("dtype", [np.int32, float])
def test_golden(dtype, tolerance):
    found = scores(dtype)
    for name in ("p_prob", "p_lap", "linear", "ucb"):
        tolerance.check(found[name], column(LEAVES, name))
        np.testing.assert_array_equal(np.sign(found[name]), np.sign(COUNTS[:, 1] - COUNTS[:, 0]))
    for number, (m, prior) in enumerate(SETTINGS):
        expected = column(LEAVES, "m_estimate_pos", f"m={m:g},prior={prior:g}") - 0.5
        for way in ("m_estimate", "prior of each class"):
            tolerance.check(found[way][number], expected, scale=1.0)


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


EVERY = ju.scorers.FUNCTIONS_OF_COUNTS | SCORERS


@pytest.mark.parametrize("name", a_few_of(EVERY, ["probability", "ucb", "likelihood_mass"]))
def test_jit_vmap_and_slopes_at_the_edges(name, x64):
    """Any leading axes; pure, tied, empty, large and fractional leaves."""
    edges = [[0, 0], [0, 5], [5, 0], [3, 7], [1, 1], [0, 1], [120, 80], [4000, 6000], [0.5, 1.5], [2.25, 0]]
    counts, scorer = jnp.array([*edges, [40, 40], [1e9, 1e9]], float).reshape(3, 4, 2), EVERY[name]
    total = lambda counts: sum(jnp.sum(part) for part in jax.tree.leaves(scorer(counts)))
    of_all = jax.jit(lambda c: (scorer(c), jax.vmap(scorer, in_axes=1, out_axes=1)(c), jax.grad(total)(c)))
    *others, slopes = of_all(counts)
    assert np.all(np.isfinite(slopes))
    eager = jax.tree.leaves(scorer(counts))
    for other in others:
        for part, wanted in zip(jax.tree.leaves(other), eager, strict=True):
            assert part.shape[:2] == (3, 4)
            np.testing.assert_allclose(part, wanted, rtol=1e-9 if x64 else 3e-5, atol=1e-9 if x64 else 2e-6)


EDGES = np.array([[3.0, 5.0], [0.0, 4.0], [1.0, 0.0], [1e9, 1e9], [0.0, 0.0]])


@lru_cache
def slopes() -> dict:
    """By the counts of these leaves, of all scorers."""
    return jax.jit(lambda counts: {name: jax.vmap(jax.grad(of))(counts) for name, of in SCORERS.items()})(EDGES)


@pytest.mark.parametrize("name", SCORERS)
def test_gradient_inside_and_at_the_edges(name):
    """Central differences of the float64 formula inside and at pure leaves, zero at an empty one."""
    gradient = np.asarray(slopes()[name])

    def reference(c):
        n = c.sum()
        return {
            "probability": c[1] / n,
            "laplace": (c[1] + 1) / (n + 2),
            "linear": c[1] - c[0],
            "ucb": (c[1] / n - 0.5) * np.sqrt(n / np.log(1000)),
            "m_estimate": (c[1] + 2.5 * 0.25) / (n + 2.5),
        }[name]

    for i in range(3):
        for by in range(2):
            step = 1e-5 * np.eye(2)[by]
            slope = (reference(EDGES[i] + step) - reference(EDGES[i] - step)) / 2e-5
            np.testing.assert_allclose(gradient[i, by], slope, rtol=1e-5, atol=1e-6)
    if name in ("probability", "ucb"):
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


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.exhaustive
def test_differences_of_integers_are_exact(name):
    scorer = SCORERS[name]
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


TWO, THREE = jnp.asarray(np.ones(2)), jnp.asarray(np.ones(3))
test_bad_settings = refusals(
    ("prior beyond 1", lambda: m_estimate(TWO, m=1.0, prior=1.5), "add to 1"),
    ("three shares", lambda: m_estimate(TWO, m=1.0, prior=np.array([0.5, 0.25, 0.25])), r"shape \(3,\)"),
    ("shares that add to less", lambda: m_estimate(TWO, m=1.0, prior=np.array([0.5, 0.4])), "add to 1"),
    ("one share", lambda: m_estimate(THREE, m=1.0, prior=0.5), r"pass one probability per class, shape \(3,\)\."),
    ("one instance", lambda: ucb(TWO, n_samples=1), "n_samples=.* must be a finite number >= 2"),
)
