"""Relative frequencies: reference values, gradients, edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from tests._golden import column, golden
from tests._refusal import refuses

LEAVES = golden("scorers")
COUNTS = np.stack([column(LEAVES, "n_neg"), column(LEAVES, "n_pos")], axis=-1)


@pytest.mark.parametrize("dtype", [np.int32, float])
def test_golden(dtype, tolerance):
    scores = ju.scorers.probability(jnp.asarray(COUNTS.astype(dtype)))
    tolerance.check(scores, column(LEAVES, "p_prob"))
    np.testing.assert_array_equal(np.sign(scores), np.sign(COUNTS[:, 1] - COUNTS[:, 0]))


def test_golden_multiclass(tolerance):
    for entry in golden("scorers_multiclass"):
        scores = ju.scorers.probability(jnp.asarray(entry["counts"]))
        tolerance.check(scores, entry["p_prob_centred"], scale=1.0)


def test_gradient(tolerance):
    counts = jnp.array([[3.0, 5.0], [0.0, 4.0], [4.0, 0.0], [0.0, 0.0]])
    gradient = jax.grad(lambda c: jnp.sum(ju.scorers.probability(c)))(counts)
    n = np.array([8.0, 4.0, 4.0, np.inf])
    expected = np.stack([-np.asarray(counts)[:, 1] / n**2, np.asarray(counts)[:, 0] / n**2], axis=-1)
    tolerance.check(gradient, expected)


def test_integers_are_subtracted_before_they_are_rounded():
    lead = ju.scorers.probability(jnp.array([[10**9, 10**9 + 1], [10**9, 10**9]], jnp.int32))
    assert lead[0] > 0
    assert lead[1] == 0


def test_one_class_is_refused():
    with refuses(ValueError, "last axis"):
        ju.scorers.probability(jnp.ones((3, 1)))


@pytest.mark.once
@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.uint16, jnp.uint32])
@pytest.mark.parametrize("scorer", [ju.scorers.probability, ju.scorers.laplace, ju.scorers.confidence_bounds])
@pytest.mark.exhaustive(keep=1)
def test_unsigned_counts_do_not_wrap(scorer, dtype):
    counts = [[9, 3], [3, 9], [200, 100], [4, 4], [0, 0]]
    np.testing.assert_array_equal(scorer(jnp.array(counts, dtype)), scorer(jnp.array(counts)))
