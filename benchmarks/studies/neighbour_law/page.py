"""The page of the study of laws by neighbours: tables and verdicts made of its cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.pages import digits, fill, verdict, verdict_rows
from benchmarks.pages import table as text_table
from benchmarks.studies.neighbour_law.forms import LAW
from benchmarks.studies.regression.page import geometric

TEMPLATE, LEARNED = Path(__file__).with_name("page.md"), "learned law"
SHOWN = (LAW, "20 bins", "weight", "plain residuals")
CHOSEN_ON = (
    "friedman1", "uneven noise", "skewed noise", "two peaks", "electricity", "wine-quality-red", "waveform-5000",
)  # fmt: skip
SCORE, WORST, COVERS, WINS = 0.97, 1.06, (0.88, 0.93), 3 / 4
"""The rules of the verdict."""


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (problem, leaf, method); score and loss of the learned law's."""
    rows = []
    for cell, record in found.items():
        own = record["methods"][LEARNED]
        for name, of in record["methods"].items():
            ratios = {measure: of[measure] / own[measure] for measure in ("score", "loss")}
            told = {"problem": cell.data, "leaf": cell.leaf, "method": name}
            rows.append(told | ratios | {"coverage": of["covered"] / of["rows"]})
    return pd.DataFrame(rows)


def verdicts(frame: pd.DataFrame) -> list[tuple[str, str, bool]]:
    """Each rule in words, what was found of the law, and whether it is kept."""
    of = frame[frame["method"] == LAW]
    score, worst, covers = geometric(of["score"]), of["score"].max(), of["coverage"].mean()
    per_problem = of.groupby("problem")["score"].apply(geometric)
    won, least = int((per_problem <= 1).sum()), int(np.ceil(len(per_problem) * WINS))
    return [
        verdict(f"interval score at most {SCORE} in the geometric mean", score, most=SCORE),
        verdict(f"no cell above {WORST}", worst, most=WORST),
        verdict("coverage from {} to {} in the mean".format(*COVERS), covers, least=COVERS[0], most=COVERS[1]),
        (f"at most 1.0 on {least} of {len(per_problem)} problems", str(won), won >= least),
    ]


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    frame = table(found)
    seen = frame["problem"].isin(CHOSEN_ON)
    parts = {"seen": frame[seen], "fresh": frame[~seen]}
    by_problem = frame[frame["method"].isin(SHOWN)].groupby(["problem", "method"], sort=False)["score"]
    per_problem = by_problem.apply(geometric).unstack()[list(SHOWN)]
    return fill(
        TEMPLATE,
        n_problems=frame["problem"].nunique(),
        chosen_on=", ".join(CHOSEN_ON),
        n_seen=parts["seen"]["problem"].nunique(),
        n_fresh=parts["fresh"]["problem"].nunique(),
        problems=text_table(["", *SHOWN], [[str(name), *map(digits, row)] for name, row in per_problem.iterrows()]),
        **{name: _forms(part) for name, part in parts.items()},
        **{f"{name}_rules": verdict_rows(verdicts(part)) for name, part in parts.items()},
    )


def _forms(frame: pd.DataFrame) -> str:
    rows = []
    for name, of in frame.groupby("method", sort=False):
        better = "" if name == LEARNED else f"{int((of['score'] < 1).sum())} of {len(of)}"
        covers, score = of["coverage"], of["score"]
        numbers = (covers.mean(), covers.min(), geometric(score), score.max())
        rows.append([str(name), *map(digits, numbers), better, digits(geometric(of["loss"]))])
    return text_table(["", "coverage", "least", "interval score", "worst", "better in", "loss"], rows)
