"""The merges: how the planes of a statistic accumulate over trees.

`Merging` merges a whole statistic, by loops (`Merging.scan`) or reductions (`Merging.reduce`) over trees. It is made of
an `Accumulator` for each plane.
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
    """How one plane merges over trees: functions that start, extend, join and read its carry.

    A carry is a tuple of arrays: the values of the trees so far, merged.
    """

    neutral: float
    """The value that changes nothing: what a masked tree contributes."""
    enter: Callable[..., Any]
    """values → carry of a single tree with these values."""
    include: Any
    """(carry, values) → carry with one more tree; None if every tree's value is kept (collected)."""
    join: Any
    """(carry, carry) → carry of the trees of both; None if every tree's value is kept."""
    result: Callable[..., Any]
    """carry → what `Combiner.finish` sees."""

    @property
    def collects(self) -> bool:
        """Whether every tree's value is kept, along an axis of trees, rather than merged into one."""
        return self.include is None

    def start(self, shape: tuple[int, ...], dtype) -> tuple[Any, ...]:
        """Return the carry of a plane of this shape and dtype before any tree is merged."""
        return self.enter(jnp.full(shape, self.neutral, dtype))


class Merging(NamedTuple):
    """The accumulators of all planes of a statistic: static and hashable.

    A carry has one entry for each plane, the carry of its `Accumulator`. That of a collected plane has an axis of trees
    behind the instances. Trees one by one, blocks, shards and hosts have carries of this one form.
    """

    kinds: tuple[str, ...]
    """The merge of each plane."""
    dtypes: tuple[str, ...]
    """The name of the dtype of each plane's values."""

    @classmethod
    def of(cls, merge: PyTree, stat: PyTree) -> "Merging":
        """Return the merging of a statistic like ``stat``; ``merge`` is a pytree prefix of it, with names of merges."""
        kinds = merge_kinds(merge, stat)
        return cls(kinds, tuple(jnp.asarray(plane).dtype.name for plane in jax.tree.leaves(stat)))

    @property
    def planes(self) -> list[Accumulator]:
        """The accumulator of each plane."""
        return [_accumulator(kind, jnp.dtype(dtype)) for kind, dtype in zip(self.kinds, self.dtypes, strict=True)]

    @property
    def collects(self) -> bool:
        """Whether any plane keeps every tree's value."""
        return "collect" in self.kinds

    def start(self, shapes: list[tuple[int, ...]]) -> list[Any]:
        """Return the carry before any tree is merged, for planes of these shapes, each ``[instances ...]``."""

        def start_plane(acc: Accumulator, shape: tuple[int, ...], dtype: str) -> tuple[Any, ...]:
            if acc.collects:  # an axis of trees behind the instances, of length 0: there is no tree yet
                shape = (*shape[:1], 0, *shape[1:])
            return acc.start(shape, jnp.dtype(dtype))

        return [start_plane(*plane) for plane in zip(self.planes, shapes, self.dtypes, strict=True)]

    def mask(self, values: list[Array], passing: Bool[Array, "..."]) -> list[Array]:
        """Return the ``values`` of each plane where ``passing`` is True, and the plane's neutral value elsewhere.

        The axes of ``passing`` are the leading axes of the planes.
        """

        def masked(acc: Accumulator, plane: Array) -> Array:
            if plane.ndim < passing.ndim:  # a number for a whole tree, which instances mask one by one
                plane = jnp.broadcast_to(plane.reshape(*plane.shape, *[1] * (passing.ndim - plane.ndim)), passing.shape)
            aligned = passing.reshape(*passing.shape, *[1] * (plane.ndim - passing.ndim))
            return jnp.where(aligned, plane, jnp.asarray(acc.neutral, plane.dtype))

        return [masked(acc, plane) for acc, plane in zip(self.planes, values, strict=True)]

    def include(self, carry: list[Any], values: list[Array]) -> tuple[list[Any], list[Array]]:
        """Return the carry with one more tree's ``values`` merged, and a list of those values that are collected.

        The caller appends the latter: in the carry the entries of collected planes stay as they are.
        """
        planes = list(zip(self.planes, carry, values, strict=True))
        new_carry = [entry if acc.collects else acc.include(entry, value) for acc, entry, value in planes]
        return new_carry, [value for acc, _, value in planes if acc.collects]

    def scan(
        self, visit: Callable[[Any], list[Array]], carry: list[Any], trees: PyTree, *, unroll: int = 1
    ) -> list[Any]:
        """Return the carry with the values of further trees merged, tree by tree in their order, by a loop.

        ``trees`` is a pytree of arrays with the trees along their first axis, and ``visit`` returns one tree's values
        of each plane. ``unroll`` is the number of trees in one step of the loop.
        """
        # Collected planes stay out of the loop's carry: the loop stacks their values, tree by tree.
        loop_carry = [() if acc.collects else entry for acc, entry in zip(self.planes, carry, strict=True)]

        def include(packed, tree):
            """Return the packed carry with one more tree merged, and the values of collected planes."""
            entries = [_unpack(entry, like) for entry, like in zip(packed, loop_carry, strict=True)]
            entries, collected = self.include(entries, visit(tree))
            return [_pack(entry) for entry in entries], collected

        final, stacked = lax.scan(include, [_pack(entry) for entry in loop_carry], trees, unroll=unroll)
        collected = (jnp.moveaxis(values, 0, 1) for values in stacked)  # the loop stacks them with the trees in front
        new_carry = []
        for acc, earlier, entry, like in zip(self.planes, carry, final, loop_carry, strict=True):
            new_carry.append(_behind(earlier, (next(collected),)) if acc.collects else _unpack(entry, like))
        return new_carry

    def reduce(self, carry: list[Any], values: list[Array], axis: int) -> list[Any]:
        """Return the carry with the values of further trees merged by one reduction, which accelerators do at once.

        ``values`` has for each plane the values of these trees, along ``axis``.
        """
        planes = list(zip(self.planes, values, strict=True))
        # Collected planes have nothing to reduce: their values are the carry.
        reducible = [(acc, plane) for acc, plane in planes if not acc.collects]
        entries = [acc.enter(plane) for acc, plane in reducible]
        neutral = [acc.start((), plane.dtype) for acc, plane in reducible]
        reduced = iter(_reduce(entries, neutral, [acc.join for acc, _ in reducible], axis))
        reduced_carry = [(plane,) if acc.collects else next(reduced) for acc, plane in planes]
        return self.join(carry, reduced_carry)

    def join(self, first: list[Any], second: list[Any]) -> list[Any]:
        """Return the carry of all trees that two carries stand for: those of ``first``, then those of ``second``."""
        entries = zip(self.planes, first, second, strict=True)
        return [_behind(a, b) if acc.collects else acc.join(a, b) for acc, a, b in entries]

    def result(self, carry: list[Any]) -> list[Any]:
        """Return the merged planes that a carry stands for, as `Combiner.finish` gets them."""
        return [acc.result(c) for acc, c in zip(self.planes, carry, strict=True)]


