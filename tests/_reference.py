"""The rules once more, as float64 loops in NumPy written from the formulas: slow, plain and independent."""

import itertools
import math
from functools import lru_cache

import numpy as np
from scipy import special, stats


def log_likelihood(theta: float, n_neg: float, n_pos: float) -> float:
    """log L(θ): the likelihood of a leaf divided by its maximum."""
    n = n_neg + n_pos
    total = 0.0
    for count, p in ((n_pos, theta), (n_neg, 1 - theta)):
        if count > 0:
            total += count * (math.log(p) - math.log(count / n)) if p > 0 else -math.inf
    return total


@lru_cache(maxsize=100_000)
def log_pi_pos(n_neg: float, n_pos: float, prior: float = 0.5) -> float:
    """log π(+) by bisection on log z, z = (θ-P)/(1-P): the crossing of log L with log z."""
    if n_neg == 0:
        return 0.0
    n = n_neg + n_pos
    lead = (n_pos / n - prior) / (1 - prior) if prior != 0.5 else (n_pos - n_neg) / n
    low, high = (math.log(lead), 0.0) if lead > 0 else (log_likelihood(prior, n_neg, n_pos) - 2.0 * n - 1.0, 0.0)
    for _ in range(200):
        middle = (low + high) / 2
        if log_likelihood(prior + (1 - prior) * math.exp(middle), n_neg, n_pos) > middle:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@lru_cache(maxsize=100_000)
def plausibility(n_neg: float, n_pos: float) -> float:
    """p_pls = π(+) - π(−)."""
    return math.exp(log_pi_pos(n_neg, n_pos)) - math.exp(log_pi_pos(n_pos, n_neg))


def leaf_mass(n_neg: float, n_pos: float, eps: float) -> dict[frozenset, float]:
    """The mass function of a leaf, its ignorance at least eps."""
    score = plausibility(n_neg, n_pos)
    omega = max(1 - abs(score), eps)
    return {
        frozenset(): 0.0,
        frozenset({0}): (1 - omega) * (score < 0),
        frozenset({1}): (1 - omega) * (score > 0),
        frozenset({0, 1}): omega,
    }


def conjunctive(one: dict, other: dict) -> dict:
    """Every set of one with every set of the other, into their intersection."""
    out: dict[frozenset, float] = {}
    for (a, mass_a), (b, mass_b) in itertools.product(one.items(), other.items()):
        out[a & b] = out.get(a & b, 0.0) + mass_a * mass_b
    return out


def mean(counts, prior, weights):
    """Centred relative frequencies; (−s, s) for two classes."""
    return _mean_of(counts, weights, lambda leaf: np.array(leaf) / sum(leaf) - 1 / len(leaf))


def mean_plausibility(counts, prior, weights):
    """∓ the mean plausibility."""
    return _mean_of(counts, weights, lambda leaf: plausibility(*leaf) * np.array([-1.0, 1.0]))


def _mean_of(counts, weights, score):
    total, number = np.zeros(counts.shape[-1]), 0.0
    for leaf, weight in zip(counts.tolist(), weights, strict=True):
        total += weight * (score(leaf) if sum(leaf) else 0.0)
        number += weight
    return total / number if number else total


def vote(counts, prior, weights):
    """Shares of the votes; tied classes share one."""
    n_classes = counts.shape[-1]
    total = np.zeros(n_classes)
    for leaf, weight in zip(counts.tolist(), weights, strict=True):
        best = [c for c in range(n_classes) if leaf[c] == max(leaf)]
        for c in best:
            total[c] += weight / len(best)
    return total / sum(weights) if sum(weights) else np.full(n_classes, 1 / n_classes)


def pooling(counts, prior, weights):
    """Shares of all counts together, less 1/C."""
    total = np.zeros(counts.shape[-1])
    for leaf, weight in zip(counts, weights, strict=True):
        total += weight * leaf
    return total / total.sum() - 1 / len(total) if total.sum() else np.zeros_like(total)


def evidence(counts, prior, weights, smoothing=0.1, code=False, to_prior=False):
    """log C + log P(c) + Σ (log P(c|w) - log P(c)); the published code has P(c) in place of log P(c)."""
    offset = prior if code else np.log(prior)
    n_classes = len(prior)
    total = np.array(offset, dtype=float) + math.log(n_classes)
    for leaf, weight in zip(counts.tolist(), weights, strict=True):
        if weight == 0 or sum(leaf) + smoothing == 0:
            continue
        for c in range(n_classes):
            share = n_classes * prior[c] if to_prior else 1.0
            above, below = leaf[c] + smoothing * share, sum(leaf) + n_classes * smoothing
            total[c] += weight * ((math.log(above / below) if above > 0 else -math.inf) - offset[c])
    return total


