"""What an ONNX graph holds: its node of trees, what its data are, what becomes of its scores; and the trees themselves.

`find_trees` finds the node and what is around it. `read_nodes` reads the trees of the older two operators,
`read_ensemble` those of ``TreeEnsemble``. `with_sets` restores the sets in trees of files that `to_onnx` made.
"""

import json
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .._comparing_trees import (
    ABOVE,
    AT_LEAST,
    AT_MOST,
    BELOW,
    EQUAL,
    IN_SET,
    NOT_IN_SET,
    UNEQUAL,
    ComparingTree,
    next_above,
)
from .._exported import PlainSet
from ._graph import SETS

OPERATORS = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")
OURS = "jaxunc"  # the producer of files that `to_onnx` makes
_FLOAT, _INTS, _DOUBLE = 1, (2, 3, 4, 5, 6, 7, 12, 13), 11
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_COMPARE = np.array([AT_MOST, BELOW, AT_LEAST, ABOVE, EQUAL, UNEQUAL, IN_SET])


class TreesInGraph(NamedTuple):
    """The node of trees in a graph, and its surroundings."""

    operator: str  # one of `OPERATORS`
    attributes: "Attributes"
    wide: bool  # whether float64 is compared
    n_features: int | None  # columns of the input, where the file says so
    after: tuple[str, ...]  # what the scores go through: "Sigmoid", "Softmax", "Exp", or a norm ("L1", "L2", "MAX")
    producer: str
    opset: int  # the version of ai.onnx.ml
    properties: dict[str, str]  # the file's metadata


class Attributes:
    """The attributes of a node by name, each checked for its type where it is read."""

    def __init__(self, node: Any):
        self._by_name = {attribute.name: attribute for attribute in node.attribute}

    def _read(self, name: str, kind: str, field: str, default: Any) -> Any:
        """Return the ``field`` of the attribute ``name``, or ``default``; a ValueError unless its type is ``kind``."""
        attribute = self._by_name.get(name)
        if attribute is None:
            return default
        if attribute.type != getattr(attribute, kind):
            raise ValueError(f"the model's attribute {name} is none of {kind}. Is the file whole?")
        return getattr(attribute, field)

    # Lists and tensors are empty if there is no such attribute.

    def ints(self, name: str) -> np.ndarray:
        return np.array(list(self._read(name, "INTS", "ints", ())), np.int64)

    def integer(self, name: str, default: int) -> int:
        return int(self._read(name, "INT", "i", default))

    def text(self, name: str, default: str) -> str:
        return self._read(name, "STRING", "s", default.encode()).decode("utf-8", "replace")

    def texts(self, name: str) -> list[str]:
        return [text.decode("utf-8") for text in self._read(name, "STRINGS", "strings", ())]

    def floats(self, name: str) -> np.ndarray:
        """Return the numbers of a list of float32, or of the tensor whose name ends in ``_as_tensor``."""
        if (tensor := self._read(f"{name}_as_tensor", "TENSOR", "t", None)) is not None:
            return _array(name, tensor).astype(np.float64)
        return np.array(list(self._read(name, "FLOATS", "floats", ())), np.float64)

    def tensor(self, name: str) -> np.ndarray:
        tensor = self._read(name, "TENSOR", "t", None)
        return np.zeros(0) if tensor is None else _array(name, tensor).astype(np.float64)


def _array(name: str, tensor: Any) -> np.ndarray:
    """Return the attribute ``name``, a tensor, as an array of one axis; a ValueError for others or in another file."""
    numpy_helper: Any = import_module("onnx.numpy_helper")

    if tensor.data_location == tensor.EXTERNAL or tensor.external_data:
        raise ValueError(
            f"the model keeps its attribute {name} in another file, which is not read; write it into one file by "
            "onnx.save(onnx.load(path), path)."
        )
    try:
        array = np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:
        raise ValueError(f"the model's attribute {name} is no array: {error}. Is the file whole?") from error
    if array.ndim != 1 or array.dtype.kind not in "fiub":
        raise ValueError(f"the model's attribute {name} is an array of {array.dtype}{array.shape}; expected one axis.")
    return array


