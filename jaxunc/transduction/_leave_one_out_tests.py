"""The best numeric test of a node for instances of its own sample that change their class: leave-one-out.

    values   2   3   3   5   7   9        the instance x has the value 5
    cuts       |       |   |   |
    kind       0       1   2   3

All cuts but the two beside x are the same with and without it, only their counts differ: running maxima over the node's
cuts serve all instances. The cuts beside x (kinds 1 and 2) are judged one by one. If nobody shares the value of x, they
are one cut without it, between 3 and 7, and x falls on the side of the nearer value: only one of the two is left.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Int64

from ._cuts import LOWEST, find_cuts, halfway
from ._numeric_tests import CutsOfRows, Running
from ._presorted import Presorted, Queries
from ._scores import Beside, Change, cuts_beside, side_scores
from ._settings import InductionSettings


class Place(NamedTuple):
    """Places of instances among the cuts of a node; the two cuts beside an instance are judged without it."""

    left: Int[np.ndarray, "q numeric"]
    """Number of cuts below, less the one beside the instance; so also the number of that cut."""
    right: Int[np.ndarray, "q numeric"]
    """Number of the cut beside the instance and above it."""
    left_stands: Bool[np.ndarray, "q numeric"]
    """Whether the cut beside and below the instance is a test."""
    right_stands: Bool[np.ndarray, "q numeric"]
    next: Int[np.ndarray, "q numeric"]
    """Number of the first cut above that is not beside the instance."""
    row: Int[np.ndarray, "q numeric"]
    """Row of the instance's node for each feature."""


class OwnChoice(NamedTuple):
    """The best numeric tests of some instances, feature by feature."""

    score: Int64[np.ndarray, "q numeric"]
    kind: Int[np.ndarray, "q numeric"]
    """Kind of the cut, 0: further below, 1: beside and below, 2: beside and above, 3: further above."""
    place: Place
    line: Int[np.ndarray, "q numeric"]
    scores: Running

    @property
    def is_above(self) -> np.ndarray:
        """Whether the instance is above the cut."""
        return self.kind < 2

    def cut(self, which: Int[np.ndarray, " some"], feature: Int[np.ndarray, " some"]) -> Int[np.ndarray, " some"]:
        """Return the cuts of features (their numbers among each feature's) that some of the instances choose."""
        places, line = (self.place.left, self.place.right, self.place.next), self.line[which, feature]
        left, right, following = (part[which, feature] for part in places)
        candidates = (
            self.scores.lowest_of_first(line, left),
            left,
            right,
            self.scores.lowest_of_last(line, following),
        )
        return np.choose(self.kind[which, feature], candidates)


