"""Calls of the programs that explain: threads share the instances on a CPU; an accelerator runs one program for all."""

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
    """A function ``(has_missing, setting, arrays, x, mask) → [instances features stat]``, and the shapes of calls.

    ``has_missing`` says whether the instances ``x`` may hold missing values; ``mask`` is the tree mask, or None.
    """

    program: HostProgram
    setting: int
    """The program's static argument beside ``has_missing``, by which it is compiled."""
    arrays: Any
    """The arrays of the trees and of their leaves that the program reads, on the device."""
    shapes: Shapes
    """Shapes of the calls on a CPU; an accelerator answers in one call, whose blocks have the shape ``single``."""
    depends_on_missing: bool = True
    """Whether the program reads ``has_missing``; otherwise the argument is always True: one program for both."""


class Completion(NamedTuple):
    """What turns a kernel's values into Shapley values: a last number of the statistic, and a division by weights."""

    last_follows: bool
    """Whether the statistic has one more number, minus the sum of the kernel's numbers."""
    weights: Float[Array | np.ndarray, "trees"] | None
    """Weights of trees: with a mask values are divided by their sum over an instance's trees. None: no division."""

    def apply(self, values: Any, mask: Any) -> Any:
        """Return the Shapley values ``[instances features stat]`` that follow from a kernel's ``values``.

        ``mask [instances trees]`` is the tree mask, or None. The arrays are all of NumPy, or all of JAX.
        """
        xp = values.__array_namespace__()
        if self.last_follows:
            values = xp.concatenate([values, -values.sum(axis=-1, keepdims=True)], axis=-1)
        if mask is None or self.weights is None:
            return values
        return values / sum_of_weights(mask, self.weights)[..., None].astype(values.dtype)


def sum_of_weights(
    mask: Bool[Array | np.ndarray, "instances trees"], weights: Float[Array | np.ndarray, "trees"]
) -> Float[Array | np.ndarray, "instances 1"]:
    """Return the sum of the ``weights`` of those trees that ``mask`` counts for each instance; 1 where it is 0."""
    if isinstance(mask, np.ndarray):
        total = mask.astype(np.float64) @ weights
    else:
        floats = jnp.asarray(weights, jnp.result_type(float))
        total = jnp.matmul(mask.astype(floats.dtype), floats, precision=lax.Precision.HIGHEST)
    xp = mask.__array_namespace__()
    return xp.where(total > 0, total, 1)[:, None]


def values_by(
    kernel: Kernel, completion: Completion, X: Encoded, mask: np.ndarray | Array | None, platform: str, n_stats: int
) -> Float[Array | np.ndarray, "instances features stat"]:
    """Return the Shapley values of each column for the instances X, by ``kernel`` and then ``completion``.

    ``mask [instances trees]`` says which trees count, None: all. ``platform`` is "cpu" or "accelerator". An accelerator
    answers by one program. Where ``X.missing`` is None the program also looks for missing and infinite values, and
    refuses values as `encode_rows` does. ``n_stats`` is the number of values for each column.
    """
    program, setting, arrays, shapes, depends_on_missing = kernel
    has_missing = X.missing or not depends_on_missing
    if not is_concrete(X.values, mask):  # within someone's program
        with own_settings():
            values = program.function(has_missing, setting, arrays, X.values, mask)
            return completion.apply(values, mask)
    if platform == "cpu":

        def values_of(part: Part) -> Array:
            """Return the kernel's values for the instances of a part."""
            return program(has_missing, setting, arrays, part.of(X.values), part.of(mask))

        with outside_traces():
            parts = cut(len(X.values), shapes, cores())
            values = np.asarray(drive(values_of, parts, cores()))
            return completion.apply(values, mask)

    static = program.function, setting, shapes.single.rows, completion.last_follows

    def answer(missing: bool, x: Any, mask: Any) -> tuple[Array, Array]:
        """Return (Shapley values, mark of missing or infinite values) for the rows ``x``."""
        weights = None if mask is None else completion.weights
        return _values_and_mark(missing or not depends_on_missing, static, arrays, weights, x, mask)

    row_bytes = jnp.result_type(float).itemsize * X.values.shape[1] * (1 + n_stats)
    row_bytes += 0 if mask is None else mask.shape[1]
    smallest_call = shapes.small[0].rows if shapes.small else shapes.single.rows
    values, _ = answer_on_device(answer, X.values, mask, row_bytes, missing=X.missing, guess=True, least=smallest_call)
    return values


@partial(HostProgram, static_argnums=(0, 1))
def _values_and_mark(
    has_missing: bool,
    static: tuple[Any, int, int, bool],
    arrays: Any,
    weights: Array | None,
    x: Array,
    mask: Array | None,
) -> tuple[Array, Array]:
    """Return Shapley values ``[instances features stat]``, and the mark of `in_blocks` of missing or infinite values.

    ``static`` is what the program is compiled for: a kernel's function, its setting, the number of instances in a
    block, and `Completion.last_follows`. ``weights`` are those of a `Completion`. The other arguments are those of the
    kernel's function.
    """
    function, setting, block, last_follows = static
    completion = Completion(last_follows, weights)

    def of_block(x: Array, mask: Array | None) -> Array:
        return completion.apply(function(has_missing, setting, arrays, x, mask), mask)

    return in_blocks(of_block, block, x, mask)
