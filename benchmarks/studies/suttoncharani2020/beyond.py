"""What Sutton-Charani 2020 names and does not study: more classes, ensembles, other classifiers that count.

    python -m benchmarks suttoncharani2020 --parts classes ensembles counting [--data FOLDER]

Everything in float64, from the library's public functions. Measures are the log loss (probabilities below 1e-6 count as
1e-6) and the Brier score, summed over the classes. Three parts:

* ``classes``: trees of the study's six complexities on sets of more than two classes; ten folds;
* ``ensembles``: random forests of 100 trees, grown out, corrected tree by tree or as a whole; two folds;
* ``counting``: nearest neighbours, naive Bayes and a decision table; ten folds.

The sets of more classes are all of the folder with 300 to 5500 rows, ten rows or more in each class and no missing
value. Ensembles have the paper's six sets and the six smallest of these; counting has the four smaller ones of the
paper and the four smallest of these. A cell is a fold of a set in a part.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

import jaxunc as ju
from benchmarks.cells import PartCell as Cell
from benchmarks.cells import fold, make_part
from benchmarks.data import DataSet, load
from benchmarks.pages import fill
from benchmarks.studies.suttoncharani2020.beyond_methods import counting_classifiers, forests, ways_to_read
from benchmarks.studies.suttoncharani2020.methods import SETS, columns, pruned_trees, rounded
from benchmarks.studies.suttoncharani2020.page import TEMPLATE, Records, gain_cells, in_words

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
    "ensembles": (*(name for name, printed in SETS.items() if printed), *SMALLEST),
    "counting": (*SMALLER, *SMALLEST[:4]),
}
FOLDS = {"classes": 10, "ensembles": 2, "counting": 10}
"""The parts, and the folds of each set."""
CLIP = 1e-6


def run_cell(cell: Cell, data: DataSet) -> dict:
    """{"found": {model or tree: {way to read it: [log loss, Brier score]}}}."""
    train, test = fold(data, FOLDS[cell.part], cell.fold)
    run = {"classes": _trees, "ensembles": _forests, "counting": counting_classifiers}[cell.part]
    found = run(data, train, test)
    measured = lambda answers: {way: measures(p, data.y[test]) for way, p in answers.items()}
    return {"found": {model: measured(answers) for model, answers in found.items()}}


def measures(shares: np.ndarray, y: np.ndarray) -> list[float]:
    """Log loss and Brier score of probabilities."""
    loss = ju.metrics.log_loss(np.clip(shares, CLIP, 1.0), y)
    return rounded([loss, ju.metrics.brier_score(shares, y)])


def _trees(data: DataSet, train: np.ndarray, test: np.ndarray) -> dict:
    X = columns(data)
    trees = pruned_trees(X[train], data.y[train], 0)
    return {name: ways_to_read(of.counts, of.counts[of.place(X[test])]) for name, of in trees.items()}


def _forests(data: DataSet, train: np.ndarray, test: np.ndarray) -> dict:
    X = np.asarray(columns(data), np.float32)
    return {"forest": forests(X[train], data.y[train], X[test])}


def _is_sound(record: dict, cell: Cell) -> bool:
    found = [pair for ways in record["found"].values() for pair in ways.values()]
    return bool(found) and all(len(pair) == 2 for pair in found)


# The section of the page of Sutton-Charani 2020 about more classes, ensembles and other counts, made of its cells.

LEVEL = 0.05


def kept(out: Path) -> dict[str, Records]:
    """{part: {set: its cells}}, of the parts that are finished."""
    found: dict[str, Records] = {}
    for part, of in RUN.items():
        sets = of.kept(out, whole=True)
        if len(sets) == len(of.sets):
            found[part] = {name: list(sets[name].values()) for name in sorted(sets)}
    return found


_cells = lambda part: lambda name: [Cell(part, name, number) for number in range(FOLDS[part])]
RUN = {name: make_part(sets, _cells(name), _is_sound, run_cell, load) for name, sets in PARTS.items()}


def losses(records: Records, model: str, way: str) -> np.ndarray:
    """``[losses sets]`` mean log loss and Brier score over the folds."""
    pairs = [[record["found"][model][way] for record in of_set] for of_set in records.values()]
    return np.array([np.mean(of_set, axis=0) for of_set in pairs]).T


def gains(records: Records, model: str, way: str, other: str) -> np.ndarray:
    """``[losses sets]`` by how much a way is better than another."""
    return losses(records, model, other) - losses(records, model, way)


def verdict(gain: np.ndarray) -> str:
    """Whether a two-sided sign test over the sets agrees by both losses."""
    sides = {_side(of) for of in gain}
    if sides == {1}:
        return "helps"
    return "harms" if sides == {-1} else "does not help reliably"


def _side(gain: np.ndarray) -> int:
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    if better + worse == 0 or binomtest(better, better + worse).pvalue >= LEVEL:
        return 0
    return 1 if better > worse else -1


def section(found: Mapping[str, Records]) -> str:
    """The section, of the parts that are there."""
    sections = [fill(TEMPLATE, "beyond", level=LEVEL)]
    for part, records in found.items():
        gain_of = partial(gains, records)
        told = lambda *ways, of=gain_of: f"it {verdict(of(*ways))} ({in_words(of(*ways))})"
        gain = lambda *ways, of=gain_of: " | ".join(gain_cells(of(*ways)) if ways[1] != ways[2] else [""] * 2)
        sections.append(fill(TEMPLATE, part, n=len(records), told=told, gain=gain))
    return "\n\n".join(sections)
