"""Trees as libraries write them, and what all importers make of them: additive trees, or a forest of counts.

An importer reads each tree into a `ComparingTree`, whose nodes compare in any way that libraries know: x < t, x <= t,
x > t, x >= t, x == t, x != t, or "x is in a set". `tree_nodes` turns these into jaxunc's one test, an integer at or
below a threshold, so that every instance goes where it goes in its library:

1. `check_tree`: the nodes are a tree, and test columns and numbers that there are.
2. `_with_sets`: what is no single bound becomes a set of intervals.
3. `_bounds`: the numbers that tests compare with. Where float32 is compared, a bound's key is its order key. Where
   float64 is (`Columns.cuts`), a column's bounds in all trees are its cuts, and a bound's key is how many lie below it.
4. `_nodes`: nodes that test keys; the test of a set becomes a few nodes, which share their children.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxunc._checks import check_counts, warn
from jaxunc._numerics import order_key_at_or_below, order_key_below
from jaxunc.additive import AdditiveTrees
from jaxunc.forest import Forest, Intervals, TreeNodes, assemble, lay_out, with_interval_tests
from jaxunc.tables import Columns

AT_MOST, BELOW, AT_LEAST, ABOVE, EQUAL, UNEQUAL, IN_SET, NOT_IN_SET = range(8)
"""How a node compares an instance's number with its value; the instance goes left where the comparison holds."""
MOST_COLUMNS = 2**24  # a damaged file may claim more in a few bytes: no arrays are made for them
LOST, TOLD = 1e-4, 1e-2
"""Limits of rounding errors, as shares of the largest spread of leaf values in a tree. If the error of leaf values is
above ``LOST``, an offset is subtracted from them. If the error of sums is above ``TOLD``, a warning is given."""
_IS_STRICT = np.array([False, True, True, False, False, False, False, False])  # by comparison: True for x < t, x >= t
_IS_MIRRORED = np.array([False, False, True, True, False, False, False, False])  # by comparison: True for x >= t, x > t
_MOST_CUTS = 2**24  # codes are float32
_NONE_LEFT = -1  # below the key of every code
_ABOVE_UNSEEN = np.nextafter(-1.0, np.inf)  # above -1, the code of a value that is no level


class ComparingTree(NamedTuple):
    """Nodes of one tree ``[nodes]`` in the order of its library, the root first; children are negative at leaves."""

    feature: np.ndarray  # the column that each inner node tests
    compare: np.ndarray  # `AT_MOST` … `NOT_IN_SET` for each inner node
    value: np.ndarray  # the float64 number that is compared with; not read where a node tests a set
    left: np.ndarray  # the index of the left child
    right: np.ndarray
    missing_left: np.ndarray  # whether a missing value goes left
    sets: Mapping[int, tuple[np.ndarray, np.ndarray]]
    """Sets by the indices of nodes that test them, as (first numbers, ends) of disjoint intervals first <= x < end."""
    leaf_values: np.ndarray  # the value of each node's leaf, or its class counts, ``[nodes values]``; read at leaves


def check_tree(what: str, tree: ComparingTree, n_features: int) -> None:
    """Raise a ValueError unless the root leads to a tree, whose tests compare ``n_features`` columns with numbers."""
    left, right, n = tree.left, tree.right, len(tree.left)
    arrays = (tree.feature, tree.compare, tree.value, left, right, tree.missing_left, tree.leaf_values)
    if n == 0 or any(len(part) != n for part in arrays):
        raise ValueError(f"{what} has node arrays of {[len(part) for part in arrays]} entries; expected one number.")
    inner = left >= 0
    if np.any(inner != (right >= 0)) or max(left.max(), right.max()) >= n:
        raise ValueError(f"{what} has children that are none of its {n} nodes.")
    # With one parent at most, and none for the root, nothing that the root leads to is on a circle.
    parents = np.bincount(np.concatenate([left[inner], right[inner]]), minlength=n)
    if parents[0] or parents.max() > 1:
        raise ValueError(f"{what} is no tree: a node has two parents, or the root has one.")
    tested = tree.feature[inner]
    if len(tested) and (tested.min() < 0 or tested.max() >= n_features):
        raise ValueError(f"{what} tests column {int(tested.max())} of {n_features}.")
    is_set = inner & (tree.compare >= IN_SET)
    if np.any(np.isnan(tree.value[inner & ~is_set])):
        raise ValueError(f"{what} compares with a value that is no number.")
    if np.any(np.isinf(tree.value[inner & ((tree.compare == EQUAL) | (tree.compare == UNEQUAL))])):
        raise ValueError(f"{what} tests whether a number is infinite, which is not imported.")
    if not set(np.flatnonzero(is_set).tolist()) <= set(tree.sets):
        raise ValueError(f"{what} tests a set that is not there.")


