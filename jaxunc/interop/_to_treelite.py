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
_LARGEST_CATEGORY = 2**32 - 1  # in treelite
_MOST_NODES = 2**20  # the most nodes that trees with copies may have together
_BELOW_ALL = -(2**63)  # less than the key (`_keys`) of every number
_LAST = int(np.array(np.inf).view(np.int64))  # the key of infinity


class _Additive(NamedTuple):
    """An additive model: values of leaves, which are added over the trees, and the link that is applied to the sums."""

    values: np.ndarray  # ``[trees nodes outputs]``, float64; ``[trees nodes 1]`` if ``outputs`` is not None
    base: np.ndarray  # ``[outputs]``, added to the sums
    link: str
    n_classes: int | None  # None for regressors
    outputs: np.ndarray | None = None  # the output that each tree counts for, where it has one value


class TreeliteNode(NamedTuple):
    """A leaf or a test, as treelite has them; a test's right child has the number ``left + 1``."""

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
        these with weights (`Weighted`). Or a fitted estimator of `jaxunc.estimators` with such a combiner, or an
        `AdditiveTrees`.

    Returns
    -------
    treelite.Model
        ``treelite.gtil.predict(model, X)`` of float64 ``[instances features]`` has the probabilities
        ``[instances 1 classes]``, or class scores if a combiner answers no probability. Of an `AdditiveTrees` it has
        the predictions: of two classes with one sum the probability of the second. NaN is a missing value.
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
    kind = type(model).__name__
    model = model_to_export(model)
    if isinstance(model, OfSums):
        raise TypeError(
            f"model is a {kind}, and treelite has one sum a model: how sure a number is goes by "
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
    """Return additive trees, ``model``, as the sums that treelite computes."""
    values = np.asarray(model.values, np.float64)
    outputs = model.outputs_of_trees if values.shape[2] < model.n_outputs else None
    n_classes = None if model.class_labels is None else model.n_outputs
    return _Additive(values, np.asarray(model.base, np.float64), model.link, n_classes, outputs)


def _of_combiner(forest: Forest, combiner: Combiner) -> _Additive:
    """Return the answer of ``combiner``, bound to ``forest``, as sums; a ValueError if treelite cannot compute it."""
    if isinstance(combiner, Weighted):
        weights = np.asarray(combiner.weights, np.float64)
        rule = combiner.rule
    else:
        weights = np.ones(forest.n_trees)
        rule = combiner
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
    # The answer of each leaf as if it were the only tree: its class scores, and the probabilities computed from them.
    leaf_answer = rule.finish({**table, "trees": jnp.ones(forest.trees.child.shape)})
    scores = np.asarray(leaf_answer.class_scores, np.float64)
    if leaf_answer.probability is not None:
        # Scores of a mean lie in a range of this width around 0, which favours no class.
        width = score_width(rule.scorer) if isinstance(rule, Mean) else 1.0
        equal_share = 1 / forest.n_classes if isinstance(rule, Mean) else 0
        shares = scores / width + equal_share
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
    """Return the ``treelite.Model`` of ``trees`` with the leaf values and the link of ``sums``, and ``attributes``.

    A ValueError if treelite does not have the link, or the trees share nodes.
    """
    builder, has_single_values = _new_builder(trees, sums, attributes)
    nodes = plain_nodes(trees, wide=True)
    for tree in _treelite_trees(nodes, trees.columns):
        builder.start_tree()
        for number, node in tree:
            builder.start_node(number)
            if node.leaf is None:
                _add_test(builder, node)
            else:
                leaf_values = sums.values[nodes.tree[node.leaf], nodes.node[node.leaf]].tolist()
                builder.leaf(leaf_values[0] if has_single_values else leaf_values)
            builder.end_node()
        builder.end_tree()
    return builder.commit()


def _new_builder(trees: Trees, sums: _Additive, attributes: dict[str, Any]) -> tuple[Any, bool]:
    """Return (a ``ModelBuilder`` of treelite without trees yet, whether its leaves take a number, not a list)."""
    from treelite.model_builder import (  # pyright: ignore[reportMissingImports]
        Metadata,
        ModelBuilder,
        PostProcessorFunc,
        TreeAnnotation,
    )

    n_outputs = len(sums.base)
    # treelite's outputs are the classes of a single target, or targets of one class each.
    is_multiclass = sums.n_classes is not None and n_outputs > 1
    n_targets = 1 if is_multiclass else n_outputs
    n_classes = n_outputs // n_targets
    postprocessor = _POSTPROCESSORS.get((sums.link, is_multiclass))
    if postprocessor is None:
        raise ValueError(f"the link {sums.link!r} of {n_outputs} sums is none of treelite's. Take to_onnx.")
    classifier_task = "kMultiClf" if is_multiclass else "kBinaryClf"
    task = "kRegressor" if sums.n_classes is None else classifier_task
    # A leaf holds a value for each [target, class], or a single one, which is added to the output of its tree.
    leaf_shape = (n_targets, n_classes) if sums.outputs is None else (1, 1)
    zeros = [0] * trees.n_trees
    if sums.outputs is not None:
        output_of_tree = sums.outputs.tolist()
    else:
        output_of_tree = [-1] * trees.n_trees if n_outputs > 1 else zeros  # -1: leaves have a value for every output
    target_of_tree, class_of_tree = (zeros, output_of_tree) if is_multiclass else (output_of_tree, zeros)
    average = False  # weights of averages are in the leaf values already
    builder = ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=Metadata(trees.n_features, task, average, n_targets, [n_classes] * n_targets, leaf_shape),
        tree_annotation=TreeAnnotation(trees.n_trees, target_of_tree, class_of_tree),
        postprocessor=PostProcessorFunc(postprocessor),
        base_scores=sums.base.tolist(),
        attributes=attributes,
    )
    return builder, leaf_shape == (1, 1)


