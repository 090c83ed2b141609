"""The merges: how the planes of a statistic accumulate over trees.

`Merging` merges a whole statistic, by loops (`Merging.scan`) or reductions (`Merging.reduce`) over trees. It is made of
an `Accumulator` for each plane. The carry has one form, for trees one by one, blocks, shards and hosts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool

from jaxunc._checks import check_one_of
from jaxunc._numerics import TwoFloat, pair_words, split_words, two_float_from_limbs, two_sum
from jaxunc._types import PyTree

MERGES = ("sum", "exact_sum", "min", "max", "collect")


class Accumulator(NamedTuple):
    """The merge of one plane, as functions of carries; a carry is a tuple of arrays."""

    neutral: float
    """The value that changes nothing: what a masked tree contributes."""
    enter: Callable[..., Any]
    """values → carry of one tree with these values."""
    include: Any
    """(carry, values) → carry with one more tree; None if every tree's value is kept (collected)."""
    join: Any
    """(carry, carry) → carry of the trees of both; None if every tree's value is kept."""
    result: Callable[..., Any]
    """carry → what `Combiner.finish` sees."""

    @property
    def collects(self) -> bool:
        """Whether every tree's value is kept. The carry then has an axis of trees, and loops leave it alone."""
        return self.include is None

    def start(self, shape: tuple[int, ...], dtype) -> tuple[Any, ...]:
        """Return the carry of no tree at all, for a plane of this shape and dtype."""
        return self.enter(jnp.full(shape, self.neutral, dtype))


class Merging(NamedTuple):
    """The accumulators of all planes of a statistic: static and hashable.

    A carry has one entry for each plane: a tuple of arrays of the plane's shape. The entry of a collected plane has an
    axis of trees behind the instances. `join` joins the carries of consecutive trees, of blocks, shards or hosts.
    """

    kinds: tuple[str, ...]
    """The merge of each plane."""
    dtypes: tuple[str, ...]
    """The name of the dtype of each plane's values."""

    @classmethod
    def of(cls, merge: PyTree, stat: PyTree) -> "Merging":
        """Return the merging of a statistic ``stat``; ``merge`` is a pytree prefix of it, with names of merges."""
        return cls(merge_kinds(merge, stat), tuple(jnp.asarray(plane).dtype.name for plane in jax.tree.leaves(stat)))

    @property
    def planes(self) -> list[Accumulator]:
        """The accumulator of each plane."""
        return [_accumulator(kind, jnp.dtype(dtype)) for kind, dtype in zip(self.kinds, self.dtypes, strict=True)]

    @property
    def collects(self) -> bool:
        """Whether any plane keeps every tree's value."""
        return "collect" in self.kinds

    def start(self, shapes: list[tuple[int, ...]]) -> list[Any]:
        """Return the carry of no tree at all, for planes of these shapes, ``[instances ...]``."""
        # A collected plane gets its axis of trees behind the instances, of length 0: there is no tree yet.
        carry_shapes = [(*s[:1], 0, *s[1:]) if acc.collects else s for acc, s in zip(self.planes, shapes, strict=True)]
        return [acc.start(s, jnp.dtype(d)) for acc, s, d in zip(self.planes, carry_shapes, self.dtypes, strict=True)]

    def mask(self, values: list[Array], passing: Bool[Array, "..."]) -> list[Array]:
        """Return each plane's values where ``passing`` is True, and its neutral value elsewhere.

        The axes of ``passing`` are the leading axes of the planes.
        """

        def masked(acc: Accumulator, part: Array) -> Array:
            if part.ndim < passing.ndim:  # a number for a whole tree, which instances mask one by one
                part = jnp.broadcast_to(part.reshape(*part.shape, *[1] * (passing.ndim - part.ndim)), passing.shape)
            aligned = passing.reshape(*passing.shape, *[1] * (part.ndim - passing.ndim))
            return jnp.where(aligned, part, jnp.asarray(acc.neutral, part.dtype))

        return [masked(acc, part) for acc, part in zip(self.planes, values, strict=True)]

    def include(self, carry: list[Any], values: list[Array]) -> tuple[list[Any], list[Array]]:
        """Return the carry with one more tree's values included, and the values of the planes that are collected.

        The entries of collected planes in the carry stay as they are.
        """
        planes = list(zip(self.planes, carry, values, strict=True))
        new_carry = [entry if acc.collects else acc.include(entry, value) for acc, entry, value in planes]
        return new_carry, [value for acc, _, value in planes if acc.collects]

    def scan(
        self, visit: Callable[[Any], list[Array]], carry: list[Any], trees: PyTree, *, unroll: int = 1
    ) -> list[Any]:
        """Return the carry with the values ``visit(tree)`` of each tree added, in order, by a loop over ``trees``.

        ``unroll`` is the number of trees in one step of the loop.
        """
        # Collected planes stay out of the loop's carry: the loop stacks their values, tree by tree.
        loop_carry = [() if acc.collects else entry for acc, entry in zip(self.planes, carry, strict=True)]

        def include(joined, tree):
            entries = [_unpack(entry, like) for entry, like in zip(joined, loop_carry, strict=True)]
            entries, collected = self.include(entries, visit(tree))
            return [_pack(entry) for entry in entries], collected

        final, stacked = lax.scan(include, [_pack(entry) for entry in loop_carry], trees, unroll=unroll)
        collected = (jnp.moveaxis(values, 0, 1) for values in stacked)  # the loop stacks them with the trees in front
        return [
            _behind(earlier, (next(collected),)) if acc.collects else _unpack(entry, like)
            for acc, earlier, entry, like in zip(self.planes, carry, final, loop_carry, strict=True)
        ]

    def reduce(self, carry: list[Any], values: list[Array], axis: int) -> list[Any]:
        """Return the carry with the values of all trees along ``axis`` added, by one reduction: for accelerators."""
        planes = self.planes
        # Collected planes have nothing to reduce: their values are the carry.
        entries = [acc.enter(v) for acc, v in zip(planes, values, strict=True) if not acc.collects]
        neutral = [acc.start((), v.dtype) for acc, v in zip(planes, values, strict=True) if not acc.collects]
        reduced = iter(_reduce(entries, neutral, [acc.join for acc in planes if not acc.collects], axis))
        reduced_carry = [(v,) if acc.collects else next(reduced) for acc, v in zip(planes, values, strict=True)]
        return self.join(carry, reduced_carry)

    def join(self, first: list[Any], second: list[Any]) -> list[Any]:
        """Return the carry of the trees of carry ``first``, followed by those of carry ``second``."""
        entries = zip(self.planes, first, second, strict=True)
        return [_behind(a, b) if acc.collects else acc.join(a, b) for acc, a, b in entries]

    def result(self, carry: list[Any]) -> list[Any]:
        """Return each plane of a carry as `Combiner.finish` sees it."""
        return [acc.result(c) for acc, c in zip(self.planes, carry, strict=True)]


