"""The study of polls with the fewest trees for a promised disagreement, beside the paper's rule.

    python -m benchmarks voting [--data FOLDER] [--sets NAME ...] [--repetitions 3]

A random forest of 500 trees is grown on a part of a set. A prior is fitted to the votes that its training instances
get out of bag. Then the held-out instances poll trees, each in `ORDERS` random orders, by every rule of `RULES`.
Counted are the trees polled, and how often the answer is not that of all 500 trees. Sets: the fifteen problems of
Hernández-Lobato et al. 2011, and five more of two classes.

A cell (`benchmarks.cells`) is a repetition of a set. The part ``worst-case`` solves linear programs (`worst_case`).
"""

import json
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from benchmarks.cells import Journal, Part, Study, repeated, study_options
from benchmarks.cells import RepeatCell as Cell
from benchmarks.data import load
from benchmarks.studies.hernandez_lobato2011.votes import PROBLEMS, Problem, Split, problem
from benchmarks.studies.voting.page import CONFIDENCES, study_page
from benchmarks.studies.voting.worst_case import worst_cases
from jaxunc import voting

TREES, ORDERS, MOST = 500, 20, 3000
"""Trees of a forest, orders in which each instance polls them, and the largest number of instances of a part."""
FURTHER = ("banknote", "credit-g", "electricity", "ionosphere", "sonar")
"""Sets of two classes beside the fifteen problems."""
SETS = (*PROBLEMS, *FURTHER)
WORST_CASE = "worst-case.json"
TAKES = "15 data sets and five problems that are drawn; forests of 500 trees"
FLOAT64 = True
RESULTS = Path(__file__).parent
RULES: dict[str, dict[str, Any]] = {
    "bound .99": {"confidence": 0.99},
    "bound .999": {"confidence": 0.999},
    "fitted .99": {"confidence": 0.99, "prior": "fitted"},
    "fitted .999": {"confidence": 0.999, "prior": "fitted"},
    "finite .99": {"confidence": 0.99, "prior": "fitted", "population": "finite"},
    "finite .999": {"confidence": 0.999, "prior": "fitted", "population": "finite"},
    "certain": {"criterion": "certain"},
    "optimal 1 %": {"criterion": "optimal", "disagreement": 0.01, "prior": "fitted", "population": "finite"},
    "optimal .1 %": {"criterion": "optimal", "disagreement": 0.001, "prior": "fitted", "population": "finite"},
    "optimal 1 %, uniform": {"criterion": "optimal", "disagreement": 0.01, "population": "finite"},
    "optimal .1 %, uniform": {"criterion": "optimal", "disagreement": 0.001, "population": "finite"},
    "optimal 1 %, endless": {"criterion": "optimal", "disagreement": 0.01, "prior": "fitted"},
    "optimal .1 %, endless": {"criterion": "optimal", "disagreement": 0.001, "prior": "fitted"},
}
"""The rules by name: what `stop_after` is told. "fitted": the prior of the out-of-bag votes."""


def problem_of(name: str, folder: str | None) -> Problem:
    """Return a problem; of the further sets halves of at most `MOST` instances."""
    if name in PROBLEMS:
        return problem(name, folder)
    data = load(name, folder)

    def halves(repeat: int) -> Split:
        order = np.random.default_rng(repeat).permutation(len(data.y))[: 2 * MOST]
        train, test = np.array_split(order, 2)
        return Split(data.X[train], data.y[train], data.X[test], data.y[test])

    return Problem(len(data.class_labels), halves)


