"""Long studies that go on where they stopped: every finished cell is a line of a file."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax


class Journal:
    """The finished cells of one file, a line each, in the order of ``wanted``.

    A line that was cut off or is no cell of the study, and all that follows it, is taken away and run again.

    Parameters
    ----------
    path
        The file; its folder is made.
    wanted
        All cells that belong there, named tuples with a field ``data``, the name of their data set.
    n_shared
        How many of a cell's first fields are the same throughout the file, and are not written.
    is_sound
        Whether a record is a whole one of a cell. It may raise what damaged records raise when they are read.
    """

    def __init__(self, path: Path, wanted: Sequence[Any], n_shared: int, is_sound: Callable[[dict, Any], bool]):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.wanted, self.found = path, wanted, {}
        self._n_shared, self._is_sound = n_shared, is_sound
        content = path.read_bytes() if path.exists() else b""
        whole = 0
        for line, cell in zip(content.splitlines(keepends=True), wanted, strict=False):
            record = self._parsed(line, cell)
            if record is None:
                break
            self.found[cell] = record
            whole += len(line)
        if whole < len(content):
            path.write_bytes(content[:whole])

    def add(self, cell: Any, record: dict) -> None:
        """Write a finished cell."""
        self.found[cell] = record
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"cell": cell[self._n_shared :], **record}, separators=(",", ":")) + "\n")

    def _parsed(self, line: bytes, cell: Any) -> dict | None:
        """What a line says of a cell; None if it is damaged, or a line of something else."""
        try:
            record = json.loads(line)
            sound = line.endswith(b"\n") and record.pop("cell") == list(cell[self._n_shared :])
            return record if sound and self._is_sound(record, cell) else None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


def run_missing(
    journals: Mapping[str, Journal], load: Callable[[str], Any], run_cell: Callable[[Any, Any], dict]
) -> dict[Any, dict]:
    """Run what is missing, with progress and the time to go on standard error; returns everything."""
    found: dict[Any, dict] = {}
    left = sum(len(journal.wanted) - len(journal.found) for journal in journals.values())
    done, start = 0, time.perf_counter()
    for name, journal in journals.items():
        missing = [cell for cell in journal.wanted if cell not in journal.found]
        data = load(missing[0].data) if missing else None
        for cell in missing:
            journal.add(cell, run_cell(cell, data))
            done += 1
            minutes = (time.perf_counter() - start) / 60
            said = f"{name}: {done}/{left}, {minutes:.1f} min, about {minutes / done * (left - done):.0f} to go"
            print(f"\r{said:<70}", end="\n" if cell == missing[-1] else "", file=sys.stderr, flush=True)
        found |= journal.found
        jax.clear_caches()  # programs of all sets together are more than an operating system maps for one process
    return found


def study_options(description: str, sets: Iterable[str], results: Path) -> argparse.ArgumentParser:
    """What every study asks: where data lie, which of its sets to run, and where cells and pages go."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--data", help="folder of data sets (default: JAXUNC_DATA, else OpenML)")
    parser.add_argument(
        "--sets", nargs="+", choices=list(sets), default=list(sets), metavar="NAME", help="only these sets"
    )
    parser.add_argument("--out", type=Path, default=results, help="folder of cells, tables and figures")
    return parser
