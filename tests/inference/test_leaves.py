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
from tests._forests import padded

pytestmark = [pytest.mark.once, pytest.mark.room]


def members(model):
    if isinstance(model, DecisionTreeClassifier):
        return [(model.tree_, slice(None))]
    if isinstance(model, BaggingClassifier):
        return [(m.tree_, c) for m, c in zip(model.estimators_, model.estimators_features_, strict=True)]
    return [(m.tree_, slice(None)) for m in model.estimators_]


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


def wrong_leaves(model, forest, X) -> tuple[int, int]:
    """How many visits there are, and how many end in another leaf than scikit-learn's own ``tree_.apply``."""
    assert X.dtype == np.float32
    ours = np.asarray(ju.leaf_index(forest, jnp.asarray(X)))
    child, wrong = np.asarray(forest.trees.child), 0
    for t, (tree, columns) in enumerate(members(model)):
        expected = same_nodes(tree, child[t])[tree.apply(np.ascontiguousarray(X[:, columns]))]
        wrong += int(np.sum(expected != ours[:, t]))
    return ours.size, wrong


def near_thresholds(model, X, rng, rows: int) -> np.ndarray:
    """Instances with one value at a threshold of its column, or at the float before or after it."""
    split, values = [], []
    for tree, columns in members(model):
        inner = tree.children_left >= 0
        feature = tree.feature[inner]
        split.append(feature if isinstance(columns, slice) else np.asarray(columns)[feature])
        values.append(tree.threshold[inner])
    split, values = np.concatenate(split), np.concatenate(values).astype(np.float32)
    near = np.stack([values, np.nextafter(values, np.float32(np.inf)), np.nextafter(values, np.float32(-np.inf))])
    out = X[rng.integers(0, len(X), rows)].copy()
    # Several columns of each row, so that few rows meet many thresholds.
    for _ in range(3):
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
    """A kind of data and model, and how many visits it is good for."""

    data: object
    model: object
    rows: int
    n_classes: int = 2
    n_trees: int = 1
    n_features: int = 8
    planted: bool = False

    @property
    def visits(self) -> int:
        return self.n_trees * self.rows


CASES = {
    "random forest": Case(normal, RandomForestClassifier(40, random_state=0), 40_001, n_trees=40),
    "one decimal": Case(one_decimal, RandomForestClassifier(30, random_state=0), 30_001, n_trees=30),
    "large integers": Case(large_integers, RandomForestClassifier(20, random_state=0), 30_001, n_trees=20),
    "tiny numbers": Case(tiny_numbers, RandomForestClassifier(20, random_state=0), 30_001, n_trees=20, planted=True),
    "missing values": Case(with_missing, RandomForestClassifier(25, random_state=0), 30_001, n_trees=25),
    "missing values, random splits": Case(with_missing, ExtraTreesClassifier(20, random_state=0), 20_001, n_trees=20),
    "extra trees": Case(normal, ExtraTreesClassifier(20, min_samples_leaf=2, random_state=0), 20_001, 3, 20),
    "many classes": Case(normal, RandomForestClassifier(10, random_state=0), 10_001, n_classes=7, n_trees=10),
    "stumps": Case(normal, RandomForestClassifier(20, max_depth=1, random_state=0), 10_001, n_trees=20),
    "shallow": Case(normal, RandomForestClassifier(20, max_depth=3, random_state=0), 10_001, n_trees=20),
    "bagging": Case(
        one_decimal, BaggingClassifier(DecisionTreeClassifier(), 20, max_features=0.5, random_state=0), 10_001, 3, 20
    ),
    "tree": Case(normal, DecisionTreeClassifier(random_state=0), 5_003),
    "random tree": Case(normal, ExtraTreeClassifier(random_state=0), 5_003),
    "only a root": Case(normal, DecisionTreeClassifier(min_samples_leaf=600), 2_003),
}


def test_there_are_enough_visits():
    assert sum(case.visits for case in CASES.values()) >= 5_000_000


def fitted(case, X, y, rng):
    model = case.model.fit(X * np.float32(1e38) if case.planted else X, y)
    if case.planted:
        plant_thresholds(model, rng)
    return model


