"""A study from beginning to end, with its progress on standard error."""

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ._data import Table
from ._given_model import GivenModel
from ._settings import Settings, check_folds
from ._store import Results, Store, describe
from ._study import study
from ._summary import forest_name


def run(
    table: Table,
    settings: Settings,
    folder: str | Path | None = None,
    *,
    quiet: bool = False,
    given: GivenModel | None = None,
) -> Results:
    """Run a `study`, with a progress bar meanwhile if a person watches.

    Parameters
    ----------
    table
        The data.
    settings
        Settings of the study.
    folder
        Where results are kept as they finish, so that an interrupted run goes on where it stopped; and where
        ``results.json`` lies in the end. Without a folder nothing is written.
    quiet
        Show no progress. Nor is any shown where standard error is no terminal.
    given
        The model, in a study of one that came fitted.

    Returns
    -------
    Results
        What was run on what, and an outcome for each forest.

    Raises
    ------
    ValueError
        As `study` and `Store` do.
    """
    # What can be refused is refused before a folder is made.
    if settings.is_given != (given is not None):
        raise ValueError(f"--forests={settings.forests[0]!r} is for a model that comes fitted, and for that alone.")
    check_folds(table, settings.n_folds)
    settings.rules_for(len(table.class_labels))
    store = None if folder is None else Store(folder, table, settings, given)
    outcomes = {} if store is None else store.outcomes
    console = Console(stderr=True)
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("forests"), TimeRemainingColumn(compact=True))
    hidden = quiet or not console.is_terminal
    with Progress(*columns, TextColumn("{task.description}"), console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("compiling", total=settings.n_forests, completed=len(outcomes))
        for cell, outcome in study(table, settings, tuple(outcomes), given):
            if store is None:
                outcomes[cell] = outcome
            else:
                store.add(cell, outcome)
            bar.update(task, advance=1, description=forest_name(cell.forest, cell.leaf_size))
    return Results(describe(table, settings, given), outcomes) if store is None else store.finish()
