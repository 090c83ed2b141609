"""The probability of each class to win the vote of an infinite ensemble: `win_probability`.

The module also has the two special functions behind it, in forms accurate in float32: I_x(a, b), the regularised
incomplete beta function, and the probability that one gamma variable exceeds all others. Stopping rules ask about the
class in the lead alone: `_leader_probability`.
"""

from types import ModuleType
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Num

from jaxunc._checks import check_class_axis, check_counts, check_numbers, check_one_of
from jaxunc._numerics import copy_in, float_dtype, jit, log1p_minus, stirling_error
from jaxunc.tables import NumbersLike

from ._vote_prior import checked_prior

Method = Literal["bound", "exact"]

STEPS = 24  # number of steps of the continued fraction: enough for a + b up to `LARGE` in float32

LARGE = {4: 256, 8: 20_000}
"""Size of a + b, by bytes of a float, beyond which the normal approximation at 1/2 is better than the fraction."""

NODES = np.linspace(-12, 8, 128)  # of the trapezoidal rule: values of τ in `race_nodes`

SPARE = 30.0  # the integrand is left out where it is exp(-SPARE) of its largest value

SMALL_SHAPE = 12.0  # below this shape a the float32 incomplete gamma function is a series, else Temme's expansion

SERIES_TERMS = 96


def win_probability(
    vote_counts: Num[Array | np.ndarray, "... classes"], *, method: Method = "bound", prior: NumbersLike = 1.0
) -> Float[Array, "... classes"]:
    r"""Return the probability of each class to win the vote of an ensemble of infinite size, given the votes so far.

    .. math::
        P(\hat y_\infty = y_1 \mid t) = I_{1/2}(t_2 + \alpha_2,\; t_1 + \alpha_1) \qquad\text{(7)}, \qquad
        L(y_i \mid t) = \prod_{j\ne i} I_{1/2}(t_j + \alpha_j,\; t_i + \alpha_i) \qquad\text{(8)}

    Parameters
    ----------
    vote_counts
        Votes for each class ``[... classes]``, finite and >= 0, without trees that abstain.
    method
        ``"bound"``: Eq. 8, a lower bound, exact for two classes. ``"exact"``: the probability that the class's share
        is the largest, as one integral over a gamma variable, with the incomplete gamma function P and a = t + α:
        :math:`\int g^{a_i-1}e^{-g}/\Gamma(a_i) \prod_{j\ne i} P(a_j, g)\,dg`. It adds to 1 over the classes.
    prior
        α of the Dirichlet prior, one positive number or one for each class ``[classes]``; 1 is the paper's uniform
        prior. `fit_vote_prior` learns it.

    Returns
    -------
    Array
        Probabilities ``[... classes]``, in float32 within 2e-6 for votes up to 10⁶ and any prior. Without votes, and
        with one prior for all classes, 1/classes (the bound: 2 to the power 1 - classes). In the bound, a tied rival is
        a factor of exactly 1/2.

    Raises
    ------
    ValueError
        If there are fewer than two classes, votes are negative or not finite, the method is unknown, or the prior is
        not positive.

    Notes
    -----
    For ``"bound"`` the gradient in ``prior`` is right in float32 (by the continued fraction), and not defined in
    float64 (``betainc`` has none in its shapes). The gradient in votes, which are counts, has no meaning.

    References
    ----------
    Hernández-Lobato, Martínez-Muñoz and Suárez 2011, Eq. 5 to 9; "exact": conditioning on the gamma variable of the
    class makes its rivals independent.

    Examples
    --------
    >>> [f"{p:.4f}" for p in win_probability(jnp.array([6, 0]))]
    ['0.9922', '0.0078']
    """
    check_class_axis(vote_counts, "vote_counts")
    check_one_of("method", method, get_args(Method))
    check_counts(vote_counts, "vote_counts")
    counts = copy_in(vote_counts)
    dtype = np.promote_types(float_dtype(counts), np.float32)  # half a float's digits do not suffice
    alpha = copy_in(checked_prior(prior, counts.shape[-1], traceable=True), dtype)
    return _win_probability(counts.astype(dtype), alpha, method)


