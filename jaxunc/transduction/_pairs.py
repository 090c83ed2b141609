"""Pairs of an instance and a label: how they change a sample, where they end, and the samples that they wait at."""

import heapq
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Int32

from ._presorted import Presorted, Queries, sample_queries
from ._scores import Change, InductionSettings, is_leaf


class PairsProgress(NamedTuple):
    """Progress: the number of pairs that have ended, and of all; for `TransductiveTreeClassifier`, of instances."""

    done: int
    total: int
    seconds: float


class Pairs:
    """All pairs of an instance x and a label c; a pair's number is x times the number of labels, plus c.

    Without ``queries`` the instances are those of the training set, each left out of it before it is inserted. With
    ``inductive`` there is one more label, the last, for which x is not inserted: its leaf in the tree without it.
    """

    def __init__(
        self,
        sample: Presorted,
        queries: Queries | None,
        settings: InductionSettings,
        inductive: bool = False,
        progress: Callable[[PairsProgress], None] | None = None,
    ):
        self.sample, self.settings, self.leaves_out = sample, settings, queries is None
        self.queries = sample_queries(sample) if queries is None else queries
        self.label = sample.label.astype(np.intp)
        k = sample.n_classes
        # The further label stands for the tree without the instance, which some measures compare with.
        self.n_labels = k + inductive
        self.n = self.queries.n * self.n_labels
        # The row of that label is all zeros: it adds nothing.
        self._unit = np.eye(self.n_labels, k, dtype=np.intp)
        self._counts = np.zeros((self.n, k), np.int32)
        self._n_done, self._progress, self._start = 0, progress, time.perf_counter()

    @property
    def leaf_counts(self) -> Int32[np.ndarray, "instances labels classes"]:
        """Class counts of the pairs' leaves with the inserted instance; zeros for pairs that have not ended."""
        return self._counts.reshape(-1, self.n_labels, self.sample.n_classes)

    def with_instance(self, totals: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the class counts of a sample without and with the instance of each pair, both ``[pairs classes]``.

        ``totals`` are the class counts of one sample for all pairs, or of one for each; ``pairs`` are their numbers.
        """
        instance, label = np.divmod(pairs, self.n_labels)
        without = totals - self._unit[self.label[instance]] if self.leaves_out else np.atleast_2d(totals)
        return without, without + self._unit[label]

    def end(self, pairs: Int[np.ndarray, " pairs"], counts: np.ndarray) -> None:
        """Record that pairs end in leaves of these class counts."""
        self._counts[pairs] = counts
        self._n_done += len(pairs)

    def end_at_leaves(
        self, totals: Int[np.ndarray, "*pairs classes"], pairs: Int[np.ndarray, " pairs"]
    ) -> Bool[np.ndarray, " pairs"]:
        """Return which pairs wait at their samples; the others are in leaves, and are ended.

        ``totals`` are the class counts of one sample for all pairs, or of one for each.
        """
        without, counts = self.with_instance(totals, pairs)
        ends = np.asarray(is_leaf(without, counts, self.settings.boundaries, self.settings.min_samples_leaf))
        self.end(pairs[ends], counts[ends])
        return ~ends

    def changes(self, pairs: Int[np.ndarray, " pairs"]) -> Iterator[tuple[Change, np.ndarray]]:
        """Yield the changes that the pairs make to the sample, each with the positions of its pairs."""
        k = self.sample.n_classes
        instance, label = np.divmod(pairs, self.n_labels)
        if not self.leaves_out:
            # A change is the same for all instances that get the label, so their scores are shared.
            for new_class in np.flatnonzero(np.bincount(label)).tolist():
                yield Change(new_class if new_class < k else -1), np.flatnonzero(label == new_class)
            return
        old_classes = self.label[instance]
        # Change number 0 stands for all changes that change nothing: the label is the instance's own.
        change_number = np.where(label == old_classes, 0, label * k + old_classes)
        for number in np.flatnonzero(np.bincount(change_number)).tolist():
            new_class, old_class = divmod(number, k)
            yield Change(new_class if new_class < k else -1, old_class), np.flatnonzero(change_number == number)

    def report(self) -> None:
        """Call ``progress`` with how many pairs have ended."""
        if self._progress is not None:
            self._progress(PairsProgress(self._n_done, self.n, time.perf_counter() - self._start))


class WaitingSample(NamedTuple):
    """A sample, and the pairs that wait at it."""

    members: Int[np.ndarray, " members"]
    """The sample's instances."""
    kept: Any
    """What `Samples.add` kept for the sample."""
    pairs: Int[np.ndarray, " pairs"]
    """The waiting pairs, sorted."""


class Samples:
    """A queue of samples, the largest first, with the pairs that wait at each.

    All pairs that reach a sample come from larger samples, so none arrives once it is taken. A sample that is reached
    in several ways is recognised by a sum of random numbers, and then compared.
    """

    def __init__(self, n: int):
        # A random number for each instance: the sum of a sample's numbers (modulo 2⁶⁴) is its key in a dict. Two
        # samples hardly ever have the same key; if they do, `add` notices.
        self._number = np.random.default_rng(0).integers(2**63, size=n, dtype=np.uint64)
        self._heap: list[tuple[int, int]] = []
        self._entries: dict[int, tuple[np.ndarray, Any, list[np.ndarray]]] = {}
        self._flags = np.zeros(n, bool)

    def add(self, chosen: Int[np.ndarray, " chosen"], pairs: np.ndarray, keep: Callable[[np.ndarray], Any]) -> None:
        """Add pairs that arrive at the sample ``chosen``; for a new one, keep what ``keep`` returns for its flags."""
        key = int(self._number[chosen].sum())
        self._flags[chosen] = True
        while key in self._entries:
            members = self._entries[key][0]
            if len(members) == len(chosen) and self._flags[members].all():
                self._entries[key][2].append(pairs)
                break
            # Another sample has this key: take the next one, which the same search finds again.
            key += 1
        else:
            self._entries[key] = chosen, keep(self._flags), [pairs]
            heapq.heappush(self._heap, (-len(chosen), key))
        self._flags[chosen] = False

    @property
    def largest(self) -> int:
        """Size of the sample that comes next; 0 if there is none."""
        return -self._heap[0][0] if self._heap else 0

    def take(self) -> WaitingSample:
        """Remove the largest sample, and return it."""
        chosen, kept, pairs = self._entries.pop(heapq.heappop(self._heap)[1])
        # Sorted, so that results do not depend on the order of arrival.
        return WaitingSample(chosen, kept, np.sort(np.concatenate(pairs)))


def by_number(numbers: Int[np.ndarray, " n"], values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each distinct number in ascending order, and the values that have it."""
    order = np.argsort(numbers, kind="stable")
    numbers, values = numbers[order], values[order]
    begins = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1)).tolist()
    for begin, end in zip(begins, [*begins[1:], len(numbers)], strict=False):  # no pairs if there are no numbers
        yield int(numbers[begin]), values[begin:end]
