"""Commonalities: the form of a mass function that the conjunctive rule multiplies."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxunc._numerics import jit

from ._masses import checked


def commonality(masses: Float[Array, "... sets"]) -> Float[Array, "... supersets"]:
    r"""Mass of the sets that contain a set, for the singletons and Ω.

    .. math:: q(A) = \sum_{B \supseteq A} m(B): \qquad q(\{c\}) = m(\{c\}) + m(\Omega), \quad q(\Omega) = m(\Omega)

    Parameters
    ----------
    masses
        Masses ≥ 0 that add to 1, last axis [∅, {0}, …, {C-1}, Ω]: four entries for two classes.

    Returns
    -------
    Array
        [q({0}), …, q({C-1}), q(Ω)] along the last axis, one entry less than the masses: q(∅) is always 1 and left out.

    Raises
    ------
    ValueError
        If there are fewer than four sets or (outside a trace) masses are negative or do not add to 1.

    Notes
    -----
    Sets of two classes up to C - 1 have q(Ω) as well. Commonalities of an unnormalised conjunctive combination are the
    products of the commonalities. Gradient: linear.

    References
    ----------
    Shafer 1976, chapter 2.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(commonality(jnp.array([0.125, 0.5, 0.125, 0.25])))
    [0.75  0.375 0.25 ]
    """
    return _commonality(checked(masses))


@jit
def _commonality(masses):
    return jnp.concatenate([masses[..., 1:-1] + masses[..., -1:], masses[..., -1:]], axis=-1)
