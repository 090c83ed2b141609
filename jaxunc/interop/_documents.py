"""Model files: their bytes, documents (JSON or UBJSON) whose entries are checked when read, and versions.

UBJSON (draft 12, ubjson.org) is a binary form of JSON, in which XGBoost saves models.
"""

import errno
import json
import re
from os import PathLike
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

from jaxunc._checks import warn

GIVEN = str | PathLike | bytes | bytearray | memoryview  # what `content_of` takes
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # what some editors write before text in UTF-8
_LONGEST_PATH = 4096
BINARY_XGBOOST = "a binary file of an old XGBoost; write it by booster.save_model('model.json') there"
"""For messages: what a file is that `is_binary_xgboost` finds, and what to do about it."""
_MOST = 2**53  # absolute values of what `integer` reads are below it: such integers are exact as float64
_LARGEST_FLOAT = 2**1023  # absolute values of integers in documents are at most that, which float64 can hold
_STRUCTS = {
    b"i": Struct(">b"), b"U": Struct(">B"), b"I": Struct(">h"), b"l": Struct(">i"), b"L": Struct(">q"),
    b"d": Struct(">f"), b"D": Struct(">d"),
}  # fmt: skip
_DTYPES = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}
"""These three are by the marker of a UBJSON type: how a number is read, the dtype of an array of such numbers, and the
value of a type that has only one."""
_DEEPEST = 64  # the most containers around a value
TESTED = {
    "CatBoost": (1, 2), "LightGBM": (4,), "ONNX (ai.onnx.ml)": (5,), "XGBoost": (3, 4), "YDF": (0, 16),
    "treelite": (4, 8),
}  # fmt: skip
"""The newest tested versions, cut to the numbers with which files of trees may change."""


def content_of(source: Any) -> bytes:
    """Return the bytes of a model file, without a byte order mark; ``source`` is its path, its bytes or its text.

    A text is the file's content if it begins as LightGBM's models do, or with a brace and no file has it as its name.
    Any other text is a path. An OSError if no file is there, a ValueError if a text cannot be a path.
    """
    if isinstance(source, str) and _is_model(source):
        content = source.encode(errors="surrogatepass")
    elif isinstance(source, str | PathLike):
        content = _read(source)
    else:
        content = bytes(source)
    return content.removeprefix(BYTE_ORDER_MARK)


def _is_model(text: str) -> bool:
    """Return whether ``text`` is the content of a model file, not a path, as `content_of` tells them apart."""
    start = text[:64].removeprefix("\ufeff")  # without a byte order mark
    if start.startswith(("tree\n", "tree\r\n")):
        return True
    return start.lstrip().startswith("{") and not (_may_be_path(text) and Path(text).is_file())


def _may_be_path(text: str | PathLike) -> bool:
    """Return whether ``text`` may be the path of a file on this system: not too long, in one line."""
    path = str(text)
    if "\n" in path or "\0" in path or len(path) > _LONGEST_PATH:
        return False
    try:
        Path(path).exists()
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG  # how long a name may be depends on the file system
    return True


def _read(path: str | PathLike) -> bytes:
    """Return the bytes of the file at ``path``; errors are those of `content_of`."""
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


