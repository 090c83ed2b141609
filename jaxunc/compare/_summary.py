"""Outcomes in numbers: averages, ranks, and tests of differences, for tables, sentences and figures."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from ._evaluate import (
    BRIER_RANGE,
    COMPARED_MEASURES,
    MOST_CLASSES,
    POLL_MEASURES,
    RANKED_MEASURES,
    SET_MEASURES,
    Outcome,
)
from ._laws import MEASURES_OF_LAWS
from ._settings import MODEL, PLAIN
from ._significance import average_ranks, pairwise_corrected_t
from ._store import Results

TITLES = {
    "accuracy": "accuracy",
    "auc": "AUC",
    "brier": "Brier",
    "log_loss": "log loss",
    "calibration_error": "calibration error",
    "risk_coverage": "risk-coverage",
    "interval_score": "interval score",
    "pinball_loss": "pinball loss",
    "coverage": "coverage",
    "worst_fifth": "worst fifth",
    "width": "width",
    "seconds": "seconds",
}
"""Titles of the measures in tables and on axes."""
SET_TITLES = {
    "determinacy": "decided",
    "single_set_accuracy": "right of those",
    "u65": "u65",
    "u80": "u80",
    "set_size": "set size",
}
"""Titles of the measures of sets in tables."""
POLL_TITLES = {
    "n_polled": "trees",
    "settled": "settled",
    "accuracy": "accuracy",
    "whole_accuracy": "of all trees",
    "same": "same class",
}
"""Titles of the measures of votes that stop when they are settled, in tables."""
TABLE_STRENGTHS = (1, 2, 5)  # values of s that tables show
BASELINE = "probability"  # name of the combiner by which forests answer by default
DECIMALS = 6  # number of decimals to which means are compared: smaller differences are rounding, and count as ties


class Ranking(NamedTuple):
    """The combiners (or laws) of a study, ranked by one measure over the test folds."""

    combiners: tuple[str, ...]  # names of the combiners, best first
    ranks: Float[np.ndarray, "combiners"]  # average ranks, 1 is best
    different: Bool[np.ndarray, "combiners combiners"]  # whether a corrected test finds that two combiners differ
    from_best: Float[np.ndarray, "combiners"]  # corrected p-value against the first combiner


def baseline_of(combiners: Iterable[str]) -> str | None:
    """Return the name of the default that others are compared with, of the ``combiners`` or laws that were run.

    The default is the given model, if there is one, else `BASELINE`; of laws it is `PLAIN`. None if it was not run.
    """
    return next((name for name in (MODEL, BASELINE, PLAIN) if name in combiners), None)


def forest_name(forest: Any, leaf_size: Any) -> str:
    """Return a forest's kind and leaf size as text; leaf size 0, which stands for a given model, is not mentioned."""
    return f"{forest}, leaf size {leaf_size}" if leaf_size else str(forest)


def averages(records: Any) -> pd.DataFrame:
    """Return mean and standard deviation of each measure over test folds, for each kind of forest and combiner.

    Rows: (kind of forest, combiner); columns: (measure, "mean" | "std"). ``records`` is the frame of `Results.records`.
    Values are averaged over leaf sizes first.
    """
    measures = [name for name in (*COMPARED_MEASURES, *MEASURES_OF_LAWS) if name in records]
    # So the spread is that between test folds, not between leaf sizes.
    per_fold = records.groupby(["forest", "combiner", "repeat", "fold"], sort=False)[measures].mean()
    return per_fold.groupby(["forest", "combiner"], sort=False).agg(["mean", "std"])


def best_leaf_sizes(records: Any) -> pd.Series:
    """Return the leaf size with the least mean loss (the smallest of equals), for each kind of forest and combiner.

    The loss is the Brier score, for laws the interval score. ``records`` is the frame of `Results.records`.
    """
    by = "brier" if "brier" in records else "interval_score"
    loss = records.groupby(["forest", "combiner", "leaf_size"], sort=False)[by].mean().round(DECIMALS)
    return loss.unstack("leaf_size").sort_index(axis=1).idxmin(axis=1)


