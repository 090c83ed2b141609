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
        also if a row of p is not a distribution (within 0.001).

    Notes
    -----
    **What is promised.** If the calibration rows and the new one are exchangeable (drawn alike), and the model was
    fitted without them, the set holds the truth with at least this probability. That is so in the mean over all rows
    and all draws of calibration rows; with ``by_class`` in the mean over the rows of each class. It is no promise for a
    row at hand, nor for a group of rows. Coverage is at most 1/(n + 1) larger, but for ties, and where the most
    probable class is right more often than is promised: then each set is that class alone.

    **Out-of-bag rows** are not calibration rows in this sense, since fewer trees answer for them than for new rows.
    There is no proof for them. On 35 data sets they kept the promise in the mean as well as held-out rows did:
    ``benchmarks/studies/conformal_sets``.

    A class with a probability equal to the threshold is in the set; ties, of which forests have many, are not broken at
    random. If the probabilities are right, sets by a threshold on the probability (the score 1 - p, "LAC") are the
    smallest in the mean with that coverage, but some are empty. Here the most probable class is added, and counts in
    the ranks: the sets hardly differ from those of LAC with that class, and are not larger. Adaptive sets (APS) are
    larger, and more even among easy and hard rows.

    All rows are ranked in one precision, the coarser of p's and the calibration's, so that equal numbers stay equal.
    Outside a trace that is done on the host. Gradient: none.

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
    check_within("coverage", coverage, "(0, 1)", ": how often sets are to hold the truth")
    check_bool("by_class", by_class)
    shares_of_rows, position = _checked(calibration, labels, share.shape[-1])
    traced = not is_concrete(p)
    # All rows are ranked in one precision, the coarser one of p and the calibration.
    rows = share if traced else np.asarray(p)
    float_types = [array.dtype for array in (rows, shares_of_rows) if jnp.issubdtype(array.dtype, jnp.floating)]
    dtype = min(float_types or [np.dtype(float)], key=lambda kind: kind.itemsize)
    ranked = numbers_to_rank(shares_of_rows.astype(dtype), position)
    threshold = least_probabilities(ranked, position, share.shape[-1], coverage, by_class=by_class)
    if traced:
        in_full = _members(share, jnp.asarray(threshold, share.dtype))
        return in_full | _members(share.astype(dtype), jnp.asarray(threshold, dtype))
    is_most_probable = np.argmax(rows, axis=-1)[..., None] == np.arange(rows.shape[-1])
    rows = rows.astype(dtype)
    # The most probable class, and the one after rounding: calibration rows were ranked by theirs after rounding.
    sets = (rows >= threshold) | is_most_probable | (np.argmax(rows, axis=-1)[..., None] == np.arange(rows.shape[-1]))
    return jnp.asarray(sets) if is_of_jax(p) else sets


