"""Trees of the study of Sutton-Charani 2020 as R's rpart grows and prunes them, from scikit-learn's.

rpart splits by Gini and prunes by *misclassification*: with R(t) the errors of node t as a leaf, R(T_t) those of its
subtree of |T_t| leaves and R(root) those of the root, a split is kept only while

    (R(t) - R(T_t)) / (|T_t| - 1) > cp R(root),

from the bottom up. scikit-learn's ``ccp_alpha`` has the same rule with the Gini impurity in place of the errors, so
``ccp_alpha = cp * (Gini impurity of the root)`` would be its form of cp, but it prunes other nodes. Here the rule is
applied as it stands to a tree that scikit-learn grew with rpart's defaults (at least 20 instances to split and 7 in a
leaf). Even cp = 0 takes away splits that make no fewer errors.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

MIN_SPLIT, MIN_LEAF = 20, 7


class PrunedTree(NamedTuple):
    """A fitted tree, and where each of its nodes' instances end."""

    model: Any
    """scikit-learn's, or what has its ``tree_`` and ``apply``."""
    leaf_of: np.ndarray
    """``[nodes]`` the leaf of the pruned tree that a node lies in (an inner node: its own index)."""
    counts: np.ndarray
    """``[leaves classes]`` class counts."""
    leaves: np.ndarray
    """``[leaves]`` their nodes, ascending."""

    def place(self, X: np.ndarray) -> np.ndarray:
        """The leaf of each instance, as a row of ``counts``."""
        return np.searchsorted(self.leaves, self.leaf_of[self.model.apply(X)])


def grow(X: np.ndarray, y: np.ndarray) -> DecisionTreeClassifier:
    """The largest tree, by rpart's defaults but cp."""
    return DecisionTreeClassifier(min_samples_split=MIN_SPLIT, min_samples_leaf=MIN_LEAF, random_state=0).fit(X, y)


def node_counts(model: Any) -> np.ndarray:
    """``[nodes classes]`` class counts, whole numbers."""
    tree = model.tree_
    return np.rint(tree.value[:, 0] * tree.weighted_n_node_samples[:, None])


def node_errors(model: Any) -> np.ndarray:
    """``[nodes]`` the instances that are not of a node's most frequent class."""
    counts = node_counts(model)
    return counts.sum(axis=1) - counts.max(axis=1)


def _candidates(model: Any, errors: np.ndarray) -> list[float]:
    """The values of cp at which a split goes, ascending, from 0 on."""
    root, found, cp = max(errors[0], 1.0), [0.0], 0.0
    while True:
        kept = _kept(model, errors, cp * root)
        if not kept[0]:
            return found
        cp = _least_link(model, errors, kept) / root
        found.append(cp)


def _kept(model: Any, errors: np.ndarray, threshold: float) -> np.ndarray:
    """Which inner nodes stay where a leaf is worth ``threshold`` errors."""
    tree = model.tree_
    kept = tree.children_left >= 0
    risk, n_leaves = errors.copy(), np.ones(len(errors))
    for node in range(tree.node_count - 1, -1, -1):
        left, right = tree.children_left[node], tree.children_right[node]
        if left < 0:
            continue
        below, leaves = risk[left] + risk[right], n_leaves[left] + n_leaves[right]
        kept[node] = errors[node] - below > (threshold + 1e-9) * (leaves - 1)
        if kept[node]:
            risk[node], n_leaves[node] = below, leaves
    # Below a node that is gone nothing is left.
    for node in range(tree.node_count):
        left, right = tree.children_left[node], tree.children_right[node]
        if left >= 0 and not kept[node]:
            kept[left] = kept[right] = False
    return kept


def _least_link(model: Any, errors: np.ndarray, kept: np.ndarray) -> float:
    """The least (R(t) - R(T_t)) / (|T_t| - 1) of the nodes that are kept."""
    tree = model.tree_
    risk, n_leaves, least = errors.copy(), np.ones(len(errors)), np.inf
    for node in range(tree.node_count - 1, -1, -1):
        if kept[node]:
            left, right = tree.children_left[node], tree.children_right[node]
            risk[node], n_leaves[node] = risk[left] + risk[right], n_leaves[left] + n_leaves[right]
            least = min(least, (errors[node] - risk[node]) / (n_leaves[node] - 1))
    return least


def prune(model: Any, cp: float) -> PrunedTree:
    """The tree that rpart has for this cp."""
    tree, counts = model.tree_, node_counts(model)
    errors = node_errors(model)
    kept = _kept(model, errors, cp * errors[0])
    leaf_of = np.arange(tree.node_count)
    for node in range(tree.node_count):  # children come after their parents
        if tree.children_left[node] >= 0 and not kept[node]:
            leaf_of[[tree.children_left[node], tree.children_right[node]]] = leaf_of[node]
    reached = [n for n in range(tree.node_count) if leaf_of[n] == n and not kept[n]]
    return PrunedTree(model, leaf_of, counts[reached], np.array(reached))


def best_cp(X: np.ndarray, y: np.ndarray, model: Any, seed: int, grower: Callable[..., Any] = grow) -> float:
    """The cp with the fewest errors in a ten-fold cross-validation, the larger on ties, as of rpart's table.

    Candidates are rpart's: geometric means of the values of cp at which the tree changes. ``grower`` grew the model.
    """
    changes = np.array(_candidates(model, node_errors(model)))
    if len(changes) < 2:
        return 0.0
    candidates = np.sqrt(changes[:-1] * changes[1:])
    wrong = np.zeros(len(candidates))
    for train, test in StratifiedKFold(10, shuffle=True, random_state=seed).split(X, y):
        grown = grower(X[train], y[train])
        for i, cp in enumerate(candidates):
            pruned = prune(grown, cp)
            wrong[i] += np.sum(pruned.counts.argmax(axis=1)[pruned.place(X[test])] != y[test])
    return float(candidates[np.flatnonzero(wrong == wrong.min())[-1]])
