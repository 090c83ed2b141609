"""Detection, as far as possible, of rows that a forest was grown on although they are given as new to it."""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxunc._checks import warn
from jaxunc._numerics import NAN_FIRST, order_key_at_or_below
from jaxunc.counting import has_bags, oob_mask
from jaxunc.forest import Forest, Trees
from jaxunc.tables import SparseRows

WORK = 400_000
"""Number of rows times trees that are walked through: for many rows a part of them, through fewer trees."""
MOST_DENSE = 2**24
"""Number of values that are made dense of a sparse matrix."""
CHANCE = 8
"""Factor by which new rows may agree with a forest more often than two halves of the rows do with each other."""
DRAWS, RARE = 40, 10.0
"""Number of samples that are drawn of given rows, to see how many leaves they miss; e^-RARE is too rare for chance."""
FEW = 10
"""Number of tests halfway between rows (twice: of rows that fit a bag) that says nothing yet."""
FEW_PAIRS, KNOWN, MOST_ROWS = 30, 0.1, 2000
"""Rows and leaves that say nothing yet; the share, beyond chance, of rows in leaves that hold their targets, which is
none of new ones; and rows that are looked at."""
PARTS, DEVIATIONS, DEVIATIONS_OF_LABELS = 20, 3, 2
"""Number of parts that are left out to see how far chance goes, and of its standard deviations that are too many. Two
are enough for labels, whose ratio is some 1.4 for new rows: on 64 data sets none of 574 forests was suspected."""
FEW_SPLIT = 100
"""Number of pairs of rows in one leaf, of which one has the leaf's label, that says nothing yet."""
SURE = 15.0
"""Certainty: e^(1 - SURE) bounds how often new rows pass for the sample by never sharing a leaf: one in a million."""


class Given(NamedTuple):
    """Rows, and what their leaves hold."""

    values: np.ndarray | SparseRows
    """Features of the rows, ``[rows features]``, float32."""
    leaves: np.ndarray
    """Leaf of each row in each tree, ``[rows trees]``."""
    own: np.ndarray
    """Counts of each row's own class in its leaves ``[rows trees]``."""


def how_known(model: Any, forest: Forest, given: Given) -> str | None:
    """Return why the forest seems to have been grown on these rows, or on many of them; None if nothing says so."""
    if (halfway := halfway_tests(forest.trees, given.values)) is not None:
        return f"{halfway[0]} of {halfway[1]} thresholds lie just halfway between two of them"
    if hasattr(model, "_n_samples") and (fitting := _rows_of_bags(model, given)):
        return f"the {fitting} whose classes are absent from leaves are absent from the bags of these trees"
    if _never_share(forest, given):
        return "all find their class in every leaf, and no two share a leaf that holds one"
    return None


def same_counts(forest: Forest, other: Forest) -> bool:
    """Return whether leaves of the same trees count the same, but for a factor by class: of weights, or of repeats."""
    one, two = (np.asarray(forest.counts, float).reshape(-1, forest.n_classes) for forest in (forest, other))
    if np.allclose(two, one, rtol=1e-6):
        return True
    # A few leaves with many rows have such counts by chance.
    if np.min(np.sum(two > 0, axis=0)) < FEW:
        return False
    return np.allclose(two * (one.sum(axis=0) / two.sum(axis=0)), one, rtol=1e-6)


