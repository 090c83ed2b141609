"""Sets: which to use when. Set-valued answers of one random forest: what they cover, what they are worth, their cost.

    python -m benchmarks.sets [--data FOLDER] [--sets NAME ...]

A random forest of 100 trees on the sets of `benchmarks.rules`, the smallest first: at most 2000 rows, two folds of a
five-fold cross-validation. Cautious forests, sets of the highest expected utility, conformal sets and dominance of
intervals, each from the training rows alone: `benchmarks.sets_methods`.

Every (set, fold) is a line of ``cells/SET.jsonl`` in ``benchmarks/results/sets`` (or ``--out``) as soon as it is
finished, and what is there is not run again. The page, ``README.md`` there, is made of the cells.
"""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from sklearn.model_selection import StratifiedKFold

import jaxunc as ju
from benchmarks.boosted_counts import rows_of
from benchmarks.data import KNOWN
from benchmarks.learning import Rows
from benchmarks.papers.journal import Journal, run_missing, study_options
from benchmarks.rules import SETS
from benchmarks.sets_methods import counted, methods
from benchmarks.sets_page import write_page

N_FOLDS, N_RUN = 5, 2
BY_SIZE = tuple(sorted(SETS, key=lambda name: KNOWN[name]["n"] if name in KNOWN else 10_000))
"""The sets, the smallest first; those that are only had as files last."""
RESULTS = Path(__file__).parent / "results" / "sets"


class Cell(NamedTuple):
    """One fold of a set."""

    data: str
    fold: int


def run_cell(cell: Cell, data: Rows) -> dict:
    """{"sets": {method: counts}, "seconds": {method: of the best call}, "rows": [training, test, classes]}."""
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(data.X, data.y)
    train, test = list(folds)[cell.fold]
    fitted = methods(data.X[train], data.y[train], cell.fold)
    found, seconds = {}, {}
    for name, sets_of in fitted.items():
        found[name] = counted(sets_of(data.X[test]), data.y[test])
        seconds[name] = round(min(_seconds(lambda sets_of=sets_of: sets_of(data.X[test])) for _ in range(3)), 5)
    return {"sets": found, "seconds": seconds, "rows": [len(train), len(test), int(data.y.max()) + 1]}


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def journal(out: Path, name: str) -> Journal:
    """The finished cells of a set."""
    cells = [Cell(name, fold) for fold in range(N_RUN)]
    return Journal(out / "cells" / f"{name}.jsonl", cells, 1, _is_sound)


def _is_sound(record: dict, cell: Cell) -> bool:
    n_test = record["rows"][1]
    return all(sum(rows for rows, _ in one["classes"]) == n_test for one in record["sets"].values())


def kept(out: Path) -> dict[Cell, dict]:
    """Everything that has been run."""
    return {cell: record for name in BY_SIZE for cell, record in journal(out, name).found.items()}


def main() -> None:
    """Run what is missing, then write the page."""
    args = study_options(__doc__, BY_SIZE, RESULTS).parse_args()
    warnings.filterwarnings("ignore", category=ju.counting.PureLeavesWarning)
    run_missing({name: journal(args.out, name) for name in args.sets}, lambda name: rows_of(name, args.data), run_cell)
    write_page(kept(args.out), args.out)


if __name__ == "__main__":
    main()
