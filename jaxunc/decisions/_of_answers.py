"""Decisions from a model's probabilities that agree with the class that it predicts, and conformal sets of classes.

A set holds the most probable class and the predicted one. Without costs the decision is the predicted class. Conformal
sets promise how often they hold the truth, from calibration rows that the model has not seen.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Real

from jaxunc._checks import check_bool, check_numbers, check_within, is_concrete
from jaxunc._numerics import jit, unit_weight
from jaxunc.tables import NumbersLike

from ._costs import checked_probability, expected_utility_set, is_of_jax
from ._named_costs import least_cost


def conformal_sets(
    p: Real[Array | np.ndarray, "... classes"],
    calibration: Real[Array | np.ndarray, "rows classes"],
    labels: Int[Array | np.ndarray, " rows"],
    *,
    coverage: float = 0.9,
    by_class: bool = False,
) -> Bool[Array | np.ndarray, "... classes"]:
    r"""Return sets of classes that hold the truth with a given probability, by split conformal prediction.

    For each of n calibration rows let a_i be the probability of its class, or 1 if that class is the most probable:

    .. math:: A = \{c : p_c \ge a_{(k)}\} \cup \{\arg\max_c p_c\}, \qquad
              a_{(k)} \text{ the } k\text{-th largest}, \quad k = \lceil (n + 1) \cdot \text{coverage} \rceil

    Parameters
    ----------
    p
        Class probabilities ``[... classes]`` of the rows to find sets for.
    calibration
        Probabilities ``[rows classes]`` by the same model for rows that it was not fitted to.
    labels
        The classes of the calibration rows as numbers 0 … C - 1, ``[rows]``.
    coverage
        How often a set is to hold the truth, in (0, 1).
    by_class
        Rank the calibration rows of each class by themselves: the promise is then kept for each class (Mondrian).

    Returns
    -------
    Array
        Booleans ``[... classes]``; a NumPy array for NumPy arrays. Every set holds the most probable class (the first
        one on ties), so none is empty.

    Raises
    ------
    ValueError
        If there are fewer calibration rows (of any class with ``by_class``) than coverage / (1 - coverage), which is 9
        for .9. If shapes do not fit, or coverage lies outside (0, 1), or calibration rows are traced. Outside a trace
        also if a row of p is not a distribution (within 0.001; in half precision within the precision times C).

    Notes
    -----
    **What is promised.** If the calibration rows and the new one are exchangeable (drawn alike), and the model was
    fitted without them, the set holds the truth with at least the probability ``coverage``. That is so in the mean over
    all rows and all draws of calibration rows; with ``by_class`` in the mean over the rows of each class. It is no
    promise for a row at hand, nor for a group of rows. The sets hold the truth at most 1/(n + 1) more often, but for
    ties, and where the most probable class is right more often than ``coverage``: then each set is that class alone.

    **Out-of-bag rows** are not calibration rows in this sense, since fewer trees answer for them than for new rows.
    There is no proof for them. On 35 data sets they kept the promise in the mean as well as held-out rows did:
    ``benchmarks/studies/conformal_sets``.

    A class with a probability equal to the threshold is in the set; ties, of which forests have many, are not broken at
    random. If the probabilities are right, sets by a threshold on the probability (the score 1 - p, "LAC") are the
    smallest in the mean with that coverage, but some are empty. Here the most probable class is added, and counts in
    the ranks: the sets hardly differ from those of LAC with that class, and are not larger. Adaptive sets (APS) are
    larger, and more even among easy and hard rows. All rows are ranked in one precision, the coarser of p's and the
    calibration's, so that equal numbers stay equal. Gradient: none.

    References
    ----------
    Vovk, Gammerman and Shafer 2005; Sadinle, Lei and Wasserman 2019, "Least ambiguous set-valued classifiers with
    bounded error levels"; Romano, Sesia and Candès 2020 for adaptive sets.

    Examples
    --------
    >>> import numpy as np
    >>> import jaxunc as ju
    >>> own = np.linspace(0.35, 0.9, 19)  # the probability of their own class, 0, of 19 rows that were held out
    >>> held_out, labels = np.stack([own, 1 - own], axis=1), np.zeros(19, int)
    >>> p = np.array([[0.3, 0.7], [0.45, 0.55]])
    >>> print(ju.decisions.conformal_sets(p, held_out, labels, coverage=0.95))
    [[False  True]
     [ True  True]]
    >>> print(ju.decisions.conformal_sets(p, held_out, labels, coverage=0.6))
    [[False  True]
     [False  True]]
    """
    share: Any = checked_probability("p", p)
    check_coverage(coverage, by_class)
    shares_of_rows, position = _checked(calibration, labels, share.shape[-1])
    traced = not is_concrete(p)
    rows = share if traced else np.asarray(p)
    float_types = [array.dtype for array in (rows, shares_of_rows) if jnp.issubdtype(array.dtype, jnp.floating)]
    dtype = min(float_types or [np.dtype(float)], key=lambda kind: kind.itemsize)  # the coarser one
    ranked = numbers_to_rank(shares_of_rows.astype(dtype), position)
    threshold = least_probabilities(ranked, position, share.shape[-1], coverage, by_class=by_class)
    if traced:
        in_full = _members(share, jnp.asarray(threshold, share.dtype))
        return in_full | _members(share.astype(dtype), jnp.asarray(threshold, dtype))
    # The most probable class is added, and the one after rounding: calibration rows were ranked by that.
    is_most_probable = np.argmax(rows, axis=-1)[..., None] == np.arange(rows.shape[-1])
    rows = rows.astype(dtype)
    is_most_probable_rounded = np.argmax(rows, axis=-1)[..., None] == np.arange(rows.shape[-1])
    sets = (rows >= threshold) | is_most_probable | is_most_probable_rounded
    return jnp.asarray(sets) if is_of_jax(p) else sets


def _checked(calibration: Any, labels: Any, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the calibration rows' probabilities ``[rows classes]`` and their classes ``[rows]`` as NumPy arrays.

    Raises a ValueError if they are traced, do not fit each other and ``n_classes``, or hold wrong numbers.
    """
    if not is_concrete(calibration, labels):
        raise ValueError("calibration and labels are traced, but ranked on the host; pass known arrays.")
    check_numbers("calibration", calibration)
    check_numbers("labels", labels)
    shares = np.asarray(calibration)
    position = np.asarray(labels)
    if position.ndim != 1 or (position.size and position.dtype.kind not in "iu"):
        raise ValueError(
            f"labels has shape {position.shape} and type {position.dtype}; pass positions of classes, integers [rows]."
        )
    if shares.shape != (*position.shape, n_classes):
        raise ValueError(
            f"calibration has shape {shares.shape}, for {len(position)} labels and {n_classes} classes; pass "
            f"probabilities of shape {(len(position), n_classes)}."
        )
    if position.size and not 0 <= position.min() <= position.max() < n_classes:
        raise ValueError(f"labels holds {position.min()} to {position.max()}; positions are 0 to {n_classes - 1}.")
    if not np.all((shares >= 0) & (shares <= 1.001)):
        raise ValueError("calibration holds values outside [0, 1], or NaN; pass class probabilities.")
    return shares, position


