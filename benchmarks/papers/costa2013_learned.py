"""Transduction, read better: pools beside the mean of the published rule, learned pools, Venn-Abers, bags.

    python -m benchmarks.papers.costa2013_learned [--data FOLDER] [--sets NAME ...]

Goes beyond Costa, Verwer and Blockeel 2013. Two cells of each set: ``loo``, instances left out one by one, and
``five``, five folds, in which readings learn from the training instances left out one by one. They are written to
``pools/SET.jsonl`` in ``benchmarks/results/costa2013`` (or ``--out``); what is there is not run again. The page of that
study has a section made of them.
"""

from collections.abc import Sequence
from pathlib import Path

import jax

from benchmarks.data import DataSet, load
from benchmarks.papers.costa2013 import RESULTS, write_page
from benchmarks.papers.costa2013_pools_cells import RUNS, SMALL, PoolCell, journal
from benchmarks.papers.journal import run_missing, study_options


def run_cell(cell: PoolCell, data: DataSet) -> dict:
    """{reading: measures}, with the set's sizes."""
    return {"n": len(data.y), "classes": len(data.class_labels), **RUNS[cell.protocol](data)}


def run_all(sets: Sequence[str], data_folder: str | None, out: Path) -> dict[PoolCell, dict]:
    """Run what is missing; returns everything."""
    return run_missing({name: journal(out, name) for name in sets}, lambda name: load(name, data_folder), run_cell)


def main() -> None:
    """Run what is missing, then write the page of the study."""
    args = study_options(__doc__, SMALL, RESULTS).parse_args()
    jax.config.update("jax_enable_x64", True)
    run_all(args.sets, args.data, args.out)
    write_page(args.out)


if __name__ == "__main__":
    main()
