"""Losses of the study of boosters: means over the folds of sets, as ratios of one method to another."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.studies.boosters.methods import N_ASKED
from benchmarks.studies.learning.methods import PLAIN_MEASURES

POOL, BEST, HALF = "pool", "best booster", "half pool, half best booster"
LOSS, ALPHA = "log_loss_clipped", 0.05
"""What is judged, and below which p-value a difference is told."""
LEAST = 1e-6
"""What a mean loss is raised to before its logarithm: cells keep six digits."""


class Losses:
    """Means over the folds of each set that has been run to the end."""

    def __init__(self, found: Mapping[Any, dict]):
        counts = pd.Series([cell.data for cell in found], dtype=object).value_counts()
        self.cells = {cell: record for cell, record in found.items() if counts[cell.data] == counts.max()}
        rows = [
            {"set": cell.data, "fold": cell.fold, "method": name, **dict(zip(PLAIN_MEASURES, values, strict=True))}
            for cell, record in self.cells.items()
            for name, values in record["methods"].items()
        ]
        self.folds = pd.DataFrame(rows).set_index(["set", "fold", "method"])
        heads = {cell.data: (*record["rows"], record["error"]) for cell, record in self.cells.items()}
        self.sets: Any = pd.DataFrame.from_dict(
            heads, "index", columns=["rows", "classes", "columns", "words", "error"]
        )
        errors = pd.Series({cell: record["error"] for cell, record in self.cells.items()})
        self.sets["error"] = errors.groupby([cell.data for cell in self.cells]).mean()

    def wide(self, measure: str) -> pd.DataFrame:
        """``[sets methods]``"""
        by_fold: Any = self.folds[measure].unstack("method")
        return by_fold.groupby("set", sort=False).mean()

    def logs(self, first: str, second: str, measure: str = LOSS, by: str = "set") -> Any:
        """Logarithms of the first method's losses as ratios to the second's, a series by set or by set and fold."""
        wide = self.wide(measure) if by == "set" else pd.DataFrame(self.folds[measure].unstack("method"))
        return pd.Series(np.log(np.maximum(wide[first], LEAST) / np.maximum(wide[second], LEAST)))

    def seconds(self, name: str) -> list[str]:
        """Of fitting and of a million answers, medians over cells."""
        of = [record["seconds"][name] for record in self.cells.values() if name in record["seconds"]]
        fitting, answering = np.median(of, axis=0) if of else (np.nan, np.nan)
        return ["" if np.isnan(v) else f"{v:.1f}" for v in (fitting, answering * 1_000_000 / N_ASKED)]


def won_and_lost(logs: pd.Series) -> str:
    """The geometric mean of ratios, and on how many sets they are below 1 and above."""
    return f"{np.exp(logs.mean()):.3f}, {(logs < 0).sum()}:{(logs > 0).sum()}"
