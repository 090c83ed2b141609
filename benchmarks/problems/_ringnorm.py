"""Ringnorm: a narrow normal distribution inside a wide one."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._checks import check_within
from jaxunc._numerics import jit

from ._generator import Drawn, Generator, checked_size, log_normal

N_FEATURES = 20
SHIFT = 1 / N_FEATURES**0.5


def ringnorm(key: jax.Array, n: int, *, shift: float = SHIFT) -> Drawn:
    r"""Draw n instances of ringnorm.

    .. math:: x \mid 0 \sim N(0, 4 I), \qquad x \mid 1 \sim N(m, I), \qquad m = (a, \dots, a)

    with 20 features; each class with probability 1/2, independently.

    Parameters
    ----------
    key
        A typed key, ``jax.random.key(seed)``. It determines what is drawn.
    n
        Number of instances, ≥ 1; static under `jax.jit`.
    shift
        The a of the formula. Sources differ: 1/√20 in Breiman 1996 and in R's mlbench today, the default; 2/√20 in
        DELVE and in older versions of mlbench.

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
    Class 1 is likelier inside the ball \|x - 4m/3\|² < (40 log 2 + \|m\|²/3) / .75, so that the Bayes error is one of
    noncentral χ² distributions: .014965 for a = 1/√20, .012397 for a = 2/√20. `GENERATORS` holds the first one. R's
    mlbench draws n/2 of each class rather than each class at random.

    References
    ----------
    Breiman 1996, Bias, variance, and arcing classifiers (technical report 460, Berkeley).

    Examples
    --------
    >>> import jax
    >>> X, y = ringnorm(jax.random.key(0), 300)
    >>> print(bool(X[y == 0].std() > X[y == 1].std()))
    True
    """
    check_within("shift", shift, "(-inf, inf)")
    return _drawn(key, checked_size(key, n), shift)


@jit(static_argnums=1)
def _drawn(key, n, shift):
    of_class, of_noise = jax.random.split(key)
    y = jax.random.bernoulli(of_class, shape=(n,)).astype(jnp.int32)
    noise = jax.random.normal(of_noise, (n, N_FEATURES), jnp.float32)
    return jnp.where(y[:, None] == 0, 2 * noise, noise + jnp.asarray(shift, jnp.float32)), y


def _log_density(X, shift: float = SHIFT):
    centre = np.full(N_FEATURES, shift)
    return jnp.stack([log_normal(X, 0 * centre, 4.0), log_normal(X, centre)], axis=1)


RINGNORM = Generator("ringnorm", ringnorm, _log_density, N_FEATURES, 2, bayes_error=0.014965)
"""Generator of `ringnorm` with its default shift."""
