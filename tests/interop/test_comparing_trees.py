"""Trees as libraries write them, without any test."""

import numpy as np
import pytest

from jaxunc.interop._comparing_trees import ComparingTree, ensemble_of
from jaxunc.tables import Columns

pytestmark = pytest.mark.once


@pytest.mark.parametrize("cuts", [None, (None, None, None)])
def test_models_of_lone_roots(cuts):
    none, leaf = np.zeros(1, np.int64), np.full(1, -1)
    tree = ComparingTree(none, none, np.zeros(1), leaf, leaf, np.zeros(1, bool), {}, np.array([[2.5]]))
    model = ensemble_of([tree, tree], Columns(3, cuts=cuts), np.zeros(1), "identity")
    np.testing.assert_array_equal(model.leaf_values(np.zeros((1, 3)))[0, :, 0], [2.5, 2.5])
    assert model.columns == Columns(3, cuts=cuts)
