"""Trees as libraries write them, without any test."""

import numpy as np
import pytest

from jaxunc.interop._comparing_trees import AT_MOST, BELOW, EQUAL, UNEQUAL, ComparingTree, ensemble_of
from jaxunc.tables import Columns
from tests._refusal import refuses

pytestmark = pytest.mark.once


@pytest.mark.parametrize("cuts", [None, (None, None, None)])
def test_models_of_lone_roots(cuts):
    none, leaf = np.zeros(1, np.int64), np.full(1, -1)
    tree = ComparingTree(none, none, np.zeros(1), leaf, leaf, np.zeros(1, bool), {}, np.array([[2.5]]))
    model = ensemble_of([tree, tree], Columns(3, cuts=cuts), np.zeros(1), "identity")
    np.testing.assert_array_equal(model.leaf_values(np.zeros((1, 3)))[0, :, 0], [2.5, 2.5])
    assert model.columns == Columns(3, cuts=cuts)


LARGEST = np.finfo(np.float64).max


@pytest.mark.parametrize("compare", [AT_MOST, BELOW, EQUAL, UNEQUAL])
@pytest.mark.parametrize("value", [-LARGEST, LARGEST])
def test_the_largest_numbers_are_compared_without_a_warning(compare, value):
    none = np.zeros(3, np.int64)
    tests = none, np.full(3, compare), np.full(3, value), np.array([1, -1, -1]), np.array([2, -1, -1])
    tree = ComparingTree(*tests, np.zeros(3, bool), {}, np.array([[0.0], [1.0], [2.0]]))
    X = np.array([-np.inf, -LARGEST, 0.0, LARGEST, np.inf])
    goes_left = {AT_MOST: value >= X, BELOW: value > X, EQUAL: value == X, UNEQUAL: value != X}[compare]
    if value < 0 and compare != AT_MOST:
        with refuses(ValueError, "-inf, which has no code"):
            ensemble_of([tree], Columns(1, cuts=((),)), np.zeros(1), "identity")
        return
    model = ensemble_of([tree], Columns(1, cuts=((),)), np.zeros(1), "identity")
    np.testing.assert_array_equal(np.asarray(model.raw(X[:, None])).ravel(), np.where(goes_left, 1.0, 2.0))
