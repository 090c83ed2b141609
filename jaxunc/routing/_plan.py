"""The nodes of trees packed for walking: one 8-byte element per node, and the top levels spread out."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex64, Float, Int32

from jaxunc._checks import refuse_after_fork
from jaxunc._numerics import NAN_FIRST, NAN_LAST, order_key, pair_words, split_words, take
from jaxunc.forest import Trees

TOP_LEVELS = 2
"""Levels at the root that blocks compare without gathers: 2² - 1 comparisons of whole rows."""


class Plan(NamedTuple):
    """What a walk reads, trees along the leading axis of every array: a slice of it is a plan of fewer trees."""

    nodes: Complex64[Array, "trees nodes"]
    """Two 32-bit patterns per node in one element, so that a level costs one gather: the threshold's key, and
    ``feature << log2(nodes) | child``."""
    feature: Int32[Array, "trees nodes"] | None
    """The features by themselves, where they do not fit beside the children."""
    depth: Int32[Array, "trees"]
    """Tests on the longest path."""
    top_feature: Int32[Array, "trees inner"]
    """Features of the complete binary tree of the top levels, in heap order; leaves repeat."""
    top_key: Int32[Array, "trees inner"]
    """Its thresholds."""
    entry: Int32[Array, "trees outer"]
    """The node below each path through the top levels."""


def make_plan(trees: Trees, *, missing: bool) -> Plan:
    """Pack trees for data with or without missing values.

    With them every column is there twice, NaN being the smallest value in the first copy and the largest in the
    second; a node that sends NaN right reads the second. Without them the copy's cost (a quarter more time) is saved.
    """
    refuse_after_fork()  # the first program that most ways to an answer run
    arrays = trees.feature, trees.threshold, trees.child, trees.missing_right, trees.tree_depth
    return _make_plan(*arrays, n_features=trees.n_features, missing=missing)


@partial(jax.jit, static_argnames=("n_features", "missing"))
def _make_plan(feature, threshold, child, missing_right, depth, *, n_features, missing):
    n_trees, n_nodes = feature.shape
    child_bits = (n_nodes - 1).bit_length()
    columns = n_features * (2 if missing else 1)
    feature = jnp.maximum(feature, 0)  # an empty leaf's is the number of its fork
    column = feature + n_features * missing_right.astype(jnp.int32) if missing else feature
    narrow = columns <= 2 ** (32 - child_bits)
    word = child.astype(jnp.uint32)
    if narrow:
        word = word | (column.astype(jnp.uint32) << child_bits)
    trees, place = jnp.arange(n_trees)[:, None], jnp.zeros((n_trees, 1), jnp.int32)
    top_feature, top_key = [], []
    for _ in range(TOP_LEVELS):
        top_feature.append(column[trees, place])
        top_key.append(threshold[trees, place])
        below = child[trees, place]
        # A leaf is its own child on both sides: trees that end above the top levels repeat it.
        right = jnp.where(below == place, below, below + 1)
        place = jnp.stack([below, right], axis=-1).reshape(n_trees, -1)
    return Plan(
        nodes=pair_words(threshold, word),
        feature=None if narrow else column,
        depth=depth,
        top_feature=jnp.concatenate(top_feature, axis=1),
        top_key=jnp.concatenate(top_key, axis=1),
        entry=place,
    )


def padded_plan(plan: Plan, more: int) -> Plan:
    """The plan with so many trees behind the others that are one leaf each."""
    none, beyond = jnp.int32(0), jnp.int32(2**31 - 1)
    feature = None if plan.feature is None else none
    # Nothing is larger than the largest key, so every test goes left, to node 0: the tree is its root, a leaf.
    leaf = Plan(pair_words(beyond, jnp.uint32(0)), feature, none, none, beyond, none)
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
    n_nodes: int,
    place: Int32[Array, "..."],
    key_of: Callable[[Int32[Array, "..."]], Int32[Array, "..."]],
    again: Complex64[Array, "places"] | None = None,
) -> Int32[Array, "..."]:
    """One test: the node, within its tree of ``n_nodes``, that follows the one stored at ``place``.

    ``key_of`` has the key of a column for each instance. ``again``: the nodes as another value, from which the column
    is then read (`walk_levels` says why).
    """
    child_bits = (n_nodes - 1).bit_length()
    threshold, word = split_words(take(nodes, place), jnp.int32, jnp.uint32)
    if feature is None:
        upper = word if again is None else split_words(take(again, place), jnp.int32, jnp.uint32)[1]
        column, child = (upper >> child_bits).astype(jnp.int32), word & jnp.uint32(2**child_bits - 1)
    else:
        column, child = take(feature, place), word
    # Right children lie behind left ones, and a leaf's threshold is beyond every key: no branch, no select.
    return child.astype(jnp.int32) + (key_of(column) > threshold).astype(jnp.int32)
