"""Preferences of a leaf that hold whatever the s instances may be that the model imagines."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Num, Shaped

from jaxunc._checks import check_class_axis, check_counts, warn_of_fractions
from jaxunc._numerics import as_counts, float_dtype, jit, same_rank, two_sum

from ._strength import checked_strength


def dominance(
    counts: Shaped[Array | np.ndarray, "... classes"], s: float | int | Float[Array | np.ndarray, "..."]
) -> Bool[Array, "... classes classes"]:
    r"""Return whether class c is preferred to class c' under every distribution of the imprecise Dirichlet model.

    .. math:: c \succ c' \iff n_c - n_{c'} \ge s

    For this model dominance of intervals and dominance under every single distribution (maximality) are the same. With
    equality, c is at least as probable as c' in the worst case.

    Parameters
    ----------
    counts
        Class counts of leaves ``[... classes]``, ≥ 0, real or integer, two classes or more.
    s
        The strength, > 0; a number, or ``[...]``.

    Returns
    -------
    Array
        ``[... classes classes]``, entry (c, c') for c over c'; never both (c, c') and (c', c).

    Raises
    ------
    ValueError
        As `idm_interval` does.

    Warns
    -----
    FractionsWarning
        As `idm_interval` does.

    Notes
    -----
    The decision is made on the counts themselves, without division. Integers are compared exactly. Fractions, and
    integers that do not fit 32 bits unless JAX has 64, are compared as the floats that they are. Empty leaf: no
    preference. Gradient: none.

    References
    ----------
    Zhang, Quost and Masson 2021; Walley 1991 (maximality).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(dominance(jnp.array([4, 1, 2]), s=2))
    [[False  True  True]
     [False False False]
     [False False False]]
    """
    counts = as_counts(counts)
    check_class_axis(counts)
    check_counts(counts)
    warn_of_fractions(counts)
    return _dominance(counts, checked_strength(s))


@jit
def _dominance(counts, s):
    own, other, s = same_rank(counts[..., :, None], counts[..., None, :], s[..., None, None])
    if not jnp.issubdtype(counts.dtype, jnp.integer):
        # The exact difference, as two floats: rounded, a difference just below s could reach it.
        high, low = two_sum(own, -other)
        return (high > s) | ((high == s) & (low >= 0))
    # A whole number is at least s if it is at least s rounded up; beyond the largest count nothing is.
    fits = jnp.ceil(s) < 2.0 ** (jnp.iinfo(counts.dtype).bits - (counts.dtype.kind == "i"))
    least = jnp.where(fits, jnp.ceil(s), 0).astype(counts.dtype)
    # Subtracted only where the result is not negative: unsigned counts would wrap around.
    more = own > other
    return fits & more & (jnp.where(more, own - other, 0) >= least)


def undominated(
    preferred: Bool[Array | np.ndarray, "... classes classes"],
) -> Bool[Array | np.ndarray, "... classes"]:
    """The classes c' to which no class c is preferred, entry (c, c'); all classes if there is no such class."""
    xp = np if isinstance(preferred, np.ndarray) else jnp
    kept = ~xp.any(preferred, axis=-2)
    return kept | ~xp.any(kept, axis=-1, keepdims=True)


def differences(counts: Num[Array, "... classes"]) -> Float[Array, "... classes classes"]:
    """Return n_c - n_c' for each pair, as floats: subtracted first, then rounded."""
    own, other = counts[..., :, None], counts[..., None, :]
    dtype = float_dtype(counts)
    # Unsigned counts have no negative differences.
    above, below = (jnp.maximum(a, b) - b for a, b in ((own, other), (other, own)))
    return above.astype(dtype) - below.astype(dtype)
