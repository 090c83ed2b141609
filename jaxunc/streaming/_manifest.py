"""The manifest of a run, read as what a stranger may have written: names and numbers are those of a run, or refused."""

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

MANIFEST = "_manifest.json"
"""Readers of folders pass over names that start so."""
LEAST_BUDGET, ENTRY_BYTES = 2**24, 2**10
"""Bytes that a manifest may have, and how many more for each file that is read or lies in the folder."""
_PART = re.compile(r"part-(\d{5,})-(\d{5,})\.(parquet|csv)", re.ASCII)


class DamagedError(ValueError):
    """A manifest is none of a run; the message goes on from its path."""


def part_name(file: int, part: int) -> str:
    """Return the name of a part, without its ending."""
    return f"part-{file:05d}-{part:05d}"


def part_of(name: str) -> tuple[int, int] | None:
    """Return the file and the number of a part by its name; None if no run gives such a name."""
    found = _PART.fullmatch(name)
    if found is None or part_name(int(found[1]), int(found[2])) != name.rpartition(".")[0]:
        return None
    return int(found[1]), int(found[2])


def is_plain_file(path: Path) -> bool:
    """Return whether a file lies there itself: no link, folder or device."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def read_manifest(path: Path, n_inputs: int) -> dict[str, Any]:
    """Return a manifest whose entries are of their kinds; raises a DamagedError that says what is not.

    Parameters
    ----------
    path
        Path of the manifest.
    n_inputs
        How many files are read now, which bounds what a manifest may take.
    """
    if not is_plain_file(path):
        raise DamagedError("it is no file, but a link, a folder or a device")
    budget = LEAST_BUDGET + ENTRY_BYTES * (n_inputs + len(os.listdir(path.parent)))
    if (size := path.stat().st_size) > budget:
        raise DamagedError(f"it has {size} bytes, more than its files explain")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it is no JSON: {str(error)[:100]}") from error
    if not isinstance(manifest, dict):
        raise DamagedError(f"it is a {type(manifest).__name__}, no object")
    for name, kind in (("settings", dict), ("inputs", list), ("parts", list), ("model", str), ("jaxunc", str)):
        if not isinstance(manifest.get(name), kind):
            raise DamagedError(f"its {name!r} is {manifest.get(name)!r:.60}")
    _check_inputs(manifest["inputs"])
    _check_parts(manifest)
    return manifest


def _check_inputs(inputs: list[Any]) -> None:
    for one in inputs:
        is_named = isinstance(one, dict) and one.keys() == {"name", "bytes", "modified"} and type(one["name"]) is str
        if not is_named or type(one["modified"]) is not int or not _is_count(one["bytes"]):
            raise DamagedError(f"its inputs hold {one!r:.80}, which is no file")


def _check_parts(manifest: dict[str, Any]) -> None:
    """Raise a DamagedError unless the parts are those of its inputs, each once."""
    ending, seen = f".{manifest['settings'].get('file_format')}", set()
    for part in manifest["parts"]:
        if not isinstance(part, dict) or part.keys() != {"name", "file", "rows", "bytes"}:
            raise DamagedError(f"its parts hold {part!r:.80}, which is none")
        name = part["name"]
        own = part_of(name) if isinstance(name, str) and name.endswith(ending) else None
        if own is None or type(part["file"]) is not int or own[0] != part["file"]:
            raise DamagedError(f"its part {name!r:.80} has no name of a part of file {part['file']!r:.30}")
        if name in seen or part["file"] >= len(manifest["inputs"]):
            raise DamagedError(f"its part {name!r} is there twice, or of a file that is not among its inputs")
        if not _is_count(part["rows"]) or not _is_count(part["bytes"]):
            raise DamagedError(f"its part {name!r} has rows={part['rows']!r:.30} and bytes={part['bytes']!r:.30}")
        seen.add(name)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63
