"""Trees whose nodes compare in any way that libraries know, as trees that go left where a number is at or below a key.

Libraries write x < t, x <= t, x > t, x >= t, x == t and "x is in a set", on float32 or on float64. All but the last
two are one threshold, perhaps with sides swapped; these are intervals. float32 is compared by order keys. float64 is
coded: the bounds of a column over all trees are its cuts (`Columns.cuts`), and trees test how many are below a value.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float64

from jaxunc._numerics import order_key_at_or_below, order_key_below
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


# What every importer shares: single trees as their library has them, checked, and laid out together.


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


# Trees that compare float64: their thresholds become the cuts of columns, and nodes test the number of cuts below.


class WideTest(NamedTuple):
    """The numbers as neighbouring intervals, each of which goes to one side."""

    upper: Float64[np.ndarray, " inner"]
    """The largest number of each interval but the last, rising."""
    goes_left: Bool[np.ndarray, " intervals"]
    """Whether each interval goes left."""
    missing_left: bool
    """Whether a missing value goes left."""


class WideTree(NamedTuple):
    """One tree in its library's numbering, the root first."""

    nodes: TreeNodes
    """Its nodes, checked by `check_tree`; ``threshold`` is float64, and x <= threshold goes left."""
    values: np.ndarray
    """What each node's leaf holds, ``[nodes each]``; read at leaves."""
    tests: Mapping[int, WideTest]
    """The tests of nodes that are no thresholds; their ``threshold`` is not read."""


def with_cuts(trees: Sequence[WideTree], columns: Columns) -> tuple[list[GivenTree], Columns]:
    """Return trees whose nodes test codes, and the columns with the cuts that make these codes.

    Columns with levels get no cuts: their codes are positions among the levels, and -1 counts as a missing value.

    Raises
    ------
    ValueError
        If a threshold is NaN or -inf.
    """
    has_levels = np.array([own is not None for own in columns.levels or (None,) * columns.number], bool)
    tests = [_with_unseen(tree, has_levels) for tree in trees]
    plain = [_plain(tree, own) for tree, own in zip(trees, tests, strict=True)]
    of_tests = [(int(tree.nodes.feature[i]), test) for tree, own in zip(trees, tests, strict=True) for i, test in own]
    feature = [tree.nodes.feature[nodes] for tree, nodes in zip(trees, plain, strict=True)]
    feature += [np.full(len(test.upper), j) for j, test in of_tests]
    bound = [tree.nodes.threshold[nodes] for tree, nodes in zip(trees, plain, strict=True)]
    bound += [test.upper for _, test in of_tests]
    keys, cuts = _keys(np.concatenate(feature).astype(np.int64), np.concatenate(bound), has_levels)
    ends = np.cumsum([len(one) for one in bound])[:-1]
    parts = iter(np.split(keys, ends))
    thresholds = []
    for tree, nodes in zip(trees, plain, strict=True):
        threshold = np.zeros(len(tree.nodes.left), np.int32)
        threshold[nodes] = next(parts)
        thresholds.append(threshold)
    given = []
    for tree, own, threshold in zip(trees, tests, thresholds, strict=True):
        intervals = {i: Intervals(next(parts), test.goes_left, test.missing_left) for i, test in own}
        given.append(GivenTree(tree.nodes._replace(threshold=threshold), tree.values, intervals))
    return given, dataclasses.replace(columns, cuts=cuts)


def _plain(tree: WideTree, tests: list[tuple[int, WideTest]]) -> np.ndarray:
    """The inner nodes that compare with a threshold."""
    is_plain = tree.nodes.left >= 0
    is_plain[[i for i, _ in tests]] = False
    return np.flatnonzero(is_plain)


def _with_unseen(tree: WideTree, has_levels: np.ndarray) -> list[tuple[int, WideTest]]:
    """The tests of a tree; those of columns with levels send -1 where missing values go."""
    if not has_levels.any():
        return list(tree.tests.items())
    nodes, found = tree.nodes, []
    for i in np.flatnonzero((nodes.left >= 0) & has_levels[nodes.feature]).tolist():
        below = WideTest(nodes.threshold[[i]], np.array([True, False]), not nodes.missing_right[i])
        upper, goes_left, missing_left = tree.tests.get(i, below)
        n_below = np.count_nonzero(upper <= -1)
        goes_left = np.append(missing_left, goes_left[n_below:])
        found.append((i, WideTest(np.append(-1.0, upper[n_below:]), goes_left, missing_left)))
    return found + [(i, test) for i, test in tree.tests.items() if not has_levels[nodes.feature[i]]]


def _keys(feature: np.ndarray, bound: np.ndarray, has_levels: np.ndarray) -> tuple[np.ndarray, tuple]:
    """The order keys of bounds, as codes of their columns, and the cuts of every column."""
    if np.any(np.isnan(bound) | (bound == -np.inf)):
        raise ValueError("the model has a threshold that is NaN or -inf, below which there is no number.")
    # A column that no node tests has no cuts: any number of it has the code 0.
    cuts: list[tuple[float, ...] | None] = [None if own else () for own in has_levels]
    codes = bound.copy()
    order = np.argsort(feature, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(feature[order])) + 1) if len(order) else ():
        j, finite = feature[rows[0]], rows[np.isfinite(bound[rows])]
        if not has_levels[j]:
            # No number is above infinity: that one is no cut.
            own, codes[finite] = np.unique(bound[finite] + 0.0, return_inverse=True)
            cuts[j] = tuple(own.tolist())
    return order_key_at_or_below(codes), tuple(cuts)


# Which outputs trees count for, and leaf values laid out accordingly.


def trees_of_stage(outputs: Sequence[np.ndarray], n_outputs: int) -> int | None:
    """Return the number of trees of one stage, where each counts for one output and stages go through these in order.

    None where trees count for several outputs, or in another order.
    """
    if any(len(own) != 1 for own in outputs):
        return None
    order = np.concatenate(outputs)
    changes = np.flatnonzero(order != order[0])
    parallel = int(changes[0]) if len(changes) else 1
    period = parallel * n_outputs
    is_regular = len(order) % period == 0 and np.array_equal(order, np.arange(len(order)) % period // parallel)
    return period if is_regular else None


def laid_out(values: Sequence[np.ndarray], outputs: Sequence[np.ndarray], n_outputs: int) -> list[np.ndarray]:
    """Return values ``[nodes each]`` of each tree for a `AdditiveTrees`: one for each node, or one for each output."""
    if n_outputs == 1 or trees_of_stage(outputs, n_outputs) is not None:
        return list(values)
    wide = [np.zeros((len(own), n_outputs)) for own in values]
    for own, narrow, which in zip(wide, values, outputs, strict=True):
        own[:, which] = narrow
    return wide
