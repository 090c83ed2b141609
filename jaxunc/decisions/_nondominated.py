"""The decision of a cautious forest."""

import jax.numpy as jnp
from jaxtyping import Array, Bool

from jaxunc._numerics import jit
from jaxunc.combiners import Preference


def nondominated(preference: Preference) -> Bool[Array, "... classes"]:
    r"""The classes that no half of the mass rejects.

    For two classes, with the belief and the plausibility of class 1:

    .. math:: \{0\} \text{ if } pl < \tfrac12, \quad \{1\} \text{ else if } bel \ge \tfrac12, \quad
              \{0, 1\} \text{ otherwise.}

    For more, c' is rejected if B(c ≻ c') ≥ ½ of the mass for some c.

    Parameters
    ----------
    preference
        An answer of `jaxunc.GeneralizedVote`, or one made by hand.

    Returns
    -------
    Array
        Booleans ``[... classes]``: the classes that remain. Never empty: where every class is rejected (in a cycle, or
        by an exact tie), all remain.

    Raises
    ------
    ValueError
        If the mass does not hold two classes or more against each other.

    Notes
    -----
    The rule for two classes is asymmetric: half of the mass is enough for class 1, class 0 needs more. So an exact
    half-half split is decided for class 1. Without mass (all trees masked, or all leaves empty with masses of their
    size) there is no preference and all classes remain. Exact where the preference is. Gradient: none.

    References
    ----------
    Zhang, Quost and Masson 2021, "Decision strategy"; more classes are an extension.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import jaxunc as ju
    >>> vote = ju.GeneralizedVote(s=1)
    >>> print(nondominated(vote(jnp.array([[[0, 4], [3, 0]], [[0, 4], [1, 1]], [[2, 2], [1, 1]]]))))
    [[False  True]
     [False  True]
     [ True  True]]
    """
    if not isinstance(preference, Preference):
        raise TypeError(
            f"preference is a {type(preference).__name__}; pass a Preference, what a forest bound to "
            "jaxunc.GeneralizedVote answers."
        )
    shape = preference.mass.shape
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] < 2:
        raise ValueError(
            f"preference.mass has shape {shape}; expected [... classes classes], the mass for each class over each "
            "other, as jaxunc.GeneralizedVote answers."
        )
    return _remaining(*(None if part is None else jnp.asarray(part) for part in preference))


@jit
def _remaining(mass, total, excess):
    return Preference(mass, total, excess).remaining
