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

import jax
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
_IS_NEGATED = np.array([False, False, True, True, False, True, False, True])  # by comparison, as `_set_of` explains
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
    """Raise a ValueError unless the root of ``tree`` leads to a tree whose tests compare existing columns with numbers.

    ``what`` names the tree in messages; ``n_features`` is the number of columns.
    """
    left, right, n_nodes = tree.left, tree.right, len(tree.left)
    arrays = (tree.feature, tree.compare, tree.value, left, right, tree.missing_left, tree.leaf_values)
    if n_nodes == 0 or any(len(array) != n_nodes for array in arrays):
        raise ValueError(f"{what} has node arrays of {[len(array) for array in arrays]} entries; expected one number.")
    inner = left >= 0
    if np.any(inner != (right >= 0)) or max(left.max(), right.max()) >= n_nodes:
        raise ValueError(f"{what} has children that are none of its {n_nodes} nodes.")
    # If no node has two parents, and the root has none, no path from the root runs in a circle.
    n_parents = np.bincount(np.concatenate([left[inner], right[inner]]), minlength=n_nodes)
    if n_parents[0] or n_parents.max() > 1:
        raise ValueError(f"{what} is no tree: a node has two parents, or the root has one.")
    tested_features = tree.feature[inner]
    if len(tested_features) and (tested_features.min() < 0 or tested_features.max() >= n_features):
        raise ValueError(f"{what} tests column {int(tested_features.max())} of {n_features}.")
    tests_set = inner & (tree.compare >= IN_SET)
    if np.any(np.isnan(tree.value[inner & ~tests_set])):
        raise ValueError(f"{what} compares with a value that is no number.")
    if np.any(np.isinf(tree.value[inner & ((tree.compare == EQUAL) | (tree.compare == UNEQUAL))])):
        raise ValueError(f"{what} tests whether a number is infinite, which is not imported.")
    if not set(np.flatnonzero(tests_set).tolist()) <= set(tree.sets):
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
    """Return the additive model of ``trees``, which are in the library's order and hold values in their leaves.

    ``columns`` describe the data; if their cuts are not None, the trees compare float64. ``base [outputs]`` is added to
    the sums, and ``link``, ``trees_per_stage``, ``class_labels`` and ``averaged`` are fields of `AdditiveTrees`.
    """
    nodes, columns = tree_nodes(trees, columns)
    model_trees, indices = lay_out(nodes, columns)
    values = np.zeros((model_trees.n_trees, model_trees.n_nodes, trees[0].leaf_values.shape[1]), np.float32)
    is_forest = averaged or trees_per_stage == len(trees)
    first_stage = None if is_forest else trees_per_stage
    offset, base = _offsets(trees, base, first_stage) if link == "identity" else (None, base)
    for t, (tree, index) in enumerate(zip(trees, indices, strict=True)):
        leaves = np.flatnonzero(tree.left < 0)
        # Nodes that the root does not lead to have the index of the root: their values are no leaf's.
        leaves = leaves[(leaves == 0) | (index[leaves] != index[0])]
        with np.errstate(over="ignore"):  # `AdditiveTrees` refuses what is beyond float32
            values[t, index[leaves]] = tree.leaf_values[leaves] - (0 if offset is None else offset[t])
    base_array = jax.device_put(np.asarray(base, jnp.result_type(float)))
    return AdditiveTrees(model_trees, jax.device_put(values), base_array, link, trees_per_stage, class_labels, averaged)


