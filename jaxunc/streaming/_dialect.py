"""Dialect of a text file: its separator, and the names in its first line."""

import csv
import io
import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

from ._blocks import opened
from ._formats import UnreadableError

SEPARATORS = ",;\t"
LONGEST_HEADER = 2**22
"""Largest number of bytes before the first row."""
BYTE_ORDER_MARK = "\ufeff"
_QUOTED = re.compile(r'"(?:[^"]|"")*("|$)')


class Dialect(NamedTuple):
    """Dialect of a text file: how it is written."""

    separator: str
    """Comma, semicolon or tab: whichever stands in the first line most often, outside of quotes."""
    names: tuple[str, ...]
    """Names of the columns. An empty one is called ``Unnamed: 0`` by its position, as pandas does."""
    head: int
    """Bytes before the first row: empty lines, and those of the names."""
    line: int
    """Number of the line of the first row."""

    @property
    def may_have_decimal_commas(self) -> bool:
        """Whether a comma may stand in a number without quotes around it."""
        return self.separator != ","


def read_dialect(file: Path) -> Dialect:
    """Find out how a text file is written; raises an UnreadableError that says why it cannot be told."""
    with opened(file) as stream:
        start = stream.read(2**16)
        if b"\0" in start:
            raise UnreadableError("it holds binary data, not UTF-8 text")
        stream.seek(0)
        # Rows are decoded by Arrow; here only the names must be whole.
        text = io.TextIOWrapper(cast(Any, stream), encoding="utf-8", errors="surrogateescape", newline="")
        lines = _Counted(text)
        for first in lines:
            first = first.removeprefix(BYTE_ORDER_MARK)
            if first.strip():
                break
        else:
            raise UnreadableError("it is empty; expected the names of columns in its first line")
        # Outside of quotes, and in the first line alone: decimal commas and free text stand in the rows.
        separator = max(SEPARATORS, key=_QUOTED.sub("", first).count)
        reader = csv.reader(itertools.chain([first], lines), delimiter=separator)
        try:
            names = [_checked(name) for name in next(reader)]
        except csv.Error as error:
            raise UnreadableError(f"its first line cannot be read: {error}") from error
        text.detach()  # which would close the stream
    named = tuple(name or f"Unnamed: {i}" for i, name in enumerate(names))
    return Dialect(separator, named, lines.n_bytes, lines.number + 1)


class _Counted:
    """Lines of a text, of which the number and the bytes are counted."""

    def __init__(self, lines: Iterable[str]):
        self._lines = iter(lines)
        self.number = self.n_bytes = 0

    def __iter__(self) -> "_Counted":
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        self.n_bytes += len(line.encode("utf-8", "surrogateescape"))
        # A quote that is never closed would make one line of the whole file.
        if self.n_bytes > LONGEST_HEADER:
            raise UnreadableError("its first line never ends; is a quotation mark left open?")
        return line


def _checked(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UnreadableError("it is not UTF-8 text; save it as UTF-8") from None
    return name
