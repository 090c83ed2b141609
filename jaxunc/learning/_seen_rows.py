"""Detection, as far as possible, of rows that are passed as new to a forest although the forest was grown on them."""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from jaxunc._checks import warn
from jaxunc._numerics import NAN_FIRST, order_key_at_or_below
from jaxunc.counting import count_leaves, first_of_equals, has_bags, oob_mask
from jaxunc.forest import Forest, Trees
from jaxunc.inference import on_tested
from jaxunc.tables import Encoded, SparseRows, as_labels, class_positions

from ._dataset import LabelledData, encode, find_leaves, look_up_codes

WORK = 400_000  # largest number of walks, of a row through a tree; if there are more, fewer rows walk fewer trees
DENSE_VALUES = 2**24  # largest number of values of a sparse matrix that are made dense at once
CHANCE = 8  # factor by which new rows may agree with a forest more often than two halves of the rows agree
MIDPOINT_CHANCE = 6
"""Factor by which a threshold may be the midpoint of two rows more often than another float32 number between them."""
DRAWS, RARE = 40, 10.0
"""Number of bootstrap samples, which show how many leaves new rows miss; e^-RARE is too improbable for chance."""
FEW = 10  # fewest tests halfway between rows that are evidence; twice as many rows must fit bags to be evidence
FEW_PAIRS, KNOWN_SHARE, MAX_ROWS = 30, 0.1, 2000
"""Fewest leaves, or pairs of rows, that are evidence; smallest share of leaves, beyond chance, that hold their rows'
targets; largest number of rows that are read."""
PARTS, DEVIATIONS, DEVIATIONS_OF_LABELS = 20, 3, 2
"""Number of parts of the jackknife; and by how many of its standard errors a ratio must lie below 1 to be a leak. Two
are enough for labels, whose ratio is some 1.4 for new rows: on 64 data sets none of 574 forests was suspected."""
FEW_SPLIT = 100  # fewest pairs of rows that share a leaf, exactly one of them with the leaf's label, that are evidence
CERTAINTY = 15.0  # exponent at which rows that never share a leaf are a leak: new rows do with p < e^(1 - 15)

BAG_ERRORS = 7  # standard errors by which trees must answer rows in their bags better than other rows, for a leak

COUNT_OTHERS = (
    "Counted in its leaves they would say that it is always right. Pass rows that were held out; or take "
    "counts='inbag'."
)
"""Advice for rows that leaves are to count."""


class KnownRowsError(ValueError):
    """Rows passed as held out seem to be those that the forest was grown on."""


class RowLeaves(NamedTuple):
    """Rows, the leaves that they reach, and the leaves' counts of the row's class."""

    values: np.ndarray | SparseRows  # features of the rows, ``[rows features]``, float32
    leaves: np.ndarray  # leaf of each row in each tree, ``[rows trees]``
    class_counts: np.ndarray  # count of the row's class in each of its leaves, ``[rows trees]``


def check_held_out(
    model: Any, forest: Forest, X: Any, y: Any, sample_weight: Any = None, *, advice: str = COUNT_OTHERS
) -> None:
    """Raise a `KnownRowsError`, which ends in ``advice``, if a forest with in-bag counts seems grown on these rows.

    ``X`` and ``y`` are the rows and their labels; those of weight 0 are not looked at. ``model`` is the fitted model,
    or the ``forest`` itself. Warns if only the sizes or labels of leaves suggest that the rows grew the forest.
    """
    y = as_labels(y)
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
    position = class_positions(forest.class_labels, y)
    rows = np.flatnonzero(weight > 0)
    if not len(rows):
        return
    if forest.follows_forks:  # leaves that their forks stand in for have no counts of their own, which are compared
        forest = forest.with_empty_leaves("parent")
    data = LabelledData(X, y, position, weight, sample_weight is not None, rows)
    leaves = find_leaves(forest, data)
    table, code = look_up_codes(forest, leaves)
    if reason := find_leak(model, forest, data, table, code, leaves):
        raise KnownRowsError(
            f"these rows are the sample that the forest was grown on, or hold many of its rows: {reason}. {advice}"
        )


