"""Trees of the study of Sutton-Charani 2020 as R's rpart grows and prunes them, from scikit-learn's.

rpart splits by Gini and prunes by *misclassification*: with R(t) the errors of node t as a leaf, R(T_t) those of its
subtree of |T_t| leaves and R(root) those of the root, a split is kept from the bottom up only while

    (R(t) - R(T_t)) / (|T_t| - 1) > cp R(root).

scikit-learn's ``ccp_alpha`` has the same rule with the impurity in place of the errors, and prunes other nodes. Here
the rule is applied to trees of rpart's defaults. Even cp = 0 takes away splits that make no fewer errors.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju

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
        # The least (R(t) - R(T_t)) / (|T_t| - 1) of the nodes that are kept.
        risk, n_leaves = _risks(model, errors, lambda node, *_, kept=kept: kept[node])
        cp = np.min((errors - risk)[kept] / (n_leaves[kept] - 1), initial=np.inf) / root
        found.append(cp)


def _risks(model: Any, errors: np.ndarray, stays: Callable[..., bool]) -> tuple[np.ndarray, np.ndarray]:
    """R(T_t) and |T_t| of each node; ``stays`` says of an inner node, R and leaves below it whether its split does."""
    tree, risk, n_leaves = model.tree_, errors.copy(), np.ones(len(errors))
    for node in range(tree.node_count - 1, -1, -1):
        left, right = tree.children_left[node], tree.children_right[node]
        below = risk[left] + risk[right], n_leaves[left] + n_leaves[right]
        if left >= 0 and stays(node, *below):
            risk[node], n_leaves[node] = below
    return risk, n_leaves


def _kept(model: Any, errors: np.ndarray, threshold: float) -> np.ndarray:
    """Which inner nodes stay where a leaf is worth ``threshold`` errors."""
    tree, kept = model.tree_, model.tree_.children_left >= 0

    def stays(node: int, below: float, leaves: float) -> bool:
        kept[node] = errors[node] - below > (threshold + 1e-9) * (leaves - 1)
        return kept[node]

    _risks(model, errors, stays)
    for node in np.flatnonzero(tree.children_left >= 0):
        if not kept[node]:  # below a node that is gone nothing is left
            kept[[tree.children_left[node], tree.children_right[node]]] = False
    return kept


def prune(model: Any, cp: float) -> PrunedTree:
    """The tree that rpart has for this cp."""
    tree, counts, errors = model.tree_, node_counts(model), node_errors(model)
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


# Trees of the study of Sutton-Charani 2020 whose cuts are chosen by corrected or evidential gains (its section 7).
#
# The paper corrects leaves only; here the gain of every cut is that of the corrected frequencies. A cut of n instances
# into sides of n_1 and n_2 gains
#
#     n G(p) - n_1 G(p_1) - n_2 G(p_2),   G(p) = 2 p (1-p),   p_i = (n_i1 + α)/(n_i + α + β),
#
# so a small side, drawn towards the prior, gains less than it seems to. A node is a leaf if no cut gains. Which prior:
#
# * ``raw``: none, α = β = 0 (CART, as in the study);
# * ``level``: the tree grows level by level, and each level has the prior of the leaves that the tree has by then; a
#   single leaf has no prior, so the root's cut is CART's;
# * ``twice``: the prior of the leaves of CART's unpruned tree, with which the tree is grown anew.
#
# The paper's reference 7 (Denœux and Bjanger 2000) has no prior. A node of n instances is a belief: mass n_k/(n+1) on
# each class k, and 1/(n+1) on ignorance, Ω. In place of G stands
#
#     U = (1 - λ) N + λ D,   N = 1/(n+1),   D = - Σ_k n_k/(n+1) log2 b_k,   b_k = (n_k + 1/2)/(n+1),
#
# for two classes: the nonspecificity N = Σ m(A) log2 |A|, and the discord D = - Σ m(A) log2 BetP(A), to which Ω adds
# nothing since its BetP is 1. n U is about λ n times the entropy H of the frequencies and 1 - λ - λ H, which a node
# more has to win (where it is pure 1 - 0.28 λ). What the authors took for λ is not known here:
#
# * ``evidential``: λ = 1/2, by which a balanced node more costs nothing;
# * ``quarter``: λ = 1/4, by which every node more costs half a bit at least;
# * ``entropy``: no ignorance, n H in the place of n U, to tell what is due to the entropy that takes Gini's place.
#
# Trees are grown by rpart's defaults (20 instances to split, 7 in a leaf), and are pruned like scikit-learn's by
# `prune`. No set has missing values. Of equal gains the first feature's lowest cut is taken.

GROWTHS = ("raw", "level", "twice")
EVIDENTIAL = {"evidential": 0.5, "quarter": 0.25}
"""λ of the evidential gains, the weight of discord beside that of nonspecificity."""
ENTROPY = "entropy"
LARGEST_WEIGHT = 1e9
"""α + β from which a prior stands for the same probability everywhere, with which nothing would gain."""
Impurity: TypeAlias = Callable[[Any, Any], Any]
"""(instances, those of class 1) of nodes → n G or n U of each."""


class TreeArrays(NamedTuple):
    """The nodes, named as in scikit-learn's ``tree_``; children come after their parents."""

    children_left: np.ndarray
    children_right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    value: np.ndarray
    """``[nodes 1 2]`` class frequencies."""
    weighted_n_node_samples: np.ndarray
    node_count: int


