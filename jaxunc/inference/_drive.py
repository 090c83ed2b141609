"""Many instances through programs of few shapes: cut, padded, on several threads, trimmed and joined again.

`cut` makes the parts, `Part.of` has the rows of one of them, and `drive` runs a function for each and joins the
answers. What comes from the host is cut, padded, trimmed and joined there, by NumPy: a slice of an array on a device,
an operation outside of a program, and `jnp.asarray` of a NumPy array are programs, too, one for each number of rows.
`jax.device_put` is none.

Sparse data are made dense here, part by part, and of them the columns alone that some tree tests (`on_tested`). Of
models that compare float64, rows of float32 go by trees of their own, which need no codes (`encode_for`).
"""

import dataclasses
import math
import platform
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxunc._checks import nothing_is_traced, outside_traces
from jaxunc._numerics import KeptWhileAlive, ceil_div, default_platform, jit, order_key_at_or_below
from jaxunc.forest import Trees
from jaxunc.tables import Encoded, InstancesLike, SparseRows, encode_rows, holds_float32

from ._walk import BLOCKS, CHUNK_BLOCKS, Walk, block_size


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

    @property
    def number(self) -> np.int32 | None:
        """`n_blocks` as an argument of programs, which trace it; None where the call is one block."""
        return None if self.chunk.rows == self.chunk.block else np.int32(self.n_blocks)

    @property
    def is_full(self) -> bool:
        """Whether there is no padding."""
        return self.stop - self.start == self.chunk.rows

    def of(self, array):
        """Return the part's rows of an array, padded by zeros to the chunk's number; None for None."""
        if array is None:
            return None
        rows = array[self.start : self.stop]
        if isinstance(rows, SparseRows):  # here, and nowhere else, are they made dense
            rows = rows.dense()
        more = self.chunk.rows - (self.stop - self.start)
        if not more:
            return rows
        if not isinstance(rows, np.ndarray):
            return jnp.pad(rows, ((0, more), *[(0, 0)] * (rows.ndim - 1)))
        padded = np.zeros((self.chunk.rows, *rows.shape[1:]), rows.dtype)  # np.pad takes ten times as long for few
        padded[: len(rows)] = rows
        return padded


class Shapes(NamedTuple):
    """The shapes of compiled calls that a batch of any size is cut into."""

    single: Chunk
    """The shape that most instances go through."""
    large: Chunk | None = None
    """For large batches, where calls would be many."""
    small: tuple[Chunk, ...] = ()
    """For what is left, ascending."""
    of_a_call: int = 384
    """Instances that take as long as all else of a call: its programs, and the loops of its trees."""
    of_a_thread: int = 512
    """Instances that take as long as another thread to wake, and its answer to come."""

    def of_at_most(self, rows: int, block: int) -> "Shapes":
        """The shapes of at most ``rows`` instances, one at least, in blocks of at most ``block``."""
        smallest = self.small[0] if self.small else self.single
        fit = [c for c in (*self.small, self.single) if c.rows <= rows]
        fit = fit or [Chunk(*[min(smallest.rows, max(rows, 1))] * 2)]
        fit = [Chunk(chunk.rows, min(chunk.block, block, chunk.rows)) for chunk in fit]
        return self._replace(single=fit[-1], large=None, small=tuple(fit[:-1]))


SMALL = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Instances of the small shapes on a CPU: powers of two, since calls often have as many, and to cut padding off takes
longer than eight rows. Up to 16 go one by one, in the thread that calls, and padding is not walked. Up to 64 all trees
are walked at once."""

LEAST_SHARED = 64
"""Instances of the least shape that threads share."""

DISPATCHED = 10_000
"""Instances of an accelerator that take as long as all else of a call."""

HANDOVER = 2**20
"""Tests that take as long as to wake another thread: up to 1 ms on a virtual machine, since it wakes one of XLA's."""


