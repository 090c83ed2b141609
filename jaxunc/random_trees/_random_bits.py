"""Random numbers by counter: what (tree, node, try) draws does not depend on what is grown beside it."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int32, UInt32

from jaxunc._numerics import jit

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def tree_keys(key: jax.Array, first: int, n_trees: int) -> UInt32[Array, "trees 2"]:
    """Return two words for each of the trees ``first … first + n_trees``; they depend on a tree's number alone."""
    trees = jnp.arange(first, first + n_trees, dtype=jnp.uint32)
    return _tree_keys(key, trees)


@jit
def _tree_keys(key, trees):
    return jax.vmap(lambda tree: jax.random.bits(jax.random.fold_in(key, tree), (2,), jnp.uint32))(trees)


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return two words for every key and counter, element by element, by Threefry-2x32 with 20 rounds.

    `jax.random` would be called once per node, which costs far more. Source: Salmon et al. 2011.
    """
    words = (*key, key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    a, b = counter[0] + words[0], counter[1] + words[1]
    for block in range(5):
        for turn in _ROTATIONS[block % 2]:
            a = a + b
            b = a ^ ((b << np.uint32(turn)) | (b >> np.uint32(32 - turn)))
        a = a + words[(block + 1) % 3]
        b = b + words[(block + 2) % 3] + np.uint32(block + 1)
    return a, b


def below(bits: UInt32[Array, "..."], n: Int32[Array, "..."]) -> Int32[Array, "..."]:
    """Return a number uniform on 0 … n - 1 from 32 random bits: the high word of bits · n.

    Off uniform by less than n / 2³²: a hundredth of a per cent for a million instances.
    """
    n = n.astype(jnp.uint32)
    # A product of 64 bits in parts of 16, since JAX has no 64-bit integers by default.
    high, low = bits >> 16, bits & np.uint32(0xFFFF)
    n_high, n_low = n >> 16, n & np.uint32(0xFFFF)
    middle = high * n_low + ((low * n_low) >> 16)
    carry = (middle & np.uint32(0xFFFF)) + low * n_high
    return (high * n_high + (middle >> 16) + (carry >> 16)).astype(jnp.int32)


def unset_bit(rank: Int32[Array, "..."], free: list[UInt32[Array, "..."]]) -> Int32[Array, "..."]:
    """Return the place of the rank-th bit (from 0) that is set in ``free``, words of 32 one after the other."""
    place = jnp.zeros_like(rank)
    word = jnp.zeros(rank.shape, jnp.uint32)
    for i, bits in enumerate(free):
        count = lax.population_count(bits).astype(jnp.int32)
        here = (rank >= 0) & (rank < count)
        word, place = jnp.where(here, bits, word), jnp.where(here, 32 * i, place)
        # Once found the rank becomes negative in a way that keeps it: -1 - rank.
        rank = jnp.where(rank < 0, rank, jnp.where(here, -1 - rank, rank - count))
    rank = -1 - rank
    # Within the word by halving: five steps for any rank, without a branch.
    for width in (16, 8, 4, 2, 1):
        low = word & np.uint32((1 << width) - 1)
        count = lax.population_count(low).astype(jnp.int32)
        upper = rank >= count
        rank = jnp.where(upper, rank - count, rank)
        word = jnp.where(upper, word >> np.uint32(width), low)
        place = place + jnp.where(upper, width, 0)
    return place
