"""The sections on what goes beyond the paper of the page of Costa, Verwer and Blockeel 2013, made of its cells."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.pages import fill
from benchmarks.studies.costa2013.branches import WIDTHS
from benchmarks.studies.costa2013.general import NEIGHBOURS, SAMPLE, TREES
from benchmarks.studies.costa2013.numbers import Duel, average, duel
from benchmarks.studies.costa2013.pools import BAG, N_FOLDS, SMALL
from benchmarks.studies.costa2013.sets import NOMINAL_ONLY

TEMPLATE = Path(__file__).with_name("page.md")
Cells = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""{set: {protocol or learner: record}} of the sets that are finished."""
TITLES = {"brier": "Brier score", "log": "log loss", "auc": "AUC", "reliability": "AUC reliability"}


def pools_section(cells: Cells) -> str:
    """The section on pools, learned pools and bags."""
    loo, five = ({name: of for name, of in cells.items() if run in of} for run in ("loo", "five"))
    two = {name: of for name, of in five.items() if of["five"]["classes"] == 2}
    missing = [name for name in SMALL if name not in loo]

    def words(name: str, rival: str) -> str:
        return ", ".join(f"{TITLES[m]} {of.word} ({of.score})" for m, of in _duels(five, name, rival).items())

    return fill(
        TEMPLATE,
        "pools",
        n=len(loo),
        but=f" (not {', '.join(missing)})" if missing else "",
        left_out=lambda name, rival: _row(_duels(loo, name, rival, "loo")),
        n_five=len(five),
        names=", ".join(five),
        venn_abers=fill(TEMPLATE, "Venn-Abers", bag=BAG, **_slots(two)) if two else "",
        words=words,
        bag=BAG,
        **{name: slot for name, slot in _slots(five).items() if name != "n"},
    )


def paths_section(cells: Cells) -> str:
    """The section on nodes along the path."""
    return fill(TEMPLATE, "paths", **_slots(cells))


def branches_section(cells: Cells) -> str:
    """The section on lazy trees and several branches."""
    numeric = {name: of for name, of in cells.items() if name not in NOMINAL_ONLY}
    missing = ", ".join(name for name in SMALL if name not in cells) or "none"
    slots = {"all": len(SMALL), "missing": missing, "numeric": len(numeric), **WIDTHS, **_slots(cells)}
    soft = {name.replace("duel", "soft"): slot for name, slot in _slots(numeric).items() if "duel" in name}
    return fill(TEMPLATE, "branches", **slots, **soft)


def _slots(cells: Cells) -> dict[str, Any]:
    """What is told of readings on some sets: means, duels as cells of a table and in words."""

    def said(name: str, rival: str) -> str:
        found = _duels(cells, name, rival)
        return ", ".join(f"{TITLES[m]} {of.word} ({of.wins}:{of.losses})" for m, of in found.items())

    row = lambda name, rival: _row(_duels(cells, name, rival))
    means = partial(_means, cells, "five", "tpce_pool")
    return {"n": len(cells), "folds": N_FOLDS, "means": means, "duel": row, "duel_said": said}


def _means(cells: Cells, protocol: str, usual: str, name: str) -> str:
    """The means over the sets; in brackets the sets on which the usual reading is beaten."""
    wins = {m: duel(cells, protocol, m, usual, name).wins for m in TITLES}
    numbers = {m: f"{average(cells, protocol, name, m):.4f}" for m in TITLES}
    return " | ".join(numbers[m] + f" ({wins[m]})" * (name != usual) for m in TITLES)


def _duels(cells: Cells, name: str, rival: str, protocol: str = "five") -> dict[str, Duel]:
    return {measure: duel(cells, protocol, measure, rival, name) for measure in TITLES}


def _row(duels: Mapping[str, Duel]) -> str:
    return " | ".join(of.cell for of in duels.values())


def general_section(cells: Cells) -> str:
    """The section on other learners."""
    means = lambda learner, reading: _means(cells, learner, "itself", reading)
    duels = lambda learner, own, rival: _duels(cells, own, rival, learner)
    said = lambda *names: _grouped({m: of.word for m, of in duels(*names).items()})
    slots = {"n": len(cells), "names": ", ".join(cells), "sample": SAMPLE, "neighbours": NEIGHBOURS, "trees": TREES}
    row = lambda *names: _row(duels(*names))
    return fill(TEMPLATE, "general", **slots, folds=N_FOLDS, means=means, duel=row, said=said)


def _grouped(found: Mapping[str, str]) -> str:
    """Words, with the measures that they are of."""
    word = next(iter(found.values()))
    if len(set(found.values())) == 1:
        return f"{word} by any measure" if word == "not told apart" else f"{word} by all four measures"
    of = {word: [TITLES[m] for m in TITLES if found[m] == word] for word in ("better", "worse", "not told apart")}
    return ", ".join(f"{word} by {_listed(measures)}" for word, measures in of.items() if measures)


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
