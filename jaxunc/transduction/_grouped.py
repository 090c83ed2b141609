"""Grouped form: all instances and labels at once; those that meet the same sample share its tables (on the host)."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Int64

from jaxunc.greedy import Presorted, Queries

from ._leave_one_out_tests import OwnTests
from ._nominal_tests import NominalTests
from ._numeric_tests import InsertedTests
from ._pairs import Pairs
from ._samples import Samples
from ._scores import Change

MOST_VALUES = 2**21
"""Number of instances times features that choose their tests at a time."""

LEAST_KEPT, MOST_KEPT, TIMES_KEPT = 2**24, 2**28, 16
"""Bytes of nodes that are kept between calls: so many times the training set's own, but within these."""

FEW = 16
"""Number of instances up to which sorting anew is quicker than finding them among all."""


def descend_grouped(pairs: Pairs, kept: "KeptNodes | None" = None) -> None:
    """Follow all pairs down to their leaves, sample by sample; with what was kept of pairs of the same training set."""
    sample, samples = pairs.sample, Samples(pairs.sample.n)
    kept = KeptNodes(0) if kept is None else kept
    members = np.arange(sample.n, dtype=np.int32)
    totals = np.bincount(pairs.label, minlength=sample.n_classes)
    _arrive(pairs, samples, _Arrivals(totals, members, np.arange(pairs.n)), (sample.order, members), kept)
    # The largest sample first: all pairs that can reach a sample come from larger ones, so when it is taken, all are
    # there.
    while samples.largest:
        _, made, waiting = samples.take()
        node = made if isinstance(made, _Node) else kept.keep(_Node(pairs, *made))
        for arrivals in _children(pairs, node, waiting):
            _arrive(pairs, samples, arrivals, (node.order, node.members), kept)
        pairs.report()


class KeptNodes:
    """Nodes of one training set that are not made again: those that are met first, the largest of each call before all.

    For pairs of the same training set and settings, of instances that are no part of it. A copy or a pickle has none.

    Parameters
    ----------
    room
        Number of bytes that they may take; 0 keeps none.
    """

    def __init__(self, room: int):
        self._all_room = self._room = room
        self._nodes: dict[bytes, _Node] = {}

    @classmethod
    def of(cls, sample: Presorted) -> "KeptNodes":
        """Make a store with as much room as fits the size of a training set."""
        n_bytes = sum(array.nbytes for array in (sample.value, sample.rank, sample.order, sample.code))
        return cls(min(max(TIMES_KEPT * n_bytes, LEAST_KEPT), MOST_KEPT))

    def find(self, flags: Bool[np.ndarray, " instances"]) -> "_Node | None":
        """Return the node of this sample."""
        return self._nodes.get(np.packbits(flags).tobytes()) if self._nodes else None

    def keep(self, node: "_Node") -> "_Node":
        """Return the same node, kept if there is room."""
        if node.n_bytes <= self._room:
            self._room -= node.n_bytes
            flags = np.zeros(node.n_all, bool)
            flags[node.members] = True
            node.keep_scores()
            self._nodes[np.packbits(flags).tobytes()] = node
        return node

    def __reduce__(self):
        return KeptNodes, (self._all_room,)


class _Arrivals(NamedTuple):
    """Pairs on their way to a sample."""

    totals: Int[np.ndarray, " classes"]
    chosen: Int[np.ndarray, " chosen"]
    """Instances of the sample."""
    pairs: Int[np.ndarray, " pairs"]


def _arrive(
    pairs: Pairs, samples: Samples, arrivals: _Arrivals, parent: tuple[np.ndarray, np.ndarray], kept: KeptNodes
) -> None:
    """Let pairs arrive at samples: those that end there get their counts, the others wait.

    Order and members of the samples' parent are given.
    """

    def wait(flags):
        if (node := kept.find(flags)) is not None:
            return node
        order, members = parent
        chosen = members[flags[members]]
        # The order is filtered from the parent's, never sorted again, unless the child is so small that sorting it is
        # less than looking through the parent.
        if FEW * len(chosen) < order.shape[1]:
            return chosen[np.argsort(pairs.sample.rank[:, chosen], axis=1)], chosen
        return order[flags[order]].reshape(len(order), len(chosen)), chosen

    waiting = pairs.waiting(arrivals.totals, arrivals.pairs)
    if len(waiting):
        samples.add(arrivals.chosen, waiting, wait)


