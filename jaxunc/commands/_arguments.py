"""Arguments that several commands share, and messages of the library in the words of the command line."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from shlex import quote
from typing import Any

from jaxunc._checks import nearest, shown

_LARGEST = 2**31 - 1


def integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no integer (the file DATA goes before the options)") from None


def integer_from(least: int) -> Callable[[str], int]:
    """Return a reader of ints that are not below ``least``."""

    def read(text: str) -> int:
        if not least <= (value := integer(text)) <= _LARGEST:
            raise argparse.ArgumentTypeError(f"{text} is out of range; expected an integer from {least} to {_LARGEST}")
        return value

    return read


def unknown(text: str, names: Iterable[str]) -> str:
    """Return the refusal of a word that is none of these names, the same under every version of Python."""
    choices = tuple(names)
    return f"{text!r} is unknown.{nearest(text, choices)} Known are {', '.join(choices)}"


def choice(names: Iterable[str]) -> dict[str, Any]:
    """Return the settings of an argument that takes one of these names; `argparse` words its own refusal by version."""
    choices = tuple(names)

    def read(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(unknown(text, choices))
        return text

    return {"type": read, "metavar": f"{{{','.join(choices)}}}"}


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def end_of_range(text: str) -> float | None:
    """Read an end of a range; None where there is no limit."""
    return None if text == "none" else number(text)


def printed(text: str) -> str:
    """Return a line for standard output, in ASCII with escapes where its encoding lacks a letter of it."""
    text = shown(text)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return text.encode("ascii", "backslashreplace").decode()
    return text


def add_marks(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how numbers of text files are written."""
    add = parser.add_argument
    add("--decimal", metavar="MARK", help="mark before decimals in text files: . or , (default: as the file shows)")
    add("--thousands", metavar="MARK", help="mark between thousands there: . , ' or a space (default: as it shows)")


_OPTIONS = {"max_depth": "--depth", "min_samples_leaf": "--leaf-size", "n_estimators": "--trees"}
_OPTIONS |= {name: f"--{name}" for name in ("combiner", "confidence", "counts", "features", "keep", "outputs", "s")}
_OPTIONS |= {"rows": "--rows", "k": "--k", "kind": "--kind"}
_OPTIONS |= {"decimal": "--decimal", "thousands": "--thousands"}
_OPTIONS |= {"chunk_rows": "--chunk-rows", "by_class": "--by-class", "limits": "--limit"}
_OPTIONS |= {name: f"--{name}" for name in ("costs", "coverage", "law", "quantiles", "reject", "support")}
_OPTIONS |= {"coverage_by": "--coverage-by"}
"""Options of the command line, by the keywords of the library's functions that they set."""


def in_options(message: str, options: set[str]) -> str:
    """Return a message as one paragraph, with ``--counts oob`` for ``counts='oob'`` if it is among the ``options``."""
    text = " ".join(message.split())
    for keyword, option in _OPTIONS.items():
        if option in options:
            text = re.sub(rf"(?<![-\w.(]){keyword}=('?)([^\s';,]+)\1 or '(\w+)'", rf"{option} \2 or {option} \3", text)
            text = re.sub(rf"(?<![-\w.(]){keyword}=('?)([^\s';,]+)\1", rf"{option} \2", text)
            text = re.sub(rf"\({keyword}\)", f"({option})", text)
    for mark in ("decimal", "thousands"):
        if f"--{mark}" in options:  # a mark may be a comma or a space, and a quotation mark for the shell
            text = re.sub(
                rf"\b{mark}=(?:'([^'])'|\"(')\")", lambda at, mark=mark: f"--{mark} {quote(at[1] or at[2])}", text
            )
    return text
