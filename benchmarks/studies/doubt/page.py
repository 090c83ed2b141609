"""The page of the study of doubt: tables and verdicts made of its cells."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from benchmarks import many_sets
from benchmarks.pages import bold, digits, fill, read_rows, table_rows
from benchmarks.pages import table as table_of
from benchmarks.studies.doubt.doubts import LEAVES
from benchmarks.studies.doubt.drift import DRIFTS, FLIPPED, WATCHED, WEIGHT
from benchmarks.studies.doubt.jobs import DISTINCT, FAR, FEWEST, MEASURES, SHARES
from benchmarks.studies.doubt.labelling import CHOICES, CURVE, RANDOM
from jaxunc.compare import holm

TEMPLATE = Path(__file__).with_name("page.md")
SEEN = ("biodeg", "cmc", "vowel", "yeast")
"""Sets of development that stand beside the others, told apart."""
TITLES = {
    "answers": "Wrong answers", "a column": "A column of other rows", "all columns": "All columns of other rows",
    "far out": "Rows far out", "a class": "A class left out", "uniform, 5%": "Wrong labels, uniform, 5 %",
    "uniform, 10%": "Wrong labels, uniform, 10 %", "by class, 5%": "Wrong labels, by class, 5 %",
    "by class, 10%": "Wrong labels, by class, 10 %",
}  # fmt: skip
"""The problems."""
LATER = {"next": "Rows to label next"} | {name: name.capitalize() for name in DRIFTS}
"""The problems of the two later jobs."""
MEASURES_OF = {"rows": MEASURES, "labels": MEASURES, "next": CURVE, "drift": WATCHED}
ALPHA = 0.05
REFERENCE, OF_LABELS = "1 - p/in-bag/{}", "self-confidence//{}"
"""What the doubts of a table are compared with, of new rows and of labels."""
REJECTED = (
    REFERENCE, "learned p//{}", "1 - p/oob/{}", "epistemic/train/{}", "credal width/in-bag/{}", "RF-ICE//{}",
)  # fmt: skip
"""Doubts by which answers are rejected."""
KS, ERRORS = "KS with Holm//", "error rate//"
"""What detectors of drift are compared with: of a mix, and of a relation."""
EXPECTED, EXPECTED_LATER, FURTHER = (read_rows(TEMPLATE, f"{when} pairs") for when in ("expected", "later", "further"))
"""What the pilot had, what was chosen before the cells of the two later jobs, and what was asked once cells were there:
the problem, the doubt that finds more, and the other; by average precision of labels."""
COLUMNS = (
    "learned p//1", "1 - p/in-bag/1", "epistemic/train/1", "credal width/in-bag/1", "outside share//1", "distance//",
)  # fmt: skip
LABEL_COLUMNS = (
    "learned p of the label//1", "self-confidence//1", "self-confidence, adjusted//1", "labels of the nearest//",
    "1 - p, no label//1", "epistemic//1",
)  # fmt: skip
"""What the table of the verdict shows."""


class Duel(NamedTuple):
    """One doubt against another over sets."""

    wins: int
    losses: int
    median: float
    correlation: float
    """Rank-biserial."""
    p_value: float


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    frame = table(found)
    is_seen = frame["set"].isin(SEEN)
    fresh, seen = frame[~is_seen], frame[is_seen]
    seconds = lambda job: sum(record["seconds"] for cell, record in found.items() if cell.job == job)
    return fill(
        TEMPLATE,
        seen=", ".join(SEEN),
        distinct=DISTINCT,
        far=FAR,
        fewest=FEWEST,
        n_sets=fresh["set"].nunique(),
        minutes={job: round(seconds(job) / 60) for job in MEASURES_OF},
        expected=table_rows(compared(EXPECTED, fresh, seen)),
        further=table_rows(compared(FURTHER, fresh, seen)),
        verdict=verdict(fresh),
        five=digits(wide(fresh, "uniform, 10%")["self-confidence//5"].mean()),
        rejected=table_rows(rejected(fresh)),
        n_later=fresh.loc[fresh["problem"] == DRIFTS[0], "set"].nunique(),
        weight=WEIGHT,
        flipped=round(100 * FLIPPED),
        curves=table_rows(curves(fresh)),
        watched=table_rows(watched(fresh)),
        later=table_rows(row[:-1] for row in compared(EXPECTED_LATER, fresh, seen[:0])),
        problems="\n\n".join(_section(fresh, problem) for problem in TITLES if (fresh["problem"] == problem).any()),
    )


def curves(frame: pd.DataFrame) -> list[list[str]]:
    """Rows of what the labels that each doubt chose are worth."""
    values = wide(frame, "next")
    marks, rows = _marks(values, RANDOM), []
    for choice in (one for one in CHOICES if one in values):
        sets = values[choice].dropna().index
        fewer = "" if len(sets) == len(values) else f" ({len(sets)} sets: random {digits(values[RANDOM][sets].mean())})"
        difference = (values[choice] - values[RANDOM])[sets].mean()
        accuracies = [digits(wide(frame, "next", measure)[choice].mean()) for measure in CURVE[2:]]
        gain = "" if choice == RANDOM else f"{difference:+.3f}"
        rows.append([named(choice) + fewer, marks[choice].format(digits(values[choice].mean())), *accuracies, gain])
    return rows


def watched(frame: pd.DataFrame) -> list[list[str]]:
    """Rows of how well each detector tells drifts."""
    parts = {name: (wide(frame, name), wide(frame, name, "alarms")) for name in DRIFTS}
    marks = {name: _marks(values, ERRORS if name == DRIFTS[2] else KS) for name, (values, _) in parts.items()}
    false = frame[frame["problem"].isin(DRIFTS)].groupby("doubt")["false alarms"].mean()
    rows = []
    for detector in dict.fromkeys(one for values, _ in parts.values() for one in values):
        row = [named(detector)]
        for name, (values, alarms) in parts.items():
            means = [values[detector].mean(), alarms[detector].mean()] if detector in values else []
            row += [marks[name][detector].format(digits(means[0])), digits(means[1])] if means else ["", ""]
        rows.append([*row, digits(false[detector])])
    return rows


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (set, repeat, problem, doubt)."""
    rows = [
        {"set": cell.data, "problem": problem, "doubt": doubt, **dict(zip(MEASURES_OF[cell.job], values, strict=True))}
        for cell, record in found.items()
        for problem, doubts in record["problems"].items()
        for doubt, values in doubts.items()
    ]
    return pd.DataFrame(rows)