def find_trees(model: Any) -> TreesInGraph:
    """Return the node of trees of a ``ModelProto``; a ValueError names what is not understood."""
    _check_texts(model)
    graph = model.graph
    trees = [node for node in graph.node if node.op_type in OPERATORS]
    is_ours = model.producer_name == OURS
    if is_ours:  # nodes of trees before the last only find sides of sets, which are in the metadata
        trees = trees[-1:]
    if len(trees) != 1:
        names = sorted({node.op_type for node in graph.node})[:8]
        raise ValueError(f"the ONNX graph has {len(trees)} nodes of trees among {names}; from_onnx imports one.")
    node = trees[0]
    if not node.input or not node.output:
        raise ValueError("the ONNX graph's node of trees has no input or no output. Is the file whole?")
    versions = [entry.version for entry in model.opset_import if entry.domain == "ai.onnx.ml"]
    allowed = ("Identity", "Cast", "Concat") if is_ours else ("Identity", "Cast")
    wide, n_features = _read_input(graph, node, allowed)
    is_classifier = node.op_type == "TreeEnsembleClassifier"
    labels = node.output[0] if is_classifier else None
    scores = node.output[1] if is_classifier and len(node.output) > 1 else None if is_classifier else node.output[0]
    opset = max((entry.version for entry in model.opset_import if not entry.domain), default=1)
    # The metadata of our own files have the link.
    after = () if is_ours else _find_steps(graph, node, labels, scores, opset)
    properties, version = {item.key: item.value for item in model.metadata_props}, max(versions, default=1)
    attributes = Attributes(node)
    return TreesInGraph(node.op_type, attributes, wide, n_features, after, model.producer_name, version, properties)


def _check_texts(model: Any) -> None:
    """Raise a ValueError if a name is not text: protobuf returns bytes that are not UTF-8 as they are."""
    graph = model.graph
    named = [*graph.node, *graph.input, *graph.output, *(entry for node in graph.node for entry in node.attribute)]
    texts = [model.producer_name, *(entry.domain for entry in model.opset_import), *(entry.name for entry in named)]
    for node in graph.node:
        texts += [node.op_type, *node.input, *node.output]
    if odd := [text for text in texts if not isinstance(text, str)]:
        raise ValueError(f"the ONNX model has names that are no text: {odd[0]!r:.60}. Is the file whole?")


def _read_input(graph: Any, node: Any, allowed: tuple[str, ...]) -> tuple[bool, int | None]:
    """Return (whether the trees compare float64, the number of the input's columns or None if the file has none).

    Raise a ValueError if operators other than ``allowed`` stand between the graph's input and the node of trees.
    """
    producer_of = {name: value for value in graph.node for name in value.output}
    name, casts = node.input[0], []
    for _ in graph.node:
        if name not in producer_of:
            break
        producer = producer_of[name]
        if producer.op_type not in allowed or not producer.input:
            raise ValueError(f"the ONNX graph has {producer.op_type} before its trees; from_onnx imports trees alone.")
        if producer.op_type == "Cast":
            casts.append(_target(producer))
        name = producer.input[0]
    sources = [value for value in graph.input if value.name == name]
    if not sources:
        raise ValueError(f"the ONNX graph's trees read {name!r:.60}, which is no input of it. Is the file whole?")
    tensor = sources[0].type.tensor_type
    dtype = tensor.elem_type
    if dtype not in (_FLOAT, _DOUBLE, *_INTS) or any(value not in (_FLOAT, _DOUBLE) for value in casts):
        raise ValueError(f"the ONNX graph's trees read numbers of types {[dtype, *casts]}; expected float or double.")
    # Integers that are not cast are compared as float32.
    wide = _FLOAT not in (dtype, *casts) and _DOUBLE in (dtype, *casts)
    n_columns = tensor.shape.dim[1].dim_value if len(tensor.shape.dim) == 2 else 0
    return wide, n_columns if n_columns > 0 else None


def _target(cast: Any) -> int:
    """Return ONNX's number of the type that a Cast makes; 0 if it has none."""
    return next((int(attribute.i) for attribute in cast.attribute if attribute.name == "to"), 0)


def _find_steps(graph: Any, trees: Any, labels: Any, scores: Any, opset: int) -> tuple[str, ...]:
    """Return the steps of scores to the graph's outputs, such as "Softmax" or a norm ("L1"); () without any.

    ``trees`` is the node of trees, whose outputs are named ``labels`` and ``scores``, each None without it. ``opset``
    is the version of ONNX's operators. A ValueError for what is not imported.
    """
    routes: dict[str, tuple[str, ...] | None] = {}
    if labels:
        routes[labels] = None
    if scores:
        routes[scores] = ()
    for node in graph.node:
        sources = [name for name in node.input if name in routes]
        if node is trees or not sources:
            continue
        if len(sources) > 1 or len(node.output) != 1:
            raise ValueError(f"the ONNX graph joins scores by {node.op_type} after its trees, which is not imported.")
        routes[node.output[0]] = _extend_route(node, routes[sources[0]], opset)
    reached = {routes[output.name] for output in graph.output if output.name in routes}
    if not reached:
        raise ValueError("the ONNX graph has no output that its trees lead to. Is the file whole?")
    other_routes = reached - {None}
    if len(other_routes) > 1:
        raise ValueError(f"the ONNX graph has outputs of several kinds, {sorted(map(str, other_routes))}; keep one.")
    return next((route for route in other_routes if route is not None), ())


