"""The section on nodes along the path of the page of Costa, Verwer and Blockeel 2013, made of its cells."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.papers.costa2013_numbers import p_in_words
from benchmarks.papers.costa2013_page import table
from benchmarks.papers.costa2013_pools import N_FOLDS
from benchmarks.papers.costa2013_pools_section import TITLES, duel, values
from benchmarks.papers.costa2013_reading import filled

Cells = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""{set: {"five": record}} of the sets that are finished."""
READINGS = {
    "tree_laplace": "tree, Laplace",
    "tree_alike": "tree, nodes of the path alike",
    "tree_drawn": "tree, drawn towards the parent",
    "tree_prunings": "tree, average over prunings",
    "tpce": "the paper's mean",
    "tpce_alike": "transduction, nodes of the paths alike",
    "tpce_drawn": "transduction, drawn towards the parent",
    "tpce_pool": "transduction, pooled",
    "tpce_pool_drawn": "transduction, pooled, drawn towards the parent",
}
DUELS = (
    *(("tree_alike", "tree_laplace"), ("tree_drawn", "tree_laplace"), ("tree_prunings", "tree_laplace")),
    *(("tpce_alike", "tpce"), ("tpce_drawn", "tpce"), ("tpce_pool_drawn", "tpce_pool")),
    *(("tpce_pool", "tree_prunings"), ("tpce_pool", "tree_drawn"), ("tpce_pool_drawn", "tree_prunings")),
)
WORDS = {"ahead": "better", "behind": "worse", "not apart": "not told apart"}
SECTION = """
The paper names other ways to better certainty: "combining the class distribution from different nodes in the path"
(its reference 12), inner nodes, smoothing (its reference 1), and says that they "can be easily combined" with its own.
By `python -m benchmarks.papers.costa2013_paths`, {folds} folds of each of {n} sets up to 2000 instances. An instance's
path leads from the root to its leaf; its nodes are read **alike** (the mean of their Laplace estimates), **drawn
towards the parent** (n_c and as many instances as there are classes, split as the parent's estimate is, from the
uniform one at the root down to the leaf), or as the **average over prunings** of the whole tree, weighted by their
evidence under uniform priors, each node being a leaf with probability one half beforehand (Buntine 1992; context-tree
weighting). That last one needs the nodes beside the path, which transduction never makes, so it is there for the plain
tree alone. *Pooled, drawn* weighs the k drawn estimates by the sizes of their leaves. Means over the sets; in brackets
the sets on which pooled leaves are beaten.
"""
BESIDE = """
Wins/ties/losses of the first, and p:
"""


def section(cells: Cells) -> str:
    """The section, with its verdict."""
    parts = ["## Nodes along the path", filled(SECTION.format(folds=N_FOLDS, n=len(cells))), _means(cells)]
    return "\n\n".join([*parts, BESIDE.strip(), _duels(cells), verdict(cells)])


def verdict(cells: Cells) -> str:
    """Each mixture against the same leaves without it, in a list."""
    lines = ["**So**:", ""]
    for own, rival in DUELS:
        found = {m: duel(cells, "five", m, own, rival) for m in TITLES}
        said = ", ".join(f"{TITLES[m]} {WORDS[of.verdict]} ({of.wins}:{of.losses})" for m, of in found.items())
        lines.append(f"* {READINGS[own]}, against {READINGS[rival]}: {said}.")
    return filled("\n".join(lines))


def _means(cells: Cells) -> str:
    lines = []
    for name, said in READINGS.items():
        line = [said]
        for measure in TITLES:
            wins = duel(cells, "five", measure, name, "tpce_pool").wins
            mean = float(np.nanmean(values(cells, "five", name, measure)))
            line.append(f"{mean:.4f}" + f" ({wins})" * (name != "tpce_pool"))
        lines.append(line)
    return table(["reading", *TITLES.values()], lines)


def _duels(cells: Cells) -> str:
    lines = []
    for own, rival in DUELS:
        found = [duel(cells, "five", measure, own, rival) for measure in TITLES]
        lines.append(
            [f"{READINGS[own]}, against {READINGS[rival]}", *(f"{of.score}, {p_in_words(of.p)}" for of in found)]
        )
    return table(["", *TITLES.values()], lines)
