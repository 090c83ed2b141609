"""What the cells of the study of Busch et al. 2021 come to: means over repetitions and folds, and ranks over sets."""

from collections.abc import Sequence

import pandas as pd

from benchmarks.papers.busch2021_duels import BALANCED, DECIMALS, IMBALANCED
from benchmarks.papers.busch2021_methods import PAPER
from jaxunc import compare

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


def balance(rows: pd.DataFrame, ratios: dict[str, float]) -> dict[str, list[str]]:
    """The sets of Figure 6."""
    low, high = BALANCED
    names = rows["set"].unique()
    return {
        "even": [name for name in names if low <= ratios[name] <= high],
        "uneven": [name for name in names if not IMBALANCED[0] <= ratios[name] <= IMBALANCED[1]],
    }


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
    ranks = compare.average_ranks(values.to_numpy(), larger_is_better=True, decimals=DECIMALS)
    return pd.Series(ranks, values.columns).unstack("leaf_size").loc[list(methods)]