def ensemble_of(
    trees: Sequence[ComparingTree],
    columns: Columns,
    base: np.ndarray,
    link: str,
    *,
    trees_per_stage: int = 1,
    class_labels: tuple[Any, ...] | None = None,
    averaged: bool = False,
) -> AdditiveTrees:
    """Return the additive model of ``trees``, whose leaves hold values; they are in the library's order.

    ``columns`` are as for `tree_nodes`. ``base``, ``link``, ``trees_per_stage``, ``class_labels`` and ``averaged`` are
    the fields of `AdditiveTrees`.
    """
    nodes, columns = tree_nodes(trees, columns)
    model_trees, indices = lay_out(nodes, columns)
    values = np.zeros((model_trees.n_trees, model_trees.n_nodes, trees[0].leaf_values.shape[1]), np.float32)
    offset, base = _offsets(trees, base) if link == "identity" else (None, base)
    for t, (tree, index) in enumerate(zip(trees, indices, strict=True)):
        leaves = np.flatnonzero(tree.left < 0)
        # Nodes that the root does not lead to have the index of the root: their values are no leaf's.
        leaves = leaves[(leaves == 0) | (index[leaves] != index[0])]
        values[t, index[leaves]] = tree.leaf_values[leaves] - (0 if offset is None else offset[t])
    added = jnp.asarray(base, jnp.result_type(float))
    return AdditiveTrees(model_trees, jnp.asarray(values), added, link, trees_per_stage, class_labels, averaged)


