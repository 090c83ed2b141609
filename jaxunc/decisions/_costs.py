"""Sets of classes with the highest expected utility, and the checks and padding that all decisions share."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Real

from jaxunc._checks import check_class_axis, check_numbers, check_one_of, is_concrete
from jaxunc._numerics import copy_in, float_dtype, jit
from jaxunc.tables import NumbersLike

MOST_SETS = 12
"""Largest number of classes for which all sets are listed."""

UTILITIES = {50: (1.0, 0.0), 65: (1.6, -0.6), 80: (2.2, -1.2)}
"""{name: (a, b)} of the utility a/k + b/k² of a set of k classes that holds the truth; ``"u65"`` means 65."""
SLACK = 1e-3
"""By how much the sum of probabilities may miss 1: room for sums over many trees in float32."""


def checked_probability(name: str, values_given: Any) -> Float[Array | np.ndarray, "... classes"]:
    """Return the class probabilities ``values_given`` as floats of the precision in which JAX will compute.

    The result is a JAX array if ``values_given`` is one, else a NumPy array. Raises an error, which calls them
    ``name``, unless they are numbers with a class axis. Outside a trace they also have to be finite, not negative, and
    to add to 1 in each row.
    """
    check_numbers(name, values_given)
    check_class_axis(values_given, name)
    array = values_given if is_of_jax(values_given) else np.asarray(values_given)
    array = array.astype(float_dtype(array))
    if is_concrete(array):
        values = np.asarray(array)
        # In half precision a sum over classes is further from 1, as for metrics.
        slack = max(SLACK, values.shape[-1] * float(jnp.finfo(values.dtype).eps))
        if not np.all((values >= -SLACK) & np.isfinite(values)):
            raise ValueError(f"{name} holds negative, infinite or NaN values; pass class probabilities.")
        if np.any(np.abs(values.sum(axis=-1, dtype=float) - 1) > slack):
            raise ValueError(f"{name} has rows that do not add to 1; pass class probabilities, not scores or counts.")
    return array


def wide_dtype(share: Any) -> np.dtype:
    """Return the dtype of the costs and utilities that are multiplied by probabilities ``share``.

    It is the dtype of ``share``, but float32 where that has 16 bits. Costs may overflow 16 bits, which hold numbers up
    to 65504, and an infinite cost times 0 is NaN.
    """
    return np.promote_types(share.dtype, np.float32)


def is_of_jax(*arrays: Any) -> bool:
    """Return whether any of the arrays, or pytrees of arrays, is JAX's (or traced): decisions then are, too."""
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(arrays))


def by_rows(decide: Callable[..., Array], share: Any, *of_rows: Any) -> Any:
    """Return the decisions ``decide(share, *of_rows)``, a NumPy array if all arguments are NumPy's.

    ``share`` has the probabilities ``[... classes]``, and each further array has one number for each row, ``[...]``.
    NumPy rows are padded for ``decide``, so that tables of any length need few compiled programs.
    """
    if is_of_jax(share, of_rows):
        return decide(copy_in(share), *map(copy_in, of_rows))
    *shape, n_classes = share.shape
    rows = share.reshape(-1, n_classes)
    n_padded = 1 << max(len(rows) - 1, 255).bit_length()  # a power of two, 256 at least
    padded = np.full((n_padded, n_classes), 1 / n_classes, share.dtype)  # the padding is a distribution, too
    padded[: len(rows)] = rows

    def padded_column(values: Any) -> np.ndarray:
        """Return the numbers of the rows, repeated for the padding; zeros if there are no rows."""
        if not np.size(values):
            return np.zeros(len(padded))
        return np.resize(np.ravel(values), len(padded))

    columns = [padded_column(values) for values in of_rows]
    decisions = np.asarray(decide(jnp.asarray(padded), *(jnp.asarray(values, wide_dtype(share)) for values in columns)))
    return decisions[: len(rows)].reshape((*shape, *decisions.shape[1:])).copy()  # JAX's memory is read-only


