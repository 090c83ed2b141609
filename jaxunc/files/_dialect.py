"""Dialect of a text file: its separator, and the names in its first line."""

import csv
import gzip
import itertools
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa

from ._formats import UnreadableError

SEPARATORS = ",;\t"
LONGEST_HEADER = 2**22
"""Largest number of characters in the line of names: a quote that never ends would swallow the file."""
_QUOTED = re.compile(r'"(?:[^"]|"")*("|$)')


class Dialect(NamedTuple):
    """Dialect of a text file: how it is written."""

    separator: str
    """Comma, semicolon or tab: whichever stands in the first line most often, outside of quotes."""
    names: tuple[str, ...]
    """Names of the columns. An empty one is called ``Unnamed: 0`` by its position, as pandas does."""
    skipped_lines: int
    """Number of lines before the first row: empty ones, and those of the names."""
    has_rows: bool

    @property
    def may_have_decimal_commas(self) -> bool:
        """Whether a comma may stand in a number without quotes around it."""
        return self.separator != ","


def read_dialect(file: Path) -> Dialect:
    """Find out how a text file is written; raises an UnreadableError that says why it cannot be told."""
    with _opened(file, "rb") as stream:
        if b"\0" in stream.read(2**16):
            raise UnreadableError("it holds binary data, not UTF-8 text")
    # Rows are decoded by Arrow; here only the names must be whole.
    with _opened(file, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
        n_empty, first = 0, ""
        for first in lines:
            if first.strip():
                break
            n_empty += 1
        else:
            raise UnreadableError("it is empty; expected the names of columns in its first line")
        # Outside of quotes, and in the first line alone: decimal commas and free text stand in the rows.
        separator = max(SEPARATORS, key=_QUOTED.sub("", first).count)
        reader = csv.reader(_bounded(itertools.chain([first], lines)), delimiter=separator)
        try:
            names = [_checked(name) for name in next(reader)]
        except csv.Error as error:
            raise UnreadableError(f"its first line cannot be read: {error}") from error
        has_rows = any(line.strip() for line in lines)
    named = tuple(name or f"Unnamed: {i}" for i, name in enumerate(names))
    return Dialect(separator, named, n_empty + reader.line_num, has_rows)


def _opened(file: Path, mode: str, **options: Any) -> IO[Any]:
    open_file: Any = gzip.open if _is_compressed(file) else open
    return open_file(file, mode, **options)


def _bounded(lines: Iterable[str]) -> Iterator[str]:
    # A quote that is never closed would make one line of the whole file.
    size = 0
    for line in lines:
        size += len(line)
        if size > LONGEST_HEADER:
            raise UnreadableError("its first line never ends; is a quotation mark left open?")
        yield line


def _checked(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UnreadableError("it is not UTF-8 text; save it as UTF-8") from None
    return name


@contextmanager
def opened_by_arrow(file: Path) -> Iterator[Any]:
    """Open the bytes of a file for Arrow, decompressed if its name ends with ``.gz``."""
    with pa.OSFile(str(file)) as stream:
        if not _is_compressed(file):
            yield stream
            return
        with pa.CompressedInputStream(stream, "gzip") as text:
            yield text


def _is_compressed(file: Path) -> bool:
    return file.name.lower().endswith(".gz")
