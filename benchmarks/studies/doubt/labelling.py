"""Which rows to label next: forests that grow with their labels, whose doubts choose the rows of the next batch."""

from typing import NamedTuple

import numpy as np
from sklearn import config_context
from sklearn.tree import DecisionTreeClassifier

from benchmarks.studies.doubt.doubts import N_TREES, as_numbers, behind, counts_of, distance, kinds
from benchmarks.studies.doubt.jobs import Found, Rows

LABELS = (20, 60, 180, 500)
"""How many rows are labelled when answers are asked; the first are drawn."""
CURVE = ("area", *(f"accuracy, {n}" for n in LABELS))
POOLED = 2 / 3
"""The share of the rows that may be labelled; the others are asked."""
RANDOM = "random//"
CHOICES = (
    RANDOM, "margin//", "entropy, BALD//", "epistemic/train/", "credal width/in-bag/", "outside share//", "distance//",
)  # fmt: skip
"""What the next rows are chosen by."""


class Grown(NamedTuple):
    """A random forest by its trees, which are quicker to grow and to ask one by one."""

    trees: list[DecisionTreeClassifier]
    times: np.ndarray
    """How often each bag has a row, ``[rows trees]``."""
    leaves: np.ndarray
    """The leaves of the training rows, ``[rows trees]``."""

    def apply(self, X: np.ndarray) -> np.ndarray:
        """The leaves of rows, ``[rows trees]``."""
        return np.stack([tree.tree_.apply(X) for tree in self.trees], axis=1)

    def reached(self, y: np.ndarray, n_classes: int, leaves: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The counts of leaves ``[rows trees]``, each training row so many times: ``[rows trees classes]``."""
        return counts_of(self.leaves, y, n_classes, times)[np.arange(len(self.trees)), leaves]

    def outside_share(self, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """`ju.outside_share` of rows without missing values, which compiles nothing; ``rows`` are those that train."""
        tested = np.unique(np.concatenate([tree.tree_.feature for tree in self.trees]))
        tested = tested[tested >= 0]
        beyond, queries = np.zeros(len(X)), X[:, tested]
        for train, asked in zip(self.leaves.T, self.apply(X).T, strict=True):
            order = np.argsort(train, kind="stable")
            filled, first = np.unique(train[order], return_index=True)
            inside, box = rows[order][:, tested], np.searchsorted(filled, asked)
            least, most = (each.reduceat(inside, first, axis=0)[box] for each in (np.minimum, np.maximum))
            beyond += ((queries < least) | (queries > most)).sum(axis=1)
        return beyond / (len(self.trees) * max(len(tested), 1))


def grow(X: np.ndarray, y: np.ndarray, seed: int, n_trees: int = N_TREES, leaf: int = 1) -> Grown:
    """Trees on bootstrap samples, grown as scikit-learn's random forest grows them."""
    rng, n = np.random.default_rng(seed), len(y)
    times = np.stack([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(n_trees)], axis=1)
    with config_context(assume_finite=True, skip_parameter_validation=True):
        trees = [
            DecisionTreeClassifier(max_features="sqrt", min_samples_leaf=leaf, random_state=seed * n_trees + t).fit(
                X, y, sample_weight=times[:, t].astype(float), check_input=False
            )
            for t in range(n_trees)
        ]
    return Grown(trees, times, np.stack([tree.tree_.apply(X) for tree in trees], axis=1))


def run_next(data: Rows, repeat: int) -> Found:
    """{"next": {choice: `CURVE`}}: the same rows are asked and labelled first, whatever chooses the others."""
    n_classes, n_pool = int(data.y.max()) + 1, round(POOLED * len(data.y))
    pool, rest = np.split(np.random.default_rng(repeat).permutation(len(data.y)), [n_pool])
    X, y, X_test, y_test = data.X[pool], data.y[pool], data.X[rest], data.y[rest]
    numbers = as_numbers(X, X, data.nominal)

    def asked(labelled: np.ndarray) -> tuple[Grown, float]:
        grown = grow(X[labelled], y[labelled], repeat)
        counts = grown.reached(y[labelled], n_classes, grown.apply(X_test), grown.times)
        p = (counts / counts.sum(axis=2, keepdims=True)).mean(axis=1)
        return grown, float((p.argmax(axis=1) == y_test).mean())

    first, found = asked(np.arange(LABELS[0])), {}
    for choice in CHOICES:
        if choice.startswith("entropy") and n_classes == 2:
            continue
        labelled, (grown, accuracy) = np.arange(LABELS[0]), first
        curve, draws = [accuracy], np.random.default_rng(repeat)
        for n in LABELS[1:]:
            others = draws.permutation(np.setdiff1d(np.arange(n_pool), labelled))
            doubt = doubt_of(choice, grown, X, y, n_classes, numbers, labelled, others)
            chosen = others[np.argsort(-np.round(doubt, 6), kind="stable")][: n - len(labelled)]
            labelled = np.concatenate([labelled, chosen])
            grown, accuracy = asked(labelled)
            curve.append(accuracy)
        area = np.trapezoid(curve, np.log(LABELS)) / np.log(LABELS[-1] / LABELS[0])
        found[choice] = [round(float(each), 4) for each in (area, *curve)]
    return {"next": found}


def doubt_of(
    choice: str, grown: Grown, X: np.ndarray, y: np.ndarray, n_classes: int, numbers: np.ndarray, labelled: np.ndarray,
    others: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The doubt that a choice has of the other rows."""
    if choice == RANDOM:
        return np.zeros(len(others))
    if choice == "outside share//":
        return grown.outside_share(X[others], X[labelled])
    if choice == "distance//":
        return distance(numbers[labelled], numbers[others])
    times = np.ones_like(grown.times) if "/train/" in choice else grown.times
    p, doubts = kinds(grown.reached(y[labelled], n_classes, grown.apply(X[others]), times), support=False)
    if choice == "margin//":
        return behind(p, p.argmax(axis=1))
    return (doubts | {"entropy, BALD": doubts.get("entropy")})[choice.split("/")[0]]