def expected_utility_set(
    probability: Real[Array | np.ndarray, "... classes"], utility: Any = 65, *, sets: NumbersLike | None = None
) -> Bool[Array | np.ndarray, "... classes"]:
    r"""Return the set of classes with the highest expected utility: one class if it is probable enough, else several.

    .. math:: A^* = \arg\max_A \; u(|A|) \sum_{c \in A} P(c), \qquad
              u_{65}(k) = \frac{1.6}{k} - \frac{0.6}{k^2}, \quad u_{80}(k) = \frac{2.2}{k} - \frac{1.2}{k^2},
              \quad u_{50}(k) = \frac1k

    Parameters
    ----------
    probability
        Class probabilities of any origin.
    utility
        50, 65 or 80, or ``"u50"`` and so on: the utility of `jaxunc.metrics.discounted_utility`, which is 0.50, 0.65 or
        0.80 for a set of two that holds the truth. Or a vector ``[classes]``: the utility of a set that holds the
        truth, by its size. Or a matrix ``[sets classes]``: the utility of each set if that class is the truth.
    sets
        For a matrix: whether each of its sets holds each class, bools ``[sets classes]``. Default: all 2^C - 1 sets of
        C ≤ 12 classes, {0}, {1}, {0, 1}, {2}, … (the bits of 1, 2, 3, 4, …).

    Returns
    -------
    Array
        Booleans ``[... classes]``, True for each class in the set, never empty; a NumPy array for NumPy arrays. Among
        equal expected utilities the smaller set is taken (with a matrix the first set). Among equally probable classes
        the lower index is.

    Raises
    ------
    ValueError
        If shapes do not fit, a probability is negative or not finite, a utility is not finite in float32, or a set is
        empty.

    Notes
    -----
    With a utility by size the best set of each size holds the most probable classes, or the least probable ones where
    that utility is negative: all sets are considered, though not listed. Utilities within rounding tie. With u₆₅ and
    two classes, the answer is both if the larger probability is below .65. With u₅₀ it is always a single class. No
    gradient.

    References
    ----------
    Zaffalon, Corani and Mauá 2012; Mortier et al. 2021 for more classes. Zhang et al. 2021 measure by u65 and u80.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import jaxunc as ju
    >>> print(ju.decisions.expected_utility_set(jnp.array([[0.7, 0.3], [0.6, 0.4]])))
    [[ True False]
     [ True  True]]
    """
    share = checked_probability("probability", probability)
    n_classes = share.shape[-1]
    if np.ndim(utility) == 2:
        return by_rows(_of_matrix(wide_dtype(share), n_classes, utility, sets), share)
    if sets is not None:
        raise ValueError("sets belong to a matrix of utilities; of a utility by size all sets are considered.")
    return by_rows(_of_sizes(utility_of_sizes(utility, n_classes).astype(wide_dtype(share))), share)


def _of_sizes(utility: Float[Array, "classes"]) -> Callable[[Array], Any]:
    """Return a function that makes sets of the highest expected utility of probabilities ``[... classes]``.

    ``utility`` has the utility of a set that holds the truth, by its size, 1 … C.
    """

    def find_best_set(share: Float[Array, "... classes"]) -> Bool[Array, "... classes"]:
        """Return the set of the highest expected utility for each row of probabilities ``share``, as bools."""
        eps = jnp.finfo(share.dtype).eps
        share = share.astype(utility.dtype)
        # The best set of a size holds the most probable classes, so C sets are compared and not 2^C - 1. Where the
        # utility of a size is negative, it holds the least probable ones: they seldom hold the truth, which costs.
        by_size = jnp.broadcast_to(utility, share.shape)
        sum_of_most, rank_among_most = _sum_in_order(share, -share)
        sum_of_least, rank_among_least = _sum_in_order(share, share)
        expected = by_size * jnp.where(by_size < 0, sum_of_least, sum_of_most)
        best_index = jnp.argmax(_not_by_rounding(expected, jnp.abs(expected), eps), axis=-1)[..., None]  # size - 1
        is_negative = jnp.take_along_axis(by_size, best_index, axis=-1) < 0
        rank = jnp.where(jnp.broadcast_to(is_negative, share.shape), rank_among_least, rank_among_most)
        return rank <= jnp.broadcast_to(best_index, rank.shape)

    return find_best_set


def _sum_in_order(share: Float[Array, "... classes"], key: Float[Array, "... classes"]) -> tuple[Array, Array]:
    """Return (summed probabilities ``share`` of the first 1, 2, … classes, rank of each class from 0).

    Classes are ordered by ascending ``key``, and those with equal keys by their numbers.
    """
    order = jnp.argsort(key, axis=-1, stable=True)
    sums = jnp.cumsum(jnp.take_along_axis(share, order, axis=-1), axis=-1)
    return sums, jnp.argsort(order, axis=-1, stable=True)