def find_leak(model: Any, forest: Forest, data: LabelledData, table, code, leaves) -> str | None:
    """Return evidence, as text for a message, that a forest was grown on ``data.rows``; None without evidence.

    ``model`` is the fitted model, or the forest itself. ``leaves`` are those of these rows by `find_leaves`, and
    ``table`` and ``code`` those of the leaves by `look_up_codes`. Warns if the evidence is too weak to refuse the rows.
    """
    position = data.position[data.rows]
    class_counts = table[code, position[:, None]]
    values = encode(forest, data)
    # Copies add no evidence, and would make features look like features with repeated values.
    distinct = first_of_equals(values, position)
    if not forest.further and _give_these_counts(forest, data, values, distinct):
        return "they give the leaves just their counts"
    bags = not isinstance(model, Forest) and has_bags(model)
    if bags and getattr(model, "_n_samples", None) == len(data.y):  # they may be the sample in its order
        leaf_size = table[:, : forest.n_classes].sum(axis=1)[code]  # by in-bag counts, which stand first
        class_share = class_counts / np.maximum(leaf_size, np.finfo(float).tiny)
        if _are_answered_best_in_bags(class_share, oob_mask(model, len(data.y))[data.rows]):
            return "the trees whose bags hold them answer them best"
    if leak := find_leak_in_sizes(model, values[distinct], position[distinct]):
        return leak
    trees, tested_values = on_tested(forest.trees, values[distinct])
    forest = dataclasses.replace(forest, trees=trees)
    rows = RowLeaves(tested_values, leaves[distinct], class_counts[distinct])
    if leak := find_leak_in_forest(model if bags else None, forest, rows):
        return leak
    warn_of_seen(model, values[distinct], position[distinct])
    return None


def _give_these_counts(forest: Forest, data: LabelledData, values, distinct) -> bool:
    """Return whether the forest's counts are those of all rows of the data, or those of the distinct rows.

    ``values [rows features]`` are the encoded ``data.rows``, and ``distinct`` has the positions among them of rows that
    equal no earlier one.
    """
    all_rows = Encoded(encode(forest, data.all_rows()), missing=True)
    if counts_agree(forest, count_leaves(forest, all_rows, data.y, sample_weight=data.weights)):
        return True
    # Distinct rows are known of `data.rows` alone, which may be a part of the data.
    holds_copies = len(distinct) < len(data.rows)
    has_all_rows = len(data.rows) == len(data.y)
    if not (holds_copies and has_all_rows):
        return False
    return counts_agree(forest, count_leaves(forest, Encoded(values[distinct], missing=True), data.y[distinct]))


def _are_answered_best_in_bags(class_share, is_out_of_bag) -> bool:
    """Return whether trees give rows in their bags a larger share of the true class than rows out of bag.

    ``class_share [rows trees]`` is the share of the row's class in the row's leaf; ``is_out_of_bag`` is of the same
    shape. For new rows, or rows in another order, the difference is chance: within `BAG_ERRORS` standard errors.
    """
    gap = class_share[~is_out_of_bag].mean() - class_share[is_out_of_bag].mean()
    oob_share = is_out_of_bag.mean()
    # The standard error of a difference of means, of n s and n (1-s) numbers, is σ / √(n s (1-s)).
    return bool(gap > BAG_ERRORS * class_share.std() / np.sqrt(class_share.size * oob_share * (1 - oob_share)))


def find_leak_in_forest(model: Any, forest: Forest, rows: RowLeaves) -> str | None:
    """Return evidence, as text for a message, that a forest was grown on many of these rows; None without evidence.

    The forest has in-bag counts. ``model`` is the fitted model if its bags are known, else None.
    """
    if (halfway := count_halfway_tests(forest.trees, rows.values)) is not None:
        n_halfway, n_tests = halfway
        return f"{n_halfway} of {n_tests} thresholds lie just halfway between two of them"
    if hasattr(model, "_n_samples") and (n_fitting := _count_rows_in_bags(model, rows)):
        return f"the {n_fitting} whose classes are absent from leaves are absent from the bags of these trees"
    if _share_no_leaf(forest, rows):
        return "all find their class in every leaf, and no two share a leaf that holds one"
    return None


