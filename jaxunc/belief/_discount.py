"""Discounting: a source that is not wholly reliable."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxunc._checks import check_within
from jaxunc._numerics import jit, same_rank

from ._masses import checked


def discount(masses: Float[Array, "... sets"], reliability: Float[Array, "..."] | float) -> Float[Array, "... sets"]:
    r"""Move mass to ignorance, as far as the source is unreliable (classical discounting).

    .. math:: m^r(A) = r\, m(A) \;\; (A \ne \Omega), \qquad m^r(\Omega) = 1 - r + r\, m(\Omega)

    Parameters
    ----------
    masses
        Masses ≥ 0 that add to 1, last axis [∅, {0}, …, {C-1}, Ω]: four entries for two classes.
    reliability
        Probability r in [0, 1] that the source is reliable: a number, or an array that broadcasts against all axes of
        ``masses`` but the last, such as ``[trees]``.

    Returns
    -------
    Array
        The discounted masses.

    Raises
    ------
    ValueError
        If there are fewer than four sets or the shapes do not broadcast. Outside a trace also if masses are negative or
        do not add to 1, or a reliability is outside [0, 1].

    Notes
    -----
    r = 1 changes nothing; r = 0 leaves ignorance, m(Ω) = 1. Discounting twice multiplies the reliabilities. It also
    discounts m(∅). Gradient: linear in the masses and in r.

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
    reliability = jnp.asarray(reliability, masses.dtype)
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
