"""The posterior density of a leaf's probability on a grid: Beta(w⁺+1, w⁻+1), from a uniform prior."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from jaxunc._checks import check_integer, check_two_classes, warn_of_fractions
from jaxunc._numerics import checked_counts, float_dtype, jit

from ._differences import lead
from ._grid import log_likelihood_at
from ._heights import Leaf, log_mode_mass
from ._likelihood import count_or_nothing


def beta_densities(counts: Shaped[Array | np.ndarray, "... 2"], *, grid_size: int = 101) -> Float[Array, "... grid"]:
    r"""The density of Beta(w⁺+1, w⁻+1) at θ_j = j/(G-1), j = 0 … G-1.

    .. math:: f(\theta) = (N+1) \binom{N}{w^+} \theta^{w^+} (1-\theta)^{w^-}

    Parameters
    ----------
    counts
        Class counts [negative, positive] of leaves, ≥ 0, real or integer.
    grid_size
        G, at least 2.

    Returns
    -------
    Array
        ``[... grid]``, ≥ 0. All zero where a large leaf (N of about G² and more) falls between two nodes.

    Raises
    ------
    ValueError
        If counts are negative or not finite, the last axis does not hold two classes, or the grid has fewer than two
        nodes.

    Notes
    -----
    Empty leaf: 1 everywhere. From the normalised likelihood and the mass at the mode, so that no power is formed.
    Gradient: of this form; finite, also where a count is zero.

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
    dtype = np.promote_types(float_dtype(counts), np.float32)
    leading = lead(counts).astype(dtype)
    negative, positive = counts[..., 0].astype(dtype), counts[..., 1].astype(dtype)
    empty = (negative == 0) & (positive == 0)
    negative, positive = jnp.where(empty, 1.0, negative), jnp.where(empty, 1.0, positive)
    fewer = count_or_nothing(jnp.minimum(negative, positive), negative + positive)
    leaf = Leaf(jnp.maximum(negative, positive), fewer, jnp.abs(leading), jnp.zeros_like(leading))
    # The density at the mode times the likelihood ratio to it: neither over- nor underflows, however large the leaf.
    at_mode = jnp.log(leaf.total + 1) + log_mode_mass(leaf)
    w, v, intervals = positive[..., None], negative[..., None], from_one.size - 1
    log_ratio, _ = log_likelihood_at(from_one, intervals, w, v)
    impossible = ((from_one == intervals) & (w > 0)) | ((from_one == 0) & (v > 0))
    density = jnp.exp(jnp.where(impossible, -jnp.inf, log_ratio + at_mode[..., None]))
    return jnp.where(empty[..., None], 1.0, density).astype(float_dtype(counts))
