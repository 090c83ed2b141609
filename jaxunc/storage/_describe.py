"""Descriptions of files, made without loading them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ._file import read_header


class Description(NamedTuple):
    """Contents of a file as its header claims them."""

    kind: str
    """Kind of the object: ``"Forest"``, ``"bound forest"``, the class of a rule or an estimator, …"""
    version: str
    """Version of the jaxunc that wrote the file."""
    combiner: str | None
    """Name of the rule, where there is one."""
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


def describe(path: str | Path) -> Description:
    """Read the header of a file that `jaxunc.save` wrote: what it claims to hold. `jaxunc.load` checks the rest.

    Raises a ValueError if it is no such file, an OSError if it cannot be read.

    Parameters
    ----------
    path
        Path of the file.

    Returns
    -------
    Description
        What the header claims; arrays are not read.
    """
    header = read_header(path)
    root = header.document["object"]
    # The header is what a file claims, unchecked: whatever has another shape is passed over, never an error.
    root = root if isinstance(root, dict) else {}
    nodes = list(_within(root, 0))
    forest = _fields(nodes, "Forest")
    columns = _fields(nodes, "Columns")
    shape = next((shape for name, (shape, _) in header.shapes.items() if name.endswith("child")), (None, None))
    names, labels = _entries(columns.get("names")), _entries(forest.get("class_labels"))
    number = columns.get("number")
    params = root.get("params")
    plain = {k: v for k, v in params.items() if not isinstance(v, dict)} if isinstance(params, dict) else {}
    return Description(
        kind=_kind(root),
        version=str(header.document.get("version"))[:40],
        combiner=_combiner(root),
        n_trees=shape[0] if len(shape) == 2 else None,
        n_nodes=shape[1] if len(shape) == 2 else None,
        columns=number if isinstance(number, int) else None,
        column_names=names,
        class_labels=labels,
        arrays=header.shapes,
        n_bytes=Path(path).stat().st_size,
        parameters=plain,
    )


def _within(node: Any, depth: int) -> Iterator[dict]:
    if depth > 64:
        return
    if isinstance(node, dict):
        yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _within(part, depth + 1)


def _fields(nodes: list[dict], name: str) -> dict[str, Any]:
    found = next((node["fields"] for node in nodes if node.get("class") == name and "fields" in node), {})
    return found if isinstance(found, dict) else {}


def _entries(node: Any) -> tuple | None:
    entries = node.get("tuple") if isinstance(node, dict) else None
    if not isinstance(entries, list) or any(isinstance(entry, dict | list) for entry in entries):
        return None
    return tuple(entries)


def _kind(root: dict) -> str:
    if "bound" in root:
        return "bound forest"
    if "vote" in root:
        return "bound vote"
    return str(root.get("class") or root.get("estimator") or "value")[:100]


def _combiner(root: dict) -> str | None:
    node = root.get("combiner") or (root.get("fitted") or {}).get("combiner_") if isinstance(root, dict) else None
    return str(node["class"])[:100] if isinstance(node, dict) and "class" in node else None
