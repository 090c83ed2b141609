r"""Synthetic classification problems whose Bayes error is known: instances drawn from a key, never the same file twice.

A function per problem, ``(key, n)``, draws n instances: X float32 ``[instances features]`` and their classes y int32
``[instances]``. All classes are equally likely. The key is a typed one, ``jax.random.key(seed)``; n, at least 1, is
static under `jax.jit`. `GENERATORS` has, under the same names, what is known of each problem.

R's mlbench draws n/2 of each class where these draw each class at random.
"""

from collections.abc import Callable
from functools import wraps
from numbers import Integral
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float, Float32, Int32, Num

Drawn = tuple[Float32[Array, "instances features"], Int32[Array, "instances"]]
"""Instances, and the class of each."""


class Generator(NamedTuple):
    """A synthetic problem: how to draw from it, and the best that any classifier can do on it.

    The Bayes-optimal decision is the class with the largest likelihood, since all classes are equally likely.
    """

    name: str
    draw: Callable[..., Drawn]
    """The function ``(key, n)`` of the same name."""
    log_density: Callable[[Float[Array, "instances features"]], Float[Array, "instances classes"]]
    """Logarithm of the density (of the probability, where features are discrete) of instances given each class."""
    n_features: int
    n_classes: int
    bayes_error: float
    """The error of `bayes_class`, below which no classifier gets: by integration, to the digits given."""

    def log_likelihood(self, X: Num[Array | np.ndarray, "instances features"]) -> Float[Array, "instances classes"]:
        """Log p(x given c) of instances, for each class; a ValueError unless they have the generator's features."""
        X = jnp.asarray(X)
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features; {self.name} has {self.n_features}.")
        return self.log_density(X if jnp.issubdtype(X.dtype, jnp.floating) else X.astype(jnp.float32))

    def posterior(self, X: Num[Array | np.ndarray, "instances features"]) -> Float[Array, "instances classes"]:
        """P(c given x), the probabilities that no estimate betters; a ValueError as for `log_likelihood`."""
        return jax.nn.softmax(self.log_likelihood(X), axis=1)

    def bayes_class(self, X: Num[Array | np.ndarray, "instances features"]) -> Int32[Array, "instances"]:
        """The likeliest class, of equals the lowest; a ValueError as for `log_likelihood`."""
        return jnp.argmax(self.log_likelihood(X), axis=1).astype(jnp.int32)


def _size(key, n) -> int:
    """The number of instances as Python's int, if that and the key are what a draw takes."""
    if not jnp.issubdtype(jnp.asarray(key).dtype, jax.dtypes.prng_key) or jnp.shape(key):
        raise TypeError("pass one typed key, jax.random.key(seed)")
    if not isinstance(n, Integral):
        raise TypeError(f"n={n!r} must be an integer; it is the number of instances to draw")
    if n < 1:
        raise ValueError(f"n={n} must be at least 1; it is the number of instances to draw")
    return int(n)


def _checked(draw: Callable[..., Drawn]) -> Callable[..., Drawn]:
    """A draw, compiled for each number of instances once its arguments are checked."""
    compiled = jax.jit(draw, static_argnums=1)
    return wraps(draw)(lambda key, n, **shift: compiled(key, _size(key, n), **shift))


def _log_normal(X: Float[Array, "instances features"], mean, variance: float = 1.0) -> Float[Array, "instances"]:
    """The log density of the normal distribution with that mean and the covariance ``variance`` · I."""
    apart = X - jnp.asarray(mean, X.dtype)[None, :]
    return -0.5 * (jnp.sum(apart**2, axis=1) / variance + X.shape[1] * float(np.log(2 * np.pi * variance)))


# Breiman's three norms (1996, Bias, variance, and arcing classifiers, technical report 460, Berkeley) in 20 features.
N_NORM = 20
CENTRE = np.full(N_NORM, 2 / N_NORM**0.5, np.float32)
OTHER_CENTRE = np.where(np.arange(N_NORM) % 2 == 0, CENTRE, -CENTRE)
SHIFT = 1 / N_NORM**0.5


