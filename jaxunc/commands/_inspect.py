"""Command ``jaxunc inspect``: describe a file of a model."""

import argparse

from ._arguments import printed

DETAILS = (
    "Read the header of a file that jaxunc saved, check the rest, and say what it holds; or read a model of XGBoost, "
    "LightGBM, CatBoost, treelite or ONNX."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a file that jaxunc saved, or a model of another library")
    parser.add_argument("--arrays", action="store_true", help="list the arrays, too")
    parser.add_argument("--no-check", action="store_true", help="read the header alone, of a file of any size")


def run(args: argparse.Namespace) -> None:
    """Print what a model file holds, and whether it is sound."""
    from rich.console import Console

    from jaxunc.streaming import describe_model

    description = describe_model(args.model)
    lines = {
        "holds": description.kind,
        "combiner": description.combiner,
        "written by": f"jaxunc {description.version}" if description.version else None,
        "size": f"{description.n_bytes / 1e6:.2f} MB"
        + (f" in {len(description.arrays)} arrays" if description.arrays else ""),
        "trees": None
        if description.n_trees is None
        else f"{description.n_trees}, {description.n_nodes} nodes each at most",
        "classes": None if description.class_labels is None else ", ".join(map(str, description.class_labels[:20])),
        "pipeline": None if description.pipeline is None else ", ".join(map(str, description.pipeline[:20])),
        "columns": description.columns
        if description.column_names is None
        else ", ".join(description.column_names[:20]),
        "settings": ", ".join(f"{name}={value}" for name, value in description.parameters.items()) or None,
    }
    if not description.version:
        lines["checked"] = "whole and well-formed"  # it was read
    elif not args.no_check:
        lines["checked"] = _check_whole(args.model)
    console = Console(highlight=False)
    for name, line in lines.items():
        if line is not None:
            console.print(printed(f"{name:12}{line}"), soft_wrap=True, markup=False)
    for name, (shape, dtype) in sorted(description.arrays.items()) if args.arrays else ():
        console.print(printed(f"{'':12}{name} {dtype} {list(shape)}"), soft_wrap=True, markup=False)


def interrupted(args: argparse.Namespace) -> str:
    """Return the message that says what remains of an interrupted run."""
    return "nothing was changed"


def _check_whole(path: str) -> str:
    """Return the message that a file is sound, though it may need the user's classes; else raise a ValueError."""
    from jaxunc.storage import load

    try:
        load(path)
    except ValueError as error:
        if "known=" in str(error):
            return "its arrays and document are whole; it names classes of one's own, which are not loaded here"
        raise
    return "whole and well-formed"
