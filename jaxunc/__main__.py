"""The command line: ``jaxunc compare``, or ``python -m jaxunc compare``."""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from jaxunc import __version__

_CLI_PACKAGES = {"jinja2", "matplotlib", "pandas", "pyarrow", "rich"}
_ABOUT = "What the leaf counts of a forest of decision trees can say."
_ABOUT_COMPARE = (
    "Compare rules that turn the leaf counts of a forest into answers, on your data: random forests and extremely "
    "randomised trees of several leaf sizes under repeated cross-validation, every rule on the same leaves."
)


class _Parser(argparse.ArgumentParser):
    """Errors in one line, all of one form."""

    def error(self, message: str) -> NoReturn:
        self.fail(f"{message}. See: {self.prog} --help")

    def fail(self, message: str) -> NoReturn:
        self.exit(2, f"jaxunc: error: {message}\n")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line on ``argv`` (default: the arguments of the process).

    Raises
    ------
    SystemExit
        With code 2 and one line on standard error if an argument or the data are at fault.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return
    try:
        _compare(args)
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _CLI_PACKAGES:
            raise
        parser.fail(f'this needs the package {package}, which is not installed. Run: pip install "jaxunc[cli]"')
    except (ValueError, OSError) as error:
        parser.fail(str(error))
    except KeyboardInterrupt:
        kept = (
            "the same command goes on from here"
            if args.report
            else "nothing was written; --report FOLDER keeps results"
        )
        parser.exit(130, f"jaxunc: interrupted; {kept}\n")


def _parser() -> _Parser:
    parser = _Parser(prog="jaxunc", description=_ABOUT)
    parser.add_argument("--version", action="version", version=f"jaxunc {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    compare = commands.add_parser("compare", help="compare rules on a table of data", description=_ABOUT_COMPARE)
    add = compare.add_argument
    add("data", nargs="?", metavar="DATA", help="CSV or Parquet file (default: breast-cancer data of scikit-learn)")
    add("--target", metavar="COLUMN", help="the column of DATA that holds the classes")
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
        type=_integer,
        metavar="N",
        help="least numbers of instances in a leaf (default: 1 2 4 8 32)",
    )
    add("--trees", type=_integer, metavar="N", help="trees in a forest (default: 100)")
    add("--repeats", type=_integer, metavar="N", help="repetitions of the cross-validation (default: 2)")
    add("--folds", type=_integer, metavar="N", help="folds of the cross-validation (default: 5)")
    add(
        "--counts",
        metavar="WHOSE",
        help="whose counts the leaves hold: inbag, train, oob, calibration (default: inbag, as in scikit-learn)",
    )
    add("--seed", type=_integer, metavar="N", help="seed of folds and forests (default: 0)")
    add(
        "--report",
        metavar="FOLDER",
        help="keep results in FOLDER as they finish (an interrupted run goes on there), and write results.json and the "
        "page report.html",
    )
    add("--quiet", action="store_true", help="show no progress")
    return parser


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no integer (the file DATA goes before the options)") from None


def _compare(args: argparse.Namespace) -> None:
    # Only here are the packages of the extra "cli" needed.
    from rich.console import Console

    from jaxunc import report

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
    settings = report.Settings(**{name: value for name, value in chosen.items() if value is not None})
    if args.data is None and args.target is not None:
        raise ValueError(
            f"--target={args.target!r} was given without DATA; name the file before it: DATA.csv --target …"
        )
    table = report.breast_cancer() if args.data is None else report.read_table(args.data, args.target)
    results = report.run(table, settings, args.report, quiet=args.quiet)
    console = Console(highlight=False)
    report.show(console, results)
    if args.report is not None:
        console.print(f"\nThe page: {report.write_page(args.report, results)}", soft_wrap=True, markup=False)


if __name__ == "__main__":
    sys.exit(main())
