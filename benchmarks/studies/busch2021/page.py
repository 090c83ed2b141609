"""The page of the study of Busch et al. 2021: its reading and its tables, as Markdown."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from benchmarks import many_sets
from benchmarks.studies.busch2021.figures import NEAR
from benchmarks.studies.busch2021.methods import METHODS
from benchmarks.studies.busch2021.numbers import (
    DECIMALS,
    LEVEL,
    MEASURES,
    Duel,
    Results,
    against_the_mean,
    balance,
    by_set,
    listed,
    rank_tables,
    signed,
    signed_rank,
    with_references,
)
from benchmarks.studies.busch2021.reading import NOT_SIGNIFICANT, best_of_all, findings, webdata_accuracies

DARK = "Darker is better."
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
PAIRS = ("probability", "laplace", "plausibility", "confidence", "evidence")
"""The methods of the paper's Figure 4."""
ABSENT = ("voting", "transfusion", "telescope", "vehicle", "particle")
"""The paper's sets that are not at hand."""


def study_page(everything: pd.DataFrame, ratios: dict[str, float], n_sets: int, n_repeats: int) -> str:
    """The page. ``ratios``: the share of the positive class in each set."""
    trees = everything[everything["part"] == "trees"]
    leaf_sizes = sorted(trees["leaf_size"].unique())
    rows, methods = with_references(everything)
    results = Results(everything, ratios)
    tables = rank_tables(everything, ratios)
    n_pairs = len(methods) * len(leaf_sizes)
    parts = [
        "# Random decision trees: the study of Busch et al. 2021",
        f"Made by `python -m benchmarks busch2021`: {trees['set'].nunique()} of the {n_sets} sets at hand "
        f"({', '.join(trees['set'].unique())}){_unfinished(trees, n_repeats)}{_not_run(trees, ratios)}. "
        f"Not at hand of the paper's {n_sets + len(ABSENT)}: {', '.join(ABSENT)}. 100 trees, "
        f"{n_repeats} times two-fold cross-validation; a block of every test is a data set. A score of at least 0 "
        f"decides for class 1, as in the published code.{_not_referred(everything)}",
        _how_to_read(),
        "## The names of the methods",
        _names(),
        "## What the paper found, and what is found here",
        _table(["the paper", "here", "verdict"], [list(finding) for finding in findings(results)]),
        "## The prior term of evidence accumulation",
        _prior_term(results),
        "## The best of all methods",
        _best(results),
        "## Figure 1: scores of a leaf that grows, a quarter of its instances negative",
        "![Four charts, scores of a leaf as it grows to 100 instances: the trials scatter widely in "
        "small leaves, and close in on their mean](figure-1.png)",
        "Each instance is negative with probability 1/4. 100 trials (thin, light blue), their mean (orange), their 25 "
        "and 75 % quantiles (pink), and their 10 and 90 % quantiles (green).",
        "## Figure 2: rules on 100 such leaves",
        "![Four charts, scores against instances in each leaf: pooling stays at .25, Dempster's rule rises to 1, the "
        "cautious rule rises and sinks again, evidence peaks early and falls](figure-2.png)",
        "Colours as in Figure 1.",
    ]
    for measure, title in MEASURES.items():
        parts += [f"## Figure 3, {title}: average ranks among {n_pairs} pairs of a method and a leaf size"]
        parts += [
            f"![Heat map of the ranks of the table below](figure-3-{measure}.svg)",
            DARK,
            _ranks(tables[f"figure-3-{measure}"]),
        ]
    for measure, title in MEASURES.items():
        parts += [f"## All methods against the mean of probabilities, {title}", _against(trees, measure, leaf_sizes)]
    parts += ["## Figure 4: how often a method has the better AUC"]
    parts += [
        "On how many sets the row is better than the column. ∙ ◇ ★: told apart by a signed-rank test at .05, .01, "
        ".001, Bonferroni-corrected for the pairs of that leaf size.",
        *(_pairs(trees, leaf_size) for leaf_size in leaf_sizes),
        "## Figure 5: accuracy against leaf size",
        "![Accuracy against least instances in a leaf on climate, scene, webdata and airlines: on the last three most "
        "methods lie above the band of the single trees while leaves are small](figure-5.svg)",
        "Dashed and blue: the mean of the single trees' accuracies; shaded: one, two and three of their standard "
        f"deviations. A method whose accuracies lie within {NEAR:g} of the mean of probabilities (`probability`) at "
        "every leaf size is named below the set, and not drawn; an arrow names what lies below the axis.",
    ]
    for name, sets in balance(rows, ratios).items():
        if f"figure-6-{name}" in tables:
            parts += [f"## Figure 6: accuracy ranks, {name} class ratio ({', '.join(sets)})"]
            parts += [
                f"![Heat map of the ranks of the table below](figure-6-{name}.svg)",
                DARK,
                _ranks(tables[f"figure-6-{name}"]),
            ]
    transfer = everything[everything["part"] == "transfer"]
    if not transfer.empty:
        parts += ["## What carries over", _carried_over(trees, transfer)]
    for (kind, n_trees), part in transfer.groupby(["kind", "n_trees"], sort=False):
        for measure, title in MEASURES.items():
            head = f"### {kind}, {n_trees} trees, {title}"
            parts += [head, _against(part, measure, leaf_sizes)]
    return "\n\n".join(parts) + "\n"


