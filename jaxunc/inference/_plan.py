"""The nodes of trees packed for walking: one 8-byte element per node, and separate arrays for the top of each tree.

A walk goes by *places*, as `jaxunc.inference` draws them: first the places of the exits, then those of the nodes.

The top holds the tallest inner nodes of a tree (`tallest`). They form one connected subtree, since a parent is taller
than its children. Where a test of the top goes right it rules out the exits below its left child. The instance leaves
by the first exit that remains (QuickScorer, Lucchese et al. 2015, applied to the top of a tree). Several paths may lead
to a node if a test of intervals is stored as binary tests (`jaxunc.forest`). Such nodes, and all below them, are not in
the top. For bound forests `compact` first makes each test of intervals one node again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32, Int64, Shaped

from jaxunc._checks import is_concrete
from jaxunc._numerics import (
    NAN_FIRST,
    NAN_LAST,
    KeptWhileAlive,
    ceil_div,
    jit,
    multiple_of,
    on_host,
    order_key,
    padded_rows,
    pair_bits,
    power_of_two,
    put_beside,
    split_bits,
    take,
)
from jaxunc.forest import (
    ColumnSets,
    IntervalTests,
    Trees,
    column_sets,
    has_several_parents,
    interval_tests,
    reached_nodes,
)

MOST_WORDS, MOST_ENTRIES = 320, 100_000
"""Most words of sets, and most entries of their tables: more would drive the keys of small blocks out of the cache.
Tests of further sets, those of the last trees, remain several nodes each."""

BITS = 31
"""Number of sets in a word. The word's sign bit is not used."""
WHOLE = 31
"""Number of the bit for nodes that test no set: it stands for all bits (`mask_of`)."""

MOST_TESTS = 31
"""Most tests of a top: one less than its exits, each of which is a bit of a 32-bit word."""

PIECE = 16
"""Number of borders that are counted at a time."""


class Top(NamedTuple):
    """The tests at the top of each tree (`jaxunc.inference`), padded by repeats of the root, which rule out no exit."""

    tests: Int32[Array, "trees tests"]
    """The node that makes each test."""
    exits: Int32[Array, "trees tests"]
    """The exits that remain where the test goes right, as bits: the highest bit is the leftmost exit."""
    entry: Int32[Array, "trees exits"]
    """The node behind each exit, from the left."""
    rest: Int32[Array, "trees"]
    """Number of tests on the longest path below the top."""


