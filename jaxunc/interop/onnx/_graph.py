"""An ONNX graph in the making (`Graph`): nodes, known by the names of their outputs, and constants; and trees as nodes.

`add_trees` adds one node, which sums any number of planes of leaf statistics in double precision. ONNX's trees compare
with one number. So tests of sets of intervals become columns of 0 and 1 behind the instances (`_append_sides`). The
bounds of a column's sets cut its numbers into pieces. A small tree finds an instance's piece, and a table has the side
of each set on which a piece lies. So no node of a forest is copied, however many intervals a set has.
"""

import json
import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from jaxunc.forest import Trees

from .._exported import PlainNodes, PlainSet, plain_nodes

ML = "ai.onnx.ml"
OPSETS = {"": 18, ML: 3}  # versions of the operators: the oldest that have what is needed, for old runtimes
IR_VERSION = 8
TYPES = {"float32": 1, "int32": 6, "int64": 7, "bool": 9, "float64": 11, "uint64": 13}  # ONNX's numbers of types
SETTINGS = "jaxunc.settings"  # the entry of the metadata that holds what else `AdditiveTrees` are, as JSON
LARGEST = 2**31 - 2**20  # bytes that a file of protocol buffers may have, less some for what is around the nodes
SETS = "jaxunc.sets"  # the entry of the metadata that holds the sets, in the order of their appended columns
_MOST_PIECES = 2**24  # pieces of a column: their numbers are float32
_DIGITS = 50  # binary digits of a number that `pieces_of` keeps
_NODE, _WEIGHT = 50, 20  # bytes of a node and of a leaf's weight in the file


class Graph:
    """A graph in the making. Methods take values by their names, and return the name of the new value."""

    def __init__(self) -> None:
        onnx: Any = import_module("onnx")

        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: dict[tuple[Any, ...], Any] = {}
        self._names = 0
        self.properties: dict[str, str] = {}
        """Entries of the model's metadata, besides those that `model` is given."""

    def node(
        self, op: str, *inputs: str, domain: str = "", output: str | None = None, unnamed: int = 0, **attributes: Any
    ) -> str:
        """Add a node of the operator ``op`` in ``domain``; return the name of its first output, ``output`` if given.

        ``unnamed`` is the number of further, unused outputs.
        """
        outputs = [output or self._name(), *(self._name() for _ in range(unnamed))]
        self._nodes.append(self._onnx.helper.make_node(op, list(inputs), outputs, domain=domain, **attributes))
        return outputs[0]

    def constant(self, values: Any) -> str:
        """Return the name of an array, of numbers or texts; equal arrays are stored once."""
        array = np.asarray(values)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            array = array.astype(object) if array.dtype.kind == "U" else array
            self._constants[key] = self._onnx.numpy_helper.from_array(array, self._name())
        return self._constants[key].name

    def tensor(self, array: np.ndarray) -> Any:
        """Return an array as the value of an attribute."""
        return self._onnx.numpy_helper.from_array(np.ascontiguousarray(array))

    def cast(self, name: str, dtype: Any) -> str:
        """Add a cast; return the name of the values in the type ``dtype``."""
        return self.node("Cast", name, to=TYPES[np.dtype(dtype).name])

    def rows(self, name: str) -> str:
        """Return the name of a tensor ``[1]``, which holds the number of rows of the tensor ``name``."""
        return self.node("Shape", name, start=0, end=1)

    def model(self, source: tuple[str, Any, int], outputs: dict, properties: dict[str, str], version: str) -> Any:
        """Return the ``ModelProto`` with the input ``source``: (name, type, number of columns).

        ``outputs`` are {name: (type, shape for an instance)}, ``properties`` the metadata; ``version`` is jaxunc's.
        """
        helper, (name, dtype, n_columns) = self._onnx.helper, source
        kinds = {**TYPES, "str": 8}

        def info(name: str, dtype: Any, shape: tuple[Any, ...]) -> Any:
            return helper.make_tensor_value_info(name, kinds[dtype], ["instances", *shape])

        nodes, constants = self._reaching(outputs)
        output_infos = [info(output, dtype, shape) for output, (dtype, shape) in outputs.items()]
        graph = helper.make_graph(nodes, "jaxunc", [info(name, dtype, (n_columns,))], output_infos, constants)
        opsets = [helper.make_opsetid(domain, number) for domain, number in OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="jaxunc")
        model.producer_version = version
        helper.set_model_props(model, properties | self.properties)
        return model

    def _reaching(self, outputs: Any) -> tuple[list[Any], list[Any]]:
        """Return the nodes and the constants on which the values named ``outputs`` depend."""
        needed, nodes = set(outputs), []
        for node in reversed(self._nodes):
            if needed & set(node.output):
                nodes.append(node)
                needed |= set(node.input)
        return nodes[::-1], [constant for constant in self._constants.values() if constant.name in needed]

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"


