"""Rows behind answers as accelerators find them: the host's own, on a CPU that is told to be one."""

import jax
import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestClassifier

import jaxunc as ju
from jaxunc.inference import known_plan
from jaxunc.proximity import NeighbourIndex, _neighbours
from tests._profiles import Calls, agree_at_once, profiled
from tests._refusal import refuses

from .test_neighbours import NEW, ROWS, WORDS, Y, forest

ASKED = {
    "numbers": (forest, NEW, {}, 9),
    "each row a leaf": (lambda: forest(min_samples_leaf=1), NEW, {}, 9),
    "one query": (forest, NEW[:1], {}, 9),
    "no query": (forest, NEW[:0], {}, 9),
    "classes that weigh": (lambda: forest(RandomForestClassifier, class_weight="balanced"), NEW, {"y": WORDS}, 9),
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


@pytest.mark.once
@pytest.mark.parametrize("n", [1, 999, 1000])
def test_a_call_is_one_program(told, n):
    """What is fetched are five numbers or lists of each query, and the mark of rows that lie there."""
    told()
    index, queries = NeighbourIndex(forest(), ROWS), np.resize(NEW, (n, NEW.shape[1])).astype(np.float32)
    assert profiled(lambda: index.neighbours(queries, 5)) == Calls(programs=1, sent=1, fetched=6)
    on_device = jax.device_put(queries)
    assert profiled(lambda: index.neighbours(on_device, 5)) == Calls(programs=1, sent=0, fetched=6)
    assert profiled(lambda: index.neighbours(k=5)).programs == 1


def test_blocks_change_no_row(told, monkeypatch, x64):
    told()
    index = NeighbourIndex(forest(), ROWS)
    whole = index.neighbours(NEW, 5)
    monkeypatch.setattr(_neighbours, "DEVICE_SUMS", 16 * 150)
    parts = index.neighbours(NEW, 5)  # the last block is moved back
    np.testing.assert_array_equal(whole.index, parts.index)
    for a, b in zip(whole[:4], parts[:4], strict=True):  # sums of another program
        np.testing.assert_allclose(a, b, rtol=1e-14 if x64 else 1e-6)


@pytest.mark.once
def test_queries_that_are_infinite(told):
    told()
    index, queries = NeighbourIndex(forest(), ROWS), NEW.astype(np.float32).copy()
    queries[7, 1], queries[3, 0] = np.inf, np.nan
    for given in (queries, jax.device_put(queries)):
        refuses(ValueError, r"X\[7, 1\] is infinite", index.neighbours, given, 5)


@pytest.mark.once
@pytest.mark.parametrize("place", ["host", "accelerator"])
def test_ten_threads_at_once(place, told):
    """Of an index that none has asked before; some queries lack values."""
    if place == "accelerator":
        told()
    index, queries = NeighbourIndex(forest(), ROWS), NEW.copy()
    queries[5, 1] = np.nan
    agree_at_once(lambda rows: index.neighbours(rows, 5), [queries[k : k + 1 + 5 * (k % 4)] for k in range(9)] + [None])


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
    trees = ju.from_any(forest(n_estimators=9)).trees
    length, x = np.zeros(9 * trees.n_nodes, np.uint32), np.zeros((16, trees.n_features), np.float32)
    how = {"k": 3, "block": 16, "depth": trees.depth, "kind": "leaves"}
    traced = _neighbours._largest_of_all.trace(known_plan(trees), (leaf, share, length), x, None, **how)
    assert "top_k" in traced.lower(lowering_platforms=(platform,)).as_text()
    shapes = jax.tree.map(lambda each: each.shape, traced.out_info)
    assert shapes == (((16, 3), (16, 3), (16,), (16,), (16,)), ())
