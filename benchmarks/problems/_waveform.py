"""Waveform: noisy mixtures of two of three triangular waves."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from jaxunc._numerics import jit

from ._generator import Drawn, Generator, checked_size

N_FEATURES = 21
_PLACES = np.arange(1, N_FEATURES + 1)
WAVES = np.stack([np.maximum(6 - np.abs(_PLACES - peak), 0) for peak in (11, 15, 7)]).astype(np.float32)
"""Triangular waves h1, h2 and h3, ``[waves features]``."""
PAIRS = ((0, 1), (0, 2), (1, 2))
"""Pair of waves that each class mixes."""


def waveform(key: jax.Array, n: int) -> Drawn:
    r"""Draw n instances of waveform.

    .. math:: x_i = u\, h_a(i) + (1 - u)\, h_b(i) + e_i, \qquad u \sim U(0, 1),\ e_i \sim N(0, 1),\ i = 1, \dots, 21

    with one u for each instance, :math:`h_1(i) = \max(6 - |i - 11|, 0)`, :math:`h_2(i) = h_1(i - 4)`,
    :math:`h_3(i) = h_1(i + 4)`, and (a, b) = (1, 2), (1, 3), (2, 3) for the classes 0, 1, 2, each with probability
    1/3, independently.

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
    u is integrated out in closed form: with r = x - h_b, d = h_a - h_b and s = r·d/\|d\| a class has the density
    :math:`(2\pi)^{-10} \|d\|^{-1} e^{-(\|r\|^2 - s^2)/2} (\Phi(\|d\| - s) - \Phi(-s))`. The Bayes error is .13293, by
    integration over the plane of the three waves; the literature says .14.

    References
    ----------
    Breiman, Friedman, Olshen and Stone 1984, Classification and regression trees, section 2.6.2.

    Examples
    --------
    >>> import jax
    >>> X, y = waveform(jax.random.key(0), 300)
    >>> print(X.shape, sorted(set(y.tolist())))
    (300, 21) [0, 1, 2]
    """
    return _drawn(key, checked_size(key, n))


@jit(static_argnums=1)
def _drawn(key, n):
    of_class, of_share, of_noise = jax.random.split(key, 3)
    y = jax.random.randint(of_class, (n,), 0, len(PAIRS), jnp.int32)
    share = jax.random.uniform(of_share, (n, 1), jnp.float32)
    noise = jax.random.normal(of_noise, (n, N_FEATURES), jnp.float32)
    first, second = (jnp.asarray(WAVES[list(waves)])[y] for waves in zip(*PAIRS, strict=True))
    return share * first + (1 - share) * second + noise, y


def _log_density(X):
    return jnp.stack([_of_pair(X, WAVES[a], WAVES[b]) for a, b in PAIRS], axis=1)


def _of_pair(X, first, second):
    """Return the log density of the mixtures of two waves."""
    length = float(np.linalg.norm(first - second))
    rest = X - jnp.asarray(second, X.dtype)[None, :]
    along = jnp.sum(rest * jnp.asarray((first - second) / length, X.dtype)[None, :], axis=1)
    across = jnp.sum(rest**2, axis=1) - along**2
    constant = (N_FEATURES - 1) / 2 * float(np.log(2 * np.pi)) + float(np.log(length))
    return _log_mass(-along, length - along) - 0.5 * across - constant


def _log_mass(low, high):
    """Return log(Φ(high) - Φ(low)), in the tail where neither is near 1."""
    # Mirrored where the interval lies in the upper half: there both values of Φ are near 1, and their difference
    # cancels.
    flip = low + high > 0
    low, high = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
    return log_ndtr(high) + jnp.log1p(-jnp.exp(log_ndtr(low) - log_ndtr(high)))


WAVEFORM = Generator("waveform", waveform, _log_density, N_FEATURES, 3, bayes_error=0.132933)
"""Generator of `waveform`."""
