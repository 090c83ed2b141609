"""Cells of studies: kept in one compressed file each, written as a study goes, and not run again.

A cell is one unit of work of a study: a forest on a fold of a data set, say. What is found of it is a line

    {"cell": [part, data set, …], …}

The committed lines of a study lie in ``cells.jsonl.gz`` of its folder, sorted by cell. A run appends each cell that it
finishes to ``cells.jsonl`` beside it. The end of a run packs both into the first, which has the same bytes whether the
run was interrupted or not (if the same zlib packs them). A line that was cut off, or does not hold what its study
expects, counts as not there: its cell is run again.
"""

import argparse
import functools
import gzip
import json
import sys
import time
import warnings
from collections import Counter, namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold

from jaxunc.counting import PureLeavesWarning

PACKED, RUNNING = "cells.jsonl.gz", "cells.jsonl"
Key = tuple[str | int, ...]


def study_options(
    about: str, results: Path, sets: Iterable[str] | None = None, parts: Iterable[str] = ()
) -> argparse.ArgumentParser:
    """The options of a study: where data lie, which sets and parts to run, and where cells and pages go."""
    name = results.name
    parser = argparse.ArgumentParser(f"python -m benchmarks {name}", description=about.splitlines()[0])
    if sets is not None:
        sets = list(dict.fromkeys(sets))
        parser.add_argument("--data", help="folder of data sets (default: JAXUNC_DATA, else OpenML)")
        parser.add_argument("--sets", nargs="+", choices=sets, default=sets, metavar="NAME", help="only these sets")
    if parts := list(parts):
        parser.add_argument("--parts", nargs="+", choices=parts, default=parts, help="only these parts")
    parser.add_argument("--page-only", action="store_true", help="run nothing: write the page from the cells")
    parser.add_argument("--out", type=Path, default=results, help="folder of cells, page and figures")
    return parser


class Journal:
    """The finished cells of one data set and part of a study, in the order of ``wanted``.

    ``part`` is the first entry of each cell's key; None if the cells' first fields are their whole key. ``wanted`` are
    all cells that belong there, named tuples with a field ``data``. ``is_sound`` says whether a record is a whole one
    of a cell; it may raise what damaged records raise when they are read.
    """

    def __init__(self, folder: Path, part: str | None, wanted: Sequence[Any], is_sound: Callable[[dict, Any], bool]):
        self.folder, self.part, self.wanted = folder, part, wanted
        lines = _lines(folder)
        self.found = {
            cell: record
            for cell in wanted
            if (line := lines.get(self._key(cell))) and (record := _sound(line, cell, is_sound)) is not None
        }

    def add(self, cell: Any, record: dict) -> None:
        """Write a finished cell."""
        self.found[cell] = record
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / RUNNING
        cut_off = path.exists() and path.stat().st_size > 0 and path.read_bytes()[-1:] != b"\n"
        with path.open("a", encoding="utf-8") as file:
            line = json.dumps({"cell": self._key(cell), **record}, separators=(",", ":"))
            file.write("\n" * cut_off + line + "\n")

    def _key(self, cell: Any) -> Key:
        return tuple(cell) if self.part is None else (self.part, *cell)


def keys(folder: Path) -> Iterator[Key]:
    """The keys of all cells that a folder holds."""
    yield from _lines(folder)


def pack(folder: Path) -> None:
    """Take the cells of a run into the compressed file."""
    if not (folder / RUNNING).exists():
        return
    lines = _lines(folder)
    ordered = sorted(lines, key=lambda key: [(isinstance(entry, int), entry) for entry in key])
    content = b"".join(lines[key] + b"\n" for key in ordered)
    partial = folder / f"{PACKED}.partial"
    partial.write_bytes(gzip.compress(content, mtime=0))
    partial.replace(folder / PACKED)
    (folder / RUNNING).unlink()


def _lines(folder: Path) -> dict[Key, bytes]:
    """{key: line} of all cells that are kept; of two lines with a key the later one."""
    packed, running = folder / PACKED, folder / RUNNING
    found = _unpacked(packed, packed.stat().st_mtime_ns, packed.stat().st_size) if packed.exists() else {}
    return found | _by_key(running.read_bytes()) if running.exists() else found


@functools.lru_cache(maxsize=4)
def _unpacked(path: Path, mtime: int, size: int) -> dict[Key, bytes]:
    return _by_key(gzip.decompress(path.read_bytes()))


def _by_key(content: bytes) -> dict[Key, bytes]:
    found = {}
    for line in content.splitlines():
        try:
            found[tuple(json.loads(line)["cell"])] = line
        except (ValueError, KeyError, TypeError):  # a line that was cut off
            continue
    return found


