"""Jousselme's distance: the definition in fractions, its axioms, its gradient."""

import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxunc import belief
from jaxunc.smoothing import BetaPrior, predictive_mass
from tests._refusal import refuses
from tests.belief._powerset import as_sets, random_masses


def _square(first, second) -> Fraction:
    """½ (m - m')ᵀ D (m - m') over all subsets, exactly."""
    first, second = as_sets(first), as_sets(second)
    apart = {a: Fraction(first[a]) - Fraction(second[a]) for a in first}

    def overlap(a, b):
        return Fraction(len(a & b), len(a | b)) if a | b else Fraction(1)

    return sum((overlap(a, b) * apart[a] * apart[b] for a, b in itertools.product(apart, apart)), Fraction(0)) / 2


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_definition_in_fractions(n_classes, rng, tolerance):
    first, second = random_masses(rng, (2, 12), n_classes)
    expected = [float(_square(a, b)) ** 0.5 for a, b in zip(first, second, strict=True)]
    tolerance.check(belief.jousselme_distance(jnp.asarray(first), jnp.asarray(second)), expected, scale=1.0)


def test_distances_by_hand(tolerance):
    zero, one, nothing, conflict = np.eye(4)[[1, 2, 3, 0]]
    for other, expected in ((one, 1.0), (nothing, np.sqrt(0.5)), (conflict, 1.0), (zero, 0.0)):
        tolerance.check(belief.jousselme_distance(zero, other), expected)
        tolerance.check(belief.jousselme_distance(other, zero), expected)
    tolerance.check(belief.jousselme_distance(np.eye(6)[1], np.eye(6)[5]), np.sqrt(3 / 4))


def test_a_metric(rng):
    a, b, c = (jnp.asarray(m) for m in random_masses(rng, (3, 200), 3))
    distance = belief.jousselme_distance
    np.testing.assert_array_equal(distance(a, b), distance(b, a))
    np.testing.assert_array_equal(distance(a, a), 0)
    assert np.all(distance(a, c) <= distance(a, b) + distance(b, c) + 1e-6)
    assert np.all((np.asarray(distance(a, b)) >= 0) & (np.asarray(distance(a, b)) <= 1 + 1e-6))


def test_what_is_nearly_equal_keeps_its_digits():
    step = float(jnp.finfo(jnp.result_type(float)).eps) * 4
    masses = jnp.asarray([0.0, 0.5, 0.25, 0.25])
    moved = jnp.asarray([0.0, 0.5 + step, 0.25 - step, 0.25])
    np.testing.assert_allclose(belief.jousselme_distance(masses, moved), step, rtol=1e-5)


def test_squared_distance_to_the_class_that_came(rng, tolerance):
    """For two classes: the Brier score of the pignistic probability, and a quarter of the squared ignorance."""
    counts, y = rng.integers(0, 30, (40, 2)), rng.integers(0, 2, 40)
    masses = predictive_mass(counts, BetaPrior(1.5, 2.5, 0))
    square = np.asarray(belief.jousselme_distance(masses, np.eye(4)[1 + y]), float) ** 2
    p, ignorance = np.asarray(belief.pignistic(masses), float)[:, 1], np.asarray(masses, float)[:, 3]
    tolerance.check(jnp.asarray(square), (p - y) ** 2 + ignorance**2 / 4, scale=1.0)


def test_gradient(tolerance):
    first, second = jnp.asarray([0.1, 0.2, 0.3, 0.4]), jnp.asarray([0.0, 0.5, 0.25, 0.25])
    overlap = np.array([[1, 0, 0, 0], [0, 1, 0, 0.5], [0, 0, 1, 0.5], [0, 0.5, 0.5, 1]])
    apart = np.asarray(first - second, float)
    expected = overlap @ apart / (2 * np.sqrt(apart @ overlap @ apart / 2))
    value = jax.jit(jax.grad(lambda m: belief.jousselme_distance(m, second)))(first)
    tolerance.check(value, expected, scale=1.0)
    np.testing.assert_array_equal(jax.grad(belief.jousselme_distance)(first, first), 0)


def test_shapes_and_transformations(rng, tolerance):
    masses, other = jnp.asarray(random_masses(rng, (5, 4), 2)), jnp.asarray(random_masses(rng, (4,), 2))
    result = belief.jousselme_distance(masses, other)
    assert result.shape == (5, 4)
    assert belief.jousselme_distance(masses[0, 0], other).shape == (4,)
    tolerance.check(jax.vmap(belief.jousselme_distance, (0, None))(masses, other), result)
    assert belief.jousselme_distance(masses[:0], other).shape == (0, 4)


def test_refusals():
    masses = jnp.asarray([0.0, 0.5, 0.25, 0.25])
    with refuses(ValueError, "masses has 4 sets, but other has 5"):
        belief.jousselme_distance(masses, jnp.asarray([0.0, 0.5, 0.25, 0.25, 0.0]))
    with refuses(ValueError, "does not broadcast against"):
        belief.jousselme_distance(jnp.tile(masses, (3, 1)), jnp.tile(masses, (2, 1)))
    with refuses(ValueError, "add to 1"):
        belief.jousselme_distance(masses, masses * 2)
