"""The command ``jaxunc compare``: its arguments, the run, and the sentences and tables that it prints."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from jaxunc._checks import escape_invisible
from jaxunc.commands import add_marks, integer, printed
from jaxunc.decisions import cost_matrix
from jaxunc.streaming import Notation, wished_notation

from ._decision import decision, further
from ._models import RefittedModel, read_given_model, read_refitted_model
from ._page import write_page
from ._sentences import data_line, data_notes, model_line, run_line
from ._settings import COMPARED_LAWS, Settings
from ._store import Results
from ._study import run as run_study
from ._table import Table, breast_cancer, positive_class, study_table
from ._verdict import BASE_RATES, Verdict, arrow, shown_value, title, verdict

DETAILS = (
    "Compare combiners, which turn leaf counts of a forest into answers, on your data: random forests and extremely "
    "randomised trees of several leaf sizes under repeated cross-validation, every combiner on the same leaves. The "
    "first line says which one to use. For a target that is a number: laws, which say how sure a forest is of it. With "
    "--model: a model of yours, beside combiners that read its leaves."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``jaxunc compare`` to its parser."""
    add = parser.add_argument
    add("data", nargs="?", metavar="DATA", help="CSV or Parquet file (default: breast-cancer data of scikit-learn)")
    add("--target", metavar="COLUMN", help="the column of DATA that holds the classes, or a number")
    add("--drop", nargs="+", default=[], metavar="COLUMN", help="columns of DATA that are left out, such as ids")
    add_marks(parser)
    add("--positive", metavar="CLASS", help="of two classes the one to be found (default: the rarer)")
    add(
        "--costs",
        metavar="COSTS",
        help="what errors cost, truth:decision=cost, as in yes:no=5,no:yes=1 (others cost 1), JSON, or a file of CSV "
        "(truths by decisions) or JSON",
    )
    add(
        "--model",
        metavar="FILE",
        help="a fitted model, in a file of XGBoost, LightGBM, CatBoost, treelite, ONNX or jaxunc: none is grown, its "
        "trees are counted anew on DATA's training parts. DATA should hold rows that it was not fitted to. With "
        "--trust: a pickled forest of scikit-learn, or a pipeline that ends in one, fitted anew to each training part",
    )
    add("--trust", action="store_true", help="open the pickle of --model, which runs whatever code it holds")
    kinds = "random-forest, extra-trees, single-tree, random-trees (default: the first two)"
    add("--forests", nargs="+", metavar="KIND", help=kinds)
    combiners = "take the target for classes; combiners to compare, by the names in the tables (default: all)"
    add("--combiners", nargs="*", metavar="NAME", help=combiners)
    laws = f"take the target for a number; laws to compare, of {', '.join(COMPARED_LAWS)} (default: all but neighbours)"
    add("--laws", nargs="*", metavar="NAME", help=laws)
    sizes = "least numbers of instances in a leaf (default: 1 4 16)"
    add("--leaf-sizes", nargs="+", type=integer, metavar="N", help=sizes)
    add("--trees", type=integer, metavar="N", help="trees in a forest (default: 100)")
    add("--repeats", type=integer, metavar="N", help="repetitions of the cross-validation (default: 2)")
    add("--folds", type=integer, metavar="N", help="folds of the cross-validation (default: 5)")
    counts = "whose counts the leaves hold: inbag, train, oob, held_out (default: inbag, as in scikit-learn)"
    add("--counts", metavar="WHOSE", help=counts)
    add("--seed", type=integer, metavar="N", help="seed of folds and forests (default: 0)")
    add(
        "--report",
        metavar="FOLDER",
        help="keep results in FOLDER as they finish (an interrupted run goes on there), and write results.json and the "
        "page report.html",
    )
    add("--quiet", action="store_true", help="show no progress")


def interrupted(args: argparse.Namespace) -> str:
    """Return what to tell a user who interrupted the run: whether results were kept."""
    return "the same command goes on from here" if args.report else "nothing was written; --report FOLDER keeps results"


def run(args: argparse.Namespace) -> None:
    """Run the comparison that the arguments ask for, and print its results.

    Raises a ValueError for wrong arguments or data, and an OSError if a file cannot be read or written.
    """
    if args.report == "":
        raise ValueError("--report='' names no folder.")
    if args.model is not None:
        _run_on_model(args)
    else:
        _run_on_forests(args)


