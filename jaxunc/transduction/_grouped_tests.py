"""The best test of a node for each instance there: numeric and nominal tests of the grouped algorithm (in NumPy).

Nodes of the same size are looked at together; their tables have a row for every node and feature.

`InsertedTests` are the numeric tests for instances that are not part of the sample. The cuts below an instance are the
first of a row, and it lies below all others. So running maxima of the scores from either end serve all instances.

`LeftOutTests` are the numeric tests for instances of the sample that change their class (leave-one-out):

    values   2   3   3   5   7   9        the instance x has the value 5
    cuts       |       |   |   |
    kind       0       1   2   3

All cuts but the two beside x are the same with and without x; only their counts differ. So running maxima serve all
instances here, too, and the cuts beside x (kinds 1 and 2) are looked at one by one. If no other instance has the value
of x, these two become one cut without x, between 3 and 7. Then x falls on the side of the nearer value, and only the
cut between x and the farther value is kept.

`NominalTests` are tests for a single value, both for inserted and for left-out instances.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Int64

from ._presorted import LOWEST, Cuts, Presorted, Queries, find_cuts, halfway, value_counts
from ._scores import (
    Beside,
    Change,
    InductionSettings,
    NominalChoice,
    ScoredCode,
    choose_code,
    cuts_beside,
    parts_a_value,
    scores_with,
    side_scores,
)


class RunningMaxima(NamedTuple):
    """Scores of the cuts of some rows under one change, and their running maxima from either end."""

    below: Int64[np.ndarray, "rows width"]
    """Scores with the instance below the cut."""
    above: Int64[np.ndarray, "rows width"]
    """Scores with the instance above the cut."""
    best_before: Int64[np.ndarray, "rows width+1"]
    """Column i has the largest of the first i scores ``above``; `LOWEST` for i = 0."""
    best_from: Int64[np.ndarray, "rows width+1"]
    """Column i has the largest of the scores ``below`` from column i on; `LOWEST` behind the last."""

    def lowest_of_first(self, row: Int[np.ndarray, " q"], end: Int[np.ndarray, " q"]) -> Int[np.ndarray, " q"]:
        """Return, for each ``row`` and its ``end``, the position of the best of the row's first ``end`` cuts.

        The best has the largest score ``above``; of several the lowest cut.
        """
        rows, inverse = np.unique(row, return_inverse=True)
        # The columns whose score exceeds all before them: the last one up to ``end`` is the best.
        record_column = np.where(self.above[rows] > self.best_before[rows, :-1], np.arange(self.above.shape[1]), -1)
        return np.maximum.accumulate(record_column, axis=1)[inverse, end - 1]  # not used where ``end`` is 0

    def lowest_of_last(self, row: Int[np.ndarray, " q"], begin: Int[np.ndarray, " q"]) -> Int[np.ndarray, " q"]:
        """Return, for each ``row`` and its ``begin``, the position of the best of the row's cuts from ``begin`` on.

        The best has the largest score ``below``; of several the lowest cut.
        """
        rows, inverse = np.unique(row, return_inverse=True)
        width = self.below.shape[1]
        # The columns whose score is not exceeded behind them: the first one from ``begin`` on is the best.
        record_column = np.where(self.below[rows] >= self.best_from[rows, 1:], np.arange(width), width)
        return np.minimum.accumulate(record_column[:, ::-1], axis=1)[:, ::-1][inverse, np.minimum(begin, width - 1)]


class CutsOfRows(NamedTuple):
    """The cuts of some rows, and where their scores lie in a table that has a line for each of these rows."""

    index: Int[np.ndarray, " some"] | slice
    """Indices of these cuts among all."""
    line: Int[np.ndarray, " some"]  # line of the table with each cut's entry
    column: Int[np.ndarray, " some"]  # column of the entry: the cut's number within its row
    shape: tuple[int, int]
    """Shape of the table."""

    @classmethod
    def of(cls, cuts: Cuts, rows: Int[np.ndarray, " rows"], width: int) -> "CutsOfRows":
        """Return those of ``cuts`` that lie in the rows with the numbers ``rows``, which increase.

        The table of scores has ``width`` columns, more than any row has cuts.
        """
        row = cuts.row
        shape = (len(rows), width)
        if len(rows) == len(cuts.start) - 1:  # all rows
            return cls(slice(None), row, np.arange(len(row)) - cuts.start[row], shape)
        line = np.full(len(cuts.start) - 1, -1)
        line[rows] = np.arange(len(rows))
        index = np.flatnonzero(line[row] >= 0)
        return cls(index, line[row[index]], index - cuts.start[row[index]], shape)

    def accumulate(self, below: Int64[np.ndarray, " some"], above: Int64[np.ndarray, " some"]) -> RunningMaxima:
        """Return the scores as tables with a line for each row of cuts, and their running maxima.

        ``below`` and ``above`` are the scores of the cuts ``index``, with the instance below the cut and above it.
        """

        def as_table(scores):
            table = np.full(self.shape, LOWEST)  # which stays behind a row's cuts
            table[self.line, self.column] = scores
            return table

        below_table, above_table = as_table(below), as_table(above)
        best_before, best_from = (np.full((self.shape[0], self.shape[1] + 1), LOWEST) for _ in range(2))
        np.maximum.accumulate(above_table, axis=1, out=best_before[:, 1:])
        np.maximum.accumulate(below_table[:, ::-1], axis=1, out=best_from[:, -2::-1])  # from the last cut to the first
        return RunningMaxima(below_table, above_table, best_before, best_from)


def _rows(n_features: int, nodes: Int[np.ndarray, " some"]) -> Int[np.ndarray, "some features"]:
    """Return the numbers of the rows of ``nodes``: a node has a row for each of ``n_features`` features."""
    return nodes[:, None] * n_features + np.arange(n_features)


class Choice(NamedTuple):
    """The best test of each numeric feature for instances outside the sample, chosen by `InsertedTests`."""

    score: Int64[np.ndarray, "q numeric"]
    is_above: Bool[np.ndarray, "q numeric"]
    """Whether the instance is above the cut."""
    position: Int[np.ndarray, "q numeric"]
    """Number of the feature's cuts that lie below the instance."""
    line: Int[np.ndarray, "q numeric"]
    """Line of ``scores`` for the instance's node and the feature."""
    scores: RunningMaxima

    def cut(self, instance: Int[np.ndarray, " some"], feature: Int[np.ndarray, " some"]) -> Int[np.ndarray, " some"]:
        """Return, for each pair of ``instance`` and ``feature``, the position of the best cut within the feature's row.

        Instances and features are positions in the arrays of the choice.
        """
        position, is_above, line = (array[instance, feature] for array in (self.position, self.is_above, self.line))
        cut_below = self.scores.lowest_of_first(line, position)
        cut_above = self.scores.lowest_of_last(line, position)
        return np.where(is_above, cut_below, cut_above)


