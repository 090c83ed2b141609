"""The most extreme score where two of opposite sign are: nothing is said, by the rule and by the mixture around it."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju

TIED = np.array([[4, 0], [1, 2], [0, 7], [2, 2]])
THREE = np.array([[4, 0, 0], [0, 5, 1], [1, 0, 1], [2, 1, 0]])
RULES = {
    "maximum": ju.Maximum(),
    "maximum-pls": ju.Maximum(ju.scorers.plausibility),
    "mixture": ju.GeneralizedMixture(reference="maximum"),
}


@pytest.mark.exhaustive
def test_opposite_extremes_are_no_score_and_gradients():
    """A tied leaf alone is smooth; of two opposite extremes each has half of the slope."""
    for scorer in (ju.scorers.probability, ju.scorers.laplace, ju.scorers.plausibility):
        answer = ju.Maximum(scorer).answer(jnp.array([[1, 3], [3, 1], [2, 3]]))
        assert answer.score == 0
        np.testing.assert_array_equal(answer.class_scores, 0)
        np.testing.assert_array_equal(answer.probability, 0.5)
    # One of them a little further out decides.
    assert ju.Maximum(ju.scorers.laplace).score(jnp.asarray(TIED)) > 0
    assert ju.Maximum(ju.scorers.laplace).score(jnp.asarray(TIED[:, ::-1])) < 0
    slope = jax.grad(lambda counts: ju.Maximum().score(counts))
    np.testing.assert_allclose(slope(jnp.array([[2.0, 2.0]])), [[-0.125, 0.125]])
    np.testing.assert_allclose(
        slope(jnp.array([[1.0, 3.0], [3.0, 1.0], [1.0, 2.0]])),
        [[-3 / 32, 1 / 32], [-1 / 32, 3 / 32], [0, 0]],
        rtol=1e-6,
    )
    both = jax.grad(lambda counts: RULES["mixture"].score(counts))(jnp.asarray(TIED, float))
    assert np.all(np.isfinite(both))
    assert np.any(both != 0)


def test_more_classes_and_a_mixture_around_opposite_extremes(tolerance):
    """Class 0: 3/4 and 1/4 of extremes; class 1: 1/2 and 0. Θ = 0: the weights are (1 - |v|/Σ|v|)/(K - 1)."""
    counts = jnp.array([[3, 0, 1, 0], [1, 2, 1, 0]])
    tolerance.check(ju.Maximum()(counts), [0.5, 0.0, 0.0, -0.25], scale=1.0)
    for counts, theta in ((TIED, 0.0), (TIED[1:], 0.5)):  # without the first class 1 is the more extreme
        v = counts[:, 1] / counts.sum(axis=1) - 0.5
        expected = np.sum(v - v * np.abs(v - theta) / np.abs(v - theta).sum()) / (len(v) - 1)
        tolerance.check(RULES["mixture"].score(jnp.asarray(counts)), expected, scale=1.0)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.exhaustive
def test_neither_order_nor_names_decide(name, tolerance):
    for counts in (TIED, THREE):
        if counts.shape[1] > 2 and name == "maximum-pls":
            continue
        orders = np.array(list(itertools.permutations(counts)))
        answer = np.asarray(RULES[name](jnp.asarray(orders)))
        tolerance.check(answer, np.tile(answer[:1], (len(orders), 1)), scale=1.0)
        flipped = np.asarray(RULES[name](jnp.asarray(orders[..., ::-1])))
        tolerance.check(flipped[:, ::-1], answer, scale=1.0)
