"""The work of the devices of a mesh: which trees and which instances each has, the programs that all run, and the join.

A device has a position along each of the mesh's axes, 'data' and 'tree'. The trees of one position along 'tree' are a
*shard*. The instances of one position along 'data' are a *stretch* of those of a process; a stretch is cut into parts.

* `place` puts trees on devices: each device has the trees of its position along 'tree'.
* `InstanceShards` distributes instances along 'data', and collects the answers.
* `merge_on_mesh` walks a device's instances through its trees, and joins the carries; `finish_chunk` makes the answers.
* `answer_on_mesh` is all of that as one program, for accelerators: it takes rows where they lie (`rows_on_mesh`).
* `join_tree_shards` joins the carries of neighbouring trees in the trees' order. A plain `psum` would add rounded sums
  and lose their compensations; it can join neither exact sums in two limbs nor collected planes. So carries travel as
  one array of 32-bit words in one collective, and `Merging.join` joins them. This rounds a sum of floats once more for
  each shard of trees; with one shard nothing changes.
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
from jaxunc.combiners import Combiner, Merging
from jaxunc.inference import Carry, PackedTrees, Part, Spec, finish_rows, in_blocks, rejoin

from ._mesh import Grid


class TreeShards(NamedTuple):
    """Packed trees on the devices of a mesh, as inputs of programs: tuples, which JAX flattens faster than a module."""

    arrays: tuple
    """(plan, leaf tables, numbers per tree), whose leading axis is that of all trees, distributed along 'tree'."""
    shared: tuple[list, list, Any]
    """(carry of the numbers per tree over all trees, rows of wide planes, sets that nodes test), on every device."""
    spec: Spec
    """Structure of the packed trees."""


def place(grid: Grid, packed: PackedTrees) -> TreeShards:
    """Return the trees of ``packed``, distributed in their order along 'tree' over the devices of ``grid``.

    Trees that contribute nothing pad the last shards, so that all shards have the same number of trees. Each device
    receives only the trees of its shard, and each process cuts only the shards of its devices.
    """
    per_shard = trees_per_shard(grid, packed.n_trees)
    # Shards are cut on the device where the trees lie, since the forest may be larger than another device. Nodes are
    # 64-bit integers, which JAX takes from the host in its 64-bit mode alone.
    with jax.default_device(next(iter(packed.plan.depth.devices()))), jax.enable_x64(True):

        @lru_cache
        def shard_of(number: int) -> list[np.ndarray]:
            """Return the arrays of one shard's trees, in the order of ``leaves``."""
            start = min(packed.n_trees, number * per_shard)
            stop = min(packed.n_trees, (number + 1) * per_shard)
            trees = packed.of_trees(start, stop) if grid.n_tree > 1 else packed
            n_padding = per_shard - (stop - start)
            if n_padding > 0:
                trees = trees.padded(n_padding)
            return [np.asarray(array) for array in jax.tree.leaves(trees.arrays[:3])]

        leaves, structure = jax.tree.flatten(packed.arrays[:3])  # the arrays with an axis of trees
        tree_shards = []
        for i, leaf in enumerate(leaves):
            shape = grid.n_tree * per_shard, *leaf.shape[1:]
            shard_leaf = lambda index, i=i: shard_of(first_of(index) // per_shard)[i]
            tree_shards.append(jax.make_array_from_callback(shape, grid.sharding("tree"), shard_leaf))
        # Rows may be large: they are put on the devices once, not by each call.
        rows = [_replicate(grid, rows) for rows in packed.rows]
    shared = on_every_device(grid, packed.totals), rows, on_every_device(grid, packed.sets)
    return TreeShards(jax.tree.unflatten(structure, tree_shards), shared, packed.spec)


def first_of(index: Any) -> int:
    """Return where a device's share of an array begins along the first axis; ``index`` has the share's slices."""
    return index[0].start or 0


def trees_per_shard(grid: Grid, n_trees: int) -> int:
    """Return the number of trees in each shard if ``n_trees`` are distributed over the grid, padding included."""
    return ceil_div(n_trees, grid.n_tree)


def on_every_device(grid: Grid, arrays: PyTree[Array]) -> PyTree:
    """Return a pytree of small ``arrays`` copied to every device of the grid, so that calls need not send them."""
    return jax.tree.map(lambda leaf: _replicate(grid, leaf), arrays)


def _replicate(grid: Grid, leaf):
    """Return the array ``leaf`` copied to every device of the grid; anything but an array is returned unchanged."""
    if not hasattr(leaf, "dtype"):
        return leaf
    if getattr(leaf, "weak_type", False) and not leaf.shape:
        return leaf.item()  # a weakly typed scalar: a Python number takes the type of the other operand, too
    values = np.asarray(leaf)
    return jax.make_array_from_callback(values.shape, grid.sharding(), lambda index: values[index])


def stretch_of(grid: Grid, process: int, n_instances: int) -> int:
    """Return the length of a stretch: the ``n_instances`` of ``process`` per position along 'data', rounded up."""
    return ceil_div(n_instances, len(grid.rows_of(process)))


class InstanceShards(NamedTuple):
    """This process's instances, cut into stretches of equal length: one for each of its positions along 'data'."""

    grid: Grid
    n_instances: int
    """Number of instances of this process."""

    @property
    def positions(self) -> tuple[int, ...]:
        """Positions along 'data' at which this process has devices."""
        return self.grid.rows_of(self.grid.this_process)

    @property
    def stretch(self) -> int:
        """Number of instances in a stretch; the last stretch may have fewer."""
        return stretch_of(self.grid, self.grid.this_process, self.n_instances)

    def of(self, part: Part, array: np.ndarray, *axes: str | None) -> jax.Array:
        """Return the same ``part`` of every stretch of ``array [instances …]``, padded by zeros: ``[data rows …]``.

        The first axis of the result is distributed along 'data', and the next ones along ``axes``, mesh axes or None.
        """
        padded = np.zeros((len(self.positions), part.chunk.rows, *array.shape[1:]), array.dtype)
        for i in range(len(self.positions)):
            start = i * self.stretch
            stop = min(start + self.stretch, self.n_instances)
            # The last stretches may be shorter than the others, or empty; beyond their ends zeros remain.
            rows = array[min(start + part.start, stop) : min(start + part.stop, stop)]
            padded[i, : len(rows)] = rows
        row_of = {position: i for i, position in enumerate(self.positions)}

        def rows_at(index):
            row = row_of[first_of(index)]
            return padded[row : row + 1, *index[1:]]

        shape = (self.grid.n_data, *padded.shape[1:])
        return jax.make_array_from_callback(shape, self.grid.sharding("data", *axes), rows_at)

    def collect(self, parts: Sequence[Part], answers: Iterable[PyTree]) -> PyTree:
        """Return the answer for all of this process's instances, in order, joined from those of ``parts``.

        ``answers`` has a pytree of arrays ``[positions rows …]`` for each part, as `fetch` returns them.
        """
        return jax.tree.map(lambda *arrays: jax.device_put(self._join(parts, arrays)), *answers)

    def fetch(self, answer: PyTree) -> PyTree:
        """Return an ``answer`` on the mesh as NumPy arrays: numbers, and this process's rows ``[positions rows …]``."""
        return jax.tree.map(self._on_host, answer)

    def _on_host(self, array: jax.Array) -> np.ndarray:
        """Return this process's rows of an array on the mesh, as a NumPy array; a number for all instances whole."""
        # A process can read only the parts of the array on its own devices; other parts are in other processes' memory.
        if array.is_fully_addressable or not array.ndim:
            return np.asarray(array)
        host_rows = np.empty((len(self.positions), *array.shape[1:]), array.dtype)
        for shard in array.addressable_shards:
            host_rows[self.positions.index(first_of(shard.index)), *shard.index[1:]] = np.asarray(shard.data)[0]
        return host_rows

    def _join(self, parts: Sequence[Part], answers: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return one array of an answer as ``[instances …]``, joined without padding from the arrays of ``parts``.

        ``answers`` has an array ``[positions rows …]`` for each part, or a number, the same for all parts.
        """
        if not answers[0].ndim:
            return answers[0]
        rows = [answer[:, : part.stop - part.start] for part, answer in zip(parts, answers, strict=True)]
        # Stretch after stretch is the order of the instances; padding of the last stretches is cut off last.
        by_position = np.concatenate(rows, axis=1)[:, : self.stretch]
        return by_position.reshape(-1, *by_position.shape[2:])[: self.n_instances]


class Program(NamedTuple):
    """Static arguments of the programs, for which they are compiled: hashable."""

    grid: Grid
    spec: Spec
    """Structure of the packed trees."""
    n_trees: int
    """Number of trees without padding."""
    block: int | None
    """Number of instances in a block; None if a chunk is one block."""


@jit(static_argnums=0)
def merge_on_mesh(program: Program, arrays: tuple, shared: tuple, x, mask, n_blocks) -> PyTree:
    """Return the statistic ``[data rows ...]`` of rows ``x [data rows features]``, merged over all trees.

    ``arrays`` and ``shared`` are those of `TreeShards`. ``mask`` is ``[data rows trees]`` or None. ``n_blocks`` is the
    number of blocks that hold instances, None if a chunk is one block. The result is distributed as `Grid.answer_spec`
    says. Without a mask its numbers per tree are scalars, the same on every device.
    """
    answers = program.grid.answer_spec

    def of_device(arrays, shared, x, mask, n_blocks):
        # A device sees one position along 'data': the leading axis has length one.
        in_mask = None if mask is None else mask[0]
        blocks = None if n_blocks is None else (program.block, n_blocks)
        planes, scalars = _merge_all_trees(program, arrays, shared, x[0], in_mask, blocks)
        if mask is not None:  # the numbers per tree differ between instances, too
            scalars = _add_data_axis(scalars)
        return _add_data_axis(planes), scalars

    scalars_spec = P() if mask is None else answers
    merge = _shard_map(of_device, program.grid, _INPUTS, (answers, scalars_spec))
    planes, scalars = merge(arrays, shared, x, mask, n_blocks)
    return rejoin(program.spec.layout, planes, scalars)


_INPUTS = P("tree"), P(), P("data"), P("data", None, "tree"), P()
"""Mesh axes of the inputs of `merge_on_mesh`: arrays of trees, shared arrays, rows, their mask, number of blocks."""


def _merge_all_trees(program: Program, arrays: tuple, shared: tuple, x, mask, blocks) -> tuple[list, list]:
    """Return (planes, numbers per tree) merged over all trees, inside the program of one device.

    They are of all rows ``x`` if the grid spans processes (`Grid.spans`), else of the device's share of these rows
    (`join_tree_shards`). ``mask`` is a tree mask ``[rows trees]`` of the device's trees or None. ``blocks`` is as for
    `PackedTrees.merge`. Other arguments are those of `merge_on_mesh`, on the device.
    """
    grid = program.grid
    spec = program.spec
    packed = PackedTrees(*arrays, *shared, spec=spec)
    carry = packed.merge_to_carry(x, mask, blocks)
    entries = carry.planes if mask is None else [*carry.planes, *carry.scalars]
    merging = spec.layout.planes if mask is None else spec.layout.both
    # Without a mask the numbers per tree are the same for all instances: every device already has their total.
    entries = join_tree_shards(merging, entries, program.n_trees, n_shards=grid.n_tree, all_instances=grid.spans)
    n_planes = len(carry.planes)
    return packed.results(Carry(entries[:n_planes], carry.scalars if mask is None else entries[n_planes:]))


@jit(static_argnums=(0, 2))
def answer_on_mesh(
    program: Program, combiner: Combiner, readout: str | None, arrays: tuple, shared: tuple, x, mask
) -> tuple[PyTree, Array]:
    """Return (answers for the rows ``x [instances features]`` of one process, marks ``[data]`` of the stretches).

    Each position along 'data' answers a stretch of the rows, block by block. A mark tells of missing or infinite values
    in a stretch (`in_blocks`). ``readout`` is one of `READOUTS`. ``mask`` is ``[instances trees]`` or None; other
    arguments are as for `merge_on_mesh`.
    """
    grid = program.grid
    n = len(x)

    def of_block(arrays, shared, combiner, x, mask):
        """Return the answers for a block of rows ``x``, in a device's program; all devices along 'tree' get them."""
        planes, scalars = _merge_all_trees(program, arrays, shared, x, mask, blocks=None)
        merged = rejoin(program.spec.layout, planes, scalars)
        # With tree shards each device along 'tree' finishes a share of the block.
        answer = finish_rows(combiner, readout, merged, ceil_div(len(x), grid.n_tree))
        if grid.n_tree == 1:
            return answer

        def gather_shares(part):
            return lax.all_gather(part, "tree", tiled=True)[: len(x)] if part.ndim else part

        return jax.tree.map(gather_shares, answer)

    def of_device(arrays, shared, x, mask, combiner):
        answer_block = partial(of_block, arrays, shared, combiner)
        answer, mark = in_blocks(answer_block, program.block or n, x[0], None if mask is None else mask[0])
        return _add_data_axis(answer), mark[None]

    def cut_in_stretches(array, n_columns: int):
        """Return an array ``[instances columns]`` as ``[data rows n_columns]``, padded by zeros."""
        rows = ceil_div(n, grid.n_data)
        padded = jnp.pad(array, ((0, rows * grid.n_data - len(array)), (0, n_columns - array.shape[1])))
        return padded.reshape(grid.n_data, rows, n_columns)

    n_trees = grid.n_tree * trees_per_shard(grid, program.n_trees)
    rows = cut_in_stretches(x, x.shape[1])
    mask_of_rows = None if mask is None else cut_in_stretches(mask, n_trees)
    inputs = arrays, shared, rows, mask_of_rows, combiner
    # Tracing tells which parts of the answer are numbers for all rows.
    shapes = jax.eval_shape(_shard_map(of_device, grid, _INPUTS, P()), *inputs)
    axes = jax.tree.map(lambda part: P("data") if part.ndim else P(), shapes)
    answer, marks = _shard_map(of_device, grid, _INPUTS, axes)(*inputs)
    trimmed = jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:])[:n] if part.ndim else part, answer)
    return trimmed, marks


