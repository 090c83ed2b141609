"""The section of the study of sets that asks whether learned votes help a cautious forest."""

from collections.abc import Mapping
from math import ceil
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.sets_measures import LEVEL, compared, digits, duel, measures, table, text_rows
from benchmarks.sets_steps_page import steps_section
from benchmarks.sets_vote import COUNTS, KINDS, UTILITIES, VOTE_NAMES
from jaxunc import compare

MEANINGS = {
    "cautious, …": "the cautious forest with equal masses, its s chosen out of bag among 1, 2, 3, 4, 5, 7, 10, 15, 20",
    "learned vote, …": "`LearnedVote`: s and the trees' masses, N^α N/(N + κ) of leaves of size N, learned out of bag "
    "by `UtilityLoss` from the chosen s on; then exact comparisons (`hardened`)",
    "… with slope": "the same, with the slope of comparisons that it was learned with",
    "for u65, for u80": "the utility that s was chosen, or the vote learned, for",
}
LEARNED_VOTES = tuple(name for name in VOTE_NAMES if not name.startswith(KINDS[0] + ","))
BESIDE = ("u65, learned", "u80, learned")
COLUMNS = {
    "coverage": "coverage", "worst_class": "worst class", "u65": "u65", "u80": "u80", "size": "mean size",
    "single": "single", "ms": "ms",
}  # fmt: skip


def vote_section(found: Mapping[Any, dict]) -> list[str]:
    """Of all cells that have learned votes; nothing if none has."""
    cells = vote_cells(found)
    if not cells:
        return []
    frame = table(cells)
    n, n_all = frame["set"].nunique(), len({cell.data for cell in found})
    rows = [[name, *_row(frame, name)] for name in LEARNED_VOTES]
    head = ["", "utility", "told better", "worst class", "mean size", "highest expected utility", "told better"]
    lines = [
        "",
        "## Learned votes",
        "",
        f"{n} of the {n_all} sets, {len(cells)} forests and folds of those above; lines of `learned_vote/`.",
        "",
        *(f"* *{name}*: {meaning}." for name, meaning in MEANINGS.items()),
        "",
        *_verdict(frame),
        "",
        "Wins:losses over sets and the median gain: against the cautious forest with chosen s at the same counts, by",
        "the utility that the vote was learned for, by the coverage of the worst class and by size (larger:smaller);",
        "then by utility against `u65, learned` or `u80, learned`. Bold as above; *told better* by Holm's correction",
        f"over all {len(LEARNED_VOTES)}.",
        "",
        *text_rows([head, ["---"] * len(head), *rows]),
        "",
        *_of_masses(cells),
    ]
    for title, part in (
        ("two classes", frame[frame["n_classes"] == 2]),
        ("three classes and more", frame[frame["n_classes"] > 2]),
    ):
        if not part.empty:
            own = {cell: record for cell, record in cells.items() if cell.data in set(part["set"])}
            lines += ["", f"### Learned votes, medians, {title}", "", *_medians(part, own)]
    return [
        *lines,
        "",
        "*s*, *α*, *κ*: medians over forests; equal masses are α = κ = 0. *ms* and these seconds are of a machine busy",
        f"with other work: {_seconds(cells)}.",
        *steps_section(cells),
    ]


def vote_cells(found: Mapping[Any, dict]) -> dict[Any, dict]:
    """The cells that have learned votes, these among their methods."""
    cells = {}
    for cell, record in found.items():
        if "learned_vote" in record:
            own = record["learned_vote"]
            both = {key: {**record[key], **own[key]} for key in ("sets", "seconds")}
            cells[cell] = {**record, **both, "numbers": own["numbers"], "learning": own["learning"]}
    return cells


def rivals(name: str) -> tuple[str, str, str]:
    """The cautious forest with chosen s, the sets of highest expected utility, and the utility they are compared by."""
    counts, utility = next((c, f"u{u}") for c in COUNTS for u in UTILITIES if name.endswith(f"{c}, for u{u}"))
    return f"{KINDS[0]}, {counts}, for {utility}", f"{utility}, learned", utility


