"""Evidence accumulation with what reliable classification says of each leaf: rules of the study, written as users do.

A leaf's degrees of support π(+), π(−) give its doubts u_e = min π and u_a = 1 - max π. The preference that is left is
s = π(+) - π(−), with |s| = 1 - u_e - u_a. Two sums of these are rules of the library already: that of s is the mean
of `plausibility`, that of (1 - u_e) s is `EpistemicWeighting`.
"""

from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

import jaxunc as ju
from jaxunc.combiners import Answer


class WeightedEvidence(ju.Combiner[Answer]):
    r"""Evidence accumulation whose leaves count by how reliable they are.

    .. math:: \ell_c = \log P(c) + \sum_i a_i \Big(\log P(c \mid w_i) - \log P(c)\Big)

    with a = 1 - u_e (``"epistemic"``) or 1 - u_e - u_a (``"both"``). An empty leaf has a = 0, and is no evidence.
    """

    evidence: ju.EvidenceAccumulation
    doubts: Literal["epistemic", "both"] = eqx.field(static=True)
    merge: ClassVar[str] = "sum"
    reads_sizes: ClassVar[bool] = True

    def lift(self, counts: jax.Array) -> jax.Array:
        """Evidence of a leaf for every class, times its weight."""
        doubt = ju.scorers.uncertainty(counts)
        weight = 1 - doubt.epistemic
        if self.doubts == "both":
            weight = weight - doubt.aleatoric
        return weight[..., None] * self.evidence.lift(counts)

    def finish(self, stat: jax.Array) -> Answer:
        """As evidence accumulation does."""
        return self.evidence.finish(stat)


class MultipliedPreference(ju.Combiner[Answer]):
    r"""Products of (1 ± s)/2 over the leaves, where the mean of `plausibility` adds them.

    .. math:: \ell_+ - \ell_- = \sum_i \log\frac{1 + s_i}{1 - s_i}

    1 - |s| is the mass on both classes, whose logarithm is known where s rounds to 1.
    """

    merge: ClassVar[str] = "sum"
    reads_sizes: ClassVar[bool] = True

    def lift(self, counts: jax.Array) -> jax.Array:
        """The logarithm of the leaf's odds."""
        leaf = ju.scorers.support(counts)
        size = jnp.log1p(jnp.abs(leaf.preference)) - leaf.log_ignorance
        return (jnp.sign(leaf.preference) * size)[..., None]

    def finish(self, stat: jax.Array) -> Answer:
        """Half of the logit for each class."""
        return Answer.from_log_evidence(jnp.concatenate([-stat, stat], axis=-1) / 2)


@ju.scorers.scorer(width=2.0, reads_sizes=True)
def reliable_preference(counts: jax.Array) -> jax.Array:
    """Return (1 - u_e - u_a) s = |s| s: the preference, once more weighted by what is left of doubt."""
    preference = ju.scorers.plausibility(counts)
    return jnp.abs(preference) * preference


@ju.scorers.scorer()
def smoothed(counts: jax.Array, smoothing: Any = 0.1) -> jax.Array:
    """Return P(+|w) - 1/2, smoothed as in evidence accumulation; the prior cancels in P(c) Σ P(c|w)/P(c)."""
    return ju.scorers.m_estimate(counts, prior=0.5, m=2 * smoothing)


NAMES = (
    "probability", "plausibility", "epistemic", "preference-reliable", "preference-multiplied",
    "evidence", "evidence-certain", "evidence-reliable", "evidence-summed", "dempster", "dempster-p",
)  # fmt: skip
"""The rules; ``page.md`` says what they are."""


def rules_of(prior: jax.Array) -> dict[str, ju.Combiner]:
    """All rules of the study, for a forest of two classes with that prior."""
    evidence = ju.EvidenceAccumulation(prior)
    rules: dict[str, ju.Combiner] = {
        "probability": ju.Mean(),
        "plausibility": ju.Mean(ju.scorers.plausibility),
        "epistemic": ju.EpistemicWeighting(),
        "preference-reliable": ju.Mean(reliable_preference),
        "preference-multiplied": MultipliedPreference(),
        "evidence": evidence,
        "evidence-certain": WeightedEvidence(evidence, "epistemic"),
        "evidence-reliable": WeightedEvidence(evidence, "both"),
        "evidence-summed": ju.Mean(smoothed),
        "dempster": ju.DempsterRule(),
        "dempster-p": ju.DempsterRule(prior=prior),
    }
    return {name: rules[name] for name in NAMES}
