"""The imprecise Dirichlet model."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Shaped

from jaxunc._checks import check_class_axis, check_counts, warn_of_fractions
from jaxunc._numerics import as_counts, float_dtype, jit, same_rank, sum_in_order

from ._interval import Interval
from ._strength import checked_strength


def idm_interval(
    counts: Shaped[Array | np.ndarray, "... classes"], s: float | int | Float[Array | np.ndarray, "..."]
) -> Interval:
    r"""Bounds of each class's probability in the imprecise Dirichlet model.

    .. math:: \left[\frac{n_c}{N + s},\; \frac{n_c + s}{N + s}\right], \qquad N = \sum_c n_c

    What the probability can be when s instances of unknown class are added: all of the others (lower), or all of c
    (upper). Every interval of a leaf has the width s/(N + s), its epistemic uncertainty.

    Parameters
    ----------
    counts
        Class counts of leaves ``[... classes]``, ≥ 0, real or integer, two classes or more.
    s
        The strength, > 0; a number, or ``[...]`` with one for each leaf.

    Returns
    -------
    Interval
        ``(lower, upper)``, each ``[... classes]``, in [0, 1].

    Raises
    ------
    ValueError
        If the last axis holds fewer than two classes. Outside a trace also if a count is negative or not finite, or s
        is not positive and finite.

    Warns
    -----
    FractionsWarning
        If all rows add to 1 and not all are integers: class frequencies, it seems, taken for counts.

    Notes
    -----
    Empty leaf: [0, 1]. A pure leaf's upper bound is 1 exactly. Counts of 10⁹ are exact to rounding.
    Gradient: that of the fractions, everywhere; ∂lower/∂n_c = (N + s - n_c)/(N + s)², and so on.

    References
    ----------
    Walley 1996; Zhang, Quost and Masson 2021, "IDM intervals".

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> lower, upper = idm_interval(jnp.array([[1, 2], [0, 0]]), s=1)
    >>> print(lower, upper)
    [[0.25 0.5 ]
     [0.   0.  ]] [[0.5  0.75]
     [1.   1.  ]]
    """
    counts = as_counts(counts)
    check_class_axis(counts)
    check_counts(counts)
    warn_of_fractions(counts)
    return _idm_interval(counts, checked_strength(s))


@jit
def _idm_interval(counts, s):
    counts = counts.astype(float_dtype(counts, s))
    counts, s = same_rank(counts, s[..., None].astype(counts.dtype))
    total = jnp.broadcast_to(sum_in_order(counts, keepdims=True) + s, counts.shape)
    # Materialised, or the compiler multiplies by its reciprocal, and (n + s)/(n + s) is no longer 1.
    total = lax.optimization_barrier(total)
    return Interval(counts / total, (counts + s) / total)
