"""How sure is a forest of numbers? Intervals and quantiles of regression forests, beside what people use.

    python -m benchmarks regression [--data FOLDER] [--sets PROBLEM ...]

25 problems (`problems`) of at most 2000 rows, five folds, random forests of a third of the columns with least leaf 1
and 5, of 100 and 500 trees: `methods`. A cell (`benchmarks.cells`) is a fold of a problem for one forest; methods
without a forest are run with the first.
"""

import warnings
from collections import namedtuple
from pathlib import Path

from sklearn.model_selection import KFold

from benchmarks.cells import Study, make_part
from benchmarks.studies.regression.methods import ADDED, METHODS, WITHOUT_FOREST, Fold, measured_by
from benchmarks.studies.regression.page import page
from benchmarks.studies.regression.problems import PROBLEMS, Rows, rows_of

N_FOLDS, LEAVES, TREES = 5, (1, 5), (100, 500)
TAKES = "25 problems, 500 cells"
RESULTS = Path(__file__).parent
Cell = namedtuple("Cell", "data leaf trees fold")


def run_cell(cell: Cell, data: Rows) -> dict:
    """{"methods": {method: measures and "seconds"}}."""
    train, test = list(KFold(N_FOLDS, shuffle=True, random_state=0).split(data.X))[cell.fold]
    settings = {"n_estimators": cell.trees, "min_samples_leaf": cell.leaf, "max_features": 1 / 3}
    settings |= {"random_state": cell.fold, "n_jobs": 2}
    fold = Fold(data.X[train], data.y[train], data.X[test], settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other packages, and of forests whose rows all trees may have seen
        _ = fold.forest, fold.quantile_forest, fold.residuals  # grown before the clocks
        return {"methods": measured_by({name: METHODS[name] for name in methods_of(cell)}, fold, data.y[test])}


def methods_of(cell: Cell) -> list[str]:
    """The methods that a cell has."""
    few, first = cell.trees == TREES[0], (cell.leaf, cell.trees) == (LEAVES[0], TREES[0])
    left_out = (() if first else WITHOUT_FOREST) + (() if few else ADDED)
    return [name for name in METHODS if name not in left_out]


_cells = lambda name: [Cell(name, leaf, trees, fold) for trees in TREES for leaf in LEAVES for fold in range(N_FOLDS)]
_is_sound = lambda record, cell: list(record["methods"]) == methods_of(cell)
STUDY = Study(str(__doc__), RESULTS, {"main": make_part(PROBLEMS, _cells, _is_sound, run_cell, rows_of)}, page)
kept, options, run, write_page = STUDY.kept, STUDY.options, STUDY.run, STUDY.write_page
