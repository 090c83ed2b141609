"""The page of the study of sets: tables made of its cells."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.pages import fill
from benchmarks.pages import table as text_table
from benchmarks.studies.sets.further import likelihood_section, vote_section
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
    further = [likelihood_section(everything), vote_section(found)]
    return fill(
        TEMPLATE,
        n_sets=frame["set"].nunique(),
        n_two=two["set"].nunique(),
        by_need=by_need(frame),
        medians="\n\n".join(_medians(title, rows) for title, rows in by_size.items() if len(rows)),
        wins=lambda kind: _wins(frame, kind),
        promises=_promises(frame),
        further="\n\n".join(filter(None, further)),
        **_numbers(frame),
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
    body = [
        [need, f"*{name}*", *(shown(middle.loc[name, key], key) for key in columns)]
        for need, name in chosen(frame).items()
    ]
    return text_table(head, body)


def _numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """What the page says of the methods that were chosen for a need, and of the others."""
    two = frame[frame["n_classes"] == 2]
    by_class, _, plain = chosen(frame).values()
    kept = frame.groupby("method")[["kept", "n_classes_kept", "n_classes_told"]].sum()
    classes = lambda name: f"{kept.loc[name, 'n_classes_kept']} of {kept.loc[name, 'n_classes_told']}"
    against = partial(duel, frame)
    n_smaller, n_larger, *_ = compared(frame, "conformal, held-out", "conformal, oob", "size")
    return {
        "by_class": by_class,
        "plain": plain,
        "kept_by_class": classes(by_class),
        "kept_plain": classes(plain),
        "kept_cautious": classes("cautious, oob, s = 1"),
        "kept_cautious_2": classes("cautious, oob, s = 2"),
        "kept_one": classes("one class, mean"),
        "by_class_u65": against(by_class, "cautious, oob, s = 2", "u65"),
        "by_class_u80": against(by_class, "cautious, oob, s = 2", "u80"),
        "held_out_u80": against("by class, held-out", by_class, "u80"),
        "learned_one": against("u65, learned", "one class, learned", "u65"),
        "learned_cautious": against("u65, learned", "cautious, oob, s = 1", "u65"),
        "learned_mean": against("u65, learned", "u65, mean", "u65"),
        "learned_one_80": against("u80, learned", "one class, learned", "u80"),
        "learned_cautious_80": against("u80, learned", "cautious, oob, s = 1", "u80"),
        "learned_mean_80": against("u80, learned", "u80, mean", "u80"),
        "n_kept_held_out": kept.loc["conformal, held-out", "kept"],
        "n_kept_oob": kept.loc["conformal, oob", "kept"],
        "n_smaller": n_smaller,
        "n_larger": n_larger,
        "oob_u65": against("conformal, oob", "conformal, held-out", "u65"),
        "cautious_oob": against("cautious, oob, s = 1", "u65, learned", "u65"),
        "cautious_inbag": against("cautious, in-bag, s = 1", "u65, learned", "u65"),
        "cautious_2": against("cautious, oob, s = 2", "u65, learned", "u65"),
        "cautious_2_80": duel(two, "cautious, oob, s = 2", "u80, learned", "u80"),
        "intervals_oob": against("intervals, oob, s = 1", "u65, learned", "u65"),
        "intervals_inbag": against("intervals, in-bag, s = 1", "u65, learned", "u65"),
        "adaptive": _adaptive(frame[frame["n_classes"] > 2]),
    }


def _adaptive(more: pd.DataFrame) -> str:
    """The line on adaptive sets, which are for three classes and more; empty where there is no set of them."""
    if more.empty:
        return ""
    coverage = more[more["method"] == "adaptive, oob"]["coverage"].median()
    return (
        f"\n* Adaptive sets, which cover {coverage:.3f} in the median where 90 % are promised:"
        f" {duel(more, 'adaptive, oob', 'u65, learned', 'u65')} of the mean,"
        f" {duel(more, 'adaptive, learned, oob', 'u65, learned', 'u65')} of the learned pool."
    )


def _medians(title: str, frame: pd.DataFrame) -> str:
    """The section of the sets of two classes, or of more."""
    middle = frame.groupby("method", sort=False)[[*COLUMNS]].median()
    body = [[name, *(shown(value, key) for key, value in row.items())] for name, row in middle.iterrows()]
    slots = {"title": title, "n": frame["set"].nunique(), "least": LEAST_ROWS}
    return fill(TEMPLATE, "medians", **slots, table=text_table(["", *COLUMNS.values()], body))


def _wins(frame: pd.DataFrame, kind: str) -> str:
    """The table of wins by one utility."""
    body = [
        [name, *(duel(frame, name, other, kind) if name != other else "" for other in AGAINST)]
        for name in frame["method"].unique()
    ]
    return text_table(["", *AGAINST], body)


def _promises(frame: pd.DataFrame) -> str:
    """On how many sets, and for how many classes, each method keeps 90 %."""
    sums = frame.groupby("method", sort=False)[["kept", "n_classes_kept", "n_classes_told"]].sum()
    n_sets = frame.groupby("method")["set"].nunique()
    body = []
    for name, row in sums.iterrows():
        classes = f"{row['n_classes_kept']:.0f} of {row['n_classes_told']:.0f}"
        body.append([name, "yes" if name in PROVED else "", f"{row['kept']:.0f} of {n_sets[name]}", classes])
    return text_table(["", "proved", "sets", "classes"], body)
