"""Command ``jaxunc predict``: score files with a saved model."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from ._arguments import add_marks, choice, integer, integer_from, number, printed

if TYPE_CHECKING:
    from jaxunc.streaming import RunProgress

DETAILS = (
    "Read a file or a folder of Parquet, CSV or Arrow, score it with a model of jaxunc fit or jaxunc.save, or with a "
    "file of XGBoost, LightGBM, CatBoost, treelite or ONNX, and write a folder of files: at constant memory, and where "
    "a run was cut short the same command goes on."
)

_ALIKE = ("s", "confidence", "chunk_rows", "reject", "rows", "k", "kind", "quantiles", "decimal", "thousands", "costs")
"""Options that have the names of the keywords of `predict_files` that they set."""
_BY_FIELD_S = {"CautiousReport": {"interval", "set"}, "GeneralizedVote": {"set"}, "AveragedIntervals": {"interval"}}
"""Outputs that a combiner answers by its own field s, so that ``--s`` does not reach them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``jaxunc predict`` to its parser."""
    add = parser.add_argument
    libraries = "XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.json, .cbm), treelite or ONNX"
    add("model", metavar="MODEL", help=f"a file that jaxunc saved, or a classifier of {libraries}")
    add("data", metavar="DATA", help="a file (.parquet, .csv, .tsv, .arrow, …) or a folder of such")
    add("--output", required=True, metavar="FOLDER", help="where the answers go")
    answers = (
        "class, probability, score, uncertainty, interval, set, decision, idm_interval, cautious_set, trees_polled, "
        "explanation, neighbours, outside_share; of numbers: mean, std, interval, uncertainty, quantile, exceeds, "
        "neighbours, outside_share"
    )
    add("--outputs", nargs="+", metavar="ANSWER", help=f"{answers} (default: what the model answers)")
    add("--features", nargs="+", metavar="COLUMN", help="columns that the model reads, in the order of training")
    kept = "columns that are carried along as they stand; the first names --rows"
    add("--keep", nargs="+", default=[], metavar="COLUMN", help=kept)
    add("--s", type=number, metavar="S", help="how cautious intervals, and sets of reports and votes, are (default: 1)")
    add("--confidence", type=number, metavar="P", help="at which votes are settled (default: .99)")
    cost = "of decisions: TRUTH:DECISION=COST with commas between, JSON, or a file of CSV (truths by decisions) or JSON"
    add("--costs", metavar="COSTS", help=cost + " (default: an error costs 1)")
    add("--reject", type=number, metavar="T", help="what leaving a decision open costs (default: none is left open)")
    held = (
        "how often sets or intervals are to hold the truth (default: sets worth most, 90 %% intervals); may be repeated"
    )
    # One value at a time: an option of several values would take MODEL and DATA that follow it.
    several = {"action": "append", "type": number}
    add("--coverage", **several, metavar="P", help=held)
    add("--quantiles", nargs="+", type=number, metavar="P", help="levels of quantiles of numbers (default: .05 .5 .95)")
    add("--limit", **several, metavar="Y", help="a limit of exceeds, the chance to be above it; may be repeated")
    add("--rows", metavar="FILE", help="the rows that the model was grown on, for neighbours and outside_share")
    add("--k", type=integer_from(1), metavar="N", help="neighbours of each row (default: 10)")
    weights = "prediction, their part in the answer, or leaves, the share of trees in which two rows meet"
    add("--kind", **choice(("prediction", "leaves")), help=f"what weights are: {weights} (default: prediction)")
    add("--by-class", action="store_true", help="of the rows of each class")
    add_marks(parser)
    add("--format", **choice(("parquet", "csv")), default="parquet", help="of the answers (default: parquet)")
    add("--chunk-rows", type=integer, metavar="N", help="rows that are scored together (default: 131072)")
    add("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> None:
    """Answer the rows of the data files, write the answers, and print the number of rows.

    Raises a ValueError for wrong arguments, data or models, and an OSError if a file cannot be read or written.
    """
    from jaxunc.streaming import predict_files

    _check_options(args)
    coverage = args.coverage
    if coverage is not None and len(coverage) == 1:
        coverage = coverage[0]  # sets take a single one
    names = (*_ALIKE, "outputs", "features", "keep", "by_class")
    settings = {name: getattr(args, name) for name in names} | {"limits": args.limit, "coverage": coverage}
    settings = {name: value for name, value in settings.items() if value is not None}
    is_silent = args.quiet or not sys.stderr.isatty()
    with nullcontext() if is_silent else _bar() as show:
        manifest = predict_files(args.model, args.data, args.output, file_format=args.format, progress=show, **settings)
    print(printed(f"{args.output}: {manifest['rows']:,} rows in {len(manifest['parts'])} files"))


@contextmanager
def _bar() -> "Iterator[Callable[[RunProgress], None]]":
    """Return a context with a progress bar on standard error; its value is a function that shows a `RunProgress`."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(highlight=False, stderr=True)
    rows = TextColumn("{task.completed:,.0f} rows")
    speed = TextColumn("{task.fields[speed]:,.0f} rows/s")
    bar = Progress(rows, BarColumn(), speed, TimeRemainingColumn(), console=console)
    task = bar.add_task("", total=None, speed=0.0)

    def show(progress: "RunProgress") -> None:
        bar.start()
        bar.update(task, completed=progress.done, total=progress.total, speed=progress.rows_per_second)

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()


def _check_options(args: argparse.Namespace) -> None:
    """Raise a ValueError for ``--s`` or ``--confidence`` where it would change no answer."""
    if args.s is None and args.confidence is None:
        return  # and do not describe the model: of another library the whole file would be read
    from jaxunc.streaming import describe_model, load_model, reads_s

    description = describe_model(args.model)
    outputs = set(args.outputs or ())
    if args.coverage is not None:
        outputs.discard("set")  # a set of a coverage does not depend on s
    if args.s is not None:
        fixed = _BY_FIELD_S.get(description.combiner or "", set())  # outputs that read the combiner's own s
        outputs_of_s = (outputs & {"interval", "set", "idm_interval", "cautious_set"}) - fixed
        if outputs_of_s == {"set"} and not reads_s(load_model(args.model), args.outputs):
            outputs_of_s = set()  # these sets are made of probabilities, which do not depend on s
        if description.kind == "UncertainForestRegressor":
            raise ValueError("--s would change nothing: MODEL predicts numbers, and its law makes their intervals.")
        if not outputs_of_s:
            why = f"; the model answers {' and '.join(sorted(fixed))} with its own s" if fixed else ""
            raise ValueError(f"--s would change nothing: add --outputs interval or cautious_set, or leave it out{why}.")
    if args.confidence is not None and ("trees_polled" not in outputs or description.kind == "bound vote"):
        why = "the vote has its own" if description.kind == "bound vote" else "add --outputs trees_polled"
        raise ValueError(f"--confidence would change nothing: {why}, or leave it out.")


def interrupted(args: argparse.Namespace) -> str:
    """Return what to tell a user who interrupted the run: what remains of it."""
    return "what is finished is kept, and the same command goes on from there"
