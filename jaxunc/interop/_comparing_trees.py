"""Trees as libraries write them, and what all importers make of them: additive trees, or a forest of counts.

An importer reads each tree into a `ComparingTree`, whose nodes compare in any way that libraries know: x < t, x <= t,
x > t, x >= t, x == t, x != t, or "x is in a set". `tree_nodes` turns these into jaxunc's one test, an integer at or
below a threshold, so that every instance goes where it goes in its library:

1. `check_tree`: the nodes are a tree, and test columns and numbers that there are.
2. `_with_sets`: what is no single bound becomes a set of intervals.
3. `_bounds`: the numbers that tests compare with. Each has an integer as its key. Where float32 is compared, it is the
   order key, which sorts as floats do. Where float64 is (`Columns.cuts`), a column's bounds in all trees are its cuts,
   and the key tells how many lie below.
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
LOST = 1e-4
"""Largest rounding error of leaf values without an offset (`_offsets`), as a share of the spread of a tree's values."""
TOLD = 1e-2
"""Largest rounding error of leaf values and of sums, as such a share, without a warning."""
_IS_STRICT = np.array([False, True, True, False, False, False, False, False])  # by comparison: True for x < t, x >= t
_IS_NEGATED = np.array([False, False, True, True, False, True, False, True])  # by comparison, as `_set_of` explains
_MOST_CUTS = 2**24  # codes are float32
_NONE_LEFT = -1  # below the key of every code
_ABOVE_UNSEEN = np.nextafter(-1.0, np.inf)  # above -1, the code of a value that is no level


class ComparingTree(NamedTuple):
    """The nodes of one tree ``[nodes]``, in the order of its library, the root first; leaves have negative children."""

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
    """Raise a ValueError unless the nodes of ``tree`` are a tree, and test one of ``n_features`` columns each.

    A test compares with a number, or is of a set that the tree has. ``what`` names the tree in messages.
    """
    left, right = tree.left, tree.right
    n_nodes = len(left)
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
    """Return the additive model of ``trees``, whose leaves hold values; they are in the order of their library.

    ``columns`` describe the data; if their cuts are not None, the trees compare float64. ``base [outputs]`` is added to
    the sums. ``link``, ``trees_per_stage``, ``class_labels`` and ``averaged`` are fields of `AdditiveTrees`.
    """
    nodes, columns = tree_nodes(trees, columns)
    model_trees, indices = lay_out(nodes, columns)
    values = np.zeros((model_trees.n_trees, model_trees.n_nodes, trees[0].leaf_values.shape[1]), np.float32)
    is_forest = averaged or trees_per_stage == len(trees)  # a single stage is a forest, too
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
    """Return (offsets ``[trees values]`` to subtract from leaf values or None, ``base [outputs]`` plus all offsets).

    Offsets are None unless float32 would round away much of what leaf values differ in, and each leaf has a value for
    every output. A forest (``first_stage`` None) has the same for all its T trees, so that base + T · leaf value stays
    a tree's own answer. Else only the first ``first_stage`` trees, one stage of boosting, have one, so that the sums
    after each stage stay the same. Warns if float32 loses much even so.
    """
    leaves = [tree.leaf_values[np.asarray(tree.left) < 0].astype(np.float64) for tree in trees]
    lowest = np.stack([np.min(values, axis=0) for values in leaves])  # of each tree, [trees values]
    highest = np.stack([np.max(values, axis=0) for values in leaves])
    spread = np.max(highest - lowest)
    largest_value = max(np.max(np.abs(lowest)), np.max(np.abs(highest)))
    base = np.asarray(base, np.float64)
    rounding = np.finfo(np.float32).eps / 2  # the largest error of a float32, as a share of the number
    offset = None
    has_all_outputs = lowest.shape[1] == len(base)
    largest_number = max(largest_value, np.max(np.abs(base)))
    if has_all_outputs and rounding * largest_number > LOST * spread > 0:  # a spread of 0 has nothing to lose
        offset = lowest + (highest - lowest) / 2  # the middle of each tree's values
        if first_stage is None:
            offset[:] = offset.mean(axis=0)
        else:
            offset[first_stage:] = 0
        # The base is rounded to a float32. The trees with an offset, all in a forest, share what that changes.
        exact_base = base + offset.sum(axis=0)
        base = exact_base.astype(np.float32).astype(np.float64)
        trees_with_offset = slice(first_stage)
        offset[trees_with_offset] -= (exact_base - base) / len(offset[trees_with_offset])
        largest_value = max(np.max(np.abs(lowest - offset)), np.max(np.abs(highest - offset)))
    base_error = rounding * np.max(np.abs(base))
    leaf_error = rounding * largest_value
    if leaf_error > TOLD * spread > 0:
        warn(
            f"the model's leaves hold numbers of up to {largest_value:.6g}, where float32 is off by up to "
            f"{leaf_error:.2g}, and a tree's leaves differ by {spread:.2g}: answers lose that. Take the offset off the "
            "targets before the fit, or have the library begin at their mean."
        )
    elif base_error > TOLD * spread > 0 and jnp.result_type(float) == jnp.float32:
        # The base cancels in differences of answers.
        are_differences_exact = leaf_error <= LOST * spread
        differences = "Differences of answers, such as uncertainty and shares of columns, do not. "
        warn(
            f"the model's numbers lie about {base[np.argmax(np.abs(base))]:.6g}, where float32 is off by up to "
            f"{base_error:.2g}, and a tree's leaves differ by {spread:.2g}: predictions lose that. "
            f"{differences if are_differences_exact else ''}Take the offset off the targets before the fit, or set "
            "jax_enable_x64."
        )
    return offset, base


