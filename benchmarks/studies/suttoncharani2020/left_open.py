"""What Sutton-Charani 2020 left open, on its own sets: gains of cuts, likelihood-based beliefs, distances.

    python -m benchmarks suttoncharani2020 --parts open [--data FOLDER] [--sets NAME ...]

The study's protocol once: one ten-fold cross-validation in float64, with the folds of the study's
first. Trees of its six complexities are grown in six ways (`grow_by_gain`). In the leaves of each:

* probabilities: relative frequencies, and those smoothed by empirical Bayes;
* beliefs: the paper's predictive one, and the likelihood's (`jaxunc.scorers.likelihood_mass`). Each has the scores of
  its pignistic probabilities, the ranges of the metrics over its interval of class 1, its mean ignorance, and its mean
  distance to the class that came, plain and squared (`jousselme_distance`).

A cell is a fold of a set, of the first six ways together (part ``open``) or of one further gain (``open GAIN``).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold

import jaxunc as ju
from benchmarks.cells import Journal, run_missing
from benchmarks.data import DataSet, load
from benchmarks.studies.suttoncharani2020.beliefs import interval_log_loss, jousselme_distance, predictive_mass
from benchmarks.studies.suttoncharani2020.methods import (
    CLIP,
    COMPLEXITIES,
    N_FOLDS,
    Cell,
    columns,
    measures,
    rounded,
)
from benchmarks.studies.suttoncharani2020.methods import SETS as PAPER_SETS
from benchmarks.studies.suttoncharani2020.methods import TREES as ALL_TREES
from benchmarks.studies.suttoncharani2020.trees import (
    ENTROPY,
    EVIDENTIAL,
    GROWTHS,
    PrunedTree,
    best_cp,
    grow_by_gain,
    prune,
)
from jaxunc.intervals import Interval

SETS = tuple(name for name, printed in PAPER_SETS.items() if printed)
"""The six sets of the paper."""
GROUPS = {"open": GROWTHS} | {f"open {growth}": (growth,) for growth in (*EVIDENTIAL, ENTROPY)}
"""The ways to grow trees that share cells, by the name of their part."""


def cells(name: str) -> list[Cell]:
    """The folds of one cross-validation."""
    return [Cell(name, 0, fold) for fold in range(N_FOLDS)]


def run_cell(cell: Cell, data: DataSet, growths: Sequence[str] = GROWTHS) -> dict:
    """{growth: {tree: what `evaluate` finds}}."""
    X = columns(data)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=cell.repeat)
    train, test = list(folds.split(X, data.y))[cell.fold]
    found = {}
    for growth in growths:
        grower = partial(grow_by_gain, growth=growth)
        model = grower(X[train], data.y[train])
        chosen = best_cp(X[train], data.y[train], model, cell.repeat, grower)
        trees = zip(ALL_TREES, (*COMPLEXITIES, chosen), strict=True)
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
        found[name] = rounded(measures(p[place], y))
    masses = (predictive_mass(counts, prior), ju.scorers.likelihood_mass(counts))
    for name, mass in zip(BELIEFS, masses, strict=True):
        found[name] = believed(np.asarray(mass), place, y)
    return found


def believed(mass: np.ndarray, place: np.ndarray, y: np.ndarray) -> dict:
    """How good the leaves' beliefs are for instances in these leaves."""
    p = np.asarray(ju.belief.pignistic(mass))[:, 1]
    interval = Interval(mass[place, 2], np.minimum(mass[place, 2] + mass[place, 3], 1.0))
    truth = np.eye(4)[1 + y]
    distance = np.asarray(jousselme_distance(mass[place], truth))
    return {
        "scores": rounded(measures(p[place], y)),
        "log_loss": rounded(interval_log_loss(interval, y, clip=CLIP)),
        "brier": rounded(ju.metrics.interval_brier(interval, y)),
        "ignorance": rounded([mass[place, 3].mean(), (mass[place, 3] ** 2).mean()]),
        "distance": rounded([distance.mean(), (distance**2).mean()]),
    }


