"""The study of Hernández-Lobato, Martínez-Muñoz and Suárez 2011: votes that stop, against ensembles of infinite size.

    python -m benchmarks hernandez_lobato2011 [--data FOLDER] [--sets NAME ...] [--repetitions 10]
        [--infinite 2000] [--trees 101] [--confidence 0.99]

Tables 2 and 3: trees are polled until the vote is settled, ``--trees`` at most (instance-based, IB), or as many for
all instances as that takes in the mean (fixed-size, FS); a large ensemble of ``--infinite`` further trees stands for
one without end. Beyond the paper: the exact probability in place of the bound, and priors fitted on the votes that the
training instances get from trees grown without them. ``circle`` is the problem of Figure 4.

The part ``votes`` has a cell (`benchmarks.cells`) for each set, repetition and kind of ensemble. More repetitions add
to those that are there; other settings want another folder. The part ``constant`` is led by trees that give up, which
scikit-learn's forests do not do (`constant_votes`).
"""

import json
from argparse import ArgumentParser, Namespace
from collections import namedtuple
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from benchmarks.cells import Journal, Part, RepeatCell, Study, repeated
from benchmarks.studies.hernandez_lobato2011 import votes as polls
from benchmarks.studies.hernandez_lobato2011.numbers import CONFIDENCES, MEASURES, RULES
from benchmarks.studies.hernandez_lobato2011.page import study_page
from jaxunc import voting

CIRCLE = "circle"
SETS = (*polls.PROBLEMS, CIRCLE)
TAKES = "10 data sets and six problems that are drawn; ensembles of 2101 trees"
FLOAT64 = True
RESULTS = Path(__file__).parent


class Settings(NamedTuple):
    """What is the same in all cells of a folder."""

    trees: int = 101
    infinite: int = 2000
    confidence: float = 0.99


Cell = namedtuple("Cell", "data repeat kind")
"""An ensemble of one kind on one split."""


def cells(name: str, repeats: Iterable[int]) -> list[Cell]:
    """All that is to be run on a set, in order: more repetitions come after fewer."""
    kinds = ("bagging",) if name == CIRCLE else tuple(polls.KINDS)
    return [Cell(name, repeat, kind) for repeat in repeats for kind in kinds]


def run_cell(cell: Cell, of: polls.Problem, settings: Settings) -> dict:
    """{rule: the measures of the page}, the priors, and what the figures want; of the circle, trees needed.

    "doubt" is in how many settled instances the large ensemble is expected, at most, to differ from the infinite one;
    "confidences" how many are settled at each, and how many of them disagree with the large ensemble.
    """
    if cell.data == CIRCLE:
        return {"needed": polls.trees_needed(cell.repeat, settings.infinite, settings.confidence)}
    split, seed = of.split(cell.repeat), [cell.repeat, list(polls.KINDS).index(cell.kind)]
    votes = polls.vote(split, of.n_classes, cell.kind, settings.trees, settings.infinite, seed)
    priors = {
        "fitted": _rounded(voting.fit_vote_prior(votes.outside)),
        "symmetric": _rounded(voting.fit_vote_prior(votes.outside, symmetric=True)),
    }
    found: dict = {"n": len(split.y_test), "prior": priors, "doubt": {}}
    infinite = votes.reference.argmax(axis=1)
    sure = np.asarray(voting.win_probability(jnp.asarray(votes.reference))).max(axis=1)
    for rule, (criterion, prior) in RULES.items():
        how = {"criterion": criterion, "prior": 1.0 if prior is None else np.array(priors[prior])}
        stopped = voting.stop_after(votes.polled, of.n_classes, confidence=settings.confidence, **how)
        settled = np.asarray(stopped.settled)
        found[rule] = measures(stopped, votes, split.y_test)
        found["doubt"][rule] = _rounded([(1 - sure)[settled].sum()])[0]
        if rule == "bound":
            n_polled = np.asarray(stopped.n_trees_used)[settled]
            found["polled"] = np.bincount(n_polled, minlength=votes.polled.shape[1] + 1)[1:].tolist()
    found["confidences"] = []
    for confidence in CONFIDENCES:
        stopped = voting.stop_after(votes.polled, of.n_classes, confidence=confidence)
        settled, apart = np.asarray(stopped.settled), np.asarray(stopped.predicted) != infinite
        found["confidences"].append([int(settled.sum()), int(apart[settled].sum())])
    return found


def measures(stopped: voting.StoppingResult, votes: polls.Votes, y: np.ndarray) -> list[int]:
    """`MEASURES` of the instances that were settled: how many, trees polled in all, size of FS, and what went wrong."""
    settled, polled = np.asarray(stopped.settled), np.asarray(stopped.n_trees_used)
    n, n_polled = int(settled.sum()), int(polled[settled].sum())
    size = max(1, -(-n_polled // max(n, 1)))
    fixed = polls.counted(votes.polled[:, :size], votes.reference.shape[1]).argmax(axis=1)
    infinite, found = votes.reference.argmax(axis=1), np.asarray(stopped.predicted)
    apart = [answer != infinite for answer in (fixed, found)]
    wrong = [answer != y for answer in (fixed, found, infinite)]
    return [n, n_polled, size, *(int(of[settled].sum()) for of in (*apart, *wrong))]


def _rounded(values) -> list[float]:
    return [float(f"{float(v):.6g}") for v in values]


def journal(out: Path, name: str, n_repeats: int = 0) -> Journal:
    """The finished cells of a set; of as many repetitions as are wanted, or as there are if they are more."""
    return Journal(out, "votes", cells(name, repeated(out, n_repeats, "votes", name)), _is_sound)


def _is_sound(record: dict, cell: Cell) -> bool:
    if cell.data == CIRCLE:
        return len(record["needed"]) == polls.N_GRID**2
    sizes = {len(record[rule]) for rule in RULES}, len(record["confidences"])
    return sizes == ({len(MEASURES)}, len(CONFIDENCES)) and sum(record["polled"]) == record["bound"][0]


def settle(out: Path, settings: Settings) -> None:
    """Write the settings where there are none; an error where there are others."""
    path = out / "settings.json"
    if path.exists() and (there := kept_settings(out)) != settings:
        raise SystemExit(f"{out} holds cells of {there}, not of {settings}: name another folder (--out).")
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings._asdict()) + "\n", encoding="utf-8")


