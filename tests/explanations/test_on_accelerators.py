"""Explanations as accelerators compute them, on a CPU that is told to be one: by cover, and against a table of rows."""

import gc

import jax
import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier

import jaxunc as ju
from jaxunc._numerics import KeptWhileAlive
from jaxunc.explanations import _by_background, _by_cover, _explain
from tests._profiles import agree_at_once, profiled
from tests._refusal import refuses
from tests._sparse import sparse_data, sparse_forest
from tests.conftest import TYPED

from .test_by_cover import LIMIT, grown

pytestmark = [pytest.mark.room, pytest.mark.once]
BACKGROUNDS = {"cover": None, "rows": np.random.default_rng(5).normal(size=(70, 4)).astype(np.float32)}
BACKGROUNDS["rows"][3, 2] = np.nan


@pytest.fixture
def told(monkeypatch):
    """A function that has explanations computed as on an accelerator, in blocks of 64 rows at most."""
    monkeypatch.setattr(_by_cover, "NODES", 256)  # the forests are small

    def tell():
        monkeypatch.setattr(_explain, "default_platform", lambda: "gpu")
        monkeypatch.setitem(_by_cover.CALLS, "accelerator", (64, 64))
        monkeypatch.setitem(_by_background.SIZES, "accelerator", (128, 64))

    return tell


@pytest.mark.parametrize("background", BACKGROUNDS)
@pytest.mark.parametrize("n", [1, 199])
def test_a_call_is_one_program(n, background, told):
    """Two more programs lift the leaves of a new forest. The answer goes back by one transfer, of which the base is all
    for rows on the device.
    """
    forest, X = grown(4, max_leaf_nodes=20)
    X, sample = X[:n], BACKGROUNDS[background]
    X[0, 1], mask = np.nan, np.random.default_rng(0).random((n, 6)) < 0.6
    ask = lambda rows, mask=None: ju.explain(forest, ju.Mean(), rows, background=sample, tree_mask=mask)
    expected = ask(X), ask(X, mask)
    told()
    for rows, sent in ((X, 2), (jax.device_put(X), 0)):
        calls = profiled(lambda rows=rows: ask(rows))
        assert calls.programs == 1
        assert calls.sent <= sent + 1 + 2 * (background == "rows"), calls
        assert calls.fetched == (2 if sent else 1)  # the mark, and the answer for rows of the host
        answers = (ask(rows), ask(rows, mask)) if sent else (ask(rows),)
        for answer, right in zip(answers, expected, strict=False):
            np.testing.assert_allclose(answer.values, right.values, rtol=0, atol=LIMIT)
            np.testing.assert_array_equal(answer.base, right.base)


@pytest.mark.parametrize("depth", [None, 1], ids=["trees", "leaves alone"])
@pytest.mark.parametrize("background", BACKGROUNDS)
def test_infinite_rows_are_refused(depth, background, told):
    told()
    forest, X = grown(4, max_leaf_nodes=20)
    X = X[:199]  # with the programs of calls above
    if depth is not None:
        forest = ju.from_sklearn(RandomForestClassifier(3, min_samples_leaf=len(X)).fit(X, X[:, 0] > 0))
    X[70, 2], X[3, 1] = np.inf, np.nan
    how = {"background": BACKGROUNDS[background]}
    for rows in (X, jax.device_put(X)):
        refuses(ValueError, r"X\[70, 2\] is infinite or too large", ju.explain, forest, ju.Mean(), rows, **how)


def test_rows_of_the_background_anywhere(told):
    """On the device, sparse, of another type; infinite ones are refused."""
    forest, X = grown(4)
    sample = X[:9].astype(np.float64)
    expected = ju.explain(forest, ju.Mean(), X[:5], background=sample).values
    told()
    for rows in (sample, jax.device_put(sample.astype(np.float32))):
        found = ju.explain(forest, ju.Mean(), X[:5], background=rows).values
        np.testing.assert_allclose(found, expected, rtol=0, atol=LIMIT)
    sample[4, 1] = np.inf
    for rows in (sample, jax.device_put(sample)):
        refuses(ValueError, r"background\[4, 1\] is inf", ju.explain, forest, ju.Mean(), X, background=rows)


@pytest.mark.parametrize("n_features", [0, 2**10], ids=["at places", "by a product"])
def test_shares_are_added_in_two_ways(n_features, told, monkeypatch):
    """And of sparse data the columns alone that trees test; several outputs, and no constant sum."""
    told()
    monkeypatch.setattr(_by_background, "MOST_FEATURES", n_features)
    forest, X = sparse_forest(2, 3), sparse_data(20)
    combiners = ju.Mean(), ju.UncertaintyDecomposition("plausibility")
    ask = lambda: [ju.explain(forest, combiner, X, background=X[:5]).values for combiner in combiners]
    found = ask()
    monkeypatch.undo()
    for values, expected in zip(found, ask(), strict=True):
        np.testing.assert_allclose(values, expected, rtol=0, atol=LIMIT)


def test_models_without_counts(told):
    X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    model = GradientBoostingRegressor(n_estimators=5, max_depth=2).fit(X, X[:, 0] * X[:, 1])
    expected = ju.explain(model, None, X, background=X[:20])
    told()
    found = ju.explain(model, None, X, background=X[:20])
    np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=LIMIT)
    assert ju.explain(model, None, X[:0], background=X[:20]).values.shape == (0, 4, 1)


@pytest.mark.parametrize("place", ["cpu", "accelerator"])
@pytest.mark.parametrize("background", BACKGROUNDS)
def test_ten_threads_at_once(background, place, told):
    """Of a forest that none has asked before; of some the values are missing, some are several blocks."""
    if place == "accelerator":
        told()
    forest, X = grown(4, seed=1, max_leaf_nodes=20)
    X[5, 1] = np.nan
    batches, sample = [X[k : k + 1 + k % 8] for k in range(9)] + [X[:128]], BACKGROUNDS[background]
    agree_at_once(lambda rows: ju.explain(forest, ju.Mean(), rows, background=sample)[:2], batches)


def test_what_is_made_of_a_forest_is_kept_while_it_lives(monkeypatch):
    for name in ("_STATISTICS", "_SUMMANDS"):
        monkeypatch.setattr(_explain, name, KeptWhileAlive(4))
    forest, X = grown(4, seed=2, max_leaf_nodes=20)
    by_mean = ju.explain(forest, ju.Mean(), X[:8]).values
    weighted = ju.explain(forest, ju.Weighted(ju.Mean(), np.arange(1.0, 7.0)), X[:8]).values
    assert np.abs(by_mean - weighted).max() > 0.01
    np.testing.assert_array_equal(ju.explain(forest, ju.Mean(), X[:8]).values, by_mean)
    assert len(_explain._STATISTICS) in (1, 2)  # weights that are gone
    del forest
    gc.collect()
    assert len(_explain._STATISTICS) == len(_explain._SUMMANDS) == 0


@pytest.mark.skipif(TYPED, reason="by their types forests hold JAX's arrays")
def test_nothing_is_kept_of_arrays_that_may_be_written_to():
    forest, X = grown(4, seed=2, max_leaf_nodes=20)
    forest = jax.tree.map(np.array, forest)
    by_mean = ju.explain(forest, ju.Mean(), X[:8]).values
    forest.count_table[:] = forest.count_table[:, ::-1]
    np.testing.assert_allclose(ju.explain(forest, ju.Mean(), X[:8]).values, -by_mean, rtol=0, atol=LIMIT)
