"""Jousselme's distance: how far two mass functions lie apart, where sets that overlap are near each other."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxunc._numerics import jit, same_rank

from ._masses import checked


def jousselme_distance(
    masses: Float[Array | np.ndarray, "... sets"], other: Float[Array | np.ndarray, "... sets"]
) -> Float[Array, "..."]:
    r"""Distance between two mass functions in [0, 1], where sets that overlap are near each other.

    .. math:: d(m, m') = \sqrt{\tfrac12 (m - m')^\top D\, (m - m')}, \qquad D_{AB} = \frac{|A \cap B|}{|A \cup B|}

    Parameters
    ----------
    masses
        Masses ≥ 0 that add to 1, last axis [∅, {0}, …, {C-1}, Ω]: four entries for two classes, which are all sets.
    other
        Masses on the same sets. Leading axes broadcast, such as ``[instances sets]`` against one ``[sets]``.

    Returns
    -------
    Array
        Distances ``[...]``, a metric: 0 for equal masses alone.

    Raises
    ------
    ValueError
        If there are fewer than four sets, the sets differ in number or the leading axes do not broadcast. Outside a
        trace also if masses are negative or do not add to 1.

    Notes
    -----
    D is 1 between ∅ and ∅, 0 between ∅ and any other set, and 1/C between a class and Ω. With δ = m - m' the square is
    computed as a sum of squares, so that nothing cancels:

    .. math:: \delta^\top D\, \delta = \delta_\emptyset^2 + \sum_c (\delta_c + \delta_\Omega/C)^2 +
              (1 - 1/C)\, \delta_\Omega^2

    Two certain and different classes: 1. Ignorance and a certain class: √(1 - 1/C). Masses on the classes alone
    (probabilities): √(Σ_c (p_c - q_c)²/2). For masses within [∅, classes, Ω] alone; other sets have no place here.

    For two classes and m(∅) = 0 the square of the distance to the class that came is (BetP(1) - y)² + m(Ω)²/4, with
    the pignistic BetP. Its mean is the Brier score of BetP with a penalty on ignorance: as a score it never prefers a
    belief to its own pignistic probabilities.

    Gradient: D δ/(2d) along ``masses``; where the masses are equal, which is a kink, 0.

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
