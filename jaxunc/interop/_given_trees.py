"""What every importer shares: single trees as their library has them, checked, and laid out together."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxunc.additive import AdditiveTrees
from jaxunc.forest import Intervals, TreeNodes, Trees, lay_out, with_interval_tests
from jaxunc.tables import Columns


class GivenTree(NamedTuple):
    """One tree in its library's numbering, the root first."""

    nodes: TreeNodes
    values: np.ndarray
    """What each node's leaf holds, ``[nodes each]``; read at leaves."""
    intervals: Mapping[int, Intervals]
    """The tests of nodes that are no thresholds; their ``threshold`` is not read."""


def check_tree(what: str, nodes: TreeNodes, n_features: int) -> None:
    """Raise a ValueError unless the nodes that the root leads to are a tree, and test columns that there are."""
    left, right, n = np.asarray(nodes.left), np.asarray(nodes.right), len(nodes.left)
    if n == 0 or any(len(part) != n for part in nodes):
        raise ValueError(f"{what} has node arrays of {[len(part) for part in nodes]} entries; expected one number.")
    inner = left >= 0
    if np.any(inner != (right >= 0)) or max(left.max(), right.max()) >= n:
        raise ValueError(f"{what} has children that are none of its {n} nodes.")
    # With one parent at most, and none for the root, nothing that the root leads to is on a circle.
    parents = np.bincount(np.concatenate([left[inner], right[inner]]), minlength=n)
    if parents[0] or parents.max() > 1:
        raise ValueError(f"{what} is no tree: a node has two parents, or the root has one.")
    tested = np.asarray(nodes.feature)[inner]
    if len(tested) and (tested.min() < 0 or tested.max() >= n_features):
        raise ValueError(f"{what} tests column {int(tested.max())} of {n_features}.")


def trees_of(given: Sequence[GivenTree], columns: Columns) -> tuple[Trees, np.ndarray]:
    """Lay out trees; return them and the values of their leaves ``[trees nodes each]``, float32."""
    nodes = [with_interval_tests(tree.nodes, tree.intervals) for tree in given]
    trees, places = lay_out(nodes, columns)
    values = np.zeros((trees.n_trees, trees.n_nodes, given[0].values.shape[1]), np.float32)
    for t, (tree, place) in enumerate(zip(given, places, strict=True)):
        leaves = np.flatnonzero(np.asarray(tree.nodes.left) < 0)
        # Nodes that the root does not lead to have the place of the root: what they hold is no leaf's.
        leaves = leaves[(leaves == 0) | (place[leaves] != place[0])]
        values[t, place[leaves]] = tree.values[leaves]
    return trees, values


def ensemble_of(
    given: Sequence[GivenTree],
    columns: Columns,
    base: np.ndarray,
    link: str,
    *,
    trees_per_stage: int = 1,
    class_labels: tuple[Any, ...] | None = None,
    averaged: bool = False,
) -> AdditiveTrees:
    """Make a model of its trees, in the library's order."""
    trees, values = trees_of(given, columns)
    added = jnp.asarray(base, jnp.result_type(float))
    return AdditiveTrees(trees, jnp.asarray(values), added, link, trees_per_stage, class_labels, averaged)
