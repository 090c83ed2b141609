"""The work of the devices of a mesh: which trees and which instances each has, the programs that all run, and the join.

* `place` puts trees on devices: on each those of its place along 'tree'.
* `InstanceShards` distributes instances along 'data', and collects the answers.
* `merge_on_mesh` walks a device's instances through its trees, and joins the carries; `finish_chunk` finishes.
* `answer_on_mesh` is all of that as one program, for accelerators: it takes rows where they lie (`rows_on_mesh`).
* `join_tree_shards` joins the carries of neighbouring trees in the trees' order. A plain `psum` would add rounded sums
  and lose what was kept of their rounding; it knows neither exact sums in two limbs nor collected planes. So the
  carries travel as they are, as one array of 32-bit words, in one collective, and every merge's own `join` puts them
  together. A sum of floats is so rounded once more for each part of the trees; without such parts nothing changes.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, PyTree, UInt32

from jaxunc._numerics import ceil_div, jit, multiple_of, padded_rows
from jaxunc.combiners import Combiner, Merging, read_answer
from jaxunc.inference import Carry, PackedTrees, Part, Spec, finish_rows, in_blocks, rejoin

from ._mesh import Grid


class Placed(NamedTuple):
    """Inputs of the compiled programs. (Tuples are taken apart sooner than modules.)"""

    arrays: tuple
    """Plan, leaf tables and numbers per tree, all trees in front, distributed along 'tree'."""
    shared: tuple[list, list, Any]
    """The carry of the numbers per tree over all trees, the rows of wide planes, and sets: on every device."""
    spec: Spec


def place(grid: Grid, packed: PackedTrees) -> Placed:
    """Distribute the trees of `packed`, in their order.

    Padded by trees that contribute nothing, so that every device has as many. Only a device's own trees travel to it,
    and only those of this process's devices are cut: the whole is read where it lies.
    """
    per_shard = trees_per_shard(grid, packed.n_trees)
    # Cut where the trees lie: slices of a forest that is larger than a device must not pass through one. Nodes are
    # 64-bit integers, which JAX takes from the host in its 64-bit mode alone.
    with jax.default_device(next(iter(packed.plan.depth.devices()))), jax.enable_x64(True):

        @lru_cache
        def shard_of(number: int) -> list[np.ndarray]:
            start, stop = (min(packed.n_trees, end * per_shard) for end in (number, number + 1))
            trees = packed.of_trees(start, stop) if grid.n_tree > 1 else packed
            trees = trees.padded(per_shard - (stop - start)) if stop - start < per_shard else trees
            return [np.asarray(array) for array in jax.tree.leaves(trees.arrays[:3])]

        leaves, structure = jax.tree.flatten(packed.arrays[:3])
        placed = [
            jax.make_array_from_callback(
                (grid.n_tree * per_shard, *leaf.shape[1:]),
                grid.sharding("tree"),
                lambda index, i=i: shard_of(first_of(index) // per_shard)[i],
            )
            for i, leaf in enumerate(leaves)
        ]
        # Rows may be large: they are put there once, not by each call.
        rows = [_spread(grid, rows) for rows in packed.rows]
    shared = on_every_device(grid, packed.totals), rows, on_every_device(grid, packed.sets)
    return Placed(jax.tree.unflatten(structure, placed), shared, packed.spec)


def first_of(index: Any) -> int:
    """Return where the part of an array begins, along its first axis, that JAX asks for."""
    return index[0].start or 0


def trees_per_shard(grid: Grid, n_trees: int) -> int:
    """Return the number of trees of a device, padding included."""
    return ceil_div(n_trees, grid.n_tree)


def on_every_device(grid: Grid, arrays: PyTree[Array]) -> PyTree:
    """Return small arrays on every device, where each call of a program would send them else."""
    return jax.tree.map(lambda leaf: _spread(grid, leaf), arrays)


def _spread(grid: Grid, leaf):
    if not hasattr(leaf, "dtype"):
        return leaf
    if getattr(leaf, "weak_type", False) and not leaf.shape:
        return leaf.item()  # a Python number: it takes the type of what it meets, as it did
    values = np.asarray(leaf)
    return jax.make_array_from_callback(values.shape, grid.sharding(), lambda index: values[index])


def stretch_of(grid: Grid, process: int, n_instances: int) -> int:
    """Return the length of the stretches into which the instances of a process are cut."""
    return ceil_div(n_instances, len(grid.rows_of(process)))


class InstanceShards(NamedTuple):
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

    def of(self, part: Part, array: np.ndarray, *axes: str | None) -> jax.Array:
        """Distribute the rows of a part of every stretch, padded by zeros: ``[data rows …]``, along these axes."""
        padded = np.zeros((len(self.places), part.chunk.rows, *array.shape[1:]), array.dtype)
        for i in range(len(self.places)):
            first, last = i * self.stretch, min((i + 1) * self.stretch, self.n_instances)
            # The last stretch may be shorter than the others; beyond its end zeros remain.
            rows = array[min(first + part.start, last) : min(first + part.stop, last)]
            padded[i, : len(rows)] = rows
        row_of = {place: i for i, place in enumerate(self.places)}

        def rows_at(index):
            row = row_of[first_of(index)]
            return padded[row : row + 1, *index[1:]]

        shape = (self.grid.n_data, *padded.shape[1:])
        return jax.make_array_from_callback(shape, self.grid.sharding("data", *axes), rows_at)

    def collected(self, parts: Sequence[Part], answers: Iterable[PyTree]) -> PyTree:
        """Return the answers of all parts for this process's instances, in their order."""
        return jax.tree.map(lambda *parts_of_leaf: jax.device_put(self._joined(parts, parts_of_leaf)), *answers)

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

    def _joined(self, parts: Sequence[Part], answers: tuple[np.ndarray, ...]) -> np.ndarray:
        if not answers[0].ndim:
            return answers[0]
        rows = [answer[:, : part.stop - part.start] for part, answer in zip(parts, answers, strict=True)]
        # Stretch after stretch is the order of the instances; padding is at the end of each part and of the last
        # stretch.
        by_place = np.concatenate(rows, axis=1)[:, : self.stretch]
        return by_place.reshape(-1, *by_place.shape[2:])[: self.n_instances]