def run_cell(cell: Cell, of: Problem) -> dict:
    """Return the prior, and of each rule `sums` over the held-out instances."""
    split = of.split(cell.repeat)
    model = RandomForestClassifier(TREES, random_state=cell.repeat).fit(split.X_train, split.y_train)
    forest, n = ju.from_sklearn(model), len(split.X_train)
    unseen = ju.counting.oob_mask(model, n, X=split.X_train, y=split.y_train)
    prior = voting.fit_vote_prior(voting.out_of_bag_votes(forest, split.X_train, unseen), symmetric=of.n_classes > 2)
    votes = forest_votes(forest, split.X_test)
    orders = np.random.default_rng([cell.repeat, TREES])
    polls = np.concatenate([votes[:, orders.permutation(TREES)] for _ in range(ORDERS)])
    whole = voting.stop_after(votes, of.n_classes, criterion="certain").predicted

    def polled(**settings) -> list[float]:
        if "prior" in settings:
            settings["prior"] = prior if of.n_classes == 2 else float(prior[0])
        stopped = voting.stop_after(polls, of.n_classes, **settings)
        differs = np.asarray(stopped.predicted).reshape(ORDERS, -1) != np.asarray(whole)
        return sums(np.asarray(stopped.n_trees_used).reshape(ORDERS, -1)) + sums(differs)

    several = of.n_classes > 2
    rules = {name: own for name, own in RULES.items() if not (several and name.startswith(("optimal", "finite")))}
    found = {name: polled(**settings) for name, settings in rules.items()}
    curves = {
        kind: [polled(**RULES[f"{kind} .99"] | {"confidence": confidence})[::2] for confidence in CONFIDENCES]
        for kind in (() if several else ("bound", "finite"))
    }
    rounded = [float(f"{a:.6g}") for a in prior]
    return {"n": len(split.y_test), "prior": rounded, "rules": found, "curves": curves}


def forest_votes(forest: ju.Forest, X: np.ndarray) -> np.ndarray:
    """Return the votes ``[instances trees]``, -1 for abstention."""
    parts = (np.asarray(ju.leaf_counts(forest, X[start : start + 256])) for start in range(0, len(X), 256))
    return np.concatenate([voting.votes_of_counts(part, np.arange(TREES)) for part in parts]).astype(np.int32)


def sums(values: np.ndarray) -> list[float]:
    """Return the sum over the instances of their means over the orders, and that of the squares."""
    means = values.mean(axis=0)
    return [float(f"{of:.8g}") for of in (means.sum(), (means**2).sum())]


def is_sound(record: dict, cell: Cell) -> bool:
    """Whether a record is whole."""
    return record["n"] > 0 and {"bound .99", "certain"} <= set(record["rules"]) <= set(RULES) and "curves" in record


def journal(out: Path, name: str, n_repeats: int = 0) -> Journal:
    """Return the finished cells of a set; of as many repetitions as are wanted, or as there are if they are more."""
    return Journal(out, None, [Cell(name, repeat) for repeat in repeated(out, n_repeats, name)], is_sound)


VOTES = Part(SETS, journal, run_cell, problem_of)
STUDY = Study(str(__doc__), RESULTS, {"votes": VOTES})


def write_page(out: Path) -> None:
    """Write the page of what is finished."""
    if found := {name: list(of.values()) for name in SETS if (of := journal(out, name).found)}:
        kept = out / WORST_CASE
        worst_case = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else None
        (out / "README.md").write_text(study_page(found, worst_case), encoding="utf-8")


def options() -> ArgumentParser:
    """What the study takes."""
    found = study_options(__doc__, RESULTS, SETS, ("votes", "worst-case"))
    found.add_argument("--repetitions", type=int, default=3, help="splits of each set (default 3)")
    found.add_argument("--trees", type=int, default=200, help="trees of the linear programs (default 200)")
    return found


def run(args: Namespace) -> None:
    """Run what is missing of the votes; solve the linear programs if there is no file of what they found."""
    if "votes" in args.parts:
        votes = VOTES._replace(journal=partial(journal, n_repeats=args.repetitions))
        STUDY._replace(parts={"votes": votes}).run(Namespace(**vars(args) | {"parts": ["votes"]}))
    if "worst-case" in args.parts and not (args.out / WORST_CASE).exists():
        found = worst_cases(args.trees)
        (args.out / WORST_CASE).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