def _behind(first: tuple[Array], second: tuple[Array]) -> tuple[Array]:
    """Return one plane's collected values of the first trees followed by those of the second, along axis 1."""
    (a,), (b,) = first, second
    return (b if a.shape[1] == 0 else jnp.concatenate([a, b], axis=1),)


def merge_kinds(merge: PyTree, stat: PyTree) -> tuple[str, ...]:
    """Return the name of the merge of each array of a statistic; ``merge`` is a pytree prefix of ``stat``."""
    kinds: list[str] = []
    jax.tree.map(lambda kind, part: kinds.extend([kind] * len(jax.tree.leaves(part))), merge, stat)
    for kind in kinds:
        check_one_of("merge", kind, MERGES)
    return tuple(kinds)


# The accumulators.


def _float_sum(result: Callable[..., Any]) -> Accumulator:
    """Return the accumulator of a compensated sum of floats.

    Its carry is (rounded sum, sum of rounding errors). ``result`` is called with a carry, and returns the sum that
    `Combiner.finish` is given: a float or a `TwoFloat`.
    """

    def include(carry, values):
        high, error = two_sum(carry[0], values)
        return high, carry[1] + error

    def join(a, b):
        high, error = two_sum(a[0], b[0])
        return high, (a[1] + b[1]) + error

    return Accumulator(0, lambda values: (values, jnp.zeros_like(values)), include, join, result)


def _rounded(carry):
    """Return the sum of a carry (rounded sum, sum of rounding errors)."""
    # A veto (-inf) makes the sum of errors NaN; the rounded sum is right there.
    return jnp.where(jnp.isfinite(carry[0]), carry[0] + carry[1], carry[0])


