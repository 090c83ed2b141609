"""Classes to which no other is preferred: by the votes of a cautious forest, by intervals, or in one leaf.

`CautiousReport` answers with the set of a cautious forest, a class, probabilities, intervals and votes.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, Num, Shaped

from jaxunc._checks import check_class_axis, check_kind, is_concrete
from jaxunc._numerics import copy_in, jit, same_rank, sum_in_order
from jaxunc._types import PyTree
from jaxunc.combiners import AveragedIntervals, Combiner, ExplainedVote, GeneralizedVote, Preference
from jaxunc.scorers import Interval, dominance, undominated
from jaxunc.tables import NumbersLike

from ._costs import is_of_jax


def nondominated(preference: Preference) -> Bool[Array | np.ndarray, "... classes"]:
    r"""Return which classes remain: no other class is preferred to them by half of the votes' mass or more.

    For two classes, with bel and pl the belief and the plausibility of class 1:

    .. math:: \{0\} \text{ if } pl < \tfrac12, \quad \{1\} \text{ else if } bel \ge \tfrac12, \quad
              \{0, 1\} \text{ otherwise.}

    For more, c' is rejected if for some c the votes that prefer c to c' have at least half of the mass.

    Parameters
    ----------
    preference
        An answer of `jaxunc.GeneralizedVote`, or one made by hand.

    Returns
    -------
    Array
        Booleans ``[... classes]``: the classes that remain; a NumPy array for NumPy arrays. Never empty: where every
        class is rejected (in a cycle, or by an exact tie), all remain.

    Raises
    ------
    TypeError, ValueError
        If ``preference`` is no `Preference`, or its mass not ``[... classes classes]`` with two classes or more.

    Notes
    -----
    Between two classes the decision is asymmetric: class 1 needs half of the mass, class 0 more. So an exact half-half
    split is decided for class 1. Without mass (all trees masked, or all leaves empty with masses of their size) all
    classes remain. Exact where the preference is. Gradient: none.

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
    if not is_of_jax(preference):  # not by JAX, which may round the masses
        return jax.tree.map(np.asarray, preference).remaining
    return _remaining(*jax.tree.map(copy_in, preference))


@jit
def _remaining(mass, total, excess):
    """Return the classes that remain, bools ``[... classes]``, for the fields of a `Preference`."""
    return Preference(mass, total, excess).remaining


class CautiousAnswer(NamedTuple):
    """Answer of a `CautiousReport`: the set, class, probabilities, intervals and votes of a cautious forest."""

    membership: Bool[Array | np.ndarray, "... classes"]
    """Whether each class is in the set: `nondominated` of ``preference``."""
    predicted: Int32[Array | np.ndarray, "..."]
    """The class of the set with the largest probability (the lowest index on ties)."""
    probability: Float[Array | np.ndarray, "... classes"]
    """The mean of (n_c + s/C)/(N + s) over trees, a point inside the averaged intervals."""
    interval: Interval
    """The bounds of the class probabilities, as `AveragedIntervals` answers."""
    preference: Preference
    """The masses of the trees that prefer a class to another, as `GeneralizedVote` answers."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs that `columns` makes: classes, probabilities, intervals and sets."""
        return ("class", "probability", "interval", "set")

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """Return the array that a name in `outputs` stands for, as the dictionary ``{output: array}``.

        For "interval" it is the dictionary of the lower and the upper ends (`Interval.columns`).
        """
        if output == "interval":
            return self.interval.columns(output)
        arrays = {"class": self.predicted, "probability": self.probability, "set": self.membership}
        return {output: np.asarray(arrays[output])}


