"""The page of the study of sets: tables made of its cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.pages import fill
from benchmarks.pages import table as text_table
from benchmarks.studies.sets.further import SIZES, likelihood_section, vote_section
from benchmarks.studies.sets.likelihood import NAMES
from benchmarks.studies.sets.methods import COLUMNS, LEAST_ROWS, LEVEL, WORTH, compared, duel, shown, table

TEMPLATE = Path(__file__).with_name("page.md")
AGAINST = ("one class, mean", "one class, learned", "u65, learned", "u80, learned", "conformal, held-out")
PROVED = ("conformal, held-out", "by class, held-out", "adaptive, held-out")


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    everything = table(found)
    frame = everything[~everything["method"].isin(NAMES)]
    two = frame[frame["n_classes"] == 2]
    by_size = {"Two classes": two, "Three classes and more": frame[frame["n_classes"] > 2]}
    return fill(
        TEMPLATE,
        n_sets=frame["set"].nunique(),
        n_two=two["set"].nunique(),
        by_need=by_need(frame),
        medians="\n\n".join(_medians(title, rows) for title, rows in by_size.items() if len(rows)),
        wins=lambda kind: _wins(frame, kind),
        promises=_promises(frame),
        further="\n\n".join(filter(None, [likelihood_section(everything), vote_section(found)])),
        **_slots(frame),
    )


def chosen(frame: pd.DataFrame) -> dict[str, str]:
    """The method for each need: the best in the mean over sets, of those that do what is needed.

    Sets from relative likelihood are left out here: `likelihood_section` says whether they should take a place.
    """
    frame = frame[~frame["method"].isin(NAMES)]
    by_method = frame.groupby("method", sort=False)
    means = by_method[[*WORTH]].mean()[by_method.size() == frame["set"].nunique()]
    kept = by_method["n_classes_kept"].sum() / by_method["n_classes_told"].sum()
    all_kept = means.loc[kept[means.index] >= 1 - LEVEL, "u80"]
    proved = means.loc[means.index.isin(PROVED), "u80"]
    return {
        "I must not miss a class": str(all_kept.idxmax()),
        "I want to decide as often as it pays": str(means["u65"].idxmax()),
        "I need a guarantee": str(proved.idxmax()),
    }


def by_need(frame: pd.DataFrame) -> str:
    """The table by need, each with what the cells say of it."""
    middle = frame.groupby("method")[[*COLUMNS]].median()
    columns = ("coverage", "worst_class", "single", *WORTH)
    head = ["need", "sets", *(COLUMNS[key] for key in columns)]
    row = lambda name: [f"*{name}*", *(shown(middle.loc[name, key], key) for key in columns)]
    return text_table(head, [[need, *row(name)] for need, name in chosen(frame).items()])


def _slots(frame: pd.DataFrame) -> dict[str, Any]:
    """What the page says of the methods that were chosen for a need, and of the others."""
    by_class, _, plain = chosen(frame).values()
    named = {"by_class": by_class, "plain": plain}
    sums = frame.groupby("method")[["kept", "n_classes_kept", "n_classes_told"]].sum()
    n_smaller, n_larger, *_ = compared(frame, "conformal, held-out", "conformal, oob", "size")
    two, more = (frame[is_size(frame["n_classes"])] for is_size in SIZES.values())
    adaptive = ""
    if len(more):
        mean, learned = (duel(more, f"adaptive, {name}", "u65, learned", "u65") for name in ("oob", "learned, oob"))
        coverage = more[more["method"] == "adaptive, oob"]["coverage"].median()
        adaptive = "\n" + fill(TEMPLATE, "adaptive", coverage=coverage, mean=mean, learned=learned)
    return named | {
        "classes": lambda name: "{n_classes_kept} of {n_classes_told}".format(**sums.loc[named.get(name, name)]),
        "kept": lambda name: sums.loc[name, "kept"],
        "duel": lambda one, other, kind: duel(frame, named.get(one, one), named.get(other, other), kind),
        "cautious_2_80": duel(two, "cautious, oob, s = 2", "u80, learned", "u80"),
        "n_smaller": n_smaller,
        "n_larger": n_larger,
        "adaptive": adaptive,
    }


def _medians(title: str, frame: pd.DataFrame) -> str:
    """The section of the sets of two classes, or of more."""
    middle = frame.groupby("method", sort=False)[[*COLUMNS]].median()
    body = [[name, *(shown(value, key) for key, value in row.items())] for name, row in middle.iterrows()]
    medians = text_table(["", *COLUMNS.values()], body)
    return fill(TEMPLATE, "medians", title=title, n=frame["set"].nunique(), least=LEAST_ROWS, table=medians)


def _wins(frame: pd.DataFrame, kind: str) -> str:
    """The table of wins by one utility."""
    cells = lambda name: (duel(frame, name, other, kind) if name != other else "" for other in AGAINST)
    return text_table(["", *AGAINST], [[name, *cells(name)] for name in frame["method"].unique()])


def _promises(frame: pd.DataFrame) -> str:
    """On how many sets, and for how many classes, each method keeps 90 %."""
    sums = frame.groupby("method", sort=False)[["kept", "n_classes_kept", "n_classes_told"]].sum()
    n_sets = frame.groupby("method")["set"].nunique()
    body = []
    for name, row in sums.iterrows():
        classes = f"{row['n_classes_kept']:.0f} of {row['n_classes_told']:.0f}"
        body.append([name, "yes" if name in PROVED else "", f"{row['kept']:.0f} of {n_sets[name]}", classes])
    return text_table(["", "proved", "sets", "classes"], body)
