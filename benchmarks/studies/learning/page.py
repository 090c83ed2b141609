"""The page of the study of learning, made of its cells."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from benchmarks.studies.learning.instead import instead_section
from benchmarks.studies.learning.methods import MEASURES, duel, how_many, largest, markdown, table
from benchmarks.studies.learning.noise import noise_section

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
TRIED = """
## What was tried against the pool's worst sets

In a trial beside the study: log loss as a share of that of `P`, five folds of wine, balance-scale and dermatology, two
of autos, breast-w, cmc, glass, heart-c, hepatitis, ionosphere, sonar, spect, tic-tac-toe, vehicle-statlog and wdbc; the
median is of the fifteen. What is chosen or averaged is the pool and `P`.

|  | median | wine | balance-scale | dermatology |
|---|---|---|---|---|
| the pool | 0.958 | 1.227 | 1.161 | 1.131 |
| the one that is better in a cross-validation | 0.976 | 1.119 | 1.000 | 1.044 |
| the pool, unless `P` is better there by a standard error | 0.976 | 1.242 | 1.000 | 1.131 |
| an average, weighted there, with a prior worth one row each | 0.967 | 1.081 | 1.001 | 1.051 |
| the same, worth four rows | 0.970 | 1.073 | 1.007 | 1.048 |
| the pool with a number per class for its odds against the others | 0.955 | 1.290 | 0.962 | 1.129 |

A prior of the pool's numbers four times as strong: wine 1.158, but balance-scale 1.269 and dermatology 1.170. Adopted
is the average with a prior worth one row each: `stack_combiners`. With the calibrated means of `default_candidates` for
`P` it is at 1.139 on wine and 1.070 on dermatology (the choice: 1.200 and 1.081), where a fold has one or two errors.
An average costs more on small sets that the pool does well on (ionosphere 0.842 to 0.876): it is no default.

The cells of bootstrapped forests are of learning before its rows were taken in parts, which changes nothing of so
few rows but the steps: on wine and dermatology the pool's log loss differs by .2 % at most. Those of trees that saw
the whole sample are newer, and have the average (`blend`) and the adaptive sets as further rows.
"""


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    parts = [part for part in TITLES if any(cell.part == part for cell in found)]
    lines = [
        "# What learning the combination brings",
        "",
        "Made by `python -m benchmarks learning --data FOLDER`; "
        "every (set, fold) is a line of `cells.jsonl.gz`. Forests of",
        "200 trees, folds of a five-fold cross-validation of at most 4000 rows; everything is learned on training rows",
        "whose counts do not know their labels. Wins : losses over sets, of means over folds; the median relative gain",
        "of log loss and Brier score, the median difference of the others; **bold** where a signed-rank test over the",
        "sets tells the two apart (p < .05, not corrected for the number of comparisons). AUC of more classes is one",
        "against the rest; u65 and u80 are of the sets with the highest expected utility. Log loss takes a probability",
        "below 1e-15 for 1e-15; *clipped*, below 1e-6 for 1e-6. The mean gives many a zero, so that its log loss, and",
        "what is gained over it, depends on that number. The sets that nothing was developed on stand first.",
        "",
        "Conformal sets break ties at random. Cells from before their seed was set would not come out the same twice:",
        "all that are kept are of that kind, and differ in those rows alone.",
        "",
    ]
    run = {name for cell, record in found.items() if cell.part in TITLES for name in record["methods"]}
    lines += [f"* *{name}*: {meaning}." for name, meaning in MEANINGS.items() if name in run]
    for part in parts:
        lines += ["", *_part(part, {cell: record for cell, record in found.items() if cell.part == part})]
    if any(cell.part == "instead" for cell in found):
        lines += ["", *instead_section(found)]
    if noise := {cell: record for cell, record in found.items() if cell.part == "noise"}:
        lines += ["", *noise_section(noise)]
    return "\n".join(lines) + "\n" + TRIED


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
