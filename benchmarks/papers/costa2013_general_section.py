"""The section on other learners of the page of the study of Costa, Verwer and Blockeel 2013, made of its cells."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from benchmarks.papers.costa2013_general import LEARNERS, NEIGHBOURS, SAMPLE, TREES
from benchmarks.papers.costa2013_numbers import Duel, p_in_words
from benchmarks.papers.costa2013_page import table
from benchmarks.papers.costa2013_pools import N_FOLDS
from benchmarks.papers.costa2013_pools_section import TITLES, duel, values
from benchmarks.papers.costa2013_reading import filled

Cells = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""{set: {learner: record}} of the sets that are finished."""
NAMES = {
    "naive Bayes": "naive Bayes (Gaussian)",
    "neighbours": f"{NEIGHBOURS} nearest neighbours",
    "tree": "decision tree, grown out",
    "logistic": "logistic regression",
    "forest": f"random forest of {TREES}",
}
WORDS = {"ahead": "better", "behind": "worse", "not apart": "not told apart"}
SECTION = """
"The ideas can also be applied to other machine learning methods, in particular those where the label of a single
example can influence the learned model": by `python -m benchmarks.papers.costa2013_general`, with
`jaxunc.estimators.TransductiveClassifier` around five learners of scikit-learn. {n} sets ({names}); {sample} instances
of each, drawn by a fixed seed, are answered by what is fitted on four of {folds} folds, k fits for each. Columns are
scaled and nominal ones spread by what the training part holds. The tree takes tests by entropy with two instances in a
leaf, and unlike the trees above it may cut beside the inserted instance.

**mean** is the paper's: the mean of the k models' probabilities. **pNML** is predictive normalized maximum likelihood
(Fogel and Feder 2018): each model says how probable the label is that it was told, and the k numbers are made to add to
1. **Laplace** is the learner's own answer with one instance of each class added to what it counts, which costs nothing.
Means over the sets; in brackets the sets on which the learner itself is beaten. The log loss takes a probability to be
10⁻⁶ at least.
"""
DUELS = """
Wins/ties/losses, and p, against the learner itself and against its smoothed counts:
"""


def section(cells: Cells) -> str:
    """The section, with its verdict."""
    text = SECTION.format(n=len(cells), names=", ".join(cells), sample=SAMPLE, folds=N_FOLDS)
    parts = ["## Other learners", "\n\n".join(filled(part) for part in text.strip().split("\n\n"))]
    return "\n\n".join([*parts, _means(cells), DUELS.strip(), _duels(cells), verdict(cells)])


def verdict(cells: Cells) -> str:
    """What transduction does to each learner, in a list."""
    lines = ["**So**, against the learner itself, and where it counts against its smoothed counts:", ""]
    for learner, name in NAMES.items():
        said = []
        for reading, called in (("mean", "the mean"), ("pnml", "pNML")):
            own = {m: WORDS[duel(cells, learner, m, reading, "itself").verdict] for m in TITLES}
            said.append(f"{called} is {_grouped(own)}")
            if "laplace" in _readings(cells, learner):
                than = {m: WORDS[duel(cells, learner, m, reading, "laplace").verdict] for m in TITLES}
                said[-1] += f" (than Laplace: {_grouped(than)})"
        lines.append(f"* {name}: {'; '.join(said)}.")
    return filled("\n".join(lines))


def _grouped(found: Mapping[str, str]) -> str:
    """Words, with the measures that they are of."""
    if len(set(found.values())) == 1:
        word = next(iter(found.values()))
        return f"{word} by any measure" if word == WORDS["not apart"] else f"{word} by all four measures"
    of = {word: [TITLES[m] for m in TITLES if found[m] == word] for word in WORDS.values()}
    return ", ".join(f"{word} by {_listed(measures)}" for word, measures in of.items() if measures)


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _readings(cells: Cells, learner: str) -> Iterable[str]:
    record = next(iter(cells.values()))[learner]
    return [name for name in ("itself", "laplace", "mean", "pnml") if name in record]


def _means(cells: Cells) -> str:
    lines, called = [], {"itself": "itself", "laplace": "Laplace", "mean": "mean", "pnml": "pNML"}
    for learner in LEARNERS:
        for reading in _readings(cells, learner):
            line = [NAMES[learner] if reading == "itself" else "", called[reading]]
            for measure in TITLES:
                mean = float(np.nanmean(values(cells, learner, reading, measure)))
                wins = duel(cells, learner, measure, reading, "itself").wins
                line.append(f"{mean:.4f}" + f" ({wins})" * (reading != "itself"))
            lines.append(line)
    return table(["learner", "answer", *TITLES.values()], lines)


def _duels(cells: Cells) -> str:
    lines, called = [], {"mean": "mean", "pnml": "pNML", "itself": "itself", "laplace": "Laplace"}
    for learner in LEARNERS:
        pairs = [(own, rival) for rival in ("itself", "laplace") for own in ("mean", "pnml")]
        for own, rival in [(own, rival) for own, rival in pairs if rival in _readings(cells, learner)]:
            of = [_said(duel(cells, learner, measure, own, rival)) for measure in TITLES]
            lines.append([NAMES[learner], f"{called[own]} against {called[rival]}", *of])
    return table(["learner", "", *TITLES.values()], lines)


def _said(of: Duel) -> str:
    return f"{of.score}, {p_in_words(of.p)}"
