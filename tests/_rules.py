"""The table of rules: whatever holds of every rule is tested on every row of it. A new rule is a new row."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxunc as ju
from jaxunc.smoothing import DirichletPrior, MemberSmoothing, SmoothedMean
from tests import _reference as reference


class Rule(NamedTuple):
    """A rule and what is to be expected of it."""

    make: Callable
    """(prior [classes], trees) → rule; ``trees`` are the numbers of the trees that take part, for per-tree fields."""
    reference: Callable | dict
    """(counts [K C], prior, weights [K]) → class scores, in float64; a dictionary of them for several rules."""
    weights: Callable = np.ones_like
    """Numbers of trees → the weights that the rule gives them."""
    binary_only: bool = False
    differentiable: bool = True
    """Whether the gradient is more than zero."""
    resolves_units: bool = True
    """Whether integer counts of 10⁹ that differ by one are told apart in float32.

    A scorer that rounds first, a prior term that is no logarithm, and weighted counts lose so small a lead.
    """
    reads_sizes: bool = True
    """Whether the answer changes where all counts are multiplied by a number."""
    thorough: bool = True
    """Whether it meets every transformation; variants of a rule, which differ in values alone, need not."""
    kind: str = "closed"
    """Which tolerance applies."""
    probability_from: str = "shares"
    """"shares", or "log evidence": then the logarithm of a probability is exact however small it is."""


def tree_weights(trees) -> np.ndarray:
    """Weights for trees by number; those of tree 3, 10, … are zero."""
    trees = np.asarray(trees)
    return np.where(trees % 7 == 3, 0.0, 0.5 + trees % 3)


def reliability(trees) -> np.ndarray:
    """How far trees are trusted, by number."""
    return 1.0 - 0.125 * (np.asarray(trees) % 4)


def tempered(counts, power):
    """A scorer of one's own with a setting that can be learned."""
    counts = counts.astype(float) + 1.0
    return (counts[..., 1] ** power - counts[..., 0] ** power) / jnp.sum(counts**power, axis=-1)


def _tempered_reference(counts, prior, weights):
    powers = (np.asarray(counts, float) + 1) ** 0.7
    score = np.sum(np.asarray(weights) * (powers[:, 1] - powers[:, 0]) / powers.sum(axis=1)) / np.sum(weights)
    return np.array([-score, score])


class GiniWeighted(ju.Combiner):
    """The README's rule: relative frequencies, weighted by how pure the leaf is."""

    merge = "sum"

    def lift(self, counts):
        p = counts / jnp.maximum(counts.sum(-1, keepdims=True), 1)
        return {"votes": (p**2).sum(-1, keepdims=True) * p}

    def finish(self, stat):
        shares = (stat["votes"] + 1e-9) / jnp.sum(stat["votes"] + 1e-9, axis=-1, keepdims=True)
        return ju.combiners.Answer.from_shares(shares, class_scores=shares, score=None)


def _gini_reference(counts, prior, weights):
    total = np.full(counts.shape[-1], 1e-9)
    for leaf in counts[counts.sum(axis=1) > 0]:
        p = leaf / leaf.sum()
        total += np.sum(p**2) * p
    return total / total.sum()


def _prior_instances(prior, trees):
    """What a prior of the leaves is worth, tree by tree: two to four instances."""
    return np.asarray(prior) * (2.0 + np.asarray(trees) % 3)[:, None]


def _smoothed_mean(prior, trees) -> SmoothedMean:
    return SmoothedMean(DirichletPrior(_prior_instances(prior, trees), np.zeros(np.shape(trees), np.int32)))


def _smoothed_mean_reference(counts, prior, weights):
    by_tree = counts + _prior_instances(prior, np.arange(len(counts)))
    shares = by_tree / by_tree.sum(axis=1, keepdims=True)
    return np.asarray(weights) @ shares / np.sum(weights)


