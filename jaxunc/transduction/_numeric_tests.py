"""The best numeric test of a node for each of the instances that are inserted there."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Int64

from jaxunc.greedy import LOWEST, Cuts, Presorted, Queries, find_cuts

from ._scores import Change, side_scores
from ._settings import InductionSettings


class Running(NamedTuple):
    """Scores of a node's cuts under one change, ``[numeric cuts]``, and their running maxima from either end."""

    below: Int64[np.ndarray, "numeric width"]
    """Scores with the instance below the cut."""
    above: Int64[np.ndarray, "numeric width"]
    """Scores with the instance above the cut."""
    first: Int64[np.ndarray, "numeric width+1"]
    """Largest of the first scores above: none, one, two, …"""
    last: Int64[np.ndarray, "numeric width+1"]
    """Largest of the scores below from the first, the second, … on."""

    def lowest_of_first(self, row: int, end: Int[np.ndarray, " q"]) -> Int[np.ndarray, " q"]:
        """Return the lowest of the first ``end`` cuts of a row that has their largest score."""
        record = np.where(self.above[row] > self.first[row, :-1], np.arange(self.above.shape[1]), -1)
        return np.maximum.accumulate(record)[end - 1]

    def lowest_of_last(self, row: int, begin: Int[np.ndarray, " q"]) -> Int[np.ndarray, " q"]:
        """Return the lowest of the cuts of a row from ``begin`` on that has their largest score."""
        width = self.below.shape[1]
        record = np.where(self.below[row] >= self.last[row, 1:], np.arange(width), width)
        return np.minimum.accumulate(record[::-1])[::-1][np.minimum(begin, width - 1)]


def running(cuts: Cuts, below: np.ndarray, above: np.ndarray, width: int) -> Running:
    """Return both scores of every cut ``[cuts]``, as rows of ``width``, with their running maxima."""
    below, above = _by_feature(cuts, below, width), _by_feature(cuts, above, width)
    first, last = (np.full((len(below), width + 1), LOWEST) for _ in range(2))
    np.maximum.accumulate(above, axis=1, out=first[:, 1:])
    np.maximum.accumulate(below[:, ::-1], axis=1, out=last[:, -2::-1])
    return Running(below, above, first, last)


class Choice(NamedTuple):
    """The best numeric tests of some instances, feature by feature."""

    score: Int64[np.ndarray, "q numeric"]
    is_above: Bool[np.ndarray, "q numeric"]
    """Whether the instance is above the cut."""
    place: Int[np.ndarray, "q numeric"]
    scores: Running

    def cut(self, row: int, which: Int[np.ndarray, " some"]) -> Int[np.ndarray, " some"]:
        """Return the cut of a feature (its number among the feature's) that some of the instances choose."""
        place, above = self.place[which, row], self.is_above[which, row]
        return np.where(above, self.scores.lowest_of_first(row, place), self.scores.lowest_of_last(row, place))


class InsertedTests:
    """Numeric tests for instances that are no part of the node's sample.

    An instance is above the cuts with thresholds below its value. So the best of these is the largest of the first
    scores "instance above". The best of the others is the largest of the last scores "instance below".
    """

    def __init__(self, sample: Presorted, order: np.ndarray, totals: np.ndarray, settings: InductionSettings):
        self.cuts = find_cuts(sample, order, settings.boundaries)
        self._settings, self._above = settings, totals[:, None] - self.cuts.below
        self._stride, self._n_rows = sample.n, len(order)
        self._width = int(np.diff(self.cuts.start).max(initial=0)) + 1
        self._threshold = self.cuts.threshold

    def place(self, queries: Queries, rows: Int[np.ndarray, " q"]) -> Int[np.ndarray, "q numeric"]:
        """Return the number of cuts of each feature that lie below each instance."""
        cuts, value = self.cuts, queries.value[rows]
        if not len(cuts.row):
            return np.zeros(value.shape, np.intp)
        sought = queries.rank[rows] + np.arange(self._n_rows) * self._stride
        found = np.searchsorted(cuts.upper, sought, side="right")
        # The cut above which the next value lies may still be below the instance itself.
        nearest = np.minimum(found, len(cuts.row) - 1)
        passes = (found < cuts.start[1:]) & (self._threshold[nearest] < value)
        return found + passes - cuts.start[:-1]

    def choose(self, change: Change, scores: Running, place: Int[np.ndarray, "q numeric"]) -> Choice:
        """Return the best test of each feature; of two with the same score the lower one."""
        at = place + np.arange(self._n_rows) * (self._width + 1)
        above, below = scores.first.ravel()[at], scores.last.ravel()[at]
        return Choice(np.maximum(above, below), above >= below, place, scores)

    def scores(self, change: Change) -> Running:
        """Return the scores of all cuts under a change of the sample."""
        entropy, min_samples_leaf = self._settings.entropy, self._settings.min_samples_leaf
        below, above = side_scores(entropy, self.cuts.below, self._above, change, min_samples_leaf)
        return running(self.cuts, below, above, self._width)


def _by_feature(cuts: Cuts, scores: np.ndarray, width: int) -> np.ndarray:
    """Scores of cuts as rows of features, ``[numeric width]``; what is beyond a feature's cuts is the lowest."""
    table = np.full((len(cuts.start) - 1, width), LOWEST)
    table[cuts.row, np.arange(len(cuts.row)) - cuts.start[cuts.row]] = scores
    return table
