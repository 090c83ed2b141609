"""Trees by comparisons, of treelite's models and ONNX's, without any test."""

import numpy as np
import pytest

from jaxunc.interop._comparing_trees import ComparingTree, compared_in

pytestmark = pytest.mark.once


@pytest.mark.parametrize("wide", [False, True])
def test_models_of_lone_roots(wide):
    none, leaf = np.zeros(1, np.int64), np.full(1, -1)
    tree = ComparingTree(none, none, np.zeros(1), leaf, leaf, np.zeros(1, bool), {}, np.array([[2.5]]))
    given, columns = compared_in([tree, tree], 3, wide=wide)
    assert [one.values.item() for one in given] == [2.5, 2.5]
    assert columns.number == 3
    assert columns.cuts == ((None, None, None) if wide else None)
