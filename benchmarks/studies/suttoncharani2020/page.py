"""Tables and figures of the study of Sutton-Charani 2020, beside the paper's numbers, and what they say of it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.pages import digits, fill, save, table
from jaxunc.compare import ComplexityDisplay

TEMPLATE = Path(__file__).with_name("page.md")
TREES = ("0", "0.001", "0.005", "0.01", "0.05", "pruned")
MEASURES = ("log_loss", "brier", "auc")
TITLES = {"log_loss": "log loss", "brier": "Brier score", "auc": "AUC"}
DISPLAYED = {"banknote-eb": "banknote-damaged", "banknote": "banknote-right"}
PAPER_SETS = ("banana", "bankLoan", "banknote", "mammo", "pima", "ticTacToe")
PAPER = {
    tuple(name.split(", ")): values
    for name, values in json.loads(Path(__file__).with_name("paper.json").read_text("utf-8")).items()
}
"""Tables 3 to 8: {(measure, estimate): ``[sets trees]``}."""
Records = Mapping[str, Sequence[Mapping]]


def without_running_mean(table) -> np.ndarray:
    """The values whose running means over the rows a table holds."""
    sums = np.asarray(table, float) * np.arange(1, len(table) + 1)[:, None]
    return np.diff(sums, axis=0, prepend=0)


def means(records: Sequence[Mapping], estimate: str, measure: str) -> np.ndarray:
    """``[trees]`` of a set: the mean over repetitions and folds."""
    place = MEASURES.index(measure)
    return np.mean([[record["trees"][tree][estimate][place] for tree in TREES] for record in records], axis=0)


def ranges(records: Sequence[Mapping], metric: str) -> np.ndarray:
    """``[trees 2]`` of a set: mean ends of the range of a metric."""
    return np.mean([[record["trees"][tree]["intervals"][metric] for tree in TREES] for record in records], axis=0)


def study_page(finished: Records, names: Mapping[str, str | None], out: Path, further: Sequence[str] = ()) -> str:
    """The page; its figures are written to ``out``. ``further``: sections of what the paper left open."""
    of_paper = {name: records for name, records in finished.items() if names[name] is not None}
    figures = []
    for figure, (name, measure) in {"Figure 2": ("banana", "log_loss"), "Figure 3": ("bankLoan", "brier")}.items():
        if name in finished:
            file, title = f"{figure.lower().replace(' ', '-')}.svg", TITLES[measure]
            draw(finished[name], measure, out / file)
            figures.append(fill(TEMPLATE, "figure", figure=figure, title=title, name=name, file=file))
    return fill(
        TEMPLATE,
        n_repeats=len(next(iter(finished.values()))) // 10,
        n_sets=len(of_paper),
        apart=lambda way: _apart(of_paper, way),
        outside=lambda measure: outside(of_paper, measure),
        figures="\n\n".join(figures),
        beside_the_paper=lambda measure, estimate: _beside_the_paper(finished, names, measure, estimate),
        others=lambda way, tree: " | ".join(
            gain_cells(np.array([gains(of_paper, way, measure)[:, TREES.index(tree)] for measure in MEASURES]))
        ),
        ranges=_ranges(finished),
        priors=_priors(finished),
        further="\n\n".join(further),
    )


def draw(records: Sequence[Mapping], measure: str, path: Path) -> None:
    """Values before and after smoothing and the range of the interval predictions, against complexity."""
    values = {name: means(records, key, measure).tolist() for name, key in {"before": "raw", "after": "eb"}.items()}
    lower, upper = ranges(records, measure).T.tolist()
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    ComplexityDisplay(TREES, values, lower, upper, measure=TITLES[measure]).plot(figure.add_subplot())
    figure.axes[0].legend(frameon=False)
    save(figure, path)


def _beside_the_paper(finished, names, measure: str, estimate: str) -> str:
    printed = np.array(PAPER[measure, estimate])
    undone = without_running_mean(printed) if measure == "auc" else None
    lines = []
    for name, records in finished.items():
        lines.append([DISPLAYED.get(name, name), "ours", *map(digits, means(records, estimate, measure))])
        if (paper := names[name]) is not None:
            row = PAPER_SETS.index(paper)
            lines.append(["", "paper", *map(digits, printed[row])])
            if undone is not None:
                lines.append(["", "paper, undone", *map(digits, undone[row])])
    return table(["set", "", *TREES], lines)


def gains(finished: Records, estimate: str, measure: str) -> np.ndarray:
    """``[sets trees]``: what a way of smoothing gains over relative frequencies."""
    apart = [means(records, estimate, measure) - means(records, "raw", measure) for records in finished.values()]
    return np.array(apart) * (1 if measure == "auc" else -1)


def outside(finished: Records, measure: str) -> float:
    """The share of trees and folds where the smoothed tree lies outside of its own range."""
    place = MEASURES.index(measure)
    trees = [record["trees"][tree] for records in finished.values() for record in records for tree in TREES]
    ends = np.array([tree["intervals"][measure] for tree in trees])
    smoothed = np.array([tree["eb"][place] for tree in trees])
    return float(np.mean((smoothed < ends[:, 0] - 1e-9) | (smoothed > ends[:, 1] + 1e-9)))


def _apart(of_paper: Records, way: str) -> str:
    """How far the mean gains of a way are from those of empirical Bayes, at most, in large and in pruned trees."""
    places = [TREES.index("0"), TREES.index("pruned")]
    mean, base = (np.array([gains(of_paper, of, m).mean(axis=0)[places] for m in MEASURES]) for of in (way, "eb"))
    return f"{np.abs(mean - base).max():.4f}".lstrip("0")


def gain_cells(gain: np.ndarray) -> list[str]:
    """Of gains ``[measures sets]`` the mean, and on how many sets there is one."""
    return [f"{of.mean():+.4f} ({(of > 0).sum()}/{len(of)})" for of in gain]


def in_words(gain: np.ndarray) -> str:
    """Gains ``[losses sets]`` by both losses."""
    (log_loss, brier), (d_log, d_brier) = (gain > 0).sum(axis=1), gain.mean(axis=1)
    return (
        f"log loss better on {log_loss} of {gain.shape[1]} sets, {d_log:+.4f} in the mean; Brier score on {brier}, "
        f"{d_brier:+.4f}"
    )


def _ranges(finished: Records) -> str:
    lines = []
    for name, records in finished.items():
        for metric, title in {**TITLES, "auc_published": "AUC, published"}.items():
            ends = ranges(records, metric)
            lines.append([DISPLAYED.get(name, name), title, *(f"{low:.3f} to {high:.3f}" for low, high in ends)])
    return table(["set", "metric", *TREES], lines)


def _priors(finished: Records) -> str:
    lines = []
    for name, records in finished.items():
        leaves = np.mean([[record["trees"][tree]["leaves"] for tree in TREES] for record in records], axis=0)
        prior = np.array([[record["trees"][tree]["prior"][:2] for tree in TREES] for record in records])
        weight = np.median(prior.sum(axis=-1), axis=0)
        texts = [f"{n:.1f}, {w:.2g}" if w < 1e6 else f"{n:.1f}, ∞" for n, w in zip(leaves, weight, strict=True)]
        lines.append([DISPLAYED.get(name, name), *texts])
    return table(["set", *TREES], lines)
