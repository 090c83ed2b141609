"""Laws of residuals, against float64 loops."""

import math
from functools import partial

import numpy as np
import pytest

from jaxunc.regression import LAWS, Moments, fit_law, interval_levels
from tests._refusal import refusals

RNG = np.random.default_rng(0)
N = 200
MEAN, ALEATORIC, EPISTEMIC = RNG.normal(size=N) * 3, RNG.gamma(1, 1, N), RNG.gamma(1, 0.5, N)
MOMENTS = Moments(MEAN, ALEATORIC, EPISTEMIC)
Y = MEAN + np.sqrt(ALEATORIC + EPISTEMIC) * RNG.standard_t(4, N)
NEW = Moments(RNG.normal(size=30), RNG.gamma(1, 1, 30), RNG.gamma(1, 1, 30))
OWN = RNG.normal(size=(30, 3)).cumsum(axis=1)
LEVELS = np.array([0.05, 0.5, 0.95])
FLOORS = (0, 0.001, 0.01, 0.03, 0.1, 0.3, 1, 3)


def own(levels):
    """The leaves' own quantiles of the rows: a law that is too wide."""
    return MEAN[:, None] + 4 * (np.asarray(levels) - 0.5) * np.array([1.0])


def scored(quantiles, levels):
    """The interval score of the outermost levels, or the mean pinball loss of all, row by row."""
    total = 0.0
    for row, y in zip(quantiles, Y, strict=True):
        for q, level in zip(row, levels, strict=True):
            total += level * (y - q) if y >= q else (1 - level) * (q - y)
    return total / quantiles.size


def best_by_loops(levels, weights):
    found, error = [], np.mean((Y - MEAN) ** 2)
    for floor in FLOORS:
        s = np.sqrt(ALEATORIC + EPISTEMIC + floor * error)
        z = np.quantile((Y - MEAN) / s, levels)
        for weight in weights:
            blend = weight * (MEAN[:, None] + s[:, None] * z) + (1 - weight) * own(levels)
            found.append((scored(blend, levels), weight, floor * error))
    return min(found, key=lambda one: one[0])


@pytest.mark.parametrize("score", ["interval_score", "crps"])
@pytest.mark.parametrize("law", ["learned", "residuals"])
def test_learned_numbers_are_the_best_of_all(law, score):
    found = fit_law(law, MOMENTS, Y, own, 1.0, score=score)
    levels = (0.05, 0.95) if score == "interval_score" else np.linspace(0.05, 0.95, 19)
    _, weight, added = best_by_loops(levels, np.linspace(0, 1, 11) if law == "learned" else [1.0])
    np.testing.assert_allclose((found.weight, found.added), (weight, added), rtol=1e-12)
    s = np.sqrt(ALEATORIC + EPISTEMIC + added)
    np.testing.assert_allclose(found.residuals, np.sort((Y - MEAN) / s), rtol=1e-12)
    s_new = np.sqrt(NEW.aleatoric + NEW.epistemic + added)
    expected = weight * (NEW.mean[:, None] + s_new[:, None] * np.quantile((Y - MEAN) / s, LEVELS)) + (1 - weight) * OWN
    np.testing.assert_allclose(found.quantile(NEW, LEVELS, OWN), expected, rtol=1e-12)


@pytest.mark.parametrize("law", ["learned", "residuals", "conformal", "neighbours"])
def test_equal_weights_change_nothing(law):
    plain, weighed = (fit_law(law, MOMENTS, Y, own, 1.0, sample_weight=weight) for weight in (None, np.full(N, 3.0)))
    np.testing.assert_array_equal(plain.residuals, weighed.residuals)
    assert plain[:3] == weighed[:3]


@pytest.mark.parametrize("law", ["learned", "residuals"])
def test_rows_of_weight_three_are_as_three_rows(law):
    times = np.random.default_rng(1).integers(0, 4, N)
    weighed = fit_law(law, MOMENTS, Y, own, 1.0, sample_weight=times.astype(float))
    rows = np.repeat(np.arange(N), times)
    repeated = fit_law(law, Moments(*(part[rows] for part in MOMENTS)), Y[rows], lambda levels: own(levels)[rows], 1.0)
    assert (weighed.weight, weighed.added) == pytest.approx((repeated.weight, repeated.added), rel=1e-6)
    # Steps where the others are lines between two residuals.
    gap = np.diff(repeated.residuals).max()
    np.testing.assert_allclose(
        weighed.quantile(NEW, LEVELS, OWN), repeated.quantile(NEW, LEVELS, OWN), atol=gap * NEW.std.max() * 2
    )


@pytest.mark.parametrize("n", [0, N])
def test_quantiles_of_bins_are_the_own_ones(n):
    law = fit_law("bins", Moments(*(part[:n] for part in MOMENTS)), Y[:n], own, 1.0)
    np.testing.assert_array_equal(law.quantile(NEW, LEVELS, OWN), OWN)