def _offsets(
    trees: Sequence[ComparingTree], base: np.ndarray, first_stage: int | None
) -> tuple[np.ndarray | None, np.ndarray]:
    """Return offsets ``[trees values]`` to subtract from leaf values, and ``base [outputs]`` with all offsets added.

    Of a boosted model the trees of the ``first_stage``, a number, give offsets, so that the sums after each stage stay
    the same. Of a forest (None) all trees give the same, so that base + T · value stays the answer of each of T trees.
    The offsets are None, and the base is unchanged, unless float32 leaf values would lose too much of their
    differences. Warns if float32 sums lose too much of these.
    """
    leaves = [tree.leaf_values[np.asarray(tree.left) < 0].astype(np.float64) for tree in trees]
    lowest, highest = (np.stack([bound(values, axis=0) for values in leaves]) for bound in (np.min, np.max))
    spread, largest_value = np.max(highest - lowest), max(np.max(np.abs(lowest)), np.max(np.abs(highest)))
    base, rounding, offset = np.asarray(base, np.float64), np.finfo(np.float32).eps / 2, None
    has_all_outputs = lowest.shape[1] == len(base)  # else leaves hold one value, of one of several outputs
    if has_all_outputs and rounding * max(largest_value, np.max(np.abs(base))) > LOST * spread > 0:
        offset = lowest + (highest - lowest) / 2  # the middle of each tree's values, [trees values]
        if first_stage is None:
            offset[:] = offset.mean(axis=0)
        else:
            offset[first_stage:] = 0
        exact_base = base + offset.sum(axis=0)
        base = exact_base.astype(np.float32).astype(np.float64)
        # So that the base is one float32.
        offset[slice(first_stage)] -= (exact_base - base) / len(offset[slice(first_stage)])
        largest_value = max(np.max(np.abs(lowest - offset)), np.max(np.abs(highest - offset)))
    base_error, leaf_error = rounding * np.max(np.abs(base)), rounding * largest_value
    if leaf_error > TOLD * spread > 0:
        warn(
            f"the model's leaves hold numbers of up to {largest_value:.6g}, where float32 is off by up to "
            f"{leaf_error:.2g}, and a tree's leaves differ by {spread:.2g}: answers lose that. Take the offset off the "
            "targets before the fit, or have the library begin at their mean."
        )
    elif base_error > TOLD * spread > 0 and jnp.result_type(float) == jnp.float32:
        kept = "Differences of answers, such as uncertainty and shares of columns, do not. "
        warn(
            f"the model's numbers lie about {base[np.argmax(np.abs(base))]:.6g}, where float32 is off by up to "
            f"{base_error:.2g}, and a tree's leaves differ by {spread:.2g}: predictions lose that. "
            f"{kept * bool(leaf_error <= LOST * spread)}Take the offset off the targets before the fit, or set "
            "jax_enable_x64."
        )
    return offset, base


def forest_of(
    trees: Sequence[ComparingTree], columns: Columns, class_labels: tuple[Any, ...], roots: np.ndarray | None = None
) -> Forest:
    """Return the forest of trees whose leaves hold class counts; ``class_labels`` are in the order of classes.

    ``roots`` are the counts at the roots ``[trees classes]``. By default they are sums over nodes, for trees whose
    inner nodes hold zeros. ``columns`` describe the data; if their cuts are not None, the trees compare float64.
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
    all_bounds = [_bounds(tree) for tree in trees]
    if columns.cuts is None:
        return [_nodes(tree, _order_keys(bounds)) for tree, bounds in zip(trees, all_bounds, strict=True)], columns
    keys, cuts = _codes(_Bounds(*map(np.concatenate, zip(*all_bounds, strict=True))), columns)
    keys_of_trees = np.split(keys, np.cumsum([len(bounds.number) for bounds in all_bounds])[:-1])
    nodes = [_nodes(tree, tree_keys) for tree, tree_keys in zip(trees, keys_of_trees, strict=True)]
    return nodes, dataclasses.replace(columns, cuts=cuts)


def check_number_of_columns(number: int) -> None:
    """Raise a ValueError if ``number``, the columns that a model claims to have, is not from 1 to `MOST_COLUMNS`."""
    if not 0 < number <= MOST_COLUMNS:
        raise ValueError(f"the model claims {number} columns.")


def _with_sets(tree: ComparingTree, columns: Columns) -> ComparingTree:
    """Return the tree with sets in place of == and !=, and in place of all tests of levels if ``columns`` have cuts."""
    inner = tree.left >= 0
    tests_level = np.zeros(len(inner), bool)
    if columns.levels is not None and columns.cuts is not None:
        tests_level = inner & _has_levels(columns)[np.where(inner, tree.feature, 0)]
    becomes_set = tests_level | (inner & ((tree.compare == EQUAL) | (tree.compare == UNEQUAL)))
    if not becomes_set.any():
        return tree
    compare, sets = tree.compare.copy(), dict(tree.sets)
    for node in np.flatnonzero(becomes_set).tolist():
        is_negated, intervals = bool(_IS_NEGATED[compare[node]]), _set_of(tree, node)
        compare[node] = NOT_IN_SET if is_negated else IN_SET
        # -1, the code of no level, goes where missing values go: left from the set, or, negated, left from outside.
        sets[node] = _with_unseen(*intervals, tree.missing_left[node] != is_negated) if tests_level[node] else intervals
    return tree._replace(compare=compare, sets=sets)


def _set_of(tree: ComparingTree, node: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the set that a node tests by comparing with t, as (first numbers, ends) of intervals.

    What goes left is in the set or, for a negated comparison, not in it::

        x in the set   negated   set
        x < t          x >= t    [-inf, t)
        x <= t         x > t     [-inf, next number above t)
        x == t         x != t    [t, next number above t)
    """
    comparison, bound = int(tree.compare[node]), tree.value[[node]]
    if comparison >= IN_SET:
        return tree.sets[node]
    first = np.array([-np.inf]) if comparison < EQUAL else bound
    return first, bound if _IS_STRICT[comparison] else next_above(bound)


