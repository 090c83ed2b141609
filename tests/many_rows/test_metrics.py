"""Metrics of many predictions, and their gradients, by optimised programs, against NumPy in float64."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxunc import compare, metrics
from jaxunc.scorers import Interval
from tests.many_rows._drawn import DISTINCT, SIZES, drawn
from tests.metrics import _reference as reference
from tests.metrics.test_sets import ALL, by_loops

pytestmark = [pytest.mark.exhaustive, pytest.mark.once, pytest.mark.parametrize("n_rows", SIZES)]


@lru_cache
def predictions(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of three classes, multiples of 1/64 and none of them 0, and labels that follow them."""
    rng = np.random.default_rng(n_rows)
    first, second = rng.integers(1, 31, size=(2, n_rows))
    probs = np.stack([first, second, 64 - first - second], axis=1) / 64
    y = np.sum(rng.random((n_rows, 1)) > np.cumsum(probs, axis=1)[:, :2], axis=1)
    return probs.astype(np.float32), y


@lru_cache
def intervals(n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends between 1/64 and 63/64 that belong to the leaf of each row, and labels."""
    rng = np.random.default_rng([n_rows, 1])
    lower, upper = np.sort(rng.integers(1, 64, size=(2, DISTINCT)), axis=0)[:, drawn(n_rows)] / 64
    return lower.astype(np.float32), upper.astype(np.float32), (rng.random(n_rows) < (lower + upper) / 2).astype(int)


def check(found, expected, rtol=1e-6):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-9)


def test_scores_and_gradients(n_rows):
    probs, y = predictions(n_rows)
    check(metrics.accuracy(probs, y), np.mean(probs.argmax(axis=1) == y))
    check(metrics.auc(probs, y), reference.auc_one_vs_rest(probs, y))
    check(metrics.brier_score(probs, y), reference.brier_score(probs, y))
    check(metrics.log_loss(probs, y), reference.log_loss(probs, y))
    logs = np.log(probs)
    check(metrics.log_loss_from_logs(logs, y), reference.log_loss(np.exp(logs.astype(float)), y))
    truth, wide = np.eye(3)[y], probs.astype(float)
    check(jax.grad(metrics.brier_score)(jnp.asarray(probs), y), 2 * (wide - truth) / n_rows)
    check(jax.grad(metrics.log_loss)(jnp.asarray(probs), y), -truth / wide / n_rows)


def test_confidence_and_rejection(n_rows):
    probs, y = predictions(n_rows)
    certainty, correct = probs.max(axis=1), probs.argmax(axis=1) == y
    check(metrics.auc(certainty, correct), reference.auc(certainty, correct))
    # Gaps are differences of shares that nearly cancel.
    for strategy, norm in (("uniform", "l1"), ("quantile", "l2")):
        found = metrics.calibration_error(probs, y, n_bins=8, strategy=strategy, norm=norm)
        assert abs(found - reference.calibration_error(probs, y, 8, norm, strategy)) < 1e-6
    curve = metrics.reliability_curve(probs, y, n_bins=8)
    for found, expected in zip(curve, reference.reliability_curve(probs, y, 8, "uniform"), strict=True):
        check(found, expected)
    risk = reference.risk_coverage(certainty, correct, 10)
    check(metrics.risk_coverage_curve(certainty, correct, n_points=10).risk, risk)
    check(metrics.accuracy_rejection_curve(certainty, correct, n_points=10).accuracy[::-1], 1 - risk)
    # All at one certainty: every coverage has the risk of all.
    check(metrics.area_under_risk_coverage(np.ones_like(certainty), correct), np.mean(~correct))


def test_map(n_rows):
    probs, y = predictions(n_rows)
    aleatoric, epistemic, correct = probs[:, 0], probs[:, 1], probs.argmax(axis=1) == y
    found = compare.uncertainty_map(aleatoric, epistemic, correct, n_bins=4)
    place = (np.floor(aleatoric * 4) * 4 + np.floor(epistemic * 4)).astype(int)
    np.testing.assert_array_equal(found.size.ravel(), np.bincount(place, minlength=16))
    np.testing.assert_array_equal(found.errors.ravel(), np.bincount(place[~correct], minlength=16))


def test_sets(n_rows):
    sets, y = np.random.default_rng(n_rows).random((n_rows, 4)) < 0.5, predictions(n_rows)[1]
    sets[~sets.any(axis=1)] = True
    check([float(metric(sets, y)) for metric in ALL], by_loops(sets, y))


def loss(p, y):
    """Squared losses of the probability of class 1."""
    return (1 - np.where(y == 1, p, 1 - p)) ** 2


def test_intervals(n_rows):
    lower, upper, y = intervals(n_rows)
    interval, wide = Interval(lower, upper), (lower.astype(float), upper.astype(float))
    least, most = (loss(np.where(y == 1, *ends), y).mean() for ends in (wide[::-1], wide))
    check(metrics.interval_brier(interval, y), [least, most])


def test_intervals_of_leaves(n_rows):
    lower, upper, y = intervals(n_rows)
    leaf = drawn(n_rows)
    size, ones = np.bincount(leaf), np.bincount(leaf, weights=y)
    first = np.unique(leaf, return_index=True)[1]
    ends = lower[first].astype(float), upper[first].astype(float)
    candidates = [*ends, np.clip(ones / size, *ends)]  # a sum of losses is convex in p
    sums = [ones * loss(p, 1) + (size - ones) * loss(p, 0) for p in candidates]
    expected = np.min(sums, axis=0).sum() / n_rows, np.max(sums, axis=0).sum() / n_rows
    check(metrics.interval_brier(Interval(lower, upper), y, leaf=leaf), expected)
