"""One try for every open node of a block of trees: draw a test, count its sides, split or try again.

A node that fails stays open with one try more, so nodes at different depths and tries advance together and the number
of steps is that of the longest path. All tests are made on integer keys: right is where ``key > threshold``.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int32, UInt32

from jaxunc._numerics import NAN_LAST
from jaxunc.routing import pair_words, split_words

from ._draws import below, threefry, unset_bit
from ._running import count_before, sum_before
from ._state import Data, Grown, Limits, Open, State

_FAR = np.int32(2**30)


MISSING_LEFT = np.int32(2**30)
"""Added to the number of a feature where missing values go left."""


class Shape(NamedTuple):
    """What a program's structure depends on."""

    n_trees: int
    n_nodes: int
    n_classes: int
    n_words: int
    """32-bit words for the nominal features that a path has used; 0 if no feature is nominal."""
    n_ranks: int
    """Length of a table of ranks, where the children of a multi-way test must be counted; else 0."""
    smallest: int
    """A power of two: no node with fewer instances is tried."""
    missing: bool = False
    """Whether numeric features may be missing, and nodes draw a side for them."""


def _at(array: Array, index: Int32[Array, "..."]) -> Array:
    return array.at[index].get(mode="promise_in_bounds")


def _at_pair(first: Array, second: Array, index: Int32[Array, "..."]) -> tuple[Array, Array]:
    """Two arrays at the same places, by one gather of 8-byte elements."""
    return split_words(_at(pair_words(first, second), index), jnp.int32, jnp.int32)


def _put(array: Array, index: Int32[Array, "..."], keep: Bool[Array, "..."], values) -> Array:
    return array.at[jnp.where(keep, index, array.shape[0])].set(values, mode="drop", unique_indices=True)


class _Test(NamedTuple):
    feature: Int32[Array, "open"]
    threshold: Int32[Array, "open"]
    pivot: Int32[Array, "open"]
    multiway: Bool[Array, "open"]
    """A nominal feature was drawn: accepted, this is the first cut of its ranks."""
    cut: Bool[Array, "open"]
    """A further cut of a test that was accepted before."""
    exhausted: Bool[Array, "open"]
    """There is no feature left to draw."""
    missing_right: Bool[Array, "open"]
    """Whether a missing value goes right."""


