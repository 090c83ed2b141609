"""A forest's nodes packed for walking: one 8-byte element per node, and the top levels spread out."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Complex64, Float, Int32

from jaxunc._numerics import NAN_FIRST, NAN_LAST, order_key
from jaxunc.forest import Forest

TOP_LEVELS = 2
"""Levels at the root that blocks compare without gathers: 2² - 1 comparisons of whole rows."""


class Plan(NamedTuple):
    """What a walk reads, trees along the leading axis of every array."""

    nodes: Complex64[Array, "trees nodes"]
    """Two 32-bit patterns per node in one element, so that a level costs one gather: the threshold's key, and
    ``feature << log2(nodes) | child``. (A complex number is the only 8-byte element that needs no 64-bit mode.)"""
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
    offset: Int32[Array, "trees"]
    """Where a tree begins in the flat ``[trees nodes]`` arrays. (Computed in place it would be a kernel.)"""


def make_plan(forest: Forest, *, missing: bool) -> Plan:
    """Pack a forest for data with or without missing values.

    With them every column is there twice, NaN being the smallest value in the first copy and the largest in the
    second; a node that sends NaN right reads the second. Without them the copy's cost (a quarter more time) is saved.
    """
    arrays = forest.feature, forest.threshold, forest.child, forest.missing_right, forest.tree_depth
    return _make_plan(*arrays, n_features=forest.n_features, missing=missing)


@partial(jax.jit, static_argnames=("n_features", "missing"))
def _make_plan(feature, threshold, child, missing_right, depth, *, n_features, missing):
    n_trees, n_nodes = feature.shape
    child_bits = (n_nodes - 1).bit_length()
    columns = n_features * (2 if missing else 1)
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
        right = jnp.where(below == place, below, below + 1)
        place = jnp.stack([below, right], axis=-1).reshape(n_trees, -1)
    return Plan(
        nodes=pair_words(threshold, word),
        feature=None if narrow else column,
        depth=depth,
        top_feature=jnp.concatenate(top_feature, axis=1),
        top_key=jnp.concatenate(top_key, axis=1),
        entry=place,
        offset=jnp.arange(n_trees, dtype=jnp.int32) * n_nodes,
    )


def pair_words(first: Array, second: Array) -> Complex64[Array, "..."]:
    """Two 32-bit arrays as one array of 8-byte elements. Only moved, never computed with: any pattern survives."""
    return lax.complex(*(lax.bitcast_convert_type(half, jnp.float32) for half in (first, second)))


def split_words(pairs: Complex64[Array, "..."], first: DTypeLike, second: DTypeLike) -> tuple[Array, Array]:
    """The two 32-bit arrays of `pair_words`."""
    return lax.bitcast_convert_type(lax.real(pairs), first), lax.bitcast_convert_type(lax.imag(pairs), second)


def column_keys(x: Float[Array, "instances features"], *, missing: bool) -> Int32[Array, "instances columns"]:
    """The order keys that a plan of the same ``missing`` compares with."""
    key = order_key(x)
    if not missing:
        return key
    nan = jnp.isnan(x)
    return jnp.concatenate([jnp.where(nan, NAN_FIRST, key), jnp.where(nan, NAN_LAST, key)], axis=1)


_TAKE = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))


def take(flat: Array, index: Int32[Array, "..."]) -> Array:
    """``flat[index]`` without bounds handling: indices come from a valid forest."""
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.gather(flat, index[..., None], _TAKE, slice_sizes=(1,), mode=mode)