def _run_on_forests(args: argparse.Namespace) -> None:
    """Compare combiners or laws on forests grown on DATA, or on the shipped data, and print the results.

    Raises a ValueError for options that contradict each other or the data, or that would change nothing.
    """
    if args.trust:
        raise ValueError("--trust changes nothing without --model FILE, a pickle; leave it out.")
    if args.trees is not None and args.forests and set(args.forests) == {"single-tree"}:
        raise ValueError("--trees would change nothing with --forests single-tree. Leave it out.")
    if args.laws is not None and (args.combiners is not None or args.data is None):
        conflict = "--combiners is for classes" if args.data is not None else "the shipped data have classes"
        raise ValueError(f"--laws is for a target that is a number, and {conflict}; leave one of them out.")
    numbers = None  # whether the target is a number; None: its column decides
    if args.laws is not None:
        numbers = True
    elif args.combiners is not None:
        numbers = False
    chosen_values = _collect_options(args, forests="forests", leaf_sizes="leaf_sizes", n_trees="trees", counts="counts")
    settings = Settings(**chosen_values, numbers=bool(numbers))
    if args.data is None:
        _refuse_options_of_data(args)
        table = breast_cancer()
    else:
        table = study_table(args.data, args.target, args.drop, numbers, _notation(args))
    if not table.class_labels and args.counts == "inbag":
        raise ValueError("--counts='inbag' is for classes: laws of numbers are fitted out of bag. Leave it out.")
    if table.class_labels:
        settings = _add_class_and_costs(settings, table, args)
    else:  # settings of numbers refuse a positive class and costs
        settings = replace(settings, numbers=True, positive=args.positive, costs=args.costs)
    if table.taken:  # before minutes are spent on it
        print(escape_invisible(f"jaxunc: {table.taken}."), file=sys.stderr)
    _show(run_study(table, settings, args.report, quiet=args.quiet), args.report)


def _refuse_options_of_data(args: argparse.Namespace) -> None:
    """Raise a ValueError if an option is set that is about the file DATA, for a command line without DATA."""
    if args.target is not None:
        option = f"--target={args.target!r}"
    elif args.drop:
        option = "--drop"
    elif args.decimal or args.thousands:
        option = "--decimal or --thousands"
    else:
        return
    raise ValueError(f"{option} was given without DATA; name the file before it: DATA.csv --target …")


def _run_on_model(args: argparse.Namespace) -> None:
    """Compare combiners on the leaves of the model in the file ``--model``, and print the results.

    With ``--trust`` the model is fitted anew to each training part, else it stays as fitted. Raises a ValueError if
    DATA is missing or unsuitable, or an option does not go with ``--model``.
    """
    _check_options_of_model(args)
    if args.trust:
        table, model = _read_pickled_model(args)
    else:
        table, model = read_given_model(args.model, args.data, args.target, _notation(args))
    settings = Settings.for_model(model.about["n_trees"], refitted=args.trust, **_collect_options(args))
    settings = _add_class_and_costs(settings, table, args)
    _show(run_study(table, settings, args.report, quiet=args.quiet, given=model), args.report)


def _check_options_of_model(args: argparse.Namespace) -> None:
    """Raise a ValueError if DATA is missing beside ``--model``, an option is useless, or a pickle is not trusted."""
    if args.data is None:
        raise ValueError("--model needs DATA: a table of rows that the model was not fitted to, with their classes.")
    useless = [name for name in ("forests", "leaf_sizes", "trees", "counts", "laws") if getattr(args, name) is not None]
    if useless:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in useless)
        raise ValueError(f"{flags} would change nothing with --model, whose trees are there. Leave it out.")
    if args.trust:
        return
    if args.drop:
        raise ValueError(
            "--drop would change nothing with --model, which reads the columns that it knows. Leave it out."
        )
    if Path(args.model).suffix in (".joblib", ".pkl", ".pickle"):
        raise ValueError(
            f"--model={args.model!r} is a pickle, and opening one runs whatever code it holds. If you made it "
            "yourself, add --trust: it is fitted anew to each training part."
        )


def _read_pickled_model(args: argparse.Namespace) -> tuple[Table, RefittedModel]:
    """Return the table of DATA, and the pickled model of ``--model``, which a study fits anew to each training part."""
    table = study_table(args.data, args.target, args.drop, numbers=False, notation=_notation(args))
    model = read_refitted_model(args.model, table)
    if model.steps is None:
        return table, model
    # The steps read columns as the file has them, so only the note on rows without a target holds.
    notes_on_rows = tuple(note for note in table.notes if " rows have no " in note)
    return table._replace(notes=notes_on_rows), model


def _notation(args: argparse.Namespace) -> Notation:
    return wished_notation(args.decimal, args.thousands)


