"""The page of the study of boosted models and leaf counts: tables made of its cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import many_sets
from benchmarks.pages import filled
from benchmarks.studies.learning.methods import PLAIN_MEASURES

TEMPLATE = Path(__file__).with_name("page.md")
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
    clipped = lambda first, second: duel(frame, first, second, "log_loss_clipped")
    sections = [
        "\n".join([f"## {title[0].upper()}{title[1:]}", "", *_table(frame, measure)])
        for measure, title in TITLES.items()
    ]
    return filled(
        TEMPLATE,
        n_sets=frame["set"].nunique(),
        n_two=frame[frame["n_classes"] == 2]["set"].nunique(),
        n_trees=np.median([record["trees"] for record in found.values()]),
        methods="\n".join(f"* *{name}*: {meaning}." for name, meaning in MEANINGS.items()),
        tables="\n\n".join(sections),
        mean_alone=clipped("mean of counts", "own, calibrated"),
        pool_alone=clipped("learned pool", "own, calibrated"),
        mean_added=clipped("own and mean of counts", "own, scaled"),
        pool_added=clipped("own and learned pool", "own, scaled"),
        pool_added_auc=duel(frame, "own and learned pool", "own, scaled", "auc"),
        all_rows=clipped("own, all rows", "own"),
        all_rows_against_blend=clipped("own, all rows", "own and learned pool"),
    )


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
    test = many_sets.pairwise_wilcoxon(means.to_numpy(), larger_is_better=measure in LARGER)
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
