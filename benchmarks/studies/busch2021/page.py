"""The page of the study of Busch et al. 2021: its tables, and what fills its template."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import many_sets
from benchmarks.pages import fill, table
from benchmarks.studies.busch2021 import numbers
from benchmarks.studies.busch2021.figures import NEAR
from benchmarks.studies.busch2021.reading import best_of_all, slots, verdicts, webdata_accuracies

TEMPLATE = Path(__file__).with_name("page.md")
PAIRS = ("probability", "laplace", "plausibility", "confidence", "evidence")
"""The methods of the paper's Figure 4."""
ABSENT = ("voting", "transfusion", "telescope", "vehicle", "particle")
"""The paper's sets that are not at hand."""
CARRIED = ("evidence", "evidence-to-prior", "dempster-p", "plausibility", "confidence", "laplace", "pooling", "vote")


def study_page(everything: pd.DataFrame, ratios: dict[str, float], n_sets: int, n_repeats: int) -> str:
    """The page. ``ratios``: the share of the positive class in each set."""
    trees = everything[everything["part"] == "trees"]
    leaf_sizes = sorted(trees["leaf_size"].unique())
    rows, methods = numbers.with_references(everything)
    results, ranks = numbers.Results(everything, ratios), numbers.rank_tables(everything, ratios)
    further = [
        fill(TEMPLATE, "figure 6", name=name, sets=", ".join(sets), ranks=_ranks(ranks[f"figure-6-{name}"]))
        for name, sets in numbers.balance(rows, ratios).items()
        if f"figure-6-{name}" in ranks
    ]
    transfer = everything[everything["part"] == "transfer"]
    further += [] if transfer.empty else [_carried_over(trees, transfer)]
    for (kind, n_trees), part in transfer.groupby(["kind", "n_trees"], sort=False):
        for measure, title in numbers.MEASURES.items():
            against = _against(part, measure, leaf_sizes)
            further.append(fill(TEMPLATE, "transfer", kind=kind, n_trees=n_trees, title=title, against=against))
    answers, best = slots(results), best_of_all(results)
    absent = [name for name in ratios if name not in set(trees["set"])]
    claims = [fill(TEMPLATE, name, verdict=verdict, **answers) for name, verdict in verdicts(results).items()]
    return fill(
        TEMPLATE,
        n_run=trees["set"].nunique(),
        n_sets=n_sets,
        sets=", ".join(trees["set"].unique()),
        unfinished=_unfinished(trees, n_repeats),
        not_run=f"; not run: {', '.join(absent)}" if absent else "",
        n_paper=n_sets + len(ABSENT),
        absent=", ".join(ABSENT),
        n_repeats=n_repeats,
        not_referred=_not_referred(everything),
        findings="\n".join([table(["the paper", "here", "verdict"], []), *claims]),
        duels=answers["duels"],
        prior_term=_prior_term(results),
        fits_the_paper=_fits_the_paper(results),
        n_methods=len(best),
        best=_best(results, str(best.index[0])),
        best_table=_best_table(best),
        n_pairs=len(methods) * len(leaf_sizes),
        ranks=lambda name: _ranks(ranks[name]),
        against=lambda measure: _against(trees, measure, leaf_sizes),
        figure_4="\n\n".join(_pairs(trees, leaf_size) for leaf_size in leaf_sizes),
        near=NEAR,
        further="\n\n".join(further),
    )


def _unfinished(trees: pd.DataFrame, n_repeats: int) -> str:
    """Sets with fewer repetitions."""
    n_done = trees.groupby("set", sort=False)["n_cells"].min() // 2
    told = [f"{name} with {n} of {n_repeats} repetitions" for name, n in n_done.items() if n < n_repeats]
    return f", {', '.join(told)}" if told else ""


def _not_referred(everything: pd.DataFrame) -> str:
    """Sets without reference methods, where others have them."""
    sets = {part: list(rows["set"].unique()) for part, rows in everything.groupby("part")}
    absent = [name for name in sets["trees"] if name not in sets.get("references", sets["trees"])]
    told = f" Random forests and single trees were not run on {', '.join(absent)}, which Figures 3 and 6 leave out."
    return told if absent else ""


def _best(results: numbers.Results, first: str) -> str:
    """The classifier's default against the method with the best ranks."""
    ours = "evidence-to-prior"
    if first == ours:
        return ""

    def duel(measure: str) -> str:
        values = sum(results.values(measure, n)[[ours, first]] for n in results.leaf_sizes) / len(results.leaf_sizes)
        return f"{numbers.Duel.of(values[ours] - values[first])}, p = {numbers.signed_rank(values):.2f}"

    return " " + fill(TEMPLATE, "best", ours=ours, first=first, duel=duel)


