"""Instances dealt out over 'data', and answers collected again."""

from collections.abc import Iterable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from jaxunc._numerics import ceil_div
from jaxunc.inference import Part

from ._grid import Grid
from ._tree_shards import first_of


def stretch_of(grid: Grid, process: int, n_instances: int) -> int:
    """Return the length of the stretches into which the instances of a process are cut."""
    return ceil_div(n_instances, len(grid.rows_of(process)))


class Deal(NamedTuple):
    """Layout of this process's instances: stretches of equal length, one for each of its places along 'data'."""

    grid: Grid
    n_instances: int
    """Number of instances of this process."""

    @property
    def places(self) -> tuple[int, ...]:
        """Places of this process along 'data'."""
        return self.grid.rows_of(self.grid.me)

    @property
    def stretch(self) -> int:
        """Number of instances in a place's stretch."""
        return stretch_of(self.grid, self.grid.me, self.n_instances)

    def out(self, part: Part, array: np.ndarray, *axes: str | None) -> jax.Array:
        """Deal out the rows of a part of every stretch, padded by zeros: ``[data rows …]``, along these axes."""
        dealt = np.zeros((len(self.places), part.chunk.rows, *array.shape[1:]), array.dtype)
        for i in range(len(self.places)):
            first, last = i * self.stretch, min((i + 1) * self.stretch, self.n_instances)
            # The last stretch may be shorter than the others; beyond its end zeros remain.
            rows = array[min(first + part.start, last) : min(first + part.stop, last)]
            dealt[i, : len(rows)] = rows
        row_of = {place: i for i, place in enumerate(self.places)}

        def rows_at(index):
            row = row_of[first_of(index)]
            return dealt[row : row + 1, *index[1:]]

        shape = (self.grid.n_data, *dealt.shape[1:])
        return jax.make_array_from_callback(shape, self.grid.sharding("data", *axes), rows_at)

    def collected(self, parts: list[Part], answers: Iterable[PyTree]) -> PyTree:
        """Return the answers of all parts for this process's instances, in their order."""
        return jax.tree.map(lambda *found: jax.device_put(self._joined(parts, found)), *answers)

    def fetched(self, answer: PyTree) -> PyTree:
        """Fetch an answer's rows of this process, ``[places rows …]``; a number for all instances stays as it is."""
        return jax.tree.map(self._on_host, answer)

    def _on_host(self, array: jax.Array) -> np.ndarray:
        # A process reads only what lies on its own devices: the rest of the array is another's memory.
        if array.is_fully_addressable or not array.ndim:
            return np.asarray(array)
        host_rows = np.empty((len(self.places), *array.shape[1:]), array.dtype)
        for shard in array.addressable_shards:
            host_rows[self.places.index(first_of(shard.index)), *shard.index[1:]] = np.asarray(shard.data)[0]
        return host_rows

    def _joined(self, parts: list[Part], answers: tuple[np.ndarray, ...]) -> np.ndarray:
        if not answers[0].ndim:
            return answers[0]
        rows = [answer[:, : part.stop - part.start] for part, answer in zip(parts, answers, strict=True)]
        # Stretch after stretch is the order of the instances; padding is at the end of each part and of the last
        # stretch.
        by_place = np.concatenate(rows, axis=1)[:, : self.stretch]
        return by_place.reshape(-1, *by_place.shape[2:])[: self.n_instances]
