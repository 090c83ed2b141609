"""Trees packed with their leaf table: they are walked and merged without an ``[instances, trees]`` tensor.

    leaf table  --cut-->  planes [trees nodes], numbers per tree [trees]  --pack-->  tables, two planes in an element
    instances  --walk-->  places of leaves  --look up-->  values  --merge-->  carry  --results-->  statistic

The first line is done once, by `PackedTrees.of`. The second is `PackedTrees.merge`: block by block of instances, all
trees are walked, and the values of their leaves are merged into the *carry* (the statistic of the trees so far).

An instance's answer depends on its row alone. On a CPU the trees are merged one by one in their order: each bit of an
answer is the same for any blocks and any ranges of the trees. Accelerators merge all trees in one reduction, which
rounds float sums in another order, as `join` does; all other merges are exact.

A forest may also come in ranges of trees: `start` → `advance` by one range (`of_trees`) after the other → `result`,
with `join` for carries of neighbouring ranges. This package itself does not do so: it is for loops that users write,
and for tests that ranges give the bits of the whole.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32

from jaxunc._checks import outside_traces
from jaxunc._numerics import jit, on_host, put_beside, take, varying_as
from jaxunc._types import PyTree
from jaxunc.combiners import Merging
from jaxunc.forest import Trees

from ._plan import (
    CompactTrees,
    Plan,
    Sets,
    Top,
    column_keys,
    compact,
    complete_depth,
    complete_top,
    make_plan,
    padded_plan,
    tall_top,
)
from ._planes import Layout, columns_of_planes, cut, cut_rows, neutral_columns, pack, rejoin, unpack, values_of
from ._walk import (
    LEAST_TOGETHER,
    Walk,
    block_size,
    by_column,
    keys_and_words,
    keys_of_few,
    over_blocks,
    select_leaves,
    unrolled_depth,
    walk_few,
    walk_levels,
    walk_one,
    walk_tree,
    walks_at_once,
)

STEPS = 5
"""Number of trees that one step of a loop merges for few instances: merging these costs less than a step's overhead."""

MERGED_NUMBERS, CACHED_NUMBERS, SMALLEST_BLOCK = 2**22, 2**16, 64
"""Most numbers of planes that a call merges where planes are wide; most of a block on a CPU; fewest instances of such a
block."""

QUICK_DEPTH, CHEAP_TESTS = 4, 120
"""Depth of the deepest complete trees in which few instances select leaf values sooner than they walk. Most tests, of
all instances of a block, that keep the program cheap where leaf values have one column (`CHEAP_TREES`)."""

_ARRAYS = ("plan", "tables", "scalars", "totals", "rows", "sets")


