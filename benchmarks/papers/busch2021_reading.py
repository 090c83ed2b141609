"""What Busch et al. 2021 found, point by point, and what is found here. Verdicts follow from the numbers by rules."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.papers.busch2021_methods import METHODS, PAPER
from jaxunc import comparison

HOLDS, IN_PART, FAILS = "holds", "in part", "does not hold"
ONLY_CODE = "with the published code's prior term only"
BALANCED, IMBALANCED = (0.4, 0.6), (0.3, 0.7)


class Finding(NamedTuple):
    """One statement of the paper."""

    claim: str
    here: str
    verdict: str


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
            ranks = comparison.average_ranks(values.to_numpy(), larger_is_better=True, decimals=6)
            best[leaf_size] = list(methods)[int(np.argmin(ranks))]
        return best

    def duel(self, measure: str, leaf_size: int, first: str, second: str, sets=None) -> "Duel":
        """``first`` against ``second`` over the sets."""
        values = self.values(measure, leaf_size)
        values = values if sets is None else values.loc[[name for name in values.index if name in sets]]
        return Duel.of(values[first] - values[second])

    def sets_between(self, low: float, high: float) -> list[str]:
        """Sets whose share of class 1 lies between."""
        return [name for name in self.trees["set"].unique() if low <= self.ratios[name] <= high]


class Duel(NamedTuple):
    """On how many sets one is better and worse, and the median gain."""

    better: int
    worse: int
    gain: float

    @classmethod
    def of(cls, difference: pd.Series) -> "Duel":
        """Differences below 1e-6 count for nobody."""
        return cls(int((difference > 1e-6).sum()), int((difference < -1e-6).sum()), float(difference.median()))

    def __str__(self) -> str:
        return f"{self.better}:{self.worse} ({self.gain:+.4f})"


def findings(results: Results) -> list[Finding]:
    """All of them that the finished sets can speak to."""
    found = [
        _evidence_leads(results),
        _belief_rules_rank_badly(results),
        _dempster_decides_well(results),
        _laplace_is_worse(results),
        _plausibility_falls_behind(results),
        _confidence_at_larger_leaves(results),
        _vote_catches_up(results),
        _pooling_is_unstable(results),
        _cautious_has_problems(results),
        *_against_references(results),
        _evidence_on_unbalanced(results),
    ]
    found += [finding for finding in (_webdata(results), _airlines(results)) if finding is not None]
    return found


def _per_leaf(results: Results, measure: str, first: str, second: str, sets=None) -> dict[int, Duel]:
    return {n: results.duel(measure, n, first, second, sets) for n in results.leaf_sizes}


def _listed(duels: Mapping[int, Duel]) -> str:
    return ", ".join(f"leaf {n}: {duel}" for n, duel in duels.items())


def _grade(shares: float, whole: float = 0.8, part: float = 0.4) -> str:
    return HOLDS if shares >= whole else IN_PART if shares >= part else FAILS


def _evidence_leads(results: Results) -> Finding:
    accuracy, auc = results.leaders("accuracy"), results.leaders("auc")
    told = lambda leaders: ", ".join(f"leaf {n}: `{name}`" for n, name in leaders.items())  # noqa: E731
    beyond = [name == "evidence" for n, name in accuracy.items() if n > results.leaf_sizes[0]]
    return Finding(
        "Evidence accumulation is on top, above all by accuracy, but for the smallest leaves.",
        f"Best average rank of the nine by accuracy: {told(accuracy)}. By AUC: {told(auc)}.",
        _grade(float(np.mean(beyond))),
    )


def _belief_rules_rank_badly(results: Results) -> Finding:
    duels = _per_leaf(results, "auc", "dempster", "probability")
    margins = _per_leaf(results, "auc", "dempster-margin", "probability")
    return Finding(
        "The rules of belief functions have trouble to rank (AUC).",
        f"Dempster's published score against the mean: {_listed(duels)}. Its margin of log commonalities, which does "
        f"not saturate: {_listed(margins)}. The trouble is the score that is read, not the rule.",
        _grade(float(np.mean([duel.better < duel.worse for duel in duels.values()]))),
    )


def _dempster_decides_well(results: Results) -> Finding:
    duels = _per_leaf(results, "accuracy", "dempster", "probability")
    large = [duels[n] for n in results.leaf_sizes if n >= 4]
    return Finding(
        "Dempster's rule has an advantage by accuracy at middle to large leaves.",
        f"Against the mean: {_listed(duels)}.",
        _grade(float(np.mean([duel.better > duel.worse for duel in large]))),
    )


def _laplace_is_worse(results: Results) -> Finding:
    duels = _per_leaf(results, "auc", "laplace", "probability")
    return Finding(
        "Laplace's correction is always worse than the mean by AUC, whatever the leaf size.",
        f"{_listed(duels)}: more often worse, by less than anybody would notice.",
        _grade(float(np.mean([duel.worse > duel.better for duel in duels.values()]))),
    )


def _plausibility_falls_behind(results: Results) -> Finding:
    duels = _per_leaf(results, "auc", "plausibility", "probability")
    near = all(abs(duels[n].gain) < 1e-3 for n in results.small)
    behind = all(duels[n].worse > duels[n].better for n in results.large)
    return Finding(
        "Plausibility is close to the mean at small leaves, and falls behind as they grow (AUC).",
        f"{_listed(duels)}.",
        HOLDS if near and behind else IN_PART if near or behind else FAILS,
    )


def _confidence_at_larger_leaves(results: Results) -> Finding:
    duels = _per_leaf(results, "auc", "confidence", "probability")
    larger = [duels[n].better > duels[n].worse for n in results.leaf_sizes if n >= 4]
    smallest = duels[results.leaf_sizes[0]]
    return Finding(
        "Confidence bounds are the best of the methods close to the mean at medium and larger leaves, not at the "
        "smallest (AUC).",
        f"{_listed(duels)}.",
        _grade(float(np.mean([*larger, smallest.better <= smallest.worse]))),
    )


def _vote_catches_up(results: Results) -> Finding:
    auc = _per_leaf(results, "auc", "vote", "probability")
    smallest, *others = results.leaf_sizes
    behind = [auc[n].worse > 2 * auc[n].better for n in others]
    return Finding(
        "Voting keeps up at the smallest leaves only.",
        f"By AUC: {_listed(auc)}. By accuracy: {_listed(_per_leaf(results, 'accuracy', 'vote', 'probability'))}.",
        _grade(float(np.mean([*behind, abs(auc[smallest].gain) < 1e-3]))),
    )


def _pooling_is_unstable(results: Results) -> Finding:
    last = results.leaf_sizes[-1]
    values = results.values("accuracy", last)
    gain = (values["pooling"] - values["probability"]).sort_values()
    return Finding(
        "Pooling improves on a few sets; on most it weighs the size of leaves too much.",
        f"At leaf {last} against the mean, by accuracy: {Duel.of(gain)}; best on {gain.index[-1]} "
        f"({gain.iloc[-1]:+.4f}), worst on {gain.index[0]} ({gain.iloc[0]:+.4f}).",
        HOLDS if (gain < 0).sum() > (gain > 0).sum() > 0 else IN_PART if (gain < 0).sum() > (gain > 0).sum() else FAILS,
    )


def _cautious_has_problems(results: Results) -> Finding:
    duels = _per_leaf(results, "accuracy", "cautious", "dempster")
    return Finding(
        "Dependent trees do no harm to Dempster's rule; the cautious rule, made for them, has serious problems.",
        f"Cautious against Dempster by accuracy: {_listed(duels)}.",
        _grade(float(np.mean([duel.worse > duel.better for duel in duels.values()]))),
    )


def _against_references(results: Results) -> list[Finding]:
    if results.references.empty:
        return []
    below, between, above, gaps = 0, 0, 0, {"even": [], "uneven": []}
    even = results.sets_between(*BALANCED)
    uneven = [name for name, share in results.ratios.items() if not IMBALANCED[0] <= share <= IMBALANCED[1]]
    for leaf_size in results.leaf_sizes:
        ours = results.values("accuracy", leaf_size)[list(PAPER)].median(axis=1)
        best = results.values("accuracy", leaf_size)["evidence"]
        forest = results.reference("random-forest-mean", "accuracy", leaf_size)
        tree = results.reference("single-tree-mean", "accuracy", leaf_size)
        for name in ours.index.intersection(forest.index):
            low, high = sorted((tree[name], forest[name]))
            below, above = below + (ours[name] < low), above + (ours[name] > high)
            between += low <= ours[name] <= high
            for kind, sets in (("even", even), ("uneven", uneven)):
                if name in sets:
                    gaps[kind].append(forest[name] - best[name])
    gap = {kind: float(np.median(values)) if values else np.nan for kind, values in gaps.items()}
    return [
        Finding(
            "Random decision trees lie between a single tree and a random forest.",
            f"The nine methods' median accuracy lies so in {between} pairs of a set and a leaf size; below both "
            f"in {below}, above both in {above}.",
            _grade(between / (below + between + above)),
        ),
        Finding(
            "A random forest is clearly ahead where classes are uneven, and hardly where they are even.",
            f"Its accuracy less that of evidence accumulation, in the median over sets and leaf sizes: "
            f"{gap['uneven']:+.4f} on uneven sets, {gap['even']:+.4f} on even ones.",
            HOLDS if gap["uneven"] > 2 * max(gap["even"], 0) and gap["uneven"] > 0 else FAILS,
        ),
    ]


def _evidence_on_unbalanced(results: Results) -> Finding:
    uneven = [name for name, share in results.ratios.items() if not IMBALANCED[0] <= share <= IMBALANCED[1]]
    told, leads = [], {}
    for term, name in (("formula", "evidence"), ("published code", "evidence-code")):
        duels = {n: results.duel("accuracy", n, name, "probability", uneven) for n in results.leaf_sizes}
        leads[name] = all(duels[n].better > duels[n].worse for n in results.large)
        told.append(f"{term}: {_listed(duels)}")
    return Finding(
        "Evidence accumulation works better than others on uneven sets, above all with larger leaves.",
        f"Against the mean, by accuracy, on uneven sets. {'. '.join(text[0].upper() + text[1:] for text in told)}.",
        HOLDS if leads["evidence"] else ONLY_CODE if leads["evidence-code"] else FAILS,
    )


def webdata_accuracies(results: Results) -> pd.DataFrame | None:
    """By leaf size: evidence accumulation with the formula and as published, and the median of the paper's others."""
    rows = results.trees[results.trees["set"] == "webdata"]
    if rows.empty:
        return None
    table = rows.pivot(index="leaf_size", columns="method", values="accuracy")
    others = table[[name for name in PAPER if name != "evidence"]].median(axis=1)
    return pd.DataFrame({"formula": table["evidence"], "code": table["evidence-code"], "others": others})


