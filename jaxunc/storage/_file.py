"""Files of arrays and one JSON document, by safetensors; and descriptions of files, read from their headers."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save_file

from ._names import REGRESSOR

FORMAT_VERSION = 1
"""Version of the document's format, its "form", that this jaxunc writes, and the newest that it reads."""
LARGEST_DOCUMENT = 2**24
"""Most characters of a document; it is short, since long lists are arrays."""
KEY = "jaxunc"  # name of the document in the header's metadata
PLAIN = {"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"}
"""Dtypes of arrays that files hold."""


class Content(NamedTuple):
    """Contents of a file: its document, and its arrays by name."""

    document: dict[str, Any]
    arrays: dict[str, np.ndarray]


class Header(NamedTuple):
    """Header of a file: its document, and the shape and type of each array, by name."""

    document: dict[str, Any]
    shapes: dict[str, tuple[tuple[int, ...], str]]


def write(path: str | Path, document: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a document and arrays to the file ``path`` in one step: nobody sees a file that is partly written.

    Raises a ValueError if the document is too long, and an OSError if the file cannot be written.
    """
    path = Path(path)
    text = text_of(document)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; add the name of a file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: {path.parent} is no folder. Make it first.")
    # In the same folder, so that the last step is a rename within one file system, which is atomic.
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    try:
        # C order: safetensors writes strided arrays in the wrong order, without an error.
        save_file({key: np.asarray(array, order="C") for key, array in arrays.items()}, name, metadata={KEY: text})
        # A file of mkstemp can be read by its owner alone; a saved model has the rights of any new file. The process's
        # mask of rights is read by setting it, and is set back at once.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except SafetensorError as error:  # a full disk, say
        raise OSError(f"{path} could not be written: {error}") from error
    finally:
        Path(name).unlink(missing_ok=True)


def text_of(document: dict[str, Any]) -> str:
    """Return a document as JSON; raise a ValueError if it has more than `LARGEST_DOCUMENT` characters."""
    text = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    if len(text) > LARGEST_DOCUMENT:
        raise ValueError(f"the description of this object takes {len(text)} characters; a file has {LARGEST_DOCUMENT}.")
    return text


def read(path: str | Path) -> Content:
    """Return the document and the arrays of a file; raise a ValueError if it is damaged, or not of `jaxunc.save`.

    Raises an OSError if the file does not exist or cannot be read.
    """
    _check_path(path)
    try:
        # Read, not mapped into memory: if a mapped file is cut off meanwhile, access to its pages kills the process.
        content = Path(path).read_bytes()
        arrays = load(content)
        document = document_of(path, (_metadata(content) or {}).get(KEY))
    except (SafetensorError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise _damaged(path, str(error)) from error
    check_arrays(path, arrays)
    return Content(document, arrays)


def check_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise a ValueError, which names ``path``, for dtypes not in `PLAIN`, and for bools whose bytes are not 0 or 1."""
    for name, array in arrays.items():
        if array.dtype.name not in PLAIN:
            raise _damaged(path, f"{name} is of type {array.dtype}")
        # NumPy takes any byte for a bool, and later computations would disagree about its value.
        if array.dtype == bool and array.size and array.view(np.uint8).max() > 1:
            raise _damaged(path, f"{name} holds bytes that are neither true nor false")


def read_header(path: str | Path) -> Header:
    """Return a file's document, and the shapes and types of its arrays, which are not read.

    Raises the errors of `read`.
    """
    _check_path(path)
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            document = document_of(path, (file.metadata() or {}).get(KEY))
            slices = {name: file.get_slice(name) for name in list(file.keys())}
            shapes = {name: (tuple(array.get_shape()), array.get_dtype()) for name, array in slices.items()}
            return Header(document, shapes)
    except (SafetensorError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise _damaged(path, str(error)) from error


def _metadata(content: bytes) -> Any:
    """Return the ``__metadata__`` in the header of a file with the bytes ``content``; None if it has none."""
    # The first eight bytes are the length of the header, which follows.
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]).get("__metadata__")


def _check_path(path: str | Path) -> None:
    """Raise a ValueError unless ``path`` is a path, an OSError unless it leads to a file that may be read."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path is a {type(path).__name__}; pass the path of a file that jaxunc.save wrote.")
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist; pass a file of jaxunc.save or of the command jaxunc fit.")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder; pass a file of jaxunc.save or of the command jaxunc fit.")
    with open(path, "rb"):
        pass  # raises if the file may not be read


def document_of(path: str | Path, text: str | None) -> dict[str, Any]:
    """Return the document that ``text`` holds as JSON; raise a ValueError if this version of jaxunc does not read it.

    The error is also raised for None, of a file without a document. ``path`` names the file in messages.
    """
    if text is None:
        raise ValueError(f"{path} is a file of safetensors, but none of jaxunc: its header has no entry {KEY!r}.")
    if len(text) > LARGEST_DOCUMENT:
        raise _damaged(path, f"its document has {len(text)} characters")
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"its document is no JSON ({error})") from error
    form = document.get("form") if isinstance(document, dict) else None
    if isinstance(form, bool) or not isinstance(form, int) or form < 1 or "object" not in document:
        raise _damaged(path, "its document says neither its form nor an object")
    if form > FORMAT_VERSION:
        raise ValueError(
            f"{path} has form {form}, written by jaxunc {str(document.get('version'))[:40]}; this one reads forms up "
            f"to {FORMAT_VERSION}. Install a newer jaxunc, or save it again with an older one."
        )
    return document


def _no_constant(name: str) -> None:
    """Raise a ValueError for a constant that Python's reader of JSON takes, but JSON does not have, such as NaN."""
    raise ValueError(f"{name} is no JSON")


