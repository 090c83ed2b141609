"""The page of the study of true probabilities: tables and a picture, made of its cells."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from benchmarks import many_sets
from benchmarks.pages import bold, fill, save
from benchmarks.pages import table as text_table
from benchmarks.studies.true_probabilities.methods import LOGISTIC

TEMPLATE = Path(__file__).with_name("page.md")
NAMED = {
    "mean": "mean, leaves of 1", "chosen": "mean, leaf size chosen", "out_of_bag": "mean, out-of-bag counts",
    "pool": "learned pool", "both": "learned pool, leaf size chosen", "oracle": "logistic regression",
    "calibrated": "calibrated mean",
}  # fmt: skip
"""Short names, for the template; but for the last the columns of the table by problem."""
PER_PROBLEM = tuple(NAMED.values())[:-1]
SHOWN_BESIDE = MEAN, _ = NAMED["mean"], NAMED["pool"]
DECIMALS = dict.fromkeys(("mae", "rmse", "log_loss", "excess", "slope", "auc_loss", "train_auc", "spike"), 4)
DECIMALS |= {"slope": 2, "spike": 2}
"""The measures of the tables."""


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    frame = table(found)
    groups = _groups(frame)
    repetitions = frame.groupby(["problem", "size"])["repetition"].nunique().to_numpy()
    few, many = int(repetitions.min()), int(repetitions.max())
    return fill(
        TEMPLATE,
        n_logistic=len(LOGISTIC),
        n_repetitions=few if few == many else f"{few} to {many}",
        first_shown=SHOWN_BESIDE[0],
        second_shown=SHOWN_BESIDE[1],
        tables="\n\n".join(
            fill(TEMPLATE, "group", title=title, n=rows["problem"].nunique(), **_of_methods(rows))
            for title, rows in groups.items()
        ),
        problems=_of_problems(frame),
        **_slots(groups),
    )


def _slots(groups: dict[str, pd.DataFrame]) -> dict:
    """What helps and what does not; the page's test holds its words to these numbers."""
    small, large = (groups[f"Logistic problems, n = {size}"] for size in (200, 4000))
    other = [groups[f"Problems of `benchmarks.problems`, n = {size}"] for size in (200, 4000)]
    named = lambda name: NAMED.get(name, name)

    def both(first: str, second: str = MEAN, measure: str = "mae") -> str:
        return " and ".join(duel(rows, named(first), named(second), measure) for rows in (small, large))

    def typical(measure: str, name: str = MEAN) -> str:
        return " and ".join(f"{by_problem(rows, measure)[named(name)].median():.2f}" for rows in (small, large))

    return {
        "both": both,
        "typical": typical,
        "elsewhere": lambda name: " and ".join(duel(rows, named(name), MEAN) for rows in other),
        "slope_elsewhere": " and ".join(f"{by_problem(rows, 'slope')[MEAN].median():.1f}" for rows in other),
    }


def table(found: Mapping[Any, dict]) -> pd.DataFrame:
    """A row per (problem, size, repetition, method)."""
    logistic = {one.name for one in LOGISTIC}
    rows = [
        {"problem": cell.data, "size": cell.size, "repetition": cell.repetition, "logistic": cell.data in logistic}
        | {"method": name, "true_auc": record["true_auc"], **own}
        for cell, record in found.items()
        for name, own in record["methods"].items()
    ]
    return pd.DataFrame(rows)


def by_problem(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """``[problems methods]``, means over repetitions."""
    return frame.pivot_table(index="problem", columns="method", values=measure, aggfunc="mean")


compared = partial(many_sets.duel, larger=False, relative=True, by="problem")
"""One estimate against another: problems where it is nearer to the truth and farther."""


def duel(frame: pd.DataFrame, first: str, second: str, measure: str = "mae", *, gain: bool = True) -> str:
    """How the first did against the second."""
    of = compared(frame, first, second, measure)
    return bold(f"{of.won}:{of.lost}" + f" ({100 * of.gain:+.0f} %)" * gain, of.p < 0.05)


def _groups(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The problems, by kind and size."""
    titles = {True: "Logistic problems", False: "Problems of `benchmarks.problems`"}
    return {
        f"{title}, n = {size}": rows
        for kind, title in titles.items()
        for size, rows in frame[frame["logistic"] == kind].groupby("size")
    }


def _of_methods(rows: pd.DataFrame) -> dict[str, Any]:
    """What is told of each method: that it is not of all problems, how it did against the mean, and its measures."""
    medians = {measure: by_problem(rows, measure).median() for measure in DECIMALS}
    count = lambda some: some["problem"].nunique()

    def few(name: str) -> str:
        n = count(rows[rows["method"] == name])
        return f" ({n} problems)" if n < count(rows) else ""

    def row(name: str) -> str:
        against = duel(rows, name, MEAN, gain=False) if name != MEAN else ""
        return " | ".join([against, *(f"{medians[m][name]:.{n}f}" for m, n in DECIMALS.items())])

    return {"few": few, "row": row}


def _of_problems(frame: pd.DataFrame) -> str:
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
    return text_table(head, body)


def draw(points: dict, path: Path) -> None:
    """Estimate against truth, for two methods, at test and at training instances."""
    with plt.rc_context({"font.size": 9, "svg.fonttype": "none"}):
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
        save(figure, path)
        plt.close(figure)
