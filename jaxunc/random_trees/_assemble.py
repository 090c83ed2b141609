"""A forest's arrays, put together on the host: `read_block` copies what a block grew, `join_parts` joins the blocks."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._numerics import NAN_LAST, distinct_rows, jit, multiple_of, padded_table, power_of_two, split_words
from jaxunc.forest import Forest, Forks, Trees

from ._sample import EncodedSample
from ._state import Grown, Shape
from ._step import MISSING_LEFT

_LARGE, _STEP = 2**17, 2**14


@dataclass
class GrownPart:
    """Nodes of a block's trees, cut to the largest of them: ``[trees nodes]`` and so on."""

    arrays: dict[str, np.ndarray]
    """Arrays of trees by name, and ``code``, rows of ``table``. They are taken out one by one."""
    table: np.ndarray
    depth: np.ndarray
    forks: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    """Multi-way tests: the tree of each, its number of children, and the children's numbers, test by test.

    None if no feature is nominal.
    """


def read_block(shape: Shape, grown: Grown, leaves, n_live: int, sample: EncodedSample) -> GrownPart:
    """Copy a block's trees from the device."""
    n_nodes = np.asarray(grown.n_nodes)[:n_live]
    width = int(n_nodes.max())
    by_name = _arrays(
        shape, grown, jnp.asarray(sample.order, jnp.int32), jnp.asarray(sample.boundaries), sample.data.n_numeric
    )
    # On a CPU these are views; where they are a small part of a block, they would keep all of it.
    copied = np.asarray if 2 * width > shape.n_nodes else np.array
    arrays = {name: copied(np.asarray(array)[:n_live, :width]) for name, array in by_name.items()}
    counts = _counts(shape, leaves, sample).reshape(shape.n_trees, shape.n_nodes, shape.n_classes)[:n_live, :width]
    if np.any(n_nodes == 1):  # a root that was never open holds the sample
        counts = np.array(counts)
        counts[n_nodes == 1, 0] = sample.totals
    table, code = distinct_rows(counts.reshape(-1, shape.n_classes))
    arrays["code"] = code.reshape(n_live, width)
    forks = None
    if shape.n_words:
        arrays["feature"], forks = _families(arrays["feature"], arrays.pop("top"), arrays.pop("empty"))
    return GrownPart(arrays, table, np.asarray(grown.depth)[:n_live], forks)


def _counts(shape: Shape, leaves, sample: EncodedSample) -> np.ndarray:
    """Return the class counts of all nodes. Fractions are summed in float64: one by one they drift in float32."""
    if sample.data.weight is not None:
        return np.asarray(leaves)
    instance, slot = (np.asarray(lane, np.int64) for lane in leaves)
    instance, slot = instance[slot >= 0], slot[slot >= 0]
    cell = slot * shape.n_classes + np.asarray(sample.data.label)[instance]
    counts = np.bincount(cell, sample.weight[instance], shape.n_trees * shape.n_nodes * shape.n_classes)
    return counts.astype(jnp.result_type(float))


