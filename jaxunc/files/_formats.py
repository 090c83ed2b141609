"""Formats of data files, and comparison of paths."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from jaxunc._checks import nearest

PARQUET = (".parquet", ".pq")
"""Endings of Parquet files."""
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
"""Endings of text files."""
ARROW = (".arrow", ".feather")
"""Endings of Arrow files."""
FORMATS = (
    "a CSV file (.csv, .tsv, also .gz; UTF-8, column names in the first line), a Parquet file (.parquet, .pq) or an "
    "Arrow file (.arrow, .feather)"
)
"""What can be read, in words, for messages."""


class UnreadableError(ValueError):
    """A file cannot be read; the message goes on from the file's name."""


def format_of(path: Path) -> str | None:
    """Return ``"CSV"``, ``"Parquet"`` or ``"Arrow"`` by the ending of the name; None for others."""
    name = path.name.lower()
    endings = {"Parquet": PARQUET, "CSV": CSV, "Arrow": ARROW}
    return next((found for found, own in endings.items() if name.endswith(own)), None)


def data_files(source: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files of a path, a folder (in the order of names, folders within it too), or a list of paths.

    Raises a FileNotFoundError for a path that does not exist, a ValueError for files of other formats and folders
    without data.

    Parameters
    ----------
    source
        One path, or several.
    """
    if not isinstance(source, str | Path):
        return [file for one in source for file in data_files(one)]
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.{_sibling(path)} Pass {FORMATS}, or a folder of such files.")
    if not path.is_dir():
        if format_of(path) is None:
            raise ValueError(f"{path} has the ending {path.suffix!r}; expected {FORMATS}.")
        return [path]
    files = [file for file in sorted(path.rglob("*")) if _is_data(file.relative_to(path)) and file.is_file()]
    if not files:
        raise ValueError(f"the folder {path} holds no data: expected {FORMATS}.")
    return files


def data_file(path: str | Path) -> Path:
    """Return the path of a data file that exists; raises a ValueError that says what was found instead."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"DATA={str(path)!r} does not exist.{_sibling(path)} Pass {FORMATS}.")
    if path.is_dir() or format_of(path) is None:
        found = "is a folder" if path.is_dir() else f"has the ending {path.suffix!r}"
        raise ValueError(f"DATA={str(path)!r} {found}; expected {FORMATS}. Export the data as one of these.")
    return path


def _sibling(path: Path) -> str:
    """Return a question whether another file of the folder was meant, if one has nearly that name."""
    siblings = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    return nearest(path.name, siblings, 0.75)


def _is_data(path: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    return not hidden and format_of(path) is not None


def is_same_file(one: str | Path, other: str | Path) -> bool:
    """Return whether two paths lead to one file or folder, through links, too."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist yet
        return Path(one).resolve() == Path(other).resolve()


def is_within(path: str | Path, folder: str | Path) -> bool:
    """Return whether a path is a folder, or lies in it at any depth; it need not exist yet."""
    resolved = Path(path).resolve()
    return any(is_same_file(parent, folder) for parent in (resolved, *resolved.parents))


def check_overwrites_nothing(output: str | Path, inputs: Iterable[str | Path | None], what: str) -> None:
    """Raise a ValueError if a file that is to be written is one of those that are read.

    Parameters
    ----------
    output
        Path that is to be written.
    inputs
        Paths that are read; None is passed over.
    what
        Name of the output, in the message.
    """
    for path in inputs:
        if path is not None and is_same_file(output, path):
            raise ValueError(f"{what}={str(output)!r} is the file {path}, which is read; name another file.")
