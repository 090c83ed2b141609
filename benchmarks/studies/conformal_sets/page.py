"""The page of the study of conformal sets: a table and verdicts made of its cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.cells import together
from benchmarks.pages import digits, fill, table_rows, verdict_rows
from benchmarks.studies.sets.methods import measures

TEMPLATE = Path(__file__).with_name("page.md")
OURS, THEIRS = ("learned, oob", "mean, oob", "mean, held-out"), ("MAPIE", "crepes")
COVERS, WORST, LARGER = (0.88, 0.92), 0.88, 0.02


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (set, method): both folds' test rows together; only where the method answered on both."""
    rows = [{"set": data, "method": name, **measures(parts)} for (data, name), parts in together(found, "sets").items()]
    return pd.DataFrame(rows)


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    frame = table(found)
    n_sets = frame["set"].nunique()
    means = frame.groupby("method", sort=False).mean(numeric_only=True)
    number = frame.groupby("method", sort=False).size()
    columns = ("coverage", "worst_class", "worst_size", "size", "single", "empty")
    body = [[name, str(number[name]), *(digits(means.loc[name, key]) for key in columns)] for name in means.index]
    by_class = {name: int(number.get(f"{name}, by class", 0)) for name in OURS}
    return fill(
        TEMPLATE,
        n_sets=n_sets,
        n_two=int((frame.groupby("set")["n_classes"].first() == 2).sum()),
        rows=table_rows(body),
        by_class_sets=", ".join(f"{name}: {number} of {n_sets} are left" for name, number in by_class.items()),
        verdicts=verdict_rows(verdicts(frame)),
        alone=int((frame[frame["method"] == OURS[0]]["single"] == 1).sum()),
        raw=", ".join(f"{larger(frame, name, other):+.1%} ({name}, {other})" for name in OURS for other in THEIRS),
    )


def verdicts(frame: pd.DataFrame) -> list[tuple[str, str, bool]]:
    """Each rule in words, what was found, and whether it is kept."""
    means = frame.groupby("method").mean(numeric_only=True)
    found = []
    for name in OURS[:2]:
        value = means.loc[name, "coverage"]
        rule = f"*{name}*: coverage from {COVERS[0]} to {COVERS[1]} in the mean over sets"
        found.append((rule, f"{value:.4f}", bool(COVERS[0] <= value <= COVERS[1])))
    for name in OURS[:2]:
        value = means.loc[f"{name}, by class", "worst_class"]
        found.append((f"*{name}, by class*: worst class {WORST} in the mean", f"{value:.4f}", bool(value >= WORST)))
    for name in OURS:
        for other in THEIRS:
            ratio = larger(frame, name, f"{other}, completed")
            rule = f"*{name}*: not larger than {other}'s, completed, by more than {LARGER:.0%}"
            found.append((rule, f"{ratio:+.1%}", bool(ratio <= LARGER)))
    return found


def larger(frame: pd.DataFrame, first: str, second: str) -> float:
    """By how much the mean over sets of the first's mean size is larger."""
    sizes = frame.pivot_table(index="set", columns="method", values="size")[[first, second]].dropna().mean()
    return float(sizes[first] / sizes[second] - 1)
