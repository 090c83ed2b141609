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
    """Return the integer that an argument's text holds; raise an ArgumentTypeError for other texts."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no integer (the file DATA goes before the options)") from None


def integer_from(least: int) -> Callable[[str], int]:
    """Return a function like `integer`, which refuses integers that are not from ``least`` to 2³¹ - 1."""

    def read(text: str) -> int:
        if not least <= (value := integer(text)) <= _LARGEST:
            raise argparse.ArgumentTypeError(f"{text} is out of range; expected an integer from {least} to {_LARGEST}")
        return value

    return read


def unknown(text: str, names: Iterable[str]) -> str:
    """Return the message that ``text`` is none of ``names``, with all names and the one that is most like the text."""
    choices = tuple(names)
    return f"{text!r} is unknown.{suggest(text, choices)} Known are {', '.join(choices)}"


def choice(names: Iterable[str]) -> dict[str, Any]:
    """Return keywords of ``ArgumentParser.add_argument`` for an argument that must be one of ``names``."""
    choices = tuple(names)  # not argparse's own choices: each version of Python words their refusal differently

    def read(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(unknown(text, choices))
        return text

    return {"type": read, "metavar": f"{{{','.join(choices)}}}"}


def number(text: str) -> float:
    """Return the float that an argument's text holds; raise an ArgumentTypeError for other texts."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def end_of_range(text: str) -> float | None:
    """Return the end of a range that an argument's text holds: None, no limit, for ``none``, else as `number`."""
    return None if text == "none" else number(text)


def printed(text: str) -> str:
    """Return a text as standard output can print it, with invisible characters as escapes.

    If the output's encoding lacks a letter of the text, all letters beyond ASCII become escapes.
    """
    text = escape_invisible(text)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return text.encode("ascii", "backslashreplace").decode()
    return text


def add_marks(parser: argparse.ArgumentParser) -> None:
    """Add the options ``--decimal`` and ``--thousands``, the marks in numbers of text files, to a parser."""
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

    ``options`` are those of the command, such as ``"--counts"``; other keywords stay as they are.
    """
    text = " ".join(message.split())
    for keyword, option in _OPTIONS.items():
        if option not in options:
            continue
        assignment = rf"(?<![-\w.(]){keyword}=('?)([^\s';,]+)\1"  # counts='oob'; not --counts=oob or f(counts='oob')
        text = re.sub(rf"{assignment} or '(\w+)'", rf"{option} \2 or {option} \3", text)  # two values to choose from
        text = re.sub(assignment, rf"{option} \2", text)
        text = re.sub(rf"\({keyword}\)", f"({option})", text)
    for mark in ("decimal", "thousands"):
        if f"--{mark}" not in options:
            continue

        def option_for(match: re.Match[str], mark: str = mark) -> str:
            """Return the option with its mark, which may be a comma, a space or a quotation mark, for the shell."""
            return f"--{mark} {quote(match[1] or match[2])}"

        text = re.sub(rf"\b{mark}=(?:'([^'])'|\"(')\")", option_for, text)
    return text
