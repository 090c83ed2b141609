"""The page of the study of Costa, Verwer and Blockeel 2013: its tables beside ours, and what it does not compare."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.studies.costa2013.numbers import (
    AVERAGES,
    DUELS,
    METHODS,
    Duel,
    Finished,
    against,
    average,
    brier_by_class,
    called_shares,
    duel,
    p_in_words,
    records,
    values,
)
from benchmarks.studies.costa2013.reading import filled, reading
from benchmarks.studies.costa2013.sets import FOLDS_RUN, SETS, TOO_WIDE

TITLES = {"brier": "Brier score", "auc": "AUC", "reliability": "AUC reliability", "accuracy": "accuracy"}
RIVALS = {
    "brier": ("tree", "bag", "tree_laplace", "bag_laplace", "many", "many_laplace"),
    "auc": ("tree", "bag", "tree_laplace", "bag_laplace", "many", "many_laplace"),
    "reliability": ("tree", "bag", "kk", "tree_laplace", "bag_laplace", "many", "many_laplace"),
}
ACCURACY_RIVALS = ("tree", "bag", "bag_laplace", "many", "many_laplace")
FOLD_RIVALS = ("tree", "bag", "tree_laplace", "bag_laplace")
READ_OUTS = {
    "frequencies": "relative frequencies",
    "laplace": "Laplace (the paper)",
    "m": "m-estimate: as many instances as classes, by the prior",
    "eb": "empirical Bayes (prior of the tree's leaves)",
    "pool": "pooled leaves",
    "eva": "evidence accumulation",
}
INTRODUCTION = """
Made by `python -m benchmarks costa2013` in less than an hour of a part of one core: {n_sets} sets, those up to
2000 instances ({n_loo}) by leave-one-out, as in the paper, the larger ones by ten folds ({part}). The paper says "48
randomly selected UCI datasets" and names none, nor the software's settings beside information gain and no pruning: our
sets are others{left_out}, so directions and sizes of differences can be compared, not values.

* **TPCE**: the instance is inserted with each of the k labels, and the Laplace estimates of the k leaves are averaged.
  Binary tests; a nominal test is one value against the rest; thresholds lie between values of different classes; at
  least two instances on each side, the inserted one among them. A missing value is a value of its own, or below all
  numbers. X is compared as float32. Clus, the paper's software, tests a nominal feature by subsets of its values.
* **tree**: the leaf's frequencies in the tree without the instance (the paper's Clus-Orig). **bag**: averaged
  frequencies of k bagged trees (Clus-Ens); under leave-one-out an instance's bag is the first k of some dozens of
  bootstrap samples that it is not in. (Clus's own ensembles answer by majority vote; which of both the paper took it
  does not say.) **K&K**: Kukar and Kononenko's reliability, by the J-divergence of
  Laplace-smoothed leaves; the paper does not print its own.
* **tree, Laplace** and **bag, Laplace** are the same leaves with one instance of each class added, which is what TPCE
  does to its own. The paper does not compare with them. **bag of 20**: as many trees whatever k, under leave-one-out.
* Wins/ties/losses count sets; p is that of a two-sided Wilcoxon signed-rank test, not corrected for the number of
  tests, as in the paper. The Brier score adds over classes; AUC is the mean of each class against the rest.
