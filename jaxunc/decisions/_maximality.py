"""The set of classes that a single leaf leaves open."""

import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from jaxunc._numerics import jit
from jaxunc.intervals import dominance, undominated


def maximality(
    counts: Shaped[Array | np.ndarray, "... classes"], s: float | int | Float[Array | np.ndarray, "..."]
) -> Bool[Array, "... classes"]:
    r"""The classes of a leaf to which no other is preferred in the imprecise Dirichlet model.

    .. math:: c' \text{ is rejected} \iff \max_c n_c - n_{c'} \ge s

    Parameters
    ----------
    counts
        Class counts of leaves ``[... classes]``, ≥ 0, real or integer, two classes or more.
    s
        The strength of the model, > 0.

    Returns
    -------
    Array
        Booleans ``[... classes]``: the classes that remain, never none.

    Raises
    ------
    ValueError
        If the last axis holds fewer than two classes. Outside a trace also if a count is negative or not finite, or s
        is not positive and finite.

    Warns
    -----
    FractionsWarning
        If all rows add to 1 and not all are integers.

    Notes
    -----
    Exact for integer counts. For this model the set is that of interval dominance, but for equality, which here
    rejects. Empty leaf: all classes. Gradient: none.

    References
    ----------
    Walley 1991, section 3.9; Zhang, Quost and Masson 2021.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(maximality(jnp.array([[5, 4, 1], [0, 0, 0]]), s=2))
    [[ True  True False]
     [ True  True  True]]
    """
    return _maximal(dominance(counts, s))


_maximal = jit(undominated)
