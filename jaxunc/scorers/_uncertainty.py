"""Readings of plausibility besides the score: uncertainty, preference and the mass function of belief."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from ._plausibility import support


class LeafUncertainty(NamedTuple):
    """The doubt of one leaf in two parts: what more instances could remove, and what they could not.

    (`jaxunc.combiners.Uncertainty` is what forests answer with, instance by instance, with the total.)
    """

    epistemic: Float[Array, "..."]
    """u_e: both classes are plausible, for want of instances."""
    aleatoric: Float[Array, "..."]
    """u_a: neither class is plausible, since the leaf is mixed."""


def uncertainty(counts: Num[Array, "... 2"], prior: Any = 0.5) -> LeafUncertainty:
    r"""Epistemic and aleatoric uncertainty of leaves.

    .. math:: u_e = \min\{\pi(+), \pi(-)\}, \qquad u_a = 1 - \max\{\pi(+), \pi(-)\}

    Parameters
    ----------
    counts
        Class counts [negative, positive] of leaves, ≥ 0, real or integer.
    prior
        The probability of class 1 (or [negative, positive]) from which support counts: see `plausibility`.

    Returns
    -------
    LeafUncertainty
        ``(epistemic, aleatoric)``, each ``[...]`` in [0, 1]; their sum is 1 - \|π(+) - π(−)\|.

    Raises
    ------
    ValueError
        If the last axis does not hold two classes, or the prior is not between 0 and 1.

    Notes
    -----
    Empty leaf: (1, 0). A pure leaf has no aleatoric uncertainty. Small values of either keep their relative precision
    (down to the smallest float). Gradient: that of the degrees, by the implicit function theorem (`plausibility`); at
    ties, where min and max have a kink, the mean of both sides; 0 at an empty leaf.

    References
    ----------
    Busch et al. 2021, section 3.1.2; Shaker and Hüllermeier 2020; Senge et al. 2014.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> epistemic, aleatoric = uncertainty(jnp.array([[0.0, 1.0], [5.0, 5.0], [0.0, 0.0]]))
    >>> print(np.array([epistemic, aleatoric]).round(2))
    [[0.33 0.41 1.  ]
     [0.   0.59 0.  ]]
    """
    degrees = support(counts, prior).log_degrees
    return LeafUncertainty(jnp.exp(jnp.min(degrees, axis=-1)), 0.0 - jnp.expm1(jnp.max(degrees, axis=-1)))


def degrees_of_preference(counts: Num[Array, "... 2"], prior: Any = 0.5) -> Float[Array, "... 2"]:
    r"""Degrees of preference of both classes, (s_−, s_+): the uncertainty left over goes to the more plausible one.

    .. math:: s_\pm = \max\{\pm (\pi(+) - \pi(-)), 0\} = 1 - (u_a + u_e) \text{ for the class ahead}

    Parameters
    ----------
    counts
        Class counts [negative, positive] of leaves, ≥ 0, real or integer.
    prior
        The probability of class 1 (or [negative, positive]) from which support counts: see `plausibility`.

    Returns
    -------
    Array
        ``[... 2]`` in [0, 1], at least one of them 0; their difference is the score `plausibility`.

    Raises
    ------
    ValueError
        If the last axis does not hold two classes, or the prior is not between 0 and 1.

    Notes
    -----
    Empty leaf and ties: 0 and 0. Gradient: that of the score for the class ahead, 0 for the other; half of both at
    a tie.

    References
    ----------
    Busch et al. 2021, section 3.1.2.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(degrees_of_preference(jnp.array([[0.0, 1.0], [2.0, 2.0]])).round(4))
    [[0.     0.6667]
     [0.     0.    ]]
    """
    preference = support(counts, prior).preference
    return jnp.stack([jnp.maximum(-preference, 0.0), jnp.maximum(preference, 0.0)], axis=-1)


def mass(counts: Num[Array, "... 2"], prior: Any = 0.5) -> Float[Array, "... 4"]:
    r"""The mass function of a leaf on ∅, {−}, {+} and Ω: what it says in the language of belief functions.

    .. math:: m(\emptyset) = 0, \quad m(\{\pm\}) = s_\pm, \quad m(\Omega) = u_a + u_e

    Parameters
    ----------
    counts
        Class counts [negative, positive] of leaves, ≥ 0, real or integer.
    prior
        The probability of class 1 (or [negative, positive]) from which support counts: see `plausibility`.

    Returns
    -------
    Array
        ``[... 4]``, non-negative, adding to 1: a simple support function, as `jaxunc.belief` takes it.

    Raises
    ------
    ValueError
        If the last axis does not hold two classes, or the prior is not between 0 and 1.

    Notes
    -----
    Empty leaf and ties: all mass on Ω. The ignorance m(Ω) keeps its relative precision where it is small (`support` has
    its logarithm). Gradient: see `degrees_of_preference`; that of m(Ω) is 0 at a tie, where the masses so add to 1 too.

    References
    ----------
    Busch et al. 2021, section 4.2.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(mass(jnp.array([0.0, 1.0])).round(4))
    [0.     0.     0.6667 0.3333]
    """
    found = support(counts, prior)
    against, favour = jnp.maximum(-found.preference, 0.0), jnp.maximum(found.preference, 0.0)
    return jnp.stack([jnp.zeros_like(favour), against, favour, jnp.exp(found.log_ignorance)], axis=-1)
