"""Combination of mass functions over trees, set by set: the reference forms of the combiners of belief functions.

`combine_masses` takes any masses on ∅, the singletons and Ω, in this order along the last axis. `pignistic` reads
masses as probabilities.
"""

from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int32

from jaxunc._checks import check_bool, check_numbers, check_one_of, is_concrete
from jaxunc._numerics import copy_in, float_dtype, jit, safe_divide

RULES = ("conjunctive", "cautious")


def combine_masses(
    masses: Float[Array, "... trees sets"],
    rule: Literal["conjunctive", "cautious"] = "conjunctive",
    *,
    normalized: bool = False,
) -> Float[Array, "... sets"]:
    r"""Combine mass functions one after the other (`jax.lax.scan`), by the conjunctive or the cautious rule.

    The conjunctive rule intersects set by set:

    .. math:: (m_1 \cap m_2)(A) = \sum_{B \cap C = A} m_1(B)\, m_2(C)

    The sets are ∅, the singletons, and Ω, which are closed under intersection: ∅ absorbs, Ω is neutral, and two
    different singletons meet in ∅.

    The cautious rule is for mass functions that may share evidence. A mass function with m(Ω) > 0 is, in exactly one
    way, the conjunctive combination of simple mass functions, one for each set A but Ω. That of A has m(A) = 1 - w(A)
    and m(Ω) = w(A), where w(A) is the canonical weight of A. On ∅, the singletons and Ω

    .. math:: w(\{c\}) = \frac{m(\Omega)}{m(\{c\}) + m(\Omega)}, \qquad
              w(\emptyset) = m(\Omega) \prod_c \frac{m(\{c\}) + m(\Omega)}{m(\Omega)}

    and all other weights are 1. The rule takes for every set the least of the trees' weights as w, and recombines:

    .. math:: m(\{c\}) = w(\emptyset)\,(1 - w(\{c\})) \prod_{j \ne c} w(\{j\}), \qquad
              m(\Omega) = w(\emptyset) \prod_c w(\{c\})

    Parameters
    ----------
    masses
        Masses ≥ 0 that add to 1, last axis [∅, {0}, …, {C-1}, Ω]: four entries for two classes.
    rule
        ``"conjunctive"`` or ``"cautious"``.
    normalized
        Whether to divide by 1 - m(∅) at the end, which turns the conjunctive rule into Dempster's.

    Returns
    -------
    Array
        The combined masses ``[... sets]``.

    Raises
    ------
    ValueError
        If the rule is unknown, there is no tree, or there are fewer than four sets. Outside a trace also if masses are
        negative or do not add to 1, or, for the cautious rule, are dogmatic (m(Ω) = 0), without canonical weights.

    Notes
    -----
    `DempsterRule` and `CautiousRule` are closed forms of it for the masses of leaves.

    Conjunctive: with many trees that disagree, nearly all mass is on ∅, and unnormalised masses of other sets round to
    0. Normalised masses do not, since powers of two are taken out for each class during the scan, without rounding. In
    total conflict, where the trees exclude every class and Ω, m(∅) is 1, normalised or not; in all other cases the
    normalised m(∅) is 0. Differentiable in the masses. If normalised, the slope of a class that a tree excludes, in
    that tree's masses, may be large: up to about the root of the largest float.

    Cautious: associative, commutative and idempotent (a mass function combined with itself stays as it is). w(∅) may
    exceed 1. Computed in logarithms, so the normalised form is never 0/0. Under a trace m(Ω) is raised to the smallest
    normal float. Gradient: through the tree with the smallest weight, shared on ties; finite where m(Ω) > 1e-19 (1e-154
    in float64).

    References
    ----------
    Busch et al. 2021, section 4, "Dempster" and "Cautious"; Shafer 1976; Smets 1993; Denœux 2008.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> masses = jnp.array([[0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 0.75, 0.25]])
    >>> print(combine_masses(masses))
    [0.375 0.125 0.375 0.125]
    >>> print(combine_masses(masses[jnp.array([0, 0, 1])], "cautious").round(6))
    [0.375 0.125 0.375 0.125]
    """
    check_one_of("rule", rule, RULES)
    check_bool("normalized", normalized)
    masses = checked(masses, trees=True)
    if rule == "conjunctive":
        return _conjunctive(masses, bool(normalized))
    if is_concrete(masses) and not np.all(np.asarray(masses)[..., -1] > 0):
        raise ValueError(
            "masses holds a dogmatic mass function, m(Ω) = 0, which has no canonical weights. "
            "Discount it a little first: multiply its masses by 0.99999, and add the rest of 1 to m(Ω)."
        )
    return _cautious(masses, bool(normalized))


