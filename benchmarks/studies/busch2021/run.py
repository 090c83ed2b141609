"""The study of Busch et al. 2021: ways to combine the leaves of random decision trees, on the paper's data sets.

    python -m benchmarks busch2021 [--data FOLDER] [--sets NAME ...] [--parts trees references transfer]

100 trees, least leaf sizes 1, 2, 3, 4, 8 and 32, five times two-fold cross-validation, in float64. Parts: ``trees``,
the paper's study; ``references``, a random forest and a single tree; ``transfer``, the rules on random forests,
extremely randomised trees and small ensembles.

A cell (`benchmarks.cells`) is a set, an ensemble, a leaf size, a repetition and a fold. Tables, figures and the page
that reads them are made of the cells.
"""

import sys
from collections import namedtuple
from functools import partial
from pathlib import Path

import jax
import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from benchmarks.cells import Study, fold, make_part
from benchmarks.data import DataSet, load
from benchmarks.studies.busch2021.figures import write_pictures
from benchmarks.studies.busch2021.numbers import METHODS, means, rank_tables, single_trees
from benchmarks.studies.busch2021.page import study_page
from jaxunc.forest import Forest

SETS = {
    "sonar": 0.47, "ionosphere": 0.64, "climate": 0.91, "wdbc": 0.63, "diabetes": 0.35, "tic-tac-toe": 0.65,
    "biodeg": 0.34, "banknote": 0.44, "scene": 0.18, "spambase": 0.39, "mushroom": 0.48, "phishing": 0.56,
    "webdata": 0.24, "electricity": 0.42, "skin": 0.79, "airlines": 0.45,
}  # fmt: skip
"""The paper's sets that are at hand, small ones first, and their shares of class 1 (the paper's Table 1). Five are not:
voting, transfusion, telescope, vehicle and particle."""
SHOWN_SETS = ("climate", "scene", "webdata", "airlines")
"""Of Figure 5: two where classes are uneven, and two that the paper speaks of."""
LEAF_SIZES = (1, 2, 3, 4, 8, 32)
N_REPEATS, N_FOLDS, N_TREES = 5, 2, 100
TAKES = "16 data sets, 4260 ensembles"
FLOAT64 = True
RESULTS = Path(__file__).parent
Cell = namedtuple("Cell", "part data kind n_trees leaf_size repeat fold")
"""One ensemble of the study."""
KINDS = {
    "trees": [("random-trees", N_TREES)],
    "references": [("random-forest-mean", N_TREES), ("single-tree-mean", 1)],
    "transfer": [
        *(("random-trees", n) for n in (5, 10, 25)),
        *((kind, N_TREES) for kind in ("random-forest", "extra-trees")),
    ],
}


def cells(part: str, name: str) -> list[Cell]:
    """All that is to be run of a part on a set, in order: repetition by repetition."""
    return [
        Cell(part, name, kind, n_trees, leaf_size, repeat, number)
        for repeat in range(N_REPEATS)
        for kind, n_trees in KINDS[part]
        for leaf_size in LEAF_SIZES
        for number in range(N_FOLDS)
    ]


def run_cell(cell: Cell, data: DataSet) -> dict:
    """What the methods reach on one test fold: {method: [AUC, accuracy]}, with the spread of the single trees."""
    train, test = fold(data, N_FOLDS, cell.fold, cell.repeat)
    if cell.kind.endswith("-mean"):
        X = spread(data)
        model = reference(cell).fit(X[train], data.y[train])
        score = model.predict_proba(X[test])[:, 1] - 0.5
        return {"methods": {"mean": measures(score, data.y[test])}}
    if cell.kind == "random-trees":
        forest, X_test = grow(cell, data, train), known(data.X, data.nominal)[test]
    else:
        X = spread(data)
        forest, X_test = ju.from_sklearn(reference(cell).fit(X[train], data.y[train])), X[test].astype(np.float32)
    rules = ju.combiners.Together(**{name: method.make(forest) for name, method in METHODS.items()})
    answers = ju.bind(forest, rules).answer(X_test)
    found = {}
    for name, method in METHODS.items():
        score = answers[name].score if method.reads == "score" else ju.margin(answers[name].class_scores)
        found[name] = measures(np.asarray(score, np.float64), data.y[test])
    return {"methods": found, "trees": tree_accuracies(forest, X_test, data.y[test])}