def _checked(calibration: Any, labels: Any, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of calibration rows ``[rows classes]`` and labels as NumPy arrays; raise unless they fit."""
    if not is_concrete(calibration, labels):
        raise ValueError("calibration and labels are traced, but ranked on the host; pass known arrays.")
    check_numbers("calibration", calibration)
    check_numbers("labels", labels)
    shares, position = np.asarray(calibration), np.asarray(labels)
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
    """Return the number ``[rows]`` by which each row is ranked for conformal sets, larger is better.

    It is the probability of the row's class, ``position [rows]`` of ``probability [rows classes]``; or 1 where that
    class is the most probable (first on ties).
    """
    of_class = np.take_along_axis(probability, position[:, None], axis=1)[:, 0]
    return np.where(probability.argmax(axis=1) == position, 1, of_class) if len(of_class) else of_class


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
    """Return the least probability with which each class is in a conformal set of a coverage, ``[classes]``.

    ``ranked`` holds the `numbers_to_rank` of the calibration rows, and ``position`` their classes. Rows count in the
    ranks by their weights (> 0), the new row by `unit_weight`; with ``by_class``, each class's rows by themselves.
    Raises a ValueError, in which ``names`` name the classes, if there are too few rows.
    """
    thresholds, weight = np.empty(n_classes, ranked.dtype), np.ones(len(ranked)) if weight is None else weight
    for c in range(n_classes) if by_class else [None]:
        rows = np.arange(len(ranked)) if c is None else np.flatnonzero(position == c)
        rows, n = rows[np.argsort(-ranked[rows], kind="stable")], len(rows)
        unit, summed_weight = unit_weight(weight[rows]), np.cumsum(weight[rows])
        # Rounded up, but not for what rounding alone makes of (n + 1) coverage: 100 · .07 is 7.000000000000001.
        rank = np.searchsorted(summed_weight, (weight[rows].sum() + unit) * coverage * (1 - 1e-12))
        if rank >= n:
            needed = math.ceil(coverage / (1 - coverage) * (1 - 1e-12))
            whose = "" if c is None else f" of class {c if names is None else names[c]!r}"
            weigh = "" if (weight[rows] == unit).all() else f", which weigh {weight[rows].sum() / unit:.4g}"
            raise ValueError(
                f"coverage={coverage:g} needs {needed} calibration rows{whose}, and there are {n}{weigh}; pass more of "
                f"them{', or by_class=False' if by_class else ''}, or ask for less coverage."
            )
        thresholds[slice(None) if c is None else c] = ranked[rows[rank]]
    return thresholds


@jit
def _members(share, least):
    """Return sets ``[... classes]``: classes whose ``share`` is at least ``least [classes]``, and the most probable."""
    most_probable = jnp.argmax(share, axis=-1)[..., None] == jnp.arange(share.shape[-1])
    return (share >= jnp.broadcast_to(least, share.shape)) | most_probable


def as_shares(probability: Any) -> np.ndarray:
    """Return probabilities ``[rows classes]`` that add to 1; 1/C for rows of NaN or zeros, as boosted models answer."""
    probability = np.asarray(probability)
    total = probability.sum(axis=1, keepdims=True)
    shares = np.divide(probability, total, out=np.full_like(probability, 1 / probability.shape[1]), where=total > 0)
    return np.where(np.abs(total - 1) < 5e-4, probability, shares)  # what adds to 1 but for rounding keeps its bits


def best_sets(probability: Any, named: np.ndarray, utility: Any = 65) -> np.ndarray:
    """Return sets of the highest expected utility ``[rows classes]``, to which each row's class in ``named`` is added.

    ``probability`` is ``[rows classes]``, and ``utility`` that of `expected_utility_set`.
    """
    return _with(expected_utility_set(as_shares(probability), utility), named)


class Calibration:
    """Calibration rows of conformal sets: their `numbers_to_rank`, classes and weights.

    ``kept`` has a column for each in float32, as classifiers and files keep them: ``[rows 2]``, or ``[rows 3]`` where
    weights differ.
    """

    def __init__(self, kept: np.ndarray):
        self.ranked, self.position = kept[:, 0], kept[:, 1].astype(np.int64)
        self.weight = kept[:, 2].astype(np.float64) if kept.shape[1] == 3 else None

    @staticmethod
    def kept(
        probability: Any, position: np.ndarray, rows: np.ndarray | slice = slice(None), weight: Any = None
    ) -> np.ndarray:
        """Return the array from which a `Calibration` is made, for rows with ``probability [rows classes]``.

        ``position`` holds their classes, and ``weight`` their weights (None: all alike). Of these rows those that
        ``rows`` selects are kept (positions, bools or a slice), if their weights are above 0.
        """
        ranked = numbers_to_rank(
            as_shares(probability).astype(np.float32), position
        )  # as new rows are: `promised_sets`
        columns = [ranked, position, *(() if weight is None else (weight,))]
        kept = np.stack(columns, axis=1).astype(np.float32)[rows]
        if weight is not None:
            kept = kept[kept[:, 2] > 0]
        return kept[:, :2] if weight is None or len(np.unique(kept[:, 2])) == 1 else kept

    def least(self, coverage: float, by_class: bool, labels: Sequence[Any]) -> np.ndarray:
        """Return the least probability ``[classes]`` with which each class is in a conformal set of this coverage.

        Errors name the classes by their ``labels``.
        """
        check_coverage(coverage, by_class)
        options = {"by_class": by_class, "names": labels, "weight": self.weight}
        return least_probabilities(self.ranked, self.position, len(labels), coverage, **options)


def check_coverage(coverage: Any, by_class: Any) -> None:
    """Raise an error unless ``coverage`` is a number in (0, 1), and ``by_class`` a bool: settings of conformal sets."""
    check_within("coverage", coverage, "(0, 1)", ": how often sets are to hold the truth")
    check_bool("by_class", by_class)


def promised_sets(probability: Any, named: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Return conformal sets by ``probability [rows classes]``: classes at least as probable as ``least [classes]``.

    Each row's most probable class, and its class in ``named [rows]``, are added.
    """
    # Rounded as the calibration rows were, so that equal probabilities stay equal.
    shares = as_shares(probability).astype(np.float32)
    return _with(shares >= least.astype(np.float32), shares.argmax(axis=1), named)


def decided(probability: Any, named: np.ndarray, costs: np.ndarray | None, reject: NumbersLike | None) -> np.ndarray:
    """Return the decision for each row: the class of least cost, without costs the one ``named``; -1 where rejected."""
    positions = least_cost(as_shares(probability), costs, reject=reject)
    return np.where(positions < 0, positions, named) if costs is None else np.asarray(positions)


def _with(sets: Any, *classes: np.ndarray) -> np.ndarray:
    """Return a copy of sets ``[rows classes]`` to which the class of each row, ``[rows]`` for each array, is added."""
    sets = np.array(sets)
    for positions in classes:
        sets[np.arange(len(sets)), np.asarray(positions)] = True
    return sets
