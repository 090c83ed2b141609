"""What exporters share: checks of the model, and its trees as comparisons with numbers.

`plain_nodes` turns a node's threshold, an order key (an integer that sorts as floats do), back into a number. Nodes
that share children are one test of intervals: they become one node again (`PlainSet`).
"""

import json
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from jaxunc._checks import is_concrete
from jaxunc._numerics import NAN_FIRST, Pickled
from jaxunc._types import steps_of_estimator
from jaxunc.additive import AdditiveTrees
from jaxunc.forest import IntervalNode, Trees, interval_nodes, reached_nodes
from jaxunc.inference import OfSums, ReadOuts
from jaxunc.tables import Columns

from ._comparing_trees import next_above

_BEYOND = 2139095040  # the order key of infinity: with this threshold every number goes left
_NONE = -2139095040  # the order key of minus infinity: with a threshold below it no number goes left


def model_to_export(model: Any) -> ReadOuts | AdditiveTrees | OfSums:
    """Return what an exporter takes: the ``bound_`` of an estimator, or ``model`` itself.

    An error, as `to_onnx` and `to_treelite` document it, if the model cannot be exported.
    """
    if steps_of_estimator(model):
        raise TypeError(
            f"model is a {type(model).__name__} of a pipeline, and only its forest can be exported: pass model.bound_, "
            "whose rows are those that the steps before it make (model.estimator_[:-1].transform(X))."
        )
    model = getattr(model, "bound_", model)
    if not isinstance(model, ReadOuts | AdditiveTrees | OfSums):
        if isinstance(model, Pickled) and hasattr(model, "fit"):
            raise ValueError(f"model ({type(model).__name__}) is not fitted; call model.fit(X, y) first.")
        raise TypeError(
            f"model is a {type(model).__name__}; pass a bound forest (ju.bind(forest, combiner)), a fitted estimator "
            "of jaxunc.estimators, LeafMoments, or an AdditiveTrees."
        )
    if isinstance(model, AdditiveTrees):
        bound_forests = ()
        arrays = model
    else:
        bound_forests = model.parts if isinstance(model, OfSums) else (model,)
        arrays = [(bound.forest, bound.combiner) for bound in bound_forests]
    if not is_concrete(arrays):
        raise TypeError("model is traced: its values are not known. Export it outside of jit and vmap.")
    for bound in bound_forests:
        if bound.forest.follows_forks:
            raise ValueError(
                f"empty leaves of the mode {bound.forest.empty_leaves!r} are followed by the host, which other "
                "libraries do not. Bind forest.with_empty_leaves('parent') or 'zeros'."
            )
    return model


def describe(columns: Columns, class_labels: tuple[Any, ...] | None) -> dict[str, Any]:
    """Return what an exported model says about its data, as a dict that is written as JSON.

    Entries are ``feature_names``, ``class_labels``, and ``levels`` by the index of their column, as text; what is None
    is left out. A ValueError for labels that JSON does not have, and for integers of more than 64 bits.
    """
    if class_labels is not None and not all(map(_is_in_json, class_labels)):
        raise ValueError(
            f"class_labels are {class_labels!r:.60}; exported models have labels that are texts, numbers of 64 bits or "
            "bools. Grow the forest on such labels."
        )
    description: dict[str, Any] = {"feature_names": columns.names, "class_labels": class_labels}
    if columns.levels is not None:
        description["levels"] = {
            str(j): {"values": levels.values, "missing_is_last": levels.has_missing}
            for j, levels in enumerate(columns.levels)
            if levels is not None
        }
    without_none = {name: value for name, value in description.items() if value is not None}
    # Numbers of NumPy become Python's, and tuples lists.
    return json.loads(json.dumps(without_none, default=lambda number: number.item()))


def _is_in_json(label: Any) -> bool:
    """Return whether JSON has a class ``label``: a text, a bool, an integer of 64 bits, or a float other than NaN."""
    if isinstance(label, str | bool | np.bool_):
        return True
    # NumPy counts a timedelta64 among its integers.
    if isinstance(label, int | np.integer) and not isinstance(label, np.timedelta64):
        return -(2**63) <= int(label) < 2**64  # programs in other languages read larger ones as floats
    return isinstance(label, float | np.floating) and not np.isnan(label)