def _extend_route(node: Any, route: tuple[str, ...] | None, opset: int) -> tuple[str, ...] | None:
    """Return the steps to a node's output: ``route``, those to its input, and what it computes (operator or norm).

    The route of labels is None. ``opset`` is the version of ONNX's operators. Raises a ValueError for operators that
    are not imported.
    """
    name, attributes = node.op_type, Attributes(node)
    if name == "Identity" or (name == "Cast" and (route is None or _target(node) in (_FLOAT, _DOUBLE))):
        return route
    if route is not None:
        if name == "ZipMap":
            return route
        if name in ("Sigmoid", "Exp"):
            return (*route, name)
        if name == "Softmax" and attributes.integer("axis", -1 if opset >= 13 else 1) in (-1, 1):
            return (*route, name)
        if name == "Normalizer":
            return (*route, attributes.text("norm", "MAX"))
    raise ValueError(f"the ONNX graph has {name} after its trees, which is not imported.")


class OnnxTrees(NamedTuple):
    """The trees of a node, without leaf values, and the weights of leaves ``[weights]``."""

    trees: list[ComparingTree]
    has_tracks: bool  # whether any node is said to send missing values to its true branch
    of_tree: np.ndarray  # the tree of each weight
    node: np.ndarray  # the leaf of each weight, as its index in the tree
    output: np.ndarray  # the output that each weight counts for
    weight: np.ndarray


def read_nodes(attributes: Attributes, weights: str) -> OnnxTrees:
    """Return the trees in a node's attributes; ``weights`` is "class" for a classifier, "target" for a regressor."""
    tree_id, node_id = attributes.ints("nodes_treeids"), attributes.ints("nodes_nodeids")
    feature, value = attributes.ints("nodes_featureids"), attributes.floats("nodes_values")
    modes = np.array(attributes.texts("nodes_modes"), object)
    true, false = attributes.ints("nodes_truenodeids"), attributes.ints("nodes_falsenodeids")
    n_nodes = len(node_id)
    if n_nodes == 0 or any(len(array) != n_nodes for array in (tree_id, feature, value, modes, true, false)):
        raise ValueError(f"the ONNX trees have {n_nodes} nodes, but attributes of other lengths.")
    compare = np.full(n_nodes, -1)
    for i, mode in enumerate(_MODES):
        compare[modes == mode] = _COMPARE[i]
    inner = modes != "LEAF"
    if unknown := sorted({str(array) for array in modes[inner & (compare < 0)]}):
        raise ValueError(f"the ONNX trees have nodes_modes {unknown[:3]}; from_onnx imports {', '.join(_MODES)}, LEAF.")
    to_true = _tracks(attributes, n_nodes) & inner
    missing_left = to_true | (compare == UNEQUAL)
    # Trees in the order in which they begin; a tree's first node is its root.
    tree_ids, first_nodes, id_index = np.unique(tree_id, return_index=True, return_inverse=True)
    tree_of_id = np.argsort(np.argsort(first_nodes))
    of_tree = tree_of_id[id_index]
    search = _Keys(of_tree, node_id)
    left, right = np.full(n_nodes, -1), np.full(n_nodes, -1)
    left[inner] = search.index(of_tree[inner], true[inner])
    right[inner] = search.index(of_tree[inner], false[inner])
    order = np.argsort(of_tree, kind="stable")
    ends = np.searchsorted(of_tree[order], np.arange(len(tree_ids) + 1))
    local_index = np.empty(n_nodes, np.int64)
    local_index[order] = np.arange(n_nodes) - ends[of_tree[order]]
    trees = []
    for start, end in pairwise(ends.tolist()):
        rows = order[start:end]
        # An index of -1 is no child's.
        to_left, to_right = (np.where(side[rows] < 0, -1, local_index[side[rows]]) for side in (left, right))
        tests = feature[rows], compare[rows], value[rows]
        trees.append(ComparingTree(*tests, to_left, to_right, missing_left[rows], {}, np.zeros((end - start, 1))))
    ids = [attributes.ints(f"{weights}_{name}") for name in ("treeids", "nodeids", "ids")]
    weight = attributes.floats(f"{weights}_weights")
    if not len(weight) or any(len(array) != len(weight) for array in ids):
        raise ValueError(f"the ONNX trees have {len(weight)} weights of leaves, but ids of other lengths.")
    if not np.isin(ids[0], tree_ids).all():
        raise ValueError("the ONNX trees have weights for trees that there are not.")
    leaf = search.index(tree_of_id[np.searchsorted(tree_ids, ids[0])], ids[1])
    at_leaf = ~inner[leaf]  # runtimes pass weights of other nodes by
    leaf = leaf[at_leaf]
    return OnnxTrees(trees, bool(to_true.any()), of_tree[leaf], local_index[leaf], ids[2][at_leaf], weight[at_leaf])


