"""Model files as data: nested dictionaries, of which every part is checked where it is read."""

import json
from typing import Any

import numpy as np

from ._content import content_of
from ._ubjson import read_ubjson

BINARY_XGBOOST = "a binary file of an old XGBoost; write it by booster.save_model('model.json') there"
"""What such a file is, and what to do about it."""
_MOST, _LARGEST_FLOAT = 2**53, 2**1023


def read_document(source: Any, library: str) -> dict[str, Any]:
    """Return the content of a model file, JSON or UBJSON, given by its path, its bytes or its text.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it holds neither, or no object.
    """
    content = content_of(source)
    if is_binary_xgboost(content):
        raise ValueError(f"the {library} model is {BINARY_XGBOOST}.")
    try:
        # Both begin with a brace. In text a quote, a brace or white space follows; in UBJSON the length of a name.
        found = (
            json.loads(content)
            if content.lstrip()[1:2] in (b'"', b"}", b"\n", b"\r", b"\t", b" ")
            else read_ubjson(content)
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the {library} model is neither JSON nor UBJSON: {error}. Save it again.") from error
    if not isinstance(found, dict):
        raise ValueError(f"the {library} model is a {type(found).__name__} at its top; expected an object.")
    return found


def is_binary_xgboost(content: bytes) -> bool:
    """Return whether a file is in the old binary format: a base score in float32, behind a word since XGBoost 1.1."""
    # Of the first parameters those after the version are none yet.
    unused = content[28:64]
    is_plain = len(unused) == 36 and not any(unused) and content[3:4] in (b"\x3e", b"\x3f", b"\x40")
    return content.startswith(b"binf") or is_plain


def part(document: Any, *path: str, kind: type | tuple[type, ...] = dict) -> Any:
    """Return what lies at a path of names; a ValueError that names the path if nothing of the kind does."""
    for i, name in enumerate(path):
        if not isinstance(document, dict) or name not in document:
            raise ValueError(f"the model has no {'.'.join(path[: i + 1])}; is the file whole?")
        document = document[name]
    if isinstance(document, int) and abs(document) > _LARGEST_FLOAT:
        raise ValueError(f"the model's {'.'.join(path)} is an integer of {document.bit_length()} bits.")
    if not isinstance(document, kind) or (isinstance(document, bool) and kind is not bool):
        raise ValueError(f"the model's {'.'.join(path)} is a {type(document).__name__}: {document!r:.60}.")
    return document


def integer(document: Any, *path: str) -> int:
    """Return the integer at a path, which some libraries write as text."""
    found = part(document, *path, kind=(int, str))
    try:
        number = int(found)
    except ValueError:
        number = _MOST
    if abs(number) >= _MOST:
        raise ValueError(f"the model's {'.'.join(path)} is {str(found)[:60]!r}; expected an integer.")
    return number


def numbers(document: Any, name: str, dtype: Any) -> np.ndarray:
    """Return a list of numbers as an array."""
    found = part(document, name, kind=(list, np.ndarray))
    try:
        with np.errstate(all="ignore"):
            wide = np.asarray(found, np.float64 if np.dtype(dtype).kind == "f" else None)
    except (ValueError, TypeError, OverflowError):
        wide = np.zeros((0, 0))
    if wide.size == 0 and wide.ndim == 1:
        return np.zeros(0, dtype)
    whole = wide.dtype.kind in "iub" and np.all((wide >= -(2**31)) & (wide < 2**31))
    if wide.ndim != 1 or not (np.dtype(dtype).kind == "f" or whole):
        raise ValueError(f"the model's {name} is {found!r:.60}; expected a list of numbers.")
    with np.errstate(over="ignore"):
        return wide.astype(dtype)