def verdict(frame: pd.DataFrame) -> str:
    """Means of the doubts that a reader chooses between: of rows, and of labels."""
    parts = []
    for columns, are_labels in ((COLUMNS, False), (LABEL_COLUMNS, True)):
        rows = []
        for problem in (name for name in TITLES if ("%" in name) == are_labels):
            values = wide(frame, problem)
            means = values.mean().reindex(columns)
            rows.append([TITLES[problem], str(len(values)), *best_in_bold(means)])
        parts.append(table_of(["", "sets", *map(named, columns)], rows))
    return "\n\n".join(parts)


def best_in_bold(values: Iterable[float]) -> list[str]:
    """A row of numbers, the largest in bold; nothing where there is none."""
    cells = [digits(value) for value in values]
    return [bold(each, each == max(cells)) for each in cells]


def _first_measure(problem: str) -> str:
    return "average precision" if "%" in problem else "area" if problem == "next" else "AUROC"


def wide(frame: pd.DataFrame, problem: str, measure: str = "") -> pd.DataFrame:
    """Means over repeats, ``[sets doubts]``, of the measure that the problem is judged by, or of another."""
    of = frame[frame["problem"] == problem]
    return of.pivot_table(index="set", columns="doubt", values=measure or _first_measure(problem), sort=False)


def duel_of(values: np.ndarray) -> Duel:
    """How the first of two columns did against the second."""
    difference = values[:, 0] - values[:, 1]
    ranks, sign = rankdata(np.abs(difference)), np.sign(difference)
    total = np.sum(ranks * np.abs(sign))
    correlation = float(np.sum(ranks * sign) / total) if total else 0.0
    p = many_sets.pairwise_wilcoxon(values, larger_is_better=True, correction="none").p_values[0, 1]
    return Duel(int((sign > 0).sum()), int((sign < 0).sum()), float(np.median(difference)), correlation, float(p))


def said(of: Duel) -> str:
    """A duel in a few words."""
    return f"{of.wins}:{of.losses}, {of.median:+.3f}"


def verdict_of(of: Duel, p: float) -> str:
    """What the test says of an expectation."""
    if p >= ALPHA:
        return "not told apart"
    return "**yes**" if of.correlation > 0 else "**the reverse**"


