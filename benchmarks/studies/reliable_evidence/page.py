"""The page of the study of reliable classification in evidence accumulation: tables and verdicts made of its cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.cells import method_rows
from benchmarks.many_sets import against
from benchmarks.pages import bold, fill
from benchmarks.pages import table as text_table
from benchmarks.studies.reliable_evidence.methods import NAMES

TEMPLATE = Path(__file__).with_name("page.md")
MEASURES = ("auc", "accuracy", "brier", "score", "epistemic", "aleatoric", "total")
"""What a cell holds of each rule: three measures, then the area under the accuracy-rejection curve by `REJECTED_BY`."""
REJECTED_BY = ("score", "epistemic", "aleatoric", "total")
TITLES = {"auc": "AUC", "accuracy": "accuracy", "brier": "Brier score", "score": "accuracy-rejection, own score"}
AGAINST = ("evidence", "probability", "plausibility", "dempster-p")
HEAD = ["least leaf", "rule", "mean", *(f"against `{other}`" for other in AGAINST)]
SHOWN = (
    "plausibility", "preference-reliable", "preference-multiplied", "evidence", "evidence-certain",
    "evidence-reliable", "evidence-summed", "dempster-p",
)  # fmt: skip
"""The rules in the tables of the further parts."""
NATIVE = "evidence-classes"
LEAF_SIZES = (1, 4, 16)
LEVEL = 0.05


def page(found: Mapping[Any, dict], beyond: Mapping[str, Mapping[Any, dict]]) -> str:
    """The text of the page; ``beyond`` holds the cells of the further parts."""
    frame = table(found)
    frames = {part: table(cells) for part, cells in beyond.items() if cells}
    inbag = pd.concat([frame, *(of for part, of in frames.items() if part == "classes")])

    def won(name: str, other: str, measure: str) -> str:
        row = against(by_set(frame, measure, 16), other, larger=measure != "brier").loc[name]
        return f"{row['won']:.0f}:{row['lost']:.0f}"

    return fill(
        TEMPLATE,
        n_sets=frame["set"].nunique(),
        won=won,
        told=lambda names, other: _listed(frame, names.split(", "), other),
        duels=lambda measure: text_table(HEAD, _rows(frame, measure, NAMES)),
        rejection=_rejection(frame),
        further="\n\n".join(_further(part, of, inbag) for part, of in frames.items()),
    )


def _further(part: str, frame: pd.DataFrame, inbag: pd.DataFrame) -> str:
    """The section of a further part; ``inbag`` has the in-bag counts of all sets."""
    is_help, is_preferred = helps(frame)
    rows = [[title, *row] for measure, title in TITLES.items() for row in _rows(frame, measure, (*SHOWN, NATIVE))]
    return fill(
        TEMPLATE,
        part,
        n_sets=frame["set"].nunique(),
        helps="help" if is_help else "do not help",
        preferred="" if is_preferred else "not ",
        where=lambda name, other: _listed(frame, [name], other, named=False),
        doubts=doubts(frame),
        table=text_table(["measure", *HEAD], rows),
        against_inbag=_against_inbag(frame, inbag) if part == "oob" else "",
    )


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per cell and rule."""
    return method_rows(found, MEASURES, "rules").rename(columns={"method": "rule"})


def by_set(frame: pd.DataFrame, measure: str, leaf_size: int) -> pd.DataFrame:
    """``[sets rules]``: means over folds and kinds of forest; rules that not all of the sets have are left out."""
    rows = frame[frame["leaf_size"] == leaf_size]
    return rows.pivot_table(index="set", columns="rule", values=measure, aggfunc="mean").dropna(axis=1)


def told(frame: pd.DataFrame, name: str, other: str, measures=tuple(TITLES)) -> list[tuple[str, str, int, str]]:
    """Where tests tell a rule from another: ("better" or "worse", measure, least leaf, sets won and lost)."""
    found = []
    for measure in measures:
        for leaf_size in LEAF_SIZES:
            row = against(by_set(frame, measure, leaf_size), other, larger=measure != "brier").loc[name]
            if row["p"] < LEVEL:
                word = "better" if row["won"] > row["lost"] else "worse"
                found.append((word, measure, leaf_size, f"{row['won']:.0f}:{row['lost']:.0f}"))
    return found


