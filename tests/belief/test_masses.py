"""Discounting, commonality, and the pignistic transform."""

import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxunc import belief
from jaxunc.smoothing import BetaPrior, predictive_mass
from tests._refusal import refuses
from tests.belief._powerset import as_sets, combined, commonalities, random_masses

ONE, MASSES = jnp.asarray([0.125, 0.25, 0.125, 0.5]), jnp.asarray([0.0, 0.5, 0.25, 0.25])


def test_discounting_by_hand_and_twice(rng, tolerance):
    for reliability, expected in ((0.5, [0.0625, 0.125, 0.0625, 0.75]), (1.0, ONE), (0.0, [0, 0, 0, 1])):
        np.testing.assert_array_equal(belief.discount(ONE, reliability), expected)
    np.testing.assert_allclose(jax.grad(lambda r: belief.discount(ONE, r)[-1])(0.5), -0.5)
    masses = jnp.asarray(random_masses(rng, (30,), 3))
    tolerance.check(belief.discount(belief.discount(masses, 0.75), 0.5), belief.discount(masses, 0.375), scale=1.0)


def test_reliability_broadcasts_and_discounted_masses_combine(rng, tolerance):
    masses = jnp.asarray(random_masses(rng, (5, 4), 2))
    by_tree, by_instance = np.linspace(0, 1, 4), np.linspace(0.25, 1, 5)[:, None]
    for reliability in (by_tree, by_instance, by_tree * by_instance):
        result = belief.discount(masses, jnp.asarray(reliability))
        full = np.broadcast_to(reliability, (5, 4))
        by_hand = np.asarray(masses) * full[..., None] + (1 - full)[..., None] * np.array([0, 0, 0, 1])
        tolerance.check(result, by_hand, scale=1.0)
    assert belief.discount(ONE, jnp.asarray(by_tree)).shape == (4, 4)
    masses, reliability = random_masses(rng, (20, 3), 3), np.array([1.0, 0.5, 0.0])
    result = belief.conjunctive_fold(belief.discount(jnp.asarray(masses), jnp.asarray(reliability)))
    by_hand = masses * reliability[:, None]
    by_hand[..., -1] += 1 - reliability
    tolerance.check(result, [combined(group) for group in by_hand], scale=1.0)
    # A source without reliability is as good as none.
    without = belief.discount(jnp.asarray(masses[:, :2]), jnp.asarray(reliability[:2]))
    tolerance.check(belief.conjunctive_fold(without), result, scale=1.0)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_commonality_of_the_definition(n_classes, rng, tolerance):
    masses = random_masses(rng, (20,), n_classes)
    named = [*(frozenset({c}) for c in range(n_classes)), frozenset(range(n_classes))]
    expected = [[commonalities(as_sets(m))[a] for a in named] for m in masses]
    result = belief.commonality(jnp.asarray(masses))
    assert result.shape == (20, n_classes + 1)
    tolerance.check(result, expected)


def test_commonalities_multiply_and_pignistic_of_all_subsets(rng, tolerance):
    """BetP(c) = Σ over A ∋ c of m(A)/(|A| (1 - m(∅)))."""
    masses = jnp.asarray(random_masses(rng, (24, 6), 3))
    product = np.prod(np.asarray(belief.commonality(masses), float), axis=1)
    tolerance.check(belief.commonality(belief.conjunctive_fold(masses)), product, scale=1.0)
    masses = random_masses(rng, (20,), 3)
    expected = [
        [sum(m / len(a) for a, m in as_sets(one).items() if c in a) / (1 - one[0]) for c in range(3)] for one in masses
    ]
    result = belief.pignistic(jnp.asarray(masses))
    tolerance.check(result, expected, scale=1.0)
    np.testing.assert_allclose(result.sum(axis=-1), 1, rtol=1e-6)


def test_pignistic_by_hand(tolerance, x64):
    masses = [[0, 0.25, 0.25, 0, 0.5], [0.5, 0.25, 0, 0, 0.25], [0, 0, 0, 0, 1], [1.0, 0, 0, 0, 0]]
    third = 1 / 3
    expected = [[0.25 + third / 2, 0.25 + third / 2, third / 2], [4 / 6, 1 / 6, 1 / 6], [third] * 3, [third] * 3]
    tolerance.check(belief.pignistic(jnp.asarray(np.array(masses))), expected)
    tiny = 1e-300 if x64 else 1e-30
    np.testing.assert_allclose(belief.pignistic(jnp.asarray([1.0, 3 * tiny, tiny, 0.0])), [0.75, 0.25], rtol=1e-6)


def test_folds_can_be_read_out(rng):
    """What a fold returns passes the checks, rounding included."""
    masses = jnp.asarray(rng.dirichlet(np.ones(5), size=(24, 6)))
    for fold in (belief.conjunctive_fold, belief.cautious_fold):
        for normalized in (False, True):
            result = fold(masses, normalized=normalized)
            assert np.all(np.asarray(result) >= 0)
            belief.commonality(result)
            np.testing.assert_allclose(belief.pignistic(result).sum(axis=-1), 1, rtol=1e-5)