def journal(out: Path, name: str, group: str = "open") -> Journal:
    """The finished cells of a set, of one group of growths."""
    return Journal(out, group, cells(name), partial(_is_sound, growths=GROUPS[group]))


def _is_sound(record: dict, cell: Cell, growths: Sequence[str]) -> bool:
    trees = [tree for growth in growths for tree in record["growths"][growth].values()]
    return len(trees) == len(growths) * len(ALL_TREES) and all(
        len(tree[name]) == 3 if name in ESTIMATES else len(tree[name]["distance"]) == 2
        for tree in trees
        for name in (*ESTIMATES, *BELIEFS)
    )


def run_all(sets: Sequence[str], data_folder: str | None, out: Path) -> None:
    """Run what is missing."""
    for group, growths in GROUPS.items():
        journals = {name: journal(out, name, group) for name in sets if name in SETS}
        run_missing(journals, lambda name: load(name, data_folder), partial(run_cell, growths=growths))


def records(out: Path) -> dict[str, list[dict]]:
    """The finished sets; of further gains those that are finished on all of them."""
    groups = {group: _growths_of(out, group) for group in GROUPS}
    found = groups.pop("open")
    for further in groups.values():
        if found.keys() <= further.keys():
            for name, records in found.items():
                found[name] = [one | other for one, other in zip(records, further[name], strict=True)]
    return {name: [{"growths": one} for one in records] for name, records in found.items()}


def _growths_of(out: Path, group: str) -> dict[str, list[dict]]:
    """{set: what each fold found by the growths of a group}, of finished sets."""
    found = {}
    for name in SETS:
        folds = journal(out, name, group).found.values()
        if len(folds) == N_FOLDS:
            found[name] = [record["growths"] for record in folds]
    return found


# The section of the page of Sutton-Charani 2020 about what its section 7 left open, made of the cells.

ESTIMATES = ("raw", "eb")
BELIEFS = ("correction", "likelihood")
GAINS = {
    "level": "prior of each level",
    "twice": "prior of a first tree",
    "evidential": "evidential, λ = 1/2",
    "quarter": "evidential, λ = 1/4",
    "entropy": "entropy",
}
EVIDENTIAL_IN_WORDS = {
    "evidential": "**The evidential gain** of its reference 7, with λ = 1/2 (what its authors took is not known here).",
    "quarter": "**The same with λ = 1/4**, by which a node more has to win half a bit at least.",
}
LATER = (
    "λ = 1/2 was set beforehand. λ = 1/4 was added before any evidential score was looked at, as λ = 1/2 lets "
    "balanced nodes be cut at no cost; entropy was added after those of λ = 1/2 were seen, as a control. No verdict is "
    "corrected for how many there are."
)
SIZES = ("0", "pruned")
Records = Mapping[str, Sequence[Mapping]]


def values(finished: Records, growth: str, tree: str, *path) -> np.ndarray:
    """``[sets]`` the mean over the folds of what stands at a path in each tree."""

    def at(found, keys):
        for key in keys:
            found = found[key]
        return found

    return np.array(
        [np.mean([at(record["growths"][growth][tree], path) for record in records]) for records in finished.values()]
    )


def gain_of_cuts(
    finished: Records, growth: str, tree: str, estimate: str, *, over: str = "raw", read: str | None = None
) -> np.ndarray:
    """``[measures sets]`` what a gain wins over another (CART's): log loss, Brier score, AUC; positive is better.

    Leaves are read by ``estimate``, those of the other by ``read`` if it is given.
    """
    ours = [values(finished, growth, tree, estimate, m) for m in range(3)]
    apart = np.array(ours) - [values(finished, over, tree, read or estimate, m) for m in range(3)]
    return apart * np.array([-1, -1, 1])[:, None]


