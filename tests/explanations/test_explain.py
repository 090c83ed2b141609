"""Shapley values of what leaves say, against their definition over all subsets of the columns."""

import itertools
from math import factorial

import numpy as np
import pytest

import jaxunc as ju
from tests._forests import toy_data, toy_forest
from tests.conftest import X64


def value_of(trees, cover, table, keys, x, known) -> np.ndarray:
    """What is expected of an instance of which the columns ``known`` are known, summed over the trees."""
    child, feature, threshold, right = (
        np.asarray(part) for part in (trees.child, trees.feature, trees.threshold, trees.missing_right)
    )

    def rows(t, node):
        left = child[t, node]
        return cover[t, node] if left == node else rows(t, left) + rows(t, left + 1)

    def expected(t, node):
        left, column = child[t, node], feature[t, node]
        if left == node:
            return table[t, node]
        if column in known:
            goes = right[t, node] if np.isnan(x[column]) else keys[column] > threshold[t, node]
            return expected(t, left + int(goes))
        a, b = rows(t, left), rows(t, left + 1)
        share = a / (a + b) if a + b else 0.5
        return share * expected(t, left) + (1 - share) * expected(t, left + 1)

    return sum(expected(t, 0) for t in range(len(child)))


def definition(trees, cover, table, x) -> tuple[np.ndarray, np.ndarray]:
    """Shapley values ``[features stat]`` and the value of no column, by all subsets."""
    n = trees.n_features
    bits = np.asarray(x, np.float32).view(np.int32).astype(np.int64)
    keys = np.where(bits < 0, -(2**31) - bits, bits)
    value = {
        known: value_of(trees, cover, table, keys, x, known)
        for size in range(n + 1)
        for known in itertools.combinations(range(n), size)
    }
    shares = np.zeros((n, table.shape[-1]))
    for known, lower in value.items():
        weight = factorial(len(known)) * factorial(n - len(known) - 1) / factorial(n) if len(known) < n else 0
        for column in {*range(n)} - {*known}:
            shares[column] += weight * (value[tuple(sorted((*known, column)))] - lower)
    return shares, value[()]


def cover_of(forest) -> np.ndarray:
    return np.asarray(forest.count_table, float).sum(axis=1)[np.asarray(forest.code)]


def small(n_classes: int, n_trees: int = 3) -> ju.Forest:
    return toy_forest(n_classes, n_trees)


def instances(n_classes: int, n: int = 3, missing: bool = True) -> np.ndarray:
    X = np.array(toy_data(n_classes)[0][:n])
    if missing:
        X[0, 1] = X[1, 0] = X[1, 4] = np.nan
    return X


LIMIT = 1e-12 if X64 else 2e-6

SUMS = {
    "mean": (ju.Mean(), 3, "probability"),
    "mean of plausibility": (ju.Mean(ju.scorers.plausibility), 2, "probability"),
    "vote": (ju.Vote(), 3, "probability"),
    "epistemic weighting": (ju.EpistemicWeighting(), 2, "probability"),
    "beta": (ju.BetaAggregation("exact"), 2, "probability"),
    "evidence": (ju.EvidenceAccumulation([0.2, 0.3, 0.5]), 3, "class scores"),
    "dempster": (ju.DempsterRule(), 2, "class scores"),
    "bounds": (ju.AveragedIntervals(1.0), 3, "bounds of the probability"),
    "bounds of two": (ju.AveragedIntervals(1.0), 2, "bounds of the probability"),
    "doubt": (ju.UncertaintyDecomposition("plausibility"), 2, "uncertainty"),
    "entropy": (ju.UncertaintyDecomposition(), 3, "uncertainty"),
    "weighted": (ju.Weighted(ju.Mean(), [1.0, 0.0, 2.5]), 3, "probability"),
    "pooling": (ju.Pooling(), 3, "pooled counts"),
}


def answered(forest, combiner, of, names, X) -> np.ndarray:
    """What the shares must add up to, from the combiner's own answer."""
    bound = ju.bind(forest, combiner)
    if of == "probability":
        return np.asarray(bound.probability(X))
    if of == "class scores":
        return np.asarray(bound(X))
    if of == "pooled counts":
        return np.asarray(ju.leaf_counts(forest, X)).sum(axis=1)
    answer = bound.answer(X)
    if of == "uncertainty":
        return np.stack([np.asarray(getattr(answer, name)) for name in names], axis=1)
    return np.concatenate([np.asarray(answer.lower), np.asarray(answer.upper)], axis=1)


@pytest.mark.parametrize("name", SUMS)
def test_values_are_those_of_the_definition(name):
    combiner, n_classes, of = SUMS[name]
    forest = small(n_classes)
    X = instances(n_classes)
    found = ju.explain(forest, combiner, X)
    assert found.of == of
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.base, answered(forest, combiner, of, found.names, X), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("missing", [False, True])
def test_values_by_all_subsets(missing):
    """Any numbers that leaves hold, in trees of all depths."""
    forest, X = small(3), instances(3, 2, missing)
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 9, (*forest.code.shape, 3))
    forest = forest.with_counts(counts)
    found = ju.explain(forest, ju.Pooling(), X)
    for x, values in zip(X, np.asarray(found.values), strict=True):
        shares, base = definition(forest.trees, counts.sum(axis=2).astype(float), counts.astype(float), x)
        scale = np.abs(base).max()
        np.testing.assert_allclose(values, shares, rtol=0, atol=LIMIT * scale)
        np.testing.assert_allclose(found.base, base, rtol=LIMIT)
