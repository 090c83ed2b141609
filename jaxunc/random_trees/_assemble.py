"""Assembly of a forest on the host: `read_block` copies a block's trees from the device, `join_blocks` joins blocks."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._numerics import NAN_LAST, distinct_rows, jit, multiple_of, padded_table, power_of_two, split_words
from jaxunc.forest import Forest, Forks, Trees

from ._sample import EncodedSample
from ._state import BlockNodes, Shape
from ._step import MISSING_LEFT

_LARGE_WIDTH, _WIDTH_STEP = 2**17, 2**14


@dataclass
class TreeBlock:
    """Nodes of a block's trees, cut to the size of the largest tree."""

    arrays: dict[str, np.ndarray]
    """Arrays of `Trees` by name, and ``code``, rows of ``table``: ``[trees nodes]``. `join_blocks` pops them."""
    table: np.ndarray
    depth: np.ndarray
    forks: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    """Multi-way tests: the tree of each, its number of children, and the children's numbers, test by test.

    None if no feature is nominal.
    """


def read_block(shape: Shape, nodes: BlockNodes, leaves, n_live: int, sample: EncodedSample) -> TreeBlock:
    """Copy a block's trees from the device."""
    n_nodes = np.asarray(nodes.n_nodes)[:n_live]
    width = int(n_nodes.max())
    by_name = _make_arrays(
        shape, nodes, jnp.asarray(sample.order, jnp.int32), jnp.asarray(sample.boundaries), sample.data.n_numeric
    )
    # On a CPU these are views, and a view of a small part would keep the whole block.
    copy = np.asarray if 2 * width > shape.n_nodes else np.array
    arrays = {name: copy(np.asarray(array)[:n_live, :width]) for name, array in by_name.items()}
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
    """Return the class counts of all nodes; fractions are summed here, in float64."""
    if sample.data.weight is not None:
        return np.asarray(leaves)
    instance, slot = (np.asarray(lane, np.int64) for lane in leaves)
    instance, slot = instance[slot >= 0], slot[slot >= 0]
    cell = slot * shape.n_classes + np.asarray(sample.data.label)[instance]
    counts = np.bincount(cell, sample.weight[instance], shape.n_trees * shape.n_nodes * shape.n_classes)
    return counts.astype(jnp.result_type(float))


def _find_forks(feature: np.ndarray, top: np.ndarray, empty: np.ndarray):
    """Return the features, where -1 - k marks an empty leaf of multi-way test k, and `TreeBlock.forks`.

    ``top`` is the topmost node of the test that a child or an empty leaf belongs to; -1 elsewhere.
    """
    n_nodes = top.shape[1]

    def find(flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        node = np.flatnonzero(flags)
        return node, top.ravel()[node] + node // n_nodes * n_nodes

    member, test = find((top >= 0) & ~empty)
    is_test = np.zeros(top.size, bool)
    is_test[test] = True
    number = np.cumsum(is_test, dtype=np.int32) - 1
    test = number[test]
    # Every multi-way test has two children or more, and empty leaves below and above all values.
    feature = np.array(feature)
    node, test_of_empty = find(empty)
    feature.ravel()[node] = -1 - number[test_of_empty]
    tree = (np.flatnonzero(is_test) // n_nodes).astype(np.int32)
    return feature, (tree, np.bincount(test), (member % n_nodes).astype(np.int32)[np.argsort(test, kind="stable")])


@jit(static_argnums=0)
def _make_arrays(shape: Shape, block: BlockNodes, order, boundaries, n_numeric) -> dict[str, jax.Array]:
    """Return the arrays of `Trees` by name, ``[trees nodes]``, and ``top`` and ``empty`` if features are nominal."""
    node_number = jnp.arange(shape.n_trees * shape.n_nodes, dtype=jnp.int32) % shape.n_nodes
    threshold, left = split_words(block.test, jnp.int32, jnp.int32)
    inner = left >= 0
    missing_right = block.feature < MISSING_LEFT
    feature = jnp.where(missing_right, block.feature, block.feature - MISSING_LEFT)
    arrays = {
        "feature": jnp.where(inner, order[feature], 0),
        "threshold": threshold,
        "child": jnp.where(inner, left, node_number),
        "missing_right": missing_right,
    }
    if shape.n_words:
        # Cuts of ranks become cuts of values: the edge is the order key of the last value that goes left.
        rank = jnp.where(inner & (feature >= n_numeric), threshold, -1)
        edge = boundaries[feature, jnp.maximum(rank, 0)]
        arrays["threshold"] = jnp.where(rank >= 0, edge, threshold)
        top, size = split_words(block.member, jnp.int32, jnp.int32)
        arrays["top"], arrays["empty"] = top, (top >= 0) & (size == 0)
    return {name: array.reshape(shape.n_trees, shape.n_nodes) for name, array in arrays.items()}


def join_blocks(blocks: list[TreeBlock], sample: EncodedSample) -> Forest:
    """Join blocks of trees to a forest, array by array; a block's array is popped before the next is copied."""
    width = max(block.arrays["child"].shape[1] for block in blocks)
    # Powers of two share programs, but would waste gigabytes for large trees.
    width = power_of_two(width, 64) if width <= _LARGE_WIDTH else multiple_of(_WIDTH_STEP, width)
    rows = np.concatenate(
        [np.zeros((1, len(sample.labels)), blocks[0].table.dtype), *(block.table for block in blocks)]
    )
    table, row_of = distinct_rows(rows)  # row 0 is the zero vector: counts are not negative
    row_of, row = row_of.astype(np.int32), 1
    for block in blocks:
        block.arrays["code"] = row_of[row : row + len(block.table)][block.arrays["code"]]
        row += len(block.table)
    depth = np.concatenate([block.depth for block in blocks])

    def stack_arrays(name: str, beyond) -> jax.Array:
        stack, begin = _allocate_aligned((len(depth), width), blocks[0].arrays[name].dtype), 0
        for block in blocks:
            array = block.arrays.pop(name)
            rows = stack[begin : begin + len(array)]
            rows[:, : array.shape[1]] = array
            rows[:, array.shape[1] :] = np.broadcast_to(beyond, width)[array.shape[1] :]
            begin += len(array)
        return jax.device_put(stack, may_alias=True)

    forks = _join_forks(blocks)
    trees = Trees(
        feature=stack_arrays("feature", 0),
        threshold=stack_arrays("threshold", NAN_LAST),
        child=stack_arrays("child", np.arange(width)),
        missing_right=stack_arrays("missing_right", True),
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
    """Return an uninitialised array at an address that JAX takes over without a copy on a CPU."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(n_bytes + 64, np.uint8)
    # JAX aliases arrays at addresses that are multiples of 64, and copies all others.
    return raw[-raw.ctypes.data % 64 :][:n_bytes].view(dtype).reshape(shape)


def _join_forks(blocks: list[TreeBlock]) -> Forks | None:
    """Return the multi-way tests of all blocks, and renumber them in the blocks' features; None without any."""
    trees, sizes, members = [], [], []
    n_forks = n_trees = 0
    for block in blocks:
        if block.forks is not None:
            tree, n_members, children = block.forks
            feature = block.arrays["feature"]
            feature[feature < 0] -= n_forks
            trees, sizes, members = [*trees, tree + n_trees], [*sizes, n_members], [*members, children]
            n_forks += len(tree)
        n_trees += len(block.depth)
    if not n_forks:
        return None
    first = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    arrays = np.concatenate(trees), first, np.concatenate(members)
    return Forks(*(jnp.asarray(array, jnp.int32) for array in arrays))
