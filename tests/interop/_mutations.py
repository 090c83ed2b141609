"""Files of other libraries that were damaged, by accident or on purpose."""

import copy
import json
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

Mutation = Callable[[bytes, np.random.Generator], bytes]

ODD = ("-1", "0", "1", "7", "2147483647", "-2147483648", "4294967296", "16777215", "1e39", "-1e400", "1e-320", "nan")
ODD += ("inf", "NaN", "-Infinity", "9" * 30, "9" * 5000, "0.5", "true", "null", '""', "[]", "{}", "1_0", "\u0663")
"""What may stand in the place of a number."""
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**63, 10**400, 0.5, float("nan"), float("inf"), "", "9", "x" * 300,
)  # fmt: skip
VALUES += ([], {}, [[]], [1, [2]], ["a"], [None], {"a": 1}, [0] * 1000)
"""What may stand in the place of any part of a document."""


def flip_bits(content: bytes, rng: np.random.Generator) -> bytes:
    damaged = bytearray(content)
    for place in rng.integers(len(damaged), size=rng.integers(1, 9)):
        damaged[place] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def other_letters(content: bytes, rng: np.random.Generator) -> bytes:
    """Up to four bytes become others that such text may hold."""
    damaged = bytearray(content)
    for place in rng.integers(len(damaged), size=rng.integers(1, 5)):
        damaged[place] = rng.choice(list(b'0123456789-+.eE[]{}",:= \nnulltrue'))
    return bytes(damaged)


def truncate(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut off somewhere, a piece in the middle lost or there twice, or something appended."""
    first, last = np.sort(rng.integers(len(content) + 1, size=2))
    kind = rng.integers(4)
    if kind == 0:
        return content + rng.bytes(int(rng.integers(1, 100)))
    if kind == 1:
        return content[:first]
    return content[:first] + content[last:] if kind == 2 else content[:last] + content[first:]


def other_numbers(content: bytes, rng: np.random.Generator) -> bytes:
    """Up to three numbers of a text become odd ones, or those of another place."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?(e-?\d+)?", content))
    for one in sorted(rng.choice(len(found), int(rng.integers(1, 4))), reverse=True):
        other = rng.choice(ODD).encode() if rng.random() < 0.7 else found[rng.integers(len(found))][0]
        content = content[: found[one].start()] + other + content[found[one].end() :]
    return content


def other_lines(content: bytes, rng: np.random.Generator) -> bytes:
    lines = content.split(b"\n")
    one, other = rng.integers(len(lines), size=2)
    kind = rng.integers(3)
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines.insert(other, lines[one])
    else:
        lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def other_parts(content: bytes, rng: np.random.Generator) -> bytes:
    """Up to three parts of a document lost, of another kind, or in another's place; or one within itself."""
    document = json.loads(content)
    for _ in range(rng.integers(1, 4)):
        places = _places(document)
        node, key = places[rng.integers(len(places))]
        kind = rng.integers(4)
        if kind == 0:
            del node[key]
        elif kind == 1:
            node[key] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
        elif kind == 2:
            other, there = places[rng.integers(len(places))]
            node[key] = copy.deepcopy(other[there])
        else:
            node[key] = {str(key): node[key]} if rng.random() < 0.5 else [node[key]]
    return json.dumps(document).encode()


def _places(document: Any) -> list[tuple[Any, Any]]:
    """All places of a document where a part is, as what holds it and the key there."""
    found: list[tuple[Any, Any]] = []
    waiting = [document]
    for node in waiting:  # which grows
        keys = list(node) if isinstance(node, dict) else range(len(node))
        found += [(node, key) for key in keys]
        waiting += [node[key] for key in keys if isinstance(node[key], dict | list)]
    return found or [({"": document}, "")]


def claim(content: bytes, rng: np.random.Generator) -> bytes:
    """A few bytes become an integer of four or eight bytes, in either order: sizes far beyond what is there."""
    value = int(rng.choice([-1, 0, 1, 2, 255, 65536, 10**6, 2**24, 2**31 - 1]))
    kinds = "<i", ">i", "<q", ">q"
    packed = struct.pack(kinds[rng.integers(4)], value) if rng.random() < 0.8 else struct.pack("<q", 2**62)
    place = int(rng.integers(len(content)))
    return content[:place] + packed + content[place + len(packed) :]


BINARY: tuple[Mutation, ...] = (flip_bits, truncate, claim, claim)
JSON: tuple[Mutation, ...] = (flip_bits, other_letters, truncate, other_numbers, other_parts, other_parts)
LINES: tuple[Mutation, ...] = (flip_bits, other_letters, truncate, other_numbers, other_numbers, other_lines)
