"""The sections on what goes beyond the paper of the page of Costa, Verwer and Blockeel 2013, made of its cells."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.pages import fill, table
from benchmarks.studies.costa2013.branches import WIDTHS
from benchmarks.studies.costa2013.general import NEIGHBOURS, SAMPLE, TREES
from benchmarks.studies.costa2013.numbers import Duel, average, duel
from benchmarks.studies.costa2013.pools import BAG, N_FOLDS, SMALL
from benchmarks.studies.costa2013.sets import NOMINAL_ONLY

TEMPLATE = Path(__file__).with_name("page.md")
Cells = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""{set: {protocol or learner: record}} of the sets that are finished."""
TITLES = {"brier": "Brier score", "log": "log loss", "auc": "AUC", "reliability": "AUC reliability"}
READINGS = {
    "tree": "tree", "tree_laplace": "tree, Laplace", "tree_learned": "tree, learned pool", "tpce": "the paper's mean",
    "tpce_frequencies": "mean of frequencies", "tpce_pool": "pooled", "tpce_weights": "learned weights",
    "tpce_learned": "learned pool", "bag": f"bag of {BAG}", "bag_laplace": f"bag of {BAG}, Laplace",
    "bag_tpce_pool": f"bag of {BAG}, each transductive and pooled", "venn_abers": "pooled, Venn-Abers",
}  # fmt: skip
POOLS = tuple(READINGS)[1:-1]
OF_PATHS = {
    "tree_laplace": "tree, Laplace", "tree_alike": "tree, nodes of the path alike",
    "tree_drawn": "tree, drawn towards the parent", "tree_prunings": "tree, average over prunings",
    "tpce": "the paper's mean", "tpce_alike": "transduction, nodes of the paths alike",
    "tpce_drawn": "transduction, drawn towards the parent", "tpce_pool": "transduction, pooled",
    "tpce_pool_drawn": "transduction, pooled, drawn towards the parent",
}  # fmt: skip
PATH_DUELS = (
    *(("tree_alike", "tree_laplace"), ("tree_drawn", "tree_laplace"), ("tree_prunings", "tree_laplace")),
    *(("tpce_alike", "tpce"), ("tpce_drawn", "tpce"), ("tpce_pool_drawn", "tpce_pool")),
    *(("tpce_pool", "tree_prunings"), ("tpce_pool", "tree_drawn"), ("tpce_pool_drawn", "tree_prunings")),
)
OF_BRANCHES = {
    "tree_laplace": "tree, Laplace", "soft_narrow": "tree, soft, narrow", "soft_wide": "tree, soft, wide",
    "fuzzy_narrow": "tree, soft counts, narrow", "fuzzy_wide": "tree, soft counts, wide",
    "lazy_laplace": "lazy tree, Laplace", "tpce": "the paper's mean", "lazy_tpce": "lazy, the paper's mean",
    "tpce_pool": "transduction, pooled", "lazy_pool": "lazy, pooled", "tpce_pool_tree": "half pooled, half tree",
    "tpce_pool_narrow": "half pooled, half soft narrow tree", "tpce_pool_wide": "half pooled, half soft wide tree",
}  # fmt: skip
LAZY_DUELS = (
    *(("lazy_laplace", "tree_laplace"), ("lazy_tpce", "tpce"), ("lazy_pool", "tpce_pool")),
    *(("lazy_pool", "lazy_laplace"), ("lazy_pool", "tree_laplace")),
)
SOFT_DUELS = (
    *((f"{kind}_{width}", "tree_laplace") for kind in ("soft", "fuzzy") for width in WIDTHS),
    *((f"{kind}_wide", "tpce_pool") for kind in ("soft", "fuzzy")),
    *((f"tpce_pool_{width}", rival) for width in WIDTHS for rival in ("tpce_pool", "tpce_pool_tree")),
)
OF_LEARNERS = {
    "naive Bayes": "naive Bayes (Gaussian)", "neighbours": f"{NEIGHBOURS} nearest neighbours",
    "tree": "decision tree, grown out", "logistic": "logistic regression", "forest": f"random forest of {TREES}",
}  # fmt: skip
ANSWERS = {"itself": "itself", "laplace": "Laplace", "mean": "mean", "pnml": "pNML"}


def pools_section(cells: Cells) -> str:
    """The section on pools, learned pools and bags."""
    loo, five = ({name: of for name, of in cells.items() if run in of} for run in ("loo", "five"))
    two = {name: of for name, of in five.items() if of["five"]["classes"] == 2}
    missing = [name for name in SMALL if name not in loo]

    def words(name: str, rival: str) -> str:
        found = {m: duel(five, "five", m, rival, name) for m in TITLES}
        return ", ".join(f"{TITLES[m]} {of.word} ({of.score})" for m, of in found.items())

    return fill(
        TEMPLATE,
        "pools",
        n=len(loo),
        but=f" (not {', '.join(missing)})" if missing else "",
        left_out=_against(loo, "tpce_pool", ("tpce", "tree_laplace", "tree"), protocol="loo", head="pooled against"),
        folds=N_FOLDS,
        n_five=len(five),
        names=", ".join(five),
        bag=BAG,
        means=_means(five, {name: READINGS[name] for name in POOLS}),
        learned=_against(five, "tpce_learned", ("tpce_pool", "tpce", "tree_laplace", "tree_learned")),
        bags=_against(five, "bag_tpce_pool", ("tpce_pool", "tpce_learned", "bag", "bag_laplace")),
        venn_abers=_venn_abers(two) if two else "",
        words=words,
    )


