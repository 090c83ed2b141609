"""Readers of arguments that several commands share, and the library's messages in terms of the command line."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from shlex import quote
from typing import Any

from jaxunc._checks import escape_invisible, suggest

_LARGEST = 2**31 - 1


def integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no integer (the file DATA goes before the options)") from None


def integer_from(least: int) -> Callable[[str], int]:
    """Return a function that reads an integer from ``least`` to 2³¹ - 1; others raise an ArgumentTypeError."""

    def read(text: str) -> int:
        if not least <= (value := integer(text)) <= _LARGEST:
            raise argparse.ArgumentTypeError(f"{text} is out of range; expected an integer from {least} to {_LARGEST}")
        return value

    return read


def unknown(text: str, names: Iterable[str]) -> str:
    """Return the message that ``text`` is unknown, with all known names and the one that is most like it."""
    choices = tuple(names)
    return f"{text!r} is unknown.{suggest(text, choices)} Known are {', '.join(choices)}"


def choice(names: Iterable[str]) -> dict[str, Any]:
    """Return the keywords of ``add_argument`` for an argument that takes one of the names.

    The ``choices`` of `argparse` are not used: each version of Python words their refusal differently.
    """
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
    """Read an end of a range: a number, or None for the word ``none`` (no limit)."""
    return None if text == "none" else number(text)


def printed(text: str) -> str:
    """Return the text as a line for standard output, with escapes if the output's encoding lacks one of its letters."""
    text = escape_invisible(text)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return text.encode("ascii", "backslashreplace").decode()
    return text


def add_marks(parser: argparse.ArgumentParser) -> None:
    """Add to a parser the options ``--decimal`` and ``--thousands``, the marks in numbers of text files."""
    add = parser.add_argument
    add("--decimal", metavar="MARK", help="mark before decimals in text files: . or , (default: as the file shows)")
    add("--thousands", metavar="MARK", help="mark between thousands there: . , ' or a space (default: as it shows)")


# Options of the command line, by the keywords of the library's functions that they set.
_OPTIONS = {"max_depth": "--depth", "min_samples_leaf": "--leaf-size", "n_estimators": "--trees", "limits": "--limit"}
_ALIKE = "combiner confidence counts features keep outputs s rows k kind decimal thousands chunk_rows by_class costs"
_ALIKE += " coverage coverage_by law quantiles reject support"
_OPTIONS |= {name: f"--{name}".replace("_", "-") for name in _ALIKE.split()}


def in_options(message: str, options: set[str]) -> str:
    """Return a message on one line, with options in place of keywords: ``--counts oob`` for ``counts='oob'``.

    ``options`` are those of the command, such as ``"--counts"``; keywords without such an option stay as they are.
    """
    text = " ".join(message.split())
    for keyword, option in _OPTIONS.items():
        if option in options:
            text = re.sub(rf"(?<![-\w.(]){keyword}=('?)([^\s';,]+)\1 or '(\w+)'", rf"{option} \2 or {option} \3", text)
            text = re.sub(rf"(?<![-\w.(]){keyword}=('?)([^\s';,]+)\1", rf"{option} \2", text)
            text = re.sub(rf"\({keyword}\)", f"({option})", text)
    for mark in ("decimal", "thousands"):
        if f"--{mark}" in options:  # a mark may be a comma or a space, and a quotation mark for the shell
            text = re.sub(
                rf"\b{mark}=(?:'([^'])'|\"(')\")", lambda hit, mark=mark: f"--{mark} {quote(hit[1] or hit[2])}", text
            )
    return text
