"""Greedy trees: gains, ties, limits, and bags."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.transduction import grow_greedy_trees
from jaxunc.transduction._entropy_trees import binary_places, entropy_table
from tests._refusal import refusals, refuses

pytestmark = pytest.mark.once


def held(forest, X) -> np.ndarray:
    """The counts of the first tree's leaves that the instances reach."""
    return np.asarray(ju.leaf_counts(forest, X))[:, 0]


def reached(forest, X, y):
    """Class counts of the instances that reach each leaf, and those that the forest says, ``[instances classes]``."""
    leaf = np.asarray(ju.leaf_index(forest, X))[:, 0]
    counts = np.stack([np.bincount(leaf, weights=y == c)[leaf] for c in range(forest.n_classes)], axis=1)
    return counts, held(forest, X)


def test_entropies_add_exactly():
    table, n = entropy_table(5000), np.arange(1, 5001)
    np.testing.assert_allclose(table[1:], 2.0**40 * n * np.log2(n), rtol=1e-9, atol=1e-9)
    logs = table[1:] // n
    np.testing.assert_array_equal(logs[: 70 * 70][np.outer(n[:70], n[:70]) - 1], logs[:70, None] + logs[:70])
    for size in (2**10, 2**17, 2**20, 2**26):
        assert size * np.log2(size) * 2.0 ** binary_places(size) < 2**62
    assert binary_places(2**17) == 40
    refuses(ValueError, "more than exact gains", entropy_table, 2**26 + 1)


@pytest.mark.exhaustive(keep=1)
@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_the_first_test_is_scikit_learns(load):
    """The gain of the best test, where minimum leaves do not bind."""
    X, y = load(return_X_y=True)
    forest = ju.forest.check_forest(grow_greedy_trees(X, y, max_depth=1))
    peer = ju.from_sklearn(DecisionTreeClassifier(criterion="entropy", max_depth=1).fit(X, y))
    sides = [sorted(map(tuple, np.unique(reached(one, X, y)[0], axis=0).tolist())) for one in (forest, peer)]
    assert sides[0] == sides[1]


@pytest.mark.room(keep=1)
@pytest.mark.exhaustive(keep=2)
@pytest.mark.parametrize("candidates", ["boundary", "all"])
@pytest.mark.parametrize("min_samples_leaf", [1, 2, 7])
def test_counts_are_those_of_the_instances(candidates, min_samples_leaf, rng):
    n = 300
    X = np.column_stack([rng.integers(0, 5, n), rng.integers(0, 7, n) / 2, rng.standard_normal(n)]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = ((X[:, 0] == 2) ^ (X[:, 2] > 0)).astype(int) + (rng.random(n) < 0.1)
    settings = {"candidates": candidates, "min_samples_leaf": min_samples_leaf, "nominal": [0]}
    forest = ju.forest.check_forest(grow_greedy_trees(X, y, **settings))
    counts, said = reached(forest, X, y)
    np.testing.assert_array_equal(said, counts)
    assert counts.sum(axis=1).min() >= min_samples_leaf
    probability = ju.bind(forest, ju.Mean()).probability(X)
    np.testing.assert_allclose(probability, counts / counts.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(ju.leaf_counts(ju.count_leaves(forest, X, y), X), ju.leaf_counts(forest, X))


def test_boundaries_are_enough_without_a_minimum(rng):
    """The cut of largest gain is a boundary (Fayyad and Irani), so trees are the same."""
    X, y = rng.integers(0, 30, (200, 3)).astype(float), rng.integers(0, 3, 200)
    few, all_ = (grow_greedy_trees(X, y, candidates=c, min_samples_leaf=1) for c in ("boundary", "all"))
    np.testing.assert_array_equal(held(few, X), held(all_, X))


def test_ties_take_the_first_feature_and_the_lowest_threshold():
    X = np.array([[0, 0, 5], [1, 1, 6], [2, 2, 7], [3, 3, 8]], float)
    tree = grow_greedy_trees(X[:, [1, 0]], [0, 1, 1, 0], min_samples_leaf=1, max_depth=1)
    assert np.asarray(tree.trees.feature)[0, 0] == 0
    np.testing.assert_array_equal(held(tree, X[:, :2]), [[1, 0], [1, 2], [1, 2], [1, 2]])


def test_values_that_were_not_seen_belong_to_the_rest_and_missing_numbers_lie_below_all_others():
    tree = grow_greedy_trees(np.array([["b"], ["b"], ["a"], ["c"]], object), [1, 1, 0, 0], nominal="auto")
    found = held(tree, np.array([["b"], ["x"], [None], ["a"]], object))
    np.testing.assert_array_equal(found, [[0, 2], [2, 0], [2, 0], [2, 0]])
    X, y = np.array([[np.nan], [np.nan], [-1e30], [4.0]]), [1, 1, 0, 0]
    tree = grow_greedy_trees(X, y)
    np.testing.assert_array_equal(held(tree, [[np.nan], [-3e38], [9.0], [4.0]]), [[0, 2], [2, 0], [2, 0], [2, 0]])


def test_single_leaves():
    for X in (np.ones((5, 2)), np.arange(10.0).reshape(5, 2)):
        tree = grow_greedy_trees(X, [0, 1, 0, 1, 0], min_samples_leaf=3)
        assert tree.trees.depth == 0
        np.testing.assert_array_equal(held(tree, X[:1]), [[3, 2]])


@pytest.mark.exhaustive
def test_bags(rng):
    X, y = load_iris(return_X_y=True)
    rows = rng.integers(150, size=(5, 150))
    few, many = (grow_greedy_trees(X, y, samples=rows[:n]) for n in (3, 5))
    ju.forest.check_forest(many)
    np.testing.assert_array_equal(ju.leaf_counts(few, X), np.asarray(ju.leaf_counts(many, X))[:, :3])
    assert len({leaf.tobytes() for leaf in np.asarray(ju.leaf_counts(many, X)).transpose(1, 0, 2)}) > 1
    np.testing.assert_allclose(many.prior, 1 / 3, rtol=1e-6)
    whole = grow_greedy_trees(X, y, samples=[np.arange(150), np.repeat(np.arange(0, 150, 3), 3)])
    np.testing.assert_array_equal(held(whole, X), held(grow_greedy_trees(X, y), X))


X, Y = np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 0, 1])
test_refusals = pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")(
    refusals(
        ("candidates", lambda: grow_greedy_trees(X, Y, candidates="some"), "Choose one of"),
        ("fewer labels", lambda: grow_greedy_trees(X, Y[:3]), "one label per instance"),
        ("one class", lambda: grow_greedy_trees(X, np.zeros(6)), "one class only"),
        ("infinite labels", lambda: grow_greedy_trees(X, Y / 0), "infinite labels"),
        ("infinite rows", lambda: grow_greedy_trees(X / 0, Y), "infinite"),
        ("nothing", lambda: grow_greedy_trees(X[:0], Y[:0]), "at least one of each"),
        ("one sample", lambda: grow_greedy_trees(X, Y, samples=[0, 1]), "trees drawn"),
        ("row beyond", lambda: grow_greedy_trees(X, Y, samples=[[0, 6]]), "positions"),
        ("words", lambda: grow_greedy_trees(X.astype(str), Y), "numbers", TypeError),
    )
)