@_checked
def twonorm(key: jax.Array, n: int) -> Drawn:
    r"""Draw n instances of twonorm: two normal distributions whose centres lie opposite to each other.

    .. math:: x \mid 0 \sim N(m, I), \qquad x \mid 1 \sim N(-m, I), \qquad m = (a, \dots, a),\ a = 2 / \sqrt{20}

    The Bayes error is Φ(-2) = .02275: the best boundary is the plane through 0, at distance 2 from either centre. A
    tree, which tests one feature at a time, needs many tests for it.
    """
    of_class, of_noise = jax.random.split(key)
    y = jax.random.bernoulli(of_class, shape=(n,)).astype(jnp.int32)
    noise = jax.random.normal(of_noise, (n, N_NORM), jnp.float32)
    return noise + jnp.where(y == 0, 1, -1).astype(jnp.float32)[:, None] * CENTRE[None, :], y


def _log_twonorm(X):
    return jnp.stack([_log_normal(X, CENTRE), _log_normal(X, -CENTRE)], axis=1)


@_checked
def threenorm(key: jax.Array, n: int) -> Drawn:
    r"""Draw n instances of threenorm: one normal distribution between the two halves of another class.

    .. math:: x \mid 0 \sim \tfrac12 N(m, I) + \tfrac12 N(-m, I), \qquad x \mid 1 \sim N(m', I)

    with m = (a, …, a), m' = (a, -a, a, …, -a) and a = 2/√20. With u and v the coordinates along m and m', which are
    orthogonal, class 1 is likelier where v > ½ log cosh 2u; the Bayes error, .10463, is an integral over u.
    """
    of_class, of_half, of_noise = jax.random.split(key, 3)
    y = jax.random.bernoulli(of_class, shape=(n,)).astype(jnp.int32)
    half = jnp.where(jax.random.bernoulli(of_half, shape=(n,)), 1, -1).astype(jnp.float32)
    noise = jax.random.normal(of_noise, (n, N_NORM), jnp.float32)
    return noise + jnp.where(y[:, None] == 0, half[:, None] * CENTRE[None, :], OTHER_CENTRE[None, :]), y


def _log_threenorm(X):
    halves = jnp.logaddexp(_log_normal(X, CENTRE), _log_normal(X, -CENTRE)) - float(np.log(2))
    return jnp.stack([halves, _log_normal(X, OTHER_CENTRE)], axis=1)


@_checked
def ringnorm(key: jax.Array, n: int, *, shift: float = SHIFT) -> Drawn:
    r"""Draw n instances of ringnorm: a narrow normal distribution inside a wide one.

    .. math:: x \mid 0 \sim N(0, 4 I), \qquad x \mid 1 \sim N(m, I), \qquad m = (a, \dots, a)

    Sources differ in a, the ``shift``: 1/√20 in Breiman 1996 and in R's mlbench today, the default; 2/√20 in DELVE and
    in older versions of mlbench.

    Class 1 is likelier inside the ball \|x - 4m/3\|² < (40 log 2 + \|m\|²/3) / .75, so that the Bayes error is one of
    noncentral χ² distributions: .014965 for a = 1/√20, .012397 for a = 2/√20. `GENERATORS` holds the first one.
    """
    of_class, of_noise = jax.random.split(key)
    y = jax.random.bernoulli(of_class, shape=(n,)).astype(jnp.int32)
    noise = jax.random.normal(of_noise, (n, N_NORM), jnp.float32)
    return jnp.where(y[:, None] == 0, 2 * noise, noise + jnp.asarray(shift, jnp.float32)), y


def log_ringnorm(X, shift: float = SHIFT):
    """The log density of ringnorm's classes with that shift."""
    centre = np.full(N_NORM, shift)
    return jnp.stack([_log_normal(X, 0 * centre, 4.0), _log_normal(X, centre)], axis=1)


N_WAVEFORM = 21
_PLACES = np.arange(1, N_WAVEFORM + 1)
WAVES = np.stack([np.maximum(6 - np.abs(_PLACES - peak), 0) for peak in (11, 15, 7)]).astype(np.float32)
"""Triangular waves h1, h2 and h3, ``[waves features]``."""
PAIRS = ((0, 1), (0, 2), (1, 2))
"""Pair of waves that each class mixes."""


