"""The methods of the study of Busch et al. 2021, the paper's, its code's and ours; and how they compare on sets."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks import many_sets
from benchmarks.pages import bold
from jaxunc import compare
from jaxunc.combiners import Combiner, combiner_by_name
from jaxunc.forest import Forest


class Method(NamedTuple):
    """A rule, and which of its numbers ranks instances; class 1 is decided where it is at least 0."""

    group: str
    """``paper``, ``code`` (in the published code only) or ``new``."""
    combiner: str
    """A name that `jaxunc.combiners.combiner_by_name` knows."""
    options: Mapping[str, Any] = MappingProxyType({})
    reads: str = "score"
    """``score`` (as published) or ``margin`` (of the class scores)."""

    def make(self, forest: Forest) -> Combiner:
        """The rule for a forest."""
        return combiner_by_name(self.combiner, self.options, prior=forest.prior, n_samples=forest.n_samples)


METHODS = {
    "probability": Method("paper", "mean"),
    "laplace": Method("paper", "laplace"),
    "plausibility": Method("paper", "plausibility"),
    "confidence": Method("paper", "confidence"),
    "vote": Method("paper", "vote"),
    "pooling": Method("paper", "pooling"),
    "dempster": Method("paper", "dempster"),
    "cautious": Method("paper", "cautious"),
    "evidence": Method("paper", "evidence"),
    "evidence-code": Method("code", "evidence", {"prior_term": "published_code"}),
    "median": Method("code", "median"),
    "maximum": Method("code", "maximum"),
    "mixture-mean": Method("code", "generalized_mixture", {"reference": "mean"}),
    "mixture-median": Method("code", "generalized_mixture", {"reference": "median"}),
    "mixture-maximum": Method("code", "generalized_mixture", {"reference": "maximum"}),
    "linear": Method("code", "mean", {"scorer": "linear"}),
    "ucb": Method("code", "mean", {"scorer": "ucb"}),
    "epistemic": Method("code", "epistemic"),
    "beta-sum": Method("code", "beta_aggregation", {"statistic": "sum"}),
    "beta-mode": Method("code", "beta_aggregation", {"statistic": "max"}),
    "beta-exact": Method("new", "beta"),
    "m-estimate": Method("new", "m-estimate"),
    "plausibility-p": Method("new", "plausibility-p"),
    "dempster-margin": Method("new", "dempster", reads="margin"),
    "dempster-p": Method("new", "dempster-p", reads="margin"),
    "cautious-margin": Method("new", "cautious", reads="margin"),
    "cautious-p": Method("new", "cautious-p", reads="margin"),
    "evidence-to-prior": Method("new", "evidence", {"smooth_to_prior": True}),
}
"""By the name that tables and files use; ``page.md`` says what they are."""

PAPER = tuple(name for name, method in METHODS.items() if method.group == "paper")


# The means of every set, methods compared on them, and what a comparison is called.

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
        self.even, self.uneven = balance(self.trees, ratios).values()

    def values(self, measure: str, leaf_size: int) -> pd.DataFrame:
        """``[sets methods]``."""
        return by_set(self.trees, measure, leaf_size)

    def reference(self, kind: str, measure: str, leaf_size: int) -> pd.Series:
        """Of each set that has it."""
        here = self.references[(self.references["kind"] == kind) & (self.references["leaf_size"] == leaf_size)]
        return here.set_index("set")[measure]

    def leaders(self, measure: str) -> dict[int, str]:
        """The paper's method with the best average rank, for each leaf size."""
        best = {}
        for leaf_size in self.leaf_sizes:
            values = self.values(measure, leaf_size)[list(PAPER)]
            ranks = compare.average_ranks(values.to_numpy(), larger_is_better=True, decimals=DECIMALS)
            best[leaf_size] = PAPER[int(np.argmin(ranks))]
        return best

    def duels(self, measure: str, first: str, second: str = BASELINE, sets=None) -> dict[int, "Duel"]:
        """``first`` against ``second`` for each leaf size, over all sets or some.

        Against the mean of probabilities p is that of `against_the_mean`; else Holm's over the leaf sizes.
        """
        if second == BASELINE and sets is None:
            return {n: against_the_mean(self.values(measure, n)[list(METHODS)])[first] for n in self.leaf_sizes}
        pairs = {n: self.values(measure, n)[[first, second]] for n in self.leaf_sizes}
        if sets is not None:
            pairs = {n: pair[pair.index.isin(sets)] for n, pair in pairs.items()}
        return _told_apart(pairs, first, second)

    def against_reference(self, kind: str, first: str, sets) -> dict[int, "Duel"]:
        """``first`` against a reference by accuracy, for each leaf size, over those of ``sets`` that have it."""
        pairs = {}
        for n in self.leaf_sizes:
            both = {"first": self.values("accuracy", n)[first], "reference": self.reference(kind, "accuracy", n)}
            pairs[n] = pd.DataFrame(both).dropna().filter(items=list(sets), axis=0)
        return _told_apart(pairs, "first", "reference")


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
        return bold(f"{self.better}:{self.worse} ({signed(self.gain)})", self.is_told_apart)


