"""Dempster's rule and the unnormalised conjunctive rule, over the leaf masses of the plausibility approach."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from jaxunc import scorers
from jaxunc._checks import is_concrete
from jaxunc._numerics import float_dtype

from ._answer import Answer, margin
from ._fold import Fold


class DempsterRule(Fold):
    r"""Leaves as belief functions, combined conjunctively.

    A leaf's mass is m({±}) = s±, m(Ω) = u_e + u_a, where at most one of s± is not zero (`scorers.plausibility`).
    Commonalities q multiply, so the fold over trees is a sum of logarithms:

    .. math:: m(\{\pm\}) = Q_\pm - Q_\Omega, \quad Q_\pm = \prod_i q_i(\{\pm\}), \quad Q_\Omega = \prod_i m_i(\Omega),

    and since one factor of each leaf's q₊ q₋ = m(Ω) is 1, log Q_Ω = log Q₊ + log Q₋.

    Parameters
    ----------
    normalized
        Whether the score is read after dividing by 1 - m(∅) (Dempster's rule) or before (the conjunctive rule, which
        Busch et al. call Dempster).
    eps
        Smallest ignorance of a leaf: m_i(Ω) ≥ eps, applied once to each leaf. With eps = 0 the rule is exact, and the
        more certain of two opposed leaves wins; the paper's code clips at every step of a pairwise recursion, so that
        its answer depends on the order of the trees.

    Raises
    ------
    ValueError
        If eps is outside [0, 1), or the counts have more than two classes (use OneVsRest).

    Notes
    -----
    Class scores: log Q of the singletons (− and +), at most 0; `margin` of them ranks. Score: m(+) - m(−), normalised
    or not: with many trees the unnormalised one vanishes and the normalised one saturates, so do not rank by it.
    Probability: pignistic, of the normalised masses. An empty leaf is neutral; no tree: scores 0, probability 1/2.

    Gradient: that of the plausibility; 0 for leaves beyond eps; piecewise at ties (0 there).

    References
    ----------
    Busch et al. 2021, section 4, "Dempster"; Shafer 1976.
    """

    eps: Float[Array, ""]
    normalized: bool = eqx.field(static=True)
    merge: ClassVar[str] = "sum"

    def __init__(self, normalized: bool = False, eps=1e-5):
        if is_concrete(eps) and not 0 <= float(np.asarray(eps)) < 1:
            raise ValueError(f"eps={eps} must lie in [0, 1): it is the smallest mass of ignorance of a leaf.")
        self.eps = jnp.asarray(eps, float_dtype(eps))
        self.normalized = normalized

    def lift(self, counts: Num[Array, "... 2"]):
        """log q of the singletons − and +: the leaf's ignorance for the class that it speaks against."""
        if counts.shape[-1] != 2:
            raise ValueError(
                f"DempsterRule combines two classes, but counts have {counts.shape[-1]}. "
                "Combine each class against the rest: OneVsRest(DempsterRule())."
            )
        leaf = scorers.support(counts)
        log_ignorance = jnp.maximum(leaf.log_ignorance, jnp.log(self.eps).astype(leaf.log_ignorance.dtype))
        against_negative = jnp.where(leaf.preference > 0, log_ignorance, 0.0)
        against_positive = jnp.where(leaf.preference < 0, log_ignorance, 0.0)
        return jnp.stack([against_negative, against_positive], axis=-1)

    def finish(self, stat: Float[Array, "... 2"]) -> Answer:
        """Möbius inversion, with the larger commonality factored out."""
        larger, smaller = jnp.max(stat, axis=-1, keepdims=True), jnp.min(stat, axis=-1, keepdims=True)
        # log(1 - m(∅)) = log(Q₊ + Q₋ - Q_Ω), with Q_Ω = Q₊ Q₋
        log_agreement = larger + jnp.log1p(jnp.exp(smaller - larger) * -jnp.expm1(larger))
        # m({c}) + m(Ω)/2 = Q_c (1 - Q_other/2)
        log_probability = stat + jnp.log1p(-jnp.exp(stat[..., ::-1]) / 2) - log_agreement
        scale = log_agreement if self.normalized else jnp.zeros_like(log_agreement)
        score = jnp.sign(margin(stat)) * (jnp.exp(larger - scale) * -jnp.expm1(smaller - larger))[..., 0]
        return Answer(stat, score, jnp.exp(log_probability), log_probability)
