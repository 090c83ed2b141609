"""The most extreme leaf score."""

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


class Maximum(Combiner[Answer]):
    r"""The leaf score that is largest in absolute value, v_j with j = argmax \|v_i\|.

    Parameters
    ----------
    scorer
        See `Mean`.

    Notes
    -----
    Class scores, score, probability: as for `Mean`, of the extreme score. Two scores of opposite sign that are equally
    extreme say nothing about the class: 0. (The published code takes the first tree's, which depends on the order of
    the trees; the sign of either would favour a class.) For more classes so for each of them. No tree: 0.

    Gradient: that of the extreme leaf, the first tree's on ties; of two opposite ones half of both.

    References
    ----------
    Busch et al. 2021, section 3.2 and published code.
    """

    scorer: Partial
    merge: ClassVar[str] = "max"

    def __init__(self, scorer: Callable[..., Any] = scorers.probability):
        self.scorer = as_partial(scorer)

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """The score and its negative."""
        score = score_planes(self.scorer, counts)
        return {"highest": score, "lowest": -score}

    def finish(self, stat: PyTree) -> Answer:
        """The larger of the two in absolute value."""
        return answer_of_scores(extreme_of(stat["highest"], stat["lowest"]), score_width(self.scorer))


def extreme_of(highest: Float[Array, "..."], lowest: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the larger in absolute value of max v and -max(-v); 0 if they tie, or if there is no tree (both -inf)."""
    opposed = jnp.where(highest == lowest, (highest - lowest) / 2, -lowest)
    extreme = jnp.where(highest > lowest, highest, opposed)
    return jnp.where(jnp.isfinite(extreme), extreme, 0.0)
