"""Data on disk: which files there are, in which format, and which of their columns a model reads.

`data_files` lists the files, `Wanted` finds the columns in each of them, a `DataChunk` holds rows with these columns.
A fault of a file is an `UnreadableError`, whose message follows the file's name.
"""

import io
import os
import threading
import time
import traceback
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from jaxunc._checks import join_names, suggest, warn
from jaxunc.tables import Columns, match_names

from ._notation import Notation

PARQUET = (".parquet", ".pq")  # endings of Parquet files
TSV = (".tsv", ".tsv.gz")
CSV = (".csv", ".csv.gz", *TSV)  # endings of text files
ARROW = (".arrow", ".feather")  # endings of Arrow files
FORMATS = (
    "a CSV file (.csv, .tsv, also .gz; UTF-8, column names in the first line), a Parquet file (.parquet, .pq) or an "
    "Arrow file (.arrow, .feather)"
)
"""All formats that are read, for messages."""
_OTHERS = ".7z .avro .bz2 .dta .gz .jsonl .lz4 .ndjson .ods .orc .rar .sas7bdat .sav .tar .tgz .xls .xlsx .xz .zip .zst"
"""Endings of data in formats that are not read."""


class UnreadableError(ValueError):
    """A file cannot be read; the message has no subject, and follows the file's name."""


def format_of(path: Path) -> str | None:
    """Return ``"CSV"``, ``"Parquet"`` or ``"Arrow"`` by the ending of the name; None for others."""
    name = path.name.lower()
    endings = {"Parquet": PARQUET, "CSV": CSV, "Arrow": ARROW}
    return next((file_format for file_format, ends in endings.items() if name.endswith(ends)), None)


def data_files(source: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the data files in ``source``: a file, a folder (by name, with its subfolders), or a list of such paths.

    In a folder, names that start with a dot or an underscore are passed over. So are files that are not data, with a
    warning. Raises a FileNotFoundError for a path that does not exist, a ValueError for data in other formats and for a
    folder without data.
    """
    if not isinstance(source, str | Path):
        return [file for path in source for file in data_files(path)]
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.{_sibling(path)} Pass {FORMATS}, or a folder of such files.")
    if not path.is_dir():
        if format_of(path) is None:
            raise ValueError(f"{path} has the ending {path.suffix!r}; expected {FORMATS}.")
        if not path.is_file():
            raise ValueError(f"{path} is no file but a device or a pipe; write what it says to a file first.")
        return [path]
    visible = [file for file in sorted(path.rglob("*")) if not _is_hidden(file.relative_to(path)) and file.is_file()]
    files = [file for file in visible if format_of(file) is not None]
    passed_over = [str(file.relative_to(path)) for file in visible if format_of(file) is None]
    if unread := [name for name in passed_over if name.lower().endswith(tuple(_OTHERS.split()))]:
        raise ValueError(
            f"the folder {path} holds data that are not read: {join_names(unread)}. Make each {FORMATS}; or pass a "
            "list of the files to read."
        )
    if files and passed_over:
        warn(f"of the folder {path}, {join_names(passed_over)} {'is' if len(passed_over) == 1 else 'are'} passed over.")
    if not files:
        raise ValueError(f"the folder {path} holds no data: expected {FORMATS}.")
    return files


def check_text(files: Sequence[Path], notation: Notation) -> None:
    """Raise a ValueError if ``notation`` names a mark, and no file is a text file."""
    if notation != Notation() and not any(format_of(file) == "CSV" for file in files):
        which, mark = next((name, mark) for name, mark in notation._asdict().items() if mark is not None)
        raise ValueError(f"{which}={mark!r} would change nothing: it is for files of text, and the data are none.")


def data_file(path: str | Path) -> Path:
    """Return the path of a data file; raise a ValueError if it does not exist, or is not such a file."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"DATA={str(path)!r} does not exist.{_sibling(path)} Pass {FORMATS}.")
    if not path.is_file() or format_of(path) is None:
        fault = f"has the ending {path.suffix!r}" if path.is_file() else "is a folder" * path.is_dir() or "is a device"
        raise ValueError(f"DATA={str(path)!r} {fault}; expected {FORMATS}. Export the data as one of these.")
    return path


def _sibling(path: Path) -> str:
    """Return a question for messages, whether a file of a similar name in the folder was meant; "" without one."""
    siblings = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    return suggest(path.name, siblings, 0.75)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


class WholeReads(io.FileIO):
    """A file whose reads return all bytes or raise: Arrow, reading some columns alone, takes missing bytes for 0."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Return ``size`` bytes, by as many reads as that takes; raise an UnreadableError if the file ends before."""
        first_piece = super().read(size)
        if size is None or size < 0 or len(first_piece) == size:
            return first_piece
        pieces = [first_piece]
        while (n_missing := size - sum(map(len, pieces))) and pieces[-1]:
            pieces.append(super().read(n_missing))
        if n_missing:
            raise UnreadableError(f"it ends before the {size} bytes at {self.tell() - size + n_missing} that it claims")
        return b"".join(pieces)


@contextmanager
def file_for_arrow(path: Path) -> Iterator[tuple[WholeReads, pa.PythonFile]]:
    """Return a context with a file in Arrow's format, and a stream through which Arrow reads the same file.

    Arrow reads the end of such a file in threads of its own, which may be the last to hold what they have read. When
    the context ends, it waits until they let go; for a second if the caller still holds the stream or Arrow's reader.
    """
    references: list[weakref.ref] = []
    with WholeReads(path) as raw:
        try:
            yield raw, pa.PythonFile(_ArrowReads(raw, references), "r")
        except GeneratorExit:
            _wait_for_release(references)
            raise
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)  # else their locals hold Arrow's reader
            _wait_for_release(references[1:])  # the caller's own frame still holds the file itself
            raise
        _wait_for_release(references)


