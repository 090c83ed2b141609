"""Curves of rejection and the area under them: values, ties, precision, transformations and refusals."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxunc import metrics
from tests._refusal import refusals
from tests.metrics import _reference as reference

N = 12
"""Instances of most tests, so that they share compiled programs."""

certainties = hnp.arrays(np.float32, N, elements=st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 1e-40, 2e-40, 0.5, 3e38]))


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


def test_one_instance_equal_certainties_and_close_ones():
    one, right = np.array([0.5], np.float32), np.array([1])
    assert float(metrics.area_under_risk_coverage(one, right)) == 0
    for n_points in (None, 3):
        np.testing.assert_array_equal(metrics.risk_coverage_curve(one, 1 - right, n_points=n_points).risk, 1)
        assert np.asarray(metrics.accuracy_rejection_curve(one, right, n_points=n_points).rejected)[0] == 0
    curve = metrics.accuracy_rejection_curve(np.ones(N, np.float32), np.arange(N) < 9, n_points=5)
    np.testing.assert_allclose(curve.accuracy, 0.75, rtol=1e-7)
    correct = np.arange(N) >= N // 2
    extremes = np.arange(N, dtype=np.int32)
    extremes[0], extremes[-1] = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    for certainty in (1 + np.arange(N) * 1e-12, 2**40 + np.arange(N), extremes, 2**24 + np.arange(N, dtype=np.int32)):
        risk = np.asarray(metrics.risk_coverage_curve(certainty, correct).risk)
        np.testing.assert_array_equal(risk[: N // 2], 0)
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


@pytest.mark.exhaustive
def test_transformations(x64):
    certainty, correct = np.arange(2 * N).reshape(2, N) % 5 / 4, np.arange(2 * N).reshape(2, N) % 3 > 0
    of_five = partial(metrics.accuracy_rejection_curve, n_points=5)
    functions = of_five, metrics.risk_coverage_curve, metrics.area_under_risk_coverage

    @jax.jit
    def all_of(certainty, correct):
        return [jax.vmap(f)(certainty, correct) for f in functions]

    traced = all_of(jnp.asarray(certainty), jnp.asarray(correct))
    for function, together in zip(functions, traced, strict=True):
        for i in range(2):
            alone = function(jnp.asarray(certainty[i]), correct[i])
            for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
                assert a.dtype == b.dtype == (np.float64 if x64 else np.float32)
                np.testing.assert_allclose(a, b[i], rtol=1e-6)


def test_what_is_unknown_in_a_trace():
    certainty, correct = np.arange(float(N)), np.arange(N) % 2

    @jax.jit
    def curves(certainty, correct):
        area = metrics.area_under_risk_coverage
        return jax.grad(area)(certainty, correct), area(certainty, correct)

    gradient, area = curves(certainty, correct)
    np.testing.assert_array_equal(gradient, 0)
    assert np.isfinite(area)
    third = np.arange(N) == 3
    for broken in ((np.where(third, np.nan, certainty), correct), (certainty, np.where(third, 2, correct))):
        assert np.isnan(curves(*broken)[1])


CERTAINTY, CORRECT = np.arange(4.0), np.array([0, 1, 0, 1])
REFUSED = {
    "by class": (r"certainty has shape \(4, 2\); .*\[instances\].*largest of each row", np.zeros((4, 2)), CORRECT),
    "fewer": (r"correct has shape \(3,\)", CERTAINTY, CORRECT[:3]),
    "a two": ("correct holds 2", CERTAINTY, 2 * CORRECT),
    "nothing": ("correct is empty", CERTAINTY[:0], CORRECT[:0]),
    "fractions": ("correct has dtype float", CERTAINTY, CORRECT.astype(float), TypeError),
}


CURVES = (metrics.accuracy_rejection_curve, metrics.risk_coverage_curve)
test_refusals = refusals(
    *(
        (f"{of.__name__}, {what}", partial(of, certainty, correct), words, *error)
        for of in (*CURVES, metrics.area_under_risk_coverage)
        for what, (words, certainty, correct, *error) in REFUSED.items()
    ),
    *((f"{of.__name__}, no point", partial(of, CERTAINTY, CORRECT, n_points=0), "at least 1") for of in CURVES),
)
