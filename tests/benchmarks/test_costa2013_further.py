"""Pools, other learners, nodes along the path, lazy trees, several branches: readings against plain sums; cells."""

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import beta
from sklearn.neighbors import KNeighborsClassifier

import jaxunc as ju
from benchmarks.pages import read_parts
from benchmarks.studies.costa2013 import further, general, paths, pools
from benchmarks.studies.costa2013 import run as study
from benchmarks.studies.costa2013.branches import lazy_leaf_counts, soft_readings
from benchmarks.studies.learning.methods import venn_abers_pair
from jaxunc.transduction import as_queries, checked_limits, grow_greedy_tree, presort
from tests.benchmarks._small import small_set

pytestmark = pytest.mark.once


SMALL = small_set("labor", 40)


def test_pools_count_leaves_together():
    found = pools.pooled(np.array([[[3, 0], [2, 1]], [[1, 0], [0, 9]]]))
    np.testing.assert_allclose(found, [[5 / 6, 1 / 6], [0.1, 0.9]], atol=1e-11)


def test_learning_lowers_the_loss_of_its_rows():
    counts = ju.transduction.transductive_leaf_counts(SMALL.X, SMALL.y, nominal=SMALL.nominal)
    rows = ju.learning.dataset_from_counts(counts, SMALL.y)
    before = pools.log_loss(pools.pooled(counts), SMALL.y)
    whole = pools.log_loss(pools.learned(rows)(counts), SMALL.y)
    assert whole < before
    assert whole < pools.log_loss(pools.learned(rows, ("scale", "bias", "noise"))(counts), SMALL.y) + 0.01


def test_venn_abers(rng):
    """Of the isotonic fits with the new row, which the study of learning has and tests."""
    known, scores = rng.integers(0, 6, 25) / 6, np.array([0.0, 0.5, 0.41, 1.0, 0.5])
    y = (rng.random(25) < known).astype(int)
    p0, p1 = venn_abers_pair(known, y == 1, scores)
    expected = np.stack([1 - p0, p1], axis=1) / (1 - p0 + p1)[:, None]
    np.testing.assert_allclose(pools.venn_abers(known, y, scores), expected, atol=1e-9)


def test_bags_are_means_over_bootstrap_samples(monkeypatch):
    monkeypatch.setattr(pools, "BAG", 2)
    train, test = np.arange(30), np.arange(30, 40)
    found = pools.bags(SMALL, train, test, 7)
    drawn = np.random.default_rng(7).integers(30, size=(2, 30))
    expected, plain = [], []
    for rows in drawn:
        X, y = SMALL.X[rows], SMALL.y[rows]
        counts = ju.transduction.transductive_leaf_counts(X, y, SMALL.X[test], nominal=SMALL.nominal).sum(axis=1)
        expected.append(counts / counts.sum(axis=1, keepdims=True))
        tree = ju.transduction.grow_greedy_trees(X, y, nominal=SMALL.nominal)
        leaves = np.asarray(ju.leaf_counts(tree, SMALL.X[test]))[:, 0] + 1
        plain.append(leaves / leaves.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found["bag_tpce_pool"], np.mean(expected, axis=0), atol=1e-9)
    np.testing.assert_allclose(found["bag_laplace"], np.mean(plain, axis=0), atol=1e-9)


@pytest.mark.parametrize(
    ("part", "number"), [("pools", 0), ("pools", 1), ("general", 0), ("general", 2), ("paths", 0), ("branches", 0)]
)
def test_a_cell(part, number, tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "BAG", 2)
    of = study.FURTHER[part]
    cell = of.journal(tmp_path, "labor").wanted[number]
    record = of.run_cell(cell, SMALL)
    assert (record["n"], record["classes"]) == (40, 2)
    for name, measures in record.items():
        if isinstance(measures, list):
            assert 0 <= measures[0] <= 2, name
            assert all(0 <= value <= 1 for value in measures[1:4]), name
    if cell == pools.PoolCell("labor", "five"):
        readings = re.findall(r"means\[(\w+)\]", read_parts(further.TEMPLATE)["Venn-Abers"])
        assert {*readings, "tree", "n", "classes"} == set(record)


def test_cells_agree_with_those_of_the_paper():
    found = study.finished_part(study.RESULTS, "pools")
    assert len(found) >= 7
    for name, record in found.items():
        loo = study.MAIN.journal(study.RESULTS, name).found[study.Cell(name, "loo")]
        for method in ("tree", "tree_laplace", "tpce", "tpce_frequencies"):
            assert record["loo"][method][:4] == pytest.approx(loo[method], abs=2e-6), (name, method)


def test_paths_end_in_the_leaves_and_shrink():
    """Those of no label are those of the grown tree."""
    cut = SMALL.X[:30], SMALL.y[:30], SMALL.X[30:]
    found = paths.transductive_paths(*cut, SMALL.nominal)
    expected = ju.transduction.transductive_leaf_counts(*cut, nominal=SMALL.nominal, inductive=True)
    np.testing.assert_array_equal(paths._leaves(found), expected)
    whole = np.bincount(SMALL.y[:30])
    np.testing.assert_array_equal(found.counts[:, :, 0], np.tile(whole + np.eye(3, 2, dtype=int), (10, 1, 1)))
    assert ((found.counts[:, :, 1:] < found.counts[:, :, :-1]).any(axis=3) | ~found.is_there[:, :, 1:]).all()
    assert (found.counts[:, :, 1:] <= found.counts[:, :, :-1]).all()
    forest = ju.transduction.grow_greedy_trees(SMALL.X[:30], SMALL.y[:30], nominal=SMALL.nominal)
    counts, _ = paths.node_counts(forest)
    for depth, (node, there) in enumerate(paths.walked(forest, SMALL.X[30:])):
        np.testing.assert_array_equal(found.is_there[:, -1, depth], there)
        np.testing.assert_array_equal(found.counts[there, -1, depth], counts[node[there]])


