"""What Busch et al. 2021 found, point by point, and what is found here. Verdicts follow from the numbers by rules."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.studies.busch2021.methods import METHODS, PAPER
from benchmarks.studies.busch2021.numbers import BALANCED, DECIMALS, IMBALANCED, Duel, Results, listed, signed
from jaxunc import compare

HOLDS, IN_PART, FAILS = "holds", "in part", "does not hold"
NOT_SIGNIFICANT = "not significant"
ONLY_CODE = "with the published code's prior term only"


class Finding(NamedTuple):
    """One statement of the paper."""

    claim: str
    here: str
    verdict: str


def findings(results: Results) -> list[Finding]:
    """All of them that the finished sets can speak to."""
    found = [
        _evidence_leads(results),
        _belief_rules_rank_badly(results),
        _dempster_decides_well(results),
        *_dempster_on_balanced(results),
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


def _grade(shares: float, whole: float = 0.8, part: float = 0.4) -> str:
    return HOLDS if shares >= whole else IN_PART if shares >= part else FAILS


def _tested(verdict: str, duels: Iterable[Duel], *, ahead: bool) -> str:
    """A verdict on duels; of those that decide, a test must find one ahead (or behind) at least."""
    found = any(duel.is_told_apart and (duel.better > duel.worse) == ahead for duel in duels)
    return f"{verdict}, {NOT_SIGNIFICANT}" if verdict in (HOLDS, ONLY_CODE) and not found else verdict


def _evidence_leads(results: Results) -> Finding:
    accuracy, auc = results.leaders("accuracy"), results.leaders("auc")
    told = lambda leaders: ", ".join(f"leaf {n}: `{name}`" for n, name in leaders.items())
    beyond = [name == "evidence" for n, name in accuracy.items() if n > results.leaf_sizes[0]]
    return Finding(
        "Evidence accumulation is on top, above all by accuracy, but for the smallest leaves.",
        f"Best average rank of the nine, ranked within each leaf size (Figure 3 ranks all pairs of a method and a leaf "
        f"size together), by accuracy: {told(accuracy)}. By AUC: {told(auc)}.",
        _grade(float(np.mean(beyond))),
    )


def _belief_rules_rank_badly(results: Results) -> Finding:
    duels = results.duels("auc", "dempster")
    margins = results.duels("auc", "dempster-margin")
    return Finding(
        "The rules of belief functions have trouble to rank (AUC).",
        f"Dempster's published score against the mean: {listed(duels)}. Its margin of log commonalities, which does "
        f"not saturate: {listed(margins)}. The trouble is the score that is read, not the rule.",
        _tested(
            _grade(float(np.mean([duel.better < duel.worse for duel in duels.values()]))), duels.values(), ahead=False
        ),
    )


def _dempster_decides_well(results: Results) -> Finding:
    duels = results.duels("accuracy", "dempster")
    large = [duels[n] for n in results.leaf_sizes if n >= 4]
    return Finding(
        "Dempster's rule has an advantage by accuracy at middle to large leaves.",
        f"Against the mean: {listed(duels)}.",
        _tested(_grade(float(np.mean([duel.better > duel.worse for duel in large]))), large, ahead=True),
    )


def _dempster_on_balanced(results: Results) -> list[Finding]:
    """Only on sets that have reference methods: at a leaf size it is as good if it is not more often worse."""
    even = results.sets_between(*BALANCED)
    if not even or results.references.empty:
        return []
    evidence = results.duels("accuracy", "dempster", "evidence", sets=even)
    forest = results.against_reference("random-forest-mean", "dempster", even)
    both = [*evidence.values(), *forest.values()]
    as_good = [float(np.mean([duel.better >= duel.worse for duel in d.values()])) for d in (evidence, forest)]
    return [
        Finding(
            "Where classes are even, Dempster's rule decides as well as evidence accumulation, or even a random "
            "forest, or better.",
            f"By accuracy, on sets of even class ratio ({', '.join(even)}). Against evidence accumulation: "
            f"{listed(evidence)}. Against a random forest: {listed(forest)}.",
            _tested(_grade(min(as_good)), both, ahead=True),
        )
    ]


def _laplace_is_worse(results: Results) -> Finding:
    duels = results.duels("auc", "laplace")
    return Finding(
        "Laplace's correction is always worse than the mean by AUC, whatever the leaf size.",
        f"{listed(duels)}: more often worse, by less than anybody would notice.",
        _tested(
            _grade(float(np.mean([duel.worse > duel.better for duel in duels.values()]))), duels.values(), ahead=False
        ),
    )


def _plausibility_falls_behind(results: Results) -> Finding:
    duels = results.duels("auc", "plausibility")
    near = all(abs(duels[n].gain) < 1e-3 for n in results.small)
    behind = all(duels[n].worse > duels[n].better for n in results.large)
    return Finding(
        "Plausibility is close to the mean at small leaves, and falls behind as they grow (AUC).",
        f"{listed(duels)}.",
        _tested(
            HOLDS if near and behind else IN_PART if near or behind else FAILS,
            [duels[n] for n in results.large],
            ahead=False,
        ),
    )


def _confidence_at_larger_leaves(results: Results) -> Finding:
    duels = results.duels("auc", "confidence")
    larger = [duels[n] for n in results.leaf_sizes if n >= 4]
    ahead = [duel.better > duel.worse for duel in larger]
    smallest = duels[results.leaf_sizes[0]]
    return Finding(
        "Confidence bounds are the best of the methods close to the mean at medium and larger leaves, not at the "
        "smallest (AUC).",
        f"{listed(duels)}.",
        _tested(_grade(float(np.mean([*ahead, smallest.better <= smallest.worse]))), larger, ahead=True),
    )


def _vote_catches_up(results: Results) -> Finding:
    auc = results.duels("auc", "vote")
    smallest, *others = results.leaf_sizes
    behind = [auc[n].worse > 2 * auc[n].better for n in others]
    return Finding(
        "Voting keeps up at the smallest leaves only.",
        f"By AUC: {listed(auc)}. By accuracy: {listed(results.duels('accuracy', 'vote'))}.",
        _tested(
            _grade(float(np.mean([*behind, abs(auc[smallest].gain) < 1e-3]))), [auc[n] for n in others], ahead=False
        ),
    )


def _pooling_is_unstable(results: Results) -> Finding:
    last = results.leaf_sizes[-1]
    values = results.values("accuracy", last)
    gain = (values["pooling"] - values["probability"]).sort_values()
    duel = results.duels("accuracy", "pooling")[last]
    return Finding(
        "Pooling improves on a few sets; on most it weighs the size of leaves too much.",
        f"At leaf {last} against the mean, by accuracy: {duel}; best on {gain.index[-1]} "
        f"({signed(gain.iloc[-1])}), worst on {gain.index[0]} ({signed(gain.iloc[0])}).",
        _tested(
            HOLDS if duel.worse > duel.better > 0 else IN_PART if duel.worse > duel.better else FAILS,
            [duel],
            ahead=False,
        ),
    )


def _cautious_has_problems(results: Results) -> Finding:
    duels = results.duels("accuracy", "cautious", "dempster")
    return Finding(
        "Dependent trees do no harm to Dempster's rule; the cautious rule, made for them, has serious problems.",
        f"Cautious against Dempster by accuracy: {listed(duels)}.",
        _tested(
            _grade(float(np.mean([duel.worse > duel.better for duel in duels.values()]))), duels.values(), ahead=False
        ),
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
            f"{signed(gap['uneven'])} on uneven sets, {signed(gap['even'])} on even ones.",
            HOLDS if gap["uneven"] > 2 * max(gap["even"], 0) and gap["uneven"] > 0 else FAILS,
        ),
    ]


def _evidence_on_unbalanced(results: Results) -> Finding:
    uneven = [name for name, share in results.ratios.items() if not IMBALANCED[0] <= share <= IMBALANCED[1]]
    told, verdict = [], FAILS
    for term, name, holds in (("Published code", "evidence-code", ONLY_CODE), ("Formula", "evidence", HOLDS)):
        duels = results.duels("accuracy", name, sets=uneven)
        large = [duels[n] for n in results.large]
        if all(duel.better > duel.worse for duel in large):
            verdict = _tested(holds, large, ahead=True)
        told.insert(0, f"{term}: {listed(duels)}")
    return Finding(
        "Evidence accumulation works better than others on uneven sets, above all with larger leaves.",
        f"Against the mean, by accuracy, on uneven sets. {'. '.join(told)}.",
        verdict,
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
        ranks[measure] = compare.average_ranks(np.concatenate(table), larger_is_better=True, decimals=DECIMALS)
    frame = pd.DataFrame(ranks, index=list(METHODS))
    return frame.assign(both=frame.mean(axis=1)).sort_values("both")
