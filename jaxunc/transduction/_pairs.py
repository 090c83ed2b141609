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
    """How far a call has come, counted in pairs; for `TransductiveTreeClassifier` in instances."""

    done: int
    total: int
    seconds: float  # time since the call began


class Pairs:
    """All pairs of an instance and a label, numbered: instance times the number of labels, plus label.

    The instances are ``queries``. None: those of the training set ``sample``, each left out before it is inserted. With
    ``inductive`` each instance has one more label, the last, with which it is not inserted, only looked up.
    """

    def __init__(
        self,
        sample: Presorted,
        queries: Queries | None,
        settings: InductionSettings,
        inductive: bool = False,
        progress: Callable[[PairsProgress], None] | None = None,
    ):
        self.sample = sample
        self.settings = settings
        self.leaves_out = queries is None
        self.queries = sample_queries(sample) if queries is None else queries
        self.label = sample.label.astype(np.intp)
        k = sample.n_classes
        # The further label stands for the tree without the instance, which some measures compare with.
        self.n_labels = k + inductive
        self.n = self.queries.n * self.n_labels
        # The row of that label is all zeros: it adds nothing.
        self._unit = np.eye(self.n_labels, k, dtype=np.intp)
        self._counts = np.zeros((self.n, k), np.int32)
        self._progress = progress
        self._n_done = 0
        self._start = time.perf_counter()

    @property
    def leaf_counts(self) -> Int32[np.ndarray, "instances labels classes"]:
        """Class counts of the pairs' leaves with the inserted instance; zeros for pairs that have not ended."""
        return self._counts.reshape(-1, self.n_labels, self.sample.n_classes)

    def with_instance(self, totals: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (class counts of the sample without the pair's instance, class counts with it), for each pair.

        ``totals`` are the class counts of one sample for all ``pairs`` ``[classes]``, or of a sample for each ``[pairs
        classes]``. The results broadcast to ``[pairs classes]``.
        """
        instance, label = np.divmod(pairs, self.n_labels)
        without = totals - self._unit[self.label[instance]] if self.leaves_out else np.atleast_2d(totals)
        return without, without + self._unit[label]

    def end(self, pairs: Int[np.ndarray, " pairs"], counts: np.ndarray) -> None:
        """Record that ``pairs`` end in leaves with the class counts ``counts [pairs classes]``."""
        self._counts[pairs] = counts
        self._n_done += len(pairs)

    def end_at_leaves(
        self, totals: Int[np.ndarray, "*pairs classes"], pairs: Int[np.ndarray, " pairs"]
    ) -> Bool[np.ndarray, " pairs"]:
        """End those ``pairs`` whose node is a leaf, and return whether each pair goes on.

        ``totals`` are the class counts of the pairs' nodes: those of one sample for all pairs, or one row for each.
        """
        without, counts = self.with_instance(totals, pairs)
        ends = np.asarray(is_leaf(without, counts, self.settings.boundaries, self.settings.min_samples_leaf))
        self.end(pairs[ends], counts[ends])
        return ~ends

    def changes(self, pairs: Int[np.ndarray, " pairs"]) -> Iterator[tuple[Change, np.ndarray]]:
        """Yield each distinct change that ``pairs`` make to a sample, with the positions of its pairs in ``pairs``."""
        k = self.sample.n_classes
        instance, label = np.divmod(pairs, self.n_labels)
        if not self.leaves_out:
            # A change is the same for all instances that get the label, so their scores are shared.
            for new_class in np.flatnonzero(np.bincount(label)).tolist():
                # The further label k, behind the classes, inserts nothing: -1.
                yield Change(new_class if new_class < k else -1), np.flatnonzero(label == new_class)
            return
        old_classes = self.label[instance]
        # Number 0, class 0 for class 0, stands for all changes that change nothing: the label is the instance's own.
        change_number = np.where(label == old_classes, 0, label * k + old_classes)
        for number in np.flatnonzero(np.bincount(change_number)).tolist():
            new_class, old_class = divmod(number, k)
            yield Change(new_class if new_class < k else -1, old_class), np.flatnonzero(change_number == number)

    def report(self) -> None:
        """Call the function ``progress``, if there is one, with how many pairs have ended."""
        if self._progress is not None:
            self._progress(PairsProgress(self._n_done, self.n, time.perf_counter() - self._start))


class WaitingSample(NamedTuple):
    """The sample of a node, and the pairs that wait there for a test."""

    members: Int[np.ndarray, " members"]
    """The sample's instances."""
    kept: Any
    """What the function ``keep`` of `Samples.add` returned for the sample."""
    pairs: Int[np.ndarray, " pairs"]
    """The waiting pairs, sorted."""


class Samples:
    """A queue of samples, the largest first, with the pairs that wait at each.

    All pairs that reach a sample come from larger samples, so no pair arrives after a sample is taken. A sample that is
    reached by several paths is one entry: it is looked up by a sum of random numbers, and its members are compared.
    """

    def __init__(self, n: int):
        # A random number for each instance: the sum of a sample's numbers (modulo 2⁶⁴) is its key in a dict. Two
        # samples hardly ever have the same key; if they do, `add` notices.
        self._number = np.random.default_rng(0).integers(2**63, size=n, dtype=np.uint64)
        self._heap: list[tuple[int, int]] = []
        self._entries: dict[int, tuple[np.ndarray, Any, list[np.ndarray]]] = {}
        self._flags = np.zeros(n, bool)

    def add(self, chosen: Int[np.ndarray, " chosen"], pairs: np.ndarray, keep: Callable[[np.ndarray], Any]) -> None:
        """Add ``pairs`` to those that wait at the sample of the instances ``chosen``.

        If the sample is new, ``keep(flags)`` is called once, and its result becomes `WaitingSample.kept`. ``flags``
        marks the sample's instances among all.
        """
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
        """Number of instances of the largest sample in the queue; 0 if the queue is empty."""
        return -self._heap[0][0] if self._heap else 0

    def take(self) -> WaitingSample:
        """Remove the largest sample from the queue, and return it with its pairs."""
        chosen, kept, pairs = self._entries.pop(heapq.heappop(self._heap)[1])
        # Sorted, so that results do not depend on the order of arrival.
        return WaitingSample(chosen, kept, np.sort(np.concatenate(pairs)))


def by_number(numbers: Int[np.ndarray, " n"], values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each distinct number of ``numbers`` in ascending order, with the ``values`` at its positions."""
    order = np.argsort(numbers, kind="stable")
    numbers, values = numbers[order], values[order]
    begins = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1)).tolist()  # where another number begins
    for begin, end in zip(begins, [*begins[1:], len(numbers)], strict=False):  # no pairs if there are no numbers
        yield int(numbers[begin]), values[begin:end]