def _log_commonalities(leaf, eps, relative_to=0.5, reliability=1.0):
    """log q of − and + of one leaf: its ignorance counts against the other class."""
    # log m(Ω) from the two degrees, so that certain leaves keep their digits
    against, favour = log_pi_pos(*leaf[::-1], 1 - relative_to), log_pi_pos(*leaf, relative_to)
    larger, smaller = max(against, favour), min(against, favour)
    score = (math.exp(favour) - math.exp(against)) * (sum(leaf) > 0)
    log_omega = math.log1p(-abs(score)) if abs(score) < 0.5 else np.logaddexp(_log1mexp(larger), smaller)
    log_omega = max(log_omega, math.log(eps) if eps else -math.inf)
    if reliability < 1:
        log_omega = math.log(1 - reliability + reliability * math.exp(log_omega))
    return np.array([log_omega * (score > 0), log_omega * (score < 0)])


def dempster(counts, prior, weights, eps=1e-5, relative=False, reliability=None):
    """Logarithms of the commonalities of − and +."""
    reliability = np.ones(len(counts)) if reliability is None else reliability(np.arange(len(counts)))
    total = np.zeros(2)
    for leaf, weight, r in zip(counts.tolist(), weights, reliability, strict=True):
        total += weight * _log_commonalities(leaf, eps, prior[1] if relative else 0.5, r)
    return total


def cautious(counts, prior, weights, eps=1e-5):
    """The smallest of them over the trees."""
    return np.min([_log_commonalities(leaf, eps) for leaf in counts.tolist()], axis=0)


def one_vs_rest_dempster(counts, prior, weights):
    """Each class's margin against the rest."""
    pairs = np.stack([counts.sum(axis=1, keepdims=True) - counts, counts], axis=-1)
    both = np.stack([dempster(pairs[:, c], prior, weights) for c in range(counts.shape[1])])
    return both[:, 1] - both[:, 0]


def _both(score):
    return np.array([-score, score])


def _by_class(combine):
    """A rule of numbers, for the centred frequencies of class 1 (∓) or of each of more classes."""

    def rule(counts, prior, weights):
        n_classes = counts.shape[1]
        v = np.array([leaf / sum(leaf) - 1 / n_classes if sum(leaf) else 0.0 * leaf for leaf in counts.astype(float)])
        return _both(combine(v[:, 1])) if n_classes == 2 else np.array([combine(column) for column in v.T])

    return rule


def _most_extreme(v):
    return 0.0 if v.max() == -v.min() else max(v.max(), v.min(), key=abs)  # opposite ones say nothing


def _mixture(v):
    distance = np.abs(v - v.mean())
    if distance.sum() == 0 or len(v) == 1:
        return v[0]
    return np.sum(v - v * distance / distance.sum()) / (len(v) - 1)


median, maximum, generalized_mixture = _by_class(np.median), _by_class(_most_extreme), _by_class(_mixture)


def epistemic_weighting(counts, prior, weights):
    """∓ the mean of (1 - u_e) p_pls."""
    total, number = 0.0, 0.0
    for leaf, weight in zip(counts.tolist(), weights, strict=True):
        u_e = math.exp(min(log_pi_pos(*leaf), log_pi_pos(*leaf[::-1]))) if sum(leaf) else 1.0
        total, number = total + weight * (1 - u_e) * (plausibility(*leaf) if sum(leaf) else 0.0), number + weight
    return _both(total / number if number else 0.0)


def _beta_densities(counts, weights):
    theta = np.linspace(0, 1, 101)
    return sum(w * stats.beta(leaf[1] + 1, leaf[0] + 1).pdf(theta) for leaf, w in zip(counts, weights, strict=True))


def beta_sum(counts, prior, weights):
    """Logarithms of the shares of the area below and beyond 1/2, on the grid."""
    density = _beta_densities(counts, weights)
    below, above = density[:50].sum(), density[51:].sum()
    return np.log(np.array([below, above]) / (below + above)) if below + above else np.log([0.5, 0.5])


def beta_exact(counts, prior, weights):
    """∓ the mean area beyond 1/2, less 1/2."""
    areas = special.betainc(counts[:, 0] + 1.0, counts[:, 1] + 1.0, 0.5)
    return _both(np.sum(weights * (areas - 0.5)) / np.sum(weights) if np.sum(weights) else 0.0)


def beta_max(counts, prior, weights):
    """∓ the first mode on the grid, less 1/2."""
    return _both(np.argmax(_beta_densities(counts, weights)) / 100 - 0.5)


def _log1mexp(x: float) -> float:
    return math.log(-math.expm1(x)) if x < 0 else -math.inf
