"""Belief functions of leaves, combined: Dempster's rule, the conjunctive rule and the cautious rule.

A leaf's mass is m({±}) = s±, m(Ω) = u_e + u_a (`jaxunc.scorers.mass`), with − for class 0, + for class 1, and at most
one of s± not zero. So one of its commonalities q(±) = m({±}) + m(Ω) is 1. The other, of the class that the leaf speaks
against, is m(Ω). The combination has m(Ω) = q(−) q(+) under all rules. Dempster's and the conjunctive rule multiply
commonalities, the cautious rule takes their minimum. For the class that it does not speak against, a leaf contributes
the neutral value of that merge (`silence`).

With p = s₊ - s₋, log q(−) = min{log(1 - p), 0} and log q(+) = min{log(1 + p), 0} have a kink at p = 0, an evenly split
leaf. There each has the mean of the slopes at both sides, so that the slope of their difference, the margin, is exact.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Num

from jaxunc._checks import check_bool, check_within
from jaxunc._numerics import copy_in, float_dtype
from jaxunc._types import PyTree
from jaxunc.scorers import class_one, support
from jaxunc.tables import NumbersLike

from ._answer import Answer, margin
from ._combiner import Combiner, learned_field, tree_field


class BeliefRule(Combiner[Answer]):
    """The common base of `DempsterRule` and `CautiousRule`, which differ in their merge alone; abstract."""

    silence: eqx.AbstractClassVar[float]
    """What a leaf contributes for a class that it does not speak against: the neutral value of the merge."""
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
            reliability = copy_in(reliability, float_dtype(reliability))
            if reliability.ndim > 1:
                raise ValueError(
                    f"reliability has shape {reliability.shape}; pass one number, or one per tree, shape (trees,)."
                )
        shape = () if prior is None else np.shape(prior)
        if shape not in ((), (2,)):
            raise ValueError(
                f"prior has shape {shape}; pass the probability of class 1, or those of both classes. For "
                "other priors by class: OneVsRest of a list of combiners."
            )
        self.eps = copy_in(eps, float_dtype(eps))
        self.prior = class_one(0.5 if prior is None else prior, jnp.result_type(float))
        self.reliability = reliability
        self.normalized = bool(normalized)

    def lift(self, counts: Num[Array, "... 2"]) -> PyTree:
        """Return the logarithms of the commonalities of class 0 and class 1, ``[... 2]``.

        The class that a leaf speaks against has the log of the leaf's ignorance (after ``eps`` and ``reliability``).
        The other class has `silence`. An empty leaf has `silence` for both classes, an evenly split leaf 0 for both.
        """
        if counts.shape[-1] != 2:
            name = type(self).__name__
            raise ValueError(
                f"{name} combines two classes, but counts have {counts.shape[-1]}. "
                f"Combine each class against the rest: OneVsRest({name}())."
            )
        # In logarithms throughout: with many trees masses, and their differences, round to 0 or 1; logarithms do not.
        leaf = support(counts, self.prior)
        # The log of eps: -inf, no floor, if eps is 0, without the log of 0 in a gradient.
        floor = jnp.where(self.eps > 0, jnp.log(jnp.where(self.eps > 0, self.eps, 1.0)), -jnp.inf)
        log_ignorance = jnp.maximum(leaf.log_ignorance, floor.astype(leaf.log_ignorance.dtype))
        if self.reliability is not None:
            log_ignorance = discounted(log_ignorance, self.reliability.astype(log_ignorance.dtype))
        preference = leaf.preference
        signed_mass = preference if self.reliability is None else self.reliability.astype(preference.dtype) * preference
        # An evenly split leaf is not silent: it says 0, with the mean of the slopes of both sides, 0 and -1 or 1.
        is_split = (preference == 0) & jnp.any(counts > 0, axis=-1)
        constant = lax.stop_gradient(signed_mass)
        zero_falling = (constant - signed_mass) / 2
        zero_rising = (signed_mass - constant) / 2
        against_negative = jnp.where(preference > 0, log_ignorance, jnp.where(is_split, zero_falling, self.silence))
        against_positive = jnp.where(preference < 0, log_ignorance, jnp.where(is_split, zero_rising, self.silence))
        return jnp.stack([against_negative, against_positive], axis=-1)

    def finish(self, stat: Float[Array, "... 2"]) -> Answer:
        """Return the answer of ``stat``, the merged log commonalities of class 0 and class 1."""
        # Masses come from the commonalities by Möbius inversion, with the larger of the two factored out.
        larger = jnp.max(stat, axis=-1, keepdims=True)
        smaller = jnp.min(stat, axis=-1, keepdims=True)
        # log(1 - m(∅)) = log(q₋ + q₊ - m(Ω)), with m(Ω) = q₋ q₊; `log_excess` is that minus the larger log commonality.
        log_excess = jnp.log1p(jnp.exp(smaller - larger) * -jnp.expm1(larger))
        log_agreement = larger + log_excess
        # m({c}) + m(Ω)/2 = q_c (1 - q_other/2)
        log_probability = (stat - larger) + jnp.log1p(-jnp.exp(stat[..., ::-1]) / 2) - log_excess
        log_divisor = log_agreement if self.normalized else jnp.zeros_like(log_agreement)
        # The difference of the masses m({±}) = q± - m(Ω) is that of the commonalities.
        score_size = (jnp.exp(larger - log_divisor) * -jnp.expm1(smaller - larger))[..., 0]
        # Where the margin is 0, the score is too, but not its slope, which a sign does not have.
        lead = margin(stat)
        is_even = (larger == smaller)[..., 0]
        zero_falling = jnp.exp(larger - log_divisor)[..., 0] * (lax.stop_gradient(lead) - lead)
        score = jnp.where(is_even, -zero_falling, jnp.sign(lead) * score_size)
        return Answer(stat, score, jnp.exp(log_probability), log_probability)


@jax.custom_jvp
def discounted(log_ignorance: Float[Array, "..."], reliability: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return log(1 - r + r m(Ω)): the ``log_ignorance`` of leaves, discounted by the reliability r of their trees."""
    return jnp.logaddexp(jnp.log1p(-reliability), jnp.log(reliability) + log_ignorance)


