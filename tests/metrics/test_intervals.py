"""Bounds of the Brier score over intervals: reference values, bounds that nothing exceeds, transforms, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxunc import metrics
from jaxunc.scorers import Interval
from tests._golden import golden
from tests._refusal import refusals

N = 12
N_TILED = 32760
"""A multiple of all numbers of instances in the reference tables."""


def tiled(*columns):
    """Every metric stays as it is if all instances come several times; so tests share programs."""
    return [np.tile(column, N_TILED // len(column)) for column in columns]


@pytest.mark.exhaustive
def test_reference_values(tolerance):
    for entry in golden("interval_metrics")["per_instance"]:
        *ends, y = tiled(np.array(entry["lower"], float), np.array(entry["upper"], float), entry["y"])
        interval = Interval(*ends)
        both = Interval(
            np.stack([1 - interval.upper, interval.lower], -1), np.stack([1 - interval.lower, interval.upper], -1)
        )
        for given_ in (interval, both) if len(entry["y"]) == 4 else (interval,):
            expected = [float(entry[f"brier_{end}"]) for end in ("min", "max")]
            tolerance.check(metrics.interval_brier(given_, y), expected)


@pytest.mark.room
def test_narrow_close_and_degenerate_intervals():
    """What one column allows and the other does not is no choice, as soon as it is more than rounding."""
    wide, narrow = (np.array([0.0]), np.array([1.0])), (np.array([0.25]), np.array([0.5]))
    y = np.array([1])
    both = Interval(np.stack([1 - narrow[1], wide[0]], -1), np.stack([1 - narrow[0], wide[1]], -1))
    np.testing.assert_array_equal(metrics.interval_brier(both, y), metrics.interval_brier(Interval(*narrow), y))
    sure = Interval(np.array([[0, 1]]), np.array([[0, 1]]))
    np.testing.assert_array_equal(metrics.interval_brier(sure, y), [0, 0])
    sure, y = tiled([0.0, 1.0, 1.0], [0, 1, 0])
    interval = Interval(sure, sure)
    np.testing.assert_allclose(metrics.interval_brier(interval, y), [1 / 3, 1 / 3], rtol=1e-6)


@pytest.mark.exhaustive
def test_reference_values_of_leaves(tolerance):
    for entry in golden("interval_metrics")["per_leaf"]:
        rows = np.array(entry["leaves_pos_neg_lower20_upper20"])
        leaf = np.repeat(np.arange(len(rows)), rows[:, 0] + rows[:, 1])
        y = np.concatenate([np.repeat([1, 0], row[:2]) for row in rows])
        order = np.random.default_rng(0).permutation(len(y))
        leaf, y = tiled(1000 - 7 * leaf[order], y[order])
        place = (1000 - leaf) // 7
        interval = Interval(rows[place, 2] / 20, rows[place, 3] / 20)
        alone, coupled = metrics.interval_brier(interval, y), metrics.interval_brier(interval, y, leaf=leaf)
        tolerance.check(coupled, [float(entry[f"brier_{end}"]) for end in ("min", "max")])
        assert alone.lower <= coupled.lower + 1e-6
        assert coupled.upper <= alone.upper + 1e-6


ends = hnp.arrays(np.float64, (2, N), elements=st.integers(0, 8).map(lambda k: k / 8))


@settings(max_examples=20)
@given(ends, hnp.arrays(np.int64, N, elements=st.integers(0, 1)), hnp.arrays(np.float64, N, elements=st.floats(0, 1)))
@pytest.mark.exhaustive
def test_no_choice_is_beyond_the_bounds(ends, y, where):
    interval = Interval(ends.min(axis=0), ends.max(axis=0))
    y[:2] = 0, 1
    p = interval.lower + where * (interval.upper - interval.lower)
    low, high = (float(end) for end in metrics.interval_brier(interval, y))
    at = float(metrics.brier_score(np.stack([1 - p, p], -1), y, scale_by_half=True))
    assert low <= at + 1e-5
    assert at <= high + 1e-5


@pytest.mark.once
def test_many_intervals():
    rng = np.random.default_rng(0)
    p, width = rng.random((2, N_TILED)) * [[1], [0.2]]
    y = (rng.random(len(p)) < p).astype(int)
    interval = Interval(np.maximum(p - width, 0).astype(np.float32), np.minimum(p + width, 1).astype(np.float32))
    found = metrics.interval_brier(interval, y)
    good = np.where(y == 1, interval.upper, interval.lower).astype(float)
    assert float(found.lower) == pytest.approx(np.mean((good - y) ** 2), rel=1e-6)


def test_leaves_that_32_bits_do_not_tell_apart():
    y, leaf = np.array([0, 1, 0]), np.array([1, 1 + 2**32, 1])
    interval = Interval(np.array([0.25, 0.25, 0.25]), np.array([0.5, 0.5, 0.5]))
    ask = lambda leaf: metrics.interval_brier(interval, y, leaf=leaf)
    assert ask(leaf) == ask(np.array([0, 1, 0]))


@pytest.mark.once
@pytest.mark.exhaustive
def test_transformations():
    metric, rng = metrics.interval_brier, np.random.default_rng(1)
    pair = np.sort(rng.random((2, 3, N)), axis=0)
    y = rng.integers(0, 2, (3, N))
    y[:, :2] = 0, 1
    eager = np.array([metric(Interval(*pair[:, i]), y[i]) for i in range(3)])
    y[2, 3] = 2
    mapped = jax.jit(jax.vmap(metric))(Interval(*jnp.asarray(pair)), jnp.asarray(y))
    np.testing.assert_allclose(np.transpose(mapped)[:2], eager[:2], rtol=1e-6)
    assert np.all(np.isnan(np.transpose(mapped)[2]))
    apart = jax.jit(lambda i: metric(i, y[0], leaf=jnp.zeros(N, int)))(Interval(*jnp.asarray(pair[:, 0])))
    assert np.all(np.isnan(apart)), "different intervals in a leaf"
    for options in ({}, {"leaf": jnp.arange(N)}):
        gradient = jax.jit(jax.grad(lambda i, o=options: sum(metric(i, y[0], **o))))(Interval(*jnp.asarray(pair[:, 0])))
        np.testing.assert_allclose(gradient, [2 * (end - y[0]) / N for end in pair[:, 0]], rtol=1e-5)


Y, GOOD = np.array([0, 1, 1]), np.array([0.2, 0.5, 0.9])
REFUSED = {
    "ends in disorder": ("interval 1 has its lower end 0.6 above its upper end 0.5", np.array([0.2, 0.6, 0.9]), GOOD),
    "below 0": (r"\[0, 1\]", GOOD - 0.5, GOOD),
    "beyond 1": (r"\[0, 1\]", GOOD, GOOD + 0.5),
    "NaN": ("NaN", GOOD * np.nan, GOOD),
    "fewer": ("shapes", GOOD[:2], GOOD),
    "three classes": ("shapes", np.zeros((3, 3)), np.ones((3, 3))),
    "no distribution": ("no distribution", np.zeros((3, 2)), np.full((3, 2), 0.4)),
}


_of = lambda lower, upper, y=Y, **how: lambda: metrics.interval_brier(Interval(lower, upper), y, **how)
test_refusals = refusals(
    *((what, _of(*ends), words) for what, (words, *ends) in REFUSED.items()),
    ("label beyond", _of(GOOD, GOOD, Y + 1), "y holds 2"),
    ("fractions", _of(GOOD, GOOD, Y / 2), "dtype", TypeError),
    ("a leaf of two", _of(GOOD, GOOD, leaf=np.array([1, 1, 2])), "different intervals"),
    ("fewer leaves", _of(GOOD, GOOD, leaf=np.array([1, 1])), "leaf has shape"),
)
