"""First pass of a step, over open nodes: draw a test from the tree's key, the node's number and the try."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Complex64, Int32, UInt32

from jaxunc._numerics import NAN_LAST, pair_words

from ._chunks import at, over_chunks, pair_at, piece, with_piece
from ._random_bits import below, threefry, unset_bit
from ._state import EncodedData, Open, Shape, State

_FEATURE = np.int32(2**24 - 1)
# Flags beside the number of the feature.
_MULTIWAY, _CUT, _EXHAUSTED, _NO_THRESHOLD, _MISSING_RIGHT = (np.int32(2**i) for i in range(24, 29))


class DrawnTests(NamedTuple):
    """Tests of open nodes, on integer keys: right is where ``key > threshold``."""

    feature: Int32[Array, "open"]
    threshold: Int32[Array, "open"]
    multiway: Bool[Array, "open"]
    """Whether a nominal feature was drawn: if accepted, the test is the first cut of its ranks."""
    cut: Bool[Array, "open"]
    """Whether the test is a further cut of one that was accepted before."""
    exhausted: Bool[Array, "open"]
    """Whether there is no feature left to draw."""
    no_threshold: Bool[Array, "open"]
    """Whether the instance that was drawn lacks the feature."""
    missing_right: Bool[Array, "open"]
    """Whether a missing value goes right."""

    def packed(self) -> Complex64[Array, "open"]:
        """Tests packed as pairs of 32-bit words."""
        flags = ((_MULTIWAY, self.multiway), (_CUT, self.cut), (_EXHAUSTED, self.exhausted))
        flags += ((_NO_THRESHOLD, self.no_threshold), (_MISSING_RIGHT, self.missing_right))
        word = self.feature
        for flag, is_set in flags:
            word = word | jnp.where(is_set, flag, 0)
        return pair_words(word, self.threshold)

    @classmethod
    def unpacked(cls, word: Int32[Array, "..."], threshold: Int32[Array, "..."]) -> "DrawnTests":
        """Unpack tests from the two words of their pairs."""
        flags = (_MULTIWAY, _CUT, _EXHAUSTED, _NO_THRESHOLD, _MISSING_RIGHT)
        return cls(word & _FEATURE, threshold, *((word & flag) > 0 for flag in flags))


def draw_tests(shape: Shape, data: EncodedData, words: UInt32[Array, "trees 2"], state: State) -> State:
    """Write a test for every open node to ``scratch.test``, and make room to look at the values of multi-way ones.

    The nodes themselves are gathered to ``scratch.open`` from the places that the last step left them in.
    """

    def draw(start, carry):
        scratch, n_cells = carry
        place = piece(state.place, start, shape.node_chunk)
        # Followers were written where their parents were tried; gathered here they lie tree by tree, as all passes need
        # them.
        opened = jax.tree.map(lambda field: at(field, place), state.follow)
        test = _draw(shape, data, words, state, opened)
        scratch = scratch._replace(
            open=jax.tree.map(lambda field, some: with_piece(field, start, some), scratch.open, opened),
            test=with_piece(scratch.test, start, test.packed()),
        )
        if shape.n_cells:
            live = start + jnp.arange(shape.node_chunk, dtype=jnp.int32) < state.n_open
            needed = jnp.where(test.multiway & live, at(data.n_ranks, test.feature), 0)
            # A node with a multi-way test gets as many cells as its feature has ranks, one node after the other.
            cell = jnp.cumsum(needed, dtype=jnp.int32) - needed + n_cells
            scratch = scratch._replace(values=with_piece(scratch.values, start, cell))
            n_cells = cell[-1] + needed[-1]
        elif shape.n_words:
            scratch = scratch._replace(values=with_piece(scratch.values, start, jnp.zeros_like(test.feature)))
        return scratch, n_cells

    scratch, n_cells = over_chunks(state.n_open, shape.node_chunk, draw, (state.scratch, jnp.int32(0)))
    return state._replace(scratch=scratch._replace(n_cells=n_cells))


def _draw(shape: Shape, data: EncodedData, words, state: State, opened: Open) -> DrawnTests:
    tree = opened.slot // shape.n_nodes
    node = (opened.slot - tree * shape.n_nodes).astype(jnp.uint32)
    # By the tree's key, the node's number and the try alone: what else grows in the block has no part in it.
    tree_key = (at(words[:, 0], tree), at(words[:, 1], tree))
    a, b = threefry(tree_key, (node, opened.tried.astype(jnp.uint32)))
    # The drawn value goes left or right with equal chance, so that neither end of a feature's range is preferred.
    strict = (b & np.uint32(1)).astype(jnp.int32)
    none = jnp.zeros(tree.shape, bool)
    side = (b & np.uint32(2)) > 0 if shape.missing else ~none
    row = opened.first + below(b, opened.size)
    if opened.cuts is None:
        feature = below(a, jnp.broadcast_to(data.n_features, tree.shape))
        value = _value(shape, data, state, feature, row)
        return DrawnTests(feature, value - strict, none, none, none, value == NAN_LAST, side)
    n_nominal = data.n_features - data.n_numeric
    # Nominal features that the path has not used, as bits; the drawn number counts numeric ones first, then these.
    free = [_first_bits(n_nominal - 32 * i) & ~word for i, word in enumerate(opened.cuts.used)]
    n_free = data.n_numeric + sum(lax.population_count(word).astype(jnp.int32) for word in free)
    drawn = below(a, jnp.broadcast_to(n_free, tree.shape))
    feature = jnp.where(drawn < data.n_numeric, drawn, data.n_numeric + unset_bit(drawn - data.n_numeric, free))
    cut = opened.cuts.cutting >= 0
    exhausted = (n_free == 0) & ~cut
    feature = jnp.where(cut, opened.cuts.cutting, jnp.where(exhausted, 0, feature))
    multiway = (feature >= data.n_numeric) & ~cut & ~exhausted
    # Ranks are cut at that of the instance in the middle: frequent ones are told apart first.
    row = jnp.where(cut | multiway, opened.first + opened.size // 2, row)
    value = _value(shape, data, state, feature, row)
    low = jnp.where(cut, opened.cuts.low, 0)
    strict = jnp.where(cut | multiway, (low < value).astype(jnp.int32), strict)
    return DrawnTests(feature, value - strict, multiway, cut, exhausted, value == NAN_LAST, side | multiway | cut)


def _value(shape: Shape, data: EncodedData, state: State, feature: Array, row: Array) -> Array:
    """Return the key of the instance in a lane."""
    instance, _ = pair_at(state.lanes, row)
    return at(data.keys, feature * data.stride + instance)


def _first_bits(n) -> Array:
    """Return a word with the first n bits set (none below 0, all above 32)."""
    n = jnp.clip(n, 0, 32).astype(jnp.uint32)
    return jnp.where(n == 32, np.uint32(0xFFFFFFFF), (np.uint32(1) << (n % 32)) - np.uint32(1))
