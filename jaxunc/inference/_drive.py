"""Batches of any size through programs of few shapes: instances are cut into parts and padded, answers are joined.

`cut` makes the parts, and `Part.of` returns the rows of a part. `drive` runs a function for each part, on several
threads, and joins the answers. Data of the host are cut, padded and joined there by NumPy. On a device each slice and
each `jnp.asarray` of a NumPy array would be a program, compiled for each number of rows; `jax.device_put` compiles
nothing. Only for frequent numbers of instances a program joins and trims the answers.

Sparse data are made dense here, part by part, in only those columns that some tree tests (`on_tested`). Where a model
compares float64 through codes, float32 rows go through trees with float32 thresholds (`encode_for`).
"""

import dataclasses
import math
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxunc._checks import nothing_is_traced, outside_traces
from jaxunc._numerics import KeptWhileAlive, ceil_div, default_platform, jit, order_key_at_or_below, padded_rows
from jaxunc.forest import Trees
from jaxunc.tables import Encoded, InstancesLike, SparseRows, encode_rows, holds_float32

from ._walk import BLOCKS, CHUNK_BLOCKS, Walk, block_size


class Chunk(NamedTuple):
    """The shape of a compiled call."""

    rows: int
    """Number of rows of the call's arrays, padding included."""
    block: int
    """Number of instances that are walked at a time. Blocks that hold only padding are not walked."""