@discounted.defjvp
def _discounted_jvp(primals, tangents):
    """Return the value of `discounted` and its derivative along ``tangents``, which is finite at all reliabilities."""
    (log_ignorance, reliability), (d_log_ignorance, d_reliability) = primals, tangents
    value = discounted(log_ignorance, reliability)
    # At r = 1 and no ignorance the slope in r, (m(Ω) - 1)/(1 - r + r m(Ω)), is infinite: it is held finite.
    inverse = jnp.exp(jnp.minimum(-value, jnp.log(jnp.finfo(value.dtype).max) / 2))
    slope = jnp.expm1(log_ignorance) * inverse
    return value, jnp.exp(log_ignorance - value) * reliability * d_log_ignorance + slope * d_reliability


class DempsterRule(BeliefRule):
    r"""Leaves as belief functions, combined conjunctively.

    A leaf's mass is m({±}) = s±, m(Ω) = u_e + u_a (`scorers.mass`); + is class 1, and − class 0. Its commonalities
    q({±}) = m({±}) + m(Ω) multiply, so trees are merged by a sum of logarithms:

    .. math:: m(\{\pm\}) = Q_\pm - Q_\Omega, \quad Q_\pm = \prod_i q_i(\{\pm\}), \quad
              Q_\Omega = \prod_i m_i(\Omega) = Q_- Q_+

    Parameters
    ----------
    normalized
        Whether the score is read after dividing by 1 - m(∅) (Dempster's rule) or before (the conjunctive rule, which
        Busch et al. call Dempster).
    eps
        Smallest ignorance of a leaf: m_i(Ω) ≥ eps. With eps = 0 the rule is exact, and the more certain of two opposed
        leaves wins. The paper's code clips at every step of a recursion, so that the order of the trees matters.
    prior
        Prior probability of class 1, or those of class 0 and class 1, from which support is counted
        (`scorers.plausibility`). Default: 1/2, as in the paper. Other priors are an addition, for imbalanced classes.
    reliability
        r of the classical discounting: m(A) → r m(A), m(Ω) → 1 - r + r m(Ω) before combining. One number in [0, 1], or
        one per tree; differentiable. Default: no discounting.

    Raises
    ------
    ValueError
        If eps is outside [0, 1), a reliability outside [0, 1], or the prior not between 0 and 1. If counts have more
        than two classes (use OneVsRest).

    Notes
    -----
    Class scores: log Q of the singletons (− and +), at most 0. Rank by their `margin`, the log ratio of the
    plausibilities (an addition; the paper has the score). Score: m(+) - m(−), normalised or not. With many trees the
    unnormalised score vanishes and the normalised one saturates, so do not rank by it. Probability: pignistic, of the
    normalised masses. An empty leaf is neutral; no tree: scores 0, probability 1/2.

    Gradient: that of the plausibility; 0 for empty leaves and where m_i(Ω) is below eps. The margin is smooth where a
    leaf is evenly split, as are score and probability where the margin is 0. A class score has a kink at such a leaf,
    with the mean of the slopes at both sides.

    References
    ----------
    Busch et al. 2021, section 4, "Dempster"; Shafer 1976.
    """

    merge: ClassVar[str] = "sum"
    reads_sizes: ClassVar[bool] = True
    silence: ClassVar[float] = 0.0

    def __init__(
        self,
        normalized: bool = False,
        eps: NumbersLike = 1e-5,
        prior: NumbersLike | None = None,
        reliability: NumbersLike | None = None,
    ):
        super().__init__(normalized, eps, prior, reliability)


