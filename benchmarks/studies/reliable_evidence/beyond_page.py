"""The sections of the study of reliable evidence on more classes, out-of-bag counts and random decision trees."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import many_sets
from benchmarks.studies.reliable_evidence.methods import MEANINGS
from jaxunc import compare

PARTS = {
    "classes": (
        "More classes",
        "Sets of three classes and more, in-bag counts, the forests of the two-class part, two folds of the five. Each"
        " rule compares every class with the rest of them, from its own prior, as `OneVsRest` does; doubts are those of"
        " the class that the rule chose against the rest. `evidence-classes` is `EvidenceAccumulation` as the library"
        " has it for any number of classes: all of them in one product.",
    ),
    "oob": (
        "Out-of-bag counts",
        "All sets, random forests, two folds of the five. Leaves hold"
        " the rows that their tree was grown without, so a leaf's size is what its shares rest on. Sets of more classes"
        " as above.",
    ),
    "random-trees": (
        "Random decision trees",
        "All sets, 100 random decision trees (`grow_random_trees`), the paper's own kind, on the whole training"
        " sample; two folds of the five.",
    ),
}
"""The parts: title and what was run."""
NATIVE = "evidence-classes"
RULES = (
    "The next sections answer by rules that were fixed before their results were looked at, but for the last sentence",
    "of this paragraph; tests as in the tables above. Weights by doubt (`evidence-reliable`) *help* if accuracy or AUC",
    "is better than that of `evidence` at some least leaf and worse at none. They are *to be preferred* if, at such a",
    "leaf size, accuracy or AUC is better than that of `probability` and `dempster-p` as well, and the Brier score not",
    "worse than that of `probability`. Multiplication makes evidence accumulation better if `evidence-summed` is worse",
    "than it by AUC or accuracy somewhere, and better nowhere. Each column is corrected for its own comparisons. Which",
    "column tells of multiplication was settled on after results were seen: in its counterpart the accuracy of random",
    "trees with leaves of 1 is not told apart.",
)
LEAF_SIZES = (1, 4, 16)
SHOWN = (
    "plausibility", "preference-reliable", "preference-multiplied", "evidence", "evidence-certain",
    "evidence-reliable", "evidence-summed", "dempster-p",
)  # fmt: skip
AGAINST = ("evidence", "probability", "plausibility", "dempster-p")
TITLES = {"auc": "AUC", "accuracy": "accuracy", "brier": "Brier score", "score": "accuracy-rejection, own score"}
DOUBTS = ("epistemic", "aleatoric", "total")
LEVEL = 0.05


def beyond_sections(frames: Mapping[str, pd.DataFrame], inbag: pd.DataFrame) -> list[str]:
    """Sections of all parts that have been run; ``frames`` and ``inbag`` as `reliable_evidence_page.table` has them."""
    lines = ["", "## Beyond two classes and in-bag counts", "", *RULES]
    for part, (title, meaning) in PARTS.items():
        frame = frames.get(part, pd.DataFrame())
        if frame.empty:
            continue
        lines += ["", f"## {title}", "", f"{frame['set'].nunique()} sets. {meaning}", "", *_says(frame)]
        lines += ["", *_table(frame)]
        if part == "oob":
            lines += ["", *_against_inbag(frame, inbag, frames.get("classes", pd.DataFrame()))]
    return lines


def by_set(frame: pd.DataFrame, measure: str, leaf_size: int) -> pd.DataFrame:
    """``[sets rules]``: means over folds and kinds of forest; rules that not all of the sets have are left out."""
    rows = frame[frame["leaf_size"] == leaf_size]
    return rows.pivot_table(index="set", columns="rule", values=measure, aggfunc="mean").dropna(axis=1)


def duels(values: pd.DataFrame, other: str, *, larger: bool = True) -> pd.DataFrame:
    """Each rule against another: won, lost, the median gain, and p after Holm's correction for all of them."""
    names = [name for name in values if name != other]
    return _duels({name: (values[name], values[other]) for name in names}, larger=larger)