def _members_reference(counts, prior, weights):
    """A prior by moments of the leaves with instances; where they are all alike, of infinite weight."""
    filled = counts[counts.sum(axis=1) > 0]
    if not len(filled):
        return np.full(counts.shape[1], 1 / counts.shape[1])
    size, raw = filled.sum(axis=1), filled / filled.sum(axis=1, keepdims=True)
    mean = size @ raw / size.sum()
    if np.ptp(raw, axis=0).max() < 1e-12:
        return mean
    alpha = np.zeros_like(mean)
    if np.any(np.count_nonzero(filled, axis=1) > 1):
        spread = size @ (raw - mean) ** 2 / size.sum()
        alpha = mean * (np.sum(mean * (1 - mean)) / np.sum(spread) - 1)
    total = np.sum(counts + alpha, axis=1, keepdims=True)
    even = np.full_like(counts, 1 / counts.shape[1])
    return np.mean(np.divide(counts + alpha, total, out=even, where=total > 0), axis=0)


def _learned_pool(prior, trees, **settings) -> ju.LearnedPool:
    return ju.LearnedPool(
        prior, size_power=0.5, mean_power=0.75, strength=1.5, bias=np.arange(len(prior)) / 4, **settings
    )


def _learned_pool_reference(counts, prior, weights):
    """Log shares scaled and moved, with the constant that all classes have in common."""
    counts, prior = np.asarray(counts, float), np.asarray(prior, float)
    size = counts.sum(axis=1) + 1.5
    share = (counts + 1.5 * prior) / size[:, None]
    weight = np.asarray(weights) * size**0.5
    mean = (weight @ share**0.75 / weight.sum()) ** (1 / 0.75)
    return 1.25 * np.log(mean) + np.arange(len(prior)) / 4


def _calibrated_reference(counts, prior, weights):
    shares = np.clip(np.asarray(reference.mean(counts, prior, weights)), -10, 10)
    shares = shares + 0.5 if len(prior) == 2 else shares + 1 / len(prior)
    return 0.75 * np.log(np.maximum(shares, 0.0625)) + np.arange(len(prior)) / 4


def _one_vs_rest_reference(counts, prior, weights):
    shares = np.clip(np.asarray(reference.mean(counts, prior, weights)) + 1 / len(prior), 0.0625, 0.9375)
    return -np.logaddexp(0, -0.75 * np.log(shares / (1 - shares)) - np.arange(len(prior)) / 4)


def _blend_reference(counts, prior, weights):
    """Log probabilities: three quarters of a calibrated mean, one of evidence."""
    parts = [_calibrated_reference(counts, prior, weights), np.asarray(reference.evidence(counts, prior, weights))]
    logs = [part - np.logaddexp.reduce(part) for part in parts]
    return np.logaddexp(np.log(0.75) + logs[0], np.log(0.25) + logs[1])


def _calibrated(prior, **settings) -> ju.Calibrated:
    return ju.Calibrated(ju.Mean(), scale=0.75, bias=np.arange(len(prior)) / 4, clip=0.0625, **settings)


def _evidence(prior, trees, **options):
    return ju.EvidenceAccumulation(prior, **options)


