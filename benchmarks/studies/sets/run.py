"""Sets: which to use when. Set-valued answers of one random forest: what they cover, what they are worth, their cost.

    python -m benchmarks sets [--data FOLDER] [--sets NAME ...]

A random forest of 100 trees on the sets of `benchmarks.studies.rules`, the smallest first: at most 2000 rows, two folds
of a five-fold cross-validation. Cautious forests, sets of the highest expected utility, conformal sets and dominance of
intervals, each from the training rows alone: `methods`. Then, of the same forests, sets from relative likelihood and
from learned votes: `likelihood`, `vote`. A cell (`benchmarks.cells`) is a fold of a set in each of these parts.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.cells import FoldCell, Study, fold, fold_cells, make_part
from benchmarks.data import by_size
from benchmarks.speed.measure import timed
from benchmarks.studies.boosted_counts.run import rows_of
from benchmarks.studies.learning.run import Rows
from benchmarks.studies.rules.run import SETS
from benchmarks.studies.sets.likelihood import NAMES, likelihood_methods
from benchmarks.studies.sets.methods import Sets, counted, joined, methods
from benchmarks.studies.sets.page import page
from benchmarks.studies.sets.vote import STEP_NAMES, VOTE_NAMES, Learned, step_methods, vote_methods

N_FOLDS, N_RUN = 5, 2
BY_SIZE = by_size(SETS)
TAKES = "35 data sets, two folds each, in four parts"
RESULTS = Path(__file__).parent
PARTS = {"likelihood": NAMES, "learned_vote": VOTE_NAMES, "vote_steps": STEP_NAMES}
"""Methods of the same forests that were added to the study, by the folder of their cells."""


def run_cell(cell: FoldCell, data: Rows) -> dict:
    """{"sets": {method: counts}, "seconds": {method: of the best call}, "rows": [training, test, classes]}."""
    train, test = fold(data, N_FOLDS, cell.fold)
    return _measured(methods(data.X[train], data.y[train], cell.fold), data, train, test)


def run_likelihood(cell: FoldCell, data: Rows) -> dict:
    """As `run_cell`, of the sets from relative likelihood; beside them ``"numbers"``: the alpha or s of each."""
    train, test = fold(data, N_FOLDS, cell.fold)
    fitted, numbers = likelihood_methods(data.X[train], data.y[train], cell.fold)
    return _measured(fitted, data, train, test) | {"numbers": {name: round(n, 4) for name, n in numbers.items()}}


def _learned(fit: Callable[[np.ndarray, np.ndarray, int], Learned], cell: FoldCell, data: Rows) -> dict:
    """As `run_cell`; beside the sets the ``"numbers"`` of each vote and the seconds of its ``"learning"``."""
    train, test = fold(data, N_FOLDS, cell.fold)
    found = fit(data.X[train], data.y[train], cell.fold)
    numbers = {name: [round(n, 4) for n in own] for name, own in found.numbers.items()}
    learning = {name: round(seconds, 3) for name, seconds in found.learning.items()}
    return _measured(found.sets, data, train, test) | {"numbers": numbers, "learning": learning}


run_vote, run_steps = (partial(_learned, fit) for fit in (vote_methods, step_methods))


def _measured(fitted: dict[str, Sets], data: Rows, train: np.ndarray, test: np.ndarray) -> dict:
    found, seconds = {}, {}
    for name, sets_of in fitted.items():
        found[name] = counted(sets_of(data.X[test]), data.y[test])
        seconds[name] = round(min(timed(lambda sets_of=sets_of: sets_of(data.X[test]))[0] for _ in range(3)), 5)
    return {"sets": found, "seconds": seconds, "rows": [len(train), len(test), int(data.y.max()) + 1]}


def is_sound(record: dict, cell: FoldCell, names: tuple[str, ...] | None = None) -> bool:
    """Whether a record has all rows of each method's sets, and these methods if they are named."""
    right = (sum(rows for rows, _ in one["classes"]) == record["rows"][1] for one in record["sets"].values())
    return names in (None, tuple(record["sets"])) and all(right)


def kept(out: Path) -> dict[FoldCell, dict]:
    """Everything that has been run, all parts of a cell together; votes and steps apart, by their folders' names."""
    found, likelihood, *further = (
        {cell: record for cells in of.kept(out).values() for cell, record in cells.items()}
        for of in STUDY.parts.values()
    )
    for cell, record in likelihood.items():
        found[cell] = joined(found[cell], record) | {"numbers": record["numbers"]}
    for name, cells in zip(("learned_vote", "vote_steps"), further, strict=True):
        for cell, record in cells.items():
            found[cell] = {**found[cell], name: record}
    return found


def write_page(out: Path) -> None:
    """The page of everything that has been run."""
    (out / "README.md").write_text(page(kept(out)), encoding="utf-8")


RUNS = {"main": run_cell, "likelihood": run_likelihood, "learned_vote": run_vote, "vote_steps": run_steps}
STUDY = Study(
    str(__doc__),
    RESULTS,
    {
        name: make_part(BY_SIZE, fold_cells(N_RUN), partial(is_sound, names=PARTS.get(name)), runs, rows_of, name)
        for name, runs in RUNS.items()
    },
)
options, run = STUDY.options, STUDY.run
