"""Calls that explain: parts of the instances in threads on a CPU, one program for all of them on an accelerator."""

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxunc._checks import is_concrete, outside_traces
from jaxunc._numerics import cores, own_settings
from jaxunc.inference import HostProgram, Part, Shapes, answer_on_device, cut, drive, in_blocks
from jaxunc.tables import Encoded


class Kernel(NamedTuple):
    """A function ``(has_missing, setting, arrays, x, mask) → [instances features stat]``, and the shapes of calls."""

    program: HostProgram
    setting: int
    """What the program is compiled for."""
    arrays: Any
    """What it reads of the trees, on the device."""
    shapes: Shapes
    """Calls on a CPU; on an accelerator ``single`` is a block of the one call."""
    is_apart: bool = True
    """Whether it is another program where no value is missing."""


class Ends(NamedTuple):
    """What is left to do with the values of a kernel."""

    last_follows: bool
    """Whether the statistic has one more number: all numbers add up to 0."""
    weights: Float[Array | np.ndarray, "trees"] | None
    """Weights of trees: values of masked trees are divided by the sum of theirs; None if they are not divided."""

    def of(self, values: Any, mask: Any) -> Any:
        """Return the finished values, as NumPy's or JAX's arrays, as values and mask are."""
        xp = values.__array_namespace__()
        if self.last_follows:
            values = xp.concatenate([values, -values.sum(axis=-1, keepdims=True)], axis=-1)
        if mask is None or self.weights is None:
            return values
        return values / sum_of_weights(mask, self.weights)[..., None].astype(values.dtype)


def sum_of_weights(
    mask: Bool[Array | np.ndarray, "instances trees"], weights: Float[Array | np.ndarray, "trees"]
) -> Float[Array | np.ndarray, "instances 1"]:
    """Return the sum of the weights of the trees that count for each instance; 1 where none does."""
    if isinstance(mask, np.ndarray):
        total = mask.astype(np.float64) @ weights
    else:
        of_trees = jnp.asarray(weights, jnp.result_type(float))
        total = jnp.matmul(mask.astype(of_trees.dtype), of_trees, precision=lax.Precision.HIGHEST)
    xp = mask.__array_namespace__()
    return xp.where(total > 0, total, 1)[:, None]


def values_by(
    kernel: Kernel, ends: Ends, X: Encoded, mask: np.ndarray | Array | None, place: str, n_stats: int
) -> Float[Array | np.ndarray, "instances features stat"]:
    """Return the Shapley values of each column.

    An accelerator (``place``) answers by one program, which also looks at values whose ``missing`` is None; it refuses
    them as `encode_rows` does. ``n_stats`` is the number of numbers for each column.
    """
    program, setting, arrays, shapes, is_apart = kernel
    if not is_concrete(X.values, mask):  # within someone's program
        with own_settings():
            return ends.of(program.function(X.missing or not is_apart, setting, arrays, X.values, mask), mask)
    if place == "cpu":

        def values(part: Part) -> Array:
            return program(X.missing or not is_apart, setting, arrays, part.of(X.values), part.of(mask))

        with outside_traces():
            return ends.of(np.asarray(drive(values, cut(len(X.values), shapes, cores()), cores())), mask)

    how, weights = (program.function, setting, shapes.single.rows, ends.last_follows), ends.weights

    def answer(missing: bool, x: Any, mask: Any) -> tuple[Array, Array]:
        return _values_and_mark(missing or not is_apart, *how, arrays, None if mask is None else weights, x, mask)

    row_bytes = jnp.result_type(float).itemsize * X.values.shape[1] * (1 + n_stats)
    row_bytes += 0 if mask is None else mask.shape[1]
    least = shapes.small[0].rows if shapes.small else shapes.single.rows
    return answer_on_device(answer, X.values, mask, row_bytes, missing=X.missing, guess=True, least=least)[0]


@partial(HostProgram, static_argnums=(0, 1, 2, 3, 4))
def _values_and_mark(
    has_missing: bool,
    function: Any,
    setting: int,
    block: int,
    last_follows: bool,
    arrays: Any,
    weights: Array | None,
    x: Array,
    mask: Array | None,
) -> tuple[Array, Array]:
    """Return the finished values of all instances, ``block`` at a time, and the mark of their values."""
    ends = Ends(last_follows, weights)

    def of_block(x: Array, mask: Array | None) -> Array:
        return ends.of(function(has_missing, setting, arrays, x, mask), mask)

    return in_blocks(of_block, block, x, mask)
