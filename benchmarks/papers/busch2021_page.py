"""Tables of the study of Busch et al. 2021, as Markdown."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from benchmarks.papers.busch2021_methods import METHODS, PAPER
from benchmarks.rules_page import against_the_mean
from jaxunc import comparison

MEASURES = {"auc": "AUC", "accuracy": "accuracy"}
REFERENCES = {"random-forest-mean": "random forest", "single-tree-mean": "single tree"}
BALANCED, IMBALANCED = (0.4, 0.6), (0.3, 0.7)
PAIRS = ("probability", "laplace", "plausibility", "confidence", "evidence")
"""The methods of the paper's Figure 4."""


def means(found: dict) -> pd.DataFrame:
    """A row per part, set, kind of trees, leaf size and method: means over repetitions and folds."""
    rows = [
        (cell.part, cell.data, cell.kind, cell.n_trees, cell.leaf_size, method, *values)
        for cell, record in found.items()
        for method, values in record["methods"].items()
    ]
    keys = ["part", "set", "kind", "n_trees", "leaf_size", "method"]
    return pd.DataFrame(rows, columns=[*keys, *MEASURES]).groupby(keys, sort=False).mean().reset_index()


def by_set(rows: pd.DataFrame, measure: str, leaf_size: int, methods: Sequence[str]) -> pd.DataFrame:
    """``[sets methods]`` at a leaf size."""
    here = rows[rows["leaf_size"] == leaf_size]
    return here.pivot(index="set", columns="method", values=measure)[list(methods)]