def _sound(line: bytes, cell: Any, is_sound: Callable[[dict, Any], bool]) -> dict | None:
    record = json.loads(line)
    del record["cell"]
    try:
        return record if is_sound(record, cell) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def run_missing(
    journals: Mapping[str, Journal], load: Callable[[str], Any], run_cell: Callable[[Any, Any], dict]
) -> dict[Any, dict]:
    """Run what is missing and pack it, with progress and the time to go on standard error; returns everything."""
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
        if missing:
            jax.clear_caches()  # programs of all sets together are more than an operating system maps for one process
    for folder in {journal.folder for journal in journals.values()}:
        pack(folder)
    return found


def fold(data: Any, n_folds: int, number: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows of one fold of a cross-validation, with the classes in proportion."""
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return list(folds.split(data.X, data.y))[number]


def together(found: Mapping[Any, dict], inside: str, key: Callable[[Any], Any] = lambda cell: cell.data) -> dict:
    """{(what the key says of cells, method): what all folds have of it}; methods that a fold lacks are left out."""
    folds, joined = Counter(map(key, found)), {}
    for cell, record in found.items():
        for name, of in record[inside].items():
            joined.setdefault((key(cell), name), []).append(of)
    return {named: parts for named, parts in joined.items() if len(parts) == folds[named[0]]}


def method_rows(found: Mapping[Any, dict], measures: Sequence[str], inside: str = "methods") -> pd.DataFrame:
    """A row per cell and method: the cell's fields, its ``set``, the ``method``, and the measures by their names."""
    return pd.DataFrame(
        {**cell._asdict(), "set": cell.data, "method": name, **dict(zip(measures, values, strict=False))}
        for cell, record in found.items()
        for name, values in record[inside].items()
    )


def repeated(out: Path, n_repeats: int, *key: str) -> range:
    """Repetitions: as many as are wanted, or as a folder has cells of, whose keys begin so, if these are more."""
    there = [of[len(key)] + 1 for of in keys(out) if of[: len(key)] == key]
    return range(max(n_repeats, *there, 0))


FoldCell = namedtuple("FoldCell", "data fold")
"""One fold of a set."""
PartCell = namedtuple("PartCell", "part data fold")
"""One fold of a set in a part of a study."""
RepeatCell = namedtuple("RepeatCell", "data repeat")
"""One repetition of a set."""


def fold_cells(n_folds: int) -> Callable[[str], list[FoldCell]]:
    """What makes the cells of the first folds of a set."""
    return lambda name: [FoldCell(name, number) for number in range(n_folds)]


class Part(NamedTuple):
    """A part of a study, whose cells belong to one data set each."""

    sets: Sequence[str]
    journal: Callable[[Path, str], Journal]
    """The finished cells of a data set, from a folder and its name."""
    run_cell: Callable[[Any, Any], dict]
    """A cell's record, from the cell and its set's data."""
    load: Callable[[str, Any], Any] | None = None
    """The data of a name, from a folder; None: there are none."""

    def kept(self, out: Path, *, whole: bool = False) -> dict[str, dict[Any, dict]]:
        """{set: its cells}: of all sets, or of those that have been run to the end."""
        journals = {name: self.journal(out, name) for name in self.sets}
        return {name: one.found for name, one in journals.items() if not whole or len(one.found) == len(one.wanted)}


def make_part(
    sets: Sequence[str],
    cells: Callable[[str], Sequence[Any]],
    is_sound: Callable[[dict, Any], bool],
    run_cell: Callable[[Any, Any], dict],
    load: Callable[[str, Any], Any] | None = None,
    key: str | None = None,
) -> Part:
    """A part whose journals hold the cells of a data set, by its name; ``key`` is the first entry of their keys."""
    return Part(sets, lambda out, name: Journal(out, key, cells(name), is_sound), run_cell, load)


class Study(NamedTuple):
    """What `benchmarks.studies` says of a study's module."""

    about: str
    results: Path
    parts: Mapping[str, Part]
    page: Callable[[Mapping[Any, dict]], str] = lambda found: ""
    """Its text, of everything that has been run; studies that draw figures beside it write it themselves."""

    def kept(self, out: Path) -> dict[Any, dict]:
        """Everything that has been run."""
        sets = (cells for part in self.parts.values() for cells in part.kept(out).values())
        return {cell: record for cells in sets for cell, record in cells.items()}

    def options(self) -> argparse.ArgumentParser:
        """What the study takes."""
        sets = [name for part in self.parts.values() if part.load for name in part.sets]
        return study_options(self.about, self.results, sets or None, self.parts if len(self.parts) > 1 else ())

    def run(self, args: argparse.Namespace) -> None:
        """Run what is missing, part by part."""
        warnings.filterwarnings("ignore", category=PureLeavesWarning)
        for part in (self.parts[name] for name in getattr(args, "parts", self.parts)):
            sets = [name for name in getattr(args, "sets", part.sets) if name in part.sets]
            load = lambda name, part=part: part.load(name, args.data) if part.load else None
            run_missing({name: part.journal(args.out, name) for name in sets}, load, part.run_cell)

    def write_page(self, out: Path) -> None:
        """Write the page of everything that has been run."""
        (out / "README.md").write_text(self.page(self.kept(out)), encoding="utf-8")
