"""The study of conformal sets: its methods against each other, its measures, and what the docs say of it."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from benchmarks.cells import FoldCell
from benchmarks.studies.conformal_sets import run as study
from benchmarks.studies.learning.run import Rows
from benchmarks.studies.sets.methods import counted, measures

pytestmark = pytest.mark.once


def test_measures_of_sets_that_may_be_empty():
    sets = np.array([[0, 0], [1, 0], [1, 1], [0, 1]] * 10, bool)
    y = np.array([0, 0, 1, 0] * 10)
    found = measures([counted(sets[:20], y[:20]), counted(sets[20:], y[20:])])
    expected = {"coverage": 0.5, "worst_class": 1 / 3, "worst_size": 0.5, "size": 1.0, "single": 0.5, "empty": 0.25}
    assert {name: found[name] for name in (*expected, "n_classes")} == pytest.approx(expected | {"n_classes": 2})
    few = measures([{"sizes": [[0, 20, 0], [1, 9, 0], [2, 30, 24], [3, 10, 9]], "classes": [[69, 33]]}])
    assert few["worst_size"] == 0.8  # nine rows are too few, and empty sets do not count


def test_a_cell_has_all_methods():
    pytest.importorskip("crepes")
    pytest.importorskip("mapie")
    X, y = make_classification(260, 6, n_informative=4, n_classes=3, flip_y=0.2, random_state=0)
    found = study.run_cell(FoldCell("made", 0), Rows(X.astype(np.float32), y))["sets"]
    assert found["MAPIE"] == found["crepes, unsmoothed"]
    assert measures([found["mean, held-out"]])["size"] <= measures([found["MAPIE, completed"]])["size"]
    assert measures([found["mean, held-out"]])["empty"] == 0
    assert len(found) == 14
