"""The page of the study of regression: tables and verdicts made of its cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.cells import together
from benchmarks.pages import digits, fill, table_rows, verdict, verdict_rows
from benchmarks.pages import table as text_table
from benchmarks.studies.regression.methods import METHODS

TEMPLATE = Path(__file__).with_name("page.md")
THEIRS, LEARNED, CONFORMAL, FINER = "quantile-forest", "learned law", "conformal form", "learned law, 100 bins"
IN_TRIALS = ("friedman2", "friedman3", "diabetes progression", "page-blocks", "waveform-5000")
SCORE, WINS, WORST, COVERS, LOSS, HELD = 0.94, 15 / 20, 1.05, (0.88, 0.92), 1.0, 0.87
"""The rules of the verdict."""
SHOWN = (LEARNED, "law of residuals", "20 bins", "quantile-forest, margin", "plain residuals")


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (problem, leaf, trees, method): all folds' test rows together, where the method has all folds."""
    methods = together(found, "methods", lambda cell: cell[:3])
    rows = [
        {"problem": data, "leaf": leaf, "trees": trees, "method": name, **measures(parts)}
        for ((data, leaf, trees), name), parts in methods.items()
    ]
    return pd.DataFrame(rows)


def measures(parts: list[dict]) -> dict[str, float]:
    """What is measured of a method on some folds."""
    total = lambda name: float(sum(part[name] for part in parts))
    rows, strata = total("rows"), np.sum([part["strata"] for part in parts], axis=0)
    return {
        "coverage": total("covered") / rows,
        "score": total("score") / rows,
        "loss": np.nan if parts[0]["loss"] is None else total("loss") / rows,
        "stratum": float((strata[:, 1] / strata[:, 0]).min()),
        "seconds": total("seconds") / len(parts),
    }


def ratios(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """A measure of each method ``[cells methods]``, of quantile-forest's of the same cell."""
    wide = frame.pivot_table(index=["problem", "leaf", "trees"], columns="method", values=measure)
    return wide.div(wide[THEIRS], axis=0)


def geometric(values: pd.Series) -> float:
    """The geometric mean of those that are there."""
    return float(np.exp(np.log(values.dropna()).mean()))


def by_problem(frame: pd.DataFrame) -> pd.DataFrame:
    """Interval scores ``[problems methods]``: geometric means over the forests, of quantile-forest's."""
    logs = np.log(ratios(frame, "score"))
    return np.exp(logs.groupby("problem", sort=False).mean())


def verdicts(frame: pd.DataFrame) -> list[tuple[str, str, bool]]:
    """Each rule in words, what was found, and whether it is kept."""
    score, per_problem = ratios(frame, "score")[LEARNED], by_problem(frame)[LEARNED]
    covered = frame[frame["method"] == LEARNED]["coverage"].mean()
    held = frame[frame["method"] == CONFORMAL]["coverage"].min()
    loss, won, least = geometric(ratios(frame, "loss")[LEARNED]), int((per_problem <= 1).sum()), len(per_problem) * WINS
    own = lambda text: f"*{LEARNED}*: {text}"
    return [
        verdict(own(f"interval score at most {SCORE} in the geometric mean"), geometric(score), most=SCORE),
        (own(f"at most 1.0 on {int(np.ceil(least))} of {len(per_problem)} problems"), f"{won}", won >= least),
        verdict(own(f"no cell above {WORST}"), score.max(), most=WORST),
        verdict(own("coverage from {} to {} in the mean".format(*COVERS)), covered, least=COVERS[0], most=COVERS[1]),
        verdict(own("pinball loss at most 1.0 in the geometric mean"), loss, most=LOSS),
        verdict(f"*{CONFORMAL}*: coverage at least {HELD} in every cell", held, least=HELD),
    ]


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    frame = table(found)
    per_problem = by_problem(frame)
    fresh = ~per_problem.index.isin(IN_TRIALS)
    said = lambda rows: digits(geometric(per_problem[LEARNED][rows]))
    score = ratios(frame, "score")
    finer = (score[FINER] / score[LEARNED]).dropna()
    body = [[name, *(digits(row[m]) for m in SHOWN)] for name, row in per_problem.iterrows()]
    return fill(
        TEMPLATE,
        n_problems=len(per_problem),
        n_cells=len(score),
        table=table_rows(_methods(frame)),
        verdicts=verdict_rows(verdicts(frame)),
        least=digits(finer.min()),
        most=digits(finer.max()),
        in_trials=", ".join(IN_TRIALS),
        old=said(~fresh),
        fresh=said(fresh),
        n_fresh=int(fresh.sum()),
        problems=text_table(["", *SHOWN], body),
    )


def _methods(frame: pd.DataFrame) -> list[list[str]]:
    score, loss = ratios(frame, "score"), ratios(frame, "loss")
    first = frame[frame["trees"] == frame["trees"].min()]
    mean = lambda name, what: digits(frame[frame["method"] == name][what].mean())
    rows = []
    for name in (one for one in METHODS if one in score):
        own = score[name].dropna()
        better = "" if name == THEIRS else f"{int((own < 1).sum())} of {len(own)}"
        of_loss = digits(geometric(loss[name])) if name in loss and loss[name].notna().any() else ""
        seconds = digits(first[first["method"] == name]["seconds"].median())
        line = [name, mean(name, "coverage"), mean(name, "stratum"), digits(geometric(own)), better]
        rows.append([*line, digits(own.max()), of_loss, seconds])
    return rows
