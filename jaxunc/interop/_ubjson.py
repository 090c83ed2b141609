"""A reader of UBJSON (draft 12, ubjson.org), the binary form of JSON in which XGBoost saves models."""

from typing import Any

import numpy as np

_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_PLAIN = {"Z": None, "T": True, "F": False}
_DEEPEST = 64


def read_ubjson(content: bytes) -> Any:
    """Return what the content says: dictionaries, lists, strings, numbers; typed arrays of numbers as NumPy's.

    Raises a ValueError if it is cut off, goes on behind its end, or has parts that are unknown.
    """
    reader = _Reader(content)
    found = reader.value(reader.marker(), 0)
    if reader.at != len(content):
        raise ValueError(f"{len(content) - reader.at} bytes lie behind the end")
    return found


class _Reader:
    def __init__(self, content: bytes):
        self._content = content
        self.at = 0

    def _take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self._content):
            raise ValueError(f"{size} bytes are needed at {self.at} of {len(self._content)}")
        self.at += size
        return self._content[self.at - size : self.at]

    def marker(self) -> str:
        """Return the next byte, of which "N" says nothing."""
        while (found := self._take(1).decode("latin-1")) == "N":
            pass
        return found

    def _peek(self) -> str:
        return self._content[self.at : self.at + 1].decode("latin-1")

    def _number(self, kind: str) -> int | float:
        dtype = np.dtype(_NUMBERS[kind])
        return np.frombuffer(self._take(dtype.itemsize), dtype)[0].item()

    def _size(self) -> int:
        if (kind := self.marker()) not in "iUIlL":
            raise ValueError(f"{kind!r} at {self.at} is no length")
        return int(self._number(kind))

    def _text(self) -> str:
        return self._take(self._size()).decode("utf-8")

    def value(self, kind: str, depth: int) -> Any:
        """Return a value of the kind that its marker says."""
        if depth > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")
        if kind in _NUMBERS:
            return self._number(kind)
        if kind in _PLAIN:
            return _PLAIN[kind]
        if kind == "S":
            return self._text()
        if kind == "C":
            return self._take(1).decode("latin-1")
        if kind == "[":
            return self._array(depth)
        if kind == "{":
            return self._object(depth)
        raise ValueError(f"{kind!r} at {self.at} is unknown")

    def _head(self) -> tuple[str | None, int | None]:
        """The type of all entries and their number, where a container says so."""
        kind, size = None, None
        if self._peek() == "$":
            self._take(1)
            kind = self.marker()
        if self._peek() == "#":
            self._take(1)
            size = self._size()
        if kind is not None and size is None:
            raise ValueError(f"a container at {self.at} has a type without a number")
        return kind, size

    def _array(self, depth: int) -> Any:
        kind, size = self._head()
        if kind in _NUMBERS and size is not None:
            dtype = np.dtype(_NUMBERS[kind])
            return np.frombuffer(self._take(size * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))
        found: list[Any] = []
        while size is None or len(found) < size:
            marker = kind or self.marker()
            if size is None and marker == "]":
                break
            found.append(self.value(marker, depth + 1))
        return found

    def _object(self, depth: int) -> dict[str, Any]:
        kind, size = self._head()
        found: dict[str, Any] = {}
        count = 0
        while size is None or count < size:
            if size is None and self._peek() == "}":
                self._take(1)
                break
            name = self._text()
            found[name] = self.value(kind or self.marker(), depth + 1)
            count += 1
        return found
