"""Tests of intervals and sets as binary tests, against the sets themselves."""

import numpy as np
import pytest

import jaxunc as ju
from jaxunc._numerics import order_key_at_or_below, order_key_below
from jaxunc.forest import Intervals, TreeNodes, Trees, check_trees, lay_out, with_interval_tests
from jaxunc.tables import Columns

pytestmark = pytest.mark.once

NODES = TreeNodes(
    *(np.array([1, 0, -2, -2, -2]), np.array([0, 0, 0, 0, 0], np.int32)),
    *(np.array([1, 3, -1, -1, -1]), np.array([2, 4, -1, -1, -1]), np.array([False, True, False, False, False])),
)
"""Column 1, and on its left column 0: leaves 2, 3 and 4."""


def intervals_of_codes(codes: np.ndarray, missing_left: bool) -> Intervals:
    """The intervals of a set of integers, in any order, that goes left, all else going right."""
    bounds = np.stack([order_key_below(np.sort(codes) + c) for c in (0, 1)], axis=1).ravel()
    return Intervals(bounds, np.arange(len(bounds) + 1) % 2 == 1, missing_left)


def laid_out(nodes: TreeNodes) -> tuple[Trees, np.ndarray]:
    trees, places = lay_out([nodes], Columns(2))
    return check_trees(trees), places[0]


def check_sides(test: Intervals, x: np.ndarray, goes_left) -> Trees:
    """Assert that of numbers of column 1 these go left at the root, where the test stands."""
    trees, place = laid_out(with_interval_tests(NODES, {0: test}))
    X = np.stack([np.full_like(x, 7), x], axis=1)
    wanted = np.where(goes_left, place[4], place[2])
    np.testing.assert_array_equal(np.asarray(ju.leaf_index(trees, X))[:, 0], wanted)
    return trees


SETS = [(0, 1, 0.0), (0, 2, 1.0), (-1, 3, 0.5), (-50, 40, 0.5), (0, 300, 0.02), (0, 300, 0.5), (0, 300, 1.0)]
SETS += [(-(2**24), 90, 0.5), (2**24 - 90, 90, 0.5)]
"""Sets of integers: the least that may be in it, how many may be, and the share of them that is."""


@pytest.mark.parametrize("missing_left", [False, True])
def test_sets_go_left(rng, missing_left):
    for least, n, share in SETS:
        codes = rng.permutation(least + np.flatnonzero(rng.random(n) < share))
        test, near = intervals_of_codes(codes, missing_left), least + np.arange(-2, n + 2)
        x = np.concatenate([near, np.arange(n) + 0.5, -near, [0, np.nan, np.inf, -np.inf]]).astype(np.float32)
        trees = check_sides(test, x, np.where(np.isnan(x), missing_left, np.isin(np.floor(x), codes)))
        assert trees.depth <= 3 + np.ceil(np.log2(len(codes) + 1))


def test_several_tests_of_one_tree(rng):
    upper = np.sort(order_key_at_or_below(rng.standard_normal(9)))
    sides = rng.random((2, 10)) < 0.5
    tests = {i: Intervals(np.asarray(upper), sides[i], bool(i)) for i in (0, 1)}
    trees, place = laid_out(with_interval_tests(NODES, tests))
    X = rng.standard_normal((500, 2)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    keys = order_key_at_or_below(X)
    left = sides[[1, 0], np.searchsorted(upper, keys)]
    left = np.where(np.isnan(X), [True, False], left)
    wanted = place[np.where(left[:, 1], np.where(left[:, 0], 3, 4), 2)]
    np.testing.assert_array_equal(np.asarray(ju.leaf_index(trees, X))[:, 0], wanted)


def test_empty_intervals_and_neighbours_of_one_side_cost_nothing():
    keys = order_key_at_or_below(np.array([1.0, 1.0, 2.0, 3.0]))
    test = Intervals(keys, np.array([True, False, True, True, False]), False)
    nodes = with_interval_tests(NODES, {1: test})
    assert len(nodes.feature) == len(NODES.feature)
    assert nodes.threshold[1] == keys[3]
    assert nodes.missing_right[1]


@pytest.mark.parametrize("kind", ["codes", "small codes", "large codes", "numbers", "far"])
def test_random_intervals_of_both_signs(rng, kind):
    """Keys of numbers of two signs lie more than an int32 apart; intervals may be empty, and all on one side."""
    for _ in range(12):
        n = int(rng.integers(0, 40))
        if kind == "numbers":
            upper = np.sort(rng.standard_normal(n) * 10.0 ** rng.integers(-30, 30, n))
        elif kind == "far":
            upper = np.sort(rng.choice([-np.inf, -3e38, -1.0, -1e-45, 0.0, 1e-45, 5.0, 3e38, np.inf], n % 5))
        else:
            least = {"codes": rng.integers(0, 9), "small codes": -60, "large codes": 2**24 - 99}[kind]
            upper = np.append(-1.0, np.sort(least + rng.integers(0, 99, n)))
            upper.sort()
        sides, missing_left = rng.random(len(upper) + 1) < rng.random(), bool(rng.random() < 0.5)
        # An interval that ends where the one before does is empty; the first side that reaches a number is its own.
        test = Intervals(np.asarray(order_key_at_or_below(upper)), sides, missing_left)
        near = np.concatenate([upper, upper - 0.5, upper + 0.5, -upper]).astype(np.float32)
        x = np.concatenate([near, np.float32([np.nan, np.inf, -np.inf, 0, -0.0, 1e-45, -3e38])])
        check_sides(test, x, [missing_left if np.isnan(one) else sides[int(np.sum(upper < one))] for one in x])
