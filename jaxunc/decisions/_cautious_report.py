"""The full report of a cautious forest on an instance, in one routing."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, Num

from jaxunc._numerics import sum_in_order
from jaxunc._types import PyTree
from jaxunc.combiners import AveragedIntervals, Combiner, ExplainedVote, GeneralizedVote, Preference
from jaxunc.intervals import Interval
from jaxunc.tables import NumbersLike

from ._nondominated import nondominated


class CautiousAnswer(NamedTuple):
    """The full answer of a cautious forest."""

    membership: Bool[Array | np.ndarray, "... classes"]
    """Whether each class is in the set: `nondominated` of the preference."""
    predicted: Int32[Array | np.ndarray, "..."]
    """The class of the set with the largest probability (the lowest index on ties)."""
    probability: Float[Array | np.ndarray, "... classes"]
    """The centre of the leaves' intervals, the mean of (n_c + s/C)/(N + s) over trees."""
    interval: Interval
    """The bounds of the class probabilities, those of `AveragedIntervals`."""
    preference: Preference
    """The masses for and against the classes, those of `GeneralizedVote`."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names that `columns` knows."""
        return ("class", "probability", "interval", "set")

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """The columns of one of the `outputs`: a place of a class, probabilities, both ends of intervals, bools."""
        if output == "interval":
            return self.interval.columns(output)
        one = {"class": self.predicted, "probability": self.probability, "set": self.membership}
        return {output: np.asarray(one[output])}


class CautiousReport(Combiner[CautiousAnswer]):
    """The set of classes, one class, probabilities, intervals and masses of a cautious forest together.

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
    Called, it answers a `CautiousAnswer`.

    Sets are decided by votes, probabilities by counts: the most probable class may be left out of a set. No tree: all
    classes, equal probabilities. For two classes it merges four planes (five where masses are not equal), and looks up
    two numbers of a leaf (three): votes lie in the signs of the bounds.

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
        self.vote, self.averaged = GeneralizedVote(s, mass), AveragedIntervals(s)

    @property
    def merge(self) -> PyTree:
        """The merges of the vote and of the intervals."""
        return {"vote": self.vote.merge, "averaged": self.averaged.merge}

    def explained(self) -> ExplainedVote:
        """The rule that explains the sets."""
        return ExplainedVote(self.vote.s, self.vote.mass)

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Lift the leaves for the vote and for the intervals."""
        return {"vote": self.vote.lift(counts), "averaged": self.averaged.lift(counts)}

    def finish(self, stat: PyTree) -> CautiousAnswer:
        """Finish the vote and the intervals, and decide by them."""
        preference, interval = self.vote.finish(stat["vote"]), self.averaged.finish(stat["averaged"])
        membership = nondominated(preference)
        unknown = 1 - sum_in_order(jnp.asarray(interval.lower), keepdims=True)
        probability = interval.lower + unknown / interval.lower.shape[-1]
        predicted = jnp.argmax(jnp.where(membership, probability, -1.0), axis=-1).astype(jnp.int32)
        return CautiousAnswer(membership, predicted, probability, interval, preference)
