"""Routing that merges leaf statistics on the way: the ``[instances, trees]`` tensor never exists.

In the open: `PackedTrees.start` → `PackedTrees.advance`, once or by parts of the trees → `PackedTrees.result`. Some of
the packed trees are packed trees; carries of trees that follow each other are joined by `PackedTrees.join`.
"""

import dataclasses
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from jaxunc._numerics import take
from jaxunc.combiners._merge import Merging
from jaxunc.forest import Trees

from ._plan import Plan, column_keys, make_plan, padded_plan
from ._planes import Layout, cut, pack, rejoin, unpack
from ._walk import Walk, block_size, over_blocks, unrolled_depth, walk_levels, walk_tree


class Spec(NamedTuple):
    """What the structure of a stream depends on: static, hashable."""

    layout: Layout
    missing: bool
    walk: Walk
    depth: int
    """Levels to unroll in the walk "levels", -1 if unknown under a trace; 0 in the walk "blocks"."""


class Carry(NamedTuple):
    """What trees have contributed so far; one entry for each plane, one for each number per tree."""

    planes: list
    scalars: list
    """The same for all instances, unless a mask tells them apart: ``[]`` or ``[instances]``."""


class PackedTrees(eqx.Module):
    """Trees packed for walking, with the statistics of their leaves."""

    plan: Plan
    tables: list[Array]
    """Planes ``[trees places]``, two of a size in one element."""
    scalars: list[Float[Array, "trees"]]
    """Numbers per tree."""
    totals: list
    """The carry of those numbers over all trees."""
    spec: Spec = eqx.field(static=True)

    @classmethod
    def of(cls, trees: Trees, table: PyTree, merge: PyTree, *, missing: bool, walk: Walk) -> "PackedTrees":
        """The stream of a leaf table (see `fold`) for data with or without missing values."""
        planes, scalars, layout = cut(table, merge, trees.n_trees, trees.n_nodes)
        spec = Spec(layout, missing, walk, unrolled_depth(walk, trees))
        totals = merge_scalars(layout.scalars, scalars)
        plan = make_plan(trees, missing=missing)
        return cls(plan, pack_by_place(planes, plan, layout), scalars, totals, spec)

    @property
    def arrays(self) -> tuple:
        """All but the structure, in the order of the fields."""
        return self.plan, self.tables, self.scalars, self.totals

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.plan.nodes.shape[0]

    def for_missing(self, trees: Trees) -> "PackedTrees":
        """The same, of these trees, for data with missing values."""
        spec = self.spec._replace(missing=True)
        return dataclasses.replace(self, plan=make_plan(trees, missing=True), spec=spec)

    def of_trees(self, start: int, stop: int) -> "PackedTrees":
        """The stream of the trees ``start … stop``."""
        arrays = (self.plan, self.tables, self.scalars)
        plan, tables, scalars = jax.tree.map(lambda array: array[start:stop], arrays)
        totals = merge_scalars(self.spec.layout.scalars, scalars)
        return dataclasses.replace(self, plan=plan, tables=tables, scalars=scalars, totals=totals)

    def padded(self, more: int) -> "PackedTrees":
        """The same with so many trees behind the others that contribute nothing: one leaf each, with neutral values."""

        def longer(merging: Merging, arrays: list) -> list:
            pairs = zip(merging.planes, arrays, strict=True)
            return [jnp.concatenate([a, jnp.full((more, *a.shape[1:]), m.neutral, a.dtype)]) for m, a in pairs]

        layout = self.spec.layout
        tables = pack(longer(layout.planes, unpack(self.tables, layout)), layout)
        scalars = longer(layout.scalars, self.scalars)
        return dataclasses.replace(self, plan=padded_plan(self.plan, more), tables=tables, scalars=scalars)

    def start(self, n_instances: int, *, masked: bool = False) -> Carry:
        """The carry of no tree."""
        layout = self.spec.layout
        shape = (n_instances,) if masked else ()
        return Carry(
            layout.planes.start([(n_instances,)] * len(layout.planes.kinds)),
            layout.scalars.start([shape] * len(layout.scalars.kinds)),
        )

    def advance(
        self,
        carry: Carry,
        X: Float[Array, "instances features"],
        tree_mask: Bool[Array, "instances trees"] | None = None,
    ) -> Carry:
        """The carry with all trees of this stream included, in their order: bit for bit as if they had come at once.

        (In the walk for accelerators, where all trees are reduced at once, to rounding.)
        """
        if tree_mask is None:
            layout = self.spec.layout
            return Carry(self._include(carry.planes, X), layout.scalars.join(carry.scalars, self.totals))
        both = self._include([*carry.planes, *carry.scalars], X, tree_mask)
        return Carry(both[: len(carry.planes)], both[len(carry.planes) :])

    def join(self, first: Carry, second: Carry) -> Carry:
        """The carry of the first trees and then the second ones."""
        layout = self.spec.layout
        return Carry(
            layout.planes.join(first.planes, second.planes), layout.scalars.join(first.scalars, second.scalars)
        )

    def result(self, carry: Carry) -> PyTree:
        """The merged statistic, as `Combiner.finish` takes it."""
        return rejoin(self.spec.layout, *self.results(carry))

    def merge(self, X: Float[Array, "instances features"], tree_mask=None, blocks: tuple | None = None) -> PyTree:
        """The statistic of all trees. ``blocks``: instances in a block, and how many blocks there are, a traced number;
        by default all instances, in blocks of the walk's own size."""
        return rejoin(self.spec.layout, *self.merged(X, tree_mask, blocks))

    def merged(self, X, tree_mask=None, blocks: tuple | None = None) -> tuple[list, list]:
        """The same, plane by plane and number by number."""
        return self.results(self.carried(X, tree_mask, blocks))

    def carried(self, X, tree_mask=None, blocks: tuple | None = None) -> Carry:
        """The carry of all trees, as `advance` has it from the start; ``blocks`` as for `merge`."""
        n_planes = len(self.spec.layout.planes.kinds)
        both = self._include(None, X, tree_mask, blocks)
        return Carry(both[:n_planes], self.totals if tree_mask is None else both[n_planes:])

    def results(self, carry: Carry) -> tuple[list, list]:
        """What `Combiner.finish` sees of each plane, and of each number per tree."""
        layout = self.spec.layout
        return layout.planes.result(carry.planes), layout.scalars.result(carry.scalars)

    def _include(self, carry: list | None, X, mask=None, blocks: tuple | None = None) -> list:
        """Block by block; without a carry from the start, with one after the trees of that."""
        spec, n = self.spec, X.shape[0]
        merging = spec.layout.planes if mask is None else spec.layout.both
        columns = X.shape[1] * (1 + spec.missing)
        size, number = blocks or (min(block_size(spec.walk, self.n_trees, columns), n), None)
        rows = lambda array, start: array if size == n else lax.dynamic_slice_in_dim(array, start, size)  # noqa: E731
        seen = 0 if carry is None else max((c[0].shape[1] for c in carry if c[0].ndim > 1), default=0)

        def block(out, start, _):
            keys = column_keys(rows(X, start), missing=spec.missing)
            in_mask = None if mask is None else rows(mask, start)
            before = merging.start([(size,)] * len(merging.kinds))
            if carry is not None:
                before = jax.tree.map(lambda whole: rows(whole, start), carry)
            merge_block = self._by_tree if spec.walk == "blocks" else self._by_level
            found = merge_block(merging, before, keys, in_mask)
            if size == n:
                return found
            return jax.tree.map(lambda whole, part: lax.dynamic_update_slice_in_dim(whole, part, start, 0), out, found)

        # Collected planes are filled, not joined: they have their final width at once.
        out = merging.start([(n,)] * len(merging.kinds))
        wide = lambda acc, c: (jnp.full((n, seen + self.n_trees), acc.neutral, c[0].dtype),) if acc.collects else c  # noqa: E731
        out = [wide(acc, c) for acc, c in zip(merging.planes, out, strict=True)]
        return over_blocks(block, out, n, size, number) if n else out

    def _values(self, merging: Merging, tables, scalars, place, mask):
        """What trees contribute at the places that instances have reached; neutral where the mask is False."""
        values = unpack([take(table, place) for table in tables], self.spec.layout)
        return values if mask is None else merging.mask([*values, *scalars], mask)

    def _by_tree(self, merging: Merging, carry, keys, mask):
        """A scan over trees that carries the merge, in the order of the trees."""
        keys = keys.T

        def visit(tree):
            plan, tables, scalars, in_mask = tree
            scalars = [jnp.broadcast_to(s, keys.shape[1:]) for s in scalars]
            return self._values(merging, tables, scalars, walk_tree(plan, keys), in_mask)

        return merging.scan(visit, carry, (self.plan, self.tables, self.scalars, None if mask is None else mask.T))

    def _by_level(self, merging: Merging, carry, keys, mask):
        """All trees at once, and one reduction over them."""
        place = walk_levels(self.plan, keys, self.spec.depth)
        scalars = [jnp.broadcast_to(s, place.shape) for s in self.scalars]
        values = self._values(merging, [part.reshape(-1) for part in self.tables], scalars, place, mask)
        return merging.reduce(carry, values, axis=1)


@partial(jax.jit, static_argnums=2)
def pack_by_place(planes: list[Array], plan: Plan, layout: Layout) -> list[Array]:
    """Planes ``[trees nodes]`` by the places of a plan, two of a size in one element."""
    return [plan.by_place(packed) for packed in pack(planes, layout)]


@partial(jax.jit, static_argnums=0)
def merge_scalars(merging: Merging, scalars: list[Float[Array, "trees"]]) -> list:
    """The carry of numbers per tree over all trees."""
    return merging.reduce(merging.start([()] * len(scalars)), scalars, axis=0)
