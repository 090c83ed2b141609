"""Uncertainty, preference and mass functions: reference values, edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.scorers import degrees_of_preference, mass, plausibility, uncertainty
from tests._golden import column, golden
from tests._refusal import refuses

LEAVES = golden("scorers")
COUNTS = np.stack([column(LEAVES, "n_neg"), column(LEAVES, "n_pos")], axis=-1)


@jax.jit
def everything(counts, prior=0.5):
    """All the functions together, compiled once for all tests."""
    return (
        uncertainty(counts, prior),
        degrees_of_preference(counts, prior),
        mass(counts, prior),
        plausibility(counts, prior),
    )


@pytest.mark.parametrize("dtype", [np.int32, float])
@pytest.mark.exhaustive
def test_golden(dtype, tolerance):
    counts = jnp.asarray(COUNTS.astype(dtype))
    (epistemic, aleatoric), preference, masses, _ = everything(counts)
    tolerance.check(epistemic, column(LEAVES, "u_e"), kind="pi")
    tolerance.check(aleatoric, column(LEAVES, "u_a"), kind="pi", scale=1e-3)
    tolerance.check(preference[:, 0], column(LEAVES, "s_neg"), kind="pi")
    tolerance.check(preference[:, 1], column(LEAVES, "s_pos"), kind="pi")
    np.testing.assert_array_equal(masses[:, 1:3], preference)
    np.testing.assert_array_equal(masses[:, 0], 0)
    tolerance.check(masses[:, 3], column(LEAVES, "mass_omega"), kind="pi")


def test_epistemic_weighting(tolerance):
    (epistemic, _), *_, score = everything(jnp.asarray(COUNTS))
    tolerance.check((1 - epistemic) * score, column(LEAVES, "epistemic_weighted"), kind="pi")


@pytest.mark.parametrize("prior", [0.5, 0.2, 0.7])
def test_the_parts_fit_together(prior, rng):
    counts = jnp.asarray(rng.integers(0, 60, COUNTS.shape).astype(float))
    (epistemic, aleatoric), preference, masses, score = everything(counts, prior)
    np.testing.assert_allclose(masses.sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(masses[:, 3], epistemic + aleatoric, atol=1e-6)
    np.testing.assert_allclose(preference[:, 1] - preference[:, 0], score, atol=1e-6)
    assert np.all(np.asarray(masses) >= 0)
    assert np.all(np.asarray(preference).min(axis=-1) == 0)


@pytest.mark.exhaustive
def test_edges():
    counts = jnp.asarray(COUNTS).at[:5].set(jnp.array([[0, 0], [0, 3.0], [4.0, 4.0], [1e9, 1e9], [1e9, 0.0]]))
    (epistemic, aleatoric), preference, masses, _ = everything(counts)
    np.testing.assert_array_equal([epistemic[0], aleatoric[0]], [1, 0])
    np.testing.assert_array_equal(masses[0], (0, 0, 0, 1))
    np.testing.assert_array_equal(preference[2], 0)
    np.testing.assert_array_equal([epistemic[4], aleatoric[4]], 0)
    gradient = jax.jit(jax.grad(lambda c: sum(jnp.sum(part) for part in jax.tree.leaves(everything(c)))))(counts)
    assert np.all(np.isfinite(gradient))


@pytest.mark.exhaustive
def test_same_under_vmap():
    counts = jnp.asarray(COUNTS)
    for own, mapped in zip(
        jax.tree.leaves(everything(counts)), jax.tree.leaves(jax.vmap(everything)(counts)), strict=True
    ):
        np.testing.assert_allclose(mapped, own, atol=1e-6)


def test_masses_feed_the_conjunctive_rule():
    masses = everything(jnp.asarray(COUNTS))[2][1:8]
    folded = ju.belief.conjunctive_fold(masses)
    q_neg = np.prod(np.asarray(masses)[:, [1, 3]].sum(-1))
    np.testing.assert_allclose(folded[1] + folded[3], q_neg, rtol=1e-6)


@pytest.mark.parametrize("function", [uncertainty, degrees_of_preference, mass])
def test_three_classes_are_refused(function):
    with refuses(ValueError, "OneVsRest"):
        function(jnp.ones(3))
