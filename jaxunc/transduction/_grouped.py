"""All instances and labels at once: those that meet the same sample share its tables (on the host)."""

import heapq
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Int, Int64

from jaxunc.growing._presorted import Presorted, Queries, own_queries

from ._nominal import NominalTests
from ._numeric import InsertedTests
from ._own import OwnTests
from ._settings import Settings
from ._tables import Change

MOST_VALUES = 2**21
"""Instances times features that choose their tests at a time."""

FEW = 16
"""Sorting so many instances anew is quicker than finding them among all."""


class Samples:
    """The samples that are to be looked at, the largest first, and who waits there.

    A sample comes up once all larger ones have: nobody arrives later. The same sample reached on different ways is
    found by a sum of random numbers, and compared.
    """

    def __init__(self, sample: Presorted):
        self._sample = sample
        self._number = np.random.default_rng(0).integers(2**63, size=sample.n, dtype=np.uint64)
        self._heap: list[tuple[int, int]] = []
        self._waiting: dict[int, tuple[np.ndarray, np.ndarray, list]] = {}
        self._flags = np.zeros(sample.n, bool)

    def add(self, chosen: np.ndarray, pairs: np.ndarray, order: np.ndarray, members: np.ndarray) -> None:
        """Pairs arrive at the chosen ones of a sample of which order and members are given."""
        key = int(self._number[chosen].sum())
        self._flags[chosen] = True
        while key in self._waiting:
            known = self._waiting[key][1]
            if len(known) == len(chosen) and self._flags[known].all():
                self._waiting[key][2].append(pairs)
                break
            key += 1
        else:
            own = members[self._flags[members]]
            self._waiting[key] = self._sorted(order, own), own, [pairs]
            heapq.heappush(self._heap, (-len(own), key))
        self._flags[chosen] = False

    def _sorted(self, order: np.ndarray, own: np.ndarray) -> np.ndarray:
        rows = len(order)
        if FEW * len(own) < order.shape[1]:
            return own[np.argsort(self._sample.rank[:, own], axis=1)]
        return order[self._flags[order]].reshape(rows, len(own))

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Each sample's order and members, and the pairs that wait there, sorted."""
        while self._heap:
            order, members, pairs = self._waiting.pop(heapq.heappop(self._heap)[1])
            yield order, members, np.sort(np.concatenate(pairs))


