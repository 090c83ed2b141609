"""The sections of the page of the study of sets on relative likelihood and on learned votes, made of its cells."""

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.pages import fill
from benchmarks.pages import table as text_table
from benchmarks.studies.sets.likelihood import CHOICES, NAMES
from benchmarks.studies.sets.likelihood import KINDS as LIKELIHOODS
from benchmarks.studies.sets.methods import COLUMNS, LEVEL, WORTH, compared, duel, joined, measures, shown, table
from benchmarks.studies.sets.vote import COUNTS, KINDS, STEP_KINDS, UTILITIES, VOTE_NAMES
from jaxunc import compare

TEMPLATE = Path(__file__).with_name("page.md")
BESIDE = (
    "one class, learned", "u65, learned", "u80, learned", "cautious, oob, s = 2", "intervals, oob, s = 1",
    "by class, learned, oob",
)  # fmt: skip
NEEDS = {"u65": "u65, learned", "u80": "u80, learned"}
COVERS = "by class, learned, oob"
"""What is recommended where a class must not be missed."""
NEW = tuple(name for name in NAMES if not name.startswith("intervals"))
LEARNED_VOTES = tuple(name for name in VOTE_NAMES if not name.startswith(KINDS[0] + ","))
OF_VOTES = ("coverage", "worst_class", "u65", "u80", "size", "single", "ms")
"""The columns of the medians of votes."""
LADDER = (KINDS[0], *STEP_KINDS, KINDS[2])
"""Kinds of methods, each with one thing more than the one before."""
STEPS = ("the slope", "s learned", "masses learned")
WHERE = tuple((counts, utility) for counts in COUNTS for utility in UTILITIES)
HOW = ("yes", "worse")
SIZES = {"two classes": lambda n: n == 2, "three classes and more": lambda n: n > 2}


def medians(frame: pd.DataFrame, title: str, methods: Sequence[str], *, columns=tuple(COLUMNS), further=None) -> str:
    """Medians over the sets of two classes, and over those of more, each under its title.

    ``further`` is a title of columns, and a function from a method and the names of the sets to their cells.
    """
    sections = []
    for words, is_size in SIZES.items():
        part = frame[is_size(frame["n_classes"])]
        if part.empty:
            continue
        middle, names = part.groupby("method", sort=False)[[*columns]].median(), set(part["set"])
        head, more = further or ([], lambda name, names: [])
        rows = [[m, *(shown(float(middle.loc[m, key]), key) for key in columns), *more(m, names)] for m in methods]
        sections += [title.format(words), text_table(["", *(COLUMNS[key] for key in columns), *head], rows)]
    return "\n\n".join(sections)


