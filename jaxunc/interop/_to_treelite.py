"""Exporter of bound forests and additive trees as treelite models.

treelite compares numbers, or looks up their integer parts in sets of categories. A test of intervals becomes a test of
categories if its bounds are integers, or its column holds codes of levels. Any other becomes a few comparisons, with a
copy of what is below for each interval (`_Unfolded`). A copy knows in which range the number lies, so that later tests
of the same column have fewer intervals, or are decided.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Combiner, EvidenceAccumulation, Mean, Vote, Weighted
from jaxunc.forest import Forest, Trees
from jaxunc.inference import OfSums, leaf_table
from jaxunc.scorers import score_width
from jaxunc.smoothing import SmoothedMean
from jaxunc.tables import Columns

from ._exported import PlainNodes, PlainSet, describe, largest_rounding_to, model_to_export, plain_nodes

_POSTPROCESSORS = {
    ("identity", False): "identity", ("identity", True): "identity_multiclass", ("exp", False): "exponential",
    ("logistic", False): "sigmoid", ("logistic", True): "multiclass_ova", ("softmax", True): "softmax",
}  # fmt: skip
"""treelite's names of links, by the link and whether there are several sums, one for each class."""
_MOST_LISTED = 2**16  # the most categories that a node may list
_LARGEST_CATEGORY = 2**32 - 1
_MOST_NODES = 2**20  # the most nodes that trees with copies may have together
_BELOW_ALL, _LAST = -(2**63), int(np.array(np.inf).view(np.int64))
"""A key below the keys of all numbers, and the key of infinity; keys are those of `_keys`."""


class _Additive(NamedTuple):
    """A model as sums: leaf values that are added over trees, and the link of the sums."""

    values: np.ndarray  # ``[trees nodes outputs]``, float64; ``[trees nodes 1]`` if ``outputs`` is not None
    base: np.ndarray  # ``[outputs]``, added to the sums
    link: str
    n_classes: int | None  # None for regressors
    outputs: np.ndarray | None = None  # the output that each tree counts for, where it has one value


class TreeliteNode(NamedTuple):
    """A node of treelite's; the number of its right child is ``left + 1``."""

    leaf: int | None = None  # a leaf's index among the plain nodes; None at tests
    feature: int = 0  # the tested column
    left: int = 0  # the number of the left child
    value: float = 0.0  # the number at or below which instances go left
    none_left: bool = False  # whether no number goes left: none is less than ``value``
    missing_left: bool = False
    categories: list[int] | None = None
    """The categories that go to one side, all other numbers going to the other; None where a number is compared."""
    listed_left: bool = True  # whether ``categories`` go left


