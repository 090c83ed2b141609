"""Pages of studies: sentences stand in ``page.md`` of a study's folder, numbers and tables are made by its code.

A template has slots as `str.format` has them: ``{gain:.2f}`` is a number with its format, ``{table}`` a table or a
section. ``{duel[tree; bag]}`` is what the function ``duel`` says of ``"tree"`` and ``"bag"``. A part that a page has
several times, or not always, begins with a line ``<!-- name -->``; what stands before the first such line is the page.
"""

import math
import re
import string
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any


class Answers:
    """A function as a slot of a template: asked by words, which a semicolon separates."""

    def __init__(self, function: Callable[..., object]):
        self.function = function

    def __getitem__(self, words: str | int) -> object:
        return self.function(*str(words).split("; "))


def fill(template: Path, part: str = "page", /, **slots: object) -> str:
    """The text of a part of a template; a ValueError if a slot is missing, or is none of the page's."""
    text = read_parts(template)[part]
    named = {re.split(r"[.\[]", name)[0] for _, name, _, _ in string.Formatter().parse(text) if name}
    if wrong := named - slots.keys() if part != "page" else named ^ slots.keys():
        raise ValueError(f"{template}, {part}: its slots and those that are made differ: {wrong}")
    return text.format(**{name: Answers(slot) if callable(slot) else slot for name, slot in slots.items()})


@cache
def read_parts(template: Path) -> dict[str, str]:
    """{name: text} of the parts of a template; the page itself ends with a line break."""
    page, *named = re.split(r"^<!-- (.*) -->\n", template.read_text(encoding="utf-8"), flags=re.MULTILINE)
    texts = [text.strip("\n") for text in named[1::2]]
    return {"page": page.strip("\n") + "\n"} | dict(zip(named[::2], texts, strict=True))


def read_rows(template: Path, part: str) -> list[tuple[str, ...]]:
    """The lines of a part of a template, whose words a semicolon separates: what a table compares."""
    return [tuple(line.split("; ")) for line in read_parts(template)[part].splitlines()]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    return table_rows([head, ["---"] * len(head), *rows])


def table_rows(rows: Iterable[Sequence[str]]) -> str:
    """Rows for a table whose head stands in the template."""
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def verdict_rows(verdicts: Iterable[tuple[str, str, bool]]) -> str:
    """Rows of rules: in words, what was found, and whether the rule is kept."""
    return table_rows([rule, value, "kept" if is_kept else "**missed**"] for rule, value, is_kept in verdicts)


def bold(text: str, is_told: bool) -> str:
    """The text, bold where a test tells what it is about."""
    return f"**{text}**" if is_told else text


def verdict(rule: str, value: float, *, least: float = -math.inf, most: float = math.inf) -> tuple[str, str, bool]:
    """One of `verdict_rows`: what is found is a value, which the rule bounds."""
    return rule, digits(value), bool(least <= value <= most)


def save(figure: Any, path: Path, **settings: Any) -> None:
    """Write a picture; the same one has the same bytes."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "jaxunc"}):
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, metadata=metadata, **settings)


def digits(value: float) -> str:
    """A number of a table; nothing where there is none."""
    return "" if math.isnan(value) else f"{value:.3f}"


def wrap(page: str) -> str:
    """The page with its paragraphs and points broken into lines anew, once their numbers are in."""
    lines: list[str] = []
    for block in filter(None, map(str.strip, page.replace("\n* ", "\n\n* ").split("\n\n"))):
        is_point = block.startswith("* ")
        lines += [""] * (bool(lines) and not (is_point and lines[-1].startswith(("* ", "  "))))
        if block.startswith(("|", "#", "![")):
            lines.append(block)
            continue
        words = re.sub(" ([<=]) ", "\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", " ".join(block.split()))
        broken = textwrap.wrap(words, 120, subsequent_indent="  " * is_point, break_on_hyphens=False)
        lines += [line.replace("\N{NO-BREAK SPACE}", " ") for line in broken]
    return "\n".join(lines) + "\n"
