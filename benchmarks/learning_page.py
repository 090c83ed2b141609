"""The page of the study of learning: tables made of its cells."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

from benchmarks.learning_instead import INSTEAD
from benchmarks.learning_methods import MEASURES

TITLES = {
    "grown-out": "Random forests, grown out",
    "leaves-of-four": "Random forests, four instances in a leaf",
    "extra-trees": "Extremely randomised trees, bootstrapped, grown out",
    "whole-sample": "Extremely randomised trees without bootstrap, cross-fitted",
    "random-trees": "Random decision trees, own labels left out",
    "other-sets": "Random forests, grown out, on sets that nothing here was developed on",
}
MEANINGS = {
    "pool": "`LearnedPool`; both counts where there is a bootstrap",
    "blend": "the pool and a calibrated mean, averaged by a cross-validation on out-of-sample rows: `blend_combiners`",
    "guarded": "the pool or a calibrated mean, by cross-validation on the out-of-sample rows: `choose_combiner`",
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
is the average with a prior worth one row each: `blend_combiners`. With the calibrated means of `guarded` for `P`
it is at 1.139 on wine and 1.070 on dermatology (the choice: 1.200 and 1.081), where a fold has one or two errors. An
average costs more on small sets that the pool does well on (ionosphere 0.842 to 0.876): it is no default.

The cells of bootstrapped forests are of learning before its rows were taken in parts, which changes nothing of so
few rows but the steps: on wine and dermatology the pool's log loss differs by .2 % at most. Those of trees that saw
the whole sample are newer, and have the average (`blend`) and the adaptive sets as further rows.
"""
WHAT_INSTEAD = """\
## Against what users would do instead

On the sets that nothing here was developed on, and the same folds. Each row: how the method of the column did against
it, as in the tables before: wins : losses over sets, the median relative gain, **bold** by the signed-rank test.

Forests are tuned out of bag: least leaf 1 to 32, columns per split the root of their number, a quarter, a half, all.
The 24 candidates (fewer where columns coincide) are first grown with 50 trees (25 of more than 50 000 cells of data).
The best two by the mean's log loss, the best two by that of the mean with a temperature, and scikit-learn's own
settings are then grown with 200. Temperature or isotonic regression is chosen by a cross-validation of the calibrator
over out-of-bag answers. Both take a probability below 1e-6 for 1e-6.

Venn-Abers predictors (Vovk, Petej and Fedorova 2015) take each class against the rest. Isotonic regression with the
new row as a negative gives p0, as a positive p1; the answer is p1 / (1 - p0 + p1), normalised. The cross ones average
p1 and 1 - p0 over parts, geometrically. CaliForest (Park and Ho 2020) weighs a row of n out-of-bag trees whose answers
have the variance v by (100 + n/2) / (25 + n v/2), as its authors' code does: it weighs rows, not trees. Isotonic
regressions are clipped to 1/(n + 2).

The means of this part are scikit-learn's own, in float64. The row `mean` is the library's in float32, which has 7e-9
where scikit-learn has 0: compare these two by the loss that takes 1e-6.
"""
LOSSES = ("log_loss", "log_loss_clipped", "brier")
"""The measures that are better when smaller; gains in them are relative."""


