"""Nodes along the path, which Costa, Verwer and Blockeel 2013 name beside their own method, and both together.

    python -m benchmarks costa2013 --parts paths [--data FOLDER] [--sets NAME ...]

An instance's path goes from the root to its leaf. Three ways to mix the estimates of the nodes on it: all alike, each
node's drawn towards its parent's, and the average over all prunings of the tree. On the plain tree and, but for the
last one, on the trees of transduction. A cell has five folds of a set.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

import jaxunc as ju
from benchmarks.data import DataSet
from benchmarks.studies.costa2013.methods import DECIMALS, Probabilities, laplace, widened
from benchmarks.studies.costa2013.pools import part_of_five, pooled
from jaxunc.transduction import Pairs, as_queries, counts_of, presort, settings_of


class NodePath(NamedTuple):
    """The nodes from the root to the leaf of each instance; behind the leaf there are none."""

    counts: np.ndarray
    """``[instances nodes classes]``."""
    is_there: np.ndarray
    """``[instances nodes]``."""


class RecordingPairs(Pairs):
    """Pairs of an instance and a label that keep the counts of every node that they reach."""

    def __init__(self, *given, **said):
        super().__init__(*given, **said)
        self.reached: list[tuple[np.ndarray, np.ndarray]] = []

    def end_at_leaves(self, totals: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """Keep what is reached."""
        counts = np.broadcast_to(self.with_instance(totals, pairs)[1], (len(pairs), len(self._unit[0])))
        self.reached.append((pairs, counts))
        return super().end_at_leaves(totals, pairs)

    def paths(self) -> NodePath:
        """Paths ``[instances * labels …]``, in the order of the pairs."""
        reached, counts = (np.concatenate(of) for of in zip(*self.reached, strict=True))
        order = np.argsort(reached, kind="stable")
        reached = reached[order]
        depth = np.arange(len(order)) - np.searchsorted(reached, reached)
        found = np.zeros((self.n, depth.max() + 1, counts.shape[1]), int)
        found[reached, depth] = counts[order]
        is_there = np.zeros(found.shape[:2], bool)
        is_there[reached, depth] = True
        return NodePath(found, is_there)


def transductive_paths(X, y, X_test, nominal) -> NodePath:
    """Paths ``[instances labels nodes …]``, the inserted instance counted; with no label at last."""
    sample = presort(X, y, nominal)
    pairs = RecordingPairs(sample, as_queries(X_test, sample), settings_of(sample, "boundary", 2), True)
    counts_of(pairs, "grouped")
    found = pairs.paths()
    return NodePath(*(of.reshape(len(X_test), pairs.n_labels, *of.shape[1:]) for of in found))


def alike(path: NodePath) -> np.ndarray:
    """The mean of Laplace's estimates of the nodes ``[… classes]``."""
    estimate = (path.counts + 1) / (path.counts.sum(axis=-1, keepdims=True) + path.counts.shape[-1])
    there = path.is_there[..., None]
    return (estimate * there).sum(axis=-2) / there.sum(axis=-2)


def drawn(path: NodePath) -> np.ndarray:
    """The leaf's estimate, each node's being drawn to its parent's by as many instances as there are classes."""
    k = path.counts.shape[-1]
    found = np.full((*path.counts.shape[:-2], k), 1 / k)
    for depth in range(path.counts.shape[-2]):
        counts = path.counts[..., depth, :]
        here = (counts + k * found) / (counts.sum(axis=-1, keepdims=True) + k)
        found = np.where(path.is_there[..., depth, None], here, found)
    return found