def halfway_tests(trees: Trees, values: np.ndarray | SparseRows) -> tuple[int, int] | None:
    """Count the tests that lie halfway between two of the rows, and those with rows on both sides.

    Returned only if chance does not explain them.

    Best tests lie halfway between two rows of the tree's sample, which no others are likely to meet to the last bit.
    Features count whose values hardly repeat among the rows, if they are half of those that are tested.
    """
    # A fixed seed: whether rows are refused must not change from call to call.
    draw = np.random.default_rng(0)
    most = WORK // 20
    if isinstance(values, SparseRows):  # of many columns fewer rows: they are made dense
        most = min(most, max(1000, MOST_DENSE // values.shape[1]))
    given = np.asarray(values[draw.permutation(len(values))[:most]])
    keys = np.where(np.isnan(given), np.int64(NAN_FIRST), order_key_at_or_below(np.nan_to_num(given)))
    rows = np.arange(len(keys))
    # Two halves of the rows show how often thresholds agree by chance, on data that are rounded or repeat.
    one, other = np.array_split(draw.permutation(rows), 2)
    found, chance, asked = (np.zeros(trees.n_features) for _ in range(3))
    parts = tuple(map(np.asarray, (trees.feature, trees.threshold, trees.child, trees.missing_right)))
    for t in draw.permutation(trees.n_trees)[: max(WORK // max(len(keys), 1), 1)]:
        tree = tuple(part[t] for part in parts)
        edges = _edges(tree, keys, rows)
        feature, matched = tree[0][edges.test], edges.middle == tree[1][edges.test]
        np.add.at(asked, feature, 1)
        np.add.at(found, feature, matched)
        np.add.at(chance, feature, 6 / (edges.high - edges.low))  # numbers of float32 are not dense
        if matched.any():
            first, second = _edges(tree, keys, one), _edges(tree, keys, other)
            both, at, there = np.intersect1d(first.test, second.test, return_indices=True)
            np.add.at(chance, tree[0][both], CHANCE * (first.middle[at] == second.middle[there]))
    distinct = np.array([len(np.unique(column[column > NAN_FIRST])) for column in keys.T])
    hardly_repeat = distinct >= 0.99 * np.sum(keys > NAN_FIRST, axis=0)
    counts = hardly_repeat & (asked > 0)
    excess = found - chance - 1
    total, asked_in_all = found[counts].sum() - chance[counts].sum(), asked[counts].sum()
    many = total >= max(FEW, 0.01 * asked_in_all) and 2 * np.sum(excess[counts] > 0) >= np.sum(counts)
    return (int(found[counts].sum()), int(asked_in_all)) if many and 2 * np.sum(counts) >= np.sum(asked > 0) else None


class _Edges(NamedTuple):
    """Rows next to the tests of a tree: between which of the given rows each test with rows on both sides cuts."""

    test: np.ndarray
    low: np.ndarray
    high: np.ndarray
    """Order keys of the largest value that goes left and the smallest that goes right."""

    @property
    def middle(self) -> np.ndarray:
        """Return keys of the thresholds that lie halfway, as scikit-learn's best tests do."""
        return order_key_at_or_below(_value_of(self.low) / 2 + _value_of(self.high) / 2)


def _edges(tree: tuple, keys: np.ndarray, rows: np.ndarray) -> _Edges:
    feature, threshold, child, missing_right = tree
    low, high = np.full(len(child), NAN_FIRST, np.int64), np.full(len(child), -int(NAN_FIRST), np.int64)
    node = np.zeros(len(rows), np.int64)
    while len(rows):
        inner = child[node] != node
        rows, node = rows[inner], node[inner]
        key = keys[rows, np.maximum(feature[node], 0)]
        absent = key == NAN_FIRST
        right = np.where(absent, missing_right[node], key > threshold[node])
        # Of each test the nearest row on either side: the largest that goes left, the smallest that goes right.
        np.maximum.at(low, node[~right & ~absent], key[~right & ~absent])
        np.minimum.at(high, node[right & ~absent], key[right & ~absent])
        node = child[node] + right
    test = np.flatnonzero((low > NAN_FIRST) & (high < -int(NAN_FIRST)))
    return _Edges(test, low[test], high[test])


def _value_of(keys: np.ndarray) -> np.ndarray:
    keys = keys.astype(np.int64)
    return np.where(keys < 0, NAN_FIRST - keys, keys).astype(np.int32).view(np.float32).astype(np.float64)


def fit_leaves(model: Any, values: np.ndarray | SparseRows, position: np.ndarray) -> str | None:
    """Return how leaves of a model of scikit-learn get all rows that grew them, or none but such; None if they do not.

    The sample, and whatever holds it, brings each leaf at least the rows that grew it. A part of the sample brings no
    leaf more, where trees have no bags. New rows do neither. How many leaves they would miss is seen from rows that are
    drawn of the given ones with replacement.
    """
    in_leaves, by_class = _in_leaves(model, values), not has_bags(model)
    if not in_leaves:
        return None
    n_classes, draw = len(getattr(model, "classes_", ())), np.random.default_rng(0)
    found = [_cells(tree, leaf, position, n_classes, by_class=by_class) for tree, leaf in in_leaves]
    fewer = lambda came, grown: np.sum(came < grown)
    more = lambda came, grown: np.sum(came > grown)
    if _never(fewer, found, draw):
        return "every leaf gets at least as many of them as it was grown on"
    return "no leaf gets more of them than it was grown on" if by_class and _never(more, found, draw) else None


def _in_leaves(model: Any, values: np.ndarray | SparseRows) -> list[tuple[Any, np.ndarray]]:
    """Return trees of a model of scikit-learn, each with the leaf of each row; none of other models."""
    trees = [getattr(one, "tree_", None) for one in getattr(model, "estimators_", [model])]
    if isinstance(model, Forest) or any(tree is None for tree in trees):
        return []
    found, draw = [], np.random.default_rng(0)
    rows: Any = values.matrix() if isinstance(values, SparseRows) else np.ascontiguousarray(values, np.float32)
    for t in draw.permutation(len(trees))[: max(WORK // len(values), 1)]:
        own = rows[:, model.estimators_features_[t]] if hasattr(model, "estimators_features_") else rows
        found.append((trees[t], trees[t].apply(own if isinstance(values, SparseRows) else np.ascontiguousarray(own))))
    return found


def _cells(tree: Any, leaf: np.ndarray, position: np.ndarray, n_classes: int, *, by_class: bool) -> tuple:
    """Return the cell of each row in a tree, and how many rows grew each: leaves, by class where weights allow."""
    grown = np.where(tree.children_left < 0, tree.n_node_samples, 0)
    counts = tree.value[:, 0] * grown[:, None]
    if by_class and counts.shape[1] == n_classes and np.allclose(counts, np.rint(counts), atol=1e-6 * grown.max()):
        return leaf * n_classes + position, np.rint(counts).ravel()
    return leaf, grown.astype(float)


def _never(wrong: Any, found: list[tuple], draw: np.random.Generator) -> bool:
    """Return whether no cell is wrong, and that is no chance: of rows drawn with replacement many always are."""
    number = lambda weight: sum(wrong(np.bincount(cell, weight, minlength=len(grown)), grown) for cell, grown in found)
    if number(None):
        return False
    n = len(found[0][0])
    others = [number(np.bincount(draw.integers(0, n, n), minlength=n)) for _ in range(DRAWS)]
    mean, variance = np.mean(others), np.var(others)
    # Trees that are alike miss leaves together: their number is as of a negative binomial distribution.
    size = mean**2 / (variance - mean) if variance > mean else np.inf
    return bool(mean >= RARE and (np.isinf(size) or size * np.log1p(mean / size) >= RARE))


def how_targets_are_known(model: Any, trees: Trees, values: np.ndarray | SparseRows, y: np.ndarray) -> str | None:
    """Return why a forest of numbers seems to have been grown on these rows, or on many; None if nothing says so."""
    if halfway := halfway_tests(trees, values):
        return f"{halfway[0]} of {halfway[1]} thresholds lie just halfway between two of them"
    return fit_leaves(model, values, np.zeros(len(y), np.int64)) or _same_targets(model, values, y)


def _same_targets(model: Any, values: np.ndarray | SparseRows, y: np.ndarray) -> str | None:
    """Return how leaves that hold one row hold the targets of these; None if that may be chance.

    Chance is how often two of these rows that share such a leaf have the same target.
    """
    some = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    y, found, cells, alike, pairs = y[some], 0, 0, 0, 0
    for tree, leaf in _in_leaves(model, values[some]):
        single = np.flatnonzero(tree.n_node_samples[leaf] == 1)
        found += int(np.sum(np.isclose(tree.value[leaf[single], 0, 0], y[single], rtol=1e-12, atol=0)))
        cells += len(single)
        single = single[np.argsort(leaf[single], kind="stable")]
        shared = leaf[single][1:] == leaf[single][:-1]
        alike += int(np.sum(shared & (y[single][1:] == y[single][:-1])))
        pairs += int(np.sum(shared))
    chance = alike / pairs if pairs >= FEW_PAIRS else 1 - len(np.unique(y)) / len(y)
    if found - chance * cells <= max(FEW_PAIRS, KNOWN * cells):
        return None
    return f"{found} of {cells} leaves of one row that they reach hold their very targets"


def warn_of_seen(model: Any, values: np.ndarray | SparseRows, position: np.ndarray | None = None) -> None:
    """Warn if leaves of a model of scikit-learn know these rows: by how many they get, or by whose labels they hold.

    ``position`` are the labels, as positions of classes; a regressor's rows have none.
    """
    some = np.random.default_rng(0).permutation(len(values))[:MOST_ROWS]
    in_leaves = _in_leaves(model, values[some])
    if not in_leaves or len(some) < 2 * PARTS:
        return
    part = np.arange(len(some)) % PARTS
    ratio, error = _ratio_of_sizes(in_leaves, part)
    in_bag = np.mean([tree.n_node_samples[0] for tree, _ in in_leaves])
    share = (1 + len(some) / in_bag - ratio) / 2 * getattr(model, "_n_samples", in_bag) / len(some)
    reason = f"their numbers in its leaves differ from the sample's by {ratio:.2f} of the least for new rows"
    seen = ratio + DEVIATIONS * error < 1
    if not seen and position is not None:
        ratio, error = _ratio_of_labels(in_leaves, part, position[some], len(model.classes_))
        share, seen = 1 - ratio, ratio + DEVIATIONS_OF_LABELS * error < 1
        reason = (
            "of two that share a leaf of one row, and the row that grew it, the leaf's has the label that no other has "
            f"{ratio:.2f} times as often as new rows would make it"
        )
    if seen:
        warn(
            f"about {np.clip(share, 0.01, 1):.0%} of {len(values)} rows that are to be new to the "
            f"{type(model).__name__} seem to be of the sample that grew it: {reason}. Its answers know their labels, "
            "and what is made of them promises too much. Pass rows that were held out."
        )


def _ratio_of_sizes(in_leaves: list[tuple], part: np.ndarray) -> tuple[float, float]:
    r"""Return how far numbers of rows in leaves are from the leaves' sizes, 1 the least of new rows, and its error.

    New rows are drawn alike, and reach the leaves of a tree with chances p. Their numbers c differ from any numbers k
    by :math:`E \sum (c - k)^2 \ge n (1 - \sum p^2)`. A row that grew the leaf is in both of c and k, the leaf's size,
    so that these differ by less. Were both drawn by the same chances, the share s of such rows would make the ratio of
    both sides 1 + n/K - 2 s n/N, for N rows of the sample and K of a tree's bag.
    """
    apart, least = np.zeros(PARTS + 1), np.zeros(PARTS + 1)
    for tree, leaf in in_leaves:
        size = np.where(tree.children_left < 0, tree.n_node_samples, 0)
        came = np.bincount(part * len(size) + leaf, minlength=PARTS * len(size)).reshape(PARTS, -1)
        came = np.concatenate([came.sum(axis=0) - came, came.sum(axis=0)[None]])  # without each part, and all
        n = came.sum(axis=1)
        apart += np.sum((came - size * (n / size.sum())[:, None]) ** 2, axis=1)
        least += n - np.sum(came * (came - 1), axis=1) / (n - 1)
    return _jackknife(apart / np.maximum(least, 1))


def _ratio_of_labels(
    in_leaves: list[tuple], part: np.ndarray, position: np.ndarray, n_classes: int
) -> tuple[float, float]:
    """Return how often a leaf's row alone has the odd label, where 1 is the least of new rows; its standard error.

    Of two new rows in a leaf that one row grew, and that row, any is as likely as the others to have the label that
    neither of the two others has. The leaf's row is even more likely: a node is cut where its labels differ. But a row
    that grew the leaf has the leaf's label, so the odd label is never the leaf's. The ratio is 1 less the share of
    pairs with such a row, which is about the share of such rows.
    """
    odd, split = np.zeros(PARTS + 1), np.zeros(PARTS + 1)
    for tree, leaf in in_leaves:
        if tree.value.shape[2] != n_classes:  # a bag that lacks a class numbers the others anew
            continue
        rows = np.flatnonzero((tree.children_left[leaf] < 0) & (tree.n_node_samples[leaf] == 1))
        leaves, cell = np.unique(leaf[rows], return_inverse=True)
        came = np.zeros((PARTS, len(leaves), n_classes))
        np.add.at(came, (part[rows], cell, position[rows]), 1)
        came = np.concatenate([came.sum(axis=0) - came, came.sum(axis=0)[None]])
        alike = np.take_along_axis(came, tree.value[leaves, 0].argmax(axis=1)[None, :, None], axis=2)[:, :, 0]
        pairs = lambda number: number * (number - 1) / 2
        odd += np.sum(pairs(came).sum(axis=2) - pairs(alike), axis=1)
        split += np.sum(alike * (came.sum(axis=2) - alike), axis=1)
    if split[-1] < FEW_SPLIT:
        return 1.0, 0.0
    return _jackknife(2 * odd / np.maximum(split, 1))


def _jackknife(estimates: np.ndarray) -> tuple[float, float]:
    """Return the last estimate, of all parts, and its standard error by those that leave out a part each."""
    *without, estimate = estimates
    return estimate, math.sqrt((PARTS - 1) * np.var(without))


def _rows_of_bags(model: Any, given: Given) -> int:
    """Count the rows that fit the bags of the model's own; 0 if some do not, or few could not fit by chance.

    In a tree whose bag holds a row its leaf counts the row's class. So where leaves do not count it, the row is out of
    bag: some row of the sample has to be out of all these bags at once, which by chance hardly one is.
    """
    outside = oob_mask(model, int(model._n_samples))
    wrong, n = given.own <= 0, len(outside)
    # Rows with so many leaves that miss their class that a bag of the sample fits by chance in one case of a hundred.
    rare = np.flatnonzero(n * outside.mean() ** wrong.sum(axis=1) <= 0.01)
    rare = np.random.default_rng(0).permutation(rare)[: max(50 * WORK // n, 2 * FEW)]
    if len(rare) < 2 * FEW:
        return 0
    # For each row, and each row of the sample: trees that miss the class although their bag holds that row. No clash
    # with some row of the sample is what a row of the sample has.
    clashes = wrong[rare].astype(np.float32) @ (~outside).astype(np.float32).T
    return len(rare) if np.mean(clashes.min(axis=1) == 0) >= 0.98 else 0


def _never_share(forest: Forest, given: Given) -> bool:
    """Return whether rows are in leaves that count their class, and never two in one that counts a single instance.

    The probability that k new rows in n such leaves are all in different ones is at most exp(-k (k - 1)/(2 n)), however
    the leaves' chances differ. The geometric mean over trees, times e, bounds it for all trees at once.
    """
    if (given.own <= 0).any():
        return False
    leaf, totals, exponents = np.asarray(forest.trees.is_leaf), np.asarray(forest.count_table).sum(axis=1), []
    single = leaf & (totals[np.asarray(forest.code)] == 1)
    for t in range(forest.n_trees):
        here = given.leaves[single[t, given.leaves[:, t]], t]
        if len(np.unique(here)) < len(here):
            return False
        exponents.append(len(here) * (len(here) - 1) / (2 * max(single[t].sum(), 1)))
    return math.fsum(exponents) / len(exponents) >= SURE