def _duels(pairs: Mapping[str, tuple[pd.Series, pd.Series]], *, larger: bool) -> pd.DataFrame:
    rows, sign = [], 1 if larger else -1
    for first, second in pairs.values():
        pair = np.column_stack([first, second]).round(6)
        gains = np.round(sign * (pair[:, 0] - pair[:, 1]), 6)
        p = many_sets.pairwise_wilcoxon(pair, larger_is_better=larger).p_values[0, 1] if gains.any() else 1.0
        rows.append([int((gains > 0).sum()), int((gains < 0).sum()), float(np.median(gains)), float(p)])
    found = pd.DataFrame(rows, columns=["won", "lost", "gain", "p"], index=list(pairs))
    return found.assign(p=compare.holm(found["p"].to_numpy()))


def told(frame: pd.DataFrame, name: str, other: str, measures: tuple[str, ...]) -> dict[str, list[str]]:
    """Where tests tell a rule from another: {"better": [...], "worse": [...]}, by measure and least leaf."""
    found: dict[str, list[str]] = {"better": [], "worse": []}
    for measure in measures:
        for leaf_size in LEAF_SIZES:
            row = duels(by_set(frame, measure, leaf_size), other, larger=measure != "brier").loc[name]
            if row["p"] < LEVEL:
                where = f"{TITLES[measure]} at {leaf_size} ({row['won']:.0f}:{row['lost']:.0f})"
                found["better" if row["won"] > row["lost"] else "worse"].append(where)
    return found


def doubts(frame: pd.DataFrame) -> dict[str, int]:
    """In how many of rule × leaf size × doubt rejection by the doubt is told to be better, or worse, than by score."""
    found = {"better": 0, "worse": 0, "all": 0}
    for leaf_size in LEAF_SIZES:
        own = by_set(frame, "score", leaf_size)
        for part in DOUBTS:
            doubted = by_set(frame, part, leaf_size)
            rows = _duels({name: (doubted[name], own[name]) for name in own}, larger=True)
            is_told = rows["p"] < LEVEL
            found["better"] += int((is_told & (rows["won"] > rows["lost"])).sum())
            found["worse"] += int((is_told & (rows["won"] < rows["lost"])).sum())
            found["all"] += len(rows)
    return found


def helps(frame: pd.DataFrame) -> tuple[bool, bool]:
    """Whether weights by 1 - u_e - u_a help evidence accumulation, and whether they are to be preferred.

    They help if accuracy or AUC is better than unweighted at some least leaf and worse at none. They are to be
    preferred if at a leaf size where they help one of the two is better than the mean's and Dempster's from the prior
    as well, and the Brier score is not worse than the mean's.
    """
    deciding = ("accuracy", "auc")
    found = told(frame, "evidence-reliable", "evidence", deciding)
    is_help = bool(found["better"]) and not found["worse"]
    preferred = False
    for leaf_size in LEAF_SIZES if is_help else ():
        at = frame[frame["leaf_size"] == leaf_size]
        rows = {
            (measure, other): duels(by_set(at, measure, leaf_size), other, larger=measure != "brier").loc[
                "evidence-reliable"
            ]
            for measure in (*deciding, "brier")
            for other in ("evidence", "probability", "dempster-p")
        }
        good = {key: row["p"] < LEVEL and row["won"] > row["lost"] for key, row in rows.items()}
        brier = rows["brier", "probability"]
        is_worse = brier["p"] < LEVEL and brier["won"] < brier["lost"]
        each = [all(good[m, other] for other in ("evidence", "probability", "dempster-p")) for m in deciding]
        preferred |= any(each) and not is_worse
    return is_help, preferred


