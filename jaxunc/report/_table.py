"""Records → averages and ranks, and both as tables for a terminal."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ._compare import METRICS, Record, Settings
from ._data import Table
from ._rules import RULES, left_out

_FOREST = ["forest", "leaf_size", "repeat", "fold"]
_TITLES = {"accuracy": "accuracy", "auc": "AUC", "brier": "Brier", "log_loss": "log loss", "all": "all"}
# Differences below this are rounding, and count as ties.
_DECIMALS = 9
_WIDEST = 100


def _frame(records: Sequence[Record]) -> Any:
    # Any: the types that pandas declares lose track of grouped columns.
    return pd.DataFrame(records)


def averages(records: Sequence[Record]) -> pd.DataFrame:
    """Mean and standard deviation over test folds, for each forest and rule.

    The leaf sizes are averaged first, within each fold. Rows: (forest, rule); columns: (measure, "mean" | "std").
    """
    frame = _frame(records)
    per_fold = frame.groupby(["forest", "rule", "repeat", "fold"], sort=False)[list(METRICS)].mean()
    return per_fold.groupby(["forest", "rule"], sort=False).agg(["mean", "std"])


def best_leaf_sizes(records: Sequence[Record]) -> pd.Series:
    """The leaf size with the least mean Brier score (the smallest of equals), for each forest and rule."""
    frame = _frame(records)
    brier = frame.groupby(["forest", "rule", "leaf_size"], sort=False)["brier"].mean().round(_DECIMALS)
    return brier.unstack("leaf_size").sort_index(axis=1).idxmin(axis=1)


def average_ranks(records: Sequence[Record]) -> pd.DataFrame:
    """The mean rank of each rule by each measure over all forests grown; 1 is best, equals share their ranks.

    Rows: rules, best first; columns: the measures, and "all", their mean.
    """
    frame = _frame(records)
    forests = frame[list(METRICS)].round(_DECIMALS).groupby([frame[name] for name in _FOREST])
    ranks = {name: forests[name].rank(ascending=not larger) for name, larger in METRICS.items()}
    mean = frame.assign(**ranks).groupby("rule", sort=False)[list(METRICS)].mean()
    return mean.assign(all=mean.mean(axis=1)).sort_values("all", kind="stable")


def show(console: Console, table: Table, settings: Settings, records: Sequence[Record]) -> None:
    """Print what was run on what, the averages and the ranks, with the best of each column marked."""
    say = _speaker(console)
    sizes = np.bincount(table.y)
    classes = [f"{label} {size}" for label, size in zip(table.class_labels, sizes, strict=True)]
    more = f" and {len(classes) - 6} more" if len(classes) > 6 else ""
    say(
        f"{table.name}: {table.X.shape[0]} instances, {table.X.shape[1]} features, {len(classes)} classes "
        f"({', '.join(classes[:6])}{more})",
        style="bold",
    )
    omitted = left_out(len(table.class_labels))
    for note in (*table.notes, *([omitted] if omitted else [])):
        say(note)
    for part in (_averages_table(console, settings, records), _ranks_table(settings, records)):
        console.print()
        console.print(part)
    console.print()
    for line in _explanation(settings, len(classes)):
        say(line, style="dim")


def _speaker(console: Console) -> Callable[..., None]:
    """Prints a line of text, wrapped at a readable width."""
    width = min(console.width, _WIDEST)

    def say(line: str, style: str = "") -> None:
        console.print(Text(line, style=style), width=width)

    return say


def _averages_table(console: Console, settings: Settings, records: Sequence[Record]) -> RichTable:
    up, down, spread = ("^", "v", "+-") if console.options.ascii_only else ("↑", "↓", "±")
    mean, leaves = averages(records), best_leaf_sizes(records)
    several = len(settings.leaf_sizes) > 1
    grid = _grid(f"{'Mean over leaf sizes' if several else 'Mean'} {spread} standard deviation over folds")
    for name, larger in METRICS.items():
        grid.add_column(f"{_TITLES[name]} {up if larger else down}", justify="right", no_wrap=True)
    if several:
        grid.add_column("leaf", justify="right", no_wrap=True)
    for forest in settings.forests:
        grid.add_row(Text(forest, style="bold"))
        part = mean.loc[forest]
        for rule in part.index:
            cells = []
            for name, larger in METRICS.items():
                value = _fixed(part.at[rule, (name, "mean")], 6)
                deviation = part.at[rule, (name, "std")]
                deviation = f"{deviation:.3f}"[1:] if deviation < 0.9995 else _fixed(deviation, 4)
                best = _is_best(part[(name, "mean")], rule, larger)
                cells.append(_marked(f"{value} {spread}{deviation}", best))
            grid.add_row(f" {rule}", *cells, *([str(leaves[forest, rule])] if several else []))
        grid.add_section()
    return grid


def _ranks_table(settings: Settings, records: Sequence[Record]) -> RichTable:
    ranks = average_ranks(records)
    grid = _grid(f"Average rank of the rules over {_count(settings.n_forests, 'forest')}, 1 is best")
    for name in _TITLES:
        grid.add_column(_TITLES[name], justify="right", no_wrap=True)
    grid.add_column("the rule", style="dim", no_wrap=True)
    for rule in ranks.index:
        cells = [
            _marked(f"{ranks.at[rule, name]:.2f}", _is_best(cast(pd.Series, ranks[name]), rule, False))
            for name in _TITLES
        ]
        grid.add_row(str(rule), *cells, RULES[str(rule)].meaning)
    return grid


def _grid(title: str) -> RichTable:
    grid = RichTable(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        header_style="",
    )
    grid.add_column("", no_wrap=True)
    return grid


def _is_best(column: pd.Series, rule, larger: bool) -> bool:
    values = column.round(_DECIMALS)
    return bool(values[rule] == (values.max() if larger else values.min()))


def _fixed(number: float, width: int) -> str:
    """A number in a width that holds its integer part, with as many decimals as fit."""
    decimals = max(width - 1 - len(f"{number:.0f}"), 0)
    return f"{number:.{decimals}f}"


def _marked(value: str, is_best: bool) -> Text:
    """The best of a column is bold and has a star, for readers without colours."""
    return Text(f"*{value}", style="bold green") if is_best else Text(value)


def _explanation(settings: Settings, n_classes: int) -> list[str]:
    several = len(settings.leaf_sizes) > 1
    run = [
        " and ".join(settings.forests),
        f"leaf size{'s' * several} {', '.join(map(str, settings.leaf_sizes))}",
        f"{_count(settings.n_repeats, 'repetition')} of {settings.n_folds}-fold cross-validation",
        f"seed {settings.seed}",
    ]
    terms = ["* best of its column."]
    terms += ["leaf: the leaf size with the least Brier score."] if several else []
    terms += ["AUC: one class against the rest, averaged."] if n_classes > 2 else []
    return [
        f"Run: {_count(settings.n_forests, 'forest')} of {_count(settings.n_trees, 'tree')} ({'; '.join(run)}). "
        "All rules read the same leaves.",
        "Folds share most of their training data: the spread is no confidence interval, and differences well within "
        "it may be chance.",
        " ".join(terms),
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number > 1)}"
