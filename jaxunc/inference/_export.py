"""Programs for any number of instances: those of `BoundForest.export`, and a caller's with a symbolic number."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.export
import jax.numpy as jnp
from jax import export, lax

from jaxunc._numerics import own_settings
from jaxunc._types import PyTree

from ._walk import FEW

EXPORTED_BLOCKS = (FEW, 512, 2048)
"""Sizes of blocks in an exported program. It uses the smallest that holds all instances, else the largest."""

RowsAnswer: TypeAlias = Callable[[PyTree, jax.Array, Any], PyTree]
"""Function that answers a block: (model, instances, tree mask or None) → arrays with a row for each, and numbers."""


def export_program(
    answer_rows: RowsAnswer, model: PyTree, n_features: int, platforms: Sequence[str] | None
) -> export.Exported:
    """Return the program of `BoundForest.export`, which holds the arrays of ``model`` as constants."""

    def answer(x: jax.Array) -> PyTree:
        # Plain arrays, since the types of answers cannot be read without this library.
        return _name_arrays(answer_any_number(answer_rows, model, x, None))

    # A symbolic size is 1 at least, but there may be no instances.
    (n,) = export.symbolic_shape("instances_and_one - 1")
    rows = jax.ShapeDtypeStruct((n, n_features), jnp.float32)
    with own_settings():
        return export.export(jax.jit(answer), platforms=platforms)(rows)


def answer_any_number(answer_rows: RowsAnswer, model: PyTree, x: jax.Array, mask: Any) -> PyTree:
    """Return ``answer_rows(model, x, mask)``, made in blocks, for a symbolic number of instances ``x``."""
    # The barriers hide that these are constants. With constants the compiler would round differently than it does in a
    # bound forest's programs, where they are arguments.
    model = jax.tree.map(lax.optimization_barrier, model)
    # A program is compiled for a concrete number of instances, which decides the branch; other branches are dropped.
    branch = sum((jnp.asarray(x.shape[0]) > size).astype(jnp.int32) for size in EXPORTED_BLOCKS[:-1])
    answer_block = partial(answer_rows, model)
    return lax.switch(branch, [partial(_in_blocks, answer_block, size) for size in EXPORTED_BLOCKS], x, mask)


def _in_blocks(answer_block: Callable[[jax.Array, Any], PyTree], size: int, x: jax.Array, mask: Any) -> PyTree:
    """Return the answers of ``answer_block(rows, mask)`` for all instances, in blocks of ``size``, the last padded."""
    n = x.shape[0]
    n_rows = n // size * size + size  # one block at least, possibly empty, so that shapes are known for n = 0
    padded = jax.tree.map(lambda array: jnp.pad(array, ((0, n_rows - n), (0, 0))), (x, mask))
    block_at = lambda start: jax.tree.map(lambda array: lax.dynamic_slice_in_dim(array, start, size), padded)
    answer = jax.eval_shape(lambda: answer_block(*block_at(0)))
    # A number in the answer stands for all instances, and does not depend on them: each block has it. So one block is
    # answered also for n = 0.
    room = jax.tree.map(lambda part: jnp.zeros((n_rows, *part.shape[1:]) if part.ndim else (), part.dtype), answer)

    def write_block(i, room):
        write = lambda whole, part: lax.dynamic_update_slice_in_dim(whole, part, i * size, 0) if part.ndim else part
        return jax.tree.map(write, room, answer_block(*block_at(i * size)))

    filled = lax.fori_loop(0, jnp.maximum(-(-jnp.asarray(n) // size), 1), write_block, room)
    return jax.tree.map(lambda array: array[:n] if array.ndim else array, filled)


def _name_arrays(answer: PyTree) -> PyTree:
    """Return an array as it is, other answers as arrays by name, which can be read without this library."""
    if isinstance(answer, jax.Array):
        return answer
    leaves = jax.tree_util.tree_leaves_with_path(answer)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