def rows_on_mesh(grid: Grid, rows: np.ndarray | jax.Array) -> np.ndarray | jax.Array:
    """Return ``rows [instances ...]`` on the devices of the mesh.

    NumPy rows are padded to a multiple of ``grid.n_data``. Rows on the mesh's devices stay where they are, and rows on
    one device are copied to all. Rows on several other devices are returned as a NumPy array.
    """
    if isinstance(rows, np.ndarray):
        even = padded_rows(rows, multiple_of(grid.n_data, len(rows)))
        return jax.device_put(even, grid.sharding("data"))
    sharding: Any = rows.sharding
    mesh = getattr(sharding, "mesh", None)
    if mesh is not None and list(mesh.devices.flat) == list(grid.mesh.devices.flat):
        # The same memory, on axes of the type Auto: with Explicit axes each operation must say where its result lies.
        return jax.device_put(rows, NamedSharding(Mesh(mesh.devices, mesh.axis_names), sharding.spec))
    return jax.device_put(rows, grid.sharding()) if len(rows.devices()) == 1 else np.asarray(rows)


@jit(static_argnums=(0, 2))
def finish_chunk(grid: Grid, combiner: Combiner, readout: str | None, merged: PyTree) -> PyTree:
    """Return the answers ``[data rows ...]`` of the statistic ``merged [data rows ...]``.

    Each device finishes its own rows. ``readout`` is one of `READOUTS`. Numbers for all rows, in the statistic or the
    answers, are the same on every device.
    """

    def of_device(combiner, merged):
        # A device sees one position along 'data': the leading axis has length one.
        rows = jax.tree.map(lambda part: part[0] if part.ndim else part, merged)
        # A statistic of numbers alone has no row to repeat: any number above 1 says so (`finish_rows`).
        n_rows = next((len(part) for part in jax.tree.leaves(rows) if part.ndim), 2)
        return _add_data_axis(finish_rows(combiner, readout, rows, n_rows))

    def mesh_axes(arrays):
        return jax.tree.map(lambda array: grid.answer_spec if array.ndim else P(), arrays)

    shapes = jax.eval_shape(of_device, combiner, merged)  # tells which parts of the answer are numbers for all rows
    return _shard_map(of_device, grid, (P(), mesh_axes(merged)), mesh_axes(shapes))(combiner, merged)


