"""The section on lazy trees and several branches of the page of Costa, Verwer and Blockeel 2013, made of its cells."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.papers.costa2013_branches import WIDTHS
from benchmarks.papers.costa2013_numbers import Duel, p_in_words
from benchmarks.papers.costa2013_page import table
from benchmarks.papers.costa2013_pools import N_FOLDS
from benchmarks.papers.costa2013_pools_cells import SMALL
from benchmarks.papers.costa2013_pools_section import TITLES, duel, values
from benchmarks.papers.costa2013_reading import filled
from benchmarks.papers.costa2013_sets import NOMINAL_ONLY

Cells = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""{set: {"five": record}} of the sets that are finished."""
READINGS = {
    "tree_laplace": "tree, Laplace",
    "soft_narrow": "tree, soft, narrow",
    "soft_wide": "tree, soft, wide",
    "fuzzy_narrow": "tree, soft counts, narrow",
    "fuzzy_wide": "tree, soft counts, wide",
    "lazy_laplace": "lazy tree, Laplace",
    "tpce": "the paper's mean",
    "lazy_tpce": "lazy, the paper's mean",
    "tpce_pool": "transduction, pooled",
    "lazy_pool": "lazy, pooled",
    "tpce_pool_tree": "half pooled, half tree",
    "tpce_pool_narrow": "half pooled, half soft narrow tree",
    "tpce_pool_wide": "half pooled, half soft wide tree",
}
DUELS = (
    *(("lazy_laplace", "tree_laplace"), ("lazy_tpce", "tpce"), ("lazy_pool", "tpce_pool")),
    *(("lazy_pool", "lazy_laplace"), ("lazy_pool", "tree_laplace")),
)
SOFT_DUELS = (
    *((f"{kind}_{width}", "tree_laplace") for kind in ("soft", "fuzzy") for width in WIDTHS),
    *((f"{kind}_wide", "tpce_pool") for kind in ("soft", "fuzzy")),
    *((f"tpce_pool_{width}", rival) for width in WIDTHS for rival in ("tpce_pool", "tpce_pool_tree")),
)
WORDS = {"ahead": "better", "behind": "worse", "not apart": "not told apart"}
SECTION = """
By `python -m benchmarks.papers.costa2013_branches`, {folds} folds of each of {n} of the {all} sets up to 2000 instances
(not {missing}: left out before the run, for its many features). All settings were chosen before any result was
seen, and none was changed after.
"""
LAZY = """
A **lazy tree** (Friedman, Kohavi and Yun 1996) is one path for one instance: each node takes the test whose branch of
the instance tells most, the classes of the node being weighted to be equally likely. Of equal gains the branch of most
instances wins; a branch has two instances at least. Here numbers are cut between any two values of a node in place of
being made discrete beforehand, a nominal test is one value against the rest, a missing number lies below all others,
and there is no cache and no vote of tests of almost equal gain. With the instance inserted under each label there are k
such paths, in which it counts.
"""
SOFT = """
**Soft**: an instance near a threshold of the plain tree goes to both sides. The share of the left side falls linearly
from 1 to 0, from {narrow} (narrow) or {wide} (wide) standard deviations of the node's training instances below the
threshold to as much above it; nominal tests and missing values stay as they are. The leaves' Laplace estimates are
weighted by the shares. *Soft counts*: the training instances are counted into the leaves by their own shares, which is
the nearest to a fuzzy tree here: none is grown by fuzzy gains. The k trees of transduction are not read softly, since
only the instance's path of each is made, and the other branches would have to be grown. In their place the pooled
estimate and the tree's are averaged, beside the same with the tree as it is. Of the soft readings only the
{numeric} sets with a numeric feature are compared.
"""
BESIDE = """
Means over the {n} sets; in brackets the sets on which pooled leaves of transduction are beaten. Below them
wins/ties/losses of the first, and p:
"""


def section(cells: Cells) -> str:
    """The section, with its verdict."""
    numeric = _numeric(cells)
    missing = ", ".join(name for name in SMALL if name not in cells) or "none"
    parts = ["## Lazy trees and several branches"]
    parts.append(filled(SECTION.format(folds=N_FOLDS, n=len(cells), all=len(SMALL), missing=missing)))
    parts += [filled(LAZY), filled(SOFT.format(**WIDTHS, numeric=len(numeric))), filled(BESIDE.format(n=len(cells)))]
    return "\n\n".join([*parts, _means(cells), _table(cells), verdict(cells)])


def verdict(cells: Cells) -> str:
    """Each reading against its rival, in a list."""
    lines = ["**So**:", ""]
    for own, rival, found in _all(cells):
        said = ", ".join(f"{TITLES[m]} {WORDS[of.verdict]} ({of.wins}:{of.losses})" for m, of in found.items())
        lines.append(f"* {READINGS[own]}, against {READINGS[rival]}: {said}.")
    return filled("\n".join(lines))


def _numeric(cells: Cells) -> Cells:
    return {name: of for name, of in cells.items() if name not in NOMINAL_ONLY}


def _all(cells: Cells) -> list[tuple[str, str, dict[str, Duel]]]:
    pairs = [(cells, *pair) for pair in DUELS] + [(_numeric(cells), *pair) for pair in SOFT_DUELS]
    return [(own, rival, {m: duel(of, "five", m, own, rival) for m in TITLES}) for of, own, rival in pairs]


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


def _table(cells: Cells) -> str:
    lines = [
        [f"{READINGS[own]}, against {READINGS[rival]}", *(f"{of.score}, {p_in_words(of.p)}" for of in found.values())]
        for own, rival, found in _all(cells)
    ]
    return table(["", *TITLES.values()], lines)