class Program(NamedTuple):
    """Structure that the programs of a chunk depend on: static, hashable."""

    grid: Grid
    spec: Spec
    n_trees: int
    """Number of trees that are no padding."""
    block: int | None
    """Number of instances in a block, where it is not that of all."""


@jit(static_argnums=0)
def merge_on_mesh(program: Program, arrays: tuple, shared: tuple, x, mask, n_blocks) -> PyTree:
    """Return the merged statistic ``[data rows ...]`` of ``x [data rows features]``, as `Grid.of_answers` has it."""
    answers = program.grid.of_answers

    def of_device(arrays, shared, x, mask, n_blocks):
        # A device sees one place along 'data': the leading axis has length one.
        in_mask = None if mask is None else mask[0]
        blocks = None if n_blocks is None else (program.block, n_blocks)
        planes, scalars = _merged(program, arrays, shared, x[0], in_mask, blocks)
        return _in_front(planes), scalars if mask is None else _in_front(scalars)

    merged = _shard_map(of_device, program.grid, _INPUTS, (answers, P() if mask is None else answers))
    return rejoin(program.spec.layout, *merged(arrays, shared, x, mask, n_blocks))


_INPUTS = P("tree"), P(), P("data"), P("data", None, "tree"), P()
"""Axes of a forest's arrays, what is shared, rows, their mask, and what comes with them."""


def _merged(program: Program, arrays: tuple, shared: tuple, x, mask, blocks) -> tuple[list, list]:
    """Return planes and numbers per tree, of all trees, for a device's instances or its part of them."""
    grid, spec = program.grid, program.spec
    packed = PackedTrees(*arrays, *shared, spec=spec)
    carry = packed.carried(x, mask, blocks)
    both = carry.planes if mask is None else [*carry.planes, *carry.scalars]
    merging = spec.layout.planes if mask is None else spec.layout.both
    # Numbers per tree are the same for all instances without a mask: every device has their total already.
    both = join_tree_shards(merging, both, program.n_trees, n_shards=grid.n_tree, whole=grid.spans)
    n_planes = len(carry.planes)
    return packed.results(Carry(both[:n_planes], carry.scalars if mask is None else both[n_planes:]))


