"""Scores of predictions of a number."""

import jax
import numpy as np
import pytest

from jaxunc.metrics import crps, interval_score, pinball_loss
from tests._refusal import refusals
from tests.metrics import _reference as reference

LEVELS = np.array([0.0, 0.1, 0.5, 0.95, 1.0])


def drawn(seed, n=40, shift=0.0):
    rng = np.random.default_rng(seed)
    return shift + np.sort(rng.normal(size=(n, 5)).round(1), axis=1), shift + rng.normal(size=n).round(1)


@pytest.mark.parametrize("shift", [0.0, 1e8])
@pytest.mark.parametrize("seed", range(3))
def test_against_loops(seed, shift):
    values, y = drawn(seed, shift=shift)
    probs = np.random.default_rng(seed).dirichlet(np.ones(5) / 2, len(y))
    check = lambda found, expected: np.testing.assert_allclose(float(found), expected, rtol=1e-5, atol=1e-6)
    check(interval_score(values[:, [0, 3]], y, coverage=0.7), reference.interval_score(values[:, [0, 3]], y, 0.7))
    check(pinball_loss(values, y, quantiles=LEVELS), reference.pinball_loss(values, y, LEVELS))
    check(crps(values[:, ::-1], y), reference.crps(values, y, np.full(values.shape, 0.2)))
    check(crps(values, y, probs=probs), reference.crps(values, y, probs))
    check(crps(values[:, :1], y), np.abs(values[:, 0] - y).mean())


def test_under_jit_and_grad_and_an_infinite_end():
    values, y = (part.astype(np.float32) for part in drawn(1))
    scores = crps, lambda v, y: pinball_loss(v, y, quantiles=LEVELS), lambda v, y: interval_score(v[:, :2], y)
    compiled = jax.jit(lambda v, y: [jax.value_and_grad(score)(v, y) for score in scores])(values, y)
    for score, (value, slope) in zip(scores, compiled, strict=True):
        np.testing.assert_allclose(value, score(values, y), rtol=1e-5)
        assert np.isfinite(slope).all()
    assert float(interval_score(np.array([[-np.inf, 1.0]]), np.array([0.0]))) == np.inf
    with jax.enable_x64(True):  # a coverage of NumPy has the precision of Python's
        assert interval_score(jax.numpy.asarray(values[:, :2]), y, coverage=np.float64(0.8)).dtype == np.float32


V, Y = drawn(0)
NAN = np.where(np.arange(5) == 2, np.nan, V)
test_refusals = refusals(
    ("coverage", lambda: interval_score(V[:, :2], Y, coverage=1), "coverage=1"),
    ("five ends", lambda: interval_score(V, Y), "instances 2"),
    ("ends in disorder", lambda: interval_score(V[:, [3, 0]] + [1, 0], Y), "swap them"),
    ("fewer intervals", lambda: interval_score(V[:3, :2], Y), "one number for each"),
    ("nothing", lambda: interval_score(V[:0, :2], Y[:0]), "y is empty"),
    ("one level", lambda: pinball_loss(V, Y, quantiles=[0.5]), "quantiles has shape"),
    ("levels beyond 1", lambda: pinball_loss(V, Y, quantiles=LEVELS * 2), "quantiles"),
    ("NaN", lambda: pinball_loss(NAN, Y, quantiles=LEVELS), "predicted holds NaN"),
    ("one axis", lambda: crps(V[:, 0], Y), "values has shape"),
    ("infinite", lambda: crps(V, np.full(len(Y), np.inf)), "y holds NaN or infinite"),
    ("weights", lambda: crps(V, Y, probs=np.ones(V.shape)), "add to 1"),
    ("fewer weights", lambda: crps(V, Y, probs=np.ones((len(V), 2))), "probs has shape"),
)


def test_infinite_points():
    """They cost nothing without a share, and else without end; as does an interval of one of them."""
    y = np.zeros(1)
    assert float(interval_score(np.array([[np.inf, np.inf], [0.0, 1.0]]), np.zeros(2))) == np.inf
    for values, expected in (([-np.inf, 1.0, 2.0, np.inf], 1.25), ([-np.inf, -5.0, -3.0, np.inf], 3.5)):
        points, shares = np.array([values]), np.array([[0, 0.5, 0.5, 0]])
        assert float(crps(points, y, probs=shares)) == pytest.approx(expected)
        slope = jax.grad(lambda v, shares=shares: crps(v, np.float32(y), probs=shares))(np.float32(points))
        assert np.isfinite(slope).all()
        assert float(crps(points, y)) == np.inf
    for points, shares in (([np.inf, np.inf], None), ([0, np.inf], [1, 1e-9]), ([-np.inf, 0], [1e-30, 1])):
        shares = None if shares is None else np.array([shares])
        assert float(crps(np.array([points], float), y, probs=shares)) == np.inf


def test_the_slope_where_points_tie_is_of_those_beside_them():
    slope = jax.grad(lambda v: crps(v, np.float32([3])))
    np.testing.assert_allclose(slope(np.float32([[1, 1]])), [[-0.25, -0.75]], rtol=1e-6)
    np.testing.assert_allclose(slope(np.float32([[1, 1.001]])), [[-0.25, -0.75]], rtol=1e-6)


def test_infinite_quantiles_at_the_outermost_levels_cost_nothing():
    predicted, levels = np.array([[-np.inf, 1.0, np.inf]]), np.array([0, 0.5, 1])
    assert pinball_loss(predicted, np.zeros(1), quantiles=levels) == pytest.approx(0.5 / 3)
    slope = jax.grad(lambda q: pinball_loss(q, np.zeros(1, np.float32), quantiles=levels))(np.float32(predicted))
    np.testing.assert_allclose(slope, [[0, 0.5 / 3, 0]], atol=1e-7)