def shown_leaf_sizes(results: Results, records: Any) -> dict[str, int]:
    """Return {kind of forest: the leaf size that is shown in figures of one leaf size}.

    It is the best size for `BASELINE` or, if that was not run, for the first combiner. Leaf size 1, whose pure leaves
    show no uncertainty, is shown only if there is no other. ``records`` is the frame of `Results.records`.
    """
    if results.settings.leaf_sizes[-1] > 1:
        records = records[records["leaf_size"] > 1]
    leaf_sizes: Any = best_leaf_sizes(records)
    combiner = BASELINE if BASELINE in results.about["combiners"] else next(iter(results.about["combiners"]))
    return {forest: int(leaf_sizes[forest, combiner]) for forest in results.settings.forests}


def ranked_measures(records: Any) -> dict[str, bool]:
    """Return {measure: whether larger is better} of the measures that rank the combiners or laws in ``records``."""
    if "interval_score" not in records:
        return RANKED_MEASURES
    return {name: larger for name, larger in MEASURES_OF_LAWS.items() if larger is not None}


def outcomes_of(results: Results, forest: str, leaf_size: int) -> list[Any]:
    """Return the outcomes of forests of one kind and leaf size: one for each test fold, repetition by repetition."""
    return [outcome for cell, outcome in results.outcomes.items() if cell[:2] == (forest, leaf_size)]


def has_sets(results: Results) -> bool:
    """Return whether a study has at most `MOST_CLASSES` classes, so that its forests answer with sets and intervals."""
    return len(results.about["data"]["classes"]) <= MOST_CLASSES


def set_averages(results: Results, records: Any) -> Any:
    """Return means over test folds of the measures of sets, at the shown leaf size of each kind of forest.

    Rows: (kind of forest, s), none where there are too many classes; columns: `SET_MEASURES`. The accuracy of single
    classes is that of all test folds together, NaN if no set is one. ``records`` is the frame of `Results.records`.
    """
    leaf_sizes = shown_leaf_sizes(results, records)
    rows = []
    for cell, outcome in results.outcomes.items():
        if cell.leaf_size != leaf_sizes[cell.forest]:
            continue
        for s, measures in outcome.sets.items():
            numbers = {name: np.nan if value is None else value for name, value in measures.items()}
            rows.append({"forest": cell.forest, "s": int(s), **numbers})
    table = pd.DataFrame(rows, columns=pd.Index(["forest", "s", *SET_MEASURES]))
    # Right single classes over single classes, of all folds: a mean of accuracies would weight folds with few alike.
    share_right = (table["single_set_accuracy"] * table["determinacy"]).fillna(0.0)
    means: Any = table.assign(single_set_accuracy=share_right).groupby(["forest", "s"], sort=False).mean()
    share_single = means["determinacy"].where(means["determinacy"] > 0)
    return means.assign(single_set_accuracy=means["single_set_accuracy"] / share_single)


def poll_averages(results: Results) -> Any:
    """Return the means of `POLL_MEASURES` over a study's test folds: a row for each kind of forest and leaf size."""
    rows = [{**cell._asdict(), **outcome.polling} for cell, outcome in results.outcomes.items() if outcome.polling]
    table: Any = pd.DataFrame(rows, columns=pd.Index(["forest", "leaf_size", *POLL_MEASURES]))
    return table.groupby(["forest", "leaf_size"], sort=False).mean()


def baseline_accuracy(results: Results, records: Any) -> dict[str, float]:
    """Return {kind of forest: mean accuracy of `BASELINE` at the shown leaf size}; empty if `BASELINE` was not run.

    ``records`` is the frame of `Results.records`.
    """
    accuracy = records[records["combiner"] == BASELINE].groupby(["forest", "leaf_size"])["accuracy"].mean()
    accuracies = {}
    for forest, leaf_size in shown_leaf_sizes(results, records).items():
        if (forest, leaf_size) in accuracy:
            accuracies[forest] = float(accuracy[forest, leaf_size])
    return accuracies


