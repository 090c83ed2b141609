"""The page of the study of true probabilities: tables and a picture, made of its cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import many_sets
from benchmarks.pages import filled
from benchmarks.studies.true_probabilities.methods import LOGISTIC

TEMPLATE = Path(__file__).with_name("page.md")
MEAN, POOL, CHOSEN, BOTH = (
    "mean, leaves of 1",
    "learned pool",
    "mean, leaf size chosen",
    "learned pool, leaf size chosen",
)
OUT_OF_BAG, CALIBRATED, ORACLE = "mean, out-of-bag counts", "calibrated mean", "logistic regression"
SHOWN_BESIDE = (MEAN, POOL)
MEANINGS = {
    MEAN: "the mean of the leaves' shares, of trees that are grown out, as scikit-learn has it",
    "mean, leaves of 5": "the same of trees whose leaves hold at least so many instances",
    "mean, leaves of 20": "",
    "mean, leaves of √n": "",
    CHOSEN: "that one of the four which has the least log loss out of bag",
    "laplace": "of the grown-out trees, the mean of Laplace's estimates",
    "m-estimate": "the same of m-estimates, m = 2 and the forest's prior",
    "plausibility": "the same of plausibility scores (two classes)",
    "pooling": "the leaves' counts, added",
    OUT_OF_BAG: "the leaves' shares of the instances that their tree has not seen",
    "pooling, out-of-bag counts": "these counts, added",
    CALIBRATED: "`Calibrated(Mean())`, a scale and a bias for each class, learned out of bag",
    POOL: "`CombinedForestClassifier`'s default on the grown-out forest",
    BOTH: "the same on the forest whose leaf size was chosen",
    ORACLE: "without a penalty: the form of the truth in the logistic problems, and in twonorm",
}
TITLES = {
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
    "log_loss": "expected log loss",
    "excess": "excess over the entropy",
    "slope": "calibration slope",
    "auc_loss": "loss of AUC",
    "train_auc": "training AUC",
    "spike": "spike",
}
"""Titles of the columns."""
PER_PROBLEM = (MEAN, CHOSEN, OUT_OF_BAG, POOL, BOTH, ORACLE)


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    frame = table(found)
    groups = _groups(frame)
    repetitions = frame.groupby(["problem", "size"])["repetition"].nunique().to_numpy()
    few, many = int(repetitions.min()), int(repetitions.max())
    return filled(
        TEMPLATE,
        n_logistic=len(LOGISTIC),
        n_repetitions=few if few == many else f"{few} to {many}",
        estimates="\n".join(
            f"* *{name}*: {meaning}." if meaning else f"* *{name}*." for name, meaning in MEANINGS.items()
        ),
        first_shown=SHOWN_BESIDE[0],
        second_shown=SHOWN_BESIDE[1],
        tables="\n\n".join(_of_group(title, rows) for title, rows in groups.items()),
        problems="\n".join(_of_problems(frame)),
        **_numbers(groups),
    )


def _numbers(groups: dict[str, pd.DataFrame]) -> dict[str, str]:
    """What helps and what does not; the page's test holds its words to these numbers."""
    small, large = (groups[f"Logistic problems, n = {size}"] for size in (200, 4000))
    other = [groups[f"Problems of `benchmarks.problems`, n = {size}"] for size in (200, 4000)]

    def both(first: str, second: str = MEAN, measure: str = "mae") -> str:
        return " and ".join(duel(rows, first, second, measure) for rows in (small, large))

    def typical(measure: str, name: str = MEAN) -> str:
        return " and ".join(f"{by_problem(rows, measure)[name].median():.2f}" for rows in (small, large))

    def elsewhere(name: str) -> str:
        return " and ".join(duel(rows, name, MEAN) for rows in other)

    return {
        "train_auc": typical("train_auc"),
        "slope": typical("slope"),
        "spike": typical("spike"),
        "chosen": both(CHOSEN),
        "pool": both(POOL),
        "both": both(BOTH),
        "both_against_chosen": both(BOTH, CHOSEN),
        "spike_pool": typical("spike", POOL),
        "spike_both": typical("spike", BOTH),
        "plausibility": both("plausibility"),
        "laplace": both("laplace"),
        "m_estimate": both("m-estimate"),
        "spike_out_of_bag": typical("spike", OUT_OF_BAG),
        "out_of_bag": both(OUT_OF_BAG),
        "calibrated": both(CALIBRATED),
        "calibrated_excess": both(CALIBRATED, measure="excess"),
        "pooling": both("pooling"),
        "slope_elsewhere": " and ".join(f"{by_problem(rows, 'slope')[MEAN].median():.1f}" for rows in other),
        "large_elsewhere": elsewhere("mean, leaves of 20"),
        "calibrated_elsewhere": elsewhere(CALIBRATED),
        "pool_elsewhere": elsewhere(POOL),
        "oracle": both(ORACLE, BOTH),
    }