class Borders(NamedTuple):
    """Sorted order keys by which values become codes: a value's code is the number of borders below it.

    A *row of codes* has the code of each instance in one column of keys. The borders that make a row of codes are cut
    into *pieces* of `PIECE` borders.
    """

    column: Int32[Array, "rows"]
    """The column of keys that each row of codes is made from; padding rows have no borders."""
    row: Int32[Array, "pieces"]
    """The row of codes that each piece belongs to."""
    border: Int32[Array, "pieces {PIECE}"]
    """The borders of each piece; keys that no value exceeds pad the last piece of a row of codes."""
    number: Int32[Array, ""]
    """Number of pieces, padding pieces not counted."""

    @classmethod
    def of(cls, row: np.ndarray, border: np.ndarray, column: np.ndarray) -> "Borders":
        """Return the ``border [borders]``, a flat list of order keys by row of codes, cut into pieces.

        ``row [borders]`` is the number of the row of codes that each border belongs to: borders are sorted by it, then
        by key. ``column [rows]`` is the column of keys that each row of codes is made from. Numbers of rows and of
        pieces are padded to powers of two.
        """
        column = padded_rows(column, power_of_two(len(column)))
        n_pieces_of_row = -(-np.bincount(row, minlength=len(column)) // PIECE)  # rounded up
        n_pieces = int(n_pieces_of_row.sum())
        first_piece = np.cumsum(n_pieces_of_row) - n_pieces_of_row
        row_of_piece = padded_rows(np.repeat(np.arange(len(column)), n_pieces_of_row), power_of_two(n_pieces))
        pieces = np.full((len(row_of_piece), PIECE), NAN_LAST, np.int32)
        index_in_row = np.arange(len(row)) - np.searchsorted(row, row)  # of each border, counted from its row's first
        piece_in_row, position = np.divmod(index_in_row, PIECE)
        pieces[first_piece[row] + piece_in_row, position] = border
        return cls(*jax.device_put([np.asarray(array, np.int32) for array in (column, row_of_piece, pieces, n_pieces)]))


class Sets(NamedTuple):
    """The sets of values that nodes of all trees test, as bits of words; a word has up to 31 sets of one column."""

    borders: Borders
    """Borders by which values become codes: values between two neighbouring borders are in the same sets."""
    row: Int32[Array, "words"]
    """The row of codes by which each word is looked up; 0 for padding words."""
    start: Int32[Array, "words"]
    """Index in ``table`` of each word's first entry. A word has an entry for each code, the last for that of NaN."""
    table: Int32[Array, "entries"]
    """The entries of all words. An entry has a bit for each set of its word: whether the set sends the code right."""


class CompactTrees(NamedTuple):
    """Trees in which a test of intervals is one node, which reads a bit of a word (`jaxunc.inference`).

    Words are further columns behind those of the data.
    """

    trees: Trees
    node: Int32[Array, "trees kept"] | None = None
    """The original index of each node that is kept; None if all nodes are."""
    bit: Int32[Array, "trees kept"] | None = None
    """The bit of the node's set in its word, `WHOLE` for nodes that test no set; None without sets."""
    sets: Sets | None = None
    """The sets; None if no node tests a set."""

    @property
    def n_words(self) -> int:
        """Number of columns of words, padding included."""
        return 0 if self.sets is None else len(self.sets.row)


class Plan(NamedTuple):
    """Arrays that a walk reads, with trees along the leading axis of each: slices of all are a plan of fewer trees."""

    nodes: Int64[Array, "trees places"]
    """Two 32-bit patterns per place in one element, so that a level costs one gather. They are the threshold's key and
    ``column << b | place of the left child``, where b bits hold any place. With sets the column has 5 more bits below
    it: the number of the set's bit."""
    feature: Int32[Array, "trees places"] | None
    """The columns (with sets also their 5 bits), if they do not fit beside the children; else None."""
    depth: Int32[Array, "trees"]
    """Number of tests on the longest path of each tree."""
    top: Top
    """The tests at the top, and the nodes behind its exits."""
    top_feature: Int32[Array, "trees tests"]
    """The column of keys that each test of the top reads."""
    top_key: Int32[Array, "trees tests"]
    """The threshold's key of each test of the top."""
    top_mask: Int32[Array, "trees tests"] | None = None
    """The bits that each test of the top reads of a word; all bits for other columns, None without sets."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return (function, arguments) by which copies and pickles restore the plan; arguments are NumPy arrays."""
        return _restored, (jax.tree.map(np.asarray, tuple(self)),)

    @property
    def n_exits(self) -> int:
        """Number of exits of a tree's top. It is also the root's place, since the exits' places come first."""
        return self.top.entry.shape[-1]

    def by_place(self, table: Shaped[Array | np.ndarray, "trees nodes"]) -> Any:
        """Return a table of nodes as one of places ``[trees places]``, NumPy's if ``table`` is, else JAX's."""
        return _by_place(self.top.entry, table)


def _restored(arrays: tuple[Any, ...]) -> Plan:
    """Return the plan whose fields are ``arrays``, NumPy arrays in the order of the fields."""
    # JAX takes 64-bit integers from the host in its 64-bit mode alone.
    with jax.enable_x64(True):
        # Not `jnp.asarray`, which is a program: in a forked process it would fail before the error could be reported.
        return Plan(*jax.tree.map(jax.device_put, arrays))


def node_at(plan: Plan, place: Int32[Array, "..."]) -> Int32[Array, "..."]:
    """Return the node at each ``place`` of one tree; ``plan`` is the tree's slice of a plan, without axis of trees."""
    exits = plan.n_exits
    return jnp.where(place < exits, take(plan.top.entry, jnp.minimum(place, exits - 1)), place - exits)


def make_plan(trees: Trees, *, missing: bool, top: Top | None = None, bit: Array | None = None) -> Plan:
    """Return the plan of ``trees`` for data with or without missing values.

    ``top`` defaults to the first two levels of each tree. If values may be ``missing``, the keys hold every column
    twice (`column_keys`), which takes a quarter more time: nodes that send NaN right read the second copy. For compact
    trees ``bit`` is `CompactTrees.bit`.
    """
    arrays = (_arrays(trees), top, bit)
    settings = {"n_features": trees.n_features, "missing": missing}
    if not on_host(arrays):
        return _plan_program(*arrays, **settings)
    return put_beside(trees.child, _make_plan(*jax.tree.map(np.asarray, arrays), **settings, xp=np))


def known_plan(trees: Trees) -> Plan:
    """Return the plan of concrete trees for data with missing values, cached; it is concrete even within a trace."""
    make = lambda: make_plan(trees, missing=True, top=tall_top(trees))
    return _PLANS.get(_arrays(trees), trees.n_features, make)


_PLANS: KeptWhileAlive[Plan] = KeptWhileAlive()
"""Cache of `known_plan`, by the arrays of trees: calls may pass instances one by one."""


def _arrays(trees: Trees) -> tuple[Array, Array, Array, Array, Array]:
    """Return the arrays of ``trees`` that a plan needs: (feature, threshold, child, missing_right, tree_depth)."""
    return trees.feature, trees.threshold, trees.child, trees.missing_right, trees.tree_depth


def complete_depth(trees: Trees, n_columns: int) -> int:
    """Return the depth to which ``trees`` are completed, so that tests select leaf values (`select_leaves`), or 0.

    0 stands for trees that are not completed: those that are traced, or too deep. The number of tests of a complete
    tree, times ``n_columns``, is at most `MOST_TESTS`: each column of leaf values is a kernel that makes all tests
    again. Trees without a test have the depth 1.
    """
    if not is_concrete(trees):
        return 0
    deepest = max(1, trees.depth)
    return deepest if max(n_columns, 1) * (2**deepest - 1) <= MOST_TESTS else 0


def complete_top(trees: Trees, depth: int) -> Top:
    """Return the top that has all tests of ``trees``, which are at most ``depth`` deep; cached.

    Tests are in the order of a heap: level by level from the root. Below a leaf, where the tree has no node, the leaf
    itself makes the test. No key is beyond its threshold, so every instance goes left, again to the leaf.
    """
    make = lambda: Top(*jax.device_put(_complete_arrays(np.asarray(trees.child), depth)))
    return _COMPLETE.get((trees.child,), depth, make)


_COMPLETE: KeptWhileAlive[Top] = KeptWhileAlive()
"""Cache of `complete_top`, by the array of children and the depth."""


def _complete_arrays(child: Int32[np.ndarray, "trees nodes"], depth: int) -> tuple[np.ndarray, ...]:
    """Return the fields of the `Top` of `complete_top`, in their order; ``child`` is `Trees.child`."""
    n_trees = len(child)
    trees = np.arange(n_trees)
    # The node at each position of a heap: the children of position i are 2i + 1 and 2i + 2; below a leaf it repeats.
    heap = np.zeros((n_trees, 2 ** (depth + 1) - 1), np.int32)
    for position in range(2**depth - 1):
        node = heap[:, position]
        left = child[trees, node]
        is_leaf = left == node
        heap[:, 2 * position + 1] = left
        heap[:, 2 * position + 2] = np.where(is_leaf, left, left + 1)
    tests = heap[:, : 2**depth - 1]
    entry = heap[:, 2**depth - 1 :]  # the lowest level
    heap_number = np.arange(1, 2**depth)  # positions from 1: a level begins at a power of two
    level = np.floor(np.log2(heap_number)).astype(np.int64)
    n_ruled_out = 2 ** (depth - 1 - level)  # where a test goes right: half of the exits below it
    first_exit = (heap_number - 2**level) * 2 * n_ruled_out  # the leftmost exit below the test
    ruled_out = ((1 << n_ruled_out) - 1) << (32 - first_exit - n_ruled_out)  # ones from bit 31 - first_exit downwards
    exits = (~ruled_out).astype(np.uint32).view(np.int32)
    return tests.copy(), np.broadcast_to(exits, tests.shape).copy(), entry.copy(), np.zeros(n_trees, np.int32)


def tall_top(trees: Trees) -> Top | None:
    """Return the top that holds the tallest nodes of ``trees`` (`tallest`), cached; None for traced trees."""
    if not is_concrete(trees):
        return None
    return _TOPS.get((trees.child,), None, lambda: Top(*jax.device_put(tallest(np.asarray(trees.child)))))


_TOPS: KeptWhileAlive[Top] = KeptWhileAlive()
"""Cache of `tall_top`, by the array of children: several combiners may be bound to one forest."""


def compact(trees: Trees) -> CompactTrees:
    """Return ``trees`` with each test of intervals as one node, cached; trees with forks, or traced ones, unchanged."""
    if not is_concrete(trees) or trees.forks is not None:
        return CompactTrees(trees)
    compact_trees = _COMPACT.get(_arrays(trees), trees.columns, lambda: _compact(trees, interval_tests(trees)))
    return CompactTrees(trees) if compact_trees is None else compact_trees


_COMPACT: KeptWhileAlive[CompactTrees | None] = KeptWhileAlive()
"""Cache of `_compact`. For trees that stay as they are it holds None, so that it does not keep them alive."""


def _compact(trees: Trees, tests: IntervalTests | None) -> CompactTrees | None:
    """Return ``trees`` in which each test of intervals is one node, if its set is kept (`_count_sets`).

    ``tests`` are the trees' tests of intervals. Returns None if there are none, or if no set is kept.
    """
    if tests is None or not len(tests.tree):
        return None
    feature, threshold, child, missing_right, _ = (np.array(array) for array in _arrays(trees))
    bit = np.full_like(child, WHOLE)
    column_of_test = feature[tests.tree, tests.node]
    columns = np.unique(column_of_test)
    sets = [column_sets(tests, np.flatnonzero(column_of_test == column)) for column in columns.tolist()]
    n_sets = _count_sets(sets, trees.n_trees)
    if not any(n_sets):
        return None
    # Each test of a set that is kept becomes one node, which reads a bit of a word.
    tables = [_words(column_set.goes_right[:n_kept]) for column_set, n_kept in zip(sets, n_sets, strict=True)]
    first_word = np.cumsum([0, *map(len, tables)])
    for column_set, n_kept, word_offset in zip(sets, n_sets, first_word[:-1].tolist(), strict=True):
        is_kept = column_set.number < n_kept
        test = column_set.test[is_kept]
        word, bit_number = np.divmod(column_set.number[is_kept], BITS)
        nodes = tests.tree[test], tests.node[test]
        feature[nodes] = trees.n_features + word_offset + word
        bit[nodes] = bit_number
        child[nodes] = tests.child[test]
        # The bit, read from the word, is larger than the threshold 0 if it is set. A word is never missing.
        threshold[nodes] = 0
        missing_right[nodes] = False
    # Nodes to which no path leads any more are left out, so that the nodes of a walk lie together.
    arrays_and_fillers = [(feature, 0), (threshold, NAN_LAST), (missing_right, False), (bit, WHOLE)]
    node, child, (feature, threshold, missing_right, bit) = _keep_reached(child, arrays_and_fillers)
    heights, _ = _heights(child)
    tree_depth = heights[:, 0]  # the root's height
    arrays = jax.device_put((feature, threshold, child, missing_right, tree_depth))
    node, bit = jax.device_put((node.astype(np.int32), bit))
    joined_sets = _join_words(columns, [column_set.border for column_set in sets], tables)
    return CompactTrees(Trees(*arrays, columns=trees.columns), node, bit, joined_sets)


def _keep_reached(
    child: np.ndarray, arrays_and_fillers: list[tuple[np.ndarray, Any]]
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return (nodes to which paths from the root lead, their `Trees.child`, arrays at these nodes): ``[trees kept]``.

    ``child`` is `Trees.child`, and the arrays are ``[trees nodes]``. All trees keep as many nodes; those with fewer are
    padded by leaves, at which each array has its filler.
    """
    reached = reached_nodes(child)
    n_kept = power_of_two(int(reached.sum(axis=1).max()), 64)  # few sizes, for few programs
    node = np.argsort(~reached, axis=1, kind="stable")[:, :n_kept]  # nodes that are reached first, in their order
    is_reached = np.take_along_axis(reached, node, axis=1)  # False for padding

    def pick_nodes(array: np.ndarray, filler: Any) -> np.ndarray:
        picked = np.where(is_reached, np.take_along_axis(array, node, axis=1), filler)
        return picked.astype(bool if picked.dtype == bool else np.int32)

    child_kept = np.take_along_axis(np.cumsum(reached, axis=1) - 1, child, axis=1)  # indices among the kept nodes
    child_kept = pick_nodes(child_kept, np.arange(node.shape[1]))  # a padding node is a leaf: its own child
    return node, child_kept, [pick_nodes(array, filler) for array, filler in arrays_and_fillers]


def _count_sets(sets: list[ColumnSets], n_trees: int) -> list[int]:
    """Return the number of sets that are kept, for each column: the sets of the first trees, of as many as fit.

    Their words and entries may be at most `MOST_WORDS` and `MOST_ENTRIES`. ``sets`` has the sets of each column.
    """
    last_tree = np.arange(n_trees)
    # The numbers of words [columns trees] and of entries [trees] that the sets of all trees up to each tree take.
    n_sets_up_to = [np.searchsorted(column_set.tree, last_tree, "right") for column_set in sets]
    n_words = np.array([-(-n_sets // BITS) for n_sets in n_sets_up_to])  # rounded up
    n_entries = np.array([column_set.goes_right.shape[1] for column_set in sets]) @ n_words
    # Both numbers grow with the last tree: so the trees up to which both fit are the first ones.
    n_kept_trees = np.count_nonzero((n_words.sum(axis=0) <= MOST_WORDS) & (n_entries <= MOST_ENTRIES))
    return [int(np.searchsorted(column_set.tree, n_kept_trees)) for column_set in sets]


def _words(goes_right: Bool[np.ndarray, "sets codes"]) -> Int32[np.ndarray, "words codes"]:
    """Return the words of one column's sets: bit j of word i tells whether set ``i * BITS + j`` sends a code right."""
    n_words = ceil_div(len(goes_right), BITS)
    n_codes = goes_right.shape[1]
    bits = np.zeros((n_words * BITS, n_codes), np.int32)
    bits[: len(goes_right)] = goes_right
    shifts = np.arange(BITS, dtype=np.int32)[:, None]
    return np.bitwise_or.reduce(bits.reshape(n_words, BITS, n_codes) << shifts, axis=1)


def _join_words(columns: np.ndarray, borders: list[np.ndarray], tables: list[np.ndarray]) -> Sets:
    """Return the sets of all ``columns``, given the borders and the words ``[words codes]`` (`_words`) of each."""
    row = np.repeat(np.arange(len(tables)), [len(table) for table in tables])  # [words]
    n_codes = np.array([table.shape[1] for table in tables])[row]
    start = np.cumsum(n_codes) - n_codes
    padding = (0, multiple_of(8, len(row)) - len(row))  # few sizes, which 4 divides (`keys_and_words`)
    row = np.pad(row, padding).astype(np.int32)
    start = np.pad(start, padding).astype(np.int32)
    n_entries = int(n_codes.sum())
    entries = np.zeros(power_of_two(n_entries), np.int32)
    entries[:n_entries] = np.concatenate([table.ravel() for table in tables])
    row_of_border = np.repeat(np.arange(len(borders)), list(map(len, borders)))
    joined_borders = Borders.of(row_of_border, np.concatenate(borders), columns)
    row, start, entries = jax.device_put((row, start, entries))
    return Sets(joined_borders, row, start, entries)


def _two_levels(child, depth, xp) -> Top:
    """Return the top of the first two levels of each tree: three tests, four exits.

    ``child`` and ``depth`` are `Trees.child` and `Trees.tree_depth`, arrays of the module ``xp``: NumPy or `jax.numpy`.
    If one of the three nodes is a leaf, its test goes left, and all exits below it lead to the leaf.
    """
    root = xp.zeros((len(child), 1), np.int32)

    def below(node):
        """Return the children of nodes ``[trees n]`` as ``[trees 2n]``; the children of a leaf are twice the leaf."""
        left = xp.take_along_axis(child, node, axis=1)
        return xp.stack([left, xp.where(left == node, left, left + 1)], axis=-1).reshape(len(child), -1)

    first_level = below(root)
    # Bits 31 to 28 are the four exits from the left. The root, if it goes right, rules out the first two of them. Each
    # of its children rules out the first of its own two exits.
    exits = ~np.array([0b1100 << 28, 0b1000 << 28, 0b0010 << 28], np.uint32)
    exits = xp.broadcast_to(exits.view(np.int32), (len(child), 3))
    return Top(xp.concatenate([root, first_level], axis=1), exits, below(first_level), xp.maximum(depth - 2, 0))


def _make_plan(arrays: tuple[Any, ...], top: Top | None, bit, *, n_features: int, missing: bool, xp: Any = jnp) -> Plan:
    """Return the plan of `make_plan`; ``arrays`` are those of `_arrays`, of the module ``xp``: NumPy or `jax.numpy`."""
    feature, threshold, child, missing_right, depth = arrays
    top = top or _two_levels(child, depth, xp)
    feature = xp.maximum(feature, 0)  # in an empty leaf it is negative, the number of its fork
    column = feature + n_features * missing_right.astype(np.int32) if missing else feature
    n_exits = top.entry.shape[1]
    place_bits = (n_exits + child.shape[1] - 1).bit_length()
    n_columns = n_features * (2 if missing else 1)
    # A node stores its column as the number `column_field`, which is below `n_fields`.
    column_field = column
    n_fields = n_columns
    if bit is not None:
        # Words are behind all copies of the data's columns. The lowest 5 bits of the field are the bit's number.
        column = xp.where(feature < n_features, column, feature + (n_columns - n_features))
        column_field = 32 * column + bit
        n_fields = 32 * (n_columns + MOST_WORDS)
    fits_in_word = n_fields <= 2 ** (32 - place_bits)  # beside the child's place
    second_word = (child + n_exits).astype(np.uint32)  # the child's place: nodes come behind the exits
    if fits_in_word:
        second_word |= column_field.astype(np.uint32) << np.uint32(place_bits)
    return Plan(
        nodes=_by_place(top.entry, pair_bits(threshold, second_word)),
        feature=None if fits_in_word else _by_place(top.entry, column_field),
        depth=depth,
        top=top,
        top_feature=xp.take_along_axis(column, top.tests, axis=1),
        top_key=xp.take_along_axis(threshold, top.tests, axis=1),
        top_mask=None if bit is None else mask_of(xp.take_along_axis(bit, top.tests, axis=1)),
    )


_plan_program = jit(_make_plan, static_argnames=("n_features", "missing"))


def _by_place(entry: Any, table: Any) -> Any:
    """Return a ``table [trees nodes]`` as one of places ``[trees places]``; ``entry`` is `Top.entry`."""
    xp: Any = np if isinstance(table, np.ndarray) else jnp
    return xp.concatenate([xp.take_along_axis(table, entry, axis=1), table], axis=1)


def padded_plan(plan: Plan, more: int) -> Plan:
    """Return ``plan`` with ``more`` trees behind its trees, each a single leaf."""
    zero = jnp.int32(0)
    largest_key = jnp.int32(2**31 - 1)
    feature = None if plan.feature is None else zero
    mask = None if plan.top_mask is None else zero
    # No key is larger than the largest one, so that every test goes left, to place 0. All places are alike.
    top = Top(tests=zero, exits=jnp.int32(-1), entry=zero, rest=zero)
    leaf = Plan(pair_bits(largest_key, jnp.uint32(0)), feature, zero, top, zero, largest_key, mask)

    def append_leaves(array, value):
        return jnp.concatenate([array, jnp.broadcast_to(value, (more, *array.shape[1:]))])

    return jax.tree.map(append_leaves, plan, leaf)


def column_keys(x: Float[Array, "instances features"], *, missing: bool) -> Int32[Array, "instances columns"]:
    """Return the order keys of instances ``x``, for plans that were made with the same ``missing``.

    With ``missing`` all columns come twice, NaN being the smallest value of the first copy and the largest of the
    second. Without it ``x`` must hold no NaN.
    """
    key = order_key(x)
    if not missing:
        return key
    # The order key of a NaN depends on its sign and payload, so both copies get a fixed key in its place.
    nan = jnp.isnan(x)
    return jnp.concatenate([jnp.where(nan, NAN_FIRST, key), jnp.where(nan, NAN_LAST, key)], axis=1)


def descend(
    nodes: Int64[Array, "places"],
    feature: Int32[Array, "places"] | None,
    n_places: int,
    place: Int32[Array, "..."],
    key_of: Callable[[Int32[Array, "..."]], Int32[Array, "..."]],
    *,
    with_sets: bool = False,
    for_child: Int64[Array, "places"] | None = None,
    for_column: Int64[Array, "places"] | None = None,
) -> Int32[Array, "..."]:
    """Return the place to which the test of the node at ``place`` leads, for each instance, within its tree.

    ``nodes`` and ``feature`` are those of a `Plan`, of one tree or flattened over several; ``place`` is an index into
    them. ``key_of`` takes a column for each instance, and returns the instance's key, or word, in that column.
    ``with_sets`` tells whether the plan's nodes test sets. ``for_child`` and ``for_column`` are copies of ``nodes``, to
    read the child and the column from (`walk_levels` and `walk_one` say why); None stands for ``nodes``.
    """
    as_integer = lambda number: lax.bitcast_convert_type(number, jnp.int32)  # free where XLA counts operations
    child_bits = (n_places - 1).bit_length()
    threshold, word = split_bits(take(nodes, place), jnp.int32, jnp.uint32)

    def read_word(nodes_copy):
        """Return the second half of the element at ``place``, read from a copy of ``nodes`` if there is one."""
        if nodes_copy is None:
            return word
        _, copied_word = split_bits(take(nodes_copy, place), jnp.int32, jnp.uint32)
        return copied_word

    if feature is None:
        column = as_integer(read_word(for_column) >> child_bits)
        child = read_word(for_child) & jnp.uint32(2**child_bits - 1)
    else:
        column = take(feature, place)
        child = read_word(for_child)
    # A right child lies behind the left one, and a leaf's threshold is beyond every key: this needs no branch.
    if not with_sets:
        return as_integer(child) + (key_of(column) > threshold).astype(jnp.int32)
    # The lowest 5 bits of ``column`` are the number of the word's bit.
    return as_integer(child) + ((key_of(column >> 5) & mask_of(column & 31)) > threshold).astype(jnp.int32)


def mask_of(bit: Int32[Array | np.ndarray, "..."]) -> Any:
    """Return an int32 for each number in ``bit``, with only the bit of this number set; for `WHOLE` all bits are."""
    mask = np.int32(1) << bit
    return mask | (mask >> 31)  # the shift copies a sign bit into all others


def tallest(child: Int32[np.ndarray, "trees nodes"]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the fields of a `Top`, in their order, whose tests are the nodes with the longest paths below them.

    ``child`` is `Trees.child`. Nodes to which several paths lead are not tests of the top.
    """
    n_trees, n_nodes = child.shape
    trees = np.arange(n_trees)[:, None]
    height, rank = _heights(child)
    # As many tests as the largest tree has, rounded up to few sizes, since programs are compiled for each size: the
    # exits, one more, are a power of two. No more than half of the nodes: in a binary tree fewer are tests.
    most_tests = np.count_nonzero(rank, axis=1).max(initial=1)
    n_tests = min(power_of_two(int(most_tests) + 1, 2) - 1, MOST_TESTS, max(1, n_nodes // 2))
    tests = np.argpartition(-rank, n_tests - 1, axis=1)[:, :n_tests]
    tests = np.take_along_axis(tests, np.argsort(-rank[trees, tests], axis=1), 1)  # parents come first
    inner = rank[trees, tests] > 0  # False for fillers, which are no tests
    children = child[trees, tests][..., None] + np.arange(2)
    # Whether a test is the left or right child of another: [trees parents sides tests].
    both_inner = inner[:, :, None] & inner[:, None]
    leads_to = (children[..., None] == tests[:, None, None]) & both_inner[:, :, None]
    # Each test has an interval of a line, by which the exits are sorted from the left.
    begin, half = _intervals(inner, leads_to)
    # A child that is not a test is an exit: it lies at the beginning of its half. Unused entries lie beyond the line.
    is_exit = inner[..., None] & ~leads_to.any(axis=3)
    beyond = 2**62  # where the line ends (`_intervals`)
    child_start = begin[..., None] + np.stack([np.zeros_like(half), half], axis=2)
    exit_start = np.where(is_exit, child_start, beyond).reshape(n_trees, -1)
    from_left = np.argsort(exit_start, axis=1)[:, : n_tests + 1]
    entry = np.take_along_axis(np.where(is_exit, children, 0).reshape(n_trees, -1), from_left, 1)
    exit_start = np.take_along_axis(exit_start, from_left, 1)[:, None]
    # A test that goes right rules out the exits in its left half.
    ruled_out = (exit_start >= begin[..., None]) & (exit_start < (begin + half)[..., None])
    exit_bit = np.uint32(1) << (31 - np.arange(n_tests + 1, dtype=np.uint32))
    exits = ~np.where(ruled_out, exit_bit, np.uint32(0)).sum(axis=2, dtype=np.uint32)
    # A tree with fewer exits has unused entries, beyond the line, which no instance takes.
    rest = np.where(exit_start[:, 0] < beyond, height[trees, entry], 0).max(axis=1)
    return np.where(inner, tests, 0).astype(np.int32), exits.view(np.int32), entry.astype(np.int32), rest


def _intervals(
    inner: Bool[np.ndarray, "trees tests"], leads_to: Bool[np.ndarray, "trees parents sides tests"]
) -> tuple[np.ndarray, np.ndarray]:
    """Return (begin, half length) of the interval of a line that belongs to each test, both int64 ``[trees tests]``.

    The root has the whole line, the left child of a test the first half of its parent's interval, the right child the
    second. So the intervals sort the exits from the left. ``inner`` is False for fillers, whose half length is 0.
    ``leads_to`` tells whether a test is the left or right child of another; parents come before their children.
    """
    n_trees, n_tests = inner.shape
    begin, half = np.zeros((2, n_trees, n_tests), np.int64)
    half[:, 0] = 2**61  # lengths are powers of two, exact for 31 tests below each other
    parent = leads_to.any(axis=2).argmax(axis=1)
    is_right = np.any(leads_to[:, :, 1], axis=1)
    for j in range(1, n_tests):
        above = np.arange(n_trees), parent[:, j]  # the test of each tree that leads to test j
        half[:, j] = half[above] // 2
        begin[:, j] = begin[above] + is_right[:, j] * half[above]
    return begin, np.where(inner, half, 0)


def _heights(child: Int32[np.ndarray, "trees nodes"]) -> tuple[np.ndarray, np.ndarray]:
    """Return (height, rank) of each node, both ``[trees nodes]``; ``child`` is `Trees.child`.

    The height is the number of tests on the longest path from the node to a leaf. It is 0 for nodes to which no path
    from the root leads. The rank is the height, but 0 for nodes to which several paths lead.
    """
    n_trees, n_nodes = child.shape
    # In this function a node's number is its index in the flattened arrays of all trees.
    level_nodes = np.arange(n_trees) * n_nodes  # at first the roots
    left_of = (child + level_nodes[:, None]).ravel()
    has_several_paths = has_several_parents(left_of)  # None if no node has two parents
    levels = []  # (inner nodes, their left children), from the roots down
    while level_nodes.size:
        left_child = left_of[level_nodes]
        is_inner = left_child != level_nodes
        inner = level_nodes[is_inner]
        left_child = left_child[is_inner]
        levels.append((inner, left_child))
        level_nodes = np.stack([left_child, left_child + 1], axis=1).ravel()
        if has_several_paths is not None:
            has_several_paths[level_nodes] |= has_several_paths[inner].repeat(2)
            level_nodes = np.unique(level_nodes)  # a node with several parents came once for each
    height = np.zeros(child.size, np.int32)
    for inner, left_child in reversed(levels):
        height[inner] = 1 + np.maximum(height[left_child], height[left_child + 1])
    rank = height if has_several_paths is None else np.where(has_several_paths, 0, height)
    return height.reshape(child.shape), rank.reshape(child.shape)
