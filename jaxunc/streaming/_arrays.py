"""Arrow's arrays of what the host holds, made of their buffers.

`pyarrow.array` imports pandas wherever that is installed, which takes longer than all else in a short run.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa


def numbers(array: np.ndarray) -> pa.Array:
    """Return the numbers or bools of a NumPy array; numbers are not copied if they are contiguous."""
    kind = pa.from_numpy_dtype(array.dtype)
    # Arrow has eight bools in a byte, the first in its lowest bit.
    held = np.packbits(array, bitorder="little") if array.dtype == bool else np.ascontiguousarray(array)
    return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(held)])


def texts(words: Sequence[str]) -> pa.Array:
    """Return an array of strings."""
    encoded = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def labels(values: Sequence[Any]) -> pa.Array:
    """Return an array of class labels; raises a ValueError for labels that one column cannot tell apart."""
    if all(type(value) is str for value in values):
        return texts(values)
    if all(type(value) is int and abs(value) < 2**63 for value in values):
        return numbers(np.array(values, np.int64))
    if all(type(value) is int and 0 <= value < 2**64 for value in values):
        return numbers(np.array(values, np.uint64))
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array(list(values))
    # Of several kinds, or beyond 64 bits: what they read.
    words = [str(value) for value in values]
    if len(set(words)) < len(words):
        raise ValueError(f"the class labels {list(values)[:10]!r:.200} are of kinds that one column cannot tell apart.")
    return texts(words)
