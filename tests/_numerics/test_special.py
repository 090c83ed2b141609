"""Special functions at their edges, against series, SciPy and themselves."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import digamma, polygamma

from jaxunc._numerics import digamma_gaps, floored_log, lambert_w_of_exp, log1p_minus, safe_divide


def test_log1p_minus(tolerance):
    """Against the series in exact arithmetic's place: float64 near zero by its first terms, elsewhere directly."""
    near = np.array([1e-8, -1e-8, 1e-5, -1e-5, 1e-3, -1e-3])
    series = [sum((-1) ** (k + 1) * x**k / k for k in range(2, 12)) for x in near]
    far = np.array([-0.999, -0.9, -0.5, 0.5, 1.0, 10.0, 1e6])
    x = np.concatenate([near, far]).astype(jnp.result_type(float))
    expected = np.concatenate([series, np.log1p(far) - far])
    actual = np.asarray(log1p_minus(jnp.asarray(x)), np.float64)
    # Relative also where the value is far below one: the argument's own rounding counts twice.
    np.testing.assert_allclose(actual, expected, rtol=max(tolerance.closed, 2e-6 if tolerance.least_scale else 0))
    assert np.all(actual <= 0)


def test_log1p_minus_joins_smoothly():
    x = jnp.asarray(np.linspace(-0.45, 0.45, 2001))
    values = np.asarray(log1p_minus(x), np.float64)
    assert np.all(np.diff(values[:1000]) > 0)
    assert np.all(np.diff(values[1001:]) < 0)
    slopes = jax.vmap(jax.grad(log1p_minus))(x)
    np.testing.assert_allclose(slopes, -np.asarray(x) / (1 + np.asarray(x)), rtol=2e-5, atol=1e-6)


def test_lambert_w(tolerance):
    log_x = jnp.asarray(np.concatenate([np.linspace(-30, 30, 61), [-300.0, 300.0, 1e4]]))
    y = lambert_w_of_exp(log_x)
    tolerance.check(y + jnp.exp(y), log_x, scale=1.0)


def test_safe_divide():
    zero = jnp.array([0.0, 1.0])
    np.testing.assert_array_equal(safe_divide(jnp.ones(2), zero), [0, 1])
    np.testing.assert_array_equal(safe_divide(jnp.ones(2), zero, 0.5), [0.5, 1])
    by_denominator = jax.grad(lambda d: jnp.sum(safe_divide(jnp.ones(2), d)))(zero)
    np.testing.assert_array_equal(by_denominator, [0, -1])
    by_numerator = jax.grad(lambda n: jnp.sum(safe_divide(n, zero)))(jnp.ones(2))
    np.testing.assert_array_equal(by_numerator, [0, 1])


def test_floored_log():
    tiny = float(jnp.finfo(jnp.result_type(float)).tiny)
    x = jnp.array([0.0, tiny, 0.5, 1.0])
    np.testing.assert_allclose(floored_log(x), [math.log(tiny), math.log(tiny), math.log(0.5), 0], rtol=1e-6)
    slope = np.asarray(jax.grad(lambda x: jnp.sum(floored_log(x)))(x))
    assert np.all(np.isfinite(slope))
    assert slope[0] > 1e15
    np.testing.assert_allclose(slope[2:], [2, 1], rtol=1e-6)


def test_relative_precision():
    """From where 1/x rules to where the leading terms cancel all but the last digits."""
    x = np.concatenate([np.geomspace(1e-8, 50, 200), np.geomspace(50, 1e12, 50)])
    # Beyond 50 the reference would cancel: there the series to its fourth term is exact.
    gap, slope = np.log(x) - digamma(x), x * polygamma(1, x) - 1
    far = x >= 50
    gap[far] = (1 / (2 * x) + 1 / (12 * x**2) - 1 / (120 * x**4) + 1 / (252 * x**6))[far]
    slope[far] = (1 / (2 * x) + 1 / (6 * x**2) - 1 / (30 * x**4) + 1 / (42 * x**6))[far]
    found = digamma_gaps(jnp.asarray(x, float))
    rtol = 5e-12 if found[0].dtype == "float64" else 1e-6
    np.testing.assert_allclose(found[0], gap, rtol=rtol)
    np.testing.assert_allclose(found[1], slope, rtol=rtol)
    for host, value in zip(digamma_gaps(x, np), (gap, slope), strict=True):
        np.testing.assert_allclose(host, value, rtol=5e-12)
