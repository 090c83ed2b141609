"""Rows behind answers as accelerators find them: the host's own, on a CPU that is told to be one."""

import jax
import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestClassifier

import jaxunc as ju
from jaxunc.proximity import NeighbourIndex, _neighbours

from .test_neighbours import FOREST, NEW, ROWS, WORDS, Y, forest

ASKED = {
    "numbers": (forest, NEW, {}, 9),
    "each row a leaf": (lambda: forest(min_samples_leaf=1), NEW, {}, 9),
    "one query": (forest, NEW[:1], {}, 9),
    "no query": (forest, NEW[:0], {}, 9),
    "classes that weigh": (
        lambda: RandomForestClassifier(**FOREST, class_weight="balanced").fit(ROWS, WORDS),
        NEW,
        {"y": WORDS},
        9,
    ),
    "out of bag, some in every bag": (lambda: forest(n_estimators=3), None, {"kind": "out_of_bag"}, 150),
    "leaves": (forest, NEW, {"kind": "leaves"}, 9),
    "leaves of a boosted model": (lambda: forest(GradientBoostingRegressor), NEW, {"kind": "leaves"}, 150),
}


@pytest.fixture
def told(monkeypatch):
    """A function that has the rows found as on an accelerator."""
    return lambda: monkeypatch.setattr(_neighbours, "default_platform", lambda: "gpu")


@pytest.mark.parametrize("name", ASKED)
def test_the_rows_are_those_of_the_host(name, told, x64):
    make, X, how, k = ASKED[name]
    index, tolerance = NeighbourIndex(make(), ROWS, **how), 1e-12 if x64 else 1e-6
    host = index.neighbours(X, k)
    every = index.weights(X).toarray()
    told()
    device = index.neighbours(X, k)
    np.testing.assert_allclose(device.weight, host.weight, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(device.total, host.total)
    np.testing.assert_allclose(device.effective, host.effective, rtol=10 * tolerance)
    # What is as heavy but for rounding may be in another order.
    assert device.index.dtype == np.int32
    np.testing.assert_array_equal(device.index < 0, host.index < 0)
    of_index = np.where(device.index < 0, 0, np.take_along_axis(every, device.index, axis=1))
    np.testing.assert_allclose(of_index, host.weight, rtol=0, atol=tolerance)
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in device.index)
    if how.get("kind") == "leaves":  # counts are exact, and of equal ones the lower position is first
        np.testing.assert_array_equal(device.index, host.index)


def test_blocks_share_a_program_and_change_no_row(told, monkeypatch, x64):
    told()
    index = NeighbourIndex(forest(), ROWS)
    whole, before = index.neighbours(NEW, 5), _neighbours._largest_of_all._cache_size()
    monkeypatch.setattr(_neighbours, "DEVICE_SUMS", 16 * 150)
    parts = index.neighbours(NEW, 5)  # 16, 16 and 8 of 16
    assert _neighbours._largest_of_all._cache_size() == before + 1
    index.neighbours(NEW[:33], 5)  # 16, 16 and 1
    assert _neighbours._largest_of_all._cache_size() == before + 2
    np.testing.assert_array_equal(whole.index, parts.index)
    for a, b in zip(whole[:4], parts[:4], strict=True):  # sums of another program
        np.testing.assert_allclose(a, b, rtol=1e-14 if x64 else 1e-6)


def test_all_weights_stay_exact(told):
    told()
    model = forest(ExtraTreesRegressor)
    found = ju.neighbours(model, NEW, rows=ROWS, k=150)
    np.testing.assert_allclose((found.weight * Y[found.index]).sum(axis=1), model.predict(NEW), rtol=1e-5)
    weights = ju.neighbour_weights(model, NEW, rows=ROWS)
    np.testing.assert_allclose(weights @ Y, model.predict(NEW), rtol=1e-12)


@pytest.mark.once
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_the_program_is_made_for_accelerators(platform):
    """Nothing in it is the host's alone: it is lowered, not compiled."""
    leaf, share = np.zeros((9, 150), np.int32), np.zeros((9, 150), np.float32)
    traced = _neighbours._largest_of_all.trace(leaf, share, np.zeros((16, 9), np.int32), k=3)
    assert "top_k" in traced.lower(lowering_platforms=(platform,)).as_text()
    assert jax.tree.map(lambda each: each.shape, traced.out_info) == ((16, 3), (16, 3), (16,))