def add_trees(
    graph: Graph,
    instances: str,
    trees: Trees,
    values: np.ndarray,
    target: np.ndarray,
    *,
    all_kept=False,
    base: Any = None,
) -> str:
    """Add a node of trees to the graph; return the name of its sums ``[instances sums]``, float32, each rounded once.

    ``instances`` names the instances, double. Leaves add ``values [trees nodes planes]``, float64: each plane of a
    tree is added to the sum whose index is in ``target [trees planes]``. ``base [sums]`` is added to the sums.
    Planes of a tree that are 0 in all its leaves are left out, unless ``all_kept``.
    """
    nodes = plain_nodes(trees, wide=trees.columns.cuts is not None)
    is_leaf, node_number = np.zeros(values.shape[:2], bool), np.zeros(values.shape[:2], np.int64)
    is_leaf[nodes.tree, nodes.node], node_number[nodes.tree, nodes.node] = ~nodes.inner, nodes.number
    has_weight = np.any((values != 0) & is_leaf[..., None], axis=1) | all_kept
    has_weight[:, 0] |= ~has_weight.any(axis=1)  # every leaf needs a weight
    tree, node, column = np.nonzero(is_leaf[..., None] & has_weight[:, None])
    n_bytes = _NODE * len(nodes.node) + _WEIGHT * len(column) + _size_of_sides(nodes.sets)
    if n_bytes > LARGEST:
        raise ValueError(
            f"the model would take {n_bytes / 1e9:.1f} GB, and a file of ONNX holds two. Export fewer trees, smaller "
            "ones, or a combiner with fewer planes; or take bound.export()."
        )
    instances, nodes = _append_sides(graph, instances, nodes, trees.n_features)
    integers = {
        "nodes_treeids": nodes.tree,
        "nodes_nodeids": nodes.number,
        "nodes_featureids": nodes.feature,
        "nodes_truenodeids": np.where(nodes.inner, nodes.left, 0),
        "nodes_falsenodeids": np.where(nodes.inner, nodes.left + 1, 0),
        "nodes_missing_value_tracks_true": nodes.missing_left,
        "target_treeids": tree,
        "target_nodeids": node_number[tree, node],
        "target_ids": target[tree, column],
    }
    numbers = {"nodes_values": np.where(nodes.inner, nodes.value, 0.0), "target_weights": values[tree, node, column]}
    if base is not None:
        numbers["base_values"] = base
    attributes: dict[str, Any] = {name: ids.astype(np.int64).tolist() for name, ids in integers.items()}
    attributes |= {f"{name}_as_tensor": graph.tensor(array.astype(np.float64)) for name, array in numbers.items()}
    n_sums = int(target.max()) + 1 if base is None else len(base)
    # Where no number goes left the value is -inf, and none is less.
    modes = np.where(nodes.inner, np.where(nodes.none_left, "BRANCH_LT", "BRANCH_LEQ"), "LEAF").tolist()
    return graph.node("TreeEnsembleRegressor", instances, domain=ML, nodes_modes=modes, n_targets=n_sums, **attributes)


def pieces_of(values: np.ndarray, n_trees: int) -> list[np.ndarray]:
    """Return pieces that add to ``values``, each of so few digits that its sum over ``n_trees`` is exact in float32.

    The last piece holds what is left after `_DIGITS` digits, and its sum may be rounded. Small integers are one piece.
    """
    finite = np.isfinite(values)
    rest = np.where(finite, values, 0.0)
    # A float32 has 24 binary digits; the sum over trees takes log2(n_trees) of them.
    digits = max(24 - math.ceil(math.log2(max(n_trees, 1))), 1)
    largest, pieces = np.abs(rest).max(initial=0.0), []
    while not pieces or rest.any():
        largest_rest = np.abs(rest).max(initial=0.0)
        if largest_rest * n_trees <= largest * 2.0 ** (24 - _DIGITS):
            pieces.append(rest)
            break
        unit = 2.0 ** (math.frexp(largest_rest)[1] - digits)
        pieces.append(np.round(rest / unit) * unit)
        rest = rest - pieces[-1]
    pieces[0] = np.where(finite, pieces[0], values)
    return pieces


def _size_of_sides(sets: Sequence[PlainSet]) -> int:
    """Return about how many bytes of the file the appended columns of ``sets`` take."""
    total = sum(30 * len(plain_set.upper) for plain_set in sets)  # a bound as text in the metadata
    for column_sets in _by_column(sets).values():
        n_pieces = len(_bounds(column_sets)) + 2
        total += n_pieces * (2 * _NODE + len(column_sets))
    return total