def forest_of(
    trees: Sequence[ComparingTree], columns: Columns, class_labels: tuple[Any, ...], roots: np.ndarray | None = None
) -> Forest:
    """Return the forest of ``trees``, whose leaves hold class counts; ``class_labels`` are in the order of classes.

    ``columns`` describe the data; if their cuts are not None, the trees compare float64. ``roots`` are the counts at
    the roots ``[trees classes]``; by default sums over all nodes of each tree, whose inner nodes must hold zeros then.
    """
    counts = [tree.leaf_values for tree in trees]
    for tree_counts in counts:
        check_counts(tree_counts, "model's leaf counts")
    roots = np.stack([tree_counts.sum(axis=0) for tree_counts in counts]) if roots is None else roots
    nodes, columns = tree_nodes(trees, columns)
    # The prior is the class frequencies of the samples that the trees were grown on.
    prior = roots.sum(axis=0) / roots.sum()
    n_samples = float(roots.sum(axis=1).mean())
    return assemble(nodes, counts, columns=columns, class_labels=class_labels, prior=prior, n_samples=n_samples)


class _Bounds(NamedTuple):
    """The numbers that tests compare with, ``[bounds]``: x <= number, or x < number where a bound is strict."""

    feature: np.ndarray  # the column of each bound
    number: np.ndarray  # float64
    strict: np.ndarray  # bool


def tree_nodes(trees: Sequence[ComparingTree], columns: Columns) -> tuple[list[TreeNodes], Columns]:
    """Return (nodes of each tree, which compare order keys; columns, which say how to make such keys).

    If ``columns.cuts`` is None, the ``trees`` compare float32, and the columns stay as they are. Else they compare
    float64: the bounds that tests of a column have in all trees become its cuts. Columns with levels hold codes, and
    get no cuts; the code -1, of a value that is no level, goes where missing values go. A ValueError for damaged trees.
    """
    check_number_of_columns(columns.number)
    for t, tree in enumerate(trees):
        check_tree(f"tree {t}", tree, columns.number)
    trees = [_with_sets(tree, columns) for tree in trees]
    all_bounds = [_bounds(tree) for tree in trees]
    if columns.cuts is None:
        return [_nodes(tree, _order_keys(bounds)) for tree, bounds in zip(trees, all_bounds, strict=True)], columns
    keys, cuts = _codes(_join(all_bounds), columns)
    ends_of_trees = np.cumsum([len(bounds.number) for bounds in all_bounds])
    keys_of_trees = np.split(keys, ends_of_trees[:-1])
    nodes = [_nodes(tree, tree_keys) for tree, tree_keys in zip(trees, keys_of_trees, strict=True)]
    return nodes, dataclasses.replace(columns, cuts=cuts)


def check_number_of_columns(number: int) -> None:
    """Raise a ValueError unless ``number``, how many columns a model claims to have, is from 1 to `MOST_COLUMNS`."""
    if not 0 < number <= MOST_COLUMNS:
        raise ValueError(f"the model claims {number} columns.")


def _with_sets(tree: ComparingTree, columns: Columns) -> ComparingTree:
    """Return ``tree`` with tests of sets in place of tests == and !=.

    If ``columns`` have cuts, all tests of columns with levels become tests of sets, too.
    """
    inner = tree.left >= 0
    tests_level = np.zeros(len(inner), bool)
    if columns.levels is not None and columns.cuts is not None:
        tests_level = inner & _has_levels(columns)[np.where(inner, tree.feature, 0)]  # leaves test no column
    becomes_set = tests_level | (inner & ((tree.compare == EQUAL) | (tree.compare == UNEQUAL)))
    if not becomes_set.any():
        return tree
    compare = tree.compare.copy()
    sets = dict(tree.sets)
    for node in np.flatnonzero(becomes_set).tolist():
        is_negated = bool(_IS_NEGATED[compare[node]])
        first, end = _set_of(tree, node)
        if tests_level[node]:
            # The code -1, of no level, goes where missing values go. What is in the set goes left, or right if negated.
            first, end = _with_unseen(first, end, includes_unseen=tree.missing_left[node] != is_negated)
        compare[node] = NOT_IN_SET if is_negated else IN_SET
        sets[node] = first, end
    return tree._replace(compare=compare, sets=sets)