class PlainSet(NamedTuple):
    """A test of intervals: a column's numbers are cut into intervals, which go left and right by turns."""

    feature: int  # the column
    upper: Float64[np.ndarray, " inner"]  # the largest number of each interval but the last, rising and below infinity
    behind: Float64[np.ndarray, " inner"]  # the next number above each, in the precision that is compared
    first_left: bool  # whether the first interval goes left; the sides alternate
    missing_left: bool  # whether a missing value goes left

    @property
    def goes_left(self) -> Bool[np.ndarray, " intervals"]:
        """Whether each interval goes left."""
        return (np.arange(len(self.upper) + 1) % 2 == 0) == self.first_left


class PlainNodes(NamedTuple):
    """The nodes of all trees in one list, tree after tree, the root of each first; padding nodes are left out.

    A right child follows its left sibling. A test of intervals is a single node.
    """

    tree: Int64[np.ndarray, " used"]  # the index of the node's tree
    node: Int64[np.ndarray, " used"]  # its index in the arrays of the tree
    number: Int64[np.ndarray, " used"]  # its number among the nodes of the tree, without gaps, as ONNX Runtime wants it
    inner: Bool[np.ndarray, " used"]  # whether it is no leaf
    feature: Int64[np.ndarray, " used"]
    left: Int64[np.ndarray, " used"]  # the number of the left child
    missing_left: Bool[np.ndarray, " used"]
    value: Float64[np.ndarray, " used"]  # the number at or below which instances go left
    none_left: Bool[np.ndarray, " used"]  # whether no number goes left: none is less than ``value``, then -inf
    of_set: Int64[np.ndarray, " used"]  # the index in ``sets`` of what a node tests in place of a value; -1 for others
    sets: list[PlainSet]  # the sets that are tested, each once


def plain_nodes(trees: Trees, *, wide: bool) -> PlainNodes:
    """Return the nodes of ``trees`` as comparisons with numbers, and as tests of intervals.

    ``wide`` says whether the exported model compares float64 numbers that were not rounded to float32. Then a threshold
    becomes the largest float64 that rounds to it, or to less, as float32. Thresholds of columns with cuts become cuts.
    A ValueError if nodes have two parents, other than those of a test of intervals.
    """
    tests, _ = interval_nodes(trees)
    child = np.array(trees.child)
    # A test of intervals becomes one node again: its first node, with the children of its last ones.
    for test in tests:
        child[test.tree, test.node] = test.child
    tree, node = np.nonzero(reached_nodes(child))
    inner = child[tree, node] != node
    feature = np.where(inner, np.asarray(trees.feature)[tree, node], 0).astype(np.int64)
    key = np.where(inner, np.asarray(trees.threshold)[tree, node].astype(np.int64), 0)
    value, none_left = _numbers(trees, feature, key, inner, wide=wide)
    missing_left = inner & ~np.asarray(trees.missing_right)[tree, node]
    of_set, sets = _sets(trees, tests, wide=wide)
    # Numbers of nodes begin at 0 in each tree, whose root is the first.
    first_of_tree = np.flatnonzero(node == 0)
    number = np.zeros(child.shape, np.int64)
    number[tree, node] = np.arange(len(node)) - first_of_tree[tree]
    return PlainNodes(
        tree=tree,
        node=node,
        number=number[tree, node],
        inner=inner,
        feature=feature,
        left=number[tree, child[tree, node]],
        missing_left=missing_left,
        value=value,
        none_left=none_left,
        of_set=of_set[tree, node],
        sets=sets,
    )


def _numbers(trees: Trees, feature: np.ndarray, key: np.ndarray, inner: np.ndarray, *, wide: bool) -> tuple:
    """Return (the largest number that goes left at each node, or -inf; whether no number goes left there).

    All arrays have an entry for each node: the tested column (``feature``), the threshold of ``trees`` as an order key,
    whether it is no leaf (``inner``). Numbers are cuts in columns with cuts. Elsewhere they are float32 or, with
    ``wide``, the largest float64 that round to these.
    """
    # Clipped to the keys of numbers: beyond them thresholds send all numbers left, or none.
    none_left = key < _NONE
    clipped = np.clip(key, _NONE, _BEYOND)
    # A key of 0 or more is the bits of its float32; bits of negative numbers sort in reverse.
    number = np.where(clipped < 0, int(NAN_FIRST) - clipped, clipped).astype(np.int32).view(np.float32)
    value = largest_rounding_to(number) if wide else number.astype(np.float64)
    for j, cuts in enumerate(trees.columns.cuts or ()):
        if cuts is not None:
            # The threshold sends codes up to it left, and ``cuts[c]`` is the largest number with the code c.
            tests_column = inner & (feature == j)
            codes = np.where(none_left, -1.0, number)[tests_column]
            none_left[tests_column] = codes < 0
            # Beyond the last cut every code goes left.
            value[tests_column] = np.append(cuts, np.inf)[np.clip(np.floor(codes), 0, len(cuts)).astype(np.int64)]
    return np.where(none_left, -np.inf, value), inner & none_left


