"""How far a study has come, on standard error."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ._compare import Record, Settings, study
from ._data import Table


def run(table: Table, settings: Settings, *, quiet: bool = False) -> list[Record]:
    """All records of a `study`, with a progress bar meanwhile if a person watches.

    Parameters
    ----------
    table
        The data.
    settings
        What to run.
    quiet
        Show no progress. Nor is any shown where standard error is no terminal.

    Raises
    ------
    ValueError
        As `study` does.
    """
    console = Console(stderr=True)
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("forests"), TimeRemainingColumn(compact=True))
    hidden = quiet or not console.is_terminal
    with Progress(*columns, TextColumn("{task.description}"), console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("compiling", total=settings.n_forests)
        records = []
        for found in study(table, settings):
            records += found
            bar.update(task, advance=1, description=f"{found[0].forest}, leaf size {found[0].leaf_size}")
    return records