@pytest.mark.parametrize("name", CASES)
@pytest.mark.exhaustive
def test_leaves(name, rng):
    case = CASES[name]
    X = case.data(rng, 700, case.n_features)
    signal = np.nan_to_num(X[:, 0]).astype(float) - np.nan_to_num(X[:, 1]).astype(float)
    signal += 0.3 * np.std(signal) * rng.normal(size=len(X))
    y = np.digitize(signal, np.quantile(signal, np.linspace(0, 1, case.n_classes + 1)[1:-1]))
    model = fitted(case, X, y, rng)
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    assert forest.n_trees == case.n_trees
    queries = [case.data(rng, case.rows // 4, case.n_features), odd_values(X, rng, case.rows // 4)]
    inner = any(tree.node_count > 1 for tree, _ in members(model))
    rest = case.rows - sum(map(len, queries))
    queries.append(near_thresholds(model, X, rng, rest) if inner else normal(rng, rest, case.n_features))
    visits, wrong = wrong_leaves(model, forest, np.concatenate(queries))
    assert visits == case.visits
    assert wrong == 0, f"{wrong} of {visits}"


@pytest.mark.exhaustive(keep=1)
@pytest.mark.parametrize("name", ["one decimal", "missing values", "large integers", "tiny numbers"])
def test_the_thresholds_matter(name, rng):
    """The visits above are hard ones: one float up or down at a threshold changes many of their leaves."""
    case = CASES[name]
    X = case.data(rng, 700, case.n_features)
    y = (np.nan_to_num(X[:, 0]) > np.nan_to_num(X[:, 1])).astype(int)
    forest = ju.from_sklearn(fitted(case, X, y, rng))
    queries = jnp.asarray(near_thresholds(case.model, X, rng, 4000))
    inner = np.asarray(forest.trees.child) != np.arange(forest.n_nodes)
    for step in (1, -1):
        shifted = eqx.tree_at(lambda f: f.trees.threshold, forest, forest.trees.threshold + np.int32(step) * inner)
        assert np.sum(ju.leaf_index(shifted, queries) != ju.leaf_index(forest, queries)) > 500


WIDE = (0, 1, 510, 511, 512, 1022, 1023, 1024, 1500, 1599)


@pytest.fixture(scope="module")
def wide():
    """A forest that tests the columns whose numbers are awkward bit patterns, and data for it."""
    rng = np.random.default_rng(5)
    X = np.zeros((600, 1600), np.float32)
    X[:, WIDE] = np.round(rng.normal(size=(600, len(WIDE))), 1)
    X[rng.random(X.shape) < 0.02] = np.nan
    y = (np.nansum(X[:, WIDE] * rng.choice([-1, 1], len(WIDE)), axis=1) > 0).astype(int)
    model = RandomForestClassifier(20, max_features=None, bootstrap=True, random_state=0).fit(X, y)
    used = np.concatenate([m.tree_.feature for m in model.estimators_])
    assert set(WIDE) <= set(used.tolist())
    queries = np.zeros((3001, 1600), np.float32)
    queries[:, WIDE] = np.round(rng.normal(size=(3001, len(WIDE))), 1)
    queries[rng.random(queries.shape) < 0.05] = np.nan
    return model, queries


@pytest.mark.exhaustive
def test_many_columns(wide):
    model, X = wide
    visits, wrong = wrong_leaves(model, ju.from_sklearn(model), X)
    assert visits == 20 * 3001
    assert wrong == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("n_features", "missing", "narrow"),
    [(512, True, True), (1024, False, True), (1600, True, False), (1600, False, False)],
)
def test_words_of_a_very_large_tree(wide, n_features, missing, narrow):
    """With 2^21 node slots and a top a word holds ten bits of feature beside the child: indices 510, 511, 1022 and 1023
    are then bit patterns of NaN in a float, and wider data need an array of features of their own."""
    model, X = wide
    tree = model.estimators_[0]
    forest = ju.from_sklearn(tree)
    moved = {column: column % n_features for column in range(1600)}
    if n_features < 1600:  # the same tree over fewer columns; the awkward ones keep their numbers or swap places
        order = {0: 0, 1: 1, 510: 510, 511: 511, 512: 2, 1022: 1022, 1023: 1023, 1024: 3, 1500: 4, 1599: 5}
        order = {c: (p if p < n_features else {1022: 6, 1023: 7}[p]) for c, p in order.items()}
        free = iter(sorted(set(range(n_features)) - set(order.values())))
        moved = order | {c: next(free) for c in np.unique(tree.tree_.feature) if c >= 0 and c not in order}
    lookup = np.zeros(1600, np.int32)
    data = np.zeros((len(X), n_features), np.float32)
    for column, place in moved.items():
        lookup[column] = place
        data[:, place] = X[:, column]
    if not missing:
        data = np.nan_to_num(data)
    large = padded(forest, 2**21, n_features)
    large = eqx.tree_at(lambda f: f.trees.feature, large, jnp.asarray(lookup)[large.trees.feature])
    assert (make_plan(large.trees, missing=missing).feature is None) == narrow

    own = np.zeros((len(data), 1600), np.float32)
    own[:, list(moved)] = data[:, list(moved.values())]
    expected = same_nodes(tree.tree_, np.asarray(forest.trees.child)[0])[tree.tree_.apply(own)]
    numbers = jnp.arange(2**21, dtype=jnp.float32)[None]
    reached = ju.inference.merge_leaves(large, numbers, jnp.asarray(data), merge="max", missing=missing)
    np.testing.assert_array_equal(reached, expected)
    if missing:
        np.testing.assert_array_equal(ju.leaf_index(large, jnp.asarray(data))[:, 0], expected)


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
    queries = near_thresholds(model, X, rng, 4999)
    assert wrong_leaves(model, forest, queries) == (3 * 4999, 0)


@pytest.mark.exhaustive
def test_streams_reach_the_same_leaves(rng):
    """What `merge_leaves` looks up is what `leaf_index` says, missing values or not, for odd numbers."""
    X = with_missing(rng, 700, 8)
    model = RandomForestClassifier(10, random_state=0).fit(X, np.nan_to_num(X[:, 0]) > 0)
    forest = ju.from_sklearn(model)
    names = jnp.asarray(rng.normal(size=(10, forest.n_nodes)).astype(np.float32))
    for data in (odd_values(X, rng, 2049), np.nan_to_num(odd_values(X, rng, 4097))):
        index = np.asarray(ju.leaf_index(forest, jnp.asarray(data)))
        for tree in (0, 9):
            one = np.asarray(names) * (np.arange(10) == tree)[:, None]
            total = ju.inference.merge_leaves(forest, jnp.asarray(one), jnp.asarray(data))
            np.testing.assert_array_equal(total, np.asarray(names)[tree, index[:, tree]])


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