def _says(frame: pd.DataFrame) -> list[str]:
    is_help, is_preferred = helps(frame)
    rejected = doubts(frame)
    where = lambda *pair: _where(told(frame, *pair, tuple(TITLES)))
    lines = [
        f"* Weights by doubt {'help' if is_help else 'do not help'} evidence accumulation here, and are"
        f" {'' if is_preferred else 'not '}to be preferred.",
        f"* `evidence-reliable` against `evidence`, as far as tests tell, by measure and least leaf."
        f" {where('evidence-reliable', 'evidence')}. Against `probability`."
        f" {where('evidence-reliable', 'probability')}. Against `dempster-p`."
        f" {where('evidence-reliable', 'dempster-p')}.",
        f"* Added (`evidence-summed`) against multiplied (`evidence`). {where('evidence-summed', 'evidence')}."
        " Preferences multiplied (`preference-multiplied`) against added (`plausibility`)."
        f" {where('preference-multiplied', 'plausibility')}.",
        f"* Rejection by a mean of doubts against the rule's own score: told to be better in {rejected['better']} and"
        f" worse in {rejected['worse']} of {rejected['all']} cases (rule, least leaf, kind of doubt).",
    ]
    if NATIVE in by_set(frame, "auc", 1):
        lines.append(
            f"* One product for all classes (`{NATIVE}`) against each class with the rest (`evidence`)."
            f" {where(NATIVE, 'evidence')}."
        )
    return lines


def _where(found: dict[str, list[str]]) -> str:
    return "; ".join(f"{word.capitalize()}: {', '.join(places) or 'nowhere'}" for word, places in found.items())


def _table(frame: pd.DataFrame) -> list[str]:
    body = []
    for measure, title in TITLES.items():
        for leaf_size in LEAF_SIZES:
            values = by_set(frame, measure, leaf_size)
            found = {other: duels(values, other, larger=measure != "brier") for other in AGAINST}
            for name in (*SHOWN, *([NATIVE] if NATIVE in values else [])):
                cells = ["" if name == other else _cell(found[other].loc[name]) for other in AGAINST]
                body.append([title, str(leaf_size), f"`{name}`", f"{values[name].mean():.4f}", *cells])
    return _lines(["measure", "least leaf", "rule", "mean", *(f"against `{other}`" for other in AGAINST)], body)


def _against_inbag(frame: pd.DataFrame, inbag: pd.DataFrame, classes: pd.DataFrame) -> list[str]:
    """The same rule of the same random forests, with either counts."""
    base = pd.concat([inbag, classes])
    same = lambda rows: rows[(rows["forest"] == "random-forest") & (rows["fold"] < 2)]
    body = []
    for leaf_size in LEAF_SIZES:
        found = {}
        for measure in TITLES:
            own, other = (by_set(same(rows), measure, leaf_size) for rows in (frame, base))
            pairs = {name: (own[name], other[name].reindex(own.index)) for name in MEANINGS}
            found[measure] = _duels(pairs, larger=measure != "brier")
        body += [
            [str(leaf_size), f"`{name}`", *(_cell(found[measure].loc[name]) for measure in TITLES)] for name in MEANINGS
        ]
    return [
        "The same rule with out-of-bag counts against in-bag ones, of the same random forests (two folds):",
        "",
        *_lines(["least leaf", "rule", *TITLES.values()], body),
    ]


def _cell(row: pd.Series) -> str:
    text = f"{row['won']:.0f}:{row['lost']:.0f} {row['gain']:+.4f}"
    return f"**{text}**" if row["p"] < LEVEL else text


def _lines(head: list[str], body: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body)]


def frame_of(found: Mapping[Any, dict], measures: tuple[str, ...]) -> pd.DataFrame:
    """A row per cell and rule."""
    rows = [
        {**cell._asdict(), "set": cell.data, "rule": name, **dict(zip(measures, values, strict=True))}
        for cell, record in found.items()
        for name, values in record["rules"].items()
    ]
    return pd.DataFrame(rows)
