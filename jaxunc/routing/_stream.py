"""Routing that merges leaf statistics on the way: the ``[instances, trees]`` tensor never exists."""

from functools import partial
from typing import NamedTuple

import jax
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
    """Levels to unroll in the form "levels", -1 if unknown under a trace; 0 in the form "blocks"."""


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
    merges, dtypes = list(layout.merges), [jnp.dtype(d) for d in layout.dtypes]
    if mask is not None:
        merges, dtypes = merges + list(layout.scalar_merges), dtypes + [s.dtype for s in scalars]
    sums = [accumulator(merge, dtype) for merge, dtype in zip(merges, dtypes, strict=True)]
    merge_block = _by_tree if spec.form == "blocks" else _by_level
    n_trees = plan.nodes.shape[0]
    size = block_size(spec.form, n_trees, columns)

    def block(out, start, _):
        rows = min(size, n)
        keys = column_keys(_rows(x, start, rows), missing=spec.missing)
        in_mask = None if mask is None else _rows(mask, start, rows)
        carry = merge_block(spec, plan, packed, scalars, keys, in_mask, sums, dtypes)
        if rows == n:
            return carry
        return jax.tree.map(lambda whole, part: lax.dynamic_update_slice_in_dim(whole, part, start, 0), out, carry)

    out = [acc.start((n, n_trees) if acc.collects else (n,), dtype) for acc, dtype in zip(sums, dtypes, strict=True)]
    out = over_blocks(block, out, n, size) if n else out
    merged = [acc.result(carry) for acc, carry in zip(sums, out, strict=True)]
    return (merged, totals) if mask is None else (merged[: len(layout.merges)], merged[len(layout.merges) :])


@partial(jax.jit, static_argnums=0)
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
    """One variadic reduction of a pytree of carries, which compiles to one kernel."""
    flat, structure = jax.tree.flatten(entered)

    def join_flat(*operands):
        a, b = (jax.tree.unflatten(structure, half) for half in operands)
        return tuple(jax.tree.leaves(join(a, b)))

    reduced = lax.reduce(tuple(flat), tuple(jax.tree.leaves(start)), join_flat, (axis,))
    return jax.tree.unflatten(structure, reduced)


def _values(spec, leaf_tables, scalars, place, mask, sums):
    """What trees contribute at the places that instances have reached; neutral where the mask is False."""
    values = unpack([take(table, place) for table in leaf_tables], spec.layout)
    if mask is None:
        return values
    values += [jnp.broadcast_to(s, place.shape) for s in scalars]
    return [jnp.where(mask, v, jnp.asarray(acc.neutral, v.dtype)) for acc, v in zip(sums, values, strict=True)]


def _by_tree(spec, plan, packed, scalars, keys, mask, sums, dtypes):
    """A scan over trees that carries the merge, in the order of the trees."""
    keys = keys.T

    def visit(carry, tree_slice):
        tree, leaf_tables, tree_scalars, in_mask = tree_slice
        values = _values(spec, leaf_tables, tree_scalars, walk_tree(tree, keys), in_mask, sums)
        merged = [c if acc.collects else acc.include(c, v) for acc, c, v in zip(sums, carry, values, strict=True)]
        return merged, [v for acc, v in zip(sums, values, strict=True) if acc.collects]

    start = [acc.start(() if acc.collects else keys.shape[1:], d) for acc, d in zip(sums, dtypes, strict=True)]
    by_tree = (plan, packed, scalars, None if mask is None else mask.T)
    carry, kept = lax.scan(visit, start, by_tree)
    kept = iter(kept)
    return [(next(kept).T,) if acc.collects else c for acc, c in zip(sums, carry, strict=True)]


def _by_level(spec, plan, packed, scalars, keys, mask, sums, dtypes):
    """All trees at once, and one reduction over them."""
    place = walk_levels(plan, keys, spec.depth)
    values = _values(spec, [part.reshape(-1) for part in packed], scalars, place, mask, sums)
    reduced = [(acc, v) for acc, v in zip(sums, values, strict=True) if not acc.collects]
    entered = [acc.enter(v) for acc, v in reduced]
    start = [acc.start((), v.dtype) for acc, v in reduced]

    def join(a, b):
        return [acc.join(x, y) for (acc, _), x, y in zip(reduced, a, b, strict=True)]

    carry = iter(_reduce_trees(entered, start, join, axis=1) if reduced else [])
    return [(v,) if acc.collects else next(carry) for acc, v in zip(sums, values, strict=True)]
