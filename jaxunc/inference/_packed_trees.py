"""Trees packed with their leaf table: they are walked and merged without an ``[instances, trees]`` tensor.

    leaf table  --cut-->  planes [trees nodes], numbers per tree [trees]  --pack-->  tables, two planes in an element
    instances  --walk-->  places of leaves  --look up-->  values  --merge-->  carry  --results-->  statistic

The first line is done once, by `PackedTrees.of`. The second is `PackedTrees.merge`, which goes by blocks of instances.
It walks all trees, and merges the values of their leaves into the *carry*: the statistic of the trees so far.

An instance's answer depends on its row alone. On a CPU the trees are merged one by one in their order: blocks and
ranges of trees change no bit of an answer. Accelerators merge all trees in one reduction, which rounds float sums in
another order, as `join` does; all other merges are exact.

A forest may also come in ranges of trees: `start` → `advance` by one range (`of_trees`) after the other → `result`,
with `join` for carries of neighbouring ranges. This is for loops that users write; the package itself does not do so.
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
"""Number of trees that one step of a loop merges for few instances, since a step costs more than a merge."""

MERGED_NUMBERS = 2**22
"""Most numbers of planes that a call merges where planes are wide."""
CACHED_NUMBERS, SMALLEST_BLOCK = 2**16, 64
"""Most such numbers of a block on a CPU; blocks of `SMALLEST_BLOCK` instances may have more."""

QUICK_DEPTH = 4
"""Depth of the deepest complete trees in which few instances select leaf values sooner than they walk."""
CHEAP_TESTS = 120
"""Most tests, of all instances of a block, that keep a program cheap (`CHEAP_TREES`) if leaf values have one column."""

_ARRAYS = ("plan", "tables", "scalars", "totals", "rows", "sets")  # the fields of `PackedTrees.arrays`


class Spec(NamedTuple):
    """Structure of packed trees, for which programs are compiled: static, hashable."""

    layout: Layout
    """How the statistic is stored."""
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
        """Return the structure of ``compact_trees``, packed with a leaf table of this ``layout`` for this ``walk``.

        ``missing`` says whether the plan is for data with missing values.
        """
        complete = complete_depth(compact_trees.trees, len(layout.columns)) if walk == "blocks" else 0
        depth = unrolled_depth(walk, compact_trees.trees)
        return cls(layout, missing, walk, depth, compact_trees.n_words, complete)

    def n_columns(self, n_features: int) -> int:
        """Return the number of columns of keys and words for ``n_features``; for missing values keys come twice."""
        return n_features * (1 + self.missing) + self.words

    def selects_sooner(self, block: int) -> bool:
        """Return whether ``block`` instances select leaf values sooner than they walk all trees at once.

        Only in complete trees can leaf values be selected (`select_leaves`).
        """
        return self.complete > 0 and (block >= LEAST_TOGETHER or self.complete <= QUICK_DEPTH)

    @property
    def small_block(self) -> int:
        """Most instances of a block in a batch of fewer than `LEAST_TOGETHER`; 1 unless they select leaf values."""
        if not self.selects_sooner(1):
            return 1
        # The number of columns, squared: each makes the tests again, and more take longer to merge and to finish.
        n_tests = max(len(self.layout.columns), 1) ** 2 * (2**self.complete - 1)
        return 1 << (max(CHEAP_TESTS // n_tests, 1).bit_length() - 1)  # rounded down to a power of two

    @property
    def block(self) -> int:
        """Largest number of instances that are merged at a time, so that a carry of wide planes stays small."""
        if not self.layout.is_wide:
            return 2**31
        most_numbers = MERGED_NUMBERS if self.walk == "levels" else CACHED_NUMBERS
        most_instances = max(most_numbers // self.layout.width, SMALLEST_BLOCK)
        return 1 << (most_instances.bit_length() - 1)  # rounded down to a power of two


class Carry(NamedTuple):
    """The statistics of the trees so far, merged: an entry for each plane and for each number per tree."""

    planes: list[Any]
    """For each plane the carry of its merge, a tuple of arrays ``[instances]``; of wide ones ``[instances width]``."""
    scalars: list[Any]
    """For each number per tree the carry of its merge, a tuple of arrays ``[]``; under a mask ``[instances]``."""


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
        """Return ``trees`` packed with a leaf ``table`` for the ``walk``, for data with or without ``missing`` values.

        ``table`` and ``merge`` are the arguments ``leaf_table`` and ``merge`` of `merge_leaves`.
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
        """Return ``trees`` packed with ``lifted``, the statistics of distinct count vectors, for the ``walk``.

        The plan is for data without missing values. ``lifted`` has arrays ``[rows ...]``, and ``code [trees nodes]``
        the row of each node. ``merge`` is a pytree prefix of ``lifted`` with names of merges.
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
        """Return the statistic of each instance in ``X``, merged over the trees.

        With a ``tree_mask [instances trees]`` only trees that count for an instance are merged. ``blocks`` is (number
        of instances of a block, number of the first blocks that are walked, which may be traced). Default: all
        instances, in blocks of the size that suits the walk.
        """
        return self.result(self.merge_to_carry(X, tree_mask, blocks))

    def merge_to_carry(self, X: Any, tree_mask: Any = None, blocks: tuple[Any, ...] | None = None) -> Carry:
        """Return the carry of the instances ``X`` after all trees; arguments are as for `merge`."""
        n_planes = len(self.spec.layout.planes.kinds)
        carries = self._include(carry=None, X=X, mask=tree_mask, blocks=blocks)
        return Carry(carries[:n_planes], self.totals if tree_mask is None else carries[n_planes:])

    def _include(self, carry: list[Any] | None, X, mask=None, blocks: tuple[Any, ...] | None = None) -> list[Any]:
        """Return the carry of instances ``X`` after these trees, whose planes are merged into ``carry`` block by block.

        None for ``carry`` stands for no earlier trees. Under a mask numbers per tree are merged, too: in ``carry`` and
        in the result they lie behind the planes. ``X``, ``mask`` and ``blocks`` are as for `merge`.
        """
        spec = self.spec
        n = X.shape[0]
        shapes = partial(spec.layout.shapes, scalars=mask is not None)
        # Under a mask merged numbers per tree differ between instances: they are merged like planes, and follow these.
        merging = spec.layout.planes if mask is None else spec.layout.both
        if blocks is not None:
            size, n_blocks = blocks
        else:
            walk_size = block_size(spec.walk, self.n_trees, spec.n_columns(X.shape[1]), n, spec.small_block)
            size = min(walk_size, n, spec.block)
            n_blocks = None  # all
        keys_of, merge_block = self._way(size)

        def rows_at(array, start):
            return array if size == n else lax.dynamic_slice_in_dim(array, start, size)

        def include_block(out, start, _):
            """Return ``out``, the carry of all instances, with that of the block at ``start`` written into it."""
            # Keys are made for one block at a time: the keys of all instances would take as much memory as the data.
            keys = keys_of(rows_at(X, start), missing=spec.missing)
            in_mask = None if mask is None else rows_at(mask, start)
            block_carry = varying_as(X, merging.start(shapes(size)))
            if carry is not None:
                block_carry = jax.tree.map(lambda whole: rows_at(whole, start), carry)
            merged = merge_block(merging, block_carry, keys, in_mask)
            if size == n:
                return merged
            write = lambda whole, block_rows: lax.dynamic_update_slice_in_dim(whole, block_rows, start, 0)
            return jax.tree.map(write, out, merged)

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
        keys_of = keys_of_few if block < LEAST_TOGETHER else column_keys
        return keys_of, self._few if at_once else self._by_tree

    def _blank(self, merging: Merging, start: list[Any], carry: list[Any] | None) -> list[Any]:
        """Return blank arrays for the carry of all instances, into which blocks are written.

        They are ``start``, the carry of no trees. In collected planes its empty axis of trees gets room for the trees
        of ``carry`` (none for None) and for these.
        """
        entries_so_far = zip(merging.planes, carry or (), strict=False)
        n_trees_so_far = max((entry[0].shape[1] for merge, entry in entries_so_far if merge.collects), default=0)
        n_trees = n_trees_so_far + self.n_trees
        blank = []
        for merge, entry in zip(merging.planes, start, strict=True):
            if merge.collects:
                (array,) = entry
                entry = (jnp.full((len(array), n_trees, *array.shape[2:]), merge.neutral, array.dtype),)
            blank.append(entry)
        return blank

    def _by_tree(self, merging: Merging, carry, keys, mask):
        """Return a block's carry after all trees, which are walked one by one, and merged into ``carry`` in order.

        ``merging`` is that of the carry's entries. ``keys`` are the block's, made by `column_keys`. ``mask`` is
        ``[block trees]`` or None.
        """
        layout = self.spec.layout
        # A row for each column, since the walk reads the same column for many instances of a block.
        rows = by_column(keys, self.sets, missing=self.spec.missing)

        def visit(tree):
            """Return the planes' values at the block's leaves in one tree, given its slice of the scanned arrays."""
            plan, tables, scalars, in_mask = tree
            if self.spec.complete:
                # The exits are the first places. Their elements are unpacked to columns of 32 bits before the
                # selection, since each column is selected by a kernel of its own.
                at_exits = unpack([table[: plan.n_exits] for table in tables], layout)
                columns = select_leaves(plan, at_exits, rows)
            else:
                place = walk_tree(plan, rows)
                columns = unpack([take(table, place) for table in tables], layout)
            # Under a mask a number per tree counts for some instances only, so that it gets an entry for each. Without
            # a mask `_values` does not read these entries (``totals`` has the merged numbers).
            scalars = [jnp.broadcast_to(s, (len(keys),)) for s in scalars]
            return self._values(merging, columns, scalars, in_mask)

        by_tree = None if mask is None else mask.T
        return merging.scan(visit, carry, (self.plan, self.tables, self.scalars, by_tree))

    def _few(self, merging: Merging, carry, keys, mask):
        """Return a small block's carry after all trees, which are walked at once, but merged into ``carry`` in order.

        The arguments are those of `_by_tree`.
        """
        if len(keys) == 1:
            _, elements_of_one = walk_one(self.plan, self._with_words(keys), self.tables)
            elements = [by_tree[:, None] for by_tree in elements_of_one]  # [trees 1]
        else:
            place = walk_few(self.plan, keys, self.sets, missing=self.spec.missing)
            elements = [take(table.reshape(-1), place) for table in self.tables]
        return self._in_order(merging, carry, elements, mask, len(keys))

    def _in_order(self, merging: Merging, carry, elements, mask, block: int):
        """Return a block's carry after all trees, whose values at the leaves are merged into ``carry`` tree by tree.

        ``elements`` has an array ``[trees block]`` for each table: its elements at the leaves. ``block`` is the number
        of the block's instances; other arguments are those of `_by_tree`.
        """
        scalars = [jnp.broadcast_to(s[:, None], (self.n_trees, block)) for s in self.scalars]
        in_mask = None if mask is None else mask.T

        def visit(tree):
            """Return the planes' values at the block's leaves in one tree, given its slice of the scanned arrays."""
            elements, scalars, in_mask = tree
            return self._values(merging, unpack(elements, self.spec.layout), scalars, in_mask)

        return merging.scan(visit, carry, (elements, scalars, in_mask), unroll=STEPS)

    def _by_level(self, merging: Merging, carry, keys, mask):
        """Return a block's carry after all trees, which are walked at once, and merged into ``carry`` by one reduction.

        The arguments are those of `_by_tree`.
        """
        # `walk_levels` returns places in the flat arrays of all trees, so tables are flat, too.
        place = walk_levels(self.plan, self._with_words(keys), self.spec.depth)
        elements = [take(table.reshape(-1), place) for table in self.tables]
        if self.spec.layout.is_wide:  # rows of all trees at once would be an [instances trees classes] tensor
            by_tree = [elements_of_table.T for elements_of_table in elements]
            return self._in_order(merging, carry, by_tree, mask, len(keys))
        scalars = [jnp.broadcast_to(s, place.shape) for s in self.scalars]
        values = self._values(merging, unpack(elements, self.spec.layout), scalars, mask)
        return merging.reduce(carry, values, axis=1)

    def _with_words(self, keys):
        """Return ``keys [block columns]``, with the words of sets as further columns if there are sets."""
        return keys if self.sets is None else keys_and_words(keys, self.sets, missing=self.spec.missing)

    def _values(self, merging: Merging, columns, scalars, mask):
        """Return the planes' values at the leaves of some instances, given the entries of all ``columns`` there.

        With a ``mask`` the numbers per tree, ``scalars``, follow the planes, and every value is neutral where the mask
        is False. ``merging`` is that of all values.
        """
        values = values_of(columns, self.rows, self.spec.layout)
        return values if mask is None else merging.mask([*values, *scalars], mask)

    def results(self, carry: Carry) -> tuple[list[Any], list[Any]]:
        """Return (merged planes, merged numbers per tree) of a ``carry``, an entry for each."""
        layout = self.spec.layout
        return layout.planes.result(carry.planes), layout.scalars.result(carry.scalars)

    def result(self, carry: Carry) -> PyTree:
        """Return the merged statistic of a carry, in the structure that `Combiner.finish` takes."""
        return rejoin(self.spec.layout, *self.results(carry))

    def start(self, n_instances: int, *, masked: bool = False) -> Carry:
        """Return the carry of no trees for ``n_instances``; pass ``masked=True`` if `advance` will get a tree mask."""
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
        """Return the carry of instances ``X`` after these trees, which are merged into ``carry`` in their order.

        Under ``tree_mask`` only trees that count for an instance are merged. After all ranges of a forest's trees the
        carry equals that of all trees at once: bit for bit, or up to rounding in the walk "levels".
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
        """Return these packed trees with a plan for missing values; ``compact_trees`` are those that were packed."""
        spec = self.spec._replace(missing=True)
        return dataclasses.replace(self, plan=_plan_of(compact_trees, missing=True, top=self.plan.top), spec=spec)

    def by_columns(self, trees: Trees) -> "PackedTrees":
        """Return these packed trees with the column numbers of ``trees``, whose nodes are otherwise the same."""
        compact_trees = compact(trees)
        plan = _plan_of(compact_trees, missing=self.spec.missing, top=self.plan.top)
        return dataclasses.replace(self, plan=plan, sets=compact_trees.sets)

    def of_trees(self, start: int, stop: int) -> "PackedTrees":
        """Return only the trees ``start … stop - 1`` of these, packed."""
        arrays = (self.plan, self.tables, self.scalars)
        plan, tables, scalars = jax.tree.map(lambda array: array[start:stop], arrays)
        totals = merge_scalars(self.spec.layout.scalars, scalars)
        return dataclasses.replace(self, plan=plan, tables=tables, scalars=scalars, totals=totals)

    def padded(self, more: int) -> "PackedTrees":
        """Return these packed trees, and behind them ``more`` trees that add nothing: one neutral leaf each."""

        def append_trees(neutral: list[float], arrays: list[Any]) -> list[Any]:
            """Return ``arrays [trees ...]`` with ``more`` trees behind, which hold an array's number in ``neutral``."""
            pairs = zip(neutral, arrays, strict=True)
            return [jnp.concatenate([a, jnp.full((more, *a.shape[1:]), value, a.dtype)]) for value, a in pairs]

        # Neutral values, so that padding needs no mask.
        layout = self.spec.layout
        tables = pack(append_trees(neutral_columns(layout), unpack(self.tables, layout)), layout)
        scalars = append_trees([float(merge.neutral) for merge in layout.scalars.planes], self.scalars)
        return dataclasses.replace(self, plan=padded_plan(self.plan, more), tables=tables, scalars=scalars)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields by name, with NumPy arrays, for copies and pickles."""
        named_fields = zip(_ARRAYS, self.arrays, strict=True)
        return {name: jax.tree.map(np.asarray, field) for name, field in named_fields} | {"spec": self.spec}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # JAX takes 64-bit integers from the host in its 64-bit mode alone.
        with jax.enable_x64(True):
            arrays = {name: jax.tree.map(jax.device_put, state[name]) for name in _ARRAYS}
        vars(self).update(state | arrays)


def _plan_of(compact_trees: CompactTrees, *, missing: bool, complete: int = 0, top: Top | None = None) -> Plan:
    """Return the plan of ``compact_trees``, for data with or without ``missing`` values.

    ``top`` defaults to all tests of trees completed to the depth ``complete``, or to the tallest nodes if it is 0.
    """
    if top is None:
        top = complete_top(compact_trees.trees, complete) if complete else tall_top(compact_trees.trees)
    return make_plan(compact_trees.trees, missing=missing, top=top, bit=compact_trees.bit)


@jit(static_argnums=2)
def pack_by_place(
    planes: list[Array], plan: Plan, layout: Layout, node: Int32[Array, "trees kept"] | None = None
) -> tuple[list[Array], list[Array]]:
    """Return (tables of elements ``[trees places]``, rows of each wide plane) of planes ``[trees nodes ...]``.

    ``planes`` and ``layout`` are those of `cut`; ``node`` is `CompactTrees.node` of the trees in the plan.
    """
    columns, rows = columns_of_planes([_take_nodes(plane, node) for plane in planes], layout)
    return [plan.by_place(elements) for elements in pack(columns, layout)], rows


def _expand_by_place(
    columns: list[Any], code: Int32[Array, "trees nodes"], plan: Plan, layout: Layout, node: Any
) -> list[Array]:
    """Return the tables of elements ``[trees places]`` that store columns ``[distinct]`` for each place of ``plan``.

    ``columns`` and ``layout`` are those of `cut_rows`, ``code`` has the entry of each node in the columns. ``node`` is
    as for `pack_by_place`.
    """
    if not on_host(code, plan):
        return _expand_program(columns, code, plan, layout, node)
    host_plan, code, node = jax.tree.map(np.asarray, (plan, code, node))
    rows = host_plan.by_place(_take_nodes(code, node))
    return put_beside(plan.nodes, [elements[rows] for elements in pack(columns, layout)])


@jit(static_argnums=3)
def _expand_program(columns: list[Array], code: Array, plan: Plan, layout: Layout, node: Array | None) -> list[Array]:
    """Return the tables of `_expand_by_place` for arrays that are traced, or not on the host."""
    rows = plan.by_place(_take_nodes(code, node))
    return [take(elements, rows) for elements in pack(columns, layout)]


def _take_nodes(table: Any, node: Any) -> Any:
    """Return ``table [trees nodes ...]`` at the nodes ``node [trees kept]`` alone; the whole table for None."""
    return table if node is None else table[np.arange(len(table))[:, None], node]


def merge_scalars(merging: Merging, scalars: list[Float[Array, "trees"]]) -> list[Any]:
    """Return the carry of the numbers per tree, ``scalars``, merged over all trees; [] if there are none."""
    return _scalars_program(merging, scalars) if scalars else []


@jit(static_argnums=0)
def _scalars_program(merging: Merging, scalars: list[Float[Array, "trees"]]) -> list[Any]:
    """Return the carry of `merge_scalars`, where there is at least one array of numbers."""
    return merging.reduce(merging.start([()] * len(scalars)), scalars, axis=0)


def of_jax(tree: PyTree) -> PyTree:
    """Return the pytree ``tree`` with JAX's arrays in place of NumPy's, if its packed trees have 64-bit ones of NumPy.

    `jax.device_get` makes such pytrees; others are returned as they are. JAX's 32-bit mode would drop half of each.
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