def numbers_to_rank(probability: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return the number ``[rows]`` by which each row is ranked for conformal sets; larger is better.

    It is the probability of the row's class, or 1 where that class is the most probable (the first one on ties).
    ``probability`` is ``[rows classes]``, and ``position [rows]`` has the numbers of the rows' classes.
    """
    of_class = np.take_along_axis(probability, position[:, None], axis=1)[:, 0]
    if not len(of_class):
        return of_class
    return np.where(probability.argmax(axis=1) == position, 1, of_class)


def least_probabilities(
    ranked: np.ndarray,
    position: np.ndarray,
    n_classes: int,
    coverage: float,
    *,
    by_class: bool,
    names: Any = None,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Return for each class the least probability with which it is in a conformal set: ``[classes]``.

    ``ranked`` has the `numbers_to_rank` of the calibration rows, and ``position`` the numbers of their classes. Rows
    count in the ranks by ``weight`` (> 0; None: all alike), the new row by `unit_weight`. With ``by_class``, the rows
    of each class are ranked by themselves. Raises a ValueError, in which ``names`` name the classes, if there are too
    few rows.
    """
    if weight is None:
        weight = np.ones(len(ranked))
    if not by_class:
        least = _least_probability(ranked, weight, coverage)
        return np.full(n_classes, least, ranked.dtype)
    thresholds = np.empty(n_classes, ranked.dtype)
    for c in range(n_classes):
        rows = np.flatnonzero(position == c)
        whose = f" of class {c if names is None else names[c]!r}"
        hint = ", or by_class=False"
        thresholds[c] = _least_probability(ranked[rows], weight[rows], coverage, whose=whose, hint=hint)
    return thresholds


def _least_probability(
    ranked: np.ndarray, weight: np.ndarray, coverage: float, *, whose: str = "", hint: str = ""
) -> Any:
    """Return the largest number that rows of a share ``coverage`` of the weight reach: a conformal quantile.

    ``ranked`` has the rows' numbers in any order, and ``weight`` their weights; the share is of these and of one unit
    more, for a new row. Raises a ValueError, which says ``whose`` rows they are and a ``hint``, for too few rows.
    """
    order = np.argsort(-ranked, kind="stable")
    ranked = ranked[order]
    weight = weight[order]
    n_rows = len(ranked)
    unit = unit_weight(weight)
    # The first row, from the best down, at which the weights reach the share. 1e-12 less, since rounding alone may make
    # the share larger than a sum of weights that it equals: 100 · .07 is 7.000000000000001.
    rank = np.searchsorted(np.cumsum(weight), (weight.sum() + unit) * coverage * (1 - 1e-12))
    if rank >= n_rows:
        # With n rows of equal weight, (n + 1) coverage ≤ n where n ≥ coverage/(1 - coverage).
        needed = math.ceil(coverage / (1 - coverage) * (1 - 1e-12))
        weigh = "" if (weight == unit).all() else f", which weigh {weight.sum() / unit:.4g}"
        raise ValueError(
            f"coverage={coverage:g} needs {needed} calibration rows{whose}, and there are {n_rows}{weigh}; pass more "
            f"of them{hint}, or ask for less coverage."
        )
    return ranked[rank]


@jit
def _members(share, least):
    """Return sets, bools ``[... classes]``: classes with a ``share`` of ``least`` or more, and the most probable."""
    most_probable = jnp.argmax(share, axis=-1)[..., None] == jnp.arange(share.shape[-1])
    return (share >= jnp.broadcast_to(least, share.shape)) | most_probable


def as_shares(probability: Any) -> np.ndarray:
    """Return ``probability [rows classes]`` with each row divided by its sum.

    Rows that add to 1 but for rounding stay as they are. Rows of NaN or zeros, which boosted models may answer, become
    1/C.
    """
    probability = np.asarray(probability)
    total = probability.sum(axis=1, keepdims=True)
    shares = np.divide(probability, total, out=np.full_like(probability, 1 / probability.shape[1]), where=total > 0)
    # A sum this close to 1 differs from it by rounding; NaN is not close.
    return np.where(np.abs(total - 1) < 5e-4, probability, shares)


def best_sets(probability: Any, named: np.ndarray, utility: Any = 65) -> np.ndarray:
    """Return the sets of the highest expected utility, bools ``[rows classes]``, with the predicted classes added.

    ``probability`` is ``[rows classes]``, ``named [rows]`` has the numbers of the predicted classes, and ``utility`` is
    that of `expected_utility_set`.
    """
    return _with(expected_utility_set(as_shares(probability), utility), named)


class Calibration:
    """The calibration rows of conformal sets: their `numbers_to_rank`, the numbers of their classes, their weights.

    These are the columns of the float32 array ``kept``, ``[rows 3]``, which classifiers and files hold. It has the
    first two alone, ``[rows 2]``, if all weights are equal.
    """

    def __init__(self, kept: np.ndarray):
        self.ranked = kept[:, 0]
        self.position = kept[:, 1].astype(np.int64)
        self.weight = kept[:, 2].astype(np.float64) if kept.shape[1] == 3 else None

    @staticmethod
    def kept(
        probability: Any, position: np.ndarray, rows: np.ndarray | slice = slice(None), weight: Any = None
    ) -> np.ndarray:
        """Return the array ``[rows 2]`` or ``[rows 3]`` that a `Calibration` is made of.

        ``probability [rows classes]`` are the model's answers for its rows, ``position`` the numbers of their classes,
        and ``weight`` their weights (None: all alike). ``rows`` selects among them, by positions, bools or a slice.
        Rows of weight 0 are left out.
        """
        # In float32, as new rows are: `promised_sets`.
        ranked = numbers_to_rank(as_shares(probability).astype(np.float32), position)
        if weight is None:
            return np.stack([ranked, position], axis=1).astype(np.float32)[rows]
        kept = np.stack([ranked, position, weight], axis=1).astype(np.float32)[rows]
        kept = kept[kept[:, 2] > 0]
        has_equal_weights = len(np.unique(kept[:, 2])) == 1
        return kept[:, :2] if has_equal_weights else kept

    def least(self, coverage: float, by_class: bool, labels: Sequence[Any]) -> np.ndarray:
        """Return for each class the least probability with which it is in a conformal set, ``[classes]``.

        The sets are to hold the truth as often as ``coverage`` says. With ``by_class``, the rows of each class are
        ranked by themselves. Errors name the classes by ``labels``.
        """
        check_coverage(coverage, by_class)
        options = {"by_class": by_class, "names": labels, "weight": self.weight}
        return least_probabilities(self.ranked, self.position, len(labels), coverage, **options)


def check_coverage(coverage: Any, by_class: Any) -> None:
    """Raise an error unless ``coverage`` is a number in (0, 1) and ``by_class`` a bool, as conformal sets need."""
    check_within("coverage", coverage, "(0, 1)", ": how often sets are to hold the truth")
    check_bool("by_class", by_class)


def promised_sets(probability: Any, named: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Return conformal sets, bools ``[rows classes]``: the classes that are at least as probable as ``least`` says.

    ``probability`` is ``[rows classes]``, and ``least`` has a probability for each class. The most probable class of
    each row is added, and its predicted class, whose number is in ``named [rows]``.
    """
    # Rounded as the calibration rows were, so that equal probabilities stay equal.
    shares = as_shares(probability).astype(np.float32)
    return _with(shares >= least.astype(np.float32), shares.argmax(axis=1), named)


def decided(probability: Any, named: np.ndarray, costs: np.ndarray | None, reject: NumbersLike | None) -> np.ndarray:
    """Return the number of the class that is decided for in each row ``[rows]``, or -1 where the row is rejected.

    ``probability`` is ``[rows classes]``; ``costs`` and ``reject`` are those of `least_cost`. Without costs the
    decision is the predicted class, whose number is in ``named [rows]``.
    """
    positions = least_cost(as_shares(probability), costs, reject=reject)
    if costs is not None:
        return np.asarray(positions)
    return np.where(positions < 0, positions, named)


def _with(sets: Any, *classes: np.ndarray) -> np.ndarray:
    """Return a copy of ``sets``, bools ``[rows classes]``, with further classes added to each row's set.

    Each array of ``classes`` has for each row the number of a class, ``[rows]``.
    """
    sets = np.array(sets)
    for numbers in classes:
        sets[np.arange(len(sets)), np.asarray(numbers)] = True
    return sets
