"""LightGBM's model files: lines of names and values, a block for each tree."""

import json
import re
from typing import Any, NamedTuple

import numpy as np

from ._content import content_of

_ENDS = (b"end of trees", b"feature importances:", b"feature_importances:")
"""What stands behind the trees: files before LightGBM 2.2 lack the first."""


class ModelText(NamedTuple):
    """The parts of a model file that predictions rest on."""

    header: dict[str, str]
    """What stands before the trees."""
    trees: list[dict[str, str]]
    """The lines of every tree."""
    parameters: dict[str, str]
    """What the model was trained with, where the file knows it."""
    pandas_categorical: list[Any]
    """The categories of the frame's category columns, in order."""


def read_model_text(source: Any) -> ModelText:
    """Read a model file, given by its path, its bytes or its text.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no such file, or not whole.
    """
    content = content_of(source).replace(b"\r\n", b"\n")
    if not content.startswith(b"tree\n"):
        raise ValueError(f"the LightGBM model begins with {content[:20]!r}; expected a text file of save_model.")
    place = content.find(b"\nTree=0\n") + 1
    if place == 0:
        raise ValueError("the LightGBM model has no trees.")
    header = _pairs(content[:place])
    blocks, rest = _blocks(header, content[place:])
    if not rest.startswith(_ENDS):
        raise ValueError("the LightGBM model goes on after the trees that it counts; is the file whole?")
    _check_end(header, rest)
    return ModelText(header, [_pairs(block) for block in blocks], _parameters(rest), _pandas_categorical(rest))


def _blocks(header: dict[str, str], content: bytes) -> tuple[list[bytes], bytes]:
    """The trees, and what is behind them."""
    if "tree_sizes" not in header:  # which only the first files of v2 lack
        trees, *last = re.split(rb"\n(?=end of trees|feature.importances:)", content, maxsplit=1)
        return re.split(rb"\n(?=Tree=)", trees), b"".join(last)
    blocks, place = [], 0
    for t, size in enumerate(row(header, "tree_sizes", np.int64).tolist()):
        blocks.append(content[place : place + max(size, 0)])
        if not blocks[-1].startswith(b"Tree=%d\n" % t) or size > len(blocks[-1]):
            raise ValueError(f"the LightGBM model's tree_sizes do not lead to tree {t}; is the file whole?")
        place += size
    return blocks, content[place:].lstrip()


def row(lines: dict[str, str], name: str, dtype: Any, number: int | None = None) -> np.ndarray:
    """Return the numbers of a line; a ValueError that names it if there are none, or not so many."""
    words = text(lines, name).split()
    if number is not None and len(words) != number:
        raise ValueError(f"the LightGBM model has {len(words)} numbers as {name}; expected {number}.")
    try:
        return np.array(words, dtype)
    except (ValueError, OverflowError):
        raise ValueError(f"the LightGBM model's {name} is {lines[name]!r:.60}; expected numbers.") from None


def integer(lines: dict[str, str], name: str) -> int:
    """Return the integer of a line."""
    return int(row(lines, name, np.int64, 1)[0])


def text(lines: dict[str, str], name: str) -> str:
    """Return what a line holds."""
    if name not in lines:
        raise ValueError(f"the LightGBM model has no {name}; is the file whole?")
    return lines[name]


def _pairs(block: bytes) -> dict[str, str]:
    try:
        lines = block.decode().split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"the LightGBM model holds bytes that are no text: {error}.") from error
    return {name: value for name, _, value in (line.partition("=") for line in lines if line)}


def _check_end(header: dict[str, str], rest: bytes) -> None:
    """Raise a ValueError if what stands behind the trees was cut off: there the categories of a frame are."""
    _, found, last = rest.partition(b"\nend of parameters")
    if not (found or rest.startswith(_ENDS[0])):  # before LightGBM 2.2 files told no parameters
        found = b"\npandas_categorical:" in rest
    last = re.sub(rb"\nparser:\n.*\nend of parser\n", b"\n", last, flags=re.DOTALL)
    has_sets = any(known != "none" and not known.startswith("[") for known in header.get("feature_infos", "").split())
    begins = b"\nparameters:" in rest
    if (not found and (begins or has_sets)) or (last.strip() and not last.strip().startswith(b"pandas_categorical:")):
        raise ValueError(
            "the LightGBM model's last lines, behind its trees, are missing or cut off; is the file whole?"
        )


def _parameters(rest: bytes) -> dict[str, str]:
    """The lines ``[name: value]``."""
    start, end = rest.find(b"\nparameters:\n"), rest.find(b"\nend of parameters")
    lines = rest[start:end].decode(errors="replace").split("\n") if 0 <= start < end else ()
    return {name: value for name, _, value in (line.strip("[]").partition(": ") for line in lines)}


def _pandas_categorical(rest: bytes) -> list[Any]:
    last = rest.rstrip().rpartition(b"\n")[2]
    name, _, document = last.partition(b":")
    if name != b"pandas_categorical":
        return []
    try:
        found = json.loads(document) or []
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the LightGBM model's pandas_categorical is no JSON: {error}.") from error
    if not isinstance(found, list) or not all(isinstance(values, list) for values in found):
        raise ValueError(f"the LightGBM model's pandas_categorical is {found!r:.60}; expected lists of categories.")
    return found