def helping(frame: pd.DataFrame, against: int) -> list[str]:
    """Learned votes that are told better than their first (0) or second (1) rival, after Holm's correction."""
    found = [compared(frame, name, rivals(name)[against], rivals(name)[2]) for name in LEARNED_VOTES]
    p_values = compare.holm(np.array([one[3] for one in found]))
    better = [p < LEVEL and won > lost for (won, lost, _, _), p in zip(found, p_values, strict=True)]
    return [name for name, is_better in zip(LEARNED_VOTES, better, strict=True) if is_better]


def _row(frame: pd.DataFrame, name: str) -> list[str]:
    chosen, best, utility = rivals(name)
    told = ["yes" if name in helping(frame, against) else "no" for against in (0, 1)]
    beside = [duel(frame, name, chosen, measure) for measure in ("worst_class", "size")]
    return [duel(frame, name, chosen, utility), told[0], *beside, duel(frame, name, best, utility), told[1]]


def masses_alone(cells: Mapping[Any, dict], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Gains of a forest's exact learned vote where its s compares whole counts as the chosen s does; their classes.

    Nothing but the masses then differs.
    """
    chosen, _, utility = rivals(name)
    same = [one for one in cells.values() if ceil(one["numbers"][name][0]) == one["numbers"][chosen][0]]
    worth = lambda one, method: measures([one["sets"][method]])[utility]  # noqa: E731
    gains = [round(worth(one, name) - worth(one, chosen), 9) for one in same]
    return np.array(gains), np.array([one["rows"][2] for one in same])


def _of_masses(cells: Mapping[Any, dict]) -> list[str]:
    body = []
    for name in LEARNED_VOTES:
        if name.startswith(KINDS[1] + ","):
            gains, n_classes = masses_alone(cells, name)
            parts = (gains[n_classes == 2], gains[n_classes > 2])
            body.append([name, *(f"{np.sum(p > 0)}:{np.sum(p < 0)} of {len(p)}" for p in parts)])
    return [
        "What the masses do alone, looked at afterwards: in these forests the learned s, rounded up, is the chosen",
        "one, so that exact comparisons are the same. Forests won and lost, by the utility, without a test. An empty",
        "leaf, which occurs out of bag, has no mass in a learned vote; in the cautious forest it abstains with the",
        "mass of the others.",
        "",
        *text_rows([["", "two classes", "three and more"], ["---"] * 3, *body]),
    ]


def _verdict(frame: pd.DataFrame) -> list[str]:
    helps = helping(frame, 0)
    recommended = [name for name in helps if name in helping(frame, 1)]
    said = lambda names: ", ".join(f"`{name}`" for name in names) if names else "none"  # noqa: E731
    return [
        "Criteria that were fixed before the first set was run:",
        "",
        "* A learned vote helps if it is told better than the cautious forest with chosen s, by the utility that it was"
        f" learned for: {said(helps)}.",
        "* It is recommended if it is also told better than sets of highest expected utility from learned"
        f" probabilities: {said(recommended)}.",
    ]


def _seconds(cells: Mapping[Any, dict]) -> str:
    """What learning takes: of the four votes of a forest the last finds its program compiled."""
    name = LEARNED_VOTES[-1]
    compiled = np.median([record["learning"][name] for record in cells.values()])
    slowest = max(seconds for record in cells.values() for seconds in record["learning"].values())
    return f"learning takes {compiled:.2f} s in the median once compiled, {slowest:.1f} s at most with compilation"


def _medians(part: pd.DataFrame, cells: Mapping[Any, dict]) -> list[str]:
    middle = part.groupby("method", sort=False)[[*COLUMNS]].median()
    head = ["", *COLUMNS.values(), "s", "α", "κ"]
    body = []
    for name in (*BESIDE, *VOTE_NAMES):
        own = ["", "", ""]
        if name in VOTE_NAMES:
            numbers = np.median([record["numbers"][name] for record in cells.values()], axis=0)
            own = [f"{number:.2f}" for number in numbers]
        body.append([name, *(digits(float(middle.loc[name, key]), key) for key in COLUMNS), *own])
    return text_rows([head, ["---"] * len(head), *body])
