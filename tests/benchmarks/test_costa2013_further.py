"""Other learners and nodes along the path: readings against independent sums, cells, and their sections."""

import jax
import numpy as np
import pytest
from scipy.special import beta
from sklearn.neighbors import KNeighborsClassifier

import jaxunc as ju
from benchmarks.data import DataSet
from benchmarks.studies.costa2013 import general, paths
from benchmarks.studies.costa2013 import run as study
from benchmarks.studies.costa2013.pools import finished_pools

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]


@pytest.fixture(scope="module")
def small():
    """A small set of both kinds of features, with two classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 40)
    X = np.column_stack([(y + rng.normal(size=40)).round(1), rng.integers(0, 3, 40), rng.normal(size=40)])
    X[5, 0] = np.nan
    return DataSet("labor", X, y, ("a", "b"), np.array([False, True, False]), (), {})


def test_paths_end_in_the_leaves_and_shrink(small):
    found = paths.transductive_paths(small.X[:30], small.y[:30], small.X[30:], small.nominal)
    expected = ju.transduction.transductive_leaf_counts(
        small.X[:30], small.y[:30], small.X[30:], nominal=small.nominal, inductive=True
    )
    np.testing.assert_array_equal(paths._leaves(found), expected)
    whole = np.bincount(small.y[:30])
    np.testing.assert_array_equal(found.counts[:, :, 0], np.tile(whole + np.eye(3, 2, dtype=int), (10, 1, 1)))
    assert ((found.counts[:, :, 1:] < found.counts[:, :, :-1]).any(axis=3) | ~found.is_there[:, :, 1:]).all()
    assert (found.counts[:, :, 1:] <= found.counts[:, :, :-1]).all()


def test_paths_of_no_label_are_those_of_the_grown_tree(small):
    found = paths.transductive_paths(small.X[:30], small.y[:30], small.X[30:], small.nominal)
    forest = ju.transduction.grow_greedy_trees(small.X[:30], small.y[:30], nominal=small.nominal)
    counts, _ = paths.node_counts(forest)
    for depth, (node, there) in enumerate(paths.walked(forest, small.X[30:])):
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


def test_smoothed_counts_of_learners(small):
    X = general.prepared(small).fit_transform(small.X)
    assert np.isfinite(X).all()
    near = KNeighborsClassifier(general.NEIGHBOURS).fit(X, small.y)
    counts = np.eye(2)[small.y[near.kneighbors(X, return_distance=False)]].sum(axis=1)
    np.testing.assert_allclose(general.smoothed(near, X), (counts + 1) / (general.NEIGHBOURS + 2))
    tree = general.LEARNERS["tree"].fit(X, small.y)
    leaf = tree.apply(X)
    counts = np.array([np.bincount(small.y[leaf == one], minlength=2) for one in leaf])
    np.testing.assert_allclose(general.smoothed(tree, X), (counts + 1) / (counts.sum(axis=1, keepdims=True) + 2))
    assert general.smoothed(general.LEARNERS["naive Bayes"], X) is None


@pytest.mark.parametrize("module", [general, paths])
def test_a_run_goes_on_where_it_stopped(module, tmp_path, monkeypatch, small):
    monkeypatch.setattr(jax, "clear_caches", lambda: None)
    monkeypatch.setattr(module, "load", lambda name, folder: small)
    if module is general:
        monkeypatch.setattr(general, "LEARNERS", {name: general.LEARNERS[name] for name in ("naive Bayes", "tree")})
    found = module.run_all(["labor"], None, tmp_path)
    assert module.run_all(["labor"], None, tmp_path) == found
    for record in found.values():
        assert record["classes"] == 2
        assert all(0 <= of[0] <= 2 for of in record.values() if isinstance(of, list) and len(of) == 5)


def test_cells_agree_with_those_of_pools():
    pools, found = finished_pools(study.RESULTS), paths.finished_paths(study.RESULTS)
    assert len(found) >= 20
    for name, record in found.items():
        for reading in ("tree_laplace", "tpce", "tpce_pool"):
            assert record["five"][reading] == pytest.approx(pools[name]["five"][reading], abs=2e-6), (name, reading)