def _webdata(results: Results) -> Finding | None:
    table = webdata_accuracies(results)
    if table is None:
        return None
    told = "; ".join(f"{name}: {', '.join(f'{value:.4f}' for value in column)}" for name, column in table.items())
    peak = table.idxmax()
    late = {name: peak[name] > peak["others"] for name in ("formula", "code")}
    return Finding(
        "On webdata the accuracy of evidence accumulation still rises when the other methods are past their peak.",
        f"Accuracy by leaf size, with the formula, the published code, and of the other methods in the median: {told}.",
        HOLDS if late["formula"] else ONLY_CODE if late["code"] else FAILS,
    )


def _airlines(results: Results) -> Finding | None:
    rows = results.trees[results.trees["set"] == "airlines"]
    if rows.empty:
        return None
    table = rows.pivot(index="leaf_size", columns="method", values="accuracy")
    told = ", ".join(
        f"leaf {n}: {table['evidence'][n]:.4f}, {table['probability'][n]:.4f}, {table['pooling'][n]:.4f}"
        for n in results.leaf_sizes
    )
    behind = table["evidence"] < table["probability"]
    pooled = table["pooling"] > table["probability"]
    return Finding(
        "On airlines evidence accumulation falls behind the others, and pooling is ahead of them.",
        f"Evidence, mean, pooling: {told}.",
        _grade(float(np.mean([*behind, *pooled]))),
    )


def best_of_all(results: Results) -> pd.DataFrame:
    """``[methods columns]``: average ranks of all methods, over sets and leaf sizes, by AUC, by accuracy and both."""
    ranks = {}
    for measure in ("auc", "accuracy"):
        table = [results.values(measure, n)[list(METHODS)].to_numpy() for n in results.leaf_sizes]
        ranks[measure] = comparison.average_ranks(np.concatenate(table), larger_is_better=True, decimals=6)
    frame = pd.DataFrame(ranks, index=list(METHODS))
    return frame.assign(both=frame.mean(axis=1)).sort_values("both")
