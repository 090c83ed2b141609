"""Measures of sets, made of a study's cells, and how methods are compared by them."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from benchmarks.sets_methods import PROMISE
from jaxunc import compare

COLUMNS = {
    "coverage": "coverage",
    "worst_class": "worst class",
    "worst_size": "worst size",
    "u65": "u65",
    "u80": "u80",
    "size": "mean size",
    "single": "single",
    "right": "single, right",
    "ms": "ms",
}
WORTH = {"u65": (1.6, 0.6), "u80": (2.2, 1.2)}
LEAST_ROWS = 10
"""Test rows below which a class or a size of sets is not looked at alone."""
LEVEL = 0.05


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (set, method): measures of both folds' test rows together."""
    together: dict[tuple[str, str], list[dict]] = {}
    seconds: dict[tuple[str, str], list[float]] = {}
    n_classes = {}
    for cell, record in found.items():
        n_classes[cell.data] = record["rows"][2]
        for name, counts in record["sets"].items():
            together.setdefault((cell.data, name), []).append(counts)
            seconds.setdefault((cell.data, name), []).append(1e6 * record["seconds"][name] / record["rows"][1])
    rows = [
        {"set": data, "method": name, "n_classes": n_classes[data], **measures(parts)}
        | {"ms": float(np.mean(seconds[data, name]))}
        for (data, name), parts in together.items()
    ]
    return pd.DataFrame(rows)


def measures(parts: list[dict]) -> dict[str, Any]:
    """All that is measured of sets, from `counted` of their parts."""
    rows, right = Counter(), Counter()
    for part in parts:
        for k, n, n_right in part["sizes"]:
            rows[k] += n
            right[k] += n_right
    n, hits = sum(rows.values()), sum(right.values())
    by_class = np.sum([part["classes"] for part in parts], axis=0)
    enough = by_class[by_class[:, 0] >= LEAST_ROWS]
    worth = {
        kind: sum(right[k] * (linear / k - square / k**2) for k in rows) / n for kind, (linear, square) in WORTH.items()
    }
    return {
        "coverage": hits / n,
        "worst_class": _least(enough[:, 1] / enough[:, 0]),
        "worst_size": _least([right[k] / rows[k] for k in rows if rows[k] >= LEAST_ROWS]),
        **worth,
        "size": sum(k * rows[k] for k in rows) / n,
        "single": rows[1] / n,
        "right": right[1] / rows[1] if rows[1] else float("nan"),
        "kept": is_kept(hits, n),
        "n_classes_told": len(enough),
        "n_classes_kept": sum(is_kept(own_hits, own) for own, own_hits in enough),
    }


def is_kept(hits: int, n: int) -> bool:
    """Whether so few hits, or fewer, have a probability of 5 % at least where each has one of 90 %."""
    return bool(binom.cdf(hits, n, PROMISE) >= LEVEL)


def _least(values) -> float:
    return float(np.min(values)) if len(values) else float("nan")


def compared(frame: pd.DataFrame, first: str, second: str, measure: str) -> tuple[int, int, float, float]:
    """Sets won and lost by the first, its median gain and the p-value, over the sets that both have."""
    values = frame.pivot_table(index="set", columns="method", values=measure)[[first, second]].dropna().to_numpy()
    gains = np.round(values[:, 0] - values[:, 1], 9)
    p_value = compare.pairwise_wilcoxon(values, larger_is_better=True).p_values[0, 1] if np.any(gains) else 1.0
    return int((gains > 0).sum()), int((gains < 0).sum()), float(np.median(gains)), float(p_value)


def duel(frame: pd.DataFrame, first: str, second: str, measure: str) -> str:
    """Sets won and lost, and the median gain; bold where a signed-rank test tells the two apart."""
    won, lost, gain, p_value = compared(frame, first, second, measure)
    text = f"{won}:{lost} {gain:+.3f}"
    return f"**{text}**" if p_value < LEVEL else text


def digits(value: float, key: str = "") -> str:
    """A number of a table."""
    return "" if np.isnan(value) else f"{value:.1f}" if key == "ms" else f"{value:.3f}"


def text_rows(cells: list[list[str]]) -> list[str]:
    """Lines of a table."""
    return ["| " + " | ".join(row) + " |" for row in cells]
