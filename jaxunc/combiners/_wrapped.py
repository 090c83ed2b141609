"""Combiners around another one: with a weight for every tree, or with probabilities made more or less certain."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import log_sigmoid
from jaxtyping import Array, Float, Num

from jaxunc._checks import check_bool, check_kind, check_within, is_concrete
from jaxunc._numerics import copy_in, float_dtype, scale_and_move
from jaxunc._types import AnswerT, PyTree
from jaxunc.tables import NumbersLike

from ._answer import Answer, kind_of
from ._combiner import Combiner, check_is_combiner
from ._fields import learned_field, tree_field


class Weighted(Combiner[AnswerT]):
    """A combiner of sums with a weight per tree: each tree counts as that many copies of itself.

    The weight multiplies all that the tree contributes, denominators included; a weight of 0 leaves the tree out.
    Differentiable in the weights. Weighted counts are floats: exact sums of integers are no longer exact.

    Parameters
    ----------
    rule
        A combiner whose merges are sums. That of Dempster's rule is one, of logarithms: the weight is an exponent
        there. For discounting see its ``reliability``.
    weights
        One weight per tree, ≥ 0, shape ``[trees]``.

    Raises
    ------
    ValueError
        If a merge of the combiner is no sum, or a weight is negative or not finite. When called, if the trees are of
        another number.
    """

    rule: Combiner[AnswerT]
    weights: Float[Array, "..."] = tree_field("positive")

    def __init__(self, rule: Combiner[AnswerT], weights: NumbersLike):
        check_is_combiner(rule, "rule")
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
        self.weights = copy_in(weights, float_dtype(weights))

    @property
    def merge(self) -> PyTree:
        """The merges of the combiner."""
        return self.rule.merge

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Lift the leaves as the combiner does, times this tree's weight."""

        def weigh(part: Array):
            # A veto (-inf) stays one at any weight but 0; a product would be NaN, there or in its gradient.
            part = part.astype(float_dtype(part, self.weights))
            vetoed = jnp.isinf(part)
            return jnp.where(vetoed & (self.weights > 0), part, jnp.where(vetoed, 0, part) * self.weights)

        return jax.tree.map(weigh, self.rule.lift(counts))

    def finish(self, stat: PyTree) -> AnswerT:
        """Finish as the combiner does."""
        return self.rule.finish(stat)


class Calibrated(Combiner[Answer]):
    r"""A combiner with probabilities, whose logarithms are clipped, scaled and moved.

    .. math:: P'(c) \propto \exp\big(s_c \log \max(P(c), \epsilon) + b_c\big)

    With ``one_vs_rest`` each class is calibrated against the others by itself, and the results are made to add to 1:

    .. math:: P'(c) \propto \sigma\big(s_c \log \frac{\bar P(c)}{1 - \bar P(c)} + b_c\big), \qquad
              \bar P(c) = \min(\max(P(c), \epsilon), 1 - \epsilon)

    One scale for all classes is the inverse of a temperature. With a bias per class it is Platt's scaling of two
    classes; with a scale per class too, vector scaling. It starts as the combiner itself.

    Parameters
    ----------
    rule
        The combiner; its own numbers are learned along, if any.
    scale
        s > 0: one number, or one per class ``[classes]``.
    bias
        b: one number, which changes nothing, or one per class ``[classes]``.
    clip
        ε in [0, 1): smaller probabilities are taken for it. Not learned.
    one_vs_rest
        The second formula. It serves where the probabilities of the others tell a class, as one between two others.

    Raises
    ------
    TypeError
        If ``rule`` is no `Combiner` or, when called, does not answer with an `Answer`.
    ValueError
        If a number is outside of its range (0 < ε < 1/2 with ``one_vs_rest``) or, when called, the combiner has no
        probabilities or other classes.

    Notes
    -----
    Class scores: s log P + b, log σ(...) with ``one_vs_rest``. Score: their difference, the logit, for two classes.
    Probability: their softmax. Gradient: smooth, but 0 in a probability below ε.

    References
    ----------
    Platt 1999; Guo et al. 2017, "On calibration of modern neural networks".
    """

    rule: Combiner
    one_vs_rest: bool = eqx.field(static=True)
    scale: Float[Array, "..."] = learned_field("positive")
    bias: Float[Array, "..."] = learned_field("real", spread=2.0)
    clip: Float[Array, ""] = learned_field("fixed")

    def __init__(
        self, rule: Combiner, scale: Any = 1.0, bias: Any = 0.0, clip: Any = 1e-6, *, one_vs_rest: bool = False
    ):
        check_kind("rule", rule, Combiner, "a combiner with probabilities, such as Mean()")
        check_within("scale", scale, "(0, inf)", shape=None)
        check_within("bias", bias, "(-inf, inf)", shape=None)
        check_bool("one_vs_rest", one_vs_rest)
        if one_vs_rest:
            check_within("clip", clip, "(0, 0.5)", " with one_vs_rest: P and 1 - P are clipped")
        else:
            check_within("clip", clip, "[0, 1)", ": it is the smallest probability")
        dtype = float_dtype(scale, bias)
        self.rule = rule
        self.scale, self.bias = copy_in(scale, dtype), copy_in(bias, dtype)
        self.clip = copy_in(clip, dtype)
        self.one_vs_rest = bool(one_vs_rest)

    @property
    def merge(self) -> PyTree:
        """The merges of the combiner."""
        return self.rule.merge

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Lift the leaves as the combiner does."""
        return self.rule.lift(counts)

    def finish(self, stat: PyTree) -> Answer:
        """Calibrate the combiner's answer."""
        answer, name = self.rule.finish(stat), type(self.rule).__name__
        if not isinstance(answer, Answer):
            raise TypeError(f"{name} answers with {kind_of(answer)}, not with probabilities to calibrate.")
        if answer.log_probability is None:
            raise ValueError(f"{name} has no probabilities to calibrate: its scores have no bound.")
        log_share = answer.log_probability
        for field, value in (("scale", self.scale), ("bias", self.bias)):
            if value.ndim and value.shape != log_share.shape[-1:]:
                raise ValueError(f"{field} has shape {value.shape}; {name} has {log_share.shape[-1]} classes.")
        scale, bias, clip = (part.astype(log_share.dtype) for part in (self.scale, self.bias, self.clip))
        if self.one_vs_rest:
            # Each class against the rest is a logistic model of its own; their answers are evidence, which is
            # normalised.
            share = jnp.clip(jnp.exp(log_share), clip, 1 - clip)
            return Answer.from_log_evidence(
                log_sigmoid(scale_and_move(jnp.log(share) - jnp.log1p(-share), scale, bias))
            )
        # The inner `where` keeps log(0) out of the gradient when nothing is clipped.
        floor = jnp.where(clip > 0, jnp.log(jnp.where(clip > 0, clip, jnp.ones_like(clip))), -jnp.inf)
        return Answer.from_log_evidence(scale_and_move(jnp.maximum(log_share, floor), scale, bias))