def _of_group(title: str, rows: pd.DataFrame) -> str:
    """The section of problems of a kind and size."""
    lines = [
        f"## {title}",
        "",
        f"Medians over {rows['problem'].nunique()} problems, of means over repetitions. *Nearer:farther*: problems "
        "where the mean absolute",
        f"error is smaller and larger than that of *{MEAN}*; **bold** where a signed-rank test tells the two apart",
        "(p < .05, not corrected for the number of comparisons).",
        "",
        *_of_methods(rows),
    ]
    return "\n".join(lines)


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (problem, size, repetition, method)."""
    logistic = {one.name for one in LOGISTIC}
    rows = [
        {
            "problem": cell.data,
            "size": cell.size,
            "repetition": cell.repetition,
            "logistic": cell.data in logistic,
            "true_auc": record["true_auc"],
            "method": name,
            **own,
        }
        for cell, record in found.items()
        for name, own in record["methods"].items()
    ]
    return pd.DataFrame(rows)


def by_problem(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """``[problems methods]``, means over repetitions."""
    return frame.pivot_table(index="problem", columns="method", values=measure, aggfunc="mean")


def compared(frame: pd.DataFrame, first: str, second: str, measure: str) -> tuple[int, int, float, float]:
    """Problems where the first is nearer to the truth and farther, its median gain in per cent, and the p-value."""
    means = by_problem(frame, measure)[[first, second]].dropna()
    a, b = means.to_numpy().T
    test = many_sets.pairwise_wilcoxon(means.to_numpy(), larger_is_better=False)
    return int((a < b).sum()), int((a > b).sum()), float(np.median(100 * (1 - a / b))), float(test.p_values[0, 1])


def duel(frame: pd.DataFrame, first: str, second: str, measure: str = "mae", *, gain: bool = True) -> str:
    """How the first did against the second."""
    won, lost, by, p = compared(frame, first, second, measure)
    text = f"{won}:{lost}" + f" ({by:+.0f} %)" * gain
    return f"**{text}**" if p < 0.05 else text


def _groups(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The problems, by kind and size."""
    kinds = (("Logistic problems", True), ("Problems of `benchmarks.problems`", False))
    cut: dict[str, pd.DataFrame] = {
        f"{title}, n = {size}": frame.loc[(frame["logistic"] == kind) & (frame["size"] == size)]
        for title, kind in kinds
        for size in sorted(frame["size"].unique())
    }
    return {title: rows for title, rows in cut.items() if len(rows)}


def _of_methods(rows: pd.DataFrame) -> list[str]:
    """A line for each method."""
    medians = {measure: by_problem(rows, measure).median() for measure in TITLES}
    head = ["", "nearer:farther", *TITLES.values()]
    body = []
    for name in MEANINGS:
        against = duel(rows, name, MEAN, gain=False) if name != MEAN else ""
        n, n_all = (len(set(some["problem"])) for some in (rows.loc[rows["method"] == name], rows))
        few = f" ({n} problems)" if n < n_all else ""
        body.append(
            [
                name + few,
                against,
                *(f"{medians[m][name]:{'.2f' if m in ('slope', 'spike') else '.4f'}}" for m in TITLES),
            ]
        )
    return _as_table(head, body)


def _of_problems(frame: pd.DataFrame) -> list[str]:
    """A line for each problem and size."""
    head = ["problem", "n", "repetitions", "true AUC", "training AUC", *PER_PROBLEM]
    body = []
    for _, rows in frame.groupby(["problem", "size"], sort=False):
        problem, size = rows["problem"].iloc[0], rows["size"].iloc[0]
        values = rows.pivot_table(index="repetition", columns="method", values="mae")
        n, auc = len(values), rows["true_auc"].mean()
        training = rows.loc[rows["method"] == MEAN, "train_auc"].mean()
        spread = values.std() / np.sqrt(n) if n > 1 else None
        shown = [f"{values[m].mean():.3f}" + (f" ± {spread[m]:.3f}" if spread is not None else "") for m in PER_PROBLEM]
        body.append([str(problem), str(size), str(n), f"{auc:.3f}", f"{training:.3f}", *shown])
    return _as_table(head, body)


def _as_table(head: list[str], body: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body)]


def draw(points: dict, path: Path) -> None:
    """Estimate against truth, for two methods, at test and at training instances."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    with mpl.rc_context({"svg.hashsalt": "jaxunc", "font.size": 9, "svg.fonttype": "none"}):
        figure, axes = plt.subplots(1, 2, figsize=(7, 3.4), sharey=True, layout="constrained")
        training, test = points["training"], points["test"]
        for ax, name in zip(axes, SHOWN_BESIDE, strict=True):
            ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
            ax.scatter(test["truth"], test[name], s=9, color="0.55", label="test")
            for event, colour in ((0, "tab:blue"), (1, "tab:orange")):
                own = np.asarray(training["event"]) == event
                label = f"training, {'event' if event else 'no event'}"
                ax.scatter(*(np.asarray(training[k])[own] for k in ("truth", name)), s=9, color=colour, label=label)
            ax.set(title=name, xlabel="true probability", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        axes[0].set_ylabel("estimate")
        axes[1].legend(loc="lower right", fontsize=7)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