def utility_of_sizes(utility: Any, n_classes: int) -> Float[Array, "classes"]:
    """Return the utilities ``[classes]`` of a set that holds the truth, for the sizes 1 … ``n_classes``.

    ``utility`` is a key of `UTILITIES`, such as 65 or "u65", or the utilities; a ValueError is raised for all else.
    """
    if np.ndim(utility) == 0:
        if isinstance(utility, str):
            check_one_of("utility", utility, [f"u{kind}" for kind in UTILITIES])
            utility = int(utility[1:])
        kind = next((kind for kind in UTILITIES if kind == utility), None)
        if kind is None:
            raise ValueError(f"utility={utility!r} is unknown. Choose one of {list(UTILITIES)}, or pass numbers.")
        linear, square = UTILITIES[kind]
        size = np.arange(1, n_classes + 1)
        values = linear / size + square / size**2
    else:
        values = np.asarray(utility, float)
    if values.shape != (n_classes,) or not np.all(np.abs(values) < np.finfo(np.float32).max):
        raise ValueError(f"utility has shape {values.shape}; pass a finite number for each size, shape ({n_classes},).")
    return copy_in(values, jnp.result_type(float))


def _of_matrix(dtype: Any, n_classes: int, utility: Any, sets: Any) -> Callable[[Array], Any]:
    """Return a function that makes sets of the highest expected utility of probabilities ``[... classes]``.

    ``utility`` and ``sets`` are those of `expected_utility_set`, whose errors are raised. Utilities are computed in
    ``dtype``.
    """
    values = np.asarray(utility, float)
    if sets is None:
        if n_classes > MOST_SETS:
            raise ValueError(f"all sets of {n_classes} classes are too many to list; name some by sets.")
        sets = (np.arange(1, 2**n_classes)[:, None] >> np.arange(n_classes)) & 1 == 1  # the bits of 1, 2, 3, …
    sets = np.asarray(sets)
    if sets.dtype != bool or sets.ndim != 2 or sets.shape[1] != n_classes or not sets.any(axis=1).all():
        raise ValueError(f"sets must be booleans [sets, {n_classes}], each with a class at least.")
    if values.shape != sets.shape or not np.all(np.abs(values) < np.finfo(np.float32).max):
        raise ValueError(
            f"utility has shape {values.shape}; pass a finite number for each of {len(sets)} sets and {n_classes} "
            f"classes, shape {sets.shape}."
        )
    by_class = copy_in(values.T, dtype)
    candidates = copy_in(sets)

    def find_best_set(share: Float[Array, "... classes"]) -> Bool[Array, "... classes"]:
        """Return the set of the highest expected utility for each row of probabilities ``share``."""
        eps = jnp.finfo(share.dtype).eps
        share = share.astype(dtype)
        expected = expected_values(share, by_class)
        gross = expected_values(share, jnp.abs(by_class))
        best_set = jnp.argmax(_not_by_rounding(expected, gross, eps), axis=-1)
        # Not a gather, which JAX refuses for rows on a mesh of explicit axes.
        shape = (*best_set.shape, *candidates.shape)
        set_number = lax.broadcasted_iota(best_set.dtype, shape, best_set.ndim)
        is_best = jnp.broadcast_to(best_set[..., None, None], shape) == set_number
        return jnp.any(is_best & jnp.broadcast_to(candidates, shape), axis=-2)

    return find_best_set


@jit
def expected_values(
    share: Float[Array, "... classes"], by_class: Float[Array, "classes sets"]
) -> Float[Array, "... sets"]:
    """Return the expected utility Σ_c P(c) u(A, c) of each set A: ``share`` is P, and ``by_class`` is u.

    Classes are added one by one: a product of matrices would round differently for different numbers of rows.
    """

    def add_class(total, of_class):
        probability, utility = of_class
        shape = total.shape
        return total + jnp.broadcast_to(probability[..., None], shape) * jnp.broadcast_to(utility, shape), None

    zeros = jnp.zeros((*share.shape[:-1], by_class.shape[1]), share.dtype)
    return lax.scan(add_class, zeros, (jnp.moveaxis(share, -1, 0), by_class))[0]


def _not_by_rounding(
    expected: Float[Array, "... sets"], gross: Float[Array, "... sets"], eps: Any
) -> Float[Array, "... sets"]:
    """Return the utilities ``expected``; those that differ from the best one by rounding alone are set equal to it.

    ``gross`` has for each set the sum of absolute values behind its utility: rounding is a multiple of it and of
    ``eps``, the rounding of the probabilities.
    """
    best_set = jnp.argmax(expected, axis=-1, keepdims=True)

    def of_best_set(values: Float[Array, "... sets"]) -> Float[Array, "... sets"]:
        return jnp.broadcast_to(jnp.take_along_axis(values, best_set, axis=-1), values.shape)

    best = of_best_set(expected)
    best_gross = of_best_set(gross)
    slack = 4 * float(eps)  # of the set, and of the best set: both are rounded
    is_tied = expected >= best - slack * gross - slack * best_gross
    return jnp.where(is_tied, best, expected)
