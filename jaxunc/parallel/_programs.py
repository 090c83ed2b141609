"""Compiled programs: every device routes its instances through its trees, carries are joined, answers finished."""

from typing import NamedTuple

import jax
from jax.sharding import PartitionSpec as P
from jaxtyping import PyTree

from jaxunc._numerics import jit
from jaxunc.combiners import Combiner, read_answer
from jaxunc.inference import Carry, PackedTrees, Spec, rejoin

from ._grid import Grid
from ._join import join_shards


class Program(NamedTuple):
    """Structure that the programs of a chunk depend on: static, hashable."""

    grid: Grid
    spec: Spec
    n_trees: int
    """Number of trees that are no padding."""
    block: int | None
    """Number of instances in a block, where it is traced."""


@jit(static_argnums=0)
def merge_chunk(program: Program, arrays: tuple, totals: list, x, mask, n_blocks) -> PyTree:
    """Return the merged statistic ``[data rows ...]`` of ``x [data rows features]``, as `Grid.of_answers` has it."""
    grid, spec, answers = program.grid, program.spec, program.grid.of_answers

    def of_device(arrays, totals, x, mask, n_blocks):
        plan, tables, scalars = arrays
        stream = PackedTrees(plan, tables, scalars, totals, spec)
        in_mask = None if mask is None else mask[0]
        # A device sees one place along 'data': the leading axis has length one.
        carry = stream.carried(x[0], in_mask, None if n_blocks is None else (program.block, n_blocks))
        both = carry.planes if mask is None else [*carry.planes, *carry.scalars]
        merging = spec.layout.planes if mask is None else spec.layout.both
        # Numbers per tree are the same for all instances without a mask: every device has their total already.
        both = join_shards(merging, both, program.n_trees, n_shards=grid.n_tree, whole=grid.spans)
        n_planes = len(carry.planes)
        planes, scalars = stream.results(Carry(both[:n_planes], carry.scalars if mask is None else both[n_planes:]))
        return _in_front(planes), scalars if mask is None else _in_front(scalars)

    axes = (P("tree"), P(), P("data"), P("data", None, "tree"), P())
    merged = _shard_map(of_device, grid, axes, (answers, P() if mask is None else answers))
    return rejoin(spec.layout, *merged(arrays, totals, x, mask, n_blocks))


@jit(static_argnums=(0, 2))
def finish_chunk(grid: Grid, combiner: Combiner, readout: str | None, merged: PyTree) -> PyTree:
    """Return the answers ``[data rows ...]`` of a merged statistic; every device finishes its own."""

    def finish(combiner, merged):
        return read_answer(combiner.finish(merged), readout)

    def of_device(combiner, merged):
        return _in_front(finish(combiner, jax.tree.map(lambda a: a[0] if a.ndim else a, merged)))

    axes = lambda parts: jax.tree.map(lambda a: grid.of_answers if a.ndim else P(), parts)  # noqa: E731
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype, weak_type=a.weak_type), merged)
    found = jax.eval_shape(finish, combiner, one)
    return _shard_map(of_device, grid, (P(), axes(merged)), axes(found))(combiner, merged)


@jit(static_argnums=(0, 2))
def merge_and_finish(program: Program, combiner: Combiner, readout: str | None, *inputs) -> PyTree:
    """Merge and finish in one program, for accelerators."""
    return finish_chunk(program.grid, combiner, readout, merge_chunk(program, *inputs))


def _in_front(parts: PyTree) -> PyTree:
    """Return an array with the axis of 'data' again, unless a number is one for all instances."""
    return jax.tree.map(lambda part: part[None] if part.ndim else part, parts)


def _shard_map(of_device, grid: Grid, in_specs, out_specs):
    # Unchecked: loops start from carries that are the same on all devices and end with others, and what is gathered and
    # joined is the same along 'tree', which the check does not see.
    return jax.shard_map(of_device, mesh=grid.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