def measures(score: np.ndarray, y: np.ndarray) -> list[float]:
    """AUC, and the accuracy of deciding for class 1 where the score is at least 0, as the published code does."""
    score = np.nan_to_num(score, nan=0.0)
    return [round(float(ju.metrics.auc(score, y)), 7), round(float(np.mean((score >= 0) == y)), 7)]


def tree_accuracies(forest: Forest, X: np.ndarray, y: np.ndarray) -> list[float]:
    """Mean, standard deviation, least and largest accuracy of the single trees (of at most 20 000 test instances)."""
    right = np.zeros(forest.n_trees)
    n = min(len(y), 20_000)
    for rows in (slice(start, min(start + 2048, n)) for start in range(0, n, 2048)):
        counts = np.asarray(ju.leaf_counts(forest, X[rows]))
        right += ((counts[..., 1] >= counts[..., 0]) == y[rows, None]).sum(axis=0)
    accuracy = right / n
    return [round(float(f(accuracy)), 7) for f in (np.mean, np.std, np.min, np.max)]


def grow(cell: Cell, data: DataSet, train: np.ndarray) -> Forest:
    """Random decision trees as the paper grows them; a node of fewer than twice the leaf size is not split."""
    key = jax.random.key(N_FOLDS * cell.repeat + cell.fold)
    return ju.random_trees.grow_random_trees(
        jax.random.fold_in(key, cell.leaf_size),
        known(data.X, data.nominal)[train],
        data.y[train],
        n_trees=cell.n_trees,
        min_samples_leaf=cell.leaf_size,
        min_samples_split=2 * cell.leaf_size,
        nominal=data.nominal,
    )


def known(X: np.ndarray, nominal: np.ndarray) -> np.ndarray:
    """Missing nominal values as a level of their own."""
    levels = np.nanmax(X, axis=0, initial=0) + 1
    return np.where(np.isnan(X) & nominal, levels, X).astype(np.float32)


def spread(data: DataSet) -> np.ndarray:
    """For scikit-learn's trees: a column per nominal level (of 100 at most), as the published code had it."""
    X = known(data.X, data.nominal)
    few = data.nominal & (X.max(axis=0) < 100)
    if not few.any():
        return X
    return np.hstack([X[:, ~few], OneHotEncoder(sparse_output=False, dtype=np.float32).fit_transform(X[:, few])])


def reference(cell: Cell):
    """The scikit-learn model of a cell."""
    options = {"min_samples_leaf": cell.leaf_size, "random_state": N_FOLDS * cell.repeat + cell.fold}
    if cell.kind == "single-tree-mean":
        return DecisionTreeClassifier(**options)
    make = ExtraTreesClassifier if cell.kind == "extra-trees" else RandomForestClassifier
    return make(cell.n_trees, n_jobs=-1, **options)


def _is_sound(record: dict, cell: Cell) -> bool:
    expected = {"mean"} if cell.kind.endswith("-mean") else set(METHODS)
    return set(record["methods"]) == expected and all(len(pair) == 2 for pair in record["methods"].values())


def kept(out: Path) -> dict[Cell, dict]:
    """All whole repetitions, whatever was asked for in this run."""
    found: dict[Cell, dict] = {}
    for part in STUDY.parts.values():
        for own in (part.journal(out, name) for name in SETS):
            n_whole = len(own.found) // (len(own.wanted) // N_REPEATS)
            found |= {cell: record for cell, record in own.found.items() if cell.repeat < n_whole}
    return found


def write_page(out: Path) -> None:
    """The page of the sets with a whole repetition: at least two of the part ``trees``."""
    finished = kept(out)
    if len({cell.data for cell in finished if cell.part == "trees"}) < 2:
        print("no page yet: it compares two sets or more of the part 'trees'", file=sys.stderr)
        return
    everything = means(finished)
    trees = everything[everything["part"] == "trees"]
    shown = [name for name in SHOWN_SETS if name in set(trees["set"])]
    (out / "README.md").write_text(study_page(everything, SETS, len(SETS), N_REPEATS), encoding="utf-8")
    write_pictures(rank_tables(everything, SETS), single_trees(finished, shown), trees, out)


PARTS = {name: make_part(tuple(SETS), partial(cells, name), _is_sound, run_cell, load) for name in KINDS}
STUDY = Study(str(__doc__), RESULTS, PARTS)
options, run = STUDY.options, STUDY.run
