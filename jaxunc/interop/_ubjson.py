"""A reader of UBJSON (draft 12, ubjson.org), the binary form of JSON in which XGBoost saves models."""

from struct import Struct
from typing import Any

import numpy as np

_NUMBERS = {
    b"i": Struct(">b"),
    b"U": Struct(">B"),
    b"I": Struct(">h"),
    b"l": Struct(">i"),
    b"L": Struct(">q"),
    b"d": Struct(">f"),
    b"D": Struct(">d"),
}
_DTYPES = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_PLAIN = {b"Z": None, b"T": True, b"F": False}
_DEEPEST = 64


def read_ubjson(content: bytes) -> Any:
    """Return what the content says: dictionaries, lists, strings, numbers; typed arrays of numbers as NumPy's.

    Raises a ValueError if it is cut off, goes on behind its end, or has parts that are unknown.
    """
    reader = _UbjsonReader(content)
    found = reader.value(reader.marker(), 0)
    if reader.at != len(content):
        raise ValueError(f"{len(content) - reader.at} bytes lie behind the end")
    return found


class _UbjsonReader:
    def __init__(self, content: bytes):
        self._content = content
        self.at = 0
        # Entries that take no bytes could be as many as a few bytes say, in each of many containers.
        self._left = len(content)

    def _take(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if size < 0 or self.at > len(self._content):
            raise ValueError(f"{size} bytes are needed at {start} of {len(self._content)}")
        return self._content[start : self.at]

    def marker(self) -> bytes:
        """Return the next byte, of which "N" says nothing."""
        while (found := self._take(1)) == b"N":
            pass
        return found

    def _next_is(self, marker: bytes) -> bool:
        """Whether the next byte is the marker, which is then behind."""
        if not self._content.startswith(marker, self.at):
            return False
        self.at += 1
        return True

    def _size(self) -> int:
        kind = self.marker()
        if kind not in b"iUIlL":
            raise ValueError(f"{kind!r} before {self.at} is no length")
        return _NUMBERS[kind].unpack(self._take(_NUMBERS[kind].size))[0]

    def value(self, kind: bytes, depth: int) -> Any:
        """Return a value of the kind that its marker says."""
        if depth > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")
        if kind in _NUMBERS:
            return _NUMBERS[kind].unpack(self._take(_NUMBERS[kind].size))[0]
        if kind in _PLAIN:
            return _PLAIN[kind]
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
        """The type of all entries and their number, where a container says so."""
        kind = self.marker() if self._next_is(b"$") else None
        size = self._size() if self._next_is(b"#") else None
        if kind is not None and size is None:
            raise ValueError(f"a container before {self.at} has a type without a number")
        if size is not None and not 0 <= size <= len(self._content) - self.at:
            raise ValueError(f"{size} entries are claimed before {self.at} of {len(self._content)}")
        if size is not None and kind not in _NUMBERS:
            self._left -= size
            if self._left < 0:
                raise ValueError(f"more entries are claimed before {self.at} than there are bytes")
        return kind, size

    def _array(self, depth: int) -> Any:
        kind, size = self._head()
        if kind in _NUMBERS and size is not None:
            dtype = np.dtype(_DTYPES[kind])
            return np.frombuffer(self._take(size * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))
        found: list[Any] = []
        while len(found) != size and not (size is None and self._next_is(b"]")):
            found.append(self.value(kind or self.marker(), depth + 1))
        return found

    def _object(self, depth: int) -> dict[str, Any]:
        kind, size = self._head()
        found: dict[str, Any] = {}
        number = 0
        while number != size and not (size is None and self._next_is(b"}")):
            name = self._take(self._size()).decode()
            found[name] = self.value(kind or self.marker(), depth + 1)
            number += 1
        return found