def _add_class_and_costs(settings: Settings, table: Table, args: argparse.Namespace) -> Settings:
    """Return the settings with the positive class and the costs that ``args`` name.

    Raises a ValueError if these do not fit the table's classes.
    """
    costs = None if args.costs is None else np.asarray(cost_matrix(args.costs, table.class_labels)).tolist()
    return replace(settings, positive=positive_class(table, args.positive), costs=costs)


def _collect_options(args: argparse.Namespace, **more: str) -> dict[str, Any]:
    """Return {field of `Settings`: value} of the options that are set in ``args``.

    They are those that every study has, and those in ``more``, {field: option}.
    """
    names_option = "combiners" if getattr(args, "laws", None) is None else "laws"
    options = {"combiners": names_option, "n_repeats": "repeats", "n_folds": "folds", "seed": "seed", **more}
    return {field: value for field, option in options.items() if (value := getattr(args, option)) is not None}


def _show(results: Results, folder: str | None) -> None:
    """Print the results on standard output, and unless ``folder`` is None write their page into it."""
    console = Console(highlight=False)
    show(console, results)
    if folder is not None:
        console.print(printed(f"\nThe page: {write_page(folder, results)}"), soft_wrap=True, markup=False)


_WIDEST = 100  # largest width of printed sentences, in characters: longer lines are hard to read


def show(console: Console, results: Results) -> None:
    """Print results on a console: what to use, notes on the data, a row for each combiner, how the study was run."""
    say = _speaker(console)
    judgement = verdict(results, results.records())
    say(decision(results, judgement).replace("`", ""), style="bold")
    for sentence in further(results, judgement):
        say(sentence.replace("`", ""))
    say(data_line(results))
    if (line := model_line(results)) is not None:
        say(line.replace("`", ""))
    for note in data_notes(results):
        say(note)
    console.print()
    console.print(_table(console, judgement))
    console.print()
    say(run_line(results), style="dim")
    say(_terms(console, judgement, len(results.about["data"]["classes"])), style="dim")


def _speaker(console: Console) -> Callable[..., None]:
    """Return the function ``say(line, style)``, which prints a text in a style of rich, wrapped at `_WIDEST`."""
    width = min(console.width, _WIDEST)

    def say(line: str, style: str = "") -> None:
        console.print(Text(escape_invisible(line), style=style), width=width)

    return say


def _table(console: Console, verdict: Verdict) -> RichTable:
    """Return a table with a row for each combiner or law, the least main loss first, and a column for each measure.

    A mark behind a value says that tests tell it from the default's value.
    """
    up, down = "^v" if console.options.ascii_only else "↑↓"
    marks = _marks(console)
    grid = RichTable(box=box.SIMPLE_HEAD, show_edge=False, padding=0, header_style="")
    grid.add_column("", no_wrap=True)
    measures = [measure for measure in verdict.larger if not measure.startswith("top_")]
    for measure in measures:
        header = f"{title(measure)}{arrow(verdict, measure, up, down)}"
        # Laws have more columns, with longer titles, which are broken into two lines.
        header = header.replace(" ", "\n", 1) if verdict.noun == "law" else header
        grid.add_column(header, justify="right", vertical="bottom", no_wrap=True)
    for name in verdict.means.sort_values(verdict.main, kind="stable").index:
        cells = []
        for measure in measures:
            sign = 0 if name == BASE_RATES else verdict.differs(measure, name, verdict.base)
            value = shown_value(measure, verdict.means.at[name, measure])
            cells.append(Text(f" {value} {marks[sign]}", "bold green" if sign > 0 else ""))
        is_used = name == verdict.leader and not verdict.rejects_all
        title_cell = Text(f"*{name}", "bold") if is_used else Text(f" {name}")
        grid.add_row(title_cell, *cells)
    return grid


def _marks(console: Console) -> str:
    """Return three marks that the console can print, to be indexed by `Verdict.differs`: -1 is the last."""
    return " +-" if console.options.ascii_only else " ▲▼"


def _terms(console: Console, verdict: Verdict, n_classes: int) -> str:
    """Return the line below the table: what its means, marks and measures are; ``n_classes`` is 0 for numbers."""
    sentences = [f"Means over test parts, each {verdict.noun} on the forest that is best for it on the other parts."]
    if not verdict.rejects_all:
        sentences.append("* the one to use.")
    if verdict.base is not None:
        _, better, worse = _marks(console)
        sentences.append(f"{better} better, {worse} worse than {verdict.base}, as far as tests tell.")
    if n_classes > 2:
        sentences.append("AUC: one class against the rest, averaged.")
    if "cost" in verdict.larger:
        sentences.append("Costs are for 100 rows.")
    if verdict.noun == "law":
        sentences.append("Of 90% intervals; worst fifth: of rows by how widely their leaves are spread.")
    return " ".join(sentences)