@_checked
def waveform(key: jax.Array, n: int) -> Drawn:
    r"""Draw n instances of waveform (Breiman et al. 1984, section 2.6.2): noisy mixtures of two of three waves.

    .. math:: x_i = u\, h_a(i) + (1 - u)\, h_b(i) + e_i, \qquad u \sim U(0, 1),\ e_i \sim N(0, 1),\ i = 1, \dots, 21

    with one u for each instance, :math:`h_1(i) = \max(6 - |i - 11|, 0)`, :math:`h_2(i) = h_1(i - 4)`,
    :math:`h_3(i) = h_1(i + 4)`, and (a, b) = (1, 2), (1, 3), (2, 3) for the classes 0, 1, 2.

    u is integrated out in closed form: with r = x - h_b, d = h_a - h_b and s = r·d/\|d\| a class has the density
    :math:`(2\pi)^{-10} \|d\|^{-1} e^{-(\|r\|^2 - s^2)/2} (\Phi(\|d\| - s) - \Phi(-s))`. The Bayes error is .13293, by
    integration over the plane of the three waves; the literature says .14.
    """
    of_class, of_share, of_noise = jax.random.split(key, 3)
    y = jax.random.randint(of_class, (n,), 0, len(PAIRS), jnp.int32)
    share = jax.random.uniform(of_share, (n, 1), jnp.float32)
    noise = jax.random.normal(of_noise, (n, N_WAVEFORM), jnp.float32)
    first, second = (jnp.asarray(WAVES[list(waves)])[y] for waves in zip(*PAIRS, strict=True))
    return share * first + (1 - share) * second + noise, y


def _log_waveform(X):
    return jnp.stack([_of_pair(X, WAVES[a], WAVES[b]) for a, b in PAIRS], axis=1)


def _of_pair(X, first, second):
    """The log density of the mixtures of two waves."""
    length = float(np.linalg.norm(first - second))
    rest = X - jnp.asarray(second, X.dtype)[None, :]
    along = jnp.sum(rest * jnp.asarray((first - second) / length, X.dtype)[None, :], axis=1)
    across = jnp.sum(rest**2, axis=1) - along**2
    constant = (N_WAVEFORM - 1) / 2 * float(np.log(2 * np.pi)) + float(np.log(length))
    return _log_mass(-along, length - along) - 0.5 * across - constant


def _log_mass(low, high):
    """log(Φ(high) - Φ(low)), in the tail where neither is near 1."""
    # Mirrored in the upper half, where both values of Φ are near 1 and their difference cancels.
    flip = low + high > 0
    low, high = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
    return log_ndtr(high) + jnp.log1p(-jnp.exp(log_ndtr(low) - log_ndtr(high)))


FLIPPED = 0.1
_LIT = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"
SEGMENTS = np.array([list(map(int, digit)) for digit in _LIT.split()], np.float32)
"""Segments of the ten digits ``[digits segments]``: top, upper left and right, middle, lower left and right, bottom."""
N_DIGITS, N_SEGMENTS = SEGMENTS.shape


@_checked
def led(key: jax.Array, n: int) -> Drawn:
    r"""Draw n instances of led (Breiman et al. 1984, section 2.6.1): a digit's segments, each flipped with p = .1.

    .. math:: P(x \mid c) = 0.1^{h}\, 0.9^{7 - h}, \qquad h = \sum_i [x_i \ne s_{ci}]

    with s the segments of a digit, uniform on 0 … 9. X is 1 for a segment that is lit. Six and nine have their top and
    bottom segments lit. There are 128 different instances; the Bayes error, .25998, is a sum over them.
    """
    of_class, of_flips = jax.random.split(key)
    y = jax.random.randint(of_class, (n,), 0, N_DIGITS, jnp.int32)
    lit = jnp.asarray(SEGMENTS)[y] > 0
    flipped = jax.random.bernoulli(of_flips, FLIPPED, (n, N_SEGMENTS))
    return (lit ^ flipped).astype(jnp.float32), y


def _log_led(X):
    lit, segments = X[:, None, :] > 0.5, SEGMENTS[None, :, :] > 0
    wrong = jnp.sum(lit != segments, axis=2).astype(X.dtype)
    return wrong * float(np.log(FLIPPED)) + (N_SEGMENTS - wrong) * float(np.log(1 - FLIPPED))


_ALL = (
    Generator("twonorm", twonorm, _log_twonorm, N_NORM, 2, bayes_error=0.022750),
    Generator("threenorm", threenorm, _log_threenorm, N_NORM, 2, bayes_error=0.104633),
    Generator("ringnorm", ringnorm, log_ringnorm, N_NORM, 2, bayes_error=0.014965),
    Generator("waveform", waveform, _log_waveform, N_WAVEFORM, 3, bayes_error=0.132933),
    Generator("led", led, _log_led, N_SEGMENTS, N_DIGITS, bayes_error=0.259978),
)
GENERATORS: dict[str, Generator] = {generator.name: generator for generator in _ALL}
"""All generators, by their names; ringnorm with its default shift."""