class Part(NamedTuple):
    """The instances ``start … stop - 1`` of a batch, and the shape of the call that answers them."""

    start: int
    stop: int
    chunk: Chunk

    @property
    def n_instances(self) -> int:
        """Number of instances of the part, without padding."""
        return self.stop - self.start

    @property
    def n_blocks(self) -> int:
        """Number of the part's blocks that hold instances; 1 if there are no instances."""
        return max(1, -(-self.n_instances // self.chunk.block))

    @property
    def number(self) -> np.int32 | None:
        """`n_blocks` as an argument of programs, which trace it; None where the call is one block."""
        return None if self.chunk.rows == self.chunk.block else np.int32(self.n_blocks)

    @property
    def is_full(self) -> bool:
        """Whether the part's instances fill its chunk, so that there is no padding."""
        return self.n_instances == self.chunk.rows

    def of(self, array):
        """Return the part's rows of ``array``, which has a row for each instance of the batch; None for None.

        The rows are dense, and padded to ``chunk.rows``.
        """
        if array is None or (type(array) is np.ndarray and len(array) == self.n_instances == self.chunk.rows):
            return array  # None, or all rows of a batch that needs no padding
        rows = array[self.start : self.stop]
        if isinstance(rows, SparseRows):  # sparse rows are made dense here alone
            rows = rows.dense()
        if isinstance(rows, np.ndarray):
            return padded_rows(rows, self.chunk.rows)
        n_padding = self.chunk.rows - self.n_instances
        if n_padding == 0:
            return rows
        other_axes = [(0, 0)] * (rows.ndim - 1)
        return jnp.pad(rows, ((0, n_padding), *other_axes))


class Shapes(NamedTuple):
    """The shapes of compiled calls that a batch of any size is cut into."""

    single: Chunk
    """The shape that most instances go through."""
    large: Chunk | None = None
    """The shape for large batches, so that there are fewer calls; None if they get no shape of their own."""
    small: tuple[Chunk, ...] = ()
    """Shapes for the instances that larger calls leave, in ascending order of rows."""
    call_cost: int = 384
    """Fixed time of a call (its programs, the loops over trees), as a number of instances that take as long."""
    thread_cost: int = 512
    """Time to wake another thread and to hand over its answer, as a number of instances that take as long."""

    def of_at_most(self, rows: int, block: int) -> "Shapes":
        """Return those of the shapes but ``large`` that have at most ``rows`` rows, in blocks of at most ``block``.

        If none is so small, there is a single shape of ``rows`` rows.
        """
        chunks = [chunk for chunk in (*self.small, self.single) if chunk.rows <= rows]
        if not chunks:
            smallest = self.small[0] if self.small else self.single
            n_rows = min(smallest.rows, max(rows, 1))
            chunks = [Chunk(rows=n_rows, block=n_rows)]
        chunks = [Chunk(chunk.rows, min(chunk.block, block, chunk.rows)) for chunk in chunks]
        return self._replace(single=chunks[-1], large=None, small=tuple(chunks[:-1]))


SMALL = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Rows of the small shapes on a CPU: powers of two, since batches often have as many instances. To cut off padding
takes longer than to answer eight rows. Up to 16 rows go in blocks of one or a few, in the calling thread. Up to 64 rows
walk all trees at once, or select leaves tree by tree."""

LEAST_SHARED = 64
"""Rows of the smallest shape in which several threads share a batch."""

DISPATCHED = 10_000
"""`Shapes.call_cost` of an accelerator."""

HANDOVER = 2**20
"""Number of tests that take as long as waking another thread: up to 1 ms on a virtual machine, since that thread wakes
one of XLA's."""


def call_shapes(walk: Walk, n_trees: int, n_columns: int, n_tests: int = 0, small_block: int = 1) -> Shapes:
    """Return the shapes of calls that walk ``n_trees`` trees, where an instance has ``n_columns`` keys and words.

    ``n_tests`` is about the number of tests that an instance meets in all trees; 0 if it is not known, so that other
    threads share only large batches. ``small_block`` is as for `block_size`.
    """
    block = block_size(walk, n_trees, n_columns)
    if walk == "levels":  # a call is one block, at most as large as memory allows; the two smaller save padding
        small, single, large = (Chunk(min(rows, block), min(rows, block)) for rows in (1024, 32768, block))
        return Shapes(single, large, (small,), call_cost=DISPATCHED)
    small = [Chunk(rows, block_size(walk, n_trees, n_columns, rows, small_block)) for rows in SMALL]
    # 4096 rows in one call, since joining the answers of two calls takes as long as 100 shallow trees for these rows.
    single = Chunk(2 * BLOCKS[0], block)
    large = Chunk(CHUNK_BLOCKS * BLOCKS[0], block)
    return Shapes(single, large, (*small, Chunk(BLOCKS[0], block)), thread_cost=HANDOVER // max(n_tests, 1))


@lru_cache(maxsize=1024)
def cut(n_instances: int, shapes: Shapes, threads: int) -> tuple[Part, ...]:
    """Return the parts that a batch of ``n_instances`` is cut into, in order, for ``threads`` threads.

    First come parts of the shape ``shapes.large``, then of ``shapes.single``, of each as many for every thread. The
    remaining instances are cut into parts of the small or single shape with which the threads end first. The last part
    has the smallest shape that holds it. A batch without instances is one empty part.
    """
    single, large, small, *_ = shapes
    chunks = []
    n_left = n_instances
    shared_chunks = (single,) if large is None else (large, single)
    for chunk in shared_chunks:
        n_calls = n_left // (threads * chunk.rows) * threads  # the same number for each thread
        chunks += [chunk] * n_calls
        n_left -= n_calls * chunk.rows
    if n_left or not chunks:
        quickest = _quickest_chunk(n_left, shapes, threads)
        n_calls = max(ceil_div(n_left, quickest.rows) - 1, 0)  # all but the last, which may be smaller
        n_left -= n_calls * quickest.rows
        last_chunk = next((chunk for chunk in small if chunk.rows >= n_left), single)
        chunks += [quickest] * n_calls + [last_chunk]
    bounds = pairwise(accumulate((chunk.rows for chunk in chunks), initial=0))  # (first row, end) of each chunk
    return tuple(
        Part(start, min(stop, n_instances), chunk) for (start, stop), chunk in zip(bounds, chunks, strict=True)
    )


def _quickest_chunk(n_instances: int, shapes: Shapes, threads: int) -> Chunk:
    """Return the small or single one of ``shapes`` with which ``threads`` threads answer ``n_instances`` soonest."""
    # Up to `LEAST_SHARED` instances go in one call; more are shared in calls of at least so many rows.
    min_rows = min(LEAST_SHARED, n_instances, shapes.single.rows)
    candidates = [chunk for chunk in (*shapes.small, shapes.single) if chunk.rows >= min_rows]

    def cost(chunk: Chunk) -> int:
        """Return the time until the last thread ends, if calls have the shape ``chunk``; the unit is one instance's."""
        n_calls = ceil_div(n_instances, chunk.rows)
        waking_cost = shapes.thread_cost if min(n_calls, threads) > 1 else 0
        return ceil_div(n_calls, threads) * (chunk.rows + shapes.call_cost) + waking_cost

    return min(candidates, key=cost)


def drive(score: Callable[[Part], PyTree], parts: Sequence[Part], threads: int) -> PyTree:
    """Return the answers ``score(part)`` of all ``parts``, joined along the instances, as JAX arrays without padding.

    ``threads`` threads share the parts. A number in an answer stands for all instances.
    """
    n_instances = parts[-1].stop
    if len(parts) == 1 and parts[0].is_full:  # nothing to trim or to join
        answer = _outside_traces(score, parts[0])
    elif len(parts) <= MOST_JOINED and _is_frequent(n_instances):
        run = lambda part: _ready(_outside_traces(score, part))
        answers = tuple(thread_map(threads if len(parts) > 1 else 1)(run, parts))
        answer = _outside_traces(_join_on_device, answers, n_instances)
    else:
        return jax.device_put(drive_on_host(score, parts, threads))
    # The program may read the caller's memory until the answer is ready. A copy of the rows would cost more.
    return _ready(answer)


def _ready(answer: PyTree) -> PyTree:
    """Return ``answer`` once it is computed."""
    # A single array is asked itself, so that JAX flattens no pytree.
    return answer.block_until_ready() if hasattr(answer, "block_until_ready") else jax.block_until_ready(answer)


MOST_JOINED, MOST_UNCOMPILED, MOST_FREQUENT, MOST_COUNTED = 8, 32, 64, 1024
"""A program joins at most `MOST_JOINED` parts, once there were `MOST_UNCOMPILED` calls with as many instances. It does
so for at most `MOST_FREQUENT` numbers of instances; calls are counted for about `MOST_COUNTED` numbers. It takes 10 µs
where the way by the host takes 60 to 150, but 20 to 40 ms to compile for a number of instances."""

_CALLS: Counter[int] = Counter()
"""Number of calls by their number of instances. Threads may miss some of each other's, which does not matter."""

_FREQUENT: set[int] = set()
"""The numbers of instances whose parts a program joins."""


def _is_frequent(n_instances: int) -> bool:
    """Return whether a program joins the parts of a batch of ``n_instances``; count the call until it does."""
    if n_instances in _FREQUENT:
        return True
    if len(_FREQUENT) >= MOST_FREQUENT:
        return False
    if len(_CALLS) > MOST_COUNTED:
        _CALLS.clear()
    _CALLS[n_instances] += 1
    if _CALLS[n_instances] <= MOST_UNCOMPILED:
        return False
    _FREQUENT.add(n_instances)
    return True


@partial(jit, static_argnums=1)
def _join_on_device(answers: tuple[PyTree, ...], n: int) -> PyTree:
    """Return the parts' ``answers`` as one, with only the first ``n`` rows of each array; numbers are the first's."""
    return jax.tree.map(lambda *arrays: jnp.concatenate(arrays)[:n] if jnp.ndim(arrays[0]) else arrays[0], *answers)


def drive_on_host(
    score: Callable[[Part], PyTree], parts: Sequence[Part], threads: int, *, ahead: bool = False
) -> PyTree:
    """Return the answers ``score(part)`` of all ``parts``, joined along the instances, as NumPy arrays without padding.

    ``threads`` threads share the parts. With ``ahead``, for accelerators, the calling thread alone dispatches the calls
    of all parts before it fetches an answer. A number in an answer stands for all instances.
    """
    if ahead:
        on_device = [_outside_traces(score, part) for part in parts]
        answers = [trim(answer, part) for answer, part in zip(on_device, parts, strict=True)]
    else:
        run = lambda part: trim(_outside_traces(score, part), part)
        answers = list(thread_map(threads if len(parts) > 1 else 1)(run, parts))
    return answers[0] if len(answers) == 1 else jax.tree.map(join_parts, *answers)


def _outside_traces(function: Callable[..., PyTree], *arguments: Any) -> PyTree:
    """Return ``function(*arguments)``, computed outside of any program that JAX is tracing."""
    if nothing_is_traced():  # without a context, which takes a twentieth of a call of one row
        return function(*arguments)
    with outside_traces():
        return function(*arguments)


ALIGNMENT = 64
"""Alignment in bytes: XLA copies an array whose address is not a multiple of it."""

ROWS = Shapes(Chunk(2048, 2048), Chunk(16384, 16384), (Chunk(64, 64), Chunk(512, 512)))
"""Shapes of calls of functions that walk no trees (`over_rows`)."""


def over_rows(function: Callable[[PyTree], PyTree], arrays: PyTree) -> PyTree:
    """Return ``function(arrays)`` as NumPy arrays, computed through calls of few shapes.

    ``arrays`` is a pytree of arrays of the host, all with the same number of rows. In a call the function gets some
    rows, padded by zeros; the rows of its values are joined. Numbers, in its argument or values, stand for all rows.
    """
    n = next(len(array) for array in jax.tree.leaves(arrays) if array.ndim)

    def call(part: Part) -> PyTree:
        rows = jax.tree.map(lambda array: part.of(array) if array.ndim else array, arrays)
        return function(rows)

    return drive_on_host(call, cut(n, ROWS, threads=1), threads=1)


def thread_map(threads: int) -> Callable[[Callable, Iterable], Iterable]:
    """Return a function like ``map`` that computes on ``threads`` threads, the calling one among them."""
    return partial(_map_on_threads, _pool(threads - 1)) if threads > 1 else map


def _map_on_threads(pool: ThreadPoolExecutor, function: Callable, parts: Iterable) -> list[Any]:
    """Return a list of ``function(part)`` for ``parts``, computed by the calling thread and those of ``pool``."""
    parts = list(parts)
    futures = [pool.submit(function, part) for part in parts[1:]]
    answers = {0: function(parts[0])} if parts else {}
    # The calling thread takes parts back from the end, as long as no other thread has begun them. The future of part i
    # is the one before, since the first part has none.
    for i in range(len(parts) - 1, 0, -1):
        if futures[i - 1].cancel():
            answers[i] = function(parts[i])
    return [answers[i] if i in answers else futures[i - 1].result() for i in range(len(parts))]


def trim(answer: PyTree, part: Part) -> PyTree:
    """Return the ``answer`` of ``part`` as NumPy arrays without padding; numbers, for all instances, stay numbers."""
    n = part.n_instances
    return jax.tree.map(lambda array: np.asarray(array)[:n] if array.ndim else np.asarray(array), answer)


def join_parts(*parts):
    """Return the arrays ``parts`` joined along the instances; of numbers, which are equal in all parts, the first."""
    if not parts[0].ndim:
        return parts[0]
    return join(parts)


def join(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the arrays ``parts`` concatenated along their first axis, in memory that JAX takes over (`room_for`)."""
    first = parts[0]
    n_rows = sum(map(len, parts))
    return np.concatenate(parts, out=room_for((n_rows, *first.shape[1:]), first.dtype))


def room_for(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an uninitialised array of this shape and dtype, whose memory JAX takes over on a CPU without a copy."""
    n_bytes = math.prod(shape) * dtype.itemsize
    buffer = np.empty(n_bytes + ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT
    return buffer[start : start + n_bytes].view(dtype).reshape(shape)


@lru_cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return the pool of ``threads`` threads, which is made once and used by all calls."""
    return ThreadPoolExecutor(threads, thread_name_prefix="jaxunc")


MOST_DENSE = 2**23
"""Most values, rows times columns, that a call makes dense where instances are sparse."""


class NarrowTrees(NamedTuple):
    """Trees whose data have only the columns that some of them test."""

    trees: Trees
    """The same trees, with the tested columns numbered from 0."""
    positions: np.ndarray | None
    """Positions of the tested columns among all columns; None if all are tested, and the trees are unchanged."""


def narrow_trees(trees: Trees) -> NarrowTrees:
    """Return concrete trees on only the columns that they test; cached."""
    narrow = _NARROW_TREES.get(jax.tree.leaves(trees), trees.columns, lambda: _narrow(trees))
    return narrow or NarrowTrees(trees, positions=None)


_NARROW_TREES: KeptWhileAlive[NarrowTrees | None] = KeptWhileAlive()
"""Cache of `_narrow`, by the arrays and columns of trees; it holds None, not the trees, if they stay as they are."""


def _narrow(trees: Trees) -> NarrowTrees | None:
    """Return concrete trees on only the columns that they test; None if they test all."""
    feature = np.asarray(trees.feature)
    child = np.asarray(trees.child)
    inner = child != np.arange(trees.n_nodes)
    # Trees of leaves alone test no column: they get column 0, so that dense rows have one.
    tested_columns = feature[inner] if inner.any() else np.zeros(1, feature.dtype)
    positions = np.unique(tested_columns)
    if len(positions) >= trees.n_features:
        return None
    # An empty leaf keeps its feature, the negative number of its fork.
    feature = np.where(inner, np.searchsorted(positions, feature), np.minimum(feature, 0))
    new_feature = jax.device_put(feature.astype(np.int32))
    narrow = dataclasses.replace(trees, feature=new_feature, columns=trees.columns.at(positions))
    return NarrowTrees(narrow, positions)


def on_tested(trees: Trees, values):
    """Return (``trees``, ``values``); for `SparseRows` both reduced to the columns that the trees test."""
    if not isinstance(values, SparseRows):
        return trees, values
    narrow, positions = narrow_trees(trees)
    return narrow, values.of(positions, narrow.columns)


def encode_for(trees: Trees, X: InstancesLike, *, infinite: bool = False) -> tuple[Trees, Encoded]:
    """Return (trees, encoded instances ``X``): codes for trees with cuts, else float32 numbers.

    If ``X`` holds float32 numbers, trees with cuts are replaced by those of `by_float32`, which need no codes. Infinite
    values are refused unless ``infinite`` is True. Raises the errors of `encode_rows`.
    """
    if trees.columns.cuts is not None and holds_float32(X):
        narrow = by_float32(trees)
        with suppress(ValueError):  # an infinite value: the encoding as codes, below, accepts or refuses it
            return narrow, encode_rows(X, narrow.columns, infinite=infinite)
    return trees, encode_rows(X, trees.columns, infinite=infinite)


def by_float32(trees: Trees) -> Trees:
    """Return ``trees`` with cuts as trees that compare float32 numbers, which go where their codes would go; cached."""
    return _BY_FLOAT32.get(jax.tree.leaves(trees), trees.columns, lambda: _by_float32(trees))


_BY_FLOAT32: KeptWhileAlive[Trees] = KeptWhileAlive()
"""Cache of `by_float32`, by the arrays and columns of trees."""


def _by_float32(trees: Trees) -> Trees:
    """Return ``trees`` with cuts as trees that compare float32 numbers: `by_float32`, without its cache."""
    columns = trees.columns
    feature = np.maximum(np.asarray(trees.feature), 0)  # in an empty leaf it is negative
    code_key = np.asarray(trees.threshold)
    # A threshold's code c is the position of a cut, border 1 + c: numbers up to the cut go left. Below the first code
    # none goes left, beyond the last all do: the first and the last border, at -inf and inf, stand for these.
    borders = [() if cuts is None else (-np.inf, *cuts, np.inf) for cuts in columns.cuts or ()]
    sizes = np.array([len(border) for border in borders], np.int64)
    first_border = np.cumsum(sizes) - sizes  # of each column, as an index into the keys of all borders
    key = order_key_at_or_below(np.concatenate([*borders, np.zeros(1)]))  # a last entry, for nodes without a border
    key[first_border[sizes > 0]] -= 1  # below the key of -inf, so that it goes right, too
    is_inner = np.asarray(trees.child) != np.arange(trees.n_nodes)
    is_coded = is_inner & (sizes[feature] > 0) & (code_key <= _INFINITE)
    # The order key of a number >= 0, such as a code, has the bits of the float.
    code = np.floor(np.where(is_coded, np.maximum(code_key, 0), 0).view(np.float32))
    border_in_column = np.where(code_key < 0, 0, 1 + np.minimum(code, sizes[feature] - 2)).astype(np.int64)
    border = np.where(is_coded, first_border[feature] + border_in_column, -1)  # -1: the last entry
    threshold = np.where(is_coded, key[border], code_key)
    return dataclasses.replace(
        trees, threshold=jax.device_put(threshold), columns=dataclasses.replace(columns, cuts=None)
    )


_INFINITE = order_key_at_or_below(np.array(np.inf))
"""Order key of +inf: a threshold beyond it sends every number left, and needs no other value for float32."""


def cap_shapes(shapes: Shapes, values) -> Shapes:
    """Return ``shapes`` for encoded instances ``values``: for `SparseRows` only those of small enough calls.

    They make at most `MOST_DENSE` values dense. If all shapes have larger calls, the smallest stays.
    """
    if not isinstance(values, SparseRows):
        return shapes
    most_rows = MOST_DENSE // max(values.shape[1], 1)
    fits = lambda chunk: chunk.rows <= most_rows
    if shapes.large is not None and not fits(shapes.large):
        shapes = shapes._replace(large=None)
    if fits(shapes.single):
        return shapes
    small: tuple[Chunk, ...] = tuple(filter(fits, shapes.small)) or shapes.small[:1]
    if not small:  # there is a single shape
        return shapes._replace(large=None)
    return shapes._replace(single=small[-1], large=None, small=small[:-1])


WIDE_VECTORS = {"xla_cpu_prefer_vector_width": "512"}
"""Compiler options for AMD's processors: a walk takes a sixth less time there, but a fifth more on Intel's. The values
are the same."""


class HostProgram:
    """A jitted ``function`` for concrete values alone, compiled for the vector width that suits the CPU.

    ``static`` are the options of `jit` that say which arguments are static.
    """

    def __init__(self, function: Callable[..., Any], **static: Any):
        self.function = function
        self.static = static

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Return the result of the compiled function for these arguments."""
        return self.jitted(*args, **settings)

    @cached_property
    def jitted(self) -> Any:
        """The jitted function, with `WIDE_VECTORS` where these options help and XLA takes them."""
        options = WIDE_VECTORS if _prefers_wide_vectors() else None
        return jit(self.function, compiler_options=options, **self.static)


def _processor() -> str:
    """Return the operating system's description of the processor, which names its maker."""
    description = Path("/proc/cpuinfo")
    return description.read_text(errors="replace")[:1000] if description.exists() else platform.processor()


@cache
def _prefers_wide_vectors() -> bool:
    """Return whether programs are compiled for wide vectors: on AMD's processors, if XLA takes the option."""
    if default_platform() != "cpu" or "AuthenticAMD" not in _processor():
        return False

    def probe_wide_vectors(x):
        return x

    try:
        jax.jit(probe_wide_vectors, compiler_options=WIDE_VECTORS).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
