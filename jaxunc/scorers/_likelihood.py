"""The likelihood of a leaf, divided by its maximum: L(θ) = (θ/p)^w ((1-θ)/(1-p))^v, p = w/(w+v), in its logarithm.

w and v are the counts of class 1 and class 0. L is the contour function of a belief about θ, and `likelihood_mass` is
what that belief predicts. The θ with L(θ) ≥ s are an interval [θ_*(s), θ^*(s)] around p. The next instance is of class
1 at least with probability ∫ θ_*(s) ds and at most with ∫ θ^*(s) ds over s in [0, 1]. By parts,

    Bel(1) = p - ∫_0^p L(θ) dθ = p ∫_0^1 (1 - L(p (1-x))) dx,

and likewise for class 0. With φ(y) = log(1+y) - y the linear parts of both logarithms cancel:

    log L(p (1-x)) = w φ(-x) + v φ(x w/v).

Both integrands are positive. Gauss-Legendre nodes cover the θ where L does not round to 0. They are mapped by a cubic,
since with fractional counts L behaves like a root at θ = 0.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from jaxunc._checks import check_two_classes, warn_of_fractions
from jaxunc._numerics import checked_counts, float_dtype, jit, log1p_minus, sum_in_order

NOTHING = 1e-30
"""Stand-in for a count of zero, relative to the leaf's size: negligible, but it has a logarithm."""


