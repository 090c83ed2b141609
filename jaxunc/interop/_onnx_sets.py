"""Tests of sets of intervals in ONNX, whose trees compare with one number: as columns of 0 and 1 beside the instances.

A column's bounds of all sets cut its numbers into pieces. A small tree finds the piece of an instance, and a table says
on which side of each set it lies. So a forest has no node twice, however many intervals a set has.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._comparisons import AT_MOST, IN_SET, NOT_IN_SET, ComparingTree
from ._onnx_graph import ML, Graph
from ._plain_tests import PlainSet

SETS = "jaxunc.sets"
"""The metadata that tell `from_onnx` the sets, in the order of their columns."""
_NODE = 50
_MOST_PIECES = 2**24  # their numbers are float32


def size_of_sides(sets: Sequence[PlainSet]) -> int:
    """Return the bytes that the columns of sets take in a file, about."""
    total = sum(30 * len(one.upper) for one in sets)
    for own in _by_column(sets).values():
        n_pieces = len(_bounds(own)) + 2
        total += n_pieces * (2 * _NODE + len(own))
    return total


def with_sides(graph: Graph, given: str, sets: Sequence[PlainSet]) -> tuple[str, np.ndarray]:
    """Return the name of the instances with a column for each set behind theirs, and the place of each set's.

    A column is 0 where a number, or a missing one, goes left, and else 1.

    Parameters
    ----------
    graph
        The graph.
    given
        The name of the instances, double.
    sets
        The sets, each once.
    """
    if not sets:
        return given, np.zeros(1, np.int64)
    columns = _by_column(sets)
    bounds = [_bounds(own) for own in columns.values()]
    pieces = graph.cast(_pieces(graph, given, list(columns), bounds), np.int64)
    sides, order = [], []
    for i, (own, ends) in enumerate(zip(columns.values(), bounds, strict=True)):
        piece = graph.node("Gather", pieces, graph.constant(np.int64(i)), axis=1)
        goes_right = np.stack([_goes_right(one, ends) for one in own.values()], axis=1)
        # A byte in the file; runtimes make numbers of them once.
        table = graph.cast(graph.constant(goes_right), np.float64)
        sides.append(graph.node("Gather", table, piece, axis=0))
        order += list(own)
    graph.properties[SETS] = json.dumps([_said(sets[k]) for k in order])
    return graph.node("Concat", given, *sides, axis=1), np.argsort(order)


def _by_column(sets: Sequence[PlainSet]) -> dict[int, dict[int, PlainSet]]:
    """The sets and their numbers by column."""
    columns: dict[int, dict[int, PlainSet]] = {}
    for k, one in enumerate(sets):
        columns.setdefault(one.feature, {})[k] = one
    return columns


def _bounds(sets: dict[int, PlainSet]) -> np.ndarray:
    return np.unique(np.concatenate([one.upper for one in sets.values()]))


def _goes_right(one: PlainSet, bounds: np.ndarray) -> np.ndarray:
    """Whether the numbers of each piece go right, and whether missing ones do, which are the last piece."""
    which = np.searchsorted(one.upper, np.append(bounds, np.inf))
    return np.append(~one.goes_left[which], not one.missing_left)


def _pieces(graph: Graph, given: str, features: list[int], bounds: list[np.ndarray]) -> str:
    """The name of the numbers of pieces, ``[instances columns]``: a tree for each column."""
    parts = [_piece_tree(t, j, ends) for t, (j, ends) in enumerate(zip(features, bounds, strict=True))]
    nodes, values, leaves = (np.concatenate(one) for one in zip(*parts, strict=True))
    tree, node, feature, true, missing_true, is_leaf = nodes.T
    names = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids", "missing_value_tracks_true")
    integers = (tree, node, feature, true, np.where(is_leaf == 1, 0, true + 1), missing_true)
    attributes: dict[str, Any] = {f"nodes_{name}": own.tolist() for name, own in zip(names, integers, strict=True)}
    at_leaf = is_leaf == 1
    attributes |= {"target_treeids": tree[at_leaf].tolist(), "target_nodeids": node[at_leaf].tolist()}
    attributes |= {"target_ids": tree[at_leaf].tolist(), "nodes_values_as_tensor": graph.tensor(values)}
    attributes["target_weights_as_tensor"] = graph.tensor(leaves)
    modes = np.where(at_leaf, "LEAF", "BRANCH_LEQ").tolist()
    return graph.node(
        "TreeEnsembleRegressor", given, domain=ML, nodes_modes=modes, n_targets=len(features), **attributes
    )


def _piece_tree(t: int, feature: int, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows of nodes (see `_pieces`), their values, and what leaves hold: the number of bounds below."""
    if len(bounds) >= _MOST_PIECES - 1:
        raise ValueError(f"column {feature} has {len(bounds)} bounds of sets; ONNX tells {_MOST_PIECES} pieces apart.")
    # Every number is at or below infinity, and missing ones are not: they go to the last leaf.
    rows, values, leaves = [[t, 0, feature, 1, 0, 0]], [np.inf], []
    level = [(1, 0, len(bounds)), (2, len(bounds) + 1, len(bounds) + 1)]
    number = 3
    while level:
        below = []
        for node, first, last in level:
            if first == last:
                rows.append([t, node, 0, 0, 0, 1])
                values.append(0.0)
                leaves.append(float(first))
                continue
            middle = (first + last) // 2
            rows.append([t, node, feature, number, 0, 0])
            values.append(bounds[middle])
            below += [(number, first, middle), (number + 1, middle + 1, last)]
            number += 2
        level = below
    return np.array(rows, np.int64), np.array(values), np.array(leaves)


