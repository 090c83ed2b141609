"""An ONNX graph in the making (`Graph`): nodes, known by the names of their outputs, and constants; and trees as nodes.

`add_trees` adds one node, which sums planes, one number of each leaf, in double precision. ONNX's trees compare with
one number. So tests of sets of intervals become columns of 0 and 1 behind the instances (`_append_sides`). The bounds
of a column's sets cut its numbers into pieces. A small tree finds an instance's piece, and a table has the side of each
set on which a piece lies. So no node of a forest is copied, however many intervals a set has.
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
IR_VERSION = 8  # of the file format
TYPES = {"float32": 1, "int32": 6, "int64": 7, "bool": 9, "float64": 11, "uint64": 13}  # ONNX's numbers of types
SETTINGS = "jaxunc.settings"  # the entry of the metadata that holds what else `AdditiveTrees` are, as JSON
LARGEST = 2**31 - 2**20  # bytes that a file of protocol buffers may have, less some for what is around the nodes
SETS = "jaxunc.sets"  # the entry of the metadata that holds the sets, in the order of their appended columns
_MOST_PIECES = 2**24  # pieces of a column: their numbers are float32
_DIGITS = 50  # binary digits of a number that `pieces_of` keeps
_NODE, _WEIGHT = 50, 20  # bytes of a node and of a leaf's weight in the file


class Graph:
    """A graph in the making. Its methods add a node or a constant; values are arguments and results by their names."""

    def __init__(self) -> None:
        onnx: Any = import_module("onnx")

        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: dict[tuple[Any, ...], Any] = {}
        self._names = 0  # how many names `_name` has made
        self.properties: dict[str, str] = {}
        """Entries of the model's metadata, besides those that `model` is given."""

    def node(
        self, op: str, *inputs: str, domain: str = "", output: str | None = None, unnamed: int = 0, **attributes: Any
    ) -> str:
        """Add a node of the operator ``op``, of ONNX's ``domain``, to the graph; return the name of its first output.

        ``inputs`` are names of values, and ``attributes`` are those of the operator. The first output is called
        ``output``, by default by a new name. ``unnamed`` is the number of further outputs, which nothing uses.
        """
        outputs = [output or self._name(), *(self._name() for _ in range(unnamed))]
        self._nodes.append(self._onnx.helper.make_node(op, list(inputs), outputs, domain=domain, **attributes))
        return outputs[0]

    def constant(self, values: Any) -> str:
        """Add an array ``values`` of numbers or texts to the graph, unless it has an equal one; return its name."""
        array = np.asarray(values)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            array = array.astype(object) if array.dtype.kind == "U" else array
            self._constants[key] = self._onnx.numpy_helper.from_array(array, self._name())
        return self._constants[key].name

    def tensor(self, array: np.ndarray) -> Any:
        """Return ``array`` as ONNX's object, to be the value of a node's attribute."""
        return self._onnx.numpy_helper.from_array(np.ascontiguousarray(array))

    def cast(self, name: str, dtype: Any) -> str:
        """Add a node that casts the value ``name`` to the type ``dtype``; return the name of its output."""
        return self.node("Cast", name, to=TYPES[np.dtype(dtype).name])

    def rows(self, name: str) -> str:
        """Add a node that counts the rows of the value ``name``; return the name of its output, of shape ``[1]``."""
        return self.node("Shape", name, start=0, end=1)

    def model(self, source: tuple[str, Any, int], outputs: dict, properties: dict[str, str], version: str) -> Any:
        """Return the graph as a ``ModelProto``, without the nodes and constants that no output needs.

        ``source`` is its input: (name, type, number of columns). ``outputs`` are {name: (type, shape for an instance)}.
        ``properties`` are entries of the metadata, besides ``self.properties``, and ``version`` is jaxunc's.
        """
        helper = self._onnx.helper
        input_name, input_dtype, n_columns = source
        type_numbers = {**TYPES, "str": 8}

        def info(name: str, dtype: Any, shape: tuple[Any, ...]) -> Any:
            return helper.make_tensor_value_info(name, type_numbers[dtype], ["instances", *shape])

        nodes, constants = self._reaching(outputs)
        input_info = info(input_name, input_dtype, (n_columns,))
        output_infos = [info(output, dtype, shape) for output, (dtype, shape) in outputs.items()]
        graph = helper.make_graph(nodes, "jaxunc", [input_info], output_infos, constants)
        opsets = [helper.make_opsetid(domain, number) for domain, number in OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="jaxunc")
        model.producer_version = version
        helper.set_model_props(model, properties | self.properties)
        return model

    def _reaching(self, outputs: Any) -> tuple[list[Any], list[Any]]:
        """Return (nodes, constants) of the graph that are needed for the values named ``outputs``, in their order."""
        needed_names = set(outputs)
        nodes = []
        for node in reversed(self._nodes):
            if needed_names & set(node.output):
                nodes.append(node)
                needed_names |= set(node.input)
        constants = [constant for constant in self._constants.values() if constant.name in needed_names]
        return nodes[::-1], constants

    def _name(self) -> str:
        """Return a name that no value of the graph has yet."""
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
    """Add a node of ``trees`` to the graph; return the name of its output ``[instances sums]``, float32.

    ``instances`` is the name of the instances, double. Leaves have ``values [trees nodes planes]``, float64: each plane
    of a tree is added to the sum whose index is in ``target [trees planes]``. ``base [sums]`` is added to the sums, 0
    if it is None. A sum is rounded once. Planes that are 0 in all leaves of a tree are left out of this tree, unless
    ``all_kept``. A ValueError if the file would be too large for ONNX.
    """
    nodes = plain_nodes(trees, wide=trees.columns.cuts is not None)
    # As arrays [trees nodes]: whether a node is a leaf that is used, and its number in the file.
    is_leaf = np.zeros(values.shape[:2], bool)
    is_leaf[nodes.tree, nodes.node] = ~nodes.inner
    node_number = np.zeros(values.shape[:2], np.int64)
    node_number[nodes.tree, nodes.node] = nodes.number
    # A weight is the number that a leaf adds to a sum: which planes of each tree have weights, [trees planes].
    has_weight = np.any((values != 0) & is_leaf[..., None], axis=1) | all_kept
    has_weight[:, 0] |= ~has_weight.any(axis=1)  # every leaf needs a weight
    tree, node, plane = np.nonzero(is_leaf[..., None] & has_weight[:, None])
    n_bytes = _NODE * len(nodes.node) + _WEIGHT * len(plane) + _size_of_sides(nodes.sets)
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
        "target_ids": target[tree, plane],
    }
    numbers = {"nodes_values": np.where(nodes.inner, nodes.value, 0.0), "target_weights": values[tree, node, plane]}
    if base is not None:
        numbers["base_values"] = base
    attributes: dict[str, Any] = {name: ids.astype(np.int64).tolist() for name, ids in integers.items()}
    attributes |= {f"{name}_as_tensor": graph.tensor(array.astype(np.float64)) for name, array in numbers.items()}
    n_sums = int(target.max()) + 1 if base is None else len(base)
    # Where no number goes left the value is -inf, and none is less.
    modes = np.where(nodes.inner, np.where(nodes.none_left, "BRANCH_LT", "BRANCH_LEQ"), "LEAF").tolist()
    return graph.node("TreeEnsembleRegressor", instances, domain=ML, nodes_modes=modes, n_targets=n_sums, **attributes)


