"""Scores of sets of classes: how often they hold a single one, how often that is right, sizes, and utilities."""

from typing import Literal, TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32

from jaxunc._checks import check_bool, check_one_of, is_concrete
from jaxunc._numerics import jit

from ._instances import Labels, as_array, check_columns, checked_labels, mean, nan_unless_classes, one_hot

Sets: TypeAlias = Bool[Array | np.ndarray, "instances classes"]
"""Set of classes predicted for each instance, as bools: whether each class is in it."""

_COEFFICIENTS = {50: (1.0, 0.0), 65: (1.6, 0.6), 80: (2.2, 1.2)}
"""a and b of the utility a x - b x²."""


def determinacy(membership: Sets, y: Labels | None = None) -> Float[Array, ""]:
    r"""Share of instances for which a single class is predicted.

    .. math:: \frac1n \sum_i [|Y_i| = 1]

    Parameters
    ----------
    membership
        Bools ``[instances classes]``: whether each class is in the set.
    y
        Not read; it is a parameter so that all metrics can be called alike.

    Returns
    -------
    Array
        A scalar in [0, 1].

    Raises
    ------
    ValueError
        If the shape does not fit, there are no instances or, outside a trace, a set is empty.
    TypeError
        If the sets are no bools.

    Notes
    -----
    Counted as integers. Under a trace empty sets give NaN. Gradient: none. It says nothing of who is right: see
    `single_set_accuracy` and `discounted_utility`.

    References
    ----------
    Corani and Zaffalon 2008, section 5 ("determinacy").

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(determinacy(jnp.array([[True, False], [True, True], [False, True], [False, True]])))
    0.75
    """
    return _determinacy(_checked_sets(membership))


@jit
def _determinacy(membership):
    sizes = _sizes_of(membership)
    return _nan_unless_sets(_ratio(sizes == 1, jnp.ones_like(sizes, bool)), sizes)


def single_set_accuracy(membership: Sets, y: Labels) -> Float[Array, ""]:
    r"""Accuracy on the instances for which a single class is predicted.

    .. math:: \frac{\sum_i [Y_i = \{y_i\}]}{\sum_i [|Y_i| = 1]}

    Parameters
    ----------
    membership
        Bools ``[instances classes]``: whether each class is in the set.
    y
        Class indices ``[instances]`` in [0, classes).

    Returns
    -------
    Array
        A scalar in [0, 1]; NaN if no set is a single class.

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances or, outside a trace, a set is empty or a label no class.
    TypeError
        If the sets are no bools, or the labels neither integer nor bool.

    Notes
    -----
    Counted as integers. Under a trace empty sets and labels that are no class give NaN. Gradient: none. Read it beside
    `determinacy`: whoever decides only the clearest instance is always right.

    References
    ----------
    Corani and Zaffalon 2008, section 5 ("single accuracy").

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> membership = jnp.array([[True, False], [True, True], [False, True]])
    >>> print(single_set_accuracy(membership, jnp.array([0, 0, 0])))
    0.5
    """
    membership = _checked_sets(membership)
    return _single_set_accuracy(membership, checked_labels(y, *membership.shape))


@jit
def _single_set_accuracy(membership, y):
    n_classes = membership.shape[1]
    sizes = _sizes_of(membership)
    single = sizes == 1
    right = jnp.any(membership & one_hot(y, n_classes), axis=1)
    return _nan_unless_sets(nan_unless_classes(_ratio(right & single, single), y, n_classes), sizes)


def set_size(membership: Sets, y: Labels | None = None, *, indeterminate_only: bool = False) -> Float[Array, ""]:
    r"""Mean number of classes in the sets; with ``indeterminate_only`` of those of more than one class.

    .. math:: \frac1n \sum_i |Y_i|, \qquad
              \text{indeterminate only: } \frac{\sum_{i: |Y_i| > 1} |Y_i|}{\sum_i [|Y_i| > 1]}

    A scalar in [1, classes], or [2, classes]; NaN if there is no set to average. Counted as integers, up to 2³¹ in all.
    For two classes the mean size is 2 less the determinacy. All else is as for `determinacy`.

    References
    ----------
    Corani and Zaffalon 2008, section 5 ("indeterminate output size").

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> membership = jnp.array([[True, False, False], [True, True, False], [True, True, True], [False, True, False]])
    >>> print(set_size(membership), set_size(membership, indeterminate_only=True))
    1.75 2.5
    """
    check_bool("indeterminate_only", indeterminate_only)
    return (_indeterminate_size if indeterminate_only else _size)(_checked_sets(membership))


@jit
def _size(membership):
    sizes = _sizes_of(membership)
    return _nan_unless_sets(_ratio(sizes, jnp.ones_like(sizes)), sizes)


@jit
def _indeterminate_size(membership):
    sizes = _sizes_of(membership)
    several = sizes > 1
    return _nan_unless_sets(_ratio(jnp.where(several, sizes, 0), several), sizes)


def _ratio(part: Array, whole: Array) -> Float[Array, ""]:
    """Return the quotient of two sums of integers; NaN if the second is 0."""
    part, whole = (jnp.sum(values, dtype=jnp.int32).astype(float) for values in (part, whole))
    return jnp.where(whole > 0, part / jnp.maximum(whole, 1.0), jnp.nan)


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
    For single classes it is the accuracy. Sets of more classes are worth less and less: with 80, one of three is worth
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
    membership = _checked_sets(membership)
    return _discounted_utility(membership, checked_labels(y, *membership.shape), kind)


@jit(static_argnames="kind")
def _discounted_utility(membership, y, kind):
    n_classes = membership.shape[1]
    sizes = _sizes_of(membership)
    right = jnp.any(membership & one_hot(y, n_classes), axis=1)
    dtype = jnp.result_type(float)
    share = jnp.where(right, 1 / jnp.maximum(sizes, 1).astype(dtype), 0.0)
    a, b = _COEFFICIENTS[kind]
    return _nan_unless_sets(nan_unless_classes(mean(share * (a - b * share)), y, n_classes), sizes)


def _checked_sets(membership, *, name: str = "membership") -> Bool[Array, "instances classes"]:
    """Return the sets as JAX's; a TypeError unless they are bools, a ValueError for a wrong shape or an empty set."""
    membership = as_array(membership)
    if membership.dtype != bool:
        raise TypeError(
            f"{name} has dtype {membership.dtype}; expected booleans [instances classes], True for each class in the "
            "set, as jaxunc.decisions makes them. From class indices: np.eye(n_classes, dtype=bool)[y]."
        )
    check_columns(membership, name=name)
    if not len(membership):
        raise ValueError(f"{name} is empty: a mean over no instances is undefined.")
    if is_concrete(membership):
        empty = ~np.asarray(membership).any(axis=1)
        if empty.any():
            raise ValueError(
                f"{name} holds {empty.sum()} empty sets (the first in row {np.argmax(empty)}); a prediction names one "
                "class at least. Where nothing is known, let it hold all."
            )
    return jnp.asarray(membership)


def _sizes_of(membership: Bool[Array, "instances classes"]) -> Int32[Array, "instances"]:
    """Return the number of classes in each set."""
    return jnp.sum(membership, axis=1, dtype=jnp.int32)


def _nan_unless_sets(value: Float[Array, ""], sizes: Int32[Array, "instances"]) -> Float[Array, ""]:
    """Return the value, or NaN if a set is empty: under a trace nothing can be raised."""
    return jnp.where(jnp.all(sizes > 0), value, jnp.nan)