def _told_apart(pairs: Mapping[int, pd.DataFrame], first: str, second: str) -> dict[int, Duel]:
    """Duels of two columns for each leaf size; p is Holm's over the leaf sizes."""
    p_values = compare.holm(np.array([signed_rank(pair) for pair in pairs.values()])).tolist()
    return {n: Duel.of(pair[first] - pair[second], p) for (n, pair), p in zip(pairs.items(), p_values, strict=True)}


def signed(gain: float) -> str:
    """A gain with four places: 0 for a tie, and what would round to nothing as less than .0001."""
    if abs(gain) < 10.0**-DECIMALS:
        return "0"
    return "<.0001" if abs(gain) < 0.5e-4 else f"{gain:+.4f}"


def signed_rank(pair: pd.DataFrame) -> float:
    """p of the signed-rank test of two columns; 1 where there are no two rows to test."""
    if len(pair) < 2:
        return 1.0
    tests = many_sets.pairwise_wilcoxon(pair.to_numpy(), larger_is_better=True, decimals=DECIMALS)
    return float(tests.p_values[0, 1])


def against_the_mean(values: pd.DataFrame) -> dict[str, Duel]:
    """Every method of ``values [sets methods]`` against the mean of probabilities; p is Holm's over the methods."""
    others = [name for name in values if name != BASELINE]
    p_values = compare.holm(np.array([signed_rank(values[[name, BASELINE]]) for name in others]))
    return {name: Duel.of(values[name] - values[BASELINE], float(p)) for name, p in zip(others, p_values, strict=True)}


def listed(duels: Mapping[int, Duel]) -> str:
    """A duel for each leaf size."""
    return ", ".join(f"leaf {n}: {duel}" for n, duel in duels.items())


# What the cells of the study of Busch et al. 2021 come to: means over repetitions and folds, and ranks over sets.

MEASURES = {"auc": "AUC", "accuracy": "accuracy"}
REFERENCES = {"random-forest-mean": "random forest", "single-tree-mean": "single tree"}


def means(found: dict) -> pd.DataFrame:
    """A row per part, set, kind of trees, leaf size and method: means over repetitions and folds."""
    rows = [
        (cell.part, cell.data, cell.kind, cell.n_trees, cell.leaf_size, method, *values)
        for cell, record in found.items()
        for method, values in record["methods"].items()
    ]
    keys = ["part", "set", "kind", "n_trees", "leaf_size", "method"]
    groups = pd.DataFrame(rows, columns=[*keys, *MEASURES]).groupby(keys, sort=False)
    return groups.mean().assign(n_cells=groups.size()).reset_index()


def single_trees(found: dict, sets: Sequence[str]) -> pd.DataFrame:
    """A row per set and leaf size: mean and standard deviation of the accuracies of an ensemble's single trees."""
    rows = [
        (cell.data, cell.leaf_size, *record["trees"][:2])
        for cell, record in found.items()
        if cell.part == "trees" and cell.data in sets
    ]
    groups = pd.DataFrame(rows, columns=["set", "leaf_size", "mean", "std"]).groupby(["set", "leaf_size"], sort=False)
    return groups.mean().reset_index()


def rank_tables(everything: pd.DataFrame, ratios: dict[str, float]) -> dict[str, pd.DataFrame]:
    """Of Figures 3 and 6, by the name of the picture."""
    rows, methods = with_references(everything)
    tables = {f"figure-3-{measure}": rank_table(rows, measure, methods) for measure in MEASURES}
    for name, sets in balance(rows, ratios).items():
        if len(sets) > 1:
            tables[f"figure-6-{name}"] = rank_table(rows[rows["set"].isin(sets)], "accuracy", methods)
    return tables


def balance(rows: pd.DataFrame, ratios: Mapping[str, float]) -> dict[str, list[str]]:
    """The sets of Figure 6."""
    names = rows["set"].unique()
    even = [name for name in names if 0.4 <= ratios[name] <= 0.6]
    return {"even": even, "uneven": [name for name in names if not 0.3 <= ratios[name] <= 0.7]}


def by_set(rows: pd.DataFrame, measure: str, leaf_size: int) -> pd.DataFrame:
    """``[sets methods]`` at a leaf size."""
    return rows[rows["leaf_size"] == leaf_size].pivot(index="set", columns="method", values=measure)


def with_references(everything: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The paper's study with a random forest and a single tree as further methods, on the sets that have them."""
    trees = everything[everything["part"] == "trees"]
    others = everything[everything["part"] == "references"]
    if others.empty:
        return trees, list(PAPER)
    sets = set(trees["set"]) & set(others["set"])
    both = pd.concat([trees, others.assign(method=others["kind"].map(REFERENCES))])
    return both[both["set"].isin(sets)], [*PAPER, *REFERENCES.values()]


def rank_table(rows: pd.DataFrame, measure: str, methods: Sequence[str]) -> pd.DataFrame:
    """``[methods leaf sizes]``: average ranks among all pairs of a method and a leaf size, as in Figures 3 and 6."""
    values = rows[rows["method"].isin(methods)].pivot(index="set", columns=["method", "leaf_size"], values=measure)
    ranks = compare.average_ranks(values.to_numpy(), larger_is_better=True, decimals=DECIMALS)
    return pd.Series(ranks, values.columns).unstack("leaf_size").loc[list(methods)]
