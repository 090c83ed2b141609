"""The part of the section on learned votes that asks which step brings the gain: the slope, a learned s, or masses."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.sets_measures import LEVEL, compared, digits, duel, table, text_rows
from benchmarks.sets_vote import COUNTS, KINDS, STEP_KINDS, UTILITIES
from jaxunc import compare

LADDER = (KINDS[0], *STEP_KINDS, KINDS[2])
"""Kinds of methods, each with one thing more than the one before."""
STEPS = ("the slope", "s learned", "masses learned")
WHERE = tuple((counts, utility) for counts in COUNTS for utility in UTILITIES)
COLUMNS = {"coverage": "coverage", "worst_class": "worst class", "u65": "u65", "u80": "u80", "size": "mean size"}


def steps_section(cells: Mapping[Any, dict]) -> list[str]:
    """Of cells with learned votes, those that have the steps too; nothing if none has."""
    cells = with_steps(cells)
    if not cells:
        return []
    frame = table(cells)
    told, whole = told_better(frame), ladder_ends(frame)
    head = ["", *(part for step in STEPS for part in (step, "told better")), "slope and s against cautious"]
    rows = [
        [f"{counts}, for u{utility}"]
        + [part for at in range(3) for part in (_duel(frame, at, at + 1, counts, utility), told[counts, utility][at])]
        + [whole[counts, utility]]
        for counts, utility in WHERE
    ]
    lines = [
        "",
        "### Slope, caution or masses",
        "",
        f"{frame['set'].nunique()} sets; lines of `vote_steps/`. From the cautious forest to its learned vote with",
        "slope in three steps, each with one thing more: the slope at the chosen s (*slope*: nothing is learned); s",
        "learned by the same call while masses are held equal (*slope with learned s*); the masses learned as well",
        "(*learned vote with slope*). Run after the figures above were known, by a criterion fixed before: a gain is a",
        f"step's if it is told better than the step before, by Holm's correction over all {len(WHERE) * len(STEPS)}.",
        "",
        *_said(told),
        "",
        "Wins:losses over sets against the step before and the median gain, by the utility; bold as above, without the",
        "correction. The last column, the first two steps together, was in no plan and is not corrected.",
        "",
        *text_rows([head, ["---"] * len(head), *rows]),
    ]
    for title, part in (
        ("two classes", frame[frame["n_classes"] == 2]),
        ("three classes and more", frame[frame["n_classes"] > 2]),
    ):
        if not part.empty:
            lines += ["", f"Medians, {title}:", "", *_medians(part, cells)]
    return lines


def with_steps(cells: Mapping[Any, dict]) -> dict[Any, dict]:
    """The cells that have the steps, these among their methods."""
    return {
        cell: {
            **record,
            **{key: {**record[key], **record["vote_steps"][key]} for key in ("sets", "seconds", "numbers")},
        }
        for cell, record in cells.items()
        if "vote_steps" in record
    }


def told_better(frame: pd.DataFrame) -> dict[tuple[str, int], list[str]]:
    """Of each step whether it is told better (yes) or worse (worse) than the one before, after Holm's correction."""
    found = [
        compared(frame, _name(at + 1, *where), _name(at, *where), f"u{where[1]}") for where in WHERE for at in range(3)
    ]
    p_values = compare.holm(np.array([one[3] for one in found]))
    said = [
        "no" if p >= LEVEL or won == lost else "yes" if won > lost else "worse"
        for (won, lost, _, _), p in zip(found, p_values, strict=True)
    ]
    return {where: said[3 * at : 3 * at + 3] for at, where in enumerate(WHERE)}


def ladder_ends(frame: pd.DataFrame) -> dict[tuple[str, int], str]:
    """The slope with learned s and equal masses against the cautious forest."""
    return {where: _duel(frame, 0, 2, *where) for where in WHERE}


def _name(at: int, counts: str, utility: int) -> str:
    return f"{LADDER[at]}, {counts}, for u{utility}"


def _duel(frame: pd.DataFrame, before: int, after: int, counts: str, utility: int) -> str:
    return duel(frame, _name(after, counts, utility), _name(before, counts, utility), f"u{utility}")


def _said(told: Mapping[tuple[str, int], list[str]]) -> list[str]:
    lines = []
    for at, step in enumerate(STEPS):
        of = {
            how: ", ".join(
                f"{counts} for u{utility}" for (counts, utility), all_steps in told.items() if all_steps[at] == how
            )
            for how in ("yes", "worse")
        }
        lines.append(
            f"* *{step}*: told better {of['yes'] or 'nowhere'}"
            + (f"; told worse {of['worse']}." if of["worse"] else ".")
        )
    return lines


def _medians(part: pd.DataFrame, cells: Mapping[Any, dict]) -> list[str]:
    middle = part.groupby("method", sort=False)[[*COLUMNS]].median()
    inside, body = set(part["set"]), []
    for where in WHERE:
        for at in range(4):
            name = _name(at, *where)
            s = np.median([one["numbers"][name][0] for cell, one in cells.items() if cell.data in inside])
            body.append([name, *(digits(float(middle.loc[name, key])) for key in COLUMNS), f"{s:.2f}"])
    head = ["", *COLUMNS.values(), "s"]
    return text_rows([head, ["---"] * len(head), *body])
