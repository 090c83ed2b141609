"""Degrees of support: how plausible each class is in the light of a leaf's likelihood.

The contour function of a leaf is its normalised likelihood

    L(θ) = (θ/p)^{w⁺} ((1-θ)/(1-p))^{w⁻},   p = w⁺/N,

and the degree of support of class + is π(+) = sup_θ min{L(θ), 2θ-1}. The supremum lies where both meet. With
z = 2θ-1 and z₀ = 2p-1 it is the root of h(log z) = log L - log z, which is concave and decreasing: Newton's method
from the right descends to it without a safeguard. Everything is carried in s = (z - z₀)/(1 - z₀), in which

    log L = w⁺ φ(s w⁻/w⁺) + w⁻ φ(-s),   φ(x) = log(1+x) - x,   1 - z = 2(w⁻/N)(1 - s),

so that neither the terms of log L nor 1 - z cancel, whatever the counts.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Num

from jaxunc._checks import check_class_axis
from jaxunc._numerics import float_dtype, lambert_w_of_exp, log1p_minus

from ._scale import width


class Support(NamedTuple):
    """What the plausibility of its two classes says about a leaf, in forms that do not underflow."""

    log_degrees: Float[Array, "... 2"]
    """log π of (−, +), at most 0."""
    preference: Float[Array, "..."]
    """π(+) - π(−) in [-1, 1]; its sign is that of w⁺ - w⁻, also where the degrees round to the same float."""
    log_ignorance: Float[Array, "..."]
    """log m(Ω) = log(u_a + u_e) = log(1 - \\|π(+) - π(−)\\|), finite for every leaf."""


class _Root(NamedTuple):
    """Where log L meets log z, for the class whose count is w against v."""

    log_degree: Array
    log_ratio_for: Array  # log(θ/p)
    log_ratio_against: Array  # log((1-θ)/(1-p))
    slope: Array  # -h' ≥ 1


def _log_likelihood(s, w, v):
    """log L at the point s of the way from the maximum (s = 0) to θ = 1 (s = 1)."""
    ratio = jnp.minimum(s * v / jnp.where(w > 0, w, 1.0), jnp.finfo(s.dtype).max / 4)
    return jnp.where(w > 0, w * log1p_minus(ratio), -s * v) + v * log1p_minus(-s)


def _slope(z, s, w, v):
    """D = -h'(log z) = 1 + z s N²/(2 (w + s v)(1 - s)) ≥ 1."""
    n = w + v
    return 1 + (z * n / 2) * (s / (1 - s)) * (n / jnp.where(w + s * v > 0, w + s * v, 1.0))


def _losing_root(w, v, lead, steps):
    """(log z, s) for 0 ≤ w ≤ v: iterate on log z, since z may be far below the smallest float."""
    n, q = w + v, v / (w + v)
    z0 = lead / n

    def place(log_z):
        z = jnp.exp(log_z)
        return z, (z - z0) / (2 * q)

    at_half = _log_likelihood(-z0 / (2 * q), w, v)
    start = jnp.minimum(at_half, (lambert_w_of_exp(jnp.log(n) - n * z0 * z0) - jnp.log(n)) / 2)
    # At n -> 0 the start approaches z = 1, where the likelihood is 0: stay off it.
    start = jnp.minimum(start, -jnp.finfo(w.dtype).eps)

    def newton(_, log_z):
        z, s = place(log_z)
        step = (_log_likelihood(s, w, v) - log_z) / _slope(z, s, w, v)
        return jnp.minimum(log_z + step, start)

    log_z = lax.fori_loop(0, steps, newton, start)
    return log_z, place(log_z)[1]


def _winning_root(w, v, lead, steps):
    """(log z, s) for w > v > 0: iterate on s, since z may differ from z₀ or from 1 by less than an ulp."""
    n, q = w + v, v / (w + v)
    z0 = lead / n
    log_z0 = jnp.where(z0 < 0.5, jnp.log(jnp.maximum(z0, jnp.finfo(w.dtype).tiny)), jnp.log1p(-2 * q))
    reach = jnp.minimum(-2 * log_z0, jnp.exp(lambert_w_of_exp(jnp.log(n))))
    most = 1 - 1e-3
    # Both are upper bounds: from KL(p|θ) ≥ 2(θ-p)², and from φ(-s) ≤ -s²/2 (tight where v is small).
    start = jnp.minimum(jnp.sqrt(reach / n) / (2 * q), jnp.sqrt(-2 * log_z0 / v))
    start = jnp.minimum(start, most)

    def place(s):
        z = z0 + 2 * q * s
        return z, jnp.where(z < 0.5, jnp.log(jnp.maximum(z, jnp.finfo(s.dtype).tiny)), jnp.log1p(-2 * q * (1 - s)))

    def newton(_, s):
        z, log_z = place(s)
        step = (_log_likelihood(s, w, v) - log_z) / _slope(z, s, w, v)
        return jnp.clip(s + z * jnp.expm1(step) / (2 * q), 0.0, most)

    s = lax.fori_loop(0, steps, newton, start)
    return place(s)[1], s