def _add_test(builder: Any, node: TreeliteNode) -> None:
    """Add the test of ``node`` to the node that was started in ``builder``, treelite's ``ModelBuilder``."""
    common = {"feature_id": node.feature, "default_left": node.missing_left}
    common |= {"left_child_key": node.left, "right_child_key": node.left + 1}
    if node.categories is None:
        builder.numerical_test(threshold=node.value, opname="<" if node.none_left else "<=", **common)
        return
    listed_right = not node.listed_left
    builder.categorical_test(category_list=node.categories, category_list_right_child=listed_right, **common)


class _Range(NamedTuple):
    """The values of a column that the tests above a node let through: keys (`_keys`) with low < key <= high."""

    low: int = _BELOW_ALL
    high: int = _LAST
    may_be_missing: bool = True  # whether missing values come there, too


class _TestedIntervals(NamedTuple):
    """The intervals of a node's test that numbers in the node's range (`_Range`) reach, in rising order."""

    upper: np.ndarray  # the largest number of each interval but the last
    keys: np.ndarray  # the keys of ``upper``, by `_keys`; one less where a comparison is "<"
    behind: np.ndarray  # the next number above each of ``upper``, as in `PlainSet`; NaN for a comparison
    goes_left: np.ndarray  # whether each interval goes left
    missing_left: bool


def _treelite_trees(nodes: PlainNodes, columns: Columns) -> Iterator[list[tuple[int, TreeliteNode]]]:
    """Yield a list for each tree: (number of a node, the node as treelite has it).

    ``nodes`` are those of all trees. In trees that test intervals, nodes are copied where needed (`_Unfolded`). A
    ValueError if these trees have more than `_MOST_NODES` together.
    """
    roots = np.flatnonzero(nodes.number == 0)
    n_unfolded = 0
    for start, end in pairwise([*roots.tolist(), len(nodes.node)]):
        if np.all(nodes.of_set[start:end] < 0):  # the tree only compares
            yield [(int(nodes.number[i]), _plain(nodes, i)) for i in range(start, end)]
            continue
        unfolded = _Unfolded(nodes, columns, start).nodes(_MOST_NODES - n_unfolded)
        n_unfolded += len(unfolded)
        yield unfolded


