"""What does each kind of doubt find? Wrong answers, odd rows, wrong labels, rows to label next, and drift.

    python -m benchmarks doubt [--data FOLDER] [--sets NAME ...]

Random forests of 100 trees with leaves of 1, 5 and 20 rows at least, by in-bag counts, counts of all training rows and
out-of-bag counts; beside them what users would take instead. 26 sets that nothing here was developed on, and four
others; at most 1000 rows. The two later jobs are of leaves of one row, on 12 of the 26. A cell (`benchmarks.cells`) is
a set, a job and a repeat.
"""

from collections import namedtuple
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.cells import Study, make_part
from benchmarks.data import load
from benchmarks.studies.doubt.drift import run_drift
from benchmarks.studies.doubt.jobs import Rows, run_job, run_labels, run_rows
from benchmarks.studies.doubt.labelling import run_next
from benchmarks.studies.doubt.page import MEASURES_OF, SEEN, page
from benchmarks.studies.learning.run import OTHER_SETS

JOBS = {"rows": run_rows, "labels": run_labels}
LATER_JOBS = {"next": run_next, "drift": run_drift}
LATER_SETS = (
    "airlines", "bankLoan", "electricity", "letter", "nursery", "optdigits", "page-blocks", "pendigits", "phishing",
    "skin", "splice", "wine-quality-red",
)  # fmt: skip
"""Those of `OTHER_SETS` that leave 750 rows, at most 100 columns and no missing values."""
LATER_REPEATS = 10
N_REPEATS, MOST_ROWS, LEAST_CLASS = 2, 1000, 10
SETS = (*OTHER_SETS, *SEEN)
TAKES = "30 data sets, 360 cells, 17 minutes"
RESULTS = Path(__file__).parent


Cell = namedtuple("Cell", "data job repeat")
"""A set, what is asked of it, and which half trains, or how labels are wrong."""


def rows_of(name: str, folder: str | None = None) -> Rows:
    """At most 1000 rows, none of them twice, of classes with ten rows at least; columns that vary."""
    data = load(name, folder)
    drawn = np.random.default_rng(0).permutation(len(data.y))[:MOST_ROWS]
    table = pd.DataFrame(np.column_stack([data.X[drawn].astype(np.float32), data.y[drawn]])).drop_duplicates()
    X, y = table.to_numpy(np.float32)[:, :-1], table.iloc[:, -1].to_numpy(int)
    enough = np.bincount(y)[y] >= LEAST_CLASS
    X, y = X[enough], np.unique(y[enough], return_inverse=True)[1]
    varying = np.array([len(np.unique(column)) > 1 for column in X.T])
    return Rows(X[:, varying], y, data.nominal[varying])


def run_cell(cell: Cell, data: Rows) -> dict:
    """{"problems": what `benchmarks.studies.doubt.jobs` finds, "classes": number, "seconds": processor time}."""
    problems, seconds = run_job((JOBS | LATER_JOBS)[cell.job], data, cell.repeat)
    return {"problems": problems, "classes": int(data.y.max()) + 1, "seconds": seconds}


def _is_sound(record: dict, cell: Cell) -> bool:
    doubts = [each for problem in record["problems"].values() for each in problem.values()]
    return record["classes"] > 1 and all(len(each) == len(MEASURES_OF[cell.job]) for each in doubts)


_cells = lambda jobs, repeats: lambda name: [Cell(name, job, repeat) for job in jobs for repeat in range(repeats)]
PARTS = {"main": make_part(SETS, _cells(JOBS, N_REPEATS), _is_sound, run_cell, rows_of)} | {
    job: make_part(LATER_SETS, _cells([job], LATER_REPEATS), _is_sound, run_cell, rows_of) for job in LATER_JOBS
}
STUDY = Study(str(__doc__), RESULTS, PARTS, page)
kept, options, run, write_page = STUDY.kept, STUDY.options, STUDY.run, STUDY.write_page