class GrownTree(NamedTuple):
    """A grown tree, which finds the leaf of an instance."""

    tree_: TreeArrays

    def apply(self, X: np.ndarray) -> np.ndarray:
        """``[instances]`` the leaf of each."""
        tree, node, rows = self.tree_, np.zeros(len(X), int), np.arange(len(X))
        while (inner := tree.children_left[node] >= 0).any():
            at = node[inner]
            left = X[rows[inner], tree.feature[at]] <= tree.threshold[at]
            node[inner] = np.where(left, tree.children_left[at], tree.children_right[at])
        return node


def grow_by_gain(X: np.ndarray, y: np.ndarray, growth: str) -> GrownTree:
    """The largest tree by one of the gains; see the module."""
    if growth in EVIDENTIAL:
        return _grown(X, y, evidential_impurity(EVIDENTIAL[growth]))
    if growth == ENTROPY:
        return _grown(X, y, entropy_impurity)
    if growth == "level":
        return _grown(X, y, None)
    cart = _grown(X, y, corrected_impurity(0.0, 0.0))
    if growth == "raw":
        return cart
    leaves = node_counts(cart)[cart.tree_.children_left < 0]
    return _grown(X, y, corrected_impurity(*prior_of(leaves)))


def prior_of(counts: np.ndarray) -> tuple[float, float]:
    """(α, β) by the paper's likelihood; (0, 0) where the leaves have no prior of finite weight."""
    prior = ju.smoothing.fit_beta_prior(np.rint(counts))
    alpha, beta = float(prior.alpha), float(prior.beta)
    return (alpha, beta) if alpha + beta < LARGEST_WEIGHT else (0.0, 0.0)


def corrected_impurity(alpha: float, beta: float) -> Impurity:
    """n G of frequencies corrected by a prior."""

    def impurity(size, ones):
        share = (ones + alpha) / (size + alpha + beta)
        return size * 2 * share * (1 - share)

    return impurity


def evidential_impurity(weight: float) -> Impurity:
    """n U of nodes as beliefs, by λ."""

    def impurity(size, ones):
        discord = -sum(count / (size + 1) * np.log2((count + 0.5) / (size + 1)) for count in (ones, size - ones))
        return size * ((1 - weight) / (size + 1) + weight * discord)

    return impurity


def entropy_impurity(size: Any, ones: Any) -> Any:
    """n H of frequencies, in bits."""
    return -sum(count * np.log2(np.maximum(count, 1) / size) for count in (ones, size - ones))


def best_cut(X: np.ndarray, y: np.ndarray, impurity: Impurity) -> tuple[int, float] | None:
    """The feature and threshold of the cut that gains most; None if none gains."""
    n = len(y)
    order = np.argsort(X, axis=0, kind="stable")
    values, labels = np.take_along_axis(X, order, axis=0), y[order]
    left = np.arange(1, n)[:, None]
    ones = np.cumsum(labels, axis=0)[:-1]

    gain = impurity(n, y.sum()) - impurity(left, ones) - impurity(n - left, y.sum() - ones)
    allowed = (values[:-1] < values[1:]) & (left >= MIN_LEAF) & (n - left >= MIN_LEAF)
    gain = np.where(allowed, gain, -np.inf).T  # the first feature first
    feature, place = np.unravel_index(int(np.argmax(gain)), gain.shape)
    if not gain[feature, place] > 1e-9:
        return None
    low, high = values[place, feature], values[place + 1, feature]
    middle = low / 2 + high / 2
    return int(feature), float(middle if low <= middle < high else low)


def _grown(X: np.ndarray, y: np.ndarray, given: Impurity | None) -> GrownTree:
    """A tree grown level by level, by the given impurity or that of the prior of each level's leaves."""
    y = np.asarray(y, int)
    left, right, feature, threshold, counts = [-1], [-1], [-2], [-2.0], [np.bincount(y, minlength=2)]
    level = [(0, np.arange(len(y)))]
    while level:
        leaves = [counts[node] for node in range(len(left)) if left[node] < 0]
        impurity = corrected_impurity(*prior_of(np.array(leaves))) if given is None else given
        below = []
        for node, rows in level:
            own = y[rows]
            if len(rows) < MIN_SPLIT or counts[node].min() == 0 or (cut := best_cut(X[rows], own, impurity)) is None:
                continue
            feature[node], threshold[node] = cut
            goes_left = X[rows, cut[0]] <= cut[1]
            left[node], right[node] = len(left), len(left) + 1
            for side in (rows[goes_left], rows[~goes_left]):
                below.append((len(left), side))
                counts.append(np.bincount(y[side], minlength=2))
                for column, nothing in ((left, -1), (right, -1), (feature, -2), (threshold, -2.0)):
                    column.append(nothing)
        level = below
    n = np.array([count.sum() for count in counts], float)
    value = np.array(counts)[:, None] / n[:, None, None]
    return GrownTree(TreeArrays(*map(np.array, (left, right, feature, threshold)), value, n, len(n)))