def _sets(trees: Trees, tests: list[IntervalNode], *, wide: bool) -> tuple[np.ndarray, list[PlainSet]]:
    """Return (the index of the set that each node tests ``[trees nodes]``, or -1; the distinct sets).

    ``tests`` are the tests of intervals in ``trees``. ``wide`` is that of `plain_nodes`.
    """
    of_set = np.full(trees.child.shape, -1)
    sets: list[PlainSet] = []
    index_of: dict[tuple, int] = {}
    feature = np.asarray(trees.feature)
    for test in tests:
        intervals = test.intervals
        column = int(feature[test.tree, test.node])
        key = (column, intervals.upper.tobytes(), bool(intervals.goes_left[0]), intervals.missing_left)
        if key not in index_of:
            index_of[key] = len(sets)
            sets.append(_set(trees, column, test, wide=wide))
        of_set[test.tree, test.node] = index_of[key]
    return of_set, sets


def _set(trees: Trees, feature: int, test: IntervalNode, *, wide: bool) -> PlainSet:
    """Return ``test``, a test of intervals of the column ``feature``, as a `PlainSet`: intervals with alternate sides.

    Intervals without numbers are left out, and neighbours that go to one side are joined. For example, the ends 1, 1,
    5, 7 and the sides left, right, left, left, right become the end 7 and the sides left, right.
    """
    intervals = test.intervals
    key = np.asarray(intervals.upper, np.int64)
    all_inner = np.ones(len(key), bool)
    features = np.full(len(key), feature)
    upper, none_below = _numbers(trees, features, key, all_inner, wide=wide)
    if trees.columns.cuts is None or trees.columns.cuts[feature] is None:
        # The next float32, also where ``upper`` is the largest float64 that rounds to its own float32.
        behind, _ = _numbers(trees, features, np.minimum(key + 1, _BEYOND), all_inner, wide=False)
    else:
        behind = next_above(upper)
    # The last interval ends at infinity.
    ends = [*upper.tolist(), np.inf]
    numbers_behind = [*behind.tolist(), np.inf]
    are_empty = [*none_below, False]
    intervals_with_numbers = []  # (whether it goes left, its end, the next number behind)
    last_end = None
    for end, number_behind, goes_left, is_empty in zip(
        ends, numbers_behind, intervals.goes_left, are_empty, strict=True
    ):
        # Intervals that end at codes between two cuts, or beyond them, hold no numbers.
        if not is_empty and (last_end is None or end > last_end):
            intervals_with_numbers.append((bool(goes_left), end, number_behind))
            last_end = end
    # Neighbours that go to one side become one interval, which ends where the last of them does.
    joined_intervals = [list(run)[-1] for _, run in groupby(intervals_with_numbers, key=itemgetter(0))]
    sides, upper, behind = zip(*joined_intervals, strict=True)
    return PlainSet(feature, np.array(upper[:-1]), np.array(behind[:-1]), sides[0], intervals.missing_left)


def largest_rounding_to(narrow: np.ndarray) -> np.ndarray:
    """Return for each float32 in ``narrow``, also for infinities, the largest float64 that rounds to it as float32."""
    with np.errstate(over="ignore"):
        above = np.nextafter(narrow, np.float32(np.inf)).astype(np.float64)
    # Rounding treats infinity as the next float behind the largest, 2^128.
    edge = np.where(np.isinf(above), 2.0**128, above)
    lower = np.where(np.isneginf(narrow), -(2.0**128), narrow.astype(np.float64))
    middle = lower / 2 + edge / 2
    is_even = narrow.view(np.int32) % 2 == 0  # the middle rounds to the float32 whose last bit is 0
    return np.where(np.isposinf(narrow), np.inf, np.where(is_even, middle, np.nextafter(middle, -np.inf)))
