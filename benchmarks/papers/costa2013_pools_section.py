"""The section on pools of the page of the study of Costa, Verwer and Blockeel 2013, made of its cells."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.papers.costa2013_numbers import Duel, against, p_in_words
from benchmarks.papers.costa2013_page import table
from benchmarks.papers.costa2013_pools import BAG, N_FOLDS, POOL_MEASURES
from benchmarks.papers.costa2013_reading import filled
from benchmarks.papers.costa2013_sets import LARGE, SETS

Cells = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""{set: {protocol: record}} of the sets of which a cell is finished."""
TITLES = {"brier": "Brier score", "log": "log loss", "auc": "AUC", "reliability": "AUC reliability"}
LEFT_OUT = {"tpce": "the paper's mean", "tree_laplace": "tree, Laplace", "tree": "tree"}
READINGS = {
    "tree_laplace": "tree, Laplace",
    "tree_learned": "tree, learned pool",
    "tpce": "the paper's mean",
    "tpce_frequencies": "mean of frequencies",
    "tpce_pool": "pooled",
    "tpce_weights": "learned weights",
    "tpce_learned": "learned pool",
    "bag": f"bag of {BAG}",
    "bag_laplace": f"bag of {BAG}, Laplace",
    "bag_tpce_pool": f"bag of {BAG}, each transductive and pooled",
}
RIVALS = ("tpce_pool", "tpce", "tree_laplace", "tree_learned")
SECTION = """
Beyond the paper, by `python -m benchmarks.papers.costa2013_learned`.

**Instances left out one by one**, the paper's protocol, on {n} of the sets up to 2000 instances{but}. Pooling against
each, pooling's wins first:
"""
LEARNED = """
**Learned pools.** A training instance is left out and inserted with each label: its k leaves do not know its class. On
the leaves of all of them the numbers of `LearnedPool` are fitted by log loss, starting from pooling; *learned weights*
are its powers of leaf size and of probability and its strength of the prior alone, without scales, biases and noise.
*Tree, learned pool* is the same for the single leaf of the tree that has not seen the instance. {folds} folds of each
of {n} sets ({names}); everything is learned inside of the training part, and all test instances of a set are ranked
together. The log loss takes a probability to be {clip} at least. *Bags*
are of {bag} bootstrap samples. Means over the sets; in brackets the sets on which pooled leaves are beaten.
"""
DUELS = """
Wins/ties/losses of the learned pool, and p:
"""
BAGS = """
Wins/ties/losses of the bag of transductive trees, and p:
"""
VENN = """
**Venn-Abers, of two classes.** Isotonic fits of the pooled scores of instances left out, with the new instance under
either label; on the {n} sets of two classes. (The known scores are those without the new instance, which costs exact
validity.) Below the means: its wins/ties/losses, and p.
"""


def section(cells: Cells) -> str:
    """The section, with its headline."""
    loo, five = ({name: of for name, of in cells.items() if run in of} for run in ("loo", "five"))
    missing = [name for name in SETS if name not in LARGE and name not in loo]
    but = f" (not {', '.join(missing)})" * bool(missing)
    parts = ["## Pools, learned pools and bags", _filled(SECTION, n=len(loo), but=but)]
    lines = [
        [said, *(_said(duel(loo, "loo", m, "tpce_pool", name)) for m in TITLES)] for name, said in LEFT_OUT.items()
    ]
    parts.append(table(["pooled against", *TITLES.values()], lines))
    parts.append(_filled(LEARNED, folds=N_FOLDS, clip="10⁻⁶", bag=BAG, n=len(five), names=", ".join(five)))
    parts += [_means(five, READINGS), DUELS.strip(), _duels(five, "tpce_learned", RIVALS)]
    parts += [BAGS.strip(), _duels(five, "bag_tpce_pool", ("tpce_pool", "tpce_learned", "bag", "bag_laplace"))]
    two = {name: of for name, of in five.items() if of["five"]["classes"] == 2}
    if two:
        parts += [_filled(VENN, n=len(two)), _means(two, READINGS | {"venn_abers": "pooled, Venn-Abers"})]
        parts.append(_duels(two, "venn_abers", ("tpce_pool", "tpce_learned", "tree_laplace")))
    return "\n\n".join([*parts, verdict(five)])


def verdict(cells: Cells) -> str:
    """What the learned pool is worth beside pooling, in a paragraph."""
    words = {"ahead": "better", "behind": "worse", "not apart": "not told apart"}
    found = {m: duel(cells, "five", m, "tpce_learned", "tpce_pool") for m in TITLES}
    said = [f"{TITLES[m]} {words[of.verdict]} ({of.score})" for m, of in found.items()]
    bag = {m: duel(cells, "five", m, "bag_tpce_pool", "bag_laplace") for m in TITLES}
    bags = [f"{TITLES[m]} {words[of.verdict]} ({of.score})" for m, of in bag.items()]
    return _filled(
        "**So** a learned pool against pooling, which learns nothing: {learned}. A bag of transductive trees against a "
        "smoothed bag of as many plain ones: {bags}.",
        learned=", ".join(said),
        bags=", ".join(bags),
    )


def values(cells: Cells, protocol: str, name: str, measure: str) -> np.ndarray:
    """``[sets]``; NaN where a measure is not defined."""
    place = POOL_MEASURES.index(measure)
    found = [of[protocol].get(name, [None] * len(POOL_MEASURES))[place] for of in cells.values()]
    return np.array([np.nan if value is None else value for value in found], float)


def duel(cells: Cells, protocol: str, measure: str, name: str, other: str) -> Duel:
    """One reading against another, over the sets that have both."""
    own, theirs = (values(cells, protocol, of, measure) for of in (name, other))
    return against(own, theirs, "brier" if measure in ("brier", "log") else measure)


def _means(cells: Cells, readings: Mapping[str, str]) -> str:
    lines = []
    for name, said in readings.items():
        line = [said]
        for measure in TITLES:
            mean = float(np.nanmean(values(cells, "five", name, measure)))
            of = duel(cells, "five", measure, name, "tpce_pool")
            line.append(f"{mean:.4f}" + (f" ({of.wins})" if name != "tpce_pool" else ""))
        lines.append(line)
    return table(["reading", *TITLES.values()], lines)


def _duels(cells: Cells, name: str, rivals: tuple[str, ...]) -> str:
    lines = [[READINGS[rival], *(_said(duel(cells, "five", m, name, rival)) for m in TITLES)] for rival in rivals]
    return table(["against", *TITLES.values()], lines)


def _said(of: Duel) -> str:
    return f"{of.score}, {p_in_words(of.p)}"


def _filled(text: str, **said: Any) -> str:
    return filled(text.format(**said))
