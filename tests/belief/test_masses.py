"""The pignistic transform, and what folds keep."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc import belief
from tests._refusal import refusals
from tests.belief._powerset import as_sets, commonality, random_masses

ONE = np.array([0.125, 0.25, 0.125, 0.5])
SHAPE = (24, 6)
"""Instances and trees of most tests, which so share their programs."""


def test_commonalities_multiply_and_pignistic_of_all_subsets(rng, tolerance):
    """BetP(c) = Σ over A ∋ c of m(A)/(|A| (1 - m(∅)))."""
    masses = random_masses(rng, SHAPE, 3)
    folded = belief.combine_masses(jnp.asarray(masses))
    tolerance.check(commonality(folded), np.prod(commonality(masses), axis=1), scale=1.0)
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


def test_combined_masses_can_be_read_out(rng):
    """What a combination returns passes the checks, rounding included."""
    masses = jnp.asarray(rng.dirichlet(np.ones(5), size=SHAPE))
    for rule in ("conjunctive", "cautious"):
        for normalized in (False, True):
            result = belief.combine_masses(masses, rule, normalized=normalized)
            assert np.all(np.asarray(result) >= 0)
            np.testing.assert_allclose(np.asarray(belief.pignistic(result)).sum(axis=-1), 1, rtol=1e-5)


def test_transforms(rng, tolerance):
    masses, read_out = random_masses(rng, SHAPE, 3).astype(jnp.result_type(float)), belief.pignistic
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


test_refusals = refusals(
    ("two sets", lambda: belief.pignistic([0.5, 0.25, 0.25]), r"expected \[\.\.\. sets\]"),
    ("halves", lambda: belief.pignistic(ONE / 2), "add to 1"),
)
