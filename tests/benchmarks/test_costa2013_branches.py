"""Lazy trees and several branches: against slow, plain sums on tiny data, and the section on the page."""

import math
from itertools import pairwise

import numpy as np
import pytest

import jaxunc as ju
from benchmarks.studies.costa2013 import branches
from benchmarks.studies.costa2013 import run as study
from benchmarks.studies.costa2013.branches import lazy_leaf_counts, soft_readings
from benchmarks.studies.costa2013.paths import finished_paths
from jaxunc.transduction import as_queries, checked_limits, grow_greedy_tree, presort

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]
NOMINAL = np.array([False, True, False])


def tiny(seed, k):
    """A small set of both kinds of features, with ties; float32 holds its numbers and the middles between them."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(k), rng.integers(0, k, 18 - k)])
    X = np.column_stack(
        [(y + rng.normal(size=18)).round(), rng.integers(0, 3, 18), (4 * rng.normal(size=18)).round() / 4]
    )
    return X.astype(float), y


def lazy_path(X, y, x, label, k):
    """The leaf's counts, one test after the other."""
    rows = list(range(len(y)))
    while True:
        counts = [sum(y[i] == c for i in rows) + (c == label) for c in range(k)]
        if len({y[i] for i in rows}) < 2 or sum(counts) < 4:
            return counts
        best, chosen = (0.0, 0), None
        for f, is_nominal in ((0, False), (2, False), (1, True)):
            values = sorted({X[i, f] for i in rows})
            cuts = values if is_nominal else [(a + b) / 2 for a, b in pairwise(values)]
            for cut in cuts:
                passes = (lambda v, c=cut: v == c) if is_nominal else (lambda v, c=cut: v <= c)
                branch = [i for i in rows if passes(X[i, f]) == passes(x[f])]
                of = [sum(y[i] == c for i in branch) + (c == label) for c in range(k)]
                weights = [a / b for a, b in zip(of, counts, strict=True) if a]
                entropy = -sum(w / sum(weights) * math.log2(w / sum(weights)) for w in weights)
                score = (round(math.log2(sum(n > 0 for n in counts)) - entropy, 8), sum(of))
                if sum(of) >= 2 and score[0] > 0 and score > best:
                    best, chosen = score, branch
        if chosen is None:
            return counts
        rows = chosen


@pytest.mark.parametrize(("seed", "k"), [(0, 2), (1, 2), (2, 3), (3, 3), (4, 4)])
def test_lazy_paths_are_those_of_plain_loops(seed, k):
    X, y = tiny(seed, k)
    queries = tiny(seed + 10, k)[0][:8]
    expected = [[lazy_path(X, y, x, label, k) for label in [*range(k), -1]] for x in queries]
    np.testing.assert_array_equal(lazy_leaf_counts(X, y, queries, NOMINAL), expected)


@pytest.mark.parametrize("nominal", [np.zeros(3, bool), np.ones(3, bool)])
def test_lazy_paths_of_one_kind_of_features(nominal):
    X, y = tiny(0, 2)
    found = lazy_leaf_counts(X, y, X, nominal)
    assert (found.sum(axis=2) >= 2).all()
    assert (found <= np.bincount(y) + np.eye(3, 2, dtype=int)).all()


def soft_by_hand(node, x, tree, X, rows, width, y):
    """[(share, instances' rows)] of leaves, by recursion on rows alone."""
    first, f, t = tree.child[node], tree.feature[node], tree.threshold[node]
    if first == node:
        return [(1.0, tree.counts[node])]
    if f == 1:
        return soft_by_hand(
            *(
                (first + 2, x, tree, X, [i for i in rows if X[i, 1] == t], width, y)
                if x[1] == t
                else (first + 1, x, tree, X, [i for i in rows if X[i, 1] != t], width, y)
            )
        )
    half = width * np.std([X[i, f] for i in rows])
    left = float(x[f] <= t) if half == 0 else min(max((t + half - x[f]) / (2 * half), 0), 1)
    sides = [[i for i in rows if (X[i, f] <= t) == is_left] for is_left in (True, False)]
    found = []
    for share, side, child in ((left, sides[0], first), (1 - left, sides[1], first + 1)):
        found += [(share * of, counts) for of, counts in soft_by_hand(child, x, tree, X, side, width, y)]
    return found


@pytest.mark.parametrize("width", [0.0, 0.1, 0.5])
def test_soft_readings_are_those_of_plain_loops(width):
    X, y = tiny(2, 3)
    queries = tiny(12, 3)[0][:8]
    sample = presort(X, y, NOMINAL)
    tree = grow_greedy_tree(sample, checked_limits("boundary", 2))
    coded, asked = X.astype(np.float32), as_queries(queries, sample)
    # Levels 0, 1, 2 are all there, so codes are the values themselves.
    assert (sample.code[0] == X[:, 1]).all()
    by_leaf = [soft_by_hand(0, x, tree, coded, range(18), width, y) for x in queries.astype(np.float32)]
    expected = [sum(w * (c + 1) / (sum(c) + 3) for w, c in of) for of in by_leaf]
    own, _ = soft_readings(X, y, queries, NOMINAL, width)
    assert asked.n == 8
    np.testing.assert_allclose(own, expected, atol=1e-6)


def test_soft_counts_are_the_shares_of_training_instances():
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    half = 0.5 * X.std()
    left = np.clip((1.5 + half - X[:, 0]) / (2 * half), 0, 1)
    counts = np.array([[sum(w[y == c]) for c in (0, 1)] for w in (left, 1 - left)])
    laplace = (counts + 1) / (counts.sum(axis=1, keepdims=True) + 2)
    np.testing.assert_allclose(
        soft_readings(X, y, X, np.array([False]), 0.5)[1], np.column_stack([left, 1 - left]) @ laplace
    )


def test_no_width_is_the_tree_itself():
    X, y = tiny(3, 3)
    counts = np.asarray(ju.leaf_counts(ju.transduction.grow_greedy_trees(X, y, nominal=NOMINAL), X))[:, 0]
    for found in soft_readings(X, y, X, NOMINAL, 0.0):
        np.testing.assert_allclose(found, (counts + 1) / (counts.sum(axis=1, keepdims=True) + 3), rtol=1e-6)


def test_cells_agree_with_those_of_paths():
    paths, found = finished_paths(study.RESULTS), branches.finished_branches(study.RESULTS)
    assert len(found) >= 15
    for name, record in found.items():
        for reading in ("tree_laplace", "tpce", "tpce_pool"):
            assert record["five"][reading] == pytest.approx(paths[name]["five"][reading], abs=2e-6), (name, reading)