class Grouped:
    """The leaves of all pairs of an instance x and a label c; a pair's number is x times the labels, plus c.

    Parameters
    ----------
    sample
        The training set.
    queries
        The instances; None for those of the training set, each of which is left out of it before it is inserted.
    settings
        How trees are induced.
    inductive
        Whether "no label" is one more, the last: the leaf of x in the tree without it.
    """

    def __init__(self, sample: Presorted, queries: Queries | None, settings: Settings, inductive: bool = False):
        self._sample, self._settings = sample, settings
        self._own = queries is None
        self._queries = own_queries(sample) if queries is None else queries
        self._label = sample.label.astype(np.intp)
        k = sample.n_classes
        self._n_labels = k + inductive
        self._unit = np.eye(self._n_labels, k, dtype=np.intp)
        self._n_pairs = self._queries.n * self._n_labels
        self._counts = np.zeros((self._n_pairs, k), np.int32)
        self._samples = Samples(sample)
        self._done = 0

    def leaf_counts(
        self, progress: Callable[[int, int], None] | None = None
    ) -> Int[np.ndarray, "queries labels classes"]:
        """Class counts of the leaves, the inserted instance among them."""
        sample, k = self._sample, self._sample.n_classes
        members = np.arange(sample.n, dtype=np.int32)
        totals = np.bincount(self._label, minlength=k)
        self._arrive(totals, members, np.arange(self._n_pairs), sample.order, members)
        for order, members, pairs in self._samples:
            self._descend(order, members, pairs)
            if progress is not None:
                progress(self._done, self._n_pairs)
        return self._counts.reshape(-1, self._n_labels, k)

    def _with_instance(self, totals: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Class counts of a sample without and with the instance of each pair, ``[pairs classes]``."""
        instance, label = np.divmod(pairs, self._n_labels)
        without = totals - self._unit[self._label[instance]] if self._own else totals[None]
        return without, without + self._unit[label]

    def _arrive(self, totals, chosen, pairs, order, members) -> None:
        """Pairs arrive at the chosen ones of a sample: those that end there get their counts, the others wait."""
        without, counts = self._with_instance(totals, pairs)
        settings = self._settings
        ends = np.count_nonzero(counts, axis=1) < 2
        size = int(totals.sum()) - self._own
        larger = pairs % self._n_labels < len(totals)
        if settings.boundaries:
            ends |= np.count_nonzero(without, axis=1) < 2
        ends |= (size + larger < 2 * settings.min_leaf) | (size < 2)
        self._end(pairs[ends], counts[ends])
        if not ends.all():
            self._samples.add(chosen, pairs[~ends], order, members)

    def _end(self, pairs: np.ndarray, counts: np.ndarray) -> None:
        self._counts[pairs] = counts
        self._done += len(pairs)

    def _descend(self, order: np.ndarray, members: np.ndarray, pairs: np.ndarray) -> None:
        """Send pairs that wait at a sample on to the children that they choose."""
        sample = self._sample
        node = _Node(sample, order, members, self._own, self._settings)
        moved, tests = [], []
        for change, own in self._changes(pairs):
            scores = node.scores(change)
            _, counts = self._with_instance(node.totals, own[:1])
            entropy = self._settings.entropy
            parent = entropy[counts[0]].sum() - entropy[counts.sum()]
            few = max(1, MOST_VALUES // sample.columns.number)
            for part in (own[i : i + few] for i in range(0, len(own), few)):
                gain, test = node.choose(change, scores, self._queries, part // self._n_labels)
                stays = gain <= parent
                self._end(part[stays], counts)
                moved.append(part[~stays])
                tests.append(test[~stays])
        moved, tests = np.concatenate(moved), np.concatenate(tests)
        by_test = np.argsort(tests, kind="stable")
        moved, tests = moved[by_test], tests[by_test]
        ends = [*(np.flatnonzero(tests[1:] != tests[:-1]) + 1).tolist(), len(tests)] if len(tests) else []
        begin = 0
        for end in ends:
            chosen, totals = node.child(int(tests[begin]))
            self._arrive(totals, chosen, moved[begin:end], order, members)
            begin = end

    def _changes(self, pairs: np.ndarray) -> Iterator[tuple[Change, np.ndarray]]:
        """The pairs by what they do to the sample."""
        k = self._sample.n_classes
        instance, label = np.divmod(pairs, self._n_labels)
        if not self._own:
            for gained in np.flatnonzero(np.bincount(label)).tolist():
                yield Change(gained if gained < k else -1), pairs[label == gained]
            return
        lost = self._label[instance]
        # Kind 0 has what changes nothing, whatever the class.
        kind = np.where(label == lost, 0, label * k + lost)
        for own in np.flatnonzero(np.bincount(kind)).tolist():
            gained, was = divmod(own, k)
            yield Change(gained if gained < k else -1, was), pairs[kind == own]


class _Node:
    """The tests of one sample."""

    def __init__(self, sample: Presorted, order, members, own: bool, settings: Settings):
        self._sample, self._order, self._members = sample, order, members
        self.totals = np.bincount(sample.label[members], minlength=sample.n_classes)
        self.numeric: Any = (OwnTests if own else InsertedTests)(sample, order, self.totals, settings)
        self.nominal = NominalTests(sample, members, self.totals, settings) if len(sample.nominal) else None
        self._stride = 2 * max(int(np.diff(self.numeric.cuts.start).max(initial=0)), sample.n_codes, 1)

    def scores(self, change: Change):
        """The scores of all tests under a change."""
        return self.numeric.scores(change), None if self.nominal is None else self.nominal.scores(change)

    def choose(
        self, change: Change, scores, queries: Queries, rows: np.ndarray
    ) -> tuple[Int64[np.ndarray, " q"], Int[np.ndarray, " q"]]:
        """The largest score for each instance, and the number of the test with the instance's side."""
        sample, numeric = self._sample, self.numeric.choose(change, scores[0], self.numeric.place(queries, rows))
        score = numeric.score
        nominal = None
        if self.nominal is not None:
            nominal = self.nominal.choose(scores[1], queries.code[rows])
            score = np.empty((len(rows), sample.columns.number), np.int64)
            score[:, sample.numeric], score[:, sample.nominal] = numeric.score, nominal.score
        feature = score.argmax(axis=1)
        best = score[np.arange(len(rows)), feature]
        test = np.empty(len(rows), np.int64)
        for f in np.flatnonzero(np.bincount(feature)).tolist():
            which = np.flatnonzero(feature == f)
            if nominal is not None and sample.columns.is_nominal[f]:
                row = int(np.searchsorted(sample.nominal, f))
                place, side = nominal.code[which, row], nominal.is_other[which, row]
            else:
                row = int(np.searchsorted(sample.numeric, f))
                place, side = numeric.cut(row, which), numeric.is_above[which, row]
            test[which] = f * self._stride + 2 * place + side
        return best, test

    def child(self, test: int) -> tuple[Int[np.ndarray, " chosen"], Int[np.ndarray, " classes"]]:
        """The instances on one side of a test, and their class counts."""
        sample = self._sample
        feature, rest = divmod(test, self._stride)
        place, side = divmod(rest, 2)
        if self.nominal is not None and sample.columns.is_nominal[feature]:
            row = int(np.searchsorted(sample.nominal, feature))
            chosen = self._members[(sample.code[row, self._members] != place) == side]
            inside = self.nominal.inside[:, row, place]
        else:
            row = int(np.searchsorted(sample.numeric, feature))
            cut = self.numeric.cuts.start[row] + place
            size = self.numeric.cuts.size[cut]
            chosen = self._order[row, size:] if side else self._order[row, :size]
            inside = self.numeric.cuts.below[:, cut]
        return chosen, self.totals - inside if side else inside