def write_page(found: Mapping[Any, dict], out: Path) -> None:
    """``README.md`` in the folder of results, of all parts with a set at least."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "README.md").write_text(page(found), encoding="utf-8")


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    parts = [part for part in TITLES if any(cell.part == part for cell in found)]
    lines = [
        "# What learning the combination brings",
        "",
        "Made by `python -m benchmarks.learning --data FOLDER`; every (set, fold) is a line of `cells/`. Forests of",
        "200 trees, folds of a five-fold cross-validation of at most 4000 rows; everything is learned on training rows",
        "whose counts do not know their labels. Wins : losses over sets, of means over folds; the median relative gain",
        "of log loss and Brier score, the median difference of the others; **bold** where a signed-rank test over the",
        "sets tells the two apart (p < .05, not corrected for the number of comparisons). AUC of more classes is one",
        "against the rest; u65 and u80 are of the sets with the highest expected utility. Log loss takes a probability",
        "below 1e-15 for 1e-15; *clipped*, below 1e-6 for 1e-6. The mean gives many a zero, so that its log loss, and",
        "what is gained over it, depends on that number.",
        "",
    ]
    run = {name for cell, record in found.items() if cell.part != "instead" for name in record["methods"]}
    lines += [f"* *{name}*: {meaning}." for name, meaning in MEANINGS.items() if name in run]
    for part in parts:
        lines += ["", *_part(part, {cell: record for cell, record in found.items() if cell.part == part})]
    if any(cell.part == "instead" for cell in found):
        lines += ["", *_instead(found)]
    return "\n".join(lines) + "\n" + TRIED


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (set, fold, method) with `MEASURES`, or as many of them as its cell has."""
    rows = [
        {"set": cell.data, "fold": cell.fold, "method": method, **dict(zip(MEASURES, values, strict=False))}
        for cell, record in found.items()
        for method, values in record["methods"].items()
    ]
    return pd.DataFrame(rows)


