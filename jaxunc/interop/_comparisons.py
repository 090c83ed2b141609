"""Trees whose nodes compare in any way that libraries know, as trees that go left where a number is at or below a key.

Libraries write x < t, x <= t, x > t, x >= t, x == t and "x is in a set", on float32 or on float64. All but the last
two are one threshold, perhaps with sides swapped; these are intervals. float32 is compared by order keys. float64 is
coded: the bounds of a column over all trees are its cuts (`Columns.cuts`), and trees test how many are below a value.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from jaxunc._numerics import order_key_at_or_below, order_key_below
from jaxunc.forest import Intervals, TreeNodes
from jaxunc.tables import Columns

from ._given_trees import GivenTree, check_tree

AT_MOST, BELOW, AT_LEAST, ABOVE, EQUAL, UNEQUAL, IN_SET, NOT_IN_SET = range(8)
"""How a node compares its number with its value; where that holds, it goes left."""
_MIRRORED = np.array([AT_MOST, BELOW, BELOW, AT_MOST, EQUAL, EQUAL, IN_SET, IN_SET])
_IS_MIRRORED = np.array([False, False, True, True, False, True, False, True])
_MOST_CUTS = 2**24  # codes are float32
_MOST_COLUMNS = 2**24
_ALL_LEFT, _NONE_LEFT = int(order_key_at_or_below(np.array(np.inf))), -1


class ComparingTree(NamedTuple):
    """One tree as its library has it, the root first; children are negative at leaves."""

    feature: np.ndarray
    compare: np.ndarray
    """One of the above for each inner node."""
    value: np.ndarray
    """What is compared with, float64."""
    left: np.ndarray
    right: np.ndarray
    missing_left: np.ndarray
    sets: Mapping[int, tuple[np.ndarray, np.ndarray]]
    """Of nodes that test sets: the intervals that these are, as their first numbers and the first ones behind them."""
    leaf_values: np.ndarray
    """What each node's leaf holds, ``[nodes each]``."""


class _Bounds(NamedTuple):
    """Bounds of tests, of all trees: a number is at or below each, or below it where that is strict."""

    feature: np.ndarray
    number: np.ndarray
    strict: np.ndarray


def compared_in(
    trees: Sequence[ComparingTree], n_features: int, *, wide: bool, names: tuple[str, ...] | None = None
) -> tuple[list[GivenTree], Columns]:
    """Return trees that test keys, and the columns that they test.

    Parameters
    ----------
    trees
        The trees of a model.
    n_features
        Number of columns.
    wide
        Whether float64 is compared; float32 otherwise.
    names
        The names of the columns, where known.

    Raises
    ------
    ValueError
        If a tree is none, tests what is no column or no number, or what codes cannot tell apart.
    """
    if not 0 < n_features <= _MOST_COLUMNS:
        raise ValueError(f"the model claims {n_features} columns.")
    bounds, ends = [], [0]
    for t, tree in enumerate(trees):
        _check(f"tree {t}", tree, n_features)
        bounds.append(_bounds(tree))
        ends.append(ends[-1] + len(bounds[-1].number))
    together = _Bounds(*(np.concatenate(parts) for parts in zip(*bounds, strict=True)))
    keys, cuts = _codes(together, n_features) if wide else (_order_keys(together), None)
    given = [_given(tree, keys[a:b]) for tree, (a, b) in zip(trees, pairwise(ends), strict=True)]
    return given, Columns(n_features, names, cuts=cuts)


def _nodes(tree: ComparingTree, threshold: np.ndarray) -> TreeNodes:
    """The nodes with sides such that what is at or below goes left, or what is in the set."""
    inner = tree.left >= 0
    swap = inner & _IS_MIRRORED[np.where(inner, tree.compare, 0)]
    left, right = np.where(swap, tree.right, tree.left), np.where(swap, tree.left, tree.right)
    return TreeNodes(tree.feature, threshold, left, right, tree.missing_left == swap)


