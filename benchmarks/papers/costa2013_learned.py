"""Transduction, read better: pools beside the mean of the published rule, learned pools, Venn-Abers, bags.

    python -m benchmarks.papers.costa2013_learned [--data FOLDER] [--sets NAME ...]

Goes beyond Costa, Verwer and Blockeel 2013. Two cells of each set: ``loo``, instances left out one by one, and
``five``, five folds, in which readings learn from the training instances left out one by one. They are written to
``pools/SET.jsonl`` in ``benchmarks/results/costa2013`` (or ``--out``); what is there is not run again. The page of that
study has a section made of them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from benchmarks.data import DataSet, load
from benchmarks.papers.costa2013_pools import POOL_MEASURES, cross_validated, left_out
from benchmarks.papers.costa2013_sets import LARGE, SETS
from benchmarks.papers.journal import Journal, run_missing, study_options

RESULTS = Path(__file__).parents[1] / "results" / "costa2013"
RUNS = {"loo": left_out, "five": cross_validated}
SMALL = tuple(name for name in SETS if name not in LARGE)
"""The sets whose instances are left out one by one, cheap ones first."""


class PoolCell(NamedTuple):
    """A set and how it is cut up."""

    data: str
    protocol: str


def run_cell(cell: PoolCell, data: DataSet) -> dict:
    """{reading: measures}, with the set's sizes."""
    return {"n": len(data.y), "classes": len(data.class_labels), **RUNS[cell.protocol](data)}


def journal(out: Path, name: str) -> Journal:
    """The finished cells of a set."""
    return Journal(out / "pools" / f"{name}.jsonl", [PoolCell(name, run) for run in RUNS], 1, _is_sound)


def _is_sound(record: dict, cell: PoolCell) -> bool:
    return len(record["tpce_pool"]) == len(POOL_MEASURES) and record["classes"] > 1


def run_all(sets: Sequence[str], data_folder: str | None, out: Path) -> dict[PoolCell, dict]:
    """Run what is missing; returns everything."""
    return run_missing({name: journal(out, name) for name in sets}, lambda name: load(name, data_folder), run_cell)


def finished_pools(out: Path) -> dict[str, dict[str, dict]]:
    """{set: {protocol: record}} of the sets of which a cell is there."""
    found = {name: journal(out, name).found for name in SMALL if (out / "pools" / f"{name}.jsonl").exists()}
    return {name: {cell.protocol: of for cell, of in cells.items()} for name, cells in found.items() if cells}


def main() -> None:
    """Run what is missing, then write the page of the study."""
    from benchmarks.papers.costa2013 import write_page  # which reads these cells, too

    args = study_options(__doc__, SMALL, RESULTS).parse_args()
    jax.config.update("jax_enable_x64", True)
    run_all(args.sets, args.data, args.out)
    write_page(args.out)


if __name__ == "__main__":
    main()