def pieces_of(values: np.ndarray, n_trees: int) -> list[np.ndarray]:
    """Return arrays that add up to ``values``, each with so few digits that ``n_trees`` of its numbers add up exactly.

    Sums are in float32, each over one leaf of every tree. The last array holds what is left after `_DIGITS` binary
    digits, and its sums may be rounded. Small integers are one array. Infinity and NaN are in the first one.
    """
    is_finite = np.isfinite(values)
    remainder = np.where(is_finite, values, 0.0)
    # A float32 has 24 binary digits; the sum over trees takes log2(n_trees) of them.
    n_digits = max(24 - math.ceil(math.log2(max(n_trees, 1))), 1)
    # Sums as small as this need not be exact.
    largest_rounded_sum = np.abs(remainder).max(initial=0.0) * 2.0 ** (24 - _DIGITS)
    pieces = []
    while not pieces or remainder.any():
        largest_remainder = np.abs(remainder).max(initial=0.0)
        if largest_remainder * n_trees <= largest_rounded_sum:
            pieces.append(remainder)
            break
        # The piece: multiples of a power of two that is ``n_digits`` binary places below the largest number.
        unit = 2.0 ** (math.frexp(largest_remainder)[1] - n_digits)
        piece = np.round(remainder / unit) * unit
        pieces.append(piece)
        remainder = remainder - piece
    pieces[0] = np.where(is_finite, pieces[0], values)
    return pieces


def _size_of_sides(sets: Sequence[PlainSet]) -> int:
    """Return about how many bytes in the file the columns of `_append_sides` take, one for each of ``sets``."""
    total = sum(30 * len(plain_set.upper) for plain_set in sets)  # a bound takes up to 30 bytes in the metadata
    for column_sets in _by_column(sets).values():
        n_pieces = len(_bounds(column_sets)) + 2  # with that above all bounds, and that of missing values
        total += n_pieces * (2 * _NODE + len(column_sets))  # for a piece a leaf, a test, and a bool for each set
    return total


