"""A bound forest as one program for any number of instances, which runs where JAX is and this library is not."""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import export, lax
from jaxtyping import PyTree

from jaxunc._numerics import own_settings
from jaxunc.combiners import Combiner, read_answer

from ._engine import Engine
from ._walk import FEW

BLOCKS = (FEW, 512, 2048)
"""Instances that are walked together: the least that takes all, or the largest."""


def exported(
    engine: Engine, combiner: Combiner, readout: str | None, platforms: Sequence[str] | None
) -> export.Exported:
    """Return the program of an engine that takes missing values; the forest is part of it."""

    def answer(x: jax.Array) -> PyTree:
        # As arguments, which they are for a bound forest: the compiler rounds by constants in other ways.
        known, rule = jax.tree.map(lax.optimization_barrier, (engine, combiner))

        def answer_block(x: jax.Array) -> PyTree:
            return _named(read_answer(rule.finish(known.merge(rule, x, None)), readout))

        n = x.shape[0]
        # Which of them is known when the program is compiled for a number of instances, and the others are dropped.
        chosen = sum((jnp.asarray(n) > size).astype(jnp.int32) for size in BLOCKS[:-1])
        return lax.switch(chosen, [partial(_in_blocks, answer_block, size) for size in BLOCKS], x)

    (n,) = export.symbolic_shape("instances")
    rows = jax.ShapeDtypeStruct((n, engine.forest.n_features), jnp.float32)
    with own_settings():
        return export.export(jax.jit(answer), platforms=platforms)(rows)


def _in_blocks(answer_block, size: int, x: jax.Array) -> PyTree:
    """Answers for all instances, block by block, the last one padded."""
    n, n_features = x.shape
    number = (n + size - 1) // size
    blocks = jnp.pad(x, ((0, number * size - n), (0, 0))).reshape(number, size, n_features)
    answers = lax.map(answer_block, blocks)
    return jax.tree.map(lambda array: array.reshape(number * size, *array.shape[2:])[:n], answers)


def _named(answer: PyTree) -> PyTree:
    """An array as it is, of more a dictionary: what loads the program knows no types of this library."""
    if isinstance(answer, jax.Array):
        return answer
    leaves = jax.tree_util.tree_leaves_with_path(answer)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
