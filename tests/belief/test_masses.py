"""Discounting, commonality, and the pignistic transform."""

import itertools
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxunc import belief
from jaxunc.smoothing import BetaPrior, predictive_mass
from tests._refusal import refusals
from tests.belief._powerset import as_sets, combined, commonalities, random_masses

ONE, MASSES = np.array([0.125, 0.25, 0.125, 0.5]), np.array([0.0, 0.5, 0.25, 0.25])
SHAPE = (24, 6)
"""Instances and trees of most tests, which so share their programs."""


def test_discounting_by_hand_and_twice(rng, tolerance):
    for reliability, expected in ((0.5, [0.0625, 0.125, 0.0625, 0.75]), (1.0, ONE), (0.0, [0, 0, 0, 1])):
        np.testing.assert_array_equal(belief.discount(jnp.asarray(ONE), reliability), expected)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda r: belief.discount(jnp.asarray(ONE), r)[-1]))(0.5), -0.5)
    masses = jnp.asarray(random_masses(rng, SHAPE, 3))
    tolerance.check(belief.discount(belief.discount(masses, 0.75), 0.5), belief.discount(masses, 0.375), scale=1.0)


def test_reliability_broadcasts_and_discounted_masses_combine(rng, tolerance):
    masses = random_masses(rng, SHAPE, 3)
    by_tree, by_instance = np.linspace(0, 1, 6), np.linspace(0.25, 1, 24)[:, None]

    @jax.jit
    def discounted(masses, *reliability):
        return [belief.discount(masses, r) for r in reliability]

    reliability = by_tree, by_instance, by_tree * by_instance
    for result, how in zip(discounted(masses, *reliability), reliability, strict=True):
        full = np.broadcast_to(how, SHAPE)[..., None]
        tolerance.check(result, masses * full + (1 - full) * np.eye(5)[-1], scale=1.0)
    assert belief.discount(jnp.asarray(ONE), jnp.asarray(by_tree)).shape == (6, 4)
    reliability = np.array([1.0, 0.5, 0.0, 0.25, 0.75, 1.0])
    result = belief.conjunctive_fold(belief.discount(jnp.asarray(masses), jnp.asarray(reliability)))
    by_hand = masses * reliability[:, None]
    by_hand[..., -1] += 1 - reliability
    tolerance.check(result, [combined(group) for group in by_hand], scale=1.0)
    # A source without reliability is as good as any that knows nothing.
    masses[:, 2] = np.eye(5)[-1]
    tolerance.check(
        belief.conjunctive_fold(belief.discount(jnp.asarray(masses), jnp.asarray(reliability))), result, scale=1.0
    )


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_commonality_of_the_definition(n_classes, rng, tolerance):
    masses = random_masses(rng, SHAPE, n_classes)
    named = [*(frozenset({c}) for c in range(n_classes)), frozenset(range(n_classes))]
    expected = [[[commonalities(as_sets(m))[a] for a in named] for m in row] for row in masses]
    result = belief.commonality(jnp.asarray(masses))
    assert result.shape == (*SHAPE, n_classes + 1)
    tolerance.check(result, expected)


def test_commonalities_multiply_and_pignistic_of_all_subsets(rng, tolerance):
    """BetP(c) = Σ over A ∋ c of m(A)/(|A| (1 - m(∅)))."""
    masses = random_masses(rng, SHAPE, 3)
    of_trees = belief.commonality(jnp.asarray(masses))
    folded = np.asarray(belief.conjunctive_fold(jnp.asarray(masses)))
    of_all = belief.commonality(jnp.asarray(np.repeat(folded[:, None], 6, axis=1)))  # in the shape of the others
    tolerance.check(np.asarray(of_all)[:, 0], np.prod(np.asarray(of_trees, float), axis=1), scale=1.0)
    expected = [
        [[sum(m / len(a) for a, m in as_sets(one).items() if c in a) / (1 - one[0]) for c in range(3)] for one in row]
        for row in masses
    ]
    result = np.asarray(belief.pignistic(jnp.asarray(masses)))
    tolerance.check(result, expected, scale=1.0)
    np.testing.assert_allclose(result.sum(axis=-1), 1, rtol=1e-6)