def _plain(nodes: PlainNodes, i: int) -> TreeliteNode:
    """Return node ``i`` of ``nodes``, a leaf or a comparison with a number, as treelite has it."""
    if not nodes.inner[i]:
        return TreeliteNode(leaf=i)
    return TreeliteNode(
        feature=int(nodes.feature[i]),
        left=int(nodes.left[i]),
        value=float(nodes.value[i]),
        none_left=bool(nodes.none_left[i]),
        missing_left=bool(nodes.missing_left[i]),
    )


def _keys(numbers: np.ndarray) -> np.ndarray:
    """Return an int64 for each float64 of ``numbers``, in the same order; both zeros have 0."""
    bits = numbers.view(np.int64)  # those of negative numbers sort in reverse
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


class _Unfolded:
    """The nodes of one tree as treelite has them; tests of intervals become comparisons and lists of categories.

    If one test of intervals becomes several, what lies below it is copied. ``nodes`` are those of all trees, and
    ``start`` is the index of the tree's root among them. In methods ``at`` is the index of a node, and ``ranges`` has
    the `_Range` of each column that is tested above it.
    """

    def __init__(self, nodes: PlainNodes, columns: Columns, start: int):
        self._nodes, self._columns, self._start = nodes, columns, start

    def nodes(self, limit: int) -> list[tuple[int, TreeliteNode]]:
        """Return the tree's nodes as (number, node); a ValueError if there are more than ``limit``."""
        unfolded = []
        # Nodes that are still to be made: (number, index ``at`` of the node that it stands for, ranges there).
        open_nodes = [(0, self._start, {})]
        next_number = 1
        while open_nodes:
            number, at, ranges = open_nodes.pop()
            at = self._skip_decided(at, ranges)
            if not self._nodes.inner[at]:
                unfolded.append((number, TreeliteNode(leaf=at)))
                continue
            test, children = self._test(at, ranges)
            unfolded.append((number, test._replace(left=next_number)))
            open_nodes += [(next_number + i, child, child_ranges) for i, (child, child_ranges) in enumerate(children)]
            next_number += 2
            if next_number > limit:
                raise ValueError(
                    "the model tests whether numbers lie in intervals that are no categories, and treelite needs a "
                    f"copy of what is below for each: more than {_MOST_NODES} nodes. Take to_onnx, which needs none."
                )
        return unfolded

    def _intervals_of(self, at: int, bounds: _Range) -> _TestedIntervals:
        """Return the intervals of the test of node ``at`` that numbers in the range ``bounds`` reach."""
        nodes = self._nodes
        set_index = int(nodes.of_set[at])
        if set_index >= 0:
            plain_set = nodes.sets[set_index]
            upper, behind, goes_left = plain_set.upper, plain_set.behind, plain_set.goes_left
            keys = _keys(upper)
            missing_left = plain_set.missing_left
        else:  # a comparison: two intervals
            upper = nodes.value[at : at + 1]
            behind = np.full(1, np.nan)  # never read: lists of categories are made for sets only
            goes_left = np.array([True, False])
            # Where no number goes left, `upper` is -inf: the key before it leaves not even -inf in the left interval.
            keys = _keys(upper) - nodes.none_left[at]
            missing_left = bool(nodes.missing_left[at])
        # Bounds outside of the range cut nothing: left are those within, and one interval more.
        is_inside = (keys > bounds.low) & (keys < bounds.high)
        n_below = np.count_nonzero(keys <= bounds.low)
        goes_left = goes_left[n_below : n_below + np.count_nonzero(is_inside) + 1]
        return _TestedIntervals(upper[is_inside], keys[is_inside], behind[is_inside], goes_left, missing_left)

    def _child(self, at: int, is_left: bool) -> int:
        """Return the index of the left child of node ``at`` if ``is_left``, else of the right one."""
        return self._start + int(self._nodes.left[at]) + (not is_left)

    def _range_of(self, at: int, ranges: dict[int, _Range]) -> _Range | None:
        """Return the range of the column that node ``at`` tests; None for leaves, and comparisons without a range yet.

        Nodes for which it is None stay as they are.
        """
        feature = int(self._nodes.feature[at])
        if not self._nodes.inner[at] or (self._nodes.of_set[at] < 0 and feature not in ranges):
            return None
        return ranges.get(feature, _Range())

    def _skip_decided(self, at: int, ranges: dict[int, _Range]) -> int:
        """Return the first node, from ``at`` downwards, that is a leaf or sends values in ``ranges`` to both sides."""
        while (bounds := self._range_of(at, ranges)) is not None:
            intervals = self._intervals_of(at, bounds)
            sides = set()
            if bounds.low < bounds.high:  # numbers come to the node
                sides |= set(intervals.goes_left.tolist())
            if bounds.may_be_missing:
                sides.add(intervals.missing_left)
            if len(sides) > 1:
                break
            at = self._child(at, sides.pop())
        return at

    def _test(self, at: int, ranges: dict[int, _Range]) -> tuple[TreeliteNode, list[tuple[int, dict[int, _Range]]]]:
        """Return (the test of node ``at`` as treelite has it, [(index, ranges) of the node to its left, to its right]).

        These two are the children of ``at``; if it needs several tests, both are ``at``, with narrower ranges. `nodes`
        sets the test's ``left``.
        """
        feature = int(self._nodes.feature[at])
        children = [self._child(at, is_left=True), self._child(at, is_left=False)]
        bounds = self._range_of(at, ranges)
        if bounds is None:
            return _plain(self._nodes, at), [(child, ranges) for child in children]
        intervals = self._intervals_of(at, bounds)
        categories = self._categories(at, intervals, bounds) if len(intervals.keys) > 1 else None
        if not len(intervals.keys):
            # All numbers go to one side, and missing values to the other. The test sends numbers left, so the
            # children are exchanged if numbers are to go to the right one.
            next_nodes = children if intervals.goes_left[0] else children[::-1]
            node, sides = _test_of_missing(feature, bounds)
        elif categories is not None:
            next_nodes = children
            node, sides = _test_of_categories(feature, intervals, bounds, *categories)
        else:
            # Both sides meet the same node again, with a narrower range: intervals are halved until one test tells
            # them apart.
            next_nodes = [at, at]
            node, sides = _test_at_cut(feature, intervals, bounds, *self._cut(at, intervals, bounds))
        return node, [(index, {**ranges, feature: side}) for index, side in zip(next_nodes, sides, strict=True)]

    def _cut(self, at: int, intervals: _TestedIntervals, bounds: _Range) -> tuple[int, float]:
        """Return (key, number) at which a comparison cuts the ``intervals`` of node ``at`` in two.

        It is the largest number below 0 if a list of categories, which are no negative numbers, can tell the intervals
        above it apart; else the middle bound. Numbers at the node lie in ``bounds``.
        """
        below_zero = self._below_zero(int(self._nodes.feature[at]))
        key_below_zero = int(_keys(np.array(below_zero)))
        is_above = intervals.keys > key_below_zero
        n_above = np.count_nonzero(is_above)
        n_below = len(is_above) - n_above
        # Above it are the bounds of three intervals at least, which one comparison does not tell apart.
        if bounds.low < key_below_zero < bounds.high and n_above > 1 and n_below > 0:
            intervals_above = intervals._replace(
                behind=intervals.behind[is_above], goes_left=intervals.goes_left[n_below:]
            )
            if self._categories(at, intervals_above, bounds._replace(low=key_below_zero)) is not None:
                return key_below_zero, below_zero
        middle = len(intervals.keys) // 2
        return int(intervals.keys[middle]), float(intervals.upper[middle])

    def _below_zero(self, feature: int) -> float:
        """Return the largest number below 0 that tests of the column ``feature`` tell from 0."""
        cuts = self._columns.cuts
        if cuts is not None and cuts[feature] is not None:
            return float(np.nextafter(0.0, -1.0))
        return float(largest_rounding_to(np.nextafter(np.zeros(1, np.float32), np.float32(-1.0)))[0])

    def _categories(self, at: int, intervals: _TestedIntervals, bounds: _Range) -> tuple[list[int], bool] | None:
        """Return (categories to list at node ``at``, whether these go left); other numbers go to the other side.

        None for a comparison, and if no list of at most `_MOST_LISTED` categories sends all numbers in ``bounds`` to
        the sides of their ``intervals``.
        """
        set_index = int(self._nodes.of_set[at])
        if set_index < 0:
            return None
        plain_set = self._nodes.sets[set_index]
        levels = None if self._columns.levels is None else self._columns.levels[int(self._nodes.feature[at])]
        if levels is not None:
            return None if len(levels.values) > _MOST_LISTED else _of_codes(plain_set, len(levels.values) + 1)
        behind, goes_left = intervals.behind, intervals.goes_left
        are_categories = np.all(behind == np.floor(behind)) and behind[0] >= 0 and behind[-1] <= _LARGEST_CATEGORY
        may_be_negative = bounds.low < int(_keys(np.array(self._below_zero(int(self._nodes.feature[at])))))
        # No list holds negative numbers, so these must go where numbers beyond the last bound go.
        if not are_categories or (may_be_negative and goes_left[0] != goes_left[-1]):
            return None
        is_listed = goes_left[:-1] != goes_left[-1]
        ends = np.append(0, behind).astype(np.int64)  # interval i has the categories from ends[i] to ends[i + 1] - 1
        if np.diff(ends)[is_listed].sum() > _MOST_LISTED:
            return None
        categories = [np.arange(ends[i], ends[i + 1]) for i in np.flatnonzero(is_listed).tolist()]
        return np.concatenate(categories).tolist(), not goes_left[-1]