def test_mixtures_of_nodes():
    path = paths.NodePath(np.array([[[6, 2], [1, 2], [0, 0]]]), np.array([[True, True, False]]))
    np.testing.assert_allclose(paths.alike(path), [[(0.7 + 0.4) / 2, (0.3 + 0.6) / 2]])
    np.testing.assert_allclose(paths.drawn(path), [[(1 + 2 * 0.7) / 5, (2 + 2 * 0.3) / 5]])


def test_an_average_over_the_prunings_of_a_stump():
    X, y = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]]), np.array([0, 0, 0, 1, 1])
    forest = ju.transduction.grow_greedy_trees(X, y)
    whole, parts = beta(4, 3), beta(4, 1) * beta(1, 3)
    stump = parts / (whole + parts)
    expected = stump * 4 / 5 + (1 - stump) * 4 / 7
    np.testing.assert_allclose(paths.averaged_prunings(forest, X[:1]), [[expected, 1 - expected]])


def test_smoothed_counts_of_learners():
    X = general.prepared(SMALL).fit_transform(SMALL.X)
    assert np.isfinite(X).all()
    near = KNeighborsClassifier(general.NEIGHBOURS).fit(X, SMALL.y)
    counts = np.eye(2)[SMALL.y[near.kneighbors(X, return_distance=False)]].sum(axis=1)
    np.testing.assert_allclose(general.smoothed(near, X), (counts + 1) / (general.NEIGHBOURS + 2))
    tree = general.LEARNERS["tree"].fit(X, SMALL.y)
    leaf = tree.apply(X)
    counts = np.array([np.bincount(SMALL.y[leaf == one], minlength=2) for one in leaf])
    np.testing.assert_allclose(general.smoothed(tree, X), (counts + 1) / (counts.sum(axis=1, keepdims=True) + 2))
    assert general.smoothed(general.LEARNERS["naive Bayes"], X) is None


NOMINAL = np.array([False, True, False])


def tiny(seed, k):
    """A small set of both kinds of features, with ties; float32 holds its numbers and the middles between them."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(k), rng.integers(0, k, 18 - k)])
    first, words = (y + rng.normal(size=18)).round(), rng.integers(0, 3, 18)
    return np.column_stack([first, words, (4 * rng.normal(size=18)).round() / 4]).astype(float), y


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


def soft_by_hand(node, x, tree, X, rows, width):
    """[(share, instances' rows)] of leaves, by recursion on rows alone."""
    first, f, t = tree.child[node], tree.feature[node], tree.threshold[node]
    if first == node:
        return [(1.0, tree.counts[node])]
    if f == 1:
        rows = [i for i in rows if (X[i, 1] == t) == (x[1] == t)]
        return soft_by_hand(first + 1 + (x[1] == t), x, tree, X, rows, width)
    half = width * np.std([X[i, f] for i in rows])
    left = float(x[f] <= t) if half == 0 else min(max((t + half - x[f]) / (2 * half), 0), 1)
    sides = [[i for i in rows if (X[i, f] <= t) == is_left] for is_left in (True, False)]
    found = []
    for share, side, child in ((left, sides[0], first), (1 - left, sides[1], first + 1)):
        found += [(share * of, counts) for of, counts in soft_by_hand(child, x, tree, X, side, width)]
    return found


@pytest.mark.parametrize("width", [0.0, 0.1, 0.5])
def test_soft_readings_are_those_of_plain_loops(width):
    X, y = tiny(2, 3)
    queries, sample = tiny(12, 3)[0][:8], presort(X, y, NOMINAL)
    tree = grow_greedy_tree(sample, checked_limits("boundary", 2))
    coded, asked = X.astype(np.float32), as_queries(queries, sample)
    # Levels 0, 1, 2 are all there, so codes are the values themselves.
    assert (sample.code[0] == X[:, 1]).all()
    by_leaf = [soft_by_hand(0, x, tree, coded, range(18), width) for x in queries.astype(np.float32)]
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
    found = soft_readings(X, y, X, np.array([False]), 0.5)[1]
    np.testing.assert_allclose(found, np.column_stack([left, 1 - left]) @ laplace)


def test_no_width_is_the_tree_itself():
    X, y = tiny(3, 3)
    counts = np.asarray(ju.leaf_counts(ju.transduction.grow_greedy_trees(X, y, nominal=NOMINAL), X))[:, 0]
    for found in soft_readings(X, y, X, NOMINAL, 0.0):
        np.testing.assert_allclose(found, (counts + 1) / (counts.sum(axis=1, keepdims=True) + 3), rtol=1e-6)


def test_cells_agree_with_each_other():
    parts = ("pools", "paths", "branches")
    of_pools, of_paths, of_branches = (study.finished_part(study.RESULTS, part) for part in parts)
    for found, known, least in ((of_paths, of_pools, 20), (of_branches, of_paths, 15)):
        assert len(found) >= least
        for name, record in found.items():
            for reading in ("tree_laplace", "tpce", "tpce_pool"):
                assert record["five"][reading] == pytest.approx(known[name]["five"][reading], abs=2e-6), (name, reading)
