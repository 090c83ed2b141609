"""Readings of mass functions on the sets ∅, {0}, …, {C-1}, Ω, in this order along the last axis, and their checks."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxunc._checks import check_numbers, check_within, is_concrete
from jaxunc._numerics import copy_in, float_dtype, jit, safe_divide, same_rank


def pignistic(masses: Float[Array, "... sets"]) -> Float[Array, "... classes"]:
    r"""Probabilities that share the mass of ignorance equally among the classes.

    .. math:: BetP(c) = \frac{m(\{c\}) + m(\Omega)/C}{1 - m(\emptyset)}

    Parameters
    ----------
    masses
        Masses ≥ 0 that add to 1, last axis [∅, {0}, …, {C-1}, Ω]: four entries for two classes.

    Returns
    -------
    Array
        Probabilities of the classes.

    Raises
    ------
    ValueError
        If there are fewer than four sets or (outside a trace) masses are negative or do not add to 1.

    Notes
    -----
    Total conflict, m(∅) = 1: uniform, and gradient 0 there; elsewhere smooth. 1 - m(∅) is added up from the other
    masses, which keeps its digits near total conflict.

    References
    ----------
    Smets and Kennes 1994.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(pignistic(jnp.array([[0.0, 0.0, 0.75, 0.25], [0.5, 0.25, 0.125, 0.125], [1.0, 0.0, 0.0, 0.0]])))
    [[0.125 0.875]
     [0.625 0.375]
     [0.5   0.5  ]]
    """
    return _pignistic(checked(masses))


@jit
def _pignistic(masses):
    n_classes = masses.shape[-1] - 2
    agreed = masses[..., 1:].sum(axis=-1, keepdims=True)
    return safe_divide(masses[..., 1:-1] + masses[..., -1:] / n_classes, agreed, 1 / n_classes)


def commonality(masses: Float[Array, "... sets"]) -> Float[Array, "... supersets"]:
    r"""Mass of the sets that contain a set: [q({0}), …, q({C-1}), q(Ω)] along the last axis.

    .. math:: q(A) = \sum_{B \supseteq A} m(B): \qquad q(\{c\}) = m(\{c\}) + m(\Omega), \quad q(\Omega) = m(\Omega)

    q(∅) is always 1 and left out. Sets of two classes up to C - 1 have q(Ω) as well. Commonalities of an unnormalised
    conjunctive combination are the products of the commonalities. Gradient: linear. Raises as `pignistic` does.

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


def discount(masses: Float[Array, "... sets"], reliability: Float[Array, "..."] | float) -> Float[Array, "... sets"]:
    r"""Move mass to ignorance, as far as the source is unreliable (classical discounting).

    .. math:: m^r(A) = r\, m(A) \;\; (A \ne \Omega), \qquad m^r(\Omega) = 1 - r + r\, m(\Omega)

    The reliability r, in [0, 1], is a number, or an array that broadcasts against all axes of ``masses`` but the last,
    such as ``[trees]``. r = 1 changes nothing; r = 0 leaves ignorance, m(Ω) = 1. Discounting twice multiplies the
    reliabilities. It also discounts m(∅). Gradient: linear in the masses and in r. Raises as `pignistic` does, for a
    reliability outside [0, 1] (outside a trace) and for shapes that do not broadcast.

    References
    ----------
    Shafer 1976, chapter 11; Smets 1993.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(discount(jnp.array([0.0, 0.0, 0.75, 0.25]), 0.5))
    [0.    0.    0.375 0.625]
    """
    masses = checked(masses)
    check_within("reliability", reliability, "[0, 1]", ": the probability that the source is right", shape=None)
    reliability = copy_in(reliability, masses.dtype)
    try:
        np.broadcast_shapes(masses.shape[:-1], reliability.shape)
    except ValueError:
        raise ValueError(
            f"reliability has shape {reliability.shape}, which does not broadcast against {masses.shape[:-1]}, "
            "the shape of masses without the sets. Pass one number, or one per tree."
        ) from None
    return _discount(*same_rank(masses, reliability[..., None]))


@jit
def _discount(masses, reliability):
    omega = (1 - reliability) + reliability * masses[..., -1:]
    return jnp.concatenate([reliability * masses[..., :-1], omega], axis=-1)


