"""Every float32 instance reaches the leaf that it reaches in scikit-learn: not one visit may differ."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import jaxunc as ju
from jaxunc.inference._plan import make_plan
from tests._forests import leaf_nodes, padded
from tests._sparse import widened

pytestmark = [pytest.mark.once, pytest.mark.room]


def members(model):
    """The trees of a model, and the columns that each sees."""
    trees = getattr(model, "estimators_", [model])
    columns = getattr(model, "estimators_features_", [slice(None)] * len(trees))
    return [(one.tree_, places) for one, places in zip(trees, columns, strict=True)]


def same_nodes(tree, child) -> np.ndarray:
    """For each node of a scikit-learn tree the node of ours, found by walking both from the root side by side."""
    place = np.full(tree.node_count, -1)
    todo = [(0, 0)]
    while todo:
        theirs, ours = todo.pop()
        place[theirs] = ours
        left = tree.children_left[theirs]
        assert (left < 0) == (child[ours] == ours), "an inner node must stay one, a leaf a leaf"
        if left >= 0:
            todo += [(left, child[ours]), (tree.children_right[theirs], child[ours] + 1)]
    return place


def wrong_leaves(model, forest, X) -> int:
    """How many visits end in another leaf than scikit-learn's own ``tree_.apply``."""
    assert X.dtype == np.float32
    ours = np.asarray(ju.leaf_index(forest, jnp.asarray(X)))
    child, trees = np.asarray(forest.trees.child), members(model)
    assert ours.shape == (len(X), len(trees))
    of_theirs = [
        same_nodes(tree, child[t])[tree.apply(np.ascontiguousarray(X[:, columns]))]
        for t, (tree, columns) in enumerate(trees)
    ]
    return int(np.sum(np.stack(of_theirs, axis=1) != ours))


def near_thresholds(model, X, rng, rows: int) -> np.ndarray:
    """Instances with three values at a threshold of their column, or at the float before or after it."""
    inner = [(tree, columns, tree.children_left >= 0) for tree, columns in members(model)]
    split = np.concatenate([np.arange(X.shape[1])[columns][tree.feature[of]] for tree, columns, of in inner])
    values = np.concatenate([tree.threshold[of] for tree, _, of in inner]).astype(np.float32)
    near = np.stack([values, np.nextafter(values, np.float32(np.inf)), np.nextafter(values, np.float32(-np.inf))])
    out = X[rng.integers(0, len(X), rows)].copy()
    for _ in range(3):  # so that few rows meet many thresholds
        pick, how = rng.integers(0, len(split), rows), rng.integers(0, 3, rows)
        out[np.arange(rows), split[pick]] = near[how, pick]
    return out


def odd_values(X, rng, rows: int) -> np.ndarray:
    tiny = np.float32(1e-45)
    odd = np.array([np.nan, np.nan, np.inf, -np.inf, 0.0, -0.0, tiny, -tiny, 1e-39, 3.4e38, -3.4e38], np.float32)
    out = X[rng.integers(0, len(X), rows)].copy()
    hit = rng.random(out.shape) < 0.15
    out[hit] = odd[rng.integers(0, len(odd), int(hit.sum()))]
    return out


normal = lambda rng, n, d: rng.normal(size=(n, d)).astype(np.float32)
one_decimal = lambda rng, n, d: np.round(rng.normal(size=(n, d)) * 3, 1).astype(np.float32)
# Around 2^24, where floats begin to skip integers; then subnormals, zeros of both signs, the smallest normal numbers.
large_integers = lambda rng, n, d: (2.0**24 + rng.integers(-40, 40, size=(n, d))).astype(np.float32)
tiny_numbers = lambda rng, n, d: (
    rng.integers(-9, 10, size=(n, d)) * rng.choice([1e-45, 1e-40, 1e-38], size=(n, d))
).astype(np.float32)


def with_missing(rng, n, d):
    X = normal(rng, n, d)
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


def plant_thresholds(model, rng):
    """Replace the thresholds of a fitted model by numbers that scikit-learn hardly ever picks by itself: subnormal
    ones, those between two subnormal floats, zeros of both signs, infinities."""
    tiny = np.array([0.0, -0.0, 1.4e-45, 2.1e-45, -0.7e-45, -1e-40, 1.00000001e-39, 1.17e-38, -1.18e-38, np.inf])
    for tree, _ in members(model):
        inner = np.flatnonzero(tree.children_left >= 0)
        tree.threshold[inner] = rng.choice(tiny, len(inner))
        assert np.all(np.isin(tree.threshold[inner], tiny)), "the arrays of a tree are views"


