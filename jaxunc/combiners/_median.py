"""The median of leaf scores."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float, Num

from jaxunc import scorers
from jaxunc._types import PyTree
from jaxunc.scorers import as_partial, score_width

from ._answer import Answer
from ._combiner import Combiner
from ._mean import answer_of_scores, score_planes


class Median(Combiner[Answer]):
    """The median of leaf scores over trees; of an even number the mean of the two middle ones.

    Parameters
    ----------
    scorer
        See `Mean`.

    Notes
    -----
    Class scores, score, probability: as for `Mean`, of the median. No tree: 0. Gradient: that of the middle leaf or
    leaves. An order statistic: it keeps every tree's score for a chunk of instances, and sorts.

    References
    ----------
    Busch et al. 2021, section 3.2 and published code.
    """

    scorer: Partial
    merge: ClassVar[str] = "collect"

    def __init__(self, scorer: Callable[..., Any] = scorers.probability):
        self.scorer = as_partial(scorer)

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """The leaf's score."""
        return score_planes(self.scorer, counts)

    def finish(self, stat: Float[Array, "... trees k"]) -> Answer:
        """The middle of the trees that count."""
        return answer_of_scores(median_of_trees(stat), score_width(self.scorer))


def median_of_trees(scores: Float[Array, "... trees k"]) -> Float[Array, "... k"]:
    """The median over trees, leaving out NaN; 0 if nothing is left."""
    # Masked trees are NaN: they sort last, and the middle is that of the trees before them.
    present = jnp.sum(~jnp.isnan(scores), axis=-2, keepdims=True)
    ordered = jnp.sort(scores, axis=-2)  # NaN last
    low, high = (jnp.take_along_axis(ordered, i, axis=-2) for i in (jnp.maximum(present - 1, 0) // 2, present // 2))
    # present // 2 is one too far for an odd number, where both are the same element
    high = jnp.where(present % 2 == 1, low, jnp.take_along_axis(ordered, jnp.maximum(present // 2, 0), axis=-2))
    middle = jnp.squeeze((low + high) / 2, axis=-2)
    return jnp.where(jnp.squeeze(present, axis=-2) > 0, middle, 0.0)
