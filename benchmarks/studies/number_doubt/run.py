"""What is the doubt of numbers good for? Odd rows, rows to label next, and coverage that is no longer kept.

    python -m benchmarks number_doubt [--data FOLDER] [--sets PROBLEM ...] [--parts rows labels drift]

`UncertainForestRegressor` on twelve problems that no law of it was chosen on; at most 2000 rows. A cell
(`benchmarks.cells`) is a problem, a part and a repeat.
"""

from collections import namedtuple
from pathlib import Path

import numpy as np

from benchmarks.cells import Study, make_part
from benchmarks.studies.boosted_numbers.methods import FRESH, rows_of
from benchmarks.studies.doubt.jobs import run_job
from benchmarks.studies.number_doubt.jobs import DRIFTS, SIZES, STRATEGIES, TESTS, run_drift, run_labels, run_rows
from benchmarks.studies.number_doubt.page import page
from benchmarks.studies.regression.problems import Rows

JOBS = {"rows": (run_rows, 2), "labels": (run_labels, 10), "drift": (run_drift, 4)}
"""The parts, and how often each is repeated."""
PILOT = "friedman2"
PROBLEMS = tuple(name for name in FRESH if name != PILOT)
TAKES = "12 problems, 192 cells, 10 minutes"
RESULTS = Path(__file__).parent


Cell = namedtuple("Cell", "data part repeat")
"""A problem, what is asked of it, and which rows of it train."""


def run_cell(cell: Cell, data: Rows) -> dict:
    """What `benchmarks.studies.number_doubt.jobs` finds, and "seconds", processor time."""
    found, seconds = run_job(JOBS[cell.part][0], data, cell.repeat)
    return found | {"seconds": seconds}


def _is_sound(record: dict, cell: Cell) -> bool:
    if cell.part == "labels":
        curves = np.array([record["curves"][name] for name in STRATEGIES], float)
        return curves.shape == (len(STRATEGIES), len(SIZES), 2) and bool(np.isfinite(curves).all())
    if cell.part == "drift":
        return all(list(record["told"][name]) == list(TESTS) for name in DRIFTS)
    return len({len(of) for of in record["AUROC"].values()} | {len(record["growth"])}) == 1


_cells = lambda job: lambda name: [Cell(name, job, repeat) for repeat in range(JOBS[job][1])]
PARTS = {job: make_part(PROBLEMS, _cells(job), _is_sound, run_cell, rows_of) for job in JOBS}
STUDY = Study(str(__doc__), RESULTS, PARTS, page)
kept, options, run, write_page = STUDY.kept, STUDY.options, STUDY.run, STUDY.write_page
