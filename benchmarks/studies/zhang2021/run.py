"""In the manner of Zhang, Quost and Masson 2021: sets of classes from cautious forests, over the strength s.

    python -m benchmarks zhang2021 [--data FOLDER] [--sets NAME ...]

Ten-fold cross-validation (stratified), three times, in float64; random forests of 100 trees, grown out and with five
instances in a leaf at least, each read with in-bag and with out-of-bag counts. Per forest and s the three masses and
the averaged intervals are bound together, and route once.

A cell (`benchmarks.cells`) is a set, a leaf size and a repetition. It holds whole numbers alone, how many sets of each
size there were and how many of them held the class; all measures, figures and the page are made of them.
"""

from collections import namedtuple
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold

import jaxunc as ju
from benchmarks.cells import Study, make_part
from benchmarks.data import DataSet, load
from benchmarks.studies.busch2021.run import spread
from benchmarks.studies.zhang2021.page import COUNTS, LEAF_SIZES, RULES, STRENGTHS, study_page
from jaxunc.decisions import interval_dominance, nondominated
from jaxunc.forest import Forest

SETS = {
    "breast-w": 2, "credit-g": 2, "diabetes": 2, "heart-statlog": 2, "hepatitis": 2, "ionosphere": 2, "liver": 2,
    "sonar": 2, "balance-scale": 3, "cmc": 3, "glass": 6, "iris": 3, "vehicle-statlog": 4, "wine": 3,
}  # fmt: skip
"""The sets, and how many classes they have. The slides name none: "eight common binary sets from UCI"."""
N_REPEATS, N_FOLDS, N_TREES = 3, 10, 100
TAKES = "14 data sets; nine minutes of one core"
FLOAT64 = True
RESULTS = Path(__file__).parent
Cell = namedtuple("Cell", "data leaf_size repeat")


def run_cell(cell: Cell, data: DataSet) -> dict:
    """{counts: {rule: a tally for each s}}, with the tally of the mean of probabilities, which has no s."""
    X, n_classes = spread(data), len(data.class_labels)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=cell.repeat)
    found: dict = {}
    for counts in COUNTS:
        found[counts] = {"mean": np.zeros(2 * n_classes, int)}
        found[counts] |= {rule: np.zeros((len(STRENGTHS), 2 * n_classes), int) for rule in RULES}
    for fold, (train, test) in enumerate(folds.split(X, data.y)):
        seed = N_FOLDS * cell.repeat + fold
        model = RandomForestClassifier(N_TREES, min_samples_leaf=cell.leaf_size, random_state=seed)
        model.fit(X[train], data.y[train])
        forest = ju.from_sklearn(model)
        outside = ju.count_leaves(forest, X[train], data.y[train], tree_mask=ju.counting.oob_mask(model, len(train)))
        for counts, counted in zip(COUNTS, (forest, outside), strict=True):
            mean = np.asarray(ju.bind(counted, ju.Mean()).probability(X[test])).argmax(axis=1)
            found[counts]["mean"] += tally(np.eye(n_classes, dtype=bool)[mean], data.y[test])
            for place, s in enumerate(STRENGTHS):
                for rule, sets in predicted_sets(counted, s, X[test]).items():
                    found[counts][rule][place] += tally(sets, data.y[test])
    return {counts: {rule: of.tolist() for rule, of in rules.items()} for counts, rules in found.items()}


def predicted_sets(forest: Forest, s: float, X: np.ndarray) -> dict[str, np.ndarray]:
    """The sets ``[instances classes]`` of every rule."""
    votes = {mass: ju.GeneralizedVote(s, mass) for mass in RULES[:-1]}
    answers = ju.bind(forest, ju.combiners.Together(**votes, averaged=ju.AveragedIntervals(s)))(X)
    sets = {mass: np.asarray(nondominated(answers[mass])) for mass in votes}
    return sets | {"averaged": np.asarray(interval_dominance(answers["averaged"]))}


def tally(sets: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many sets hold one class, and how many of those the right one; the same for two, and so on."""
    n_classes, sizes = sets.shape[1], sets.sum(axis=1)
    right = sizes[sets[np.arange(len(y)), y]]
    both = [np.bincount(values, minlength=n_classes + 1)[1:] for values in (sizes, right)]
    return np.stack(both, axis=1).ravel()


def _is_sound(record: dict, cell: Cell) -> bool:
    shape = (len(STRENGTHS), 2 * SETS[cell.data])
    expected = {"mean": shape[1:], **dict.fromkeys(RULES, shape)}
    found = [{rule: np.shape(of) for rule, of in rules.items()} for rules in record.values()]
    return set(record) == {*COUNTS} and all(shapes == expected for shapes in found)


def write_page(out: Path) -> None:
    """The page of the sets that are finished, and its figures."""
    if finished := STUDY.parts["main"].kept(out, whole=True):
        (out / "README.md").write_text(study_page(finished, out), encoding="utf-8")


_cells = lambda name: [Cell(name, leaf_size, repeat) for leaf_size in LEAF_SIZES for repeat in range(N_REPEATS)]
STUDY = Study(str(__doc__), RESULTS, {"main": make_part(tuple(SETS), _cells, _is_sound, run_cell, load)})
options, run = STUDY.options, STUDY.run
