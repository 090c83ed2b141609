"""The usual engine: a table of what the rule lifts from every leaf, looked up and merged while instances are routed."""

import dataclasses
from collections.abc import Callable
from functools import cache, cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import PyTree

from jaxunc._numerics import jit
from jaxunc.combiners import Combiner, read_answer
from jaxunc.forest import Forest, Trees

from ._drive import Chunk, Part, Shapes, bounded, cut, drive, drive_on_device
from ._fold import Driver, Engine, is_large, leaf_table, lifted_rows
from ._packed_trees import PackedTrees, Spec
from ._walk import BLOCKS, Walk, are_few, block_size

SMALL = (1, 8, 64, 256, 512)
"""Instances of small calls; up to `FEW` walk all trees at once and finish in the same program."""

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
        if (by_rows := lifted_rows(forest, combiner)) is not None:
            lifted, code = by_rows
            return cls(forest, PackedTrees.of_rows(forest.trees, lifted, code, combiner.merge, walk=walk))
        table = leaf_table(forest, combiner)
        return cls(forest, PackedTrees.of(forest.trees, table, combiner.merge, missing=False, walk=walk))

    @staticmethod
    def suits(forest: Forest, combiner: Combiner, walk: Walk) -> bool:
        """Whether leaves say all there is to know, and the table of what they say is worth its memory."""
        return not forest.follows_forks and (walk == "levels" or not is_large(forest, combiner))

    def for_missing(self) -> "Streamed":
        """Return the engine with a plan for missing values, which costs a quarter more time."""
        return Streamed(self.forest, self.stream.for_missing(self.forest.trees))

    def on(self, trees: Trees) -> "Streamed":
        """Return the engine of the same trees by other columns: their leaf table is shared."""
        return Streamed(dataclasses.replace(self.forest, trees=trees), self.stream.by_columns(trees))

    def merge(self, combiner: Combiner, X: jax.Array, mask) -> PyTree:
        """The merged statistic. What was lifted is constant: gradients need the rule to be bound in the program."""
        return jax.tree.map(lax.stop_gradient, self.stream.merge(X, mask))

    def driver(self, combiner: Combiner) -> Driver:
        """Return the driver, which goes chunk by chunk."""
        spec, arrays, n_trees, shapes = self.stream.spec, self.stream.arrays, self.stream.n_trees, self.shapes()
        on_host = spec.walk == "blocks"

        def answer(readout: str | None, values, mask, threads: int) -> PyTree:
            def score(part: Part) -> PyTree:
                number = None if part.chunk.rows == part.chunk.block else np.int32(part.n_blocks)
                rows = part.of(values), part.of(mask)
                # On the host as two programs: finishing does not depend on the size of the forest, and many rules take
                # long to compile. As one where each call of a program counts: for few instances, on an accelerator.
                if on_host and not are_few(part.chunk.rows, n_trees):
                    merged = merge_chunk(spec, part.chunk.block, arrays, *rows, number)
                    return _finish_chunk(combiner, readout, merged)
                return merge_and_finish(spec, combiner, readout, arrays, *rows)

            # An accelerator takes parts one after the other, and threads share none: the larger, the better.
            parts = cut(len(values), bounded(shapes, values), threads if on_host else 1)
            if isinstance(values, jax.Array) and not on_host:
                return drive_on_device(score, parts)
            return drive(score, parts, threads, ahead=not on_host)

        return answer

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
    small = tuple(Chunk(size, min(size, block)) for size in SMALL)
    most = MOST_COLLECTED // (rows * n_trees) if spec.layout.planes.collects else CHUNK_BLOCKS
    if not most:
        return Shapes(small[-2], None, small[:-2])
    large = Chunk(CHUNK_BLOCKS * rows, block) if most >= CHUNK_BLOCKS else None
    return Shapes(Chunk(rows, block), large, small)


@partial(HostProgram, static_argnums=(0, 1))
def merge_chunk(spec: Spec, block: int, arrays: tuple, x, mask, n_blocks) -> PyTree:
    """The merged statistic of a chunk. (A tuple is taken apart sooner than a module.)"""
    plan, tables, scalars, totals = arrays
    return PackedTrees(plan, tables, scalars, totals, spec).merge(
        x, mask, None if n_blocks is None else (block, n_blocks)
    )


@partial(HostProgram, static_argnums=(0, 2))
def merge_and_finish(spec: Spec, combiner: Combiner, readout: str | None, arrays: tuple, x, mask) -> PyTree:
    """The answers of a chunk in one program."""
    plan, tables, scalars, totals = arrays
    stat = PackedTrees(plan, tables, scalars, totals, spec).merge(x, mask)
    if len(x) > 1:
        return read_answer(combiner.finish(stat), readout)
    # The compiler divides several instances by a common number as it does not divide one: by its reciprocal.
    stat = jax.tree.map(lambda array: jnp.repeat(array, 2, axis=0) if array.ndim else array, stat)
    answer = read_answer(combiner.finish(lax.optimization_barrier(stat)), readout)
    return jax.tree.map(lambda array: array[:1] if array.ndim else array, answer)


@jit(static_argnums=1)
def _finish_chunk(combiner: Combiner, readout: str | None, merged: PyTree) -> PyTree:
    return read_answer(combiner.finish(merged), readout)


# Programs for the host, compiled for the widest vectors that its cores have.

OPTIONS = {"xla_cpu_prefer_vector_width": "512"}
"""Walking takes a sixth less time; cores with shorter vectors split them. Values are the same."""


class HostProgram:
    """A jitted function of known values, which no other program calls."""

    def __init__(self, function: Callable[..., Any], **static: Any):
        self.function, self.static = function, static

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Run it."""
        return self.jitted(*args, **settings)

    @cached_property
    def jitted(self) -> Any:
        """The function jitted, with the compiler's options where the backend is a CPU and its version knows them."""
        return jit(self.function, compiler_options=OPTIONS if _are_known() else None, **self.static)


@cache
def _are_known() -> bool:
    if jax.default_backend() != "cpu":
        return False
    try:
        jax.jit(lambda x: x, compiler_options=OPTIONS).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
