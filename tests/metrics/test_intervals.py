"""Metrics of intervals: exhaustive reference values, bounds that nothing exceeds, transformations, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxunc import metrics
from jaxunc.intervals import Interval
from tests._golden import golden
from tests._refusal import refusals

METRICS = {"brier": metrics.interval_brier, "log_loss": metrics.interval_log_loss, "auc": metrics.interval_auc}
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
            for name, metric in METRICS.items():
                expected = [float(entry[f"{name}_{end}"]) for end in ("min", "max")]
                tolerance.check(metric(given_, y), expected, what=name)
        expected = [float(entry[f"log_loss_{end}_clip1e_15"]) for end in ("min", "max")]
        tolerance.check(metrics.interval_log_loss(interval, y, clip=1e-15), expected)
        published = sorted(entry[f"published_auc_of_{end}"] for end in ("lower", "upper"))
        tolerance.check(metrics.interval_auc(interval, y, method="published"), published)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_traced", [False, True])
def test_both_columns_keep_ties(dtype, is_traced):
    """1 - (1 - .3) is not .3: class 1's ends tie as before, whether they or those of class 0 were made by 1 - p."""
    lower, upper = np.array([[0.1, 0.3, 0.1, 0.3, 0.1, 0.6, 0.3], [0.3, 0.6, 0.3, 0.7, 0.1, 0.9, 0.3]], dtype)
    y = np.array([0, 1, 1, 0, 1, 1, 0])
    metric = jax.jit(metrics.interval_auc) if is_traced else metrics.interval_auc
    one = metric(Interval(lower, upper), y)
    both = Interval(np.stack([1 - upper, lower], -1), np.stack([1 - lower, upper], -1))
    assert metric(both, y) == one
    mirrored = Interval(np.stack([lower, 1 - upper], -1), np.stack([upper, 1 - lower], -1))
    assert metric(mirrored, 1 - y) == one


@pytest.mark.room
def test_narrow_close_and_degenerate_intervals():
    """What one column allows and the other does not is no choice, as soon as it is more than rounding."""
    wide, narrow = (np.array([0.0]), np.array([1.0])), (np.array([0.25]), np.array([0.5]))
    y = np.array([1])
    both = Interval(np.stack([1 - narrow[1], wide[0]], -1), np.stack([1 - narrow[0], wide[1]], -1))
    np.testing.assert_array_equal(metrics.interval_brier(both, y), metrics.interval_brier(Interval(*narrow), y))
    sure = Interval(np.array([[0, 1]]), np.array([[0, 1]]))
    np.testing.assert_array_equal(metrics.interval_brier(sure, y), [0, 0])
    y, close = np.array([0, 1]), 0.5 + np.array([0, 1e-12])
    assert metrics.interval_auc(Interval(close, close), y) == (1, 1)
    sure, y, leaf, all_right = tiled([0.0, 1.0, 1.0], [0, 1, 0], [3, 5, 5], [0, 1, 1])
    interval = Interval(sure, sure)
    np.testing.assert_allclose(metrics.interval_brier(interval, y), [1 / 3, 1 / 3], rtol=1e-6)
    np.testing.assert_array_equal(metrics.interval_log_loss(interval, y), [np.inf, np.inf])
    np.testing.assert_array_equal(metrics.interval_log_loss(interval, y, leaf=leaf), [np.inf, np.inf])
    np.testing.assert_array_equal(metrics.interval_log_loss(interval, all_right, leaf=leaf), [0, 0])
    clipped = metrics.interval_log_loss(interval, y, clip=1e-15)
    np.testing.assert_allclose(clipped, [-np.log(1e-15) / 3] * 2, rtol=1e-6)
    assert np.all(np.isnan(metrics.interval_auc(interval, np.ones_like(y))))


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
        for name in ("brier", "log_loss"):
            expected = [float(entry[f"{name}_{end}"]) for end in ("min", "max")]
            tolerance.check(METRICS[name](interval, y, leaf=leaf), expected, what=name)
            alone, coupled = METRICS[name](interval, y), METRICS[name](interval, y, leaf=leaf)
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
    for name, metric in METRICS.items():
        low, high = (float(end) for end in metric(interval, y))
        at = {
            "brier": lambda: metrics.brier_score(np.stack([1 - p, p], -1), y, scale_by_half=True),
            "log_loss": lambda: metrics.log_loss(np.stack([1 - p, p], -1), y),
            "auc": lambda: metrics.auc(p, y),
        }[name]()
        assert low <= float(at) + 1e-5
        assert float(at) <= high + 1e-5, name


