"""Trees of the study of Hernández-Lobato et al. 2011, and what they vote for."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from benchmarks.papers.hernandez_lobato2011_problems import Split
from jaxunc.forest import Forest

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
