"""Trees as one node of ONNX, which adds up any number of planes of leaf statistics in double precision."""

import math
from typing import Any

import numpy as np

from jaxunc.forest import Trees

from ._onnx_graph import LARGEST, ML, Graph
from ._onnx_sets import size_of_sides, with_sides
from ._plain_tests import plain_nodes

_DIGITS = 50
"""Binary digits that sums of pieces have."""
_NODE, _WEIGHT = 50, 20
"""Bytes of a node and of a leaf's weight in the file."""


def pieces_of(values: np.ndarray, n_trees: int) -> list[np.ndarray]:
    """Cut numbers into pieces of few digits, so that sums of each over trees are float32 without rounding.

    The last piece may be rounded, beyond `_DIGITS` digits. Small integers are one piece.
    """
    finite = np.isfinite(values)
    rest = np.where(finite, values, 0.0)
    digits = max(24 - math.ceil(math.log2(max(n_trees, 1))), 1)
    largest, pieces = np.abs(rest).max(initial=0.0), []
    while not pieces or rest.any():
        now = np.abs(rest).max(initial=0.0)
        if now * n_trees <= largest * 2.0 ** (24 - _DIGITS):
            pieces.append(rest)
            break
        unit = 2.0 ** (math.frexp(now)[1] - digits)
        pieces.append(np.round(rest / unit) * unit)
        rest = rest - pieces[-1]
    pieces[0] = np.where(finite, pieces[0], values)
    return pieces


def add_trees(
    graph: Graph,
    given: str,
    trees: Trees,
    planes: np.ndarray,
    *,
    kept: np.ndarray | None = None,
    base: np.ndarray | None = None,
) -> str:
    """Add the node; return the name of its sums ``[instances planes]``, float32, each rounded once.

    Parameters
    ----------
    graph
        The graph.
    given
        The name of the instances, double.
    trees
        The trees.
    planes
        What leaves add, ``[trees nodes planes]``, float64.
    kept
        Which planes each tree adds to, ``[trees planes]``; default where it holds other numbers than 0.
    base
        What is added to the sums.

    Raises
    ------
    ValueError
        If the file would be too large, or trees share nodes other than in tests of intervals.
    """
    wide = trees.columns.cuts is not None
    nodes = plain_nodes(trees, wide=wide)
    is_leaf = np.zeros(planes.shape[:2], bool)
    is_leaf[nodes.tree[~nodes.inner], nodes.node[~nodes.inner]] = True
    own = np.any((planes != 0) & is_leaf[..., None], axis=1) if kept is None else kept
    own[:, 0] |= ~own.any(axis=1)  # every leaf needs a weight
    tree, node, plane = np.nonzero(is_leaf[..., None] & own[:, None])
    size = _NODE * len(nodes.node) + _WEIGHT * len(plane) + size_of_sides(nodes.sets)
    if size > LARGEST:
        raise ValueError(
            f"the model would take {size / 1e9:.1f} GB, and a file of ONNX holds two. Export fewer trees, smaller "
            "ones, or a rule with fewer planes; or take bound.export()."
        )
    given, side_of = with_sides(graph, given, nodes.sets)
    is_set = nodes.of_set >= 0
    value = np.where(is_set, 0.5, nodes.value)
    none_left = nodes.none_left & ~is_set
    # ONNX Runtime wants numbers below that of all nodes.
    starts = np.flatnonzero(nodes.node == 0)
    number = np.zeros(planes.shape[:2], np.int64)
    number[nodes.tree, nodes.node] = np.arange(len(nodes.node)) - starts[nodes.tree]
    left = number[nodes.tree, nodes.left]
    integers = {
        "nodes_treeids": nodes.tree,
        "nodes_nodeids": number[nodes.tree, nodes.node],
        "nodes_featureids": np.where(is_set, trees.n_features + side_of[nodes.of_set], nodes.feature),
        "nodes_truenodeids": np.where(nodes.inner, left, 0),
        "nodes_falsenodeids": np.where(nodes.inner, left + 1, 0),
        "nodes_missing_value_tracks_true": nodes.missing_left,
        "target_treeids": tree,
        "target_nodeids": number[tree, node],
        "target_ids": plane,
    }
    numbers = {"nodes_values": np.where(nodes.inner, value, 0.0), "target_weights": planes[tree, node, plane]}
    if base is not None:
        numbers["base_values"] = base
    attributes: dict[str, Any] = {name: ids.astype(np.int64).tolist() for name, ids in integers.items()}
    attributes |= {f"{name}_as_tensor": graph.tensor(own.astype(np.float64)) for name, own in numbers.items()}
    modes = np.where(nodes.inner, np.where(none_left, "BRANCH_LT", "BRANCH_LEQ"), "LEAF").tolist()
    return graph.node(
        "TreeEnsembleRegressor", given, domain=ML, nodes_modes=modes, n_targets=planes.shape[2], **attributes
    )
