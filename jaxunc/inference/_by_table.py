"""The engine with a leaf table: trees packed for walking, and the programs that answer by it.

`answer_by_table` cuts the instances into parts of few shapes. For each part it runs the compiled programs `merge_chunk`
(walk, look up, merge) and `_finish_chunk`, or both as one: `merge_and_finish`. On an accelerator one program answers
all instances: `answer_and_mark`.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from jaxunc._checks import is_concrete
from jaxunc._numerics import jit
from jaxunc._types import PyTree
from jaxunc.combiners import Combiner, read_answer
from jaxunc.forest import Forest, Trees

from ._device_calls import in_blocks
from ._drive import HostProgram, Part, Shapes, call_shapes, cap_shapes, cut, drive
from ._merge_leaves import is_large, leaf_table, lifted_rows
from ._packed_trees import MERGED_NUMBERS, PackedTrees, Spec
from ._plan import CompactTrees, compact
from ._walk import BLOCKS, CHUNK_BLOCKS, Walk

MOST_COLLECTED = 2**22
"""Most values of a collected plane, one for each instance and tree, that a call makes, unless one instance has more."""

ONE_PROGRAM = 256
"""Most rows of a chunk that one program merges and finishes, since calling a program takes 30 µs. Larger chunks take
two programs: all read-outs share the one that merges, and forests of all sizes the one that finishes."""

FEW_COLLECTED = 512
"""Most rows of a call where the collected values of ``BLOCKS[0]`` rows would be more than `MOST_COLLECTED`."""


class ByTable(eqx.Module):
    """The engine with a leaf table: trees packed for walking, and the statistics lifted from their leaves."""

    forest: Forest
    packed: PackedTrees
    """The packed trees, with their leaf table."""
    compact_trees: CompactTrees | None
    """The trees that were packed, if their tests of sets read words (`compact`); None if the forest's trees were."""

    @classmethod
    def of(cls, forest: Forest, combiner: Combiner, walk: Walk) -> "ByTable":
        """Return the engine of a concrete forest and combiner, with the counts lifted and the trees packed."""
        compact_trees = _with_sets(forest.trees)
        lifted_and_code = lifted_rows(forest, combiner)
        if lifted_and_code is not None:
            lifted, code = lifted_and_code
            packed = PackedTrees.of_rows(forest.trees, lifted, code, combiner.merge, walk=walk)
        else:
            table = leaf_table(forest, combiner)
            packed = PackedTrees.of(forest.trees, table, combiner.merge, missing=False, walk=walk)
        return cls(forest, packed, compact_trees)

    @property
    def walk(self) -> Walk:
        """The walk that the trees were packed for."""
        return self.packed.spec.walk

    @staticmethod
    def suits(forest: Forest, combiner: Combiner, walk: Walk) -> bool:
        """Return whether the engine can answer: no empty leaf is followed, and no table of "blocks" `is_large`."""
        return not forest.follows_forks and (walk == "levels" or not is_large(forest, combiner))

    def for_missing(self) -> "ByTable":
        """Return this engine with a plan for missing values, with which walks take a quarter more time."""
        packed = self.packed.for_missing(self.compact_trees or CompactTrees(self.forest.trees))
        return ByTable(self.forest, packed, self.compact_trees)

    def on(self, trees: Trees) -> "ByTable":
        """Return this engine with ``trees``, which are its own trees on only the columns that they test."""
        forest = dataclasses.replace(self.forest, trees=trees)
        return ByTable(forest, self.packed.by_columns(trees), _with_sets(trees))

    def call(self) -> "TableCall":
        """Return the members of this engine that a call reads."""
        packed = self.packed
        # An instance meets at most as many tests in all trees together as these are deep.
        n_tests = int(np.sum(np.asarray(packed.plan.depth))) if is_concrete(packed.plan.depth) else 0
        shapes = shapes_of(packed.spec, packed.n_trees, self.forest.n_features, n_tests)
        return TableCall(packed.spec, packed.arrays, shapes)

    def lower(self, n_instances: int, combiner: Combiner) -> jax.stages.Lowered:
        """Return the lowered program that merges the first chunk of ``n_instances``; in "levels" it answers all."""
        call = self.call()
        no_mask = None
        if call.spec.walk == "levels":
            x = jax.ShapeDtypeStruct((n_instances, self.forest.n_features), jnp.float32)
            settings = call.spec, call.block, combiner, "class_scores"
            return answer_and_mark.jitted.lower(*settings, call.arrays, x, no_mask)
        chunk = cut(n_instances, call.shapes, 1)[0].chunk
        x = jax.ShapeDtypeStruct((chunk.rows, self.forest.n_features), jnp.float32)
        n_blocks = None if chunk.rows == chunk.block else jax.ShapeDtypeStruct((), jnp.int32)
        return merge_chunk.jitted.lower(call.spec, chunk.block, call.arrays, x, no_mask, n_blocks)


