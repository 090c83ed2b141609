"""Led by trees that give up: the row of Hernández-Lobato et al. 2011 that scikit-learn's forests do not reproduce.

    python -m benchmarks.studies.hernandez_lobato2011.constant [--repetitions 10] [--out FOLDER]

Where a feature that a node draws is constant among its instances, scikit-learn draws another one in its place.
Breiman's program, and R's, use up a try: a node all of whose tries are constant becomes a leaf. On led, with seven
features of two values, that is often so. Such trees are grown here, and measured as the study measures its own.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.studies.hernandez_lobato2011 import run as study
from benchmarks.studies.hernandez_lobato2011.votes import Split, Votes, counted, problem
from jaxunc import voting

NAME = "led-constant.jsonl"


def tree_votes(split: Split, n_classes: int, n_tries: int, rng: np.random.Generator) -> np.ndarray:
    """The votes of one tree for the test instances; features are 0 or 1."""
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
        sides = ones, counts - ones
        purity = sum((side**2).sum(axis=1) / side.sum(axis=1) for side in sides)
        best = drawn[varies][purity.argmax()]
        for value in (False, True):
            grow(rows[X[rows, best] == value], asked[X_test[asked, best] == value])

    grow(np.arange(len(bag)), np.arange(len(X_test)))
    return votes


def measured(repeat: int, settings: study.Settings) -> dict:
    """The number of test instances, and the study's measures."""
    of = problem("led", None)
    split, rng = of.split(repeat), np.random.default_rng([repeat, 2])
    n_tries = int(split.X_train.shape[1] ** 0.5)
    grown = lambda n: np.stack([tree_votes(split, of.n_classes, n_tries, rng) for _ in range(n)], axis=1)  # noqa: E731
    polled, reference = grown(settings.trees).astype(np.int32), counted(grown(settings.infinite), of.n_classes)
    stopped = voting.stop_after(polled, of.n_classes, confidence=settings.confidence)
    votes = Votes(polled, np.zeros((0, of.n_classes), int), reference)
    return {"n": len(split.y_test), "bound": study.measures(stopped, votes, split.y_test)}


def main() -> None:
    """Measure, and keep."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repetitions", type=int, default=10)
    options.add_argument("--out", type=Path, default=study.RESULTS)
    args = options.parse_args()
    found = [measured(repeat, study.kept_settings(args.out)) for repeat in range(args.repetitions)]
    (args.out / NAME).write_text("".join(json.dumps(record) + "\n" for record in found), encoding="utf-8")


if __name__ == "__main__":
    main()
