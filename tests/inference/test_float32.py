"""Models that compare float64, asked with rows of float32: no codes are made, and the bits are those of codes."""

import dataclasses
import gc
import weakref
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxunc as ju
from jaxunc._numerics import order_key_at_or_below
from jaxunc.additive import AdditiveTrees
from jaxunc.inference import encode_for, narrow_trees
from jaxunc.inference._drive import by_float32
from jaxunc.tables import Columns
from tests._forests import toy_forest
from tests._refusal import refusals

pytestmark = pytest.mark.once

CUTS = (-1e300, -3.5e38, -1.0, -1e-45, -5e-324, 5e-324, 0.1, 0.1 + 1e-12, 1 / 3, 1.0, 1.7e9, 3.4e38, 1e39)
EDGES = np.float32([0, -0.0, 1e-45, -1e-45, np.inf, -np.inf, np.nan, 3.4028235e38, -3.4028235e38])
N_ROWS = 300


@lru_cache
def forest_with_cuts() -> ju.Forest:
    """Trees whose tests are of places among cuts, none of them and all, but in the last column."""
    trees, rng = toy_forest(2).trees, np.random.default_rng(0)
    places = np.append(np.arange(-1.0, len(CUTS) + 2), np.inf)
    keys = np.where(places < 0, -1, order_key_at_or_below(places)).astype(np.int32)
    columns = Columns(trees.n_features, cuts=(CUTS, (), CUTS[::2], CUTS[5:8], CUTS[3:], None))
    is_coded = (np.asarray(trees.child) != np.arange(trees.n_nodes)) & (np.asarray(trees.feature) < 5)
    threshold = np.where(is_coded, rng.choice(keys, trees.feature.shape), trees.threshold)
    trees = dataclasses.replace(trees, threshold=jnp.asarray(threshold), columns=columns)
    return dataclasses.replace(toy_forest(2), trees=trees)


def rows_of_float32() -> np.ndarray:
    """Cuts, their neighbours and the edges of floats; numbers in the column without cuts."""
    rng = np.random.default_rng(1)
    with np.errstate(over="ignore"):
        at = np.float32(CUTS)
        pool = np.concatenate([at, np.nextafter(at, np.float32(np.inf)), np.nextafter(at, np.float32(-np.inf)), EDGES])
    X = rng.choice(pool, (N_ROWS, 6))
    X[:, 5] = rng.normal(size=N_ROWS)
    return X


X = rows_of_float32()
WIDE = X.astype(np.float64)


@pytest.mark.parametrize("n", [1, N_ROWS])
def test_answers_have_the_bits_of_codes(n):
    forest = forest_with_cuts()
    bound, vote = ju.bind(forest, ju.Mean()), ju.voting.bind_vote(forest, confidence=0.9)
    values = jnp.cos(jnp.arange(forest.code.size)).reshape(*forest.code.shape, 1)
    model = AdditiveTrees(forest.trees, values, jnp.ones(1), "exp")
    for ask in (bound.probability, model.raw, model.predict, lambda rows: ju.leaf_index(forest, rows), vote):
        for few in (X[:n], jnp.asarray(X[:n])):
            jax.tree.map(np.testing.assert_array_equal, ask(few), ask(WIDE[:n]))
    np.testing.assert_array_equal(ju.leaf_counts(forest, X[:n]), ju.leaf_counts(forest, WIDE[:n]))


def test_rows_in_other_forms():
    trees = forest_with_cuts().trees
    bound, whole = ju.bind(forest_with_cuts(), ju.Mean()), np.round(np.nan_to_num(X.clip(-100, 100)))
    for rows in (whole.astype(np.int8), whole.astype(np.float16), scipy.sparse.csr_array(whole)):
        assert encode_for(trees, rows)[0].columns.cuts is None
        np.testing.assert_array_equal(bound.probability(rows), bound.probability(whole.astype(np.float64)))
    for rows in (WIDE, whole.astype(np.int32), whole.tolist()):  # float32 lacks numbers of these types
        assert encode_for(trees, rows)[0] is trees


def test_trees_that_share_arrays_are_narrowed_apart():
    shared = forest_with_cuts().trees
    for narrow, columns in ((by_float32, shared.columns), (lambda trees: narrow_trees(trees).trees, Columns(7))):
        for missing_right in (shared.missing_right, jax.device_put(~np.asarray(shared.missing_right))):
            trees = narrow(dataclasses.replace(shared, missing_right=missing_right, columns=columns))
            np.testing.assert_array_equal(trees.missing_right, missing_right)


def test_trees_that_test_every_column_are_not_kept_alive():
    shared = forest_with_cuts().trees
    trees = dataclasses.replace(shared, feature=jax.device_put(np.array(shared.feature)))
    assert narrow_trees(trees).trees is trees
    feature = weakref.ref(trees.feature)
    del trees
    gc.collect()
    assert feature() is None


ask = lambda rows: ju.bind(forest_with_cuts(), ju.Mean())(rows)
test_refusals = refusals(
    ("infinite, without a cut", lambda: ask(np.where(np.arange(6) == 5, -EDGES[5], X)), r"X\[0, 5\] is infinite"),
    ("too few columns", lambda: ask(X[:, :5]), "X has 5 features"),
)
