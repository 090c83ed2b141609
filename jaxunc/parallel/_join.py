"""Join of the carries of neighbouring trees, brought together from their devices, in the trees' order.

A plain `psum` would add rounded sums and lose what was kept of their rounding; it knows neither exact sums in two limbs
nor collected planes. So the carries travel as they are, as one array of 32-bit words, in one collective, and every
merge's own `join` puts them together.
"""

import itertools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, UInt32

from jaxunc.combiners import Merging


def join_shards(merging: Merging, carry: list, n_trees: int, *, n_shards: int, whole: bool) -> list:
    """Return the carry of all trees, inside a `shard_map`, from each device's own ``[instances ...]``.

    ``whole``: every device gets all instances; else each one a part of them, in order, the last one padded: an
    `all_to_all` moves so many times less, and the parts are joined and finished side by side.
    """
    leaves, structure = jax.tree.flatten(carry)
    if n_shards == 1 or not leaves:
        return carry
    # One collective for all planes: each would cost its own latency.
    words = jnp.concatenate([as_words(leaf) for leaf in leaves])
    if whole:
        gathered = lax.all_gather(words, "tree", axis=1)
    else:
        # Instances are cut in as many parts as there are shards; padding rows are dropped where answers are collected.
        more = -words.shape[1] % n_shards
        parts = jnp.pad(words, ((0, 0), (0, more))).reshape(len(words), n_shards, -1)
        gathered = lax.all_to_all(parts, "tree", split_axis=1, concat_axis=1)
    ends = itertools.accumulate(map(_width, leaves), initial=0)
    by_shard = [from_words(gathered[a:b], leaf) for (a, b), leaf in zip(itertools.pairwise(ends), leaves, strict=True)]
    return _joined(merging, jax.tree.unflatten(structure, by_shard), n_trees)


def _joined(merging: Merging, carries: list, n_trees: int) -> list:
    """Join the carries of all shards along their leading axis: one after the other, collected planes side by side."""
    kinds = zip(merging.kinds, merging.dtypes, strict=True)
    of_closed = [kind for kind in kinds if kind[0] != "collect"]
    closed = Merging(tuple(merge for merge, _ in of_closed), tuple(dtype for _, dtype in of_closed))
    sums = [c for m, c in zip(merging.planes, carries, strict=True) if not m.collects]
    first, others = (jax.tree.map(lambda a, part=part: a[part], sums) for part in (0, slice(1, None)))
    # Shard after shard, in the order of their trees: the same sums on every device, whatever the collective's order.
    more = jax.tree.leaves(carries)[0].shape[0] - 1  # said, since there may be no sums
    joined = iter(lax.scan(lambda carry, shard: (closed.join(carry, shard), None), first, others, length=more)[0])
    both = zip(merging.planes, carries, strict=True)
    return [_side_by_side(c[0], n_trees) if m.collects else next(joined) for m, c in both]


def _side_by_side(values: Array, n_trees: int) -> tuple[Array]:
    """Return ``[shards instances trees]`` as ``[instances trees]``, without the padding trees behind all others."""
    return (jnp.moveaxis(values, 0, 1).reshape(values.shape[1], -1)[:, :n_trees],)


def _width(leaf: Array) -> int:
    return math.prod(leaf.shape[1:]) * max(1, leaf.dtype.itemsize // 4)


def as_words(leaf: Array) -> UInt32[Array, "words instances"]:
    """Return the bits of numbers ``[instances]`` or ``[instances columns]``; those of 64 are two words."""
    columns = leaf.reshape(len(leaf), -1)
    if columns.dtype.itemsize == 8:
        halves = lax.bitcast_convert_type(columns, jnp.uint32)
        return halves.reshape(len(leaf), -1).T
    # By their bits: converting to float32 or int32 would round, or change NaN.
    unsigned = jnp.dtype(f"uint{8 * columns.dtype.itemsize}")
    return lax.bitcast_convert_type(columns, unsigned).astype(jnp.uint32).T


def from_words(words: UInt32[Array, "words shards instances"], like: Array) -> Array:
    """Return the numbers of such words, of every shard and perhaps another number of instances than ``like``."""
    columns = jnp.moveaxis(words, 0, -1)
    if like.dtype.itemsize == 8:
        columns = lax.bitcast_convert_type(columns.reshape(*columns.shape[:2], -1, 2), like.dtype)
    else:
        columns = columns.astype(jnp.dtype(f"uint{8 * like.dtype.itemsize}"))
        columns = lax.bitcast_convert_type(columns, like.dtype)
    return columns.reshape(*columns.shape[:2], *like.shape[1:])