def counts_agree(forest: Forest, other: Forest) -> bool:
    """Return whether two forests of the same trees have equal counts, but for a factor by class (class weights)."""
    counts = np.asarray(forest.counts, float).reshape(-1, forest.n_classes)
    other_counts = np.asarray(other.counts, float).reshape(-1, other.n_classes)
    if np.allclose(other_counts, counts, rtol=1e-6):
        return True
    # With a free factor, the counts of a class in a few leaves agree by chance.
    if np.min(np.sum(other_counts > 0, axis=0)) < FEW:
        return False
    class_factors = counts.sum(axis=0) / other_counts.sum(axis=0)
    return np.allclose(other_counts * class_factors, counts, rtol=1e-6)


def count_halfway_tests(trees: Trees, values: np.ndarray | SparseRows) -> tuple[int, int] | None:
    """Return (number of tests halfway between two of the rows, number of tests with rows on both sides).

    Return None if chance explains the tests halfway. ``values [rows features]`` are encoded rows. A test that is chosen
    as the best lies halfway between two rows of the tree's sample; other rows hardly have the same midpoints to the
    last bit. Only features whose values hardly repeat among the rows count, and these must be half of the tested
    features at least.
    """
    generator = np.random.default_rng(0)  # whether rows are refused must not change from call to call
    max_rows = WORK // 20  # so that these rows can walk through 20 trees at least
    if isinstance(values, SparseRows):  # they are made dense
        max_rows = min(max_rows, max(1000, DENSE_VALUES // values.shape[1]))
    sample = np.asarray(values[generator.permutation(len(values))[:max_rows]])
    keys = np.where(np.isnan(sample), np.int64(NAN_FIRST), order_key_at_or_below(np.nan_to_num(sample)))
    tally = _tally_tests(trees, keys, generator)
    is_tested = tally[0] > 0
    n_distinct = np.array([len(np.unique(column[column > NAN_FIRST])) for column in keys.T])
    hardly_repeats = n_distinct >= 0.99 * np.sum(keys > NAN_FIRST, axis=0)
    is_usable = hardly_repeats & is_tested
    n_tests, n_halfway, by_chance = tally[:, is_usable]
    # Tests halfway beyond chance: `FEW` and 1 % of all at least, and more than one in half of the usable features.
    enough_tests = n_halfway.sum() - by_chance.sum() >= max(FEW, 0.01 * n_tests.sum())
    in_half_of_features = 2 * np.sum(n_halfway - by_chance > 1) >= np.sum(is_usable)
    half_is_usable = np.sum(is_usable) >= np.sum(is_tested) / 2
    is_leak = enough_tests and in_half_of_features and half_is_usable
    return (int(n_halfway.sum()), int(n_tests.sum())) if is_leak else None


def _tally_tests(trees: Trees, keys: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return three numbers for each feature, ``[3 features]``, of the tests that have rows on both sides.

    The numbers are: how many such tests there are; how many of them lie halfway between two rows; and how many would
    lie so by chance. ``keys [rows features]`` are order keys, integers in the order of the float32 values. Many rows
    walk only through trees that ``draw`` chooses.
    """
    rows = np.arange(len(keys))
    # Where values are rounded or repeat, two halves of the rows show how often midpoints agree by chance.
    half, other_half = np.array_split(draw.permutation(rows), 2)
    tally = np.zeros((3, trees.n_features))
    n_tests, n_halfway, by_chance = tally  # views, by which ``tally`` is filled
    arrays = tuple(map(np.asarray, (trees.feature, trees.threshold, trees.child, trees.missing_right)))
    n_trees_walked = max(WORK // max(len(keys), 1), 1)
    for t in draw.permutation(trees.n_trees)[:n_trees_walked]:
        tree = tuple(array[t] for array in arrays)
        feature, threshold, *_ = tree
        edges = _find_edges(tree, keys, rows)
        tested_feature = feature[edges.test]
        is_halfway = edges.middle == threshold[edges.test]
        np.add.at(n_tests, tested_feature, 1)
        np.add.at(n_halfway, tested_feature, is_halfway)
        # A difference of order keys is the number of float32 numbers between the edges, one of which is the midpoint.
        np.add.at(by_chance, tested_feature, MIDPOINT_CHANCE / (edges.high - edges.low))
        if is_halfway.any():  # else there is nothing to explain by chance
            _add_repeats(by_chance, feature, _find_edges(tree, keys, half), _find_edges(tree, keys, other_half))
    return tally


def _add_repeats(by_chance: np.ndarray, feature: np.ndarray, first: "_Edges", second: "_Edges") -> None:
    """Add `CHANCE` to ``by_chance [features]`` for each test with the same midpoint in both halves of the rows.

    ``first`` and ``second`` are the edges of a tree's tests in each half, and ``feature [nodes]`` the nodes' features.
    """
    test, first_index, second_index = np.intersect1d(first.test, second.test, return_indices=True)
    np.add.at(by_chance, feature[test], CHANCE * (first.middle[first_index] == second.middle[second_index]))


class _Edges(NamedTuple):
    """For each test of a tree that has rows on both sides, the values nearest to its threshold: arrays ``[tests]``."""

    test: np.ndarray  # node of the test
    low: np.ndarray  # order key of the largest value that goes left
    high: np.ndarray  # order key of the smallest value that goes right

    @property
    def middle(self) -> np.ndarray:
        """Order keys of the midpoints between the two values, the thresholds that scikit-learn's best tests take."""
        return order_key_at_or_below(_to_values(self.low) / 2 + _to_values(self.high) / 2)


def _find_edges(tree: tuple, keys: np.ndarray, rows: np.ndarray) -> _Edges:
    """Return the `_Edges` of a tree's tests for some rows: for each test, the nearest values on both sides.

    ``tree`` has the arrays ``[nodes]`` feature, threshold (an order key), child (the left one) and missing_right.
    ``keys [rows features]`` are order keys, and ``rows`` are positions of the rows that walk.
    """
    feature, threshold, child, missing_right = tree
    # Below and above all order keys: they stay where no row is on that side of a test.
    lowest, highest = NAN_FIRST, -int(NAN_FIRST)
    low = np.full(len(child), lowest, np.int64)
    high = np.full(len(child), highest, np.int64)
    node = np.zeros(len(rows), np.int64)
    while len(rows):  # a step down for all rows that are not yet in a leaf, which is its own child
        is_inner = child[node] != node
        rows, node = rows[is_inner], node[is_inner]
        key = keys[rows, np.maximum(feature[node], 0)]
        is_missing = key == NAN_FIRST  # such a value is on no side of the threshold
        goes_right = np.where(is_missing, missing_right[node], key > threshold[node])
        is_left = ~goes_right & ~is_missing
        is_right = goes_right & ~is_missing
        np.maximum.at(low, node[is_left], key[is_left])
        np.minimum.at(high, node[is_right], key[is_right])
        node = child[node] + goes_right  # the right child follows the left one
    test = np.flatnonzero((low > lowest) & (high < highest))
    return _Edges(test, low[test], high[test])


def _to_values(keys: np.ndarray) -> np.ndarray:
    """Return the float32 numbers for which order ``keys`` stand, as float64 of the same shape."""
    keys = keys.astype(np.int64)
    # The key of a positive number is its bits; that of a negative one is `NAN_FIRST` less its bits, and so back again.
    return np.where(keys < 0, NAN_FIRST - keys, keys).astype(np.int32).view(np.float32).astype(np.float64)


def find_leak_in_sizes(model: Any, values: np.ndarray | SparseRows, position: np.ndarray) -> str | None:
    """Return evidence, as text, that a scikit-learn model was grown on these rows; None without evidence.

    Compared are the number of rows in each leaf and the leaf's size, the number of rows that grew it. If the rows hold
    the whole sample, no leaf gets fewer than its size. If they are a part of the sample, and trees have no bags, no
    leaf gets more. New rows break both rules in many leaves: bootstrap samples of the rows, which stand for new rows,
    show in how many. ``values [rows features]`` are encoded, ``position [rows]`` has the rows' classes.
    """
    tree_leaves = _reach_leaves(model, values)
    if not tree_leaves:
        return None
    without_bags = not has_bags(model)
    n_classes = len(getattr(model, "classes_", ()))
    generator = np.random.default_rng(0)
    cells = [_number_cells(tree, leaf, position, n_classes, by_class=without_bags) for tree, leaf in tree_leaves]
    count_with_fewer = lambda n_rows, size: np.sum(n_rows < size)
    count_with_more = lambda n_rows, size: np.sum(n_rows > size)
    if _never_by_chance(count_with_fewer, cells, generator):
        return "every leaf gets at least as many of them as it was grown on"
    if without_bags and _never_by_chance(count_with_more, cells, generator):
        return "no leaf gets more of them than it was grown on"
    return None


def _reach_leaves(model: Any, values: np.ndarray | SparseRows) -> list[tuple[Any, np.ndarray]]:
    """Return (tree, leaf of each row in it ``[rows]``) for the trees of a scikit-learn model; [] for another model.

    ``values [rows features]`` are the encoded rows. If they are many, the trees are some, drawn with a fixed seed.
    """
    trees = [getattr(estimator, "tree_", None) for estimator in getattr(model, "estimators_", [model])]
    if isinstance(model, Forest) or any(tree is None for tree in trees):
        return []
    tree_leaves = []
    rows: Any = values.matrix() if isinstance(values, SparseRows) else np.ascontiguousarray(values, np.float32)
    n_trees_walked = max(WORK // len(values), 1)
    for t in np.random.default_rng(0).permutation(len(trees))[:n_trees_walked]:
        # Trees of a bag may read some features alone.
        tree_rows = rows[:, model.estimators_features_[t]] if hasattr(model, "estimators_features_") else rows
        tree_rows = tree_rows if isinstance(values, SparseRows) else np.ascontiguousarray(tree_rows)
        tree_leaves.append((trees[t], trees[t].apply(tree_rows)))
    return tree_leaves


def _number_cells(tree: Any, leaf: np.ndarray, position: np.ndarray, n_classes: int, *, by_class: bool) -> tuple:
    """Return each row's cell in a tree as a number ``[rows]``, and how many rows grew each cell ``[cells]``.

    Cells are leaves, or pairs of leaf and class if ``by_class`` is True and the leaves' values give whole counts.
    ``leaf [rows]`` has the rows' leaves in the tree, ``position [rows]`` their classes.
    """
    size = np.where(tree.children_left < 0, tree.n_node_samples, 0)  # 0 in inner nodes, which no row ends in
    counts = tree.value[:, 0] * size[:, None]  # values are shares of classes, by the rows' weights
    if by_class and counts.shape[1] == n_classes and np.allclose(counts, np.rint(counts), atol=1e-6 * size.max()):
        return leaf * n_classes + position, np.rint(counts).ravel()
    return leaf, size.astype(float)


def _never_by_chance(count_wrong: Any, cells: list[tuple], draw: np.random.Generator) -> bool:
    """Return whether no cell of the rows is wrong, although many cells of bootstrap samples of the rows are wrong.

    ``count_wrong(n_rows, size)`` returns how many cells are wrong, such as those with fewer rows than grew them. Both
    arguments are ``[cells]``: the number of rows in each cell, and the number that grew it. ``cells`` has the result of
    `_number_cells` for each tree, and ``draw`` draws the samples.
    """

    def count_all(weight: np.ndarray | None) -> int:
        """Return the number of wrong cells in all trees, where rows count by ``weight`` (None: once)."""
        return sum(count_wrong(np.bincount(cell, weight, len(size)), size) for cell, size in cells)

    if count_all(weight=None):
        return False
    n_rows = len(cells[0][0])
    n_wrong = []  # of each bootstrap sample
    for _ in range(DRAWS):
        times_drawn = np.bincount(draw.integers(0, n_rows, n_rows), minlength=n_rows)
        n_wrong.append(count_all(times_drawn))
    mean, variance = np.mean(n_wrong), np.var(n_wrong)
    if mean < RARE:
        return False
    if variance <= mean:  # Poisson: minus the logarithm of the probability of no wrong cell is the mean
        return True
    # Similar trees miss the same leaves, so that the number of wrong cells varies more than Poisson. If it is negative
    # binomial with the dispersion k, minus the logarithm is k log(1 + mean/k).
    dispersion = mean**2 / (variance - mean)
    return bool(dispersion * np.log1p(mean / dispersion) >= RARE)


def find_leak_of_numbers(model: Any, trees: Trees, values: np.ndarray | SparseRows, y: np.ndarray) -> str | None:
    """Return evidence, as text, that a regression forest was grown on many of these rows; None without evidence.

    ``trees`` are those of ``model``. ``values [rows features]`` are the encoded rows, ``y [rows]`` their targets.
    """
    if halfway := count_halfway_tests(trees, values):
        n_halfway, n_tests = halfway
        return f"{n_halfway} of {n_tests} thresholds lie just halfway between two of them"
    one_class = np.zeros(len(y), np.int64)
    return find_leak_in_sizes(model, values, one_class) or _find_leak_of_targets(model, values, y)


def _find_leak_of_targets(model: Any, values: np.ndarray | SparseRows, y: np.ndarray) -> str | None:
    """Return evidence, as text, that leaves grown on one row hold the targets of the rows that reach them.

    Return None if so many may hold them by chance. Chance is estimated by how often two rows that share such a leaf
    have equal targets; if few share one, by how often targets repeat among all rows.
    """
    subset = np.random.default_rng(0).permutation(len(y))[:MAX_ROWS]
    y = y[subset]
    n_equal = n_leaves = 0  # leaves of one row that hold the target of the row that reaches them, and all of them
    n_equal_pairs = n_pairs = 0  # pairs of rows that share such a leaf: with equal targets, and all of them
    for tree, leaf in _reach_leaves(model, values[subset]):
        rows = np.flatnonzero(tree.n_node_samples[leaf] == 1)  # rows that reach a leaf of one row
        n_equal += int(np.sum(np.isclose(tree.value[leaf[rows], 0, 0], y[rows], rtol=1e-12, atol=0)))
        n_leaves += len(rows)
        rows = rows[np.argsort(leaf[rows], kind="stable")]  # rows that share a leaf become neighbours
        share_leaf = leaf[rows][1:] == leaf[rows][:-1]
        n_equal_pairs += int(np.sum(share_leaf & (y[rows][1:] == y[rows][:-1])))
        n_pairs += int(np.sum(share_leaf))
    chance = n_equal_pairs / n_pairs if n_pairs >= FEW_PAIRS else 1 - len(np.unique(y)) / len(y)
    # Beyond chance so many leaves must hold their rows' targets, and so large a share of all.
    if n_equal - chance * n_leaves <= max(FEW_PAIRS, KNOWN_SHARE * n_leaves):
        return None
    return f"{n_equal} of {n_leaves} leaves of one row that they reach hold their very targets"


def warn_of_seen(model: Any, values: np.ndarray | SparseRows, position: np.ndarray | None = None) -> None:
    """Warn if rows seem to belong to the sample that grew a scikit-learn model, by the sizes or labels of its leaves.

    ``values [rows features]`` are the encoded rows, and ``position [rows]`` has their classes; None for a regressor.
    """
    subset = np.random.default_rng(0).permutation(len(values))[:MAX_ROWS]
    tree_leaves = _reach_leaves(model, values[subset])
    if not tree_leaves or len(subset) < 2 * PARTS:  # too few rows for a jackknife
        return
    jackknife_part = np.arange(len(subset)) % PARTS
    ratio, error = _ratio_of_sizes(tree_leaves, jackknife_part)
    bag_size = np.mean([tree.n_node_samples[0] for tree, _ in tree_leaves])
    # The share s of rows that are of the sample, by the ratio that `_ratio_of_sizes` expects.
    share = (1 + len(subset) / bag_size - ratio) / 2 * getattr(model, "_n_samples", bag_size) / len(subset)
    reason = f"their numbers in its leaves differ from the sample's by {ratio:.2f} of the least for new rows"
    is_suspect = ratio + DEVIATIONS * error < 1
    if not is_suspect and position is not None:
        ratio, error = _ratio_of_labels(tree_leaves, jackknife_part, position[subset], len(model.classes_))
        share = 1 - ratio
        is_suspect = ratio + DEVIATIONS_OF_LABELS * error < 1
        reason = (
            "of two that share a leaf of one row, and the row that grew it, the leaf's has the label that no other has "
            f"{ratio:.2f} times as often as new rows would make it"
        )
    if is_suspect:
        warn(
            f"about {np.clip(share, 0.01, 1):.0%} of {len(values)} rows that are to be new to the "
            f"{type(model).__name__} seem to be of the sample that grew it: {reason}. Its answers know their labels, "
            "and what is made of them promises too much. Pass rows that were held out."
        )


def _ratio_of_sizes(tree_leaves: list[tuple], part: np.ndarray) -> tuple[float, float]:
    r"""Return a ratio, and its standard error: how far the numbers of rows in leaves are from the leaves' sizes.

    It is the distance over the least that is expected of new rows: 1 or more for these, up to chance, and less for rows
    of the sample. ``tree_leaves`` is as `_reach_leaves` returns it. ``part [rows]`` has the number of each row's part
    in a jackknife, which gives the standard error.

    Let n new rows reach a tree's leaves with probabilities p, in counts c. For any fixed numbers k,
    :math:`E \sum (c - k)^2 \ge n (1 - \sum p^2)`: the ratio of both sides is 1 or more, up to chance. Here k is the
    leaf's size, scaled to n rows. A row that grew a leaf is in both c and k, so that the ratio is less. Let rows and
    sample be drawn with the same probabilities, and a share s of the rows be of the sample. Then the ratio is about
    1 + n/K - 2 s n/N, for N rows in the sample and K rows in a tree's bag.
    """
    # Both sides of the inequality, for the rows without each part, and last for all rows.
    distance = np.zeros(PARTS + 1)
    expected = np.zeros(PARTS + 1)
    for tree, leaf in tree_leaves:
        size = np.where(tree.children_left < 0, tree.n_node_samples, 0)
        counts = np.bincount(part * len(size) + leaf, minlength=PARTS * len(size)).reshape(PARTS, -1)
        counts = _without_parts(counts)  # c of the formula, ``[parts + 1, nodes]``
        n = counts.sum(axis=1)
        scaled_size = size * (n / size.sum())[:, None]  # k of the formula
        distance += np.sum((counts - scaled_size) ** 2, axis=1)
        # n (1 - Σ p²), without bias: the mean of c (c - 1) is n (n - 1) p².
        expected += n - np.sum(counts * (counts - 1), axis=1) / (n - 1)
    return _jackknife(distance / np.maximum(expected, 1))


def _ratio_of_labels(tree_leaves: list[tuple], part: np.ndarray, y: np.ndarray, n_classes: int) -> tuple[float, float]:
    """Return a ratio, and its standard error: how often two rows agree on a label that is not their leaf's.

    Leaves are those that a single row grew, whose label is the leaf's. The ratio is that to the least frequency that is
    expected of new rows: 1 or more for these, up to chance, and less for rows of the sample. ``tree_leaves`` and
    ``part`` are as for `_ratio_of_sizes`, and ``y [rows]`` are classes.

    Take the row that grew such a leaf, and two rows that reach it. Where two of the three share a label, the third has
    the odd label. If the two rows are new, each of the three is equally likely to have it; the leaf's row even more,
    since a node is cut where labels differ. If one of the two grew the leaf, it has the leaf's label, so that the odd
    label is never the leaf's. The ratio is then 1 less the share of such pairs, about the share of such rows.
    """
    # Pairs of rows where the leaf's row has the odd label, and pairs where one of the two has it: for the rows without
    # each part, and last for all rows.
    odd_leaf = np.zeros(PARTS + 1)
    odd_row = np.zeros(PARTS + 1)
    n_pairs = lambda n: n * (n - 1) / 2
    for tree, leaf in tree_leaves:
        if tree.value.shape[2] != n_classes:  # a bag that lacks a class has other class numbers
            continue
        rows = np.flatnonzero((tree.children_left[leaf] < 0) & (tree.n_node_samples[leaf] == 1))
        leaves, leaf_index = np.unique(leaf[rows], return_inverse=True)
        counts = np.zeros((PARTS, len(leaves), n_classes))
        np.add.at(counts, (part[rows], leaf_index, y[rows]), 1)
        counts = _without_parts(counts)
        label_of_leaf = tree.value[leaves, 0].argmax(axis=1)
        n_same = np.take_along_axis(counts, label_of_leaf[None, :, None], axis=2)[:, :, 0]  # rows with that label
        odd_leaf += np.sum(n_pairs(counts).sum(axis=2) - n_pairs(n_same), axis=1)
        odd_row += np.sum(n_same * (counts.sum(axis=2) - n_same), axis=1)
    if odd_row[-1] < FEW_SPLIT:  # too few pairs to tell
        return 1.0, 0.0
    # ``odd_row`` is twice ``odd_leaf`` if all three rows are equally likely to have the odd label.
    return _jackknife(2 * odd_leaf / np.maximum(odd_row, 1))


def _without_parts(counts: np.ndarray) -> np.ndarray:
    """Return the counts without each part of rows, and last those of all; ``counts [parts ...]`` are those of parts."""
    all_counts = counts.sum(axis=0)
    return np.concatenate([all_counts - counts, all_counts[None]])


def _jackknife(estimates: np.ndarray) -> tuple[float, float]:
    """Return the last of ``estimates``, and its standard error by the others, each made without a part of the rows."""
    *by_part, estimate = estimates  # the squared error is (P - 1)/P Σ (estimate of a part - their mean)², of P parts
    return estimate, math.sqrt((PARTS - 1) * np.var(by_part))


def _count_rows_in_bags(model: Any, rows: RowLeaves) -> int:
    """Return the number of rows that were compared with a model's bags, if 98 % of them fit; else 0.

    A leaf counts the class of each row in its tree's bag. So if the leaf of a row does not count the row's class, the
    row is not in that tree's bag. A row fits if some row of the sample is out of all these bags at once, which is rare
    by chance. Rows for which it is not rare are not compared; if few remain, the result is 0.
    """
    is_out_of_bag = oob_mask(model, int(model._n_samples))
    is_absent = rows.class_counts <= 0  # whether a row's class is absent from its leaf, ``[rows trees]``
    n_sample = len(is_out_of_bag)
    # Candidates are rows for which such a row of the sample exists by chance in at most one case of a hundred.
    candidates = np.flatnonzero(n_sample * is_out_of_bag.mean() ** is_absent.sum(axis=1) <= 0.01)
    # At most 50 · `WORK` pairs of such a row and a row of the sample are compared.
    candidates = np.random.default_rng(0).permutation(candidates)[: max(50 * WORK // n_sample, 2 * FEW)]
    if len(candidates) < 2 * FEW:
        return 0
    # Number of trees that miss a row's class while a row of the sample is in their bag: 0 if it is the same row.
    n_clashes = is_absent[candidates].astype(np.float32) @ (~is_out_of_bag).astype(np.float32).T
    return len(candidates) if np.mean(n_clashes.min(axis=1) == 0) >= 0.98 else 0


def _share_no_leaf(forest: Forest, rows: RowLeaves) -> bool:
    """Return whether all rows are in leaves that count their class, and no two share a leaf that counts one instance.

    False, too, if this may be chance (`CERTAINTY`). The probability that k new rows in n such leaves are all in
    different leaves is at most exp(-k (k - 1)/(2 n)). The geometric mean of this bound over trees, times e, bounds the
    probability for all trees at once.
    """
    if (rows.class_counts <= 0).any():
        return False
    sizes = np.asarray(forest.count_table).sum(axis=1)
    is_single = np.asarray(forest.trees.is_leaf) & (sizes[np.asarray(forest.code)] == 1)  # ``[trees nodes]``
    exponents = []  # by tree, k (k - 1)/(2 n)
    for t in range(forest.n_trees):
        leaves = rows.leaves[:, t]
        single_leaves = leaves[is_single[t, leaves]]  # one for each row that is in a leaf of one instance
        n_rows = len(single_leaves)
        if len(np.unique(single_leaves)) < n_rows:
            return False
        exponents.append(n_rows * (n_rows - 1) / (2 * max(is_single[t].sum(), 1)))
    return math.fsum(exponents) / len(exponents) >= CERTAINTY
