"""The cautious rule of combination, through canonical weights."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxunc._checks import check_bool, is_concrete
from jaxunc._numerics import jit

from ._masses import checked, not_negative


def cautious_fold(masses: Float[Array, "... trees sets"], *, normalized: bool = False) -> Float[Array, "... sets"]:
    r"""Combine mass functions that may share evidence: the smallest canonical weight of every set (`jax.lax.scan`).

    A mass with m(Ω) > 0 is, in one way, the conjunctive combination of simple masses with m(A) = 1 - w(A) and
    m(Ω) = w(A). On ∅, the singletons and Ω

    .. math:: w(\{c\}) = \frac{m(\Omega)}{m(\{c\}) + m(\Omega)}, \qquad
              w(\emptyset) = m(\Omega) \prod_c \frac{m(\{c\}) + m(\Omega)}{m(\Omega)}

    and all other weights are 1. The rule takes w = min over trees, for every set, and recombines:

    .. math:: m(\{c\}) = w(\emptyset)\,(1 - w(\{c\})) \prod_{j \ne c} w(\{j\}), \qquad
              m(\Omega) = w(\emptyset) \prod_c w(\{c\})

    Parameters
    ----------
    masses
        Masses ≥ 0 that add to 1, with m(Ω) > 0, last axis [∅, {0}, …, {C-1}, Ω]: four entries for two classes.
    normalized
        Divide by 1 - m(∅) at the end (normalisation commutes with combination: it changes w(∅) only).

    Returns
    -------
    Array
        The combined masses ``[... sets]``.

    Raises
    ------
    ValueError
        If there is no tree, fewer than four sets, or (outside a trace) masses are negative, do not add to 1 or are
        dogmatic, m(Ω) = 0: such a mass has no canonical weights.

    Notes
    -----
    Associative, commutative and idempotent: a mass combined with itself stays as it is. w(∅) may exceed 1. Logarithms
    throughout, so the normalised form is never 0/0. Under a trace m(Ω) is raised to the smallest normal float.

    Gradient: through the tree with the smallest weight, shared between two that tie. Finite where m(Ω) > 1e-19
    (1e-154 in float64).

    References
    ----------
    Denœux 2008; Busch et al. 2021, section 4, "Cautious".

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(cautious_fold(jnp.array([[0.0, 0.5, 0.0, 0.5], [0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 0.75, 0.25]])).round(6))
    [0.375 0.125 0.375 0.125]
    """
    masses = checked(masses, trees=True)
    check_bool("normalized", normalized)
    if is_concrete(masses) and not np.all(np.asarray(masses)[..., -1] > 0):
        raise ValueError(
            "masses holds a dogmatic mass function, m(Ω) = 0, which has no canonical weights. "
            "Discount it a little first: discount(masses, 0.99999)."
        )
    return _cautious_fold(masses, bool(normalized))


@jit(static_argnames="normalized")
def _cautious_fold(masses, normalized):
    def keep_smaller(smallest, mass):
        return jnp.minimum(smallest, _log_weights(mass)), None

    by_tree = jnp.moveaxis(masses, -2, 0)
    log_weights, _ = lax.scan(keep_smaller, _log_weights(by_tree[0]), by_tree[1:])
    return _recombined(log_weights, normalized)


def _log_weights(mass):
    """Logarithms of the canonical weights of ∅ and the singletons."""
    omega = jnp.maximum(mass[..., -1:], jnp.finfo(mass.dtype).tiny)
    against = jnp.log1p(mass[..., 1:-1] / omega)
    return jnp.concatenate([jnp.log(omega) + jnp.sum(against, axis=-1, keepdims=True), -against], axis=-1)


def _recombined(log_weights, normalized):
    """Return the mass function with these weights."""
    log_empty, log_singles = log_weights[..., :1], log_weights[..., 1:]
    own = jnp.eye(log_singles.shape[-1], dtype=bool)
    # The weights of the other singletons, added as such: their own taken from the total would cancel.
    log_scale = jnp.sum(jnp.where(own, 0.0, log_singles[..., None, :]), axis=-1)
    # Normalised, w(∅) cancels; with the largest weight factored out instead, the masses add to 1 or more.
    factor = -lax.stop_gradient(jnp.max(log_scale, axis=-1, keepdims=True)) if normalized else log_empty
    singles = jnp.exp(factor + log_scale) * -jnp.expm1(log_singles)
    omega = jnp.exp(factor + jnp.sum(log_singles, axis=-1, keepdims=True))
    rest = jnp.concatenate([singles, omega], axis=-1)
    agreed = jnp.sum(rest, axis=-1, keepdims=True)
    if normalized:
        return jnp.concatenate([jnp.zeros_like(agreed), rest / agreed], axis=-1)
    return jnp.concatenate([not_negative(1 - agreed), rest], axis=-1)
