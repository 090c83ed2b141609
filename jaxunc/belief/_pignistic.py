"""The pignistic transform: from masses to probabilities to bet with."""

from jaxtyping import Array, Float

from jaxunc._numerics import jit, safe_divide

from ._masses import checked


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
