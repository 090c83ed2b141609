"""Discounted utility: the worth of sets of classes."""

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxunc._checks import check_one_of
from jaxunc._numerics import jit

from ._instances import Labels, checked_labels, nan_unless_classes, one_hot
from ._sets import Sets, checked_sets, nan_unless_sets, sizes_of
from ._total import mean

_COEFFICIENTS = {50: (1.0, 0.0), 65: (1.6, 0.6), 80: (2.2, 1.2)}
"""a and b of the utility a x - b x²."""


def discounted_utility(membership: Sets, y: Labels, *, kind: Literal[65, 80, 50] = 65) -> Float[Array, ""]:
    r"""Mean utility of sets of classes: how much right sets are worth, discounted by their size; larger is better.

    With x = [y ∈ Y]/\|Y\| for an instance with the set Y:

    .. math:: u_{50} = x, \qquad u_{65} = 1.6 x - 0.6 x^2, \qquad u_{80} = 2.2 x - 1.2 x^2

    A right single class is worth 1 and a wrong set 0. A right set of two is worth .50, .65 or .80. The first is the
    discounted accuracy, no more than a guess; the others reward a set for the doubt that it tells of.

    Parameters
    ----------
    membership
        Bools ``[instances classes]``: whether each class is in the set.
    y
        Class indices ``[instances]`` in [0, classes).
    kind
        50, 65 or 80: what a right set of two classes is worth, in hundredths.

    Returns
    -------
    Array
        A scalar in [0, 1].

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances or the kind is unknown. Outside a trace also if a set is empty
        or a label no class.
    TypeError
        If the sets are no bools, or the labels neither integer nor bool.

    Notes
    -----
    Of single classes it is the accuracy. Sets of more classes are worth less and less: with 80, one of three is worth
    .60. Under a trace empty sets and labels that are no class give NaN. The sum is compensated. Gradient: none.

    References
    ----------
    Zaffalon, Corani and Mauá 2012, section 4; Zhang, Quost and Masson 2021 (U65).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> membership = jnp.array([[True, False], [True, True], [True, False]])
    >>> y = jnp.array([0, 1, 1])
    >>> for kind in (50, 65, 80):
    ...     print(f"{float(discounted_utility(membership, y, kind=kind)):.4f}")
    0.5000
    0.5500
    0.6000
    """
    check_one_of("kind", kind, tuple(_COEFFICIENTS))
    membership = checked_sets(membership)
    return _discounted_utility(membership, checked_labels(y, *membership.shape), kind)


@jit(static_argnames="kind")
def _discounted_utility(membership, y, kind):
    n_classes = membership.shape[1]
    sizes = sizes_of(membership)
    right = jnp.any(membership & one_hot(y, n_classes), axis=1)
    dtype = jnp.result_type(float)
    share = jnp.where(right, 1 / jnp.maximum(sizes, 1).astype(dtype), 0.0)
    a, b = _COEFFICIENTS[kind]
    return nan_unless_sets(nan_unless_classes(mean(share * (a - b * share)), y, n_classes), sizes)
