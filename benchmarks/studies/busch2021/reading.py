"""Verdicts on what Busch et al. 2021 found, by rules from the numbers; ``page.md`` has the claims, by these names."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from benchmarks.studies.busch2021.numbers import DECIMALS, METHODS, PAPER, Duel, Results, listed, signed
from jaxunc import compare

HOLDS, IN_PART, FAILS = "holds", "in part", "does not hold"
NOT_SIGNIFICANT = "not significant"
ONLY_CODE = "with the published code's prior term only"


def verdicts(results: Results) -> dict[str, str]:
    """{claim: verdict} of the claims that the finished sets can speak to, in the order of the page."""
    duels, webdata, airlines = results.duels, webdata_accuracies(results), accuracies_on(results, "airlines")
    later = [name == "evidence" for n, name in results.leaders("accuracy").items() if n > results.leaf_sizes[0]]
    pooling = duels("accuracy", "pooling")[results.leaf_sizes[-1]]
    unstable = HOLDS if pooling.worse > pooling.better > 0 else IN_PART if pooling.worse > pooling.better else FAILS
    found = {
        "evidence leads": _grade(later),
        "belief rules rank": _all_behind(duels("auc", "dempster")),
        "Dempster decides": _ahead_at_larger(results, duels("accuracy", "dempster")),
        "even": _dempster_on_even(results),
        "Laplace": _all_behind(duels("auc", "laplace")),
        "plausibility": _falls_behind(results, duels("auc", "plausibility")),
        "confidence": _ahead_at_larger(results, duels("auc", "confidence"), not_at_smallest=True),
        "vote": _catches_up(results, duels("auc", "vote")),
        "pooling": _tested(unstable, [pooling], ahead=False),
        "cautious": _all_behind(duels("accuracy", "cautious", "dempster")),
        **_against_references(results),
        "uneven": _on_uneven(results),
    }
    if webdata is not None:
        peak = webdata.idxmax()
        with_code = ONLY_CODE if peak["code"] > peak["others"] else FAILS
        found["webdata"] = HOLDS if peak["formula"] > peak["others"] else with_code
    if airlines is not None:
        mean = airlines["probability"]
        found["airlines"] = _grade([*(airlines["evidence"] < mean), *(airlines["pooling"] > mean)])
    return {claim: verdict for claim, verdict in found.items() if verdict}


def slots(results: Results) -> dict:
    """What the claims on the page are answered with."""
    even, airlines, webdata = results.even, accuracies_on(results, "airlines"), webdata_accuracies(results)
    pairs = references(results) if not results.references.empty else {}
    on_airlines = [] if airlines is None else airlines[["evidence", "probability", "pooling"]].iterrows()
    return {
        "leaders": lambda measure: ", ".join(f"leaf {n}: `{name}`" for n, name in results.leaders(measure).items()),
        "duels": lambda measure, first, second="probability": listed(results.duels(measure, first, second)),
        "even_sets": ", ".join(even),
        "against_evidence": listed(results.duels("accuracy", "dempster", "evidence", sets=even)) if pairs else "",
        "against_forest": listed(results.against_reference("random-forest-mean", "dempster", even)) if pairs else "",
        "last": results.leaf_sizes[-1],
        "pooling": _pooling(results),
        "references": pairs,
        "uneven": lambda name: listed(results.duels("accuracy", name, sets=results.uneven)),
        "webdata": lambda name: ", ".join(f"{value:.4f}" for value in webdata[name]),
        "airlines": ", ".join(f"leaf {n}: " + ", ".join(f"{value:.4f}" for value in row) for n, row in on_airlines),
    }


def _grade(flags: Iterable[bool]) -> str:
    share = float(np.mean([*flags]))
    return HOLDS if share >= 0.8 else IN_PART if share >= 0.4 else FAILS


def _tested(verdict: str, duels: Iterable[Duel], *, ahead: bool) -> str:
    """A verdict on duels; of those that decide, a test must find one ahead (or behind) at least."""
    found = any(duel.is_told_apart and (duel.better > duel.worse) == ahead for duel in duels)
    return f"{verdict}, {NOT_SIGNIFICANT}" if verdict in (HOLDS, ONLY_CODE) and not found else verdict


def _all_behind(duels: Mapping[int, Duel]) -> str:
    return _tested(_grade(duel.worse > duel.better for duel in duels.values()), duels.values(), ahead=False)


def _ahead_at_larger(results: Results, duels: Mapping[int, Duel], *, not_at_smallest: bool = False) -> str:
    larger, smallest = [duels[n] for n in results.leaf_sizes if n >= 4], duels[results.leaf_sizes[0]]
    flags = [duel.better > duel.worse for duel in larger]
    return _tested(_grade(flags + [smallest.better <= smallest.worse] * not_at_smallest), larger, ahead=True)


def _dempster_on_even(results: Results) -> str:
    """Only on sets that have reference methods: at a leaf size it is as good if it is not more often worse."""
    even = results.even
    if not even or results.references.empty:
        return ""
    evidence = results.duels("accuracy", "dempster", "evidence", sets=even).values()
    forest = results.against_reference("random-forest-mean", "dempster", even).values()
    least = min((evidence, forest), key=lambda duels: np.mean([duel.better >= duel.worse for duel in duels]))
    return _tested(_grade(duel.better >= duel.worse for duel in least), [*evidence, *forest], ahead=True)


def _falls_behind(results: Results, duels: Mapping[int, Duel]) -> str:
    near = all(abs(duels[n].gain) < 1e-3 for n in results.small)
    behind = all(duels[n].worse > duels[n].better for n in results.large)
    verdict = HOLDS if near and behind else IN_PART if near or behind else FAILS
    return _tested(verdict, [duels[n] for n in results.large], ahead=False)


def _catches_up(results: Results, duels: Mapping[int, Duel]) -> str:
    smallest, *others = (duels[n] for n in results.leaf_sizes)
    behind = [duel.worse > 2 * duel.better for duel in others]
    return _tested(_grade([*behind, abs(smallest.gain) < 1e-3]), others, ahead=False)


def _pooling(results: Results) -> dict[str, str]:
    """How pooling does at the largest leaves, and on which sets it does best and worst."""
    last = results.leaf_sizes[-1]
    values = results.values("accuracy", last)
    gain = (values["pooling"] - values["probability"]).sort_values()
    worst, best = (f"{gain.index[at]} ({signed(gain.iloc[at])})" for at in (0, -1))
    return {"best": best, "worst": worst, "duel": str(results.duels("accuracy", "pooling")[last])}


def references(results: Results) -> dict[str, int | str]:
    """Pairs of a set and a leaf size below, between and above the references; the forest's lead by class ratio."""
    counts, leads = dict.fromkeys(("below", "between", "above"), 0), _leads_of_forest(results)
    for leaf_size in results.leaf_sizes:
        ours = results.values("accuracy", leaf_size)[list(PAPER)].median(axis=1)
        forest = results.reference("random-forest-mean", "accuracy", leaf_size)
        tree = results.reference("single-tree-mean", "accuracy", leaf_size)
        for name in ours.index.intersection(forest.index):
            low, high = sorted((tree[name], forest[name]))
            counts["below" if ours[name] < low else "above" if ours[name] > high else "between"] += 1
    return counts | {kind: signed(lead) for kind, lead in leads.items()}


