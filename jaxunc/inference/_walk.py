"""Walking instances to their leaves, in the way that suits the backend (`jaxunc.inference` explains the words).

* *blocks* (CPU): one tree at a time over a block of instances that stays in the cache, each tree to its own depth.
* *levels* (GPU, TPU): all trees at once, one level per kernel; blocks are as large as `DEVICE_BYTES` allows.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int32, PyTree, Shaped

from jaxunc._checks import is_concrete
from jaxunc._numerics import default_platform, take, take_rows, varying_as
from jaxunc.forest import Trees

from ._plan import PIECE, Borders, Plan, Sets, column_keys, descend

BLOCKS = (2048, 1024, 512, 256)
"""Sizes of a block on a CPU, in instances: the largest is taken whose keys stay below `SPLIT_BYTES`."""
CHUNK_BLOCKS = 8
"""Number of blocks of the largest size in a large call on the host."""

SPLIT_BYTES = 2**19
"""XLA on CPU splits operations of more bytes over its threads, at a loss; a gather touches its whole operand."""

FEW, FEW_PAIRS = 64, 2**17
"""Most instances of a block, and most pairs of an instance and a tree, with which a CPU walks all trees at once."""

LEAST_TOGETHER = 32
"""Fewest instances that a CPU walks together; fewer are walked one by one (`walk_one`), or in a `small_block`."""

CHEAP_TREES, CHEAP_COLUMNS = 32, 32
"""Number of trees that one instance walks at a time, and of columns whose keys are made at a time. XLA on CPU runs a
program in the calling thread if it counts fewer than 1000 operations, those of a loop once. Handing it to another
thread takes longer than walking 100 trees."""

GAP = 16
"""Number of unused entries between two rows of keys. Rows at a distance of a multiple of 4096 bytes compete for the
same lines of a cache, which holds eight such rows. Tests at the top would take twice as long."""

TILE = 256
"""Number of instances whose keys are transposed at a time: their rows stay in the cache while columns are read."""

GAP_OF_CODES = 64
"""Number of unused entries between two rows of codes, for the reason of `GAP`. They fill a cache line even where codes
are bytes (`jaxunc.additive`)."""

DEVICE_BYTES = 950_000_000
"""Most bytes that one block may take for its intermediate values on an accelerator."""


Walk = Literal["blocks", "levels"]


def default_walk() -> Walk:
    """Return the walk that suits the default backend."""
    return "blocks" if default_platform() == "cpu" else "levels"


def walks_at_once(block: int, n_trees: int) -> bool:
    """Return whether a CPU walks all ``n_trees`` trees at once, not one by one, for a block of ``block`` instances."""
    return block <= FEW and block * n_trees <= FEW_PAIRS


def unrolled_depth(walk: Walk, trees: Trees) -> int:
    """Return the number of levels of ``trees`` that a walk unrolls: in "levels" all, -1 if traced; in "blocks" 0."""
    if walk == "blocks":
        return 0
    return trees.depth if is_concrete(trees.tree_depth) else -1


def block_size(walk: Walk, n_trees: int, n_columns: int, n_instances: int = BLOCKS[0], small_block: int = 1) -> int:
    """Return the number of instances of a block, for a batch of ``n_instances`` and ``n_trees`` trees.

    ``n_columns`` is the number of keys and words of an instance. In the walk "blocks" a block is at most as large as
    the batch; for a batch of fewer than `LEAST_TOGETHER` instances it has at most ``small_block``. The walk "levels"
    ignores the size of the batch.
    """
    if walk == "levels":
        # An instance takes 12 bytes a tree (a place, and the 8 bytes gathered for it), and 4 bytes for each key.
        return max(1, DEVICE_BYTES // (12 * n_trees + 4 * n_columns))
    if n_instances < LEAST_TOGETHER:
        return min(n_instances, small_block)
    # Trees come one by one: only the keys and the state of one walk, 4 numbers an instance, count.
    size = next((size for size in BLOCKS if 4 * size * (n_columns + 4) < SPLIT_BYTES), BLOCKS[-1])
    return min(size, n_instances)


def by_column(
    keys: Int32[Array, "block columns"], sets: Sets | None = None, *, missing: bool = False
) -> Int32[Array, "rows row"]:
    """Return ``keys`` as `walk_tree` takes them: a row for each column, with `GAP` unused entries behind the block's.

    ``keys`` are those of `column_keys`, made with the same ``missing``. Rows for the words of ``sets`` follow, if any.
    """
    block, n_columns = keys.shape
    n_rows = n_columns + (0 if sets is None else len(sets.row))

    def write(rows, start, _):
        """Return ``rows`` with the keys of a tile of instances, from ``start`` on, written."""
        tile = lax.dynamic_slice_in_dim(keys, start, min(TILE, block))
        # Keys are transposed, then written: a pad, or what the compiler makes one, took twice as long.
        return lax.dynamic_update_slice(rows, lax.optimization_barrier(tile.T), (0, start))

    blank_rows = lax.optimization_barrier(varying_as(keys, jnp.zeros((n_rows, block + GAP), keys.dtype)))
    rows = over_blocks(write, blank_rows, block, TILE)
    return rows if sets is None else _fill_in_words(rows, n_columns, block, sets, missing=missing)


def keys_and_words(
    keys: Int32[Array, "block columns"], sets: Sets, *, missing: bool
) -> Int32[Array, "block columns_and_words"]:
    """Return the ``keys`` of a block, and behind them, as further columns, the words of ``sets``.

    ``keys`` are those of `column_keys`, made with the same ``missing``.
    """
    block, n_columns = keys.shape
    n_words = len(sets.row)
    rows = jnp.concatenate([keys.T, jnp.zeros((n_words, block), jnp.int32)])
    together = n_words if block > 1 else 4  # few, as in `CHEAP_COLUMNS`; 4 divides the number of words
    return _fill_in_words(rows, n_columns, block, sets, missing=missing, together=together).T


def _fill_in_words(rows, n_columns: int, block: int, sets: Sets, *, missing: bool, together: int = 1):
    """Return ``rows`` with the words of ``sets`` filled in, a row for each word.

    The first ``n_columns`` rows hold the keys of ``block`` instances, made by `column_keys` with the same ``missing``.
    The words are written behind them: a word tells for each of its sets whether the set sends an instance right.
    ``together`` is the number of words that are looked up at a time; it divides their number.
    """
    # The larger of a missing value's two keys is beyond all borders: the second copy of a column has it.
    borders = sets.borders._replace(column=sets.borders.column + (n_columns // 2 if missing else 0))
    codes = codes_of(rows, block, borders)  # [rows of codes, block and gap]
    zero = jnp.uint32(0)

    def write(i, rows):
        """Return ``rows`` with ``together`` words filled in, from word ``i * together`` on."""
        start = lax.dynamic_slice_in_dim(sets.start, i * together, together)
        if together == 1:
            code = lax.dynamic_slice(codes, (sets.row[i].astype(jnp.uint32), zero), (1, block))
        else:
            word_index = (i * together + jnp.arange(together)).astype(jnp.int32)
            code = take_rows(codes, take(sets.row, word_index))[:, :block]
        words = take(sets.table, start[:, None] + code)
        return lax.dynamic_update_slice(rows, words, (n_columns + i * together, 0))

    return lax.fori_loop(0, len(sets.row) // together, write, rows)


def codes_of(keys: Int32[Array, "columns row"], block: int, borders: Borders) -> Int32[Array, "rows codes"]:
    """Return the codes of a block's values, a row for each row of ``borders``; `GAP_OF_CODES` zeros end each row.

    A code is the number of the row's borders that are below the value (`Borders`). Each row of ``keys`` has the keys of
    one column: ``block`` entries, and a gap behind them.
    """
    zero = jnp.uint32(0)  # unsigned, so that JAX adds no operations for negative indices
    column = borders.column.astype(jnp.uint32)
    row = borders.row.astype(jnp.uint32)

    def count(i, codes):
        """Return ``codes`` with the i-th piece counted: its row grows by the number of its borders below each value."""
        values = lax.dynamic_slice(keys, (column[row[i]], zero), (1, block))
        n_below = lax.dynamic_slice(codes, (row[i], zero), (1, block))
        for j in range(PIECE):
            n_below = n_below + (values > borders.border[i, j]).astype(jnp.int32)
        return lax.dynamic_update_slice(codes, n_below, (row[i], zero))

    no_codes = varying_as(keys, jnp.zeros((len(column), block + GAP_OF_CODES), jnp.int32))
    return lax.fori_loop(0, borders.number, count, no_codes)


def keys_of_one(x: Float[Array, "1 features"], *, missing: bool) -> Int32[Array, "1 columns"]:
    """Return the keys of one instance as `column_keys` does, but made `CHEAP_COLUMNS` keys at a time."""
    n_copies = 1 + missing
    n = x.shape[1]
    size = min(n, CHEAP_COLUMNS // n_copies)  # columns at a time

    def fill_in(copies, start, _):
        """Return ``copies [copies features]`` with the keys of ``size`` columns from ``start`` on filled in."""
        values = lax.dynamic_slice_in_dim(x, start, size, axis=1)
        keys = column_keys(values, missing=missing).reshape(len(copies), size)
        return lax.dynamic_update_slice_in_dim(copies, keys, start, axis=1)

    blank = varying_as(x, jnp.zeros((n_copies, n), jnp.int32))
    return over_blocks(fill_in, blank, n, size).reshape(1, -1)


def keys_of_few(x: Float[Array, "block features"], *, missing: bool) -> Int32[Array, "block columns"]:
    """Return the keys of few instances as `column_keys` does, but made instance by instance (`keys_of_one`)."""

    def write(keys, start, _):
        row = keys_of_one(lax.dynamic_slice_in_dim(x, start, 1), missing=missing)
        return lax.dynamic_update_slice_in_dim(keys, row, start, axis=0)

    blank = varying_as(x, jnp.zeros((len(x), (1 + missing) * x.shape[1]), jnp.int32))
    return over_blocks(write, blank, len(x), size=1)


def walk_tree(tree: Plan, keys: Int32[Array, "columns row"]) -> Int32[Array, "block"]:
    """Return the place of the leaf that each instance of a block reaches in one tree.

    ``tree`` is one tree's slice of a plan, without the axis of trees. ``keys`` are those of `by_column`.
    """
    # Gathers are from flat arrays, with indices in range: an index of two axes would be checked, which is slower.
    stride = keys.shape[1]
    n_places = tree.nodes.shape[0]
    instance = jnp.arange(stride - GAP, dtype=jnp.int32)
    flat_keys = keys.reshape(-1)
    with_sets = tree.top_mask is not None

    def key_of(column):
        return take(flat_keys, column * stride + instance)

    def step(_, place):
        return descend(tree.nodes, tree.feature, n_places, place, key_of, with_sets=with_sets)

    # A loop to this tree's depth, a traced bound, also if the top has all tests: the loop keeps the gather of values
    # out of the kernel of the tests, which uses vectors. A leaf is its own child, so that a shallow path waits there.
    # To end as soon as all instances have arrived was slower, and so was unrolling.
    return lax.fori_loop(0, tree.top.rest, step, _enter(tree, keys))


def walk_few(
    plan: Plan, keys: Int32[Array, "block columns"], sets: Sets | None = None, *, missing: bool = False
) -> Int32[Array, "trees block"]:
    """Return the leaf that each instance of a small block reaches in each tree, all trees walked together.

    A leaf is an index into the flattened ``[trees places]`` arrays of ``plan``. ``keys`` are those of `column_keys`,
    made with the same ``missing``. ``sets`` are those that nodes test, if any. To walk tree by tree would take longer:
    a step of a loop costs as much as hundreds of pairs of an instance and a tree.
    """
    block = len(keys)
    n_trees, n_places = plan.nodes.shape
    rows = by_column(keys, sets, missing=missing)
    stride = rows.shape[1]
    flat_keys = rows.reshape(-1)
    instance = jnp.arange(block, dtype=jnp.int32)
    down = _descend_flat(plan, lambda column: take(flat_keys, column * stride + instance))
    start = jnp.arange(n_trees, dtype=jnp.int32)[:, None] * n_places

    def enter_tree(_, tree):
        return None, _enter(tree, rows)

    _, entered = lax.scan(enter_tree, init=None, xs=plan)  # [trees block]
    rest = jnp.max(plan.top.rest, initial=0)
    return start + lax.fori_loop(0, rest, lambda _, place: down(start + place), entered)


def walk_one(
    plan: Plan, keys: Int32[Array, "1 columns"], tables: Sequence[Array] = ()
) -> tuple[Int32[Array, "trees"], list[Array]]:
    """Return (leaf that one instance reaches in each tree, entries of each table at these leaves), arrays ``[trees]``.

    Leaves are indices into the flattened ``[trees places]`` arrays of ``plan``; ``tables`` are further such arrays.
    ``keys`` are those of `column_keys`, behind which lie the words of sets if nodes test sets.

    As many trees are walked together as keep the program cheap (`CHEAP_TREES`). XLA on CPU never splits an update in
    place over threads: so leaves and entries are written by updates, in loops of unknown length (`_walk_in_place`). The
    two halves of a node are read from two copies of the nodes. From one copy XLA would read the larger half separately,
    and split that read over threads.
    """
    n_trees, n_places = plan.nodes.shape
    most_trees = CHEAP_TREES if plan.top_mask is None else CHEAP_TREES // 2  # tests of sets take more operations
    n_groups = -(-n_trees // most_trees)  # as few as possible, of about equal size
    size = -(-n_trees // n_groups)
    flat_keys = keys.reshape(-1)
    down = _descend_flat(plan, lambda column: take(flat_keys, column), copied=("child", "column"))
    flat_tables = [table.reshape(-1) for table in tables]

    def walk_group(i, out):
        """Return ``out``, which has the leaves and the entries of each table, with the i-th group of trees written."""
        first = jnp.minimum(i * size, n_trees - size)  # the last group may overlap the one before
        start = (first + jnp.arange(size, dtype=jnp.int32)) * n_places
        depth = jnp.max(lax.dynamic_slice_in_dim(plan.depth, first, size), initial=0)
        place = _walk_in_place(down, start, plan.n_exits, depth, keys)
        parts = [place, *(take(table, place) for table in flat_tables)]
        return [lax.dynamic_update_slice(whole, part, (first,)) for whole, part in zip(out, parts, strict=True)]

    # An entry of the table fills each blank array: JAX's 32-bit mode would make no zeros of 64 bits.
    blank = [jnp.zeros(n_trees, jnp.int32), *(lax.broadcast(table[0], (n_trees,)) for table in flat_tables)]
    zero = jnp.minimum(plan.depth[0], 0)  # 0, unknown to the compiler, which would unroll a loop of one step
    place, *values = lax.fori_loop(0, n_groups + zero, walk_group, varying_as(keys, blank))
    return place, values


def _walk_in_place(down: Callable, start: Int32[Array, "pairs"], entered, depth, keys) -> Int32[Array, "pairs"]:
    """Return the place of each pair of an instance and a tree after ``depth`` steps, as index in the flattened arrays.

    ``start`` is the index of the first place of each pair's tree. The walk begins at the place ``entered``: one for
    each pair, or one for all. ``down`` is the function of `_descend_flat`. The result varies between devices as
    ``keys`` do.

    Each step overwrites one array: the indices, and behind them the number of steps. So the whole walk is one chain of
    updates, which XLA does not split over threads.
    """
    n = len(start)

    def step(state):  # the last entry counts the steps
        index = start + down(state[:n])
        return lax.dynamic_update_slice(state, index, (0,)).at[n].add(1)

    first_state = jnp.concatenate([start + entered, jnp.zeros(1, jnp.int32)])
    last_state = lax.while_loop(lambda state: state[n] < depth, step, varying_as(keys, first_state))
    return last_state[:n]


def look_up_together(
    plan: Plan,
    keys: Int32[Array, "columns row"],
    first: Int32[Array, ""],
    number: int,
    table: Shaped[Array, "trees places"],
) -> Shaped[Array, "pairs_and_one"]:
    """Return the entries of ``table`` at the leaves that a small block reaches in ``number`` trees from ``first`` on.

    The result has an entry for each instance in the first tree, then in the next. A last entry, without a meaning, ends
    it, so that the others are written by an update. ``keys`` are those of `by_column`, but ``[columns 1]`` for one
    instance. If the plan ends before ``number`` trees, its last tree is repeated. As in `walk_one`, XLA splits nothing.
    """
    stride = keys.shape[1]
    n_trees, n_places = plan.nodes.shape
    block = max(stride - GAP, 1)  # the row of one instance has no gap
    flat_keys = keys.reshape(-1)
    tree = jnp.minimum(first + jnp.arange(number, dtype=jnp.int32), n_trees - 1)
    instance = jnp.tile(jnp.arange(block, dtype=jnp.int32), number)
    down = _descend_flat(plan, lambda column: take(flat_keys, column * stride + instance), copied=("child", "column"))
    if block == 1:  # from the root, since tests of the top are quick only for several instances side by side
        entered = jnp.int32(plan.n_exits)
        depth = jnp.max(take(plan.depth, tree))
    else:
        tops = plan._replace(nodes=None, feature=None)  # `_enter` reads the top alone
        depth = jnp.max(take(plan.top.rest, tree))

        def enter_tree(t):
            return _enter(jax.tree.map(lambda array: array[t], tops), keys)

        entered = lax.map(enter_tree, tree).reshape(-1)
    place = _walk_in_place(down, jnp.repeat(tree * n_places, block), entered, depth, keys)
    blank = jnp.zeros(number * block + 1, table.dtype)
    zero = jnp.minimum(first, 0)  # 0, unknown to the compiler
    return lax.dynamic_update_slice(blank, take(table.reshape(-1), place), (zero,))


def _descend_flat(plan: Plan, key_of: Callable, *, copied: Sequence[str] = ()) -> Callable:
    """Return the function that makes one step of many walks, in any trees of ``plan``, by `descend`.

    The function takes indices into the flattened ``[trees places]`` arrays, and returns for each the next place within
    its tree. ``key_of`` is as for `descend`. ``copied`` names what is read from a copy of the nodes: "child", "column".
    """
    n_places = plan.nodes.shape[1]
    nodes = plan.nodes.reshape(-1)
    with_sets = plan.top_mask is not None
    feature = None if plan.feature is None else plan.feature.reshape(-1)
    copies = {}  # keyword arguments of `descend`
    if copied:
        copies = dict.fromkeys([f"for_{field}" for field in copied], lax.optimization_barrier(nodes))

    def down(index):
        return descend(nodes, feature, n_places, index, key_of, with_sets=with_sets, **copies)

    return down


def _enter(tree: Plan, keys: Int32[Array, "columns row"]) -> Int32[Array, "block"]:
    """Return the exit by which each instance of a block leaves the top of one tree.

    Arguments are as for `walk_tree`. Each test of the top is made for all instances at once. A test that goes right
    rules out the exits below its left child. The instance leaves by the first exit that remains.
    """
    block = keys.shape[1] - GAP  # number of instances
    all_exits = varying_as(keys, lax.full((block,), -1, jnp.int32))
    remaining = all_exits
    for goes_right, exits in zip(_tests_of(tree, keys), _repeat_entries(tree.top.exits, block), strict=True):
        remaining = remaining & lax.select(goes_right, exits, all_exits)
    return lax.clz(remaining)  # the highest bit is the leftmost exit


def _tests_of(tree: Plan, keys: Int32[Array, "columns row"]) -> list[Bool[Array, "block"]]:
    """Return for each test of a tree's top which instances it sends right; arguments are as for `walk_tree`."""
    # The row of a test's column is sliced, without a gather.
    stride = keys.shape[1]
    block = stride - GAP  # number of instances; `GAP` unused entries end each row, for the cache
    flat_keys = keys.reshape(-1)
    # Unsigned, so that JAX adds no operations for negative indices.
    starts = lax.convert_element_type(tree.top_feature, jnp.uint32) * jnp.uint32(stride)
    rows = [
        lax.dynamic_slice(flat_keys, (lax.squeeze(start, (0,)),), (block,))
        for start in lax.split(starts, [1] * len(starts))
    ]
    if tree.top_mask is not None:
        rows = map(lax.bitwise_and, rows, _repeat_entries(tree.top_mask, block))
    return list(map(lax.gt, rows, _repeat_entries(tree.top_key, block)))


