"""Files whose structure is changed: huge numbers, lists that are repeated, brackets nested, arrays of other lengths."""

import copy
import json
import re
import struct
from typing import Any

import numpy as np

from ._mutations import _places

HUGE = (2**15, 2**24 - 1, 2**24, 2**31 - 2, 2**31, 2**32, 10**9, 2**53, 2**62, 2**63 - 1, 10**19, 10**400, -(2**31), -1)
"""Counts, sizes, places and depths that no small file has."""
LARGEST = 2_000_000  # bytes that a repeated part may take: files stay small, and so must what is made of them


def other_document(content: bytes, rng: np.random.Generator) -> bytes:
    """One or two parts of a document are huge, repeated, nested or gone; the text is JSON all the same."""
    document = json.loads(content)
    for _ in range(rng.integers(1, 3)):
        change_part(document, rng)
    text = json.dumps(document)
    if rng.random() < 0.1:  # brackets around some number, without end
        found = list(re.finditer(r"-?\d+", text))
        one, depth = found[rng.integers(len(found))], int(rng.choice([5, 300, 990, 100_000]))
        opening, closing = (("[", "]"), ('{"a":', "}"))[rng.integers(2)]
        text = text[: one.start()] + opening * depth + one[0] + closing * depth + text[one.end() :]
    return text.encode()


def change_part(document: Any, rng: np.random.Generator) -> None:
    """Change a part of a document in place, most often a number or a list."""
    places = _places(document)
    for _ in range(20):
        node, key = places[rng.integers(len(places))]
        value = node[key]
        kind = "number" if isinstance(value, int | float) else "text" if isinstance(value, str) else "list"
        if kind == "number" and not isinstance(value, bool):
            node[key] = float(rng.choice([1e308, -1e308, 3e38, 1e39])) if rng.random() < 0.1 else _huge(rng)
        elif kind == "text" and re.fullmatch(r"-?\d+(\.\d*)?(E-?\d+)?", str(value)):
            node[key] = str(_huge(rng))
        elif kind == "text" and rng.random() < 0.3:
            node[key] = value * int(rng.choice([0, 2, 10_000]))
        elif isinstance(value, list) and value:
            node[key] = _other_list(value, rng)
        elif isinstance(value, dict) and rng.random() < 0.3:
            node[key] = {f"{name}{i}": copy.deepcopy(own) for i in range(3) for name, own in value.items()}
        else:
            continue
        return


def _huge(rng: np.random.Generator) -> int:
    return HUGE[rng.integers(len(HUGE))] if rng.random() < 0.8 else int(rng.integers(0, 40))


