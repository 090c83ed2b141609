"""The means of every set, methods compared on them, and what a comparison is called."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.papers.busch2021_methods import METHODS, PAPER
from jaxunc import compare

BALANCED, IMBALANCED = (0.4, 0.6), (0.3, 0.7)
BASELINE, LEVEL = "probability", 0.05
DECIMALS = 6
"""Differences below 10^-6 are ties: in counts of sets, in tests and in ranks."""


class Results:
    """Means of every set, with the comparisons that findings need."""

    def __init__(self, everything: pd.DataFrame, ratios: Mapping[str, float]):
        self.trees = everything[everything["part"] == "trees"]
        self.references = everything[everything["part"] == "references"]
        self.ratios = ratios
        self.leaf_sizes = sorted(self.trees["leaf_size"].unique())
        self.small, self.large = self.leaf_sizes[:2], self.leaf_sizes[-2:]

    def values(self, measure: str, leaf_size: int) -> pd.DataFrame:
        """``[sets methods]``."""
        here = self.trees[self.trees["leaf_size"] == leaf_size]
        return here.pivot(index="set", columns="method", values=measure)

    def reference(self, kind: str, measure: str, leaf_size: int) -> pd.Series:
        """Of each set that has it."""
        here = self.references[(self.references["kind"] == kind) & (self.references["leaf_size"] == leaf_size)]
        return here.set_index("set")[measure]

    def leaders(self, measure: str, methods=PAPER) -> dict[int, str]:
        """The method with the best average rank, for each leaf size."""
        best = {}
        for leaf_size in self.leaf_sizes:
            values = self.values(measure, leaf_size)[list(methods)]
            ranks = compare.average_ranks(values.to_numpy(), larger_is_better=True, decimals=DECIMALS)
            best[leaf_size] = list(methods)[int(np.argmin(ranks))]
        return best

    def duels(self, measure: str, first: str, second: str = BASELINE, sets=None) -> dict[int, "Duel"]:
        """``first`` against ``second`` for each leaf size, over all sets or some.

        Against the mean of probabilities p is that of `against_the_mean`; else Holm's over the leaf sizes.
        """
        if second == BASELINE and sets is None:
            return {n: against_the_mean(self.values(measure, n)[list(METHODS)])[first] for n in self.leaf_sizes}
        pairs = {n: self.values(measure, n)[[first, second]] for n in self.leaf_sizes}
        if sets is not None:
            pairs = {n: pair.loc[[name for name in pair.index if name in sets]] for n, pair in pairs.items()}
        return _told_apart(pairs, first, second)

    def against_reference(self, kind: str, first: str, sets) -> dict[int, "Duel"]:
        """``first`` against a reference by accuracy, for each leaf size, over those of ``sets`` that have it."""
        pairs = {}
        for n in self.leaf_sizes:
            both = {"first": self.values("accuracy", n)[first], "reference": self.reference(kind, "accuracy", n)}
            pairs[n] = pd.DataFrame(both).dropna().filter(items=list(sets), axis=0)
        return _told_apart(pairs, "first", "reference")

    def sets_between(self, low: float, high: float) -> list[str]:
        """Sets whose share of class 1 lies between."""
        return [name for name in self.trees["set"].unique() if low <= self.ratios[name] <= high]


class Duel(NamedTuple):
    """On how many sets one is better and worse, the median gain, and the p-value of a test, if there was one."""

    better: int
    worse: int
    gain: float
    p: float = 1.0

    @classmethod
    def of(cls, difference: pd.Series, p: float = 1.0) -> "Duel":
        """From the differences on the sets; ties count for nobody."""
        least = 10.0**-DECIMALS
        return cls(int((difference >= least).sum()), int((difference <= -least).sum()), float(difference.median()), p)

    @property
    def is_told_apart(self) -> bool:
        """Whether the test finds a difference."""
        return self.p < LEVEL

    def __str__(self) -> str:
        text = f"{self.better}:{self.worse} ({signed(self.gain)})"
        return f"**{text}**" if self.is_told_apart else text


def _told_apart(pairs: Mapping[int, pd.DataFrame], first: str, second: str) -> dict[int, Duel]:
    """Duels of two columns for each leaf size; p is Holm's over the leaf sizes."""
    p_values = compare.holm(np.array([signed_rank(pair[[first, second]]) for pair in pairs.values()]))
    return {
        n: Duel.of(pair[first] - pair[second], float(p)) for (n, pair), p in zip(pairs.items(), p_values, strict=True)
    }


def signed(gain: float) -> str:
    """A gain with four places: 0 for a tie, and what would round to nothing as less than .0001."""
    if abs(gain) < 10.0**-DECIMALS:
        return "0"
    return "<.0001" if abs(gain) < 0.5e-4 else f"{gain:+.4f}"


def signed_rank(pair: pd.DataFrame) -> float:
    """p of the signed-rank test of two columns; 1 where there are no two rows to test."""
    if len(pair) < 2:
        return 1.0
    tests = compare.pairwise_wilcoxon(pair.to_numpy(), larger_is_better=True, decimals=DECIMALS)
    return float(tests.p_values[0, 1])


def against_the_mean(values: pd.DataFrame) -> dict[str, Duel]:
    """Every method of ``values [sets methods]`` against the mean of probabilities; p is Holm's over the methods."""
    others = [name for name in values if name != BASELINE]
    p_values = compare.holm(np.array([signed_rank(values[[name, BASELINE]]) for name in others]))
    return {name: Duel.of(values[name] - values[BASELINE], float(p)) for name, p in zip(others, p_values, strict=True)}


def listed(duels: Mapping[int, Duel]) -> str:
    """A duel for each leaf size."""
    return ", ".join(f"leaf {n}: {duel}" for n, duel in duels.items())