def count_or_nothing(count: Float[Array, "..."], total: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return ``count`` plus, where it is nearly 0, `nothing_beside` the ``total``, so that its logarithm is finite."""
    nothing = nothing_beside(jax.lax.stop_gradient(total))
    return count + jnp.where(count > nothing, 0.0, nothing)


def nothing_beside(total: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return a number that is negligible beside ``total``: `NOTHING` times it, at least the smallest normal float."""
    return jnp.maximum(NOTHING * total, jnp.finfo(total.dtype).tiny)


@jax.custom_jvp
def log_likelihood(z, rest, gap, w, v):
    """Return log L(θ) = w log(θ/p) + v log((1-θ)/(1-p)) for counts w, v > 0 at θ = (1+z)/2, where p = w/(w+v).

    Callers pass ``rest`` = 1 - z and ``gap`` = z - (w-v)/(w+v) as exactly as they know these numbers. The gradient is
    log(θ/p) in w, and log((1-θ)/(1-p)) in v.
    """
    # With φ(x) = log(1+x) - x it is w φ(θ/p - 1) + v φ((1-θ)/(1-p) - 1): the linear parts of both logarithms cancel.
    ratio_w, ratio_v = _ratios(z, rest, w, v)
    shift = gap * (w + v) / 2  # N (θ - p)
    return w * _phi(shift / w, ratio_w) + v * _phi(-shift / v, ratio_v)


def _ratios(z, rest, w, v):
    """Return θ/p and (1-θ)/(1-p), at least the smallest normal float each, with the arguments of `log_likelihood`."""
    tiny = jnp.finfo(z.dtype).tiny
    half = (w + v) / 2
    return jnp.maximum((1 + z) * (half / w), tiny), jnp.maximum(rest * (half / v), tiny)


def _phi(x, ratio):
    """Return φ(x) = log(1+x) - x; the caller knows ``ratio`` = 1 + x more exactly than the sum would be."""
    is_far = x < -0.4
    return jnp.where(is_far, jnp.log(ratio) - x, log1p_minus(jnp.where(is_far, 0.0, x)))


@log_likelihood.defjvp
def _log_likelihood_jvp(primals, tangents):
    """Return the value of `log_likelihood`, and its derivative along the tangents of z, w and v."""
    z, rest, _, w, v = primals
    dz, _, _, dw, dv = tangents  # rest and gap follow from the others
    ratio_w, ratio_v = _ratios(z, rest, w, v)
    tiny = jnp.finfo(z.dtype).tiny
    slope = w / jnp.maximum(1 + z, tiny) - v / jnp.maximum(rest, tiny)
    return log_likelihood(*primals), dw * jnp.log(ratio_w) + dv * jnp.log(ratio_v) + dz * slope


_NODES = 64
"""Nodes of the quadrature."""


def likelihood_mass(counts: Shaped[Array | np.ndarray, "... 2"]) -> Float[Array, "... 4"]:
    r"""Predictive belief function of a leaf, from the likelihood of its counts and no prior.

    .. math::
        m(\{1\}) = \hat p - \int_0^{\hat p} L(\theta)\,d\theta, \qquad
        m(\{0\}) = 1 - \hat p - \int_{\hat p}^1 L(\theta)\,d\theta, \qquad
        m(\Omega) = \int_0^1 L(\theta)\,d\theta = \frac{B(n_1+1,\,n_0+1)}{\hat p^{n_1} (1-\hat p)^{n_0}}

    The masses ``[... 4]`` are those of ∅ (always 0), {0}, {1} and Ω, as `jaxunc.belief` takes them. The counts are n₀
    of class 0 and n₁ of class 1; p̂ = n₁/(n₀+n₁), and L is the likelihood, its maximum 1. Raises a ValueError if counts
    are negative or not finite, or of other than two classes.

    Empty leaf: m(Ω) = 1. Pure leaf of n instances: n/(n+1) on its class, 1/(n+1) on Ω. The ignorance falls like
    √(2π p̂(1-p̂)/n). It is another reading of L than `mass`, whose degrees of support compare θ with 1/2. By quadrature
    of positive terms: relative error about 1e-12 in float64 and 1e-6 in float32 for whole counts up to 10⁹. Where a
    count lies between 0 and 1, L behaves like a root at its end, which no node resolves. Then m(Ω) is within 3e-4 of
    its value, relatively, and all masses within 2e-6. For probabilities read it by `jaxunc.belief.pignistic`.

    Gradient: of the quadrature. It is one-sided where a count is zero. There the true slope along the count of
    the absent class is infinite, and a finite one is given instead, that of the other terms.

    References
    ----------
    Kanjanatarakul, Denœux and Sriboonchitta 2016, section 3; Denœux 2014. Named as an alternative by Sutton-Charani
    2020, section 7.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> print(np.array(likelihood_mass(jnp.array([[0.0, 3.0], [1.0, 1.0], [0.0, 0.0]])), float).round(3))
    [[0.    0.    0.75  0.25 ]
     [0.    0.167 0.167 0.667]
     [0.    0.    0.    1.   ]]
    """
    check_two_classes(counts, "likelihood_mass")
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    return _mass(counts.astype(float_dtype(counts)))


@jit
def _mass(counts):
    """Return the masses ``[... 4]`` of `likelihood_mass` for checked counts ``[... 2]``."""
    belief, doubt = _half(counts, counts[..., ::-1])  # [... 2], by class
    is_empty = jnp.sum(counts, axis=-1, keepdims=True) == 0
    omega = jnp.where(is_empty, 1.0, jnp.sum(doubt, axis=-1, keepdims=True))
    return jnp.concatenate([jnp.zeros_like(omega), belief, omega], axis=-1)


def _half(w, v):
    """Return the belief in a class, p ∫ (1 - L) dx, and what the class adds to the ignorance, p ∫ L dx.

    ``w`` is its count, ``v`` that of the other, and p = w/(w+v). L is taken at θ = p (1-x), for x in [0, 1].
    """
    has_class = w > 0
    has_other = v > 0
    share = jnp.where(has_class, w, 0.0) / jnp.where(has_class, w + v, 1.0)
    # Counts of 0 are replaced by a harmless 1. The last axis is that of the nodes.
    w = jnp.where(has_class, w, 1.0)[..., None]
    v = jnp.where(has_other, v, 1.0)[..., None]
    has_other = has_other[..., None]
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    node = jnp.asarray((1 - nodes) / 2, w.dtype)
    weights = jnp.asarray(weights / 2, w.dtype)
    end = jax.lax.stop_gradient(_end(w, jnp.where(has_other, v, 0.0)))
    # The cubic makes nodes dense near x = 1, where with fractional counts L behaves like a root.
    x = end * (1 - node**3)
    rest = (1 - end) + end * node**3  # 1 - x
    dx = 3 * end * node**2 * weights
    # φ(-x) and φ(x w/v), each in two forms that are precise near 0 and elsewhere.
    is_near = x < 0.4
    log_rest = jnp.log(jnp.where(is_near, 1.0, rest))
    phi_w = jnp.where(is_near, log1p_minus(-jnp.where(is_near, x, 0.0)), log_rest + x)
    ratio = x * w / v
    is_small = ratio < 0.4
    phi_small = log1p_minus(jnp.where(is_small, ratio, 0.0))
    phi_v = jnp.where(is_small, phi_small, jnp.log1p(jnp.where(is_small, 1.0, ratio)) - ratio)
    log_l = w * phi_w + v * phi_v
    # Without counts of the other class L is (1-x)^w: no linear parts cancel.
    log_l_alone = w * jnp.where(is_near, jnp.log1p(-jnp.where(is_near, x, 0.0)), log_rest)
    log_l = jnp.where(has_other, log_l, log_l_alone)
    doubt = sum_in_order(dx * jnp.exp(log_l))
    belief = sum_in_order(dx * -jnp.expm1(log_l)) + (1 - end[..., 0])  # beyond the end L is 0
    return share * belief, share * doubt


def _end(w, v):
    """Return an x ≤ 1, at most about twice the least, beyond which L(p (1-x)) rounds to 0, for counts ``w``, ``v``."""
    # log L <= -(w x²/2) (1 + w/(v + x w)), since φ(-x) <= -x²/2 and φ(y) <= -y²/(2 (1+y)).
    threshold = -jnp.log(jnp.finfo(w.dtype).eps) + 4  # where -log L reaches it, L is negligible
    flat = jnp.sqrt(2 * threshold / (w * (1 + w / (w + v))))  # since x w <= w
    steep = (threshold + jnp.sqrt(threshold * threshold + 2 * threshold * v)) / w  # by the second term alone
    return jnp.minimum(1.0, jnp.minimum(flat, steep))