def read_document(source: Any, library: str) -> dict[str, Any]:
    """Return the object at the top of a model file, in JSON or UBJSON; a ValueError if there is none.

    ``source`` is the file's path, its bytes or its text. ``library`` is the name of the model's library, for messages.
    """
    content = content_of(source)
    if is_binary_xgboost(content):
        raise ValueError(f"the {library} model is {BINARY_XGBOOST}.")
    try:
        # Both begin with a brace. In text a quote, a brace or white space follows; in UBJSON the length of a name.
        is_text = content.lstrip()[1:2] in (b'"', b"}", b"\n", b"\r", b"\t", b" ")
        document = json.loads(content) if is_text else _read_ubjson(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the {library} model is neither JSON nor UBJSON: {error}. Save it again.") from error
    if not isinstance(document, dict):
        raise ValueError(f"the {library} model is a {type(document).__name__} at its top; expected an object.")
    return document


def is_binary_xgboost(content: bytes) -> bool:
    """Return whether a file that begins with ``content`` is in XGBoost's old binary format.

    Such a file begins with a float32 base score, before which XGBoost 1.1 and later write the word "binf".
    """
    has_plausible_base = content[3:4] in (b"\x3e", b"\x3f", b"\x40")  # the high byte of a float32 from 0.125 to 8
    reserved = content[28:64]  # behind the first parameters, and 0
    is_without_word = len(reserved) == 36 and not any(reserved) and has_plausible_base
    return content.startswith(b"binf") or is_without_word


def part(document: Any, *path: str, kind: type | tuple[type, ...] = dict) -> Any:
    """Return ``document[path[0]][path[1]]…``; a ValueError unless it is there, and of the type ``kind``."""
    for i, name in enumerate(path):
        if not isinstance(document, dict) or name not in document:
            raise ValueError(f"the model has no {'.'.join(path[: i + 1])}; is the file whole?")
        document = document[name]
    if isinstance(document, int) and abs(document) > _LARGEST_FLOAT:
        raise ValueError(f"the model's {'.'.join(path)} is an integer of {document.bit_length()} bits.")
    if not isinstance(document, kind) or (isinstance(document, bool) and kind is not bool):  # Python's bools are ints
        raise ValueError(f"the model's {'.'.join(path)} is a {type(document).__name__}: {document!r:.60}.")
    return document


def integer(document: Any, *path: str) -> int:
    """Return the integer at the keys ``path`` in ``document``, which may be written as a text.

    A ValueError if there is none, or its absolute value is 2^53 or more.
    """
    text = part(document, *path, kind=(int, str))
    try:
        value = int(text)
    except ValueError:
        value = _MOST  # which is refused
    if abs(value) >= _MOST:
        raise ValueError(f"the model's {'.'.join(path)} is {str(text)[:60]!r}; expected an integer.")
    return value


def numbers(document: Any, name: str, dtype: Any) -> np.ndarray:
    """Return the list of numbers ``document[name]`` as an array of ``dtype``; a ValueError if it is no such list.

    For an integer ``dtype`` the numbers must be integers of 32 bits.
    """
    entries = part(document, name, kind=(list, np.ndarray))
    is_float = np.dtype(dtype).kind == "f"
    try:
        with np.errstate(all="ignore"):
            array = np.asarray(entries, np.float64 if is_float else None)
    except (ValueError, TypeError, OverflowError):
        array = np.zeros((0, 0))  # an array of two axes, which is refused below
    if array.size == 0 and array.ndim == 1:
        return np.zeros(0, dtype)
    are_int32 = array.dtype.kind in "iub" and np.all((array >= -(2**31)) & (array < 2**31))
    if array.ndim != 1 or not (is_float or are_int32):
        raise ValueError(f"the model's {name} is {entries!r:.60}; expected a list of numbers.")
    with np.errstate(over="ignore"):
        return array.astype(dtype)


def _read_ubjson(content: bytes) -> Any:
    """Return the value that ``content``, a UBJSON document, holds; a ValueError if it is damaged."""
    reader = _UbjsonReader(content)
    document = reader.value(reader.marker(), depth=0)
    if reader.at != len(content):
        raise ValueError(f"{len(content) - reader.at} bytes lie behind the end")
    return document


class _UbjsonReader:
    """A reader of the bytes of a UBJSON document, front to back; ``at`` is the position of the next byte."""

    def __init__(self, content: bytes):
        self._content = content
        self.at = 0
        # How many more entries the file may claim: some take no bytes, so that a small damaged file could claim many.
        self._left = len(content)

    def _take(self, size: int) -> bytes:
        """Return the next ``size`` bytes; a ValueError if there are fewer."""
        start, self.at = self.at, self.at + size
        if size < 0 or self.at > len(self._content):
            raise ValueError(f"{size} bytes are needed at {start} of {len(self._content)}")
        return self._content[start : self.at]

    def marker(self) -> bytes:
        """Return the next byte, the marker of a type; bytes "N", which mean nothing, are skipped."""
        while (marker := self._take(1)) == b"N":
            pass
        return marker

    def _next_is(self, marker: bytes) -> bool:
        """Return whether the next byte is ``marker``; if so, skip it."""
        if not self._content.startswith(marker, self.at):
            return False
        self.at += 1
        return True

    def _size(self) -> int:
        """Return the next length, an integer behind the marker of its type; a ValueError if there is none."""
        kind = self.marker()
        if kind not in b"iUIlL":
            raise ValueError(f"{kind!r} before {self.at} is no length")
        return _STRUCTS[kind].unpack(self._take(_STRUCTS[kind].size))[0]

    def value(self, kind: bytes, depth: int) -> Any:
        """Return the value that begins at the position ``at``, inside of ``depth`` containers (arrays and objects).

        ``kind`` is the marker of its type. A ValueError for an unknown marker, and for too many containers.
        """
        if depth > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")
        if kind in _STRUCTS:
            return _STRUCTS[kind].unpack(self._take(_STRUCTS[kind].size))[0]
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind == b"S":
            return self._take(self._size()).decode()
        if kind == b"C":
            return self._take(1).decode("ascii")
        if kind == b"[":
            return self._array(depth)
        if kind == b"{":
            return self._object(depth)
        raise ValueError(f"{kind!r} before {self.at} is unknown")

    def _head(self) -> tuple[bytes | None, int | None]:
        """Return (marker of the type, number) of a container's entries; None for what its first bytes do not state.

        A container that states the number has no closing bracket. A ValueError if the document cannot hold as many.
        """
        kind = self.marker() if self._next_is(b"$") else None
        size = self._size() if self._next_is(b"#") else None
        if kind is not None and size is None:
            raise ValueError(f"a container before {self.at} has a type without a number")
        if size is not None and not 0 <= size <= len(self._content) - self.at:
            raise ValueError(f"{size} entries are claimed before {self.at} of {len(self._content)}")
        if size is not None and kind not in _STRUCTS:  # numbers take bytes, which `_take` checks
            self._left -= size
            if self._left < 0:
                raise ValueError(f"more entries are claimed before {self.at} than there are bytes")
        return kind, size

    def _array(self, depth: int) -> Any:
        """Return the array that begins at the position ``at``: NumPy's if it states a type of numbers, else a list."""
        kind, size = self._head()
        if kind in _STRUCTS and size is not None:
            dtype = np.dtype(_DTYPES[kind])
            return np.frombuffer(self._take(size * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))
        entries: list[Any] = []
        while len(entries) != size and not (size is None and self._next_is(b"]")):
            entries.append(self.value(kind or self.marker(), depth + 1))
        return entries

    def _object(self, depth: int) -> dict[str, Any]:
        """Return the object that begins at the position ``at``, as {name: value}."""
        kind, size = self._head()
        entries = {}
        n_read = 0
        while n_read != size and not (size is None and self._next_is(b"}")):
            name = self._take(self._size()).decode()
            entries[name] = self.value(kind or self.marker(), depth + 1)
            n_read += 1
        return entries


class UntestedVersionWarning(UserWarning):
    """A newer version of a library made a model than its importer was tested with."""


def warn_if_newer(library: str, version: tuple[int, ...]) -> None:
    """Warn if ``version``, of the ``library`` that made a model, is newer than `TESTED`; () is unknown."""
    tested = TESTED[library]
    if version[: len(tested)] > tested:
        warn(
            f"the model was made by {library} {_dotted(version)}; jaxunc was tested "
            f"up to {_dotted(tested)}. Compare its predictions on some rows before you rely on them.",
            UntestedVersionWarning,
        )


def version_in(text: str) -> tuple[int, ...]:
    """Return the first version in ``text`` as up to four integers, such as (1, 10); () if there is none."""
    match = re.search(r"\d{1,6}(?:\.\d{1,6}){0,3}", text)
    return () if match is None else tuple(map(int, match[0].split(".")))


def _dotted(version: tuple[int, ...]) -> str:
    """Return ``version`` as a text, such as "1.10"."""
    return ".".join(map(str, version))
