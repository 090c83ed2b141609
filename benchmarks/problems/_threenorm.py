"""Threenorm: one normal distribution between the two halves of another class."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._numerics import jit

from ._generator import Drawn, Generator, checked_size, log_normal

N_FEATURES = 20
CENTRE = np.full(N_FEATURES, 2 / N_FEATURES**0.5, np.float32)
OTHER_CENTRE = np.where(np.arange(N_FEATURES) % 2 == 0, CENTRE, -CENTRE)


def threenorm(key: jax.Array, n: int) -> Drawn:
    r"""Draw n instances of threenorm.

    .. math:: x \mid 0 \sim \tfrac12 N(m, I) + \tfrac12 N(-m, I), \qquad x \mid 1 \sim N(m', I)

    with m = (a, …, a), m' = (a, -a, a, …, -a), a = 2/√20 and 20 features; each class with probability 1/2,
    independently.

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
    With u and v the coordinates along m and m', which are orthogonal, class 1 is likelier where v > ½ log cosh 2u; the
    Bayes error, .10463, is an integral over u.

    References
    ----------
    Breiman 1996, Bias, variance, and arcing classifiers (technical report 460, Berkeley).

    Examples
    --------
    >>> import jax
    >>> X, y = threenorm(jax.random.key(0), 300)
    >>> print(X.shape, sorted(set(y.tolist())))
    (300, 20) [0, 1]
    """
    return _drawn(key, checked_size(key, n))


@jit(static_argnums=1)
def _drawn(key, n):
    of_class, of_half, of_noise = jax.random.split(key, 3)
    y = jax.random.bernoulli(of_class, shape=(n,)).astype(jnp.int32)
    half = jnp.where(jax.random.bernoulli(of_half, shape=(n,)), 1, -1).astype(jnp.float32)
    noise = jax.random.normal(of_noise, (n, N_FEATURES), jnp.float32)
    return noise + jnp.where(y[:, None] == 0, half[:, None] * CENTRE[None, :], OTHER_CENTRE[None, :]), y


def _log_density(X):
    halves = jnp.logaddexp(log_normal(X, CENTRE), log_normal(X, -CENTRE)) - float(np.log(2))
    return jnp.stack([halves, log_normal(X, OTHER_CENTRE)], axis=1)


THREENORM = Generator("threenorm", threenorm, _log_density, N_FEATURES, 2, bayes_error=0.104633)
"""Generator of `threenorm`."""
