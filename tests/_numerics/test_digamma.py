"""The digamma function less its leading term, and its derivative, against SciPy in float64."""

import jax.numpy as jnp
import numpy as np
from scipy.special import digamma, polygamma

from jaxunc._numerics import digamma_gaps


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
