"""The page of the study of boosted models and leaf counts: tables made of its cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import many_sets
from benchmarks.cells import method_rows
from benchmarks.pages import bold, fill
from benchmarks.pages import table as text_table
from benchmarks.studies.learning.methods import PLAIN_MEASURES

TEMPLATE = Path(__file__).with_name("page.md")
NAMES = (
    "own", "own, all rows", "own, isotonic", "own, calibrated", "own, scaled", "mean of counts", "pooling of counts",
    "plausibility of counts", "learned pool", "own and mean of counts", "own and learned pool",
)  # fmt: skip
"""The methods; ``page.md`` says what they are."""
TITLES = {
    "log_loss_clipped": "log loss, clipped at 1e-6", "log_loss": "log loss, clipped at 1e-15", "brier": "Brier score",
    "auc": "AUC", "accuracy": "accuracy",
}  # fmt: skip
LARGER = ("auc", "accuracy")
AGAINST = ("own", "own, scaled", "own, calibrated", "own, all rows")


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    frame = table(found)
    return fill(
        TEMPLATE,
        n_sets=frame["set"].nunique(),
        n_two=frame[frame["n_classes"] == 2]["set"].nunique(),
        n_trees=np.median([record["trees"] for record in found.values()]),
        against=lambda measure: _table(frame, measure),
        duel=lambda first, second, measure="log_loss_clipped": duel(frame, first, second, measure),
    )


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (set, fold, method)."""
    rows = method_rows(found, PLAIN_MEASURES)
    return rows.assign(n_classes=rows["set"].map({cell.data: record["rows"][2] for cell, record in found.items()}))


def compared(frame: pd.DataFrame, first: str, second: str, measure: str) -> many_sets.Duel:
    """One method against another; gains in losses are relative."""
    larger = measure in LARGER
    return many_sets.duel(frame, first, second, measure, larger=larger, relative=not larger, decimals=None)


def duel(frame: pd.DataFrame, first: str, second: str, measure: str) -> str:
    """How the first did against the second."""
    won, lost, gain, p, _ = compared(frame, first, second, measure)
    shown = f"{gain:+.4f}" if measure in LARGER else f"{100 * gain:+.1f} %"
    return bold(f"{won}:{lost} {shown}", p < 0.05)


def _table(frame: pd.DataFrame, measure: str) -> str:
    means = frame.groupby(["method", "set"])[measure].mean().groupby("method").mean()
    head = [f"{TITLES[measure]} of", "mean", *(f"against {name}" for name in AGAINST)]
    two = frame[frame["n_classes"] == 2]
    body = []
    for name in NAMES:
        rows = two if "plausibility" in name else frame  # with the sets that it has
        against = (duel(rows, name, other, measure) if name != other else "" for other in AGAINST)
        body.append([name, f"{means[name]:.4f}" + " (two classes)" * (rows is two), *against])
    return text_table(head, body)
