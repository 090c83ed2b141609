"""Twonorm: two normal distributions whose centres lie opposite to each other."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._numerics import jit

from ._generator import Drawn, Generator, checked_size, log_normal

N_FEATURES = 20
CENTRE = np.full(N_FEATURES, 2 / N_FEATURES**0.5, np.float32)


def twonorm(key: jax.Array, n: int) -> Drawn:
    r"""Draw n instances of twonorm.

    .. math:: x \mid 0 \sim N(m, I), \qquad x \mid 1 \sim N(-m, I), \qquad m = (a, \dots, a),\ a = 2 / \sqrt{20}

    with 20 features; each class with probability 1/2, independently.

    Parameters
    ----------
    key
        A typed key, ``jax.random.key(seed)``. It determines what is drawn.
    n
        Number of instances, ≥ 1; static under `jax.jit`.

    Returns
    -------
    tuple
        X float32 ``[instances features]`` and y int32 ``[instances]``.

    Raises
    ------
    TypeError
        If ``key`` is no typed key or n no integer.
    ValueError
        If n < 1.

    Notes
    -----
    The Bayes error is Φ(-2) = .02275: the best boundary is the plane through 0, at distance 2 from either centre. A
    tree, which tests one feature at a time, needs many tests for it. R's mlbench draws n/2 of each class rather than
    each class at random.

    References
    ----------
    Breiman 1996, Bias, variance, and arcing classifiers (technical report 460, Berkeley).

    Examples
    --------
    >>> import jax
    >>> X, y = twonorm(jax.random.key(0), 300)
    >>> print(X.shape, X.dtype, y.dtype)
    (300, 20) float32 int32
    """
    return _drawn(key, checked_size(key, n))


@jit(static_argnums=1)
def _drawn(key, n):
    of_class, of_noise = jax.random.split(key)
    y = jax.random.bernoulli(of_class, shape=(n,)).astype(jnp.int32)
    noise = jax.random.normal(of_noise, (n, N_FEATURES), jnp.float32)
    return noise + jnp.where(y == 0, 1, -1).astype(jnp.float32)[:, None] * CENTRE[None, :], y


def _log_density(X):
    return jnp.stack([log_normal(X, CENTRE), log_normal(X, -CENTRE)], axis=1)


TWONORM = Generator("twonorm", twonorm, _log_density, N_FEATURES, 2, bayes_error=0.022750)
"""Generator of `twonorm`."""
