"""What Sutton-Charani 2020 left open, on its own sets: gains of cuts, likelihood-based beliefs, distances.

    python -m benchmarks.papers.suttoncharani2020_open [--data FOLDER] [--sets NAME ...]

The study's protocol (`suttoncharani2020`) once: one ten-fold cross-validation in float64, with the folds of the study's
first. Trees of its six complexities are grown in six ways (`suttoncharani2020_splits`). In the leaves of each:

* probabilities: relative frequencies, and those smoothed by empirical Bayes;
* beliefs: the paper's predictive one, and the likelihood's (`jaxunc.scorers.likelihood_mass`). Each has the scores of
  its pignistic probabilities, the ranges of the metrics over its interval of class 1, its mean ignorance, and its mean
  distance to the class that came, plain and squared (`jaxunc.belief.jousselme_distance`).

Cells lie in ``open/SET.jsonl``, those of evidential gains and entropy in ``open/GAIN-SET.jsonl``. The page is made of
them and of the study's own by `suttoncharani2020`.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jax
import numpy as np
from sklearn.model_selection import StratifiedKFold

import jaxunc as ju
from benchmarks.data import DataSet, load
from benchmarks.papers import suttoncharani2020 as study
from benchmarks.papers.journal import Journal, run_missing, study_options
from benchmarks.papers.suttoncharani2020_open_page import BELIEFS, ESTIMATES
from benchmarks.papers.suttoncharani2020_splits import ENTROPY, EVIDENTIAL, GROWTHS, grow
from benchmarks.papers.suttoncharani2020_trees import PrunedTree, best_cp, prune
from jaxunc.intervals import Interval

SETS = tuple(name for name, printed in study.SETS.items() if printed)
"""The six sets of the paper."""
GROUPS = {"": GROWTHS} | {f"{growth}-": (growth,) for growth in (*EVIDENTIAL, ENTROPY)}
"""The ways to grow trees that share a file, by how its name begins."""


def cells(name: str) -> list[study.Cell]:
    """The folds of one cross-validation."""
    return [study.Cell(name, 0, fold) for fold in range(study.N_FOLDS)]


def run_cell(cell: study.Cell, data: DataSet, growths: Sequence[str] = GROWTHS) -> dict:
    """{growth: {tree: what `evaluate` finds}}."""
    X = study.columns(data)
    folds = StratifiedKFold(study.N_FOLDS, shuffle=True, random_state=cell.repeat)
    train, test = list(folds.split(X, data.y))[cell.fold]
    found = {}
    for growth in growths:
        grower = partial(grow, growth=growth)
        model = grower(X[train], data.y[train])
        chosen = best_cp(X[train], data.y[train], model, cell.repeat, grower)
        trees = zip(study.TREES, (*study.COMPLEXITIES, chosen), strict=True)
        found[growth] = {name: evaluate(prune(model, cp), X[test], data.y[test]) for name, cp in trees}
    return {"growths": found}


def evaluate(tree: PrunedTree, X: np.ndarray, y: np.ndarray) -> dict:
    """{"leaves", estimate: scores, belief: {"scores", "log_loss", "brier", "ignorance", "distance"}}."""
    place = tree.place(X)
    # Empty leaves up to a power of two share compiled programs: they weigh nothing, and no instance lies there.
    counts = np.pad(tree.counts, ((0, (1 << (len(tree.counts) - 1).bit_length()) - len(tree.counts)), (0, 0)))
    prior = ju.smoothing.fit_beta_prior(counts)
    smoothed = np.asarray(ju.smoothing.smooth(counts, prior))[:, 1]
    found: dict = {"leaves": len(tree.counts)}
    for name, p in zip(ESTIMATES, (tree.counts[:, 1] / tree.counts.sum(axis=1), smoothed), strict=True):
        found[name] = study.rounded(study.measures(p[place], y))
    masses = (ju.smoothing.predictive_mass(counts, prior), ju.scorers.likelihood_mass(counts))
    for name, mass in zip(BELIEFS, masses, strict=True):
        found[name] = believed(np.asarray(mass), place, y)
    return found


def believed(mass: np.ndarray, place: np.ndarray, y: np.ndarray) -> dict:
    """How good the leaves' beliefs are for instances in these leaves."""
    p = np.asarray(ju.belief.pignistic(mass))[:, 1]
    interval = Interval(mass[place, 2], np.minimum(mass[place, 2] + mass[place, 3], 1.0))
    truth = np.eye(4)[1 + y]
    distance = np.asarray(ju.belief.jousselme_distance(mass[place], truth))
    return {
        "scores": study.rounded(study.measures(p[place], y)),
        "log_loss": study.rounded(ju.metrics.interval_log_loss(interval, y, clip=study.CLIP)),
        "brier": study.rounded(ju.metrics.interval_brier(interval, y)),
        "ignorance": study.rounded([mass[place, 3].mean(), (mass[place, 3] ** 2).mean()]),
        "distance": study.rounded([distance.mean(), (distance**2).mean()]),
    }


def journal(out: Path, name: str, group: str = "") -> Journal:
    """The finished cells of a set, of one group of growths."""
    path = out / "open" / f"{group}{name}.jsonl"
    return Journal(path, cells(name), 1, partial(_is_sound, growths=GROUPS[group]))


def _is_sound(record: dict, cell: study.Cell, growths: Sequence[str]) -> bool:
    trees = [tree for growth in growths for tree in record["growths"][growth].values()]
    return len(trees) == len(growths) * len(study.TREES) and all(
        len(tree[name]) == 3 if name in ESTIMATES else len(tree[name]["distance"]) == 2
        for tree in trees
        for name in (*ESTIMATES, *BELIEFS)
    )


def main() -> None:
    """Run what is missing."""
    args = study_options(__doc__, SETS, study.RESULTS).parse_args()
    jax.config.update("jax_enable_x64", True)
    for group, growths in GROUPS.items():
        journals = {name: journal(args.out, name, group) for name in args.sets}
        run_missing(journals, lambda name: load(name, args.data), partial(run_cell, growths=growths))


if __name__ == "__main__":
    main()