class Case(NamedTuple):
    """A kind of data and model, and how many instances are asked about."""

    data: object
    model: object
    rows: int
    n_classes: int = 2
    planted: bool = False

    @property
    def n_trees(self) -> int:
        return getattr(self.model, "n_estimators", 1)


forest_of = lambda n_trees, **settings: RandomForestClassifier(n_trees, random_state=0, **settings)
CASES = {
    "one decimal": Case(one_decimal, forest_of(30), 10_001),
    "random forest": Case(normal, forest_of(40), 40_001),
    "large integers": Case(large_integers, forest_of(20), 30_001),
    "tiny numbers": Case(tiny_numbers, forest_of(20), 30_001, planted=True),
    "missing values": Case(with_missing, forest_of(25), 30_001),
    "missing values, random splits": Case(with_missing, ExtraTreesClassifier(20, random_state=0), 20_001),
    "extra trees": Case(normal, ExtraTreesClassifier(20, min_samples_leaf=2, random_state=0), 20_001, 3),
    "many classes": Case(normal, forest_of(10), 10_001, 7),
    "stumps": Case(normal, forest_of(20, max_depth=1), 10_001),
    "shallow": Case(normal, forest_of(20, max_depth=3), 10_001),
    "bagging": Case(
        one_decimal, BaggingClassifier(DecisionTreeClassifier(), 20, max_features=0.5, random_state=0), 10_001, 3
    ),
    "tree": Case(normal, DecisionTreeClassifier(random_state=0), 5_003),
    "random tree": Case(normal, ExtraTreeClassifier(random_state=0), 5_003),
    "only a root": Case(normal, DecisionTreeClassifier(min_samples_leaf=600), 2_003),
}
HARD = {"one decimal", "missing values", "large integers", "tiny numbers"}
"""One float up or down at a threshold changes many of their leaves."""


def test_there_are_enough_visits():
    assert sum(case.n_trees * case.rows for case in CASES.values()) >= 5_000_000


