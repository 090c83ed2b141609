"""Beta densities on a grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxunc as ju
from tests._refusal import refuses

COUNTS = np.array([[0, 0], [0, 5], [5, 0], [3, 7], [1, 1], [0, 1], [120, 80], [4000, 6000], [0.5, 1.5], [2.25, 0]])


def test_values(x64):
    actual = np.asarray(ju.scorers.beta_densities(jnp.asarray(COUNTS, float)))
    theta = np.arange(101) / 100
    expected = stats.beta(COUNTS[:, 1:] + 1, COUNTS[:, :1] + 1).pdf(theta)
    np.testing.assert_allclose(actual, expected, rtol=1e-10 if x64 else 3e-5, atol=1e-30)


def test_billions(x64):
    """Large leaves, at the nodes beside and on their frequency."""
    counts = np.array([[10**9, 10**9], [3 * 10**8, 7 * 10**8]], np.int32)
    density = np.asarray(ju.scorers.beta_densities(jnp.asarray(counts)))
    np.testing.assert_array_equal(density.argmax(axis=1), [50, 70])
    n, p = counts.sum(axis=1, dtype=float), np.array([0.5, 0.7])
    np.testing.assert_allclose(density.max(axis=1), np.sqrt(n / (2 * np.pi * p * (1 - p))), rtol=1e-6)
    assert np.all(np.sum(density > 0, axis=1) == 1)


@pytest.mark.exhaustive
def test_gradients_are_finite():
    slopes = jax.jacobian(lambda c: jnp.sum(ju.scorers.beta_densities(c), axis=-1))(jnp.asarray(COUNTS, float))
    assert np.all(np.isfinite(slopes))


def test_what_is_refused():
    with refuses(ValueError, "OneVsRest"):
        ju.scorers.beta_densities(jnp.ones((4, 3)))
    with refuses(ValueError, "grid_size=1"):
        ju.scorers.beta_densities(jnp.ones((4, 2)), grid_size=1)


@pytest.mark.exhaustive
def test_grid_as_a_method_of_plausibility():
    counts = jnp.array([[3, 7], [0, 4], [5, 5]])
    degrees = ju.scorers.grid_support_degrees(counts, grid_size=101)
    actual = ju.scorers.plausibility(counts, method="grid", grid_size=101)
    np.testing.assert_array_equal(actual, degrees[:, 1] - degrees[:, 0])
    with refuses(ValueError, "method='exact'"):
        ju.scorers.plausibility(counts, 0.3, method="grid")
    with refuses(ValueError, "method='bisection' is unknown"):
        ju.scorers.plausibility(counts, method="bisection")
