"""What Sutton-Charani 2020 names and does not study: more classes, ensembles, other classifiers that count.

    python -m benchmarks.papers.suttoncharani2020_beyond [--data FOLDER] [--parts PART ...]

Everything in float64, from the library's public functions. Measures are the log loss (probabilities below 1e-6 count as
1e-6) and the Brier score, summed over the classes. Three parts:

* ``classes``: trees of the study's six complexities on sets of more than two classes; ten folds;
* ``ensembles``: random forests of 100 trees, grown out, corrected tree by tree or as a whole; two folds;
* ``counting``: nearest neighbours, naive Bayes and a decision table; ten folds.

The sets of more classes are all of the folder with 300 to 5500 rows, ten rows or more in each class and no missing
value. Ensembles have the paper's six sets and the six smallest of these; counting has the four smaller ones of the
paper and the four smallest of these. Cells lie in ``beyond/PART/SET.jsonl``; `suttoncharani2020` makes the page.
"""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from sklearn.model_selection import StratifiedKFold

import jaxunc as ju
from benchmarks.data import DataSet, load
from benchmarks.papers import suttoncharani2020 as study
from benchmarks.papers.journal import Journal, run_missing, study_options
from benchmarks.papers.suttoncharani2020_beyond_methods import Table, counting_classifiers, forests, ways_to_read
from benchmarks.papers.suttoncharani2020_beyond_page import FOLDS
from benchmarks.papers.suttoncharani2020_trees import best_cp, grow, prune

MORE_CLASSES = (
    *("balance-scale", "car", "cmc", "forest-type", "libras", "page-blocks", "splice", "vehicle-statlog"),
    *("vertebral-3c", "vowel", "waveform-5000", "wine-quality-red"),
)
SMALLEST = ("vertebral-3c", "libras", "forest-type", "balance-scale", "vehicle-statlog", "vowel")
"""Six of them, by rows."""
SMALLER = ("banknote-eb", "mammo", "diabetes", "tic-tac-toe")
"""Four of the paper's."""
PARTS = {
    "classes": MORE_CLASSES,
    "ensembles": (*(name for name, printed in study.SETS.items() if printed), *SMALLEST),
    "counting": (*SMALLER, *SMALLEST[:4]),
}
CLIP = 1e-6


class Cell(NamedTuple):
    """One fold."""

    part: str
    data: str
    fold: int


def cells(part: str, name: str) -> list[Cell]:
    """The folds of one cross-validation."""
    return [Cell(part, name, fold) for fold in range(FOLDS[part])]


def run_cell(cell: Cell, data: DataSet) -> dict:
    """{"found": {model or tree: {way to read it: [log loss, Brier score]}}}."""
    folds = StratifiedKFold(FOLDS[cell.part], shuffle=True, random_state=0).split(data.X, data.y)
    train, test = list(folds)[cell.fold]
    run = {"classes": _trees, "ensembles": _forests, "counting": _counting}[cell.part]
    found = run(data, train, test)
    measured = {
        model: {way: measures(p, data.y[test]) for way, p in answers.items()} for model, answers in found.items()
    }
    return {"found": measured}


def measures(shares: np.ndarray, y: np.ndarray) -> list[float]:
    """Log loss and Brier score of probabilities."""
    loss = ju.metrics.log_loss(np.clip(shares, CLIP, 1.0), y)
    return study.rounded([loss, ju.metrics.brier_score(shares, y)])


def _trees(data: DataSet, train: np.ndarray, test: np.ndarray) -> dict:
    X, y = study.columns(data), data.y
    model = grow(X[train], y[train])
    complexities = (*study.COMPLEXITIES, best_cp(X[train], y[train], model, 0))
    found = {}
    for name, cp in zip(study.TREES, complexities, strict=True):
        tree = prune(model, cp)
        found[name] = ways_to_read(tree.counts, tree.counts[tree.place(X[test])])
    return found


def _forests(data: DataSet, train: np.ndarray, test: np.ndarray) -> dict:
    X = np.asarray(study.columns(data), np.float32)
    return {"forest": forests(X[train], data.y[train], X[test])}


def _counting(data: DataSet, train: np.ndarray, test: np.ndarray) -> dict:
    table = Table(data.X, data.nominal, len(data.class_labels))
    return counting_classifiers(table, study.columns(data), data.y, train, test)


def journal(out: Path, part: str, name: str) -> Journal:
    """The finished cells of a set."""
    return Journal(out / "beyond" / part / f"{name}.jsonl", cells(part, name), 2, _is_sound)


def _is_sound(record: dict, cell: Cell) -> bool:
    found = [pair for ways in record["found"].values() for pair in ways.values()]
    return bool(found) and all(len(pair) == 2 for pair in found)


def main() -> None:
    """Run what is missing."""
    parser = study_options(__doc__, sorted({name for sets in PARTS.values() for name in sets}), study.RESULTS)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="only these parts")
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for part in args.parts:
        wanted = {name: journal(args.out, part, name) for name in PARTS[part] if name in args.sets}
        run_missing(wanted, partial(load, folder=args.data), run_cell)


if __name__ == "__main__":
    main()