def _venn_abers(two: Cells) -> str:
    return fill(
        TEMPLATE,
        "Venn-Abers",
        n=len(two),
        means=_means(two, {name: READINGS[name] for name in (*POOLS, "venn_abers")}),
        duels=_against(two, "venn_abers", ("tpce_pool", "tpce_learned", "tree_laplace")),
    )


def paths_section(cells: Cells) -> str:
    """The section on nodes along the path."""
    found = {pair: _by_measure(cells, *pair) for pair in PATH_DUELS}
    slots = {"folds": N_FOLDS, "n": len(cells), "means": _means(cells, OF_PATHS)}
    return fill(TEMPLATE, "paths", **slots, **_duels(found, OF_PATHS))


def branches_section(cells: Cells) -> str:
    """The section on lazy trees and several branches."""
    numeric = {name: of for name, of in cells.items() if name not in NOMINAL_ONLY}
    found = {pair: _by_measure(cells, *pair) for pair in LAZY_DUELS}
    found |= {pair: _by_measure(numeric, *pair) for pair in SOFT_DUELS}
    missing = ", ".join(name for name in SMALL if name not in cells) or "none"
    slots = {"folds": N_FOLDS, "n": len(cells), "all": len(SMALL), "missing": missing, "numeric": len(numeric)}
    return fill(TEMPLATE, "branches", **slots, **WIDTHS, means=_means(cells, OF_BRANCHES), **_duels(found, OF_BRANCHES))


def general_section(cells: Cells) -> str:
    """The section on other learners."""
    means, duels, verdicts = [], [], []
    for learner, name in OF_LEARNERS.items():
        record = next(iter(cells.values()))[learner]
        for reading in [reading for reading in ANSWERS if reading in record]:
            line = [name if reading == "itself" else "", ANSWERS[reading]]
            for measure in TITLES:
                mean = average(cells, learner, reading, measure)
                wins = duel(cells, learner, measure, "itself", reading).wins
                line.append(f"{mean:.4f}" + f" ({wins})" * (reading != "itself"))
            means.append(line)
        said = dict.fromkeys(("mean", "pnml"), "")
        for rival in [rival for rival in ("itself", "laplace") if rival in record]:
            for own in said:
                found = {m: duel(cells, learner, m, rival, own) for m in TITLES}
                duels.append([name, f"{ANSWERS[own]} against {ANSWERS[rival]}", *(of.cell for of in found.values())])
                words = _grouped({m: of.word for m, of in found.items()})
                called = "the mean" if own == "mean" else "pNML"
                said[own] += f"{called} is {words}" if rival == "itself" else f" (than Laplace: {words})"
        verdicts.append(f"* {name}: {'; '.join(said.values())}.")
    return fill(
        TEMPLATE,
        "general",
        n=len(cells),
        names=", ".join(cells),
        sample=SAMPLE,
        folds=N_FOLDS,
        means=table(["learner", "answer", *TITLES.values()], means),
        duels=table(["learner", "", *TITLES.values()], duels),
        verdicts="\n".join(verdicts),
    )


def _grouped(found: Mapping[str, str]) -> str:
    """Words, with the measures that they are of."""
    word = next(iter(found.values()))
    if len(set(found.values())) == 1:
        return f"{word} by any measure" if word == "not told apart" else f"{word} by all four measures"
    of = {word: [TITLES[m] for m in TITLES if found[m] == word] for word in ("better", "worse", "not told apart")}
    return ", ".join(f"{word} by {_listed(measures)}" for word, measures in of.items() if measures)


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _by_measure(cells: Cells, name: str, rival: str, protocol: str = "five") -> dict[str, Duel]:
    return {measure: duel(cells, protocol, measure, rival, name) for measure in TITLES}


def _means(cells: Cells, readings: Mapping[str, str]) -> str:
    """The means over the sets; in brackets the sets on which pooled leaves are beaten."""
    lines = []
    for name, title in readings.items():
        line = [title]
        for measure in TITLES:
            wins = duel(cells, "five", measure, "tpce_pool", name).wins
            mean = average(cells, "five", name, measure)
            line.append(f"{mean:.4f}" + f" ({wins})" * (name != "tpce_pool"))
        lines.append(line)
    return table(["reading", *TITLES.values()], lines)


def _against(cells: Cells, name: str, rivals: Iterable[str], *, protocol: str = "five", head: str = "against") -> str:
    lines = [
        [READINGS[rival], *(of.cell for of in _by_measure(cells, name, rival, protocol).values())] for rival in rivals
    ]
    return table([head, *TITLES.values()], lines)


def _duels(found: Mapping[tuple[str, str], Mapping[str, Duel]], readings: Mapping[str, str]) -> dict[str, str]:
    """A table of duels, and a list of what came of them."""
    lines, verdicts = [], []
    for (own, rival), duels in found.items():
        pair = f"{readings[own]}, against {readings[rival]}"
        lines.append([pair, *(of.cell for of in duels.values())])
        said = ", ".join(f"{TITLES[m]} {of.word} ({of.wins}:{of.losses})" for m, of in duels.items())
        verdicts.append(f"* {pair}: {said}.")
    return {"duels": table(["", *TITLES.values()], lines), "verdicts": "\n".join(verdicts)}
