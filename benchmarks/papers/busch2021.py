"""The study of Busch et al. 2021: ways to combine the leaves of random decision trees, on the paper's data sets.

    python -m benchmarks.papers.busch2021 [--data FOLDER] [--sets NAME ...] [--parts trees references transfer]

100 trees, least leaf sizes 1, 2, 3, 4, 8 and 32, five times two-fold cross-validation, in float64. Parts: ``trees``,
the paper's study; ``references``, a random forest and a single tree; ``transfer``, the rules on random forests,
extremely randomised trees and small ensembles. Every (set, repetition, fold, leaf size) goes to the work folder as
soon as it is finished; a run that was killed goes on there and ends with the same results. In the end tables, figures
and the page that reads them go to ``benchmarks/results/busch2021``.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from benchmarks.data import DataSet, load
from benchmarks.papers.busch2021_methods import METHODS
from jaxunc.forest import Forest

SETS = (
    *("sonar", "ionosphere", "climate", "wdbc", "diabetes", "tic-tac-toe", "biodeg", "banknote"),
    *("scene", "spambase", "mushroom", "phishing", "webdata", "electricity", "skin", "airlines"),
)
"""The paper's sets that are at hand, small ones first; five are not (see the page)."""
LEAF_SIZES = (1, 2, 3, 4, 8, 32)
N_REPEATS, N_FOLDS, N_TREES = 5, 2, 100
RESULTS = Path(__file__).parents[1] / "results" / "busch2021"
MOST_LEVELS = 100
"""Nominal features with more levels are not spread over columns for scikit-learn's trees, but numbered."""


class Cell(NamedTuple):
    """One ensemble of the study."""

    part: str
    data: str
    kind: str
    n_trees: int
    leaf_size: int
    repeat: int
    fold: int


KINDS = {
    "trees": [("random-decision-trees", N_TREES)],
    "references": [("random-forest-mean", N_TREES), ("single-tree-mean", 1)],
    "transfer": [
        *(("random-decision-trees", n) for n in (5, 10, 25)),
        *((kind, N_TREES) for kind in ("random-forest", "extra-trees")),
    ],
}


def cells(parts: list[str], sets: list[str]) -> list[Cell]:
    """All that is to be run, in order."""
    return [
        Cell(part, name, kind, n_trees, leaf_size, repeat, fold)
        for part in parts
        for name in sets
        for kind, n_trees in KINDS[part]
        for repeat in range(N_REPEATS)
        for fold in range(N_FOLDS)
        for leaf_size in LEAF_SIZES
    ]


def split(data: DataSet, repeat: int, fold: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test instances."""
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=repeat)
    return list(folds.split(data.X, data.y))[fold]


def run_cell(cell: Cell, data: DataSet) -> dict:
    """What the methods reach on one test fold: {method: [AUC, accuracy]}, with the spread of the single trees."""
    train, test = split(data, cell.repeat, cell.fold)
    if cell.kind.endswith("-mean"):
        X = spread(data)
        model = reference(cell).fit(X[train], data.y[train])
        score = model.predict_proba(X[test])[:, 1] - 0.5
        return {"methods": {"mean": measures(score, data.y[test])}}
    if cell.kind == "random-decision-trees":
        forest, X_test = grow(cell, data, train), known(data.X, data.nominal)[test]
    else:
        X = spread(data)
        forest, X_test = ju.from_sklearn(reference(cell).fit(X[train], data.y[train])), X[test].astype(np.float32)
    rules = ju.Together(**{name: method.make(forest) for name, method in METHODS.items()})
    answers = ju.bind(forest, rules).answer(X_test)
    found = {}
    for name, method in METHODS.items():
        answer = answers[name]
        score = answer.score if method.reads == "score" else ju.margin(answer.class_scores)
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
    for start in range(0, n, 2048):
        rows = slice(start, min(start + 2048, n))
        counts = np.asarray(ju.leaf_counts(forest, X[rows]))
        right += ((counts[..., 1] >= counts[..., 0]) == y[rows, None]).sum(axis=0)
    accuracy = right / n
    return [round(float(f(accuracy)), 7) for f in (np.mean, np.std, np.min, np.max)]


def grow(cell: Cell, data: DataSet, train: np.ndarray) -> Forest:
    """Random decision trees as the paper grows them; a node of fewer than twice the leaf size is not split."""
    key = jax.random.key(N_FOLDS * cell.repeat + cell.fold)
    return ju.growing.grow_random_trees(
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
    """For scikit-learn's trees: a column per nominal level, as in the reference runs of the published code."""
    X = known(data.X, data.nominal)
    few = data.nominal & (X.max(axis=0) < MOST_LEVELS)
    if not few.any():
        return X
    return np.hstack([X[:, ~few], OneHotEncoder(sparse_output=False, dtype=np.float32).fit_transform(X[:, few])])


def reference(cell: Cell):
    """The scikit-learn model of a cell."""
    make = {"random-forest": RandomForestClassifier, "extra-trees": ExtraTreesClassifier}
    options = {"min_samples_leaf": cell.leaf_size, "random_state": N_FOLDS * cell.repeat + cell.fold}
    if cell.kind == "single-tree-mean":
        return DecisionTreeClassifier(**options)
    return make[cell.kind.removesuffix("-mean")](cell.n_trees, n_jobs=-1, **options)


class Journal:
    """Finished cells, a line each; a line that was cut off is dropped and its cell run again."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "cells.jsonl"
        self.found: dict[Cell, dict] = {}
        whole = 0
        for line in self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []:
            try:
                record = json.loads(line)
                cell = Cell(*record["cell"])
                if not line.endswith(b"\n") or set(record) != {"cell", "seconds", "found"}:
                    break
            except (ValueError, KeyError, TypeError):
                break
            self.found[cell] = record
            whole += len(line)
        if self.path.exists():
            with self.path.open("r+b") as file:
                file.truncate(whole)

    def add(self, cell: Cell, found: dict, seconds: float) -> None:
        """Write a finished cell."""
        self.found[cell] = record = {"cell": list(cell), "seconds": round(seconds, 2), "found": found}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def missing(wanted: list[Cell], journal: Journal, folder: str | None) -> Iterator[tuple[Cell, DataSet]]:
    """The cells that are still to be run, with their data; progress and the time to go on standard error."""
    left = [cell for cell in wanted if cell not in journal.found]
    data, start = None, time.perf_counter()
    for i, cell in enumerate(left):
        if data is None or data.name != cell.data:
            data = load(cell.data, folder)
        yield cell, data
        if i + 1 == len(left) or left[i + 1].data != cell.data:
            passed = time.perf_counter() - start
            print(f"{cell.part} {cell.data}: {i + 1}/{len(left)}, {passed / 60:.1f} min", file=sys.stderr, flush=True)


def main() -> None:
    """Run what is missing, then write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of data sets (default: JAXUNC_DATA, else OpenML)")
    parser.add_argument("--sets", nargs="+", default=SETS, metavar="NAME", help="only these sets")
    parser.add_argument("--parts", nargs="+", choices=list(KINDS), default=list(KINDS), help="only these parts")
    parser.add_argument("--work", type=Path, default="benchmarks/work/busch2021", help="folder of what has been run")
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    journal = Journal(args.work)
    for cell, data in missing(cells(args.parts, args.sets), journal, args.data):
        start = time.perf_counter()
        found = run_cell(cell, data)
        journal.add(cell, found, time.perf_counter() - start)


if __name__ == "__main__":
    main()
