"""What Sutton-Charani 2020 left open, on its own sets: gains of cuts, likelihood-based beliefs, distances.

    python -m benchmarks suttoncharani2020 --parts open [--data FOLDER] [--sets NAME ...]

The folds of the study's first cross-validation. Trees of its six complexities are grown in six ways (`grow_by_gain`);
in the leaves of each, probabilities as they are and smoothed by empirical Bayes, and two beliefs, the paper's and the
likelihood's (`jaxunc.scorers.likelihood_mass`), whose distance to the class that came is plain and squared.

A cell is a fold of a set, of the first six ways together (part ``open``) or of one further gain (``open GAIN``).
"""

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from operator import getitem
from pathlib import Path

import numpy as np

import jaxunc as ju
from benchmarks.cells import fold, make_part
from benchmarks.data import DataSet, load
from benchmarks.pages import fill
from benchmarks.studies.suttoncharani2020 import methods
from benchmarks.studies.suttoncharani2020.methods import SETS as PAPER_SETS
from benchmarks.studies.suttoncharani2020.methods import TREES as ALL_TREES
from benchmarks.studies.suttoncharani2020.page import TEMPLATE, Records, gain_cells, in_words
from benchmarks.studies.suttoncharani2020.trees import ENTROPY, EVIDENTIAL, GROWTHS, PrunedTree, grow_by_gain
from jaxunc.scorers import Interval

SETS = tuple(name for name, printed in PAPER_SETS.items() if printed)
"""The six sets of the paper."""
GROUPS = {"open": GROWTHS} | {f"open {growth}": (growth,) for growth in (*EVIDENTIAL, ENTROPY)}
"""The ways to grow trees that share cells, by the name of their part."""


def run_cell(cell: methods.Cell, data: DataSet, growths: Sequence[str] = GROWTHS) -> dict:
    """{growth: {tree: what `evaluate` finds}}."""
    X, found = methods.columns(data), {}
    train, test = fold(data, methods.N_FOLDS, cell.fold, cell.repeat)
    for growth in growths:
        trees = methods.pruned_trees(X[train], data.y[train], cell.repeat, partial(grow_by_gain, growth=growth))
        found[growth] = {name: evaluate(tree, X[test], data.y[test]) for name, tree in trees.items()}
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
        found[name] = methods.rounded(methods.measures(p[place], y))
    masses = (methods.predictive_mass(counts, prior), ju.scorers.likelihood_mass(counts))
    for name, mass in zip(BELIEFS, masses, strict=True):
        found[name] = believed(np.asarray(mass), place, y)
    return found


def believed(mass: np.ndarray, place: np.ndarray, y: np.ndarray) -> dict:
    """How good the leaves' beliefs are for instances in these leaves."""
    p = np.asarray(ju.belief.pignistic(mass))[:, 1]
    interval = Interval(mass[place, 2], np.minimum(mass[place, 2] + mass[place, 3], 1.0))
    ignorance, distance = mass[place, 3], methods.jousselme_distance(mass[place], np.eye(4)[1 + y])
    found = {
        "scores": methods.measures(p[place], y),
        "log_loss": methods.interval_log_loss(interval, y, clip=methods.CLIP),
        "brier": ju.metrics.interval_brier(interval, y),
        "ignorance": [ignorance.mean(), (ignorance**2).mean()],
        "distance": [distance.mean(), (distance**2).mean()],
    }
    return {name: methods.rounded(numbers) for name, numbers in found.items()}


def _is_sound(record: dict, cell: methods.Cell, growths: Sequence[str]) -> bool:
    trees = [tree for growth in growths for tree in record["growths"][growth].values()]
    return len(trees) == len(growths) * len(ALL_TREES) and all(
        len(tree[name]) == 3 if name in ESTIMATES else len(tree[name]["distance"]) == 2
        for tree in trees
        for name in (*ESTIMATES, *BELIEFS)
    )


_cells = lambda name: [methods.Cell(name, 0, number) for number in range(methods.N_FOLDS)]
PARTS = {
    group: make_part(SETS, _cells, *(partial(f, growths=growths) for f in (_is_sound, run_cell)), load, group)
    for group, growths in GROUPS.items()
}


def records(out: Path) -> dict[str, list[dict]]:
    """The sets on which all gains are finished."""
    groups = [part.kept(out, whole=True) for part in PARTS.values()]
    sets = [name for name in SETS if all(name in group for group in groups)]
    folds = {name: zip(*(group[name].values() for group in groups), strict=True) for name in sets}
    growths = lambda records: {name: trees for record in records for name, trees in record["growths"].items()}
    return {name: [{"growths": growths(records)} for records in folds[name]] for name in sets}


