"""Growth of random decision trees: a sample is encoded, blocks of trees are grown on all cores, and joined."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._checks import check_integer, check_key, check_one_of, is_concrete
from jaxunc._numerics import (
    NAN_LAST,
    ceil_div,
    cores,
    default_platform,
    distinct_rows,
    jit,
    multiple_of,
    own_settings,
    padded_table,
    power_of_two,
    split_words,
)
from jaxunc.forest import Forest, Forks, Trees
from jaxunc.tables import InstancesLike, LabelsLike, NominalLike, NumbersLike

from ._sample import EncodedSample, encode
from ._state import BlockNodes, Limits, Shape
from ._step import MISSING_LEFT, grow_block, tree_keys

_LARGE_WIDTH, _WIDTH_STEP = 2**17, 2**14  # largest width that is a power of two; step of larger widths


@dataclass
class TreeBlock:
    """The trees of a block on the host, cut to the size of the largest tree."""

    arrays: dict[str, np.ndarray]
    """Arrays ``[trees nodes]``: those of `Trees` by name, and ``code``, rows of ``table``. `join_blocks` pops them."""
    table: np.ndarray
    """The distinct rows of class counts of the nodes, ``[rows classes]``."""
    depth: np.ndarray
    forks: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    """Multi-way tests: the tree of each, its number of children, and the children's numbers, test by test.

    None if no feature is nominal.
    """


def read_block(shape: Shape, nodes: BlockNodes, leaves, n_live: int, sample: EncodedSample) -> TreeBlock:
    """Return the first ``n_live`` trees of a block on the host; `grow_block` returned ``nodes`` and ``leaves``."""
    n_nodes = np.asarray(nodes.n_nodes)[:n_live]
    width = int(n_nodes.max())
    device_arrays = _make_arrays(
        shape, nodes, jnp.asarray(sample.order, jnp.int32), jnp.asarray(sample.boundaries), sample.data.n_numeric
    )
    # On a CPU these are views, and a view of a small part would keep the whole block.
    to_host = np.asarray if 2 * width > shape.n_nodes else np.array
    arrays = {name: to_host(np.asarray(array)[:n_live, :width]) for name, array in device_arrays.items()}
    counts = _count_nodes(shape, leaves, sample).reshape(shape.n_trees, shape.n_nodes, shape.n_classes)[:n_live, :width]
    if np.any(n_nodes == 1):  # a root that was never open holds the sample
        counts = np.array(counts)
        counts[n_nodes == 1, 0] = sample.totals
    table, code = distinct_rows(counts.reshape(-1, shape.n_classes))
    arrays["code"] = code.reshape(n_live, width)
    forks = None
    if shape.n_words:
        arrays["feature"], forks = _find_forks(arrays["feature"], arrays.pop("top"), arrays.pop("empty"))
    return TreeBlock(arrays, table, np.asarray(nodes.depth)[:n_live], forks)


def _count_nodes(shape: Shape, leaves, sample: EncodedSample) -> np.ndarray:
    """Return the class counts of all nodes of a block ``[slots*classes]``; a slot is one node in one tree.

    ``leaves`` are these counts already or, if weights are fractions, the lanes in leaves (a lane is one instance in one
    tree): then the weights of ``sample`` are summed here, in float64.
    """
    if sample.data.weight is not None:
        return np.asarray(leaves)
    # Cells are numbered by slot and class, beyond int32 in large blocks.
    instance, slot = (np.asarray(array, np.int64) for array in leaves)
    is_in_leaf = slot >= 0
    instance, slot = instance[is_in_leaf], slot[is_in_leaf]
    cell = slot * shape.n_classes + np.asarray(sample.data.label)[instance]
    counts = np.bincount(cell, sample.weight[instance], shape.n_trees * shape.n_nodes * shape.n_classes)
    return counts.astype(jnp.result_type(float))


def _find_forks(feature: np.ndarray, top: np.ndarray, empty: np.ndarray):
    """Return (``feature`` with -1 - k at the empty leaves of multi-way test k, `TreeBlock.forks`).

    ``top`` has, for a child or an empty leaf of a multi-way test, the node with the first of the test's binary cuts; -1
    elsewhere. ``empty`` is True for empty leaves. The arguments are ``[trees nodes]``.
    """
    n_nodes = top.shape[1]

    def find(flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (slots of the flagged nodes, slot of the first cut of each one's multi-way test)."""
        slot = np.flatnonzero(flags)  # the slots of a tree begin at a multiple of ``n_nodes``
        return slot, top.ravel()[slot] + slot // n_nodes * n_nodes

    child, first_cut = find((top >= 0) & ~empty)
    # Every multi-way test has two children or more, so its first cut is among those of the children.
    is_first_cut = np.zeros(top.size, bool)
    is_first_cut[first_cut] = True
    test_number = np.cumsum(is_first_cut, dtype=np.int32) - 1  # by the slot of the test's first cut
    feature = np.array(feature)
    empty_leaf, cut_of_empty = find(empty)
    feature.ravel()[empty_leaf] = -1 - test_number[cut_of_empty]
    tree = (np.flatnonzero(is_first_cut) // n_nodes).astype(np.int32)
    test_of_child = test_number[first_cut]
    # Test after test; the children of one test stay in the order of their nodes.
    children = (child % n_nodes).astype(np.int32)[np.argsort(test_of_child, kind="stable")]
    return feature, (tree, np.bincount(test_of_child), children)


@jit(static_argnums=0)
def _make_arrays(shape: Shape, block: BlockNodes, order, boundaries, n_numeric) -> dict[str, jax.Array]:
    """Return the arrays of `Trees` by name, ``[trees nodes]``, from the nodes of a block.

    If a feature is nominal, there are also ``top`` and ``empty``, which `_find_forks` reads. ``order`` and
    ``boundaries`` are those of `EncodedSample`; ``n_numeric`` is the number of numeric features, which come first.
    """
    node_number = jnp.arange(shape.n_trees * shape.n_nodes, dtype=jnp.int32) % shape.n_nodes
    threshold, left = split_words(block.test, jnp.int32, jnp.int32)
    is_inner = left >= 0
    missing_right = block.feature < MISSING_LEFT  # the flag is larger than any feature's number
    feature = jnp.where(missing_right, block.feature, block.feature - MISSING_LEFT)
    arrays = {
        "feature": jnp.where(is_inner, order[feature], 0),
        "threshold": threshold,
        "child": jnp.where(is_inner, left, node_number),
        "missing_right": missing_right,
    }
    if shape.n_words:
        # Cuts of ranks become cuts of values: the threshold is the order key of the last value that goes left.
        rank = jnp.where(is_inner & (feature >= n_numeric), threshold, -1)  # -1: no test of a nominal feature
        edge = boundaries[feature, jnp.maximum(rank, 0)]
        arrays["threshold"] = jnp.where(rank >= 0, edge, threshold)
        top, size = split_words(block.member, jnp.int32, jnp.int32)
        arrays["top"] = top
        arrays["empty"] = (top >= 0) & (size == 0)
    return {name: array.reshape(shape.n_trees, shape.n_nodes) for name, array in arrays.items()}


def join_blocks(blocks: list[TreeBlock], sample: EncodedSample) -> Forest:
    """Return the forest of the trees of all blocks, grown on ``sample``; blocks lose their arrays, to save memory."""
    width = max(block.arrays["child"].shape[1] for block in blocks)
    # Widths that are powers of two let forests share programs, but would waste gigabytes for large trees.
    width = power_of_two(width, 64) if width <= _LARGE_WIDTH else multiple_of(_WIDTH_STEP, width)
    rows = np.concatenate(
        [np.zeros((1, len(sample.labels)), blocks[0].table.dtype), *(block.table for block in blocks)]
    )
    table, table_row = distinct_rows(rows)  # row 0 is the zero vector: counts are not negative
    table_row = table_row.astype(np.int32)
    first_row = 1  # of the block; row 0 is no block's
    for block in blocks:
        block.arrays["code"] = table_row[first_row : first_row + len(block.table)][block.arrays["code"]]
        first_row += len(block.table)
    depth = np.concatenate([block.depth for block in blocks])

    def stack_arrays(name: str, beyond) -> jax.Array:
        """Return the array ``name`` of all trees, ``[trees width]``, and remove it from the blocks.

        ``beyond``, a number or an array ``[width]``, fills the entries behind a tree's nodes.
        """
        stack = _allocate_aligned((len(depth), width), blocks[0].arrays[name].dtype)
        begin = 0
        for block in blocks:
            array = block.arrays.pop(name)
            n_trees, n_nodes = array.shape
            rows = stack[begin : begin + n_trees]
            rows[:, :n_nodes] = array
            rows[:, n_nodes:] = np.broadcast_to(beyond, width)[n_nodes:]
            begin += n_trees
        return jax.device_put(stack, may_alias=True)

    forks = _join_forks(blocks)
    trees = Trees(
        feature=stack_arrays("feature", 0),
        threshold=stack_arrays("threshold", NAN_LAST),
        child=stack_arrays("child", np.arange(width)),
        missing_right=stack_arrays("missing_right", beyond=True),
        tree_depth=jnp.asarray(depth),
        columns=sample.columns,
        forks=forks,
    )
    total = sample.totals.sum()
    return Forest(
        trees=trees,
        count_table=padded_table(table),
        code=stack_arrays("code", 0),
        prior=jnp.asarray(sample.totals / total, jnp.result_type(float)),
        n_samples=jnp.asarray(total, jnp.result_type(float)),
        class_labels=sample.labels,
    )


def _allocate_aligned(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Return an uninitialised array, at an address at which JAX uses it on a CPU without a copy."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(n_bytes + 64, np.uint8)
    # JAX shares the memory of arrays at addresses that are multiples of 64, and copies all others.
    return raw[-raw.ctypes.data % 64 :][:n_bytes].view(dtype).reshape(shape)


def _join_forks(blocks: list[TreeBlock]) -> Forks | None:
    """Return all blocks' multi-way tests, numbered anew, in the blocks' ``feature``, too; None if there are none."""
    trees, sizes, members = [], [], []
    n_forks = n_trees = 0
    for block in blocks:
        if block.forks is not None:
            tree, n_members, children = block.forks
            feature = block.arrays["feature"]
            feature[feature < 0] -= n_forks  # an empty leaf has -1 - k for test k: of its block, then of all blocks
            trees.append(tree + n_trees)
            sizes.append(n_members)
            members.append(children)
            n_forks += len(tree)
        n_trees += len(block.depth)
    if not n_forks:
        return None
    first = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    arrays = np.concatenate(trees), first, np.concatenate(members)
    return Forks(*(jnp.asarray(array, jnp.int32) for array in arrays))


BLOCK_LANES, LARGEST_BLOCK = 2**19, 256
"""Largest number of instances × trees, and of trees, in a block."""

SMALLEST_BLOCK = 2**16
"""Smallest number of instances × trees that is worth a thread."""

LANE_CHUNK, NODE_CHUNK, SMALLEST_CHUNK = 2**13, 2**10, 256
"""Sizes of chunks on a CPU. XLA would cut the gathers of more nodes in two, at a loss."""

MOST_CELLS = 2**28
"""Largest number of nodes × values that are counted in one step."""

NO_LIMIT = 2**30
"""Stand-in for a limit of depth or size that no tree reaches."""


def grow_random_trees(
    key: jax.Array,
    X: InstancesLike,
    y: LabelsLike,
    *,
    n_trees: int = 100,
    min_samples_leaf: int = 1,
    min_samples_split: int = 2,
    max_depth: int | None = None,
    nominal: NominalLike | None = None,
    sample_weight: NumbersLike | None = None,
    missing: str = "error",
) -> Forest:
    """Grow random decision trees: every tree on the whole sample, every test drawn without regard to the labels.

    Parameters
    ----------
    key
        A typed key, ``jax.random.key(seed)``. The trees do not depend on the backend or the number of cores, and tree i
        does not depend on ``n_trees``.
    X
        Instances ``[instances features]`` (NumPy, JAX or pandas): numbers, used as float32, and what ``nominal`` names.
    y
        Labels ``[instances]``, two classes or more.
    n_trees
        Number of trees, ≥ 1.
    min_samples_leaf
        A test is accepted if both sides (of a multi-way test: the two largest children) have this many instances; ≥ 1.
    min_samples_split
        Nodes with fewer instances are leaves; ≥ 1.
    max_depth
        Nodes at this depth are leaves, where a multi-way test counts once; ≥ 0, None for no limit.
    nominal
        The nominal features, tested at most once on a path, with a child for each value: bools ``[features]``, names,
        positions or ``"auto"``. Levels are found as by `jaxunc.tables.fit_columns`; a missing value is one of them.
        Where bools name a column of numbers, these are codes already (integers of at most 2²⁴). Default: none.
    sample_weight
        Weight of each instance in the leaves, ≥ 0. Weights do not change the tests, but an instance of weight 0 is left
        out altogether.
    missing
        ``"error"`` refuses missing numbers (NaN). ``"random"`` sends them to a side that is drawn for each node, in
        growth and in prediction. A missing value cannot be a threshold: a try that draws one fails.

    Returns
    -------
    Forest
        Trees that are grown as far as the limits allow. An instance whose value was absent from a node ends in an empty
        leaf. It gets the sum of the counts that it reaches through the leaf's siblings: see
        `Forest.with_empty_leaves`. A sample smaller than ``min_samples_split``, or with constant features alone, gives
        trees of a single leaf.

    Raises
    ------
    TypeError
        If ``key`` is not a typed key, an argument is traced (by ``jit``, ``vmap`` or ``grad``), or a feature that is
        not nominal does not hold numbers.
    ValueError
        If X holds infinite numbers, NaN where that is refused (always among codes), or codes that are not integers. If
        y has a single class, ``nominal`` does not fit X, lengths differ, or a parameter is out of range.

    Warns
    -----
    MergedValuesWarning
        If float32 cannot tell more than 1 % of a column's distinct values from others.

    Notes
    -----
    A node has as many tries as there are features. Each draws a feature uniformly from the numeric ones and the nominal
    ones not yet drawn on the path. A numeric test sends ``x < t`` or ``x <= t`` to the left, either with probability ½.
    The threshold t is the value of an instance drawn uniformly from the node's sample. The first accepted test is used;
    if none is, the node is a leaf. A pure node is split like any other. ``min_samples_leaf=0`` of the published code is
    refused: it would accept tests with an empty side, without end.

    Numbers are drawn by Threefry from (key, tree, node, try). Not traceable.

    References
    ----------
    Busch et al. 2021, section 2.1 and published code.

    Examples
    --------
    >>> import jax, jaxunc as ju
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = ju.random_trees.grow_random_trees(jax.random.key(0), X, y, n_trees=10, min_samples_leaf=3)
    >>> ju.bind(forest, ju.Pooling()).probability(X[:5]).shape
    (5, 3)
    """
    if not is_concrete(key, X, y, sample_weight):
        raise TypeError(
            "key, X, y or sample_weight is traced: trees are grown by programs of their own, whose sizes depend on the "
            "data. Call grow_random_trees outside of jit, vmap and grad: in a loop over keys, or with more n_trees."
        )
    check_key(key)
    check_integer("n_trees", n_trees, 1)
    check_integer("min_samples_leaf", min_samples_leaf, 1, ": 0 would accept empty sides, and growing need not end")
    check_integer("min_samples_split", min_samples_split, 1)
    if max_depth is not None:
        check_integer("max_depth", max_depth, 0)
    check_one_of("missing", missing, ("error", "random"))
    sample = encode(X, y, nominal, sample_weight, missing)
    n = sample.n_present
    # In a smaller node no test has two sides that are large enough.
    min_split = min(max(min_samples_split, 2 * min_samples_leaf), NO_LIMIT)
    depth_limit = NO_LIMIT if max_depth is None else min(max_depth, NO_LIMIT)
    limits = Limits(jnp.int32(min(min_samples_leaf, NO_LIMIT)), jnp.int32(min_split), jnp.int32(depth_limit))
    # Blocks fill their arrays, which are powers of two, and are of like size.
    n_blocks = ceil_div(n_trees, max(1, min(BLOCK_LANES // n, LARGEST_BLOCK)))
    n_blocks = max(n_blocks, min(_count_threads(), n_trees * n // SMALLEST_BLOCK))
    size = ceil_div(n_trees, n_blocks)  # number of trees in a block
    make_shape = partial(
        _choose_shape, sample, min_samples_leaf=min_samples_leaf, min_split=min_split, missing=missing == "random"
    )
    # Where nominal features have many values, fewer trees at a time.
    while size > 1 and make_shape(size).n_cells > MOST_CELLS // min(_count_threads(), ceil_div(n_trees, size)):
        size = ceil_div(size, 2)
    shape = make_shape(size)
    _check_cells(shape, sample)
    present = jnp.asarray(sample.present)

    def grow(first: int) -> TreeBlock:
        """Return the block of trees from tree ``first`` on; the last block may be smaller than the others."""
        n_live = min(size, n_trees - first)
        words = tree_keys(key, first, shape.n_trees)
        with own_settings():
            nodes, leaves = grow_block(shape, sample.data, limits, words, present, jnp.int32(n), jnp.int32(n_live))
        return read_block(shape, nodes, leaves, n_live, sample)

    first_trees = range(0, n_trees, size)
    n_threads = min(_count_threads(), len(first_trees), MOST_CELLS // max(shape.n_cells, 1))
    if n_threads == 1:
        return join_blocks([grow(first) for first in first_trees], sample)
    with ThreadPoolExecutor(n_threads, thread_name_prefix="jaxunc") as pool:
        return join_blocks(list(pool.map(grow, first_trees)), sample)


def _choose_shape(sample: EncodedSample, n_trees: int, min_samples_leaf: int, min_split: int, missing: bool) -> Shape:
    """Return the `Shape`, the sizes of all arrays, of a block of ``n_trees`` trees that are grown on ``sample``.

    ``min_samples_leaf`` is that of `grow_random_trees`, and nodes of fewer than ``min_split`` instances are leaves;
    ``missing`` says whether numeric values may be missing.
    """
    n = sample.n_present
    n_nominal = int(np.count_nonzero(sample.data.n_ranks))
    n_lanes = power_of_two(max(n_trees * n, SMALLEST_CHUNK))
    # A node that draws a test has so many instances or more, a power of two. Parts of a multi-way test, which stay open
    # until all its ranks are cut apart, may have a single one.
    least_open = 1 << (min(min_split, power_of_two(n)).bit_length() - 1)
    n_open = max(power_of_two(n_trees), n_lanes // (1 if n_nominal else least_open), SMALLEST_CHUNK)
    # If children need several instances, a node counts those of each rank of the feature that it draws, in a cell each.
    n_ranks = sample.boundaries.shape[1] if n_nominal and min_samples_leaf > 1 else 0
    n_cells = n_ranks * (n_lanes // least_open)
    in_chunks = default_platform() == "cpu"
    lane_chunk = min(n_lanes, LANE_CHUNK) if in_chunks else n_lanes
    return Shape(
        n_trees=power_of_two(n_trees),
        # Leaves are at most n / min_samples_leaf, all nodes twice as many. With nominal features, children that have
        # instances are fewer than 2 n. Each has at most two cuts of ranks beside its own, and a cut makes two nodes.
        n_nodes=power_of_two(max(8 * n if n_nominal else 2 * (n // min_samples_leaf), 64)),
        n_lanes=n_lanes,
        n_open=n_open,
        n_cells=power_of_two(max(n_cells, lane_chunk)) if n_cells else 0,
        n_classes=len(sample.labels),
        n_words=ceil_div(n_nominal, 32),
        missing=missing,
        lane_chunk=lane_chunk,
        node_chunk=min(n_open, NODE_CHUNK) if in_chunks else n_open,
    )


def _check_cells(shape: Shape, sample: EncodedSample) -> None:
    """Raise a ValueError if a step of a block of this ``shape`` would count more nodes × values than `MOST_CELLS`."""
    if shape.n_cells > MOST_CELLS:
        raise ValueError(
            f"nominal: a feature has {sample.boundaries.shape[1]} values and gaps among {sample.n_present} instances, "
            "too many to count in every node. Merge rare values, treat the feature as numeric, or set "
            "min_samples_leaf=1."
        )


def _count_threads() -> int:
    """Return how many blocks are grown at a time: one for each core of a CPU; 1 on another device."""
    # A loop in a program of JAX runs on one core.
    return cores() if default_platform() == "cpu" else 1