def _append_sides(graph: Graph, instances: str, nodes: PlainNodes, n_features: int) -> tuple[str, PlainNodes]:
    """Append a column to the instances for each set that ``nodes`` test; return (name of all columns, new nodes).

    A set's column is 0 for instances that go left at its tests, and 1 for others. The new nodes test these columns in
    place of sets. ``instances`` is the instances' name in the graph.
    """
    if not nodes.sets:
        return instances, nodes
    sets_by_column = _by_column(nodes.sets)
    bounds = [_bounds(sets) for sets in sets_by_column.values()]
    pieces = graph.cast(_pieces(graph, instances, list(sets_by_column), bounds), np.int64)  # [instances tested columns]
    sides = []  # for each tested column the name of its sets' columns
    order = []  # the sets in the order of their columns, as positions in ``nodes.sets``
    for i, (sets, column_bounds) in enumerate(zip(sets_by_column.values(), bounds, strict=True)):
        piece = graph.node("Gather", pieces, graph.constant(np.int64(i)), axis=1)
        goes_right = np.stack([_goes_right(plain_set, column_bounds) for plain_set in sets.values()], axis=1)
        # Bools take a byte in the file; runtimes cast this constant once.
        side_of_piece = graph.cast(graph.constant(goes_right), np.float64)
        sides.append(graph.node("Gather", side_of_piece, piece, axis=0))
        order += list(sets)
    ordered_sets = [nodes.sets[k] for k in order]
    described_sets = [[s.feature, s.first_left, s.missing_left, *s.upper.tolist()] for s in ordered_sets]
    graph.properties[SETS] = json.dumps(described_sets)
    tests_set = nodes.of_set >= 0
    column_of_set = n_features + np.argsort(order)  # the argsort of an order is the position of each set in it
    new_nodes = nodes._replace(
        feature=np.where(tests_set, column_of_set[nodes.of_set], nodes.feature),
        value=np.where(tests_set, 0.5, nodes.value),  # between the sides 0 and 1
        none_left=nodes.none_left & ~tests_set,
    )
    return graph.node("Concat", instances, *sides, axis=1), new_nodes


def _by_column(sets: Sequence[PlainSet]) -> dict[int, dict[int, PlainSet]]:
    """Return the sets of each column that ``sets`` test, as {column: {position in ``sets``: set}}."""
    columns: dict[int, dict[int, PlainSet]] = {}
    for k, plain_set in enumerate(sets):
        columns.setdefault(plain_set.feature, {})[k] = plain_set
    return columns


def _bounds(sets: dict[int, PlainSet]) -> np.ndarray:
    """Return the distinct bounds of the intervals of ``sets``, all of one column, in rising order."""
    return np.unique(np.concatenate([plain_set.upper for plain_set in sets.values()]))


def _goes_right(plain_set: PlainSet, bounds: np.ndarray) -> np.ndarray:
    """Return whether numbers in each piece, between two neighbours of ``bounds``, go right at a test of ``plain_set``.

    The last entry is for missing values.
    """
    interval_index = np.searchsorted(plain_set.upper, np.append(bounds, np.inf))
    return np.append(~plain_set.goes_left[interval_index], not plain_set.missing_left)


def _pieces(graph: Graph, instances: str, features: list[int], bounds: list[np.ndarray]) -> str:
    """Add a node that finds instances' pieces (`_piece_tree`); return the name of its output ``[instances features]``.

    ``features`` are the columns, and ``bounds`` has an array for each, which cuts its numbers into pieces.
    """
    piece_trees = [_piece_tree(t, j, ends) for t, (j, ends) in enumerate(zip(features, bounds, strict=True))]
    nodes, thresholds, piece_numbers = (np.concatenate(arrays) for arrays in zip(*piece_trees, strict=True))
    tree, node, feature, true_child, missing_true, is_leaf = nodes.T
    at_leaf = is_leaf == 1
    integers = {
        "nodes_treeids": tree,
        "nodes_nodeids": node,
        "nodes_featureids": feature,
        "nodes_truenodeids": true_child,
        "nodes_falsenodeids": np.where(at_leaf, 0, true_child + 1),
        "nodes_missing_value_tracks_true": missing_true,
        "target_treeids": tree[at_leaf],
        "target_nodeids": node[at_leaf],
        "target_ids": tree[at_leaf],  # a tree adds to the sum of its own number
    }
    attributes: dict[str, Any] = {name: ids.tolist() for name, ids in integers.items()}
    attributes["nodes_values_as_tensor"] = graph.tensor(thresholds)
    attributes["target_weights_as_tensor"] = graph.tensor(piece_numbers)
    attributes["n_targets"] = len(features)
    attributes["nodes_modes"] = np.where(at_leaf, "LEAF", "BRANCH_LEQ").tolist()
    return graph.node("TreeEnsembleRegressor", instances, domain=ML, **attributes)


def _piece_tree(t: int, feature: int, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (nodes, thresholds of nodes, numbers in leaves) of tree ``t``, which finds a number's piece.

    A piece's number is how many of the column's ``bounds`` lie below it; missing values have the largest. A node is a
    row: tree, node, ``feature``, true child, whether missing values go there, whether it is a leaf. The true child is
    where numbers at or below the threshold go.
    """
    if len(bounds) >= _MOST_PIECES - 1:
        raise ValueError(f"column {feature} has {len(bounds)} bounds of sets; ONNX distinguishes {_MOST_PIECES}.")
    # The root: every number is at or below infinity, and missing ones are not. They go to the last leaf.
    rows = [[t, 0, feature, 1, 0, 0]]
    thresholds = [np.inf]
    piece_numbers = []
    # Below it a binary search, level by level. An entry is (node, the first and the last piece that it may find).
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
