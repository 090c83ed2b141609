"""The page of the study of boosted models and leaf counts: tables made of its cells."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.studies.learning.methods import PLAIN_MEASURES
from jaxunc import compare

MEANINGS = {
    "own": "the model's own probability, boosted on three quarters of the training rows",
    "own, all rows": "the same settings on all training rows: nothing is held out",
    "own, isotonic": "`own` and isotonic regression, clipped to 1/(n + 2)",
    "own, calibrated": "`own` and the best of sixteen calibrators (temperature, Platt, vector, which for two classes "
    "is beta calibration, one-vs-rest; four clips)",
    "own, scaled": "softmax of a log p + b, a and b learned: the blends below, without counts",
    "mean of counts": "the mean of the leaves' shares of held-out rows, nothing else",
    "pooling of counts": "the leaves' counts, added",
    "plausibility of counts": "the mean of the leaves' plausibility scores (two classes)",
    "learned pool": "`LearnedPool` of these counts, learned from the held-out rows without their own label",
    "own and mean of counts": "softmax of a log p + a' log p' + b, all learned",
    "own and learned pool": "the same with the learned pool",
}
TITLES = {
    "log_loss_clipped": "log loss, clipped at 1e-6",
    "log_loss": "log loss, clipped at 1e-15",
    "brier": "Brier score",
    "auc": "AUC",
    "accuracy": "accuracy",
}
LARGER = ("auc", "accuracy")
AGAINST = ("own", "own, scaled", "own, calibrated", "own, all rows")


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    frame = table(found)
    n_sets, n_two = (frame[rows]["set"].nunique() for rows in (frame["n_classes"] > 1, frame["n_classes"] == 2))
    trees = np.median([record["trees"] for record in found.values()])
    lines = [
        "# What leaf counts add to a boosted model",
        "",
        f"Made by `python -m benchmarks boosted_counts --data FOLDER`: {n_sets} data sets ({n_two} of two classes),",
        "two folds of a five-fold cross-validation of at most 2000 rows; every (set, fold) is a line of "
        "`cells.jsonl.gz`.",
        "Histogram-based gradient boosting of scikit-learn, its defaults and early stopping",
        f"({trees:.0f} trees in the median).",
        "A quarter of the training rows is held out from boosting: they calibrate, and are counted in the leaves.",
        "",
        "Wins:losses over sets, of means over folds; the median gain, relative for losses; **bold** where a signed-",
        "rank test over the sets tells the two apart (p < .05, not corrected for the number of comparisons). AUC of",
        "more classes is one against the rest.",
        "",
        *(f"* *{name}*: {meaning}." for name, meaning in MEANINGS.items()),
    ]
    for measure, title in TITLES.items():
        lines += ["", f"## {title[0].upper()}{title[1:]}", "", *_table(frame, measure)]
    return "\n".join([*lines, "", *_says(frame)]) + "\n"


def _says(frame: pd.DataFrame) -> list[str]:
    """The question, and the numbers that answer it."""
    clipped = lambda first, second: duel(frame, first, second, "log_loss_clipped")  # noqa: E731
    return [
        "## What it says",
        "",
        "By log loss (clipped at 1e-6; no probability here is less), wins:losses and median gain:",
        "",
        f"* Counts alone, against the model's own probability, calibrated: the mean of counts"
        f" {clipped('mean of counts', 'own, calibrated')}, the learned pool"
        f" {clipped('learned pool', 'own, calibrated')}.",
        "* What counts add to a model that the same rows have calibrated in the same way, the blends against `own,"
        f" scaled`: the mean of counts {clipped('own and mean of counts', 'own, scaled')}, the learned pool"
        f" {clipped('own and learned pool', 'own, scaled')}; by AUC"
        f" {duel(frame, 'own and learned pool', 'own, scaled', 'auc')}.",
        f"* What holding a quarter of the rows out costs: boosting on all rows, against `own`,"
        f" {clipped('own, all rows', 'own')}; against the best blend"
        f" {clipped('own, all rows', 'own and learned pool')}.",
        "",
        "Not tried: counts of several models that are cross-fitted, so that no row is held out of the final one.",
    ]


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (set, fold, method)."""
    rows = [
        {
            "set": cell.data,
            "method": name,
            "n_classes": record["rows"][2],
            **dict(zip(PLAIN_MEASURES, own, strict=True)),
        }
        for cell, record in found.items()
        for name, own in record["methods"].items()
    ]
    return pd.DataFrame(rows)


def compared(frame: pd.DataFrame, first: str, second: str, measure: str) -> tuple[int, int, float, float, int]:
    """Sets won and lost by the first, its median gain, the p-value, and the number of sets that both have."""
    means = frame.pivot_table(index="set", columns="method", values=measure, aggfunc="mean")[[first, second]].dropna()
    a, b = means.to_numpy().T
    gains = a - b if measure in LARGER else b - a
    with np.errstate(invalid="ignore"):  # no loss at all on either side is no gain
        shown = gains if measure in LARGER else np.nan_to_num(gains / b)
    test = compare.pairwise_wilcoxon(means.to_numpy(), larger_is_better=measure in LARGER)
    return int((gains > 0).sum()), int((gains < 0).sum()), float(np.median(shown)), test.p_values[0, 1], len(means)


def duel(frame: pd.DataFrame, first: str, second: str, measure: str) -> str:
    """How the first did against the second."""
    won, lost, gain, p, _ = compared(frame, first, second, measure)
    shown = f"{gain:+.4f}" if measure in LARGER else f"{100 * gain:+.1f} %"
    text = f"{won}:{lost} {shown}"
    return f"**{text}**" if p < 0.05 else text


def _table(frame: pd.DataFrame, measure: str) -> list[str]:
    means = frame.groupby(["method", "set"])[measure].mean().groupby("method").mean()
    head = [f"{TITLES[measure]} of", "mean", *(f"against {name}" for name in AGAINST)]
    two = frame[frame["n_classes"] == 2]
    body = []
    for name in MEANINGS:
        rows = two if "plausibility" in name else frame  # with the sets that it has
        against = (duel(rows, name, other, measure) if name != other else "" for other in AGAINST)
        body.append([name, f"{means[name]:.4f}" + " (two classes)" * (rows is two), *against])
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body)]
