"""Many instances through programs of few shapes: cut, padded, on several threads, joined again."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree


class Chunk(NamedTuple):
    """A shape of compiled calls."""

    rows: int
    """Instances that fit."""
    block: int
    """Instances that are worked on at a time: a call takes as many blocks as its instances fill."""


class Part(NamedTuple):
    """Some instances, and the shape of the call that they go through."""

    start: int
    stop: int
    chunk: Chunk

    @property
    def n_blocks(self) -> int:
        """Blocks that hold instances; one at least."""
        return max(1, -(-(self.stop - self.start) // self.chunk.block))

    def of(self, array):
        """The part's rows of an array, padded to the chunk (by zeros); None of None."""
        if array is None:
            return None
        rows = array[self.start : self.stop]
        more = self.chunk.rows - (self.stop - self.start)
        if not more:
            return rows
        return (np if isinstance(rows, np.ndarray) else jnp).pad(rows, ((0, more), (0, 0)))


class Shapes(NamedTuple):
    """The shapes of compiled calls that a batch of any size is cut into."""

    single: Chunk
    """What most instances go through."""
    large: Chunk | None = None
    """For large batches, where calls would be many."""
    small: tuple[Chunk, ...] = ()
    """For what is left, ascending."""


def cut(n_instances: int, shapes: Shapes, threads: int) -> list[Part]:
    """The parts: large ones while every thread gets several, single ones, and the rest in the least that takes it.

    A rest that nearly fills a single one is given one.
    """
    single, large, small = shapes
    parts, start = [], 0
    many = large is not None and n_instances >= 2 * large.rows * threads
    for chunk in (large, single) if large is not None and many else (single,):
        while n_instances - start >= chunk.rows:
            parts.append(Part(start, start + chunk.rows, chunk))
            start += chunk.rows
    rest = n_instances - start
    if rest or not parts:
        chunk = next((chunk for chunk in small if chunk.rows >= rest), single)
        parts.append(Part(start, n_instances, single if rest > 0.75 * single.rows else chunk))
    return parts


def drive(score: Callable[[Part], PyTree], parts: list[Part], threads: int) -> PyTree:
    """What ``score`` answers for each part, its padding trimmed, joined along the instances.

    The answers of hosts are joined there, where it compiles nothing. A number may stand for all instances.
    """
    threads = threads if len(parts) > 1 else 1
    answers = list(spread(threads)(lambda part: _trimmed(score(part), part.stop - part.start), parts))
    return jax.tree.map(_joined, *answers)


def spread(threads: int) -> Callable[[Callable, Iterable], Iterable]:
    """A ``map``, over several threads if there are several."""
    return _pool(threads).map if threads > 1 else map


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _trimmed(answer: PyTree, n: int) -> PyTree:
    return jax.tree.map(lambda part: part[:n] if part.ndim else part, answer)


def _joined(*parts):
    if len(parts) == 1 or not parts[0].ndim:
        return jnp.asarray(parts[0])
    return jnp.asarray(np.concatenate(parts)) if isinstance(parts[0], np.ndarray) else jnp.concatenate(parts)


@lru_cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="jaxunc")