def quote(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def likelihood_section(everything: pd.DataFrame) -> str:
    """Of all sets that have these methods; empty if none has."""
    number = everything[everything["method"].isin(NAMES)].groupby("set")["method"].nunique()
    frame = everything[everything["set"].isin(number.index[number == len(NAMES)])]
    if frame.empty:
        return ""
    passed, ranks = verdict(frame), frame.groupby("method")[[*WORTH]].mean()
    best = {kind: str(ranks.loc[[*NEW], kind].idxmax()) for kind in WORTH}
    keeping = [name for name in NEW if keeps(frame, name)]
    most = str(ranks.loc[keeping, "u80"].idxmax()) if keeping else ""
    so = "" if any(passed[key] for key in ("u65", "u80", "class")) else "\n\n" + fill(TEMPLATE, "no recommendation")
    methods = (*BESIDE, *(name for kind in LIKELIHOODS for name in NAMES if name.startswith(kind)))
    return fill(
        TEMPLATE,
        "likelihood",
        n=frame["set"].nunique(),
        n_all=everything["set"].nunique(),
        passed=lambda kind: quote(passed[kind]),
        best=lambda kind: f"`{best[kind]}`: {duel(frame, best[kind], NEEDS[kind], kind)}",
        n_keeping=len(keeping),
        best_keeping=f" The best of these by mean u80, `{most}`: {duel(frame, most, COVERS, 'u80')}." if most else "",
        so=so,
        medians=medians(frame, "### Medians, {}", methods),
        against=_against(frame),
    )


def verdict(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Methods that pass the rules of the page: {"intervals": …, "u65": …, "u80": …, "class": …}."""
    beside = [name for name in NAMES if name.startswith("likelihood") and CHOICES[0] not in name]
    by = {name: "u65" if name.endswith("u65") else "u80" for name in beside}
    pairs = {name: (name.replace("likelihood", "intervals"), by[name]) for name in beside}
    found = {"intervals": _better(frame, pairs)}
    for kind, rival in NEEDS.items():
        found[kind] = _better(frame, dict.fromkeys(NEW, (rival, kind)))
    found["class"] = _better(frame, {name: (COVERS, "u80") for name in NEW if keeps(frame, name)})
    return found


def keeps(frame: pd.DataFrame, name: str) -> bool:
    """Whether 90 % of a class are kept for at least 95 % of the classes, which is all that chance leaves."""
    sums = frame[frame["method"] == name][["n_classes_kept", "n_classes_told"]].sum()
    return bool(sums["n_classes_kept"] >= (1 - LEVEL) * sums["n_classes_told"])


def _better(frame: pd.DataFrame, pairs: dict[str, tuple[str, str]]) -> list[str]:
    """Those that are told better than what they are paired with, by the measure that stands beside it."""
    words = told(frame, [(name, *pair) for name, pair in pairs.items()])
    return [name for name, word in zip(pairs, words, strict=True) if word == "yes"]


def told(frame: pd.DataFrame, duels: Sequence[tuple[str, str, str]]) -> list[str]:
    """Whether the first of (first, second, measure) is told better (yes) or worse, after Holm's correction; else no."""
    found = [compared(frame, *duel) for duel in duels]
    p_values = compare.holm(np.array([of.p for of in found])) if found else []
    return [
        "no" if p >= LEVEL or of.won == of.lost else "yes" if of.won > of.lost else "worse"
        for of, p in zip(found, p_values, strict=True)
    ]


def _against(frame: pd.DataFrame) -> str:
    head = ["", *(f"{NEEDS[kind]}, by {kind}" for kind in NEEDS), f"{COVERS}, by u80", "sets kept", "classes kept"]
    sums = frame.groupby("method")[["kept", "n_classes_kept", "n_classes_told"]].sum()
    n_sets = frame["set"].nunique()
    body = []
    for name in NAMES:
        duels = [duel(frame, name, rival, kind) for kind, rival in (*NEEDS.items(), ("u80", COVERS))]
        classes = f"{sums.loc[name, 'n_classes_kept']:.0f} of {sums.loc[name, 'n_classes_told']:.0f}"
        body.append([name, *duels, f"{sums.loc[name, 'kept']:.0f} of {n_sets}", classes])
    return text_table(head, body)


def vote_section(found: Mapping[Any, dict]) -> str:
    """Of all cells that have learned votes; empty if none has."""
    cells = {}
    for cell, record in found.items():
        if own := record.get("learned_vote"):
            cells[cell] = joined(record, own) | {"numbers": own["numbers"], "learning": own["learning"]}
    if not cells:
        return ""
    frame = table(cells)
    # Those that are told better than their first rival, and than their second.
    pairs = ({name: (rivals(name)[at], rivals(name)[2]) for name in LEARNED_VOTES} for at in (0, 1))
    helps = [_better(frame, of) for of in pairs]
    learning = [record["learning"] for record in cells.values()]

    def numbers(name: str, names: set) -> list[str]:
        own = [record["numbers"][name] for cell, record in cells.items() if cell.data in names and name in VOTE_NAMES]
        return [f"{number:.2f}" for number in np.median(own, axis=0)] if own else [""] * 3

    section = fill(
        TEMPLATE,
        "votes",
        n=frame["set"].nunique(),
        n_all=len({cell.data for cell in found}),
        n_forests=len(cells),
        helps=quote(helps[0]),
        recommended=quote([name for name in helps[0] if name in helps[1]]),
        n_votes=len(LEARNED_VOTES),
        duels=_vote_duels(frame, helps),
        masses=_of_masses(cells),
        medians=medians(
            frame,
            "### Learned votes, medians, {}",
            (*NEEDS.values(), *VOTE_NAMES),
            columns=OF_VOTES,
            further=(["s", "α", "κ"], numbers),
        ),
        compiled=np.median([seconds[LEARNED_VOTES[-1]] for seconds in learning]),
        slowest=max(value for seconds in learning for value in seconds.values()),
    )
    return "\n\n".join(filter(None, [section, steps_section(cells)]))


def rivals(name: str) -> tuple[str, str, str]:
    """The cautious forest with chosen s, the sets of highest expected utility, and the utility they are compared by."""
    counts, utility = next((c, f"u{u}") for c in COUNTS for u in UTILITIES if name.endswith(f"{c}, for u{u}"))
    return f"{KINDS[0]}, {counts}, for {utility}", f"{utility}, learned", utility


def _vote_duels(frame: pd.DataFrame, helps: Sequence[Sequence[str]]) -> str:
    rows = []
    for name in LEARNED_VOTES:
        chosen, best, utility = rivals(name)
        better = ["yes" if name in of else "no" for of in helps]
        beside = [duel(frame, name, chosen, measure) for measure in ("worst_class", "size")]
        first, second = (duel(frame, name, rival, utility) for rival in (chosen, best))
        rows.append([name, first, better[0], *beside, second, better[1]])
    head = ["", "utility", "told better", "worst class", "mean size", "highest expected utility", "told better"]
    return text_table(head, rows)


def _of_masses(cells: Mapping[Any, dict]) -> str:
    """Gains of forests' exact learned votes whose s compares whole counts as the chosen s does: only masses differ."""
    body = []
    for name in LEARNED_VOTES:
        if not name.startswith(KINDS[1] + ","):
            continue
        chosen, _, utility = rivals(name)
        gains: dict[bool, list[float]] = {True: [], False: []}
        for one in cells.values():
            if ceil(one["numbers"][name][0]) == one["numbers"][chosen][0]:
                own, other = (measures([one["sets"][method]])[utility] for method in (name, chosen))
                gains[one["rows"][2] == 2].append(round(own - other, 9))
        parts = map(np.array, gains.values())
        body.append([name, *(f"{np.sum(p > 0)}:{np.sum(p < 0)} of {len(p)}" for p in parts)])
    return text_table(["", "two classes", "three and more"], body)


def steps_section(cells: Mapping[Any, dict]) -> str:
    """Of cells with learned votes, those that have the steps too; empty if none has."""
    cells = {
        cell: joined(record, record["vote_steps"], "sets", "seconds", "numbers")
        for cell, record in cells.items()
        if "vote_steps" in record
    }
    if not cells:
        return ""
    frame = table(cells)
    duels = [(_name(at + 1, *where), _name(at, *where), f"u{where[1]}") for where in WHERE for at in range(3)]
    words = told(frame, duels)
    steps = {where: words[3 * at : 3 * at + 3] for at, where in enumerate(WHERE)}
    rows = [
        [f"{counts}, for u{utility}"]
        + [part for at in range(3) for part in (_duel(frame, at, at + 1, counts, utility), steps[counts, utility][at])]
        + [_duel(frame, 0, 2, counts, utility)]
        for counts, utility in WHERE
    ]
    head = ["", *(part for step in STEPS for part in (step, "told better")), "slope and s against cautious"]

    def where(step: str) -> str:
        found = {how: [f"{c} for u{u}" for c, u in WHERE if steps[c, u][STEPS.index(step)] == how] for how in HOW}
        worse = f"; told worse {', '.join(found['worse'])}" if found["worse"] else ""
        return (", ".join(found["yes"]) or "nowhere") + worse

    def strength(name: str, names: set) -> list[str]:
        return [f"{np.median([one['numbers'][name][0] for cell, one in cells.items() if cell.data in names]):.2f}"]

    methods = [_name(at, *place) for place in WHERE for at in range(4)]
    return fill(
        TEMPLATE,
        "steps",
        n=frame["set"].nunique(),
        n_steps=len(WHERE) * len(STEPS),
        told=where,
        duels=text_table(head, rows),
        medians=medians(frame, "Medians, {}:", methods, columns=OF_VOTES[:5], further=(["s"], strength)),
    )


def _name(at: int, counts: str, utility: int) -> str:
    return f"{LADDER[at]}, {counts}, for u{utility}"


def _duel(frame: pd.DataFrame, before: int, after: int, counts: str, utility: int) -> str:
    return duel(frame, _name(after, counts, utility), _name(before, counts, utility), f"u{utility}")