def _offsets(trees: Sequence[ComparingTree], base: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """Return offsets to subtract from the leaves ``[trees values]``, and ``base [outputs]`` with all offsets added.

    Offsets are None, and the base unchanged, unless float32 leaf values would lose too much of their differences. Warns
    if float32 sums lose too much of these.
    """
    leaves = [tree.leaf_values[np.asarray(tree.left) < 0].astype(np.float64) for tree in trees]
    low, high = (np.stack([bound(values, axis=0) for values in leaves]) for bound in (np.min, np.max))
    spread, largest = np.max(high - low), max(np.max(np.abs(low)), np.max(np.abs(high)))
    base, rounding, offset = np.asarray(base, np.float64), np.finfo(np.float32).eps / 2, None
    has_all_outputs = low.shape[1] == len(base)  # else leaves hold one value, of one of several outputs
    if has_all_outputs and rounding * max(largest, np.max(np.abs(base))) > LOST * spread > 0:
        offset = low + (high - low) / 2
        exact = base + offset.sum(axis=0)
        base = exact.astype(np.float32).astype(np.float64)
        offset[0] -= exact - base  # so that the base is one float32
    off, is_narrow = rounding * np.max(np.abs(base)), jnp.result_type(float) == jnp.float32
    if spread > 0 and off > TOLD * spread and is_narrow:
        warn(
            f"the model's numbers lie about {base[np.argmax(np.abs(base))]:.6g}, where float32 is off by up to "
            f"{off:.2g}, and a tree's leaves differ by {spread:.2g}: predictions lose that. Differences of answers, "
            "such as uncertainty and shares of columns, do not. Take the offset off the targets before the fit, or set "
            "jax_enable_x64."
        )
    return offset, base


def forest_of(
    trees: Sequence[ComparingTree], columns: Columns, class_labels: tuple[Any, ...], roots: np.ndarray | None = None
) -> Forest:
    """Return the forest of trees whose leaves hold class counts; ``class_labels`` are in the order of classes.

    ``roots`` are the counts at the roots ``[trees classes]``. By default they are sums over nodes, for trees whose
    inner nodes hold zeros. ``columns`` are as for `tree_nodes`.
    """
    counts = [tree.leaf_values for tree in trees]
    for tree_counts in counts:
        check_counts(tree_counts, "model's leaf counts")
    roots = np.stack([tree_counts.sum(axis=0) for tree_counts in counts]) if roots is None else roots
    nodes, columns = tree_nodes(trees, columns)
    # The prior is the class frequencies of the samples that the trees were grown on.
    totals = {"prior": roots.sum(axis=0) / roots.sum(), "n_samples": float(roots.sum(axis=1).mean())}
    return assemble(nodes, counts, columns=columns, class_labels=class_labels, **totals)


class _Bounds(NamedTuple):
    """Bounds ``[bounds]`` that tests compare with: x <= number, or x < number where a bound is strict."""

    feature: np.ndarray  # the column of each bound
    number: np.ndarray  # float64
    strict: np.ndarray


def tree_nodes(trees: Sequence[ComparingTree], columns: Columns) -> tuple[list[TreeNodes], Columns]:
    """Return the nodes of trees, which test order keys, and the columns with the cuts that these tests need.

    If ``columns.cuts`` is not None, the trees compare float64. Then the bounds of all tests of a column become its
    cuts. Columns with levels get no cuts; there -1, the code of no level, goes where missing values go.
    """
    check_number_of_columns(columns.number)
    for t, tree in enumerate(trees):
        check_tree(f"tree {t}", tree, columns.number)
    trees = [_with_sets(tree, columns) for tree in trees]
    bounds = [_bounds(tree) for tree in trees]
    if columns.cuts is None:
        return [_nodes(tree, _order_keys(part)) for tree, part in zip(trees, bounds, strict=True)], columns
    keys, cuts = _codes(_Bounds(*map(np.concatenate, zip(*bounds, strict=True))), columns)
    parts = np.split(keys, np.cumsum([len(part.number) for part in bounds])[:-1])
    nodes = [_nodes(tree, part) for tree, part in zip(trees, parts, strict=True)]
    return nodes, dataclasses.replace(columns, cuts=cuts)


def check_number_of_columns(number: int) -> None:
    """Raise a ValueError if ``number``, of columns that a model claims, is not positive, or above `MOST_COLUMNS`."""
    if not 0 < number <= MOST_COLUMNS:
        raise ValueError(f"the model claims {number} columns.")


def _with_sets(tree: ComparingTree, columns: Columns) -> ComparingTree:
    """Return the tree with sets in place of == and !=, and in place of all tests of levels if ``columns`` have cuts."""
    inner = tree.left >= 0
    changes = inner & ((tree.compare == EQUAL) | (tree.compare == UNEQUAL))
    is_code = np.zeros(len(inner), bool)
    if columns.levels is not None and columns.cuts is not None:
        is_code = inner & _has_levels(columns)[np.where(inner, tree.feature, 0)]
    changes |= is_code
    if not changes.any():
        return tree
    compare, sets = tree.compare.copy(), dict(tree.sets)
    for node in np.flatnonzero(changes).tolist():
        kind, value = int(compare[node]), tree.value[[node]]
        if kind < EQUAL:
            first, behind = np.array([-np.inf]), value if _IS_STRICT[kind] else next_above(value)
        else:
            first, behind = tree.sets[node] if kind >= IN_SET else (value, next_above(value))
        is_outside = kind in (UNEQUAL, NOT_IN_SET) or bool(_IS_MIRRORED[kind])
        compare[node] = NOT_IN_SET if is_outside else IN_SET
        if is_code[node]:  # the code -1 moves to the side of missing values
            first, behind = np.maximum(first, _ABOVE_UNSEEN), np.maximum(behind, _ABOVE_UNSEEN)
            if tree.missing_left[node] != is_outside:
                first, behind = np.append(-np.inf, first), np.append(_ABOVE_UNSEEN, behind)
        sets[node] = first, behind
    return tree._replace(compare=compare, sets=sets)


def _has_levels(columns: Columns) -> np.ndarray:
    return np.array([level_list is not None for level_list in columns.levels or (None,) * columns.number], bool)


def _bounds(tree: ComparingTree) -> _Bounds:
    """Return a tree's bounds: the values of its nodes in their order, then two bounds for each interval of each set."""
    inner = tree.left >= 0
    is_set = inner & (tree.compare >= IN_SET)
    single = np.flatnonzero(inner & ~is_set)
    parts = [_Bounds(tree.feature[single], tree.value[single], _IS_STRICT[tree.compare[single]])]
    for node in np.flatnonzero(is_set).tolist():
        numbers = np.stack(tree.sets[node], axis=1).ravel()
        parts.append(_Bounds(np.full(len(numbers), tree.feature[node]), numbers, np.ones(len(numbers), bool)))
    return parts[0] if len(parts) == 1 else _Bounds(*map(np.concatenate, zip(*parts, strict=True)))


def next_above(numbers: np.ndarray) -> np.ndarray:
    """Return the next float64 above each number: infinity above the largest."""
    with np.errstate(over="ignore"):
        return np.nextafter(numbers, np.inf)


def _order_keys(bounds: _Bounds) -> np.ndarray:
    if not bounds.strict.any():
        return order_key_at_or_below(bounds.number)
    below = order_key_below(bounds.number)
    return below if bounds.strict.all() else np.where(bounds.strict, below, order_key_at_or_below(bounds.number))


def _codes(bounds: _Bounds, columns: Columns) -> tuple[np.ndarray, tuple[tuple[float, ...] | None, ...]]:
    """Return the order keys of all trees' bounds, and the cuts of every column.

    The cuts of a column are its distinct bounds. A bound's key is the order key of its position among the cuts. Columns
    with levels get no cuts: there a bound is a code already, and has its own order key.
    """
    is_code = _has_levels(columns)[bounds.feature]
    none_left = bounds.strict & (bounds.number == -np.inf)
    # A strict bound is the number before it; both zeros are one cut.
    with np.errstate(over="ignore"):  # below the least number lies minus infinity
        number = np.where(bounds.strict, np.nextafter(bounds.number, -np.inf), bounds.number) + 0.0
    if np.any((number == -np.inf) & ~none_left & ~is_code):
        raise ValueError("the model tests whether a float64 number is -inf, which has no code.")
    cuts, codes = list(columns.cuts or ()), number.copy()
    is_cut = np.isfinite(number) & ~is_code  # no number is above infinity
    order = np.argsort(bounds.feature, kind="stable")
    tested, starts = np.unique(bounds.feature[order], return_index=True)
    for j, (start, end) in zip(tested.tolist(), pairwise([*starts, len(order)]), strict=True):
        rows = order[start:end]
        rows = rows[is_cut[rows]]
        distinct, codes[rows] = np.unique(number[rows], return_inverse=True)
        if len(distinct) >= _MOST_CUTS:
            raise ValueError(f"the model has {len(distinct)} thresholds for column {j}; codes are exact up to 2**24.")
        if columns.levels is None or columns.levels[j] is None:
            cuts[j] = tuple(distinct.tolist())
    keys = np.where(none_left, _NONE_LEFT, order_key_at_or_below(codes))
    return np.where(is_code, _order_keys(bounds), keys), tuple(cuts)


def _nodes(tree: ComparingTree, keys: np.ndarray) -> TreeNodes:
    """Return a tree's nodes, which test the ``keys`` of its `_bounds`; > and >= become <= with children swapped."""
    inner = tree.left >= 0
    is_set = inner & (tree.compare >= IN_SET)
    single = inner & ~is_set
    swap = single & _IS_MIRRORED[np.where(single, tree.compare, 0)]
    n_single = np.count_nonzero(single)
    threshold = np.zeros(len(inner), np.int32)
    threshold[single] = keys[:n_single]
    left, right = np.where(swap, tree.right, tree.left), np.where(swap, tree.left, tree.right)
    nodes = TreeNodes(tree.feature, threshold, left, right, tree.missing_left == swap)
    if not is_set.any():
        return nodes
    set_nodes = np.flatnonzero(is_set).tolist()
    ends = np.cumsum([2 * len(tree.sets[node][0]) for node in set_nodes])
    tests = {}
    for node, bounds in zip(set_nodes, np.split(keys[n_single:], ends[:-1]), strict=True):
        first, behind = bounds.reshape(-1, 2).T
        upper = bounds.reshape(-1, 2)[np.lexsort((behind, first))].ravel()
        # Numbers below the first bound are outside of the set; from there on inside and outside take turns.
        goes_left = np.arange(len(upper) + 1) % 2 == (tree.compare[node] == IN_SET)
        tests[node] = Intervals(upper, goes_left, bool(tree.missing_left[node]))
    return with_interval_tests(nodes, tests)


def set_of_codes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers whose floor is among ``codes``, as a set of a `ComparingTree`: [code, code + 1) for each."""
    first = np.asarray(codes, np.float64)
    return first, first + 1


def trees_of_stage(outputs: Sequence[np.ndarray], n_outputs: int) -> int | None:
    """Return how many trees each stage has, as in `AdditiveTrees.trees_per_stage`; None if stages differ.

    ``outputs`` has the indices, below ``n_outputs``, of the outputs that each tree adds to. Each tree must add to one,
    and each stage go through all outputs in order, with equally many trees for each.
    """
    if any(len(tree_outputs) != 1 for tree_outputs in outputs):
        return None
    order = np.concatenate(outputs)
    changes = np.flatnonzero(order != order[0])
    parallel = int(changes[0]) if len(changes) else 1
    period = parallel * n_outputs
    is_regular = len(order) % period == 0 and np.array_equal(order, np.arange(len(order)) % period // parallel)
    return period if is_regular else None


def widen_values(values: Sequence[np.ndarray], outputs: Sequence[np.ndarray], n_outputs: int) -> list[np.ndarray]:
    """Return leaf values ``[nodes outputs]`` of each tree, 0 for the outputs that it does not add to.

    ``values`` are of each tree's ``outputs`` alone, and are returned as they are if `trees_of_stage` tells these.
    """
    if n_outputs == 1 or trees_of_stage(outputs, n_outputs) is not None:
        return list(values)
    wide = [np.zeros((len(array), n_outputs)) for array in values]
    for array, narrow, which in zip(wide, values, outputs, strict=True):
        array[:, which] = narrow
    return wide
