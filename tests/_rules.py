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


def _calibrated(prior, trees=None, **settings) -> ju.Calibrated:
    return ju.Calibrated(ju.Mean(), scale=0.75, bias=np.arange(len(prior)) / 4, clip=0.0625, **settings)


def _evidence(prior, trees, **options):
    return ju.EvidenceAccumulation(prior, **options)


_veto_reference = partial(reference.evidence, smoothing=0.0)


def _own_scorer(prior, trees) -> ju.Mean:
    return ju.Mean(Partial(tempered, power=jnp.asarray(0.7)))


def _weighted(make: Callable) -> Callable:
    return lambda prior, trees: ju.Weighted(make(), tree_weights(trees))


def _of(make: Callable, *arguments, **options) -> Callable:
    """A rule that reads neither the prior nor the trees."""
    return lambda prior, trees: make(*arguments, **options)


PI: dict = {"binary_only": True, "kind": "pi"}
LOG: dict = {"probability_from": "log evidence"}
COARSE: dict = {"resolves_units": False}
SHARES: dict = {"reads_sizes": False}
VARIANT: dict = {"thorough": False}

RULES: dict[str, Rule] = {
    "mean": Rule(_of(ju.Mean), reference.mean, **SHARES),
    "mean_plausibility": Rule(_of(ju.Mean, ju.scorers.plausibility), reference.mean_plausibility, **PI),
    "mean_own_scorer": Rule(_own_scorer, _tempered_reference, binary_only=True, **COARSE, **SHARES),
    "vote": Rule(_of(ju.Vote), reference.vote, differentiable=False, **SHARES),
    "pooling": Rule(_of(ju.Pooling), reference.pooling),
    "evidence": Rule(_evidence, reference.evidence, **LOG),
    "evidence_veto": Rule(partial(_evidence, smoothing=0.0), _veto_reference, **LOG, **SHARES),
    "evidence_published": Rule(
        partial(_evidence, prior_term="published_code"),
        partial(reference.evidence, code=True),
        **LOG,
        **VARIANT,
        **COARSE,
    ),
    "evidence_to_prior": Rule(
        partial(_evidence, smoothing=0.5, smooth_to_prior=True),
        partial(reference.evidence, smoothing=0.5, to_prior=True),
        **(LOG | VARIANT),
    ),
    "dempster": Rule(_of(ju.DempsterRule), reference.dempster, **PI, **LOG),
    "dempster_exact": Rule(_of(ju.DempsterRule, eps=0.0), partial(reference.dempster, eps=0.0), **PI, **LOG),
    "dempster_prior": Rule(
        lambda prior, trees: ju.DempsterRule(prior=prior), partial(reference.dempster, relative=True), **PI, **LOG
    ),
    "dempster_reliability": Rule(
        lambda prior, trees: ju.DempsterRule(reliability=reliability(trees)),
        partial(reference.dempster, reliability=reliability),
        **(PI | LOG | VARIANT),
    ),
    "cautious": Rule(_of(ju.CautiousRule), reference.cautious, **PI, **LOG, **VARIANT),
    "one_vs_rest": Rule(
        lambda prior, trees: ju.OneVsRest(ju.DempsterRule()),
        reference.one_vs_rest_dempster,
        kind="pi",
        **LOG,
        **VARIANT,
    ),
    "median": Rule(_of(ju.Median), reference.median, **VARIANT, **COARSE, **SHARES),
    "maximum": Rule(_of(ju.Maximum), reference.maximum, **VARIANT, **SHARES),
    "generalized_mixture": Rule(
        _of(ju.GeneralizedMixture), reference.generalized_mixture, **VARIANT, **COARSE, **SHARES
    ),
    "epistemic_weighting": Rule(_of(ju.EpistemicWeighting), reference.epistemic_weighting, **PI, **VARIANT),
    "beta_sum": Rule(_of(ju.BetaAggregation), reference.beta_sum, **PI, **VARIANT, **COARSE),
    "beta_exact": Rule(_of(ju.BetaAggregation, "exact"), reference.beta_exact, binary_only=True, **VARIANT),
    "beta_max": Rule(
        _of(ju.BetaAggregation, "max"), reference.beta_max, binary_only=True, differentiable=False, **VARIANT, **COARSE
    ),
    "gini_weighted": Rule(_of(GiniWeighted), _gini_reference, **VARIANT, **COARSE, **SHARES),
    "smoothed_mean": Rule(_smoothed_mean, _smoothed_mean_reference, **VARIANT, **COARSE),
    "member_smoothing": Rule(_of(MemberSmoothing), _members_reference, **VARIANT, **COARSE),
    "together": Rule(
        lambda prior, trees: ju.combiners.Together(
            mean=ju.Mean(), vote=ju.Vote(), pooling=ju.Pooling(), evidence=ju.EvidenceAccumulation(prior)
        ),
        {"mean": reference.mean, "vote": reference.vote, "pooling": reference.pooling, "evidence": reference.evidence},
    ),
    "learned_pool": Rule(partial(_learned_pool, scale=1.25), _learned_pool_reference, **COARSE, **LOG),
    "calibrated_mean": Rule(_calibrated, _calibrated_reference, **COARSE, **VARIANT, **LOG, **SHARES),
    "calibrated_one_vs_rest": Rule(
        partial(_calibrated, one_vs_rest=True), _one_vs_rest_reference, **COARSE, **VARIANT, **LOG, **SHARES
    ),
    "blend": Rule(
        lambda prior, trees: ju.Stack(
            {"evidence": ju.EvidenceAccumulation(prior), "calibrated": _calibrated(prior)}, [0.25, 0.75]
        ),
        _blend_reference,
        **(COARSE | VARIANT | LOG),
    ),
    "weighted_mean": Rule(_weighted(ju.Mean), reference.mean, tree_weights, **SHARES),
    "weighted_pooling": Rule(_weighted(ju.Pooling), reference.pooling, tree_weights, **COARSE, **VARIANT),
    "weighted_veto": Rule(
        lambda prior, trees: ju.Weighted(_evidence(prior, trees, smoothing=0.0), tree_weights(trees)),
        _veto_reference,
        tree_weights,
        **(LOG | SHARES),
    ),
    "weighted_together": Rule(
        lambda prior, trees: ju.Weighted(
            ju.combiners.Together(vote=ju.Vote(), evidence=ju.EvidenceAccumulation(prior)), tree_weights(trees)
        ),
        {"vote": reference.vote, "evidence": reference.evidence},
        tree_weights,
    ),
}