def gain_of_likelihood(finished: Records, tree: str, other: str) -> np.ndarray:
    """``[measures sets]`` what the likelihood's pignistic probabilities win over another estimate's, CART's trees."""
    path = (other, "scores") if other in BELIEFS else (other,)
    ours = [values(finished, "raw", tree, "likelihood", "scores", m) for m in range(3)]
    theirs = [values(finished, "raw", tree, *path, m) for m in range(3)]
    return (np.array(ours) - np.array(theirs)) * np.array([-1, -1, 1])[:, None]


def verdict(gains: np.ndarray) -> str:
    """Whether gains ``[measures sets]`` of both losses agree on all sets."""
    if (gains[:2] > 0).all():
        return "it helps"
    return "it harms" if (gains[:2] < 0).all() else "it does not help reliably"


def section(finished: Records) -> str:
    """The section; of the sets that are finished."""
    cuts = {tree: gain_of_cuts(finished, "level", tree, "eb") for tree in SIZES}
    likelihood = {tree: gain_of_likelihood(finished, tree, "eb") for tree in SIZES}
    agree = _orders_agree(finished)
    parts = [
        "## What the paper left open",
        "Made by `python -m benchmarks suttoncharani2020 --parts open`: the protocol once, a single ten-fold "
        f"cross-validation of {_how_many(finished)} ({', '.join(finished)}; `banknote-eb` is `banknote-damaged`). "
        "Counts are sets where the first is better. *Helps* and *harms* are said where log loss and Brier score agree "
        "on all sets, as a two-sided sign test at .05 asks of six; with fewer even that could be chance. Differences "
        "within the noise of the folds are counted like others.",
        f"* **Corrected gains.** With the prior of each level, and leaves smoothed: {_in_words(cuts)}.",
        *(
            _evidential(finished, growth, told)
            for growth, told in EVIDENTIAL_IN_WORDS.items()
            if growth in _growths(finished)
        ),
        *([LATER] if "entropy" in _growths(finished) else []),
        "* **Beliefs from the likelihood.** Against the paper's smoothed probabilities, by pignistic probabilities: "
        f"{_in_words(likelihood)}. {_widths(finished)}",
        "* **Jousselme's distance.** It does not help as a score: for two classes its mean square is the Brier score "
        f"of the pignistic probabilities and the mean of m(Ω)²/4. It puts both beliefs in the order of that Brier "
        f"score in {agree[0]} of {agree[1]} sets and sizes; the plain mean, no proper score, in {agree[2]}.",
        "Other gains against CART's, in the same leaves' reading: mean gain over the sets, and on how many there "
        "is one; the number of leaves beside CART's.\n\n" + _cuts_table(finished),
        "The likelihood's pignistic probabilities (CART's trees) against others: mean gain, and on how many sets.\n\n"
        + _likelihood_table(finished),
        "Both beliefs in CART's trees, means over the sets: ignorance, ranges and distances to the class that came.\n\n"
        + _beliefs_table(finished),
    ]
    return "\n\n".join(parts)


def _in_words(gains: Mapping[str, np.ndarray]) -> str:
    said = []
    for tree, found in gains.items():
        name = "pruned trees" if tree == "pruned" else f"trees of cp = {tree}"
        n = found.shape[1]
        (log_loss, brier), (d_log, d_brier) = (found[:2] > 0).sum(axis=1), found[:2].mean(axis=1)
        said.append(
            f"{verdict(found)} in {name} (log loss better on {log_loss} of {n} sets, "
            f"{d_log:+.4f} in the mean; Brier score on {brier}, {d_brier:+.4f})"
        )
    return "; ".join(said)


def _growths(finished: Records) -> list[str]:
    """The gains that the records hold, beside CART's."""
    return [growth for growth in GAINS if growth in next(iter(finished.values()))[0]["growths"]]


def _evidential(finished: Records, growth: str, told: str) -> str:
    smoothed = {tree: gain_of_cuts(finished, growth, tree, "eb") for tree in SIZES}
    instead = {"0": gain_of_cuts(finished, growth, "0", "raw", read="eb")}
    said = [
        f"* {told} With smoothed leaves, against CART's: {_in_words(smoothed)}. {_leaves(finished, growth)} In the "
        f"place of smoothing, its frequencies against CART's smoothed leaves: {_in_words(instead)}."
    ]
    if "entropy" in _growths(finished):
        plain = {tree: gain_of_cuts(finished, growth, tree, "eb", over="entropy") for tree in SIZES}
        said.append(f"Against plain entropy, smoothed both, which tells what ignorance does: {_in_words(plain)}.")
    return " ".join(said)


