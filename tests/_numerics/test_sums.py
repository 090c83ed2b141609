"""Sums and quotients in two floats, against exact fractions; compiled, as they are used."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxunc._numerics import TwoFloat, float_dtype, two_float_from_limbs, two_sum

EPS = float(jnp.finfo(jnp.result_type(float)).eps)
numbers = st.floats(-1e6, 1e6, width=32, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-6)


def fraction(number: TwoFloat) -> list[Fraction]:
    """What two floats are, exactly."""
    high, low = np.atleast_1d(np.asarray(number.high)), np.atleast_1d(np.asarray(number.low))
    return [Fraction(float(h)) + Fraction(float(lo)) for h, lo in zip(high, low, strict=True)]


@jax.jit
def sums(a, b):
    return TwoFloat(*two_sum(a, b))


@pytest.mark.exhaustive
def test_two_sum_is_exact():
    @given(st.lists(st.tuples(numbers, numbers), min_size=32, max_size=32))
    def check(pairs):
        a, b = np.array(pairs).T
        for one, x, y in zip(fraction(sums(jnp.asarray(a, float), jnp.asarray(b, float))), a, b, strict=True):
            assert one == Fraction(float(x)) + Fraction(float(y))

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


def test_value_is_the_nearest_float(rng):
    a, b = rng.uniform(0, 1, 50), rng.uniform(0, 1e-9, 50)
    total = sums(jnp.asarray(a, float), jnp.asarray(b, float))
    np.testing.assert_allclose(total.value, a + b, rtol=EPS)


@pytest.mark.parametrize("n", [0, 1, 2**24 + 1, 2**31, 2**32 - 1, 2**32, 2**40 + 12345, 2**47 + 1])
def test_integers_of_two_limbs(n):
    """Exact below 2^48, in float32 too."""
    low, high = jnp.uint32(n % 2**32), jnp.int32(n // 2**32)
    assert fraction(jax.jit(two_float_from_limbs)(low, high)) == [n]


def test_float_dtype(x64):
    default = jnp.float64 if x64 else jnp.float32
    assert float_dtype(jnp.ones(3, jnp.int32)) == default
    assert float_dtype(jnp.ones(3, jnp.float32), jnp.ones(3, jnp.int32)) == jnp.float32
    assert float_dtype(0.1) == default