class InsertedTests:
    """Numeric tests of some nodes, for instances that are not part of the nodes' samples.

    ``order`` has the nodes' instances by increasing value (`find_cuts`), ``totals`` the nodes' class counts. Of the
    cuts below an instance, the best has the largest score with the instance ``above`` the cut; of the other cuts, the
    best has the largest score with the instance ``below``.
    """

    def __init__(self, sample: Presorted, order: np.ndarray, totals: np.ndarray, settings: InductionSettings):
        self._settings = settings
        self._n_features = len(sample.numeric)
        self._stride = sample.n  # distance of two rows in `Cuts.upper`
        cuts = find_cuts(sample, order, settings.boundaries)
        above = totals[cuts.row // max(self._n_features, 1)].T - cuts.below
        candidates = contenders(cuts, above, order.shape[1], self._n_features, settings)
        self.cuts = cuts.select(candidates)
        self._above = above[:, candidates]
        self._width = int(np.diff(self.cuts.start).max(initial=0)) + 1
        self._threshold = self.cuts.threshold

    def locate(
        self, queries: Queries, instances: Int[np.ndarray, " q"], node: Int[np.ndarray, " q"]
    ) -> Int[np.ndarray, "q numeric"]:
        """Return, for each instance and feature, how many of the feature's cuts in the instance's node lie below it.

        ``instances`` are q positions in ``queries``, and ``node`` is the node of each.
        """
        cuts = self.cuts
        rows = _rows(self._n_features, node)
        position = np.zeros(rows.shape, np.intp)
        # Only features with cuts: most have none that may be the best (`contenders`).
        q, feature = np.nonzero((cuts.start[1:] > cuts.start[:-1])[rows])
        if not len(q):
            return position
        row = rows[q, feature]
        cell = (instances[q], feature)
        # `upper` grows from row to row by the number of training instances, so it is sorted over all rows.
        cut = np.searchsorted(cuts.upper, queries.rank[cell] + row * self._stride, side="right")
        # The instance may lie between the values beside the row's next cut, above the threshold: then that counts, too.
        next_cut = np.minimum(cut, len(cuts.row) - 1)
        is_above_next = (cut < cuts.start[row + 1]) & (self._threshold[next_cut] < queries.value[cell])
        position[q, feature] = cut + is_above_next - cuts.start[row]
        return position

    def scores(self, change: Change, nodes: Int[np.ndarray, " some"]) -> RunningMaxima:
        """Return the scores of all cuts of ``nodes`` under a ``change`` of their samples."""
        node_cuts = CutsOfRows.of(self.cuts, _rows(self._n_features, nodes).ravel(), self._width)
        counts_below = self.cuts.below[:, node_cuts.index]
        counts_above = self._above[:, node_cuts.index]
        settings = self._settings
        return node_cuts.accumulate(
            *side_scores(settings.entropy, counts_below, counts_above, change, settings.min_samples_leaf)
        )

    def choose(
        self, scores: RunningMaxima, position: Int[np.ndarray, "q numeric"], node: Int[np.ndarray, " q"]
    ) -> Choice:
        """Return the best test of each feature for each instance; of tests with the same score the lowest cut's.

        ``scores`` is a result of the method `scores`, and ``position`` one of `locate`. ``node`` has the position of
        each instance's node among the nodes that were scored.
        """
        line = _rows(self._n_features, node)
        entry = position + line * (self._width + 1)  # in the flattened maxima
        best_above = scores.best_before.ravel()[entry]
        best_below = scores.best_from.ravel()[entry]
        return Choice(np.maximum(best_above, best_below), best_above >= best_below, position, line, scores)


def contenders(
    cuts: Cuts, above: Int[np.ndarray, "classes cuts"], size: int, n_numeric: int, settings: InductionSettings
) -> Int[np.ndarray, " some"]:
    """Return the indices of the cuts that may be the best of their node for some inserted instance.

    ``above`` has the class counts above each cut. Each node has ``size`` instances, and ``n_numeric`` rows of cuts. Let
    d(i) = F(i+1) - F(i), with F = ``settings.entropy``. An instance that joins a side of n instances, n_c of them of
    its class, changes the score by d(n_c) - d(n): it falls by D at most, and rises by U at most. So a cut can be the
    best only if its score without the instance is within D + U of the best score.
    """
    entropy = settings.entropy
    min_size = settings.min_samples_leaf
    steps = np.diff(entropy[: size + 2])
    largest_step = np.maximum.accumulate(steps)
    largest_fall = largest_step[-1]  # D, since d(n_c) is not negative
    # U is 0 except for rounding: n_c ≤ n, but in a table of few digits the steps d may decrease.
    largest_rise = (largest_step - steps).max()
    # A side that lacks one instance for the least size gets it by the inserted one. Such cuts are candidates, but not
    # tests for instances on the other side, so the best score is taken of the other cuts.
    scores = scores_with(entropy, cuts.below, above, min_size - 1)
    is_test_for_all = np.minimum(cuts.size, size - cuts.size) >= min_size
    reliable = np.append(np.where(is_test_for_all, scores, LOWEST), LOWEST)  # an entry for last nodes without cuts
    # A node has a row of cuts for each numeric feature: every ``n_numeric``-th row is the first of a node.
    best = np.maximum.reduceat(reliable, cuts.start[: -1 : max(n_numeric, 1)])
    return np.flatnonzero(scores >= best[cuts.row // max(n_numeric, 1)] - (largest_fall + largest_rise))


class CutPosition(NamedTuple):
    """Where q instances of the sample lie among the cuts of their nodes, by numeric feature.

    An index of a cut is its position within the feature's row.
    """

    left: Int[np.ndarray, "q numeric"]
    """Index of the cut beside and below the instance, if there is one; also the number of cuts further below."""
    right: Int[np.ndarray, "q numeric"]
    """Index of the cut beside and above the instance, if there is one."""
    left_is_test: Bool[np.ndarray, "q numeric"]
    """Whether the cut beside and below the instance is a test once the instance is left out."""
    right_is_test: Bool[np.ndarray, "q numeric"]
    next: Int[np.ndarray, "q numeric"]
    """Index of the first cut further above."""
    row: Int[np.ndarray, "q numeric"]
    """Row of cuts for the instance's node and the feature."""


class LeftOutChoice(NamedTuple):
    """The best test of each numeric feature for instances that are left out of the sample, chosen by `LeftOutTests`."""

    score: Int64[np.ndarray, "q numeric"]
    kind: Int[np.ndarray, "q numeric"]
    """Kind of the cut, 0: further below, 1: beside and below, 2: beside and above, 3: further above."""
    position: CutPosition
    line: Int[np.ndarray, "q numeric"]  # as in `Choice`
    scores: RunningMaxima

    @property
    def is_above(self) -> np.ndarray:
        """Whether the instance is above the cut."""
        return self.kind < 2

    def cut(self, instance: Int[np.ndarray, " some"], feature: Int[np.ndarray, " some"]) -> Int[np.ndarray, " some"]:
        """Return the position of the best cut within the feature's row, as `Choice.cut` does."""
        line = self.line[instance, feature]
        left = self.position.left[instance, feature]
        right = self.position.right[instance, feature]
        further_below = self.scores.lowest_of_first(line, left)
        further_above = self.scores.lowest_of_last(line, self.position.next[instance, feature])
        return np.choose(self.kind[instance, feature], (further_below, left, right, further_above))


class LeftOutTests:
    """Numeric tests of some nodes, for an instance x of the node's sample that is left out.

    Cuts, boundaries and thresholds are those without x. ``order`` has the nodes' instances by increasing value
    (`find_cuts`), ``totals`` the nodes' class counts.
    """

    def __init__(self, sample: Presorted, order: np.ndarray, totals: np.ndarray, settings: InductionSettings):
        self._sample = sample
        self._settings = settings
        self._totals = totals
        self._n_features = len(sample.numeric)
        # All cuts, not the boundaries alone: whether a cut beside x is a boundary may change when x is left out.
        self.cuts = cuts = find_cuts(sample, order, boundaries=False)
        self._above = totals[cuts.row // max(self._n_features, 1)].T - cuts.below
        self._size = order.shape[1]
        self._width = int(np.diff(cuts.start).max(initial=0)) + 1
        self._is_boundary = cuts.is_boundary

    def scores(self, change: Change, nodes: Int[np.ndarray, " some"]) -> tuple[RunningMaxima, np.ndarray, np.ndarray]:
        """Return (running maxima over the tests of ``nodes``, scores ``below`` of all cuts, scores ``above``).

        The scores are those under a ``change`` of the sample. Those of all cuts have one more entry, `LOWEST`.
        """
        node_cuts = CutsOfRows.of(self.cuts, _rows(self._n_features, nodes).ravel(), self._width)
        below, above = side_scores(
            self._settings.entropy,
            self.cuts.below[:, node_cuts.index],
            self._above[:, node_cuts.index],
            change,
            self._settings.min_samples_leaf,
        )
        # Running maxima see tests only. The other two arrays keep all cuts: `cuts_beside` decides about those beside x.
        is_no_test = np.zeros(len(below), bool)
        if self._settings.boundaries:
            is_no_test = ~self._is_boundary[node_cuts.index]
        tests = node_cuts.accumulate(np.where(is_no_test, LOWEST, below), np.where(is_no_test, LOWEST, above))
        # Cuts of other nodes are not looked up. The last entry, -1, is for cuts beside x that are no tests (`choose`).
        all_below, all_above = (np.full(len(self.cuts.row) + 1, LOWEST) for _ in range(2))
        all_below[:-1][node_cuts.index] = below
        all_above[:-1][node_cuts.index] = above
        return tests, all_below, all_above

    def locate(self, queries: Queries, instances: Int[np.ndarray, " q"], node: Int[np.ndarray, " q"]) -> CutPosition:
        """Return where instances of the samples lie among the cuts of their nodes.

        ``instances`` are q positions in ``queries``, and ``node`` is the node of each.
        """
        cuts = self.cuts
        n_cuts = len(cuts.row)
        row = _rows(self._n_features, node)
        begin, end = cuts.start[row], cuts.start[row + 1]
        if not n_cuts:
            zeros = np.zeros(row.shape, np.intp)
            return CutPosition(
                left=zeros, right=zeros, left_is_test=zeros > 0, right_is_test=zeros > 0, next=zeros, row=row
            )
        # `upper` grows from row to row by the number of training instances, so it is sorted over all rows.
        rank = queries.rank[instances] + row * self._sample.n
        # The first cut whose upper value is not below x: just below x if that value is x's own, else just above x.
        left = np.searchsorted(cuts.upper, rank)
        has_left = (left < end) & (cuts.upper[np.minimum(left, n_cuts - 1)] == rank)
        right = left + has_left
        has_right = right < end
        left_is_test, right_is_test = self._tests_beside(queries, instances, node, left, right, has_left, has_right)
        return CutPosition(
            left=left - begin,
            right=right - begin,
            left_is_test=left_is_test,
            right_is_test=right_is_test,
            next=right + has_right - begin,
            row=row,
        )

    def _tests_beside(self, queries, instances, node, left, right, has_left, has_right):
        """Return whether the cuts just below and just above each of q instances are tests without it (`cuts_beside`).

        ``left`` and ``right`` are the indices of these cuts ``[q numeric]``; ``has_left`` and ``has_right`` say whether
        they exist. ``instances`` are positions in ``queries``, and ``node`` is the node of each.
        """
        cuts = self.cuts
        last = len(cuts.row) - 1
        # Where there is no cut the index is only kept in range: what it reads is masked.
        left, right = np.minimum(left, last), np.minimum(right, last)
        n_below = np.where(has_left, cuts.size[left], 0)
        n_with_value = np.where(has_right, cuts.size[right], self._size) - n_below
        goes_left = queries.value[instances] <= halfway(cuts.lower_value[left], cuts.upper_value[right])
        value_class = np.where(has_left, cuts.upper_class[left], cuts.lower_class[right])
        # Where several classes share the value of x, the others may be of one class: counts of that value tell.
        mixed = np.argwhere((value_class < 0) & (has_left | has_right))
        if self._settings.boundaries and len(mixed):
            value_class[tuple(mixed.T)] = self._class_without(instances, node, mixed, left, right, has_left, has_right)
        beside = Beside(
            has_left=has_left,
            has_right=has_right,
            is_alone=n_with_value == 1,
            goes_left=goes_left,
            lower=cuts.lower_class[left],
            equal=value_class,
            upper=cuts.upper_class[right],
        )
        return cuts_beside(beside, self._settings.boundaries)

    def _class_without(self, instances, node, mixed, left, right, has_left, has_right) -> np.ndarray:
        """Return the class of all other instances with the same value as an instance; -1 if these have several classes.

        ``mixed [pairs 2]`` has the positions of the instance and of the numeric feature, for each class that is
        returned. The other arguments are those of `_tests_beside`.
        """
        cuts = self.cuts
        cell = tuple(mixed.T)
        # The value's own counts are the difference of those below the cuts on its two sides.
        counts_up_to = np.where(has_right[cell], cuts.below[:, right[cell]], self._totals[node[mixed[:, 0]]].T)
        counts = counts_up_to - np.where(has_left[cell], cuts.below[:, left[cell]], 0)
        counts[self._sample.label[instances[mixed[:, 0]]], np.arange(len(mixed))] -= 1  # the instance itself
        return np.where(np.count_nonzero(counts, axis=0) == 1, counts.argmax(axis=0), -1)

    def choose(self, scores, position: CutPosition, node: Int[np.ndarray, " q"]) -> LeftOutChoice:
        """Return the best test of each feature for each instance, as `InsertedTests.choose` does."""
        tests, below, above = scores
        line = _rows(self._n_features, node)
        first_entry = line * (self._width + 1)
        further_below = tests.best_before.ravel()[position.left + first_entry]
        further_above = tests.best_from.ravel()[position.next + first_entry]
        begin = self.cuts.start[position.row]
        beside_below = above[np.where(position.left_is_test, position.left + begin, -1)]
        beside_above = below[np.where(position.right_is_test, position.right + begin, -1)]
        # In the order of the cuts, so that argmax takes the lowest of equal scores.
        candidates = np.stack([further_below, beside_below, beside_above, further_above])
        return LeftOutChoice(candidates.max(axis=0), candidates.argmax(axis=0), position, line, tests)


class NominalTests:
    """Tests of some nodes for a single value of a nominal feature.

    ``members`` has the instances of each node, ``totals`` the nodes' class counts. An instance is inside the test for
    its own value, and outside all others. So the best of the others has the best of all outside scores; the second best
    if the best is that of its own value's test.
    """

    def __init__(self, sample: Presorted, members: np.ndarray, totals: np.ndarray, settings: InductionSettings):
        self._settings = settings
        self._n_features = len(sample.nominal)
        self.inside = value_counts(sample, members)
        self.outside = np.repeat(totals, len(sample.nominal), axis=0).T[:, :, None] - self.inside

    def scores(self, change: Change, nodes: Int[np.ndarray, " some"]) -> tuple[np.ndarray, np.ndarray]:
        """Return (scores of the tests of ``nodes`` with the instance inside, scores with the instance outside).

        Both are ``[rows codes]``, under a ``change`` of the sample. A score is `LOWEST` where a side has no other
        instance.
        """
        settings = self._settings
        rows = _rows(self._n_features, nodes).ravel()
        counts_inside = self.inside[:, rows]
        counts_outside = self.outside[:, rows]
        scores_inside, scores_outside = side_scores(
            settings.entropy, counts_inside, counts_outside, change, settings.min_samples_leaf
        )
        n_inside = counts_inside.sum(axis=0)
        n_outside = counts_outside.sum(axis=0)
        n_removed = change.n_removed
        scores_inside[~parts_a_value(n_inside, n_outside, n_removed, 0)] = LOWEST
        scores_outside[~parts_a_value(n_inside, n_outside, 0, n_removed)] = LOWEST
        return scores_inside, scores_outside

    def choose(
        self, scores: tuple[np.ndarray, np.ndarray], node: Int[np.ndarray, " q"], code: Int[np.ndarray, "q nominal"]
    ) -> NominalChoice:
        """Return the best test of each feature for each instance; of two with the same score that for the lower code.

        ``code`` has the instances' values. ``scores`` and ``node`` are as for `InsertedTests.choose`.
        """
        inside, outside = scores
        all_rows = np.arange(len(inside))
        row = _rows(self._n_features, node)
        best = outside.argmax(axis=1)
        # The second best test, for instances whose value the best one tests.
        without_best = outside.copy()
        without_best[all_rows, best] = LOWEST
        second = without_best.argmax(axis=1)
        # There is no test for an unseen value.
        value_score = np.where(code >= 0, inside[row, code], LOWEST)
        return choose_code(
            ScoredCode(code, value_score),
            ScoredCode(best[row], outside[all_rows, best][row]),
            ScoredCode(second[row], without_best[all_rows, second][row]),
        )
