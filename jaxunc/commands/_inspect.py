"""Command ``jaxunc inspect``: describe a file of a model."""

import argparse
from typing import Any

from ._arguments import printed

DETAILS = (
    "Read the header of a file that jaxunc saved, check the rest, and say what it holds; or read a model of XGBoost, "
    "LightGBM, CatBoost, treelite or ONNX."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``jaxunc inspect`` to its parser."""
    parser.add_argument("model", metavar="MODEL", help="a file that jaxunc saved, or a model of another library")
    parser.add_argument("--arrays", action="store_true", help="list the arrays, too")
    parser.add_argument("--no-check", action="store_true", help="read the header alone, of a file of any size")


def run(args: argparse.Namespace) -> None:
    """Print what a model file holds, and whether it is sound; raises a ValueError or an OSError if it is unreadable."""
    from rich.console import Console

    from jaxunc.streaming import describe_model

    description = describe_model(args.model)
    lines = _describe(description)
    if not description.version:
        lines["checked"] = "whole and well-formed"  # a file of another library, which was read
    elif not args.no_check:
        lines["checked"] = _check_whole(args.model)
    console = Console(highlight=False)
    for name, line in lines.items():
        console.print(printed(f"{name:12}{line}"), soft_wrap=True, markup=False)
    if args.arrays:
        for name, (shape, dtype) in sorted(description.arrays.items()):
            console.print(printed(f"{'':12}{name} {dtype} {list(shape)}"), soft_wrap=True, markup=False)


def _describe(description: Any) -> dict[str, Any]:
    """Return {word at the line's start: the line's text}, what a model file holds by its `Description`, line by line.

    What the file lacks is left out, and at most 20 names are listed.
    """
    size = f"{description.n_bytes / 1e6:.2f} MB"
    if description.arrays:
        size += f" in {len(description.arrays)} arrays"
    lines = {"holds": description.kind, "combiner": description.combiner, "written by": None, "size": size}
    if description.version:
        lines["written by"] = f"jaxunc {description.version}"
    if description.n_trees is not None:
        lines["trees"] = f"{description.n_trees}, {description.n_nodes} nodes each at most"
    if description.class_labels is not None:
        lines["classes"] = ", ".join(map(str, description.class_labels[:20]))
    if description.pipeline is not None:
        lines["pipeline"] = ", ".join(map(str, description.pipeline[:20]))
    lines["columns"] = description.columns
    if description.column_names is not None:
        lines["columns"] = ", ".join(description.column_names[:20])
    if description.parameters:
        lines["settings"] = ", ".join(f"{name}={value}" for name, value in description.parameters.items())
    return {name: line for name, line in lines.items() if line is not None}


def interrupted(args: argparse.Namespace) -> str:
    """Return what to tell a user who interrupted the run: what remains of it."""
    return "nothing was changed"


def _check_whole(path: str) -> str:
    """Return the message that a model file is sound, or needs a user's classes; raise a ValueError for other faults."""
    from jaxunc.storage import load

    try:
        load(path)
    except ValueError as error:
        if "known=" in str(error):
            return "its arrays and document are whole; it names classes of one's own, which are not loaded here"
        raise
    return "whole and well-formed"