class CautiousRule(BeliefRule):
    r"""Leaves as belief functions, combined by the cautious rule: for sources that are not independent.

    Canonical weights merge by their minimum, w(±) = min_i w_i(±). On leaf masses, which support one class at most, the
    weight of that class is m_i(Ω) and the other's is 1, so

    .. math:: m(\{+\}) = w_-(1 - w_+), \quad m(\{-\}) = w_+(1 - w_-), \quad m(\Omega) = w_- w_+, \quad
              \text{score} = w_- - w_+ = \max_i s_+^i - \max_i s_-^i

    Equal leaves count once (the rule is idempotent): a further tree matters only if it is more certain than all others.

    Parameters
    ----------
    normalized, eps, prior, reliability
        Whether the score is normalised, the smallest ignorance of a leaf, the prior, and the discounting of trees: as
        for `DempsterRule`.

    Raises
    ------
    ValueError
        If one of them is out of range, or counts have more than two classes: as for `DempsterRule`.

    Notes
    -----
    Class scores: log q of the singletons, log w(+) for − and log w(−) for +; rank by `margin`. Score: m(+) - m(−),
    normalised or not. Probability: pignistic, of the normalised masses. An empty leaf is neutral; no tree: scores 0.

    Gradient of a weight: that of the plausibility of the leaf with the smallest one, the first tree's on ties. Empty
    leaves, and leaves for the other class, never have it. An evenly split leaf has it where no other leaf supports the
    class: the mean of the slopes at both sides of a kink. The margin's slope is exact if all leaves are evenly split.
    Beside a leaf that supports one class, the margin has a kink at a split leaf, and the mean of the slopes there.

    References
    ----------
    Busch et al. 2021, section 4, "Cautious"; Denœux 2006.
    """

    merge: ClassVar[str] = "min"
    reads_sizes: ClassVar[bool] = True
    silence: ClassVar[float] = float("inf")

    def __init__(
        self,
        normalized: bool = False,
        eps: NumbersLike = 1e-5,
        prior: NumbersLike | None = None,
        reliability: NumbersLike | None = None,
    ):
        super().__init__(normalized, eps, prior, reliability)

    def finish(self, stat: Float[Array, "... 2"]) -> Answer:
        """Return the answer of ``stat``, the merged log commonalities of class 0 and class 1."""
        # Infinite if every leaf is silent on the class; then the commonality is 1.
        return super().finish(jnp.where(jnp.isposinf(stat), 0.0, stat))
