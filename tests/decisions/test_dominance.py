"""From an answer to a set of classes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import jaxunc as ju
from jaxunc.decisions import interval_dominance, maximality, nondominated
from jaxunc.scorers import Interval
from tests._refusal import refusals


def preference(mass, total) -> ju.combiners.Preference:
    return ju.combiners.Preference(jnp.asarray(mass, float), jnp.asarray(total, float))


def test_preferences_by_hand():
    """An excess that was decided exactly is followed, not the rounded masses."""
    np.testing.assert_array_equal(nondominated(preference(np.zeros((2, 2)), 0)), [True, True])
    cycle = [[0, 3, 1], [1, 0, 3], [3, 1, 0]]
    one = [[0, 4, 2], [0, 0, 0], [1, 1, 0]]
    none = np.zeros((3, 3))
    found = nondominated(preference([cycle, one, none], [4, 4, 4]))
    np.testing.assert_array_equal(found, [[True, True, True], [True, False, False], [True, True, True]])
    mass = jnp.array([[[0.0, 2.0], [2.0, 0.0]]] * 3)
    excess = jnp.array([[[-4.0, 0.0], [0.0, -4.0]], [[-4.0, -1e-9], [1e-9, -4.0]], [[-4.0, 1e-9], [-1e-9, -4.0]]])
    found = nondominated(ju.combiners.Preference(mass, jnp.full(3, 4.0), excess))
    np.testing.assert_array_equal(found, [[False, True], [False, True], [True, False]])
    # Masses of float64 that float32 does not tell from a half.
    mass = np.array([[0.0, 0.5 + 1e-9], [0.5 - 1e-9, 0.0]])
    assert nondominated(ju.combiners.Preference(mass, np.array(1.0))).tolist() == [True, False]


@given(hnp.arrays(np.int64, (9, 3), elements=st.integers(0, 6)))
def test_two_classes_by_belief_and_plausibility(votes):
    """In whole numbers, twice over; the third of them is undecided. Half is enough for class 1 alone."""
    votes[:, 2] += ~votes.any(axis=1)
    total, mass = votes.sum(axis=1), np.zeros((9, 2, 2))
    mass[:, 0, 1], mass[:, 1, 0], _ = votes.T
    found = nondominated(preference(mass, total))
    for kept, (zero, one, _), whole in zip(found, votes, total, strict=True):
        expected = [True, False] if 2 * (whole - zero) < whole else [False, True] if 2 * one >= whole else [True, True]
        assert kept.tolist() == expected


def test_intervals():
    lower = jnp.array([[0.1, 0.5], [0.5, 0.1], [0.4, 0.4], [0.51, 0.2], [0.5, 0.5]])
    upper = 1 - lower[:, ::-1]
    expected = [[False, True], [True, True], [True, True], [True, False], [False, True]]
    np.testing.assert_array_equal(interval_dominance(Interval(lower, upper)), expected)
    three = Interval(jnp.array([[0.5, 0.2, 0.0], [0.2, 0.2, 0.2]]), jnp.array([[0.8, 0.5, 0.3], [0.6, 0.6, 0.6]]))
    np.testing.assert_array_equal(interval_dominance(three), [[True, True, False], [True, True, True]])
    np.testing.assert_array_equal(
        interval_dominance(Interval(np.array([0.7, 0.1]), np.array([0.9, 0.3]))), [True, False]
    )
    # Bounds of float64 that float32 does not tell apart.
    lower, upper = np.array([0.2, 0.5 - 1e-9]), np.array([0.5, 0.8])
    assert interval_dominance(Interval(lower, upper)).tolist() == [True, True]
    lower, upper = np.array([0.5, 0.1, 0.0]), np.array([0.9, 0.5 - 1e-9, 0.5])
    assert interval_dominance(Interval(lower, upper)).tolist() == [True, False, True]


@given(hnp.arrays(np.int32, (8, 3), elements=st.integers(0, 10**9) | st.integers(0, 4)), st.sampled_from([0.5, 1, 2.5]))
def test_maximality(counts, s):
    lead = counts.max(axis=1, keepdims=True).astype(np.int64) - counts
    np.testing.assert_array_equal(maximality(jnp.asarray(counts), s), lead < s)


@pytest.mark.once
@pytest.mark.exhaustive
def test_transformations(rng):
    counts = jnp.asarray(rng.integers(0, 6, size=(20, 3)))
    for n_classes in (2, 3):
        own = counts[:, :n_classes]
        eager = maximality(own, 2.0)
        np.testing.assert_array_equal(jax.jit(jax.vmap(lambda c: maximality(c, 2.0)))(own), eager)
        vote = ju.GeneralizedVote(1.0)(own[:, None])
        eager = nondominated(vote)
        np.testing.assert_array_equal(jax.jit(jax.vmap(nondominated))(vote), eager)
        interval = ju.scorers.idm_interval(own, 1.0)
        eager = interval_dominance(interval)
        np.testing.assert_array_equal(jax.jit(interval_dominance)(interval), eager)


dominated = lambda lower, upper: lambda: interval_dominance(Interval(np.array(lower, float), np.array(upper, float)))
test_refusals = refusals(
    ("mass", lambda: nondominated(preference(np.ones((4, 2)), np.ones(4))), "preference.mass has shape"),
    ("mass of one", lambda: nondominated(preference(np.ones((4, 1, 1)), np.ones(4))), "preference.mass has shape"),
    ("crossed", dominated([0.6, 0.1], [0.5, 0.2]), r"interval\[0\] is|interval\[1\] is"),
    ("negative", dominated([-0.1, 0], [0.5, 1]), r"interval\[0\] is|interval\[1\] is"),
    ("above 1", dominated([0.1, 0], [0.5, 1.5]), r"interval\[0\] is|interval\[1\] is"),
    ("NaN", dominated([np.nan, 0], [1, 1]), r"interval\[0\] is|interval\[1\] is"),
    ("shapes", dominated(np.zeros((2, 3)), np.ones((2, 2))), "interval.lower has shape"),
    ("one class", dominated(np.zeros((2, 1)), np.ones((2, 1))), "last axis"),
)