@jit(static_argnames="normalized")
def _conjunctive(masses, normalized):
    """Return ``masses [... trees sets]`` combined over trees by the conjunctive rule, ``[... sets]``.

    If ``normalized``, it is divided by 1 - m(∅). Then each class has a scale of its own, so that none underflows.
    """
    by_tree = jnp.moveaxis(masses, -2, 0)
    if normalized:

        def combine_scaled(combination, mass):
            return _combined_by_class(combination, mass), None

        start = _rescaled(_Class(by_tree[0, ..., 1:-1], _per_class(by_tree[0]), jnp.int32(0)))
        combined, _ = lax.scan(combine_scaled, start, by_tree[1:])
        return _normalized(combined)

    def combine(combination, mass):
        return _combined(combination, mass), None

    combined, _ = lax.scan(combine, by_tree[0], by_tree[1:])
    return combined


def _combined(a, b):
    """Return the conjunctive combination of the mass functions ``a`` and ``b``, ``[... sets]``."""
    singles_a, omega_a = a[..., 1:-1], a[..., -1:]
    singles_b, omega_b = b[..., 1:-1], b[..., -1:]
    singles = singles_a * singles_b + singles_a * omega_b + omega_a * singles_b
    # The sum over pairs of different singletons, as all pairs minus equal ones: listed, they would be classes² numbers.
    conflict = jnp.sum(singles_a, -1, keepdims=True) * jnp.sum(singles_b, -1, keepdims=True)
    conflict = not_negative(conflict - jnp.sum(singles_a * singles_b, -1, keepdims=True))
    # Two sets meet in ∅ if one of them is ∅, or if they are different singletons.
    empty = a[..., :1] + b[..., :1] - a[..., :1] * b[..., :1] + conflict
    return jnp.concatenate([empty, singles, omega_a * omega_b], axis=-1)


class _Class(NamedTuple):
    """For each class c the masses m({c}) and m(Ω) of a combination, both divided by a power of two chosen for c.

    Their sum is the commonality of the class, a product over trees; the power of two keeps it near 1.
    """

    single: Float[Array, "... classes"]
    """m({c}), divided by the class's power of two."""
    omega: Float[Array, "... classes"]
    """m(Ω), which all classes share, divided by the class's power of two."""
    exponent: Int32[Array, "*classes"]
    """Exponent of the power of two: the masses are ``single`` and ``omega`` times 2 to this power."""


def _per_class(mass):
    """Return m(Ω) of the masses ``mass [... sets]``, repeated for each class: ``[... classes]``."""
    return jnp.broadcast_to(mass[..., -1:], mass[..., 1:-1].shape)


def _combined_by_class(a: _Class, b) -> _Class:
    """Return ``a``, the combination of some trees' masses, combined with one more mass function ``b [... sets]``."""
    single_b = b[..., 1:-1]
    omega_b = _per_class(b)
    single = a.single * (single_b + omega_b) + a.omega * single_b
    return _rescaled(_Class(single, a.omega * omega_b, a.exponent))


def _rescaled(a: _Class) -> _Class:
    """Return ``a`` with each class scaled so that its commonality, unless it is 0, lies between 1/2 and 1."""
    # Multiplying by a power of two rounds nothing, so the scale may change at every tree. It counts as constant.
    _, shift = jnp.frexp(lax.stop_gradient(a.single + a.omega))
    factor = jnp.ldexp(jnp.ones_like(a.single), -shift)
    return _Class(a.single * factor, a.omega * factor, jnp.broadcast_to(a.exponent + shift, shift.shape))


def _normalized(a: _Class):
    """Return the normalised masses ``[... sets]`` of a combination ``a``; m(∅) is 1 where every class is excluded."""
    is_possible = lax.stop_gradient(a.single + a.omega) > 0
    # A quarter of the smallest integer, so that differences of exponents do not overflow.
    lowest = jnp.iinfo(jnp.int32).min // 4
    reach = jnp.finfo(a.single.dtype).maxexp // 2  # half of the largest exponent of floats
    exponent = jnp.where(is_possible, a.exponent, lowest)
    best_class = jnp.argmax(exponent, axis=-1, keepdims=True)
    # All classes are brought to the scale of the best one. An excluded class keeps its slope, which may be steep: it
    # alone may lie above the best, and the upper bound keeps its factor finite. 2 to the lower bound is 0 anyway.
    offset = jnp.clip(a.exponent - jnp.take_along_axis(exponent, best_class, axis=-1), -4 * reach, reach)
    singles = a.single * jnp.ldexp(jnp.ones_like(a.single), offset)
    # m(Ω) is taken from the class with the largest commonality: beside that, Ω keeps its digits or does not matter.
    masses = jnp.concatenate([singles, jnp.take_along_axis(a.omega, best_class, axis=-1)], axis=-1)
    total = jnp.sum(masses, axis=-1, keepdims=True)
    conflict = (total == 0).astype(masses.dtype)
    return jnp.concatenate([conflict, safe_divide(masses, total)], axis=-1)