def _how_many(finished: Records) -> str:
    return "the paper's six sets" if len(finished) == 6 else f"{len(finished)} of the paper's six sets"


def _leaves(finished: Records, growth: str) -> str:
    """How many leaves the trees of a gain and CART's have."""
    (large, pruned), (cart, cart_pruned) = (
        [values(finished, of, tree, "leaves").mean() for tree in SIZES] for of in (growth, "raw")
    )
    return (
        f"It has {large:.1f} leaves at cp = 0 in the mean ({pruned:.1f} pruned), CART {cart:.1f} ({cart_pruned:.1f})."
    )


def _widths(finished: Records) -> str:
    width = {}
    for belief in BELIEFS:
        low, high = (values(finished, "raw", "0", belief, "brier", end) for end in (0, 1))
        width[belief] = (high - low).mean()
    return (
        f"Its range of the Brier score is {width['likelihood']:.3f} wide at cp = 0, that of the paper's belief "
        f"{width['correction']:.3f}."
    )


def _orders_agree(finished: Records) -> tuple[int, int, int]:
    """How often mean squared distance orders the beliefs as the Brier score, of how many, and the plain mean."""
    agree = np.zeros(2, int)
    for tree in SIZES:
        apart = {}
        for kind, path in {"brier": ("scores", 1), "plain": ("distance", 0), "square": ("distance", 1)}.items():
            one, other = (values(finished, "raw", tree, belief, *path) for belief in BELIEFS)
            apart[kind] = np.sign(one - other)
        agree += [(apart[kind] == apart["brier"]).sum() for kind in ("square", "plain")]
    return int(agree[0]), len(SIZES) * len(finished), int(agree[1])


def _counted(gains: np.ndarray) -> list[str]:
    return [f"{of.mean():+.4f} ({(of > 0).sum()}/{len(of)})" for of in gains]


def _cuts_table(finished: Records) -> str:
    lines = []
    for growth in _growths(finished):
        for estimate, leaves in (("raw", "frequencies"), ("eb", "smoothed")):
            for tree in SIZES:
                sizes = [values(finished, of, tree, "leaves").mean() for of in (growth, "raw")]
                counted = _counted(gain_of_cuts(finished, growth, tree, estimate))
                lines.append([GAINS[growth], leaves, tree, *counted, f"{sizes[0]:.1f}, {sizes[1]:.1f}"])
    return _table(["gain by", "leaves read as", "trees", "log loss", "Brier score", "AUC", "leaves"], lines)


def _likelihood_table(finished: Records) -> str:
    others = {"raw": "frequencies", "eb": "smoothed", "correction": "the paper's belief, pignistic"}
    lines = [
        [name, tree, *_counted(gain_of_likelihood(finished, tree, other))]
        for other, name in others.items()
        for tree in SIZES
    ]
    return _table(["against", "trees", "log loss", "Brier score", "AUC"], lines)


def _beliefs_table(finished: Records) -> str:
    lines = []
    for belief in BELIEFS:
        for tree in SIZES:
            mean = {
                path: values(finished, "raw", tree, belief, *path).mean()
                for path in [(key, i) for key in ("ignorance", "log_loss", "brier", "distance") for i in (0, 1)]
            }
            ranges = [f"{mean[key, 0]:.3f} to {mean[key, 1]:.3f}" for key in ("log_loss", "brier")]
            distances = [f"{mean['distance', i]:.4f}" for i in (0, 1)]
            lines.append([belief, tree, f"{mean['ignorance', 0]:.4f}", *ranges, *distances])
    head = ["belief", "trees", "m(Ω)", "log loss", "Brier score", "distance", "squared"]
    return _table(head, lines)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *lines])
