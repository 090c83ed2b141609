"""How sure is a boosted number? The law of each leaf's second value, beside conformalised quantiles and others.

    python -m benchmarks boosted_numbers [--data FOLDER] [--sets PROBLEM ...]

Boosted regressors of four libraries on fifteen problems, and LightGBM's on thirteen others; the first of three folds.
Needs the packages mapie, crepes and ngboost. A cell (`benchmarks.cells`) is a problem and a library.
"""

import logging
import time
import warnings
from collections import namedtuple
from pathlib import Path

import numpy as np
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from benchmarks.cells import Study, make_part
from benchmarks.studies.boosted_numbers.methods import FRESH, LIBRARIES, MADE_ON, Fold, methods_of, rows_of
from benchmarks.studies.boosted_numbers.page import page
from benchmarks.studies.regression.methods import measured
from benchmarks.studies.regression.problems import Rows

N_FOLDS, PROBLEMS = 3, (*MADE_ON, *FRESH)
TAKES = "28 problems, 73 cells, 25 minutes"
RESULTS = Path(__file__).parent
Cell = namedtuple("Cell", "data library")
"""A problem, and the library whose models answer it."""


def run_cell(cell: Cell, data: Rows) -> dict:
    """{"methods": {method: measures}, "seconds": processor time of all}."""
    train, test = next(KFold(N_FOLDS, shuffle=True, random_state=0).split(data.X))
    fold, y, start = Fold(cell.library, data.X[train], data.y[train], data.X[test]), data.y[test], time.process_time()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        answers = {name: np.asarray(method(fold), float) for name, method in methods_of(cell.library).items()}
        found = {name: measured(answer, y)._asdict() for name, answer in answers.items()}
    return {"methods": found, "seconds": round(time.process_time() - start, 1)}


_cells = lambda name: [Cell(name, library) for library in (LIBRARIES if name in MADE_ON else LIBRARIES[:1])]
_is_sound = lambda record, cell: list(record["methods"]) == list(methods_of(cell.library))
STUDY = Study(str(__doc__), RESULTS, {"main": make_part(PROBLEMS, _cells, _is_sound, run_cell, rows_of)}, page)
kept, options, run, write_page = STUDY.kept, STUDY.options, STUDY.run, STUDY.write_page