def test_pignistic_by_hand(tolerance, x64):
    masses = np.array([[0, 0.25, 0.25, 0, 0.5], [0.5, 0.25, 0, 0, 0.25], [0, 0, 0, 0, 1], [1.0, 0, 0, 0, 0]])
    third = 1 / 3
    expected = [[0.25 + third / 2, 0.25 + third / 2, third / 2], [4 / 6, 1 / 6, 1 / 6], [third] * 3, [third] * 3]
    tolerance.check(belief.pignistic(jnp.asarray(masses)), expected)
    tiny = 1e-300 if x64 else 1e-30
    found = belief.pignistic(jnp.asarray(np.array([1.0, 3 * tiny, tiny, 0.0])))
    np.testing.assert_allclose(found, [0.75, 0.25], rtol=1e-6)


def test_folds_can_be_read_out(rng):
    """What a fold returns passes the checks, rounding included."""
    masses = jnp.asarray(rng.dirichlet(np.ones(5), size=SHAPE))
    for fold in (belief.conjunctive_fold, belief.cautious_fold):
        for normalized in (False, True):
            result = fold(masses, normalized=normalized)
            assert np.all(np.asarray(result) >= 0)
            belief.commonality(result)
            np.testing.assert_allclose(np.asarray(belief.pignistic(result)).sum(axis=-1), 1, rtol=1e-5)


READ_OUTS = {
    "commonality": belief.commonality,
    "pignistic": belief.pignistic,
    "discount": lambda m: belief.discount(m, 0.5),
}


@pytest.mark.parametrize("name", READ_OUTS)
def test_transforms(name, rng, tolerance):
    masses, read_out = random_masses(rng, SHAPE, 3).astype(jnp.result_type(float)), READ_OUTS[name]
    eager = read_out(jnp.asarray(masses))
    assert eager.dtype == masses.dtype
    jacobian = jax.jacobian(read_out)
    edges = np.eye(5, dtype=masses.dtype)[0], random_masses(rng, (), 3).astype(masses.dtype)
    mapped, certain, inside = jax.jit(lambda m, a, b: (jax.vmap(jax.vmap(read_out))(m), jacobian(a), jacobian(b)))(
        masses, *edges
    )
    tolerance.check(mapped, eager, scale=1.0)
    assert np.all(np.isfinite(certain))
    assert np.any(np.asarray(inside) != 0)


def _call(function, masses, *others):
    return partial(function, jnp.asarray(masses), *others)


def _refused_by_all(what, masses, words):
    return [(f"{name} of {what}", _call(read, masses), words) for name, read in READ_OUTS.items()]


test_refusals = refusals(
    *_refused_by_all("two sets", [0.5, 0.25, 0.25], r"expected \[\.\.\. sets\]"),
    *_refused_by_all("halves", ONE / 2, "add to 1"),
    *(
        (f"reliability {r}", _call(belief.discount, ONE, r), r"reliability=.* must lie in \[0, 1\]")
        for r in (-0.1, 1.5, float("nan"))
    ),
    ("reliability of others", _call(belief.discount, np.tile(ONE, (3, 1)), np.ones(2)), "does not broadcast"),
    ("sets", _call(belief.jousselme_distance, MASSES, np.array([*MASSES, 0.0])), "masses has 4 sets, but other has 5"),
    ("shapes", _call(belief.jousselme_distance, [MASSES] * 3, np.array([MASSES] * 2)), "does not broadcast against"),
    ("twice as much", _call(belief.jousselme_distance, MASSES, MASSES * 2), "add to 1"),
)