@jit(static_argnames="method")
def _win_probability(counts, alpha, method: Method):
    """Return the probability of each class to win, from checked votes ``counts [... classes]`` and α ``[classes]``."""
    shape = counts + alpha
    if method == "exact":
        return race_probability(shape)

    def as_class(values):
        return values[..., :, None]

    def as_rival(values):
        return values[..., None, :]

    # Arrays of pairs ``[... classes rivals]``. Differences before the sum: votes + α would round α away.
    gap = (as_class(counts) - as_rival(counts)) + (as_class(alpha) - as_rival(alpha))
    beats_rival = half_beta(as_rival(shape), as_class(shape), gap)
    is_itself = jnp.eye(shape.shape[-1], dtype=bool)
    return jnp.prod(jnp.where(is_itself, 1.0, beats_rival), axis=-1)


def checked_probabilities(p: Float[Array | np.ndarray, "... classes"]) -> Float[np.ndarray, "... classes"]:
    """Return ``p`` as float64; a TypeError or a ValueError unless it holds probabilities that add to 1."""
    check_class_axis(p, "p")
    check_numbers("p", p)
    values = np.asarray(p, float)
    if not (np.all(values >= 0) and np.all(np.abs(values.sum(axis=-1) - 1) < 1e-6)):
        raise ValueError("p must hold probabilities >= 0 that add to 1 along the last axis.")
    return values


def half_beta(a: Float[Array, "..."], b: Float[Array, "..."], gap: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""Return I_{1/2}(a, b), the probability that a Beta(a, b) variable is below 1/2, for a, b > 0; 1/2 if b = a.

    ``gap`` is b - a, without the rounding error that a subtraction of a and b would have. I is computed by a continued
    fraction (in float64 by JAX's ``betainc``); for large a + b, with n = a + b - 1 and z = (b - a)/√n, by

    .. math:: \Phi(z) + \frac{\varphi(z)}{12 n}\,(z^3 - z).

    Absolute error 8e-7 in float32, 1e-10 in float64. In float32 JAX's ``betainc`` is off by 3e-4 at small counts and
    leaves [0, 1] at 10⁶, since it forms log Γ of the counts.
    """
    a, b, gap = jnp.broadcast_arrays(a, b, gap)
    large = a + b > LARGE[a.dtype.itemsize]
    n = jnp.where(large, a + b - 1, 1.0)
    z = jnp.where(large, gap * lax.rsqrt(n), 0.0)
    # 0.3989… is 1/√(2π), the factor of the normal density.
    normal = jax.scipy.special.ndtr(z) + jnp.exp(-z * z / 2) * (0.3989422804014327 / 12) * (z * z - 1) * z / n
    ones = jnp.ones_like(a)  # in place of large a and b: their result is not used, but has to be finite
    half, small_a, small_b = ones / 2, jnp.where(large, ones, a), jnp.where(large, ones, b)
    if a.dtype == jnp.float64:
        direct = jax.scipy.special.betainc(small_a, small_b, half)
    else:
        direct = incomplete_beta(half, small_a, small_b, steps=STEPS)
    return jnp.where(gap == 0, 0.5, jnp.where(large, normal, direct))


def incomplete_beta(
    x: Float[Array, "..."], a: Float[Array, "..."], b: Float[Array, "..."], *, steps: int
) -> Float[Array, "..."]:
    """Return the regularised incomplete beta function I_x(a, b) for 0 ≤ x ≤ 1 and a, b > 0.

    It is computed by ``steps`` steps of a continued fraction, which needs about √(a + b) of them.
    """
    # The fraction converges fast for x below the mean a/(a + b); above it, I_x(a, b) = 1 - I_{1-x}(b, a).
    above = x * (a + b) > a
    p = jnp.where(above, b, a)
    q = jnp.where(above, a, b)
    y = jnp.where(above, 1 - x, x)
    tail = jnp.where(y > 0, _front(y, p, q) * _fraction(y, p, q, steps) / p, 0.0)
    return jnp.where(above, 1 - tail, tail)


def _front(x, a, b):
    """Return xᵃ (1-x)ᵇ / B(a, b) = √(ab/2πn) exp(-n D + δ(n) - δ(a) - δ(b)), with n = a + b.

    D is the Kullback-Leibler divergence of (a, b)/n from (x, 1 - x), and δ is `stirling_error`.
    """
    n = a + b
    x = jnp.where((x > 0) & (x < 1), x, 0.5)
    # n x - a, without cancellation in the middle, where many votes are nearly tied.
    excess = jnp.where(jnp.abs(x - 0.5) < 0.25, n * (x - 0.5) + (b - a) / 2, x * b - (1 - x) * a)
    minus_n_divergence = a * log1p_minus(excess / a) + b * log1p_minus(-excess / b)
    remainder = stirling_error(n) - stirling_error(a) - stirling_error(b)
    return jnp.sqrt(a * b / (2 * jnp.pi * n)) * jnp.exp(minus_n_divergence + remainder)


def _fraction(x, a, b, steps: int):
    """Return the continued fraction of I_x(a, b), evaluated by ``steps`` steps of Lentz's method."""
    tiny = jnp.finfo(a.dtype).tiny ** 0.5

    def nonzero(value):
        """Return ``value``, or a tiny number in place of 0, so that it can be a divisor."""
        return jnp.where(jnp.abs(value) < tiny, tiny, value)

    def step(value, c, d):
        """Return the ratios c and d of Lentz's method after one more term of the fraction, ``value``."""
        return nonzero(1 + value / c), 1 / nonzero(1 + value * d)

    def take_two_terms(m, carry):
        """Add an even and an odd term of the fraction to ``carry``: c and d of `step`, and the fraction so far."""
        c, d, h = carry
        m = jnp.asarray(m, a.dtype)
        c, d = step(m * (b - m) * x / ((a - 1 + 2 * m) * (a + 2 * m)), c, d)
        h = h * c * d
        c, d = step(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 1 + 2 * m)), c, d)
        return c, d, h * c * d

    d = 1 / nonzero(1 - (a + b) * x / (a + 1))
    return lax.fori_loop(1, steps + 1, take_two_terms, (jnp.ones_like(d), d, d))[2]