"""
FOLDS = """
Leaving one out has a known fault: the instance's own label is missing from its leaf, so where nothing can be learned
its class is the *less* probable one, and areas fall below one half. So here are the same sets by ten folds, all test
instances of a set ranked together. (Training sets are a tenth smaller there; which of the two makes the difference is
not separated.)
"""
OWN = """
The paper keeps the inserted instance's values from making thresholds, and draws why: a threshold beside the instance
would cut it off with whatever label it was given. Here they may, on the {n} sets with numeric features
(leave-one-out{but}), by growing each path anew. *Won over by every label*: the share of instances for which the tree of
each label predicts that label (of tied classes the first), so that the leaves contradict each other as much as they
can.
"""
READ = """
The same leaves, read in other ways, by ten folds; the prior and the one of empirical Bayes (Sutton-Charani 2020) are of
the training instances. The last columns compare transduction with the single tree under the same reading.
"""
BATCH = """
The conclusion's shortcut inserts a whole test set at once, k times, each instance with another label in every tree. By
ten folds, where a test set is a tenth. ("Better results than a standard tree learner, but slightly worse than standard
bagging", in ranking.)
"""
CALLED = """
Kukar and Kononenko call predictions reliable above a threshold that is learned from predictions whose outcome is known:
here from one half of the instances for the other, both ways, under leave-one-out. Where the threshold that tells most
has fewer right predictions above it than below, none is called so. Means over the sets; accuracies of sets where any
are called so.
"""


def study_page(finished: Finished, out: Path, further: Sequence[str] = ()) -> str:
    """The page, with further sections; its figures are written to ``out``."""
    draw_all(finished, out)
    n_loo = len(records(finished, "loo"))
    part = "; ".join(f"of {name} {run} of the ten" for name, run in FOLDS_RUN.items() if name in finished)
    missing = [name for name in SETS if name not in finished]
    left_out = f" ({', '.join(missing)} of our list took too long)" if missing else ""
    parts = [
        "# How sure is a tree? The study of Costa, Verwer and Blockeel 2013",
        filled(INTRODUCTION.format(n_sets=len(finished), n_loo=n_loo, part=part or "all of them", left_out=left_out)),
        "## What holds",
        reading(finished),
    ]
    for number, (measure, rivals) in enumerate(RIVALS.items()):
        parts += [f"## Table {number + 1}: {TITLES[measure]}", _duels(finished, measure, rivals)]
        if measure == "brier":
            parts.append(_scales(finished))
        name = f"figure-{number + 4}"
        parts += [
            f"![{TITLES[measure]} of TPCE against its rivals, a point for each set]({name}.svg)",
            f"Figure {number + 4}: TPCE against its rivals. Filled where TPCE is better.",
        ]
    parts += [
        "## Accuracy",
        "Which the paper does not compare. (Smoothing a single tree changes no class.)",
        _duels(finished, "accuracy", ACCURACY_RIVALS),
    ]
    parts += ["## Ten folds instead of leaving one out", filled(FOLDS), _folds(finished)]
    parts += ["## Thresholds of its own (the paper's Figure 3)", _own(finished)]
    parts += ["![Brier score, and share won over by every label, with and without own thresholds](figure-3.svg)"]
    parts += ["## Other readings of the leaves", filled(READ), _read_outs(finished)]
    parts += ["## A whole batch at once", filled(BATCH), _batch(finished)]
    parts += ["## Called reliable", filled(CALLED), _called(finished), *further]
    for measure, rivals in RIVALS.items():
        parts += [f"## {TITLES[measure]} of every set", _sets(finished, measure, ("tpce", *rivals))]
    return "\n\n".join(parts) + "\n"


def _duels(finished: Finished, measure: str, rivals: Sequence[str]) -> str:
    lines = []
    for rival in rivals:
        of, printed = duel(finished, "paper", measure, rival), DUELS.get((measure, rival))
        line = [METHODS[rival], of.score, p_in_words(of.p), f"{of.mean:.4f}", f"{of.other:.4f}"]
        if printed is None:
            line += [""] * 4
        else:
            shown = [f"{AVERAGES[measure][name]:g}" for name in ("tpce", rival)]
            line += [f"{printed.wins}/{printed.ties}/{printed.losses}", printed.p, *shown]
        lines.append(line)
    head = ["TPCE against", "wins/ties/losses", "p", "mean TPCE", "mean of it", "paper: w/t/l", "p", "TPCE", "of it"]
    shown = len(head) if measure in AVERAGES else 5
    return table(head[:shown], [line[:shown] for line in lines])


def _scales(finished: Finished) -> str:
    shown = ", ".join(
        f"{METHODS[name]} {brier_by_class(finished, 'paper', name):.3f} (paper {AVERAGES['brier'][name]:.3f})"
        for name in ("tpce", "tree", "bag")
    )
    return filled(f"Divided by the number of classes, which the paper's sizes suggest: {shown}.")


def _folds(finished: Finished) -> str:
    lines = []
    both = {name: found for name, found in finished.items() if "loo" in found}
    for measure in RIVALS:
        for rival in FOLD_RIVALS if measure != "reliability" else (*FOLD_RIVALS, "kk"):
            line = [TITLES[measure] if rival == "tree" else "", METHODS[rival]]
            for sets, protocol in ((both, "loo"), (both, "folds"), (finished, "folds")):
                of = duel(sets, protocol, measure, rival)
                line += [f"{of.score}, {p_in_words(of.p)}", f"{of.mean:.4f}, {of.other:.4f}"]
            lines.append(line)
    head = ["", "TPCE against", f"leave-one-out, {len(both)} sets: w/t/l, p", "means"]
    head += [f"folds, the same {len(both)}: w/t/l, p", "means", f"folds, all {len(finished)}: w/t/l, p", "means"]
    return table(head, lines)


def _own(finished: Finished) -> str:
    there = {name: found for name, found in finished.items() if "own" in found}
    but = [name for name in TOO_WIDE if name in finished]
    head = ["", *TITLES.values(), "won over by every label"]
    lines = []
    for protocol, method in (("loo", "tpce"), ("own", "tpce_own")):
        shown = [f"{average(there, protocol, method, measure):.4f}" for measure in TITLES]
        agreeing = np.mean([found[protocol]["agreeing"] for found in there.values()])
        lines.append([METHODS[method], *shown, f"{agreeing:.1%}"])
    of = [own_duel(there, measure) for measure in TITLES]
    lines.append(["own against not: w/t/l, p", *(f"{d.score}, {p_in_words(d.p)}" for d in of), ""])
    text = filled(OWN.format(n=len(there), but=f"; not {', '.join(but)}, for its size" if but else ""))
    return f"{text}\n\n{table(head, lines)}"


def own_duel(there: Finished, measure: str) -> Duel:
    """Own thresholds against those of the training set."""
    return against(values(there, "own", "tpce_own", measure), values(there, "loo", "tpce", measure), measure)


def _read_outs(finished: Finished) -> str:
    lines = []
    for rule, said in READ_OUTS.items():
        own = "tpce" if rule == "laplace" else f"tpce_{rule}"
        tree = "tree" if rule == "frequencies" else f"tree_{rule}"
        shown = [f"{average(finished, 'folds', own, measure):.4f}" for measure in RIVALS]
        if rule in ("pool", "eva"):
            lines.append([said, *shown, *[""] * 6])
            continue
        of = [duel(finished, "folds", measure, tree, own) for measure in RIVALS]
        lines.append([said, *shown, *(f"{d.other:.4f}" for d in of), *(f"{d.score}, {p_in_words(d.p)}" for d in of)])
    head = ["reading", *(f"TPCE: {TITLES[m]}" for m in RIVALS), *(f"tree: {TITLES[m]}" for m in RIVALS)]
    return table([*head, *(f"{TITLES[m]}: w/t/l, p" for m in RIVALS)], lines)


def _batch(finished: Finished) -> str:
    lines = []
    for rival in ("tree", "tree_laplace", "bag", "bag_laplace", "tpce"):
        line = [METHODS[rival]]
        for measure in RIVALS:
            of = duel(finished, "folds", measure, rival, "batch")
            line += [f"{of.score}, {p_in_words(of.p)}", f"{of.mean:.4f}, {of.other:.4f}"]
        lines.append(line)
    head = ["batch against"]
    for measure in RIVALS:
        head += [f"{TITLES[measure]}: w/t/l, p", "means"]
    return table(head, lines)


def _called(finished: Finished) -> str:
    lines = []
    for method, shares in called_shares(finished).items():
        lines.append([METHODS[method], *(f"{share:.1%}" for share in shares)])
    head = ["reliability", "called reliable", "right among them", "right among the others", "right of all"]
    return table(head, lines)


def _sets(finished: Finished, measure: str, methods: Sequence[str]) -> str:
    found = {method: values(finished, "paper", method, measure) for method in methods}
    lines = []
    for place, (name, record) in enumerate(records(finished, "paper").items()):
        size = [str(record[key]) for key in ("n", "features", "classes")]
        lines.append([name, *size, *(_number(of[place]) for of in found.values())])
    return table(["set", "n", "features", "classes", *(METHODS[method] for method in methods)], lines)


def _number(value: float) -> str:
    return f"{value:.4f}" if np.isfinite(value) else "–"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


# Figures of the study of Costa, Verwer and Blockeel 2013: a point for each set.

FIGURES = {
    "figure-4": ("brier", "Brier score", ("tree", "bag", "tree_laplace", "bag_laplace")),
    "figure-5": ("auc", "AUC", ("tree", "bag", "tree_laplace", "bag_laplace")),
    "figure-6": ("reliability", "AUC reliability", ("tree", "bag", "kk", "tree_laplace", "bag_laplace")),
}
BETTER, WORSE = "#0072B2", "#D55E00"


def draw_all(finished: Finished, out: Path) -> None:
    """Figures 4 to 6, and what own thresholds do."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "jaxunc", "font.size": 9}):
        for name, (measure, title, rivals) in FIGURES.items():
            draw_duels(finished, measure, title, rivals, out / f"{name}.svg")
        draw_own(finished, out / "figure-3.svg")


def draw_duels(finished: Finished, measure: str, title: str, rivals: Sequence[str], path: Path) -> None:
    """TPCE against each rival."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(rivals), 2.9), layout="constrained")
    own = values(finished, "paper", "tpce", measure)
    others = {rival: values(finished, "paper", rival, measure) for rival in rivals}
    ends = np.nanmin([own, *others.values()]), np.nanmax([own, *others.values()])
    for place, (rival, other) in enumerate(others.items()):
        ax = figure.add_subplot(1, len(rivals), place + 1)
        _scatter(ax, other, own, own < other if measure == "brier" else own > other, ends)
        ax.set(xlabel=METHODS[rival], ylabel="TPCE" if place == 0 else "", title=title if place == 0 else "")
    figure.savefig(path, metadata={"Date": None})


def draw_own(finished: Finished, path: Path) -> None:
    """Brier score, and how many instances every label wins over, with own thresholds against without."""
    from matplotlib.figure import Figure

    there = {name: found for name, found in finished.items() if "own" in found}
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    pairs = {
        "Brier score": [values(there, *of, "brier") for of in (("loo", "tpce"), ("own", "tpce_own"))],
        "share won over by every label": [
            np.array([found[protocol]["agreeing"] for found in there.values()]) for protocol in ("loo", "own")
        ],
    }
    for place, (title, (without, own)) in enumerate(pairs.items()):
        ax = figure.add_subplot(1, 2, place + 1)
        ends = min(without.min(), own.min()), max(without.max(), own.max())
        _scatter(ax, without, own, own < without, ends)
        ax.set(xlabel="thresholds of the training set", ylabel="own thresholds" if place == 0 else "", title=title)
    figure.savefig(path, metadata={"Date": None})


def _scatter(ax, x: np.ndarray, y: np.ndarray, better: np.ndarray, ends: tuple[float, float]) -> None:
    """Points around the diagonal; those where the method on the y axis is better filled, the others open."""
    there = np.isfinite(x) & np.isfinite(y)
    margin = 0.04 * (ends[1] - ends[0])
    ends = (ends[0] - margin, ends[1] + margin)
    ax.plot(ends, ends, color="#999999", linewidth=0.8, zorder=1)
    ax.scatter(x[there & better], y[there & better], s=14, color=BETTER, zorder=2)
    ax.scatter(x[there & ~better], y[there & ~better], s=14, facecolors="none", edgecolors=WORSE, zorder=2)
    ax.set(xlim=ends, ylim=ends, aspect="equal")
    ax.title.set_fontsize(9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
