"""What is true, where the truth is known: forests' estimates against the probabilities that labels were drawn from.

    python -m benchmarks true_probabilities [--sets NAME ...] [--sizes 200 4000] [--repetitions 10]

Logistic models of normal predictors, after the simulations of Barreñada, Dhiman, Timmerman, Boulesteix and Van Calster
2024, "Understanding overfitting in random forest for probability estimation", and the problems of
`benchmarks.problems`. Forests of 100 trees are fitted to 200 or 4000 instances, and asked about 5000 others and about
those same ones.

A cell (`benchmarks.cells`) is a problem, a size and a repetition. The page's picture is made of ``picture.json``.
"""

import json
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections import namedtuple
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import jaxunc as ju
from benchmarks.cells import Journal, Study, make_part, pack, study_options
from benchmarks.studies.true_probabilities import methods
from benchmarks.studies.true_probabilities.methods import PROBLEMS, Drawn
from benchmarks.studies.true_probabilities.page import SHOWN_BESIDE, draw, page
from jaxunc.estimators import CombinedForestClassifier

N_TREES, N_TEST, N_REPETITIONS = 100, 5000, 10
SIZES = (200, 4000)
TAKES = "no data; 420 problems are drawn"
RESULTS = Path(__file__).parent
PICTURE = "picture.json"
PICTURED = ("4-independent-equal-50-75", 200, 0)
N_PICTURED = 150
"""Number of instances in each half of the picture."""
Cell = namedtuple("Cell", "data size repetition")


def run_cell(cell: Cell) -> dict:
    """{"methods": {method: measures}, "entropy", "true_auc", "chosen": leaf size, "rows": [train, classes]}."""
    train, test = drawn(cell)
    found, chosen = estimates(train, test, cell.repetition)
    rounded = lambda own: {measure: round(value, 5) for measure, value in own.items()}
    return {
        "methods": {name: rounded(judged(*both, train, test)) for name, both in found.items()},
        "entropy": round(methods.expected_log_loss(test.truth, test.truth), 5),
        "true_auc": round(methods.expected_auc(test.truth, test.truth), 5),
        "chosen": chosen,
        "rows": [len(train.y), train.truth.shape[1]],
    }


def drawn(cell: Cell, n_test: int = N_TEST) -> tuple[Drawn, Drawn]:
    """Training and test instances; the seeds of the two never meet."""
    draw = PROBLEMS[cell.data]
    return draw(2 * cell.repetition, cell.size), draw(2 * cell.repetition + 1, n_test)


def judged(on_train: np.ndarray, on_test: np.ndarray, train: Drawn, test: Drawn) -> dict[str, float]:
    """Measures on the test instances, and how much farther off the estimate is at those that it was made from."""
    own, mae_train = methods.measures(on_test, test.truth), float(np.mean(np.abs(on_train - train.truth)))
    train_auc = methods.observed_auc(on_train, train.y)
    return own | {"mae_train": mae_train, "spike": mae_train / own["mae"], "train_auc": train_auc}


def estimates(train: Drawn, test: Drawn, seed: int) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], int]:
    """Estimates for the training and the test instances by every method, and the leaf size that was chosen."""
    X, y = train.X, train.y
    asked = np.concatenate([X, test.X])
    root, settings = round(len(y) ** 0.5), {"oob_score": True, "random_state": seed}
    grown = {
        size: RandomForestClassifier(N_TREES, min_samples_leaf=size, **settings).fit(X, y)
        for size in dict.fromkeys((1, 5, 20, root))
    }
    name_of = lambda size: f"mean, leaves of {'√n' if size == root else size}"
    found = {name_of(size): one.predict_proba(asked) for size, one in grown.items()}
    losses = {size: _out_of_bag_loss(one, y) for size, one in grown.items()}
    chosen = min(losses, key=lambda size: losses[size])
    found["mean, leaf size chosen"] = found[name_of(chosen)]
    model = grown[1]
    own = ju.from_sklearn(model)
    out_of_bag = ju.count_leaves(own, X, y, tree_mask=ju.counting.oob_mask(model, len(y), X=X, y=y))
    names = ("laplace", "m-estimate", "pooling", *(["plausibility"] if own.n_classes == 2 else []))
    by_name = partial(ju.combiners.combiner_by_name, prior=own.prior, n_samples=own.n_samples)
    found |= _answers(own, {name: by_name(name) for name in names}, asked)
    some = {"mean, out-of-bag counts": ju.Mean(), "pooling, out-of-bag counts": ju.Pooling()}
    found |= _answers(out_of_bag, some, asked)
    ones = np.ones(own.n_classes)
    rows = ju.learning.oob_dataset(model, X, y)
    calibrated = ju.learning.fit_combiner(ju.Calibrated(ju.Mean(), ones, 0 * ones, clip=1e-3), rows).combiner
    found |= _answers(own, {"calibrated mean": calibrated}, asked)
    for name, forest in (("learned pool", model), ("learned pool, leaf size chosen", grown[chosen])):
        pool = CombinedForestClassifier(FrozenEstimator(forest)).fit(X, y)
        found[name] = np.asarray(pool.predict_proba(asked), float)
    found["logistic regression"] = LogisticRegression(C=np.inf, max_iter=1000).fit(X, y).predict_proba(asked)
    return {name: (shares[: len(y)], shares[len(y) :]) for name, shares in found.items()}, chosen