@pytest.mark.once
def test_many_intervals():
    rng = np.random.default_rng(0)
    p, width = rng.random((2, N_TILED)) * [[1], [0.2]]
    y = (rng.random(len(p)) < p).astype(int)
    interval = Interval(np.maximum(p - width, 0).astype(np.float32), np.minimum(p + width, 1).astype(np.float32))
    found = {name: metric(interval, y) for name, metric in METRICS.items()}
    good = np.where(y == 1, interval.upper, interval.lower).astype(float)
    assert float(found["brier"].lower) == pytest.approx(np.mean((good - y) ** 2), rel=1e-6)
    assert float(found["auc"].lower) < float(metrics.auc(p, y)) < float(found["auc"].upper)


@pytest.mark.parametrize("name", ["brier", "log_loss"])
def test_leaves_that_32_bits_do_not_tell_apart(name):
    y, leaf = np.array([0, 1, 0]), np.array([1, 1 + 2**32, 1])
    interval = Interval(np.array([0.25, 0.25, 0.25]), np.array([0.5, 0.5, 0.5]))
    assert METRICS[name](interval, y, leaf=leaf) == METRICS[name](interval, y, leaf=np.array([0, 1, 0]))


@pytest.mark.once
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.exhaustive
def test_transformations(name):
    metric = METRICS[name]
    rng = np.random.default_rng(1)
    pair = np.sort(rng.random((2, 3, N)), axis=0)
    y = rng.integers(0, 2, (3, N))
    y[:, :2] = 0, 1
    eager = np.array([metric(Interval(*pair[:, i]), y[i]) for i in range(3)])
    y[2, 3] = 2
    mapped = jax.jit(jax.vmap(metric))(Interval(*jnp.asarray(pair)), jnp.asarray(y))
    np.testing.assert_allclose(np.transpose(mapped)[:2], eager[:2], rtol=1e-6)
    assert np.all(np.isnan(np.transpose(mapped)[2]))
    leaves = [None] if name == "auc" else [None, jnp.arange(N)]
    if name != "auc":
        apart = jax.jit(lambda i: metric(i, y[0], leaf=jnp.zeros(N, int)))(Interval(*jnp.asarray(pair[:, 0])))
        assert np.all(np.isnan(apart)), "different intervals in a leaf"
    for leaf in leaves:
        options = {} if leaf is None else {"leaf": leaf}
        gradient = jax.jit(jax.grad(lambda i, o=options: sum(metric(i, y[0], **o))))(Interval(*jnp.asarray(pair[:, 0])))
        if name == "brier":
            expected = [2 * (end - y[0]) / N for end in pair[:, 0]]
            np.testing.assert_allclose(gradient, expected, rtol=1e-5)
        elif name == "log_loss":
            expected = [-1 / N * np.where(y[0] == 1, 1 / end, -1 / (1 - end)) for end in pair[:, 0]]
            np.testing.assert_allclose(gradient, expected, rtol=1e-4)
        else:
            np.testing.assert_array_equal(gradient, np.zeros((2, N)))


@pytest.mark.once
@pytest.mark.exhaustive
def test_gradients_at_probability_zero():
    interval, y, leaf = Interval(jnp.zeros(2), jnp.ones(2)), np.array([0, 1]), np.array([1, 1])
    for options in ({"clip": 1e-7}, {"leaf": leaf}):
        # The lower bound and the upper one apart: together, an infinity could hide a NaN.
        for slope in jax.jit(jax.jacrev(lambda i, o=options: metrics.interval_log_loss(i, y, **o)))(interval):
            assert np.all(np.isfinite(slope)), options


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


def _refused(name):
    """Rows of one metric."""
    ask = lambda lower, upper, y=Y, **options: lambda: METRICS[name](Interval(lower, upper), y, **options)
    rows = [(what, ask(*ends), words) for what, (words, *ends) in REFUSED.items()]
    rows.append(("label beyond", ask(GOOD, GOOD, Y + 1), "y holds 2"))
    rows.append(("fractions", ask(GOOD, GOOD, Y / 2), "dtype", TypeError))
    if name == "auc":
        rows.append(("method", ask(GOOD, GOOD, method="grid"), "method='grid'"))
    else:
        rows.append(("a leaf of two", ask(GOOD, GOOD, leaf=np.array([1, 1, 2])), "different intervals"))
        rows.append(("fewer leaves", ask(GOOD, GOOD, leaf=np.array([1, 1])), "leaf has shape"))
    if name == "log_loss":
        rows.append(("clip", ask(GOOD, GOOD, clip=0.7), "clip=0.7"))
    return [(f"{name}, {what}", *row) for what, *row in rows]


test_refusals = refusals(*(row for name in METRICS for row in _refused(name)))