def step(shape: Shape, data: Data, limits: Limits, words: UInt32[Array, "trees 2"], state: State) -> State:
    """Advance every open node by one try."""
    opened, grown = state.open, state.grown
    n_open, n_lanes = opened.slot.shape[0], state.lanes.shape[0]
    instance, place_of_node = split_words(state.lanes, jnp.int32, jnp.int32)
    live = jnp.arange(n_open, dtype=jnp.int32) < state.n_open
    lane = jnp.arange(n_lanes, dtype=jnp.int32)
    used = lane < state.n_lanes
    node = jnp.where(used, place_of_node, 0)
    tree = opened.slot // shape.n_nodes

    test = _draw(shape, data, words, opened, state.lanes, tree)
    column, threshold = _at_pair(test.feature * data.stride, test.threshold, node)
    key = _at(data.keys, column + instance)
    right = key > threshold
    if shape.missing:
        right = jnp.where(key == NAN_LAST, _at(test.missing_right, node), right)
    right &= used
    before = count_before(right)
    last = opened.first + jnp.maximum(opened.size, 1) - 1
    start = _at(before, opened.first)
    n_right = jnp.where(live, _at(before, last) + _at(right, last) - start, 0)
    n_left = opened.size - n_right

    fits = (n_left >= limits.min_leaf) & (n_right >= limits.min_leaf)
    if shape.n_words:
        several = _several_children(shape, limits, test, live, node, key, used)
        fits = jnp.where(test.multiway, several, fits) | test.cut
    if shape.missing:  # a missing value is no threshold
        fits &= test.pivot != NAN_LAST
    accepted = live & fits & ~test.exhausted
    spent = test.exhausted | (opened.tried + 1 >= data.n_features)

    # Children get the next two numbers of their tree.
    rank = count_before(accepted)
    first_of_tree = live & (tree != jnp.concatenate([jnp.full(1, -1, tree.dtype), tree[:-1]]))
    base = _put(jnp.zeros(shape.n_trees, jnp.int32), tree, first_of_tree, rank)
    child = _at(grown.n_nodes, tree) + 2 * (rank - _at(base, tree))
    next_open, kept, closed = _next(
        shape, data, limits, test, opened, accepted, live & ~accepted & ~spent, child, n_left
    )
    # What does not find room is not done: the host makes room, and the same numbers are drawn again.
    n_next = jnp.sum(kept, dtype=jnp.int32)
    stalled = n_next > n_open
    accepted, closed = accepted & ~stalled, closed & ~stalled

    # Instances move, stably, to their node's place among the open ones; those that reached leaves come after them.
    size = jnp.where(kept, next_open.size, 0)
    place = sum_before(size.reshape(-1), n_lanes).reshape(-1, 2)
    order = count_before(kept.reshape(-1)).reshape(-1, 2)
    n_kept = jnp.sum(size, dtype=jnp.int32)
    begin = jnp.stack([opened.first, opened.first + next_open.size[:, 0]], axis=1)
    target = jnp.where(kept, place, n_kept + begin - place)
    unmoved = target[:, 0] - opened.first
    shift_left, shift_right = _at_pair(jnp.where(accepted, unmoved + start, unmoved + _FAR), target[:, 1] - start, node)
    moved = jnp.where(right, shift_right + before, shift_left + lane - before)
    moved = jnp.where(shift_left > _FAR // 2, shift_left - _FAR + lane, moved)
    goal = jnp.where(kept, order, -1 - next_open.slot)
    goal = jnp.where(right, *_at_pair(jnp.where(accepted, goal[:, 1], goal[:, 0]), goal[:, 0], node))
    lanes = _put(state.lanes, moved, used & ~stalled, pair_words(instance, goal))

    depth = jnp.where(accepted, opened.cuts + 1, 0)
    grown = Grown(
        feature=_put(grown.feature, opened.slot, accepted, test.feature + MISSING_LEFT * ~test.missing_right),
        test=_put(grown.test, opened.slot, accepted, pair_words(test.threshold, child)),
        counts=grown.counts,
        group=grown.group,
        size=grown.size,
        n_nodes=grown.n_nodes.at[tree].add(2 * accepted.astype(jnp.int32), mode="promise_in_bounds"),
        depth=grown.depth.at[tree].max(depth, mode="promise_in_bounds"),
    )
    if shape.n_words:
        grown = grown._replace(
            group=_put(grown.group, next_open.slot.reshape(-1), closed.reshape(-1), next_open.group.reshape(-1)),
            size=_put(grown.size, next_open.slot.reshape(-1), closed.reshape(-1), next_open.size.reshape(-1)),
        )
    next_open = next_open._replace(first=place)
    if not shape.n_words:  # the other fields stay what they are
        next_open = next_open._replace(cutting=None, low=None, high=None, group=None, cuts=None)
    fields, structure = jax.tree.flatten(next_open)
    fields = _compacted(fields, order.reshape(-1), kept.reshape(-1), n_open)
    packed = jax.tree.unflatten(structure, fields)
    if not shape.n_words:
        same = {name: getattr(opened, name) for name in ("cutting", "low", "high", "group")}
        packed = packed._replace(**same, cuts=packed.depth)
    after = packed, n_next, n_kept
    before_it = opened, state.n_open, state.n_lanes
    packed, n_next, n_kept = jax.tree.map(lambda old, new: jnp.where(stalled, old, new), before_it, after)
    return State(packed, lanes, grown, n_next, n_kept, stalled)


def _compacted(fields: list[Array], order: Array, kept: Array, n_open: int) -> list[Array]:
    """The kept entries of fields, one after the other; two fields at a time, as 8-byte elements."""
    flat = [field.reshape(-1) for field in fields]
    result = []
    for pair in (flat[i : i + 2] for i in range(0, len(flat), 2)):
        joined = pair_words(*pair) if len(pair) == 2 else pair[0]
        joined = _put(jnp.zeros(n_open, joined.dtype), order, kept, joined)
        result += split_words(joined, pair[0].dtype, pair[1].dtype) if len(pair) == 2 else [joined]
    return result


def _draw(shape, data, words, opened, lanes, tree) -> _Test:
    """A feature, an instance and an operator for every node, from the tree's key, the node's number and the try."""
    node = (opened.slot - tree * shape.n_nodes).astype(jnp.uint32)
    own = (_at(words[:, 0], tree), _at(words[:, 1], tree))
    a, b = threefry(own, (node, opened.tried.astype(jnp.uint32)))
    strict = (b & np.uint32(1)).astype(jnp.int32)
    side = (b & np.uint32(2)) > 0 if shape.missing else jnp.ones(tree.shape, bool)
    row = opened.first + below(b, opened.size)
    instance_at = lambda row: split_words(_at(lanes, row), jnp.int32, jnp.int32)[0]  # noqa: E731
    none = jnp.zeros(tree.shape, bool)
    if not shape.n_words:
        feature = below(a, jnp.broadcast_to(data.n_features, tree.shape))
        value = _at(data.keys, feature * data.stride + instance_at(row))
        return _Test(feature, value - strict, value, none, none, none, side)
    n_nominal = data.n_features - data.n_numeric
    free = [_first_bits(n_nominal - 32 * i) & ~word for i, word in enumerate(opened.used)]
    n_free = data.n_numeric + sum(lax.population_count(word).astype(jnp.int32) for word in free)
    drawn = below(a, jnp.broadcast_to(n_free, tree.shape))
    feature = jnp.where(drawn < data.n_numeric, drawn, data.n_numeric + unset_bit(drawn - data.n_numeric, free))
    cut = opened.cutting >= 0
    exhausted = (n_free == 0) & ~cut
    feature = jnp.where(cut, opened.cutting, jnp.where(exhausted, 0, feature))
    multiway = (feature >= data.n_numeric) & ~cut & ~exhausted
    # Ranks are cut at that of the instance in the middle: frequent ones are told apart first.
    row = jnp.where(cut | multiway, opened.first + opened.size // 2, row)
    value = _at(data.keys, feature * data.stride + instance_at(row))
    low = jnp.where(cut, opened.low, 0)
    strict = jnp.where(cut | multiway, (low < value).astype(jnp.int32), strict)
    return _Test(feature, value - strict, value, multiway, cut, exhausted, side | multiway | cut)


def _first_bits(n) -> Array:
    """A word with the first n bits set (none below 0, all above 32)."""
    n = jnp.clip(n, 0, 32).astype(jnp.uint32)
    return jnp.where(n == 32, np.uint32(0xFFFFFFFF), (np.uint32(1) << (n % 32)) - np.uint32(1))


def _several_children(shape, limits, test, live, node, key, used) -> Bool[Array, "open"]:
    """Whether at least two values are present, and the second largest child has enough instances."""
    if not shape.n_ranks:  # one instance is enough
        other = (key != _at(test.pivot, node)) & used
        return jnp.zeros(live.shape, jnp.int32).at[node].max(other.astype(jnp.int32)) > 0
    multiway = test.multiway & live
    row = count_before(multiway)
    rows = node.shape[0] // shape.smallest + 1
    cell = _at(row, node) * shape.n_ranks + key
    sizes = jnp.zeros(rows * shape.n_ranks, jnp.int32)
    sizes = sizes.at[jnp.where(used & _at(multiway, node), cell, len(sizes))].add(1, mode="drop")
    enough = jnp.sum(sizes.reshape(rows, -1) >= limits.min_leaf, axis=1) >= 2
    return _at(enough, jnp.minimum(row, rows - 1))


def _next(shape, data, limits, test, opened, accepted, retry, child, n_left) -> tuple[Open, Array, Array]:
    """The two nodes that follow each open one (itself and nothing, if it is not split), which of them stay open, and
    which are children or empty leaves of a multi-way test."""
    pair = lambda a, b: jnp.stack([jnp.broadcast_to(a, opened.slot.shape), jnp.broadcast_to(b, opened.slot.shape)], 1)  # noqa: E731
    both = lambda a: pair(a, a)  # noqa: E731
    split = both(accepted)
    tree_start = opened.slot // shape.n_nodes * shape.n_nodes
    slot = jnp.where(split, both(tree_start + child) + np.array([0, 1], np.int32), both(opened.slot))
    size = jnp.where(split, pair(n_left, opened.size - n_left), pair(opened.size, 0))
    tried = jnp.where(split, 0, both(opened.tried + 1))
    depth = both(opened.depth) + split
    cuts = both(opened.cuts) + split
    large = (size >= limits.min_split) & (depth < limits.max_depth)
    if not shape.n_words:
        kept = (split & large) | pair(retry, False)
        return opened._replace(slot=slot, size=size, tried=tried, depth=depth, cuts=cuts), kept, kept
    nominal = test.multiway | test.cut
    low = jnp.where(test.cut, opened.low, 0)
    high = jnp.where(test.cut, opened.high, _at(data.n_ranks, test.feature) - 1)
    low, high = pair(low, test.threshold + 1), pair(test.threshold, high)
    group = both(jnp.where(test.cut, opened.group, opened.slot % shape.n_nodes))
    partial = split & both(nominal) & (low < high)
    closed = split & both(nominal) & ~((low < high) & (size > 0))
    # The path's depth grows with the first cut, and a part of several ranks is at the depth of the children to be.
    depth = jnp.where(both(test.cut), both(opened.depth), depth)
    large = (size >= limits.min_split) & (depth < limits.max_depth)
    bit = jnp.where(test.multiway, test.feature - data.n_numeric, -1)
    used = tuple(
        both(word | jnp.where(bit // 32 == i, np.uint32(1) << (bit % 32).astype(jnp.uint32), np.uint32(0)))
        for i, word in enumerate(opened.used)
    )
    kept = jnp.where(partial, size > 0, split & large) | pair(retry, False)
    cutting = jnp.where(partial, both(test.feature), -1)
    return Open(slot, size, size, tried, depth, cuts, cutting, low, high, group, used), kept, closed
