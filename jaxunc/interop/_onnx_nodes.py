"""The trees of ONNX's operators, and what their leaves add to which output."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ._comparisons import ABOVE, AT_LEAST, AT_MOST, BELOW, EQUAL, IN_SET, UNEQUAL, ComparingTree
from ._onnx_reader import Attributes

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_COMPARE = np.array([AT_MOST, BELOW, AT_LEAST, ABOVE, EQUAL, UNEQUAL, IN_SET])


class OnnxTrees(NamedTuple):
    """The trees of a node, without leaf values, and the weights of leaves."""

    trees: list[ComparingTree]
    has_tracks: bool
    """Whether a missing value follows the true branch of any node."""
    of_tree: np.ndarray
    """For each weight its tree, the leaf there, the output that it counts for, and what it adds."""
    node: np.ndarray
    output: np.ndarray
    weight: np.ndarray


def read_nodes(attributes: Attributes, weights: str) -> OnnxTrees:
    """Return the trees of a classifier or a regressor; ``weights`` is "class" or "target"."""
    tree_id, node_id = attributes.ints("nodes_treeids"), attributes.ints("nodes_nodeids")
    feature, value = attributes.ints("nodes_featureids"), attributes.floats("nodes_values")
    modes = np.array(attributes.texts("nodes_modes"), object)
    true, false = attributes.ints("nodes_truenodeids"), attributes.ints("nodes_falsenodeids")
    n_nodes = len(node_id)
    if n_nodes == 0 or any(len(one) != n_nodes for one in (tree_id, feature, value, modes, true, false)):
        raise ValueError(f"the ONNX trees have {n_nodes} nodes, but attributes of other lengths.")
    compare = np.full(n_nodes, -1)
    for i, mode in enumerate(_MODES):
        compare[modes == mode] = _COMPARE[i]
    inner = modes != "LEAF"
    if unknown := sorted({str(one) for one in modes[inner & (compare < 0)]}):
        raise ValueError(f"the ONNX trees have nodes_modes {unknown[:3]}; from_onnx imports {', '.join(_MODES)}, LEAF.")
    tracks = _tracks(attributes, n_nodes) & inner
    missing_left = tracks | (compare == UNEQUAL)
    # Trees in the order in which they begin; a tree's first node is its root.
    distinct, first, number = np.unique(tree_id, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    of_tree = rank[number]
    key_of = _Keys(of_tree, node_id)
    left, right = np.full(n_nodes, -1), np.full(n_nodes, -1)
    left[inner] = key_of.place(of_tree[inner], true[inner])
    right[inner] = key_of.place(of_tree[inner], false[inner])
    order = np.argsort(of_tree, kind="stable")
    ends = np.searchsorted(of_tree[order], np.arange(len(distinct) + 1))
    within = np.empty(n_nodes, np.int64)
    within[order] = np.arange(n_nodes) - ends[of_tree[order]]
    trees = []
    for a, b in pairwise(ends.tolist()):
        own = order[a:b]
        # A place of -1 is no child's.
        to_left, to_right = (np.where(side[own] < 0, -1, within[side[own]]) for side in (left, right))
        tests = feature[own], compare[own], value[own]
        trees.append(ComparingTree(*tests, to_left, to_right, missing_left[own], {}, np.zeros((b - a, 1))))
    target = [attributes.ints(f"{weights}_{name}") for name in ("treeids", "nodeids", "ids")]
    weight = attributes.floats(f"{weights}_weights")
    if not len(weight) or any(len(one) != len(weight) for one in target):
        raise ValueError(f"the ONNX trees have {len(weight)} weights of leaves, but ids of other lengths.")
    if not np.isin(target[0], distinct).all():
        raise ValueError("the ONNX trees have weights for trees that there are not.")
    place = key_of.place(rank[np.searchsorted(distinct, target[0])], target[1])
    at_leaf = ~inner[place]  # runtimes pass weights of other nodes by
    place = place[at_leaf]
    return OnnxTrees(trees, bool(tracks.any()), of_tree[place], within[place], target[2][at_leaf], weight[at_leaf])


class _Keys:
    """The places of nodes by tree and number."""

    def __init__(self, of_tree: np.ndarray, node_id: np.ndarray):
        self._order = np.lexsort((node_id, of_tree))
        self._tree, self._node = of_tree[self._order], node_id[self._order]
        if np.any((np.diff(self._tree) == 0) & (np.diff(self._node) == 0)):
            raise ValueError("the ONNX trees have a node twice.")
        self._distinct = np.unique(node_id)

    def place(self, tree: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the places of nodes, or raise a ValueError if one is not there."""
        # A number for each pair, of the rank of the node's among all, so that no product is too large.
        n = len(self._distinct)
        keys = self._tree * n + np.searchsorted(self._distinct, self._node)
        wanted = np.minimum(np.searchsorted(self._distinct, node), n - 1)
        found = np.minimum(np.searchsorted(keys, tree * n + wanted), len(keys) - 1)
        if np.any(self._tree[found] != tree) or np.any(self._node[found] != node):
            raise ValueError("the ONNX trees name nodes that there are not.")
        return self._order[found]


