"""The likelihood's predictive belief: closed forms, cuts of the contour function, gradients, edges."""

from fractions import Fraction
from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betainc, betaln, xlogy

from jaxunc.scorers import likelihood_mass
from tests.conftest import X64

masses_of = jax.jit(likelihood_mass)
LEAVES = [(0, 1), (4, 0), (1, 1), (3, 7), (12, 1), (2, 30), (25, 25)]
REL = 1e-12 if X64 else 3e-6


def _in_fractions(zeros: int, ones: int) -> list[float]:
    """Masses on {0}, {1} and Ω, by the integrals of polynomials."""
    n = zeros + ones
    p = Fraction(ones, n)
    most = p**ones * (1 - p) ** zeros

    def area(end):  # ∫_0^end θ^ones (1-θ)^zeros dθ
        return sum(
            ((-1) ** k * comb(zeros, k) * end ** (ones + k + 1) / (ones + k + 1) for k in range(zeros + 1)), Fraction(0)
        )

    below, whole = area(p) / most, area(Fraction(1)) / most
    return [float(1 - p - (whole - below)), float(p - below), float(whole)]


def test_whole_counts_in_fractions():
    expected = [_in_fractions(*leaf) for leaf in LEAVES]
    result = np.asarray(masses_of(np.asarray(LEAVES)), float)
    np.testing.assert_allclose(result[:, 1:], expected, rtol=REL)
    np.testing.assert_array_equal(result[:, 0], 0)


@pytest.mark.parametrize("leaf", [(3, 7), (1, 12)])
def test_the_cuts_of_the_contour_function(leaf):
    """Belief and plausibility are the means of the ends of the cuts, taken from a grid of the likelihood."""
    theta = np.linspace(0, 1, 200_001)
    log_l = xlogy(leaf[1], theta) + xlogy(leaf[0], 1 - theta)
    contour = np.exp(log_l - log_l.max())
    levels = (np.arange(2000) + 0.5) / 2000
    top = int(np.argmax(contour))
    lower = theta[np.searchsorted(contour[: top + 1], levels)].mean()
    upper = theta[len(theta) - 1 - np.searchsorted(contour[::-1][: len(theta) - top], levels)].mean()
    masses = np.asarray(masses_of(np.asarray(leaf, float)), float)
    np.testing.assert_allclose([masses[2], masses[2] + masses[3]], [lower, upper], atol=2e-4)


@pytest.mark.parametrize("leaf", [(0.3, 0.2), (1.5, 1000.0), (40.0, 0.3), (2.5, 7.25)])
def test_fractions_of_counts(leaf):
    zeros, ones = leaf
    p = ones / (zeros + ones)
    most = xlogy(ones, p) + xlogy(zeros, 1 - p)

    def contour(theta):
        return np.exp(xlogy(ones, theta) + xlogy(zeros, 1 - theta) - most)

    below, above = (quad(contour, *ends, epsabs=1e-12, limit=400)[0] for ends in ((0, p), (p, 1)))
    result = np.asarray(masses_of(np.asarray(leaf)), float)
    np.testing.assert_allclose(result[1:], [1 - p - above, p - below, above + below], rtol=3e-6, atol=1e-7)


def test_counts_below_one():
    """By incomplete beta functions: m(Ω) within 3e-4 of its value, all masses within 2e-6."""
    small, large = np.append(np.geomspace(1e-9, 0.1, 9), [0.0255, 0.5, 0.99]), np.geomspace(0.01, 1e6, 30)
    zeros, ones = (part.ravel() for part in np.meshgrid(large, small))
    leaves = np.stack([zeros, ones], axis=-1).astype(np.result_type(jnp.result_type(float)))
    (zeros, ones), total = leaves.T.astype(float), leaves.astype(float).sum(axis=1)
    p = ones / total
    scale = np.exp(betaln(ones + 1, zeros + 1) - xlogy(ones, p) - xlogy(zeros, 1 - p))
    below, above = scale * betainc(ones + 1, zeros + 1, p), scale * betainc(zeros + 1, ones + 1, 1 - p)
    found = np.asarray(masses_of(leaves), float)[:, 1:]
    np.testing.assert_allclose(found, np.stack([1 - p - above, p - below, above + below], axis=-1), rtol=0, atol=2e-6)
    np.testing.assert_allclose(found[:, 2], above + below, rtol=3e-4)


def test_pure_and_large_leaves():
    n = np.array([1, 10, 1000, 10**9])
    masses = np.asarray(masses_of(np.asarray(np.stack([0 * n, n], axis=-1))), float)
    np.testing.assert_allclose(masses[:, 3], 1 / (n + 1), rtol=REL * 10)
    np.testing.assert_allclose(masses[:, 2], n / (n + 1), rtol=REL)
    np.testing.assert_array_equal(masses[:, 1], 0)
    large = np.asarray(masses_of(np.asarray([[10**9, 10**9], [10**9, 3 * 10**8]])), float)
    share = np.array([1 / 2, 3 / 13])
    expected = np.sqrt(2 * np.pi * share * (1 - share) / np.array([2e9, 1.3e9]))
    np.testing.assert_allclose(large[:, 3], expected, rtol=1e-5)


def test_masses_symmetry_and_ignorance(rng):
    counts = rng.integers(0, 400, (6, 30, 2))
    masses = np.asarray(likelihood_mass(jnp.asarray(counts)), float)
    assert masses.shape == (6, 30, 4)
    assert masses.min() >= 0
    np.testing.assert_allclose(masses.sum(axis=-1), 1, rtol=1e-6)
    swapped = np.asarray(likelihood_mass(jnp.asarray(counts[..., ::-1])), float)
    np.testing.assert_allclose(swapped[..., [0, 2, 1, 3]], masses, rtol=1e-6)
    np.testing.assert_array_equal(masses_of(np.zeros((3, 2))), np.tile([0, 0, 0, 1.0], (3, 1)))
    counts = np.array([[1, 3], [2, 6], [10, 30], [100, 300]])
    assert np.all(np.diff(np.asarray(masses_of(counts))[:, 3]) < 0)


@pytest.mark.skipif(not X64, reason="differences need digits")
@pytest.mark.parametrize("leaf", [(3.0, 7.0), (40.0, 2.0), (500.0, 400.0)])
def test_gradient(leaf):
    leaf, h = jnp.asarray(leaf), 1e-4
    slopes = jax.jit(jax.jacrev(likelihood_mass))(leaf)
    by_hand = [(likelihood_mass(leaf + h * e) - likelihood_mass(leaf - h * e)) / (2 * h) for e in jnp.eye(2)]
    np.testing.assert_allclose(slopes, np.stack(by_hand, axis=-1), rtol=1e-5, atol=1e-9)


def test_gradient_at_a_pure_leaf():
    slopes = jax.jit(jax.jacfwd(likelihood_mass))(jnp.array([0.0, 3.0]))
    np.testing.assert_allclose(slopes[3, 1], -1 / 16, rtol=1e-5)
