"""Carries of neighbouring trees, brought together from the devices that have them and joined in their order.

A plain `psum` would add rounded sums and lose what was kept of their rounding; it knows neither exact sums in two limbs
nor collected planes. So the carries travel as they are, as one array of 32-bit words, in one collective, and every
merge's own `join` puts them together.
"""

from functools import reduce

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, UInt32

from jaxunc.combiners._merge import Merging


def join_shards(merging: Merging, carry: list, n_trees: int, *, n_shards: int, whole: bool) -> list:
    """The carry of all trees, inside a `shard_map`, from each device's own ``[instances ...]``.

    ``whole``: every device gets all instances; else each one a part of them, in order, the last one padded: an
    `all_to_all` moves so many times less, and the parts are joined and finished side by side.
    """
    leaves, structure = jax.tree.flatten(carry)
    if n_shards == 1 or not leaves:
        return carry
    words = jnp.concatenate([as_words(leaf) for leaf in leaves])
    if whole:
        gathered = lax.all_gather(words, "tree", axis=1)
    else:
        more = -words.shape[1] % n_shards
        parts = jnp.pad(words, ((0, 0), (0, more))).reshape(len(words), n_shards, -1)
        gathered = lax.all_to_all(parts, "tree", split_axis=1, concat_axis=1)
    carries = []
    for shard in range(n_shards):
        rest, own = gathered[:, shard], []
        for leaf in leaves:
            size = _width(leaf)
            own.append(from_words(rest[:size], leaf))
            rest = rest[size:]
        carries.append(jax.tree.unflatten(structure, own))
    joined = reduce(merging.join, carries)
    # What padding trees left in collected planes lies behind all others.
    return [(c[0][:, :n_trees],) if m.collects else c for m, c in zip(merging.planes, joined, strict=True)]


def _width(leaf: Array) -> int:
    columns = leaf.shape[1] if leaf.ndim == 2 else 1
    return columns * max(1, leaf.dtype.itemsize // 4)


def as_words(leaf: Array) -> UInt32[Array, "words instances"]:
    """The bits of numbers ``[instances]`` or ``[instances columns]``; those of 64 are two words."""
    columns = leaf.reshape(len(leaf), -1)
    if columns.dtype.itemsize == 8:
        halves = lax.bitcast_convert_type(columns, jnp.uint32)
        return halves.reshape(len(leaf), -1).T
    unsigned = jnp.dtype(f"uint{8 * columns.dtype.itemsize}")
    return lax.bitcast_convert_type(columns, unsigned).astype(jnp.uint32).T


def from_words(words: UInt32[Array, "words instances"], like: Array) -> Array:
    """The numbers again, of another number of instances than ``like`` perhaps."""
    columns = words.T
    if like.dtype.itemsize == 8:
        columns = lax.bitcast_convert_type(columns.reshape(len(columns), -1, 2), like.dtype)
    else:
        columns = columns.astype(jnp.dtype(f"uint{8 * like.dtype.itemsize}"))
        columns = lax.bitcast_convert_type(columns, like.dtype)
    return columns.reshape(-1, *like.shape[1:])