def _out_of_bag_loss(forest: RandomForestClassifier, y: np.ndarray) -> float:
    shares = forest.oob_decision_function_
    seen = np.isfinite(shares[:, 0])
    # One of about 37 trees that have not seen a row: a smaller share could not have been told from 0.
    return float(-np.mean(np.log(np.clip(shares[seen, y[seen]], 1 / N_TREES, 1))))


def _answers(forest: ju.Forest, rules: dict[str, ju.Combiner], X: np.ndarray) -> dict[str, np.ndarray]:
    found = ju.bind(forest, rules).probability(X)
    answers = {name: np.asarray(shares, float) for name, shares in found.items()}
    return {name: shares / shares.sum(axis=1, keepdims=True) for name, shares in answers.items()}


_cells = lambda size: lambda name: [Cell(name, size, repetition) for repetition in range(N_REPETITIONS)]
_is_sound = lambda record, _: {"learned pool", "logistic regression"} <= set(record["methods"])
_run = lambda cell, _: run_cell(cell)
PARTS = {str(size): make_part(tuple(PROBLEMS), _cells(size), _is_sound, _run) for size in SIZES}
STUDY = Study(str(__doc__), RESULTS, PARTS)


def kept(out: Path) -> dict[Cell, dict]:
    """Everything that has been run."""
    journals = (of.journal(out, name) for name in PROBLEMS for of in PARTS.values())
    return {cell: record for one in journals for cell, record in one.found.items()}


def run_in_turns(journals: list[Journal], repetitions: int) -> None:
    """Run what is missing, a repetition of every problem before the next: wherever it ends, all have as many."""
    turns = [(at, journal) for at in range(repetitions) for journal in journals]
    for done, (at, journal) in enumerate(turns, start=1):
        cell = journal.wanted[at]
        if cell not in journal.found:
            journal.add(cell, run_cell(cell))
            print(f"{done}/{len(turns)} {' '.join(map(str, cell))}", file=sys.stderr, flush=True)
    pack(journals[0].folder)


def picture_points() -> dict[str, dict[str, list[float]]]:
    """Truth, estimates of two methods and the class of some test and training instances of one cell."""
    train, test = drawn(Cell(*PICTURED))
    found, _ = estimates(train, test, PICTURED[2])
    points = {}
    for half, (where, some) in enumerate((("training", train), ("test", test))):
        shares = {name: found[name][half] for name in SHOWN_BESIDE} | {"truth": some.truth}
        points[where] = {name: np.round(one[:N_PICTURED, 1], 3).tolist() for name, one in shares.items()}
        points[where]["event"] = some.y[:N_PICTURED].tolist()
    return points


def options() -> ArgumentParser:
    """What the study takes."""
    found = study_options(__doc__, RESULTS)
    found.add_argument("--sets", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS), metavar="NAME")
    found.add_argument("--sizes", nargs="+", type=int, choices=SIZES, default=SIZES)
    found.add_argument("--repetitions", type=int, default=N_REPETITIONS, choices=range(1, N_REPETITIONS + 1))
    return found


def run(args: Namespace) -> None:
    """Run what is missing."""
    warnings.filterwarnings("ignore", category=ju.counting.PureLeavesWarning)
    journals = [PARTS[str(size)].journal(args.out, name) for size in args.sizes for name in args.sets]
    run_in_turns(journals, args.repetitions)
    picture = args.out / PICTURE
    if not picture.exists():
        picture.write_text(json.dumps(picture_points(), separators=(",", ":")) + "\n", encoding="utf-8")


def write_page(out: Path) -> None:
    """The page and its picture, of everything that has been run."""
    points = json.loads((out / PICTURE).read_text(encoding="utf-8"))
    (out / "README.md").write_text(page(kept(out)), encoding="utf-8")
    draw(points, out / "estimates.svg")