def interval_means(outcomes: list[Outcome]) -> dict[str, list]:
    """Return the filled bins of `Outcome.intervals` over all outcomes together: sizes, and means in place of sums."""
    sums = {name: np.sum([o.intervals[name] for o in outcomes], axis=0) for name in outcomes[0].intervals}
    filled = sums["size"] > 0
    means = {name: (total[filled] / sums["size"][filled]).tolist() for name, total in sums.items()}
    return {**means, "size": sums["size"][filled].tolist()}  # sizes stay sums, at the same position in the dict


def brier_ranges(results: Results, forest: str) -> dict[str, list[float]]:
    """Return {name in `BRIER_RANGE`: a mean over test folds for each leaf size}, for one kind of forest."""
    ranges: dict[str, list[float]] = {name: [] for name in BRIER_RANGE}
    for leaf_size in results.settings.leaf_sizes:
        outcomes = outcomes_of(results, forest, leaf_size)
        for name, means in ranges.items():
            means.append(float(np.mean([outcome.brier_range[name] for outcome in outcomes])))
    return ranges


def table_of_ranks(records: Any) -> pd.DataFrame:
    """Return a frame of the mean ranks of combiners or laws by each measure, over all forests and test folds.

    Rank 1 is best, and ties share their mean rank. Rows: combiners, best first; columns: the measures, and "all", their
    mean. ``records`` is the frame of `Results.records`.
    """
    columns = {}
    for name, larger in ranked_measures(records).items():
        values = _by_forest(records, name)
        columns[name] = average_ranks(values.to_numpy(), larger_is_better=larger, decimals=DECIMALS)
        combiners = values.columns
    mean = pd.DataFrame(columns, index=combiners)
    return mean.assign(all=mean.mean(axis=1)).sort_values("all", kind="stable")


def ranking(records: Any, measure: str, *, n_folds: int) -> Ranking:
    """Rank the combiners or laws of a study by one measure, and test which of them differ.

    For the tests, values are averaged over kinds of forests and leaf sizes. The corrected resampled t-test compares two
    combiners over the test folds, which share training data. Holm corrects the p-values of all pairs.

    Parameters
    ----------
    records
        The frame of `Results.records`.
    measure
        ``"accuracy"``, ``"auc"``, ``"brier"`` or ``"log_loss"``; for laws ``"interval_score"`` or ``"pinball_loss"``.
    n_folds
        Number of folds in a repetition of the cross-validation, by which the test is corrected.

    Returns
    -------
    Ranking
        The combiners, best first, and which of them differ by a test.
    """
    per_forest = _by_forest(records, measure)
    larger = ranked_measures(records)[measure]
    ranks = average_ranks(per_forest.to_numpy(), larger_is_better=larger, decimals=DECIMALS)
    order = np.argsort(ranks, kind="stable")
    values = per_forest.groupby(["repeat", "fold"], sort=True).mean().round(DECIMALS).to_numpy()[:, order]
    if len(order) > 1:
        p_values = pairwise_corrected_t(values, larger_is_better=larger, test_share=1 / n_folds).p_values
    else:
        p_values = np.ones((1, 1))
    combiners = tuple(str(per_forest.columns[i]) for i in order)
    return Ranking(combiners, ranks[order], p_values < 0.05, p_values[0])


def _by_forest(records: Any, measure: str) -> Any:
    """Return one measure of ``records`` as a frame: a row for each forest and test fold, a column for each combiner."""
    rows = records.pivot(index=["forest", "leaf_size", "repeat", "fold"], columns="combiner", values=measure)
    return rows[list(dict.fromkeys(records["combiner"]))]