def averaged_prunings(forest: ju.Forest, X: np.ndarray) -> np.ndarray:
    """The average over all prunings of a tree, weighted by their evidence ``[instances classes]``.

    Each inner node is a leaf with probability one half beforehand; a leaf's evidence is that of a uniform prior over
    its class probabilities, whose prediction is Laplace's estimate (Buntine 1992; Willems, Shtarkov, Tjalkens 1995).
    """
    counts, sides = node_counts(forest)
    k = counts.shape[1]
    evidence = gammaln(k) - gammaln(counts.sum(axis=1) + k) + gammaln(counts + 1).sum(axis=1)
    weighted = evidence.copy()
    for node in sorted(sides, reverse=True):  # children lie behind their parents
        below = sum(weighted[side] for side in sides[node])
        weighted[node] = np.logaddexp(evidence[node], below) - np.log(2)
    stops = np.exp(evidence - weighted) / np.where(np.isin(np.arange(len(counts)), list(sides)), 2, 1)
    estimate = (counts + 1) / (counts.sum(axis=1, keepdims=True) + k)
    found, left = np.zeros((len(X), k)), np.ones(len(X))
    for node, there in walked(forest, X):
        found += np.where(there, left * stops[node], 0)[:, None] * estimate[node]
        left = np.where(there, left * (1 - stops[node]), left)
    return found


def node_counts(forest: ju.Forest) -> tuple[np.ndarray, dict[int, tuple[int, int]]]:
    """Class counts of all nodes of a tree, and the two sides of each test.

    A nominal test is two tests in a row, which share the nodes behind: those of the second lie behind it side by side.
    """
    child = np.asarray(forest.trees.child)[0].tolist()
    counts, sides = np.asarray(forest.counts)[0].astype(float), {}
    reached = [0]
    for node in reached:
        if (first := child[node]) != node:
            is_nominal = child[first] == first + 1
            sides[node] = (first + is_nominal, first + is_nominal + 1)
            reached += sides[node]
    for node in sorted(sides, reverse=True):
        counts[node] = sum(counts[side] for side in sides[node])
    return counts, sides


def walked(forest: ju.Forest, X: np.ndarray):
    """Yield the nodes of each depth, and which instances have one there."""
    _, sides = node_counts(forest)
    parent = {side: node for node, both in sides.items() for side in both}
    paths = []
    for leaf in np.asarray(ju.leaf_index(forest, X))[:, 0].tolist():
        path = [leaf]
        while path[-1] in parent:
            path.append(parent[path[-1]])
        paths.append(path[::-1])
    for depth in range(max(map(len, paths))):
        nodes = [path[min(depth, len(path) - 1)] for path in paths]
        yield np.array(nodes), np.array([depth < len(path) for path in paths])


def _of_fold(data: DataSet, train: np.ndarray, test: np.ndarray, _: int) -> Probabilities:
    classes, y = np.unique(data.y[train], return_inverse=True)
    path = transductive_paths(data.X[train], y, data.X[test], data.nominal)
    told, plain = NodePath(*(of[:, :-1] for of in path)), NodePath(*(of[:, -1] for of in path))
    counts, tree = _leaves(told), _leaves(plain)[:, None]
    size = counts.sum(axis=-1, keepdims=True) + len(classes)
    forest = ju.transduction.grow_greedy_trees(data.X[train], y, nominal=data.nominal)
    probs = {
        "tree_laplace": laplace(tree),
        "tree_alike": alike(plain),
        "tree_drawn": drawn(plain),
        "tree_prunings": averaged_prunings(forest, data.X[test]),
        "tpce": laplace(counts),
        "tpce_alike": alike(told).mean(axis=1),
        "tpce_drawn": drawn(told).mean(axis=1),
        "tpce_pool": pooled(counts),
        "tpce_pool_drawn": (drawn(told) * size).sum(axis=1) / size.sum(axis=1),
    }
    return {name: widened(of.round(DECIMALS), classes, len(data.class_labels)) for name, of in probs.items()}


def _leaves(path: NodePath) -> np.ndarray:
    """The counts of the last node of each path ``[… classes]``."""
    last = path.is_there.sum(axis=-1)[..., None, None] - 1
    return np.take_along_axis(path.counts, last, axis=-2)[..., 0, :]


PART = part_of_five("paths", _of_fold, "tpce")
