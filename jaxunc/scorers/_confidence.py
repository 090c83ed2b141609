"""Confidence bounds: how far a leaf's distribution stands apart from its mirror image."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from jaxunc._checks import check_bool, check_one_of, check_two_classes, warn_of_fractions
from jaxunc._numerics import checked_counts, float_dtype, jit

from ._areas import beta_binomial_lead, beta_lead, binomial_lead, in_blocks
from ._declaration import scorer
from ._differences import has_odd_total, lead
from ._heights import Leaf, beta_binomial_height, beta_height, binomial_height
from ._likelihood import count_or_nothing

FAMILIES = ("binomial", "beta_binomial", "beta")
STATISTICS = ("area", "height", "normalized_height")

_AREAS = {"binomial": binomial_lead, "beta_binomial": beta_binomial_lead, "beta": beta_lead}
_HEIGHTS = {"binomial": binomial_height, "beta_binomial": beta_binomial_height, "beta": beta_height}


def _one_minus_exp(x):
    """1 - exp(x); the derivative of expm1 would be 0 where exp(x) is small."""
    near = x > -1
    return jnp.where(near, 0.0 - jnp.expm1(jnp.where(near, x, 0.0)), 1 - jnp.exp(jnp.where(near, -1.0, x)))


@jit(static_argnames=("family", "statistic"))
def _confidence_bounds(counts, weighted, between, family, statistic):
    # The lead is taken before the counts are rounded to floats; half precision is lifted, since Stirling's
    # formula needs more digits.
    dtype = np.promote_types(float_dtype(counts), np.float32)
    signed_lead = lead(counts).astype(dtype)
    negative, positive = counts[..., 0].astype(dtype), counts[..., 1].astype(dtype)
    # An empty leaf gets harmless counts here and the score 0 at the end: its logarithms would give NaN, and NaN
    # gradients even where the value is not chosen.
    empty = (negative == 0) & (positive == 0)
    negative, positive = jnp.where(empty, 0.5, negative), jnp.where(empty, 0.5, positive)
    total = negative + positive
    leaf = Leaf(
        more=jnp.maximum(negative, positive),
        fewer=count_or_nothing(jnp.minimum(negative, positive), total),
        lead=jnp.abs(signed_lead),
        odd=jnp.where(has_odd_total(counts) & between, 1.0, 0.0).astype(dtype),
    )
    share = signed_lead / total
    if statistic == "area":
        signed = in_blocks(_AREAS[family], leaf, signed_lead)
        score = jnp.where(weighted, jnp.abs(share) / 2, 1.0) * signed
    else:
        normalized = statistic == "normalized_height"
        apart = _one_minus_exp(_HEIGHTS[family](leaf, normalized))
        apart = jnp.where((apart > 0) | (not normalized), apart, 0.0)  # no rounding error may turn a sign
        score = jnp.where(weighted, share / 2, jnp.sign(signed_lead)) * apart
    return jnp.where(empty, 0.0, score).astype(float_dtype(counts))


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

    with f the mass function of BetaBin(N, w⁺+1, w⁻+1), whose maximum is f(w⁺). That is the paper's score and the
    default; the settings give the eighteen variants of its published code.

    Parameters
    ----------
    counts
        Class counts [negative, positive] of leaves, ≥ 0, integer or real.
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
