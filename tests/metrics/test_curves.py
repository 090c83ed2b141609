"""Curves and maps: values, ties, precision, transformations and refusals."""

import operator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxunc import metrics
from tests._refusal import refuses
from tests.metrics import _reference as reference

N = 12
"""Instances of most tests, so that they share compiled programs."""

certainties = hnp.arrays(np.float32, N, elements=st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 1e-40, 2e-40, 0.5, 3e38]))


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
    np.testing.assert_allclose(
        metrics.calibration_error(probs, y, n_bins=n_bins, strategy=strategy), gaps, rtol=1e-5, atol=1e-7
    )


def test_reliability_of_one_instance():
    curve = metrics.reliability_curve(np.array([[0.25, 0.75]], np.float32), np.array([0]), n_bins=4)
    np.testing.assert_array_equal(curve.confidence, [np.nan, np.nan, 0.75, np.nan])
    np.testing.assert_array_equal(curve.accuracy, [np.nan, np.nan, 0, np.nan])
    np.testing.assert_array_equal(curve.size, [0, 0, 1, 0])


def test_reliability_in_a_trace(x64):
    probs, y = jnp.array([[0.25, 0.75], [0.9, 0.1]]), jnp.array([1, 1])
    curve = partial(metrics.reliability_curve, n_bins=3)
    eager, traced = curve(probs, y), jax.jit(curve)(probs, y)
    for a, b in zip(eager, traced, strict=True):
        np.testing.assert_array_equal(a, b)
    assert eager.confidence.dtype == eager.accuracy.dtype == (np.float64 if x64 else np.float32)
    assert eager.size.dtype == np.int32
    unknown = jax.jit(curve)(probs, y + 1)
    assert np.all(np.isnan(unknown.confidence))
    assert np.all(np.isnan(unknown.accuracy))
    # The means move with the confidences, empty bins with nothing.
    slope = jax.jit(jax.grad(lambda p: jnp.nansum(curve(p, y).confidence)))(probs)
    np.testing.assert_array_equal(slope, [[0, 0.5], [0.5, 0]])