def _behind(first: tuple[Array], second: tuple[Array]) -> tuple[Array]:
    """Return the values of a collected plane for the trees of ``first``, then those of ``second``, along axis 1."""
    (first_values,) = first
    (second_values,) = second
    if first_values.shape[1] == 0:  # no tree yet
        return (second_values,)
    return (jnp.concatenate([first_values, second_values], axis=1),)


def merge_kinds(merge: PyTree, stat: PyTree) -> tuple[str, ...]:
    """Return the name of the merge of each array in ``stat``, a statistic of which ``merge`` is a pytree prefix."""
    kinds: list[str] = []

    def add_kinds(kind: str, part: PyTree) -> None:  # one name may stand for several arrays
        kinds.extend([kind] * len(jax.tree.leaves(part)))

    jax.tree.map(add_kinds, merge, stat)
    for kind in kinds:
        check_one_of("merge", kind, MERGES)
    return tuple(kinds)


def _float_sum(result: Callable[..., Any]) -> Accumulator:
    """Return the accumulator of a compensated sum of floats, whose carry is (rounded sum, sum of rounding errors).

    ``result`` makes of a carry the sum that `Combiner.finish` is given: a float or a `TwoFloat`.
    """

    def include(carry, values):
        high, error = two_sum(carry[0], values)
        return high, carry[1] + error

    def join(a, b):
        high, error = two_sum(a[0], b[0])
        return high, (a[1] + b[1]) + error

    def enter(values):
        return values, jnp.zeros_like(values)

    return Accumulator(neutral=0, enter=enter, include=include, join=join, result=result)


def _rounded(carry):
    """Return the float that a carry of `_float_sum` stands for."""
    # A veto (-inf) makes the sum of errors NaN; the rounded sum is right there.
    return jnp.where(jnp.isfinite(carry[0]), carry[0] + carry[1], carry[0])


