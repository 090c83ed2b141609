"""Growth of one greedy tree: at every node the test of largest information gain (on the host)."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from ._cuts import LOWEST, find_cuts, value_counts
from ._entropy_table import entropy_table
from ._presorted import Presorted


class SplitLimits(NamedTuple):
    """Limits on the splits of a node."""

    boundaries: bool
    min_samples_leaf: int
    max_depth: int | None


class ChosenTest(NamedTuple):
    """A test of a node: ``value <= threshold`` of a numeric feature, or ``code == threshold`` of a nominal one."""

    feature: int
    threshold: float
    members: Int[np.ndarray, " members"]
    """Instances that pass the test, which go left."""


class GreedyTree(NamedTuple):
    """A tree by levels, a nominal test being two: see `grow_greedy_tree`."""

    feature: list[int]
    threshold: list[float]
    child: list[int]
    counts: list[np.ndarray]
    depth: int


def best_test(sample: Presorted, order: np.ndarray, members: np.ndarray, limits: SplitLimits) -> ChosenTest | None:
    """Return the test of largest gain; of several the first feature's, with its lowest threshold. None if no gain."""
    n, entropy = len(members), entropy_table(sample.n)
    totals = np.bincount(sample.label[members], minlength=sample.n_classes)
    if n < 2 * limits.min_samples_leaf or np.count_nonzero(totals) < 2:
        return None
    best, test = entropy[totals].sum() - entropy[n], None
    cuts = find_cuts(sample, order, limits.boundaries)
    scores = _scores(entropy, cuts.below, totals[:, None], limits.min_samples_leaf)
    # Features are looked at in their own order, whatever their kind.
    firsts = np.full(sample.columns.number, LOWEST)
    nominal_scores = np.zeros((0, 0))
    if len(cuts.row):
        # Features without cuts are left out: reduceat would give them the next feature's first score.
        filled = cuts.start[:-1] < cuts.start[1:]
        firsts[sample.numeric[filled]] = np.maximum.reduceat(scores, cuts.start[:-1][filled])
    if len(sample.nominal):
        counts = value_counts(sample, members)
        nominal_scores = _scores(entropy, counts, totals[:, None, None], limits.min_samples_leaf)
        firsts[sample.nominal] = nominal_scores.max(axis=1)
    feature = int(np.argmax(firsts))
    if firsts[feature] <= best:
        return test
    if (row := np.flatnonzero(sample.numeric == feature)).size:
        begin, end = cuts.start[row[0]], cuts.start[row[0] + 1]
        cut = begin + np.argmax(scores[begin:end])
        return ChosenTest(feature, float(cuts.threshold[cut]), order[row[0], : cuts.size[cut]])
    row = np.flatnonzero(sample.nominal == feature)[0]
    code = int(np.argmax(nominal_scores[row]))
    return ChosenTest(feature, code, members[sample.code[row, members] == code])


def _scores(entropy: np.ndarray, inside: np.ndarray, totals: np.ndarray, min_samples_leaf: int) -> np.ndarray:
    """Return minus the entropy of the two sides, times the instances; the lowest score where a side is too small."""
    outside = totals - inside
    n_inside, n_outside = inside.sum(axis=0), outside.sum(axis=0)
    scores = entropy[inside].sum(axis=0) + entropy[outside].sum(axis=0) - entropy[n_inside] - entropy[n_outside]
    return np.where(np.minimum(n_inside, n_outside) >= max(min_samples_leaf, 1), scores, LOWEST)


def split(order: np.ndarray, members: np.ndarray, chosen: np.ndarray, n: int):
    """Split orders and members into those of the chosen instances and of the others, sorted as before."""
    flags = np.zeros(n, bool)
    flags[chosen] = True
    at, among = flags[order], flags[members]
    rows = len(order)
    inside = order[at].reshape(rows, len(chosen)), members[among]
    return inside, (order[~at].reshape(rows, len(members) - len(chosen)), members[~among])


def grow_greedy_tree(sample: Presorted, limits: SplitLimits) -> GreedyTree:
    """Grow a tree level by level.

    A nominal test "code = v" is two tests of the routing arrays, x ≤ v and x ≤ v - 1, and its right child belongs to
    both: three nodes side by side are the second test, the rest, and the instances with code v.
    """
    members = np.arange(sample.n, dtype=np.int32)
    kinds = sample.columns.is_nominal
    tree = GreedyTree([0], [0.0], [0], [np.zeros(sample.n_classes, np.int64)], 0)
    queue, depth = [(0, 0, 0, sample.order, members)], 0
    while queue:
        below = []
        for node, level, tests, order, members in queue:
            tree.counts[node] = np.bincount(sample.label[members], minlength=sample.n_classes)
            test = None if tests == limits.max_depth else best_test(sample, order, members, limits)
            depth = max(depth, level)
            if test is None:
                continue
            inside, outside = split(order, members, test.members, sample.n)
            first = len(tree.feature)
            tree.feature[node], tree.threshold[node], tree.child[node] = test.feature, test.threshold, first
            # Children begin as leaves, and become inner nodes when their turn comes.
            _append_leaves(tree, 3 if kinds[test.feature] else 2)
            if kinds[test.feature]:
                tree.feature[first], tree.threshold[first] = test.feature, test.threshold - 1
                tree.child[first] = first + 1
                level += 1
                inside, outside = outside, inside
                first += 1
            below += [(first, level + 1, tests + 1, *inside), (first + 1, level + 1, tests + 1, *outside)]
        queue = below
    return tree._replace(depth=depth)


def _append_leaves(tree: GreedyTree, number: int) -> None:
    begin = len(tree.child)
    tree.feature.extend([0] * number)
    tree.threshold.extend([0.0] * number)
    tree.child.extend(range(begin, begin + number))
    tree.counts.extend([np.zeros_like(tree.counts[0])] * number)