@jit(static_argnums=(0, 2))
def merge_and_finish_on_mesh(program: Program, combiner: Combiner, readout: str | None, *inputs) -> PyTree:
    """Return the answers ``[data rows ...]`` by one program, for accelerators.

    ``inputs`` are the arguments of `merge_on_mesh` behind ``program``; ``readout`` is one of `READOUTS`.
    """
    return finish_chunk(program.grid, combiner, readout, merge_on_mesh(program, *inputs))


def _add_data_axis(parts: PyTree) -> PyTree:
    """Return the arrays ``parts`` with a leading axis of length 1, that of 'data'; numbers stay as they are."""
    return jax.tree.map(lambda part: part[None] if part.ndim else part, parts)


def _shard_map(of_device, grid: Grid, in_specs, out_specs):
    """Return a function of whole arrays that runs ``of_device`` on every device, with the device's shares of them.

    ``in_specs`` and ``out_specs`` say along which mesh axes arguments and results are distributed.
    """
    # Unchecked: loops start from carries that are equal on all devices and end with carries that differ. Gathered and
    # joined values are equal along 'tree', which the check does not see.
    return jax.shard_map(of_device, mesh=grid.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def join_tree_shards(merging: Merging, carry: list, n_trees: int, *, n_shards: int, all_instances: bool) -> list:
    """Return the carry of all ``n_trees`` trees, inside a `shard_map`; ``carry [instances ...]`` is that of one shard.

    ``merging`` is that of the carry's entries. With ``all_instances`` every device along 'tree' gets all instances.
    Else each of the ``n_shards`` devices gets an equal share of them, in order, the last share padded. This moves less
    data by the factor ``n_shards``, and devices join and finish their shares at the same time.
    """
    leaves, structure = jax.tree.flatten(carry)
    if n_shards == 1 or not leaves:
        return carry
    # One collective for all planes, since each collective has a latency.
    words = jnp.concatenate([as_words(leaf) for leaf in leaves])
    if all_instances:
        gathered = lax.all_gather(words, "tree", axis=1)
    else:
        # A share of the instances for each shard; padding is dropped where answers are collected.
        n_padding = -words.shape[1] % n_shards
        shares = jnp.pad(words, ((0, 0), (0, n_padding))).reshape(len(words), n_shards, -1)
        gathered = lax.all_to_all(shares, "tree", split_axis=1, concat_axis=1)
    word_ends = itertools.accumulate(map(_width, leaves), initial=0)
    by_shard = []
    for (start, stop), leaf in zip(itertools.pairwise(word_ends), leaves, strict=True):
        by_shard.append(from_words(gathered[start:stop], leaf))  # [shards instances ...]
    return _join(merging, jax.tree.unflatten(structure, by_shard), n_trees)


def _join(merging: Merging, carries: list, n_trees: int) -> list:
    """Return the carry of all shards, joined in the shards' order; ``carries`` has arrays ``[shards instances ...]``.

    Collected planes are put side by side, without the trees that pad the last shards to more than ``n_trees``.
    """
    # A merging of all planes but the collected ones.
    is_joined = [kind != "collect" for kind in merging.kinds]
    kinds = tuple(itertools.compress(merging.kinds, is_joined))
    dtypes = tuple(itertools.compress(merging.dtypes, is_joined))
    joining = Merging(kinds, dtypes)
    entries = list(itertools.compress(carries, is_joined))
    first_shard = jax.tree.map(lambda array: array[0], entries)
    later_shards = jax.tree.map(lambda array: array[1:], entries)

    def join_shard(carry, shard):
        return joining.join(carry, shard), None

    # Shards are joined in the order of their trees, so that sums are the same on every device. The scan needs its
    # length, since it has no arrays if all planes are collected.
    n_later = jax.tree.leaves(carries)[0].shape[0] - 1
    last_carry, _ = lax.scan(join_shard, first_shard, later_shards, length=n_later)
    joined_entries = iter(last_carry)
    pairs = zip(is_joined, carries, strict=True)
    return [next(joined_entries) if flag else (_flatten_shards(entry[0], n_trees),) for flag, entry in pairs]


def _flatten_shards(values: Array, n_trees: int) -> Array:
    """Return ``values [shards instances trees ...]`` as ``[instances trees ...]``, of the first ``n_trees`` trees."""
    n_shards, n_instances, n_per_shard, *rest = values.shape
    return jnp.moveaxis(values, 0, 1).reshape(n_instances, n_shards * n_per_shard, *rest)[:, :n_trees]


def _width(leaf: Array) -> int:
    """Return the number of 32-bit words that each instance takes in the array ``leaf [instances ...]``."""
    return math.prod(leaf.shape[1:]) * max(1, leaf.dtype.itemsize // 4)


def as_words(leaf: Array) -> UInt32[Array, "words instances"]:
    """Return numbers ``leaf [instances ...]`` as 32-bit words that hold their bits; a 64-bit number is two words."""
    columns = leaf.reshape(len(leaf), -1)
    if columns.dtype.itemsize == 8:
        halves = lax.bitcast_convert_type(columns, jnp.uint32)
        return halves.reshape(len(leaf), -1).T
    # A bitcast, since a conversion to float32 or int32 would round, or change NaN.
    unsigned = jnp.dtype(f"uint{8 * columns.dtype.itemsize}")
    return lax.bitcast_convert_type(columns, unsigned).astype(jnp.uint32).T


def from_words(words: UInt32[Array, "words shards instances"], like: Array) -> Array:
    """Return the numbers ``[shards instances ...]`` of which `as_words` made ``words``, gathered from all shards.

    The array ``like [instances ...]`` has the dtype and the further axes of the numbers.
    """
    columns = jnp.moveaxis(words, 0, -1)
    if like.dtype.itemsize == 8:
        columns = lax.bitcast_convert_type(columns.reshape(*columns.shape[:2], -1, 2), like.dtype)
    else:
        columns = columns.astype(jnp.dtype(f"uint{8 * like.dtype.itemsize}"))
        columns = lax.bitcast_convert_type(columns, like.dtype)
    return columns.reshape(*columns.shape[:2], *like.shape[1:])
