"""The trees and estimates of the study of Sutton-Charani 2020: one fold of one of its sets, and its cells."""

from collections import namedtuple
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from sklearn.preprocessing import OneHotEncoder

import jaxunc as ju
from benchmarks.cells import fold, make_part
from benchmarks.data import DataSet, load
from benchmarks.studies.suttoncharani2020.trees import PrunedTree, best_cp, grow, prune
from jaxunc.metrics import auc
from jaxunc.scorers import Interval
from jaxunc.smoothing import BetaPrior

SETS = {
    "banana": "banana", "bankLoan": "bankLoan", "banknote-eb": "banknote", "mammo": "mammo", "diabetes": "pima",
    "tic-tac-toe": "ticTacToe", "banknote": None,
}  # fmt: skip
"""The sets, and what the paper calls them."""
COMPLEXITIES = (0.0, 0.001, 0.005, 0.01, 0.05)
TREES = (*map(str, (0, 0.001, 0.005, 0.01, 0.05)), "pruned")
N_REPEATS, N_FOLDS = 10, 10
CLIP = 1e-15
PRIORS = {"eb": "weighted_mle", "moments": "moments", "marginal": "marginal"}
ESTIMATES = ("raw", "eb", "laplace", "moments", "marginal")
INTERVALS = ("log_loss", "brier", "auc", "auc_published")
Cell = namedtuple("Cell", "data repeat fold")


def columns(data: DataSet) -> np.ndarray:
    """Nominal features as a column per level: for three levels at most, these are all of rpart's binary splits."""
    if not data.nominal.any():
        return data.X
    spread = OneHotEncoder(sparse_output=False).fit_transform(data.X[:, data.nominal])
    return np.hstack([data.X[:, ~data.nominal], spread])


def run_cell(cell: Cell, data: DataSet) -> dict:
    """{tree: {"leaves", "prior", estimate: [log loss, Brier score, AUC], interval metric: [lower, upper]}}."""
    X, (train, test) = columns(data), fold(data, N_FOLDS, cell.fold, cell.repeat)
    trees = pruned_trees(X[train], data.y[train], cell.repeat)
    return {"trees": {name: evaluate(tree, X[test], data.y[test]) for name, tree in trees.items()}}


def pruned_trees(X: np.ndarray, y: np.ndarray, seed: int, grower: Callable[..., Any] = grow) -> dict[str, PrunedTree]:
    """{complexity: a tree}, all of one that was grown; that of the last is chosen by cross-validation."""
    model = grower(X, y)
    complexities = (*COMPLEXITIES, best_cp(X, y, model, seed, grower))
    return {name: prune(model, cp) for name, cp in zip(TREES, complexities, strict=True)}


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
    areas = interval_auc(interval, y), interval_auc(interval, y, method="published")
    bounds = (interval_log_loss(interval, y, clip=CLIP), ju.metrics.interval_brier(interval, y), *areas)
    return found | {"intervals": dict(zip(INTERVALS, map(rounded, bounds), strict=True))}


def measures(p: np.ndarray, y: np.ndarray) -> list:
    """Log loss (clipped as in the published code), Brier score (single class), AUC."""
    exactly = Interval(p, p)
    return [interval_log_loss(exactly, y, clip=CLIP).lower, ju.metrics.interval_brier(exactly, y).lower, auc(p, y)]


def rounded(values) -> list[float]:
    return [float(f"{float(v):.9g}") for v in values]


def _is_sound(record: dict, cell: Cell) -> bool:
    return set(record["trees"]) == set(TREES) and all(
        set(tree["intervals"]) == {*INTERVALS} and all(len(tree[name]) == 3 for name in ESTIMATES)
        for tree in record["trees"].values()
    )


_cells = lambda name: [Cell(name, *split) for split in product(range(N_REPEATS), range(N_FOLDS))]
MAIN = make_part(tuple(SETS), _cells, _is_sound, run_cell, load, "main")


# Belief functions of leaves, and bounds of metrics over intervals, in float64. Masses lie on the sets ∅, {0}, {1}, Ω,
# in this order along the last axis, as `jaxunc.belief` has them.


def predictive_mass(counts: np.ndarray, prior: BetaPrior) -> np.ndarray:
    """The predictive belief function of leaves ``[leaves 2]``: what smoothing would move is mass of ignorance.

    Equation 3, clipped as the published code clips the interval. A leaf without instances has m(Ω) = 1.
    """
    alpha, n = np.array([prior.beta, prior.alpha], float), counts.sum(axis=-1, keepdims=True)
    weight = alpha.sum()
    share = counts / np.maximum(n, 1)
    expected = alpha / weight if weight > 0 else np.full(2, 0.5)
    moved = weight / np.maximum(n + weight, 1e-300) * np.abs(expected - share)
    # Not 1 less the masses: large leaves lose less than the last digit of 1.
    lost = np.where(n > 0, np.minimum(moved / 2, share), 0.5)
    rest = lost.sum(axis=-1, keepdims=True)
    return np.concatenate([np.zeros_like(rest), np.where(n > 0, share - lost, 0.0), rest], axis=-1)


def jousselme_distance(masses: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Jousselme's distance of mass functions in [0, 1], where sets that overlap are near each other.

    With δ = m - m', a sum of squares, so that nothing cancels: half of δ_∅² + Σ_c (δ_c + δ_Ω/C)² + (1 - 1/C) δ_Ω².
    For two classes and m(∅) = 0 the square of the distance to the class that came is (BetP(1) - y)² + m(Ω)²/4.
    Reference: Jousselme, Grenier and Bossé 2001.
    """
    apart = np.asarray(masses, float) - other
    n_classes = apart.shape[-1] - 2
    empty, classes, omega = apart[..., 0], apart[..., 1:-1] + apart[..., -1:] / n_classes, apart[..., -1]
    return np.sqrt((empty**2 + np.sum(classes**2, axis=-1) + (1 - 1 / n_classes) * omega**2) / 2)


def interval_log_loss(interval: Interval, y: np.ndarray, *, clip: float) -> Interval:
    """The least and the greatest log loss of probabilities inside the intervals, clipped to [clip, 1 - clip]."""
    good, bad = (np.where(y == 1, *ends) for ends in ((interval.upper, interval.lower), interval))

    def of(p):
        with np.errstate(divide="ignore"):
            loss = -np.where(y == 1, np.log(p), np.log1p(-p))
        return np.clip(loss, -np.log1p(-clip), -np.log(clip)).mean()

    return Interval(of(good), of(bad))


def interval_auc(interval: Interval, y: np.ndarray, *, method: str = "exact") -> Interval:
    """The least and the greatest area under the curve of probabilities inside the intervals; two sorts.

    ``"published"``: what the paper's code reports, the areas of all lower and of all upper ends, in order. Those bound
    nothing: probabilities inside the intervals can have areas beyond both.
    """
    lower, upper = interval
    if method == "published":
        areas = auc(lower, y), auc(upper, y)
        return Interval(min(areas), max(areas))
    # Worst: positives at their lower ends, negatives at their upper ones; best: the other way round.
    return Interval(auc(np.where(y == 1, lower, upper), y), auc(np.where(y == 1, upper, lower), y))
