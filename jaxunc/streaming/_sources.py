"""Data on disk: which files there are, in which format, and which of their columns a model reads.

`data_files` lists the files, `Wanted` finds the columns in each of them, a `DataChunk` holds rows with these columns.
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
TSV = (".tsv", ".tsv.gz")  # endings of text files with tabs between cells
CSV = (".csv", ".csv.gz", *TSV)  # endings of text files
ARROW = (".arrow", ".feather")  # endings of Arrow files
FORMATS = (
    "a CSV file (.csv, .tsv, also .gz; UTF-8, column names in the first line), a Parquet file (.parquet, .pq) or an "
    "Arrow file (.arrow, .feather)"
)
"""The formats that are read, as a phrase for messages."""
_OTHERS = ".7z .avro .bz2 .dta .gz .jsonl .lz4 .ndjson .ods .orc .rar .sas7bdat .sav .tar .tgz .xls .xlsx .xz .zip .zst"
"""Endings of data in formats that are not read."""


class UnreadableError(ValueError):
    """A file cannot be read; the message has no subject, and follows the file's name."""


def format_of(path: Path) -> str | None:
    """Return the format of a file by the ending of its name: "CSV", "Parquet" or "Arrow"; None for other endings."""
    name = path.name.lower()
    endings = {"Parquet": PARQUET, "CSV": CSV, "Arrow": ARROW}
    return next((file_format for file_format, ends in endings.items() if name.endswith(ends)), None)


