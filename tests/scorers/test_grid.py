"""Degrees of support on a grid: reference values, the definition, the bound of the error, gradients."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxunc as ju
from jaxunc.scorers import grid_support_degrees, support
from tests import _reference as reference
from tests._golden import column, golden
from tests._refusal import refusals

CASES = golden("plausibility_grid")
SIZES = sorted({case["G"] for case in CASES})


def by_definition(n_neg: float, n_pos: float, grid_size: int, mle_node: bool) -> float:
    """π_G(+) over all nodes."""
    best, n = 0.0, n_neg + n_pos
    for i in range(grid_size):
        theta = i / (grid_size - 1)
        blocked = (theta == 0 and n_pos > 0) or (theta == 1 and n_neg > 0)
        log_l = -math.inf if blocked else reference.log_likelihood(theta, n_neg, n_pos)
        best = max(best, min(math.exp(min(log_l, 0.0)), 2 * theta - 1))
    return max(best, 2 * n_pos / n - 1) if mle_node else best


N_ROWS = 128


def degrees_of(counts, size: int, mle_node: bool = True) -> np.ndarray:
    """The degrees, from a program of one shape for all tests."""
    filled = np.ones((N_ROWS, 2), np.int32)
    filled[: len(counts)] = counts
    return np.asarray(grid_support_degrees(jnp.asarray(filled), grid_size=size, mle_node=mle_node))[: len(counts)]


@pytest.mark.parametrize("mle_node", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_golden(size, mle_node, tolerance):
    cases = [case for case in CASES if case["G"] == size]
    degrees = degrees_of(np.stack([column(cases, "n_neg"), column(cases, "n_pos")], axis=-1), size, mle_node)
    suffix = "_with_mle_node" if mle_node else ""
    tolerance.check(degrees[:, 0], column(cases, "pi_neg_grid" + suffix))
    tolerance.check(degrees[:, 1], column(cases, "pi_pos_grid" + suffix))


@pytest.mark.parametrize("mle_node", [True, False])
@pytest.mark.parametrize("size", [2, 3, 10, 21])
def test_definition(size, mle_node, rng):
    counts = rng.integers(0, 2 ** rng.integers(1, 12, (60, 2)))
    counts = counts[counts.sum(axis=1) > 0]
    expected = [[by_definition(p, n, size, mle_node), by_definition(n, p, size, mle_node)] for n, p in counts.tolist()]
    np.testing.assert_allclose(degrees_of(counts, size, mle_node), expected, atol=2e-6)


@pytest.mark.parametrize("size", [101, 1000])
def test_never_above_the_exact_degrees_nor_far_below(size, rng):
    counts = rng.integers(0, 2 ** rng.integers(1, 21, (N_ROWS, 2)))
    exact = np.exp(np.asarray(jax.jit(support)(jnp.asarray(counts, jnp.int32)).log_degrees))
    short = exact - degrees_of(counts, size)
    assert short.min() > -1e-5
    assert short.max() < 2 / (size - 1) + 1e-5


@pytest.mark.exhaustive
def test_gradient(x64):
    counts = jnp.array([[3.0, 7.0], [0.0, 7.0], [40.0, 40.0], [99700.0, 900300.0], [0.0, 0.0]])
    jacobian = np.asarray(jax.jit(jax.vmap(jax.jacrev(grid_support_degrees)))(counts))
    np.testing.assert_array_equal(jacobian[-1], 0)
    # The peak's own node: 2p - 1, between two others.
    np.testing.assert_allclose(jacobian[3, 1], [-2 * 900300 / 1e12, 2 * 99700 / 1e12], rtol=1e-5)
    # A node that L selects: L itself is differentiated, the node stays.
    degree = float(grid_support_degrees(counts[0])[0])
    steps = np.arange(1001) / 1000
    theta = steps[np.argmin([abs(math.exp(reference.log_likelihood(t, 3, 7)) - degree) for t in steps[1:500]]) + 1]
    slopes = degree * np.array([math.log((1 - theta) / 0.3), math.log(theta / 0.7)])
    np.testing.assert_allclose(jacobian[0, 0], slopes, rtol=1e-4)


@pytest.mark.exhaustive
def test_grid_as_a_method_of_plausibility():
    counts = jnp.array([[3, 7], [0, 4], [0, 0]])
    degrees = ju.scorers.grid_support_degrees(counts, grid_size=101)
    actual = ju.scorers.plausibility(counts, method="grid", grid_size=101)
    np.testing.assert_array_equal(actual, degrees[:, 1] - degrees[:, 0])
    assert degrees[1, 1] == degrees[2, 0] == degrees[2, 1] == 1


def test_traced_priors():
    """As a combiner's settings are: 1/2 is the grid's own prior, and another has no score."""
    score = jax.jit(lambda prior: ju.scorers.plausibility(jnp.array([3, 7]), prior, method="grid", grid_size=101))
    degrees = grid_support_degrees(jnp.array([3, 7]), grid_size=101)
    np.testing.assert_allclose(score(jnp.array(0.5)), degrees[1] - degrees[0], rtol=1e-6)
    assert np.isnan(score(jnp.array(0.25)))


FOUR = np.ones((4, 2))
test_refusals = refusals(
    ("one node", lambda: grid_support_degrees(FOUR, grid_size=1), "grid_size=1 must be at least 2"),
    ("one node of densities", lambda: ju.scorers.beta_densities(FOUR, grid_size=1), "grid_size=1"),
    ("prior on a grid", lambda: ju.scorers.plausibility(FOUR, prior=0.3, method="grid"), "method='exact'"),
    ("method", lambda: ju.scorers.plausibility(FOUR, method="exat"), "'exat' is unknown. Did you mean 'exact'"),
)
COUNTS = np.array([[0, 0], [0, 5], [5, 0], [3, 7], [1, 1], [0, 1], [120, 80], [4000, 6000], [0.5, 1.5], [2.25, 0]])


def test_densities(x64):
    """Large leaves, too, at the nodes beside and on their frequency."""
    actual = np.asarray(ju.scorers.beta_densities(jnp.asarray(COUNTS, float)))
    theta = np.arange(101) / 100
    expected = stats.beta(COUNTS[:, 1:] + 1, COUNTS[:, :1] + 1).pdf(theta)
    np.testing.assert_allclose(actual, expected, rtol=1e-10 if x64 else 3e-5, atol=1e-30)
    counts = np.array([[10**9, 10**9], [3 * 10**8, 7 * 10**8]], np.int32)
    density = np.asarray(ju.scorers.beta_densities(jnp.asarray(counts)))
    np.testing.assert_array_equal(density.argmax(axis=1), [50, 70])
    n, p = counts.sum(axis=1, dtype=float), np.array([0.5, 0.7])
    np.testing.assert_allclose(density.max(axis=1), np.sqrt(n / (2 * np.pi * p * (1 - p))), rtol=1e-6)
    assert np.all(np.sum(density > 0, axis=1) == 1)
