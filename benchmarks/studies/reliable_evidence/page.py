"""The page of the study of reliable classification in evidence accumulation: tables made of its cells."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import many_sets
from benchmarks.studies.reliable_evidence.beyond_page import beyond_sections, frame_of
from benchmarks.studies.reliable_evidence.methods import MEANINGS
from jaxunc import compare

MEASURES = ("auc", "accuracy", "brier", "score", "epistemic", "aleatoric", "total")
"""What a cell holds of each rule: three measures, then the area under the accuracy-rejection curve by `REJECTED_BY`."""
REJECTED_BY = ("score", "epistemic", "aleatoric", "total")
TITLES = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "brier": "Brier score",
    "score": "area under the accuracy-rejection curve, rejecting by the rule's own score",
}
NEW = ("evidence-certain", "evidence-reliable", "preference-reliable", "preference-multiplied")
AGAINST = ("evidence", "probability", "plausibility", "dempster-p")
LEAF_SIZES = (1, 4, 16)


def page(found: Mapping[Any, dict], beyond: Mapping[str, Mapping[Any, dict]]) -> str:
    """The text of the page; ``beyond`` holds the cells of the parts of `beyond`."""
    frame = table(found)
    lines = [
        "# Reliable classification in evidence accumulation",
        "",
        "Busch et al. 2021 leave open whether aspects of reliable classification (Senge et al. 2014) help evidence",
        f"accumulation. Made by `python -m benchmarks reliable_evidence`: {frame['set'].nunique()} data sets of two",
        "classes, with the folds and forests of [the study of rules](../rules/README.md): random forests and extremely",
        "randomised trees of 100 trees, 5-fold cross-validation, in-bag counts. Further parts of the study",
        "add [sets of more classes](#more-classes), [out-of-bag counts](#out-of-bag-counts) and",
        "[random decision trees](#random-decision-trees).",
        "",
        "A leaf's degrees of support π(+), π(−) give its doubts, epistemic u_e = min π and aleatoric u_a = 1 - max π.",
        "Its preference is s = π(+) - π(−), and |s| = 1 - u_e - u_a. The rules:",
        "",
        *(f"* `{name}`: {meaning}." for name, meaning in MEANINGS.items()),
        "",
        *_says(frame),
        "",
        "How to read the tables: wins:losses over sets, of means over folds and both kinds of forest, and the median",
        "gain; for the Brier score a gain is a fall. **Bold** where a signed-rank test over the sets tells the two",
        "apart (p < .05, Holm-corrected for all rules of a column at that leaf size).",
    ]
    for measure, title in TITLES.items():
        lines += ["", f"## {title[0].upper()}{title[1:]}", "", *_table(frame, measure)]
    lines += ["", "## Rejecting by what the forest doubts", "", *_rejection(frame)]
    lines += beyond_sections({part: frame_of(cells, MEASURES) for part, cells in beyond.items()}, frame)
    return "\n".join(lines) + "\n"


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per cell and rule."""
    return frame_of(found, MEASURES)


def by_set(frame: pd.DataFrame, measure: str, leaf_size: int) -> pd.DataFrame:
    """``[sets rules]``: means over folds and kinds of forest."""
    rows = frame[frame["leaf_size"] == leaf_size]
    return rows.pivot_table(index="set", columns="rule", values=measure, aggfunc="mean")[list(MEANINGS)]


def against(values: pd.DataFrame, other: str | pd.Series, *, larger: bool = True) -> pd.DataFrame:
    """Each column of ``values [sets rules]`` against one of them, or against given values: won, lost, gain, p.

    ``other`` is the name of a column, which is then left out.
    """
    base = values[other] if isinstance(other, str) else other
    names = [name for name in values if not (isinstance(other, str) and name == other)]
    pairs = [np.column_stack([values[name], base]).round(6) for name in names]
    gains = [(pair[:, 0] - pair[:, 1]) * (1 if larger else -1) for pair in pairs]
    tests = [many_sets.pairwise_wilcoxon(pair, larger_is_better=larger).p_values[0, 1] for pair in pairs]
    won, lost = ([int((sign * np.round(g, 6) > 0).sum()) for g in gains] for sign in (1, -1))
    columns = {"won": won, "lost": lost, "gain": [float(np.median(g)) for g in gains]}
    return pd.DataFrame({**columns, "p": compare.holm(np.array(tests))}, index=names)


def _cell(row: pd.Series) -> str:
    text = f"{row['won']:.0f}:{row['lost']:.0f} {row['gain']:+.4f}"
    return f"**{text}**" if row["p"] < 0.05 else text


