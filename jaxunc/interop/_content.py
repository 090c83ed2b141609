"""What is given as a file: its path, its bytes, or its text, to the bytes that it holds."""

import errno
from os import PathLike
from pathlib import Path
from typing import Any

GIVEN = str | PathLike | bytes | bytearray | memoryview
"""What `content_of` takes."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What some editors write before text in UTF-8."""
_LONGEST_PATH = 4096


def content_of(source: Any) -> bytes:
    """Return what a model file holds, given by its path, its bytes or its text; without a byte order mark.

    A text that begins as models do is a model, unless it is the path of a file; any other is a path.

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        If there is no such file, or the path is that of a folder.
    ValueError
        If a text is neither.
    """
    if isinstance(source, str) and _is_model(source):
        content = source.encode(errors="surrogatepass")
    elif isinstance(source, str | PathLike):
        content = _read(source)
    else:
        content = bytes(source)
    return content.removeprefix(BYTE_ORDER_MARK)


def _is_model(text: str) -> bool:
    """Whether a text is a model: a document in braces, or the lines of LightGBM."""
    start = text[:64].removeprefix("\ufeff")
    if start.startswith(("tree\n", "tree\r\n")):
        return True
    return start.lstrip().startswith("{") and not (_may_be_path(text) and Path(text).is_file())


def _may_be_path(text: str | PathLike) -> bool:
    """Whether a system may have a file of this name."""
    path = str(text)
    if "\n" in path or "\0" in path or len(path) > _LONGEST_PATH:
        return False
    try:
        Path(path).exists()
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG  # which depends on the file system
    return True


def _read(path: str | PathLike) -> bytes:
    if isinstance(path, str) and not _may_be_path(path):
        raise ValueError(
            f"model is a text of {len(path)} characters that begins with {path[:20]!r}: no path, and no model of "
            "LightGBM (text), XGBoost or CatBoost (JSON). Is it whole? Of other formats pass bytes or the path."
        )
    if not _may_be_path(path):
        raise FileNotFoundError(f"{str(path)!r:.60} is no name that a file can have; pass the file of a model.")
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; pass a file. A model of YDF: from_ydf(ydf.load_model(path)).")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; pass the file of a model.")
    return path.read_bytes()
