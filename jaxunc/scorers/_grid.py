"""A leaf's likelihood and posterior on a grid of θ: degrees of support by their definition, and densities.

`grid_support_degrees` is the published form, to compare the exact one with (`jaxunc.scorers._plausibility`).
"""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Shaped

from jaxunc._checks import check_bool, check_integer, check_two_classes, warn_of_fractions
from jaxunc._numerics import checked_counts, float_dtype, jit

from ._frequencies import lead
from ._heights import Leaf, log_mode_mass
from ._likelihood import count_or_nothing, log_likelihood


def grid_support_degrees(
    counts: Shaped[Array | np.ndarray, "... 2"], *, grid_size: int = 1001, mle_node: bool = True
) -> Float[Array, "... 2"]:
    r"""Degrees of support of both classes, π(−) and π(+), as a maximum over a grid.

    .. math:: \pi_G(+) = \max_i \min\{L(\theta_i), 2\theta_i - 1\}, \qquad \theta_i = \frac{i}{G-1},\ i = 0, \dots, G-1,
              \quad \text{and } \theta = \hat p

    L is the likelihood divided by its maximum. The minimum rises up to where L falls below 2θ - 1, and falls from
    there. So the maximum is at one of the two nodes around that place, which bisection over the nodes finds.

    Parameters
    ----------
    counts
        Counts of class 0 (−) and class 1 (+) in leaves ``[... 2]``, ≥ 0, real or integer; p̂ is the share of class 1.
    grid_size
        G, the number of nodes, at least 2.
    mle_node
        Whether the relative frequency p̂ is a node too. Without it no node may see the peak of a large leaf's
        likelihood (from N ≈ G²), and the error is of order 1.

    Returns
    -------
    Array
        ``[... 2]``, degrees in [0, 1] of (−, +), at most the exact ones. With the added node they fall short by 2/(G-1)
        at most; without it, and with odd G, those of the class that is not ahead do.

    Raises
    ------
    ValueError
        If counts are negative or not finite, the last axis does not hold two classes, or the grid has fewer than two
        nodes.

    Notes
    -----
    Empty leaf: 1 and 1. The relative error of a small degree may be 100 %. Precision: as the exact ones; in float32 for
    counts up to 2²⁴. Cost: log₂ G likelihoods a leaf.

    Gradient: that of the selected node, ∂L/∂w⁺ = L log(θ/p̂) and ∂L/∂w⁻ = L log((1-θ)/(1-p̂)), large and finite at a
    count of zero. It is 0 where 2θ - 1 is the smaller, 2 ∂p̂ at the added node; 0 at an empty leaf.

    References
    ----------
    Busch et al. 2021, section 3.1.2.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(grid_support_degrees(jnp.array([0.0, 4.0]), grid_size=11))
    [0.0256 1.    ]
    """
    check_two_classes(counts, "grid_support_degrees")
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    check_integer("grid_size", grid_size, 2, ": a grid needs its ends θ = 0 and θ = 1")
    check_bool("mle_node", mle_node)
    intervals = int(grid_size) - 1
    halvings = (intervals // 2 + 1).bit_length()  # they leave bisection a single node
    # All arguments are traced, so that one program serves every grid.
    return _grid_degrees(counts, jnp.int32(intervals), halvings, bool(mle_node))


@jit
def _grid_degrees(counts, intervals, halvings, mle_node):
    """Return the degrees of `grid_support_degrees` for G = ``intervals`` + 1, by ``halvings`` steps of bisection."""
    negative, positive, leading, empty = _counts_of(counts)
    w = jnp.stack([negative, positive], -1)
    v = jnp.stack([positive, negative], -1)
    degrees = _degree(w, v, jnp.stack([-leading, leading], -1), intervals, halvings, mle_node)
    return jnp.where(empty[..., None], 1.0, degrees).astype(float_dtype(counts))


def _counts_of(counts):
    """Return the counts of class 0 and class 1 (1 in an empty leaf), the lead of class 1, and if a leaf is empty."""
    dtype = np.promote_types(float_dtype(counts), np.float32)
    leading = lead(counts).astype(dtype)  # before the counts: gradients are rounded by this order
    negative = counts[..., 0].astype(dtype)
    positive = counts[..., 1].astype(dtype)
    is_empty = (negative == 0) & (positive == 0)  # counts of 0 would make NaN in later steps
    return jnp.where(is_empty, 1.0, negative), jnp.where(is_empty, 1.0, positive), leading, is_empty


def _degree(w, v, leading, intervals, halvings, mle_node):
    """Return the degree of support π_G of a class: the largest min{L, 2θ - 1} over the nodes θ.

    ``w`` is the count of the class, ``v`` that of the other, and ``leading`` their exact difference w - v. The other
    arguments are those of `_grid_degrees`.
    """
    last_node = intervals // 2  # counted from θ = 1, the last node at which 2θ - 1 is not negative

    def support_at(k):
        """Return min{L, 2θ - 1} at the k-th node from θ = 1; 0 beyond the ends."""
        node = jnp.clip(k, 0, last_node)
        ramp = _quotient(intervals - 2 * node, intervals, v.dtype)
        log_l, _ = log_likelihood_at(node, intervals, w, v)
        return jnp.where(node == k, jnp.minimum(jnp.exp(log_l), ramp), 0.0)

    # The largest is at one of the two nodes between which L falls below the ramp 2θ - 1.
    right, left = map(support_at, _crossing(lax.stop_gradient(w), lax.stop_gradient(v), intervals, halvings))
    best_degree = jnp.where(right > left, right, left)  # not `maximum`, whose gradient at a tie would be of both nodes
    peak_degree = leading / (w + v)  # 2p - 1, as L is 1 there
    return jnp.where(mle_node & (peak_degree > best_degree), peak_degree, best_degree)


def _crossing(w, v, intervals, halvings) -> tuple[Int[Array, "..."], Int[Array, "..."]]:
    """Return the numbers of two neighbouring nodes, counted from θ = 1, between which L crosses the ramp 2θ - 1.

    At the first, with the larger θ, L is below the ramp; at the second it is not. Up to the peak of L, θ ≤ p, L counts
    as not below. If L is below at no node, the first number is -1. If it is below at all nodes with θ ≥ 1/2, the second
    is their number. L is that of a class with count ``w`` against ``v``; other arguments are those of `_grid_degrees`.
    """
    n_nodes = intervals // 2 + 1  # those with θ ≥ 1/2

    def halve(_, ends):
        """Return ``ends``, two numbers of nodes, with half the gap between them, unless they are neighbours."""
        right, left = ends
        # Invariant: at ``left``, the smaller θ, L is not below the ramp; at ``right`` it is. Both begin outside.
        k = (right + left) // 2
        log_l, up_to_peak = log_likelihood_at(k, intervals, w, v)
        log_ramp = jnp.log(_quotient(intervals - 2 * k, intervals, v.dtype))
        not_below = (k >= 0) & (up_to_peak | (log_l >= log_ramp))
        return jnp.where(not_below, right, k), jnp.where(not_below, k, left)

    ends = jnp.full(v.shape, -1, jnp.int32), jnp.full(v.shape, n_nodes, jnp.int32)
    return lax.fori_loop(0, halvings, halve, ends)


def beta_densities(counts: Shaped[Array | np.ndarray, "... 2"], *, grid_size: int = 101) -> Float[Array, "... grid"]:
    r"""Return the density of Beta(w⁺+1, w⁻+1), a posterior from a uniform prior, at θ_j = j/(G-1), j = 0 … G-1.

    .. math:: f(\theta) = (N+1) \binom{N}{w^+} \theta^{w^+} (1-\theta)^{w^-}

    The counts of a leaf are w⁻ of class 0 and w⁺ of class 1; N is their sum. The densities are ``[... grid]``, ≥ 0,
    with G = ``grid_size`` ≥ 2 nodes. They are all zero where the peak of a large leaf (N of about G² and more) falls
    between two nodes. Empty leaf: 1 everywhere. Gradient: of this form; finite, also where a count is zero. Raises a
    ValueError if counts are negative or not finite, or of other than two classes, or the grid has fewer than two nodes.

    References
    ----------
    Busch et al. 2021, published code (its aggregation of beta densities).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(beta_densities(jnp.array([1, 2]), grid_size=5).round(4))
    [0.     0.5625 1.5    1.6875 0.    ]
    """
    check_two_classes(counts, "beta_densities")
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    check_integer("grid_size", grid_size, 2, ": a grid needs its ends θ = 0 and θ = 1")
    return _beta_densities(counts, jnp.arange(int(grid_size))[::-1])


@jit
def _beta_densities(counts, from_one):
    """Return the densities of `beta_densities` for checked counts, at nodes ``from_one [grid]`` counted from θ = 1."""
    negative, positive, leading, empty = _counts_of(counts)
    fewer = count_or_nothing(jnp.minimum(negative, positive), negative + positive)
    leaf = Leaf(jnp.maximum(negative, positive), fewer, jnp.abs(leading), jnp.zeros_like(leading))
    # The density at the mode times the likelihood ratio to it: neither over- nor underflows, however large the leaf.
    at_mode = jnp.log(leaf.total + 1) + log_mode_mass(leaf)
    w = positive[..., None]
    v = negative[..., None]
    intervals = from_one.size - 1
    log_ratio, _ = log_likelihood_at(from_one, intervals, w, v)
    is_impossible = ((from_one == intervals) & (w > 0)) | ((from_one == 0) & (v > 0))
    density = jnp.exp(jnp.where(is_impossible, -jnp.inf, log_ratio + at_mode[..., None]))
    return jnp.where(empty[..., None], 1.0, density).astype(float_dtype(counts))


def log_likelihood_at(k, intervals, w, v):
    """Return log L at the node ``k`` from θ = 1 on, and whether θ ≤ p = w/(w+v) there.

    The grid has ``intervals`` + 1 nodes. ``w`` is the count of the class whose probability is θ, ``v`` of the other.
    """
    total = w + v
    v_high, v_low = _halves(v)
    n_high, n_low = _halves(total)
    node = k.astype(v.dtype)
    # z - z₀ = 2 (v/N - k/(G-1)), from products that are exact (in float32 for G ≤ 4097), however they are compiled.
    numerator = v_high * _as_float(intervals, v.dtype) - node * n_high
    numerator += v_low * _as_float(intervals, v.dtype) - node * n_low
    gap = 2 * numerator / _as_float(intervals, v.dtype) / total
    z = _quotient(intervals - 2 * k, intervals, v.dtype)
    rest = _quotient(2 * k, intervals, v.dtype)
    value = log_likelihood(z, rest, gap, count_or_nothing(w, total), count_or_nothing(v, total))
    return jnp.where((k == 0) & (v > 0), -jnp.inf, value), gap <= 0


def _halves(x):
    """Return two floats of half the precision that add up to the float ``x``, the larger one first."""
    integer_type = {4: jnp.int32, 8: jnp.int64}[x.dtype.itemsize]
    # Clears the lower half of the mantissa, so that products of two halves are exact.
    mask = jnp.asarray(-(1 << (jnp.finfo(x.dtype).nmant + 2) // 2), integer_type)
    high = lax.bitcast_convert_type(lax.bitcast_convert_type(x, integer_type) & mask, x.dtype)
    return high, x - high


def _as_float(intervals, dtype):
    """Return ``intervals``, a number of intervals, as a float array of ``dtype``; a Python int stays as it is."""
    return intervals if isinstance(intervals, int) else intervals.astype(dtype)


def _quotient(k, intervals, dtype):
    """Return the integers ``k`` divided by ``intervals``, as floats of ``dtype``."""
    return k.astype(dtype) / _as_float(intervals, dtype)
