"""Numbers of the study of Costa, Verwer and Blockeel 2013: those that the paper prints, and those of the cells."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.many_sets import pairwise_wilcoxon
from benchmarks.studies.costa2013.pools import POOL_MEASURES


class Printed(NamedTuple):
    """TPCE against a method: on how many of 48 sets it wins, ties and loses, and the p-value (``<`` if so printed)."""

    wins: int
    ties: int
    losses: int
    p: str


PAPER = json.loads(Path(__file__).with_name("paper.json").read_text("utf-8"))
DUELS = {tuple(pair.split(", ")): Printed(*row) for pair, row in PAPER["duels"].items()}
"""{(measure, method): Clus-TPCE against it}: Tables 1, 2, 3."""
AVERAGES = PAPER["averages"]
"""{measure: {method: the average over the sets}}."""


# What the cells say together: values by set, duels, averages.

Finished = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""{set: {protocol: record}}."""
METHODS = {
    "tpce": "TPCE", "tree": "tree", "tree_laplace": "tree, Laplace", "bag": "bag", "bag_laplace": "bag, Laplace",
    "many": "bag of 20", "many_laplace": "bag of 20, Laplace", "kk": "K&K", "tpce_own": "TPCE, own thresholds",
    "tpce_frequencies": "TPCE, frequencies", "batch": "batch",
}  # fmt: skip
"""What the methods are called."""
WORDS = {
    "holds": ("holds", "not told apart", "the reverse"),
    "comparable": ("it is ahead", "holds", "it is behind"),
    "behind": ("does not hold", "is not told apart", "holds"),
    "word": ("better", "not told apart", "worse"),
}
"""Whether "better", "comparable" and "worse" hold of a duel, and its verdict as an adjective."""


class Duel(NamedTuple):
    """One method against another: sets won, tied and lost, the p-value of Wilcoxon's test, and both averages."""

    wins: int
    ties: int
    losses: int
    p: float
    mean: float
    other: float

    @property
    def score(self) -> str:
        """Wins/ties/losses."""
        return f"{self.wins}/{self.ties}/{self.losses}"

    @property
    def verdict(self) -> str:
        """Which of the two is told apart as the better one at .05, by Wilcoxon's test."""
        if self.p >= 0.05 or self.wins == self.losses:
            return "not apart"
        return "ahead" if self.wins > self.losses else "behind"

    def __getattr__(self, claim: str) -> str:
        if claim not in WORDS:
            raise AttributeError(claim)
        return WORDS[claim][("ahead", "not apart", "behind").index(self.verdict)]

    @property
    def lead(self) -> float:
        """How much larger the first average is."""
        return self.mean - self.other

    @property
    def cell(self) -> str:
        """Wins/ties/losses and the p-value, for a table."""
        return f"{self.score}, {p_in_words(self.p)}"

    def __str__(self) -> str:
        p = p_in_words(self.p)
        return f"{self.score} (p {p if p.startswith('<') else '= ' + p})"


def records(finished: Finished, protocol: str) -> dict[str, Mapping[str, Any]]:
    """{set: its record}; ``paper`` is leave-one-out, and ten folds where there is none."""
    if protocol == "paper":
        return {name: found.get("loo", found["folds"]) for name, found in finished.items()}
    return {name: found[protocol] for name, found in finished.items() if protocol in found}


def values(finished: Finished, protocol: str, method: str, measure: str) -> np.ndarray:
    """``[sets]`` in their order; NaN where the measure is not defined, or the method was not run."""
    place = POOL_MEASURES.index(measure)
    found = [record[method][place] if method in record else None for record in records(finished, protocol).values()]
    return np.array([np.nan if value is None else value for value in found], float)


def duel(finished: Finished, protocol: str, measure: str, other: str, method: str = "tpce") -> Duel:
    """A method against another, over the sets where both have the measure."""
    return against(*(values(finished, protocol, name, measure) for name in (method, other)), measure)


def against(own: np.ndarray, other: np.ndarray, measure: str) -> Duel:
    """The duel of values by set."""
    both = np.column_stack([own, other])
    both = both[np.isfinite(both).all(axis=1)]
    if len(both) < 2:
        return Duel(0, 0, 0, np.nan, np.nan, np.nan)
    tests = pairwise_wilcoxon(both, larger_is_better=measure not in ("brier", "log"), correction="none")
    wins, losses = int(tests.wins[0, 1]), int(tests.wins[1, 0])
    return Duel(wins, len(both) - wins - losses, losses, float(tests.p_values[0, 1]), *map(float, both.mean(axis=0)))


def average(finished: Finished, protocol: str, method: str, measure: str) -> float:
    """The mean over the sets that have it."""
    found = values(finished, protocol, method, measure)
    return float(np.nanmean(found)) if np.isfinite(found).any() else np.nan


def brier_by_class(finished: Finished, protocol: str, method: str) -> float:
    """The mean Brier score, each set's divided by its number of classes: the mean squared error of a probability."""
    classes = np.array([record["classes"] for record in records(finished, protocol).values()])
    return float(np.nanmean(values(finished, protocol, method, "brier") / classes))


def p_in_words(p: float) -> str:
    """As the paper prints p-values."""
    return "–" if np.isnan(p) else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def called_shares(finished: Finished) -> dict[str, np.ndarray]:
    """{method: called reliable, right among them, right among the others, right of all}, means over the sets."""
    found: dict[str, list] = {}
    for record in records(finished, "loo").values():
        for method, (called, right, others, right_too) in record["called"].items():
            with np.errstate(invalid="ignore"):
                shares = np.array([called, right, right_too, right + right_too], float)
                found.setdefault(method, []).append(shares / [called + others, called, others, called + others])
    return {method: np.nanmean(shares, axis=0) for method, shares in found.items()}
