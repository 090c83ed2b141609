"""Confidence bounds: how far a leaf's distribution stands apart from its mirror image.

`confidence_bounds` measures that by heights in the middle (`jaxunc.scorers._heights`) or by the overlap area, whose
complement is an integral over z = 2θ-1. With the counts w⁺ of class 1 and w⁻ of class 0, their sum N, t = (w⁺-w⁻)/N, β
the density of z when θ ~ Beta(w⁺+1, w⁻+1), and 2J the number of coin tosses that decide (N, or N+1 for odd N):

    binomial        A(t),  A(z) = I_{z²}(1/2, J) = 2J γ(J) ∫₀^z (1-u²)^{J-1} du
    beta            ∫₀¹ [β(z) - β(-z)] dz
    beta-binomial   ∫₀¹ [β(z) - β(-z)] A(z) dz

The binomial one follows from 2P(X<N/2) + P(X=N/2) = 2 I_q(J, J) and the quadratic transformation of the incomplete beta
function. The third follows from the first, because a beta-binomial is a binomial with a θ that is drawn. They hold for
real counts too. Every integrand is positive, so nothing cancels; each is a polynomial for integer counts, and close to
a normal density for large ones. Gauss-Legendre nodes on the part of [0, 1] that matters are enough for both. Odd in the
lead, the integrals are returned with its sign: smooth through ties.
"""

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Shaped

from jaxunc._checks import check_bool, check_one_of, check_two_classes, warn_of_fractions
from jaxunc._numerics import ceil_div, checked_counts, float_dtype, jit, safe_divide

from ._frequencies import has_odd_total, lead, scorer
from ._heights import Leaf, beta_binomial_height, beta_height, binomial_height, log_central, log_mode_mass
from ._likelihood import count_or_nothing, log_likelihood

FAMILIES = ("binomial", "beta_binomial", "beta")
STATISTICS = ("area", "height", "normalized_height")


@scorer(
    width=lambda weighted=True, **_: 1.0 if weighted else 2.0,
    static=("family", "statistic", "weighted", "middle"),
    reads_sizes=True,
)
def confidence_bounds(
    counts: Shaped[Array | np.ndarray, "... 2"],
    *,
    family: str = "beta_binomial",
    statistic: str = "normalized_height",
    weighted: bool = True,
    middle: str = "paper",
) -> Float[Array, "..."]:
    r"""Relative frequency, discounted by how well a leaf's counts go with an even distribution (score p_cb).

    .. math::
        p_{cb} = (1 - c)\left(\hat p - \tfrac12\right), \quad c = \frac{f_{mid}}{\max_k f(k)}, \quad
        f_{mid} = \begin{cases} f(N/2) & N \text{ even} \\
        \tfrac12 \left[f(\tfrac{N-1}2) + f(\tfrac{N+1}2)\right] & N \text{ odd} \end{cases}

    with p̂ = w⁺/N and f the mass function of BetaBin(N, w⁺+1, w⁻+1), whose maximum is f(w⁺). That is the paper's score
    and the default; the settings give the eighteen variants of its published code.

    Parameters
    ----------
    counts
        Counts of leaves ``[... 2]``: w⁻ of class 0, then w⁺ of class 1; ≥ 0, integer or real. N is their sum.
    family
        f: ``"beta_binomial"``; ``"binomial"``, Bin(N, p̂); ``"beta"``, the density of Beta(w⁺+1, w⁻+1).
    statistic
        c: ``"normalized_height"``, as above (beta: f(1/2) for the middle); ``"height"``, f_mid itself (of the beta
        density it may exceed 1, which turns the sign of the score); ``"area"``, the overlap of f with its mirror
        image, Σ_k min{f(k), f(N-k)} or ∫ min{f(θ), f(1-θ)} dθ.
    weighted
        True: the score above. False: sgn(w⁺-w⁻) (1 - c).
    middle
        ``"paper"``: as above. ``"continuous"``: f(N/2) also for odd N, and the areas accordingly, which makes the score
        a smooth function of the counts. Counts whose total is no integer are always treated so.

    Returns
    -------
    Array
        Scores ``[...]``, positive for class 1: weighted in [-1/2, 1/2], signed in [-1, 1] (the beta density's height:
        signed scores reach 1 - √(N/π) and its opposite, at a lead of one).

    Raises
    ------
    ValueError
        If counts are negative or not finite, the last axis does not hold two classes, or a setting is unknown.

    Notes
    -----
    Ties and empty leaves: 0. Leaf (0, 1): 1/8. Large leaves: c ≈ exp(-(w⁺-w⁻)²/(4N)). The lead of integer counts is
    exact, so (10⁹ + 1, 10⁹) is no tie. Settings are not traced: fix them by ``functools.partial``.

    Published index: 3·family + statistic in the order binomial, beta-binomial, beta and area, height, normalised
    height; 9 more if signed. The published code samples beta densities on 1001 points (deviations up to 5e-4) and
    leaves the binomial undefined for an empty leaf.

    Heights come from Stirling's formula with its remainder, areas from Gauss-Legendre integration (32 nodes in float32,
    64 in float64). Error of 1 - c, relative to max(1, \|1-c\|), measured with counts from 0 to 10⁹: 2e-14 in float64,
    1e-6 in float32; with real counts 2e-6 in float32 and in float64 1e-14 (heights), 1e-8 (areas: worst for leaves of
    fewer than three instances). An area costs many times what a height does.

    Gradient: of these forms, finite everywhere; the parity of N is held, and ``"paper"`` differentiates the two terms
    beside the middle. Some slopes are infinite: those of the binomial and of the beta density's normalised height, for
    the count of an absent class. They are replaced by a large finite number, or by 0 for leaves of fewer than one
    instance. The gradient is 0 at empty leaves, and through the sign of a signed height.

    References
    ----------
    Busch et al. 2021, section 3.1.3, and their published code.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> counts = jnp.array([[0, 1], [3, 7], [5, 5], [0, 0]])
    >>> print(confidence_bounds(counts).round(4))
    [0.125  0.0708 0.     0.    ]
    >>> print(confidence_bounds(counts, family="beta", statistic="area", weighted=False).round(4))
    [0.5    0.7734 0.     0.    ]
    """
    check_two_classes(counts, "confidence_bounds")
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    check_bool("weighted", weighted)
    check_one_of("family", family, FAMILIES)
    check_one_of("statistic", statistic, STATISTICS)
    check_one_of("middle", middle, ("paper", "continuous"))
    return _confidence_bounds(counts, bool(weighted), middle == "paper", family, statistic)