def kept_settings(out: Path) -> Settings:
    """The settings of the cells that are there."""
    return Settings(**json.loads((out / "settings.json").read_text(encoding="utf-8")))


def finished(out: Path) -> dict[str, Mapping[Cell, dict]]:
    """{set: its cells}, of whole repetitions."""
    kept = {}
    for name in SETS:
        found = journal(out, name).found
        whole = [cell for cell in found if all(cell._replace(kind=kind) in found for _, _, kind in cells(name, [0]))]
        if whole:
            kept[name] = {cell: found[cell] for cell in whole}
    return kept


def write_page(out: Path) -> None:
    """The page of what is finished, and its figures."""
    found = finished(out)
    circles = found.pop(CIRCLE, {})
    if found:
        needed = [record["needed"] for record in circles.values()]
        constant = list(constant_journal(out, "led").found.values())
        page = study_page(found, needed, kept_settings(out)._asdict(), out, constant)
        (out / "README.md").write_text(page, encoding="utf-8")


def constant_votes(split: polls.Split, n_classes: int, n_tries: int, rng: np.random.Generator) -> np.ndarray:
    """The votes for the test instances of one tree that gives up; features are 0 or 1.

    Where a feature that a node draws is constant among its instances, scikit-learn draws another one in its place.
    Breiman's program, and R's, use up a try: a node all of whose tries are constant becomes a leaf. On led, with seven
    features of two values, that is often so: its row of the paper is not reproduced by scikit-learn's forests.
    """
    bag = rng.integers(0, len(split.y_train), len(split.y_train))
    X, labels = split.X_train[bag] > 0.5, np.eye(n_classes)[split.y_train[bag]]
    X_test, votes = split.X_test > 0.5, np.zeros(len(split.X_test), int)

    def grow(rows: np.ndarray, asked: np.ndarray) -> None:
        if not len(asked):
            return
        counts = labels[rows].sum(axis=0)
        drawn = rng.choice(X.shape[1], n_tries, replace=False)
        ones = X[rows][:, drawn].T @ labels[rows]
        varies = (ones.sum(axis=1) > 0) & (ones.sum(axis=1) < len(rows))
        if np.count_nonzero(counts) == 1 or not varies.any():
            votes[asked] = counts.argmax()
            return
        ones = ones[varies]
        # The purest split by Gini's index: the largest sum over sides of the squared counts by the side's size.
        purity = sum((side**2).sum(axis=1) / side.sum(axis=1) for side in (ones, counts - ones))
        best = drawn[varies][purity.argmax()]
        for value in (False, True):
            grow(rows[X[rows, best] == value], asked[X_test[asked, best] == value])

    grow(np.arange(len(bag)), np.arange(len(X_test)))
    return votes


def run_constant(cell: RepeatCell, of: polls.Problem, settings: Settings) -> dict:
    """The number of test instances, and `MEASURES` of led by trees that give up."""
    split, rng = of.split(cell.repeat), np.random.default_rng([cell.repeat, 2])
    n_tries = int(split.X_train.shape[1] ** 0.5)
    grown = lambda n: np.stack([constant_votes(split, of.n_classes, n_tries, rng) for _ in range(n)], axis=1)
    polled, reference = grown(settings.trees).astype(np.int32), polls.counted(grown(settings.infinite), of.n_classes)
    stopped = voting.stop_after(polled, of.n_classes, confidence=settings.confidence)
    votes = polls.Votes(polled, np.zeros((0, of.n_classes), int), reference)
    return {"n": len(split.y_test), "bound": measures(stopped, votes, split.y_test)}


def constant_journal(out: Path, name: str, n_repeats: int = 0) -> Journal:
    """The finished repetitions of led by trees that give up."""
    wanted = [RepeatCell(name, repeat) for repeat in repeated(out, n_repeats, "constant", name)]
    return Journal(out, "constant", wanted, lambda record, _: len(record["bound"]) == len(MEASURES))


load = lambda name, folder: None if name == CIRCLE else polls.problem(name, folder)
PARTS = {
    "votes": Part(SETS, journal, run_cell, load),
    "constant": Part(("led",), constant_journal, run_constant, load),
}
STUDY = Study(str(__doc__), RESULTS, PARTS)


def options() -> ArgumentParser:
    """What the study takes."""
    found, usual = STUDY.options(), Settings()
    found.add_argument("--repetitions", type=int, default=10, help="splits of each set (default 10; the paper 100)")
    found.add_argument("--infinite", type=int, default=usual.infinite, help="trees that stand for infinitely many")
    found.add_argument("--trees", type=int, default=usual.trees, help="trees that are polled at most")
    found.add_argument("--confidence", type=float, default=usual.confidence, help="at which a vote is settled")
    return found


def run(args: Namespace) -> None:
    """Run what is missing, part by part."""
    settings = Settings(args.trees, args.infinite, args.confidence)
    settle(args.out, settings)
    of_settings = lambda of: of._replace(
        journal=partial(of.journal, n_repeats=args.repetitions), run_cell=partial(of.run_cell, settings=settings)
    )
    STUDY._replace(parts={name: of_settings(of) for name, of in PARTS.items()}).run(args)