# The section of the page of Sutton-Charani 2020 about what its section 7 left open, made of the cells.

ESTIMATES = ("raw", "eb")
BELIEFS = ("correction", "likelihood")
SIZES = ("0", "pruned")


def values(finished: Records, growth: str, tree: str, *path) -> np.ndarray:
    """``[sets]`` the mean over the folds of what stands at a path in each tree."""
    at = lambda record: reduce(getitem, path, record["growths"][growth][tree])
    return np.array([np.mean([at(record) for record in records]) for records in finished.values()])


def gain_of_cuts(
    finished: Records, growth: str, tree: str, estimate: str, *, over: str = "raw", read: str | None = None
) -> np.ndarray:
    """``[measures sets]`` what a gain wins over another (CART's): log loss, Brier score, AUC; positive is better.

    Leaves are read by ``estimate``, those of the other by ``read`` if it is given.
    """
    return _gain(finished, (growth, tree, estimate), (over, tree, read or estimate))


def gain_of_likelihood(finished: Records, tree: str, other: str) -> np.ndarray:
    """``[measures sets]`` what the likelihood's pignistic probabilities win over another estimate's, CART's trees."""
    path = (other, "scores") if other in BELIEFS else (other,)
    return _gain(finished, ("raw", tree, "likelihood", "scores"), ("raw", tree, *path))


def _gain(finished: Records, ours: tuple[str, ...], theirs: tuple[str, ...]) -> np.ndarray:
    mine, others = (np.array([values(finished, *path, m) for m in range(3)]) for path in (ours, theirs))
    return (mine - others) * np.array([-1, -1, 1])[:, None]


def verdict(gains: np.ndarray) -> str:
    """Whether gains ``[measures sets]`` of both losses agree on all sets."""
    if (gains[:2] > 0).all():
        return "it helps"
    return "it harms" if (gains[:2] < 0).all() else "it does not help reliably"


def section(finished: Records) -> str:
    """The section; of the sets that are finished."""
    agree, end = _orders_agree(finished), lambda belief, place: values(finished, "raw", "0", belief, "brier", place)
    return fill(
        TEMPLATE,
        "open",
        how_many="the paper's six sets" if len(finished) == 6 else f"{len(finished)} of the paper's six sets",
        names=", ".join(finished),
        cuts=lambda growth, over="raw": _in_words(
            {tree: gain_of_cuts(finished, growth, tree, "eb", over=over) for tree in SIZES}
        ),
        instead=lambda growth: _in_words({"0": gain_of_cuts(finished, growth, "0", "raw", read="eb")}),
        leaves=lambda growth, tree: values(finished, growth, tree, "leaves").mean(),
        likelihood=_in_words({tree: gain_of_likelihood(finished, tree, "eb") for tree in SIZES}),
        width=lambda belief: (end(belief, 1) - end(belief, 0)).mean(),
        agreed=dict(zip(("square", "plain"), agree, strict=True)),
        n_agreed=len(SIZES) * len(finished),
        cut_gains=lambda *of: " | ".join(gain_cells(gain_of_cuts(finished, *of))),
        likelihood_gains=lambda *of: " | ".join(gain_cells(gain_of_likelihood(finished, *of))),
        mean=lambda tree, belief, key, end: values(finished, "raw", tree, belief, key, int(end)).mean(),
    )


def _in_words(gains: Mapping[str, np.ndarray]) -> str:
    names = {tree: "pruned trees" if tree == "pruned" else f"trees of cp = {tree}" for tree in gains}
    return "; ".join(f"{verdict(found)} in {names[tree]} ({in_words(found[:2])})" for tree, found in gains.items())


def _orders_agree(finished: Records) -> np.ndarray:
    """How often the mean squared distance orders the beliefs as the Brier score, and how often the plain mean."""
    agree = np.zeros(2, int)
    for tree in SIZES:
        apart = {}
        for kind, path in {"brier": ("scores", 1), "plain": ("distance", 0), "square": ("distance", 1)}.items():
            one, other = (values(finished, "raw", tree, belief, *path) for belief in BELIEFS)
            apart[kind] = np.sign(one - other)
        agree += [(apart[kind] == apart["brier"]).sum() for kind in ("square", "plain")]
    return agree