def _test_of_missing(feature: int, bounds: _Range) -> tuple[TreeliteNode, list[_Range]]:
    """Return (a test that sends numbers of column ``feature`` left, missing values right; [left range, right range]).

    ``bounds`` is the node's range.
    """
    # All numbers are at or below infinity. The range of the right side is empty: no number comes there.
    node = TreeliteNode(feature=feature, value=np.inf)
    return node, [bounds._replace(may_be_missing=False), bounds._replace(low=bounds.high)]


def _test_of_categories(
    feature: int, intervals: _TestedIntervals, bounds: _Range, categories: list[int], listed_left: bool
) -> tuple[TreeliteNode, list[_Range]]:
    """Return (a test of column ``feature`` that lists ``categories``, [left range, right range]).

    ``listed_left`` says whether these go left; missing values go as in ``intervals``. ``bounds`` is the node's range.
    """
    missing_left = intervals.missing_left
    node = TreeliteNode(feature=feature, missing_left=missing_left, categories=categories, listed_left=listed_left)
    left = bounds._replace(may_be_missing=bounds.may_be_missing and missing_left)
    right = bounds._replace(may_be_missing=bounds.may_be_missing and not missing_left)
    return node, [left, right]


def _test_at_cut(
    feature: int, intervals: _TestedIntervals, bounds: _Range, cut: int, value: float
) -> tuple[TreeliteNode, list[_Range]]:
    """Return (a test of column ``feature`` at ``value``, [left range, right range]).

    ``cut`` is the key of ``value``, one less if not even that goes left; ``bounds`` is the node's range. Missing values
    go left if an interval below the cut goes to the same child as they do, else right.
    """
    sides_below = intervals.goes_left[: 1 + np.sum(intervals.keys < cut)]
    missing_left = bool(intervals.missing_left in sides_below)
    none_left = bool(cut < _keys(np.array(value)))
    node = TreeliteNode(feature=feature, value=value, none_left=none_left, missing_left=missing_left)
    left = bounds._replace(high=cut, may_be_missing=bounds.may_be_missing and missing_left)
    right = bounds._replace(low=cut, may_be_missing=bounds.may_be_missing and not missing_left)
    return node, [left, right]


def _of_codes(plain_set: PlainSet, number: int) -> tuple[list[int], bool]:
    """Return (codes to list at a test of ``plain_set``, whether these go left) for a column with levels.

    Listed are codes from 0 to ``number`` - 1 that go to another side than -1, the code of what is no level.
    """
    goes_left = plain_set.goes_left[np.searchsorted(plain_set.behind, np.arange(-1, number), side="right")]
    return np.flatnonzero(goes_left[1:] != goes_left[0]).tolist(), not goes_left[0]
