"""Decisions at given costs: of a rejection (`reject`), or by what each set is worth (`expected_utility_set`)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Real

from jaxunc._checks import check_class_axis, check_numbers, check_within, is_concrete
from jaxunc._numerics import float_dtype, jit
from jaxunc.tables import NumbersLike

_SLACK = 1e-3
"""Tolerance for the sum of probabilities, which may miss 1: room for sums over many trees in float32."""

_ULPS = 4
"""Tolerance in units in the last place of 1, by which a probability may miss 1 - t: 0.9 and 1 - 0.1 round apart."""


def reject(
    probs: Real[Array | np.ndarray, "... classes"], cost: float | int | Float[Array | np.ndarray, "..."]
) -> Bool[Array, "... classes"]:
    r"""Decide for the most probable class, or keep all classes where abstaining costs less than an error (Chow's rule).

    With a cost of 1 for an error and t for a rejection, the expected cost is least if the instance is

    .. math:: \text{decided} \iff 1 - \max_c p_c \le t

    Parameters
    ----------
    probs
        Probabilities of the classes ``[... classes]``, adding to 1.
    cost
        Cost of a rejection, t in [0, 1], in units of an error; 1 - t is the least probability to decide with. From 1 -
        1/C on nothing is rejected. A number, or ``[...]``.

    Returns
    -------
    Array
        Booleans ``[... classes]``: one class (the lowest index on ties), or all where rejected.

    Raises
    ------
    ValueError
        If there are fewer than two classes, or the cost is neither one number nor one for each row. Outside a trace
        also if a row is no distribution (within 0.001) or the cost lies outside [0, 1].

    Notes
    -----
    As sets, answers can be scored by `jaxunc.metrics.discounted_utility` beside those of cautious forests. The
    probabilities are taken as they are: unlike a cautious forest, the rule knows nothing of how few instances they rest
    on. A probability that misses 1 - t by rounding (no more than 4 eps, 5e-7 in float32) still decides. Under a trace
    rows with NaN are rejected. Gradient: none.

    References
    ----------
    Chow 1970, "On optimum recognition error and reject tradeoff", equation 1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(reject(jnp.array([[0.9, 0.1], [0.6, 0.4]]), cost=0.25))
    [[ True False]
     [ True  True]]
    """
    check_numbers("probs", probs)
    check_within("cost", cost, "[0, 1]", ": what a rejection costs when an error costs 1", shape=None)
    probs = jnp.asarray(probs)
    check_class_axis(probs, "probs")
    if is_concrete(probs):
        values = np.asarray(probs, dtype=float)
        off = np.abs(values.sum(axis=-1) - 1)
        if not (values.min(initial=0) >= -_SLACK and off.max(initial=0) <= _SLACK):
            raise ValueError(
                f"probs must be probabilities, >= 0 and adding to 1 in each row; the smallest is {values.min():.6g}, "
                f"and a row's sum is off by {off.max():.6g}. Use a combiner's probability, not its class scores."
            )
    if np.shape(cost) not in ((), probs.shape[:-1]):
        raise ValueError(
            f"cost has shape {np.shape(cost)}, probs {probs.shape}; pass one number, or one for each row, shape "
            f"{probs.shape[:-1]}."
        )
    dtype = float_dtype(probs)
    return _reject(probs.astype(dtype), jnp.asarray(cost, dtype))


@jit
def _reject(probs, cost):
    n_classes = probs.shape[-1]
    # 0.9 and 1 - 0.1 are rounded apart: without the slack a probability that is exactly enough would be rejected.
    decided = 1 - jnp.max(probs, axis=-1) <= cost + _ULPS * jnp.finfo(probs.dtype).eps
    best = jax.nn.one_hot(jnp.argmax(probs, axis=-1), n_classes, dtype=bool)
    return best | ~decided[..., None]


MOST_SETS = 12
"""Largest number of classes of which all sets are listed."""

_BY_SIZE = {50: (1.0, 0.0), 65: (1.6, -0.6), 80: (2.2, -1.2)}


def expected_utility_set(
    probability: Real[Array | np.ndarray, "... classes"], utility: Any = 65, *, sets: NumbersLike | None = None
) -> Bool[Array, "... classes"]:
    r"""The set of classes whose expected utility is highest: one class where it is probable enough, else several.

    .. math:: A^* = \arg\max_A \; u(|A|) \sum_{c \in A} P(c), \qquad
              u_{65}(k) = \frac{1.6}{k} - \frac{0.6}{k^2}, \quad u_{80}(k) = \frac{2.2}{k} - \frac{1.2}{k^2},
              \quad u_{50}(k) = \frac1k

    Parameters
    ----------
    probability
        Class probabilities, however they came about.
    utility
        50, 65 or 80: what `jaxunc.metrics.discounted_utility` measures, with that reward for a set of two that holds
        the truth. Or a vector ``[classes]``: the utility of a set by its size, if it holds the truth. Or a matrix
        ``[sets classes]``: the utility of each set if that class is the truth.
    sets
        For a matrix: whether each of its sets holds each class, bools ``[sets classes]``. Default: all sets of C ≤ 12
        classes, {0}, {1}, {0, 1}, {2}, … (the bits of 1, 2, 3, 4, …), 2^C - 1 of them.

    Returns
    -------
    Array
        Booleans ``[... classes]``, True for each class in the set; never empty. Among equal expected utilities the
        smaller set is taken (of a matrix the first); among equally probable classes those with the lower index.

    Raises
    ------
    ValueError
        If shapes do not fit, a probability is negative or not finite, a utility is not finite, or a set is empty.

    Notes
    -----
    With a utility by size the best set of each size holds the most probable classes, or the least probable ones where
    that utility is negative: all sets are considered, though not listed. Utilities within rounding tie.

    With u₆₅ two classes are answered together if the larger probability is below .65. Utility 50 never does so: it
    decides. No gradient.

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
    check_class_axis(probability, "probability")
    check_numbers("probability", probability)
    probability = jnp.asarray(probability)
    share = probability.astype(float_dtype(probability))
    if is_concrete(share) and not np.all((np.asarray(share) >= 0) & np.isfinite(np.asarray(share))):
        raise ValueError("probability holds negative, infinite or NaN values; pass class probabilities.")
    if is_concrete(share) and np.any(np.abs(np.asarray(share, float).sum(axis=-1) - 1) > 1e-3):
        raise ValueError("probability has rows that do not add to 1; pass class probabilities, not scores or counts.")
    n_classes = share.shape[-1]
    if np.ndim(utility) == 2:
        return _of_matrix(share, utility, sets)
    if sets is not None:
        raise ValueError("sets belong to a matrix of utilities; of a utility by size all sets are considered.")
    by_size = utility_of_sizes(utility, n_classes).astype(share.dtype)
    # The best set of a size holds the most probable classes, so C sets are compared and not 2^C - 1.
    # Where even a right answer of that size costs, it holds the least probable ones: those are likely to be wrong.
    by_size = jnp.broadcast_to(by_size, share.shape)
    (of_most, place_among_most), (of_least, place_among_least) = _ranked(share, -share), _ranked(share, share)
    expected = by_size * jnp.where(by_size < 0, of_least, of_most)
    size = jnp.argmax(_not_by_rounding(expected, jnp.abs(expected)), axis=-1)[..., None]
    costs = jnp.take_along_axis(by_size, size, axis=-1) < 0
    place = jnp.where(jnp.broadcast_to(costs, share.shape), place_among_least, place_among_most)
    return place <= jnp.broadcast_to(size, place.shape)


def _ranked(share: Float[Array, "... classes"], key: Float[Array, "... classes"]) -> tuple[Array, Array]:
    """Return the probability of the first 1, 2, … classes in the order of a key, and each class's place in it."""
    order = jnp.argsort(key, axis=-1, stable=True)  # stable, so that equal classes keep their order
    within = jnp.cumsum(jnp.take_along_axis(share, order, axis=-1), axis=-1)
    return within, jnp.argsort(order, axis=-1, stable=True)


def utility_of_sizes(utility: Any, n_classes: int) -> Float[Array, "classes"]:
    """Return the utility of a set that holds the truth, by its size 1 … classes."""
    if np.ndim(utility) == 0:
        if utility not in _BY_SIZE:
            raise ValueError(f"utility={utility!r} is unknown. Choose one of {list(_BY_SIZE)}, or pass numbers.")
        linear, square = _BY_SIZE[utility]
        size = np.arange(1, n_classes + 1)
        values = linear / size + square / size**2
    else:
        values = np.asarray(utility, float)
    if values.shape != (n_classes,) or not np.all(np.isfinite(values)):
        raise ValueError(f"utility has shape {values.shape}; pass a finite number for each size, shape ({n_classes},).")
    return jnp.asarray(values, jnp.result_type(float))


def _of_matrix(share: Float[Array, "... classes"], utility, sets) -> Bool[Array, "... classes"]:
    n_classes = share.shape[-1]
    values = np.asarray(utility, float)
    if sets is None:
        if n_classes > MOST_SETS:
            raise ValueError(f"all sets of {n_classes} classes are too many to list; name some by sets.")
        sets = (np.arange(1, 2**n_classes)[:, None] >> np.arange(n_classes)) & 1 == 1
    sets = np.asarray(sets)
    if sets.dtype != bool or sets.ndim != 2 or sets.shape[1] != n_classes or not sets.any(axis=1).all():
        raise ValueError(f"sets must be booleans [sets, {n_classes}], each with a class at least.")
    if values.shape != sets.shape or not np.all(np.isfinite(values)):
        raise ValueError(
            f"utility has shape {values.shape}; pass a finite number for each of {len(sets)} sets and {n_classes} "
            f"classes, shape {sets.shape}."
        )
    by_class = jnp.asarray(values.T, share.dtype)
    expected, gross = _expected(share, by_class), _expected(share, jnp.abs(by_class))
    return jnp.asarray(sets)[jnp.argmax(_not_by_rounding(expected, gross), axis=-1)]


@jit
def _expected(share: Float[Array, "... classes"], by_class: Float[Array, "classes sets"]) -> Float[Array, "... sets"]:
    """Return Σ P(c) u(A, c), class by class: a product of matrices would round by the number of rows."""

    def one(total, of_class):
        probability, utility = of_class
        shape = total.shape
        return total + jnp.broadcast_to(probability[..., None], shape) * jnp.broadcast_to(utility, shape), None

    none = jnp.zeros((*share.shape[:-1], by_class.shape[1]), share.dtype)
    return lax.scan(one, none, (jnp.moveaxis(share, -1, 0), by_class))[0]


def _not_by_rounding(expected: Float[Array, "... sets"], gross: Float[Array, "... sets"]) -> Float[Array, "... sets"]:
    """Raise expected utilities within rounding of the best to the best, so that they tie.

    ``gross``: the sums of what they are sums of, without the signs. Gains and costs that cancel leave its rounding.
    """
    first = jnp.argmax(expected, axis=-1, keepdims=True)
    best, of_best = (jnp.broadcast_to(jnp.take_along_axis(x, first, axis=-1), x.shape) for x in (expected, gross))
    near = expected >= best - 4 * jnp.finfo(expected.dtype).eps * (gross + of_best)
    return jnp.where(near, best, expected)
