"""What an ONNX graph holds: its node of trees, what its data are, what becomes of its scores; and the trees themselves.

`read_nodes` reads the trees of the older two operators, `read_ensemble` those of ``TreeEnsemble``.
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
_FLOAT, _DOUBLE = 1, 11  # ONNX's numbers of types
_INTS = (2, 3, 4, 5, 6, 7, 12, 13)  # likewise
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_COMPARE = np.array([AT_MOST, BELOW, AT_LEAST, ABOVE, EQUAL, UNEQUAL, IN_SET])  # by a mode's number: as in `_MODES`
_SET_MODE = 6  # the number of a test of a set, which only ``TreeEnsemble`` has


class TreesInGraph(NamedTuple):
    """A graph's node of trees, and what the graph says about it."""

    operator: str  # one of `OPERATORS`
    attributes: "Attributes"
    wide: bool  # whether float64 is compared
    n_features: int | None  # columns of the input, where the file says so
    after: tuple[str, ...]  # what the scores go through: "Sigmoid", "Softmax", "Exp", or a norm ("L1", "L2", "MAX")
    producer: str
    opset: int  # the version of ai.onnx.ml
    properties: dict[str, str]  # the file's metadata


class Attributes:
    """The attributes of a node. Methods return one by its name, and check its type: a ValueError for another type."""

    def __init__(self, node: Any):
        self._by_name = {attribute.name: attribute for attribute in node.attribute}  # objects of ONNX

    def _read(self, name: str, kind: str, field: str, default: Any) -> Any:
        """Return the ``field`` of the attribute ``name``, of the type ``kind``; ``default`` without the attribute."""
        attribute = self._by_name.get(name)
        if attribute is None:
            return default
        if attribute.type != getattr(attribute, kind):
            raise ValueError(f"the model's attribute {name} is none of {kind}. Is the file whole?")
        return getattr(attribute, field)

    def ints(self, name: str) -> np.ndarray:
        """Return a list of integers; empty without it."""
        return np.array(list(self._read(name, "INTS", "ints", ())), np.int64)

    def integer(self, name: str, default: int) -> int:
        """Return an integer; ``default`` without it."""
        return int(self._read(name, "INT", "i", default))

    def text(self, name: str, default: str) -> str:
        """Return a text; ``default`` without it."""
        return self._read(name, "STRING", "s", default.encode()).decode("utf-8", "replace")

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; empty without it."""
        return [text.decode("utf-8") for text in self._read(name, "STRINGS", "strings", ())]

    def floats(self, name: str) -> np.ndarray:
        """Return a list of float32, or the tensor ``name`` + "_as_tensor", as float64; empty without both."""
        tensor = self._read(f"{name}_as_tensor", kind="TENSOR", field="t", default=None)
        if tensor is not None:
            return _array(name, tensor).astype(np.float64)
        return np.array(list(self._read(name, "FLOATS", "floats", ())), np.float64)

    def tensor(self, name: str) -> np.ndarray:
        """Return a tensor of one axis, as float64; empty without it."""
        tensor = self._read(name, kind="TENSOR", field="t", default=None)
        return np.zeros(0) if tensor is None else _array(name, tensor).astype(np.float64)


def _array(name: str, tensor: Any) -> np.ndarray:
    """Return ``tensor``, the value of the attribute ``name``, as an array.

    A ValueError unless it has one axis of numbers, and if they are in another file.
    """
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
    """Return the node of trees of ``model``, a ``ModelProto``, and what the graph says about it.

    A ValueError for what is not imported: several nodes of trees, other operators before or after them.
    """
    _check_texts(model)
    graph = model.graph
    tree_nodes = [node for node in graph.node if node.op_type in OPERATORS]
    is_ours = model.producer_name == OURS
    if is_ours:  # nodes of trees before the last only find sides of sets, which are in the metadata
        tree_nodes = tree_nodes[-1:]
    if len(tree_nodes) != 1:
        names = sorted({node.op_type for node in graph.node})[:8]
        raise ValueError(f"the ONNX graph has {len(tree_nodes)} nodes of trees among {names}; from_onnx imports one.")
    node = tree_nodes[0]
    if not node.input or not node.output:
        raise ValueError("the ONNX graph's node of trees has no input or no output. Is the file whole?")
    allowed = ("Identity", "Cast", "Concat") if is_ours else ("Identity", "Cast")
    wide, n_features = _read_input(graph, node, allowed)
    # A classifier has labels as its first output, and scores as its second.
    if node.op_type == "TreeEnsembleClassifier":
        labels = node.output[0]
        scores = node.output[1] if len(node.output) > 1 else None
    else:
        labels = None
        scores = node.output[0]
    opset = max((entry.version for entry in model.opset_import if not entry.domain), default=1)
    ml_opset = max((entry.version for entry in model.opset_import if entry.domain == "ai.onnx.ml"), default=1)
    return TreesInGraph(
        operator=node.op_type,
        attributes=Attributes(node),
        wide=wide,
        n_features=n_features,
        # The metadata of our own files have the link.
        after=() if is_ours else _find_steps(graph, node, labels, scores, opset),
        producer=model.producer_name,
        opset=ml_opset,
        properties={item.key: item.value for item in model.metadata_props},
    )


def _check_texts(model: Any) -> None:
    """Raise a ValueError if a name in ``model``, a ``ModelProto``, is not UTF-8, which protobuf returns as bytes."""
    graph = model.graph
    named = [*graph.node, *graph.input, *graph.output, *(entry for node in graph.node for entry in node.attribute)]
    texts = [model.producer_name, *(entry.domain for entry in model.opset_import), *(entry.name for entry in named)]
    for node in graph.node:
        texts += [node.op_type, *node.input, *node.output]
    if odd := [text for text in texts if not isinstance(text, str)]:
        raise ValueError(f"the ONNX model has names that are no text: {odd[0]!r:.60}. Is the file whole?")


def _read_input(graph: Any, node: Any, allowed: tuple[str, ...]) -> tuple[bool, int | None]:
    """Return (whether the trees of ``node`` compare float64, number of columns of the ``graph``'s input or None).

    A ValueError for operators between these that are not ``allowed``, and for an input that does not hold numbers.
    """
    producer_of = {output: producer for producer in graph.node for output in producer.output}
    # From the node of trees back to the input. A damaged graph may go in circles, so that the steps are limited.
    name = node.input[0]
    casts = []  # the types that values are cast to on this way
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
    """Return the number, by ONNX, of the type that ``cast``, a node, casts to; 0 if the node does not tell."""
    return next((int(attribute.i) for attribute in cast.attribute if attribute.name == "to"), 0)


def _find_steps(graph: Any, trees: Any, labels: Any, scores: Any, opset: int) -> tuple[str, ...]:
    """Return the operators that scores go through between the trees and the graph's outputs, such as ("Softmax",).

    For a norm this is its kind ("L1"). ``labels`` and ``scores`` are the names of the outputs of ``trees``, the node,
    None without them. A ValueError for operators that are not imported, and if the graph's outputs differ in them.
    """
    # The steps to each value that scores lead to; None for values that labels lead to.
    steps_to: dict[str, tuple[str, ...] | None] = {}
    if labels:
        steps_to[labels] = None
    if scores:
        steps_to[scores] = ()
    for node in graph.node:
        sources = [name for name in node.input if name in steps_to]
        if node is trees or not sources:
            continue
        if len(sources) > 1 or len(node.output) != 1:
            raise ValueError(f"the ONNX graph joins scores by {node.op_type} after its trees, which is not imported.")
        steps = steps_to[sources[0]]
        if steps is not None:
            steps = _after_scores(node, steps, opset)
        elif node.op_type not in ("Identity", "Cast"):
            raise _not_imported(node)
        steps_to[node.output[0]] = steps
    steps_of_outputs = {steps_to[output.name] for output in graph.output if output.name in steps_to}
    if not steps_of_outputs:
        raise ValueError("the ONNX graph has no output that its trees lead to. Is the file whole?")
    steps_of_scores = [steps for steps in steps_of_outputs if steps is not None]
    if len(steps_of_scores) > 1:
        raise ValueError(f"the ONNX graph has outputs of several kinds, {sorted(map(str, steps_of_scores))}; keep one.")
    return steps_of_scores[0] if steps_of_scores else ()


def _after_scores(node: Any, steps: tuple[str, ...], opset: int) -> tuple[str, ...]:
    """Return the steps to the output of ``node``: ``steps``, those to its input, and the node's own if it computes.

    A ValueError for operators that are not imported; ``opset`` is their version.
    """
    name = node.op_type
    attributes = Attributes(node)
    if name in ("Identity", "ZipMap") or (name == "Cast" and _target(node) in (_FLOAT, _DOUBLE)):
        return steps
    if name in ("Sigmoid", "Exp"):
        return (*steps, name)
    last_axes = (-1, 1)  # scores are [instances outputs]
    default_axis = -1 if opset >= 13 else 1
    if name == "Softmax" and attributes.integer("axis", default_axis) in last_axes:
        return (*steps, name)
    if name == "Normalizer":
        return (*steps, attributes.text("norm", "MAX"))
    raise _not_imported(node)


def _not_imported(node: Any) -> ValueError:
    """Return the error for a ``node`` after the trees whose operator is not imported."""
    return ValueError(f"the ONNX graph has {node.op_type} after its trees, which is not imported.")


class OnnxTrees(NamedTuple):
    """The trees of a node, whose leaf values are not filled in yet, and the weights of their leaves.

    A weight is a number that a leaf adds to one output; arrays have an entry for each weight.
    """

    trees: list[ComparingTree]
    has_tracks: bool  # whether any node is said to send missing values to its true branch
    of_tree: np.ndarray  # the index of the tree
    node: np.ndarray  # the leaf's index in the tree
    output: np.ndarray  # the output that the weight is added to
    weight: np.ndarray  # the number


def read_nodes(attributes: Attributes, weights: str) -> OnnxTrees:
    """Return the trees of a ``TreeEnsembleClassifier`` or ``TreeEnsembleRegressor`` with these ``attributes``.

    Attributes about weights have names that begin with ``weights``: "class" for a classifier, "target" for a regressor.
    A ValueError if lists differ in length, or name nodes that there are not.
    """
    tree_id = attributes.ints("nodes_treeids")
    node_id = attributes.ints("nodes_nodeids")
    feature = attributes.ints("nodes_featureids")
    value = attributes.floats("nodes_values")
    modes = np.array(attributes.texts("nodes_modes"), object)
    true_child = attributes.ints("nodes_truenodeids")
    false_child = attributes.ints("nodes_falsenodeids")
    n_nodes = len(node_id)
    lists = (tree_id, feature, value, modes, true_child, false_child)
    if n_nodes == 0 or any(len(array) != n_nodes for array in lists):
        raise ValueError(f"the ONNX trees have {n_nodes} nodes, but attributes of other lengths.")
    inner = modes != "LEAF"
    compare = _comparisons(modes)
    to_true = _tracks(attributes, n_nodes) & inner
    missing_left = to_true | (compare == UNEQUAL)
    # Trees are numbered in the order in which they begin (the argsort of an argsort is a rank). A tree's first node is
    # its root.
    tree_ids, first_nodes, id_index = np.unique(tree_id, return_index=True, return_inverse=True)
    tree_of_id = np.argsort(np.argsort(first_nodes))
    of_tree = tree_of_id[id_index]
    # Children as positions in the file's lists; -1 at leaves.
    search = _NodeSearch(of_tree, node_id)
    left = np.full(n_nodes, -1)
    left[inner] = search.index(of_tree[inner], true_child[inner])
    right = np.full(n_nodes, -1)
    right[inner] = search.index(of_tree[inner], false_child[inner])
    order, ends, local_index = _sort_by_tree(of_tree, len(tree_ids))
    trees = []
    for start, end in pairwise(ends):
        rows = order[start:end]
        tree = ComparingTree(
            feature=feature[rows],
            compare=compare[rows],
            value=value[rows],
            left=np.where(inner[rows], local_index[left[rows]], -1),
            right=np.where(inner[rows], local_index[right[rows]], -1),
            missing_left=missing_left[rows],
            sets={},
            leaf_values=np.zeros((end - start, 1)),
        )
        trees.append(tree)
    weight_tree, weight_node, output = (attributes.ints(f"{weights}_{name}") for name in ("treeids", "nodeids", "ids"))
    weight = attributes.floats(f"{weights}_weights")
    if not len(weight) or any(len(ids) != len(weight) for ids in (weight_tree, weight_node, output)):
        raise ValueError(f"the ONNX trees have {len(weight)} weights of leaves, but ids of other lengths.")
    if not np.isin(weight_tree, tree_ids).all():
        raise ValueError("the ONNX trees have weights for trees that there are not.")
    node = search.index(tree_of_id[np.searchsorted(tree_ids, weight_tree)], weight_node)
    at_leaf = ~inner[node]  # runtimes pass weights of other nodes by
    leaf = node[at_leaf]
    return OnnxTrees(trees, bool(to_true.any()), of_tree[leaf], local_index[leaf], output[at_leaf], weight[at_leaf])


def _sort_by_tree(of_tree: np.ndarray, n_trees: int) -> tuple[np.ndarray, list[int], np.ndarray]:
    """Return (positions of nodes sorted by tree, where each tree begins among them, each node's index in its tree).

    ``of_tree`` has the tree of each node, below ``n_trees``. Nodes of a tree keep their order. The second result has
    one more entry, the end of the last tree.
    """
    order = np.argsort(of_tree, kind="stable")
    ends = np.searchsorted(of_tree[order], np.arange(n_trees + 1))
    local_index = np.empty(len(of_tree), np.int64)
    local_index[order] = np.arange(len(of_tree)) - ends[of_tree[order]]
    return order, ends.tolist(), local_index


def _comparisons(modes: np.ndarray) -> np.ndarray:
    """Return how each node compares, such as `AT_MOST`, -1 for leaves; a ValueError for ``modes`` that are unknown."""
    compare = np.full(len(modes), -1)
    for i, mode in enumerate(_MODES):
        compare[modes == mode] = _COMPARE[i]
    if unknown := sorted({str(mode) for mode in modes[(modes != "LEAF") & (compare < 0)]}):
        raise ValueError(f"the ONNX trees have nodes_modes {unknown[:3]}; from_onnx imports {', '.join(_MODES)}, LEAF.")
    return compare


class _NodeSearch:
    """A search for nodes by tree (``of_tree``) and number in it (``node_id``); a ValueError if two have the same."""

    def __init__(self, of_tree: np.ndarray, node_id: np.ndarray):
        self._order = np.lexsort((node_id, of_tree))
        self._tree = of_tree[self._order]
        self._node = node_id[self._order]
        if np.any((np.diff(self._tree) == 0) & (np.diff(self._node) == 0)):
            raise ValueError("the ONNX trees have a node twice.")
        self._distinct = np.unique(node_id)

    def index(self, tree: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the position in the file's lists of each node with these numbers; a ValueError if one is not there."""
        # Pairs of tree and node as one integer. Ranks stand for the numbers of nodes, which may be too large.
        n_ids = len(self._distinct)
        pair_keys = self._tree * n_ids + np.searchsorted(self._distinct, self._node)
        node_rank = np.minimum(np.searchsorted(self._distinct, node), n_ids - 1)
        indices = np.minimum(np.searchsorted(pair_keys, tree * n_ids + node_rank), len(pair_keys) - 1)
        if np.any(self._tree[indices] != tree) or np.any(self._node[indices] != node):
            raise ValueError("the ONNX trees name nodes that there are not.")
        return self._order[indices]


def _tracks(attributes: Attributes, n_nodes: int) -> np.ndarray:
    """Return whether each of ``n_nodes`` sends missing values to its true branch; False where nothing says so."""
    tracks = attributes.ints("nodes_missing_value_tracks_true")
    if len(tracks) not in (0, n_nodes):
        raise ValueError(f"the ONNX trees say for {len(tracks)} of {n_nodes} nodes where missing values go.")
    return tracks == 1 if len(tracks) else np.zeros(n_nodes, bool)


def read_ensemble(attributes: Attributes) -> OnnxTrees:
    """Return the trees of a ``TreeEnsemble`` with these ``attributes``, which list inner nodes and leaves apart.

    A ValueError if lists differ in length, or name nodes that there are not.
    """
    modes = attributes.tensor("nodes_modes").astype(np.int64)
    n_nodes = len(modes)
    feature = attributes.ints("nodes_featureids")
    split = attributes.tensor("nodes_splits")
    sides = [(attributes.ints(f"nodes_{s}nodeids"), attributes.ints(f"nodes_{s}leafs")) for s in ("true", "false")]
    output = attributes.ints("leaf_targetids")
    weight = attributes.tensor("leaf_weights")
    if n_nodes == 0 or any(len(entry) != n_nodes for entry in (feature, split, *sides[0], *sides[1])):
        raise ValueError(f"the ONNX trees have {n_nodes} nodes, but attributes of other lengths.")
    if len(output) != len(weight) or modes.min() < 0 or modes.max() > _SET_MODE:
        raise ValueError("the ONNX trees have unknown modes, or leaves without a weight or a target.")
    for child, is_leaf in sides:
        if np.any(child < 0) or np.any(child >= np.where(is_leaf == 1, len(weight), n_nodes)):
            raise ValueError("the ONNX trees have children that there are not.")
    sets = _members(attributes, modes)
    tracks = _tracks(attributes, n_nodes)
    compare = _COMPARE[modes]
    missing_left = tracks | (compare == UNEQUAL)
    roots = attributes.ints("tree_roots")
    if not len(roots) or roots.min() < 0 or roots.max() >= n_nodes:
        raise ValueError("the ONNX trees have no roots, or roots that are no nodes.")
    trees = []
    of_tree, node, leaf = [], [], []  # of each leaf: its tree, its index there, its position in the file's lists
    seen = np.zeros(n_nodes, bool)
    for t, root in enumerate(roots.tolist()):
        inner, left, right, leaf_ids = _walk(root, sides, seen)
        n_inner, n_leaves = len(inner), len(leaf_ids)
        n_all = n_inner + n_leaves
        # Leaves lie behind the inner nodes.
        tree = ComparingTree(
            feature=_pad(feature[inner], n_all),
            compare=_pad(compare[inner], n_all),
            value=_pad(split[inner], n_all),
            left=_pad(np.array(left), n_all, -1),
            right=_pad(np.array(right), n_all, -1),
            missing_left=_pad(missing_left[inner], n_all),
            sets={i: sets[number] for i, number in enumerate(inner) if number in sets},
            leaf_values=np.zeros((n_all, 1)),
        )
        trees.append(tree)
        of_tree.append(np.full(n_leaves, t))
        node.append(n_inner + np.arange(n_leaves))
        leaf.append(np.array(leaf_ids))
    leaf_index = np.concatenate(leaf)
    return OnnxTrees(
        trees=trees,
        has_tracks=bool(tracks.any()),
        of_tree=np.concatenate(of_tree),
        node=np.concatenate(node),
        output=output[leaf_index],
        weight=weight[leaf_index],
    )


def _walk(root: int, sides: list, seen: np.ndarray) -> tuple[list, list, list, list]:
    """Return (inner nodes of the tree of ``root``, left child of each, right child of each, leaves of the tree).

    Nodes and leaves are positions in the file's lists. Children are indices in the tree: its inner nodes come first,
    then its leaves. ``sides`` has for left and right (each node's child, whether that is a leaf). ``seen`` marks nodes
    of earlier trees, and then this tree's, too. A ValueError if they share one.
    """
    inner = [root]
    leaves = []
    children = ([], [])  # left and right ones; a leaf is -1 - its position in ``leaves`` for now
    position = 0
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
    # Leaves count on behind the inner nodes: -1 - position becomes len(inner) + position.
    left, right = ([len(inner) - 1 - index if index < 0 else index for index in side] for side in children)
    return inner, left, right, leaves


def _pad(array: np.ndarray, length: int, value: int = 0) -> np.ndarray:
    """Return ``array`` with ``value`` appended until it has ``length`` entries; the dtype stays."""
    return np.append(array, np.full(length - len(array), value, array.dtype))


def _members(attributes: Attributes, modes: np.ndarray) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return {node: the set that it tests} for nodes of a ``TreeEnsemble`` whose ``modes [nodes]`` are tests of sets.

    A set is (first numbers, ends) of intervals of one number each. A ValueError unless each of these nodes has one.
    """
    nodes = np.flatnonzero(modes == _SET_MODE).tolist()
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
    """Return ``trees`` that test sets again, in place of the columns that `to_onnx` appended behind ``n_features``.

    ``document`` has the sets, as JSON of the file's metadata. A ValueError if they do not fit the trees.
    """
    sets = _read_sets(document, n_features)
    return [_restore_set_tests(tree, n_features, sets) for tree in trees]


def _read_sets(document: str, n_features: int) -> list[PlainSet]:
    """Return the sets in ``document``, JSON of the metadata of a file that `to_onnx` made.

    An entry has the column, whether the first interval goes left, whether missing values do, and the intervals' bounds.
    A ValueError if it is damaged, or a column is not below ``n_features``.
    """
    try:
        sets = []
        for feature, first_left, missing_left, *upper in json.loads(document):
            ends = np.array(upper, np.float64).reshape(-1)
            has_types = type(feature) is int and type(first_left) is type(missing_left) is bool
            is_of_column = has_types and 0 <= feature < n_features
            if not is_of_column or np.any(np.diff(ends) <= 0) or not np.all(ends < np.inf):
                raise ValueError("a set is none of a column, or its bounds do not rise")
            sets.append(PlainSet(feature, ends, next_above(ends), first_left, missing_left))
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"the model's metadata {SETS} are damaged: {error}. Is the file whole?") from error
    return sets


def _restore_set_tests(tree: ComparingTree, n_features: int, sets: list[PlainSet]) -> ComparingTree:
    """Return ``tree`` with tests of ``sets`` in place of tests of the columns that `to_onnx` appended.

    Column ``n_features + k`` is for the set k. A ValueError if a node tests it otherwise than `to_onnx` does.
    """
    indices = np.flatnonzero((tree.left >= 0) & (tree.feature >= n_features))
    set_index = tree.feature[indices] - n_features
    if np.any(set_index >= len(sets)) or np.any(tree.value[indices] != 0.5) or np.any(tree.compare[indices] != AT_MOST):
        raise ValueError("the model's trees test columns that are no sides of its sets. Is the file whole?")
    feature, compare, missing_left = (np.array(array) for array in (tree.feature, tree.compare, tree.missing_left))
    tested_sets = dict(tree.sets)
    for index, k in zip(indices.tolist(), set_index.tolist(), strict=True):
        plain_set = sets[k]
        feature[index] = plain_set.feature
        missing_left[index] = plain_set.missing_left
        # The last interval reaches infinity: a set holds those that go to the other side.
        last_left = bool(plain_set.goes_left[-1])
        compare[index] = NOT_IN_SET if last_left else IN_SET
        is_in_set = plain_set.goes_left[:-1] != last_left
        end = plain_set.behind
        first = np.append(-np.inf, end)[:-1]
        tested_sets[index] = first[is_in_set], end[is_in_set]
    return tree._replace(feature=feature, compare=compare, missing_left=missing_left, sets=tested_sets)
