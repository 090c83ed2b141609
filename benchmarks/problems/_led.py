"""Led: the ten digits on a display whose segments fail."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._numerics import jit

from ._generator import Drawn, Generator, checked_size

FLIPPED = 0.1
SEGMENTS = np.array(
    [
        [int(segment) for segment in digit]
        for digit in (
            *("1110111", "0010010", "1011101", "1011011", "0111010"),
            *("1101011", "1101111", "1010010", "1111111", "1111011"),
        )
    ],
    np.float32,
)
"""Segments of the ten digits ``[digits segments]``: top, upper left and right, middle, lower left and right, bottom."""
N_CLASSES, N_FEATURES = SEGMENTS.shape


def led(key: jax.Array, n: int) -> Drawn:
    r"""Draw n instances of led: a digit, uniform on 0 … 9, and its seven segments, each flipped with probability .1.

    .. math:: P(x \mid c) = 0.1^{h}\, 0.9^{7 - h}, \qquad h = \sum_i [x_i \ne s_{ci}]

    with s the segments of a digit.

    Parameters
    ----------
    key
        A typed key, ``jax.random.key(seed)``. It determines what is drawn.
    n
        Number of instances, ≥ 1; static under `jax.jit`.

    Returns
    -------
    tuple
        X float32 ``[instances features]``, 1 for a segment that is lit and 0 otherwise; y int32 ``[instances]``, the
        digit. The segments are top, upper left, upper right, middle, lower left, lower right and bottom.

    Raises
    ------
    TypeError
        If ``key`` is no typed key or n no integer.
    ValueError
        If n < 1.

    Notes
    -----
    There are 128 different instances; the Bayes error, .25998, is a sum over them. Six and nine have their top and
    bottom segments lit.

    References
    ----------
    Breiman, Friedman, Olshen and Stone 1984, Classification and regression trees, section 2.6.1.

    Examples
    --------
    >>> import jax
    >>> X, y = led(jax.random.key(0), 300)
    >>> print(X.shape, sorted(set(X.ravel().tolist())))
    (300, 7) [0.0, 1.0]
    """
    return _drawn(key, checked_size(key, n))


@jit(static_argnums=1)
def _drawn(key, n):
    of_class, of_flips = jax.random.split(key)
    y = jax.random.randint(of_class, (n,), 0, N_CLASSES, jnp.int32)
    lit = jnp.asarray(SEGMENTS)[y] > 0
    flipped = jax.random.bernoulli(of_flips, FLIPPED, (n, N_FEATURES))
    return (lit ^ flipped).astype(jnp.float32), y


def _log_density(X):
    lit, segments = X[:, None, :] > 0.5, SEGMENTS[None, :, :] > 0
    wrong = jnp.sum(lit != segments, axis=2).astype(X.dtype)
    return wrong * float(np.log(FLIPPED)) + (N_FEATURES - wrong) * float(np.log(1 - FLIPPED))


LED = Generator("led", led, _log_density, N_FEATURES, N_CLASSES, bayes_error=0.259978)
"""Generator of `led`."""