def _unopposed_point(w, steps):
    """The limit of s as v → 0 (there z → 1): the root of φ(-s) + 2(1-s)/w, needed for the gradient alone."""

    def newton(_, s):
        value = log1p_minus(-s) + 2 * (1 - s) / w
        return jnp.clip(s + value / (s / (1 - s) + 2 / w), 0.0, 1 - 1e-3)

    return lax.fori_loop(0, steps, newton, jnp.minimum(2 / jnp.sqrt(w), 1 - 1e-3))


def _root(w, v, lead) -> _Root:
    """Solve for log π of the class with count ``w`` against ``v``, where ``lead`` = w - v exactly."""
    steps = 20 if w.dtype == jnp.float64 else 10
    losing, unopposed, empty = lead <= 0, (v == 0) & (w > 0), (w == 0) & (v == 0)
    # Each branch is evaluated everywhere, so each gets counts that suit it.
    loses, wins = losing & ~empty, ~losing & ~unopposed
    log_z, s = _losing_root(jnp.where(loses, w, 1.0), jnp.where(loses, v, 1.0), jnp.where(loses, lead, 0.0), steps)
    log_z_win, s_win = _winning_root(
        jnp.where(wins, w, 2.0), jnp.where(wins, v, 1.0), jnp.where(wins, lead, 1.0), steps
    )
    log_z, s = jnp.where(losing, log_z, log_z_win), jnp.where(losing, s, s_win)
    s = jnp.where(unopposed, _unopposed_point(jnp.where(unopposed, w, 1.0), steps), s)
    log_z = jnp.where(unopposed | empty, 0.0, log_z)
    s = jnp.where(empty, 0.0, s)
    # At w = 0 the slope in w is infinite; it is taken at w = tiny instead: large and finite.
    floor = jnp.finfo(w.dtype).tiny
    far = jnp.log(jnp.where(s * v > 0, s * v, 1.0)) - jnp.log(jnp.asarray(floor, w.dtype))
    near = jnp.log1p(jnp.minimum(s * v / jnp.where(w > 0, w, 1.0), jnp.finfo(w.dtype).max / 4))
    return _Root(
        log_degree=log_z,
        log_ratio_for=jnp.where((w == 0) & ~empty, far, jnp.where(unopposed | empty, 0.0, near)),
        log_ratio_against=jnp.where(empty, 0.0, jnp.log1p(-s)),
        slope=_slope(jnp.exp(log_z), s, w, v),
    )


def _preference(log_for, log_against, total, lead):
    """π(+) - π(−), from the slope at the tie where the difference of the logarithms would cancel."""
    z = jnp.exp((log_for + log_against) / 2)
    inner = jnp.minimum(z, 1 - jnp.finfo(z.dtype).eps)
    near_tie = lead * 2 * jnp.arctanh(inner) / (1 + total * inner * inner / (1 - inner * inner))
    direct = log_for - log_against
    small = jnp.finfo(z.dtype).eps ** (1 / 3)
    close = (jnp.abs(direct) < small) & (jnp.abs(lead) < small * total)
    gap = jnp.abs(jnp.where(close, near_tie, direct))
    return jnp.sign(lead) * jnp.exp(jnp.maximum(log_for, log_against)) * -jnp.expm1(-gap)


@jax.custom_jvp
def _support(negative, positive, lead):
    """(log π(−), log π(+), π(+) - π(−), log m(Ω)) from float counts and their exact difference."""
    return _support_and_roots(negative, positive, lead)[0]


def _support_and_roots(negative, positive, lead):
    # Both classes in one pass: half the program to compile.
    roots = _root(jnp.stack([negative, positive]), jnp.stack([positive, negative]), jnp.stack([-lead, lead]))
    against, favour = (_Root(*(part[i] for part in roots)) for i in (0, 1))
    preference = _preference(favour.log_degree, against.log_degree, negative + positive, lead)
    larger = jnp.where(lead >= 0, favour.log_degree, against.log_degree)
    smaller = jnp.where(lead >= 0, against.log_degree, favour.log_degree)
    strength = jnp.abs(preference)
    mild = jnp.log1p(-jnp.minimum(strength, 0.75))
    log_ignorance = jnp.where(strength < 0.5, mild, jnp.logaddexp(jnp.log(-jnp.expm1(larger)), smaller))
    return (against.log_degree, favour.log_degree, preference, log_ignorance), (against, favour)


