"""Followers of an open node that was tried: its two children, or itself."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from ._chunks import at
from ._node_tests import DrawnTests
from ._state import EncodedData, Limits, Open, OpenCuts, Shape


class Tried(NamedTuple):
    """Open nodes, and the outcome of their tests."""

    nodes: Open
    test: DrawnTests
    accepted: Bool[Array, "open"]
    retry: Bool[Array, "open"]
    """Whether the test failed, and there are tries left."""
    child: Int32[Array, "open"]
    """Number of the left child in its tree, if accepted; the right child has the next."""
    n_left: Int32[Array, "open"]


class Side(NamedTuple):
    """Left or right children of open nodes. A node that was not accepted is its own left child."""

    nodes: Open
    """Nodes on this side, whose ``first`` is not yet known."""
    kept: Bool[Array, "open"]
    """Whether each of them is open."""
    closed: Bool[Array, "open"] | None
    """Whether each is a child or an empty leaf of a multi-way test."""


def follow(shape: Shape, data: EncodedData, limits: Limits, tried: Tried, right: bool) -> Side:
    """Return the children on one side."""
    opened, test, split = tried.nodes, tried.test, tried.accepted
    tree_start = opened.slot // shape.n_nodes * shape.n_nodes
    slot = jnp.where(split, tree_start + tried.child + int(right), opened.slot)
    size = opened.size - tried.n_left if right else tried.n_left
    # A node that is not split goes on as its own left side, and its right side is empty: one rule for both cases.
    size = jnp.where(split, size, 0 if right else opened.size)
    n_tried = jnp.where(split, 0, opened.tried + 1)
    depth = opened.depth + split.astype(jnp.int32)
    if opened.cuts is None:
        kept = split & (size >= limits.min_split) & (depth < limits.max_depth)
        return Side(Open(slot, size, size, n_tried, depth, None), kept if right else kept | tried.retry, None)
    cuts = opened.cuts
    if right:
        # The ranks above the cut; a new multi-way test reaches up to the feature's last rank.
        low, high = test.threshold + 1, jnp.where(test.cut, cuts.high, at(data.n_ranks, test.feature) - 1)
    else:
        low, high = jnp.where(test.cut, cuts.low, 0), test.threshold
    nominal = split & (test.multiway | test.cut)
    # A part of several ranks is cut again, one of a single rank is a child, one without instances an empty leaf.
    partial = nominal & (low < high)
    closed = nominal & ~((low < high) & (size > 0))
    # The path's depth grows with the first cut, and a part of several ranks is at the depth of the children to be.
    depth = jnp.where(test.cut, opened.depth, depth)
    large = (size >= limits.min_split) & (depth < limits.max_depth)
    # Parts of several ranks stay open however small and deep: a multi-way test is always carried to its end.
    kept = jnp.where(partial, size > 0, split & large)
    bit = jnp.where(test.multiway, test.feature - data.n_numeric, -1)
    cuts = OpenCuts(
        n_cuts=cuts.n_cuts + split.astype(jnp.int32),
        cutting=jnp.where(partial, test.feature, -1),
        low=low,
        high=high,
        group=jnp.where(test.cut, cuts.group, opened.slot % shape.n_nodes),
        used=tuple(
            word | jnp.where(bit // 32 == i, np.uint32(1) << (bit % 32).astype(jnp.uint32), np.uint32(0))
            for i, word in enumerate(cuts.used)
        ),
    )
    return Side(Open(slot, size, size, n_tried, depth, cuts), kept if right else kept | tried.retry, closed)
