"""Tests of the walk that explains by covers: against sums over paths, in calls of any size, by shared programs."""

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.explanations import _by_cover
from tests._forests import order_key
from tests.conftest import X64

from .test_explain import arrays_of, cover_of

pytestmark = pytest.mark.room

LIMIT = 1e-12 if X64 else 1e-6


def grown(n_columns: int, seed: int = 0, n: int = 300, n_trees: int = 6, **settings: Any):
    """A forest of two classes, and the rows that it is grown on."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_columns)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=n) > 0).astype(int)
    return ju.from_sklearn(RandomForestClassifier(n_trees, random_state=seed, **settings).fit(X, y)), X


def by_paths(forest: ju.Forest, X: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """Shares of each column in the mean of the second class's shares, path by path, by an integral over products."""
    (child, feature, threshold, _), cover = arrays_of(forest.trees), cover_of(forest)
    counts = np.asarray(forest.count_table, float)[np.asarray(forest.code)]
    t, weight = np.polynomial.legendre.leggauss(X.shape[1])
    t, weight = (t + 1) / 2, weight / 2
    keys, values = order_key(X), np.zeros(X.shape)

    def rows(tree, node):
        left = child[tree, node]
        return cover[tree, node] if left == node else rows(tree, left) + rows(tree, left + 1)

    def follow(tree, node, known):
        left, column = child[tree, node], int(feature[tree, node])
        if left == node:
            z, passes = (
                np.array([part[k] for part in known.values()]) for k in (0, 1)
            )  # [columns], [columns instances]
            terms = t[:, None, None] * passes + (1 - t)[:, None, None] * z[:, None]
            said = counts[tree, node, 1] / counts[tree, node].sum()
            for i, own in enumerate(known):
                share = (passes[i] - z[i]) * (weight[:, None] * np.delete(terms, i, axis=1).prod(axis=1)).sum(axis=0)
                values[:, own] += said * share if mask is None else said * share * mask[:, tree]
            return
        for side in (0, 1):
            goes = (keys[:, column] > threshold[tree, node]) == side
            z, passes = known.get(column, (1.0, True))
            ratio = rows(tree, left + side) / rows(tree, node)
            follow(tree, left + side, known | {column: (z * ratio, passes & goes)})

    for tree in range(len(child)):
        follow(tree, 0, {})
    return values / (len(child) if mask is None else np.maximum(mask.sum(axis=1), 1)[:, None])


@pytest.mark.parametrize(("n_columns", "settings"), [(7, {}), (12, {"max_depth": 4}), (3, {"max_leaf_nodes": 2})])
@pytest.mark.exhaustive(keep=1)
def test_sums_over_paths(n_columns, settings):
    """Grown out with repeated columns; several columns on a path; one test a tree."""
    forest, X = grown(n_columns, **settings)
    mask = np.random.default_rng(1).random((40, 6)) < 0.6
    mask[0] = False
    for chosen in (None, mask):
        found = ju.explain(forest, ju.Mean(), X[:40], tree_mask=chosen).values
        np.testing.assert_allclose(found[..., 1], by_paths(forest, X[:40], chosen), rtol=0, atol=LIMIT)


@pytest.mark.exhaustive
def test_calls_of_any_size_agree(monkeypatch):
    """Small and padded calls; the large one of accelerators; smaller ones, as of many columns on a path."""
    forest, X = grown(7, n_trees=2)
    X = np.tile(X, (2, 1))
    expected = by_paths(forest, X)
    settings = [{}, {"CALLS": {"cpu": _by_cover.CALLS["accelerator"]}}, {"STEP_BYTES": 1}]
    for n, setting in [(1, {}), (9, {}), (70, {}), *((len(X), setting) for setting in settings)]:
        with monkeypatch.context() as patch:
            for name, value in setting.items():
                patch.setattr(_by_cover, name, value)
            found = ju.explain(forest, ju.Mean(), X[:n]).values[..., 1]
        np.testing.assert_allclose(found, expected[:n], rtol=0, atol=LIMIT)


def test_forests_of_like_size_share_a_program():
    known = _by_cover._values.jitted._cache_size()
    for seed in range(10):
        forest, X = grown(6, seed, n=200 + 10 * seed, n_trees=5 + seed)
        ju.explain(forest, ju.Mean(), X[:8])
    assert _by_cover._values.jitted._cache_size() <= known + 1


def test_padding_changes_no_bit(monkeypatch):
    values = []
    for nodes, depth in ((4096, 32), (8192, 64)):
        monkeypatch.setattr(_by_cover, "NODES", nodes)
        monkeypatch.setattr(_by_cover, "DEPTH", depth)
        forest, X = grown(5)
        values.append(np.asarray(ju.explain(forest, ju.Mean(), X[:8]).values))
    np.testing.assert_array_equal(*values)
    assert np.abs(values[0]).max() > 0