def paired(frame: pd.DataFrame, first: str, second: str, measure: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Means over the folds that both have, a number per set."""
    if measure not in frame:
        return np.zeros(0), np.zeros(0), []
    by = frame.pivot_table(index=["set", "fold"], columns="method", values=measure)
    if first not in by or second not in by:
        return np.zeros(0), np.zeros(0), []
    means = by[[first, second]].dropna().groupby("set").mean()
    return means[first].to_numpy(), means[second].to_numpy(), list(means.index)


def duel(frame: pd.DataFrame, first: str, second: str, measure: str) -> str:
    """How the first did against the second."""
    a, b, _ = paired(frame, first, second, measure)
    if not len(a):
        return ""
    is_loss = measure in LOSSES
    better, worse = (np.sum(a < b), np.sum(a > b)) if is_loss else (np.sum(a > b), np.sum(a < b))
    with np.errstate(invalid="ignore", divide="ignore"):  # no loss at all on either side is no gain
        gain = np.median(np.nan_to_num(1 - a / b) if is_loss else a - b)
    shown = f"{100 * gain:+.1f} %" if is_loss else f"{gain:+.4f}"
    differs = np.any(a != b) and len(a) > 5 and wilcoxon(a, b).pvalue < 0.05
    text = f"{better}:{worse} {shown}"
    return f"**{text}**" if differs else text


def _part(part: str, found: Mapping[Any, dict]) -> list[str]:
    frame = table(found)
    sets = sorted(frame["set"].unique())
    methods = [name for name in MEANINGS if name in set(frame["method"])]
    folds = sorted({cell.fold for cell in found})
    lines = [f"## {TITLES[part]}", "", f"{len(sets)} sets, {len(folds)} of 5 folds.", ""]
    references = ["mean", "P", "isotonic"]
    for measure, title in (("log_loss", "log loss"), ("log_loss_clipped", "log loss, clipped,")):
        if measure in frame:
            lines += _table(
                [f"{title} of", *(f"against {name}" for name in references)],
                [[f"`{m}`", *(duel(frame, m, r, measure) if m != r else "" for r in references)] for m in methods],
            )
            lines.append("")
    others = [m for m in MEASURES if not m.startswith("log_loss")]
    shown = [m for m in ("pool", "blend", "guarded", "P", "isotonic", "fixed", "HistGradientBoosting") if m in methods]
    lines += ["Against the mean, by the other measures:", ""]
    lines += _table(["", *others], [[f"`{m}`", *(duel(frame, m, "mean", k) for k in others)] for m in shown])
    lines += ["", _worst(frame)]
    lines += ["", *_sets_table(found), "", _seconds(found)]
    return lines


def beside_instead(found: Mapping[Any, dict]) -> dict[Any, dict]:
    """What users would do instead, with the methods of the same sets and folds of ``other-sets``."""
    joined = {}
    for cell, record in found.items():
        beside = found.get(cell._replace(part="other-sets")) if cell.part == "instead" else None
        if beside is not None:
            joined[cell] = {**record, "methods": record["methods"] | beside["methods"]}
    return joined


def _instead(found: Mapping[Any, dict]) -> list[str]:
    joined = beside_instead(found)
    frame = table(joined)
    lines = [f"{WHAT_INSTEAD}", f"{_how_many(joined)} The development sets are not among them.", ""]
    lines += [f"* *{name}*: {meaning}." for name, meaning in INSTEAD.items()]
    shown = ("log_loss_clipped", "log_loss", "brier")
    titles = ("log loss, below 1e-6 taken for 1e-6", "log loss, 1e-15", "Brier score")
    for ours, text, others in (
        ("pool", "The learned pool on the forest as it comes", ["mean", "P", "isotonic", "blend", *INSTEAD]),
        ("pool, tuned", "The learned pool on the forest tuned for its mean", ["mean", "P", "pool", *list(INSTEAD)[:4]]),
        ("tuned mean", "The tuned mean", ["mean", "P", "isotonic"]),
        ("tuned mean, P", "The tuned mean and the best of sixteen calibrators", ["P", "tuned mean, calibrated"]),
        ("isotonic", "Plain isotonic regression", list(INSTEAD)[5:]),
    ):
        lines += ["", f"{text} (`{ours}`):", ""]
        body = [[f"`{m}`", *(duel(frame, ours, m, measure) for measure in shown)] for m in others if m != ours]
        lines += _table([f"`{ours}` against", *titles], body)
    largest = _largest(frame, "pool", "tuned mean, P", "log_loss_clipped")
    lines += ["", f"Largest log loss of `pool` as a share of that of `tuned mean, P`: {largest}."]
    return [*lines, "", _choices(joined)]


def _how_many(found: Mapping[Any, dict]) -> str:
    sets = {cell.data for cell in found}
    twice = len(found) - len(sets)
    folds = "two folds each" if twice == len(sets) else f"two folds of {twice}, one of the others"
    return f"{len(sets)} sets, {folds}."


def _choices(found: Mapping[Any, dict]) -> str:
    chosen = pd.DataFrame([record["chosen"] | record["seconds"] for record in found.values()])
    leaves = chosen["tuned"].str[0].value_counts().sort_index()
    said = ", ".join(f"{leaf} in {n}" for leaf, n in leaves.items())
    isotonic = int((chosen["tuned"].str[2] == "isotonic").sum())
    return (
        f"Least leaf that was tuned for the mean: {said} of {len(chosen)} forests. Isotonic regression was taken for\n"
        f"{isotonic} of them, a temperature for the others. Tuning took {chosen['tune'].median():.0f} seconds "
        "in the median, other jobs beside included."
    )


def _worst(frame: pd.DataFrame) -> str:
    found = {name: _largest(frame, name, "P", "log_loss") for name in ("pool", "blend", "guarded")}
    said = "; ".join(f"`{name}`: {text}" for name, text in found.items() if text)
    return f"Largest log loss as a share of that of `P`: {said}."


def _largest(frame: pd.DataFrame, first: str, second: str, measure: str) -> str:
    """The four sets on which the first does worst against the second, and its loss there as a share of the other's."""
    a, b, sets = paired(frame, first, second, measure)
    order = np.argsort(-a / b)[:4]
    return ", ".join(f"{sets[i]} {a[i] / b[i]:.3f}" for i in order)


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
    return lines + _table(["sets of", "u65", "against pool", "u80", "against pool"], body)


def _seconds(found: Mapping[Any, dict]) -> str:
    frame = pd.DataFrame([record["seconds"] for record in found.values()])
    kept = [name for name in ("grow", "rows", "rows, both", "pool", "blend", "guarded") if name in frame]
    said = ", ".join(f"{name} {frame[name].median():.2f}" for name in kept)
    return f"Seconds in the median, compilation and other jobs beside included: {said}."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(r) + " |" for r in rows)]