def _unfinished(trees: pd.DataFrame, n_repeats: int) -> str:
    """Sets with fewer repetitions."""
    n_done = trees.groupby("set", sort=False)["n_cells"].min() // 2
    told = [f"{name} with {n} of {n_repeats} repetitions" for name, n in n_done.items() if n < n_repeats]
    return f", {', '.join(told)}" if told else ""


def _not_run(trees: pd.DataFrame, ratios: dict[str, float]) -> str:
    """Sets at hand that the page does not have."""
    absent = [name for name in ratios if name not in set(trees["set"])]
    return f"; not run: {', '.join(absent)}" if absent else ""


def _not_referred(everything: pd.DataFrame) -> str:
    """Sets without reference methods, where others have them."""
    sets = {part: list(rows["set"].unique()) for part, rows in everything.groupby("part")}
    absent = [name for name in sets["trees"] if name not in sets.get("references", sets["trees"])]
    told = f" Random forests and single trees were not run on {', '.join(absent)}, which Figures 3 and 6 leave out."
    return told if absent else ""


def _how_to_read() -> str:
    least = f"10⁻{str(DECIMALS).translate(SUPERSCRIPTS)}"
    return (
        "*a:b (g)* reads: better on a sets, worse on b, and by g in the median; `<.0001` is a gain or a loss too small "
        f"for four places. Differences below {least} are ties, throughout: in these counts, in tests and in ranks. "
        f"**Bold**: a signed-rank test over the sets tells the two apart (p < {LEVEL:g}; Holm-corrected, against the "
        "mean for all methods at a leaf size, else for the leaf sizes).\n\n"
        "A verdict *holds* where ranks, counts and medians point the way that the paper says, by the rules in "
        f"`reading.py`; it adds *{NOT_SIGNIFICANT}* where methods are compared and no comparison behind it "
        "is told apart by its test. Verdicts on ranks, on a single set and on reference methods are not tested.\n\n"
        "`maximum` and `mixture-maximum` are of cells in which leaves of equal extremity spoke for class 1. The rules "
        "now answer 0 there, or take the first; in grown-out random forests on 23 other sets that moved the AUC of "
        "`maximum` from .60 to .64, in the mean. All other methods are the same, bit for bit."
    )


def _names() -> str:
    return "From the *paper*, from its published *code* alone, or *new* here.\n\n" + _table(
        ["method", "from", "what it is"], [[f"`{k}`", m.group, m.meaning] for k, m in METHODS.items()]
    )


def _best(results: Results) -> str:
    table = best_of_all(results)
    body = [[f"`{name}`", METHODS[str(name)].group, *(f"{v:.1f}" for v in row)] for name, row in table.iterrows()]
    first, ours = str(table.index[0]), "evidence-to-prior"
    told = [f"Average ranks of the {len(table)} methods over all sets and leaf sizes, by AUC, by accuracy, their mean."]
    if first != ours:
        duels = []
        for measure, title in MEASURES.items():
            values = sum(results.values(measure, n)[[ours, first]] for n in results.leaf_sizes) / len(
                results.leaf_sizes
            )
            duels.append(f"{title} {Duel.of(values[ours] - values[first])}, p = {signed_rank(values):.2f}")
        told += [
            f"The classifier's default is `{ours}`. Against `{first}`, the first of the table, in the means over leaf "
            f"sizes: {'; '.join(duels)} (signed-rank test over sets)."
        ]
    return " ".join(told) + "\n\n" + _table(["method", "from", "AUC", "accuracy", "both"], body[:12])


def _carried_over(trees: pd.DataFrame, transfer: pd.DataFrame) -> str:
    """Some methods against the mean, over sets and leaf sizes together, for every kind of ensemble."""
    shown = ("evidence", "evidence-to-prior", "dempster-p", "plausibility", "confidence", "laplace", "pooling", "vote")
    sets = transfer["set"].unique()
    kinds = [("random-trees", 100, trees[trees["set"].isin(sets)])]
    kinds += [(kind, n, rows) for (kind, n), rows in transfer.groupby(["kind", "n_trees"], sort=False)]
    parts = [f"On {len(sets)} sets ({', '.join(sets)}): pairs of a set and a leaf size, against the mean."]
    ahead = []
    for measure, title in MEASURES.items():
        body = []
        for kind, n_trees, rows in kinds:
            values = rows.pivot(index=["set", "leaf_size"], columns="method", values=measure)
            duels = {name: Duel.of(values[name] - values["probability"]) for name in shown}
            body.append([f"{kind}, {n_trees} trees", *map(str, duels.values())])
            best = [name for name, duel in duels.items() if duel.better > 2 * duel.worse]
            ahead.append(f"{kind}, {n_trees} trees: {', '.join(f'`{name}`' for name in best) or 'none'}")
        parts += [_table([title, *(f"`{name}`" for name in shown)], body)]
        parts += [f"Better than the mean more than twice as often as worse, by {title}: {'; '.join(ahead)}."]
        ahead.clear()
    return "\n\n".join(parts)