def _listed(frame: pd.DataFrame, names: list[str], other: str, *, named: bool = True) -> str:
    """Where rules are told better and worse than another, each with its name or none."""
    titles = TITLES | ({"score": "rejection"} if named else {})
    found: dict[str, list[str]] = {"better": [], "worse": []}
    for name in names:
        for word, measure, leaf_size, won in told(frame, name, other):
            found[word].append(f"`{name}` by " * named + f"{titles[measure]} at {leaf_size} ({won})")
    words = ((word if named else word.capitalize(), where) for word, where in found.items())
    return "; ".join(f"{word}: {', '.join(where) or 'nowhere'}" for word, where in words)


def doubts(frame: pd.DataFrame) -> dict[str, int]:
    """In how many of rule × leaf size × doubt rejection by the doubt is told to be better, or worse, than by score."""
    tests = []
    for leaf_size in LEAF_SIZES:
        own = by_set(frame, "score", leaf_size)
        tests += [against(by_set(frame, part, leaf_size)[list(own)], own) for part in REJECTED_BY[1:]]
    rows = pd.concat(tests)
    apart = (rows["won"] - rows["lost"])[rows["p"] < LEVEL]
    return {"better": int((apart > 0).sum()), "worse": int((apart < 0).sum()), "all": len(rows)}


def helps(frame: pd.DataFrame) -> tuple[bool, bool]:
    """Whether weights by 1 - u_e - u_a help evidence accumulation, and whether they are to be preferred.

    They help if accuracy or AUC is better than unweighted at some least leaf and worse at none. They are to be
    preferred if at a leaf size where they help one of the two is better than the mean's and Dempster's from the prior
    as well, and the Brier score is not worse than the mean's.
    """
    deciding, others = ("accuracy", "auc"), ("evidence", "probability", "dempster-p")
    words_of = lambda other: told(frame, "evidence-reliable", other, (*deciding, "brier"))
    words = {other: {of[1:3]: of[0] for of in words_of(other)} for other in others}
    where = {key: word for key, word in words["evidence"].items() if key[0] in deciding}
    is_help = "better" in where.values() and "worse" not in where.values()
    is_preferred = any(
        words["probability"].get(("brier", leaf_size)) != "worse"
        and any(all(words[other].get((m, leaf_size)) == "better" for other in others) for m in deciding)
        for leaf_size in LEAF_SIZES
    )
    return is_help, is_help and is_preferred


def _cell(row: pd.Series) -> str:
    return bold(f"{row['won']:.0f}:{row['lost']:.0f} {row['gain']:+.4f}", row["p"] < LEVEL)


def _rows(frame: pd.DataFrame, measure: str, names: tuple[str, ...]) -> list[list[str]]:
    body = []
    for leaf_size in LEAF_SIZES:
        values = by_set(frame, measure, leaf_size)
        duels = {other: against(values, other, larger=measure != "brier") for other in AGAINST}
        for name in [name for name in names if name in values]:
            cells = ["" if name == other else _cell(duels[other].loc[name]) for other in AGAINST]
            body.append([str(leaf_size), f"`{name}`", f"{values[name].mean():.4f}", *cells])
    return body


def _rejection(frame: pd.DataFrame) -> str:
    body = []
    for leaf_size in LEAF_SIZES:
        own = by_set(frame, "score", leaf_size)
        duels = [against(by_set(frame, part, leaf_size), own) for part in REJECTED_BY[1:]]
        body += [[str(leaf_size), f"`{name}`", *(_cell(rows.loc[name]) for rows in duels)] for name in NAMES]
    return text_table(["least leaf", "decided by", *(f"by {part} doubt" for part in REJECTED_BY[1:])], body)


def _against_inbag(frame: pd.DataFrame, inbag: pd.DataFrame) -> str:
    """The same rule of the same random forests, with either counts."""
    same = lambda rows: rows[(rows["forest"] == "random-forest") & (rows["fold"] < 2)]
    body = []
    for leaf_size in LEAF_SIZES:
        found = []
        for measure in TITLES:
            own, other = (by_set(same(rows), measure, leaf_size)[list(NAMES)] for rows in (frame, inbag))
            found.append(against(own, other.reindex(own.index), larger=measure != "brier"))
        body += [[str(leaf_size), f"`{name}`", *(_cell(rows.loc[name]) for rows in found)] for name in NAMES]
    return text_table(["least leaf", "rule", *TITLES.values()], body)