def _one_minus_exp(x):
    """Return 1 - exp(``x``), precise near 0, and with its derivative also where exp(x) is small."""
    is_near = x > -1
    near = 0.0 - jnp.expm1(jnp.where(is_near, x, 0.0))
    far = 1 - jnp.exp(jnp.where(is_near, -1.0, x))  # by expm1 the derivative would be 0
    return jnp.where(is_near, near, far)


@jit(static_argnames=("family", "statistic"))
def _confidence_bounds(counts, weighted, between, family, statistic):
    """Return the scores ``[...]`` of `confidence_bounds` for checked counts ``[... 2]``, by its settings.

    ``between`` is True for ``middle="paper"``, where the middle of an odd N lies between two counts.
    """
    # The lead is taken before counts are rounded to floats. Stirling's formula needs more digits than half precision.
    dtype = np.promote_types(float_dtype(counts), np.float32)
    signed_lead = lead(counts).astype(dtype)
    negative = counts[..., 0].astype(dtype)
    positive = counts[..., 1].astype(dtype)
    # An empty leaf gets harmless counts here and the score 0 at the end: its logarithms would give NaN, and NaN
    # gradients even where the value is not chosen.
    is_empty = (negative == 0) & (positive == 0)
    negative = jnp.where(is_empty, 0.5, negative)
    positive = jnp.where(is_empty, 0.5, positive)
    total = negative + positive
    leaf = Leaf(
        more=jnp.maximum(negative, positive),
        fewer=count_or_nothing(jnp.minimum(negative, positive), total),
        lead=jnp.abs(signed_lead),
        odd=jnp.where(has_odd_total(counts) & between, 1.0, 0.0).astype(dtype),
    )
    share = safe_divide(signed_lead, total)
    if statistic == "area":
        signed_factor = in_blocks(_AREAS[family], leaf, signed_lead)  # 1 - c, with the sign of the lead
        score = jnp.where(weighted, jnp.abs(share) / 2, 1.0) * signed_factor
    else:
        normalized = statistic == "normalized_height"
        factor = _one_minus_exp(_HEIGHTS[family](leaf, normalized))  # 1 - c
        # Only heights that are not normalised may exceed 1, which turns the sign; else it would be a rounding error.
        factor = jnp.where((factor > 0) | (not normalized), factor, 0.0)
        score = jnp.where(weighted, share / 2, jnp.sign(signed_lead)) * factor
    return jnp.where(is_empty, 0.0, score).astype(float_dtype(counts))


_BLOCK = 1024
"""Number of leaves that are integrated at a time."""


class _Precision(NamedTuple):
    """The settings of the quadrature for one precision of floats, float32 or float64."""

    nodes: int  # number of nodes
    reach: float  # standard deviations beyond the peak that the nodes span
    certain: float  # |t| √N above which the overlap rounds to 0