# Temme's c₀, c₁, c₂ as polynomials in η (DLMF 8.12.10).
_TEMME = (
    (
        -0.3333333333, 0.08333333333, -0.01481481481, 1.157407407e-3, 3.527336861e-4, -1.78755144e-4, 3.919263179e-5,
        -2.185448511e-6, -1.854062211e-6, 8.296711341e-7, -1.766595274e-7, 6.707853543e-9, 1.026180978e-8,
    ),
    (
        -1.851851852e-3, -3.472222222e-3, 2.645502646e-3, -9.902263374e-4, 2.057613169e-4, -4.01877572e-7,
        -1.809855033e-5, 7.649160916e-6, -1.612090089e-6,
    ),
    (
        4.133597884e-3, -2.68132716e-3, 7.716049383e-4, 2.00938786e-6, -1.073665323e-4, 5.292344883e-5, -1.276063519e-5,
    ),
)  # fmt: skip


def race_probability(shape: Float[Array, "... classes"]) -> Float[Array, "... classes"]:
    r"""Return, for independent Γ(a_i, 1) variables with a = ``shape`` > 0, the probability of each to be the largest.

    .. math:: \int_0^\infty \frac{g^{a_i-1}e^{-g}}{\Gamma(a_i)} \prod_{j\ne i} P(a_j, g)\,dg,

    P being the regularised lower incomplete gamma function. Computed by the trapezoidal rule in log g, relative to
    log a_i, so that shapes of 10⁶ lose no digits. Absolute error 2e-6 in float32, 1e-11 in float64.
    """
    # With g = a exp(u) and Stirling's formula the density in u is √(a/2π) exp(-δ(a)) exp(-a (exp(u) - 1 - u)), where δ
    # is `stirling_error`.
    node, weight = race_nodes(shape, jnp.sum(shape, axis=-1, keepdims=True), jnp)
    u = jnp.log1p(1 / shape)[..., None] + node  # log(g / a), from log(g / (a + 1)): [... classes nodes]
    height = jnp.sqrt(shape / (2 * jnp.pi)) * jnp.exp(-stirling_error(shape))
    density = weight * height[..., None] * jnp.exp(-shape[..., None] * expm1_minus(u))
    n_classes = shape.shape[-1]

    def include_rival(rival, product):
        """Return ``product`` times the probability that the variable of class ``rival`` is smaller."""
        rival_shape = lax.dynamic_index_in_dim(shape, rival, axis=-1)  # [... 1]
        # log(g / a_j), from log(g / a_i): log g itself would round away differences between large shapes.
        v = u + _log_ratio(shape, rival_shape)[..., None]
        below = lower_gamma(jnp.broadcast_to(rival_shape[..., None], v.shape), v)
        return product * jnp.where((jnp.arange(n_classes) == rival)[:, None], 1.0, below)

    return jnp.sum(lax.fori_loop(0, n_classes, include_rival, density), axis=-1)


