"""The usual engine: a table of what the combiner lifts from every leaf, looked up and merged on the walk.

`answer_by_table` says the steps of a call: cut the instances into parts of few shapes, and for each part run the
compiled programs `merge_chunk` (walk, look up, merge) and `_finish_chunk`, or both as one: `merge_and_finish`.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import PyTree

from jaxunc._checks import is_concrete
from jaxunc._numerics import jit
from jaxunc.combiners import Combiner, read_answer
from jaxunc.forest import Forest, Trees

from ._drive import HostProgram, Part, Shapes, bounded, call_shapes, cut, drive, drive_on_device
from ._fold import is_large, leaf_table, lifted_rows
from ._packed_trees import MERGED_NUMBERS, PackedTrees, Spec
from ._plan import Folded, folded
from ._walk import BLOCKS, Walk, are_few

CHUNK_BLOCKS = 4
"""Blocks of a large call."""

MOST_COLLECTED = 2**22
"""Values per plane that are collected at a time: one for each instance and tree."""


class ByTable(eqx.Module):
    """Trees packed for walking, and the leaf table."""

    forest: Forest
    packed: PackedTrees
    own: Folded | None
    """The trees that were packed, if not the forest's."""

    @classmethod
    def of(cls, forest: Forest, combiner: Combiner, walk: Walk) -> "ByTable":
        """Lift the leaves' counts, and pack the trees."""
        walked = _fold_sets(forest.trees)
        if (by_rows := lifted_rows(forest, combiner)) is not None:
            lifted, code = by_rows
            return cls(forest, PackedTrees.of_rows(forest.trees, lifted, code, combiner.merge, walk=walk), walked)
        table = leaf_table(forest, combiner)
        return cls(forest, PackedTrees.of(forest.trees, table, combiner.merge, missing=False, walk=walk), walked)

    @staticmethod
    def suits(forest: Forest, combiner: Combiner, walk: Walk) -> bool:
        """Whether a leaf's counts are all that an answer needs, and the leaf table is worth its memory."""
        return not forest.follows_forks and (walk == "levels" or not is_large(forest, combiner))

    def for_missing(self) -> "ByTable":
        """Return the engine with a plan for missing values, which costs a quarter more time."""
        packed = self.packed.for_missing(self.own or Folded(self.forest.trees))
        return ByTable(self.forest, packed, self.own)

    def on(self, trees: Trees) -> "ByTable":
        """Return the engine of the same trees by other columns: their leaf table is shared."""
        return ByTable(dataclasses.replace(self.forest, trees=trees), self.packed.by_columns(trees), _fold_sets(trees))

    def call(self) -> "TableCall":
        """Return the parts of the engine that a call reads."""
        packed = self.packed
        n_tests = int(np.sum(np.asarray(packed.plan.depth))) if is_concrete(packed.plan.depth) else 0
        shapes = shapes_of(packed.spec, packed.n_trees, self.forest.n_features, n_tests)
        return TableCall(packed.spec, packed.arrays, packed.n_trees, shapes)

    def lower(self, n_instances: int) -> jax.stages.Lowered:
        """The program that merges chunks of ``n_instances``."""
        call = self.call()
        chunk = cut(n_instances, call.shapes, 1)[0].chunk
        x = jax.ShapeDtypeStruct((chunk.rows, self.forest.n_features), jnp.float32)
        number = None if chunk.rows == chunk.block else jax.ShapeDtypeStruct((), jnp.int32)
        return merge_chunk.jitted.lower(call.spec, chunk.block, call.arrays, x, None, number)


def _fold_sets(trees: Trees) -> Folded | None:
    walked = folded(trees)
    return None if walked.sets is None else walked


class TableCall(NamedTuple):
    """The parts of an engine that calls read, looked up once.

    To look up an attribute of a module takes 1 µs, and a call of one row takes 30 µs. The parts of `PackedTrees` are a
    tuple, which JAX flattens sooner than a module.
    """

    spec: Spec
    arrays: tuple[Any, ...]
    n_trees: int
    shapes: Shapes


