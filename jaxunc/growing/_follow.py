"""What follows an open node that was tried: its two children, or itself."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ._chunks import at
from ._draw import Test
from ._state import Cuts, Data, Limits, Open, Shape


class Next(NamedTuple):
    """The two nodes that follow each open one: its children, or itself and nothing."""

    nodes: Open
    """Fields ``[open 2]``; ``first`` is not yet known."""
    kept: Bool[Array, "open 2"]
    """Which of them are open."""
    closed: Bool[Array, "open 2"] | None
    """Which are children or empty leaves of a multi-way test."""


def follow(shape: Shape, data: Data, limits: Limits, test: Test, opened: Open, accepted, retry, child, n_left) -> Next:
    """Children ``child`` and ``child + 1`` of the accepted nodes; of others, those that try again stay open."""
    split, retry = _both(accepted), _pair(retry, jnp.zeros_like(retry))
    tree_start = opened.slot // shape.n_nodes * shape.n_nodes
    slot = jnp.where(split, _both(tree_start + child) + np.array([0, 1], np.int32), _both(opened.slot))
    size = jnp.where(split, _pair(n_left, opened.size - n_left), _pair(opened.size, jnp.zeros_like(n_left)))
    tried = jnp.where(split, 0, _both(opened.tried + 1))
    depth = _both(opened.depth) + split
    if opened.cuts is None:
        large = (size >= limits.min_split) & (depth < limits.max_depth)
        return Next(Open(slot, size, size, tried, depth, None), (split & large) | retry, None)
    cuts = opened.cuts
    nominal = _both(test.multiway | test.cut)
    low = jnp.where(test.cut, cuts.low, 0)
    high = jnp.where(test.cut, cuts.high, at(data.n_ranks, test.feature) - 1)
    low, high = _pair(low, test.threshold + 1), _pair(test.threshold, high)
    group = _both(jnp.where(test.cut, cuts.group, opened.slot % shape.n_nodes))
    partial = split & nominal & (low < high)
    closed = split & nominal & ~((low < high) & (size > 0))
    # The path's depth grows with the first cut, and a part of several ranks is at the depth of the children to be.
    depth = jnp.where(_both(test.cut), _both(opened.depth), depth)
    large = (size >= limits.min_split) & (depth < limits.max_depth)
    bit = jnp.where(test.multiway, test.feature - data.n_numeric, -1)
    used = tuple(
        _both(word | jnp.where(bit // 32 == i, np.uint32(1) << (bit % 32).astype(jnp.uint32), np.uint32(0)))
        for i, word in enumerate(cuts.used)
    )
    kept = jnp.where(partial, size > 0, split & large) | retry
    cutting = jnp.where(partial, _both(test.feature), -1)
    cuts = Cuts(_both(cuts.n_cuts) + split, cutting, low, high, group, used)
    return Next(Open(slot, size, size, tried, depth, cuts), kept, closed)


def _pair(left: Array, right: Array) -> Array:
    return jnp.stack([left, right], axis=1)


def _both(a: Array) -> Array:
    return _pair(a, a)
