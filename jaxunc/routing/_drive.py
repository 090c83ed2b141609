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


def cut(n_instances: int, chunks: tuple[Chunk, ...], threads: int) -> list[Part]:
    """The parts: whole blocks of the largest chunk, shared out evenly, and what is left in the smallest that takes it.

    ``chunks`` ascend. A rest that would fill most of a larger block is given one.
    """
    rows, block = chunks[-1]
    smaller = chunks[:-1]
    n_blocks, rest = divmod(n_instances, block)
    if rest and (not smaller or rest > 0.75 * block or rest > smaller[-1].rows):
        n_blocks, rest = n_blocks + 1, 0
    parts, start = [], 0
    if n_blocks:
        n_parts = -(-n_blocks // (rows // block))
        n_parts = min(-(-n_parts // threads) * threads, n_blocks)
        for i in range(n_parts):
            stop = min(n_instances, block * ((i + 1) * n_blocks // n_parts))
            parts.append(Part(start, stop, chunks[-1]))
            start = stop
    if rest or not parts:
        parts.append(Part(start, n_instances, next(chunk for chunk in chunks if chunk.rows >= rest)))
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
