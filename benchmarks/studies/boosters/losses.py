"""Losses of the study of boosters: ratios of one method to another, and what more rows do to them, by the same sets."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t

from benchmarks.cells import method_rows
from benchmarks.pages import bold, digits, table
from benchmarks.studies.boosters.methods import LARGE_SETS, LIBRARIES, N_ASKED
from benchmarks.studies.doubt.page import duel_of
from benchmarks.studies.learning.methods import PLAIN_MEASURES
from jaxunc.compare import holm

POOL, BEST, HALF = "pool", "best booster", "half pool, half best booster"
LOSS, ALPHA = "log_loss_clipped", 0.05
"""What is judged, and below which p-value a difference is told."""
LEAST = 1e-6
"""What a mean loss is raised to before its logarithm: cells keep six digits."""
PAIRS = ((POOL, BEST), (POOL, "CatBoost, P"), (HALF, POOL), (HALF, BEST))
"""Ratios whose growth is told; the first is what was asked."""
SHOWN = (
    "mean", "mean, P", "tuned pool", *LIBRARIES, *(f"{library}, tuned, P" for library in LIBRARIES), BEST, HALF,
)  # fmt: skip
"""Methods beside the pool, with few rows and with more."""


class Losses:
    """Means over the folds of each set that has been run to the end."""

    def __init__(self, found: Mapping[Any, dict]):
        counts = pd.Series([cell.data for cell in found], dtype=object).value_counts()
        self.cells = {cell: record for cell, record in found.items() if counts[cell.data] == counts.max()}
        self.folds = method_rows(self.cells, PLAIN_MEASURES).set_index(["set", "fold", "method"])
        heads = {cell.data: record["rows"] for cell, record in self.cells.items()}
        self.sets: Any = pd.DataFrame.from_dict(heads, "index", columns=["rows", "classes", "columns", "words"])
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


def same_sets(small: Losses, large: Losses) -> Losses:
    """The small part's losses on the sets that the large part has reached."""
    names = list(large.sets.index)
    return Losses({cell: record for cell, record in small.cells.items() if cell.data in names})


def growth(small: Losses, large: Losses, first: str, second: str) -> Any:
    """Logarithms of the ratio of two methods with more rows, less those with few rows, set by set."""
    names = large.sets.index
    return large.logs(first, second)[names] - small.logs(first, second)[names]


def interval(logs: pd.Series) -> tuple[float, float, float]:
    """Of a geometric mean: both ends of its two-sided interval of 95 %, and the lower end of its one-sided one."""
    both, one = logs.std(ddof=1) / np.sqrt(len(logs)) * t.ppf([0.975, 0.95], len(logs) - 1)
    low, high, least = np.exp(logs.mean() + np.array([-both, both, -one]))
    return float(low), float(high), float(least)


def tested(small: Losses, large: Losses) -> list[tuple[float, float]]:
    """Of each pair's growth the rank-biserial correlation, and Wilcoxon's p-value after Holm's correction for all."""
    both = [np.column_stack([of.logs(*pair)[large.sets.index] for of in (large, small)]) for pair in PAIRS]
    return [(one.correlation, p) for one, p in told_apart(both)]


def told_apart(pairs: Sequence[np.ndarray]) -> list[tuple[Any, float]]:
    """The duel of each pair of columns, with its p-value after Holm's correction for all."""
    duels = [duel_of(values) for values in pairs]
    return list(zip(duels, holm(np.array([one.p_value for one in duels])).tolist(), strict=True))


def growths(small: Losses, large: Losses) -> str:
    """How ratios grow with rows: with few and with more, their growth with its intervals, and what the test says."""
    rows = []
    for pair, (effect, p) in zip(PAIRS, tested(small, large), strict=True):
        logs = growth(small, large, *pair)
        low, high, least = interval(logs)
        sides = [f"{np.exp(logs.mean()):.3f}", f"{low:.3f} to {high:.3f}", f"{least:.3f}"]
        grew = bold(f"{(logs > 0).sum()}:{(logs < 0).sum()}", p < ALPHA)
        ratios = [won_and_lost(of.logs(*pair)[large.sets.index]) for of in (small, large)]
        rows.append([f"`{pair[0]}` : `{pair[1]}`", *ratios, *sides, grew, f"{effect:+.2f}", f"{p:.3f}"])
    head = ["", "999 rows", "up to 4000", "growth", "95 %", "at least", "grew : shrank", "effect", "p"]
    return table(head, rows)


def by_size(small: Losses, large: Losses) -> str:
    """The ratios by the number of training rows; those of the largest sets with few rows, too."""
    is_few, reached = small.sets["rows"] < 200, large.sets.index
    groups = (
        ("below 200", small, small.sets.index[is_few]),
        ("200 to 999", small, small.sets.index[~is_few]),
        ("1000 to 4000", large, reached),
        ("these sets with fewer: up to 799", small, reached),
    )
    rows = [
        [title, str(len(names)), *(won_and_lost(of.logs(*pair)[names]) for pair in PAIRS)]
        for title, of, names in groups
    ]
    return table(["training rows", "sets", *(f"`{a}` : `{b}`" for a, b in PAIRS)], rows)


def methods(small: Losses, large: Losses) -> str:
    """The others' losses as ratios to the pool's on the same sets, with few rows and with more; seconds of fitting."""
    rows = []
    for name in SHOWN:
        rows.append([f"`{name}`"])
        for logs in (of.logs(name, POOL)[large.sets.index] for of in (small, large)):
            rows[-1] += [f"{np.exp(logs.mean()):.3f}", f"{(logs > 0).sum()}:{(logs < 0).sum()}"]
        rows[-1] += [of.seconds(name)[0] for of in (small, large)]
    seconds = [of.seconds(POOL)[0] for of in (small, large)]
    few, more = "999 rows", "up to 4000"
    head = ["", few, "won by `pool`", more, "won by `pool`", f"fitting, {few}", f"fitting, {more}"]
    return table(head, [[f"`{POOL}`", "1.000", "", "1.000", "", *seconds], *rows])


def by_set(small: Losses, large: Losses) -> str:
    """Set by set, with few rows and with more: rows, errors, the pool's loss and its ratio to the best booster."""
    rows = []
    grown, by_fold = growth(small, large, POOL, BEST), large.logs(POOL, BEST, by="fold")
    pairs = ((POOL, BEST), (POOL, "CatBoost, P"), (HALF, BEST))
    for name in large.sets.index:
        heads = [of.sets.loc[name] for of in (small, large)]
        sizes, errors = [f"{head['rows']:.0f}" for head in heads], [f"{head['error']:.2f}" for head in heads]
        losses = [f"{of.wide(LOSS).loc[name, POOL]:.4f}" for of in (small, large)]
        ratios = [[digits(np.exp(of.logs(*pair)[name])) for of in (small, large)] for pair in pairs]
        chosen = [record["chosen"][BEST].split(",")[0] for cell, record in large.cells.items() if cell.data == name]
        folds, best = map(digits, np.exp(by_fold.loc[name])), dict.fromkeys(chosen)
        rows.append([str(name), *map(", ".join, (sizes, errors, losses, *ratios, folds)), digits(np.exp(grown[name]))])
        rows[-1].append(", ".join(best))
    head = ["", "rows", "error", f"`{POOL}`", *(f"`{a}` : `{b}`" for a, b in pairs)]
    return table([*head, f"`{POOL}` : `{BEST}`, by fold", "growth", "best booster"], rows)


def unreached(large: Losses) -> str:
    """The sets of the part that the budget did not reach."""
    return ", ".join(name for name in LARGE_SETS if name not in large.sets.index)
