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
    actual = np.asarray(jax.jit(log1p_minus)(x), np.float64)
    # Relative also where the value is far below one: the argument's own rounding counts twice.
    np.testing.assert_allclose(actual, expected, rtol=max(tolerance.closed, 2e-6 if tolerance.least_scale else 0))
    assert np.all(actual <= 0)


def test_log1p_minus_joins_smoothly():
    x = np.linspace(-0.45, 0.45, 2001).astype(jnp.result_type(float))
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(log1p_minus)))(x)
    values = np.asarray(values, np.float64)
    assert np.all(np.diff(values[:1000]) > 0)
    assert np.all(np.diff(values[1001:]) < 0)
    np.testing.assert_allclose(slopes, -x / (1 + x), rtol=2e-5, atol=1e-6)


def test_lambert_w(tolerance):
    log_x = np.concatenate([np.linspace(-30, 30, 61), [-300.0, 300.0, 1e4]]).astype(jnp.result_type(float))
    y = np.asarray(jax.jit(lambert_w_of_exp)(log_x))
    tolerance.check(y + np.exp(y), log_x, scale=1.0)


def test_safe_divide():
    """Slopes are those of the quotient, also where the square of the denominator is no float32."""
    of, by = np.float32([1, 1, 1e-30, 1e20]), np.float32([0, 1, 1e-30, 1e20])

    @jax.jit
    def quotients(numerator, denominator):
        slopes = jax.grad(lambda n, d: jnp.sum(safe_divide(n, d)), (0, 1))(numerator, denominator)
        return safe_divide(numerator, denominator), safe_divide(numerator, denominator, 0.5), *slopes

    expected = [0, 1, 1, 1], [0.5, 1, 1, 1], [0, 1, 1e30, 1e-20], [0, -1, -1e30, -1e-20]
    for found, values in zip(quotients(of, by), expected, strict=True):
        np.testing.assert_allclose(found, values, rtol=1e-6)


def test_integers_are_divided_without_a_slope():
    of, by = np.float32([1, 2, 3]), np.int32([0, 1, 2])
    with jax.numpy_dtype_promotion("standard"):
        slope = jax.grad(lambda n: jnp.sum(safe_divide(n, by)))(of)
        value, tangent = jax.jvp(lambda d: safe_divide(by, d), (of,), (np.ones_like(of),))
        _, none = jax.jvp(safe_divide, (by, by), (np.zeros(3, jax.dtypes.float0),) * 2)
    for found, expected in ((slope, [0, 1, 0.5]), (value, [0, 0.5, 2 / 3]), (tangent, [0, -1 / 4, -2 / 9]), (none, 0)):
        np.testing.assert_allclose(found, np.broadcast_to(expected, 3), rtol=1e-6)


def test_floored_log():
    tiny = float(jnp.finfo(jnp.result_type(float)).tiny)
    value, slope = jax.jit(jax.vmap(jax.value_and_grad(floored_log)))(np.array([0.0, tiny, 0.5, 1.0]))
    np.testing.assert_allclose(value, [math.log(tiny), math.log(tiny), math.log(0.5), 0], rtol=1e-6)
    assert np.all(np.isfinite(slope))
    assert np.asarray(slope)[0] > 1e15
    np.testing.assert_allclose(np.asarray(slope)[2:], [2, 1], rtol=1e-6)


def test_relative_precision():
    """From where 1/x rules to where the leading terms cancel all but the last digits."""
    x = np.concatenate([np.geomspace(1e-8, 50, 200), np.geomspace(50, 1e12, 50)])
    # Beyond 50 the reference would cancel: there the series to its fourth term is exact.
    gap, slope = np.log(x) - digamma(x), x * polygamma(1, x) - 1
    far = x >= 50
    gap[far] = (1 / (2 * x) + 1 / (12 * x**2) - 1 / (120 * x**4) + 1 / (252 * x**6))[far]
    slope[far] = (1 / (2 * x) + 1 / (6 * x**2) - 1 / (30 * x**4) + 1 / (42 * x**6))[far]
    found = jax.jit(digamma_gaps)(x)
    rtol = 5e-12 if found[0].dtype == "float64" else 1e-6
    np.testing.assert_allclose(found[0], gap, rtol=rtol)
    np.testing.assert_allclose(found[1], slope, rtol=rtol)
    for host, value in zip(digamma_gaps(x, np), (gap, slope), strict=True):
        np.testing.assert_allclose(host, value, rtol=5e-12)
