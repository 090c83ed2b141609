"""The nodes of trees packed for walking: one 8-byte element per node, and the top of each tree spread out.

A walk goes by *places*: those of the exits of the top come first, each a copy of the node behind it, then the nodes. An
exit's number is its place, so that nothing is looked up between the top and the rest.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex64, Float, Int32, Shaped

from jaxunc._checks import is_concrete, refuse_after_fork
from jaxunc._numerics import NAN_FIRST, NAN_LAST, order_key, pair_words, split_words, take
from jaxunc.forest import Trees

from ._treelets import treelets


class Plan(NamedTuple):
    """What a walk reads, trees along the leading axis of every array: a slice of it is a plan of fewer trees."""

    nodes: Complex64[Array, "trees places"]
    """Two 32-bit patterns per place in one element, so that a level costs one gather: the threshold's key, and
    ``feature << log2(places) | place of the left child``."""
    feature: Int32[Array, "trees places"] | None
    """The features by themselves, where they do not fit beside the children."""
    depth: Int32[Array, "trees"]
    """Tests on the longest path."""
    rest: Int32[Array, "trees"]
    """Tests on the longest path below the top."""
    top_feature: Int32[Array, "trees tests"]
    """Features of the tests at the top."""
    top_key: Int32[Array, "trees tests"]
    """Their thresholds."""
    top_exits: Int32[Array, "trees tests"]
    """The exits that remain where they go right, a bit each: the leftmost is the highest."""
    entry: Int32[Array, "trees exits"]
    """The node behind each exit."""

    @property
    def n_exits(self) -> int:
        """Places in front of the nodes: the root is at this place."""
        return self.entry.shape[-1]

    def by_place(self, table: Shaped[Array, "trees nodes"]) -> Shaped[Array, "trees places"]:
        """What is known of nodes, by places."""
        return jnp.concatenate([jnp.take_along_axis(table, self.entry, axis=1), table], axis=1)


def node_at(plan: Plan, place: Int32[Array, "..."]) -> Int32[Array, "..."]:
    """The node at a place of one tree."""
    exits = plan.n_exits
    return jnp.where(place < exits, take(plan.entry, jnp.minimum(place, exits - 1)), place - exits)


def make_plan(trees: Trees, *, missing: bool) -> Plan:
    """Pack trees for data with or without missing values.

    With them every column is there twice, NaN being the smallest value in the first copy and the largest in the
    second; a node that sends NaN right reads the second. Without them the copy's cost (a quarter more time) is saved.

    Trees that have values are packed by NumPy: nothing is compiled, and the top takes the tallest nodes. Of traced ones
    it is the first two levels.
    """
    refuse_after_fork()  # the first program that most ways to an answer run
    arrays = trees.feature, trees.threshold, trees.child, trees.missing_right, trees.tree_depth
    if not is_concrete(trees):
        return _make_plan(*arrays, n_features=trees.n_features, missing=missing)
    feature, threshold, child, missing_right, depth = map(np.asarray, arrays)
    packed = _packed(np, treelets(child), feature, threshold, child, missing_right, depth, trees.n_features, missing)
    with jax.ensure_compile_time_eval():  # also where someone's program is being traced
        return jax.device_put(packed)


@partial(jax.jit, static_argnames=("n_features", "missing"))
def _make_plan(feature, threshold, child, missing_right, depth, *, n_features, missing):
    return _packed(jnp, _two_levels(child, depth), feature, threshold, child, missing_right, depth, n_features, missing)


def _two_levels(child, depth):
    """The complete tree of the first two levels; below a leaf both exits lead to it, and its test goes left."""
    root = jnp.zeros((len(child), 1), jnp.int32)

    def below(node):
        left = jnp.take_along_axis(child, node, axis=1)
        return jnp.stack([left, jnp.where(left == node, left, left + 1)], axis=-1).reshape(len(child), -1)

    first = below(root)
    exits = ~np.array([0b11 << 30, 0b10 << 30, 0b10 << 28], np.uint32)
    exits = jnp.broadcast_to(exits.view(np.int32), (len(child), 3))
    return jnp.concatenate([root, first], axis=1), exits, below(first), jnp.maximum(depth - 2, 0)


def _packed(xp: Any, top, feature, threshold, child, missing_right, depth, n_features: int, missing: bool) -> Plan:
    """By NumPy or JAX."""
    tests, exits, entry, rest = top
    feature = xp.maximum(feature, 0)  # an empty leaf's is the number of its fork
    column = feature + n_features * missing_right.astype(np.int32) if missing else feature
    first = entry.shape[1]
    place_bits = (first + child.shape[1] - 1).bit_length()
    narrow = n_features * (2 if missing else 1) <= 2 ** (32 - place_bits)
    by_place = lambda table: xp.concatenate([xp.take_along_axis(table, entry, axis=1), table], axis=1)  # noqa: E731
    word = (child + first).astype(np.uint32)
    if narrow:
        word = word | (column.astype(np.uint32) << np.uint32(place_bits))
    pair = pair_words if xp is jnp else _pair_on_host
    return Plan(
        nodes=pair(by_place(threshold), by_place(word)),
        feature=None if narrow else by_place(column),
        depth=depth,
        rest=rest,
        top_feature=xp.take_along_axis(column, tests, axis=1),
        top_key=xp.take_along_axis(threshold, tests, axis=1),
        top_exits=exits,
        entry=entry,
    )


def _pair_on_host(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """`pair_words` by NumPy."""
    return np.stack([first.view(np.uint32), second], axis=-1).view(np.complex64)[..., 0]


def padded_plan(plan: Plan, more: int) -> Plan:
    """The plan with so many trees behind the others that are one leaf each, at any place."""
    none, beyond = jnp.int32(0), jnp.int32(2**31 - 1)
    feature = None if plan.feature is None else none
    # Nothing is larger than the largest key, so every test goes left, to node 0: the tree is its root, a leaf.
    leaf = Plan(pair_words(beyond, jnp.uint32(0)), feature, none, none, none, beyond, jnp.int32(-1), none)
    longer = lambda array, value: jnp.concatenate([array, jnp.full((more, *array.shape[1:]), value)])  # noqa: E731
    return jax.tree.map(longer, plan, leaf)


def column_keys(x: Float[Array, "instances features"], *, missing: bool) -> Int32[Array, "instances columns"]:
    """The order keys that a plan of the same ``missing`` compares with."""
    key = order_key(x)
    if not missing:
        return key
    # NaN has a key of its own among floats, but which one depends on its sign and payload: both copies say it outright.
    nan = jnp.isnan(x)
    return jnp.concatenate([jnp.where(nan, NAN_FIRST, key), jnp.where(nan, NAN_LAST, key)], axis=1)


def descend(
    nodes: Complex64[Array, "places"],
    feature: Int32[Array, "places"] | None,
    n_places: int,
    place: Int32[Array, "..."],
    key_of: Callable[[Int32[Array, "..."]], Int32[Array, "..."]],
    again: Complex64[Array, "places"] | None = None,
) -> Int32[Array, "..."]:
    """One test: the place, within its tree of ``n_places``, that follows the one stored at ``place``.

    ``key_of`` has the key of a column for each instance. ``again``: the nodes as another value, from which the column
    is then read (`walk_levels` says why).
    """
    child_bits = (n_places - 1).bit_length()
    threshold, word = split_words(take(nodes, place), jnp.int32, jnp.uint32)
    if feature is None:
        upper = word if again is None else split_words(take(again, place), jnp.int32, jnp.uint32)[1]
        column, child = (upper >> child_bits).astype(jnp.int32), word & jnp.uint32(2**child_bits - 1)
    else:
        column, child = take(feature, place), word
    # Right children lie behind left ones, and a leaf's threshold is beyond every key: no branch, no select.
    return child.astype(jnp.int32) + (key_of(column) > threshold).astype(jnp.int32)
