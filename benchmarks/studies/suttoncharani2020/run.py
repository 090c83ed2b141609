"""The study of Sutton-Charani 2020: trees of six complexities, before and after empirical-Bayes smoothing.

    python -m benchmarks.studies.suttoncharani2020.run [--data FOLDER] [--sets NAME ...]

Ten-fold cross-validation (stratified), repeated, in float64. Trees are grown and pruned as R's rpart does it (see
`suttoncharani2020_trees`). Unlike the published code, the trees that were pruned by cross-validation are smoothed too.
``banknote-eb`` is the damaged file that the paper used, ``banknote`` the right one.

Every (set, repetition, fold) is written to ``cells/SET.jsonl`` in ``benchmarks/results/suttoncharani2020`` (or
``--out``) as soon as it is finished, and what is there is not run again: a run that was killed goes on where it
stopped, and ends with the same bytes. Tables, figures and the page are made of the cells.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OneHotEncoder

import jaxunc as ju
from benchmarks.cells import Journal, run_missing, study_options
from benchmarks.data import DataSet, load
from benchmarks.studies.suttoncharani2020 import beyond, distances, left_open
from benchmarks.studies.suttoncharani2020.page import study_page
from benchmarks.studies.suttoncharani2020.trees import ENTROPY, EVIDENTIAL, PrunedTree, best_cp, grow, prune
from jaxunc.intervals import Interval
from jaxunc.smoothing import BetaPrior

SETS = {
    "banana": "banana",
    "bankLoan": "bankLoan",
    "banknote-eb": "banknote",
    "mammo": "mammo",
    "diabetes": "pima",
    "tic-tac-toe": "ticTacToe",
    "banknote": None,
}
"""The sets, and what the paper calls them."""
COMPLEXITIES = (0.0, 0.001, 0.005, 0.01, 0.05)
TREES = (*map(str, (0, 0.001, 0.005, 0.01, 0.05)), "pruned")
N_REPEATS, N_FOLDS = 10, 10
CLIP = 1e-15
RESULTS = Path(__file__).parents[1] / "results" / "suttoncharani2020"
PRIORS = {"eb": "weighted_mle", "moments": "moments", "marginal": "marginal"}
ESTIMATES = ("raw", "eb", "laplace", "moments", "marginal")
INTERVALS = ("log_loss", "brier", "auc", "auc_published")


class Cell(NamedTuple):
    """One fold."""

    data: str
    repeat: int
    fold: int


def cells(name: str) -> list[Cell]:
    """All that is to be run on a set, in order."""
    return [Cell(name, repeat, fold) for repeat in range(N_REPEATS) for fold in range(N_FOLDS)]


def columns(data: DataSet) -> np.ndarray:
    """Nominal features as a column per level: for three levels at most, these are all of rpart's binary splits."""
    if not data.nominal.any():
        return data.X
    spread = OneHotEncoder(sparse_output=False).fit_transform(data.X[:, data.nominal])
    return np.hstack([data.X[:, ~data.nominal], spread])


def run_cell(cell: Cell, data: DataSet) -> dict:
    """{tree: {"leaves", "prior", estimate: [log loss, Brier score, AUC], interval metric: [lower, upper]}}."""
    X = columns(data)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=cell.repeat)
    train, test = list(folds.split(X, data.y))[cell.fold]
    model = grow(X[train], data.y[train])
    chosen = best_cp(X[train], data.y[train], model, seed=cell.repeat)
    trees = {name: prune(model, cp) for name, cp in zip(TREES, (*COMPLEXITIES, chosen), strict=True)}
    return {"trees": {name: evaluate(tree, X[test], data.y[test]) for name, tree in trees.items()}}