def compared(pairs: Sequence[tuple[str, ...]], fresh: pd.DataFrame, seen: pd.DataFrame) -> list[list[str]]:
    """Rows of what is asked of two doubts: their means, the duel, and what the test says."""
    of_both = lambda frame, problem, *pair: wide(frame, problem)[[*pair]].dropna()
    duels = [duel_of(of_both(fresh, *of).to_numpy()) for of in pairs]
    p_values = holm(np.array([of.p_value for of in duels]))
    rows = []
    for (problem, *pair), of, p in zip(pairs, duels, p_values, strict=True):
        means = " : ".join(map(digits, of_both(fresh, problem, *pair).mean()))
        words = [(TITLES | LATER)[problem], *map(named, pair), means, said(of), f"{of.correlation:+.2f}", f"{p:.4f}"]
        others = duel_of(of_both(seen, problem, *pair).to_numpy()) if len(seen) else Duel(0, 0, 0, 0, 1)
        rows.append([*words, verdict_of(of, p), f"{others.wins}:{others.losses}"])
    return rows


def named(doubt: str) -> str:
    """A doubt in words: *name, counts*."""
    name, counts, _ = doubt.split("/")
    return f"*{name}*" + f", {counts}" * bool(counts)


def rejected(frame: pd.DataFrame) -> list[list[str]]:
    """Rows of the share of wrong answers among those that are left, by leaf and doubt."""
    sets = wide(frame, "answers").dropna(subset=[REFERENCE.format(leaf) for leaf in LEAVES]).index
    share, *gains = (wide(frame, "answers", name).loc[sets] for name in ("share", *MEASURES[2:5]))
    rows = []
    for leaf in LEAVES:
        for doubt in (one.format(leaf) for one in REJECTED):
            if doubt in share:
                left = [(share * (1 - gain))[doubt].mean() / (1 - q) for gain, q in zip(gains, SHARES, strict=True)]
                rows.append([str(leaf), named(doubt), *map(digits, [share[doubt].mean(), *left])])
    return rows


def _section(frame: pd.DataFrame, problem: str) -> str:
    first = _first_measure(problem)
    further = [name for name in ("AUROC", "average precision") if name != first] + ["gain at 5%", "gain at 20%"]
    reference = OF_LABELS if "%" in problem else REFERENCE
    values = wide(frame, problem).dropna(subset=[reference.format(leaf) for leaf in LEAVES])
    others = [wide(frame, problem, name).loc[values.index] for name in further]
    marks, rows = _marks(values, reference), []
    kinds = dict.fromkeys(tuple(doubt.split("/")[:2]) for doubt in _by_mean(values))
    for name, counts in kinds:
        doubts = [f"{name}/{counts}/{leaf}" for leaf in LEAVES]
        doubts = doubts if counts or any(doubt in values for doubt in doubts) else [f"{name}//"]
        text = [marks[doubt].format(digits(values[doubt].mean())) if doubt in values else "" for doubt in doubts]
        more = [digits(other[doubts[0]].mean()) if doubts[0] in other else "" for other in others]
        rows.append([named(doubts[0]) + _where(values, doubts, reference), *text, *[""] * (3 - len(text)), *more])
    head = ["", *(f"{first}, {leaf}" for leaf in LEAVES), *further]
    slots = {"title": TITLES[problem], "n": len(values), "reference": named(reference)}
    return fill(TEMPLATE, "problem", rows=table_of(head, rows), **slots)


def _by_mean(values: pd.DataFrame) -> list[str]:
    """Doubts, the largest means first; those that are on some of the sets alone behind."""
    first = [name for name in values if name.endswith((f"/{LEAVES[0]}", "//"))]
    return sorted(first, key=lambda name: (bool(values[name].isna().any()), -values[name].mean()))


def _where(values: pd.DataFrame, doubts: Sequence[str], reference: str) -> str:
    """What the reference has on the sets of a doubt that is not on all of them."""
    sets = values[doubts[0]].dropna().index if doubts[0] in values else values.index
    if len(sets) == len(values):
        return ""
    there = [digits(values.loc[sets, reference.format(leaf)].mean()) for leaf in LEAVES]
    return f" ({len(sets)} sets: {', '.join(there)})"


def _marks(values: pd.DataFrame, reference: str) -> dict[str, str]:
    """How a doubt's mean is set: bold if better than the reference of its leaf, in brackets if worse, by Holm."""
    duels = {}
    for doubt in values:
        other = reference.format(doubt.rpartition("/")[2] or LEAVES[0])
        both = values[[doubt, other]].dropna().to_numpy()
        if doubt != other and len(both) > 1:
            duels[doubt] = duel_of(both)
    adjusted = holm(np.array([of.p_value for of in duels.values()]))
    found = dict.fromkeys(values, "{}")
    for (doubt, of), p in zip(duels.items(), adjusted, strict=True):
        if p < ALPHA:
            found[doubt] = "**{}**" if of.correlation > 0 else "({})"
    return found