def _damaged(path: str | Path, why: str) -> ValueError:
    """Return the error for a damaged file; ``why`` is the reason, after a colon."""
    return ValueError(
        f"{path} is damaged, or no file that jaxunc.save wrote: {why[:300]}. (jaxunc.from_any reads other libraries'.)"
    )


class Description(NamedTuple):
    """Contents of a file as its header claims them; None where it claims nothing."""

    kind: str
    """Kind of the object: ``"Forest"``, ``"bound forest"``, the class of a combiner or an estimator, …"""
    version: str
    """Version of the jaxunc that wrote the file."""
    combiner: str | None
    """Name of the combiner, where there is one."""
    n_trees: int | None
    n_nodes: int | None
    """Number of node slots of a tree, padding included."""
    columns: int | None
    """Number of columns that the data must have."""
    column_names: tuple[str, ...] | None
    class_labels: tuple[Any, ...] | None
    arrays: dict[str, tuple[tuple[int, ...], str]]
    """Shape and type of every array, by name."""
    n_bytes: int
    """Size of the file in bytes."""
    parameters: dict[str, Any]
    """Parameters of an estimator that are numbers or strings."""
    pipeline: tuple[str, ...] | None = None
    """Steps of the pipeline before the forest; then ``columns`` and ``column_names`` are raw columns. None without."""


def describe(path: str | Path) -> Description:
    """Return what a file of `jaxunc.save` claims in its header to hold; only `jaxunc.load` checks the claims.

    Parameters
    ----------
    path
        Path of the file.

    Returns
    -------
    Description
        What the header claims; arrays are not read.

    Raises
    ------
    ValueError
        If it is not a file of `jaxunc.save`, or of a newer form.
    OSError
        If there is no such file, or it cannot be read.
    """
    header = read_header(path)
    # A header is unchecked: entries of an unexpected type are passed over, without an error.
    root = _as_dict(header.document["object"])
    nodes = list(_within(root, depth=0))
    columns = _fields(nodes, "Columns")
    fitted = _as_dict(root.get("fitted"))
    names = _entries(columns.get("names"))
    n_columns = columns.get("number")
    labels = _entries(_fields(nodes, "Forest").get("class_labels"))
    names_in_fit = _entries(_as_dict(fitted.get("feature_names_in_")).get("labels"))
    steps = _steps(fitted.get("transformers"))
    if steps is not None:  # the columns of the data are those of the pipeline
        names = names_in_fit
        n_columns = fitted.get("n_features_in_")
    if _kind(root) == REGRESSOR:
        names = names or names_in_fit
        labels = None  # the classes of a regressor's forest are bins of a number
    params = _as_dict(root.get("params"))
    n_trees, n_nodes = _tree_sizes(header.shapes)
    return Description(
        kind=_kind(root),
        version=str(header.document.get("version"))[:40],
        combiner=_combiner(root),
        n_trees=n_trees,
        n_nodes=n_nodes,
        columns=n_columns if isinstance(n_columns, int) else None,
        column_names=names,
        class_labels=labels,
        arrays=header.shapes,
        n_bytes=Path(path).stat().st_size,
        parameters={name: value for name, value in params.items() if not isinstance(value, dict)},
        pipeline=steps,
    )


def _as_dict(node: Any) -> dict:
    """Return a node of a document if it is a dict, else an empty dict."""
    return node if isinstance(node, dict) else {}


def _tree_sizes(shapes: dict[str, tuple[tuple[int, ...], str]]) -> tuple[int | None, int | None]:
    """Return the numbers of trees and of nodes of a tree, by {name of an array: (shape, type)}; None without trees."""
    # Each node's child is in an array [trees nodes], whose name ends with "child".
    shape = next((shape for name, (shape, _) in shapes.items() if name.endswith("child")), ())
    if len(shape) != 2:
        return None, None
    n_trees, n_nodes = shape
    return n_trees, n_nodes


def _steps(node: Any) -> tuple | None:
    """Return the descriptions of a pipeline's transformers, from the document's node for them; None without any."""
    return _entries(_as_dict(_as_dict(node).get("dict")).get("steps"))


def _within(node: Any, depth: int) -> Iterator[dict]:
    """Yield all dicts within a document's node, itself first if it is one; ``depth`` nodes enclose it."""
    if depth > 64:  # deeper ones are passed over, to bound the recursion
        return
    parts: Any = ()
    if isinstance(node, dict):
        yield node
        parts = node.values()
    elif isinstance(node, list):
        parts = node
    for part in parts:
        yield from _within(part, depth + 1)


def _fields(nodes: list[dict], name: str) -> dict[str, Any]:
    """Return {field: node} of the first node of the class ``name``; empty if there is none."""
    return _as_dict(next((node["fields"] for node in nodes if node.get("class") == name and "fields" in node), {}))


def _entries(node: Any) -> tuple | None:
    """Return the tuple that a document's node describes; None for a node that describes no tuple of plain values."""
    entries = _as_dict(node).get("tuple")
    if not isinstance(entries, list) or any(isinstance(entry, dict | list) for entry in entries):
        return None
    return tuple(entries)


def _kind(root: dict) -> str:
    """Return the kind of the object that a document's root describes, such as "Forest" or "bound forest"."""
    if "bound" in root:
        return "bound forest"
    if "vote" in root:
        return "bound vote"
    return str(root.get("class") or root.get("estimator") or "value")[:100]


def _combiner(root: dict) -> str | None:
    """Return the name of the combiner of the object that a document's root describes; None without one."""
    node = _as_dict(root.get("combiner") or _as_dict(root.get("fitted")).get("combiner_"))
    return str(node["class"])[:100] if "class" in node else None