def _with_sets(trees: Trees) -> CompactTrees | None:
    """Return ``trees`` made compact (`compact`), if some nodes then test sets, else None."""
    compact_trees = compact(trees)
    return None if compact_trees.sets is None else compact_trees


class TableCall(NamedTuple):
    """The members of an engine `ByTable` that a call reads, looked up once for all calls.

    Looking up an attribute of a module takes 1 µs, which counts in a call of one row. The arrays of `PackedTrees` are a
    tuple, which JAX flattens faster than a module.
    """

    spec: Spec
    arrays: tuple[Any, ...]
    shapes: Shapes

    @property
    def block(self) -> int:
        """Number of instances that an accelerator works on at a time."""
        return (self.shapes.large or self.shapes.single).block


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FlatCombiner:
    """A combiner, flattened once for all calls: JAX takes 5 µs to flatten a module."""

    leaves: tuple[Any, ...]
    structure: Any = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(cls, combiner: Combiner) -> "FlatCombiner":
        """Return ``combiner`` flattened."""
        leaves, structure = jax.tree.flatten(combiner)
        return cls(tuple(leaves), structure)

    def finish(self, stat: PyTree) -> Any:
        """Return the combiner's answer for a merged statistic (`Combiner.finish`)."""
        return jax.tree.unflatten(self.structure, self.leaves).finish(stat)


def answer_by_table(call: TableCall, combiner: FlatCombiner, readout: str | None, values, mask, threads: int) -> PyTree:
    """Return the answer, or one read-out of it, for any number of instances ``[instances features]`` on the host.

    ``call`` is that of an engine for missing values, if there are any among ``values``. ``mask`` is a tree mask of
    NumPy or None. ``threads`` is the number of threads that share the parts.
    """
    spec, arrays, shapes = call

    def score(part: Part) -> PyTree:
        """Return the answer of one part, by one program if it has few rows, else by two (`ONE_PROGRAM`)."""
        block = part.chunk.block
        rows = part.of(values)
        mask_of_rows = part.of(mask)
        if part.chunk.rows <= ONE_PROGRAM:
            return merge_and_finish(spec, block, combiner, readout, arrays, rows, mask_of_rows, part.number)
        merged = merge_chunk(spec, block, arrays, rows, mask_of_rows, part.number)
        return _finish_chunk(combiner, readout, merged)

    return drive(score, cut(len(values), cap_shapes(shapes, values), threads), threads)


