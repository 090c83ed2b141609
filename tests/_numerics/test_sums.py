"""Sums and quotients in two floats, against exact fractions; compiled, as they are used; counts and distinct rows."""

import tracemalloc
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxunc as ju
from jaxunc._numerics import TwoFloat, as_counts, distinct_rows, float_dtype, log_average, two_float_from_limbs, two_sum
from jaxunc.scorers import dominance, idm_interval
from jaxunc.smoothing import BetaPrior, smooth
from tests._refusal import refuses

EPS = float(jnp.finfo(jnp.result_type(float)).eps)
numbers = st.floats(-1e6, 1e6, width=32, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-6)


def fraction(number: TwoFloat) -> list[Fraction]:
    """What two floats are, exactly."""
    high, low = np.atleast_1d(np.asarray(number.high)), np.atleast_1d(np.asarray(number.low))
    return [Fraction(float(h)) + Fraction(float(lo)) for h, lo in zip(high, low, strict=True)]


@jax.jit
def sums(a, b):
    return TwoFloat(*two_sum(a, b))


def test_two_sum_is_exact():
    @given(st.lists(st.tuples(numbers, numbers), min_size=32, max_size=32))
    def check(pairs):
        a, b = np.array(pairs).T
        total = sums(jnp.asarray(a, float), jnp.asarray(b, float))
        for one, x, y in zip(fraction(total), a, b, strict=True):
            assert one == Fraction(float(x)) + Fraction(float(y))
        np.testing.assert_allclose(total.value, a + b, rtol=EPS)

    check()


@pytest.mark.parametrize("divisor", [2, 3, 7.0, 1000.0])
def test_quotients_have_twice_the_precision(divisor, rng):
    values = jnp.asarray(rng.uniform(-1e9, 1e9, 200))
    quotient = jax.jit(lambda v: TwoFloat(v, jnp.zeros_like(v)).divided_by(divisor))(values)
    for got, value in zip(fraction(quotient), np.asarray(values), strict=True):
        exact = Fraction(float(value)) / Fraction(divisor)
        assert abs(got - exact) <= abs(exact) * Fraction(8 * EPS * EPS)


def test_differences_vanish_only_for_equal_numbers(rng):
    high = jnp.asarray(rng.uniform(1, 2, 50) * 2.0**20)
    low = jnp.asarray(rng.uniform(-1, 1, 50)) * high * EPS / 2
    number = TwoFloat(*two_sum(high, low))
    gap = TwoFloat(high * EPS * EPS * 4, jnp.zeros_like(high))
    same, other = jax.jit(lambda n, g: (n.minus(n).value, n.plus(g).minus(n).value))(number, gap)
    np.testing.assert_array_equal(same, 0)
    assert np.all(np.asarray(other) > 0)


@pytest.mark.parametrize("n", [0, 1, 2**24 + 1, 2**31, 2**32 - 1, 2**32, 2**40 + 12345, 2**47 + 1])
def test_integers_of_two_limbs(n):
    """Exact below 2^48, in float32 too."""
    low, high = jnp.uint32(n % 2**32), jnp.int32(n // 2**32)
    assert fraction(jax.jit(two_float_from_limbs)(low, high)) == [n]


def test_averages_of_logarithms():
    """What has no weight has a slope in it, unless it is NaN; nothing has one where the sum is 0."""
    average = jax.jit(jax.value_and_grad(log_average, argnums=1))
    for logs, weights, value, slopes in (
        ([0.0, np.log(3)], [1.0, 0.0], 0.0, [1, 3]),
        ([np.nan, -200.0], [0.0, 1.0], -200.0, [0, 1]),
        ([-200.0, -190.0], [1.0, 0.0], -200.0, [1, np.exp(10)]),
        ([-np.inf, -np.inf], [0.5, 0.5], -np.inf, [0, 0]),
    ):
        actual, gradient = average(jnp.asarray(logs), jnp.asarray(weights))
        assert actual == value
        np.testing.assert_allclose(gradient, slopes, rtol=1e-4)
    assert np.isfinite(average(jnp.array([-1000.0, 0.0]), jnp.array([1.0, 0.0]))[1]).all()


def test_float_dtype(x64):
    default = jnp.float64 if x64 else jnp.float32
    assert float_dtype(jnp.ones(3, jnp.int32)) == default
    assert float_dtype(jnp.ones(3, jnp.float32), jnp.ones(3, jnp.int32)) == jnp.float32
    assert float_dtype(0.1) == default


HUGE = np.array([[5 * 10**9, 10**9], [2**33, 2**33]])


@pytest.mark.parametrize("counts", [HUGE, HUGE.astype(np.uint64), HUGE.tolist()], ids=["int64", "uint64", "list"])
def test_what_does_not_fit_becomes_floats(counts, x64):
    kept = as_counts(counts)
    assert jnp.issubdtype(kept.dtype, jnp.integer) == x64
    np.testing.assert_allclose(np.asarray(kept, float), HUGE, rtol=1e-7)


def test_what_fits_stays_whole():
    for counts in ([[2**31 - 1, 0]], np.array([[2**31 - 1, 0]]), np.zeros((0, 2), int), np.array([[7]], np.uint8)):
        assert jnp.issubdtype(as_counts(counts).dtype, jnp.integer)
        np.testing.assert_array_equal(as_counts(counts), counts)
    assert as_counts(np.array([[2**32 - 1, 0]], np.uint32)).dtype == jnp.uint32


def test_in_a_trace_the_type_is_kept():
    for dtype in (jnp.int32, jnp.uint8, jnp.float32):
        assert jax.eval_shape(as_counts, jax.ShapeDtypeStruct((3, 2), dtype)).dtype == dtype
    assert jax.eval_shape(as_counts, jax.ShapeDtypeStruct((3, 2), jnp.float16)).dtype == jnp.float32
    assert jax.eval_shape(lambda c: as_counts([[c, 1.0]]), jnp.ones(())).shape == (1, 2)


@pytest.mark.once
def test_functions_of_counts_take_them_whole():
    smoothed = lambda counts: smooth(counts, BetaPrior(1.0, 1.0, 0))
    for function in (lambda counts: idm_interval(counts, 1).lower, lambda counts: dominance(counts, 1), smoothed):
        np.testing.assert_array_equal(function(HUGE), function(HUGE.astype(float)))


@pytest.mark.once
def test_negative_counts_are_refused_before_they_wrap():
    refuses(ValueError, "negative", idm_interval, np.array([[-(2**32), 1]]), 1)
    refuses(ValueError, "negative", ju.Pooling(), np.array([[-(2**32), 1]]))


@pytest.mark.parametrize("largest", [1, 40, 5000, 2**22, 10**9])
@pytest.mark.parametrize("n", [1, 16, 3000])
@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_as_numpy_finds_them(n, largest, fraction):
    rows = np.random.default_rng(n).integers(0, largest, (n, 2)) + fraction
    distinct, place = distinct_rows(rows)
    np.testing.assert_array_equal(distinct, np.unique(rows, axis=0))
    np.testing.assert_array_equal(distinct[place], rows)


def test_few_rows_of_large_counts_make_no_large_table():
    """As the leaves of a shallow tree: a table of all pairs of counts has 16 MB."""
    rows = np.random.default_rng(0).integers(0, 2000, (16, 2)).astype(float)
    tracemalloc.start()
    try:
        distinct_rows(rows)
        assert tracemalloc.get_traced_memory()[1] < 2**16
    finally:
        tracemalloc.stop()