def _with_unseen(first: np.ndarray, end: np.ndarray, includes_unseen: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return a set of codes, as (first numbers, ends) of intervals, with -1 and what is below included, or excluded."""
    first, end = np.maximum(first, _ABOVE_UNSEEN), np.maximum(end, _ABOVE_UNSEEN)
    return (np.append(-np.inf, first), np.append(_ABOVE_UNSEEN, end)) if includes_unseen else (first, end)


def _has_levels(columns: Columns) -> np.ndarray:
    return np.array([level_list is not None for level_list in columns.levels or (None,) * columns.number], bool)


def _bounds(tree: ComparingTree) -> _Bounds:
    """Return the bounds in a tree's tests: first those of single numbers in the nodes' order, then two per interval."""
    inner = tree.left >= 0
    is_set = inner & (tree.compare >= IN_SET)
    compared = np.flatnonzero(inner & ~is_set)
    bounds = [_Bounds(tree.feature[compared], tree.value[compared], _IS_STRICT[tree.compare[compared]])]
    # An interval is first <= x < end: both x < first and x < end are strict bounds.
    for node in np.flatnonzero(is_set).tolist():
        ends = np.stack(tree.sets[node], axis=1).ravel()
        bounds.append(_Bounds(np.full(len(ends), tree.feature[node]), ends, np.ones(len(ends), bool)))
    return bounds[0] if len(bounds) == 1 else _Bounds(*map(np.concatenate, zip(*bounds, strict=True)))


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
    """Return (the order keys of all trees' bounds, the cuts of every column).

    The cuts of a column are its distinct bounds. A bound's key is the order key of its position among the cuts. Columns
    with levels get no cuts: there a bound is a code already, and has its own order key.
    """
    is_code = _has_levels(columns)[bounds.feature]
    admits_none = bounds.strict & (bounds.number == -np.inf)
    # x < t is x <= the number before t. Adding 0.0 turns -0.0 into 0.0, so that both zeros are one cut.
    with np.errstate(over="ignore"):  # below the least number lies minus infinity
        largest = np.where(bounds.strict, np.nextafter(bounds.number, -np.inf), bounds.number) + 0.0
    if np.any((largest == -np.inf) & ~admits_none & ~is_code):
        raise ValueError("the model tests whether a float64 number is -inf, which has no code.")
    cuts, codes = list(columns.cuts or ()), largest.copy()
    becomes_cut = np.isfinite(largest) & ~is_code  # every number is at or below infinity
    by_column = np.argsort(bounds.feature, kind="stable")
    tested_columns, starts = np.unique(bounds.feature[by_column], return_index=True)
    for j, (start, end) in zip(tested_columns.tolist(), pairwise([*starts, len(by_column)]), strict=True):
        indices = by_column[start:end]
        indices = indices[becomes_cut[indices]]
        distinct, codes[indices] = np.unique(largest[indices], return_inverse=True)
        if len(distinct) >= _MOST_CUTS:
            raise ValueError(f"the model has {len(distinct)} thresholds for column {j}; codes are exact up to 2**24.")
        if columns.levels is None or columns.levels[j] is None:
            cuts[j] = tuple(distinct.tolist())
    keys = np.where(admits_none, _NONE_LEFT, order_key_at_or_below(codes))
    return np.where(is_code, _order_keys(bounds), keys), tuple(cuts)


def _nodes(tree: ComparingTree, keys: np.ndarray) -> TreeNodes:
    """Return the nodes of ``tree`` with order keys as thresholds; tests > and >= become <= with the children swapped.

    ``keys`` are the order keys of the tree's bounds, in the order of `_bounds`.
    """
    inner = tree.left >= 0
    tests_set = inner & (tree.compare >= IN_SET)
    compares = inner & ~tests_set
    is_swapped = compares & _IS_NEGATED[np.where(compares, tree.compare, 0)]
    n_compared = np.count_nonzero(compares)
    threshold = np.zeros(len(inner), np.int32)
    threshold[compares] = keys[:n_compared]
    left, right = np.where(is_swapped, tree.right, tree.left), np.where(is_swapped, tree.left, tree.right)
    missing_right = tree.missing_left == is_swapped  # where neither, or both: left is right
    nodes = TreeNodes(tree.feature, threshold, left, right, missing_right)
    if not tests_set.any():
        return nodes
    return with_interval_tests(nodes, _interval_tests(tree, np.flatnonzero(tests_set).tolist(), keys[n_compared:]))


def _interval_tests(tree: ComparingTree, set_nodes: list[int], keys: np.ndarray) -> dict[int, Intervals]:
    """Return the test of each node that tests a set; ``keys`` are the order keys of all their intervals' bounds."""
    key_ends = np.cumsum([2 * len(tree.sets[node][0]) for node in set_nodes])
    tests = {}
    for node, set_keys in zip(set_nodes, np.split(keys, key_ends[:-1]), strict=True):
        first_key, end_key = set_keys.reshape(-1, 2).T
        upper = set_keys.reshape(-1, 2)[np.lexsort((end_key, first_key))].ravel()
        # Numbers below the first bound are outside of the set; from there on inside and outside take turns.
        is_inside = np.arange(len(upper) + 1) % 2 == 1
        tests[node] = Intervals(upper, is_inside != _IS_NEGATED[tree.compare[node]], bool(tree.missing_left[node]))
    return tests


def set_of_codes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers whose floor is among ``codes``, as a set of a `ComparingTree`: [code, code + 1) for each."""
    first = np.asarray(codes, np.float64)
    return first, first + 1


def trees_of_stage(outputs: Sequence[np.ndarray], n_outputs: int) -> int | None:
    """Return the number of trees that each stage (iteration of boosting) has; None if stages differ.

    ``outputs`` has the indices, below ``n_outputs``, of the outputs that each tree adds to. Each tree must add to one,
    and each stage go through all outputs in order, with equally many trees for each.
    """
    if any(len(tree_outputs) != 1 for tree_outputs in outputs):
        return None
    by_tree = np.concatenate(outputs)
    changes = np.flatnonzero(by_tree != by_tree[0])
    n_parallel = int(changes[0]) if len(changes) else 1
    period = n_parallel * n_outputs
    is_regular = len(by_tree) % period == 0 and np.array_equal(by_tree, np.arange(len(by_tree)) % period // n_parallel)
    return period if is_regular else None


def widen_values(values: Sequence[np.ndarray], outputs: Sequence[np.ndarray], n_outputs: int) -> list[np.ndarray]:
    """Return leaf values ``[nodes outputs]`` of each tree, 0 for the outputs that it does not add to.

    ``values`` have columns for each tree's ``outputs`` alone. They are returned unchanged if there is one output, or if
    the outputs follow from the order of the trees (`trees_of_stage`).
    """
    if n_outputs == 1 or trees_of_stage(outputs, n_outputs) is not None:
        return list(values)
    wide = [np.zeros((len(array), n_outputs)) for array in values]
    for wide_values, narrow, tree_outputs in zip(wide, values, outputs, strict=True):
        wide_values[:, tree_outputs] = narrow
    return wide
