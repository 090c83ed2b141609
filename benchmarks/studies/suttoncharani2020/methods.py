"""The trees and estimates of the study of Sutton-Charani 2020: one fold of one of its sets, and its cells."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OneHotEncoder

import jaxunc as ju
from benchmarks.cells import Journal
from benchmarks.data import DataSet
from benchmarks.studies.suttoncharani2020.beliefs import interval_auc, interval_log_loss
from benchmarks.studies.suttoncharani2020.trees import PrunedTree, best_cp, grow, prune
from jaxunc.scorers import Interval
from jaxunc.smoothing import BetaPrior

SETS = {
    "banana": "banana",
    "bankLoan": "bankLoan",
    "banknote-eb": "banknote",
    "mammo": "mammo",
    "diabetes": "pima",
    "tic-tac-toe": "ticTacToe",
    "banknote": None,
}
"""The sets, and what the paper calls them."""
COMPLEXITIES = (0.0, 0.001, 0.005, 0.01, 0.05)
TREES = (*map(str, (0, 0.001, 0.005, 0.01, 0.05)), "pruned")
N_REPEATS, N_FOLDS = 10, 10
CLIP = 1e-15
PRIORS = {"eb": "weighted_mle", "moments": "moments", "marginal": "marginal"}
ESTIMATES = ("raw", "eb", "laplace", "moments", "marginal")
INTERVALS = ("log_loss", "brier", "auc", "auc_published")


class Cell(NamedTuple):
    """One fold."""

    data: str
    repeat: int
    fold: int


def cells(name: str) -> list[Cell]:
    """All that is to be run on a set, in order."""
    return [Cell(name, repeat, fold) for repeat in range(N_REPEATS) for fold in range(N_FOLDS)]


def columns(data: DataSet) -> np.ndarray:
    """Nominal features as a column per level: for three levels at most, these are all of rpart's binary splits."""
    if not data.nominal.any():
        return data.X
    spread = OneHotEncoder(sparse_output=False).fit_transform(data.X[:, data.nominal])
    return np.hstack([data.X[:, ~data.nominal], spread])


def run_cell(cell: Cell, data: DataSet) -> dict:
    """{tree: {"leaves", "prior", estimate: [log loss, Brier score, AUC], interval metric: [lower, upper]}}."""
    X = columns(data)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=cell.repeat)
    train, test = list(folds.split(X, data.y))[cell.fold]
    model = grow(X[train], data.y[train])
    chosen = best_cp(X[train], data.y[train], model, seed=cell.repeat)
    trees = {name: prune(model, cp) for name, cp in zip(TREES, (*COMPLEXITIES, chosen), strict=True)}
    return {"trees": {name: evaluate(tree, X[test], data.y[test]) for name, tree in trees.items()}}


def evaluate(tree: PrunedTree, X: np.ndarray, y: np.ndarray) -> dict:
    """What one tree's estimates and intervals reach on test instances."""
    place = tree.place(X)
    priors = {name: ju.smoothing.fit_beta_prior(tree.counts, method) for name, method in PRIORS.items()}
    priors["laplace"] = BetaPrior(np.float64(1.0), np.float64(1.0), np.int32(0))
    leaf = {name: np.asarray(ju.smoothing.smooth(tree.counts, prior))[:, 1] for name, prior in priors.items()}
    leaf["raw"] = tree.counts[:, 1] / tree.counts.sum(axis=1)
    found: dict = {"leaves": len(tree.counts)}
    found["prior"] = [*rounded([priors["eb"].alpha, priors["eb"].beta]), int(priors["eb"].status)]
    for name in ESTIMATES:
        found[name] = rounded(measures(leaf[name][place], y))
    ends = ju.smoothing.correction_interval(tree.counts, priors["eb"])
    interval = Interval(*(np.asarray(end)[place, 1] for end in ends))
    found["intervals"] = {
        "log_loss": rounded(interval_log_loss(interval, y, clip=CLIP)),
        "brier": rounded(ju.metrics.interval_brier(interval, y)),
        "auc": rounded(interval_auc(interval, y)),
        "auc_published": rounded(interval_auc(interval, y, method="published")),
    }
    return found


def measures(p: np.ndarray, y: np.ndarray) -> list:
    """Log loss (clipped as in the published code), Brier score (single class), AUC."""
    exactly = Interval(p, p)
    return [
        interval_log_loss(exactly, y, clip=CLIP).lower,
        ju.metrics.interval_brier(exactly, y).lower,
        ju.metrics.auc(p, y),
    ]


def rounded(values) -> list[float]:
    return [float(f"{float(v):.9g}") for v in values]


def journal(out: Path, name: str) -> Journal:
    """The finished cells of a set."""
    return Journal(out, "main", cells(name), _is_sound)


def _is_sound(record: dict, cell: Cell) -> bool:
    sound = set(record["trees"]) == set(TREES)
    for found in record["trees"].values():
        sound = sound and all(len(found[name]) == 3 for name in ESTIMATES) and set(found["intervals"]) == {*INTERVALS}
    return sound
