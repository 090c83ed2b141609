"""The page of the study of attributions: tables and verdicts made of its cells."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.pages import fill, table_rows, verdict_rows
from benchmarks.studies.attributions.methods import CAUSES, DESIGNS, METHODS, N_COLUMNS

TEMPLATE = Path(__file__).with_name("page.md")
TRUSTED, AT_EACH_SEED, TOLD = 0.9, 0.75, 0.9
"""Of the instances in the mean over seeds, at each seed; of the seeds, for one method to be better than another."""
BY_COVER, BY_ROWS, PERMUTATION, OF_MEAN = METHODS
CELL = ["data", "learner", "leaf", "rows", "copies"]


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (setting, cause, method): of each seed the share that has the planted column, or its copy, first."""
    rows = []
    for (cell, record), cause, name in product(found.items(), CAUSES, METHODS):
        shares = np.array(record[cause][name])
        either = shares.sum(axis=1)
        rows.append({**cell._asdict(), "cause": cause, "method": name, "planted": shares[:, 0].mean()})
        rows[-1] |= {"seeds": either, "share": either.mean(), "trusted": is_trusted(either)}
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
    return fill(
        TEMPLATE,
        n_settings=len(found),
        n_seeds=len(frame["seeds"].iloc[0]),
        designs=table_rows(_means(frame, "share")),
        aleatoric=table_rows(_by_setting(frame, "aleatoric")),
        epistemic=table_rows(_by_setting(frame, "epistemic")),
        verdicts=verdict_rows(verdicts(frame)),
        copies=table_rows(_means(frame[frame["copies"] == 1], "planted")),
        **_numbers(frame),
    )


def _numbers(frame: pd.DataFrame) -> dict[str, object]:
    """What the page says in words; its test holds the words to these numbers."""
    by_cover = frame[frame["method"] == BY_COVER]
    noise, hole = (by_cover[by_cover["cause"] == cause] for cause in CAUSES)
    ones, own = (noise["learner"] == "extra trees") & (noise["leaf"] == 1), noise["data"].str.startswith("own")
    both = [told(frame, cause, BY_COVER, PERMUTATION) for cause in CAUSES]
    means = frame.pivot_table(index=["cause", *CELL], columns="method", values="share")
    return {
        "noise": spread(noise[~ones]),
        "pure": spread(noise[ones & own]),
        "pure_others": spread(noise[ones & ~own]),
        **{design.replace(", ", "_"): spread(hole[hole["data"] == design]) for design in DESIGNS},
        "by_rows": f"{(means[BY_ROWS] - means[BY_COVER]).abs().max():.2f}",
        "permutation": sum(lost for _, lost in both),
        "worse": sum(won for won, _ in both),
        "n_both": len(by_cover),
        "of_mean": spread(frame[frame["method"] == OF_MEAN]),
    }


def spread(rows: pd.DataFrame) -> str:
    """The least and the largest share of some settings."""
    if rows.empty:
        return "not run"
    least, most = (f"{value:.2f}" for value in (rows["share"].min(), rows["share"].max()))
    return least if least == most else f"{least} to {most}"


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


def _means(frame: pd.DataFrame, values: str) -> list[list[str]]:
    """Means over the settings of a design."""
    if frame.empty:
        return []
    means = frame.pivot_table(index=["cause", "data"], columns="method", values=values, sort=False)[[*METHODS]]
    order = sorted(means.index, key=lambda key: (key[0], [*DESIGNS].index(key[1])))
    return [[*key, *(f"{share:.2f}" for share in means.loc[key])] for key in order]


def _by_setting(frame: pd.DataFrame, cause: str) -> list[list[str]]:
    own = frame[frame["cause"] == cause]
    body = []
    for (design, learner, leaf, n, copies), rows in own.groupby(CELL, sort=False):
        by_name = rows.set_index("method")
        cells = (f"{by_name['share'][name]:.2f} ({min(by_name['seeds'][name]):.2f})" for name in METHODS)
        shown = (f"**{cell}**" if by_name["trusted"][name] else cell for name, cell in zip(METHODS, cells, strict=True))
        chance = (1 + copies) / (N_COLUMNS + len(CAUSES) * copies)
        body.append([design, learner, str(leaf), str(n), "yes" if copies else "", *shown, f"{chance:.3f}"])
    return body
