"""Generalised mixtures: means that trust scores near a reference more."""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float, Num

from jaxunc import scorers
from jaxunc._checks import check_one_of
from jaxunc._numerics import safe_divide, sum_in_order
from jaxunc._types import PyTree
from jaxunc.scorers import as_partial, score_width

from ._answer import Answer
from ._combiner import Combiner
from ._maximum import extreme_of
from ._mean import answer_of_scores, score_planes
from ._median import median_of_trees

Reference = Literal["mean", "median", "maximum"]


class GeneralizedMixture(Combiner[Answer]):
    r"""A weighted mean of leaf scores, with less weight the further a score is from a reference Θ.

    .. math:: H_\Theta = \frac{1}{K-1} \sum_i \Big(v_i - v_i \frac{|v_i - \Theta|}{\sum_j |v_j - \Theta|}\Big)

    Parameters
    ----------
    scorer
        See `Mean`.
    reference
        Θ: the ``"mean"``, the ``"median"`` or the ``"maximum"`` of the scores: the largest in absolute value, 0 if two
        of opposite sign are, as for `Maximum`.

    Raises
    ------
    ValueError
        If the reference is unknown.

    Notes
    -----
    The weights add to 1. Class scores, score, probability: as for `Mean`, of H. All scores equal, or a single tree:
    that score (the published code raises for a single tree). No tree: 0. Not smooth where v_i = Θ (subgradient 0).
    It keeps every tree's score for a chunk of instances.

    References
    ----------
    Busch et al. 2021, section 3.2 and published code; Farias et al. 2016.
    """

    scorer: Partial
    reference: Reference = eqx.field(static=True)
    merge: ClassVar[str] = "collect"

    def __init__(self, scorer: Callable[..., Any] = scorers.probability, reference: Reference = "mean"):
        check_one_of("reference", reference, ("mean", "median", "maximum"))
        self.scorer = as_partial(scorer)
        self.reference = reference

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """The leaf's score."""
        return score_planes(self.scorer, counts)

    def finish(self, stat: Float[Array, "... trees k"]) -> Answer:
        """Weigh the trees that count by their distance from the reference."""
        present = ~jnp.isnan(stat)
        scores = jnp.where(present, stat, 0.0)
        number = jnp.sum(present, axis=-2).astype(scores.dtype)
        total = sum_in_order(scores, -2)
        mean = safe_divide(total, number)
        reference = {"mean": lambda: mean, "median": lambda: median_of_trees(stat), "maximum": lambda: _extreme(stat)}
        distance = jnp.where(present, jnp.abs(scores - reference[self.reference]()[..., None, :]), 0.0)
        spread = sum_in_order(distance, -2)
        # Chosen, so that no compiler fuses the product with the sum, which would then be rounded once and not twice.
        weighted = sum_in_order(jnp.where(present, scores * distance, 0.0), -2)
        # The weights (1 - d_i/Σd)/(K - 1) without forming them: the plain sum less the sum weighted by distance.
        mixture = safe_divide(total - safe_divide(weighted, spread), number - 1)
        # Without any spread all scores are equal, and the mean is that score.
        return answer_of_scores(jnp.where(spread > 0, mixture, mean), score_width(self.scorer))


def _extreme(scores: Float[Array, "... trees k"]) -> Float[Array, "... k"]:
    missing = jnp.isnan(scores)

    def highest(signed):
        first = jnp.argmax(jnp.where(missing, -jnp.inf, signed), axis=-2, keepdims=True)
        return jnp.squeeze(jnp.take_along_axis(signed, first, axis=-2), axis=-2)

    return extreme_of(highest(scores), highest(-scores))
