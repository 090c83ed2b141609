"""The conjunctive rule of combination, set by set."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int32

from jaxunc._checks import check_bool
from jaxunc._numerics import jit, safe_divide

from ._masses import checked, not_negative


def conjunctive_fold(masses: Float[Array, "... trees sets"], *, normalized: bool = False) -> Float[Array, "... sets"]:
    r"""Combine mass functions one after the other (`jax.lax.scan`), intersecting set by set.

    .. math:: (m_1 \cap m_2)(A) = \sum_{B \cap C = A} m_1(B)\, m_2(C)

    The sets are ∅, the singletons, and Ω, which are closed under intersection: ∅ absorbs, Ω is neutral, and two
    different singletons meet in ∅.

    Parameters
    ----------
    masses
        Masses ≥ 0 that add to 1, last axis [∅, {0}, …, {C-1}, Ω]: four entries for two classes.
    normalized
        Divide by 1 - m(∅), which makes it Dempster's rule (normalisation commutes with combination).

    Returns
    -------
    Array
        The combined masses ``[... sets]``.

    Raises
    ------
    ValueError
        If there is no tree, fewer than four sets, or (outside a trace) masses are negative or do not add to 1.

    Notes
    -----
    The reference that `DempsterRule`'s closed form is tested against; it accepts any masses on these sets. With many
    trees that disagree nearly all mass is on ∅: unnormalised, what is left rounds to 0. Normalised it does not: powers
    of two are taken out, class by class, as the scan goes, which rounds nothing.

    Total conflict, where trees exclude every class and Ω, leaves nothing to divide: m(∅) is 1 then, normalised or not,
    and 0 in all other cases. Differentiable in the masses. If normalised, a class that a tree excludes has a slope in
    that tree's masses as large as its return would be. That slope is at most about the root of the largest float.

    References
    ----------
    Busch et al. 2021, section 4, "Dempster"; Shafer 1976; Smets 1993.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(conjunctive_fold(jnp.array([[0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 0.75, 0.25]])))
    [0.375 0.125 0.375 0.125]
    """
    check_bool("normalized", normalized)
    return _conjunctive_fold(checked(masses, trees=True), bool(normalized))


@jit(static_argnames="normalized")
def _conjunctive_fold(masses, normalized):
    by_tree = jnp.moveaxis(masses, -2, 0)
    if normalized:
        start = _rescaled(_Class(by_tree[0, ..., 1:-1], _per_class(by_tree[0]), jnp.int32(0)))
        combined, _ = lax.scan(lambda a, b: (_combined_by_class(a, b), None), start, by_tree[1:])
        return _normalized(combined)
    combined, _ = lax.scan(lambda a, b: (_combined(a, b), None), by_tree[0], by_tree[1:])
    return combined


def _combined(a, b):
    """Combine two mass functions: every set of a with every set of b."""
    singles_a, singles_b, omega_a, omega_b = a[..., 1:-1], b[..., 1:-1], a[..., -1:], b[..., -1:]
    singles = singles_a * singles_b + singles_a * omega_b + omega_a * singles_b
    # All pairs of singletons less the equal ones: the pairs themselves would be classes² numbers.
    conflict = jnp.sum(singles_a, -1, keepdims=True) * jnp.sum(singles_b, -1, keepdims=True)
    conflict = not_negative(conflict - jnp.sum(singles_a * singles_b, -1, keepdims=True))
    empty = a[..., :1] + b[..., :1] - a[..., :1] * b[..., :1] + conflict
    return jnp.concatenate([empty, singles, omega_a * omega_b], axis=-1)


class _Class(NamedTuple):
    """Masses of a combination for each class, each scaled by a power of two of its own.

    The sum of both masses is the commonality of the class, a product over trees. With that scale it stays near 1. Where
    one mass rounds to 0 beside the other it does not matter to this class.
    """

    single: Float[Array, "... classes"]
    """m({c})."""
    omega: Float[Array, "... classes"]
    """m(Ω), the same for all classes but for the scale."""
    exponent: Int32[Array, "*classes"]
    """The binary logarithm of the scale."""


def _per_class(mass):
    """Place m(Ω) beside each of the singletons."""
    return jnp.broadcast_to(mass[..., -1:], mass[..., 1:-1].shape)


def _combined_by_class(a: _Class, b) -> _Class:
    single_b, omega_b = b[..., 1:-1], _per_class(b)
    single = a.single * (single_b + omega_b) + a.omega * single_b
    return _rescaled(_Class(single, a.omega * omega_b, a.exponent))


def _rescaled(a: _Class) -> _Class:
    """Rescale each class so that its commonality lies between 1/2 and 1; an excluded class stays as it is."""
    # Multiplying by a power of two rounds nothing, so the scale may change at every tree. It has no slope of its own.
    _, shift = jnp.frexp(lax.stop_gradient(a.single + a.omega))
    factor = jnp.ldexp(jnp.ones_like(a.single), -shift)
    return _Class(a.single * factor, a.omega * factor, jnp.broadcast_to(a.exponent + shift, shift.shape))


def _normalized(a: _Class):
    alive = lax.stop_gradient(a.single + a.omega) > 0
    least, room = jnp.iinfo(jnp.int32).min // 4, jnp.finfo(a.single.dtype).maxexp // 2
    exponent = jnp.where(alive, a.exponent, least)
    best = jnp.argmax(exponent, axis=-1, keepdims=True)
    # A class that is excluded keeps its slope; it may be steep.
    above = jnp.clip(a.exponent - jnp.take_along_axis(exponent, best, axis=-1), -4 * room, room)
    singles = a.single * jnp.ldexp(jnp.ones_like(a.single), above)
    # Ω by the class with the largest commonality: beside it Ω is told apart, or does not matter.
    rest = jnp.concatenate([singles, jnp.take_along_axis(a.omega, best, axis=-1)], axis=-1)
    agreed = jnp.sum(rest, axis=-1, keepdims=True)
    conflict = (agreed == 0).astype(rest.dtype)
    return jnp.concatenate([conflict, safe_divide(rest, agreed)], axis=-1)
