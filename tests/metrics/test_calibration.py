"""The calibration error and the reliability curve: bins, values, traces and refusals."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxunc import metrics
from tests._refusal import refusals
from tests.metrics import _reference as reference
from tests.metrics.test_metrics import predictions


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize(("strategy", "n_bins"), [("uniform", 8), ("quantile", 8), ("quantile", 1)])
@pytest.mark.exhaustive(keep=2)
def test_calibration_error_of_the_definition(norm, strategy, n_bins):
    # With eight bins, confidences that are multiples of 1/16 lie on the edges.
    probs, y = predictions(3)
    expected = reference.calibration_error(probs, y, n_bins, norm, strategy)
    result = metrics.calibration_error(probs, y, n_bins=n_bins, norm=norm, strategy=strategy)
    # Probabilities were given in float32, and so is the answer.
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_bins_by_hand():
    """An edge belongs to the bin below it; equal confidences share a bin; empty bins have no means."""
    probs, y = np.array([[0.25, 0.75], [0.5, 0.5], [0.0, 1.0]], np.float32), np.array([1, 1, 0])
    assert metrics.calibration_error(probs, y, n_bins=2) == pytest.approx((0.5 + abs(0.25 - 1.0)) / 3)
    same = np.tile(probs[:1], (6, 1))
    hits = np.array([1, 1, 1, 0, 0, 0])
    assert metrics.calibration_error(same, hits, n_bins=3, strategy="quantile") == pytest.approx(0.25)
    curve = metrics.reliability_curve(np.array([[0.25, 0.75]], np.float32), np.array([0]), n_bins=4)
    np.testing.assert_array_equal(curve.confidence, [np.nan, np.nan, 0.75, np.nan])
    np.testing.assert_array_equal(curve.accuracy, [np.nan, np.nan, 0, np.nan])
    np.testing.assert_array_equal(curve.size, [0, 0, 1, 0])


@pytest.mark.parametrize(("strategy", "n_bins"), [("uniform", 8), ("quantile", 5)])
@pytest.mark.exhaustive
def test_reliability_of_the_definition(strategy, n_bins, rng):
    probs = np.diff(np.sort(rng.integers(0, 17, size=(36, 2))), axis=1, prepend=0, append=16) / 16
    y = rng.integers(0, 3, size=36)
    curve = metrics.reliability_curve(probs, y, n_bins=n_bins, strategy=strategy)
    confidence, accuracy, size = reference.reliability_curve(probs, y, n_bins, strategy)
    np.testing.assert_allclose(curve.confidence, confidence, rtol=1e-6)
    np.testing.assert_allclose(curve.accuracy, accuracy, rtol=1e-6)
    np.testing.assert_array_equal(curve.size, size)
    # The gaps between the curve and its diagonal are the calibration error.
    gaps = np.nansum(np.abs(np.subtract(curve.confidence, curve.accuracy)) * np.asarray(curve.size)) / 36
    error = metrics.calibration_error(probs, y, n_bins=n_bins, strategy=strategy)
    np.testing.assert_allclose(error, gaps, rtol=1e-5, atol=1e-7)


def test_reliability_in_a_trace(x64):
    probs, y = np.array([[0.25, 0.75], [0.9, 0.1]]), np.array([1, 1])
    curve = partial(metrics.reliability_curve, n_bins=3)
    eager, traced = curve(probs, y), jax.jit(curve)(probs, y)
    for a, b in zip(eager, traced, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert eager.confidence.dtype == eager.accuracy.dtype == (np.float64 if x64 else np.float32)
    assert eager.size.dtype == np.int32
    unknown = jax.jit(curve)(probs, y + 1)
    assert np.all(np.isnan(unknown.confidence))
    assert np.all(np.isnan(unknown.accuracy))
    # The means move with the confidences, empty bins with nothing.
    slope = jax.jit(jax.grad(lambda p: jnp.nansum(curve(p, y).confidence)))(probs)
    np.testing.assert_array_equal(slope, [[0, 0.5], [0.5, 0]])


HALVES, Y = np.full((4, 2), 0.5), np.array([0, 1, 0, 1])
test_refusals = refusals(
    *(
        (f"{of.__name__}, {how}", partial(of, HALVES, Y, **how), words)
        for of in (metrics.reliability_curve, metrics.calibration_error)
        for how, words in (({"n_bins": 0}, "must be at least 1"), ({"strategy": "unform"}, "Did you mean 'uniform'"))
    ),
    ("norm", lambda: metrics.calibration_error(HALVES, Y, norm="l3"), "norm='l3' is unknown"),
)
