"""The study of pools of transduction's leaves: readings against independent sums, its cells, and its section."""

import jax
import numpy as np
import pytest

import jaxunc as ju
from benchmarks.data import DataSet
from benchmarks.studies.costa2013 import pools
from benchmarks.studies.costa2013 import run as study

from ._resumed import ends_with_the_same_bytes

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]


@pytest.fixture(scope="module")
def small():
    """A small set of both kinds of features, with two classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 40)
    X = np.column_stack([(y + rng.normal(size=40)).round(1), rng.integers(0, 3, 40), rng.normal(size=40)])
    return DataSet("labor", X, y, ("a", "b"), np.array([False, True, False]), (), {})


def test_pools_count_leaves_together():
    found = pools.pooled(np.array([[[3, 0], [2, 1]], [[1, 0], [0, 9]]]))
    np.testing.assert_allclose(found, [[5 / 6, 1 / 6], [0.1, 0.9]], atol=1e-11)


def test_learning_lowers_the_loss_of_its_rows(small):
    counts = ju.transduction.leave_one_out_leaf_counts(small.X, small.y, nominal=small.nominal)
    rows = ju.learning.dataset_from_counts(counts, small.y)
    before = pools.log_loss(pools.pooled(counts), small.y)
    whole = pools.log_loss(pools.learned(rows)(counts), small.y)
    assert whole < before
    assert whole < pools.log_loss(pools.learned(rows, ("scale", "bias", "noise"))(counts), small.y) + 0.01


def _isotonic(score, y):
    """The least squares of an increasing function, as the largest mean to the left of the smallest to the right."""
    level = np.unique(score)
    found = {}
    for s in level:
        means = [min(y[(score >= a) & (score <= b)].mean() for b in level[level >= s]) for a in level[level <= s]]
        found[s] = max(means)
    return found


def test_venn_abers():
    rng = np.random.default_rng(2)
    known, scores = rng.integers(0, 6, 25) / 6, np.array([0.0, 0.5, 0.41, 1.0, 0.5])
    y = (rng.random(25) < known).astype(int)
    found = pools.venn_abers(known, y, scores)
    for i, s in enumerate(scores):
        p0, p1 = (_isotonic(np.append(known, s), np.append(y, label))[s] for label in (0, 1))
        assert p0 <= p1
        np.testing.assert_allclose(found[i], [(1 - p0) / (1 - p0 + p1), p1 / (1 - p0 + p1)], atol=1e-9)


def test_bags_are_means_over_bootstrap_samples(small, monkeypatch):
    monkeypatch.setattr(pools, "BAG", 2)
    train, test = np.arange(30), np.arange(30, 40)
    found = pools.bags(small, train, test, 7)
    drawn = np.random.default_rng(7).integers(30, size=(2, 30))
    expected, plain = [], []
    for rows in drawn:
        X, y = small.X[rows], small.y[rows]
        counts = ju.transduction.transductive_leaf_counts(X, y, small.X[test], nominal=small.nominal).sum(axis=1)
        expected.append(counts / counts.sum(axis=1, keepdims=True))
        tree = ju.transduction.grow_greedy_trees(X, y, nominal=small.nominal)
        leaves = np.asarray(ju.leaf_counts(tree, small.X[test]))[:, 0] + 1
        plain.append(leaves / leaves.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found["bag_tpce_pool"], np.mean(expected, axis=0), atol=1e-9)
    np.testing.assert_allclose(found["bag_laplace"], np.mean(plain, axis=0), atol=1e-9)


def test_a_cell_of_each_protocol(small, monkeypatch):
    monkeypatch.setattr(pools, "BAG", 2)
    for run in pools.RUNS:
        cell = pools.PoolCell("labor", run)
        record = pools.run_cell(cell, small)
        assert pools.is_sound(record, cell)
        for name, of in record.items():
            if name not in ("n", "classes"):
                assert 0 <= of[0] <= 2, name
                assert all(0 <= value <= 1 for value in of[1:4]), name
    assert set(pools.READINGS) | {"venn_abers", "tree", "n", "classes"} == set(record)


def test_cells_agree_with_those_of_the_paper():
    found = pools.finished_pools(study.RESULTS)
    assert len(found) >= 7
    for name, record in found.items():
        loo = study.journal(study.RESULTS, name).found[study.Cell(name, "loo")]
        for method in ("tree", "tree_laplace", "tpce", "tpce_frequencies"):
            assert record["loo"][method][:4] == pytest.approx(loo[method], abs=2e-6), (name, method)


def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch, small):
    monkeypatch.setattr(jax, "clear_caches", lambda: None)
    monkeypatch.setattr(pools, "load", lambda name, folder: small)
    ran = []

    def run_cell(cell, data):
        ran.append(cell)
        names = [*pools.READINGS, "venn_abers", "tree"]
        rng = np.random.default_rng([ord(cell.data[0]), ord(cell.protocol[0])])
        return {"n": 40, "classes": 2, **{name: rng.random(5).round(6).tolist() for name in names}}

    monkeypatch.setattr(pools, "run_cell", run_cell)
    ends_with_the_same_bytes(lambda folder: pools.run_all(["iris", "labor"], None, folder), ran, tmp_path)
    assert "of 2 sets (iris, labor)" in " ".join(pools.section(pools.finished_pools(tmp_path / "whole")).split())