def _tracks(attributes: Attributes, n_nodes: int) -> np.ndarray:
    tracks = attributes.ints("nodes_missing_value_tracks_true")
    if len(tracks) not in (0, n_nodes):
        raise ValueError(f"the ONNX trees say for {len(tracks)} of {n_nodes} nodes where missing values go.")
    return tracks == 1 if len(tracks) else np.zeros(n_nodes, bool)


def read_ensemble(attributes: Attributes) -> OnnxTrees:
    """Return the trees of a ``TreeEnsemble``, of which nodes and leaves have lists of their own."""
    modes = attributes.tensor("nodes_modes").astype(np.int64)
    n_nodes = len(modes)
    feature, split = attributes.ints("nodes_featureids"), attributes.tensor("nodes_splits")
    sides = [(attributes.ints(f"nodes_{s}nodeids"), attributes.ints(f"nodes_{s}leafs")) for s in ("true", "false")]
    output, weight = attributes.ints("leaf_targetids"), attributes.tensor("leaf_weights")
    if n_nodes == 0 or any(len(one) != n_nodes for one in (feature, split, *sides[0], *sides[1])):
        raise ValueError(f"the ONNX trees have {n_nodes} nodes, but attributes of other lengths.")
    if len(output) != len(weight) or modes.min() < 0 or modes.max() > 6:
        raise ValueError("the ONNX trees have unknown modes, or leaves without a weight or a target.")
    for child, is_leaf in sides:
        if np.any(child < 0) or np.any(child >= np.where(is_leaf == 1, len(weight), n_nodes)):
            raise ValueError("the ONNX trees have children that there are not.")
    sets = _members(attributes, modes)
    tracks = _tracks(attributes, n_nodes)
    compare = _COMPARE[modes]
    roots = attributes.ints("tree_roots")
    if not len(roots) or roots.min() < 0 or roots.max() >= n_nodes:
        raise ValueError("the ONNX trees have no roots, or roots that are no nodes.")
    trees, leaves, seen = [], [], np.zeros(n_nodes, bool)
    for root in roots.tolist():
        inner, left, right, own_leaves = _walk(root, sides, seen)
        n_all = len(inner) + len(own_leaves)
        # Leaves lie behind the inner nodes.
        tested, kind, at, missing = (
            _padded(part[inner], n_all) for part in (feature, compare, split, tracks | (compare == UNEQUAL))
        )
        own_sets = {i: sets[node] for i, node in enumerate(inner) if node in sets}
        to_left, to_right = (_padded(np.array(side), n_all, -1) for side in (left, right))
        trees.append(ComparingTree(tested, kind, at, to_left, to_right, missing, own_sets, np.zeros((n_all, 1))))
        leaves.append((np.full(len(own_leaves), len(trees) - 1), len(inner) + np.arange(len(own_leaves)), own_leaves))
    of_tree, node = (np.concatenate([one[i] for one in leaves]) for i in (0, 1))
    which = np.concatenate([np.array(one[2]) for one in leaves])
    return OnnxTrees(trees, bool(tracks.any()), of_tree, node, output[which], weight[which])


def _walk(root: int, sides: list, seen: np.ndarray) -> tuple[list, list, list, list]:
    """The inner nodes of a tree, their children with leaves behind all of them, and these leaves."""
    inner, at, ends, leaves = [root], 0, ([], []), []
    while at < len(inner):
        node = inner[at]
        if seen[node]:
            raise ValueError("the ONNX trees share nodes, or go in circles.")
        seen[node] = True
        for side, (child, is_leaf) in zip(ends, sides, strict=True):
            if is_leaf[node] == 1:
                side.append(-1 - len(leaves))
                leaves.append(int(child[node]))
            else:
                side.append(len(inner))
                inner.append(int(child[node]))
        at += 1
    left, right = ([len(inner) - 1 - place if place < 0 else place for place in side] for side in ends)
    return inner, left, right, leaves


def _padded(part: np.ndarray, length: int, value: int = 0) -> np.ndarray:
    return np.append(part, np.full(length - len(part), value, part.dtype))


def _members(attributes: Attributes, modes: np.ndarray) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """The sets of nodes that test them, as intervals of single numbers."""
    nodes = np.flatnonzero(modes == 6).tolist()
    values = attributes.tensor("membership_values")
    groups = np.split(values, np.flatnonzero(np.isnan(values)) + 1) if nodes else []
    if groups and not len(groups[-1]):
        groups = groups[:-1]
    if len(groups) != len(nodes):
        raise ValueError(f"the ONNX trees have {len(groups)} sets for {len(nodes)} nodes that test them.")
    found = {}
    for node, group in zip(nodes, groups, strict=True):
        own = np.unique(group[~np.isnan(group)])
        if np.any(np.isinf(own)):
            raise ValueError("the ONNX trees test whether a number is infinite, which is not imported.")
        found[node] = (own, np.nextafter(own, np.inf))
    return found
