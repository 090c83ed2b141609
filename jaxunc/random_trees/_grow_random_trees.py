"""Growth of random decision trees: `grow_random_trees` encodes a sample (`_sample.py`), grows blocks of trees
(`_step.py`), one on each core, and joins them to a forest (`_assemble.py`)."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._checks import check_integer, check_key, check_one_of, is_concrete
from jaxunc._numerics import ceil_div, cores, default_platform, own_settings, power_of_two
from jaxunc.forest import Forest
from jaxunc.tables import InstancesLike, LabelsLike, NominalLike, NumbersLike

from ._assemble import TreeBlock, join_blocks, read_block
from ._sample import EncodedSample, encode
from ._state import Limits, Shape
from ._step import grow_block, tree_keys

BLOCK_LANES, LARGEST_BLOCK = 2**19, 256
"""Largest number of instances × trees, and of trees, in a block."""

SMALLEST_BLOCK = 2**16
"""Smallest number of instances × trees that is worth a thread."""

LANE_CHUNK, NODE_CHUNK, SMALLEST_CHUNK = 2**13, 2**10, 256
"""Sizes of chunks on a CPU. XLA would cut the gathers of more nodes in two, at a loss."""

MOST_CELLS = 2**28
"""Largest number of nodes × values that are counted in one step."""

NO_LIMIT = 2**30


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
    """Grow random decision trees: every tree on the whole sample, every test drawn without a look at the labels.

    Parameters
    ----------
    key
        A typed key, ``jax.random.key(seed)``. It alone determines the trees, whatever the backend and the number of
        cores; tree i is the same whatever ``n_trees``.
    X
        Instances ``[instances features]`` (NumPy, JAX or pandas): numbers, used as float32, and what ``nominal`` names.
    y
        Labels ``[instances]``, two classes or more.
    n_trees
        Number of trees, ≥ 1.
    min_samples_leaf
        A test is accepted if both its sides (of a multi-way test: its two largest children) have as many instances,
        ≥ 1.
    min_samples_split
        Nodes with fewer instances are leaves; ≥ 1.
    max_depth
        Nodes that many tests deep are leaves, a multi-way test counting once; ≥ 0, None for no limit.
    nominal
        The nominal features, tested at most once on a path, with a child for each value: bools ``[features]``, names,
        positions or ``"auto"``. Levels are found as by `jaxunc.tables.fit_columns`; a missing value is one of them.
        Where bools name a column of numbers, these are codes already (integers of at most 2²⁴). Default: none.
    sample_weight
        Weight of each instance in the leaves, ≥ 0. Weights do not change the tests, but an instance of weight 0 is left
        out altogether.
    missing
        ``"error"`` refuses missing numbers (NaN); ``"random"`` sends them, when trees grow and when they are asked, in
        a direction drawn for each node. A missing value is no threshold: to draw one is a try that fails.

    Returns
    -------
    Forest
        Grown-out trees without further limits. An instance with a value that was absent from a node ends in an empty
        leaf. It gets the sum of the counts that it reaches through the leaf's siblings: see
        `Forest.with_empty_leaves`. A sample smaller than ``min_samples_split``, or constant features alone, make trees
        of a single leaf.

    Raises
    ------
    TypeError
        If ``key`` is no typed key, an argument is traced (by ``jit``, ``vmap`` or ``grad``), or a feature that is not
        nominal holds no numbers.
    ValueError
        If X holds infinite numbers, or NaN where that is refused (among codes always), y a single class, codes are
        anything but integers; if ``nominal`` names no features, lengths differ, or a parameter is out of range.

    Warns
    -----
    MergedValuesWarning
        If float32 cannot tell more than 1 % of a column's distinct values from others.

    Notes
    -----
    Up to as many tries as there are features: draw a feature uniformly from the numeric ones and the nominal ones not
    yet drawn on the path. Numeric: left is ``x < t`` or ``x <= t``, either with probability ½, t being the value of an
    instance drawn uniformly from the node's sample. The first accepted test is used; if none is, the node is a leaf. A
    pure node is split like any other. ``min_samples_leaf=0`` of the published code is refused: it would accept tests
    with an empty side, without end.

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
    # Smaller nodes have no two sides that are large enough.
    min_split = min(max(min_samples_split, 2 * min_samples_leaf), NO_LIMIT)
    depth = NO_LIMIT if max_depth is None else min(max_depth, NO_LIMIT)
    limits = Limits(jnp.int32(min(min_samples_leaf, NO_LIMIT)), jnp.int32(min_split), jnp.int32(depth))
    # Blocks fill their arrays, which are powers of two, and are of like size.
    n_blocks = ceil_div(n_trees, max(1, min(BLOCK_LANES // n, LARGEST_BLOCK)))
    n_blocks = max(n_blocks, min(_count_threads(), n_trees * n // SMALLEST_BLOCK))
    block = ceil_div(n_trees, n_blocks)
    make_shape = partial(
        _choose_shape, sample, min_samples_leaf=min_samples_leaf, min_split=min_split, missing=missing == "random"
    )
    # Where nominal features have many values, fewer trees at a time.
    while block > 1 and make_shape(block).n_cells > MOST_CELLS // min(_count_threads(), ceil_div(n_trees, block)):
        block = ceil_div(block, 2)
    shape = make_shape(block)
    _check_cells(shape, sample)
    present = jnp.asarray(sample.present)

    def grow(first: int) -> TreeBlock:
        live = min(block, n_trees - first)
        words = tree_keys(key, first, shape.n_trees)
        with own_settings():
            nodes, leaves = grow_block(shape, sample.data, limits, words, present, jnp.int32(n), jnp.int32(live))
        return read_block(shape, nodes, leaves, live, sample)

    firsts = range(0, n_trees, block)
    threads = min(_count_threads(), len(firsts), MOST_CELLS // max(shape.n_cells, 1))
    if threads == 1:
        return join_blocks([grow(first) for first in firsts], sample)
    with ThreadPoolExecutor(threads, thread_name_prefix="jaxunc") as pool:
        return join_blocks(list(pool.map(grow, firsts)), sample)


def _choose_shape(sample: EncodedSample, n_trees: int, min_samples_leaf: int, min_split: int, missing: bool) -> Shape:
    """Return the sizes of a block's arrays."""
    n, n_nominal = sample.n_present, int(np.count_nonzero(sample.data.n_ranks))
    n_lanes = power_of_two(max(n_trees * n, SMALLEST_CHUNK))
    # No smaller node is open, except for the parts of a multi-way test.
    smallest = 1 << (min(min_split, power_of_two(n)).bit_length() - 1)
    n_open = max(power_of_two(n_trees), n_lanes // (1 if n_nominal else smallest), SMALLEST_CHUNK)
    n_ranks = sample.boundaries.shape[1] if n_nominal and min_samples_leaf > 1 else 0
    n_cells = n_ranks * (n_lanes // smallest)
    chunked = default_platform() == "cpu"
    lane_chunk = min(n_lanes, LANE_CHUNK) if chunked else n_lanes
    return Shape(
        n_trees=power_of_two(n_trees),
        n_nodes=power_of_two(max(8 * n if n_nominal else 2 * (n // min_samples_leaf), 64)),
        n_lanes=n_lanes,
        n_open=n_open,
        n_cells=power_of_two(max(n_cells, lane_chunk)) if n_cells else 0,
        n_classes=len(sample.labels),
        n_words=ceil_div(n_nominal, 32),
        missing=missing,
        lane_chunk=lane_chunk,
        node_chunk=min(n_open, NODE_CHUNK) if chunked else n_open,
    )


def _check_cells(shape: Shape, sample: EncodedSample) -> None:
    if shape.n_cells > MOST_CELLS:
        raise ValueError(
            f"nominal: a feature has {sample.boundaries.shape[1]} values and gaps among {sample.n_present} instances, "
            "too many to count in every node. Merge rare values, treat the feature as numeric, or set "
            "min_samples_leaf=1."
        )


def _count_threads() -> int:
    """Return the number of blocks to grow at a time: one per core, since a loop of a program runs on one core."""
    return cores() if default_platform() == "cpu" else 1
