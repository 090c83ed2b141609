"""Queue of the samples that are to be looked at, the largest first, with the pairs that wait there."""

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Int


class Samples:
    """A queue of samples.

    One that is taken when all larger ones have been sees nobody arrive later. The same sample reached on different ways
    is found by a sum of random numbers, and compared.
    """

    def __init__(self, n: int):
        # A random number for each instance: the sum of a sample's numbers (modulo 2⁶⁴) is its key in a dict. That of
        # another sample equals it by chance hardly ever; if it does, `add` sees it.
        self._number = np.random.default_rng(0).integers(2**63, size=n, dtype=np.uint64)
        self._heap: list[tuple[int, int]] = []
        self._waiting: dict[int, tuple[np.ndarray, Any, list[np.ndarray]]] = {}
        self._flags = np.zeros(n, bool)

    def add(
        self, chosen: Int[np.ndarray, " chosen"], pairs: np.ndarray, keep: Callable[[np.ndarray], Any] | None = None
    ) -> None:
        """Add pairs that arrive at the chosen instances; ``keep`` makes what is kept if the sample is new."""
        key = int(self._number[chosen].sum())
        self._flags[chosen] = True
        while key in self._waiting:
            known = self._waiting[key][0]
            if len(known) == len(chosen) and self._flags[known].all():
                self._waiting[key][2].append(pairs)
                break
            # Another sample has this key: take the next one. The same rule finds it again.
            key += 1
        else:
            self._waiting[key] = chosen, keep(self._flags) if keep else None, [pairs]
            heapq.heappush(self._heap, (-len(chosen), key))
        self._flags[chosen] = False

    @property
    def largest(self) -> int:
        """Size of the sample that comes next; 0 if there is none."""
        return -self._heap[0][0] if self._heap else 0

    def take(self) -> tuple[np.ndarray, Any, np.ndarray]:
        """Take the largest sample: its instances, what was kept of it, and the pairs that wait there, sorted."""
        chosen, kept, pairs = self._waiting.pop(heapq.heappop(self._heap)[1])
        # Sorted, so that results do not depend on the order of arrival.
        return chosen, kept, np.sort(np.concatenate(pairs))