class OwnTests:
    """Numeric tests for instances of the nodes' samples.

    The nodes are of the same size, and each has a row for every numeric feature. Cuts, boundaries and thresholds are
    those of the sample without the instance. Only the two cuts beside it differ: where it shares its value with others
    the blocks' classes may; where it does not, one of the two partitions is left, with the instance on the side of the
    nearer neighbour.
    """

    def __init__(self, sample: Presorted, order: np.ndarray, totals: np.ndarray, settings: InductionSettings):
        self._sample, self._settings = sample, settings
        # All cuts, not the boundaries alone: whether a cut beside x is a boundary may change when x is left out.
        self.cuts = cuts = find_cuts(sample, order, boundaries=False)
        self._totals, self._features = totals, np.arange(len(sample.numeric))
        self._above = totals[cuts.row // max(len(sample.numeric), 1)].T - cuts.below
        self._size = order.shape[1]
        self._width = int(np.diff(cuts.start).max(initial=0)) + 1
        self._is_boundary = cuts.is_boundary

    def rows(self, nodes: Int[np.ndarray, " some"]) -> Int[np.ndarray, "some numeric"]:
        """Return the rows of some nodes."""
        return nodes[:, None] * len(self._features) + self._features

    def scores(self, change: Change, nodes: Int[np.ndarray, " some"]) -> tuple[Running, np.ndarray, np.ndarray]:
        """Return the scores of all cuts of some nodes under a change, also of those that are no tests."""
        some = CutsOfRows.of(self.cuts, self.rows(nodes).ravel(), self._width)
        below, above = side_scores(
            self._settings.entropy,
            self.cuts.below[:, some.which],
            self._above[:, some.which],
            change,
            self._settings.min_samples_leaf,
        )
        # Running maxima see tests only. The plain scores keep every cut: `cuts_beside` decides about those beside x.
        no_test = ~self._is_boundary[some.which] if self._settings.boundaries else np.zeros(len(below), bool)
        tests = some.running(np.where(no_test, LOWEST, below), np.where(no_test, LOWEST, above))
        # Cuts of other nodes are never looked up. The last entry is what index -1 reads: a cut beside x that is no
        # test (`choose`).
        found = []
        for scores in (below, above):
            found.append(np.full(len(self.cuts.row) + 1, LOWEST))
            found[-1][:-1][some.which] = scores
        return tests, found[0], found[1]

    def place(self, queries: Queries, instances: Int[np.ndarray, " q"], node: Int[np.ndarray, " q"]) -> Place:
        """Return the places of instances of the samples, each in the node where it is."""
        cuts, n_cuts, row = self.cuts, len(self.cuts.row), self.rows(node)
        begin, end = cuts.start[row], cuts.start[row + 1]
        if not n_cuts:
            zeros = np.zeros(row.shape, np.intp)
            return Place(zeros, zeros, zeros > 0, zeros > 0, zeros, row)
        # `upper` grows from row to row by the number of ranks, so one sorted array serves all rows.
        rank = queries.rank[instances] + row * self._sample.n
        # The first cut whose upper value is not below x: the cut beside x if that value is x's own.
        left = np.searchsorted(cuts.upper, rank)
        has_left = (left < end) & (cuts.upper[np.minimum(left, n_cuts - 1)] == rank)
        right = left + has_left
        has_right = right < end
        left_stands, right_stands = self._beside(queries, instances, node, left, right, has_left, has_right)
        return Place(left - begin, right - begin, left_stands, right_stands, right + has_right - begin, row)

    def _beside(self, queries, instances, node, left, right, has_left, has_right):
        """Return whether the cuts beside each instance are tests, the instance being left out."""
        cuts, last = self.cuts, len(self.cuts.row) - 1
        # Without a cut on a side the index is only kept in range: ``has_left`` and ``has_right`` mask what it reads.
        left, right = np.minimum(left, last), np.minimum(right, last)
        from_, to = np.where(has_left, cuts.size[left], 0), np.where(has_right, cuts.size[right], self._size)
        alone = to - from_ == 1
        goes_left = queries.value[instances] <= halfway(cuts.lower_value[left], cuts.upper_value[right])
        own = np.where(has_left, cuts.upper_class[left], cuts.lower_class[right])
        # Where several classes share the value of x, the others may have one class alone. To tell needs counts, so only
        # these places are looked at.
        mixed = np.argwhere((own < 0) & (has_left | has_right))
        if self._settings.boundaries and len(mixed):
            own[tuple(mixed.T)] = self._class_without(instances, node, mixed, left, right, has_left, has_right)
        beside = Beside(has_left, has_right, alone, goes_left, cuts.lower_class[left], own, cuts.upper_class[right])
        return cuts_beside(beside, self._settings.boundaries)

    def _class_without(self, instances, node, mixed, left, right, has_left, has_right) -> np.ndarray:
        """Return the class of the other instances with an instance's value; -1 if they have several."""
        cuts, at = self.cuts, tuple(mixed.T)
        # Counts below a cut are sums over all lower values; the value's own counts are their difference.
        upto = np.where(has_right[at], cuts.below[:, right[at]], self._totals[node[mixed[:, 0]]].T)
        counts = upto - np.where(has_left[at], cuts.below[:, left[at]], 0)
        counts[self._sample.label[instances[mixed[:, 0]]], np.arange(len(mixed))] -= 1
        return np.where(np.count_nonzero(counts, axis=0) == 1, counts.argmax(axis=0), -1)

    def choose(self, scores, place: Place, node: Int[np.ndarray, " q"]) -> OwnChoice:
        """Return the best test of each feature; of several with the same score the lowest.

        ``node`` says which of the nodes that the scores are of each instance is in.
        """
        tests, below, above = scores
        line = self.rows(node)
        at = line * (self._width + 1)
        further_below = tests.first.ravel()[place.left + at]
        further_above = tests.last.ravel()[place.next + at]
        begin = self.cuts.start[place.row]
        beside_below = above[np.where(place.left_stands, place.left + begin, -1)]
        beside_above = below[np.where(place.right_stands, place.right + begin, -1)]
        # In the order of the cuts, so that argmax takes the lowest of equal scores.
        parts = np.stack([further_below, beside_below, beside_above, further_above])
        return OwnChoice(parts.max(axis=0), parts.argmax(axis=0), place, line, tests)