def call_shapes(walk: Walk, n_trees: int, n_columns: int, n_tests: int = 0) -> Shapes:
    """The shapes of calls that walk ``n_trees`` trees, on ``n_columns`` columns of keys.

    ``n_tests``: the tests that an instance meets in all trees.
    """
    size = block_size(walk, n_trees, n_columns)
    if walk == "levels":
        smallest, middle = (Chunk(min(rows, size), min(rows, size)) for rows in (1024, 32768))
        return Shapes(middle, Chunk(size, size), (smallest,), DISPATCHED)
    small = tuple(Chunk(rows, block_size(walk, n_trees, n_columns, rows)) for rows in SMALL)
    large = Chunk(CHUNK_BLOCKS * BLOCKS[0], size)
    # Of two calls answers are joined and handed to JAX again, 200 µs: as much as 100 shallow trees for 4096 rows.
    small = (*small, Chunk(BLOCKS[0], size))
    return Shapes(Chunk(2 * BLOCKS[0], size), large, small, of_a_thread=HANDOVER // max(n_tests, 1))


@lru_cache(maxsize=1024)
def cut(n_instances: int, shapes: Shapes, threads: int) -> tuple[Part, ...]:
    """Return the parts of a batch: large ones, then single ones, as long as every thread gets one, then the rest.

    The rest is shared by the threads in parts of the shape that takes them the least time. The last part has the
    smallest shape that holds it.
    """
    single, large, small, *_ = shapes
    parts, start = [], 0
    for chunk in (single,) if large is None else (large, single):
        for _ in range((n_instances - start) // (threads * chunk.rows) * threads):
            parts.append(Part(start, start + chunk.rows, chunk))
            start += chunk.rows
    if (rest := n_instances - start) or not parts:
        quickest = _quickest_chunk(rest, shapes, threads)
        while n_instances - start > quickest.rows:
            parts.append(Part(start, start + quickest.rows, quickest))
            start += quickest.rows
        rest = n_instances - start
        parts.append(Part(start, n_instances, next((chunk for chunk in small if chunk.rows >= rest), single)))
    return tuple(parts)


def _quickest_chunk(n_instances: int, shapes: Shapes, threads: int) -> Chunk:
    """The shape by whose parts threads are done first."""
    min_rows = min(LEAST_SHARED, n_instances, shapes.single.rows)
    shared = [chunk for chunk in (*shapes.small, shapes.single) if chunk.rows >= min_rows]

    def cost(chunk: Chunk) -> int:
        calls = ceil_div(n_instances, chunk.rows)
        woken = shapes.of_a_thread if min(calls, threads) > 1 else 0
        return ceil_div(calls, threads) * (chunk.rows + shapes.of_a_call) + woken

    return min(shared, key=cost)


def drive(score: Callable[[Part], PyTree], parts: Sequence[Part], threads: int) -> PyTree:
    """Return ``score``'s answers for the parts, padding trimmed, joined along the instances: JAX arrays.

    A number may stand for all instances.
    """
    if len(parts) == 1 and parts[0].is_full:
        answer = _answer(score, parts[0])
        # Until it is ready the program may read the rows, which are the caller's memory: a copy would cost more.
        return answer.block_until_ready() if isinstance(answer, jax.Array) else jax.block_until_ready(answer)
    return jax.device_put(drive_on_host(score, parts, threads))


def drive_on_host(
    score: Callable[[Part], PyTree], parts: Sequence[Part], threads: int, *, ahead: bool = False
) -> PyTree:
    """Return what `drive` does, as NumPy arrays.

    ``ahead``: all parts are under way before an answer is fetched, for accelerators.
    """
    if ahead:
        answers = [trimmed(answer, part) for answer, part in [(_answer(score, part), part) for part in parts]]
    else:
        run = lambda part: trimmed(_answer(score, part), part)
        answers = list(thread_map(threads if len(parts) > 1 else 1)(run, parts))
    return answers[0] if len(answers) == 1 else jax.tree.map(joined, *answers)


def _answer(score: Callable[[Part], PyTree], part: Part) -> PyTree:
    """Return ``score(part)``, computed outside of any program that is being traced."""
    if nothing_is_traced():  # at once: another context takes a twentieth of a call of one row
        return score(part)
    with outside_traces():
        return score(part)


ALIGNMENT = 64
"""Bytes: an array that starts elsewhere is copied by XLA."""

ROWS = Shapes(Chunk(2048, 2048), Chunk(16384, 16384), (Chunk(64, 64), Chunk(512, 512)))
"""For functions of rows alone."""


def over_rows(function: Callable[[PyTree], PyTree], arrays: PyTree) -> PyTree:
    """Return a function's values for the rows of arrays of the host, through calls of few shapes, as NumPy arrays.

    Padding is zeros. A number stands for all rows.
    """
    n = next(len(array) for array in jax.tree.leaves(arrays) if array.ndim)
    padded = lambda part: jax.tree.map(lambda array: part.of(array) if array.ndim else array, arrays)
    return drive_on_host(lambda part: function(padded(part)), cut(n, ROWS, 1), 1)


def thread_map(threads: int) -> Callable[[Callable, Iterable], Iterable]:
    """A ``map`` over ``threads`` threads, of which the caller's is one: to wake others takes time."""
    return partial(_shared, _pool(threads - 1)) if threads > 1 else map


def _shared(pool: ThreadPoolExecutor, function: Callable, parts: Iterable) -> list[Any]:
    parts = list(parts)
    futures = [pool.submit(function, part) for part in parts[1:]]
    answers = {0: function(parts[0])} if parts else {}
    # From the end, where no other thread has begun: the caller runs what it can take back.
    for i in range(len(parts) - 1, 0, -1):
        if futures[i - 1].cancel():
            answers[i] = function(parts[i])
    return [answers[i] if i in answers else futures[i - 1].result() for i in range(len(parts))]


def trimmed(answer: PyTree, part: Part) -> PyTree:
    """Return an answer without its padding, as NumPy arrays."""
    n = part.stop - part.start
    return jax.tree.map(lambda array: np.asarray(array)[:n] if array.ndim else np.asarray(array), answer)


def joined(*parts):
    """Answers of parts, joined; a number that stands for all instances is in each of them."""
    if not parts[0].ndim:
        return parts[0]
    return join(parts)


def join(parts: Sequence[np.ndarray]) -> np.ndarray:
    """`numpy.concatenate` into memory that JAX takes over on a CPU without copying it again."""
    return np.concatenate(parts, out=room_for((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype))


def room_for(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory, not written yet, that JAX takes over on a CPU without copying it."""
    size = math.prod(shape) * dtype.itemsize
    room = np.empty(size + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + size].view(dtype).reshape(shape)


@lru_cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="jaxunc")


MOST_DENSE = 2**23
"""Values that a call makes dense, where instances are sparse and the columns many."""


class Tested(NamedTuple):
    """Trees by the columns that they test."""

    trees: Trees
    """The same trees, which number those columns alone."""
    positions: np.ndarray | None
    """Positions of those columns among all; None where all are tested, and the trees are as they were."""


def tested(trees: Trees) -> Tested:
    """Return trees that have values by the columns that they test: of sparse data no others are made dense."""
    arrays = (trees.feature, trees.threshold, trees.child)
    return _TESTED.get(arrays, trees.columns, lambda: _by_tested(trees))


_TESTED: KeptWhileAlive[Tested] = KeptWhileAlive()


def _by_tested(trees: Trees) -> Tested:
    feature, child = np.asarray(trees.feature), np.asarray(trees.child)
    inner = child != np.arange(trees.n_nodes)
    # One at least, so that there is something to make dense: trees of leaves alone test nothing.
    positions = np.union1d(feature[inner], np.zeros(0 if inner.any() else 1, feature.dtype))
    if len(positions) >= trees.n_features:
        return Tested(trees, None)
    # An empty leaf keeps its feature, the negative number of its fork.
    feature = np.where(inner, np.searchsorted(positions, feature), np.minimum(feature, 0))
    fewer = jax.device_put(feature.astype(np.int32))
    return Tested(dataclasses.replace(trees, feature=fewer, columns=trees.columns.at(positions)), positions)


def on_tested(trees: Trees, values):
    """Return trees and instances: where these are `SparseRows`, both by the columns tested."""
    if not isinstance(values, SparseRows):
        return trees, values
    narrow, positions = tested(trees)
    return narrow, values.of(positions, narrow.columns)


def encode_for(trees: Trees, X: InstancesLike, *, infinite: bool = False) -> tuple[Trees, Encoded]:
    """Return trees that have values, and instances for them: codes among cuts, if X may hold more than float32 does.

    Else the trees compare with the cuts themselves. Raises what `encode_rows` does.
    """
    if trees.columns.cuts is not None and holds_float32(X):
        narrow = by_float32(trees)
        with suppress(ValueError):  # of infinite values codes know which are refused
            return narrow, encode_rows(X, narrow.columns, infinite=infinite)
    return trees, encode_rows(X, trees.columns, infinite=infinite)


def by_float32(trees: Trees) -> Trees:
    """Return the same trees without cuts: numbers of float32 go where their codes go."""
    arrays = (trees.feature, trees.threshold, trees.child)
    return _BY_FLOAT32.get(arrays, trees.columns, lambda: _by_float32(trees))


_BY_FLOAT32: KeptWhileAlive[Trees] = KeptWhileAlive()


def _by_float32(trees: Trees) -> Trees:
    columns, feature, code_key = trees.columns, np.maximum(np.asarray(trees.feature), 0), np.asarray(trees.threshold)
    # Numbers go left up to the cut that a code is the place of; none below the first code, all behind the last.
    borders = [() if cuts is None else (-np.inf, *cuts, np.inf) for cuts in columns.cuts or ()]
    sizes = np.array([len(each) for each in borders], np.int64)
    key, first = order_key_at_or_below(np.concatenate([*borders, np.zeros(1)])), np.cumsum(sizes) - sizes
    key[first[sizes > 0]] -= 1
    is_coded = (np.asarray(trees.child) != np.arange(trees.n_nodes)) & (sizes[feature] > 0) & (code_key <= _INFINITE)
    code = np.floor(np.where(is_coded, np.maximum(code_key, 0), 0).view(np.float32))
    place = np.where(code_key < 0, 0, 1 + np.minimum(code, sizes[feature] - 2)).astype(np.int64)
    threshold = np.where(is_coded, key[np.where(is_coded, first[feature] + place, -1)], code_key)
    return dataclasses.replace(
        trees, threshold=jax.device_put(threshold), columns=dataclasses.replace(columns, cuts=None)
    )


_INFINITE = order_key_at_or_below(np.array(np.inf))


def bounded(shapes: Shapes, values) -> Shapes:
    """The shapes of calls; for `SparseRows` those that make few values dense at a time, or the least."""
    if not isinstance(values, SparseRows):
        return shapes
    most = MOST_DENSE // max(values.shape[1], 1)
    fits = lambda chunk: chunk.rows <= most
    if fits(shapes.single):
        return shapes if shapes.large is None or fits(shapes.large) else shapes._replace(large=None)
    small: tuple[Chunk, ...] = tuple(filter(fits, shapes.small)) or shapes.small[:1]
    return shapes._replace(single=small[-1], large=None, small=small[:-1]) if small else shapes._replace(large=None)


WIDE_VECTORS = {"xla_cpu_prefer_vector_width": "512"}
"""The compiler's options on AMD's processors: a walk takes a sixth less time there, and a fifth more on Intel's. Values
are the same."""


class HostProgram:
    """A jitted function of known values, which no other program calls; compiled for the vectors that suit the CPU."""

    def __init__(self, function: Callable[..., Any], **static: Any):
        self.function, self.static = function, static

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Return what the function, compiled, returns of these arguments."""
        return self.jitted(*args, **settings)

    @cached_property
    def jitted(self) -> Any:
        """The function jitted, with the compiler's options where they help and its version knows them."""
        return jit(self.function, compiler_options=WIDE_VECTORS if _prefers_wide_vectors() else None, **self.static)


def _processor() -> str:
    """What the operating system says of the processor."""
    description = Path("/proc/cpuinfo")
    return description.read_text(errors="replace")[:1000] if description.exists() else platform.processor()


@cache
def _prefers_wide_vectors() -> bool:
    """Whether walks are compiled for wide vectors: on AMD's processors, where XLA takes the option."""
    if default_platform() != "cpu" or "AuthenticAMD" not in _processor():
        return False

    def probe_wide_vectors(x):
        return x

    try:
        jax.jit(probe_wide_vectors, compiler_options=WIDE_VECTORS).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