@given(certainties, hnp.arrays(bool, N))
@pytest.mark.exhaustive
def test_curves_of_any_certainties(certainty, correct):
    for n_points in (None, 5, 30):
        risk = reference.risk_coverage(certainty, correct, n_points or N)
        curve = metrics.risk_coverage_curve(certainty, correct, n_points=n_points)
        np.testing.assert_allclose(curve.risk, risk, rtol=1e-6)
        np.testing.assert_allclose(curve.coverage, np.linspace(0, 1, len(risk) + 1)[1:], rtol=1e-6)
        rejection = metrics.accuracy_rejection_curve(certainty, correct, n_points=n_points)
        np.testing.assert_allclose(rejection.accuracy, 1 - risk[::-1], rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(rejection.rejected, np.linspace(0, 1, len(risk) + 1)[:-1], rtol=1e-6)
        if n_points is None:
            area = metrics.area_under_risk_coverage(certainty, correct)
            np.testing.assert_allclose(area, risk.mean(), rtol=1e-6)


@given(hnp.arrays(np.int32, N, elements=st.integers(-2, 2)), hnp.arrays(bool, N), st.permutations(range(N)))
def test_order_of_instances_does_not_matter(certainty, correct, order):
    curve = metrics.risk_coverage_curve(certainty, correct)
    shuffled = metrics.risk_coverage_curve(certainty[order], correct[order])
    np.testing.assert_array_equal(curve.risk, shuffled.risk)


@pytest.mark.parametrize("n_points", [None, 5])
def test_all_right_and_all_wrong(n_points, rng):
    for certainty in (rng.integers(0, 5, N).astype(np.float32), np.zeros(N, np.float32)):
        for correct in (0, 1):
            curve = metrics.accuracy_rejection_curve(certainty, np.full(N, correct), n_points=n_points)
            np.testing.assert_array_equal(curve.accuracy, correct)
            assert metrics.area_under_risk_coverage(certainty, np.full(N, correct)) == 1 - correct


def test_one_instance():
    one, right = np.array([0.5], np.float32), np.array([True])
    assert metrics.area_under_risk_coverage(one, right) == 0
    for n_points in (None, 3):
        curve = metrics.risk_coverage_curve(one, ~right, n_points=n_points)
        np.testing.assert_array_equal(curve.risk, 1)
        assert metrics.accuracy_rejection_curve(one, right, n_points=n_points).rejected[0] == 0


def test_certainties_that_tell_nothing(rng):
    correct = np.arange(N) < 9
    curve = metrics.accuracy_rejection_curve(np.ones(N, np.float32), correct, n_points=5)
    np.testing.assert_allclose(curve.accuracy, 0.75, rtol=1e-7)


def test_differences_that_a_float_does_not_see():
    correct = np.arange(N) >= N // 2
    extremes = np.arange(N, dtype=np.int32)
    extremes[0], extremes[-1] = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    for certainty in (1 + np.arange(N) * 1e-12, 2**40 + np.arange(N), extremes, 2**24 + np.arange(N, dtype=np.int32)):
        risk = metrics.risk_coverage_curve(certainty, correct).risk
        np.testing.assert_array_equal(np.asarray(risk)[: N // 2], 0)
        np.testing.assert_allclose(risk[-1], 0.5)


@pytest.mark.exhaustive
def test_a_million_instances():
    """In float32 too every point is right to its last digit or so."""
    n = 1_000_000
    rng = np.random.default_rng(0)
    p = rng.random(n)
    correct = rng.random(n) < p
    certainty = (p * 2000).astype(np.int32)  # groups of about 500
    sizes, wrong = (np.bincount(certainty, weights=w, minlength=2000)[::-1].cumsum() for w in (None, ~correct))
    kept = np.arange(1, n + 1)
    risk = np.interp(kept, [0, *sizes], [0, *wrong]) / kept
    curve = metrics.risk_coverage_curve(certainty, correct)
    np.testing.assert_allclose(curve.risk, risk, rtol=4e-7)
    np.testing.assert_allclose(metrics.area_under_risk_coverage(certainty, correct), risk.mean(), rtol=2e-7)
    points = metrics.accuracy_rejection_curve(certainty, correct, n_points=64)
    np.testing.assert_allclose(points.accuracy, 1 - risk[n // 64 - 1 :: n // 64][::-1], rtol=4e-7)

    epistemic = (1 - p).astype(np.float32)
    drawn = metrics.uncertainty_map(p.astype(np.float32), epistemic, correct, n_bins=16)
    expected = np.histogram2d(p.astype(np.float32), epistemic, bins=np.arange(17) / 16)[0]
    np.testing.assert_array_equal(drawn.size, expected)
    assert np.sum(drawn.errors) == np.sum(~correct)


def test_map_of_the_definition(rng):
    values, correct = rng.integers(-1, 11, size=(2, 36)) / 8, rng.random(36) < 0.5
    values = values.astype(np.float32)
    drawn = metrics.uncertainty_map(*values, correct, n_bins=4, upper=(1.0, 0.5))
    edges = (np.arange(5) / 4, np.arange(5) / 8)
    inside = [np.clip(v, e[0], e[-1]) for v, e in zip(values, edges, strict=True)]
    np.testing.assert_array_equal(drawn.size, np.histogram2d(*inside, bins=edges)[0])
    wrong = [v[~correct] for v in inside]
    np.testing.assert_array_equal(drawn.errors, np.histogram2d(*wrong, bins=edges)[0])
    np.testing.assert_array_equal(drawn.aleatoric_edges, edges[0])
    np.testing.assert_array_equal(drawn.epistemic_edges, edges[1])
    assert drawn.size.dtype == drawn.errors.dtype == np.int32

    folds = [metrics.uncertainty_map(*values[:, i::2], correct[i::2], n_bins=4, upper=(1.0, 0.5)) for i in (0, 1)]
    np.testing.assert_array_equal(folds[0].size + folds[1].size, drawn.size)
    np.testing.assert_array_equal(folds[0].errors + folds[1].errors, drawn.errors)


def test_map_of_one_instance():
    drawn = metrics.uncertainty_map(np.float32([7]), np.float32([-1e-9]), np.array([0]), n_bins=2)
    np.testing.assert_array_equal(drawn.size, [[0, 0], [1, 0]])
    np.testing.assert_array_equal(drawn.errors, drawn.size)


@pytest.mark.exhaustive
def test_transformations(x64):
    certainty, correct = np.arange(2 * N).reshape(2, N) % 5 / 4, np.arange(2 * N).reshape(2, N) % 3 > 0
    functions = (
        partial(metrics.accuracy_rejection_curve, n_points=5),
        metrics.risk_coverage_curve,
        metrics.area_under_risk_coverage,
        lambda s, c: metrics.uncertainty_map(s, 1 - s, c, n_bins=3),
    )

    @jax.jit
    def all_of(certainty, correct):
        return [jax.vmap(f)(certainty, correct) for f in functions]

    traced = all_of(jnp.asarray(certainty), jnp.asarray(correct))
    for function, together in zip(functions, traced, strict=True):
        for i in range(2):
            alone = function(jnp.asarray(certainty[i]), correct[i])
            for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
                assert a.dtype == b.dtype == (np.int32 if a.ndim == 2 else np.float64 if x64 else np.float32)
                np.testing.assert_allclose(a, b[i], rtol=1e-6)


def test_what_is_unknown_in_a_trace():
    certainty, correct = jnp.arange(float(N)), jnp.arange(N) % 2

    @jax.jit
    def curves(certainty, correct):
        gradient = jax.grad(metrics.area_under_risk_coverage)(certainty, correct)
        drawn = metrics.uncertainty_map(certainty, certainty, correct, n_bins=3)
        return gradient, metrics.area_under_risk_coverage(certainty, correct), drawn

    gradient, area, drawn = curves(certainty, correct)
    np.testing.assert_array_equal(gradient, 0)
    assert np.isfinite(area)
    assert np.sum(drawn.size) == N
    for broken in (curves(certainty.at[3].set(jnp.nan), correct), curves(certainty, correct.at[3].set(2))):
        assert np.isnan(broken[1])
        assert np.sum(broken[2].size) == N - 1


def test_strict_promotion():
    values, y = jnp.ones(N), jnp.ones(N, jnp.int32)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        assert jax.eval_shape(metrics.area_under_risk_coverage, values, y).shape == ()
        assert jax.eval_shape(metrics.uncertainty_map, values, values, y).size.shape == (20, 20)
        probs = jnp.full((N, 2), 0.5)
        assert jax.eval_shape(metrics.reliability_curve, probs, y).size.shape == (10,)


@pytest.mark.parametrize("name", ["accuracy_rejection_curve", "risk_coverage_curve", "area_under_risk_coverage"])
def test_refusals_of_rejection(name):
    curve, certainty, correct = operator.attrgetter(name)(metrics), np.arange(4.0), np.array([0, 1, 0, 1])
    with refuses(ValueError, "certainty holds NaN"):
        curve(certainty * np.nan, correct)
    with refuses(ValueError, r"certainty has shape \(4, 2\); expected \[instances\].*largest of each row"):
        curve(np.zeros((4, 2)), correct)
    with refuses(ValueError, r"correct has shape \(3,\)"):
        curve(certainty, correct[:3])
    with refuses(ValueError, "correct holds 2"):
        curve(certainty, 2 * correct)
    with refuses(ValueError, "correct is empty"):
        curve(certainty[:0], correct[:0])
    with refuses(TypeError, "correct has dtype float"):
        curve(certainty, correct.astype(float))
    if name != "area_under_risk_coverage":
        with refuses(ValueError, "n_points=0 must be at least 1"):
            curve(certainty, correct, n_points=0)
        with refuses(TypeError, "integer"):
            curve(certainty, correct, n_points=2.5)


def test_refusals_of_the_map():
    values, correct = np.arange(4.0), np.array([0, 1, 0, 1])
    for broken in ("aleatoric", "epistemic"):
        with refuses(ValueError, f"{broken} holds NaN"):
            metrics.uncertainty_map(
                **{"aleatoric": values, "epistemic": values, broken: values * np.nan}, correct=correct
            )
        with refuses(ValueError, rf"{broken} has shape \(4, 2\).*summed over the classes"):
            wide = np.zeros((4, 2))
            metrics.uncertainty_map(**{"aleatoric": values, "epistemic": values, broken: wide}, correct=correct)
    with refuses(ValueError, r"epistemic has shape \(3,\) and aleatoric \(4,\)"):
        metrics.uncertainty_map(values, values[:3], correct)
    with refuses(ValueError, r"correct has shape \(3,\)"):
        metrics.uncertainty_map(values, values, correct[:3])
    with refuses(ValueError, "correct holds 2"):
        metrics.uncertainty_map(values, values, 2 * correct)
    with refuses(ValueError, "correct is empty"):
        metrics.uncertainty_map(values[:0], values[:0], correct[:0])
    with refuses(TypeError, "correct has dtype float"):
        metrics.uncertainty_map(values, values, correct.astype(float))
    with refuses(ValueError, "n_bins=0 must be at least 1"):
        metrics.uncertainty_map(values, values, correct, n_bins=0)
    with refuses(TypeError, "integer"):
        metrics.uncertainty_map(values, values, correct, n_bins=2.5)
    for upper in ((1.0, 0.0), (np.inf, 1.0), (np.nan, 1.0), (1.0,)):
        with refuses(ValueError, "upper.*two positive numbers"):
            metrics.uncertainty_map(values, values, correct, upper=upper)


@pytest.mark.exhaustive
def test_refusals_of_the_reliability_curve():
    probs, y = np.full((4, 2), 0.5), np.array([0, 1, 0, 1])
    with refuses(ValueError, "strategy='equal' is unknown"):
        metrics.reliability_curve(probs, y, strategy="equal")
    with refuses(ValueError, "n_bins=0 must be at least 1"):
        metrics.reliability_curve(probs, y, n_bins=0)
    with refuses(TypeError, "integer"):
        metrics.reliability_curve(probs, y, n_bins=1.5)
    with refuses(ValueError, "probabilities.*adding to 1"):
        metrics.reliability_curve(np.full((4, 2), 0.45), y)
    with refuses(ValueError, r"expected \[instances classes\]"):
        metrics.reliability_curve(np.ones((4, 1)), y)
    with refuses(ValueError, "y holds 2"):
        metrics.reliability_curve(probs, 2 * y)
    with refuses(ValueError, r"y has shape \(3,\)"):
        metrics.reliability_curve(probs, y[:3])
    with refuses(ValueError, "empty"):
        metrics.reliability_curve(probs[:0], y[:0])
    with refuses(TypeError, "y has dtype float"):
        metrics.reliability_curve(probs, y.astype(float))
