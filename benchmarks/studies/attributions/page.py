"""The page of the study of attributions: tables and verdicts made of its cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.pages import filled
from benchmarks.studies.attributions.methods import CAUSES, DESIGNS, METHODS, N_COLUMNS
from benchmarks.studies.sets.methods import text_rows

TEMPLATE = Path(__file__).with_name("page.md")
TRUSTED, AT_EACH_SEED, TOLD = 0.9, 0.75, 0.9
"""Of the instances in the mean over seeds, at each seed; of the seeds, for one method to be better than another."""
BY_COVER, BY_ROWS, PERMUTATION, OF_MEAN = METHODS


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (setting, cause, method): of each seed the share that has the planted column, or its copy, first."""
    rows = []
    for cell, record in found.items():
        for cause in CAUSES:
            for name in METHODS:
                shares = np.array(record[cause][name])
                either = shares.sum(axis=1)
                rows.append(
                    {**cell._asdict(), "cause": cause, "method": name, "planted": shares[:, 0].mean()}
                    | {"seeds": either, "share": either.mean(), "trusted": is_trusted(either)}
                )
    return pd.DataFrame(rows)


def is_trusted(seeds: np.ndarray) -> bool:
    """Whether the right column is named first often enough, in the mean and at each seed."""
    return bool(seeds.mean() >= TRUSTED and seeds.min() >= AT_EACH_SEED)


def told(frame: pd.DataFrame, cause: str, first: str, second: str) -> tuple[int, int]:
    """In how many settings the first is better at nine seeds of ten, and in how many the second."""
    one, other = (
        np.stack([*frame[(frame["cause"] == cause) & (frame["method"] == name)]["seeds"]]) for name in (first, second)
    )
    return tuple(int(np.sum(np.mean(better, axis=1) >= TOLD)) for better in (one > other, one < other))


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    frame = table(found)
    return filled(
        TEMPLATE,
        n_settings=len(found),
        n_seeds=len(frame["seeds"].iloc[0]),
        designs="\n".join(text_rows(_by_design(frame))),
        aleatoric="\n".join(text_rows(_by_setting(frame, "aleatoric"))),
        epistemic="\n".join(text_rows(_by_setting(frame, "epistemic"))),
        verdicts="\n".join(text_rows([[*row[:2], "kept" if row[2] else "**missed**"] for row in verdicts(frame)])),
        copies="\n".join(text_rows(_of_copies(frame))),
    )


def verdicts(frame: pd.DataFrame) -> list[tuple[str, str, bool]]:
    """Each rule in words, what was found, and whether it is kept."""
    found = []
    for name in (BY_COVER, BY_ROWS):
        for cause, design in (("aleatoric", None), ("epistemic", "other, used")):
            rows = frame[(frame["cause"] == cause) & (frame["method"] == name)]
            rows = rows if design is None else rows[rows["data"] == design]
            n, where = int(rows["trusted"].sum()), "every setting" if design is None else f"every setting of *{design}*"
            found.append((f"{cause}, *{name}*: to be trusted in {where}", f"{n} of {len(rows)}", n == len(rows)))
        rows = frame[(frame["cause"] == "epistemic") & (frame["method"] == name) & frame["data"].str.startswith("own")]
        n = int(rows["trusted"].sum())
        found.append((f"epistemic, *{name}*: in no setting of *own*", f"{n} of {len(rows)}", n == 0))
    for cause in CAUSES:
        for other in (PERMUTATION, OF_MEAN):
            won, lost = told(frame, cause, BY_COVER, other)
            rule = f"{cause}: *{BY_COVER}* is told better than *{other}* in more settings than worse"
            found.append((rule, f"{won}:{lost}", won > lost))
    return found


def _by_design(frame: pd.DataFrame) -> list[list[str]]:
    """Means over settings."""
    means = frame.groupby(["cause", "data", "method"])["share"].mean()
    return [
        [cause, design, *(f"{means[cause, design, name]:.2f}" for name in METHODS)]
        for cause in CAUSES
        for design in DESIGNS
    ]


def _by_setting(frame: pd.DataFrame, cause: str) -> list[list[str]]:
    own = frame[frame["cause"] == cause]
    body = []
    for (design, learner, leaf, n, copies), rows in own.groupby(
        ["data", "learner", "leaf", "rows", "copies"], sort=False
    ):
        by_name = rows.set_index("method")
        cells = (f"{by_name['share'][name]:.2f} ({min(by_name['seeds'][name]):.2f})" for name in METHODS)
        shown = (f"**{cell}**" if by_name["trusted"][name] else cell for name, cell in zip(METHODS, cells, strict=True))
        chance = (1 + copies) / (N_COLUMNS + len(CAUSES) * copies)
        body.append([design, learner, str(leaf), str(n), "yes" if copies else "", *shown, f"{chance:.3f}"])
    return body


def _of_copies(frame: pd.DataFrame) -> list[list[str]]:
    """Where columns have copies: how often the planted one itself is first."""
    own = frame[frame["copies"] == 1].set_index(["cause", "data", "method"])["planted"]
    return [
        [cause, design, *(f"{own[cause, design, name]:.2f}" for name in METHODS)]
        for cause in CAUSES
        for design in DESIGNS
    ]