@_support.defjvp
def _support_jvp(primals, tangents):
    negative, positive, lead = primals
    d_negative, d_positive, _ = tangents  # lead is determined by the two counts
    values, (against, favour) = _support_and_roots(negative, positive, lead)
    log_neg, log_pos, _, log_ignorance = values
    d_log_neg = (against.log_ratio_for * d_negative + against.log_ratio_against * d_positive) / against.slope
    d_log_pos = (favour.log_ratio_for * d_positive + favour.log_ratio_against * d_negative) / favour.slope
    d_preference = jnp.exp(log_pos) * d_log_pos - jnp.exp(log_neg) * d_log_neg
    # d log m(Ω) = (π_min d log π_min - π_max d log π_max) / m(Ω); the factors may overflow in certain leaves.
    most = jnp.log(jnp.finfo(log_neg.dtype).max) / 2
    weight_neg = jnp.exp(jnp.minimum(log_neg - log_ignorance, most))
    weight_pos = jnp.exp(jnp.minimum(log_pos - log_ignorance, most))
    toward_neg = weight_neg * d_log_neg - weight_pos * d_log_pos
    d_log_ignorance = jnp.where(lead >= 0, toward_neg, -toward_neg)
    return values, (d_log_neg, d_log_pos, d_preference, d_log_ignorance)


def support(counts: Num[Array, "... 2"]) -> Support:
    """Degrees of support, preference and ignorance of leaves together, which share their cost.

    See `plausibility` for the formulas. Raises a ValueError unless the last axis holds two classes.
    """
    check_class_axis(counts)
    if counts.shape[-1] != 2:
        raise ValueError(
            f"plausibility compares two classes, but counts have {counts.shape[-1]} (shape {counts.shape}). "
            "Pass [..., 2] counts, or each class against the rest: OneVsRest does that."
        )
    dtype = float_dtype(counts)
    lead = (counts[..., 1] - counts[..., 0]).astype(dtype)
    values = _support(counts[..., 0].astype(dtype), counts[..., 1].astype(dtype), lead)
    return Support(jnp.stack(values[:2], axis=-1), values[2], values[3])


def log_support_degrees(counts: Num[Array, "... 2"]) -> Float[Array, "... 2"]:
    """log π of (−, +) for each leaf: see `plausibility`. Finite for every leaf, however certain."""
    return support(counts).log_degrees


@width(2.0)
def plausibility(counts: Num[Array, "... 2"]) -> Float[Array, "..."]:
    r"""Trade-off between the degrees of preference of the two classes (score p_pls), exact.

    .. math::
        \pi(+) = \sup_\theta \min\{L(\theta), 2\theta - 1\}, \qquad
        p_{pls} = s_+ - s_- = \pi(+) - \pi(-)

    L is the likelihood divided by its maximum. (The paper defines s± through u_e = min π and u_a = 1 - max π;
    since 1 - u_a - u_e = |π(+) - π(−)|, the difference is the score.)

    Parameters
    ----------
    counts
        Class counts [negative, positive] of leaves, ≥ 0, real or integer.

    Returns
    -------
    Array
        Scores ``[...]`` in [-1, 1], positive for class 1.

    Raises
    ------
    ValueError
        If the last axis does not hold two classes.

    Notes
    -----
    Empty leaf and ties: 0. Leaf (0, 1): 2/3. Relative error of log π about 1e-13 in float64, 1e-6 in float32, for
    counts up to 10⁹; published code rescales counts above 537 and is off by up to 0.05 there.

    Gradient, by the implicit function theorem (θ the point of the supremum, z = π(+) = 2θ - 1):
    ∂log π(+)/∂w⁺ = log(θ/p)/D, ∂log π(+)/∂w⁻ = log((1-θ)/(1-p))/D with
    D = 1 - z (w⁺/(1+z) - w⁻/(1-z)) ≥ 1. One-sided where a count is zero; where the slope is infinite (the count of
    an absent class) it is the slope at the smallest normal float, large and finite; 0 at an empty leaf.

    References
    ----------
    Busch et al. 2021, section 3.1.2; Shaker and Hüllermeier 2020.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(plausibility(jnp.array([[0.0, 1.0], [2.0, 2.0], [0.0, 0.0]])).round(4))
    [0.6667 0.     0.    ]
    """
    return support(counts).preference