def _integer_sum() -> Accumulator:
    """Return the accumulator of an exact sum of integers up to 2⁶³; its carry is two limbs of 32 bits, lower first."""

    def enter(values):
        # The upper limb repeats the sign where the values have only the lower one.
        high = values >> 32 if values.dtype.itemsize > 4 else jnp.where(values < 0, -1, 0)
        return values.astype(jnp.uint32), high.astype(jnp.int32)

    def join(a, b):
        low = a[0] + b[0]
        has_wrapped = low < a[0]  # then 1 is carried into the upper limb
        return low, a[1] + b[1] + has_wrapped.astype(jnp.int32)

    def include(carry, values):
        return join(carry, enter(values))

    def result(carry):
        return two_float_from_limbs(*carry)

    return Accumulator(neutral=0, enter=enter, include=include, join=join, result=result)


def _short_sum() -> Accumulator:
    """Return the accumulator of an exact sum of integers ≥ 0 whose total is below 2³²; its carry is one array."""

    def enter(values):
        return (values.astype(jnp.uint32),)

    def join(a, b):
        return (a[0] + b[0],)

    def include(carry, values):
        return join(carry, enter(values))

    def result(carry):
        return two_float_from_limbs(carry[0], jnp.zeros_like(carry[0], jnp.int32))

    return Accumulator(neutral=0, enter=enter, include=include, join=join, result=result)


def _extreme(beats: Callable[..., Any], neutral: float) -> Accumulator:
    """Return the accumulator of the value that beats all others, by ``beats(new, kept)``; ``neutral`` beats none."""

    def join(a, b):
        # Among equal values the first is kept, and has the gradient; NaN stays NaN.
        return (jnp.where(beats(b[0], a[0]) | jnp.isnan(b[0]), b[0], a[0]),)

    def include(carry, values):
        return join(carry, (values,))

    return Accumulator(neutral, enter=_in_tuple, include=include, join=join, result=_out_of_tuple)


def _in_tuple(values):
    """Return the carry of one array: ``values`` in a tuple."""
    return (values,)


def _out_of_tuple(carry):
    """Return the only array of a carry."""
    return carry[0]


def _accumulator(merge: str, dtype) -> Accumulator:
    """Return the accumulator for a plane with values of ``dtype`` that merges as ``merge`` names."""
    if merge == "short_sum":  # stands for `exact_sum` where the totals are known to be below 2³²
        return _short_sum()
    if merge == "collect":  # the values of all trees are kept, so there is nothing to include or join
        return Accumulator(neutral=jnp.nan, enter=_in_tuple, include=None, join=None, result=_out_of_tuple)
    if merge == "exact_sum" and jnp.issubdtype(dtype, jnp.integer):
        return _integer_sum()
    if merge == "exact_sum":
        return _float_sum(lambda carry: TwoFloat(*two_sum(*carry)))
    if merge == "sum":
        return _float_sum(_rounded)
    return _extreme(jnp.less, jnp.inf) if merge == "min" else _extreme(jnp.greater, -jnp.inf)


def _is_pair(carry: tuple) -> bool:
    """Return whether a carry is two arrays (no scalars) of 4-byte numbers, which `_pack` packs into one."""
    return len(carry) == 2 and carry[0].ndim > 0 and all(array.dtype.itemsize == 4 for array in carry)


def _pack(carry: tuple) -> tuple:
    """Return a carry of two 4-byte arrays as a tuple of one array of 8-byte numbers, and any other carry as it is."""
    # A loop on a CPU then runs one kernel, not two.
    if not _is_pair(carry):
        return carry
    is_float = carry[0].dtype == jnp.float32  # floats must stay differentiable, as complex numbers are
    return (lax.complex(*carry) if is_float else pair_words(*carry),)


def _unpack(carry: tuple, like: tuple) -> tuple:
    """Return the carry that `_pack` packed into ``carry``; ``like`` is a carry with its shapes and dtypes."""
    if not _is_pair(like):
        return carry
    if like[0].dtype == jnp.float32:
        return lax.real(carry[0]), lax.imag(carry[0])
    return split_words(carry[0], like[0].dtype, like[1].dtype)


def _reduce(carries: list[tuple], neutral: list[tuple], joins: list[Callable[..., Any]], axis: int) -> list[tuple]:
    """Return each plane's carry for all trees along ``axis``, by one `lax.reduce` of all planes: one kernel.

    For each plane ``carries`` has the trees' carries, ``joins`` the `Accumulator.join`, ``neutral`` the carry of none.
    """
    if not carries:
        return []
    flat, structure = jax.tree.flatten(carries)

    def join(*two_carries):  # JAX keeps this function, so it must not hold the values
        first, second = (jax.tree.unflatten(structure, arrays) for arrays in two_carries)
        joined = [join_plane(a, b) for join_plane, a, b in zip(joins, first, second, strict=True)]
        return tuple(jax.tree.leaves(joined))

    reduced = lax.reduce(tuple(flat), tuple(jax.tree.leaves(neutral)), join, (axis,))
    return jax.tree.unflatten(structure, reduced)
