"""Plausibility scores, weighted by how little epistemic uncertainty they carry."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Num

from jaxunc._types import PyTree
from jaxunc.scorers import support

from ._answer import Answer
from ._combiner import Combiner
from ._mean import answer_of_mean


class EpistemicWeighting(Combiner[Answer]):
    r"""The mean of plausibility scores, each times one minus its leaf's epistemic uncertainty.

    .. math:: \frac1K \sum_i (1 - u_e^i)\, p_{pls}^i, \qquad u_e = \min\{\pi(+), \pi(-)\}

    Notes
    -----
    Class scores: ∓ the score, in [-1, 1]. Probability: (1 ± score)/2. An empty leaf contributes 0; no tree: 0. Raises a
    ValueError for more than two classes (use OneVsRest). Gradient: the plausibility's, with a kink of u_e at ties.

    References
    ----------
    Busch et al. 2021, published code.
    """

    merge: ClassVar[str] = "sum"
    reads_sizes: ClassVar[bool] = True

    def lift(self, counts: Num[Array, "... 2"]) -> PyTree:
        """The weighted score, and 1 for the tree."""
        leaf = support(counts)
        certainty = -jnp.expm1(jnp.min(leaf.log_degrees, axis=-1))
        return {"score": (certainty * leaf.preference)[..., None], "trees": jnp.ones(())}

    def finish(self, stat: PyTree) -> Answer:
        """Divide the total by the number of trees."""
        return answer_of_mean(stat, 2.0)