def to_treelite(model: Any) -> Any:
    """Return a treelite model of a bound forest, estimator or `AdditiveTrees`, if treelite can compute its answers.

    Parameters
    ----------
    model
        What `bind` returns, for `Mean`, `Vote`, `jaxunc.smoothing.SmoothedMean`, `EvidenceAccumulation`, or one of
        these with weights (`Weighted`); a fitted estimator of `jaxunc.estimators` with such a combiner; or an
        `AdditiveTrees`.

    Returns
    -------
    treelite.Model
        ``treelite.gtil.predict(model, X)`` of float64 ``[instances features]`` has the probabilities
        ``[instances 1 classes]`` (class scores if a combiner answers no probability), or what an `AdditiveTrees`
        predicts: of two classes with one sum the probability of the second. NaN is a missing value.
        ``model.serialize(path)`` writes a file.

    Raises
    ------
    ImportError
        If the package ``treelite`` is not installed.
    TypeError
        If ``model`` is something else, or traced.
    ValueError
        For other combiners: treelite adds leaf values, and has a few functions of the sums; `to_onnx` takes more. If
        means are clipped, leaves veto a class (``smoothing=0``), empty leaves are followed, or an ensemble's link is
        ``"one-vs-rest"``. If class labels are no texts, numbers or bools. If tests of intervals that are not categories
        need too many copies of nodes, or trees share nodes other than in tests of intervals.

    Notes
    -----
    Thresholds, leaf values and sums are float64. Thresholds are such that any float64 goes where jaxunc sends it, which
    rounds it to float32 first (except in columns with cuts). Answers are within 1e-6. Columns with levels are given as
    codes, as for `to_onnx`. Sets of categories hold integer parts of numbers, not rounded to float32. Other intervals
    are comparisons, with a copy of what is below for each. Class labels, columns' names, stages and whether trees are
    averaged are the model's attributes.

    Examples
    --------
    ::

        model = ju.to_treelite(ju.bind(forest, ju.Mean()))
        treelite.gtil.predict(model, X.astype(np.float64))[:, 0]  # the probabilities
    """
    model_given, model = model, model_to_export(model)
    if isinstance(model, OfSums):
        raise TypeError(
            f"model is a {type(model_given).__name__}, and treelite has one sum a model: how sure a number is goes by "
            "ju.to_onnx, and its mean here by ju.to_treelite(ju.from_any(forest))."
        )
    try:
        import treelite.model_builder  # pyright: ignore[reportMissingImports]  # noqa: F401
    except ImportError as error:
        raise ImportError('to_treelite makes models by treelite: pip install "treelite>=4.8".') from error
    settings = describe(model.columns, model.class_labels)
    if isinstance(model, AdditiveTrees):
        settings |= {"averaged": model.averaged, "trees_per_stage": model.trees_per_stage}
        return _build_model(model.trees, _of_ensemble(model), settings)
    return _build_model(model.forest.trees, _of_combiner(model.forest, model.combiner), settings)


def _of_ensemble(model: AdditiveTrees) -> _Additive:
    """Return the sums of leaf values that treelite computes for an additive model."""
    labels, values = model.class_labels, np.asarray(model.values, np.float64)
    outputs = model.outputs_of_trees if values.shape[2] < model.n_outputs else None
    n_classes = None if labels is None else model.n_outputs
    return _Additive(values, np.asarray(model.base, np.float64), model.link, n_classes, outputs)


def _of_combiner(forest: Forest, combiner: Combiner) -> _Additive:
    """Return the sums that treelite computes for a bound ``combiner``; a ValueError if they do not give its answer."""
    weights, rule = np.ones(forest.n_trees), combiner
    if isinstance(combiner, Weighted):
        weights, rule = np.asarray(combiner.weights, np.float64), combiner.rule
    if not isinstance(rule, Mean | Vote | SmoothedMean | EvidenceAccumulation) or not weights.any():
        raise ValueError(
            f"{type(rule).__name__} is none of the combiners that treelite can finish: Mean, Vote, SmoothedMean and "
            "EvidenceAccumulation, with weights that are not all 0. Take to_onnx."
        )
    table = leaf_table(forest, rule)
    if isinstance(rule, EvidenceAccumulation):
        values = np.asarray(table, np.float64) * weights[:, None, None]
        if not np.isfinite(values).all():
            raise ValueError(
                "EvidenceAccumulation(smoothing=0) has leaves that veto a class, and treelite answers NaN where all "
                "are vetoed. Take to_onnx, or some smoothing."
            )
        base = rule.finish(jnp.zeros(values.shape[2])).class_scores
        return _Additive(values, np.asarray(base, np.float64), "softmax", forest.n_classes)
    # The answer of each leaf alone: its class scores, and the probabilities computed from them.
    leaf_answer = rule.finish({**table, "trees": jnp.ones(forest.trees.child.shape)})
    scores = np.asarray(leaf_answer.class_scores, np.float64)
    if leaf_answer.probability is not None:
        width = score_width(rule.scorer) if isinstance(rule, Mean) else 1.0
        # Scores of a mean are centred: 0 favours no class.
        shares = scores / width + (1 / forest.n_classes if isinstance(rule, Mean) else 0)
        is_leaf = np.asarray(forest.trees.is_leaf)
        if np.abs(shares - leaf_answer.probability)[is_leaf].max() > 1e-6:
            raise ValueError(
                "the mean's probabilities are clipped, or divided by what they add up to, which treelite does not. "
                "Take to_onnx."
            )
        scores = shares
    scores = scores * (weights / weights.sum())[:, None, None]
    return _Additive(scores, np.zeros(scores.shape[2]), "identity", forest.n_classes)


