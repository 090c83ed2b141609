"""The page of the study of boosted numbers: tables and verdicts made of its cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.pages import digits, fill, table_rows, verdict, verdict_rows
from benchmarks.studies.boosted_numbers.methods import ALONE, LOPSIDED, MADE_ON, METHODS
from benchmarks.studies.regression.page import geometric

TEMPLATE = Path(__file__).with_name("page.md")
LEARNED, PLAIN, FROZEN = "learned law", "plain residuals", "learned law, frozen"
CQR, MAPIE = "CQR, all rows", "CQR, MAPIE"
GOALS = {CQR: 0.97, MAPIE: 0.94, PLAIN: 0.91}
WORST, COVERS, COVERS_EACH, STRATUM, FROZEN_SCORE = {PLAIN: 1.02, CQR: 1.15}, (0.89, 0.92), (0.87, 0.95), 0.86, 0.95
"""The rules of the verdict."""


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (problem, library, method)."""
    rows = [
        {"problem": cell.data, "library": cell.library, "method": name, "score": of["score"] / of["rows"]}
        | {"coverage": of["covered"] / of["rows"], "stratum": min(covered / rows for rows, covered in of["strata"])}
        for cell, record in found.items()
        for name, of in record["methods"].items()
    ]
    return pd.DataFrame(rows)


def ratios(frame: pd.DataFrame, method: str, other: str, by: str | None = None) -> pd.Series:
    """Scores of a method to another's of the same cell; or their geometric means by problem or library."""
    wide = frame.pivot_table(index=["problem", "library"], columns="method", values="score", sort=False)
    ratio = (wide[method] / wide[other]).dropna()
    return ratio if by is None else ratio.groupby(by, sort=False).agg(geometric)


def verdicts(frame: pd.DataFrame) -> list[tuple[str, str, bool]]:
    """Each rule in words, what was measured, and whether it is kept."""
    rules = []
    for other, goal in GOALS.items():
        score = geometric(ratios(frame, LEARNED, other))
        rules.append(verdict(f"interval score at most {goal} of *{other}*", score, most=goal))
    for other, goal in WORST.items():
        scores, but = ratios(frame, LEARNED, other, "problem"), ""
        if other == CQR:
            scores, but = scores[~scores.index.isin(LOPSIDED)], " but for lopsided targets"
        worst = f"{digits(scores.max())} ({scores.idxmax()})"
        rules.append((f"no problem above {goal} of *{other}*{but}", worst, bool(scores.max() <= goal)))
    own = frame[frame["method"] == LEARNED]
    covers, each, stratum = own["coverage"].mean(), own.groupby("problem")["coverage"].mean(), own["stratum"].mean()
    ends = f"{digits(each.min())} to {digits(each.max())}"
    is_kept = bool(COVERS_EACH[0] <= each.min() and each.max() <= COVERS_EACH[1])
    frozen = geometric(ratios(frame, FROZEN, MAPIE))
    return [
        *rules,
        verdict("coverage from {} to {} in the mean".format(*COVERS), covers, least=COVERS[0], most=COVERS[1]),
        ("coverage from {} to {} on each problem".format(*COVERS_EACH), ends, is_kept),
        verdict(f"worst fifth at least {STRATUM} in the mean", stratum, least=STRATUM),
        verdict(f"*{FROZEN}*: at most {FROZEN_SCORE} of *{MAPIE}*", frozen, most=FROZEN_SCORE),
    ]


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    frame = table(found)
    is_old = frame["problem"].isin(MADE_ON)
    fresh = frame[~is_old]
    return fill(
        TEMPLATE,
        minutes=round(sum(record["seconds"] for record in found.values()) / 60),
        libraries=table_rows(parts(frame[is_old], "library")),
        fresh=fill(TEMPLATE, "fresh", **_slots(fresh)) if len(fresh) else "",
        **_slots(frame[is_old]),
    )


def _slots(frame: pd.DataFrame) -> dict[str, str]:
    """What is told of some problems."""
    return {
        "verdicts": verdict_rows(verdicts(frame)),
        "methods": table_rows(_methods(frame)),
        "problems": table_rows(parts(frame, "problem")),
        "losses": losses(frame),
    }


def losses(frame: pd.DataFrame) -> str:
    """The problems where conformalised quantiles of all rows score better, the largest loss first."""
    scores = ratios(frame, LEARNED, CQR, "problem").sort_values(ascending=False)
    return ", ".join(f"{name} ({digits(score)})" for name, score in scores.items() if score > 1) or "none"


def _methods(frame: pd.DataFrame) -> list[list[str]]:
    rows = []
    for name in (*METHODS, *(method for of in ALONE.values() for method in of)):
        of = frame[frame["method"] == name]
        if of.empty:
            continue
        scores = [ratios(frame, name, other) for other in GOALS]
        each = [of["coverage"].mean(), of.groupby("problem")["coverage"].mean().min(), of["stratum"].mean()]
        numbers = [*each, *map(geometric, scores), ratios(frame, name, CQR, "problem").max()]
        rows.append([name, str(len(of)), *map(digits, numbers)])
    return rows


def parts(frame: pd.DataFrame, by: str) -> list[list[str]]:
    """Rows of the learned law's scores, coverage and worst fifth, by problem or by library."""
    own = frame[frame["method"] == LEARNED].groupby(by, sort=False)
    scores = [ratios(frame, LEARNED, other, by) for other in GOALS] + [ratios(frame, FROZEN, MAPIE, by)]
    numbers = np.column_stack([*scores, own["coverage"].mean(), own["stratum"].mean()])
    return [[str(name), *map(digits, row)] for name, row in zip(scores[0].index, numbers, strict=True)]