def _other_list(value: list, rng: np.random.Generator) -> list:
    kind = rng.integers(5)
    if kind == 0:
        most = max(2, LARGEST // max(len(json.dumps(value)), 1))
        # Each part a copy of its own: what is changed next is changed once.
        return json.loads(json.dumps(value * int(min(most, rng.choice([2, 3, 100, 100_000])))))
    if kind == 1:
        return value[: rng.integers(len(value) + 1)]
    if kind == 2:
        return value[::-1]
    if kind == 3:
        return [value]
    changed = list(value)
    if all(isinstance(one, int | float) for one in value):
        changed[rng.integers(len(value))] = _huge(rng)
    else:
        changed.insert(rng.integers(len(value)), copy.deepcopy(value[rng.integers(len(value))]))
    return changed


def other_typed_array(content: bytes, rng: np.random.Generator) -> bytes:
    """An array of UBJSON claims other entries or another length, its content repeated or not."""
    found = list(re.finditer(rb"[\[{]\$(.)#([iUIlL])", content, re.DOTALL))
    sized = {"i": ">b", "U": ">B", "I": ">h", "l": ">i", "L": ">q"}
    one = found[rng.integers(len(found))]
    form = sized[one[2].decode()]
    behind = one.end() + struct.calcsize(form)
    (length,) = struct.unpack(form, content[one.end() : behind])
    kind = rng.integers(4)
    letter = rng.choice(list(b"iUIlLdDSCHTFZN[{")).tobytes() if kind != 1 else one[1]
    letter = letter[:1]
    claimed = length if kind == 0 else int(rng.choice([0, 1, length + 1, 10**6, 2**31 - 1, 2**40, 2**62, -1]))
    more = content[behind : behind + 64] * int(rng.choice([0, 0, 1000])) if kind == 3 else b""
    head = content[one.start() : one.start() + 2] + letter + b"#L" + struct.pack(">q", claimed)
    return content[: one.start()] + head + more + content[behind:]


def other_values(content: bytes, rng: np.random.Generator) -> bytes:
    """A line of LightGBM's text has huge numbers, more of them, or fewer."""
    lines = content.split(b"\n")
    places = [i for i, line in enumerate(lines) if b"=" in line]
    for at in rng.choice(places, int(rng.integers(1, 3))):
        name, _, value = lines[at].partition(b"=")
        values = value.split(b" ")
        kind = rng.integers(4)
        if kind == 0:
            values[rng.integers(len(values))] = str(_huge(rng)).encode()
        elif kind == 1:
            values = values * int(min(rng.choice([2, 3, 1000, 100_000]), max(2, LARGEST // (len(value) + 1))))
        elif kind == 2:
            values = values[: rng.integers(len(values) + 1)]
        else:
            values = [str(_huge(rng)).encode()] * len(values)
        lines[at] = name + b"=" + b" ".join(values)
    return b"\n".join(lines)


def other_sizes(content: bytes, rng: np.random.Generator) -> bytes:
    """An integer of eight bytes that may be a size claims more, and what is behind it may be there that often."""
    places = [i for i in range(len(content) - 8) if content[i + 2 : i + 8] == b"\0" * 6 and content[i]]
    at = places[rng.integers(len(places))]
    (size,) = struct.unpack("<q", content[at : at + 8])
    times = int(rng.choice([2, 3, 1000, 100_000]))
    width = size * int(rng.choice([1, 4, 8]))
    if rng.random() < 0.5 and width * times < LARGEST:
        piece = content[at + 8 : at + 8 + width]
        return content[:at] + struct.pack("<q", size * times) + piece * times + content[at + 8 + width :]
    claimed = int(rng.choice([0, size + 1, 10**6, 2**31 - 1, 2**40, 2**61, 2**62, -1]))
    return content[:at] + struct.pack("<q", claimed) + content[at + 8 :]


def other_attributes(content: bytes, rng: np.random.Generator) -> bytes:
    """Lists of a node of ONNX are longer, shorter, huge or in another's place, or a tensor has another shape."""
    import onnx

    model = onnx.ModelProto.FromString(content)
    nodes = [node for node in model.graph.node if len(node.attribute)]
    for _ in range(rng.integers(1, 3)):
        node = nodes[rng.integers(len(nodes))]
        one = node.attribute[rng.integers(len(node.attribute))]
        held: Any = next((own for own in (one.ints, one.floats, one.strings) if len(own)), None)
        if held is None:
            if one.HasField("t") and len(one.t.dims):
                one.t.dims[0] = min(2**63 - 1, abs(_huge(rng)))
            elif one.type == onnx.AttributeProto.INT:
                one.i = max(-(2**63), min(2**63 - 1, _huge(rng)))
            else:
                one.name = node.attribute[rng.integers(len(node.attribute))].name
            continue
        values, kind = list(held), rng.integers(4)
        if kind == 0:
            values = values * int(min(rng.choice([2, 3, 1000]), max(2, 100_000 // len(values))))
        elif kind == 1:
            values = values[: rng.integers(len(values) + 1)]
        elif kind == 2 and held is one.ints:
            values[rng.integers(len(values))] = max(-(2**63), min(2**63 - 1, _huge(rng)))
        else:
            values = values[::-1]
        del held[:]
        held.extend(values)
    return model.SerializeToString()