def evaluate(tree: PrunedTree, X: np.ndarray, y: np.ndarray) -> dict:
    """What one tree's estimates and intervals reach on test instances."""
    place = tree.place(X)
    priors = {name: ju.smoothing.fit_beta_prior(tree.counts, method) for name, method in PRIORS.items()}
    priors["laplace"] = BetaPrior(np.float64(1.0), np.float64(1.0), np.int32(0))
    leaf = {name: np.asarray(ju.smoothing.smooth(tree.counts, prior))[:, 1] for name, prior in priors.items()}
    leaf["raw"] = tree.counts[:, 1] / tree.counts.sum(axis=1)
    found: dict = {"leaves": len(tree.counts)}
    found["prior"] = [*rounded([priors["eb"].alpha, priors["eb"].beta]), int(priors["eb"].status)]
    for name in ESTIMATES:
        found[name] = rounded(measures(leaf[name][place], y))
    ends = ju.smoothing.correction_interval(tree.counts, priors["eb"])
    interval = Interval(*(np.asarray(end)[place, 1] for end in ends))
    found["intervals"] = {
        "log_loss": rounded(ju.metrics.interval_log_loss(interval, y, clip=CLIP)),
        "brier": rounded(ju.metrics.interval_brier(interval, y)),
        "auc": rounded(ju.metrics.interval_auc(interval, y)),
        "auc_published": rounded(ju.metrics.interval_auc(interval, y, method="published")),
    }
    return found


def measures(p: np.ndarray, y: np.ndarray) -> list:
    """Log loss (clipped as in the published code), Brier score (single class), AUC."""
    exactly = Interval(p, p)
    return [
        ju.metrics.interval_log_loss(exactly, y, clip=CLIP).lower,
        ju.metrics.interval_brier(exactly, y).lower,
        ju.metrics.auc(p, y),
    ]


def rounded(values) -> list[float]:
    return [float(f"{float(v):.9g}") for v in values]


def journal(out: Path, name: str) -> Journal:
    """The finished cells of a set."""
    return Journal(out / "cells" / f"{name}.jsonl", cells(name), 1, _is_sound)


def _is_sound(record: dict, cell: Cell) -> bool:
    sound = set(record["trees"]) == set(TREES)
    for found in record["trees"].values():
        sound = sound and all(len(found[name]) == 3 for name in ESTIMATES) and set(found["intervals"]) == {*INTERVALS}
    return sound


def run_all(sets: Sequence[str], data_folder: str | None, out: Path) -> dict[Cell, dict]:
    """Run what is missing; returns everything."""
    return run_missing({name: journal(out, name) for name in sets}, lambda name: load(name, data_folder), run_cell)


def write_page(found: dict[Cell, dict], out: Path) -> None:
    """The page of the sets that are finished, and its figures."""
    finished = {name: [found[c] for c in cells(name)] for name in SETS if all(c in found for c in cells(name))}
    if finished:
        page = study_page(finished, SETS, out, further_sections(finished, out))
        (out / "README.md").write_text(page, encoding="utf-8")


def further_sections(finished: Mapping[str, Sequence[dict]], out: Path) -> list[str]:
    """The sections of `suttoncharani2020_open` and `suttoncharani2020_beyond`, of what is finished of them."""
    found, opened = [], open_records(out)
    if opened:
        of_paper = {name: finished[name] for name in opened if name in finished}
        found += [left_open.section(opened), distances.section(of_paper, opened)]
    if records := beyond.kept(out):
        found.append(beyond.section(records))
    return found


def open_records(out: Path) -> dict[str, list[dict]]:
    """The finished sets of `suttoncharani2020_open`; of further gains those that are finished on all of them."""
    groups = {group: _growths(out, group) for group in ("", *(f"{growth}-" for growth in (*EVIDENTIAL, ENTROPY)))}
    found = groups.pop("")
    for further in groups.values():
        if found.keys() <= further.keys():
            for name, records in found.items():
                found[name] = [one | other for one, other in zip(records, further[name], strict=True)]
    return {name: [{"growths": one} for one in records] for name, records in found.items()}


def _growths(out: Path, group: str) -> dict[str, list[dict]]:
    """{set: what each fold found by the growths of a group}, of finished sets."""
    found = {}
    for name in SETS:
        path = out / "open" / f"{group}{name}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if len(lines) == N_FOLDS:
            found[name] = [json.loads(line)["growths"] for line in lines]
    return found


def main() -> None:
    """Run what is missing, then write the page."""
    args = study_options(__doc__, SETS, RESULTS).parse_args()
    jax.config.update("jax_enable_x64", True)
    run_all(args.sets, args.data, args.out)
    kept = {name: journal(args.out, name).found for name in SETS}
    write_page({cell: record for journal in kept.values() for cell, record in journal.items()}, args.out)


if __name__ == "__main__":
    main()