def _families(feature: np.ndarray, top: np.ndarray, empty: np.ndarray):
    """Return the features, every empty leaf pointing at its multi-way test, and the tests, numbered within the block.

    ``top``: of children and empty leaves, the topmost node of their test, else -1.
    """
    n_nodes = top.shape[1]

    def found(flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        node = np.flatnonzero(flags)
        return node, top.ravel()[node] + node // n_nodes * n_nodes

    member, test = found((top >= 0) & ~empty)
    is_test = np.zeros(top.size, bool)
    is_test[test] = True
    number = np.cumsum(is_test, dtype=np.int32) - 1
    test = number[test]
    # Every multi-way test has two children or more, and empty leaves below and above all values.
    feature = np.array(feature)
    # A negative feature marks an empty leaf, and says which test it belongs to.
    node, test_of_empty = found(empty)
    feature.ravel()[node] = -1 - number[test_of_empty]
    tree = (np.flatnonzero(is_test) // n_nodes).astype(np.int32)
    return feature, (tree, np.bincount(test), (member % n_nodes).astype(np.int32)[np.argsort(test, kind="stable")])


@jit(static_argnums=0)
def _arrays(shape: Shape, grown: Grown, order, boundaries, n_numeric) -> dict[str, jax.Array]:
    """Return the nodes in a forest's terms, ``[trees nodes]``."""
    node_number = jnp.arange(shape.n_trees * shape.n_nodes, dtype=jnp.int32) % shape.n_nodes
    threshold, left = split_words(grown.test, jnp.int32, jnp.int32)
    inner = left >= 0
    missing_right = grown.feature < MISSING_LEFT
    feature = jnp.where(missing_right, grown.feature, grown.feature - MISSING_LEFT)
    nodes = {
        "feature": jnp.where(inner, order[feature], 0),
        "threshold": threshold,
        "child": jnp.where(inner, left, node_number),
        "missing_right": missing_right,
    }
    if shape.n_words:
        # Cuts of ranks become cuts of values: the edge is the order key of the last value that goes left.
        rank = jnp.where(inner & (feature >= n_numeric), threshold, -1)
        edge = boundaries[feature, jnp.maximum(rank, 0)]
        nodes["threshold"] = jnp.where(rank >= 0, edge, threshold)
        top, size = split_words(grown.member, jnp.int32, jnp.int32)
        nodes["top"], nodes["empty"] = top, (top >= 0) & (size == 0)
    return {name: array.reshape(shape.n_trees, shape.n_nodes) for name, array in nodes.items()}


def join_parts(blocks: list[GrownPart], sample: EncodedSample) -> Forest:
    """Join blocks of trees to a forest, array by array: a part's array is given up before the next is made."""
    width = max(block.arrays["child"].shape[1] for block in blocks)
    # Powers of two share programs, but would waste gigabytes for large trees.
    width = power_of_two(width, 64) if width <= _LARGE else multiple_of(_STEP, width)
    rows = np.concatenate(
        [np.zeros((1, len(sample.labels)), blocks[0].table.dtype), *(block.table for block in blocks)]
    )
    table, row_of = distinct_rows(rows)  # row 0 is the zero vector: counts are not negative
    row_of, row = row_of.astype(np.int32), 1
    for block in blocks:
        block.arrays["code"] = row_of[row : row + len(block.table)][block.arrays["code"]]
        row += len(block.table)
    depth = np.concatenate([block.depth for block in blocks])

    def stacked(name: str, beyond) -> jax.Array:
        stack, begin = _aligned((len(depth), width), blocks[0].arrays[name].dtype), 0
        for block in blocks:
            cut = block.arrays.pop(name)
            filled = stack[begin : begin + len(cut)]
            filled[:, : cut.shape[1]] = cut
            filled[:, cut.shape[1] :] = np.broadcast_to(beyond, width)[cut.shape[1] :]
            begin += len(cut)
        return jax.device_put(stack, may_alias=True)

    forks = _join_forks(blocks)
    trees = Trees(
        feature=stacked("feature", 0),
        threshold=stacked("threshold", NAN_LAST),
        child=stacked("child", np.arange(width)),
        missing_right=stacked("missing_right", True),
        tree_depth=jnp.asarray(depth),
        columns=sample.columns,
        forks=forks,
    )
    total = sample.totals.sum()
    return Forest(
        trees=trees,
        count_table=padded_table(table),
        code=stacked("code", 0),
        prior=jnp.asarray(sample.totals / total, jnp.result_type(float)),
        n_samples=jnp.asarray(total, jnp.result_type(float)),
        class_labels=sample.labels,
    )


def _aligned(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Return an array to be filled, at an address that JAX takes over without a copy on a CPU."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(n_bytes + 64, np.uint8)
    # JAX aliases arrays at addresses that are multiples of 64, and copies all others.
    return raw[-raw.ctypes.data % 64 :][:n_bytes].view(dtype).reshape(shape)


def _join_forks(blocks: list[GrownPart]) -> Forks | None:
    """Return the multi-way tests of all blocks, at which their empty leaves then point; None if there are none."""
    trees, sizes, members = [], [], []
    n_forks = n_trees = 0
    for block in blocks:
        if block.forks is not None:
            tree, n_members, children = block.forks
            feature = block.arrays["feature"]
            # Numbers within a block become numbers among all.
            feature[feature < 0] -= n_forks
            trees, sizes, members = [*trees, tree + n_trees], [*sizes, n_members], [*members, children]
            n_forks += len(tree)
        n_trees += len(block.depth)
    if not n_forks:
        return None
    first = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    arrays = np.concatenate(trees), first, np.concatenate(members)
    return Forks(*(jnp.asarray(array, jnp.int32) for array in arrays))
