"""Slopes of the belief rules at evenly split leaves, where a class score has a kink and the margin has none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju

pytestmark = pytest.mark.exhaustive

RULES = {
    "dempster": ju.DempsterRule(),
    "dempster, normalised": ju.DempsterRule(normalized=True),
    "dempster, discounted": ju.DempsterRule(reliability=[0.5, 0.5, 0.5]),
    "cautious": ju.CautiousRule(),
    "cautious, normalised": ju.CautiousRule(normalized=True),
}
SLOPE = 0.24278464913
"""∂p_pls/∂w⁺ of the leaf (2, 2)."""
SPLIT = [[2, 2], [1, 4], [3, 1]]
EMPTY = [0, 0]
ENSEMBLES = np.array(
    [
        SPLIT, [[1, 4], [4, 1], EMPTY], [[2, 2], EMPTY, EMPTY], [EMPTY, [2, 2], EMPTY], [[3, 3], [1, 4], [4, 1]],
        [[2, 2], [4, 1], EMPTY], [[4, 1], [2, 2], EMPTY], [[1, 3], [2, 2], [2, 5]],
    ],
    float,
)  # fmt: skip


def readings(rule, counts):
    """What is smooth: the margin, the score and the probability of class 1."""
    answer = rule.answer(counts)
    return jnp.stack([ju.margin(answer.class_scores), answer.score, answer.probability[..., 1]])


def slopes(name) -> np.ndarray:
    """Of every reading, ``[readings instances trees 2]``."""
    of_one = jax.jacobian(lambda counts: readings(RULES[name], counts))
    return np.moveaxis(np.asarray(jax.jit(jax.vmap(of_one))(jnp.asarray(ENSEMBLES))), 1, 0)


@pytest.mark.parametrize("name", RULES)
def test_slopes_are_those_of_finite_differences(name, x64):
    if not x64:
        pytest.skip("finite differences need float64; the other run makes them")
    there = ENSEMBLES > 0
    n, trees, step = len(ENSEMBLES), ENSEMBLES.shape[1], 1e-5
    moves = (np.eye(2 * trees) * step).reshape(2 * trees, 1, trees, 2)
    moved = np.stack([ENSEMBLES + moves, np.maximum(ENSEMBLES - moves, 0)])
    up, down = np.moveaxis(np.asarray(readings(RULES[name], jnp.asarray(moved))), 1, 0)
    expected = np.moveaxis((up - down) / (2 * step), 1, -1).reshape(3, n, trees, 2)
    found = slopes(name)
    np.testing.assert_allclose(found[:, there], expected[:, there], rtol=1e-5, atol=1e-8)
    assert np.all(np.isfinite(found))
    assert np.all(np.any(found != 0, axis=(-1, -2)))


def test_a_split_leaf_has_its_say():
    """Dempster's rule has the slope of the score. The cautious rule: alone the whole slope, whatever empty leaves stand
    before it; half of it where leaves support one class only; nothing where they support both."""
    for name, weight in (("dempster", 1), ("dempster, discounted", 0.5)):
        np.testing.assert_allclose(slopes(name)[0, 0, 0], [-weight * SLOPE, weight * SLOPE], rtol=1e-5)
    margins, own = slopes("cautious")[0], np.array([-SLOPE, SLOPE])
    for instance, tree, share in ((0, 0, 0), (2, 0, 1), (3, 1, 1), (5, 0, 0.5), (6, 1, 0.5), (7, 1, 0.5)):
        np.testing.assert_allclose(margins[instance, tree], share * own, rtol=1e-5)


@pytest.mark.once
@pytest.mark.parametrize("name", RULES)
def test_an_evenly_split_leaf_changes_no_answer(name):
    """Nor the sign of a zero."""
    split = RULES[name].answer(jnp.asarray(ENSEMBLES))
    empty = RULES[name].answer(jnp.asarray(np.where(np.ptp(ENSEMBLES, axis=-1, keepdims=True) == 0, 0, ENSEMBLES)))
    for with_it, without in zip(split, empty, strict=True):
        np.testing.assert_array_equal(with_it, without)
        np.testing.assert_array_equal(np.signbit(with_it), np.signbit(without))


@pytest.mark.once
def test_masses_of_a_split_leaf_add_to_one():
    leaves = jnp.array([[2.0, 2.0], [0.0, 0.0], [7.5, 7.5], [1.0, 3.0]])
    jacobian = np.asarray(jax.vmap(jax.jacobian(ju.scorers.mass))(leaves))
    np.testing.assert_allclose(jacobian.sum(axis=1), 0, atol=1e-6)
    half = SLOPE / 2
    np.testing.assert_allclose(jacobian[0], [[0, 0], [half, -half], [-half, half], [0, 0]], rtol=1e-5)
