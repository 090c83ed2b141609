"""The imprecise Dirichlet model: bounds of probabilities, and preferences, from few instances.

Its strength s is a number of instances of unknown class, added to the counted ones. `idm_interval` bounds each class's
probability; `dominance` tells which class is preferred to which, whatever the classes of the s instances are.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Num, Shaped

from jaxunc._checks import check_class_axis, check_counts, is_concrete, warn_of_fractions
from jaxunc._numerics import as_counts, copy_in, float_dtype, jit, same_rank, sum_in_order, two_sum
from jaxunc.tables import NumbersLike


class Interval(NamedTuple):
    """Closed intervals, ``lower <= upper``: a probability of class 1 ``[...]``, or one per class ``[... classes]``."""

    lower: Float[jax.Array | np.ndarray, "..."]
    upper: Float[jax.Array | np.ndarray, "..."]

    def around(self, probability: Float[jax.Array | np.ndarray, "..."]) -> "Interval":
        """Return these intervals, each widened as far as it needs to hold its ``probability``.

        The ends are NumPy arrays if all arguments are, else JAX arrays.
        """
        xp = np if isinstance(self.lower, np.ndarray) and isinstance(probability, np.ndarray) else jnp
        return Interval(xp.minimum(self.lower, probability), xp.maximum(self.upper, probability))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs that `columns` makes: "interval" alone."""
        return ("interval",)

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """Return the ends of the intervals as NumPy arrays, ``{"lower": …, "upper": …}``, for the output "interval"."""
        return {name: np.asarray(ends) for name, ends in self._asdict().items()}


def idm_interval(
    counts: Shaped[Array | np.ndarray, "... classes"], s: float | int | Float[Array | np.ndarray, "..."]
) -> Interval:
    r"""Bounds of each class's probability in the imprecise Dirichlet model.

    .. math:: \left[\frac{n_c}{N + s},\; \frac{n_c + s}{N + s}\right], \qquad N = \sum_c n_c

    These are the frequencies of class c after s instances are added: all of other classes (lower), or all of c (upper).
    Each interval of a leaf has the width s/(N + s), its epistemic uncertainty.

    Parameters
    ----------
    counts
        Class counts of leaves ``[... classes]``, ≥ 0, real or integer, two classes or more.
    s
        The strength, > 0; a number, or ``[...]`` with one for each leaf.

    Returns
    -------
    Interval
        ``(lower, upper)``, each ``[... classes]``, in [0, 1].

    Raises
    ------
    ValueError
        If the last axis holds fewer than two classes, or s does not fit the leaves. Outside a trace also if a count is
        negative or not finite, or s is not positive and finite.

    Warns
    -----
    FractionsWarning
        If all rows add to 1 and not all are integers, as frequencies do that are passed for counts.

    Notes
    -----
    Empty leaf: [0, 1]. A pure leaf's upper bound is 1 exactly. Counts of 10⁹ are exact to rounding.
    Gradient: that of the fractions, everywhere; ∂lower/∂n_c = (N + s - n_c)/(N + s)², and so on.

    References
    ----------
    Walley 1996; Zhang, Quost and Masson 2021, "IDM intervals".

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> lower, upper = idm_interval(jnp.array([[1, 2], [0, 0]]), s=1)
    >>> print(lower, upper)
    [[0.25 0.5 ]
     [0.   0.  ]] [[0.5  0.75]
     [1.   1.  ]]
    """
    counts = as_counts(counts)
    check_class_axis(counts)
    check_counts(counts)
    warn_of_fractions(counts)
    return _idm_interval(counts, _strength_of_leaves(s, counts))


@jit
def _idm_interval(counts, s):
    """Return the intervals of `idm_interval` for checked counts ``[... classes]`` and strengths ``s``."""
    counts = counts.astype(float_dtype(counts, s))
    counts, s = same_rank(counts, s[..., None].astype(counts.dtype))
    total = jnp.broadcast_to(sum_in_order(counts, keepdims=True) + s, counts.shape)
    # Without the barrier the compiler multiplies by the reciprocal, and (n + s)/(n + s) is no longer 1.
    total = lax.optimization_barrier(total)
    return Interval(counts / total, (counts + s) / total)