def _best_table(ranks: pd.DataFrame) -> str:
    group = lambda name: numbers.METHODS[name].group
    body = [[f"`{name}`", group(name), *(f"{v:.1f}" for v in row)] for name, row in ranks[:12].iterrows()]
    return table(["method", "from", "AUC", "accuracy", "both"], body)


def _carried_over(trees: pd.DataFrame, transfer: pd.DataFrame) -> str:
    """Some methods against the mean, over sets and leaf sizes together, for every kind of ensemble."""
    sets = transfer["set"].unique()
    kinds = [("random-trees", 100, trees[trees["set"].isin(sets)])]
    kinds += [(kind, n, rows) for (kind, n), rows in transfer.groupby(["kind", "n_trees"], sort=False)]

    def duels(measure: str) -> Iterator[tuple[str, dict[str, numbers.Duel]]]:
        for kind, n_trees, rows in kinds:
            values = rows.pivot(index=["set", "leaf_size"], columns="method", values=measure)
            of = {name: numbers.Duel.of(values[name] - values["probability"]) for name in CARRIED}
            yield f"{kind}, {n_trees} trees", of

    def duel_table(measure: str) -> str:
        body = [[kind, *map(str, of.values())] for kind, of in duels(measure)]
        return table([numbers.MEASURES[measure], *(f"`{name}`" for name in CARRIED)], body)

    def ahead(measure: str) -> str:
        best = lambda of: ", ".join(f"`{name}`" for name, duel in of.items() if duel.better > 2 * duel.worse)
        return "; ".join(f"{kind}: {best(of) or 'none'}" for kind, of in duels(measure))

    names = {"n_sets": len(sets), "sets": ", ".join(sets)}
    return fill(TEMPLATE, "carried over", **names, table=duel_table, ahead=ahead)


def _ranks(frame: pd.DataFrame) -> str:
    body = [[str(method), *(f"{rank:.1f}" for rank in ranks)] for method, ranks in frame.iterrows()]
    return table(["method", *(f"leaf {n}" for n in frame.columns)], body)


def _against(rows: pd.DataFrame, measure: str, leaf_sizes: Sequence[int]) -> str:
    """For each method: sets better and worse, and the median gain; bold where the test tells it from the mean."""
    lines = {name: [] for name in numbers.METHODS if name != "probability"}
    for leaf_size in leaf_sizes:
        duels = numbers.against_the_mean(numbers.by_set(rows, measure, leaf_size)[list(numbers.METHODS)])
        for name in lines:
            lines[name].append(str(duels[name]))
    body = [[f"`{name}`", numbers.METHODS[name].group, *cells] for name, cells in lines.items()]
    return table(["method", "from", *(f"leaf {n}" for n in leaf_sizes)], body)


def _pairs(trees: pd.DataFrame, leaf_size: int) -> str:
    values = numbers.by_set(trees, "auc", leaf_size)[list(PAIRS)]
    tests = many_sets.pairwise_wilcoxon(
        values.to_numpy(), larger_is_better=True, correction="bonferroni", decimals=numbers.DECIMALS
    )
    # tests.wins[i, j] counts the blocks where i is better than j.
    body = []
    for i, name in enumerate(PAIRS):
        marks = ["" if p >= 0.05 else " ∙" if p >= 0.01 else " ◇" if p >= 0.001 else " ★" for p in tests.p_values[i]]
        cells = ["" if i == j else f"{tests.wins[i, j]}{marks[j]}" for j in range(len(PAIRS))]
        body.append([f"`{name}`", *cells])
    return table([f"leaf {leaf_size}", *(f"`{name}`" for name in PAIRS)], body)


def _prior_term(results: numbers.Results) -> str:
    """Accuracy with the paper's formula less that with the published code's, by set, even sets first."""
    ratios, values = results.ratios, [results.values("accuracy", n) for n in results.leaf_sizes]
    sets = sorted(results.trees["set"].unique(), key=lambda name: abs(ratios[name] - 0.5))
    changes = [of["evidence"] - of["evidence-code"] for of in values]
    body = [[name, f"{ratios[name]:.2f}", *(numbers.signed(change[name]) for change in changes)] for name in sets]
    medians = ["median", "", *(numbers.signed(float(np.median(change))) for change in changes)]
    return table(["set", "share of class 1", *(f"leaf {n}" for n in results.leaf_sizes)], [*body, medians])


def _fits_the_paper(results: numbers.Results) -> str:
    """Which of the two the paper's figures were made with, as far as its text tells."""
    accuracies = webdata_accuracies(results)
    if accuracies is None:
        return ""
    peak = accuracies.idxmax()
    is_code = peak["code"] > peak["others"] >= peak["formula"]
    so = " So its figures are those of the code, not of the formula that it prints." if is_code else ""
    return "\n\n" + fill(TEMPLATE, "fits the paper", peak=peak, so=so)
