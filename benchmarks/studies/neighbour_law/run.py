"""Which law of residuals, by the rows behind an answer? Weights, their roots, the nearest, or bins in the leaves.

    python -m benchmarks neighbour_law [--data FOLDER] [--sets PROBLEM ...]

The 25 problems of `benchmarks.studies.regression`, the first of five folds, random forests of 100 trees and a third of
the columns with least leaf 1 and 5. A cell (`benchmarks.cells`) is a problem and a least leaf.
"""

import warnings
from collections import namedtuple
from pathlib import Path

from sklearn.model_selection import KFold

from benchmarks.cells import Study, make_part
from benchmarks.studies.neighbour_law.forms import FORMS
from benchmarks.studies.neighbour_law.page import page
from benchmarks.studies.regression.methods import Fold, measured_by
from benchmarks.studies.regression.problems import PROBLEMS, Rows, rows_of

N_FOLDS, LEAVES, TREES = 5, (1, 5), 100
TAKES = "25 problems, 50 cells, six minutes"
RESULTS = Path(__file__).parent


Cell = namedtuple("Cell", "data leaf")
"""A problem, and the least leaf of its forest."""


def run_cell(cell: Cell, data: Rows) -> dict:
    """{"methods": {form: measures and "seconds"}}."""
    train, test = next(KFold(N_FOLDS, shuffle=True, random_state=0).split(data.X))
    settings = {"n_estimators": TREES, "min_samples_leaf": cell.leaf, "max_features": 1 / 3, "random_state": 0}
    fold = Fold(data.X[train], data.y[train], data.X[test], settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows that repeat
        _ = fold.forest  # grown before the clocks
        return {"methods": measured_by(FORMS, fold, data.y[test])}


_cells, _is_sound = lambda name: [Cell(name, n) for n in LEAVES], lambda record, _: [*record["methods"]] == [*FORMS]
STUDY = Study(str(__doc__), RESULTS, {"main": make_part(PROBLEMS, _cells, _is_sound, run_cell, rows_of)}, page)
kept, options, run, write_page = STUDY.kept, STUDY.options, STUDY.run, STUDY.write_page
