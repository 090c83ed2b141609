"""Calibration of a rule: its probabilities, made more or less certain."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.nn import log_sigmoid
from jaxtyping import Array, Float, Num

from jaxunc._checks import check_bool, check_kind, check_within
from jaxunc._numerics import float_dtype, scale_and_move
from jaxunc._types import PyTree

from ._answer import Answer, kind_of
from ._combiner import Combiner
from ._fields import learned_field


class Calibrated(Combiner[Answer]):
    r"""A rule with probabilities, whose logarithms are clipped, scaled and moved.

    .. math:: P'(c) \propto \exp\big(s_c \log \max(P(c), \epsilon) + b_c\big)

    With ``one_vs_rest`` each class is calibrated against the others by itself, and the results are made to add to 1:

    .. math:: P'(c) \propto \sigma\big(s_c \log \frac{\bar P(c)}{1 - \bar P(c)} + b_c\big), \qquad
              \bar P(c) = \min(\max(P(c), \epsilon), 1 - \epsilon)

    One scale for all classes is the inverse of a temperature. With a bias per class it is Platt's scaling of two
    classes; with a scale per class too, vector scaling. It starts as the rule itself.

    Parameters
    ----------
    rule
        The rule; its own numbers are learned along, if any.
    scale
        s > 0: one number, or one per class ``[classes]``.
    bias
        b: one number, which changes nothing, or one per class ``[classes]``.
    clip
        ε in [0, 1): smaller probabilities are taken for it. Not learned.
    one_vs_rest
        The second formula. It serves where a class is told by what the others say, as one between two others is.

    Raises
    ------
    TypeError
        If ``rule`` is no `Combiner` or, when called, does not answer with an `Answer`.
    ValueError
        If a number is outside of its range (0 < ε < 1/2 with ``one_vs_rest``) or, when called, the rule has no
        probabilities or other classes.

    Notes
    -----
    Class scores: s log P + b, log σ(...) with ``one_vs_rest``. Score: their difference, the logit, for two classes.
    Probability: their softmax.
    Gradient: smooth, but 0 in a probability below ε.

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
        check_kind("rule", rule, Combiner, "a rule with probabilities, such as Mean()")
        check_within("scale", scale, "(0, inf)", shape=None)
        check_within("bias", bias, "(-inf, inf)", shape=None)
        check_bool("one_vs_rest", one_vs_rest)
        if one_vs_rest:
            check_within("clip", clip, "(0, 0.5)", " with one_vs_rest: P and 1 - P are clipped")
        else:
            check_within("clip", clip, "[0, 1)", ": it is the smallest probability")
        dtype = float_dtype(scale, bias)
        self.rule = rule
        self.scale, self.bias = jnp.asarray(scale, dtype), jnp.asarray(bias, dtype)
        self.clip = jnp.asarray(clip, dtype)
        self.one_vs_rest = bool(one_vs_rest)

    @property
    def merge(self) -> PyTree:
        """The merges of the rule."""
        return self.rule.merge

    def lift(self, counts: Num[Array, "... classes"]) -> PyTree:
        """Lift the leaves as the rule does."""
        return self.rule.lift(counts)

    def finish(self, stat: PyTree) -> Answer:
        """Calibrate the rule's answer."""
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