@jit(static_argnums=(0, 2))
def answer_on_mesh(
    program: Program, combiner: Combiner, readout: str | None, arrays: tuple, shared: tuple, x, mask
) -> tuple[PyTree, Array]:
    """Return the answers for rows ``[instances ...]`` of one process, block by block, and the mark of each place.

    A place along 'data' has a stretch of the rows; the last stretch is padded here.
    """
    grid, n = program.grid, len(x)

    def of_block(arrays, shared, combiner, x, mask):
        merged = rejoin(program.spec.layout, *_merged(program, arrays, shared, x, mask, None))
        answer = finish_rows(combiner, readout, merged, ceil_div(len(x), grid.n_tree))
        if grid.n_tree == 1:
            return answer
        # Each tree shard has finished its part of the block.
        whole = lambda part: lax.all_gather(part, "tree", tiled=True)[: len(x)] if part.ndim else part
        return jax.tree.map(whole, answer)

    def of_device(arrays, shared, x, mask, combiner):
        answer_block = partial(of_block, arrays, shared, combiner)
        answer, mark = in_blocks(answer_block, program.block or n, x[0], None if mask is None else mask[0])
        return _in_front(answer), mark[None]

    def stretches(array, n_columns: int):
        rows = ceil_div(n, grid.n_data)
        padded = jnp.pad(array, ((0, rows * grid.n_data - len(array)), (0, n_columns - array.shape[1])))
        return padded.reshape(grid.n_data, rows, n_columns)

    n_trees = grid.n_tree * trees_per_shard(grid, program.n_trees)
    inputs = arrays, shared, stretches(x, x.shape[1]), None if mask is None else stretches(mask, n_trees), combiner
    # Which of the answers are numbers for all rows is known once it is traced.
    shapes = jax.eval_shape(_shard_map(of_device, grid, _INPUTS, P()), *inputs)
    axes = jax.tree.map(lambda part: P("data") if part.ndim else P(), shapes)
    answer, marks = _shard_map(of_device, grid, _INPUTS, axes)(*inputs)
    return jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:])[:n] if part.ndim else part, answer), marks


def rows_on_mesh(grid: Grid, rows: np.ndarray | jax.Array) -> np.ndarray | jax.Array:
    """Return rows ``[instances ...]`` on the devices of a mesh, from those or from one device; NumPy's from others."""
    if isinstance(rows, np.ndarray):
        even = padded_rows(rows, multiple_of(grid.n_data, len(rows)))
        return jax.device_put(even, grid.sharding("data"))
    sharding: Any = rows.sharding
    mesh = getattr(sharding, "mesh", None)
    if mesh is not None and list(mesh.devices.flat) == list(grid.mesh.devices.flat):
        # The same memory, on axes of the type Auto: others ask of each operation where its result lies.
        return jax.device_put(rows, NamedSharding(Mesh(mesh.devices, mesh.axis_names), sharding.spec))
    return jax.device_put(rows, grid.sharding()) if len(rows.devices()) == 1 else np.asarray(rows)


@jit(static_argnums=(0, 2))
def finish_chunk(grid: Grid, combiner: Combiner, readout: str | None, merged: PyTree) -> PyTree:
    """Return the answers ``[data rows ...]`` of a merged statistic; every device finishes its own."""

    def finish(combiner, merged):
        return read_answer(combiner.finish(merged), readout)

    def of_device(combiner, merged):
        return _in_front(finish(combiner, jax.tree.map(lambda a: a[0] if a.ndim else a, merged)))

    axes = lambda parts: jax.tree.map(lambda a: grid.of_answers if a.ndim else P(), parts)
    of_device_shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype, weak_type=a.weak_type), merged)
    answer = jax.eval_shape(finish, combiner, of_device_shapes)
    return _shard_map(of_device, grid, (P(), axes(merged)), axes(answer))(combiner, merged)


@jit(static_argnums=(0, 2))
def merge_and_finish_on_mesh(program: Program, combiner: Combiner, readout: str | None, *inputs) -> PyTree:
    """Merge and finish in one program, for accelerators."""
    return finish_chunk(program.grid, combiner, readout, merge_on_mesh(program, *inputs))


def _in_front(parts: PyTree) -> PyTree:
    """Return an array with the axis of 'data' again, unless a number is one for all instances."""
    return jax.tree.map(lambda part: part[None] if part.ndim else part, parts)