def _leads_of_forest(results: Results) -> dict[str, float]:
    """{"even", "uneven"}: the forest's accuracy less evidence accumulation's, in the median."""
    forest = lambda n: results.reference("random-forest-mean", "accuracy", n)
    leads = [forest(n) - results.values("accuracy", n)["evidence"] for n in results.leaf_sizes]
    lead, kinds = pd.concat(leads).dropna(), {"even": results.even, "uneven": results.uneven}
    return {kind: float(lead[lead.index.isin(sets)].median()) for kind, sets in kinds.items()}


def _against_references(results: Results) -> dict[str, str]:
    if results.references.empty:
        return {}
    counts, lead = references(results), _leads_of_forest(results)
    where = np.repeat([True, False], [int(counts["between"]), int(counts["below"]) + int(counts["above"])])
    is_clear = lead["uneven"] > 2 * max(lead["even"], 0) and lead["uneven"] > 0
    return {"between": _grade(where), "forest": HOLDS if is_clear else FAILS}


def _on_uneven(results: Results) -> str:
    verdict = FAILS
    for name, holds in (("evidence-code", ONLY_CODE), ("evidence", HOLDS)):
        duels = results.duels("accuracy", name, sets=results.uneven)
        large = [duels[n] for n in results.large]
        if all(duel.better > duel.worse for duel in large):
            verdict = _tested(holds, large, ahead=True)
    return verdict


def accuracies_on(results: Results, name: str) -> pd.DataFrame | None:
    """``[leaf sizes methods]`` on a set, if it is there."""
    rows = results.trees[results.trees["set"] == name]
    return None if rows.empty else rows.pivot(index="leaf_size", columns="method", values="accuracy")


def webdata_accuracies(results: Results) -> pd.DataFrame | None:
    """By leaf size: evidence accumulation with the formula and as published, and the median of the paper's others."""
    table = accuracies_on(results, "webdata")
    if table is None:
        return None
    others = table[[name for name in PAPER if name != "evidence"]].median(axis=1)
    return pd.DataFrame({"formula": table["evidence"], "code": table["evidence-code"], "others": others})


def best_of_all(results: Results) -> pd.DataFrame:
    """``[methods columns]``: average ranks of all methods, over sets and leaf sizes, by AUC, by accuracy and both."""
    ranks = {}
    for measure in ("auc", "accuracy"):
        table = [results.values(measure, n)[list(METHODS)].to_numpy() for n in results.leaf_sizes]
        ranks[measure] = compare.average_ranks(np.concatenate(table), larger_is_better=True, decimals=DECIMALS)
    frame = pd.DataFrame(ranks, index=list(METHODS))
    return frame.assign(both=frame.mean(axis=1)).sort_values("both")
