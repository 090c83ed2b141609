"""The rules once more, as float64 loops in NumPy written from the formulas: slow, plain and independent."""

import itertools
import math
from functools import lru_cache

import numpy as np


def log_likelihood(theta: float, n_neg: float, n_pos: float) -> float:
    """log L(θ): the likelihood of a leaf divided by its maximum."""
    n = n_neg + n_pos
    total = 0.0
    for count, p in ((n_pos, theta), (n_neg, 1 - theta)):
        if count > 0:
            total += count * (math.log(p) - math.log(count / n)) if p > 0 else -math.inf
    return total


@lru_cache(maxsize=100_000)
def log_pi_pos(n_neg: float, n_pos: float) -> float:
    """log π(+) by bisection on log z, z = 2θ - 1: the crossing of log L with log z."""
    if n_neg == 0:
        return 0.0
    n = n_neg + n_pos
    lead = (n_pos - n_neg) / n
    low, high = (math.log(lead), 0.0) if lead > 0 else (log_likelihood(0.5, n_neg, n_pos) - 2.0 * n - 1.0, 0.0)
    for _ in range(200):
        middle = (low + high) / 2
        if log_likelihood((1 + math.exp(middle)) / 2, n_neg, n_pos) > middle:
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


def dempster(counts, prior, weights, eps=1e-5):
    """Logarithms of the commonalities of − and +: a leaf's ignorance counts against the other class."""
    total = np.zeros(2)
    for leaf, weight in zip(counts.tolist(), weights, strict=True):
        # log m(Ω) from the two degrees, so that certain leaves keep their digits
        against, favour = log_pi_pos(*leaf[::-1]), log_pi_pos(*leaf)
        larger, smaller = max(against, favour), min(against, favour)
        score = math.exp(favour) - math.exp(against)
        log_omega = math.log1p(-abs(score)) if abs(score) < 0.5 else np.logaddexp(_log1mexp(larger), smaller)
        total[0 if score > 0 else 1] += weight * max(log_omega, math.log(eps) if eps else -math.inf) * (score != 0)
    return total


def _log1mexp(x: float) -> float:
    return math.log(-math.expm1(x)) if x < 0 else -math.inf