def _set_of(tree: ComparingTree, node: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the set that stands for the test of node ``node``, as (first numbers, ends) of intervals first <= x < end.

    x is the instance's number, and t is the one that the node compares with. If the comparison is negated, numbers in
    the set go right; else they go left::

        x in the set   negated   set
        x < t          x >= t    [-inf, t)
        x <= t         x > t     [-inf, next number above t)
        x == t         x != t    [t, next number above t)
    """
    comparison = int(tree.compare[node])
    bound = tree.value[[node]]
    if comparison >= IN_SET:
        return tree.sets[node]
    first = np.array([-np.inf]) if comparison < EQUAL else bound
    return first, bound if _IS_STRICT[comparison] else next_above(bound)


def _with_unseen(first: np.ndarray, end: np.ndarray, *, includes_unseen: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return a set of codes, with all numbers up to -1 put into it (``includes_unseen``), or taken out of it.

    -1 is the code of a value that is no level. A set is its intervals first <= x < end, as two arrays.
    """
    first = np.maximum(first, _ABOVE_UNSEEN)
    end = np.maximum(end, _ABOVE_UNSEEN)
    if includes_unseen:
        return np.append(-np.inf, first), np.append(_ABOVE_UNSEEN, end)
    return first, end


def _has_levels(columns: Columns) -> np.ndarray:
    """Return whether each of ``columns`` has levels, as a bool array."""
    return np.array([level_list is not None for level_list in columns.levels or (None,) * columns.number], bool)


def _bounds(tree: ComparingTree) -> _Bounds:
    """Return the bounds of a tree's tests: those of comparisons in the order of nodes, then those of sets.

    A set has two for each of its intervals, its first number and its end.
    """
    inner = tree.left >= 0
    is_set = inner & (tree.compare >= IN_SET)
    compared_nodes = np.flatnonzero(inner & ~is_set)
    bounds = [
        _Bounds(tree.feature[compared_nodes], tree.value[compared_nodes], _IS_STRICT[tree.compare[compared_nodes]])
    ]
    # An interval is first <= x < end: both x < first and x < end are strict bounds.
    for node in np.flatnonzero(is_set).tolist():
        ends = np.stack(tree.sets[node], axis=1).ravel()
        bounds.append(_Bounds(np.full(len(ends), tree.feature[node]), ends, np.ones(len(ends), bool)))
    return bounds[0] if len(bounds) == 1 else _join(bounds)


def _join(bounds: Sequence[_Bounds]) -> _Bounds:
    """Return a single `_Bounds` that has all of ``bounds``, in their order."""
    return _Bounds(*map(np.concatenate, zip(*bounds, strict=True)))


def next_above(numbers: np.ndarray) -> np.ndarray:
    """Return the next float64 above each of ``numbers``; above the largest it is infinity."""
    with np.errstate(over="ignore"):
        return np.nextafter(numbers, np.inf)


def _order_keys(bounds: _Bounds) -> np.ndarray:
    """Return for each of ``bounds`` the order key of the largest float32 that satisfies its test."""
    if not bounds.strict.any():
        return order_key_at_or_below(bounds.number)
    below = order_key_below(bounds.number)
    return below if bounds.strict.all() else np.where(bounds.strict, below, order_key_at_or_below(bounds.number))


def _codes(bounds: _Bounds, columns: Columns) -> tuple[np.ndarray, tuple[tuple[float, ...] | None, ...]]:
    """Return (order key of each bound, cuts of each column) for the ``bounds`` of all trees, which compare float64.

    A column's cuts are its distinct bounds, each as the largest number that satisfies the test. A bound's key is the
    order key of its position among the cuts. Columns with levels get no cuts: there bounds are codes already.
    """
    is_code = _has_levels(columns)[bounds.feature]
    admits_none = bounds.strict & (bounds.number == -np.inf)  # no number is below -inf
    # x < t is x <= the number before t. Adding 0.0 turns -0.0 into 0.0, so that both zeros are one cut.
    with np.errstate(over="ignore"):  # below the least number lies minus infinity
        largest = np.where(bounds.strict, np.nextafter(bounds.number, -np.inf), bounds.number) + 0.0
    if np.any((largest == -np.inf) & ~admits_none & ~is_code):
        raise ValueError("the model tests whether a float64 number is -inf, which has no code.")
    cuts = list(columns.cuts or ())
    codes = largest.copy()  # becomes positions among the cuts; infinity stays
    becomes_cut = np.isfinite(largest) & ~is_code  # a test at infinity tells no numbers apart
    by_column = np.argsort(bounds.feature, kind="stable")  # bounds of one column side by side
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
    """Return ``tree`` as nodes that compare order keys; ``keys`` are those of its `_bounds`, in their order.

    Tests > and >= become <= with the children exchanged. A test of a set becomes several nodes, behind the others.
    """
    inner = tree.left >= 0
    tests_set = inner & (tree.compare >= IN_SET)
    compares = inner & ~tests_set
    is_swapped = compares & _IS_NEGATED[np.where(compares, tree.compare, 0)]
    n_compared = np.count_nonzero(compares)
    threshold = np.zeros(len(inner), np.int32)
    threshold[compares] = keys[:n_compared]
    left = np.where(is_swapped, tree.right, tree.left)
    right = np.where(is_swapped, tree.left, tree.right)
    # A missing value goes right if it went left and the children are exchanged, or right and they are not.
    missing_right = tree.missing_left == is_swapped
    nodes = TreeNodes(tree.feature, threshold, left, right, missing_right)
    if not tests_set.any():
        return nodes
    tests = _interval_tests(tree, np.flatnonzero(tests_set).tolist(), keys[n_compared:])
    return with_interval_tests(nodes, tests)


def _interval_tests(tree: ComparingTree, set_nodes: list[int], keys: np.ndarray) -> dict[int, Intervals]:
    """Return {node: its test} for ``set_nodes``, the nodes of ``tree`` that test sets.

    ``keys`` are the order keys of their intervals' bounds, in the order of `_bounds`.
    """
    key_ends = np.cumsum([2 * len(tree.sets[node][0]) for node in set_nodes])
    tests = {}
    for node, set_keys in zip(set_nodes, np.split(keys, key_ends[:-1]), strict=True):
        intervals = set_keys.reshape(-1, 2)
        first_key, end_key = intervals.T
        # The bounds in rising order: first, end, first, end, …. Numbers below all of them are outside of the set; from
        # there on inside and outside take turns.
        upper = intervals[np.lexsort((end_key, first_key))].ravel()
        is_inside = np.arange(len(upper) + 1) % 2 == 1
        tests[node] = Intervals(upper, is_inside != _IS_NEGATED[tree.compare[node]], bool(tree.missing_left[node]))
    return tests


def set_of_codes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers whose floor is among ``codes``, as (first numbers, ends) of intervals [code, code + 1)."""
    first = np.asarray(codes, np.float64)
    return first, first + 1


def trees_of_stage(outputs: Sequence[np.ndarray], n_outputs: int) -> int | None:
    """Return the number of trees in each stage (iteration of boosting); None if the order of trees does not tell it.

    ``outputs`` has the indices, below ``n_outputs``, of the outputs that each tree adds to. The order tells it if each
    tree adds to one, and each stage goes through all outputs in order, with equally many trees for each.
    """
    if any(len(tree_outputs) != 1 for tree_outputs in outputs):
        return None
    by_tree = np.concatenate(outputs)
    changes = np.flatnonzero(by_tree != by_tree[0])
    n_parallel = int(changes[0]) if len(changes) else 1  # trees of the first output at the beginning
    period = n_parallel * n_outputs
    expected_outputs = np.arange(len(by_tree)) % period // n_parallel  # such as 0 0 1 1 2 2, over and over
    return period if len(by_tree) % period == 0 and np.array_equal(by_tree, expected_outputs) else None


def widen_values(values: Sequence[np.ndarray], outputs: Sequence[np.ndarray], n_outputs: int) -> list[np.ndarray]:
    """Return the leaf ``values`` of each tree as ``[nodes outputs]``, with 0 for outputs that the tree does not add to.

    ``values`` have columns for the ``outputs`` of their tree alone, indices below ``n_outputs``. They are returned
    unchanged if there is one output, or if the order of trees tells their outputs (`trees_of_stage`).
    """
    if n_outputs == 1 or trees_of_stage(outputs, n_outputs) is not None:
        return list(values)
    wide = [np.zeros((len(array), n_outputs)) for array in values]
    for wide_values, narrow, tree_outputs in zip(wide, values, outputs, strict=True):
        wide_values[:, tree_outputs] = narrow
    return wide