def with_references(everything: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The paper's study with a random forest and a single tree as further methods, on the sets that have them."""
    trees = everything[everything["part"] == "trees"]
    others = everything[everything["part"] == "references"]
    others = others.assign(method=others["kind"].map(REFERENCES))
    if others.empty:
        return trees, list(PAPER)
    sets = set(trees["set"]) & set(others["set"])
    both = pd.concat([trees, others])
    return both[both["set"].isin(sets)], [*PAPER, *REFERENCES.values()]


def rank_table(rows: pd.DataFrame, measure: str, methods: Sequence[str]) -> pd.DataFrame:
    """``[methods leaf sizes]``: average ranks among all pairs of a method and a leaf size, as in Figures 3 and 6."""
    values = rows[rows["method"].isin(methods)].pivot(index="set", columns=["method", "leaf_size"], values=measure)
    ranks = comparison.average_ranks(values.to_numpy(), larger_is_better=True, decimals=6)
    return pd.Series(ranks, values.columns).unstack("leaf_size").loc[list(methods)]


def study_page(everything: pd.DataFrame, ratios: dict[str, float], n_sets: int) -> str:
    """The page. ``ratios``: the share of the positive class in each set."""
    trees = everything[everything["part"] == "trees"]
    leaf_sizes = sorted(trees["leaf_size"].unique())
    rows, methods = with_references(everything)
    n_pairs = len(methods) * len(leaf_sizes)
    parts = [
        "# Random decision trees: the study of Busch et al. 2021",
        f"Made by `python -m benchmarks.papers.busch2021`. {trees['set'].nunique()} of {n_sets} sets are finished: "
        f"{', '.join(trees['set'].unique())}. 100 trees, five times two-fold cross-validation; a block of every test "
        "is a data set. A score of at least 0 decides for class 1, as in the published code.",
    ]
    for measure, title in MEASURES.items():
        table = rank_table(rows, measure, methods)
        parts += [f"## Figure 3, {title}: average ranks among {n_pairs} pairs of a method and a leaf size"]
        parts += [_ranks(table)]
    for measure, title in MEASURES.items():
        parts += [f"## All methods against the mean of probabilities, {title}", _against(trees, measure, leaf_sizes)]
    parts += ["## Figure 4: how often a method has the better AUC"]
    parts += [
        "Row against column. ∙ ◇ ★: told apart by a signed-rank test at .05, .01, .001, Bonferroni-corrected for the "
        "pairs of that leaf size.",
        *(_pairs(trees, leaf_size) for leaf_size in leaf_sizes),
    ]
    parts += _balance(rows, methods, ratios, leaf_sizes)
    parts += ["## The prior term of evidence accumulation", _prior_term(trees, ratios, leaf_sizes)]
    transfer = everything[everything["part"] == "transfer"]
    for (kind, n_trees), part in transfer.groupby(["kind", "n_trees"], sort=False):
        for measure, title in MEASURES.items():
            head = f"## What carries over: {kind}, {n_trees} trees, {title}"
            parts += [head, _against(part, measure, leaf_sizes)]
    return "\n\n".join(parts) + "\n"


def _ranks(table: pd.DataFrame) -> str:
    body = [[str(method), *(f"{rank:.1f}" for rank in ranks)] for method, ranks in table.iterrows()]
    return _table(["method", *(f"leaf {n}" for n in table.columns)], body)


def _against(rows: pd.DataFrame, measure: str, leaf_sizes: Sequence[int]) -> str:
    """For each method: sets better and worse, and the median gain; bold where the test tells it from the mean."""
    lines = {name: [] for name in METHODS if name != "probability"}
    for leaf_size in leaf_sizes:
        table = against_the_mean(by_set(rows, measure, leaf_size, list(METHODS)), larger=True)
        for name in lines:
            found = table.loc[name]
            text = f"{found['better']:.0f}:{found['worse']:.0f}, {found['gain']:+.4f}"
            lines[name].append(f"**{text}**" if found["p"] < 0.05 else text)
    body = [[f"`{name}`", METHODS[name].group, *cells] for name, cells in lines.items()]
    return _table(["method", "from", *(f"leaf {n}" for n in leaf_sizes)], body)


def _pairs(trees: pd.DataFrame, leaf_size: int) -> str:
    values = by_set(trees, "auc", leaf_size, PAIRS)
    tests = comparison.pairwise_wilcoxon(values.to_numpy(), larger_is_better=True, correction="bonferroni", decimals=6)
    # tests.wins[i, j] counts the blocks where i is better than j.
    body = []
    for i, name in enumerate(PAIRS):
        marks = ["" if p >= 0.05 else " ∙" if p >= 0.01 else " ◇" if p >= 0.001 else " ★" for p in tests.p_values[i]]
        cells = ["" if i == j else f"{tests.wins[i, j]}{marks[j]}" for j in range(len(PAIRS))]
        body.append([f"`{name}`", *cells])
    return _table([f"leaf {leaf_size}", *(f"`{name}`" for name in PAIRS)], body)


def _balance(rows: pd.DataFrame, methods: Sequence[str], ratios: dict[str, float], leaf_sizes: Sequence[int]) -> list:
    """Figure 6: accuracy ranks on balanced and on imbalanced sets."""
    low, high = BALANCED
    parts = []
    balanced = [name for name in rows["set"].unique() if low <= ratios[name] <= high]
    skewed = [name for name in rows["set"].unique() if not IMBALANCED[0] <= ratios[name] <= IMBALANCED[1]]
    for title, sets in (("even class ratio", balanced), ("uneven class ratio", skewed)):
        if len(sets) < 2:
            continue
        table = rank_table(rows[rows["set"].isin(sets)], "accuracy", methods)
        parts += [f"## Figure 6: accuracy ranks, {title} ({', '.join(sets)})"]
        parts += [_ranks(table)]
    return parts


def _prior_term(trees: pd.DataFrame, ratios: dict[str, float], leaf_sizes: Sequence[int]) -> str:
    """Accuracy with the paper's formula less that with the published code's, by set, even sets first."""
    sets = sorted(trees["set"].unique(), key=lambda name: abs(ratios[name] - 0.5))
    change = {}
    for leaf_size in leaf_sizes:
        values = by_set(trees, "accuracy", leaf_size, ["evidence", "evidence-code"])
        change[leaf_size] = values["evidence"] - values["evidence-code"]
    body = [[name, f"{ratios[name]:.2f}", *(f"{change[n][name]:+.4f}" for n in leaf_sizes)] for name in sets]
    medians = ["median", "", *(f"{np.median(change[n]):+.4f}" for n in leaf_sizes)]
    return (
        "Accuracy with the formula of the paper (logarithm of the prior) less accuracy with the published code (the "
        "prior itself). Rankings differ by a constant and agree.\n\n"
        + _table(["set", "share of class 1", *(f"leaf {n}" for n in leaf_sizes)], [*body, medians])
    )


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
