"""Tables of a study for a terminal."""

from collections.abc import Callable
from typing import Any, cast

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from jaxunc._checks import shown

from ._compared_rules import RULES
from ._evaluate import METRICS
from ._polling import CONFIDENCE
from ._settings import Settings
from ._store import Results
from ._summary import (
    DECIMALS,
    POLL_TITLES,
    SET_TITLES,
    TABLE_STRENGTHS,
    TITLES,
    averages,
    best_leaf_sizes,
    forest_name,
    frame,
    has_sets,
    poll_averages,
    set_averages,
    shown_leaf_sizes,
    table_of_ranks,
)
from ._words import count, data_line, data_notes, model_line, run_line

_WIDEST = 100


def show(console: Console, results: Results) -> None:
    """Print what was run on what, the averages and the ranks, with the best of each column marked."""
    say, records, settings = _speaker(console), frame(results), results.settings
    say(data_line(results), style="bold")
    if (line := model_line(results)) is not None:
        say(line.replace("`", ""))
    for note in data_notes(results):
        say(note)
    tables = [_averages_table(console, settings, records), _ranks_table(settings, records)]
    tables += [_sets_table(results, records), _polling_table(results)] if has_sets(results) else []
    for part in tables:
        console.print()
        console.print(part)
    console.print()
    for line in (run_line(results), *_terms(settings, len(results.about["data"]["classes"]))):
        say(line, style="dim")


def _speaker(console: Console) -> Callable[..., None]:
    """Return a function that prints a line of text, wrapped at a readable width."""
    width = min(console.width, _WIDEST)

    def say(line: str, style: str = "") -> None:
        console.print(Text(shown(line), style=style), width=width)

    return say


def _averages_table(console: Console, settings: Settings, records: Any) -> RichTable:
    up, down, spread = ("^", "v", "+-") if console.options.ascii_only else ("↑", "↓", "±")
    mean, leaves = averages(records), best_leaf_sizes(records)
    several = len(settings.leaf_sizes) > 1
    grid = _grid(f"{'Mean over leaf sizes' if several else 'Mean'} {spread} standard deviation over folds")
    for name, larger in METRICS.items():
        grid.add_column(f"{TITLES[name]} {up if larger else down}", justify="right", no_wrap=True)
    if several:
        grid.add_column("leaf", justify="right", no_wrap=True)
    for forest in settings.forests:
        grid.add_row(Text(forest, style="bold"))
        of_forest = mean.loc[forest]
        for rule in of_forest.index:
            cells = []
            for name, larger in METRICS.items():
                value = _fixed(of_forest.at[rule, (name, "mean")], 6)
                deviation = of_forest.at[rule, (name, "std")]
                deviation = f"{deviation:.3f}"[1:] if deviation < 0.9995 else _fixed(deviation, 4)
                best = _is_best(of_forest[(name, "mean")], rule, larger)
                cells.append(_marked(f"{value} {spread}{deviation}", best))
            grid.add_row(f" {rule}", *cells, *([str(leaves[forest, rule])] if several else []))
        grid.add_section()
    return grid


def _ranks_table(settings: Settings, records: Any) -> RichTable:
    ranks = table_of_ranks(records)
    over = count(settings.n_forests, "test part" if settings.is_given else "forest")
    grid = _grid(f"Average rank of the rules over {over}, 1 is best")
    for name in (*METRICS, "all"):
        grid.add_column(TITLES.get(name, name), justify="right", no_wrap=True)
    grid.add_column("the rule", style="dim", no_wrap=True)
    for rule in ranks.index:
        cells = [
            _marked(f"{ranks.at[rule, name]:.1f}", _is_best(cast(pd.Series, ranks[name]), rule, False))
            for name in (*METRICS, "all")
        ]
        grid.add_row(str(rule), *cells, RULES[str(rule)].meaning)
    return grid


def _sets_table(results: Results, records: Any) -> RichTable:
    grid = _grid("Sets of classes from cautious forests that doubt leaves by s instances")
    for name in ("s", *SET_TITLES.values()):
        grid.add_column(name, justify="right", no_wrap=True)
    mean = set_averages(results, records)
    for forest, leaf_size in shown_leaf_sizes(results, records).items():
        grid.add_row(Text(forest_name(forest, leaf_size), style="bold"))
        for s in TABLE_STRENGTHS:
            grid.add_row("", str(s), *("-" if v != v else f"{v:.3f}" for v in mean.loc[(forest, s)]))
    return grid


def _polling_table(results: Results) -> RichTable:
    grid = _grid(f"A majority vote that stops when it is settled (confidence {CONFIDENCE})")
    for name in ("leaf", *POLL_TITLES.values()):
        grid.add_column(name, justify="right", no_wrap=True)
    for (forest, leaf_size), row in poll_averages(results).iterrows():
        cells = [f"{row[name]:.1f}" if name == "n_polled" else f"{row[name]:.3f}" for name in POLL_TITLES]
        grid.add_row(str(forest), str(leaf_size) if leaf_size else "", *cells)
    return grid


def _grid(title: str) -> RichTable:
    grid = RichTable(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,
        header_style="",
    )
    grid.add_column("", no_wrap=True)
    return grid


def _is_best(column: pd.Series, rule, larger: bool) -> bool:
    values = column.round(DECIMALS)
    return bool(values[rule] == (values.max() if larger else values.min()))


def _fixed(number: float, width: int) -> str:
    """Format a number in a width that holds its integer part, with as many decimals as fit."""
    decimals = max(width - 1 - len(f"{number:.0f}"), 0)
    return f"{number:.{decimals}f}"


def _marked(value: str, is_best: bool) -> Text:
    """Mark the best of a column as bold and with a star, for readers without colours."""
    return Text(f"*{value}", style="bold green") if is_best else Text(value)


def _terms(settings: Settings, n_classes: int) -> list[str]:
    terms = ["* best of its column."]
    terms += ["leaf: the leaf size with the least Brier score."] if len(settings.leaf_sizes) > 1 else []
    terms += ["AUC: one class against the rest, averaged."] if n_classes > 2 else []
    return [
        "Folds share most of their training data: the spread is no confidence interval, and differences well within "
        "it may be chance.",
        " ".join(terms),
    ]
