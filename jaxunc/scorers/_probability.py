"""Relative frequency: the score that nearly every forest answers with."""

import numpy as np
from jaxtyping import Array, Shaped

from jaxunc._numerics import checked_counts, float_dtype, safe_divide, shares_of, sum_in_order

from ._declaration import scorer
from ._differences import lead


@scorer(width=1.0)
def probability(counts: Shaped[Array | np.ndarray, "... classes"]) -> Array:
    r"""Relative frequency, centred (score p_prob).

    .. math:: p_{prob} = \frac{w^+}{w^+ + w^-} - \frac12 = \frac{w^+ - w^-}{2N},
              \qquad C > 2:\; \frac{w_c}{N} - \frac1C

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0, real or integer; the last axis is [negative, positive], or more classes.

    Returns
    -------
    Array
        Binary: scores ``[...]`` in [-1/2, 1/2], positive for class 1. More classes: ``[... classes]``.

    Raises
    ------
    ValueError
        If counts are negative or not finite, or the last axis holds fewer than two classes.

    Notes
    -----
    Empty leaf: 0. The difference of integer counts is taken before rounding, so (10⁹ + 1, 10⁹) is no tie in
    float32. Gradient: ∂/∂w⁺ = w⁻/N², ∂/∂w⁻ = -w⁺/N²; 0 at an empty leaf.

    References
    ----------
    Busch et al. 2021, section 3.1.1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(probability(jnp.array([[1.0, 3.0], [0.0, 0.0]])))
    [0.25 0.  ]
    """
    counts = checked_counts(counts)
    dtype = float_dtype(counts)
    if counts.shape[-1] == 2:
        return safe_divide(lead(counts), 2 * sum_in_order(counts.astype(dtype)))
    return shares_of(counts.astype(dtype)) - 1 / counts.shape[-1]