def _ranks(table: pd.DataFrame) -> str:
    body = [[str(method), *(f"{rank:.1f}" for rank in ranks)] for method, ranks in table.iterrows()]
    return _table(["method", *(f"leaf {n}" for n in table.columns)], body)


def _against(rows: pd.DataFrame, measure: str, leaf_sizes: Sequence[int]) -> str:
    """For each method: sets better and worse, and the median gain; bold where the test tells it from the mean."""
    lines = {name: [] for name in METHODS if name != "probability"}
    for leaf_size in leaf_sizes:
        duels = against_the_mean(by_set(rows, measure, leaf_size, list(METHODS)))
        for name in lines:
            lines[name].append(str(duels[name]))
    body = [[f"`{name}`", METHODS[name].group, *cells] for name, cells in lines.items()]
    return _table(["method", "from", *(f"leaf {n}" for n in leaf_sizes)], body)


def _pairs(trees: pd.DataFrame, leaf_size: int) -> str:
    values = by_set(trees, "auc", leaf_size, PAIRS)
    tests = many_sets.pairwise_wilcoxon(
        values.to_numpy(), larger_is_better=True, correction="bonferroni", decimals=DECIMALS
    )
    # tests.wins[i, j] counts the blocks where i is better than j.
    body = []
    for i, name in enumerate(PAIRS):
        marks = ["" if p >= 0.05 else " ∙" if p >= 0.01 else " ◇" if p >= 0.001 else " ★" for p in tests.p_values[i]]
        cells = ["" if i == j else f"{tests.wins[i, j]}{marks[j]}" for j in range(len(PAIRS))]
        body.append([f"`{name}`", *cells])
    return _table([f"leaf {leaf_size}", *(f"`{name}`" for name in PAIRS)], body)


def _prior_term(results: Results) -> str:
    """Accuracy with the paper's formula less that with the published code's, by set, even sets first."""
    ratios, leaf_sizes = results.ratios, results.leaf_sizes
    sets = sorted(results.trees["set"].unique(), key=lambda name: abs(ratios[name] - 0.5))
    change = {}
    for leaf_size in leaf_sizes:
        values = results.values("accuracy", leaf_size)
        change[leaf_size] = values["evidence"] - values["evidence-code"]
    body = [[name, f"{ratios[name]:.2f}", *(signed(change[n][name]) for n in leaf_sizes)] for name in sets]
    medians = ["median", "", *(signed(float(np.median(change[n]))) for n in leaf_sizes)]
    duels = {
        name: listed(results.duels("accuracy", name)) for name in ("evidence", "evidence-code", "evidence-to-prior")
    }
    return (
        "The paper's formula adds the logarithm of the prior, its published code the prior itself. Rankings differ by "
        "a constant, so AUCs agree; accuracies do not.\n\n"
        f"* The formula against the mean, by accuracy: {duels['evidence']}.\n"
        f"* The code: {duels['evidence-code']}.\n"
        f"* Smoothed toward the prior (ours): {duels['evidence-to-prior']}.\n\n"
        "With leaves of one instance and a rare class the formula turns round. A leaf of the rare class multiplies "
        "its odds many times; a leaf of the other class, whose share is smoothed toward one half, says next to nothing "
        "that the prior did not say: so the few leaves that have the rare class by chance outweigh all others. The "
        "code's term hides that by an amount that grows with the number of trees; smoothing toward the prior does "
        f"away with it.{_fits_the_paper(results)}\n\n"
        "Accuracy with the formula less accuracy with the code:\n\n"
        + _table(["set", "share of class 1", *(f"leaf {n}" for n in leaf_sizes)], [*body, medians])
    )


def _fits_the_paper(results: Results) -> str:
    """Which of the two the paper's figures were made with, as far as its text tells."""
    table = webdata_accuracies(results)
    if table is None:
        return ""
    peak = table.idxmax()
    told = {name: f"peaks at leaf {peak[name]}" for name in table}
    text = (
        f"\n\nWhich of them fits the paper? It says that on webdata the accuracy of evidence accumulation rises long "
        f"after the other methods reach their peak. Here the formula {told['formula']}, the code {told['code']}, the "
        f"other methods in the median {told['others'].removeprefix('peaks ')}."
    )
    if peak["code"] > peak["others"] >= peak["formula"]:
        text += " So its figures are those of the code, not of the formula that it prints."
    return text


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