@pytest.mark.parametrize("name", CASES)
@pytest.mark.exhaustive(keep=1)
def test_leaves(name, rng):
    case = CASES[name]
    X = case.data(rng, 700, 8)
    signal = np.nan_to_num(X[:, 0]).astype(float) - np.nan_to_num(X[:, 1]).astype(float)
    signal += 0.3 * np.std(signal) * rng.normal(size=len(X))
    y = np.digitize(signal, np.quantile(signal, np.linspace(0, 1, case.n_classes + 1)[1:-1]))
    model = case.model.fit(X * np.float32(1e38) if case.planted else X, y)
    if case.planted:
        plant_thresholds(model, rng)
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    assert forest.n_trees == case.n_trees
    queries = [case.data(rng, case.rows // 4, 8), odd_values(X, rng, case.rows // 4)]
    inner = any(tree.node_count > 1 for tree, _ in members(model))
    rest = case.rows - sum(map(len, queries))
    queries.append(near_thresholds(model, X, rng, rest) if inner else normal(rng, rest, 8))
    assert wrong_leaves(model, forest, np.concatenate(queries)) == 0

    if name in HARD:
        numbers = jnp.arange(forest.n_nodes, dtype=jnp.float32) * jnp.ones((case.n_trees, 1))
        for data in (queries[1], np.nan_to_num(queries[1])):  # odd numbers
            merged = ju.inference.merge_leaves(forest, numbers, data, merge="collect")
            np.testing.assert_array_equal(merged, ju.leaf_index(forest, data))
        hard = jnp.asarray(queries[-1][:4000])
        for step in (1, -1):
            shift = np.int32(step) * ~leaf_nodes(forest)
            shifted = eqx.tree_at(lambda f: f.trees.threshold, forest, forest.trees.threshold + shift)
            assert np.sum(ju.leaf_index(shifted, hard) != ju.leaf_index(forest, hard)) > 300


WIDE = (0, 1, 510, 511, 512, 1022, 1023, 1024, 1500, 1599)
"""Columns whose numbers are awkward bit patterns."""


def spread(X: np.ndarray, places, number: int) -> np.ndarray:
    """Columns at these places among so many; the others are zero."""
    data = np.zeros((len(X), number), np.float32)
    data[:, places] = X
    return data


@pytest.fixture(scope="module")
def narrow_model():
    """A forest that tests as many columns as are awkward, and data for it."""
    rng = np.random.default_rng(5)
    X = np.round(rng.normal(size=(3001, len(WIDE))), 1).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    y = np.nansum(X * rng.choice([-1, 1], len(WIDE)), axis=1) > 0
    model = RandomForestClassifier(20, max_features=None, random_state=0).fit(X[:600], y[:600])
    assert set(range(len(WIDE))) <= set(model.estimators_[0].tree_.feature.tolist())
    return model, X


@pytest.mark.exhaustive
def test_many_columns(narrow_model):
    model, X = narrow_model
    forest = ju.from_sklearn(model)
    assert wrong_leaves(model, forest, X) == 0
    found = ju.leaf_index(widened(forest, np.array(WIDE), 1600), spread(X, WIDE, 1600))
    np.testing.assert_array_equal(found, ju.leaf_index(forest, X))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("n_features", "missing", "narrow"),
    [(512, True, True), (1024, False, True), (1600, True, False), (1600, False, False)],
)
def test_words_of_a_very_large_tree(narrow_model, n_features, missing, narrow):
    """With 2^21 node slots and a top a word holds ten bits of feature beside the child: indices 510, 511, 1022 and 1023
    are then bit patterns of NaN in a float, and wider data need an array of features of their own."""
    model, X = narrow_model
    forest, X = ju.from_sklearn(model.estimators_[0]), X if missing else np.nan_to_num(X)
    places = np.array([place if place < n_features else 2 + i for i, place in enumerate(WIDE)])
    large, data = widened(padded(forest, 2**21), places, n_features), jnp.asarray(spread(X, places, n_features))
    assert (make_plan(large.trees, missing=missing).feature is None) == narrow
    tree = model.estimators_[0].tree_
    expected = same_nodes(tree, np.asarray(forest.trees.child)[0])[tree.apply(X)]
    numbers = jnp.arange(2**21, dtype=jnp.float32)[None]
    reached = ju.inference.merge_leaves(large, numbers, data, merge="max", missing=missing)
    np.testing.assert_array_equal(reached, expected)
    if missing:
        np.testing.assert_array_equal(ju.leaf_index(large, data)[:, 0], expected)


def test_stumps_and_roots_in_one_forest(rng):
    """Trees of very different depth side by side: a root alone, a stump, a chain as deep as its data."""
    X = np.arange(200, dtype=np.float32)[:, None]
    y = np.arange(200) % 2
    deep = DecisionTreeClassifier(random_state=0).fit(X, y)
    stump = DecisionTreeClassifier(max_depth=1).fit(X, X[:, 0] > 100)
    root = DecisionTreeClassifier(min_samples_leaf=150).fit(X, y)
    model = RandomForestClassifier(3, random_state=0).fit(X, y)
    model.estimators_ = [root, stump, deep]
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    np.testing.assert_array_equal(forest.trees.tree_depth, [0, 1, deep.get_depth()])
    assert wrong_leaves(model, forest, near_thresholds(model, X, rng, 4999)) == 0


def test_complete_and_wide_data(rng):
    """Wide ones have small blocks: of a last chunk only the filled ones are walked, in float64, too."""
    X = normal(rng, 500, 8)
    forest = ju.from_sklearn(RandomForestClassifier(10, random_state=0).fit(X, X[:, 0] > 0))
    table, queries = jnp.asarray(normal(rng, 10, forest.n_nodes)), jnp.asarray(normal(rng, 3001, 8))
    complete = ju.inference.merge_leaves(forest, table, queries, missing=False)
    np.testing.assert_array_equal(complete, ju.inference.merge_leaves(forest, table, queries))
    X = normal(rng, 2500, 60)
    forest = ju.from_sklearn(RandomForestClassifier(3, random_state=0).fit(X[:200], X[:200, 0] > 0))
    with jax.enable_x64(True):
        index = ju.leaf_index(forest, X)
    np.testing.assert_array_equal(index[-60:], ju.leaf_index(forest, X[-60:]))


@pytest.mark.exhaustive
def test_large_integers():
    """They are float32 numbers before any type of 32 bits could cut them off."""
    X = np.array([[1], [2**31 + 2**20], [2**40], [-(2**35)], [2**62]])
    model = DecisionTreeClassifier(random_state=0).fit(X, np.arange(5))
    forest = ju.from_sklearn(model)
    counts = ju.leaf_counts(forest, X.astype(np.float32))
    np.testing.assert_array_equal(counts[:, 0], np.eye(5))
    np.testing.assert_array_equal(ju.leaf_counts(forest, X), counts)
    np.testing.assert_array_equal(ju.leaf_index(forest, X), ju.leaf_index(forest, X.astype(np.float32)))
    traced = jax.jit(ju.leaf_index)(forest, jnp.asarray(X, np.float32))
    np.testing.assert_array_equal(ju.leaf_index(forest, X), traced)
    np.testing.assert_array_equal(ju.inference.merge_leaves(forest, forest.counts.astype(np.float32), X), np.eye(5))