class CautiousReport(Combiner[CautiousAnswer]):
    """Combiner that answers with a `CautiousAnswer`: sets, classes, probabilities, intervals and votes of a forest.

    Parameters
    ----------
    s
        The strength of the imprecise Dirichlet model, > 0.
    mass
        Mass of a tree's vote: ``"equal"``, ``"leaf_size"`` or ``"certainty"``; see `jaxunc.GeneralizedVote`.

    Raises
    ------
    ValueError
        If s is not one number, positive and finite, or the mass is unknown.

    Warns
    -----
    FractionsWarning
        Where concrete counts enter: if all rows add to 1 and not all are integers.

    Notes
    -----
    Sets are decided by votes, probabilities by counts, so a set may lack the most probable class. Without trees the
    answer is all classes, with equal probabilities.

    References
    ----------
    Zhang, Quost and Masson 2021.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> report = CautiousReport(s=1)(jnp.array([[[0, 4], [1, 2], [2, 2]], [[1, 1], [2, 2], [0, 1]]]))
    >>> print(report.membership, report.predicted)
    [[False  True]
     [ True  True]] [1 1]
    """

    vote: GeneralizedVote
    averaged: AveragedIntervals

    def __init__(self, s: NumbersLike, mass: Literal["equal", "leaf_size", "certainty"] = "equal"):
        self.vote = GeneralizedVote(s, mass)
        self.averaged = AveragedIntervals(s)

    @property
    def merge(self) -> PyTree:
        """How the statistic merges over trees: a dictionary of the merges of the vote and of the intervals."""
        return {"vote": self.vote.merge, "averaged": self.averaged.merge}

    def explained(self) -> ExplainedVote:
        """Return the `ExplainedVote` with the same s and mass: the combiner that explains this one's sets."""
        return ExplainedVote(self.vote.s, self.vote.mass)

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Return the statistics of the vote and of the averaged intervals for leaves with these counts."""
        return {"vote": self.vote.lift(counts), "averaged": self.averaged.lift(counts)}

    def finish(self, stat: PyTree) -> CautiousAnswer:
        """Return the votes and intervals of the merged statistics, and the set and the class decided by them."""
        preference = self.vote.finish(stat["vote"])
        interval = self.averaged.finish(stat["averaged"])
        membership = nondominated(preference)
        unknown = 1 - sum_in_order(jnp.asarray(interval.lower), keepdims=True)
        probability = interval.lower + unknown / interval.lower.shape[-1]
        predicted = jnp.argmax(jnp.where(membership, probability, -1.0), axis=-1).astype(jnp.int32)
        return CautiousAnswer(membership, predicted, probability, interval, preference)


def interval_dominance(interval: Interval) -> Bool[Array | np.ndarray, "... classes"]:
    r"""Return the classes whose upper bound no other class's lower bound exceeds.

    .. math:: c' \text{ is rejected} \iff \exists c: \underline p_c > \overline p_{c'}

    With two classes, class 1's lower bound rejects class 0 where the two bounds are equal, too.

    Parameters
    ----------
    interval
        Bounds ``[... classes]`` of each class's probability, such as `jaxunc.AveragedIntervals` answers.

    Returns
    -------
    Array
        Booleans ``[... classes]``: the classes that remain, at least one; a NumPy array for NumPy arrays.

    Raises
    ------
    ValueError
        If there are fewer than two classes or the shapes differ. Outside a trace also if a lower bound is above its
        upper one, or a bound is NaN or outside [0, 1].

    Notes
    -----
    For two classes the authors' slides decide {1} if the lower bound of class 1 is at least one half, {0} if its upper
    bound is less: hence the exception at equality, where the formula would keep both classes. The bounds are compared
    as they are, rounding included. Under a trace rows with NaN keep all classes. Gradient: none.

    References
    ----------
    Zhang, Quost and Masson 2021, the baseline of the experiments; Troffaes 2007 (interval dominance).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jaxunc.scorers import Interval
    >>> lower, upper = jnp.array([[0.5, 0.1, 0.0], [0.3, 0.2, 0.1]]), jnp.array([[0.8, 0.4, 0.3], [0.6, 0.4, 0.3]])
    >>> print(interval_dominance(Interval(lower, upper)))
    [[ True False False]
     [ True  True  True]]
    """
    check_kind("interval", interval, tuple, "an Interval(lower, upper)")
    lower, upper = (copy_in(bound) for bound in interval)
    check_class_axis(lower, "interval.lower")
    if lower.shape != upper.shape:
        raise ValueError(f"interval.lower has shape {lower.shape} and interval.upper {upper.shape}; pass equal shapes.")
    if is_concrete(lower, upper):
        low, high = np.asarray(lower), np.asarray(upper)
        wrong = ~((low >= 0) & (low <= high) & (high <= 1))
        if wrong.any():
            index = tuple(map(int, np.argwhere(wrong)[0]))
            raise ValueError(
                f"interval{list(index)} is [{low[index]}, {high[index]}]; bounds of a probability must obey "
                "0 <= lower <= upper <= 1."
            )
        if not is_of_jax(interval):  # by ranks, since JAX may have rounded the bounds
            _, ranks = np.unique(np.stack([np.asarray(bound) for bound in interval]), return_inverse=True)
            lower, upper = jnp.asarray(ranks.reshape(2, *low.shape).astype(np.int32))
    remaining = _interval_dominance(lower, upper)
    return remaining if is_of_jax(interval) else np.array(remaining)


@jit
def _interval_dominance(lower, upper):
    """Return the classes that remain by `interval_dominance` for bounds ``[... classes]`` that were checked."""
    off_diagonal = ~jnp.eye(lower.shape[-1], dtype=bool)
    low, high, is_other = same_rank(lower[..., :, None], upper[..., None, :], off_diagonal)
    preferred = (low > high) & is_other  # whether the first class is preferred to the second
    if lower.shape[-1] == 2:
        # Class 1 is preferred also where its lower bound equals the upper bound of class 0.
        reaches_class_0 = low[..., 1, 0] >= high[..., 0, 0]
        preferred = preferred.at[..., 1, 0].set(reaches_class_0 & ~preferred[..., 0, 1])
    return undominated(preferred)


def maximality(
    counts: Shaped[Array | np.ndarray, "... classes"], s: float | int | Float[Array | np.ndarray, "..."]
) -> Bool[Array, "... classes"]:
    r"""Return the classes of a leaf to which no other class is preferred in the imprecise Dirichlet model.

    .. math:: c' \text{ is rejected} \iff \max_c n_c - n_{c'} \ge s

    Booleans ``[... classes]``, at least one True. Exact for integer counts. For this model interval dominance gives the
    same set, except that equality rejects here. Empty leaf: all classes. Gradient: none. Parameters (``counts`` of
    leaves, strength ``s``), errors and warnings: those of `jaxunc.scorers.idm_interval`.

    References
    ----------
    Walley 1991, section 3.9; Zhang, Quost and Masson 2021.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(maximality(jnp.array([[5, 4, 1], [0, 0, 0]]), s=2))
    [[ True  True False]
     [ True  True  True]]
    """
    return _maximal(dominance(counts, s))


_maximal = jit(undominated)