class Spec(NamedTuple):
    """Structure of packed trees, for which programs are compiled: static, hashable."""

    layout: Layout
    missing: bool
    """Whether the plan is for data with missing values."""
    walk: Walk
    depth: int
    """Number of levels to unroll in the walk "levels", -1 if it is traced; 0 in the walk "blocks"."""
    words: int = 0
    """Number of words of sets, which are columns behind those of the data."""
    complete: int = 0
    """The depth of complete trees, whose leaf values are selected (`complete_top`); 0 for trees that are walked."""

    @classmethod
    def of(cls, layout: Layout, compact_trees: CompactTrees, *, missing: bool, walk: Walk) -> "Spec":
        """Return the structure of ``compact_trees`` packed with a leaf table of this layout; others are fields."""
        complete = complete_depth(compact_trees.trees, len(layout.columns)) if walk == "blocks" else 0
        return cls(layout, missing, walk, unrolled_depth(walk, compact_trees.trees), compact_trees.n_words, complete)

    def n_columns(self, n_features: int) -> int:
        """Return the number of columns of keys and words for data of ``n_features``; keys are doubled for missing."""
        return n_features * (1 + self.missing) + self.words

    def selects_sooner(self, block: int) -> bool:
        """Return whether ``block`` instances select leaf values (`select_leaves`) sooner than they walk at once.

        False where trees are not complete.
        """
        return self.complete > 0 and (block >= LEAST_TOGETHER or self.complete <= QUICK_DEPTH)

    @property
    def small_block(self) -> int:
        """Most instances of a block if a batch has fewer than `LEAST_TOGETHER`: 1, or as many as select cheaply."""
        if not self.selects_sooner(1):
            return 1
        # Each column makes the tests again, and more columns take longer to merge and to finish.
        tests = max(len(self.layout.columns), 1) ** 2 * (2**self.complete - 1)
        return 1 << max(CHEAP_TESTS // tests, 1).bit_length() - 1  # rounded down to a power of two

    @property
    def block(self) -> int:
        """Largest number of instances that are merged at a time, so that a carry of wide planes stays small."""
        if not self.layout.is_wide:
            return 2**31
        most_numbers = MERGED_NUMBERS if self.walk == "levels" else CACHED_NUMBERS
        return 1 << max(most_numbers // self.layout.width, SMALLEST_BLOCK).bit_length() - 1


class Carry(NamedTuple):
    """The statistics of the trees so far, merged: an entry for each plane and for each number per tree."""

    planes: list[Any]
    """For each plane a tuple of arrays, its merge's carry: ``[instances]``, ``[instances numbers]`` if it is wide."""
    scalars: list[Any]
    """For each number per tree its merge's carry: arrays ``[]`` for all instances, or ``[instances]`` under a mask."""


class PackedTrees(eqx.Module):
    """Trees packed for walking, with the statistics of their leaves."""

    plan: Plan
    tables: list[Array]
    """Columns of the leaf table by places ``[trees places]``, two 32-bit columns in one element."""
    scalars: list[Float[Array, "trees"]]
    """Numbers per tree."""
    totals: list[Any]
    """The carry of the numbers per tree over all trees."""
    rows: list[Array]
    """Rows of wide planes, which all trees share (`jaxunc.inference._planes`)."""
    sets: Sets | None
    """The sets that nodes test, which all trees share; None without any."""
    spec: Spec = eqx.field(static=True)

    @classmethod
    def of(cls, trees: Trees, table: PyTree, merge: PyTree, *, missing: bool, walk: Walk) -> "PackedTrees":
        """Return trees packed with a leaf table for a walk, for data with or without ``missing`` values.

        ``table`` and ``merge`` are the ``leaf_table`` and ``merge`` of `merge_leaves`.
        """
        planes, scalars, layout = cut(table, merge, trees.n_trees, trees.n_nodes)
        compact_trees = compact(trees)
        spec = Spec.of(layout, compact_trees, missing=missing, walk=walk)
        plan = _plan_of(compact_trees, missing=missing, complete=spec.complete)
        totals = merge_scalars(layout.scalars, scalars)
        tables, rows = pack_by_place(planes, plan, layout, compact_trees.node)
        return cls(plan, tables, scalars, totals, rows, compact_trees.sets, spec)

    @classmethod
    def of_rows(cls, trees: Trees, lifted: PyTree, code: Array, merge: PyTree, *, walk: Walk) -> "PackedTrees":
        """Return trees packed with statistics of distinct count vectors for a walk, for data without missing values.

        ``lifted`` has arrays ``[rows ...]``, and ``code [trees nodes]`` the row of each node. ``merge`` is a pytree
        prefix of ``lifted`` with names of merges. Statistics are packed before they are expanded to the nodes.
        """
        columns, scalars, rows, layout = cut_rows(lifted, merge, trees.n_trees)
        compact_trees = compact(trees)
        spec = Spec.of(layout, compact_trees, missing=False, walk=walk)
        plan = _plan_of(compact_trees, missing=False, complete=spec.complete)
        tables = _expand_by_place(columns, code, plan, layout, compact_trees.node)
        totals = merge_scalars(layout.scalars, scalars)
        return cls(plan, tables, scalars, totals, rows, compact_trees.sets, spec)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """All fields but ``spec``, in their order."""
        return self.plan, self.tables, self.scalars, self.totals, self.rows, self.sets

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.plan.nodes.shape[0]

    def merge(
        self, X: Float[Array, "instances features"], tree_mask: Any = None, blocks: tuple[Any, ...] | None = None
    ) -> PyTree:
        """Return the merged statistic of all trees, or of those that count for an instance by ``tree_mask``.

        ``blocks`` is (number of instances of a block, number of blocks that are walked, which may be traced). Default:
        all instances, in blocks of the size that suits the walk.
        """
        return self.result(self.merge_to_carry(X, tree_mask, blocks))

    def merge_to_carry(self, X: Any, tree_mask: Any = None, blocks: tuple[Any, ...] | None = None) -> Carry:
        """Return the carry of all trees, with the arguments of `merge`."""
        n_planes = len(self.spec.layout.planes.kinds)
        carries = self._include(None, X, tree_mask, blocks)
        return Carry(carries[:n_planes], self.totals if tree_mask is None else carries[n_planes:])

    def _include(self, carry: list[Any] | None, X, mask=None, blocks: tuple[Any, ...] | None = None) -> list[Any]:
        """Return ``carry`` (None for no trees) with the planes of these trees merged into it, block by block.

        Under a mask the numbers per tree are merged, too: in ``carry`` and in the result they lie behind the planes.
        ``X``, ``mask`` and ``blocks`` are as for `merge`.
        """
        spec, n = self.spec, X.shape[0]
        shapes = partial(spec.layout.shapes, scalars=mask is not None)
        # Under a mask merged numbers per tree differ between instances: they become planes, behind the other planes.
        merging = spec.layout.planes if mask is None else spec.layout.both
        columns = spec.n_columns(X.shape[1])
        limit = min(n, spec.block)
        size, n_blocks = blocks or (min(block_size(spec.walk, self.n_trees, columns, n, spec.small_block), limit), None)
        rows_at = lambda array, start: array if size == n else lax.dynamic_slice_in_dim(array, start, size)
        keys_of, merge_block = self._way(size)

        def include_block(out, start, _):
            """Return ``out`` with the carry of the block at ``start``; of a single block that carry alone."""
            # Keys are made for one block at a time: the keys of all instances would take as much memory as the data.
            keys = keys_of(rows_at(X, start), missing=spec.missing)
            in_mask = None if mask is None else rows_at(mask, start)
            block_carry = varying_as(X, merging.start(shapes(size)))
            if carry is not None:
                block_carry = jax.tree.map(lambda whole: rows_at(whole, start), carry)
            merged = merge_block(merging, block_carry, keys, in_mask)
            if size == n:
                return merged
            return jax.tree.map(lambda whole, part: lax.dynamic_update_slice_in_dim(whole, part, start, 0), out, merged)

        out = varying_as(X, self._blank(merging, merging.start(shapes(n)), carry))
        return over_blocks(include_block, out, n, size, n_blocks) if n else out

    def _way(self, block: int) -> tuple[Callable[..., Any], Callable[..., list[Any]]]:
        """Return (the function that makes keys, the method that merges all trees) for blocks of ``block`` instances.

        The first row that fits counts:

        | walk | trees | block | method |
        |---|---|---|---|
        | "levels" | | | `_by_level`: walked at once, merged by one reduction |
        | "blocks" | complete | selects sooner (`Spec`) | `_by_tree`: selected tree by tree |
        | "blocks" | any | few pairs (`walks_at_once`) | `_few`: walked at once, an instance by itself by `walk_one` |
        | "blocks" | complete | others | `_by_tree`: selected tree by tree |
        | "blocks" | with a top | others | `_by_tree`: walked tree by tree |
        """
        if self.spec.walk == "levels":
            return column_keys, self._by_level
        at_once = walks_at_once(block, self.n_trees) and not self.spec.selects_sooner(block)
        return keys_of_few if block < LEAST_TOGETHER else column_keys, self._few if at_once else self._by_tree

    def _blank(self, merging: Merging, start: list[Any], carry: list[Any] | None) -> list[Any]:
        """Return arrays for the carry of all instances, which blocks fill: ``start``, the carry of no trees.

        Collected planes have their final width from the start: the trees of ``carry`` (None: no trees), then these.
        """
        before = zip(merging.planes, carry or (), strict=False)
        n_trees = max((entry[0].shape[1] for merge, entry in before if merge.collects), default=0) + self.n_trees
        widened = lambda merge, array: jnp.full((len(array), n_trees, *array.shape[2:]), merge.neutral, array.dtype)
        entries = zip(merging.planes, start, strict=True)
        return [(widened(merge, entry[0]),) if merge.collects else entry for merge, entry in entries]

    def _by_tree(self, merging: Merging, carry, keys, mask):
        """Return the carry of a block with all trees merged into it, which are walked one by one, in order.

        ``merging`` is that of the carry's entries. ``keys`` are those of `column_keys`, and ``mask`` is ``[block
        trees]`` or None.
        """
        # A row for each column, since the walk reads the same column for many instances of a block.
        rows, layout = by_column(keys, self.sets, missing=self.spec.missing), self.spec.layout

        def visit(tree):
            """Return the planes' values at the block's leaves in one tree, given its slice of the scanned arrays."""
            plan, tables, scalars, in_mask = tree
            if self.spec.complete:  # each column is one kernel, of 32 bits
                at_exits = unpack([table[: plan.n_exits] for table in tables], layout)  # the exits are the first places
                columns = select_leaves(plan, at_exits, rows)
            else:
                place = walk_tree(plan, rows)
                columns = unpack([take(table, place) for table in tables], layout)
            # Only a mask needs numbers per tree here; without a mask the compiler drops them.
            scalars = [jnp.broadcast_to(s, (len(keys),)) for s in scalars]
            return self._values(merging, columns, scalars, in_mask)

        return merging.scan(visit, carry, (self.plan, self.tables, self.scalars, None if mask is None else mask.T))

    def _few(self, merging: Merging, carry, keys, mask):
        """Return the carry of a small block with all trees merged into it: walked at once, but merged in order.

        The arguments are those of `_by_tree`.
        """
        if len(keys) == 1:
            keys = self._with_words(keys)
            elements = [values[:, None] for values in walk_one(self.plan, keys, self.tables)[1]]
        else:
            place = walk_few(self.plan, keys, self.sets, missing=self.spec.missing)
            elements = [take(table.reshape(-1), place) for table in self.tables]
        return self._in_order(merging, carry, elements, mask, len(keys))

    def _in_order(self, merging: Merging, carry, elements, mask, block: int):
        """Return the carry with the table elements ``[trees block]`` at a block's leaves merged into it, by tree.

        ``block`` is the number of the block's instances, and ``mask`` is ``[block trees]`` or None.
        """
        scalars = [jnp.broadcast_to(s[:, None], (self.n_trees, block)) for s in self.scalars]
        in_mask = None if mask is None else mask.T

        def visit(tree):
            """Return the planes' values at the block's leaves in one tree, given its slice of the scanned arrays."""
            elements, scalars, in_mask = tree
            return self._values(merging, unpack(elements, self.spec.layout), scalars, in_mask)

        return merging.scan(visit, carry, (elements, scalars, in_mask), unroll=STEPS)

    def _by_level(self, merging: Merging, carry, keys, mask):
        """Return the carry of a block with all trees merged into it: walked at once, and merged by one reduction.

        The arguments are those of `_by_tree`.
        """
        # `walk_levels` returns places in the flat arrays of all trees, so tables are flat, too.
        place = walk_levels(self.plan, self._with_words(keys), self.spec.depth)
        elements = [take(table.reshape(-1), place) for table in self.tables]
        if self.spec.layout.is_wide:  # rows of all trees at once would be an [instances trees classes] tensor
            return self._in_order(merging, carry, [part.T for part in elements], mask, len(keys))
        scalars = [jnp.broadcast_to(s, place.shape) for s in self.scalars]
        values = self._values(merging, unpack(elements, self.spec.layout), scalars, mask)
        return merging.reduce(carry, values, axis=1)

    def _with_words(self, keys):
        """Return keys ``[block columns]``, and behind them the words of sets if nodes test sets."""
        return keys if self.sets is None else keys_and_words(keys, self.sets, missing=self.spec.missing)

    def _values(self, merging: Merging, columns, scalars, mask):
        """Return the planes' values, given the ``columns`` of the leaf table at the leaves that instances have reached.

        With a ``mask`` the numbers per tree, ``scalars``, follow the planes, and every value is neutral where the mask
        is False. ``merging`` is that of all values.
        """
        values = values_of(columns, self.rows, self.spec.layout)
        return values if mask is None else merging.mask([*values, *scalars], mask)

    def results(self, carry: Carry) -> tuple[list[Any], list[Any]]:
        """Return (planes, numbers per tree) of the merged statistic of a carry."""
        layout = self.spec.layout
        return layout.planes.result(carry.planes), layout.scalars.result(carry.scalars)

    def result(self, carry: Carry) -> PyTree:
        """Return the merged statistic of a carry, in the structure that `Combiner.finish` takes."""
        return rejoin(self.spec.layout, *self.results(carry))

    def start(self, n_instances: int, *, masked: bool = False) -> Carry:
        """Return the carry of no trees for ``n_instances``; ``masked`` tells whether `advance` will get a mask."""
        layout = self.spec.layout
        shape = (n_instances,) if masked else ()
        return Carry(
            layout.planes.start(layout.shapes(n_instances)),
            layout.scalars.start([shape] * len(layout.scalars.kinds)),
        )

    def advance(
        self,
        carry: Carry,
        X: Float[Array, "instances features"],
        tree_mask: Bool[Array, "instances trees"] | None = None,
    ) -> Carry:
        """Return ``carry`` with these trees merged into it, in their order; under a mask those that count.

        A forest may be merged in ranges of trees, one after another. The last carry equals that of all trees at once:
        bit for bit, or up to rounding in the walk "levels".
        """
        # Without a mask a number per tree is the same for all instances: they were merged when the trees were packed.
        if tree_mask is None:
            layout = self.spec.layout
            return Carry(self._include(carry.planes, X), layout.scalars.join(carry.scalars, self.totals))
        carries = self._include([*carry.planes, *carry.scalars], X, tree_mask)
        return Carry(carries[: len(carry.planes)], carries[len(carry.planes) :])

    def join(self, first: Carry, second: Carry) -> Carry:
        """Return the carry of two ranges of trees, those of ``first`` before those of ``second``."""
        layout = self.spec.layout
        return Carry(
            layout.planes.join(first.planes, second.planes), layout.scalars.join(first.scalars, second.scalars)
        )

    def for_missing(self, compact_trees: CompactTrees) -> "PackedTrees":
        """Return the same packed trees for data with missing values; ``compact_trees`` are those that were packed."""
        spec = self.spec._replace(missing=True)
        return dataclasses.replace(self, plan=_plan_of(compact_trees, missing=True, top=self.plan.top), spec=spec)

    def by_columns(self, trees: Trees) -> "PackedTrees":
        """Return the same packed trees with the column numbers of ``trees``, whose nodes are otherwise the same."""
        compact_trees = compact(trees)
        plan = _plan_of(compact_trees, missing=self.spec.missing, top=self.plan.top)
        return dataclasses.replace(self, plan=plan, sets=compact_trees.sets)

    def of_trees(self, start: int, stop: int) -> "PackedTrees":
        """Return the packed trees ``start … stop - 1``."""
        arrays = (self.plan, self.tables, self.scalars)
        plan, tables, scalars = jax.tree.map(lambda array: array[start:stop], arrays)
        totals = merge_scalars(self.spec.layout.scalars, scalars)
        return dataclasses.replace(self, plan=plan, tables=tables, scalars=scalars, totals=totals)

    def padded(self, more: int) -> "PackedTrees":
        """Return these packed trees, and behind them ``more`` trees that add nothing: one neutral leaf each."""

        def append_trees(neutral: list[float], arrays: list[Any]) -> list[Any]:
            """Return ``arrays [trees ...]`` with ``more`` trees behind, which hold the array's ``neutral`` value."""
            pairs = zip(neutral, arrays, strict=True)
            return [jnp.concatenate([a, jnp.full((more, *a.shape[1:]), value, a.dtype)]) for value, a in pairs]

        # Neutral values, so that padding needs no mask: shards hold equal numbers of trees.
        layout = self.spec.layout
        tables = pack(append_trees(neutral_columns(layout), unpack(self.tables, layout)), layout)
        scalars = append_trees([float(merge.neutral) for merge in layout.scalars.planes], self.scalars)
        return dataclasses.replace(self, plan=padded_plan(self.plan, more), tables=tables, scalars=scalars)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields as NumPy arrays, for copies and pickles."""
        return {name: jax.tree.map(np.asarray, array) for name, array in zip(_ARRAYS, self.arrays, strict=True)} | {
            "spec": self.spec
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        # JAX takes 64-bit integers from the host in its 64-bit mode alone.
        with jax.enable_x64(True):
            arrays = {name: jax.tree.map(jax.device_put, state[name]) for name in _ARRAYS}
        vars(self).update(state | arrays)


def _plan_of(compact_trees: CompactTrees, *, missing: bool, complete: int = 0, top: Top | None = None) -> Plan:
    """Return the plan of compact trees, for data with or without ``missing`` values.

    Its top is ``top``. If that is None, the top has all tests of trees that are completed to the depth ``complete``; if
    ``complete`` is 0, the tallest nodes.
    """
    if top is None:
        top = complete_top(compact_trees.trees, complete) if complete else tall_top(compact_trees.trees)
    return make_plan(compact_trees.trees, missing=missing, top=top, bit=compact_trees.bit)


@jit(static_argnums=2)
def pack_by_place(
    planes: list[Array], plan: Plan, layout: Layout, node: Int32[Array, "trees kept"] | None = None
) -> tuple[list[Array], list[Array]]:
    """Return (tables of elements ``[trees places]``, rows of each wide plane) of planes ``[trees nodes ...]``.

    ``planes`` and ``layout`` are those of `cut`. ``node`` are the nodes that the plan has (`CompactTrees.node`), None
    for all.
    """
    columns, rows = columns_of_planes([_take_nodes(plane, node) for plane in planes], layout)
    return [plan.by_place(packed) for packed in pack(columns, layout)], rows


def _expand_by_place(
    columns: list[Any], code: Int32[Array, "trees nodes"], plan: Plan, layout: Layout, node: Any
) -> list[Array]:
    """Return tables of elements ``[trees places]`` of columns ``[distinct]``, given the row ``code`` of each node.

    ``columns`` and ``layout`` are those of `cut_rows`; ``node`` is as for `pack_by_place`.
    """
    if not on_host(code, plan):
        return _expand_program(columns, code, plan, layout, node)
    host_plan, code, node = jax.tree.map(np.asarray, (plan, code, node))
    rows = host_plan.by_place(_take_nodes(code, node))
    return put_beside(plan.nodes, [packed[rows] for packed in pack(columns, layout)])


@jit(static_argnums=3)
def _expand_program(columns: list[Array], code: Array, plan: Plan, layout: Layout, node: Array | None) -> list[Array]:
    """Return the tables of `_expand_by_place`, made by a program, since the arrays are not on the host."""
    rows = plan.by_place(_take_nodes(code, node))
    return [take(packed, rows) for packed in pack(columns, layout)]


def _take_nodes(table: Any, node: Any) -> Any:
    """Return the entries of a table ``[trees nodes ...]`` at ``node`` ``[trees kept]``; for None the table."""
    return table if node is None else table[np.arange(len(table))[:, None], node]


def merge_scalars(merging: Merging, scalars: list[Float[Array, "trees"]]) -> list[Any]:
    """Return the carry of ``scalars``, the numbers per tree, over all trees by their ``merging``; [] for none."""
    return _scalars_program(merging, scalars) if scalars else []


@jit(static_argnums=0)
def _scalars_program(merging: Merging, scalars: list[Float[Array, "trees"]]) -> list[Any]:
    """Return the carry of `merge_scalars`, for one array of ``scalars`` or more."""
    return merging.reduce(merging.start([()] * len(scalars)), scalars, axis=0)


def of_jax(tree: PyTree) -> PyTree:
    """Return a pytree with arrays of JAX in place of NumPy's, if its plans or packed trees hold int64 arrays of NumPy.

    `jax.device_get` makes such pytrees. In its 32-bit mode JAX would drop half of each 64-bit element. Other pytrees
    are returned as they are.
    """
    is_packed = lambda node: isinstance(node, Plan | PackedTrees)
    packed = [node for node in jax.tree.leaves(tree, is_leaf=is_packed) if is_packed(node)]
    if not any(_is_wide(leaf) for leaf in jax.tree.leaves(packed)):
        return tree
    with outside_traces(), jax.enable_x64(True):
        return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, tree)


def _is_wide(leaf: Any) -> bool:
    """Return whether a leaf of a pytree is an array of NumPy with 64-bit integers."""
    return isinstance(leaf, np.ndarray) and leaf.dtype == np.int64
