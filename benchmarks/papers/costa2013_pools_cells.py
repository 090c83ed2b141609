"""The cells of the study of pools: where they lie, and which of them are finished."""

from pathlib import Path
from typing import NamedTuple

from benchmarks.papers.costa2013_pools import POOL_MEASURES, cross_validated, left_out
from benchmarks.papers.costa2013_sets import LARGE, SETS
from benchmarks.papers.journal import Journal

RUNS = {"loo": left_out, "five": cross_validated}
SMALL = tuple(name for name in SETS if name not in LARGE)
"""The sets whose instances are left out one by one, cheap ones first."""


class PoolCell(NamedTuple):
    """A set and how it is cut up."""

    data: str
    protocol: str


def journal(out: Path, name: str) -> Journal:
    """The finished cells of a set."""
    return Journal(out / "pools" / f"{name}.jsonl", [PoolCell(name, run) for run in RUNS], 1, is_sound)


def is_sound(record: dict, cell: PoolCell) -> bool:
    """Whether a record is whole."""
    return len(record["tpce_pool"]) == len(POOL_MEASURES) and record["classes"] > 1


def finished_pools(out: Path) -> dict[str, dict[str, dict]]:
    """{set: {protocol: record}} of the sets of which a cell is there."""
    found = {name: journal(out, name).found for name in SMALL if (out / "pools" / f"{name}.jsonl").exists()}
    return {name: {cell.protocol: of for cell, of in cells.items()} for name, cells in found.items() if cells}