def jousselme_distance(
    masses: Float[Array | np.ndarray, "... sets"], other: Float[Array | np.ndarray, "... sets"]
) -> Float[Array, "..."]:
    r"""Distance between two mass functions in [0, 1], where sets that overlap are near each other.

    .. math:: d(m, m') = \sqrt{\tfrac12 (m - m')^\top D\, (m - m')}, \qquad D_{AB} = \frac{|A \cap B|}{|A \cup B|}

    D is 1 between ∅ and ∅, 0 between ∅ and any other set, and 1/C between a class and Ω. With δ = m - m' the square is
    computed as a sum of squares, so that nothing cancels:

    .. math:: \delta^\top D\, \delta = \delta_\emptyset^2 + \sum_c (\delta_c + \delta_\Omega/C)^2 +
              (1 - 1/C)\, \delta_\Omega^2

    Leading axes broadcast, such as ``[instances sets]`` against one ``[sets]``. It is a metric: 0 for equal masses
    alone. Two certain and different classes: 1. Ignorance and a certain class: √(1 - 1/C). Masses on the classes alone
    (probabilities): √(Σ_c (p_c - q_c)²/2).

    For two classes and m(∅) = 0 the square of the distance to the class that came is (BetP(1) - y)² + m(Ω)²/4, with
    the pignistic BetP. Its mean is the Brier score of BetP with a penalty on ignorance: as a score it never prefers a
    belief to its own pignistic probabilities.

    Gradient: D δ/(2d) along ``masses``; where the masses are equal, which is a kink, 0. Raises as `pignistic` does, and
    if the sets differ in number or the leading axes do not broadcast.

    References
    ----------
    Jousselme, Grenier and Bossé 2001; Jousselme and Maupin 2012.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> certain = jnp.array([0.0, 0.0, 1.0, 0.0])
    >>> said = jnp.array([[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.25, 0.75, 0.0]])
    >>> print(jousselme_distance(said, certain).round(4))
    [0.     1.     0.7071 0.25  ]
    """
    masses, other = checked(masses), checked(other, name="other")
    if masses.shape[-1] != other.shape[-1]:
        raise ValueError(
            f"masses has {masses.shape[-1]} sets, but other has {other.shape[-1]}; both must be masses on the same "
            "sets [empty, singletons, Ω]."
        )
    try:
        np.broadcast_shapes(masses.shape, other.shape)
    except ValueError:
        raise ValueError(
            f"other has shape {other.shape}, which does not broadcast against {masses.shape}, the shape of masses. "
            "Pass one mass function, or one for each."
        ) from None
    return _distance(*same_rank(masses, other))


@jit
def _distance(masses, other):
    apart = masses - other
    n_classes = apart.shape[-1] - 2
    empty, omega = apart[..., 0], apart[..., -1]
    classes = apart[..., 1:-1] + apart[..., -1:] / n_classes
    squares = empty**2 + jnp.sum(classes**2, axis=-1) + (1 - 1 / n_classes) * omega**2
    # The slope of the root is infinite at 0: equal masses are kept away from it.
    here = squares > 0
    return jnp.where(here, jnp.sqrt(jnp.where(here, squares, 1.0) / 2), 0.0)


def checked(masses: Array | np.ndarray, *, trees: bool = False, name: str = "masses") -> Float[Array, "... sets"]:
    """Return the masses as floats; a ValueError if they are no masses, or (with ``trees``) lack an axis of trees."""
    check_numbers(name, masses)
    masses = copy_in(masses)
    expected = "[... trees sets]" if trees else "[... sets]"
    if masses.ndim < 1 + trees or masses.shape[-1] < 4:
        raise ValueError(
            f"{name} has shape {masses.shape}; expected {expected} with the sets empty, singletons, Ω "
            "(four for two classes)."
        )
    if trees and masses.shape[-2] == 0:
        raise ValueError(f"{name} has shape {masses.shape}: there is no tree to combine.")
    if is_concrete(masses):
        values = np.asarray(masses, dtype=float)
        # Masses that were computed may be below 0, or miss 1, by rounding.
        if not (values.min(initial=0) >= -1e-6 and np.allclose(values.sum(-1), 1, atol=1e-4)):
            raise ValueError(f"{name} must be >= 0 and add to 1 along the last axis.")
    return masses.astype(float_dtype(masses))


def not_negative(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return max(x, 0) with the gradient of x, for differences that are below zero by rounding only."""
    return x + lax.stop_gradient(jnp.maximum(x, 0) - x)