def shapes_of(spec: Spec, n_trees: int, n_features: int, n_tests: int = 0) -> Shapes:
    """Return the shapes of calls for ``n_trees`` trees, packed as ``spec`` says, and data of ``n_features`` columns.

    ``n_tests`` is about the number of tests that an instance meets in all trees, 0 if it is not known. Calls have fewer
    rows where planes are wide, and in the walk "blocks" where values of all trees are collected.
    """
    on_host = spec.walk == "blocks"
    layout = spec.layout
    collects = layout.planes.collects
    # On an accelerator always two keys a column: calls with and without missing values have the same shapes.
    n_columns = spec.n_columns(n_features) if on_host else 2 * n_features + spec.words
    shapes = call_shapes(spec.walk, n_trees, n_columns, n_tests, spec.small_block)
    if layout.is_wide:
        n_numbers = layout.width * (n_trees if collects else 1)  # of an instance
        return shapes.of_at_most(MERGED_NUMBERS // n_numbers, spec.block)
    if not on_host or not collects:
        return shapes
    most_rows = MOST_COLLECTED // n_trees
    if most_rows < BLOCKS[0]:
        return shapes.of_at_most(min(FEW_COLLECTED, max(most_rows, 1)), FEW_COLLECTED)
    large_rows = CHUNK_BLOCKS * BLOCKS[0]  # as many as `call_shapes` gives the large shape
    return shapes if most_rows >= large_rows else shapes._replace(large=None)


@partial(HostProgram, static_argnums=(0, 1))
def merge_chunk(spec: Spec, block: int, arrays: tuple, x, mask, n_blocks) -> PyTree:
    """Return the statistic of a chunk's rows ``x``, merged over trees, in a compiled program.

    ``arrays`` and ``spec`` are those of `PackedTrees`. Only the first ``n_blocks`` blocks of ``block`` instances are
    walked; None stands for all rows.
    """
    return PackedTrees(*arrays, spec=spec).merge(x, mask, None if n_blocks is None else (block, n_blocks))


@partial(HostProgram, static_argnums=(0, 1, 3))
def answer_and_mark(
    spec: Spec, block: int, combiner: Combiner, readout: str | None, arrays: tuple, x, mask
) -> tuple[PyTree, Array]:
    """Return (answers, mark) of a batch ``x`` on an accelerator, which works on at most ``block`` instances at a time.

    Other arguments are as for `merge_and_finish`. The mark says whether values are missing or infinite (`in_blocks`).
    """
    answer_block = partial(merge_and_finish.function, spec, block, combiner, readout, arrays)
    return in_blocks(answer_block, block, x, mask)


@partial(HostProgram, static_argnums=(0, 1, 3))
def merge_and_finish(
    spec: Spec,
    block: int,
    combiner: Combiner | FlatCombiner,
    readout: str | None,
    arrays: tuple,
    x,
    mask,
    n_blocks=None,
) -> PyTree:
    """Return the answers for a chunk's rows ``x``, or one ``readout`` of them (`READOUTS`), in a compiled program.

    Other arguments are as for `merge_chunk`.
    """
    stat = PackedTrees(*arrays, spec=spec).merge(x, mask, None if n_blocks is None else (block, n_blocks))
    return finish_rows(combiner, readout, stat, len(x))


def finish_rows(combiner: Combiner | FlatCombiner, readout: str | None, stat: PyTree, n: int) -> PyTree:
    """Return the answers, or one ``readout`` of them (`READOUTS`), for ``n`` instances with the merged ``stat``.

    An instance's answer has the same bits alone as among several.
    """
    if n > 1:
        return read_answer(combiner.finish(stat), readout)
    # A single instance is finished as two equal ones. XLA divides several numbers by a common one through its
    # reciprocal, but not a single number.
    stat = jax.tree.map(lambda array: jnp.repeat(array, 2, axis=0) if array.ndim else array, stat)
    answer = read_answer(combiner.finish(lax.optimization_barrier(stat)), readout)
    return jax.tree.map(lambda array: array[:1] if array.ndim else array, answer)


@jit(static_argnums=1)
def _finish_chunk(combiner: Combiner | FlatCombiner, readout: str | None, merged: PyTree) -> PyTree:
    """Return the answers for a chunk's ``merged`` statistic, or one ``readout`` of them (`READOUTS`)."""
    return read_answer(combiner.finish(merged), readout)