def _said(one: PlainSet) -> list[Any]:
    return [one.feature, one.first_left, one.missing_left, *one.upper.tolist()]


def with_sets(trees: Sequence[ComparingTree], n_features: int, said: str) -> list[ComparingTree]:
    """Return trees of our own files that test sets where they test the columns of their sides.

    Raises a ValueError if the metadata do not say which.
    """
    sets = _read(said, n_features)
    return [_with_sets(tree, n_features, sets) for tree in trees]


def _read(said: str, n_features: int) -> list[PlainSet]:
    try:
        sets = []
        for feature, first_left, missing_left, *upper in json.loads(said):
            ends = np.array(upper, np.float64).reshape(-1)
            whole = type(feature) is int and type(first_left) is type(missing_left) is bool
            if not whole or not 0 <= feature < n_features or np.any(np.diff(ends) <= 0) or not np.all(ends < np.inf):
                raise ValueError("a set is none of a column, or its bounds do not rise")
            sets.append(PlainSet(feature, ends, np.nextafter(ends, np.inf), first_left, missing_left))
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"the model's metadata {SETS} are damaged: {error}. Is the file whole?") from error
    return sets


def _with_sets(tree: ComparingTree, n_features: int, sets: list[PlainSet]) -> ComparingTree:
    places = np.flatnonzero((tree.left >= 0) & (tree.feature >= n_features))
    number = tree.feature[places] - n_features
    if np.any(number >= len(sets)) or np.any(tree.value[places] != 0.5) or np.any(tree.compare[places] != AT_MOST):
        raise ValueError("the model's trees test columns that are no sides of its sets. Is the file whole?")
    parts = [np.array(part) for part in (tree.feature, tree.compare, tree.missing_left)]
    feature, compare, missing_left = parts
    found = dict(tree.sets)
    for place, k in zip(places.tolist(), number.tolist(), strict=True):
        one = sets[k]
        feature[place], missing_left[place] = one.feature, one.missing_left
        # The set is of the intervals that do not reach infinity.
        last_left = bool(one.goes_left[-1])
        compare[place] = NOT_IN_SET if last_left else IN_SET
        first = np.append(-np.inf, one.behind)[:-1]
        found[place] = tuple(ends[one.goes_left[:-1] != last_left] for ends in (first, one.behind))
    return tree._replace(feature=feature, compare=compare, missing_left=missing_left, sets=found)