def data_files(source: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the data files in ``source``: the path of a file or a folder, or a list of such paths.

    Files of a folder and its subfolders are sorted by path. Names that start with a dot or an underscore are passed
    over there, and so are files that are no data, with a warning. Raises a FileNotFoundError for an absent path, and a
    ValueError for data in formats that are not read, and for a folder without data.
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
    """Raise a ValueError if ``notation`` has a mark, and none of the ``files`` is a text file."""
    if notation != Notation() and not any(format_of(file) == "CSV" for file in files):
        which, mark = next((name, mark) for name, mark in notation._asdict().items() if mark is not None)
        raise ValueError(f"{which}={mark!r} would change nothing: it is for files of text, and the data are none.")


def data_file(path: str | Path) -> Path:
    """Return ``path`` as a `Path`; raise a ValueError unless it is that of a file in a format that is read."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"DATA={str(path)!r} does not exist.{_sibling(path)} Pass {FORMATS}.")
    if path.is_file() and format_of(path) is not None:
        return path
    if path.is_file():
        fault = f"has the ending {path.suffix!r}"
    elif path.is_dir():
        fault = "is a folder"
    else:
        fault = "is a device"
    raise ValueError(f"DATA={str(path)!r} {fault}; expected {FORMATS}. Export the data as one of these.")


def _sibling(path: Path) -> str:
    """Return a question for messages, whether a file with a similar name beside ``path`` was meant; "" without one."""
    siblings = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    return suggest(path.name, siblings, 0.75)


def _is_hidden(path: Path) -> bool:
    """Return whether the name of a file, or of a folder in its path, starts with a dot or an underscore."""
    return any(part.startswith((".", "_")) for part in path.parts)


class WholeReads(io.FileIO):
    """A file whose reads return as many bytes as they are asked for, or raise an UnreadableError.

    Arrow, if it reads only some columns, would take missing bytes for 0.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next ``size`` bytes, without a size all; raise an UnreadableError if the file ends before."""
        first_piece = super().read(size)
        if size is None or size < 0 or len(first_piece) == size:
            return first_piece
        pieces = [first_piece]
        while (n_missing := size - sum(map(len, pieces))) and pieces[-1]:
            pieces.append(super().read(n_missing))
        if n_missing:
            start = self.tell() - size + n_missing
            raise UnreadableError(f"it ends before the {size} bytes at {start} that it claims")
        return b"".join(pieces)


@contextmanager
def file_for_arrow(path: Path) -> Iterator[tuple[WholeReads, pa.PythonFile]]:
    """Return a context with a pair for the Arrow file ``path``: the open file, and a stream by which Arrow reads it.

    At its end the context waits until Arrow's threads have let go of the stream and of the bytes that they have read:
    for a second at most, and so long if the caller still holds the stream or a reader of Arrow.
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
    """A file for Arrow to read, which records what Arrow may still hold of it.

    Weak references to this object, and to the bytes that Arrow's threads have read, are appended to ``references``.
    """

    def __init__(self, raw: WholeReads, references: list[weakref.ref]):
        self._raw, self._references = raw, references
        self._thread = threading.get_ident()  # the thread that opens the file, which is not one of Arrow's
        self.seek, self.tell, self.close = raw.seek, raw.tell, raw.close  # which Arrow calls
        references.append(weakref.ref(self))

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._raw.closed

    def read(self, size: int = -1) -> bytes | bytearray:
        """Return what `WholeReads.read` returns; to a thread of Arrow's as an object that ``references`` refer to."""
        data = self._raw.read(size)
        if threading.get_ident() == self._thread:
            return data
        referable = _Bytes(data)  # a thread of Arrow's may be the last to hold it
        self._references.append(weakref.ref(referable))
        return referable


class _Bytes(bytearray):
    """Bytes that weak references can refer to, unlike Python's own."""


def _wait_for_release(references: list[weakref.ref]) -> None:
    """Wait until nothing holds the objects that ``references`` refer to, for a second at most."""
    # until python 3.14: a thread that lets go of Python's objects while the interpreter ends aborts the process
    end = time.monotonic() + 1
    while any(reference() is not None for reference in references) and time.monotonic() < end:
        time.sleep(1e-4)


@contextmanager
def refuse_changes(path: Path) -> Iterator[None]:
    """Return a context that at its end raises an UnreadableError if the file ``path`` was changed within it."""
    before = state_of(path)
    yield
    if state_of(path) != before:
        raise UnreadableError("it was changed while it was read; run again once it is whole")


def state_of(path: str | Path) -> tuple[int, ...]:
    """Return the device, inode, size and time of change of a file; they differ once it is replaced or written to."""
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def is_same_file(path: str | Path, other: str | Path) -> bool:
    """Return whether two paths lead to the same file or folder; it need not exist yet."""
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them does not exist yet
        return Path(path).resolve() == Path(other).resolve()


def is_within(path: str | Path, folder: str | Path) -> bool:
    """Return whether ``path`` is the ``folder``, or lies in it at any depth; neither need exist yet."""
    resolved = Path(path).resolve()
    return any(is_same_file(parent, folder) for parent in (resolved, *resolved.parents))


class DataChunk(NamedTuple):
    """Rows of data: the columns that the model reads, and the columns that are carried along."""

    features: pa.Table  # columns of the model, in its order
    kept: pa.Table  # columns that are carried along
    where: str  # name of the data in messages
    first: int  # number of the first row in messages: from 1 in files, from 0 in memory, like the index
    are_cells: bool = False  # whether strings are cells of a text file

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.features.num_rows


class Wanted(NamedTuple):
    """Which columns of the data are read: those that a model reads, and those that are carried along."""

    columns: Columns  # columns of the model
    features: tuple[str, ...] | None
    """Names in the data of the model's columns; None if the caller names none.

    Then they are the model's names; or, for a model without names, the names of all columns that are not kept.
    """
    keep: tuple[str, ...]  # names of columns that are carried along
    notation: Notation = Notation()  # the marks in numbers of text files that the caller names

    def names(self, names: Sequence[str], where: str) -> tuple[str, ...]:
        """Return the names of the model's columns in data whose columns have these ``names``, in the model's order.

        Raises a ValueError, in which ``where`` is the data's name, for a missing column, names that are not distinct,
        and another number of columns than a model without names has.
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
        if features is None:  # nobody names them: all that are not kept
            features = tuple(name for name in names if name not in set(self.keep) and not is_index(name))
        if len(features) != self.columns.number:
            raise ValueError(
                f"{where} has {len(features)} columns for the model's {self.columns.number}, which knows no names: "
                "name those to read with features, in the order of training, or those to carry along with keep."
            )
        return tuple(features)

    def positions(self, names: Sequence[str], where: str) -> tuple[list[int], list[int]]:
        """Return two lists of positions among ``names``, all names of the data: of the model's columns, of kept ones.

        ``where`` and errors are as for `names`.
        """
        position = {name: j for j, name in enumerate(names)}
        read = [position[name] for name in self.names(names, where)]
        kept = [position[name] for name in self.keep]
        return read, kept

    def _data_names(self, names_of_data: Sequence[str], where: str) -> tuple[str, ...] | None:
        """Return the names of the model's columns as ``names_of_data`` spell them; None for a model without names."""
        names_of_model = self.columns.names
        if names_of_model is None or not self.columns.spaces_are_underlines:
            return names_of_model
        names = match_names(names_of_data, self.columns, where)
        return tuple(names.get(name, name) for name in names_of_model)


def check_distinct(names: Sequence[str]) -> None:
    """Raise an UnreadableError if two of the columns' names are equal."""
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        raise UnreadableError(f"several columns are named {', '.join(map(repr, twice[:5]))}; give each its own name")


def is_index(name: str) -> bool:
    """Return whether ``name`` is that of a column in which a file has the index, without a name, of a pandas frame."""
    return name.startswith("__index_level_") and name.endswith("__")


def columns(names: Sequence[str]) -> str:
    """Return a phrase for messages: how many columns there are, and their names."""
    return f"{len(names)} column{'s' * (len(names) > 1)} ({join_names(names)})"