def race_nodes(shape, total, xp: ModuleType):
    """Return (nodes, weights) ``[... nodes]`` for numerical integrals over a gamma variable g of shape a > 0.

    Nodes are values of log g - log(a + 1). ``shape [...]`` is a, ``total`` the sum of the shapes of all variables in
    the integrand, and ``xp`` NumPy or ``jax.numpy``. At small g the integrand falls like exp(total · log g): slowly if
    all shapes are small. So nodes are (τ + 1 - exp(-kτ))/√(a + 1), for evenly spaced τ. The rate k is such that the
    exponential takes the lowest node SPARE / total further down.
    """
    spread = 1 / xp.sqrt(shape + 1)  # about the standard deviation of log g, or the width of exp(-g) if that is less
    rate = (xp.log1p(SPARE / (total * spread)) / -float(NODES[0]))[..., None]
    tau = xp.asarray(NODES, shape.dtype)
    nodes = spread[..., None] * (tau - xp.expm1(-rate * tau))
    # A weight is the derivative of the node by τ, times the step of τ.
    return nodes, spread[..., None] * (1 + rate * xp.exp(-rate * tau)) * float(NODES[1] - NODES[0])


def _log_ratio(a, b):
    """Return log(a/b), to relative precision where they are close."""
    gap = (a - b) / b
    near = jnp.abs(gap) < 0.5
    return jnp.where(near, jnp.log1p(jnp.where(near, gap, 0.0)), jnp.log(a / b))


def expm1_minus(u: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return exp(u) - 1 - u = u²/2 + u³/6 + … without cancellation near zero."""
    near = jnp.abs(u) < 0.5
    x = jnp.where(near, u, 0.0)
    # Horner's scheme for 1 + x/3 + x²/12 + …, with as many terms as the precision needs.
    n_terms = 16 if u.dtype == jnp.float64 else 9
    series = jnp.ones_like(u)
    for k in range(n_terms, 2, -1):
        series = 1 + x * series / k
    return jnp.where(near, x * x * series / 2, jnp.expm1(u) - u)


def lower_gamma(a: Float[Array, "..."], v: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return P(a, g), the regularised lower incomplete gamma function, at g = a exp(v)."""
    half = expm1_minus(v)  # η²/2, where η has the sign of v
    front = jnp.exp(-a * half) * lax.rsqrt(2 * jnp.pi * a)
    if a.dtype == jnp.float64:
        g = a * jnp.exp(v)
        is_tiny = g < 1e-17  # the series is 1, and g itself may be too small for a float
        direct = jax.scipy.special.gammainc(a, jnp.where(is_tiny, 1.0, g))
        return jnp.where(is_tiny, jnp.exp(-stirling_error(a)) * front, direct)
    is_far = (v > 0) & (a * half > 20)  # 1 - P(a, g) < exp(-a half) if v > 0; from a sum it would have more rounding
    eta = jnp.sign(v) * jnp.sqrt(2 * half)
    below = jnp.where(a < SMALL_SHAPE, _by_series(a, jnp.where(is_far, 0.0, v), front), _uniform(a, eta, front))
    return jnp.where(is_far, 1.0, jnp.clip(below, 0.0, 1.0))


def _uniform(a, eta, front):
    """Return `lower_gamma` for shapes ``a`` by Temme's expansion, Φ(η√a) - front (c₀ + c₁/a + c₂/a²).

    ``front`` is exp(-aη²/2)/√(2πa); c₀, c₁ and c₂ are polynomials in η (`_TEMME`), and η is as in `lower_gamma`.
    """
    near_eta = jnp.clip(eta, -2, 2)  # beyond, ``front`` is negligible
    correction = jnp.zeros_like(eta)  # by Horner's scheme in 1/a; so are the polynomials, in η
    for coefficients in reversed(_TEMME):
        polynomial = jnp.zeros_like(eta)
        for coefficient in reversed(coefficients):
            polynomial = polynomial * near_eta + coefficient
        correction = correction / a + polynomial
    return jax.scipy.special.ndtr(eta * jnp.sqrt(a)) - front * correction


def _by_series(a, v, front):
    """Return `lower_gamma` for shapes ``a`` by a series, exp(-δ(a)) front Σ_k g^k / ((a+1) … (a+k)), g = a exp(v).

    δ is `stirling_error`; ``front`` is that of `_uniform`.
    """
    g = a * jnp.exp(v)

    def add_term(k, carry):
        """Add term k to ``carry``, the sum so far and its last term."""
        total, term = carry
        term = term * g / (a + k)
        return total + term, term

    total, _ = lax.fori_loop(1, SERIES_TERMS, add_term, (jnp.ones_like(a), jnp.ones_like(a)))
    return jnp.exp(-stirling_error(a)) * front * total