PRIORS = {2: np.array([0.625, 0.375]), 3: np.array([0.5, 0.3125, 0.1875])}
"""Priors by number of classes, exact in float32."""
LEARNERS = {
    "pool": lambda: ju.LearnedPool(PRIORS[2], strength=0.5, noise=0.02),
    "calibrated": lambda: ju.Calibrated(ju.Mean(), scale=np.array([1.1, 0.9]), bias=np.array([0.013, 0.0]), clip=1e-3),
    "m-estimate": lambda: ju.Mean(partial(ju.scorers.m_estimate, m=1, prior=0.4)),
    "plausibility": lambda: ju.Mean(Partial(ju.scorers.plausibility, prior=jnp.asarray(0.4))),
    "evidence": lambda: ju.EvidenceAccumulation(PRIORS[2], smoothing=0.7),
    "dempster": lambda: ju.DempsterRule(prior=0.4, reliability=0.7),
    "cautious": lambda: ju.CautiousRule(prior=0.4, reliability=0.7),
    "weights": lambda: ju.Weighted(ju.EvidenceAccumulation(PRIORS[2], smoothing=0.7), np.linspace(0.5, 1, 60)),
    "reliabilities": lambda: ju.DempsterRule(reliability=np.linspace(0.3, 0.9, 60)),
}
"""Combiners that learn, of every kind; those of weights have 60 trees."""

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
    return answer if isinstance(answer, dict) else {"": answer}