class _Keys:
    """A search for nodes by tree and ``node_id``; a ValueError if a node is there twice."""

    def __init__(self, of_tree: np.ndarray, node_id: np.ndarray):
        self._order = np.lexsort((node_id, of_tree))
        self._tree, self._node = of_tree[self._order], node_id[self._order]
        if np.any((np.diff(self._tree) == 0) & (np.diff(self._node) == 0)):
            raise ValueError("the ONNX trees have a node twice.")
        self._distinct = np.unique(node_id)

    def index(self, tree: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the indices, in the file's lists, of nodes given by ``tree`` and ``node``; a ValueError for others."""
        # Pairs of tree and node as one integer. Ranks stand for the numbers of nodes, which may be too large.
        n_ids = len(self._distinct)
        pair_keys = self._tree * n_ids + np.searchsorted(self._distinct, self._node)
        node_rank = np.minimum(np.searchsorted(self._distinct, node), n_ids - 1)
        indices = np.minimum(np.searchsorted(pair_keys, tree * n_ids + node_rank), len(pair_keys) - 1)
        if np.any(self._tree[indices] != tree) or np.any(self._node[indices] != node):
            raise ValueError("the ONNX trees name nodes that there are not.")
        return self._order[indices]


def _tracks(attributes: Attributes, n_nodes: int) -> np.ndarray:
    tracks = attributes.ints("nodes_missing_value_tracks_true")
    if len(tracks) not in (0, n_nodes):
        raise ValueError(f"the ONNX trees say for {len(tracks)} of {n_nodes} nodes where missing values go.")
    return tracks == 1 if len(tracks) else np.zeros(n_nodes, bool)


def read_ensemble(attributes: Attributes) -> OnnxTrees:
    """Return the trees in the attributes of a ``TreeEnsemble``, which lists inner nodes and leaves apart."""
    modes = attributes.tensor("nodes_modes").astype(np.int64)
    n_nodes = len(modes)
    feature, split = attributes.ints("nodes_featureids"), attributes.tensor("nodes_splits")
    sides = [(attributes.ints(f"nodes_{s}nodeids"), attributes.ints(f"nodes_{s}leafs")) for s in ("true", "false")]
    output, weight = attributes.ints("leaf_targetids"), attributes.tensor("leaf_weights")
    if n_nodes == 0 or any(len(entry) != n_nodes for entry in (feature, split, *sides[0], *sides[1])):
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
        inner, left, right, leaf_ids = _walk(root, sides, seen)
        n_all = len(inner) + len(leaf_ids)
        # Leaves lie behind the inner nodes.
        tested, kind, value, missing = (
            _pad(array[inner], n_all) for array in (feature, compare, split, tracks | (compare == UNEQUAL))
        )
        tree_sets = {i: sets[node] for i, node in enumerate(inner) if node in sets}
        to_left, to_right = (_pad(np.array(side), n_all, -1) for side in (left, right))
        trees.append(ComparingTree(tested, kind, value, to_left, to_right, missing, tree_sets, np.zeros((n_all, 1))))
        leaves.append((np.full(len(leaf_ids), len(trees) - 1), len(inner) + np.arange(len(leaf_ids)), leaf_ids))
    of_tree, node = (np.concatenate([entry[i] for entry in leaves]) for i in (0, 1))
    leaf_index = np.concatenate([np.array(entry[2]) for entry in leaves])
    return OnnxTrees(trees, bool(tracks.any()), of_tree, node, output[leaf_index], weight[leaf_index])


def _walk(root: int, sides: list, seen: np.ndarray) -> tuple[list, list, list, list]:
    """Return (inner nodes of the tree of ``root``, their left children, their right children, its leaves).

    Children are numbered by these lists: leaves count on behind the inner nodes. ``sides`` has, for left and right,
    (each node's child, whether that is a leaf). Inner nodes become ``seen``; a ValueError if one was.
    """
    inner, position, children, leaves = [root], 0, ([], []), []
    while position < len(inner):
        node = inner[position]
        if seen[node]:
            raise ValueError("the ONNX trees share nodes, or go in circles.")
        seen[node] = True
        for side, (child, is_leaf) in zip(children, sides, strict=True):
            if is_leaf[node] == 1:
                side.append(-1 - len(leaves))
                leaves.append(int(child[node]))
            else:
                side.append(len(inner))
                inner.append(int(child[node]))
        position += 1
    left, right = ([len(inner) - 1 - index if index < 0 else index for index in side] for side in children)
    return inner, left, right, leaves


def _pad(part: np.ndarray, length: int, value: int = 0) -> np.ndarray:
    return np.append(part, np.full(length - len(part), value, part.dtype))


def _members(attributes: Attributes, modes: np.ndarray) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return {node: its set, as intervals of single numbers} for the nodes whose ``modes`` say that they test one."""
    nodes = np.flatnonzero(modes == 6).tolist()  # 6 is the test of a set
    values = attributes.tensor("membership_values")
    # A NaN ends each set.
    sets_of_values = np.split(values, np.flatnonzero(np.isnan(values)) + 1) if nodes else []
    if sets_of_values and not len(sets_of_values[-1]):
        sets_of_values = sets_of_values[:-1]
    if len(sets_of_values) != len(nodes):
        raise ValueError(f"the ONNX trees have {len(sets_of_values)} sets for {len(nodes)} nodes that test them.")
    sets = {}
    for node, set_values in zip(nodes, sets_of_values, strict=True):
        members = np.unique(set_values[~np.isnan(set_values)])
        if np.any(np.isinf(members)):
            raise ValueError("the ONNX trees test whether a number is infinite, which is not imported.")
        sets[node] = (members, next_above(members))
    return sets


def with_sets(trees: Sequence[ComparingTree], n_features: int, document: str) -> list[ComparingTree]:
    """Return trees of our own files with tests of the sets in ``document`` in place of columns that `to_onnx` appended.

    These columns begin at ``n_features``.
    """
    sets = _read_sets(document, n_features)
    return [_restore_set_tests(tree, n_features, sets) for tree in trees]


def _read_sets(document: str, n_features: int) -> list[PlainSet]:
    """Return the sets in ``document``, JSON of our metadata: of each its column, two bools, and its intervals' bounds.

    The bools tell whether the first interval and missing values go left. A ValueError if a column is not below
    ``n_features``, or the metadata are damaged otherwise.
    """
    try:
        sets = []
        for feature, first_left, missing_left, *upper in json.loads(document):
            ends = np.array(upper, np.float64).reshape(-1)
            has_types = type(feature) is int and type(first_left) is type(missing_left) is bool
            if (
                not has_types
                or not 0 <= feature < n_features
                or np.any(np.diff(ends) <= 0)
                or not np.all(ends < np.inf)
            ):
                raise ValueError("a set is none of a column, or its bounds do not rise")
            sets.append(PlainSet(feature, ends, next_above(ends), first_left, missing_left))
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"the model's metadata {SETS} are damaged: {error}. Is the file whole?") from error
    return sets


def _restore_set_tests(tree: ComparingTree, n_features: int, sets: list[PlainSet]) -> ComparingTree:
    """Return the tree with tests of ``sets`` in place of tests of the columns that `to_onnx` appended.

    The column ``n_features + k`` tells on which side of the set k an instance is.
    """
    indices = np.flatnonzero((tree.left >= 0) & (tree.feature >= n_features))
    set_index = tree.feature[indices] - n_features
    if np.any(set_index >= len(sets)) or np.any(tree.value[indices] != 0.5) or np.any(tree.compare[indices] != AT_MOST):
        raise ValueError("the model's trees test columns that are no sides of its sets. Is the file whole?")
    feature, compare, missing_left = (np.array(array) for array in (tree.feature, tree.compare, tree.missing_left))
    tested_sets = dict(tree.sets)
    for index, k in zip(indices.tolist(), set_index.tolist(), strict=True):
        plain_set = sets[k]
        feature[index], missing_left[index] = plain_set.feature, plain_set.missing_left
        # A set holds the intervals on the side opposite to the last one, which reaches infinity.
        last_left = bool(plain_set.goes_left[-1])
        compare[index] = NOT_IN_SET if last_left else IN_SET
        first, chosen = np.append(-np.inf, plain_set.behind)[:-1], plain_set.goes_left[:-1] != last_left
        tested_sets[index] = first[chosen], plain_set.behind[chosen]
    return tree._replace(feature=feature, compare=compare, missing_left=missing_left, sets=tested_sets)
