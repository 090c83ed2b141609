"""The merges: how one plane of a statistic accumulates over trees."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from jaxunc._checks import check_one_of
from jaxunc._numerics import TwoFloat, two_float_from_limbs, two_sum

MERGES = ("sum", "exact_sum", "min", "max", "collect")


class Accumulator(NamedTuple):
    """A merge in the form in which loops and reductions over trees carry it; a carry is a tuple of arrays."""

    neutral: float
    """The value that changes nothing: what a masked tree contributes."""
    enter: Callable
    """values → carry of that one tree."""
    include: Callable | None
    """(carry, values) → carry; None if every tree's value is kept."""
    join: Callable | None
    """(carry, carry) → carry, likewise."""
    result: Callable
    """carry → what `Fold.finish` sees."""

    @property
    def collects(self) -> bool:
        """Whether every tree's value is kept: the carry then has an axis of trees, and loops leave it alone."""
        return self.include is None

    def start(self, shape: tuple[int, ...], dtype) -> tuple:
        """The carry of no tree at all."""
        return self.enter(jnp.full(shape, self.neutral, dtype))


def _float_sum(result: Callable) -> Accumulator:
    """Compensated: the carry is the rounded sum and the sum of the rounding errors."""

    def include(carry, values):
        high, error = two_sum(carry[0], values)
        return high, carry[1] + error

    def join(a, b):
        high, error = two_sum(a[0], b[0])
        return high, (a[1] + b[1]) + error

    return Accumulator(0, lambda values: (values, jnp.zeros_like(values)), include, join, result)


def _rounded(carry):
    # A veto (-inf) makes the error term NaN: the plain sum is right there.
    return jnp.where(jnp.isfinite(carry[0]), carry[0] + carry[1], carry[0])


def _integer_sum() -> Accumulator:
    """Counts, in two 32-bit limbs: exact up to 2⁶³ without 64-bit integers."""

    def enter(values):
        wide = values.dtype.itemsize > 4
        return values.astype(jnp.uint32), (values >> 32 if wide else jnp.zeros_like(values)).astype(jnp.int32)

    def join(a, b):
        low = a[0] + b[0]
        return low, a[1] + b[1] + (low < a[0]).astype(jnp.int32)

    def include(carry, values):
        return join(carry, enter(values))

    return Accumulator(0, enter, include, join, lambda carry: two_float_from_limbs(*carry))


def _extreme(beats: Callable, neutral: float) -> Accumulator:
    def join(a, b):
        # Of equals the first is kept, and has the gradient; NaN stays NaN.
        return (jnp.where(beats(b[0], a[0]) | jnp.isnan(b[0]), b[0], a[0]),)

    def include(carry, values):
        return join(carry, (values,))

    return Accumulator(neutral, lambda values: (values,), include, join, lambda carry: carry[0])


def accumulator(merge: str, dtype) -> Accumulator:
    """The accumulator of a merge for planes of a dtype; raises a ValueError if there is none of that name."""
    check_one_of("merge", merge, MERGES)
    if merge == "collect":
        return Accumulator(jnp.nan, lambda values: (values,), None, None, lambda carry: carry[0])
    if merge == "exact_sum":
        integer = jnp.issubdtype(dtype, jnp.integer)
        return _integer_sum() if integer else _float_sum(lambda carry: TwoFloat(*two_sum(*carry)))
    if merge == "sum":
        return _float_sum(_rounded)
    return _extreme(jnp.less, jnp.inf) if merge == "min" else _extreme(jnp.greater, -jnp.inf)


def merge_kinds(merge: PyTree, stat: PyTree) -> tuple[str, ...]:
    """The merge of every array of a statistic, from a prefix of it."""
    kinds: list[str] = []
    jax.tree.map(lambda kind, part: kinds.extend([kind] * len(jax.tree.leaves(part))), merge, stat)
    for kind in kinds:
        check_one_of("merge", kind, MERGES)
    return tuple(kinds)