def dominance(
    counts: Shaped[Array | np.ndarray, "... classes"], s: float | int | Float[Array | np.ndarray, "..."]
) -> Bool[Array, "... classes classes"]:
    r"""Return whether class c is preferred to class c' under every distribution of the imprecise Dirichlet model.

    .. math:: c \succ c' \iff n_c - n_{c'} \ge s

    Entry (c, c') of ``[... classes classes]`` is for c over c'; never both (c, c') and (c', c). For this model
    dominance of intervals and under every single distribution (maximality) are the same. With equality, c is at least
    as probable as c' in the worst case.

    The decision is made on the counts themselves, without division. Integers are compared exactly. Fractions, and
    integers that do not fit 32 bits unless JAX has 64, are compared as the floats that they are. Empty leaf: no
    preference. Gradient: none. Parameters, errors and warnings: those of `idm_interval`.

    References
    ----------
    Zhang, Quost and Masson 2021; Walley 1991 (maximality).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(dominance(jnp.array([4, 1, 2]), s=2))
    [[False  True  True]
     [False False False]
     [False False False]]
    """
    counts = as_counts(counts)
    check_class_axis(counts)
    check_counts(counts)
    warn_of_fractions(counts)
    return _dominance(counts, _strength_of_leaves(s, counts))


@jit
def _dominance(counts, s):
    """Return the bools ``[... classes classes]`` of `dominance` for checked counts and strengths."""
    count, other_count, s = same_rank(counts[..., :, None], counts[..., None, :], s[..., None, None])
    if not jnp.issubdtype(counts.dtype, jnp.integer):
        # The exact difference, as two floats: rounded, a difference just below s could reach it.
        high, low = two_sum(count, -other_count)
        return (high > s) | ((high == s) & (low >= 0))
    # An integer is at least s if it is at least s rounded up. It never is if that is beyond the largest integer.
    fits = jnp.ceil(s) < 2.0 ** (jnp.iinfo(counts.dtype).bits - (counts.dtype.kind == "i"))
    threshold = jnp.where(fits, jnp.ceil(s), 0).astype(counts.dtype)
    # Subtracted only where the result is not negative: unsigned counts would wrap around.
    is_more = count > other_count
    return fits & is_more & (jnp.where(is_more, count - other_count, 0) >= threshold)


def undominated(preferred: Bool[Array | np.ndarray, "... classes classes"]) -> Bool[Array | np.ndarray, "... classes"]:
    """Return for each class whether no other class is preferred to it; True for all if that leaves no class.

    The entry (c, c') of ``preferred`` says whether class c is preferred to class c'.
    """
    xp = np if isinstance(preferred, np.ndarray) else jnp
    is_undominated = ~xp.any(preferred, axis=-2)
    return is_undominated | ~xp.any(is_undominated, axis=-1, keepdims=True)


def differences(counts: Num[Array, "... classes"]) -> Float[Array, "... classes classes"]:
    """Return the difference n_c - n_c' of the counts of each pair of classes, rounded to a float after subtraction."""
    count, other_count = counts[..., :, None], counts[..., None, :]
    dtype = float_dtype(counts)
    # Unsigned counts have no negative differences.
    above = jnp.maximum(count, other_count) - other_count
    below = jnp.maximum(other_count, count) - count
    return above.astype(dtype) - below.astype(dtype)


def checked_strength(s: NumbersLike) -> Float[Array, "..."]:
    """Return the strength ``s`` as a float array; raise a ValueError unless all of it is positive and finite."""
    check_strength(s)
    return copy_in(s, float_dtype(s))


def _strength_of_leaves(s: NumbersLike, counts: Num[Array, "... classes"]) -> Float[Array, "..."]:
    """Return the strength ``s`` as a float array; raise a ValueError unless it broadcasts against leaves ``[...]``."""
    checked = checked_strength(s)
    try:
        np.broadcast_shapes(checked.shape, counts.shape[:-1])
    except ValueError:
        raise ValueError(
            f"s has shape {checked.shape}, but counts have shape {counts.shape}; pass one number, or one for each "
            f"leaf, shape {counts.shape[:-1]}."
        ) from None
    return checked


def single_strength(s: NumbersLike) -> Float[Array, "..."]:
    """Return the strength ``s`` of a combiner as a float array; raise a ValueError unless it has one valid entry."""
    checked = checked_strength(s)
    if checked.size != 1:
        raise ValueError(
            f"s has shape {checked.shape}; a combiner has one strength for all classes, trees and instances: pass one "
            "number. To compare several, bind several combiners by name."
        )
    return checked


def check_strength(s: NumbersLike) -> None:
    """Raise a ValueError unless the strength ``s`` is positive and finite; a traced one is not checked."""
    if is_concrete(s):
        values = np.asarray(s)
        if is_valid := jnp.issubdtype(values.dtype, jnp.number):
            values, limits = values.astype(float), jnp.finfo(float_dtype(values))
            is_valid = np.all((values >= limits.tiny) & (values <= limits.max))
        if not is_valid:
            raise ValueError(
                f"s={s!r} must be a positive, finite number: the instances that an interval allows for beyond those "
                "counted. Usual are 1 and 2; with s = 0 the interval would be a point."
            )
