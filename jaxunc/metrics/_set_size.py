"""Set sizes: how often sets hold a single class, how large they are, and how often single classes are right."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxunc._checks import check_bool
from jaxunc._numerics import jit

from ._instances import Labels, checked_labels, nan_unless_classes, one_hot
from ._sets import Sets, checked_sets, nan_unless_sets, sizes_of


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
    return _determinacy(checked_sets(membership))


@jit
def _determinacy(membership):
    sizes = sizes_of(membership)
    return nan_unless_sets(_ratio(sizes == 1, jnp.ones_like(sizes, bool)), sizes)


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
    membership = checked_sets(membership)
    return _single_set_accuracy(membership, checked_labels(y, *membership.shape))


@jit
def _single_set_accuracy(membership, y):
    n_classes = membership.shape[1]
    sizes = sizes_of(membership)
    single = sizes == 1
    right = jnp.any(membership & one_hot(y, n_classes), axis=1)
    return nan_unless_sets(nan_unless_classes(_ratio(right & single, single), y, n_classes), sizes)


def set_size(membership: Sets, y: Labels | None = None, *, indeterminate_only: bool = False) -> Float[Array, ""]:
    r"""Mean number of classes in the sets.

    .. math:: \frac1n \sum_i |Y_i|, \qquad
              \text{indeterminate only: } \frac{\sum_{i: |Y_i| > 1} |Y_i|}{\sum_i [|Y_i| > 1]}

    Parameters
    ----------
    membership
        Bools ``[instances classes]``: whether each class is in the set.
    y
        Not read; it is a parameter so that all metrics can be called alike.
    indeterminate_only
        Whether only sets of more than one class are averaged.

    Returns
    -------
    Array
        A scalar in [1, classes], or [2, classes]; NaN if there is no set to average.

    Raises
    ------
    ValueError
        If the shape does not fit, there are no instances or, outside a trace, a set is empty.
    TypeError
        If the sets are no bools.

    Notes
    -----
    Counted as integers, up to 2³¹ in all. Under a trace empty sets give NaN. Gradient: none. For two classes the mean
    size is 2 less the determinacy.

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
    return (_indeterminate_size if indeterminate_only else _size)(checked_sets(membership))


@jit
def _size(membership):
    sizes = sizes_of(membership)
    return nan_unless_sets(_ratio(sizes, jnp.ones_like(sizes)), sizes)


@jit
def _indeterminate_size(membership):
    sizes = sizes_of(membership)
    several = sizes > 1
    return nan_unless_sets(_ratio(jnp.where(several, sizes, 0), several), sizes)


def _ratio(part: Array, whole: Array) -> Float[Array, ""]:
    """Return the quotient of two sums of integers; NaN if the second is 0."""
    part, whole = (jnp.sum(values, dtype=jnp.int32).astype(float) for values in (part, whole))
    return jnp.where(whole > 0, part / jnp.maximum(whole, 1.0), jnp.nan)