def _append_sides(graph: Graph, instances: str, nodes: PlainNodes, n_features: int) -> tuple[str, PlainNodes]:
    """Append a column for each set of ``nodes`` to the instances; return (their name, nodes that test these columns).

    A set's column is 0 for instances that go left, and 1 for those that go right. ``instances`` names the instances
    in the graph, with ``n_features`` columns.
    """
    if not nodes.sets:
        return instances, nodes
    sets_by_column = _by_column(nodes.sets)
    bounds = [_bounds(sets) for sets in sets_by_column.values()]
    pieces = graph.cast(_pieces(graph, instances, list(sets_by_column), bounds), np.int64)
    sides, order = [], []  # an entry of ``sides`` has the columns of all sets of a tested column
    for i, (sets, column_bounds) in enumerate(zip(sets_by_column.values(), bounds, strict=True)):
        piece = graph.node("Gather", pieces, graph.constant(np.int64(i)), axis=1)
        goes_right = np.stack([_goes_right(plain_set, column_bounds) for plain_set in sets.values()], axis=1)
        # Bools take a byte in the file; runtimes cast this constant once.
        side_of_piece = graph.cast(graph.constant(goes_right), np.float64)
        sides.append(graph.node("Gather", side_of_piece, piece, axis=0))
        order += sets
    ordered = [nodes.sets[k] for k in order]
    graph.properties[SETS] = json.dumps([[s.feature, s.first_left, s.missing_left, *s.upper.tolist()] for s in ordered])
    tests_set, column_of_set = nodes.of_set >= 0, n_features + np.argsort(order)
    return graph.node("Concat", instances, *sides, axis=1), nodes._replace(
        feature=np.where(tests_set, column_of_set[nodes.of_set], nodes.feature),
        value=np.where(tests_set, 0.5, nodes.value),  # between the sides 0 and 1
        none_left=nodes.none_left & ~tests_set,
    )


def _by_column(sets: Sequence[PlainSet]) -> dict[int, dict[int, PlainSet]]:
    """Return {tested column: {position in ``sets``: set}}."""
    columns: dict[int, dict[int, PlainSet]] = {}
    for k, plain_set in enumerate(sets):
        columns.setdefault(plain_set.feature, {})[k] = plain_set
    return columns


def _bounds(sets: dict[int, PlainSet]) -> np.ndarray:
    return np.unique(np.concatenate([plain_set.upper for plain_set in sets.values()]))


def _goes_right(plain_set: PlainSet, bounds: np.ndarray) -> np.ndarray:
    """Return whether each piece between ``bounds`` goes right at ``plain_set``; missing values are the last piece."""
    interval_index = np.searchsorted(plain_set.upper, np.append(bounds, np.inf))
    return np.append(~plain_set.goes_left[interval_index], not plain_set.missing_left)


def _pieces(graph: Graph, instances: str, features: list[int], bounds: list[np.ndarray]) -> str:
    """Add for each of ``features`` a tree that finds in which piece, between the feature's ``bounds``, a number lies.

    Return the name, in the graph, of the pieces' numbers ``[instances features]``.
    """
    piece_trees = [_piece_tree(t, j, ends) for t, (j, ends) in enumerate(zip(features, bounds, strict=True))]
    nodes, values, leaves = (np.concatenate(arrays) for arrays in zip(*piece_trees, strict=True))
    tree, node, feature, true_child, missing_true, is_leaf = nodes.T
    names = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids", "missing_value_tracks_true")
    integers = (tree, node, feature, true_child, np.where(is_leaf == 1, 0, true_child + 1), missing_true)
    attributes: dict[str, Any] = {f"nodes_{name}": ids.tolist() for name, ids in zip(names, integers, strict=True)}
    at_leaf = is_leaf == 1
    attributes |= {"target_treeids": tree[at_leaf].tolist(), "target_nodeids": node[at_leaf].tolist()}
    attributes |= {"target_ids": tree[at_leaf].tolist(), "nodes_values_as_tensor": graph.tensor(values)}
    attributes |= {"target_weights_as_tensor": graph.tensor(leaves), "n_targets": len(features)}
    attributes["nodes_modes"] = np.where(at_leaf, "LEAF", "BRANCH_LEQ").tolist()
    return graph.node("TreeEnsembleRegressor", instances, domain=ML, **attributes)


def _piece_tree(t: int, feature: int, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return tree ``t``, a binary search for a number's piece: its nodes, thresholds, and leaves' numbers of pieces.

    A node is a row of tree, node, feature, true child, whether missing values go there, and whether it is a leaf. A
    piece's number is how many ``bounds`` lie below it; missing values have the largest.
    """
    if len(bounds) >= _MOST_PIECES - 1:
        raise ValueError(f"column {feature} has {len(bounds)} bounds of sets; ONNX distinguishes {_MOST_PIECES}.")
    # Every number is at or below infinity, and missing ones are not: they go to the last leaf.
    rows, thresholds, piece_numbers = [[t, 0, feature, 1, 0, 0]], [np.inf], []
    level = [(1, 0, len(bounds)), (2, len(bounds) + 1, len(bounds) + 1)]
    next_node = 3
    while level:
        next_level = []
        for node, first, last in level:
            if first == last:
                rows.append([t, node, 0, 0, 0, 1])
                thresholds.append(0.0)
                piece_numbers.append(float(first))
                continue
            middle = (first + last) // 2
            rows.append([t, node, feature, next_node, 0, 0])
            thresholds.append(bounds[middle])
            next_level += [(next_node, first, middle), (next_node + 1, middle + 1, last)]
            next_node += 2
        level = next_level
    return np.array(rows, np.int64), np.array(thresholds), np.array(piece_numbers)
