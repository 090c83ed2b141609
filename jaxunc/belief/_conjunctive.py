"""The conjunctive rule of combination, set by set."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxunc._numerics import safe_divide

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
        Divide by 1 - m(∅) at the end, which makes it Dempster's rule (normalisation commutes with combination).

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
    The reference that `DempsterRule`'s closed form is tested against; it accepts any masses on these sets, and it
    underflows where the closed form, in logarithms, does not. Total conflict (m(∅) = 1), normalised: zeros.
    Differentiable in the masses.

    References
    ----------
    Busch et al. 2021, section 4, "Dempster"; Shafer 1976; Smets 1993.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(conjunctive_fold(jnp.array([[0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 0.75, 0.25]])))
    [0.375 0.125 0.375 0.125]
    """
    return _conjunctive_fold(checked(masses, trees=True), normalized)


@partial(jax.jit, static_argnames="normalized")
def _conjunctive_fold(masses, normalized):
    def combine(a, b):
        singles_a, singles_b, omega_a, omega_b = a[..., 1:-1], b[..., 1:-1], a[..., -1:], b[..., -1:]
        singles = singles_a * singles_b + singles_a * omega_b + omega_a * singles_b
        conflict = jnp.sum(singles_a, -1, keepdims=True) * jnp.sum(singles_b, -1, keepdims=True)
        conflict = not_negative(conflict - jnp.sum(singles_a * singles_b, -1, keepdims=True))
        empty = a[..., :1] + b[..., :1] - a[..., :1] * b[..., :1] + conflict
        return jnp.concatenate([empty, singles, omega_a * omega_b], axis=-1), None

    by_tree = jnp.moveaxis(masses, -2, 0)
    combined, _ = lax.scan(combine, by_tree[0], by_tree[1:])
    if not normalized:
        return combined
    agreed = jnp.sum(combined[..., 1:], axis=-1, keepdims=True)
    rest = safe_divide(combined[..., 1:], agreed)
    return jnp.concatenate([jnp.zeros_like(agreed), rest], axis=-1)