class _ArrowReads:
    """A file as Arrow reads it; weak references to it, and to bytes that Arrow's threads read, go to ``references``."""

    def __init__(self, raw: WholeReads, references: list[weakref.ref]):
        self._raw, self._references, self._thread = raw, references, threading.get_ident()
        self.seek, self.tell, self.close = raw.seek, raw.tell, raw.close
        references.append(weakref.ref(self))

    @property
    def closed(self) -> bool:
        return self._raw.closed

    def read(self, size: int = -1) -> bytes | bytearray:
        data = self._raw.read(size)
        if threading.get_ident() == self._thread:
            return data
        tracked = _Bytes(data)  # read by a thread of Arrow's, which may be the last to hold it
        self._references.append(weakref.ref(tracked))
        return tracked


class _Bytes(bytearray):
    """Bytes that weak references can refer to, unlike Python's own."""


def _wait_for_release(references: list[weakref.ref]) -> None:
    """Wait until threads of Arrow have let go of all that ``references`` refer to, for a second at most."""
    # until python 3.14: a thread that lets go of Python's objects while the interpreter ends aborts the process
    end = time.monotonic() + 1
    while any(reference() is not None for reference in references) and time.monotonic() < end:
        time.sleep(1e-4)


@contextmanager
def refuse_changes(path: Path) -> Iterator[None]:
    """Return a context that raises an UnreadableError if the file was replaced or written to within it."""
    before = state_of(path)
    yield
    if state_of(path) != before:
        raise UnreadableError("it was changed while it was read; run again once it is whole")


def state_of(path: str | Path) -> tuple[int, ...]:
    """Return a file's device, inode, size and time of change; some of them change if it is replaced or written to."""
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def is_same_file(path: str | Path, other: str | Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them does not exist yet
        return Path(path).resolve() == Path(other).resolve()


def is_within(path: str | Path, folder: str | Path) -> bool:
    """Return whether ``path`` is the folder, or lies in it at any depth; neither need exist yet."""
    resolved = Path(path).resolve()
    return any(is_same_file(parent, folder) for parent in (resolved, *resolved.parents))


class DataChunk(NamedTuple):
    """Rows of data, split into what the model reads and what is carried along."""

    features: pa.Table  # columns of the model, in its order
    kept: pa.Table  # columns that are carried along
    where: str  # name of the data in messages
    first: int  # number of the first row in messages: from 1 in files, from 0 in memory, like the index
    are_cells: bool = False  # whether strings are cells of a text file

    @property
    def n_rows(self) -> int:
        return self.features.num_rows


class Wanted(NamedTuple):
    """The columns of the data that are read: those of a model, and those that are kept."""

    columns: Columns  # columns of the model
    features: tuple[str, ...] | None
    """Names in the data of the model's columns; None for the model's names, or for all columns that are not kept."""
    keep: tuple[str, ...]  # names of columns that are carried along
    notation: Notation = Notation()  # the marks in numbers of text files that the caller names

    def names(self, names: Sequence[str], where: str) -> tuple[str, ...]:
        """Return the names, among all ``names`` of the data, of the model's columns, in the model's order.

        Raises a ValueError, in which ``where`` names the data, if some are missing, or two columns have one name.
        """
        try:
            check_distinct(names)
        except UnreadableError as error:
            raise ValueError(f"{where} cannot be read: {error}") from error
        features = self.features or self._data_names(names, where)
        needed = [*(features or ()), *self.keep]
        if missing := [name for name in needed if name not in set(names)]:
            raise ValueError(
                f"{where} lacks the columns {missing[:5]} ({len(missing)} in all).{suggest(missing[0], names)} It has "
                f"{list(names)[:10]}. Further columns and their order do not matter."
            )
        if features is None:
            features = tuple(name for name in names if name not in set(self.keep) and not is_index(name))
        if len(features) != self.columns.number:
            raise ValueError(
                f"{where} has {len(features)} columns for the model's {self.columns.number}, which knows no names: "
                "name those to read with features, in the order of training, or those to carry along with keep."
            )
        return tuple(features)

    def positions(self, names: Sequence[str], where: str) -> tuple[list[int], list[int]]:
        """Return the positions among ``names`` of the model's columns, and of the kept columns: two lists.

        ``names`` are all names of the data, ``where`` names the data in messages. Raises a ValueError as `names` does.
        """
        position = {name: j for j, name in enumerate(names)}
        return [position[name] for name in self.names(names, where)], [position[name] for name in self.keep]

    def _data_names(self, names_of_data: Sequence[str], where: str) -> tuple[str, ...] | None:
        """Return the model's names as ``names_of_data`` spell them; None for a model without names.

        ``where`` names the data in messages.
        """
        names_of_model = self.columns.names
        if names_of_model is None or not self.columns.spaces_are_underlines:
            return names_of_model
        names = match_names(names_of_data, self.columns, where)
        return tuple(names.get(name, name) for name in names_of_model)


def check_distinct(names: Sequence[str]) -> None:
    """Raise an UnreadableError if two columns have the same name."""
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        raise UnreadableError(f"several columns are named {', '.join(map(repr, twice[:5]))}; give each its own name")


def is_index(name: str) -> bool:
    """Return whether a column is the unnamed index of a pandas frame, which is not part of its data."""
    return name.startswith("__index_level_") and name.endswith("__")


def columns(names: Sequence[str]) -> str:
    """Return a phrase for messages: how many columns there are, and their names."""
    return f"{len(names)} column{'s' * (len(names) > 1)} ({join_names(names)})"
