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

from jaxunc.greedy import LOWEST, Presorted, Queries, find_cuts, halfway

from ._numeric_tests import Running, running
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

    def __getitem__(self, which) -> "Place":
        return Place(*(part[which] for part in tuple(self)))


class OwnChoice(NamedTuple):
    """The best numeric tests of some instances, feature by feature."""

    score: Int64[np.ndarray, "q numeric"]
    kind: Int[np.ndarray, "q numeric"]
    """Kind of the cut, 0: further below, 1: beside and below, 2: beside and above, 3: further above."""
    place: Place
    scores: Running

    @property
    def is_above(self) -> np.ndarray:
        """Whether the instance is above the cut."""
        return self.kind < 2

    def cut(self, row: int, which: Int[np.ndarray, " some"]) -> Int[np.ndarray, " some"]:
        """Return the cut of a feature (its number among the feature's) that some of the instances choose."""
        left, right, following = (part[which, row] for part in (self.place.left, self.place.right, self.place.next))
        candidates = (
            self.scores.lowest_of_first(row, left),
            left,
            right,
            self.scores.lowest_of_last(row, following),
        )
        return np.choose(self.kind[which, row], candidates)


class OwnTests:
    """Numeric tests for instances of the node's sample.

    Cuts, boundaries and thresholds are those of the sample without the instance. Only the two cuts beside it differ:
    where it shares its value with others the blocks' classes may; where it does not, one of the two partitions is left,
    with the instance on the side of the nearer neighbour.
    """

    def __init__(self, sample: Presorted, order: np.ndarray, totals: np.ndarray, settings: InductionSettings):
        self._sample, self._settings = sample, settings
        # All cuts, not the boundaries alone: whether a cut beside x is a boundary may change when x is left out.
        self.cuts = cuts = find_cuts(sample, order, boundaries=False)
        self._above = totals[:, None] - cuts.below
        self._size, self._n_rows = order.shape[1], len(order)
        self._width = int(np.diff(cuts.start).max(initial=0)) + 1

    def scores(self, change: Change) -> tuple[Running, np.ndarray, np.ndarray]:
        """Return the scores of all cuts under a change, also of those that are no tests."""
        entropy, min_samples_leaf = self._settings.entropy, self._settings.min_samples_leaf
        below, above = side_scores(entropy, self.cuts.below, self._above, change, min_samples_leaf)
        # Running maxima see tests only. The plain scores keep every cut: `cuts_beside` decides about those beside x.
        no_test = ~self.cuts.is_boundary if self._settings.boundaries else np.zeros(len(below), bool)
        tests = running(self.cuts, np.where(no_test, LOWEST, below), np.where(no_test, LOWEST, above), self._width)
        # The last entry is what index -1 reads: a cut beside x that is no test (`choose`).
        return tests, np.append(below, LOWEST), np.append(above, LOWEST)

    def place(self, queries: Queries, rows: Int[np.ndarray, " q"]) -> Place:
        """Return the places of instances of the sample."""
        cuts, n_cuts = self.cuts, len(self.cuts.row)
        begin, end = cuts.start[:-1], cuts.start[1:]
        if not n_cuts:
            zeros = np.zeros((len(rows), self._n_rows), np.intp)
            return Place(zeros, zeros, zeros > 0, zeros > 0, zeros)
        # `upper` grows from feature to feature by the number of ranks, so one sorted array serves all features.
        rank = queries.rank[rows] + np.arange(self._n_rows) * self._sample.n
        # The first cut whose upper value is not below x: the cut beside x if that value is x's own.
        left = np.searchsorted(cuts.upper, rank)
        has_left = (left < end) & (cuts.upper[np.minimum(left, n_cuts - 1)] == rank)
        right = left + has_left
        has_right = right < end
        left_stands, right_stands = self._beside(queries, rows, left, right, has_left, has_right)
        return Place(left - begin, right - begin, left_stands, right_stands, right + has_right - begin)

    def _beside(self, queries, rows, left, right, has_left, has_right):
        """Return whether the cuts beside each instance are tests, the instance being left out."""
        cuts, last = self.cuts, len(self.cuts.row) - 1
        # Without a cut on a side the index is only kept in range: ``has_left`` and ``has_right`` mask what it reads.
        left, right = np.minimum(left, last), np.minimum(right, last)
        from_, to = np.where(has_left, cuts.size[left], 0), np.where(has_right, cuts.size[right], self._size)
        alone = to - from_ == 1
        goes_left = queries.value[rows] <= halfway(cuts.lower_value[left], cuts.upper_value[right])
        own = np.where(has_left, cuts.upper_class[left], cuts.lower_class[right])
        # Where several classes share the value of x, the others may have one class alone. To tell needs counts, so only
        # these places are looked at.
        mixed = np.argwhere((own < 0) & (has_left | has_right))
        if self._settings.boundaries and len(mixed):
            own[tuple(mixed.T)] = self._class_without(rows, mixed, left, right, has_left, has_right)
        beside = Beside(has_left, has_right, alone, goes_left, cuts.lower_class[left], own, cuts.upper_class[right])
        return cuts_beside(beside, self._settings.boundaries)

    def _class_without(self, rows, mixed, left, right, has_left, has_right) -> np.ndarray:
        """Return the class of the other instances with an instance's value; -1 if they have several."""
        cuts, at = self.cuts, tuple(mixed.T)
        totals = (cuts.below[:, 0] + self._above[:, 0])[:, None]
        # Counts below a cut are sums over all lower values; the value's own counts are their difference.
        upto = np.where(has_right[at], cuts.below[:, right[at]], totals)
        counts = upto - np.where(has_left[at], cuts.below[:, left[at]], 0)
        counts[self._sample.label[rows[mixed[:, 0]]], np.arange(len(mixed))] -= 1
        return np.where(np.count_nonzero(counts, axis=0) == 1, counts.argmax(axis=0), -1)

    def choose(self, change: Change, scores, place: Place) -> OwnChoice:
        """Return the best test of each feature; of several with the same score the lowest."""
        tests, below, above = scores
        row = np.arange(self._n_rows)
        at = row * (self._width + 1)
        further_below = tests.first.ravel()[place.left + at]
        further_above = tests.last.ravel()[place.next + at]
        begin = self.cuts.start[:-1]
        beside_below = above[np.where(place.left_stands, place.left + begin, -1)]
        beside_above = below[np.where(place.right_stands, place.right + begin, -1)]
        # In the order of the cuts, so that argmax takes the lowest of equal scores.
        parts = np.stack([further_below, beside_below, beside_above, further_above])
        return OwnChoice(parts.max(axis=0), parts.argmax(axis=0), place, tests)
