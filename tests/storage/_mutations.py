"""Files that were damaged, by accident or on purpose."""

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.interop._mutations import Mutation, _places, flip_bits
from tests.interop._structural import change_part


def split(content: bytes) -> tuple[dict, bytes]:
    """The header of a file of safetensors, and its arrays."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def arrays_in(header: dict) -> list[str]:
    return [name for name in header if name != "__metadata__"]


def changed_document(content: bytes, change: Callable[[dict], Any]) -> bytes:
    """The file with a document that was changed in its place."""
    header, arrays = split(content)
    document = json.loads(header["__metadata__"]["jaxunc"])
    change(document)
    header["__metadata__"]["jaxunc"] = json.dumps(document)
    return joined(header, arrays)


def joined(header: dict, arrays: bytes) -> bytes:
    """The file of a header and arrays."""
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + arrays


def flip_header(content: bytes, rng: np.random.Generator) -> bytes:
    """Up to four bytes of the header become others that a header may hold."""
    (length,) = struct.unpack("<Q", content[:8])
    damaged = bytearray(content)
    for place in rng.integers(8, 8 + length, size=rng.integers(1, 5)):
        damaged[place] = b'0123456789-.,:"{}[]aefnrstu\\'[rng.integers(28)]
    return bytes(damaged)


def truncate(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut off somewhere, or something appended."""
    if rng.random() < 0.2:
        return content + rng.bytes(int(rng.integers(1, 100)))
    return content[: rng.integers(len(content))]


def splice(content: bytes, rng: np.random.Generator) -> bytes:
    """Entries of the header with each other's shapes, types and places; documents within documents."""
    kind = rng.integers(5)
    if kind == 3:
        return changed_document(content, lambda document: _swap(document, rng))
    header, arrays = split(content)
    first, second = rng.choice(arrays_in(header), 2, replace=False)
    if kind == 0:
        header[first], header[second] = header[second], header[first]
    elif kind == 1:
        header[first] = header[second]
    elif kind == 2:
        header[first]["dtype"] = str(rng.choice(["F32", "I32", "BOOL", "U8", "F64", "I64", "BF16", "F8_E4M3"]))
    else:
        del header[first]
    return joined(header, arrays)


def _swap(document: dict, rng: np.random.Generator) -> None:
    places = _places(document)
    (one, at), (other, there) = (places[i] for i in rng.integers(len(places), size=2))
    one[at], other[there] = json.loads(json.dumps(other[there])), json.loads(json.dumps(one[at]))


def change_values(content: bytes, rng: np.random.Generator) -> bytes:
    """Indices out of range, cycles, depths and counts that cannot be, in one array."""
    header, arrays = split(content)
    start, stop = header[str(rng.choice(arrays_in(header)))]["data_offsets"]
    damaged = bytearray(arrays)
    if stop - start >= 4:
        place = start + 4 * int(rng.integers((stop - start) // 4))
        values = [-1, -(2**31), 2**31 - 1, 0, 1, int(rng.integers(64)), int(rng.integers(-100, 100)), 2139095040]
        damaged[place : place + 4] = struct.pack("<i", values[rng.integers(len(values))])
    elif stop > start:
        damaged[start] = int(rng.integers(256))
    return joined(header, bytes(damaged))


def claim(content: bytes, rng: np.random.Generator) -> bytes:
    """Sizes and numbers far beyond what is there."""
    header, arrays = split(content)
    huge = int(rng.choice([2**31, 2**40, 2**63 - 1, 10**6]))
    kind, name = rng.integers(4), str(rng.choice(arrays_in(header)))
    if kind == 0:
        return struct.pack("<Q", huge) + content[8:]
    if kind == 1:
        header[name]["shape"] = [huge] * int(rng.integers(1, 3))
    elif kind == 2:
        header[name]["data_offsets"] = [0, huge]
    else:
        text = header["__metadata__"]["jaxunc"]
        digits = [i for i, letter in enumerate(text) if letter.isdigit()]
        place = digits[rng.integers(len(digits))]
        header["__metadata__"]["jaxunc"] = text[:place] + str(huge) * int(rng.integers(1, 4)) + text[place + 1 :]
    return joined(header, arrays)


MUTATIONS: tuple[Mutation, ...] = (flip_bits, flip_header, truncate, splice, change_values, claim)


def other_structure(content: bytes, rng: np.random.Generator) -> bytes:
    """A document with huge numbers and repeated lists; arrays that are longer, shorter or of another shape, soundly."""
    n_documents, n_arrays = [(1, 0), (0, 1), (2, 0), (0, 2), (1, 1)][rng.integers(5)]
    for _ in range(n_documents):
        content = changed_document(content, lambda document: change_part(document, rng))
    header, arrays = split(content)
    names = arrays_in(header)
    pieces = {name: arrays[slice(*header[name]["data_offsets"])] for name in names}
    for _ in range(n_arrays if names else 0):
        name = str(rng.choice(names))
        shape, piece = header[name]["shape"], pieces[name]
        kind = rng.integers(5)
        if kind == 0 and shape:
            times = int(rng.choice([0, 2, 3, 1000]))
            shape, piece = [times * shape[0], *shape[1:]], piece * times
        elif kind == 1 and shape and shape[0] > 0:
            size = len(piece) // shape[0]
            shape, piece = [shape[0] - 1, *shape[1:]], piece[size:]
        elif kind == 2:
            shape = shape[::-1]
        elif kind == 3:
            shape = [1, *shape] if rng.random() < 0.5 else [*shape, 1]
        else:
            shape, piece = [0, *shape], b""
        header[name]["shape"], pieces[name] = shape, piece
    at = 0
    for name in names:
        header[name]["data_offsets"] = [at, at + len(pieces[name])]
        at += len(pieces[name])
    return joined(header, b"".join(pieces[name] for name in names))
