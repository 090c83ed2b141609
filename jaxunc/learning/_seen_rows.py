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
"""Fewest leaves that are evidence; smallest share of leaves, beyond chance, that hold their rows' targets; largest
number of rows that are read."""
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

    ``model`` is the fitted model, or the ``forest`` itself. Warns if only leaves' sizes or labels suggest it. Rows of
    weight 0, which nothing reads, are not looked at.
    """
    y = as_labels(y)
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
    position, rows = class_positions(forest.class_labels, y), np.flatnonzero(weight > 0)
    if not len(rows):
        return
    if forest.follows_forks:  # leaves that their forks stand in for have no counts of their own, which are compared
        forest = forest.with_empty_leaves("parent")
    data = LabelledData(X, y, position, weight, sample_weight is not None, rows)
    leaves = find_leaves(forest, data)
    if reason := find_leak(model, forest, data, *look_up_codes(forest, leaves), leaves):
        raise KnownRowsError(
            f"these rows are the sample that the forest was grown on, or hold many of its rows: {reason}. {advice}"
        )


def find_leak(model: Any, forest: Forest, data: LabelledData, table, code, leaves) -> str | None:
    """Return evidence, as text for a message, that the forest was grown on these rows; None without evidence.

    ``model`` is the fitted model, or the forest itself. `look_up_codes` has made ``table`` and ``code`` of the rows'
    ``leaves``, which `find_leaves` found. Warns if the evidence is too weak to refuse the rows.
    """
    class_counts, values = table[code, data.position[data.rows][:, None]], encode(forest, data)
    # Copies add no evidence, and would make features look like features with repeated values.
    distinct = first_of_equals(values, data.position[data.rows])
    if not forest.further and _give_these_counts(forest, data, values, distinct):
        return "they give the leaves just their counts"
    bags = not isinstance(model, Forest) and has_bags(model)
    if bags and getattr(model, "_n_samples", None) == len(data.y):
        leaf_size = table[:, : forest.n_classes].sum(axis=1)[code]
        class_share = class_counts / np.maximum(leaf_size, np.finfo(float).tiny)
        if _are_answered_best_in_bags(class_share, oob_mask(model, len(data.y))[data.rows]):
            return "the trees whose bags hold them answer them best"
    if leak := find_leak_in_sizes(model, values[distinct], data.position[data.rows][distinct]):
        return leak
    trees, tested = on_tested(forest.trees, values[distinct])
    forest = dataclasses.replace(forest, trees=trees)
    rows = RowLeaves(tested, leaves[distinct], class_counts[distinct])
    if leak := find_leak_in_forest(model if bags else None, forest, rows):
        return leak
    warn_of_seen(model, values[distinct], data.position[data.rows][distinct])
    return None


def _give_these_counts(forest: Forest, data: LabelledData, values, distinct) -> bool:
    """Return whether the leaves hold just the counts of all rows of the data, or of the distinct rows.

    ``values [rows features]`` are the encoded rows to learn from, and ``distinct`` positions of the distinct ones.
    """
    all_rows = Encoded(encode(forest, data.all_rows()), missing=True)
    if counts_agree(forest, count_leaves(forest, all_rows, data.y, sample_weight=data.weights)):
        return True
    if not len(distinct) < len(data.rows) == len(data.y):
        return False
    return counts_agree(forest, count_leaves(forest, Encoded(values[distinct], missing=True), data.y[distinct]))


def _are_answered_best_in_bags(class_share, is_out_of_bag) -> bool:
    """Return whether trees give rows in their bags a larger share of the true class than rows out of bag.

    The difference must be at least `BAG_ERRORS` standard errors; new rows, or rows in another order, differ by chance
    alone. ``class_share``, the share of the row's class in its leaf, and ``is_out_of_bag`` are ``[rows trees]``.
    """
    # The standard error of a difference of means, of n s and n (1-s) numbers, is σ / √(n s (1-s)).
    gap, share = class_share[~is_out_of_bag].mean() - class_share[is_out_of_bag].mean(), is_out_of_bag.mean()
    return bool(gap > BAG_ERRORS * class_share.std() / np.sqrt(class_share.size * share * (1 - share)))


def find_leak_in_forest(model: Any, forest: Forest, rows: RowLeaves) -> str | None:
    """Return evidence that a forest with counts was grown on these rows, or on many of them; None without evidence.

    ``model`` is the fitted model if its bags are known, else None.
    """
    if (halfway := count_halfway_tests(forest.trees, rows.values)) is not None:
        return f"{halfway[0]} of {halfway[1]} thresholds lie just halfway between two of them"
    if hasattr(model, "_n_samples") and (fitting := _count_rows_in_bags(model, rows)):
        return f"the {fitting} whose classes are absent from leaves are absent from the bags of these trees"
    if _share_no_leaf(forest, rows):
        return "all find their class in every leaf, and no two share a leaf that holds one"
    return None


def counts_agree(forest: Forest, other: Forest) -> bool:
    """Return whether two forests, of the same trees, have equal counts but for a factor by class (weights, copies)."""
    counts, other_counts = (np.asarray(each.counts, float).reshape(-1, each.n_classes) for each in (forest, other))
    if np.allclose(other_counts, counts, rtol=1e-6):
        return True
    # A few leaves with many rows agree so well by chance.
    if np.min(np.sum(other_counts > 0, axis=0)) < FEW:
        return False
    return np.allclose(other_counts * (counts.sum(axis=0) / other_counts.sum(axis=0)), counts, rtol=1e-6)


def count_halfway_tests(trees: Trees, values: np.ndarray | SparseRows) -> tuple[int, int] | None:
    """Return the number of tests halfway between two of the rows, and the number of tests with rows on both sides.

    ``values`` are encoded rows ``[rows features]``. None if chance explains the tests halfway. Best tests lie halfway
    between two rows of the tree's sample; other rows hardly have the same midpoints to the last bit. Only features
    count whose values hardly repeat among the rows; they must be at least half of the tested features.
    """
    # The seed is fixed, since whether rows are refused must not change from call to call.
    generator = np.random.default_rng(0)
    max_rows = WORK // 20
    if isinstance(values, SparseRows):  # they are made dense
        max_rows = min(max_rows, max(1000, DENSE_VALUES // values.shape[1]))
    sample = np.asarray(values[generator.permutation(len(values))[:max_rows]])
    keys = np.where(np.isnan(sample), np.int64(NAN_FIRST), order_key_at_or_below(np.nan_to_num(sample)))
    n_tests, n_halfway, by_chance = _tally_tests(trees, keys, generator)
    distinct = np.array([len(np.unique(column[column > NAN_FIRST])) for column in keys.T])
    hardly_repeats, is_tested = distinct >= 0.99 * np.sum(keys > NAN_FIRST, axis=0), n_tests > 0
    is_usable = hardly_repeats & is_tested
    n_tests, n_halfway, by_chance = (tally[is_usable] for tally in (n_tests, n_halfway, by_chance))
    enough_tests = n_halfway.sum() - by_chance.sum() >= max(FEW, 0.01 * n_tests.sum())
    enough_features = 2 * np.sum(n_halfway - by_chance > 1) >= np.sum(is_usable) >= np.sum(is_tested) / 2
    return (int(n_halfway.sum()), int(n_tests.sum())) if enough_tests and enough_features else None


def _tally_tests(trees: Trees, keys: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return three numbers for each feature, ``[3 features]``, of the tests that have rows on both sides.

    They are the number of these tests, of those that lie halfway between two rows, and of those that would by chance.
    ``keys [rows features]`` are order keys. Many rows walk through a part of the trees, chosen by ``draw``.
    """
    rows = np.arange(len(keys))
    # Where values are rounded or repeat, two halves of the rows show how often midpoints agree by chance.
    half, other_half = np.array_split(draw.permutation(rows), 2)
    tally = np.zeros((3, trees.n_features))
    n_tests, n_halfway, by_chance = tally  # its rows, which are filled
    arrays = tuple(map(np.asarray, (trees.feature, trees.threshold, trees.child, trees.missing_right)))
    n_walked = max(WORK // max(len(keys), 1), 1)
    for t in draw.permutation(trees.n_trees)[:n_walked]:
        tree = tuple(array[t] for array in arrays)
        feature, threshold, *_ = tree
        edges = _find_edges(tree, keys, rows)
        tested, is_halfway = feature[edges.test], edges.middle == threshold[edges.test]
        np.add.at(n_tests, tested, 1)
        np.add.at(n_halfway, tested, is_halfway)
        # Between two edges that are close there are few float32 numbers, one of which is the midpoint.
        np.add.at(by_chance, tested, MIDPOINT_CHANCE / (edges.high - edges.low))
        if is_halfway.any():
            _add_repeats(by_chance, feature, _find_edges(tree, keys, half), _find_edges(tree, keys, other_half))
    return tally


def _add_repeats(by_chance: np.ndarray, feature: np.ndarray, first: "_Edges", second: "_Edges") -> None:
    """Add `CHANCE` to ``by_chance [features]`` for each test with the same midpoint in both halves of the rows.

    ``first`` and ``second`` are the halves' edges, and ``feature [nodes]`` is what each node of the tree tests.
    """
    test, first_index, second_index = np.intersect1d(first.test, second.test, return_indices=True)
    np.add.at(by_chance, feature[test], CHANCE * (first.middle[first_index] == second.middle[second_index]))


class _Edges(NamedTuple):
    """Values next to the threshold, for each test of a tree that has rows on both sides: arrays ``[tests]``."""

    test: np.ndarray  # node of the test
    low: np.ndarray  # order key of the largest value that goes left
    high: np.ndarray  # order key of the smallest value that goes right

    @property
    def middle(self) -> np.ndarray:
        """Order keys of the midpoints, which are the thresholds of scikit-learn's best tests."""
        return order_key_at_or_below(_to_values(self.low) / 2 + _to_values(self.high) / 2)


def _find_edges(tree: tuple, keys: np.ndarray, rows: np.ndarray) -> _Edges:
    """Return the edges of a tree's tests for the rows at these positions of ``keys [rows features]``, order keys.

    ``tree`` has the arrays ``[nodes]`` feature, threshold, child and missing_right.
    """
    feature, threshold, child, missing_right = tree
    low, high = np.full(len(child), NAN_FIRST, np.int64), np.full(len(child), -int(NAN_FIRST), np.int64)
    node = np.zeros(len(rows), np.int64)
    while len(rows):  # a step down for all rows that are not yet in a leaf, which is its own child
        is_inner = child[node] != node
        rows, node = rows[is_inner], node[is_inner]
        key = keys[rows, np.maximum(feature[node], 0)]
        is_missing = key == NAN_FIRST
        goes_right = np.where(is_missing, missing_right[node], key > threshold[node])
        np.maximum.at(low, node[~goes_right & ~is_missing], key[~goes_right & ~is_missing])
        np.minimum.at(high, node[goes_right & ~is_missing], key[goes_right & ~is_missing])
        node = child[node] + goes_right
    test = np.flatnonzero((low > NAN_FIRST) & (high < -int(NAN_FIRST)))
    return _Edges(test, low[test], high[test])


def _to_values(keys: np.ndarray) -> np.ndarray:
    """Return the float32 numbers of order keys, as float64."""
    keys = keys.astype(np.int64)
    return np.where(keys < 0, NAN_FIRST - keys, keys).astype(np.int32).view(np.float32).astype(np.float64)


def find_leak_in_sizes(model: Any, values: np.ndarray | SparseRows, position: np.ndarray) -> str | None:
    """Return evidence by leaf sizes that a model of scikit-learn was grown on these rows; None without evidence.

    If the rows hold the whole sample, each leaf gets at least as many rows as grew it. If they are a part of the sample
    and trees have no bags, no leaf gets more. Neither holds for new rows: bootstrap samples of the rows show how many
    leaves new rows would miss. ``values [rows features]`` are encoded, ``position [rows]`` are the rows' classes.
    """
    tree_leaves, by_class = _reach_leaves(model, values), not has_bags(model)
    if not tree_leaves:
        return None
    n_classes, generator = len(getattr(model, "classes_", ())), np.random.default_rng(0)
    cells = [_number_cells(tree, leaf, position, n_classes, by_class=by_class) for tree, leaf in tree_leaves]
    fewer = lambda n_rows, size: np.sum(n_rows < size)
    more = lambda n_rows, size: np.sum(n_rows > size)
    if _never_by_chance(fewer, cells, generator):
        return "every leaf gets at least as many of them as it was grown on"
    is_part = by_class and _never_by_chance(more, cells, generator)
    return "no leaf gets more of them than it was grown on" if is_part else None


def _reach_leaves(model: Any, values: np.ndarray | SparseRows) -> list[tuple[Any, np.ndarray]]:
    """Return pairs of a model's tree and each row's leaf in it; an empty list for models that are not scikit-learn's.

    If there are many rows, the trees are a random subset, with a fixed seed.
    """
    trees = [getattr(estimator, "tree_", None) for estimator in getattr(model, "estimators_", [model])]
    if isinstance(model, Forest) or any(tree is None for tree in trees):
        return []
    leaves, generator = [], np.random.default_rng(0)
    rows: Any = values.matrix() if isinstance(values, SparseRows) else np.ascontiguousarray(values, np.float32)
    for t in generator.permutation(len(trees))[: max(WORK // len(values), 1)]:
        tree_rows = rows[:, model.estimators_features_[t]] if hasattr(model, "estimators_features_") else rows
        tree_rows = tree_rows if isinstance(values, SparseRows) else np.ascontiguousarray(tree_rows)
        leaves.append((trees[t], trees[t].apply(tree_rows)))
    return leaves


def _number_cells(tree: Any, leaf: np.ndarray, position: np.ndarray, n_classes: int, *, by_class: bool) -> tuple:
    """Return the cell ``[rows]`` of each row in a tree, and the number of rows that grew each cell ``[cells]``.

    Cells are leaves, or pairs of leaf and class if ``by_class`` and the leaves' values give whole counts. ``leaf`` and
    ``position``, both ``[rows]``, are the rows' leaves in the tree and their classes.
    """
    size = np.where(tree.children_left < 0, tree.n_node_samples, 0)
    counts = tree.value[:, 0] * size[:, None]
    if by_class and counts.shape[1] == n_classes and np.allclose(counts, np.rint(counts), atol=1e-6 * size.max()):
        return leaf * n_classes + position, np.rint(counts).ravel()
    return leaf, size.astype(float)


def _never_by_chance(count_wrong: Any, cells: list[tuple], draw: np.random.Generator) -> bool:
    """Return whether no cell is wrong for the rows, and too many are wrong for bootstrap samples for this to be chance.

    ``count_wrong(n_rows, size)`` returns how many cells are wrong, such as those with fewer rows than grew them. Both
    arguments are ``[cells]``: the number of rows in each cell, and the number that grew it. ``cells`` has a pair of
    `_number_cells` for each tree, and ``draw`` draws the samples.
    """
    count_all = lambda weight: sum(count_wrong(np.bincount(cell, weight, len(size)), size) for cell, size in cells)
    if count_all(None):
        return False
    n_rows = len(cells[0][0])
    resampled = [count_all(np.bincount(draw.integers(0, n_rows, n_rows), minlength=n_rows)) for _ in range(DRAWS)]
    mean, variance = np.mean(resampled), np.var(resampled)
    # Similar trees miss the same leaves, so the number of wrong cells varies more than Poisson: negative binomial.
    dispersion = mean**2 / (variance - mean) if variance > mean else np.inf
    # Minus the logarithm of the probability of no wrong cell: the mean if Poisson, k log(1 + mean/k) if negative
    # binomial with the dispersion k.
    return bool(mean >= RARE and (np.isinf(dispersion) or dispersion * np.log1p(mean / dispersion) >= RARE))


def find_leak_of_numbers(model: Any, trees: Trees, values: np.ndarray | SparseRows, y: np.ndarray) -> str | None:
    """Return evidence that a regression forest was grown on many of these rows, of targets y; None without any."""
    if halfway := count_halfway_tests(trees, values):
        return f"{halfway[0]} of {halfway[1]} thresholds lie just halfway between two of them"
    return find_leak_in_sizes(model, values, np.zeros(len(y), np.int64)) or _find_leak_of_targets(model, values, y)


def _find_leak_of_targets(model: Any, values: np.ndarray | SparseRows, y: np.ndarray) -> str | None:
    """Return evidence that leaves of one row hold the targets of the rows that reach them; None if this may be chance.

    Chance is the share of equal targets among pairs of rows that share such a leaf. If pairs are few, it is the share
    of repeated targets among all rows.
    """
    subset = np.random.default_rng(0).permutation(len(y))[:MAX_ROWS]
    y, n_equal, n_leaves, n_equal_pairs, n_pairs = y[subset], 0, 0, 0, 0
    for tree, leaf in _reach_leaves(model, values[subset]):
        single = np.flatnonzero(tree.n_node_samples[leaf] == 1)
        n_equal += int(np.sum(np.isclose(tree.value[leaf[single], 0, 0], y[single], rtol=1e-12, atol=0)))
        n_leaves += len(single)
        single = single[np.argsort(leaf[single], kind="stable")]
        shared = leaf[single][1:] == leaf[single][:-1]
        n_equal_pairs += int(np.sum(shared & (y[single][1:] == y[single][:-1])))
        n_pairs += int(np.sum(shared))
    chance = n_equal_pairs / n_pairs if n_pairs >= FEW_PAIRS else 1 - len(np.unique(y)) / len(y)
    if n_equal - chance * n_leaves <= max(FEW_PAIRS, KNOWN_SHARE * n_leaves):
        return None
    return f"{n_equal} of {n_leaves} leaves of one row that they reach hold their very targets"


def warn_of_seen(model: Any, values: np.ndarray | SparseRows, position: np.ndarray | None = None) -> None:
    """Warn if rows seem to belong to the sample of a model of scikit-learn, by its leaves' sizes or labels.

    ``values [rows features]`` are encoded; ``position`` is the class of each row ``[rows]``, None for a regressor.
    """
    subset = np.random.default_rng(0).permutation(len(values))[:MAX_ROWS]
    tree_leaves = _reach_leaves(model, values[subset])
    if not tree_leaves or len(subset) < 2 * PARTS:
        return
    jackknife_part = np.arange(len(subset)) % PARTS
    ratio, error = _ratio_of_sizes(tree_leaves, jackknife_part)
    bag_size = np.mean([tree.n_node_samples[0] for tree, _ in tree_leaves])
    # The ratio that `_ratio_of_sizes` expects, solved for the share s.
    share = (1 + len(subset) / bag_size - ratio) / 2 * getattr(model, "_n_samples", bag_size) / len(subset)
    reason = f"their numbers in its leaves differ from the sample's by {ratio:.2f} of the least for new rows"
    is_suspect = ratio + DEVIATIONS * error < 1
    if not is_suspect and position is not None:
        ratio, error = _ratio_of_labels(tree_leaves, jackknife_part, position[subset], len(model.classes_))
        share, is_suspect = 1 - ratio, ratio + DEVIATIONS_OF_LABELS * error < 1
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
    r"""Return (ratio, standard error): how far row counts in leaves are from leaf sizes, over the bound for new rows.

    ``tree_leaves`` has pairs of a tree and the leaf of each row. ``part [rows]`` numbers the parts of the jackknife.

    Let n new rows reach a tree's leaves with probabilities p, in counts c. For any fixed numbers k,
    :math:`E \sum (c - k)^2 \ge n (1 - \sum p^2)`: the ratio of both sides is 1 or more, up to chance. Here k is the
    leaf's size, scaled to n rows. A row that grew a leaf is in both c and k, so that the ratio is less. Let rows and
    sample be drawn with the same probabilities, and a share s of the rows be of the sample. Then the ratio is about
    1 + n/K - 2 s n/N, for N rows in the sample and K rows in a tree's bag.
    """
    distance, expected = np.zeros(PARTS + 1), np.zeros(PARTS + 1)
    for tree, leaf in tree_leaves:
        size = np.where(tree.children_left < 0, tree.n_node_samples, 0)
        counts = np.bincount(part * len(size) + leaf, minlength=PARTS * len(size)).reshape(PARTS, -1)
        counts = np.concatenate([counts.sum(axis=0) - counts, counts.sum(axis=0)[None]])  # without each part, then all
        n = counts.sum(axis=1)
        distance += np.sum((counts - size * (n / size.sum())[:, None]) ** 2, axis=1)
        # n (1 - Σ p²), without bias: the mean of c (c - 1) is n (n - 1) p².
        expected += n - np.sum(counts * (counts - 1), axis=1) / (n - 1)
    return _jackknife(distance / np.maximum(expected, 1))


def _ratio_of_labels(tree_leaves: list[tuple], part: np.ndarray, y: np.ndarray, n_classes: int) -> tuple[float, float]:
    """Return (ratio, standard error): how often a leaf's row has the odd label of three, over the bound for new rows.

    ``tree_leaves`` and ``part`` are as for `_ratio_of_sizes`; ``y [rows]`` has the rows' classes.

    Take a leaf of one row, and two rows that reach it. If these two are new, each of the three rows is equally likely
    to have the odd label, where the other two share a label; the leaf's row even more, since a node is cut where labels
    differ. A row that grew the leaf has the leaf's label, so that the odd label is never the leaf's. The ratio is then
    1 less the share of pairs with such a row, about the share of such rows.
    """
    odd, split = np.zeros(PARTS + 1), np.zeros(PARTS + 1)
    for tree, leaf in tree_leaves:
        if tree.value.shape[2] != n_classes:  # a bag that lacks a class has other class numbers
            continue
        rows = np.flatnonzero((tree.children_left[leaf] < 0) & (tree.n_node_samples[leaf] == 1))
        leaves, leaf_index = np.unique(leaf[rows], return_inverse=True)
        counts = np.zeros((PARTS, len(leaves), n_classes))
        np.add.at(counts, (part[rows], leaf_index, y[rows]), 1)
        counts = np.concatenate([counts.sum(axis=0) - counts, counts.sum(axis=0)[None]])  # [PARTS + 1, leaves, classes]
        same_label = np.take_along_axis(counts, tree.value[leaves, 0].argmax(axis=1)[None, :, None], axis=2)[:, :, 0]
        n_pairs = lambda n: n * (n - 1) / 2
        odd += np.sum(n_pairs(counts).sum(axis=2) - n_pairs(same_label), axis=1)
        split += np.sum(same_label * (counts.sum(axis=2) - same_label), axis=1)
    if split[-1] < FEW_SPLIT:
        return 1.0, 0.0
    # ``odd`` counts pairs of rows where the leaf's row has the odd label, ``split`` pairs where one of them has: twice
    # as many if all three rows are equally likely to have it.
    return _jackknife(2 * odd / np.maximum(split, 1))


def _jackknife(estimates: np.ndarray) -> tuple[float, float]:
    """Return the last estimate, made from all rows, and its standard error by the jackknife.

    The other ``estimates`` are made from the rows without one part each.
    """
    *by_part, estimate = estimates  # the squared error is (P - 1)/P Σ (estimate of a part - their mean)², of P parts
    return estimate, math.sqrt((PARTS - 1) * np.var(by_part))


def _count_rows_in_bags(model: Any, rows: RowLeaves) -> int:
    """Return the number of rows that fit the model's bags; 0 if over 2 % of them do not, or if chance explains it.

    A leaf counts the class of each row in its tree's bag. So if the leaf of a row does not count its class, the row is
    not in that tree's bag. A row fits if some row of the sample is out of all these bags at once, which is rare by
    chance. Rows for which it is not rare are left out.
    """
    is_outside = oob_mask(model, int(model._n_samples))
    is_absent, n_sample = rows.class_counts <= 0, len(is_outside)
    # Rows for which such a row of the sample exists by chance in at most one case of a hundred.
    rare = np.flatnonzero(n_sample * is_outside.mean() ** is_absent.sum(axis=1) <= 0.01)
    rare = np.random.default_rng(0).permutation(rare)[: max(50 * WORK // n_sample, 2 * FEW)]
    if len(rare) < 2 * FEW:
        return 0
    # Number of trees that miss a row's class while a row of the sample is in their bag: 0 if it is the same row.
    n_clashes = is_absent[rare].astype(np.float32) @ (~is_outside).astype(np.float32).T
    return len(rare) if np.mean(n_clashes.min(axis=1) == 0) >= 0.98 else 0


def _share_no_leaf(forest: Forest, rows: RowLeaves) -> bool:
    """Return whether all rows are in leaves that count their class, and no two share a leaf that counts one instance.

    It is False, too, if chance explains it (`CERTAINTY`). The probability that k new rows in n such leaves are all in
    different leaves is at most exp(-k (k - 1)/(2 n)). Its geometric mean over trees, times e, bounds the probability
    for all trees at once.
    """
    if (rows.class_counts <= 0).any():
        return False
    is_leaf, leaf_sizes, exponents = np.asarray(forest.trees.is_leaf), np.asarray(forest.count_table).sum(axis=1), []
    is_single = is_leaf & (leaf_sizes[np.asarray(forest.code)] == 1)
    for t in range(forest.n_trees):
        reached = rows.leaves[is_single[t, rows.leaves[:, t]], t]
        if len(np.unique(reached)) < len(reached):
            return False
        exponents.append(len(reached) * (len(reached) - 1) / (2 * max(is_single[t].sum(), 1)))
    return math.fsum(exponents) / len(exponents) >= CERTAINTY