def _table(frame: pd.DataFrame, measure: str) -> list[str]:
    body = []
    for leaf_size in LEAF_SIZES:
        values = by_set(frame, measure, leaf_size)
        duels = {other: against(values, other, larger=measure != "brier") for other in AGAINST}
        for name in MEANINGS:
            cells = ["" if name == other else _cell(duels[other].loc[name]) for other in AGAINST]
            body.append([str(leaf_size), f"`{name}`", f"{values[name].mean():.4f}", *cells])
    return _lines(["least leaf", "rule", "mean", *(f"against `{other}`" for other in AGAINST)], body)


def _rejection(frame: pd.DataFrame) -> list[str]:
    body = []
    for leaf_size in LEAF_SIZES:
        own = by_set(frame, "score", leaf_size)
        duels = {}
        for part in REJECTED_BY[1:]:
            doubted = by_set(frame, part, leaf_size)
            rows = [against(doubted[[name]], own[name]) for name in MEANINGS]
            found = pd.concat(rows)
            duels[part] = found.assign(p=compare.holm(found["p"].to_numpy()))
        for name in MEANINGS:
            body.append([str(leaf_size), f"`{name}`", *(_cell(duels[part].loc[name]) for part in duels)])
    return [
        "The same area where the most doubtful instances are rejected by the mean of u_e, of u_a, or of both over the",
        "trees (`UncertaintyDecomposition`), against rejection by the rule's own score: sets better and worse, gain.",
        "",
        *_lines(["least leaf", "decided by", *(f"by {part} doubt" for part in REJECTED_BY[1:])], body),
    ]


def verdict(frame: pd.DataFrame, names: tuple[str, ...], other: str) -> dict[str, list[str]]:
    """Where tests find a rule better and worse than another: {"better": [...], "worse": [...]}, rule by rule."""
    found: dict[str, list[str]] = {"better": [], "worse": []}
    for name in names:
        for measure in TITLES:
            for leaf_size in LEAF_SIZES:
                row = against(by_set(frame, measure, leaf_size), other, larger=measure != "brier").loc[name]
                if row["p"] < 0.05:
                    short = "rejection" if measure == "score" else TITLES[measure]
                    where = f"`{name}` by {short} at {leaf_size} ({row['won']:.0f}:{row['lost']:.0f})"
                    found["better" if row["gain"] > 0 else "worse"].append(where)
    return found


def _says(frame: pd.DataFrame) -> list[str]:
    def told_of(name: str, other: str, measure: str) -> str:
        row = against(by_set(frame, measure, 16), other, larger=measure != "brier").loc[name]
        return f"{row['won']:.0f}:{row['lost']:.0f}"

    lines = [
        "## What it says",
        "",
        "It helps evidence accumulation to decide in leaves of sixteen or more, and is still not to be",
        "preferred: there `dempster-p`, which the library has, decides about as well; it ranks no better, and its",
        "probabilities are worse than the mean's. So no rule was added.",
        "",
        "Evidence weighted by 1 - u_e - u_a, by sets won and lost in leaves of sixteen: against",
        f"`evidence` {told_of('evidence-reliable', 'evidence', 'accuracy')} by accuracy and"
        f" {told_of('evidence-reliable', 'evidence', 'brier')} by Brier score; against `dempster-p`",
        f"{told_of('evidence-reliable', 'dempster-p', 'accuracy')} by accuracy, which no test tells apart, and"
        f" {told_of('evidence-reliable', 'dempster-p', 'brier')} by Brier score; against",
        f"`probability` {told_of('evidence-reliable', 'probability', 'brier')} by Brier score. All sets were looked at"
        " together: none was held back to confirm",
        "what was found at one of three leaf sizes.",
        "",
        "To reject, each rule's own score does better on more sets than any mean of doubts, at every leaf size.",
        "",
        "The same weights multiplied or added: after Holm's correction no test tells them apart by AUC or accuracy,",
        "and products have the worse Brier scores. So multiplication alone is not what makes evidence accumulation",
        "better here.",
        "",
    ]
    pairs = (
        ("Weighted evidence against evidence accumulation", NEW[:2], "evidence"),
        ("Weighted evidence against the mean", NEW[:2], "probability"),
        ("Weighted evidence against Dempster's rule from the prior", NEW[:2], "dempster-p"),
        ("Weighted preferences against plain ones", NEW[2:3], "plausibility"),
        ("The same weights multiplied or added, evidence", ("evidence-summed",), "evidence"),
        ("The same weights multiplied or added, preferences", NEW[3:], "plausibility"),
    )
    for title, names, other in pairs:
        found = verdict(frame, names, other)
        told = "; ".join(f"{word}: {', '.join(where) or 'nowhere'}" for word, where in found.items())
        lines += [f"* {title} (`{other}`), as far as tests tell, by measure and least leaf. {told}."]
    return lines


def _lines(head: list[str], body: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body)]