def _square(first, second) -> Fraction:
    """½ (m - m')ᵀ D (m - m') over all subsets, exactly."""
    first, second = as_sets(first), as_sets(second)
    apart = {a: Fraction(first[a]) - Fraction(second[a]) for a in first}

    def overlap(a, b):
        return Fraction(len(a & b), len(a | b)) if a | b else Fraction(1)

    return sum((overlap(a, b) * apart[a] * apart[b] for a, b in itertools.product(apart, apart)), Fraction(0)) / 2


distance = jax.jit(belief.jousselme_distance)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_definition_in_fractions(n_classes, rng, tolerance):
    first, second = random_masses(rng, (2, 12), n_classes)
    expected = [float(_square(a, b)) ** 0.5 for a, b in zip(first, second, strict=True)]
    tolerance.check(distance(first, second), expected, scale=1.0)


def test_distances_by_hand(tolerance):
    zero, one, nothing, conflict = np.eye(4)[[1, 2, 3, 0]]
    for other, expected in ((one, 1.0), (nothing, np.sqrt(0.5)), (conflict, 1.0), (zero, 0.0)):
        tolerance.check(belief.jousselme_distance(zero, other), expected)
        tolerance.check(belief.jousselme_distance(other, zero), expected)
    tolerance.check(distance(np.eye(6)[1], np.eye(6)[5]), np.sqrt(3 / 4))
    step = float(jnp.finfo(jnp.result_type(float)).eps) * 4  # what is nearly equal keeps its digits
    moved = np.array([0.0, 0.5 + step, 0.25 - step, 0.25])
    np.testing.assert_allclose(belief.jousselme_distance(MASSES, moved), step, rtol=1e-5)


def test_a_metric(rng):
    a, b, c = random_masses(rng, (3, 200), 3)
    ab, ba, ac, bc, aa = (np.asarray(distance(*pair)) for pair in ((a, b), (b, a), (a, c), (b, c), (a, a)))
    np.testing.assert_array_equal(ab, ba)
    np.testing.assert_array_equal(aa, 0)
    assert np.all(ac <= ab + bc + 1e-6)
    assert np.all((ab >= 0) & (ab <= 1 + 1e-6))


def test_squared_distance_to_the_class_that_came(rng, tolerance):
    """For two classes: the Brier score of the pignistic probability, and a quarter of the squared ignorance."""
    counts, y = rng.integers(0, 30, (40, 2)), rng.integers(0, 2, 40)
    of_leaves = jax.jit(lambda counts: predictive_mass(counts, BetaPrior(1.5, 2.5, 0)))
    masses = of_leaves(counts)
    square = np.asarray(distance(masses, np.eye(4)[1 + y]), float) ** 2
    p, ignorance = np.asarray(jax.jit(belief.pignistic)(masses), float)[:, 1], np.asarray(masses, float)[:, 3]
    tolerance.check(square, (p - y) ** 2 + ignorance**2 / 4, scale=1.0)


@pytest.mark.room
def test_gradient_shapes_and_transformations(tolerance, rng):
    first, second = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.0, 0.5, 0.25, 0.25])
    overlap = np.array([[1, 0, 0, 0], [0, 1, 0, 0.5], [0, 0, 1, 0.5], [0, 0.5, 0.5, 1]])
    apart = first - second
    slope = jax.jit(jax.grad(belief.jousselme_distance))
    tolerance.check(slope(first, second), overlap @ apart / (2 * np.sqrt(apart @ overlap @ apart / 2)), scale=1.0)
    np.testing.assert_array_equal(slope(first, first), 0)
    masses, other = random_masses(rng, (5, 4), 2), random_masses(rng, (4,), 2)
    result = belief.jousselme_distance(masses, other)
    assert result.shape == (5, 4)
    mapped = jax.jit(jax.vmap(belief.jousselme_distance, (0, None)))(masses, other)
    tolerance.check(mapped, result)
    assert jax.eval_shape(belief.jousselme_distance, masses[0, 0], other).shape == (4,)
    assert belief.jousselme_distance(masses[:0], other).shape == (0, 4)
