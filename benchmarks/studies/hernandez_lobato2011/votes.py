"""The fifteen problems of Hernández-Lobato et al. 2011, ten of data and five drawn, and what trees vote for on them."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from benchmarks.data import load
from benchmarks.problems import GENERATORS
from jaxunc import voting
from jaxunc.forest import Forest

PROBLEMS = {
    "breast": "breast-w", "glass": "glass", "heart": "heart-statlog", "led": None, "liver": "liver",
    "new-thyroid": "new-thyroid", "pima": "diabetes", "ringnorm": None, "spam": "spambase", "threenorm": None,
    "twonorm": None, "vehicle": "vehicle-statlog", "vowel": "vowel", "waveform": None, "wine": "wine",
}  # fmt: skip
"""The paper's names, and the data set each is; None where instances are drawn (`benchmarks.problems`)."""
N_TRAIN, N_TEST = 300, 1000
"""Of the problems that are drawn."""


class Split(NamedTuple):
    """What trees grow on, and what they are asked."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


class Problem(NamedTuple):
    n_classes: int
    split: Callable[[int], Split]
    """Of each repetition."""


def problem(name: str, folder: str | None) -> Problem:
    stored = PROBLEMS[name]
    if stored is None:
        generator = GENERATORS[name]
        return Problem(generator.n_classes, lambda repeat: drawn(generator, repeat))
    data = load(stored, folder)
    return Problem(len(data.class_labels), lambda repeat: parted(data.X, data.y, repeat))


def parted(X: np.ndarray, y: np.ndarray, repeat: int) -> Split:
    """Two thirds to grow on, at random."""
    order = np.random.default_rng(repeat).permutation(len(y))
    train, test = np.split(order, [round(2 * len(y) / 3)])
    return Split(X[train], y[train], X[test], y[test])


def drawn(generator, repeat: int) -> Split:
    X, y = map(np.asarray, generator.draw(jax.random.key(repeat), N_TRAIN + N_TEST))
    return Split(X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:])


KINDS: dict[str, str | None] = {"bagging": None, "forest": "sqrt"}
"""How many features a node may choose among: all, which makes a random forest bagged CART trees, or their root."""
CHUNK = 250
"""Trees of the large ensemble that are held at a time."""


class Votes(NamedTuple):
    """What an ensemble says."""

    polled: np.ndarray
    """``[instances trees]`` of the trees that are polled, the class that each votes for."""
    outside: np.ndarray
    """``[instances classes]`` of training instances, votes of the polled trees that were grown without them."""
    reference: np.ndarray
    """``[instances classes]`` votes of the large ensemble: further trees, none of them polled."""


def vote(split: Split, n_classes: int, kind: str, n_trees: int, n_reference: int, seed: list[int]) -> Votes:
    """Grow an ensemble and a large one of the same kind on the same sample, and ask both."""
    seeds = np.random.SeedSequence(seed).generate_state(1 + -(-n_reference // CHUNK))
    model = grow(split, kind, n_trees, seeds[0])
    X = np.concatenate([split.X_test, split.X_train])
    votes = tree_votes(ju.from_sklearn(model), X)
    n_test, n_train = len(split.X_test), len(split.X_train)
    unseen = np.asarray(ju.counting.oob_mask(model, n_train))
    outside = counted(votes[n_test:], n_classes, unseen)
    reference = np.zeros((n_test, n_classes), int)
    for forest in large_ensemble(split, kind, n_reference, seeds[1:]):
        reference += counted(tree_votes(forest, split.X_test), n_classes)
    return Votes(votes[:n_test], outside, reference)


def grow(split: Split, kind: str, n_trees: int, seed: int) -> RandomForestClassifier:
    """Unpruned trees on bootstrap samples."""
    model = RandomForestClassifier(n_trees, max_features=KINDS[kind], random_state=int(seed))
    return model.fit(split.X_train, split.y_train)


def large_ensemble(split: Split, kind: str, n_trees: int, seeds) -> Iterator[Forest]:
    """Its trees, some at a time: they need not be held together."""
    for seed, start in zip(seeds, range(0, n_trees, CHUNK), strict=True):
        yield ju.from_sklearn(grow(split, kind, min(CHUNK, n_trees - start), seed))


def tree_votes(forest: Forest, X: np.ndarray) -> np.ndarray:
    """``[instances trees]``: the commonest class of the leaf, the lowest of several."""
    node_votes = np.asarray(forest.class_labels)[np.asarray(forest.counts).argmax(axis=-1)]
    return node_votes[np.arange(forest.n_trees), np.asarray(ju.leaf_index(forest, X))]


def counted(votes: np.ndarray, n_classes: int, mask: np.ndarray | None = None) -> np.ndarray:
    """``[instances classes]``: how many trees vote for each class, of those that the mask names."""
    heard = np.ones(votes.shape, bool) if mask is None else mask
    return np.stack([np.sum(heard & (votes == c), axis=1) for c in range(n_classes)], axis=1)


# The two-dimensional problem of Hernández-Lobato et al. 2011, section 2.2: where votes take long to settle.
#
# The paper's circle has "radius √2", which holds the whole square; √(2/π), which halves it, is taken here.

N_CIRCLE, N_GRID, NOISE = 300, 51, 0.05
RADIUS = (2 / np.pi) ** 0.5
AXIS = np.linspace(-1, 1, N_GRID)


def circle(repeat: int) -> Split:
    """Training instances in the square, of which a twentieth has the other class, and the grid's points."""
    rng = np.random.default_rng(repeat)
    X = rng.uniform(-1, 1, (N_CIRCLE, 2))
    flipped = rng.permutation(N_CIRCLE) < round(NOISE * N_CIRCLE)
    vertical, horizontal = np.meshgrid(AXIS, AXIS, indexing="ij")
    grid = np.stack([horizontal.ravel(), vertical.ravel()], axis=1)
    return Split(X, (_outside(X) ^ flipped).astype(int), grid, _outside(grid).astype(int))


def _outside(X: np.ndarray) -> np.ndarray:
    return (X**2).sum(axis=1) > RADIUS**2


def trees_needed(repeat: int, n_trees: int, confidence: float) -> list[int]:
    """Bagged trees polled for each point of the grid, row by row; -1 where the vote was not settled."""
    split = circle(repeat)
    seeds = np.random.SeedSequence([repeat]).generate_state(-(-n_trees // CHUNK))
    votes = [tree_votes(forest, split.X_test) for forest in large_ensemble(split, "bagging", n_trees, seeds)]
    stopped = voting.stop_after(np.concatenate(votes, axis=1), 2, confidence=confidence)
    return np.where(np.asarray(stopped.settled), np.asarray(stopped.n_trees_used), -1).tolist()