def _check(what: str, tree: ComparingTree, n_features: int) -> None:
    check_tree(what, TreeNodes(tree.feature, tree.value, tree.left, tree.right, tree.missing_left), n_features)
    inner = tree.left >= 0
    if len(tree.compare) != len(inner) or len(tree.leaf_values) != len(inner):
        raise ValueError(f"{what} has {len(inner)} nodes, but {len(tree.compare)} comparisons.")
    is_set = inner & (tree.compare >= IN_SET)
    if np.any(np.isnan(tree.value[inner & ~is_set])):
        raise ValueError(f"{what} compares with a value that is no number.")
    if np.any(np.isinf(tree.value[inner & np.isin(tree.compare, (EQUAL, UNEQUAL))])):
        raise ValueError(f"{what} tests whether a number is infinite, which is not imported.")
    if not set(np.flatnonzero(is_set).tolist()) <= set(tree.sets):
        raise ValueError(f"{what} tests a set that is not there.")


def _bounds(tree: ComparingTree) -> _Bounds:
    """The bounds of a tree: of its thresholds in order of nodes, then two for each part of each set."""
    inner = np.flatnonzero(tree.left >= 0)
    compare = _MIRRORED[tree.compare[inner]]
    thresholds = inner[(compare == AT_MOST) | (compare == BELOW)]
    parts = [
        _Bounds(tree.feature[thresholds], tree.value[thresholds], _MIRRORED[tree.compare[thresholds]] == BELOW),
    ]
    for node, (first, behind) in _sets(tree).items():
        numbers = np.stack([first, behind], axis=1).ravel()
        parts.append(_Bounds(np.full(len(numbers), tree.feature[node]), numbers, np.ones(len(numbers), bool)))
    return _Bounds(*(np.concatenate(one) for one in zip(*parts, strict=True)))


def _sets(tree: ComparingTree) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """The sets of nodes, in order of nodes, a single number being one."""
    inner = np.flatnonzero(tree.left >= 0)
    found = {}
    for node in inner[_MIRRORED[tree.compare[inner]] >= EQUAL].tolist():
        if tree.compare[node] >= IN_SET:
            found[node] = tree.sets[node]
        else:
            found[node] = (tree.value[node : node + 1], np.nextafter(tree.value[node : node + 1], np.inf))
    return found


def _order_keys(bounds: _Bounds) -> np.ndarray:
    return np.where(bounds.strict, order_key_below(bounds.number), order_key_at_or_below(bounds.number))


def _codes(bounds: _Bounds, n_features: int) -> tuple[np.ndarray, tuple[tuple[float, ...] | None, ...]]:
    """Keys of the codes of bounds, and the cuts of every column, none for those that are not tested."""
    none_left = bounds.strict & (bounds.number == -np.inf)
    number = np.where(bounds.strict, np.nextafter(bounds.number, -np.inf), bounds.number)
    if np.any((number == -np.inf) & ~none_left):
        raise ValueError("the model tests whether a float64 number is -inf, which has no code.")
    finite = np.isfinite(number)
    rank = np.zeros(len(number), np.int64)
    cuts: list[tuple[float, ...] | None] = [None] * n_features
    order = np.argsort(bounds.feature, kind="stable")
    tested, starts = np.unique(bounds.feature[order], return_index=True)
    for j, (start, end) in zip(tested.tolist(), pairwise([*starts, len(order)]), strict=True):
        own = order[start:end]
        own = own[finite[own]]
        distinct, rank[own] = np.unique(number[own], return_inverse=True)
        if len(distinct) >= _MOST_CUTS:
            raise ValueError(f"the model has {len(distinct)} thresholds for column {j}; codes are exact up to 2**24.")
        cuts[j] = tuple(distinct.tolist())
    keys = np.where(finite, order_key_at_or_below(rank.astype(np.float64)), _ALL_LEFT)
    return np.where(none_left, _NONE_LEFT, keys), tuple(cuts)


def _given(tree: ComparingTree, keys: np.ndarray) -> GivenTree:
    inner = np.flatnonzero(tree.left >= 0)
    sets = _sets(tree)
    single = np.setdiff1d(inner, list(sets))
    threshold = np.zeros(len(tree.left), np.int32)
    threshold[single] = keys[: len(single)]
    nodes = _nodes(tree, threshold)
    tests, at = {}, len(single)
    for node, (first, _) in sets.items():
        own = keys[at : at + 2 * len(first)].reshape(-1, 2)
        at += 2 * len(first)
        own = own[np.argsort(own[:, 0], kind="stable")].ravel()
        goes_left = np.arange(len(own) + 1) % 2 == 1
        tests[node] = Intervals(own, goes_left, not nodes.missing_right[node])
    return GivenTree(nodes, tree.leaf_values, tests)