def _shard_map(of_device, grid: Grid, in_specs, out_specs):
    # Unchecked: loops start from carries that are the same on all devices and end with others, and what is gathered and
    # joined is the same along 'tree', which the check does not see.
    return jax.shard_map(of_device, mesh=grid.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def join_tree_shards(merging: Merging, carry: list, n_trees: int, *, n_shards: int, whole: bool) -> list:
    """Return the carry of all trees, inside a `shard_map`, from each device's own ``[instances ...]``.

    ``whole``: every device gets all instances; else each one a part of them, in order, the last one padded: an
    `all_to_all` moves so many times less, and the parts are joined and finished side by side.
    """
    leaves, structure = jax.tree.flatten(carry)
    if n_shards == 1 or not leaves:
        return carry
    # One collective for all planes: each would cost its own latency.
    words = jnp.concatenate([as_words(leaf) for leaf in leaves])
    if whole:
        gathered = lax.all_gather(words, "tree", axis=1)
    else:
        # Instances are cut in as many parts as there are shards; padding rows are dropped where answers are collected.
        more = -words.shape[1] % n_shards
        parts = jnp.pad(words, ((0, 0), (0, more))).reshape(len(words), n_shards, -1)
        gathered = lax.all_to_all(parts, "tree", split_axis=1, concat_axis=1)
    ends = itertools.accumulate(map(_width, leaves), initial=0)
    by_shard = [from_words(gathered[a:b], leaf) for (a, b), leaf in zip(itertools.pairwise(ends), leaves, strict=True)]
    return _joined(merging, jax.tree.unflatten(structure, by_shard), n_trees)


def _joined(merging: Merging, carries: list, n_trees: int) -> list:
    """Join the carries of all shards along their leading axis: one after the other, collected planes side by side."""
    kinds = zip(merging.kinds, merging.dtypes, strict=True)
    of_closed = [kind for kind in kinds if kind[0] != "collect"]
    closed = Merging(tuple(merge for merge, _ in of_closed), tuple(dtype for _, dtype in of_closed))
    sums = [c for m, c in zip(merging.planes, carries, strict=True) if not m.collects]
    first, others = (jax.tree.map(lambda a, part=part: a[part], sums) for part in (0, slice(1, None)))
    # Shard after shard, in the order of their trees: the same sums on every device, whatever the collective's order.
    more = jax.tree.leaves(carries)[0].shape[0] - 1  # said, since there may be no sums
    joined = iter(lax.scan(lambda carry, shard: (closed.join(carry, shard), None), first, others, length=more)[0])
    both = zip(merging.planes, carries, strict=True)
    return [(_beside(c[0], n_trees),) if m.collects else next(joined) for m, c in both]


def _beside(values: Array, n_trees: int) -> Array:
    """Return ``[shards instances trees ...]`` as ``[instances trees ...]``, without padding trees behind all others."""
    n_shards, n_instances, n_own, *rest = values.shape
    return jnp.moveaxis(values, 0, 1).reshape(n_instances, n_shards * n_own, *rest)[:, :n_trees]


def _width(leaf: Array) -> int:
    return math.prod(leaf.shape[1:]) * max(1, leaf.dtype.itemsize // 4)


def as_words(leaf: Array) -> UInt32[Array, "words instances"]:
    """Return the bits of numbers ``[instances]`` or ``[instances columns]``; those of 64 are two words."""
    columns = leaf.reshape(len(leaf), -1)
    if columns.dtype.itemsize == 8:
        halves = lax.bitcast_convert_type(columns, jnp.uint32)
        return halves.reshape(len(leaf), -1).T
    # By their bits: converting to float32 or int32 would round, or change NaN.
    unsigned = jnp.dtype(f"uint{8 * columns.dtype.itemsize}")
    return lax.bitcast_convert_type(columns, unsigned).astype(jnp.uint32).T


def from_words(words: UInt32[Array, "words shards instances"], like: Array) -> Array:
    """Return the numbers of such words, of every shard and perhaps another number of instances than ``like``."""
    columns = jnp.moveaxis(words, 0, -1)
    if like.dtype.itemsize == 8:
        columns = lax.bitcast_convert_type(columns.reshape(*columns.shape[:2], -1, 2), like.dtype)
    else:
        columns = columns.astype(jnp.dtype(f"uint{8 * like.dtype.itemsize}"))
        columns = lax.bitcast_convert_type(columns, like.dtype)
    return columns.reshape(*columns.shape[:2], *like.shape[1:])