def answer_by_table(call: TableCall, combiner: Combiner, readout: str | None, values, mask, threads: int) -> PyTree:
    """Answer any number of instances ``[instances features]`` of the host, or of an accelerator."""
    spec, arrays, n_trees, shapes = call
    on_host = spec.walk == "blocks"

    def score(part: Part) -> PyTree:
        rows, number = (part.of(values), part.of(mask)), part.number
        # On the host as two programs: finishing does not depend on the size of the forest, and many combiners take
        # long to compile. As one where each call of a program counts: for few instances, on an accelerator.
        if on_host and not are_few(part.chunk.rows, n_trees):
            merged = merge_chunk(spec, part.chunk.block, arrays, *rows, number)
            return _finish_chunk(combiner, readout, merged)
        return merge_and_finish(spec, combiner, readout, arrays, *rows, number)

    # An accelerator takes parts one after the other, and threads share none: the larger, the better.
    parts = cut(len(values), bounded(shapes, values), threads if on_host else 1)
    if isinstance(values, jax.Array) and not on_host:
        return drive_on_device(score, parts)
    return drive(score, parts, threads, ahead=not on_host)


def shapes_of(spec: Spec, n_trees: int, n_features: int, n_tests: int = 0) -> Shapes:
    """The shapes of calls for ``n_trees`` packed trees, in which an instance meets ``n_tests`` tests."""
    on_host, layout = spec.walk == "blocks", spec.layout
    columns = spec.n_columns(n_features) if on_host else 2 * n_features + spec.words
    shapes = call_shapes(spec.walk, n_trees, columns, CHUNK_BLOCKS, n_tests)
    if layout.is_wide:
        collected = n_trees if layout.planes.collects else 1
        return shapes.of_at_most(MERGED_NUMBERS // (layout.width * collected), spec.block)
    if not on_host:
        return shapes
    most = MOST_COLLECTED // (BLOCKS[0] * n_trees) if spec.layout.planes.collects else CHUNK_BLOCKS
    if not most:
        return shapes._replace(single=shapes.small[-3], large=None, small=shapes.small[:-3])
    return shapes if most >= CHUNK_BLOCKS else shapes._replace(large=None)


@partial(HostProgram, static_argnums=(0, 1))
def merge_chunk(spec: Spec, block: int, arrays: tuple, x, mask, n_blocks) -> PyTree:
    """The merged statistic of a chunk."""
    return PackedTrees(*arrays, spec=spec).merge(x, mask, None if n_blocks is None else (block, n_blocks))


@partial(HostProgram, static_argnums=(0, 2))
def merge_and_finish(
    spec: Spec, combiner: Combiner, readout: str | None, arrays: tuple, x, mask, n_blocks=None
) -> PyTree:
    """The answers of a chunk in one program; of few rows, where they are counted, one by one."""
    # On an accelerator blocks are counted where planes are so wide that not all rows of a call go together.
    blocks = None if n_blocks is None else (1 if spec.walk == "blocks" else spec.block, n_blocks)
    stat = PackedTrees(*arrays, spec=spec).merge(x, mask, blocks)
    if len(x) > 1:
        return read_answer(combiner.finish(stat), readout)
    # The compiler divides several instances by a common number as it does not divide one: by its reciprocal.
    stat = jax.tree.map(lambda array: jnp.repeat(array, 2, axis=0) if array.ndim else array, stat)
    answer = read_answer(combiner.finish(lax.optimization_barrier(stat)), readout)
    return jax.tree.map(lambda array: array[:1] if array.ndim else array, answer)


@jit(static_argnums=1)
def _finish_chunk(combiner: Combiner, readout: str | None, merged: PyTree) -> PyTree:
    return read_answer(combiner.finish(merged), readout)