READ_OUTS = [belief.commonality, belief.pignistic, lambda m: belief.discount(m, 0.5)]


@pytest.mark.parametrize("read_out", READ_OUTS, ids=["commonality", "pignistic", "discount"])
def test_transforms(read_out, rng, tolerance):
    masses = jnp.asarray(random_masses(rng, (4, 5), 2))
    eager = read_out(masses)
    assert eager.dtype == masses.dtype
    tolerance.check(jax.jit(jax.vmap(jax.vmap(read_out)))(masses), eager, scale=1.0)
    jacobian = jax.jit(jax.jacobian(read_out))
    assert np.all(np.isfinite(jacobian(jnp.asarray([1.0, 0.0, 0.0, 0.0]))))
    assert np.any(np.asarray(jacobian(ONE)) != 0)


REFUSED = [
    *((r"expected \[\.\.\. sets\]", lambda read=read: read(jnp.asarray([0.5, 0.25, 0.25]))) for read in READ_OUTS),
    *(("add to 1", lambda read=read: read(ONE / 2)) for read in READ_OUTS),
    *((r"reliability=.* must lie in \[0, 1\]", lambda r=r: belief.discount(ONE, r)) for r in (-0.1, 1.5, float("nan"))),
    ("does not broadcast", lambda: belief.discount(jnp.tile(ONE, (3, 1)), jnp.ones(2))),
    ("masses has 4 sets, but other has 5", lambda: belief.jousselme_distance(MASSES, jnp.asarray([*MASSES, 0.0]))),
    (
        "does not broadcast against",
        lambda: belief.jousselme_distance(jnp.tile(MASSES, (3, 1)), jnp.tile(MASSES, (2, 1))),
    ),
    ("add to 1", lambda: belief.jousselme_distance(MASSES, MASSES * 2)),
]


def test_refusals():
    for match, call in REFUSED:
        with refuses(ValueError, match):
            call()


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
    step = float(jnp.finfo(jnp.result_type(float)).eps) * 4  # what is nearly equal keeps its digits
    moved = jnp.asarray([0.0, 0.5 + step, 0.25 - step, 0.25])
    np.testing.assert_allclose(belief.jousselme_distance(MASSES, moved), step, rtol=1e-5)


def test_a_metric(rng):
    a, b, c = (jnp.asarray(m) for m in random_masses(rng, (3, 200), 3))
    distance = belief.jousselme_distance
    np.testing.assert_array_equal(distance(a, b), distance(b, a))
    np.testing.assert_array_equal(distance(a, a), 0)
    assert np.all(distance(a, c) <= distance(a, b) + distance(b, c) + 1e-6)
    assert np.all((np.asarray(distance(a, b)) >= 0) & (np.asarray(distance(a, b)) <= 1 + 1e-6))


def test_squared_distance_to_the_class_that_came(rng, tolerance):
    """For two classes: the Brier score of the pignistic probability, and a quarter of the squared ignorance."""
    counts, y = rng.integers(0, 30, (40, 2)), rng.integers(0, 2, 40)
    masses = predictive_mass(counts, BetaPrior(1.5, 2.5, 0))
    square = np.asarray(belief.jousselme_distance(masses, np.eye(4)[1 + y]), float) ** 2
    p, ignorance = np.asarray(belief.pignistic(masses), float)[:, 1], np.asarray(masses, float)[:, 3]
    tolerance.check(jnp.asarray(square), (p - y) ** 2 + ignorance**2 / 4, scale=1.0)


def test_gradient_shapes_and_transformations(tolerance, rng):
    first, second = jnp.asarray([0.1, 0.2, 0.3, 0.4]), jnp.asarray([0.0, 0.5, 0.25, 0.25])
    overlap = np.array([[1, 0, 0, 0], [0, 1, 0, 0.5], [0, 0, 1, 0.5], [0, 0.5, 0.5, 1]])
    apart = np.asarray(first - second, float)
    expected = overlap @ apart / (2 * np.sqrt(apart @ overlap @ apart / 2))
    value = jax.jit(jax.grad(lambda m: belief.jousselme_distance(m, second)))(first)
    tolerance.check(value, expected, scale=1.0)
    np.testing.assert_array_equal(jax.grad(belief.jousselme_distance)(first, first), 0)
    masses, other = jnp.asarray(random_masses(rng, (5, 4), 2)), jnp.asarray(random_masses(rng, (4,), 2))
    result = belief.jousselme_distance(masses, other)
    assert result.shape == (5, 4)
    assert belief.jousselme_distance(masses[0, 0], other).shape == (4,)
    tolerance.check(jax.vmap(belief.jousselme_distance, (0, None))(masses, other), result)
    assert belief.jousselme_distance(masses[:0], other).shape == (0, 4)