def _children(pairs: Pairs, node: "_Node", waiting: np.ndarray) -> Iterator[_Arrivals]:
    """Send pairs that wait at a sample on to the children that they choose."""
    # Pairs choose in parts: the matrices of a choice have an entry for every pair and feature.
    few, entropy = max(1, MOST_VALUES // pairs.sample.columns.number), pairs.settings.entropy
    moved, tests = [], []
    for change, alike in pairs.changes(waiting):
        scores = node.scores(change)
        # Pairs of the same change have the same counts, so the score of no test is computed once.
        _, counts = pairs.with_instance(node.totals, alike[:1])
        parent = entropy[counts[0]].sum() - entropy[counts.sum()]
        for some in (alike[i : i + few] for i in range(0, len(alike), few)):
            gain, test = node.choose(change, scores, pairs.queries, some // pairs.n_labels)
            stays = gain <= parent
            pairs.end(some[stays], counts)
            moved.append(some[~stays])
            tests.append(test[~stays])
    # Pairs of all changes that choose the same test and side meet in the same child.
    for test, some in by_number(np.concatenate(tests), np.concatenate(moved)):
        chosen, totals = node.child(test)
        yield _Arrivals(totals, chosen, some)


def by_number(numbers: Int[np.ndarray, " n"], values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each distinct number, and the values that have it."""
    order = np.argsort(numbers, kind="stable")
    numbers, values = numbers[order], values[order]
    begins = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1)).tolist()
    for begin, end in zip(begins, [*begins[1:], len(numbers)], strict=False):  # of nothing, nothing
        yield int(numbers[begin]), values[begin:end]


class _Node:
    """The tests of one sample."""

    def __init__(self, pairs: Pairs, order, members):
        self._sample, self.order, self.members = pairs.sample, order, members
        sample, settings = pairs.sample, pairs.settings
        self.totals = np.bincount(sample.label[members], minlength=sample.n_classes)
        self.numeric: Any = (OwnTests if pairs.is_own else InsertedTests)(sample, order, self.totals, settings)
        self.nominal = NominalTests(sample, members, self.totals, settings) if len(sample.nominal) else None
        self._widest = int(np.diff(self.numeric.cuts.start).max(initial=0))
        # A test as one integer: feature, place of the cut or code, side. Pairs are then grouped by sorting integers.
        self._stride = 2 * max(self._widest, sample.n_codes, 1)
        self._scores: dict[Change, Any] | None = None

    def keep_scores(self) -> None:
        """Keep the scores under each change from now on."""
        self._scores = {}

    def scores(self, change: Change):
        """Return the scores of all tests under a change."""
        if self._scores is not None and change in self._scores:
            return self._scores[change]
        both = self.numeric.scores(change), None if self.nominal is None else self.nominal.scores(change)
        if self._scores is not None:
            self._scores[change] = both
        return both

    @property
    def n_all(self) -> int:
        """Number of instances in the training set."""
        return self._sample.n

    @property
    def n_bytes(self) -> int:
        """Number of bytes that the node takes with the scores under every change."""
        k, cuts = self._sample.n_classes, self.numeric.cuts
        tables = (
            sum(array.nbytes for array in (*cuts, self.order, self.members)) + cuts.below.nbytes + 8 * len(cuts.row)
        )
        cells = 0 if self.nominal is None else self.nominal.inside[0].size
        scores = 32 * (len(self.order) * (self._widest + 2)) + 16 * cells
        return tables + 16 * k * cells + (k + 1) * scores + self._sample.n // 8

    def choose(
        self, change: Change, scores, queries: Queries, rows: np.ndarray
    ) -> tuple[Int64[np.ndarray, " q"], Int[np.ndarray, " q"]]:
        """Return the largest score for each instance, and the number of the test with the instance's side."""
        sample, numeric = self._sample, self.numeric.choose(change, scores[0], self.numeric.place(queries, rows))
        score = numeric.score
        nominal = None
        if self.nominal is not None:
            nominal = self.nominal.choose(scores[1], queries.code[rows])
            score = np.empty((len(rows), sample.columns.number), np.int64)
            score[:, sample.numeric], score[:, sample.nominal] = numeric.score, nominal.score
        # In the order of the data's columns, so that the first feature wins among equals.
        feature = score.argmax(axis=1)
        best = score[np.arange(len(rows)), feature]
        test = np.empty(len(rows), np.int64)
        for f in np.flatnonzero(np.bincount(feature)).tolist():
            which = np.flatnonzero(feature == f)
            if nominal is not None and sample.columns.is_nominal[f]:
                row = int(np.searchsorted(sample.nominal, f))
                threshold, side = nominal.code[which, row], nominal.is_other[which, row]
            else:
                row = int(np.searchsorted(sample.numeric, f))
                threshold, side = numeric.cut(row, which), numeric.is_above[which, row]
            test[which] = f * self._stride + 2 * threshold + side
        return best, test

    def child(self, test: int) -> tuple[Int[np.ndarray, " chosen"], Int[np.ndarray, " classes"]]:
        """Return the instances on one side of a test, and their class counts."""
        sample = self._sample
        feature, threshold_and_side = divmod(test, self._stride)
        threshold, side = divmod(threshold_and_side, 2)
        if self.nominal is not None and sample.columns.is_nominal[feature]:
            row = int(np.searchsorted(sample.nominal, feature))
            chosen = self.members[(sample.code[row, self.members] != threshold) == side]
            inside = self.nominal.inside[:, row, threshold]
        else:
            row = int(np.searchsorted(sample.numeric, feature))
            cut = self.numeric.cuts.start[row] + threshold
            size = self.numeric.cuts.size[cut]
            # The instances below a cut are the first of the feature's order: no comparison is needed.
            chosen = self.order[row, size:] if side else self.order[row, :size]
            inside = self.numeric.cuts.below[:, cut]
        return chosen, self.totals - inside if side else inside