RULES: dict[str, Rule] = {
    "mean": Rule(lambda prior, trees: ju.Mean(), reference.mean, reads_sizes=False),
    "mean_plausibility": Rule(
        lambda prior, trees: ju.Mean(ju.scorers.plausibility), reference.mean_plausibility, binary_only=True, kind="pi"
    ),
    "mean_own_scorer": Rule(
        lambda prior, trees: ju.Mean(Partial(tempered, power=jnp.asarray(0.7))),
        _tempered_reference,
        binary_only=True,
        resolves_units=False,
        reads_sizes=False,
    ),
    "vote": Rule(lambda prior, trees: ju.Vote(), reference.vote, differentiable=False, reads_sizes=False),
    "pooling": Rule(lambda prior, trees: ju.Pooling(), reference.pooling),
    "evidence": Rule(_evidence, reference.evidence, probability_from="log evidence"),
    "evidence_veto": Rule(
        partial(_evidence, smoothing=0.0),
        partial(reference.evidence, smoothing=0.0),
        probability_from="log evidence",
        reads_sizes=False,
    ),
    "evidence_published": Rule(
        partial(_evidence, prior_term="published_code"),
        partial(reference.evidence, code=True),
        probability_from="log evidence",
        thorough=False,
        resolves_units=False,
    ),
    "evidence_to_prior": Rule(
        partial(_evidence, smoothing=0.5, smooth_to_prior=True),
        partial(reference.evidence, smoothing=0.5, to_prior=True),
        probability_from="log evidence",
        thorough=False,
    ),
    "dempster": Rule(
        lambda prior, trees: ju.DempsterRule(),
        reference.dempster,
        binary_only=True,
        kind="pi",
        probability_from="log evidence",
    ),
    "dempster_exact": Rule(
        lambda prior, trees: ju.DempsterRule(eps=0.0),
        partial(reference.dempster, eps=0.0),
        binary_only=True,
        kind="pi",
        probability_from="log evidence",
    ),
    "dempster_prior": Rule(
        lambda prior, trees: ju.DempsterRule(prior=prior),
        partial(reference.dempster, relative=True),
        binary_only=True,
        kind="pi",
        probability_from="log evidence",
    ),
    "dempster_reliability": Rule(
        lambda prior, trees: ju.DempsterRule(reliability=reliability(trees)),
        partial(reference.dempster, reliability=reliability),
        binary_only=True,
        kind="pi",
        probability_from="log evidence",
        thorough=False,
    ),
    "cautious": Rule(
        lambda prior, trees: ju.CautiousRule(),
        reference.cautious,
        binary_only=True,
        kind="pi",
        probability_from="log evidence",
        thorough=False,
    ),
    "one_vs_rest": Rule(
        lambda prior, trees: ju.OneVsRest(ju.DempsterRule()),
        reference.one_vs_rest_dempster,
        kind="pi",
        probability_from="log evidence",
        thorough=False,
    ),
    "median": Rule(
        lambda prior, trees: ju.Median(), reference.median, thorough=False, resolves_units=False, reads_sizes=False
    ),
    "maximum": Rule(lambda prior, trees: ju.Maximum(), reference.maximum, thorough=False, reads_sizes=False),
    "generalized_mixture": Rule(
        lambda prior, trees: ju.GeneralizedMixture(),
        reference.generalized_mixture,
        thorough=False,
        resolves_units=False,
        reads_sizes=False,
    ),
    "epistemic_weighting": Rule(
        lambda prior, trees: ju.EpistemicWeighting(),
        reference.epistemic_weighting,
        binary_only=True,
        kind="pi",
        thorough=False,
    ),
    "beta_sum": Rule(
        lambda prior, trees: ju.BetaAggregation(),
        reference.beta_sum,
        binary_only=True,
        thorough=False,
        resolves_units=False,
        kind="pi",
    ),
    "beta_exact": Rule(
        lambda prior, trees: ju.BetaAggregation("exact"), reference.beta_exact, binary_only=True, thorough=False
    ),
    "beta_max": Rule(
        lambda prior, trees: ju.BetaAggregation("max"),
        reference.beta_max,
        binary_only=True,
        thorough=False,
        resolves_units=False,
        differentiable=False,
    ),
    "gini_weighted": Rule(
        lambda prior, trees: GiniWeighted(), _gini_reference, thorough=False, resolves_units=False, reads_sizes=False
    ),
    "smoothed_mean": Rule(_smoothed_mean, _smoothed_mean_reference, thorough=False, resolves_units=False),
    "member_smoothing": Rule(
        lambda prior, trees: MemberSmoothing(), _members_reference, thorough=False, resolves_units=False
    ),
    "together": Rule(
        lambda prior, trees: ju.combiners.Together(
            mean=ju.Mean(), vote=ju.Vote(), pooling=ju.Pooling(), evidence=ju.EvidenceAccumulation(prior)
        ),
        {"mean": reference.mean, "vote": reference.vote, "pooling": reference.pooling, "evidence": reference.evidence},
    ),
    "learned_pool": Rule(
        partial(_learned_pool, scale=1.25),
        _learned_pool_reference,
        resolves_units=False,
        probability_from="log evidence",
    ),
    "calibrated_mean": Rule(
        lambda prior, trees: _calibrated(prior),
        _calibrated_reference,
        resolves_units=False,
        thorough=False,
        probability_from="log evidence",
        reads_sizes=False,
    ),
    "calibrated_one_vs_rest": Rule(
        lambda prior, trees: _calibrated(prior, one_vs_rest=True),
        _one_vs_rest_reference,
        resolves_units=False,
        thorough=False,
        probability_from="log evidence",
        reads_sizes=False,
    ),
    "blend": Rule(
        lambda prior, trees: ju.Stack(
            {"evidence": ju.EvidenceAccumulation(prior), "calibrated": _calibrated(prior)}, [0.25, 0.75]
        ),
        _blend_reference,
        resolves_units=False,
        thorough=False,
        probability_from="log evidence",
    ),
    "weighted_mean": Rule(
        lambda prior, trees: ju.Weighted(ju.Mean(), tree_weights(trees)),
        reference.mean,
        weights=tree_weights,
        reads_sizes=False,
    ),
    "weighted_pooling": Rule(
        lambda prior, trees: ju.Weighted(ju.Pooling(), tree_weights(trees)),
        reference.pooling,
        weights=tree_weights,
        resolves_units=False,
        thorough=False,
    ),
    "weighted_veto": Rule(
        lambda prior, trees: ju.Weighted(ju.EvidenceAccumulation(prior, smoothing=0.0), tree_weights(trees)),
        partial(reference.evidence, smoothing=0.0),
        weights=tree_weights,
        probability_from="log evidence",
        reads_sizes=False,
    ),
    "weighted_together": Rule(
        lambda prior, trees: ju.Weighted(
            ju.combiners.Together(vote=ju.Vote(), evidence=ju.EvidenceAccumulation(prior)), tree_weights(trees)
        ),
        {"vote": reference.vote, "evidence": reference.evidence},
        weights=tree_weights,
    ),
}

