"""The usual engine: a table of what the rule lifts from every leaf, looked up and merged while instances are routed."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import PyTree

from jaxunc.combiners import Combiner, read_answer
from jaxunc.forest import Forest

from ._drive import Chunk, Part, Shapes, cut, drive, drive_on_device
from ._engine import Engine
from ._host_program import HostProgram
from ._leaf_table import is_large, leaf_table
from ._packed_trees import PackedTrees, Spec
from ._walk import BLOCKS, Walk, block_size

SMALL_BLOCK = 256
"""Instances per block where there are few: a block costs as much as 70 instances beside its own."""

CHUNK_BLOCKS = 4
"""Blocks of a large call."""

MOST_COLLECTED = 2**22
"""Values per plane that are collected at a time: one for each instance and tree."""


class Streamed(Engine):
    """Trees packed for walking, and the leaf table."""

    forest: Forest
    stream: PackedTrees

    @classmethod
    def of(cls, forest: Forest, combiner: Combiner, walk: Walk) -> "Streamed":
        """Lift, and pack."""
        table = leaf_table(forest, combiner)
        return cls(forest, PackedTrees.of(forest.trees, table, combiner.merge, missing=False, walk=walk))

    @staticmethod
    def suits(forest: Forest, combiner: Combiner, walk: Walk) -> bool:
        """Whether leaves say all there is to know, and the table of what they say is worth its memory."""
        return not forest.follows_forks and (walk == "levels" or not is_large(forest, combiner))

    def for_missing(self) -> "Streamed":
        """The same with a plan for missing values, which costs a quarter more time."""
        return Streamed(self.forest, self.stream.for_missing(self.forest.trees))

    def merge(self, combiner: Combiner, X: jax.Array, mask) -> PyTree:
        """The merged statistic. What was lifted is constant: gradients need the rule to be bound in the program."""
        return jax.tree.map(lax.stop_gradient, self.stream.merge(X, mask))

    def drive(self, combiner: Combiner, readout: str | None, values, mask, threads: int) -> PyTree:
        """Chunk by chunk."""
        on_host = self.stream.spec.walk == "blocks"

        def score(part: Part) -> PyTree:
            x, in_mask = part.of(values), part.of(mask)
            return run_chunk(self.stream, combiner, readout, x, in_mask, part.chunk, part.n_blocks)

        parts = cut(len(values), Streamed.shapes(self), threads)
        if isinstance(values, jax.Array) and not on_host:
            return drive_on_device(score, parts)
        return drive(score, parts, threads, ahead=not on_host)

    def shapes(self) -> Shapes:
        """The shapes of calls."""
        return shapes_of(self.stream.spec, self.stream.n_trees, self.forest.n_features)

    def lower(self, n_instances: int) -> jax.stages.Lowered:
        """The program that merges chunks of so many instances."""
        chunk = cut(n_instances, self.shapes(), 1)[0].chunk
        x = jax.ShapeDtypeStruct((chunk.rows, self.forest.trees.n_features), jnp.float32)
        number = None if chunk.rows == chunk.block else jax.ShapeDtypeStruct((), jnp.int32)
        return merge_chunk.jitted.lower(self.stream.spec, chunk.block, self.stream.arrays, x, None, number)


def shapes_of(spec: Spec, n_trees: int, n_features: int) -> Shapes:
    """The shapes of the calls of a stream of so many trees."""
    if spec.walk == "levels":
        largest = block_size("levels", n_trees, 2 * n_features)
        least, middle = (Chunk(min(size, largest), min(size, largest)) for size in (1024, 32768))
        return Shapes(middle, Chunk(largest, largest), (least,))
    rows = BLOCKS[0]
    block = block_size("blocks", n_trees, n_features * (1 + spec.missing))
    least = Chunk(SMALL_BLOCK, SMALL_BLOCK)
    most = MOST_COLLECTED // (rows * n_trees) if spec.layout.planes.collects else CHUNK_BLOCKS
    if not most:
        return Shapes(least)
    large = Chunk(CHUNK_BLOCKS * rows, block) if most >= CHUNK_BLOCKS else None
    return Shapes(Chunk(rows, block), large, (least, Chunk(rows, SMALL_BLOCK)))


def run_chunk(
    stream: PackedTrees, combiner: Combiner, readout: str | None, x, mask, chunk: Chunk, n_blocks: int
) -> PyTree:
    """The answers for a chunk of instances, of which so many blocks are full of them.

    On the host as two programs: finishing does not depend on the size of the forest, and many rules take long to
    compile. On an accelerator as one, since there each kernel counts.
    """
    if stream.spec.walk == "levels":
        return merge_and_finish(stream, combiner, readout, x, mask)
    number = None if chunk.rows == chunk.block else np.int32(n_blocks)
    merged = merge_chunk(stream.spec, chunk.block, stream.arrays, x, mask, number)
    return _finish_chunk(combiner, readout, merged)


@partial(HostProgram, static_argnums=(0, 1))
def merge_chunk(spec: Spec, block: int, arrays: tuple, x, mask, n_blocks) -> PyTree:
    """The merged statistic of a chunk. (A tuple is taken apart sooner than a module.)"""
    plan, tables, scalars, totals = arrays
    return PackedTrees(plan, tables, scalars, totals, spec).merge(
        x, mask, None if n_blocks is None else (block, n_blocks)
    )


@partial(jax.jit, static_argnums=2)
def merge_and_finish(stream: PackedTrees, combiner: Combiner, readout: str | None, x, mask) -> PyTree:
    """The answers of a chunk in one program."""
    return read_answer(combiner.finish(stream.merge(x, mask)), readout)


@partial(jax.jit, static_argnums=1)
def _finish_chunk(combiner: Combiner, readout: str | None, merged: PyTree) -> PyTree:
    return read_answer(combiner.finish(merged), readout)