def _repeat_entries(array: Shaped[Array, "n"], block: int) -> list[Shaped[Array, "block"]]:
    """Return for each entry of ``array`` an array of length ``block`` that repeats the entry.

    Here and where the result is read, primitives of `jax.lax` stand in place of operators, which check and convert. A
    program of hundreds of operators takes twice as long to trace.
    """
    return [lax.broadcast_in_dim(entry, (block,), (0,)) for entry in lax.split(array, [1] * len(array))]


def select_leaves(
    tree: Plan, leaves: list[Shaped[Array, "exits"]], keys: Int32[Array, "columns row"]
) -> list[Shaped[Array, "block"]]:
    """Return for each column of ``leaves`` the value at the leaf that each instance reaches in one complete tree.

    The top of a complete tree has all its tests (`complete_top`), and a column has a value for the leaf behind each
    exit. ``tree`` and ``keys`` are as for `walk_tree`. The lowest level selects first: so neither a leaf's number nor a
    gather is needed, which would keep the compiler from using vectors.
    """
    block = keys.shape[1] - GAP  # number of instances
    goes_right = _tests_of(tree, keys)

    def select(column):
        # Tests are in the order of a heap: the lowest level has half as many as there are values.
        values = _repeat_entries(column, block)
        while len(values) > 1:
            level_tests = goes_right[len(values) // 2 - 1 : len(values) - 1]
            values = [lax.select(test, values[2 * i + 1], values[2 * i]) for i, test in enumerate(level_tests)]
        return values[0]

    return [select(column) for column in leaves]


def walk_levels(plan: Plan, keys: Int32[Array, "block columns"], depth: int) -> Int32[Array, "block trees"]:
    """Return the leaf that each instance reaches in each tree, all trees walked one level at a time.

    A leaf is an index into the flattened ``[trees places]`` arrays of ``plan``. ``keys`` are those of `column_keys`,
    behind which lie the words of sets if nodes test sets. ``depth`` is the number of levels (`unrolled_depth`), each of
    which is one kernel; -1 makes a loop with several kernels per level.

    For one kernel per level keys and nodes must exist before the first level, and each level must end before the next
    begins: the barriers see to that. The two halves of a node must be read from two copies of the nodes; the compiler
    joins the loads again.
    """
    block, n_columns = keys.shape
    n_trees, n_places = plan.nodes.shape
    flat_keys = lax.optimization_barrier(keys.reshape(-1))
    row_start = jnp.arange(block, dtype=jnp.int32)[:, None] * n_columns
    start = jnp.arange(n_trees, dtype=jnp.int32) * n_places
    down = _descend_flat(plan, lambda column: take(flat_keys, row_start + column), copied=("column",))
    step = lambda place: lax.optimization_barrier(down(start + place))
    place = varying_as(keys, jnp.full((block, n_trees), plan.n_exits, jnp.int32))
    if depth < 0:
        # The depth is traced: as many steps as the deepest tree has levels, since all trees advance together.
        return start + lax.fori_loop(0, jnp.max(plan.depth), lambda _, place: step(place), place)
    for _ in range(depth):
        place = step(place)
    return start + place


def walk_pairs(
    plan: Plan,
    keys: Int32[Array, "instances columns"],
    instance: Int32[Array, "pairs"],
    tree: Int32[Array, "pairs"],
    node: Int32[Array, "pairs"],
) -> Int32[Array, "pairs"]:
    """Return the leaf that each pair's ``instance`` reaches from the node ``node`` of ``tree``.

    Leaves are nodes of their trees, not places. ``keys`` are those of `column_keys`. Both ``plan`` and ``keys`` are for
    missing values, or neither is.
    """
    n_places = plan.nodes.shape[1]
    n_columns = keys.shape[1]
    flat_keys = keys.reshape(-1)
    down = _descend_flat(plan, lambda column: take(flat_keys, instance * n_columns + column))

    def step(carry):
        place, _ = carry
        below = down(tree * n_places + place)
        # A leaf is its own child: when nothing moves any more, all pairs have arrived.
        return below, jnp.any(below != place)

    def has_moved(carry):
        return carry[1]

    place, _ = lax.while_loop(has_moved, step, (node + plan.n_exits, jnp.array(True)))
    return place - plan.n_exits


def over_blocks(body: Callable, carry: PyTree, n_instances: int, size: int, number: Array | None = None) -> PyTree:
    """Return the last carry of ``carry = body(carry, start, first)``, called for each block of instances in order.

    A block is the instances ``start … start + size - 1`` of ``n_instances``. The last block is not padded but moved
    back to end with the instances; those before ``first`` were also in the block before. ``number`` is the number of
    blocks to go through, None for all. If it is given, ``size`` must divide ``n_instances``.
    """
    size = min(size, n_instances)
    n_blocks = -(-n_instances // size) if number is None else number
    if n_instances == size:
        return body(carry, 0, 0)

    def run_block(i, carry):
        return body(carry, jnp.minimum(i * size, n_instances - size), i * size)

    return lax.fori_loop(0, n_blocks, run_block, carry)
