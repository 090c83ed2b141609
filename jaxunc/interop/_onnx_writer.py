"""Trees as one node of ONNX, which adds up any number of planes of leaf statistics in double precision."""

import math
from typing import Any

import numpy as np

from jaxunc._numerics import NAN_FIRST
from jaxunc.forest import Trees

from ._onnx_graph import LARGEST, ML, Graph

_BEYOND, _NONE = 2139095040, -2139095040
"""Order keys of the infinities: at the first every number goes left, below the second none does."""
_DIGITS = 50
"""Binary digits that sums of pieces have."""
_NODE, _WEIGHT = 50, 20
"""Bytes of a node and of a leaf's weight in the file."""


def thresholds(trees: Trees) -> tuple[np.ndarray, np.ndarray]:
    """Return the number at or below which instances go left, for every node, and whether none does.

    Where a column has cuts, it is the cut itself: codes are how many cuts are below a value.
    """
    key = np.asarray(trees.threshold).astype(np.int64)
    none_left = key < _NONE
    within = np.clip(key, _NONE, _BEYOND)
    bits = np.where(within < 0, int(NAN_FIRST) - within, within)
    value = bits.astype(np.int32).view(np.float32).astype(np.float64)
    is_inner = np.asarray(trees.child) != np.arange(trees.n_nodes)
    for j, cuts in enumerate(trees.columns.cuts or ()):
        if cuts is not None:
            own = is_inner & (np.asarray(trees.feature) == j)
            code = np.where(none_left, -1, value)[own]
            none_left[own] = code < 0
            place = np.clip(np.floor(code), 0, len(cuts)).astype(np.int64)
            value[own] = np.append(np.asarray(cuts, np.float64), np.inf)[place]
    return value, none_left


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
        If the file would be too large.
    """
    is_leaf = np.asarray(trees.is_leaf)
    is_inner = np.asarray(trees.child) != np.arange(trees.n_nodes)
    tree, node = np.nonzero(is_leaf | is_inner)
    if kept is None:
        kept = np.any((planes != 0) & is_leaf[..., None], axis=1)
        kept[:, 0] |= ~kept.any(axis=1)  # every leaf needs a weight
    of_tree, of_node, plane = np.nonzero(is_leaf[..., None] & kept[:, None])
    size = _NODE * len(tree) + _WEIGHT * len(plane)
    if size > LARGEST:
        raise ValueError(
            f"the model would take {size / 1e9:.1f} GB, and a file of ONNX holds two. Export fewer trees, smaller "
            "ones, or a rule with fewer planes; or bound.export()."
        )
    value, none_left = (part[tree, node] for part in thresholds(trees))
    inner, left = is_inner[tree, node], np.asarray(trees.child)[tree, node]
    attributes: dict[str, Any] = {
        "nodes_treeids": tree,
        "nodes_nodeids": node,
        "nodes_featureids": np.where(inner, np.asarray(trees.feature)[tree, node], 0),
        "nodes_truenodeids": np.where(inner, left, 0),
        "nodes_falsenodeids": np.where(inner, left + 1, 0),
        "nodes_missing_value_tracks_true": inner & ~np.asarray(trees.missing_right)[tree, node],
        "target_treeids": of_tree,
        "target_nodeids": of_node,
        "target_ids": plane,
    }
    attributes = {name: ids.astype(np.int64).tolist() for name, ids in attributes.items()}
    # No number is less than -inf.
    modes = np.where(inner, np.where(none_left, "BRANCH_LT", "BRANCH_LEQ"), "LEAF").tolist()
    tensors = {
        "nodes_values": np.where(inner, np.where(none_left, -np.inf, value), 0.0),
        "target_weights": planes[of_tree, of_node, plane],
        **({} if base is None else {"base_values": base}),
    }
    return graph.node(
        "TreeEnsembleRegressor",
        given,
        domain=ML,
        nodes_modes=modes,
        n_targets=planes.shape[2],
        **attributes,
        **{f"{name}_as_tensor": graph.tensor(own.astype(np.float64)) for name, own in tensors.items()},
    )