def _precision(dtype) -> _Precision:
    """Return the settings of the quadrature for float64, or else those for float32."""
    if dtype == jnp.float64:
        return _Precision(nodes=64, reach=8.3, certain=12.0)
    return _Precision(nodes=32, reach=5.5, certain=8.2)


@lru_cache
def _rule(nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Gauss-Legendre nodes x on [0, 1], their weights, and an integrating matrix; ``nodes`` is their number.

    The matrix ``[nodes nodes]`` makes, of a function's values at the nodes, its integrals from 0 to each node.
    """
    x, weights = np.polynomial.legendre.leggauss(nodes)
    polynomials = np.polynomial.legendre.legvander(x, nodes)  # P_k(x): [nodes, degrees]
    degree = np.arange(nodes)
    # Through Legendre polynomials: their primitives are known, so the matrix is exact for polynomials of the degree.
    coefficients = (2 * degree[:, None] + 1) / 2 * (polynomials[:, :nodes].T * weights)
    # ∫_{-1}^x P_k = (P_{k+1} - P_{k-1}) / (2k+1), and x + 1 for k = 0
    lower_degrees = np.concatenate([-np.ones((nodes, 1)), polynomials[:, : nodes - 1]], axis=1)
    primitives = (polynomials[:, 1:] - lower_degrees) / (2 * degree + 1)
    return (x + 1) / 2, weights / 2, primitives @ coefficients / 2  # from [-1, 1] to [0, 1]


def _constants(precision: _Precision, dtype) -> tuple[Array, Array, Array]:
    """Return the nodes, weights and integrating matrix that `_rule` has for a precision, as arrays of ``dtype``."""
    x, weights, cumulate = _rule(precision.nodes)
    return jnp.asarray(x, dtype), jnp.asarray(weights, dtype), jnp.asarray(cumulate, dtype)


def _apply(weights, values):
    """Return the sum of ``values [nodes ...]`` by ``weights [nodes]``, or several sums by weights ``[sums nodes]``."""
    # By default accelerators multiply in less than full precision.
    return jnp.matmul(weights, values, precision=lax.Precision.HIGHEST)


def binomial_lead(leaf: Leaf, lead: Float[Array, "..."]) -> Array:
    """Return 1 - c with the sign of ``lead``, w⁺ - w⁻, where c is the overlap area of Bin(N, p̂) and its mirror."""
    # A(z) with J raised by one, so that small leaves have no pole at z = 1. By parts it is
    # γ(J) [(2J+1) ∫ (1-u²)^J du - z (1-z²)^J].
    precision = _precision(lead.dtype)
    x, weights, _ = _constants(precision, lead.dtype)
    j = (leaf.total + leaf.odd) / 2
    t = safe_divide(lead, leaf.total)
    # Beyond some standard deviations nothing is left to integrate. Nodes spread over all of [0, 1] would miss the peak.
    limit = precision.reach / jnp.sqrt(jnp.maximum(2 * j, 1.0))  # at 1 it is beyond any t, and has a finite slope
    end = jnp.clip(t, -limit, limit)
    u = end * x[:, None]
    integral = end * _apply(weights, jnp.exp(j * jnp.log1p(-u * u)))
    boundary = t * jnp.exp(leaf.log_even_power(j))
    area = jnp.exp(log_central(j)) * ((2 * j + 1) * integral - boundary)
    return jnp.clip(area, -1.0, 1.0)


class _QuadratureNodes(NamedTuple):
    """The points z = 2θ - 1 in (0, 1), ``[nodes leaves]``, at which functions of θ are evaluated to integrate them."""

    z: Array
    rest: Array
    """1 - z."""
    scale: Array
    """dz/dx, where x are the nodes on [0, 1]."""

    @property
    def log_ratio_and_product(self) -> tuple[Array, Array]:
        """The pair log((1+z)/(1-z)) and log(1-z²), both to relative precision."""
        is_near = self.z < 0.5
        inner = jnp.where(is_near, self.z, 0.0)
        rest = jnp.where(is_near, 0.5, self.rest)
        above = jnp.log1p(self.z)  # log(1+z)
        below = jnp.where(is_near, jnp.log1p(-inner), jnp.log(rest))  # log(1-z)
        return above - below, jnp.where(is_near, jnp.log1p(-inner * inner), above + below)


def _nodes(leaf: Leaf, precision: _Precision, x: Array) -> _QuadratureNodes:
    """Return the quadrature nodes of each leaf ``[nodes leaves]``, made of the nodes ``x [nodes]`` on [0, 1].

    They begin at z = 0, and end beyond the peak of the leaf's posterior, at z = 1 at most.
    """
    # At the mode t, the deviation of z = 2θ - 1 is at most that of an even leaf, 1/√(N + 3).
    end = safe_divide(leaf.lead, leaf.total) + precision.reach / jnp.sqrt(leaf.total + 3)
    # If nodes reach up to z = 1, fractional counts make powers such as (1-z)^0.3 there: 1-z = (1-x)³ smooths them.
    reaches_one = end >= 1
    x = x[:, None]
    linear = end * x
    rest = jnp.where(reaches_one, (1 - x) ** 3, 1 - linear)
    z = jnp.where(reaches_one, x * (3 - x * (3 - x)), linear)
    return _QuadratureNodes(z, rest, jnp.where(reaches_one, 3 * (1 - x) ** 2, end))


def _beta_difference(leaf: Leaf, lead, nodes: _QuadratureNodes):
    """Return the integrand β(z) - β(-z) of each leaf at its nodes, times dz/dx: ``[nodes leaves]``.

    β is the density of z = 2θ - 1, where θ has the distribution Beta(w⁺+1, w⁻+1); ``lead`` is w⁺ - w⁻.
    """
    t = safe_divide(leaf.lead, leaf.total)
    log_mode = jnp.log((leaf.total + 1) / 2) + log_mode_mass(leaf)
    density = jnp.exp(log_mode + log_likelihood(nodes.z, nodes.rest, nodes.z - t, leaf.more, leaf.fewer))
    # As (β(z) + β(-z)) tanh(lead · artanh z): the difference of the two densities would cancel near an even leaf. Both
    # are equal since β(z)/β(-z) = ((1+z)/(1-z))^lead = exp(2 lead artanh z).
    artanh_z = nodes.log_ratio_and_product[0] / 2
    return nodes.scale * density * (1 + jnp.exp(-2 * leaf.lead * artanh_z)) * jnp.tanh(lead * artanh_z)


def _within_one(value, leaf: Leaf, lead, precision: _Precision):
    """Return ``value``, 1 - c with the sign of ``lead``, clipped to [-1, 1]; ±1 where the overlap c rounds to 0."""
    is_certain = leaf.lead * safe_divide(leaf.lead, leaf.total) > precision.certain**2
    return jnp.where(is_certain, jnp.sign(lead), jnp.clip(value, -1.0, 1.0))


def beta_lead(leaf: Leaf, lead: Float[Array, "..."]) -> Array:
    """Return what `binomial_lead` does, for the overlap area of Beta(w⁺+1, w⁻+1) and its mirror image."""
    precision = _precision(lead.dtype)
    x, weights, _ = _constants(precision, lead.dtype)
    value = _apply(weights, _beta_difference(leaf, lead, _nodes(leaf, precision, x)))
    return _within_one(value, leaf, lead, precision)


def beta_binomial_lead(leaf: Leaf, lead: Float[Array, "..."]) -> Array:
    """Return what `binomial_lead` does, for the overlap area of BetaBin(N, w⁺+1, w⁻+1) and its mirror image."""
    precision = _precision(lead.dtype)
    x, weights, cumulate = _constants(precision, lead.dtype)
    nodes = _nodes(leaf, precision, x)
    j = (leaf.total + leaf.odd) / 2
    # A(z) of each node, with J raised by one as in `binomial_lead`.
    power = jnp.exp(j * nodes.log_ratio_and_product[1])
    binomial_areas = jnp.exp(log_central(j)) * ((2 * j + 1) * _apply(cumulate, nodes.scale * power) - nodes.z * power)
    binomial_areas = jnp.maximum(binomial_areas, 0.0)  # no rounding error may turn a sign
    value = _apply(weights, _beta_difference(leaf, lead, nodes) * binomial_areas)
    return _within_one(value, leaf, lead, precision)


def in_blocks(function, leaf: Leaf, lead: Float[Array, "..."]) -> Array:
    """Return ``function(leaf, lead)``, computed for `_BLOCK` leaves at a time, so that nodes take little memory."""
    flat = jax.tree.map(jnp.ravel, (leaf, lead))
    if lead.size <= _BLOCK:
        return function(*flat).reshape(lead.shape)
    n_blocks = ceil_div(lead.size, _BLOCK)

    def in_rows(array):
        """Return an array ``[leaves]``, padded to whole blocks, as ``[blocks leaves]``."""
        padded = jnp.pad(array, (0, n_blocks * _BLOCK - array.size), constant_values=1)  # harmless counts
        return padded.reshape(n_blocks, _BLOCK)

    values = lax.map(lambda block: function(*block), jax.tree.map(in_rows, flat))
    return values.ravel()[: lead.size].reshape(lead.shape)


_AREAS = {"binomial": binomial_lead, "beta_binomial": beta_binomial_lead, "beta": beta_lead}
_HEIGHTS = {"binomial": binomial_height, "beta_binomial": beta_binomial_height, "beta": beta_height}
