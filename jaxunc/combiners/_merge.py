"""The merges: how one plane of a statistic accumulates over trees, in one fixed order."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxunc._checks import check_one_of
from jaxunc._numerics import TwoFloat, two_float_from_limbs, two_sum

MERGES = ("sum", "exact_sum", "min", "max")


class Accumulator(NamedTuple):
    """A merge in the form in which a loop over trees carries it."""

    identity: Callable  # (shape, dtype) → carry of no tree at all
    include: Callable  # (carry, values) → carry
    result: Callable  # carry → what finish sees
    join: Callable  # (carry, carry) → carry, for parallel reductions


def _float_sum(result: Callable) -> Accumulator:
    def include(carry, values):
        high, error = two_sum(carry[0], values)
        return high, carry[1] + error

    def join(a, b):
        high, error = two_sum(a[0], b[0])
        return high, (a[1] + b[1]) + error

    return Accumulator(lambda shape, dtype: (jnp.zeros(shape, dtype),) * 2, include, result, join)


def _integer_sum() -> Accumulator:
    """Two 32-bit limbs: exact up to 2⁶³, without 64-bit integers."""

    def include(carry, values):
        values = values.astype(jnp.int32)
        return join(carry, (values.astype(jnp.uint32), values >> 31))

    def join(a, b):
        low = a[0] + b[0]
        return low, a[1] + b[1] + (low < a[0]).astype(jnp.int32)

    def identity(shape, dtype):
        return jnp.zeros(shape, jnp.uint32), jnp.zeros(shape, jnp.int32)

    return Accumulator(identity, include, lambda carry: two_float_from_limbs(*carry), join)


def _rounded(carry):
    # A veto (-inf) makes the error term NaN: the plain sum is right there.
    return jnp.where(jnp.isfinite(carry[0]), carry[0] + carry[1], carry[0])


def _exact(carry):
    return TwoFloat(*two_sum(*carry))


def _extreme(operation: Callable, limit: float) -> Accumulator:
    return Accumulator(
        lambda shape, dtype: jnp.full(shape, limit, dtype), operation, lambda carry: carry, operation
    )


def accumulator(merge: str, dtype) -> Accumulator:
    """The accumulator of a merge for planes of a dtype; raises a ValueError if there is none of that name."""
    check_one_of("merge", merge, MERGES)
    if merge == "exact_sum":
        return _integer_sum() if jnp.issubdtype(dtype, jnp.integer) else _float_sum(_exact)
    if merge == "sum":
        return _float_sum(_rounded)
    return _extreme(jnp.minimum, jnp.inf) if merge == "min" else _extreme(jnp.maximum, -jnp.inf)


def merge_kinds(merge: PyTree, stat: PyTree) -> list[str]:
    """The merge of every array of a statistic, from a prefix of it."""
    kinds: list[str] = []
    jax.tree.map(lambda kind, part: kinds.extend([kind] * len(jax.tree.leaves(part))), merge, stat)
    for kind in kinds:
        check_one_of("merge", kind, MERGES)
    return kinds
