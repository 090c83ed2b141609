"""Tables of the study of learning, made of its cells: methods against each other over sets."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

from benchmarks.learning_methods import MEASURES

LOSSES = ("log_loss", "log_loss_clipped", "brier")
"""The measures that are better when smaller; gains in them are relative."""


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


def largest(frame: pd.DataFrame, first: str, second: str, measure: str) -> str:
    """The four sets on which the first does worst against the second, and its loss there as a share of the other's."""
    a, b, sets = paired(frame, first, second, measure)
    order = np.argsort(-a / b)[:4]
    return ", ".join(f"{sets[i]} {a[i] / b[i]:.3f}" for i in order)


def how_many(found: Mapping[Any, dict]) -> str:
    """How many sets the cells are of, and how many of the five folds."""
    folds = pd.Series([cell.data for cell in found]).value_counts()
    most = int(folds.max())
    whole = int((folds == most).sum())
    if whole == len(folds):
        return f"{len(folds)} sets, {most} of 5 folds."
    return f"{len(folds)} sets: {most} of 5 folds of {whole} of them, {int(folds.min())} of the others."


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(r) + " |" for r in rows)]
