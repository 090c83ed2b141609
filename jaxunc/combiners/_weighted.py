"""A weight for every tree."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from jaxunc._checks import check_within, is_concrete
from jaxunc._numerics import float_dtype
from jaxunc._types import AnswerT, PyTree
from jaxunc.tables import NumbersLike

from ._combiner import Combiner
from ._fields import tree_field
from ._given import check_is_rule


class Weighted(Combiner[AnswerT]):
    """A sum rule with a weight per tree: each tree counts as that many copies of itself.

    Multiplies all that the tree contributes, denominators included; a weight of 0 leaves it out. Differentiable in
    the weights. Weighted counts are floats: exact sums of integers are no longer exact.

    Parameters
    ----------
    rule
        A rule whose merges are sums.
    weights
        One weight per tree, ≥ 0, shape ``[trees]``.

    Raises
    ------
    ValueError
        If a merge of the rule is no sum, or a weight is negative or not finite. When trees are seen, if their number is
        another one.
    """

    rule: Combiner[AnswerT]
    weights: Float[Array, "..."] = tree_field("positive")

    def __init__(self, rule: Combiner[AnswerT], weights: NumbersLike):
        check_is_rule(rule, "rule")
        check_within("weights", weights, "[0, inf)", "; a weight of 0 leaves a tree out", shape=None)
        merges = set(jax.tree.leaves(rule.merge))
        if not merges <= {"sum", "exact_sum"}:
            raise ValueError(
                f"{type(rule).__name__} merges by {sorted(merges)}; weights multiply sums, and a minimum or maximum "
                "has none. Leave trees out by a tree_mask instead."
            )
        if is_concrete(weights):
            values = np.asarray(weights, dtype=float)
            if values.ndim != 1:
                raise ValueError(f"weights has shape {values.shape}; pass one weight per tree, shape (trees,).")
        self.rule = rule
        self.weights = jnp.asarray(weights, float_dtype(weights))

    @property
    def merge(self) -> PyTree:
        """The merges of the rule."""
        return self.rule.merge

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Lift the leaves as the rule does, times this tree's weight."""

        def weigh(part: Array):
            # A veto (-inf) stays one at any weight but 0; a product would be NaN, there or in its gradient.
            part = part.astype(float_dtype(part, self.weights))
            vetoed = jnp.isinf(part)
            return jnp.where(vetoed & (self.weights > 0), part, jnp.where(vetoed, 0, part) * self.weights)

        return jax.tree.map(weigh, self.rule.lift(counts))

    def finish(self, stat: PyTree) -> AnswerT:
        """Finish as the rule does."""
        return self.rule.finish(stat)
