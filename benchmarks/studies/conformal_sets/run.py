"""Conformal sets of classifiers: do they cover what they promise, and are they as small as those of MAPIE and crepes?

    python -m benchmarks conformal_sets [--data FOLDER] [--sets NAME ...]

A grown-out random forest of 100 trees on the sets of `benchmarks.studies.rules`: at most 2000 rows, two folds of a
five-fold cross-validation. `predict_set(X, coverage=.9)` of the learned pool and of the mean, calibrated by out-of-bag
rows, and of the mean by a quarter of the rows that was held out; MAPIE and crepes by the same quarter: `methods`.

A cell (`benchmarks.cells`) is a fold of a set.
"""

import warnings
from pathlib import Path
from typing import NamedTuple

from sklearn.model_selection import StratifiedKFold

import jaxunc as ju
from benchmarks.cells import Journal, Study
from benchmarks.studies.boosted_counts.run import rows_of
from benchmarks.studies.conformal_sets.methods import sets_of
from benchmarks.studies.conformal_sets.page import page
from benchmarks.studies.learning.run import Rows
from benchmarks.studies.sets.methods import counted
from benchmarks.studies.sets.run import BY_SIZE

N_FOLDS, N_RUN = 5, 2
TAKES = "35 data sets, two folds each"
RESULTS = Path(__file__).parent


class Cell(NamedTuple):
    """One fold of a set."""

    data: str
    fold: int


def run_cell(cell: Cell, data: Rows) -> dict:
    """{"sets": {method: counts, as `benchmarks.studies.sets.methods.counted` has them}, "rows": [training, test]}."""
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(data.X, data.y)
    train, test = list(folds)[cell.fold]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ju.counting.PureLeavesWarning)
        warnings.filterwarnings("ignore", message=".*rows repeat others")
        found = sets_of(data.X[train], data.y[train], data.X[test], cell.fold)
    return {
        "sets": {name: counted(sets, data.y[test]) for name, sets in found.items()},
        "rows": [len(train), len(test)],
    }


def journal(out: Path, name: str) -> Journal:
    """The finished cells of a set."""
    sound = lambda record, _: all(
        sum(rows for rows, _ in one["classes"]) == record["rows"][1] for one in record["sets"].values()
    )
    return Journal(out, None, [Cell(name, fold) for fold in range(N_RUN)], sound)


STUDY = Study(str(__doc__), RESULTS, BY_SIZE, journal, rows_of, run_cell, page)
kept, options, run, write_page = STUDY.kept, STUDY.options, STUDY.run, STUDY.write_page