def test_quantiles_of_residuals_in_the_leaves_are_about_the_mean():
    law, everywhere = (fit_law(name, MOMENTS, Y, own, 1.0) for name in ("neighbours", "residuals"))
    assert (law.added, law.weight, law.is_local) == (everywhere.added, 0, True)
    np.testing.assert_array_equal(law.residuals, everywhere.residuals)
    s = np.sqrt(NEW.aleatoric + NEW.epistemic + law.added)
    np.testing.assert_allclose(law.quantile(NEW, LEVELS, OWN), NEW.mean[:, None] + s[:, None] * OWN, rtol=1e-12)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.99])
@pytest.mark.parametrize("n", [199, 200])
def test_conformal_intervals_take_ranks(n, coverage):
    part = Moments(*(one[:n] for one in MOMENTS))
    law = fit_law("conformal", part, Y[:n], own, 2.0)
    s = np.sqrt(part.aleatoric + part.epistemic + 0.03 * 2.0)
    z = np.sort((Y[:n] - part.mean) / s)
    ends = law.quantile(NEW, interval_levels(coverage), None)
    low = math.floor((n + 1) * (1 - coverage) / 2 + 1e-9)
    high = math.ceil((n + 1) * (1 + coverage) / 2 - 1e-9)
    s_new = np.sqrt(NEW.aleatoric + NEW.epistemic + 0.03 * 2.0)
    np.testing.assert_allclose(ends[:, 0], NEW.mean + s_new * z[low - 1], rtol=1e-12)
    np.testing.assert_allclose(ends[:, 1], NEW.mean + s_new * z[high - 1], rtol=1e-12)
    assert (high - low) / (n + 1) >= coverage - 1e-12  # what a new residual, of any rank alike, is promised


def test_conformal_coverage_in_the_mean_over_draws():
    """Exchangeable residuals of any law: at least what is promised, and hardly more."""
    rng, n, hits = np.random.default_rng(1), 19, []
    levels = interval_levels(0.9)
    for _ in range(4000):
        s2 = rng.gamma(1, 1, n + 1)
        y = np.sqrt(s2) * rng.standard_cauchy(n + 1)
        zero = np.zeros(n + 1)
        law = fit_law("conformal", Moments(zero[:n], s2[:n], zero[:n]), y[:n], None, 1.0)
        low, high = law.quantile(Moments(zero[n:], s2[n:], zero[n:]), levels, None)[0]
        hits.append(low <= y[n] <= high)
    assert abs(np.mean(hits) - 0.9) < 0.015


def _quantile(n, level):
    """Of a law of so many rows."""
    law = lambda: fit_law("conformal", Moments(*(one[:n] for one in MOMENTS)), Y[:n], own, 1.0)
    return lambda: law().quantile(NEW, np.array([level]), None)


test_refusals = refusals(
    *(
        (f"level {level} of {n} rows", _quantile(n, level), "calibration rows, and there are|no number of rows")
        for n, level in ((18, 0.95), (18, 0.05), (50, 1.0), (50, 0.0))
    ),
    *((f"coverage {c}", partial(interval_levels, c), "coverage") for c in (0, 1, 1.5, np.nan)),
)


@pytest.mark.parametrize("law", LAWS)
def test_leaves_without_spread(law):
    """A target that is mostly one value: nothing is divided by 0, and what is certain stays so."""
    flat = Moments(*np.zeros((3, N)))
    for y, levels in ((np.where(np.arange(N) % 50 == 0, 1.0, 0.0), [0.1, 0.5]), (np.zeros(N), [0.1, 0.9])):
        found = fit_law(law, flat, y, lambda levels: np.zeros((N, len(levels))), 0.0)
        assert np.isfinite(found.residuals).all()
        np.testing.assert_array_equal(found.quantile(flat, np.array(levels), np.zeros((N, 2))), 0)


@pytest.mark.once
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("values", [(0.0, 1.0, 2.0, 3.0), (0.1, 0.2), (9.99, 19.99)])
def test_targets_that_tie_with_an_end_are_held(values, dtype):
    """Few targets, one leaf: both ends are targets of rows that were ranked, and .99 is asked of 199 of them."""
    held = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        grown, y, new = (rng.choice(values, k).astype(dtype) for k in (60, 199, 200))
        m, v = np.float64(grown.mean()), np.float64(grown.var())
        of = lambda n, m=m, v=v: Moments(np.full(n, m), np.full(n, v), np.zeros(n))
        law = fit_law("conformal", of(199), y.astype(np.float64), None, v)
        low, high = law.quantile(of(200), interval_levels(0.99), None).T
        held.append(((low <= new) & (new <= high)).mean())
        assert np.all(high - y.max() <= 1e-14 * (1 + abs(y.max()) + v)), "wider by the rounding, at most"
    assert np.mean(held) >= 0.99
