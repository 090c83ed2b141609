"""Command ``jaxunc compare``: compare rules on a table."""

import argparse

from rich.console import Console

from jaxunc.commands import integer, printed

from ._data import breast_cancer, read_table
from ._given_model import read_given_model
from ._page import write_page
from ._run import run as run_study
from ._settings import Settings
from ._store import Results
from ._table import show

DETAILS = (
    "Compare rules that turn the leaf counts of a forest into answers, on your data: random forests and extremely "
    "randomised trees of several leaf sizes under repeated cross-validation, every rule on the same leaves. With "
    "--model: a model of yours, beside rules that read the rows of DATA counted in its leaves."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("data", nargs="?", metavar="DATA", help="CSV or Parquet file (default: breast-cancer data of scikit-learn)")
    add("--target", metavar="COLUMN", help="the column of DATA that holds the classes")
    add(
        "--model",
        metavar="FILE",
        help="a fitted model, in a file of XGBoost, LightGBM, CatBoost, treelite, ONNX or jaxunc: none is grown, its "
        "trees are counted anew on DATA's training parts. DATA should hold rows that it was not fitted to",
    )
    add(
        "--forests",
        nargs="+",
        metavar="KIND",
        help="random-forest, extra-trees, single-tree, random-trees (default: the first two)",
    )
    add("--rules", nargs="+", metavar="RULE", help="rules to compare, by the names in the tables (default: all)")
    add(
        "--leaf-sizes",
        nargs="+",
        type=integer,
        metavar="N",
        help="least numbers of instances in a leaf (default: 1 2 4 8 32)",
    )
    add("--trees", type=integer, metavar="N", help="trees in a forest (default: 100)")
    add("--repeats", type=integer, metavar="N", help="repetitions of the cross-validation (default: 2)")
    add("--folds", type=integer, metavar="N", help="folds of the cross-validation (default: 5)")
    add(
        "--counts",
        metavar="WHOSE",
        help="whose counts the leaves hold: inbag, train, oob, held_out (default: inbag, as in scikit-learn)",
    )
    add("--seed", type=integer, metavar="N", help="seed of folds and forests (default: 0)")
    add(
        "--report",
        metavar="FOLDER",
        help="keep results in FOLDER as they finish (an interrupted run goes on there), and write results.json and the "
        "page report.html",
    )
    add("--quiet", action="store_true", help="show no progress")


def interrupted(args: argparse.Namespace) -> str:
    """Say what is left of a run that was interrupted."""
    return "the same command goes on from here" if args.report else "nothing was written; --report FOLDER keeps results"


def run(args: argparse.Namespace) -> None:
    """Run the comparison and show it; raises a ValueError or an OSError for what is at fault."""
    chosen = {
        "forests": args.forests,
        "rules": args.rules,
        "leaf_sizes": args.leaf_sizes,
        "n_trees": args.trees,
        "n_repeats": args.repeats,
        "n_folds": args.folds,
        "counts": args.counts,
        "seed": args.seed,
    }
    if args.report == "":
        raise ValueError("--report='' names no folder.")
    if args.model is not None:
        _run_on_model(args)
        return
    if args.trees is not None and args.forests and set(args.forests) == {"single-tree"}:
        raise ValueError("--trees would change nothing with --forests single-tree. Leave it out.")
    settings = Settings(**{name: value for name, value in chosen.items() if value is not None})
    if args.data is None and args.target is not None:
        raise ValueError(
            f"--target={args.target!r} was given without DATA; name the file before it: DATA.csv --target …"
        )
    table = breast_cancer() if args.data is None else read_table(args.data, args.target)
    _show(run_study(table, settings, args.report, quiet=args.quiet), args.report)


def _run_on_model(args: argparse.Namespace) -> None:
    """Compare rules on a model that came fitted."""
    if args.data is None:
        raise ValueError("--model needs DATA: a table of rows that the model was not fitted to, with their classes.")
    ignored = {
        "--forests": args.forests,
        "--leaf-sizes": args.leaf_sizes,
        "--trees": args.trees,
        "--counts": args.counts,
    }
    if given := ", ".join(name for name, value in ignored.items() if value is not None):
        raise ValueError(f"{given} would change nothing with --model, whose trees are there. Leave it out.")
    chosen = {"rules": args.rules, "n_repeats": args.repeats, "n_folds": args.folds, "seed": args.seed}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    table, model = read_given_model(args.model, args.data, args.target)
    settings = Settings.for_model(model.trees.n_trees, **chosen)
    _show(run_study(table, settings, args.report, quiet=args.quiet, given=model), args.report)


def _show(results: Results, folder: str | None) -> None:
    """Show results, and write the page."""
    console = Console(highlight=False)
    show(console, results)
    if folder is not None:
        console.print(printed(f"\nThe page: {write_page(folder, results)}"), soft_wrap=True, markup=False)
