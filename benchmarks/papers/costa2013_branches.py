"""Lazy trees and several branches, which Costa, Verwer and Blockeel 2013 name beside their own method.

    python -m benchmarks.papers.costa2013_branches [--data FOLDER] [--sets NAME ...]

Five folds of each set are a line of ``branches/SET.jsonl`` in ``benchmarks/results/costa2013`` (or ``--out``); what is
there is not run again. The settings, `WIDTHS` among them, were chosen before any result was seen, and not changed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from benchmarks.data import DataSet, load
from benchmarks.papers.costa2013_lazy import lazy_leaf_counts
from benchmarks.papers.costa2013_methods import DECIMALS, Probabilities, laplace, widened
from benchmarks.papers.costa2013_pools import N_FOLDS, POOL_MEASURES, Measures, pooled, scored
from benchmarks.papers.costa2013_pools_cells import SMALL
from benchmarks.papers.costa2013_sets import fold_of
from benchmarks.papers.costa2013_soft import soft_readings
from benchmarks.papers.journal import Journal, run_missing, study_options
from jaxunc import transduction

RESULTS = Path(__file__).parents[1] / "results" / "costa2013"
RUN = tuple(name for name in SMALL if name != "arrhythmia")
"""The sets that are run; the one left out has 279 features, and each step of a lazy path looks at all."""
WIDTHS = {"narrow": 0.1, "wide": 0.5}
"""Half the width of a threshold, in standard deviations of the node's training instances."""


class BranchCell(NamedTuple):
    """A set."""

    data: str


def run_cell(cell: BranchCell, data: DataSet) -> dict:
    """{reading: `POOL_MEASURES`}, with the set's sizes."""
    return {"n": len(data.y), "classes": len(data.class_labels), **cross_validated(data)}


def cross_validated(data: DataSet) -> Measures:
    """Measures of all instances, each as a test instance of one of five folds."""
    fold = fold_of(data.y, N_FOLDS)
    parts = [_of_fold(data, np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(N_FOLDS)]
    y = data.y[np.concatenate([np.flatnonzero(fold == number) for number in range(N_FOLDS)])]
    return scored({name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, y)


def _of_fold(data: DataSet, train: np.ndarray, test: np.ndarray) -> Probabilities:
    classes, y = np.unique(data.y[train], return_inverse=True)
    X, X_test, nominal = data.X[train], data.X[test], data.nominal
    counts = transduction.transductive_leaf_counts(X, y, X_test, nominal=nominal, inductive=True)
    lazy = lazy_leaf_counts(X, y, X_test, nominal)
    probs = {
        "tree_laplace": laplace(counts[:, -1:]),
        "lazy_laplace": laplace(lazy[:, -1:]),
        "tpce": laplace(counts[:, :-1]),
        "lazy_tpce": laplace(lazy[:, :-1]),
        "tpce_pool": pooled(counts[:, :-1]),
        "lazy_pool": pooled(lazy[:, :-1]),
    }
    probs["tpce_pool_tree"] = (probs["tpce_pool"] + probs["tree_laplace"]) / 2
    for name, width in WIDTHS.items():
        probs[f"soft_{name}"], probs[f"fuzzy_{name}"] = soft_readings(X, y, X_test, nominal, width)
        probs[f"tpce_pool_{name}"] = (probs["tpce_pool"] + probs[f"soft_{name}"]) / 2
    return {name: widened(of.round(DECIMALS), classes, len(data.class_labels)) for name, of in probs.items()}


def journal(out: Path, name: str) -> Journal:
    """The finished cell of a set."""
    return Journal(
        out / "branches" / f"{name}.jsonl",
        [BranchCell(name)],
        1,
        lambda of, _: len(of["lazy_pool"]) == len(POOL_MEASURES),
    )


def run_all(sets: Sequence[str], data_folder: str | None, out: Path) -> dict[BranchCell, dict]:
    """Run what is missing; returns everything."""
    return run_missing({name: journal(out, name) for name in sets}, lambda name: load(name, data_folder), run_cell)


def finished_branches(out: Path) -> dict[str, dict[str, dict]]:
    """{set: {"five": record}} of the sets that are finished."""
    found = {name: journal(out, name).found for name in SMALL if (out / "branches" / f"{name}.jsonl").exists()}
    return {name: {"five": record} for name, of in found.items() for record in of.values()}


def main() -> None:
    """Run what is missing, then write the page of the study."""
    from benchmarks.papers.costa2013 import write_page  # which reads this study

    args = study_options(str(__doc__), RUN, RESULTS).parse_args()
    jax.config.update("jax_enable_x64", True)
    run_all(args.sets, args.data, args.out)
    write_page(args.out)


if __name__ == "__main__":
    main()
