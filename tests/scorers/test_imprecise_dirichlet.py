"""The imprecise Dirichlet model: intervals of leaves, and which class they prefer."""

from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxunc.scorers import Interval, checked_strength, differences, dominance, idm_interval
from tests._forests import positive_counts, random_counts
from tests._golden import golden
from tests._refusal import refusals


def test_golden_and_edges(tolerance):
    entries = golden("idm")["binary"]
    most = max(len(entry["N"]) for entry in entries)
    for entry in entries:
        positive, size = np.array(entry["n_pos"]), np.array(entry["N"])
        leaves = np.zeros((most, 2), int)  # of one shape, to be compiled once
        leaves[: len(size)] = np.stack([size - positive, positive], axis=1)
        interval = idm_interval(leaves, entry["s"])
        assert isinstance(interval, Interval)
        interval = Interval(*(np.asarray(bound)[: len(size)] for bound in interval))
        tolerance.check(interval.lower[:, 1], entry["lower"])
        tolerance.check(interval.upper[:, 1], entry["upper"])
        tolerance.check(1 - interval.lower[:, 0], entry["upper"])
        tolerance.check(interval.upper[:, 1] - interval.lower[:, 1], entry["epistemic"], scale=1.0)
    edges = np.zeros((most, 2), int)
    edges[1:3] = [[0, 10**9], [7, 0]]
    lower, upper = map(np.asarray, idm_interval(edges, 1.0))
    np.testing.assert_array_equal(lower[0], [0, 0])
    np.testing.assert_array_equal(upper[0], [1, 1])
    assert upper[1, 1] == upper[2, 0] == 1, "a pure leaf allows for certainty"
    np.testing.assert_allclose(upper[1, 0], 1e-9, rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_bounds_of_any_number_of_classes(n_classes, rng, tolerance):
    counts = random_counts(rng, (40,), n_classes)
    interval = jax.jit(idm_interval)(counts, 1.5)
    size = counts.sum(axis=1, keepdims=True)
    tolerance.check(interval.lower, counts / (size + 1.5))
    tolerance.check(interval.upper, (counts + 1.5) / (size + 1.5))


@given(st.lists(st.integers(0, 10**9), min_size=3, max_size=3), st.floats(0.0009765625, 1024, width=32))
def test_bounds_are_exact_to_rounding(counts, s):
    """Also for counts of a billion; they contain the frequency and each other."""
    lower, upper = (np.asarray(bound, float) for bound in idm_interval(jnp.array(counts, jnp.int32), s))
    size = Fraction(sum(counts)) + Fraction(s)
    for c, count in enumerate(counts):
        assert abs(lower[c] - float(count / size)) <= 5e-7 * float(count / size)
        assert abs(upper[c] - float((count + Fraction(s)) / size)) <= 5e-7 * float((count + Fraction(s)) / size)
    assert np.all((lower >= 0) & (lower <= upper) & (upper <= 1))


def test_transformations_and_gradients(rng, tolerance):
    counts, s = positive_counts(rng, (5, 4), 3).astype(jnp.result_type(float)), np.array([2.0, 0.5])

    @jax.jit
    def compiled(counts, s):
        by_s = jax.vmap(lambda s: idm_interval(counts, s))(s)
        by_row = jax.vmap(lambda row: idm_interval(row, s[0]))(counts)
        by_leaf = idm_interval(counts, jnp.full((5, 4), s[0]))
        slopes = jax.vmap(jax.vmap(jax.jacfwd(idm_interval, argnums=(0, 1)), (0, None)), (0, None))
        same = idm_interval(counts, s[0]), Interval(*(end[0] for end in by_s)), by_row, by_leaf
        return same, slopes(counts, s[0])

    eager = idm_interval(counts, 2.0)
    same, (of_lower, of_upper) = compiled(counts, s)
    for other in same:
        tolerance.check(other.lower, eager.lower)
        tolerance.check(other.upper, eager.upper)
    total = (counts.sum(axis=-1) + 2)[..., None]
    tolerance.check(of_lower[0], np.eye(3) / total[..., None] - (counts / total**2)[..., None], scale=1.0)
    tolerance.check(of_upper[0], np.eye(3) / total[..., None] - ((counts + 2) / total**2)[..., None], scale=1.0)
    tolerance.check(of_lower[1], -counts / total**2, scale=1.0)
    tolerance.check(of_upper[1], (total - counts - 2) / total**2, scale=1.0)
    slopes = jax.jit(jax.grad(lambda c: jnp.sum(idm_interval(c, 1.0).lower[..., 0])))(np.zeros((2, 2)))
    np.testing.assert_allclose(slopes, [[1, 0], [1, 0]], rtol=1e-6)


def preferred(counts, s) -> np.ndarray:
    """In whole numbers and fractions."""
    exact = [Fraction(count) for count in counts]
    return np.array([[i != j and a - b >= Fraction(s) for j, b in enumerate(exact)] for i, a in enumerate(exact)])


@given(
    st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 5), min_size=3, max_size=3),
    st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 2.0**24, 2.0**30 + 64, 2.0**31, 1e12]),
)
def test_dominance_is_exact_for_integers(counts, s):
    for dtype in (jnp.int32, jnp.uint32):
        np.testing.assert_array_equal(dominance(jnp.array(counts, dtype), s), preferred(counts, s))


def test_leads_that_floats_cannot_tell_apart_fractions_and_differences(rng):
    counts = np.array([[10**9 + 1, 10**9], [10**9, 10**9], [10**9, 10**9 + 1]], np.int32)
    for s in (1.0, 1.5):
        np.testing.assert_array_equal(dominance(counts, s), [preferred(row, s) for row in counts.tolist()])
    counts = rng.integers(0, 40, size=(60, 2)) / 8
    for s in (0.125, 1.0, 2.5):
        np.testing.assert_array_equal(dominance(counts, s), [preferred(row, s) for row in counts.tolist()])
    counts = rng.integers(0, 2**31 - 1, size=(20, 3))
    for dtype in (np.int32, np.uint32):
        found = np.asarray(jax.jit(differences)(counts.astype(dtype)), float)
        np.testing.assert_allclose(found, (counts[:, :, None] - counts[:, None, :]).astype(float), rtol=1e-7)


ONE = np.array([[1, 2]])
STRENGTH = "s=.* must be a positive, finite number"
test_refusals = pytest.mark.once(
    refusals(
        *(
            (f"{function.__name__}, s={s}", partial(function, ONE, s), STRENGTH)
            for function in (idm_interval, dominance)
            for s in (0, -1.0, np.nan, np.inf, 1e-45, np.array([1.0, 0.0]))
        ),
        *(
            (f"{function.__name__}, leaves", partial(function, np.ones((5, 2)), np.ones(3)), r"s has shape \(3,\), but")
            for function in (idm_interval, dominance)
        ),
        *((f"strength {s}", partial(checked_strength, s), STRENGTH) for s in (None, "1", {}, 0, True)),
    )
)
