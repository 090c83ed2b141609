"""The page of the study of learning, made of its cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from benchmarks.pages import filled
from benchmarks.studies.learning.instead import instead_section
from benchmarks.studies.learning.methods import MEASURES, duel, how_many, largest, markdown, paired, table
from benchmarks.studies.learning.noise import noise_section
from benchmarks.studies.learning.shrinkage import shrinkage_section

TEMPLATE = Path(__file__).with_name("page.md")
PICTURE = "gain.svg"
DRAWN = {
    "P": ("the best of sixteen calibrators", {"marker": "o", "color": "none", "edgecolor": "#c2571a", "s": 30}),
    "pool": ("the learned pool", {"marker": "o", "color": "#0b5fa5", "s": 38}),
}
"""What the picture shows, with its words and marks."""
TITLES = {
    "other-sets": "Random forests, grown out, on sets that nothing here was developed on",
    "development": "Random forests, grown out, on the sets of development, by both clips",
    "grown-out": "Random forests, grown out, on the sets of development",
    "leaves-of-four": "Random forests, four instances in a leaf",
    "extra-trees": "Extremely randomised trees, bootstrapped, grown out",
    "whole-sample": "Extremely randomised trees without bootstrap, cross-fitted",
    "random-trees": "Random decision trees, own labels left out",
}
MEANINGS = {
    "pool": "`LearnedPool`; both counts where there is a bootstrap",
    "blend": "the pool and a calibrated mean, averaged by a cross-validation on out-of-sample rows: `stack_combiners`",
    "selected": "the pool or a calibrated mean, by cross-validation on rows out of sample: `select_combiner`",
    "pool, in-bag": "`LearnedPool` of in-bag counts",
    "mean": "mean of probabilities, as scikit-learn",
    "P": "the mean and the best of sixteen calibrators (temperature, Platt, vector, one-vs-rest; four clips)",
    "isotonic": "the mean and isotonic regression, clipped to 1/(n + 2)",
    "fixed": "the rule without learned numbers that does best on the out-of-sample rows",
    "temperature": "the mean and one scale",
    "m alone": "mean m-estimate, m and prior learned",
    "m, scale, bias": "the same, calibrated",
    "evidence, scale, bias": "evidence accumulation, calibrated, smoothing and prior learned",
    "tree weights": "a weight per tree, calibrated (fold 0)",
    "leaf counts": "counts of every leaf learned, for the mean (fold 0)",
    "CalibratedClassifierCV, sigmoid": "scikit-learn's, five forests",
    "CalibratedClassifierCV, isotonic": "scikit-learn's, five forests, with isotonic regression",
    "HistGradientBoosting": "scikit-learn's, as it comes",
}


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    by_part = {part: {cell: record for cell, record in found.items() if cell.part == part} for part in TITLES}
    sections = [_part(part, cells) for part, cells in by_part.items() if cells]
    if any(cell.part == "instead" for cell in found):
        sections.append(instead_section(found))
    if any(cell.part == "shrinkage" for cell in found):
        sections.append(shrinkage_section(found))
    if noise := {cell: record for cell, record in found.items() if cell.part == "noise"}:
        sections.append(noise_section(noise))
    run = {name for cells in by_part.values() for record in cells.values() for name in record["methods"]}
    return filled(
        TEMPLATE,
        methods="\n".join(f"* *{name}*: {meaning}." for name, meaning in MEANINGS.items() if name in run),
        sections="\n\n".join("\n".join(lines) for lines in sections),
    )


def draw_gain(found: Mapping[Any, dict], path: Path) -> None:
    """Draw log losses of the first part as shares of the mean's, set by set, in the order of the pool's."""
    frame = table({cell: record for cell, record in found.items() if cell.part == "other-sets"})
    plt.rcParams.update({"svg.hashsalt": "jaxunc", "svg.fonttype": "none", "font.size": 10})
    figure, ax = plt.subplots(figsize=(10, 3.4), layout="constrained")
    pool, mean, names = paired(frame, "pool", "mean", "log_loss_clipped")
    order = np.argsort(pool / mean)
    ax.axhline(1, color="#5c5c5c", linewidth=1)
    ax.vlines(np.arange(len(order)), (pool / mean)[order], 1, color="#0b5fa5", alpha=0.3, linewidth=2.5)
    for method, (label, marks) in DRAWN.items():
        own, mean, _ = paired(frame, method, "mean", "log_loss_clipped")
        ax.scatter(np.arange(len(order)), (own / mean)[order], label=label, zorder=3, **marks)
    ax.set_xticks(np.arange(len(order)), [names[i] for i in order], rotation=90)
    ax.set(ylabel="log loss, of the mean's", ylim=(0, None))
    ax.annotate("the mean, as scikit-learn answers", (0, 1), (0, 4), textcoords="offset points", color="#5c5c5c")
    ax.legend(loc="lower right", frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.02)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _part(part: str, found: Mapping[Any, dict]) -> list[str]:
    frame = table(found)
    methods = [name for name in MEANINGS if name in set(frame["method"])]
    lines = [f"## {TITLES[part]}", "", how_many(found), ""]
    references = ["mean", "P", "isotonic"]
    for measure, title in (("log_loss", "log loss"), ("log_loss_clipped", "log loss, clipped,")):
        if measure in frame:
            lines += markdown(
                [f"{title} of", *(f"against {name}" for name in references)],
                [[f"`{m}`", *(duel(frame, m, r, measure) if m != r else "" for r in references)] for m in methods],
            )
            lines.append("")
    others = [m for m in MEASURES if not m.startswith("log_loss")]
    shown = [m for m in ("pool", "blend", "selected", "P", "isotonic", "fixed", "HistGradientBoosting") if m in methods]
    lines += ["Against the mean, by the other measures:", ""]
    lines += markdown(["", *others], [[f"`{m}`", *(duel(frame, m, "mean", k) for k in others)] for m in shown])
    lines += ["", _worst(frame)]
    lines += ["", *_sets_table(found), "", _seconds(found)]
    return lines


def _worst(frame: pd.DataFrame) -> str:
    found = {name: largest(frame, name, "P", "log_loss") for name in ("pool", "blend", "selected")}
    said = "; ".join(f"`{name}`: {text}" for name, text in found.items() if text)
    return f"Largest log loss as a share of that of `P`: {said}."


def _sets_table(found: Mapping[Any, dict]) -> list[str]:
    rows = [
        {"set": cell.data, "fold": cell.fold, "method": method, "u65": values[0], "u80": values[1]}
        for cell, record in found.items()
        for method, values in record["sets"].items()
    ]
    frame = pd.DataFrame(rows)
    methods = list(dict.fromkeys(frame["method"]))
    lines = [
        "Sets of classes: mean utility, and against the sets of highest expected utility of `pool` (conformal ones by",
        "crepes; adaptive ones by MAPIE, on sets of more than two classes alone):",
        "",
    ]
    body = []
    for method in methods:
        cells = [f"`{method}`"]
        for kind in ("u65", "u80"):
            mean = frame[frame["method"] == method].groupby("set")[kind].mean().mean()
            cells += [f"{mean:.4f}", duel(frame, method, "pool", kind) if method != "pool" else ""]
        body.append(cells)
    return lines + markdown(["sets of", "u65", "against pool", "u80", "against pool"], body)


def _seconds(found: Mapping[Any, dict]) -> str:
    frame = pd.DataFrame([record["seconds"] for record in found.values()])
    kept = [name for name in ("grow", "rows", "rows, both", "pool", "blend", "selected") if name in frame]
    said = ", ".join(f"{name} {frame[name].median():.2f}" for name in kept)
    return f"Seconds in the median, compilation and other jobs beside included: {said}."
