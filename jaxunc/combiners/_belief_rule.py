"""The common part of the conjunctive and the cautious rule: leaf masses in, belief out.

A leaf's mass is m({±}) = s±, m(Ω) = u_e + u_a, where at most one of s± is not zero. So one of its commonalities q(±) =
m({±}) + m(Ω) is 1. The other, of the class that the leaf speaks against, is m(Ω). The combination has m(Ω) = q(−) q(+)
under both rules. They differ in the merge: the product of commonalities, or their minimum. They also differ in what a
leaf contributes for the class that it does not speak against: 1, or nothing at all. Either changes nothing.

With p = s₊ - s₋, log q(−) = min{log(1 - p), 0} and log q(+) = min{log(1 + p), 0} have a kink at p = 0, an evenly split
leaf. The slopes there are the means of both sides, which makes that of their difference, the margin, exact.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Num

from jaxunc._checks import check_bool, check_within
from jaxunc._numerics import float_dtype
from jaxunc._types import PyTree
from jaxunc.scorers import class_one, support
from jaxunc.tables import NumbersLike

from ._answer import Answer, margin
from ._combiner import Combiner
from ._fields import learned_field, tree_field


class BeliefRule(Combiner[Answer]):
    """Settings, lift and finish of the belief rules; abstract, since it has no merge."""

    silence: eqx.AbstractClassVar[float]
    """Contribution of a leaf for a class that it does not speak against: it changes nothing in the merge."""
    normalized: bool = eqx.field(static=True)
    eps: Float[Array, ""] = learned_field("fixed")
    prior: Float[Array, "..."] = learned_field("unit")
    reliability: Float[Array, "..."] | None = tree_field("unit")

    def __init__(
        self,
        normalized: bool = False,
        eps: NumbersLike = 1e-5,
        prior: NumbersLike | None = None,
        reliability: NumbersLike | None = None,
    ):
        check_bool("normalized", normalized)
        check_within("eps", eps, "[0, 1)", ": it is the smallest mass of ignorance of a leaf")
        if reliability is not None:
            check_within("reliability", reliability, "[0, 1]", ": 1 trusts a tree fully, 0 ignores it", shape=None)
            reliability = jnp.asarray(reliability, float_dtype(reliability))
            if reliability.ndim > 1:
                raise ValueError(
                    f"reliability has shape {reliability.shape}; pass one number, or one per tree, shape (trees,)."
                )
        shape = () if prior is None else np.shape(prior)
        if shape not in ((), (2,)):
            raise ValueError(
                f"prior has shape {shape}; pass the probability of class 1, or those of both classes. For "
                "other priors by class: OneVsRest of a list of rules."
            )
        self.eps = jnp.asarray(eps, float_dtype(eps))
        self.prior = class_one(0.5 if prior is None else prior, jnp.result_type(float))
        self.reliability = reliability
        self.normalized = bool(normalized)

    def lift(self, counts: Num[Array, "... 2"]) -> PyTree:
        """Return log q of the singletons − and +: the leaf's ignorance for the class that it speaks against."""
        if counts.shape[-1] != 2:
            name = type(self).__name__
            raise ValueError(
                f"{name} combines two classes, but counts have {counts.shape[-1]}. "
                f"Combine each class against the rest: OneVsRest({name}())."
            )
        # In logarithms throughout: with many trees masses, and differences of masses, round to 0 or 1, logarithms do
        # not.
        leaf = support(counts, self.prior)
        floor = jnp.where(self.eps > 0, jnp.log(jnp.where(self.eps > 0, self.eps, 1.0)), -jnp.inf)
        log_ignorance = jnp.maximum(leaf.log_ignorance, floor.astype(leaf.log_ignorance.dtype))
        if self.reliability is not None:
            log_ignorance = discounted(log_ignorance, self.reliability.astype(log_ignorance.dtype))
        preference = leaf.preference
        slope = preference if self.reliability is None else self.reliability.astype(preference.dtype) * preference
        # An evenly split leaf is not silent: it says 0, with the mean of the slopes at both sides.
        split, still = (preference == 0) & jnp.any(counts > 0, axis=-1), lax.stop_gradient(slope)
        falling, rising = (still - slope) / 2, (slope - still) / 2
        against_negative = jnp.where(preference > 0, log_ignorance, jnp.where(split, falling, self.silence))
        against_positive = jnp.where(preference < 0, log_ignorance, jnp.where(split, rising, self.silence))
        return jnp.stack([against_negative, against_positive], axis=-1)

    def finish(self, stat: Float[Array, "... 2"]) -> Answer:
        """Apply the Möbius inversion, with the larger commonality factored out."""
        larger, smaller = jnp.max(stat, axis=-1, keepdims=True), jnp.min(stat, axis=-1, keepdims=True)
        # log(1 - m(∅)) = log(q₋ + q₊ - m(Ω)), with m(Ω) = q₋ q₊; less log of the larger
        log_excess = jnp.log1p(jnp.exp(smaller - larger) * -jnp.expm1(larger))
        log_agreement = larger + log_excess
        # m({c}) + m(Ω)/2 = q_c (1 - q_other/2)
        log_probability = (stat - larger) + jnp.log1p(-jnp.exp(stat[..., ::-1]) / 2) - log_excess
        scale = log_agreement if self.normalized else jnp.zeros_like(log_agreement)
        size = (jnp.exp(larger - scale) * -jnp.expm1(smaller - larger))[..., 0]
        lead, even = margin(stat), (larger == smaller)[..., 0]
        # Where the margin is 0 its sign has no slope, the score has.
        falling = jnp.exp(larger - scale)[..., 0] * (lax.stop_gradient(lead) - lead)
        score = jnp.where(even, -falling, jnp.sign(lead) * size)
        return Answer(stat, score, jnp.exp(log_probability), log_probability)


@jax.custom_jvp
def discounted(log_ignorance: Float[Array, "..."], reliability: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(1 - r + r m(Ω)): the ignorance of a leaf that is trusted with reliability r only."""
    return jnp.logaddexp(jnp.log1p(-reliability), jnp.log(reliability) + log_ignorance)


@discounted.defjvp
def _discounted_jvp(primals, tangents):
    (log_ignorance, reliability), (d_log_ignorance, d_reliability) = primals, tangents
    value = discounted(log_ignorance, reliability)
    # At r = 1 and no ignorance the slope in r is infinite: large and finite instead.
    inverse = jnp.exp(jnp.minimum(-value, jnp.log(jnp.finfo(value.dtype).max) / 2))
    slope = jnp.expm1(log_ignorance) * inverse
    return value, jnp.exp(log_ignorance - value) * reliability * d_log_ignorance + slope * d_reliability
