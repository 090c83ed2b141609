"""The best numeric test of a node for each of the instances that are inserted there."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Int64

from ._cuts import LOWEST, Cuts, find_cuts
from ._presorted import Presorted, Queries
from ._scores import Change, scores_with, side_scores
from ._settings import InductionSettings


class Running(NamedTuple):
    """Scores of the cuts of some rows under one change, and their running maxima from either end."""

    below: Int64[np.ndarray, "rows width"]
    """Scores with the instance below the cut."""
    above: Int64[np.ndarray, "rows width"]
    """Scores with the instance above the cut."""
    first: Int64[np.ndarray, "rows width+1"]
    """Largest of the first scores above: none, one, two, …"""
    last: Int64[np.ndarray, "rows width+1"]
    """Largest of the scores below from the first, the second, … on."""

    def lowest_of_first(self, row: Int[np.ndarray, " q"], end: Int[np.ndarray, " q"]) -> Int[np.ndarray, " q"]:
        """Return the lowest of the first ``end`` cuts of each row that has their largest score."""
        rows, at = np.unique(row, return_inverse=True)
        record = np.where(self.above[rows] > self.first[rows, :-1], np.arange(self.above.shape[1]), -1)
        return np.maximum.accumulate(record, axis=1)[at, end - 1]

    def lowest_of_last(self, row: Int[np.ndarray, " q"], begin: Int[np.ndarray, " q"]) -> Int[np.ndarray, " q"]:
        """Return the lowest of the cuts of each row from ``begin`` on that has their largest score."""
        rows, at = np.unique(row, return_inverse=True)
        width = self.below.shape[1]
        record = np.where(self.below[rows] >= self.last[rows, 1:], np.arange(width), width)
        return np.minimum.accumulate(record[:, ::-1], axis=1)[:, ::-1][at, np.minimum(begin, width - 1)]


class CutsOfRows(NamedTuple):
    """Some rows of cuts, and where their cuts stand in a table that has a line for each of these rows."""

    which: Int[np.ndarray, " some"] | slice
    line: Int[np.ndarray, " some"]
    column: Int[np.ndarray, " some"]
    shape: tuple[int, int]

    @classmethod
    def of(cls, cuts: Cuts, rows: Int[np.ndarray, " rows"], width: int) -> "CutsOfRows":
        """Find the cuts of rows, given by increasing numbers."""
        shape, row = (len(rows), width), cuts.row
        if len(rows) == len(cuts.start) - 1:
            return cls(slice(None), row, np.arange(len(row)) - cuts.start[row], shape)
        line = np.full(len(cuts.start) - 1, -1)
        line[rows] = np.arange(len(rows))
        which = np.flatnonzero(line[row] >= 0)
        return cls(which, line[row[which]], which - cuts.start[row[which]], shape)

    def running(self, below: Int64[np.ndarray, " some"], above: Int64[np.ndarray, " some"]) -> Running:
        """Return both scores of every cut as a table, with their running maxima."""
        tables = []
        for scores in (below, above):
            # What is beyond a row's cuts is the lowest.
            tables.append(np.full(self.shape, LOWEST))
            tables[-1][self.line, self.column] = scores
        below, above = tables
        first, last = (np.full((self.shape[0], self.shape[1] + 1), LOWEST) for _ in range(2))
        np.maximum.accumulate(above, axis=1, out=first[:, 1:])
        np.maximum.accumulate(below[:, ::-1], axis=1, out=last[:, -2::-1])
        return Running(below, above, first, last)


class Choice(NamedTuple):
    """The best numeric tests of some instances, feature by feature."""

    score: Int64[np.ndarray, "q numeric"]
    is_above: Bool[np.ndarray, "q numeric"]
    """Whether the instance is above the cut."""
    place: Int[np.ndarray, "q numeric"]
    line: Int[np.ndarray, "q numeric"]
    scores: Running

    def cut(self, which: Int[np.ndarray, " some"], feature: Int[np.ndarray, " some"]) -> Int[np.ndarray, " some"]:
        """Return the cuts of features (their numbers among each feature's) that some of the instances choose."""
        place, above, line = (part[which, feature] for part in (self.place, self.is_above, self.line))
        return np.where(above, self.scores.lowest_of_first(line, place), self.scores.lowest_of_last(line, place))


class InsertedTests:
    """Numeric tests for instances that are no part of the nodes' samples.

    The nodes are of the same size, and each has a row for every numeric feature. An instance is above the cuts with
    thresholds below its value. So the best of these is the largest of the first scores "instance above". The best of
    the others is the largest of the last scores "instance below".
    """

    def __init__(self, sample: Presorted, order: np.ndarray, totals: np.ndarray, settings: InductionSettings):
        cuts = find_cuts(sample, order, settings.boundaries)
        self._settings, self._features, self._stride = settings, np.arange(len(sample.numeric)), sample.n
        above = totals[cuts.row // max(len(sample.numeric), 1)].T - cuts.below
        which = contenders(cuts, above, order.shape[1], len(sample.numeric), settings)
        self.cuts, self._above = cuts.some(which), above[:, which]
        self._width = int(np.diff(self.cuts.start).max(initial=0)) + 1
        self._threshold = self.cuts.threshold

    def rows(self, nodes: Int[np.ndarray, " some"]) -> Int[np.ndarray, "some numeric"]:
        """Return the rows of some nodes."""
        return nodes[:, None] * len(self._features) + self._features

    def place(
        self, queries: Queries, instances: Int[np.ndarray, " q"], node: Int[np.ndarray, " q"]
    ) -> Int[np.ndarray, "q numeric"]:
        """Return the number of cuts of each feature that lie below each instance, in the node where it is."""
        cuts, rows = self.cuts, self.rows(node)
        place = np.zeros(rows.shape, np.intp)
        # Most features have no cut that may be the best.
        q, feature = np.nonzero((cuts.start[1:] > cuts.start[:-1])[rows])
        if not len(q):
            return place
        row, at = rows[q, feature], (instances[q], feature)
        found = np.searchsorted(cuts.upper, queries.rank[at] + row * self._stride, side="right")
        # The cut above which the next value lies may still be below the instance itself.
        nearest = np.minimum(found, len(cuts.row) - 1)
        passes = (found < cuts.start[row + 1]) & (self._threshold[nearest] < queries.value[at])
        place[q, feature] = found + passes - cuts.start[row]
        return place

    def scores(self, change: Change, nodes: Int[np.ndarray, " some"]) -> Running:
        """Return the scores of all cuts of some nodes under a change of the sample."""
        some = CutsOfRows.of(self.cuts, self.rows(nodes).ravel(), self._width)
        below, above = self.cuts.below[:, some.which], self._above[:, some.which]
        return some.running(*side_scores(self._settings.entropy, below, above, change, self._settings.min_samples_leaf))

    def choose(self, scores: Running, place: Int[np.ndarray, "q numeric"], node: Int[np.ndarray, " q"]) -> Choice:
        """Return the best test of each feature; of two with the same score the lower one.

        ``node`` says which of the nodes that the scores are of each instance is in.
        """
        line = self.rows(node)
        at = place + line * (self._width + 1)
        above, below = scores.first.ravel()[at], scores.last.ravel()[at]
        return Choice(np.maximum(above, below), above >= below, place, line, scores)


def contenders(
    cuts: Cuts, above: Int[np.ndarray, "classes cuts"], size: int, n_numeric: int, settings: InductionSettings
) -> Int[np.ndarray, " some"]:
    """Return the cuts that may be the best of their node for some inserted instance.

    With d(i) = F(i+1) - F(i), an instance of class c on a side of n instances, n_c of them of its class, changes the
    score by d(n_c) - d(n). In a node of m instances this lies in [-D, U], whatever the instance. So a cut is never the
    best if its score without the instance is further behind than D + U.
    """
    entropy, least = settings.entropy, settings.min_samples_leaf
    steps = np.diff(entropy[: size + 2])
    largest = np.maximum.accumulate(steps)
    # U is 0 but for rounding, where the table has so few digits that steps may decrease.
    reach = largest[-1] + (largest - steps).max()
    # The instance may bring a side that lacks one to the least size: no test for others, so none to be measured by.
    scores = scores_with(entropy, cuts.below, above, least - 1)
    is_test_for_all = np.minimum(cuts.size, size - cuts.size) >= least
    reliable = np.append(np.where(is_test_for_all, scores, LOWEST), LOWEST)
    best = np.maximum.reduceat(reliable, cuts.start[: -1 : max(n_numeric, 1)])
    return np.flatnonzero(scores >= best[cuts.row // max(n_numeric, 1)] - reach)
