"""The top of trees against a walk in Python, node by node."""

import dataclasses
import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc._numerics import KeptWhileAlive, order_key
from jaxunc.forest import TreeNodes, lay_out
from jaxunc.inference import _plan, by_column, column_keys, make_plan, walk_tree
from jaxunc.inference._plan import MOST_TESTS, Top, tallest
from jaxunc.inference._walk import _enter
from tests._forests import toy_data, toy_forest

pytestmark = pytest.mark.once

TREES, WALKS = 5, 10


def random_trees(rng, lean: float, shared: float = 0.0) -> np.ndarray:
    """Children of trees of up to 200 forks, bushy or (``lean`` near 1) like a chain; behind them nodes of no tree.

    The right child of some (``shared``) is the left one of another: so a category is tested against its neighbours.
    """
    n_forks = [0, *rng.integers(1, 200, TREES - 1)]
    child = np.tile(np.arange(3 * max(n_forks) + 1 + rng.integers(0, 5), dtype=np.int32), (TREES, 1))
    for t, forks in enumerate(n_forks):
        leaves, behind = [0], 1
        for _ in range(forks):
            leaf = leaves.pop(-1 if rng.random() < lean else rng.integers(len(leaves)))
            child[t, leaf] = behind
            leaves += [behind, behind + 1]
            behind += 2
            if len(leaves) > 2 and rng.random() < shared:
                child[t, leaves.pop(rng.integers(len(leaves) - 2))] = behind - 1
                leaves.append(behind)
                behind += 1
    return child


def heights_and_paths(child: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tests on the longest path below each node of one tree; paths from its root to each node."""
    height, paths = np.zeros((2, len(child)), int)

    def walk(node: int) -> int:
        paths[node] += 1
        height[node] = 1 + max(walk(child[node]), walk(child[node] + 1)) if child[node] != node else 0
        return height[node]

    walk(0)
    return height, paths


def exit_of(top: Top, t: int, child: np.ndarray, right: np.ndarray) -> int:
    """The node that the bits lead to, if every fork says whether to go right."""
    left = np.uint32(2**32 - 1)
    for node, exits in zip(top.tests[t], top.exits[t], strict=True):
        if child[node] != node and right[node]:
            left &= np.uint32(exits.view(np.uint32))
    return int(top.entry[t][32 - int(left).bit_length()])


@pytest.mark.parametrize("lean", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("shared", [0.0, 0.1])
def test_every_walk_leaves_the_top_at_its_exit(rng, lean, shared):
    n_shared = 0
    for _ in range(20):
        trees = random_trees(rng, lean, shared)
        top = Top(*tallest(trees))
        for t, child in enumerate(trees):
            tests, (height, paths) = set(top.tests[t].tolist()), heights_and_paths(child)
            n_shared += (paths > 1).sum()
            left_out = ~np.isin(np.arange(len(child)), top.tests[t])
            inner = [h for node in tests if (h := height[node])]
            assert not inner or min(inner) >= height[left_out & (paths == 1)].max(initial=0)
            assert paths[top.tests[t]].max() == 1
            assert top.rest[t] == height[left_out].max(initial=0)
            for _ in range(WALKS):
                right, node = rng.random(len(child)) < 0.5, 0
                while child[node] != node and node in tests:
                    node = child[node] + int(right[node])
                assert exit_of(top, t, child, right) == node
    assert (n_shared > 0) == (shared > 0)


def test_a_forest_bound_outside_may_be_passed_to_a_program():
    """Its plan for missing values, made inside, has the same places."""
    X = toy_data(2)[0]
    bound = ju.bind(toy_forest(2), ju.Mean())
    assert bound.engine.packed.plan.top.tests.shape[1] == min(MOST_TESTS, toy_forest(2).n_nodes // 2)
    with_missing = np.where(np.arange(X.shape[1]) == 1, np.nan, X)
    found = jax.jit(lambda bound, X: bound(X))
    np.testing.assert_allclose(found(bound, with_missing), bound(with_missing), rtol=1e-6)


@pytest.mark.room
def test_tops_and_plans_are_kept_while_their_trees_are(monkeypatch):
    for name in ("_TOPS", "_PLANS"):
        monkeypatch.setattr(_plan, name, KeptWhileAlive())
    kept = lambda: (len(_plan._TOPS), len(_plan._PLANS))
    X, y = toy_data(2)
    forest = ju.from_sklearn(RandomForestClassifier(3, random_state=0).fit(X, y))
    ju.bind(forest, ju.Mean())
    assert kept() == (1, 0)
    ju.bind(forest.with_counts(2 * forest.counts), ju.Vote())
    assert kept() == (1, 0)
    reached = np.asarray(ju.leaf_index(forest, X))
    plan = _plan.known_plan(forest.trees)
    assert kept() == (1, 1)
    ju.leaf_counts(forest.with_counts(2 * forest.counts), X)
    assert _plan.known_plan(forest.trees) is plan
    left = dataclasses.replace(forest.trees, threshold=jnp.full_like(forest.trees.threshold, 2**31 - 1))
    assert (np.asarray(ju.leaf_index(left, X)) != reached).any()
    assert kept() == (1, 2)
    del left
    gc.collect()
    assert kept() == (1, 1)
    del forest
    gc.collect()
    assert kept() == (0, 0)


def test_the_drawn_tree():
    """What `jaxunc.inference` shows of places and exits."""
    three, five, nine = np.asarray(jax.jit(order_key)(np.array([3.0, 5.0, 9.0], np.float32)))
    nodes = TreeNodes(
        feature=np.array([0, 0, 1, 0, 0, 0, 0]),
        threshold=np.array([three, 0, five, nine, 0, 0, 0]),
        left=np.array([1, -1, 3, 5, -1, -1, -1]),
        right=np.array([2, -1, 4, 6, -1, -1, -1]),
        missing_right=np.zeros(7, bool),
    )
    plan = make_plan(lay_out([nodes], ju.tables.Columns(2))[0], missing=False)
    np.testing.assert_array_equal(plan.top.tests, [[0, 1, 2]])
    np.testing.assert_array_equal(plan.top.entry, [[1, 1, 3, 4]])

    @jax.jit
    def exit_and_leaf(plan, X):
        keys = by_column(column_keys(X, missing=False))
        tree = jax.tree.map(lambda array: array[0], plan)
        return _enter(tree, keys), walk_tree(tree, keys)

    assert [place.tolist() for place in exit_and_leaf(plan, np.array([[5.0, 2.0]], np.float32))] == [[2], [9]]