PRIORS = {2: np.array([0.625, 0.375]), 3: np.array([0.5, 0.3125, 0.1875])}
"""Priors by number of classes, exact in float32."""

CASES = [
    pytest.param(name, n_classes, id=f"{name}-{n_classes}")
    for name, rule in RULES.items()
    for n_classes in (2, 3)
    if n_classes == 2 or not rule.binary_only
]
"""Every rule with every number of classes that it takes."""

EVERY = [pytest.param(name, id=name) for name in RULES]


def make(name: str, n_classes: int, trees) -> ju.Combiner:
    """The rule of that name for so many trees (or for the trees with these numbers)."""
    trees = np.arange(trees) if np.ndim(trees) == 0 else np.asarray(trees)
    return RULES[name].make(PRIORS[n_classes], trees)


def expected_scores(name: str, counts) -> dict[str, np.ndarray]:
    """Class scores ``[instances classes]`` of counts ``[instances trees classes]``, by the float64 loops."""
    rule, counts = RULES[name], np.asarray(counts, np.float64)
    references = rule.reference if isinstance(rule.reference, dict) else {"": rule.reference}
    weights = rule.weights(np.arange(counts.shape[1]).astype(float)).tolist()
    prior = PRIORS[counts.shape[-1]]
    return {key: np.stack([f(one, prior, weights) for one in counts]) for key, f in references.items()}


def check_same(tolerance, name: str, answer, expected, *, what: str = "") -> None:
    """Two answers of a rule (or of several) agree in every read-out.

    The logarithm of a share that is nearly 0 is as uncertain as the share is coarse: such logarithms are compared as
    the shares that they are.
    """
    assert jax.tree.structure(answer) == jax.tree.structure(expected)
    answer, expected = by_rule(answer), by_rule(expected)
    for key in expected:
        for part, actual in answer[key]._asdict().items():
            wanted = getattr(expected[key], part)
            if part == "log_probability" and RULES[name].probability_from == "shares":
                actual, wanted = np.exp(actual), np.exp(wanted)
            if wanted is not None:
                tolerance.check(actual, wanted, kind=RULES[name].kind, scale=1.0, what=f"{what} {key} {part}")


def by_rule(answer) -> dict:
    """What several rules answer by name, what one rule answers under the empty name."""
    return answer if isinstance(answer, dict) else {"": answer}