def _build_model(trees: Trees, sums: _Additive, attributes: dict[str, Any]) -> Any:
    """Return the ``treelite.Model`` of trees and ``sums`` of their leaves; ``attributes`` are stored in the model."""
    from treelite.model_builder import (  # pyright: ignore[reportMissingImports]
        Metadata,
        ModelBuilder,
        PostProcessorFunc,
        TreeAnnotation,
    )

    n_outputs, is_multiclass = len(sums.base), sums.n_classes is not None and len(sums.base) > 1
    if (name := _POSTPROCESSORS.get((sums.link, is_multiclass))) is None:
        raise ValueError(f"the link {sums.link!r} of {n_outputs} sums is none of treelite's. Take to_onnx.")
    n_targets = 1 if is_multiclass else n_outputs
    # A leaf holds a value for each [target, class], or a single one, which is added to the output of its tree.
    leaf_shape = (n_targets, n_outputs // n_targets) if sums.outputs is None else (1, 1)
    task = "kRegressor" if sums.n_classes is None else "kMultiClf" if is_multiclass else "kBinaryClf"
    zeros = [0] * trees.n_trees
    # -1: leaves hold a value for every output.
    outputs = [-1] * trees.n_trees if n_outputs > 1 else zeros
    outputs = outputs if sums.outputs is None else sums.outputs.tolist()
    # Outputs are classes or targets: `TreeAnnotation` takes the target of each tree, then its class.
    builder = ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=Metadata(trees.n_features, task, False, n_targets, [n_outputs // n_targets] * n_targets, leaf_shape),
        tree_annotation=TreeAnnotation(trees.n_trees, *((zeros, outputs) if is_multiclass else (outputs, zeros))),
        postprocessor=PostProcessorFunc(name),
        base_scores=sums.base.tolist(),
        attributes=attributes,
    )
    nodes = plain_nodes(trees, wide=True)
    for tree in _treelite_trees(nodes, trees.columns):
        builder.start_tree()
        for key, node in tree:
            builder.start_node(key)
            if node.leaf is None:
                _add_test(builder, node)
            else:
                leaf_value = sums.values[nodes.tree[node.leaf], nodes.node[node.leaf]].tolist()
                builder.leaf(leaf_value if leaf_shape != (1, 1) else leaf_value[0])
            builder.end_node()
        builder.end_tree()
    return builder.commit()


def _add_test(builder: Any, node: TreeliteNode) -> None:
    """Add the test of ``node``, which was begun in ``builder``: a comparison, or a list of categories."""
    common = {"feature_id": node.feature, "default_left": node.missing_left}
    common |= {"left_child_key": node.left, "right_child_key": node.left + 1}
    if node.categories is None:
        builder.numerical_test(threshold=node.value, opname="<" if node.none_left else "<=", **common)
        return
    is_right = not node.listed_left
    builder.categorical_test(category_list=node.categories, category_list_right_child=is_right, **common)


class _Range(NamedTuple):
    """The range of a column's value at a node, by the tests above: low < key <= high, and whether it may be missing."""

    low: int = _BELOW_ALL
    high: int = _LAST
    may_be_missing: bool = True


class _TestedIntervals(NamedTuple):
    """The intervals of a node's test, cut to the range of the numbers that come to it."""

    upper: np.ndarray  # the largest number of each interval but the last
    keys: np.ndarray  # the keys of ``upper``, by `_keys`
    behind: np.ndarray  # the next number above each, as in `PlainSet`; NaN for a comparison
    goes_left: np.ndarray
    missing_left: bool


def _treelite_trees(nodes: PlainNodes, columns: Columns) -> Iterator[list[tuple[int, TreeliteNode]]]:
    """Yield each tree's nodes as (number, node); trees with tests of intervals get copies of nodes (`_Unfolded`)."""
    ends, n_made = np.append(np.flatnonzero(nodes.number == 0), len(nodes.node)), 0
    for start, end in pairwise(ends.tolist()):
        if np.all(nodes.of_set[start:end] < 0):
            yield [(int(nodes.number[i]), _plain(nodes, i)) for i in range(start, end)]
            continue
        pairs = _Unfolded(nodes, columns, start).nodes(_MOST_NODES - n_made)
        n_made += len(pairs)
        yield pairs


def _plain(nodes: PlainNodes, i: int) -> TreeliteNode:
    """Return node ``i``, a leaf or a comparison, as a node of treelite."""
    if not nodes.inner[i]:
        return TreeliteNode(leaf=i)
    none_left, missing_left = bool(nodes.none_left[i]), bool(nodes.missing_left[i])
    return TreeliteNode(None, int(nodes.feature[i]), int(nodes.left[i]), float(nodes.value[i]), none_left, missing_left)


def _keys(numbers: np.ndarray) -> np.ndarray:
    """Return integers in the same order as the float64 numbers, equal for both zeros."""
    bits = numbers.view(np.int64)  # those of negative numbers sort in reverse
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


class _Unfolded:
    """A tree whose tests of intervals become tests that treelite has, with copies of nodes where needed.

    ``start`` is the index of its root in ``nodes``. Arguments ``at`` are such indices of nodes, and ``ranges`` what the
    tests above them say of columns, by column.
    """

    def __init__(self, nodes: PlainNodes, columns: Columns, start: int):
        self._nodes, self._columns, self._start = nodes, columns, start

    def nodes(self, limit: int) -> list[tuple[int, TreeliteNode]]:
        """Return the tree's nodes as (number, node); a ValueError if there are more than ``limit``."""
        pairs, todo, next_number = [], [(0, self._start, {})], 1
        while todo:
            key, at, ranges = todo.pop()
            at = self._skip_decided(at, ranges)
            if not self._nodes.inner[at]:
                pairs.append((key, TreeliteNode(leaf=at)))
                continue
            test, children = self._test(at, ranges)
            pairs.append((key, test._replace(left=next_number)))
            todo += [(next_number + i, child, child_ranges) for i, (child, child_ranges) in enumerate(children)]
            next_number += 2
            if next_number > limit:
                raise ValueError(
                    "the model tests whether numbers lie in intervals that are no categories, and treelite needs a "
                    f"copy of what is below for each: more than {_MOST_NODES} nodes. Take to_onnx, which needs none."
                )
        return pairs

    def _intervals_of(self, at: int, bounds: _Range) -> _TestedIntervals:
        """Return the intervals of the test of node ``at``, without those that no number in ``bounds`` reaches."""
        nodes = self._nodes
        if (k := int(nodes.of_set[at])) >= 0:
            upper, behind, goes_left = nodes.sets[k].upper, nodes.sets[k].behind, nodes.sets[k].goes_left
            keys, missing_left = _keys(upper), nodes.sets[k].missing_left
        else:
            upper, goes_left = nodes.value[at : at + 1], np.array([True, False])
            keys, missing_left = _keys(upper) - nodes.none_left[at], bool(nodes.missing_left[at])
            behind = np.full(1, np.nan)
        inside = (keys > bounds.low) & (keys < bounds.high)
        n_below = np.count_nonzero(keys <= bounds.low)
        goes_left = goes_left[n_below : n_below + np.count_nonzero(inside) + 1]
        return _TestedIntervals(upper[inside], keys[inside], behind[inside], goes_left, missing_left)

    def _child(self, at: int, is_left: bool) -> int:
        """Return the index of the left child of node ``at``, or, unless ``is_left``, of the right one."""
        return self._start + int(self._nodes.left[at]) + (not is_left)

    def _range_of(self, at: int, ranges: dict[int, _Range]) -> _Range | None:
        """Return the range of the column that node ``at`` tests; None at leaves and at unchanged comparisons."""
        feature = int(self._nodes.feature[at])
        if not self._nodes.inner[at] or (self._nodes.of_set[at] < 0 and feature not in ranges):
            return None
        return ranges.get(feature, _Range())

    def _skip_decided(self, at: int, ranges: dict[int, _Range]) -> int:
        """Return the first node on the way from ``at`` whose test is not decided by ``ranges``."""
        while (bounds := self._range_of(at, ranges)) is not None:
            intervals = self._intervals_of(at, bounds)
            sides = set(intervals.goes_left.tolist()) if bounds.low < bounds.high else set()
            sides |= {intervals.missing_left} if bounds.may_be_missing else set()
            if len(sides) > 1:
                break
            at = self._child(at, sides.pop())
        return at

    def _test(self, at: int, ranges: dict[int, _Range]) -> tuple[TreeliteNode, list[tuple[int, dict[int, _Range]]]]:
        """Return (node ``at`` as one of treelite's, [(next node, its ranges)] for the left and the right side)."""
        feature = int(self._nodes.feature[at])
        if (bounds := self._range_of(at, ranges)) is None:
            return _plain(self._nodes, at), [(self._child(at, left), ranges) for left in (True, False)]
        intervals = self._intervals_of(at, bounds)
        children = [self._child(at, True), self._child(at, False)]
        if not len(intervals.keys):
            # All numbers go to one side, and missing values to the other. The test sends numbers left, so the
            # children are exchanged if numbers are to go to the right one.
            next_nodes = children if intervals.goes_left[0] else children[::-1]
            node, sides = _test_of_missing(feature, bounds)
        elif len(intervals.keys) > 1 and (categories := self._categories(at, intervals, bounds)) is not None:
            next_nodes = children
            node, sides = _test_of_categories(feature, intervals, bounds, *categories)
        else:
            # Both sides meet the same node again, with a narrower range: intervals are halved until one test tells
            # them apart.
            next_nodes = [at, at]
            node, sides = _test_at_cut(feature, intervals, bounds, *self._cut(at, intervals, bounds))
        return node, [(end, {**ranges, feature: side}) for end, side in zip(next_nodes, sides, strict=True)]

    def _cut(self, at: int, intervals: _TestedIntervals, bounds: _Range) -> tuple[int, float]:
        """Return (key, number) of the cut that halves the test of node ``at``: the middle bound of ``intervals``.

        The cut is just below 0 if that is inside ``bounds``, with intervals on both sides, and the test of those above
        can list categories.
        """
        below_zero = self._below_zero(int(self._nodes.feature[at]))
        zero = int(_keys(np.array(below_zero)))
        above = intervals.keys > zero
        if bounds.low < zero < bounds.high and 1 < np.count_nonzero(above) < len(above):
            intervals_above = intervals._replace(
                behind=intervals.behind[above], goes_left=intervals.goes_left[np.count_nonzero(~above) :]
            )
            if self._categories(at, intervals_above, bounds._replace(low=zero)) is not None:
                return zero, below_zero
        middle = len(intervals.keys) // 2
        return int(intervals.keys[middle]), float(intervals.upper[middle])

    def _below_zero(self, feature: int) -> float:
        """Return the largest number below 0 that the column ``feature`` distinguishes from 0."""
        cuts = self._columns.cuts
        if cuts is not None and cuts[feature] is not None:
            return float(np.nextafter(0.0, -1.0))
        return float(largest_rounding_to(np.nextafter(np.zeros(1, np.float32), np.float32(-1.0)))[0])

    def _categories(self, at: int, intervals: _TestedIntervals, bounds: _Range) -> tuple[list[int], bool] | None:
        """Return (the categories to list, whether they go left); all other numbers go to the other side.

        None for a comparison, and where no list of at most `_MOST_LISTED` categories makes the test of node ``at``.
        ``intervals`` are those that numbers in ``bounds`` reach.
        """
        if (set_index := int(self._nodes.of_set[at])) < 0:
            return None
        plain_set, feature = self._nodes.sets[set_index], int(self._nodes.feature[at])
        if self._columns.levels is not None and (levels := self._columns.levels[feature]) is not None:
            return None if len(levels.values) > _MOST_LISTED else _of_codes(plain_set, len(levels.values) + 1)
        behind, goes_left = intervals.behind, intervals.goes_left
        are_categories = np.all(behind == np.floor(behind)) and behind[0] >= 0 and behind[-1] <= _LARGEST_CATEGORY
        is_negative = bounds.low < int(_keys(np.array(self._below_zero(feature))))
        # No list holds negative numbers, so these must go where numbers beyond the last bound go.
        if not are_categories or (is_negative and goes_left[0] != goes_left[-1]):
            return None
        listed = goes_left[:-1] != goes_left[-1]
        ends = np.append(0, behind).astype(np.int64)
        if np.diff(ends)[listed].sum() > _MOST_LISTED:
            return None
        categories = [np.arange(ends[i], ends[i + 1]) for i in np.flatnonzero(listed).tolist()]
        return np.concatenate(categories).tolist(), not goes_left[-1]


def _test_of_missing(feature: int, bounds: _Range) -> tuple[TreeliteNode, list[_Range]]:
    """Return a test of a feature by which missing values alone go right, and both sides' ranges within ``bounds``."""
    # All numbers are at or below infinity. The range of the right side is empty: no number comes there.
    node = TreeliteNode(feature=feature, value=np.inf)
    return node, [bounds._replace(may_be_missing=False), bounds._replace(low=bounds.high)]


def _test_of_categories(
    feature: int, intervals: _TestedIntervals, bounds: _Range, categories: list[int], listed_left: bool
) -> tuple[TreeliteNode, list[_Range]]:
    """Return a test of a feature that lists ``categories``, and both sides' ranges within ``bounds``.

    ``listed_left`` says whether the categories go left; missing values go as in ``intervals``.
    """
    missing_left = intervals.missing_left
    node = TreeliteNode(feature=feature, missing_left=missing_left, categories=categories, listed_left=listed_left)
    may_be_missing = bounds.may_be_missing
    return node, [bounds._replace(may_be_missing=may_be_missing and missing_left == side) for side in (True, False)]


def _test_at_cut(
    feature: int, intervals: _TestedIntervals, bounds: _Range, cut: int, value: float
) -> tuple[TreeliteNode, list[_Range]]:
    """Return a test of a feature at ``value``, whose key is ``cut``, and both sides' ranges within ``bounds``.

    Missing values go left if some of the ``intervals`` below the cut end in the same child as they do, else right.
    """
    may_be_missing, below = bounds.may_be_missing, intervals.goes_left[: 1 + np.sum(intervals.keys < cut)]
    missing_left = bool(intervals.missing_left in below)
    none_left = bool(cut < _keys(np.array(value)))
    node = TreeliteNode(feature=feature, value=value, none_left=none_left, missing_left=missing_left)
    low, high = bounds._replace(high=cut, may_be_missing=may_be_missing and missing_left), bounds._replace(low=cut)
    return node, [low, high._replace(may_be_missing=may_be_missing and not missing_left)]


def _of_codes(plain_set: PlainSet, number: int) -> tuple[list[int], bool]:
    """Return (codes below ``number`` that ``plain_set`` sends to another side than -1, whether these go left).

    The code -1 is that of no level.
    """
    goes_left = plain_set.goes_left[np.searchsorted(plain_set.behind, np.arange(-1, number), side="right")]
    return np.flatnonzero(goes_left[1:] != goes_left[0]).tolist(), not goes_left[0]
