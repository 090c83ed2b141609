"""Routing that merges leaf statistics on the way: the ``[instances, trees]`` tensor never exists."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxunc.combiners import accumulator

from ._plan import Plan, column_keys, take
from ._planes import Layout, unpack
from ._walk import block_size, over_blocks, walk_levels, walk_tree


class Spec(NamedTuple):
    """What the structure of a streamed fold depends on: static, hashable."""

    layout: Layout
    missing: bool
    form: str
    depth: int
    """Levels to unroll in the form "levels"; 0 in the form "blocks"."""


def stream(
    spec: Spec,
    plan: Plan,
    packed: list[Array],
    scalars: list[Float[Array, "trees"]],
    totals: list,
    x: Float[Array, "instances features"],
    mask: Bool[Array, "instances trees"] | None,
) -> tuple[list, list]:
    """Merge planes and per-tree scalars over the trees for each instance.

    Without a mask the scalars have one value for all instances, their ``totals`` (`merge_scalars`).
    """
    layout = spec.layout
    n, columns = x.shape[0], x.shape[1] * (1 + spec.missing)
    plane_sums = [accumulator(m, jnp.dtype(d)) for m, d in zip(layout.merges, layout.dtypes, strict=True)]
    scalar_sums = [accumulator(m, s.dtype) for m, s in zip(layout.scalar_merges, scalars, strict=True)]
    sums = plane_sums + (scalar_sums if mask is not None else [])
    dtypes = [jnp.dtype(d) for d in layout.dtypes] + [s.dtype for s in scalars]
    merge_block = _by_tree if spec.form == "blocks" else _by_level
    size = block_size(spec.form, plan.nodes.shape[0], columns)

    def block(out, start, _):
        rows = min(size, n)
        keys = column_keys(_rows(x, start, rows), missing=spec.missing)
        masked = None if mask is None else _rows(mask, start, rows)
        carry = merge_block(spec, plan, packed, scalars, keys, masked, sums, dtypes)
        if rows == n:
            return carry
        return [
            tuple(lax.dynamic_update_slice(whole, part, (start,)) for whole, part in zip(o, c, strict=True))
            for o, c in zip(out, carry, strict=True)
        ]

    carry = [acc.start((n,), dtype) for acc, dtype in zip(sums, dtypes, strict=False)]
    carry = over_blocks(block, carry, n, size) if n else carry
    merged = [acc.result(c) for acc, c in zip(sums, carry, strict=True)]
    if mask is None:
        return merged, totals
    return merged[: len(plane_sums)], merged[len(plane_sums) :]


def merge_scalars(layout: Layout, scalars: list[Float[Array, "trees"]]) -> list:
    """Merge numbers per tree over all trees."""
    totals = []
    for merge, values in zip(layout.scalar_merges, scalars, strict=True):
        acc = accumulator(merge, values.dtype)
        totals.append(acc.result(_reduce_trees(acc.enter(values), acc.start((), values.dtype), acc.join, axis=0)))
    return totals


def _rows(array: Array, start, rows: int) -> Array:
    return array if rows == array.shape[0] else lax.dynamic_slice_in_dim(array, start, rows)


def _reduce_trees(entered, start, join, axis: int):
    """A variadic reduction, which compiles to one kernel."""
    count = len(entered)
    return lax.reduce(tuple(entered), tuple(start), lambda a, b: tuple(join(a[:count], b[:count])), (axis,))


def _by_tree(spec, plan, packed, scalars, keys, mask, sums, dtypes):
    """A scan over trees that carries the merge, in the order of the trees."""
    keys = keys.T
    block = keys.shape[1]

    def visit(carry, tree_slice):
        tree, leaf_table, tree_scalars, in_mask = tree_slice
        node = walk_tree(tree, keys)
        values = unpack([take(part, node) for part in leaf_table], spec.layout)
        if in_mask is not None:
            values += [jnp.broadcast_to(s, (block,)) for s in tree_scalars]
            values = [jnp.where(in_mask, v, jnp.asarray(a.neutral, v.dtype)) for a, v in zip(sums, values, strict=True)]
        return [acc.include(c, v) for acc, c, v in zip(sums, carry, values, strict=True)], None

    start = [acc.start((block,), dtype) for acc, dtype in zip(sums, dtypes, strict=False)]
    by_tree = (plan, packed, scalars, None if mask is None else mask.T)
    return lax.scan(visit, start, by_tree)[0]


def _by_level(spec, plan, packed, scalars, keys, mask, sums, dtypes):
    """All trees at once, and one reduction over them."""
    place = walk_levels(plan, keys, spec.depth)
    values = unpack([take(part.reshape(-1), place) for part in packed], spec.layout)
    if mask is not None:
        values += [jnp.broadcast_to(s, place.shape) for s in scalars]
        values = [jnp.where(mask, v, jnp.asarray(a.neutral, v.dtype)) for a, v in zip(sums, values, strict=True)]
    entered = [acc.enter(v) for acc, v in zip(sums, values, strict=True)]
    start = [acc.start((), v.dtype) for acc, v in zip(sums, values, strict=True)]
    widths = [len(e) for e in entered]

    def cut(flat):
        parts = iter(flat)
        return [tuple(next(parts) for _ in range(width)) for width in widths]

    def join(a, b):
        joined = [acc.join(x, y) for acc, x, y in zip(sums, cut(a), cut(b), strict=True)]
        return [part for carry in joined for part in carry]

    flat = [part for e in entered for part in e]
    return cut(_reduce_trees(flat, [part for s in start for part in s], join, axis=1))