@jit(static_argnames="normalized")
def _cautious(masses, normalized):
    """Return ``masses [... trees sets]`` combined by the cautious rule; if ``normalized``, divided by 1 - m(∅)."""

    def keep_smaller(smallest, mass):
        return jnp.minimum(smallest, _log_weights(mass)), None

    by_tree = jnp.moveaxis(masses, -2, 0)
    log_weights, _ = lax.scan(keep_smaller, _log_weights(by_tree[0]), by_tree[1:])
    return _recombined(log_weights, normalized)


def _log_weights(mass):
    """Return the logs ``[... 1 + classes]`` of the canonical weights of ∅ and the singletons in ``mass [... sets]``."""
    # m(Ω) = w(∅) Π_c w_c and m({c}) = m(Ω) (1/w_c - 1), so that w_c = m(Ω) / (m(Ω) + m({c})).
    omega = jnp.maximum(mass[..., -1:], jnp.finfo(mass.dtype).tiny)  # traced masses may have m(Ω) = 0
    against = jnp.log1p(mass[..., 1:-1] / omega)
    return jnp.concatenate([jnp.log(omega) + jnp.sum(against, axis=-1, keepdims=True), -against], axis=-1)


def _recombined(log_weights, normalized):
    """Return the masses ``[... sets]`` with canonical weights as of `_log_weights`, divided by 1 - m(∅) or not."""
    # m({c}) = w(∅) (1 - w_c) Π_{j≠c} w_j, m(Ω) = w(∅) Π_j w_j, and m(∅) is the rest.
    log_empty = log_weights[..., :1]
    log_singles = log_weights[..., 1:]
    same_class = jnp.eye(log_singles.shape[-1], dtype=bool)
    # Sums over the other singletons, added directly: total minus own weight would cancel.
    log_scale = jnp.sum(jnp.where(same_class, 0.0, log_singles[..., None, :]), axis=-1)
    # Normalised, w(∅) cancels. The largest Π_{j≠c} w_j is factored out instead, so that the masses add to 1 or more.
    factor = -lax.stop_gradient(jnp.max(log_scale, axis=-1, keepdims=True)) if normalized else log_empty
    singles = jnp.exp(factor + log_scale) * -jnp.expm1(log_singles)
    omega = jnp.exp(factor + jnp.sum(log_singles, axis=-1, keepdims=True))
    masses = jnp.concatenate([singles, omega], axis=-1)
    total = jnp.sum(masses, axis=-1, keepdims=True)  # 1 - m(∅), unless a factor was taken out
    if normalized:
        return jnp.concatenate([jnp.zeros_like(total), masses / total], axis=-1)
    return jnp.concatenate([not_negative(1 - total), masses], axis=-1)


def pignistic(masses: Float[Array, "... sets"]) -> Float[Array, "... classes"]:
    r"""Return the probabilities that share the mass of ignorance, m(Ω), equally among the C classes.

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
    Total conflict, m(∅) = 1: uniform, and gradient 0 there; elsewhere smooth. Precise near total conflict too.

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
    """Return `pignistic` of ``masses [... sets]`` that were checked."""
    n_classes = masses.shape[-1] - 2
    total = masses[..., 1:].sum(axis=-1, keepdims=True)
    return safe_divide(masses[..., 1:-1] + masses[..., -1:] / n_classes, total, 1 / n_classes)


def checked(masses: Array | np.ndarray, *, trees: bool = False) -> Float[Array, "... sets"]:
    """Return ``masses [... sets]`` as floats; raise a ValueError unless they are ≥ 0 and add to 1.

    There must be four sets or more, and with ``trees`` an axis of trees before them. Traced values are not checked.
    """
    check_numbers("masses", masses)
    masses = copy_in(masses)
    expected = "[... trees sets]" if trees else "[... sets]"
    if masses.ndim < 1 + trees or masses.shape[-1] < 4:
        raise ValueError(
            f"masses has shape {masses.shape}; expected {expected} with the sets empty, singletons, Ω "
            "(four for two classes)."
        )
    if trees and masses.shape[-2] == 0:
        raise ValueError(f"masses has shape {masses.shape}: there is no tree to combine.")
    if is_concrete(masses):
        values = np.asarray(masses, dtype=float)
        # Masses that were computed may be below 0, or miss 1, by rounding.
        if not (values.min(initial=0) >= -1e-6 and np.allclose(values.sum(-1), 1, atol=1e-4)):
            raise ValueError("masses must be >= 0 and add to 1 along the last axis.")
    return masses.astype(float_dtype(masses))


def not_negative(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return max(x, 0) with the gradient of x, for differences that are below zero by rounding only."""
    return x + lax.stop_gradient(jnp.maximum(x, 0) - x)