def _integer_sum() -> Accumulator:
    """Return the accumulator of integers in two 32-bit limbs: exact up to 2⁶³ without 64-bit types."""

    def enter(values):
        high = values >> 32 if values.dtype.itemsize > 4 else jnp.where(values < 0, -1, 0)
        return values.astype(jnp.uint32), high.astype(jnp.int32)

    def join(a, b):
        low = a[0] + b[0]  # below a summand if it wrapped around: then 1 is carried into the upper limb
        return low, a[1] + b[1] + (low < a[0]).astype(jnp.int32)

    def include(carry, values):
        return join(carry, enter(values))

    return Accumulator(0, enter, include, join, lambda carry: two_float_from_limbs(*carry))


def _short_sum() -> Accumulator:
    """Return the accumulator of integers ≥ 0 whose total is below 2³²: `_integer_sum` with the lower limb alone."""

    def join(a, b):
        return (a[0] + b[0],)

    def include(carry, values):
        return join(carry, (values.astype(jnp.uint32),))

    def result(carry):
        return two_float_from_limbs(carry[0], jnp.zeros_like(carry[0], jnp.int32))

    return Accumulator(0, lambda values: (values.astype(jnp.uint32),), include, join, result)


def _extreme(beats: Callable[..., Any], neutral: float) -> Accumulator:
    """Return the accumulator of the value that beats all others; ``neutral`` beats none.

    ``beats(new, kept)`` compares two arrays of values.
    """

    def join(a, b):
        # Among equal values the first is kept, and has the gradient; NaN stays NaN.
        return (jnp.where(beats(b[0], a[0]) | jnp.isnan(b[0]), b[0], a[0]),)

    def include(carry, values):
        return join(carry, (values,))

    return Accumulator(neutral, lambda values: (values,), include, join, lambda carry: carry[0])


def _accumulator(merge: str, dtype) -> Accumulator:
    """Return the accumulator of a plane with values of this dtype, by the name of its merge."""
    if merge == "short_sum":  # stands for `exact_sum` where the totals are known to be below 2³²
        return _short_sum()
    if merge == "collect":
        return Accumulator(jnp.nan, lambda values: (values,), None, None, lambda carry: carry[0])
    if merge == "exact_sum":
        integer = jnp.issubdtype(dtype, jnp.integer)
        return _integer_sum() if integer else _float_sum(lambda carry: TwoFloat(*two_sum(*carry)))
    if merge == "sum":
        return _float_sum(_rounded)
    return _extreme(jnp.less, jnp.inf) if merge == "min" else _extreme(jnp.greater, -jnp.inf)


# What loops and reductions carry.


def _is_pair(carry: tuple) -> bool:
    """Return whether a carry is two arrays (no scalars) of 4-byte numbers, which `_pack` makes one."""
    return len(carry) == 2 and carry[0].ndim > 0 and all(part.dtype.itemsize == 4 for part in carry)


def _pack(carry: tuple) -> tuple:
    """Pack two 4-byte arrays of a carry into one of 8 bytes: a loop on a CPU then runs one kernel, not two."""
    if not _is_pair(carry):
        return carry
    is_float = carry[0].dtype == jnp.float32  # floats must stay differentiable, as complex numbers are
    return (lax.complex(*carry) if is_float else pair_words(*carry),)


def _unpack(carry: tuple, like: tuple) -> tuple:
    """Return the arrays that `_pack` packed, with the dtypes of the carry ``like``."""
    if not _is_pair(like):
        return carry
    if like[0].dtype == jnp.float32:
        return lax.real(carry[0]), lax.imag(carry[0])
    return split_words(carry[0], like[0].dtype, like[1].dtype)


def _reduce(carries: list[tuple], neutral: list[tuple], joins: list[Callable[..., Any]], axis: int) -> list[tuple]:
    """Return the entries of a carry, one for each plane, joined along an axis by one `lax.reduce`: one kernel.

    ``joins`` has for each plane the function that joins two entries, and ``neutral`` its entry of no tree.
    """
    if not carries:
        return []
    flat, structure = jax.tree.flatten(carries)

    def join(*halves):  # the arrays of two carries; JAX keeps this function, so it must not hold the values
        pairs = zip(joins, *(jax.tree.unflatten(structure, half) for half in halves), strict=True)
        return tuple(jax.tree.leaves([join_plane(a, b) for join_plane, a, b in pairs]))

    return jax.tree.unflatten(structure, lax.reduce(tuple(flat), tuple(jax.tree.leaves(neutral)), join, (axis,)))
