"""What the means of many data sets say about rules: tables, tests, and the pictures of average ranks."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from benchmarks import many_sets
from benchmarks.pages import bold, fill, save, table
from jaxunc import compare

TEMPLATE = Path(__file__).with_name("page.md")
BASELINE = "probability"
AIMS = {
    "auc": "to rank (AUC)", "accuracy": "to decide (accuracy)", "brier": "probabilities (Brier)",
    "log_loss": "probabilities (log loss)", "risk_coverage": "to abstain (risk-coverage)",
}  # fmt: skip
"""What an answer is wanted for, and the measure that says how well it serves."""
COUNTS = {"inbag": "in-bag", "oob": "out-of-bag", "held_out": "held-out"}


def rules_page(everything: pd.DataFrame) -> str:
    """The page, as Markdown."""
    two, more = everything[everything["n_classes"] == 2], everything[everything["n_classes"] > 2]
    shown = {name: rule for name, rule in compare.COMPARED_COMBINERS.items() if not (rule.learns or rule.is_model)}
    names = lambda rows: ", ".join(sorted(rows["set"].unique()))
    return fill(
        TEMPLATE,
        n_sets=everything["set"].nunique(),
        n_two=two["set"].nunique(),
        meanings="; ".join(f"`{name}`, {rule.meaning}" for name, rule in shown.items()),
        two=names(two),
        more_sets=f"\n\nOf more: {names(more)}." if len(more) else "",
        winners=_winners(two),
        n_comparisons=len(AIMS) * two["leaf_size"].nunique(),
        told_apart=told_apart(two),
        ranking=_ranking(two),
        more=fill(TEMPLATE, "more", winners=_winners(more)) + "\n\n" if len(more) else "",
        ranks=lambda measure: _ranks(two, measure),
        difference=lambda measure: many_sets.nemenyi_difference(*by_set(two, measure, "inbag", 1).shape[::-1]),
        n_choices=len(two[["counts", "leaf_size", "rule"]].drop_duplicates()),
        together=_together(two),
        whose_counts=_whose_counts(two),
    )


def write_pictures(everything: pd.DataFrame, folder: Path) -> None:
    """Critical-difference diagrams of grown-out forests as scikit-learn makes them."""
    for measure in ("auc", "brier"):
        values = by_set(everything[everything["n_classes"] == 2], measure, "inbag", 1)
        figure, ax = plt.subplots(figsize=(8, 5.5), layout="constrained")
        ranked = many_sets.ranking(values.to_numpy(), larger_is_better=_larger(measure))
        many_sets.draw_ranking(ax, ranked, list(values.columns), highlight=(BASELINE,))
        save(figure, folder / f"rules-{measure}.svg")
        plt.close(figure)


def _ranking(rows: pd.DataFrame) -> str:
    """Each rule against the mean by AUC where leaves may hold one instance, as scikit-learn grows them."""
    found = many_sets.against(by_set(rows, "auc", "inbag", 1), BASELINE)
    body = [
        [f"`{rule}`", f"{row['won']:.0f}:{row['lost']:.0f}", f"{row['gain']:+.4f}", f"{row['p']:.3f}"]
        for rule, row in found.sort_values("p", kind="stable").iterrows()
    ]
    return table(["rule", "better:worse", "gain", "p"], body)


def by_set(rows: pd.DataFrame, measure: str, counts: str, leaf_size: int) -> pd.DataFrame:
    """``[sets rules]``: the mean over forest kinds."""
    here = rows[(rows["counts"] == counts) & (rows["leaf_size"] == leaf_size)]
    order = list(dict.fromkeys(here["rule"]))
    return here.pivot_table(index="set", columns="rule", values=measure, aggfunc="mean")[order]


def _larger(measure: str) -> bool:
    return measure in ("auc", "accuracy")


def winner(values: pd.DataFrame, *, larger: bool) -> pd.Series:
    """The best of ``values [sets rules]`` by average rank: its row of `many_sets.against`, empty of the baseline."""
    ranks = compare.average_ranks(values.to_numpy(), larger_is_better=larger, decimals=6)
    return many_sets.against(values, BASELINE, larger=larger).reindex(values.columns).iloc[int(np.argmin(ranks))]


def _winners(rows: pd.DataFrame) -> str:
    lines = []
    for counts, words in COUNTS.items():
        for leaf_size in sorted(rows["leaf_size"].unique()):
            cells = [_cell(winner(by_set(rows, m, counts, leaf_size), larger=_larger(m))) for m in AIMS]
            lines.append([f"{words}, {leaf_size}", *cells])
    return table(["counts, least leaf", *AIMS.values()], lines)


def _cell(best: pd.Series) -> str:
    if best.name == BASELINE:
        return f"`{best.name}`"
    return f"{bold(f'`{best.name}`', best['p'] < 0.05)} ({best['won']:.0f}:{best['lost']:.0f}, {best['gain']:+.4f})"


def told_apart(rows: pd.DataFrame) -> str:
    """For each rule, in how many of the comparisons with the mean a test finds it better, and worse."""
    found = {}
    leaf_sizes = sorted(rows["leaf_size"].unique())
    for counts, words in COUNTS.items():
        pairs = [(by_set(rows, m, counts, n), m) for m in AIMS for n in leaf_sizes]
        tests = [many_sets.against(values, BASELINE, larger=_larger(m)) for values, m in pairs]
        for sign, word in ((1, "better"), (-1, "worse")):
            found[f"{words}, {word}"] = sum((t["p"] < 0.05) & (t["gain"] * sign > 0) for t in tests)
    counted = pd.DataFrame(found)
    order = (counted["in-bag, worse"] - counted["in-bag, better"]).sort_values(kind="stable").index
    body = [[f"`{rule}`", *(str(n) for n in counted.loc[rule])] for rule in order]
    return table(["rule", *found], body)


def _ranks(rows: pd.DataFrame, measure: str) -> str:
    """A row per rule, a column per counts and leaf size; below, whether the rules differ at all."""
    columns, notes = {}, {}
    for counts, words in COUNTS.items():
        for leaf_size in sorted(rows["leaf_size"].unique()):
            values = by_set(rows, measure, counts, leaf_size)
            ranks = compare.average_ranks(values.to_numpy(), larger_is_better=_larger(measure), decimals=6)
            columns[f"{words}, {leaf_size}"] = pd.Series(ranks, values.columns)
            notes[f"{words}, {leaf_size}"] = many_sets.friedman(values.to_numpy(), decimals=6)
    ranked = pd.DataFrame(columns).sort_values("in-bag, 1", kind="stable")
    body = [[f"`{rule}`", *(f"{rank:.1f}" for rank in ranks)] for rule, ranks in ranked.iterrows()]
    body.append(["Friedman's p", *(f"{p:.1g}" for p in notes.values())])
    return table(["rule", *columns], body)


def _together(rows: pd.DataFrame) -> str:
    """For each purpose, the choices with the least average ranks among all, on random forests."""
    rows, lines = rows[rows["forest"] == "random-forest"], []
    for measure, aim in AIMS.items():
        sign = 1 if _larger(measure) else -1
        values = rows.pivot_table(index="set", columns=["counts", "leaf_size", "rule"], values=measure, aggfunc="mean")
        ranks = compare.average_ranks(values.to_numpy(), larger_is_better=_larger(measure), decimals=6)
        usual = values[("inbag", 1, BASELINE)]
        for i in np.argsort(ranks, kind="stable")[:5]:
            counts, leaf_size, rule = values.columns[i]
            gain = sign * (values.iloc[:, i] - usual)
            won = f"{(gain > 0).sum()}:{(gain < 0).sum()}"
            cells = [f"`{rule}`", COUNTS[counts], str(leaf_size), won, f"{gain.median():+.4f}"]
            lines.append([aim, f"{ranks[i]:.0f}", *cells])
    return table(["purpose", "rank", "rule", "counts", "least leaf", "better:worse", "gain"], lines)


def _whose_counts(rows: pd.DataFrame) -> str:
    """For each rule and leaf size, what other counts change in random forests, in the median over sets."""
    rows, lines = rows[rows["forest"] == "random-forest"], []
    for leaf_size in sorted(rows["leaf_size"].unique()):
        inbag = {measure: by_set(rows, measure, "inbag", leaf_size) for measure in ("auc", "brier")}
        for rule in inbag["auc"].columns:
            changes = (
                by_set(rows, measure, counts, leaf_size)[rule] - inbag[measure][rule]
                for measure in ("auc", "brier")
                for counts in ("oob", "held_out")
            )
            lines.append([str(leaf_size), f"`{rule}`", *(f"{change.median():+.4f}" for change in changes)])
    names = ["AUC, out-of-bag", "AUC, held-out", "Brier, out-of-bag", "Brier, held-out"]
    return table(["least leaf", "rule", *names], lines)
