"""Second pass of a step, over lanes: on which side of its node's test every instance lies."""

import jax.numpy as jnp
from jaxtyping import Array

from jaxunc._numerics import NAN_LAST, count_before, pair_words, split_words

from ._chunks import at, over_chunks, pair_at, piece, with_piece
from ._node_tests import DrawnTests
from ._state import EncodedData, Limits, Scratch, Shape, State


def lane_piece(shape: Shape, state: State, lanes: Array, start) -> tuple[Array, Array, Array, Array]:
    """Return a chunk of lanes: their numbers, which of them are in use, their instances and their open nodes."""
    lane = start + jnp.arange(shape.lane_chunk, dtype=jnp.int32)
    used = lane < state.n_lanes
    instance, node = split_words(piece(lanes, start, shape.lane_chunk), jnp.int32, jnp.int32)
    return lane, used, jnp.where(used, instance, 0), jnp.where(used, node, 0)


def find_sides(shape: Shape, data: EncodedData, limits: Limits, state: State) -> State:
    """Write to ``scratch.before`` which lanes go right, and what is to be known of the values of multi-way tests.

    The lanes themselves are copied to ``scratch.lanes``.
    """
    scratch = state.scratch
    if shape.n_cells:
        scratch = scratch._replace(cells=_cleared(shape, scratch))

    def look(start, carry):
        scratch, n_right = carry
        _, used, instance, node = lane_piece(shape, state, state.lanes, start)
        test = DrawnTests.unpacked(*pair_at(scratch.test, node))
        # Keys lie feature by feature: the lanes of a node read the same feature, at places close to each other.
        key = at(data.keys, test.feature * data.stride + instance)
        right = key > test.threshold
        if shape.missing:
            right = jnp.where(key == NAN_LAST, test.missing_right, right)
        right &= used
        before = count_before(right) + n_right
        scratch = scratch._replace(
            lanes=with_piece(scratch.lanes, start, pair_words(instance, node)),
            # Doubled, with the lane's own side as the lowest bit: `_move` needs both, and reads them at once.
            before=with_piece(scratch.before, start, 2 * before + right.astype(jnp.int32)),
        )
        if shape.n_cells:
            # An index beyond the cells is dropped: lanes of other tests are counted nowhere.
            cell = jnp.where(used & test.multiway, at(scratch.values, node) + key, shape.n_cells)
            scratch = scratch._replace(cells=scratch.cells.at[cell].add(1, mode="drop"))
        elif shape.n_words:  # the first cut lies just below a value
            above = (used & (key > test.threshold + 1)).astype(jnp.int32)
            scratch = scratch._replace(values=scratch.values.at[node].max(above, mode="promise_in_bounds"))
        return scratch, before[-1] + right[-1].astype(jnp.int32)

    scratch, _ = over_chunks(state.n_lanes, shape.lane_chunk, look, (scratch, jnp.int32(0)))
    if shape.n_cells:
        scratch = scratch._replace(frequent=_frequent_before(shape, limits, scratch))
    return state._replace(scratch=scratch)


def _cleared(shape: Shape, scratch: Scratch) -> Array:
    zeros = jnp.zeros(shape.lane_chunk, jnp.int32)
    return over_chunks(
        scratch.n_cells, shape.lane_chunk, lambda start, cells: with_piece(cells, start, zeros), scratch.cells
    )


def _frequent_before(shape: Shape, limits: Limits, scratch: Scratch) -> Array:
    def count(start, carry):
        counted, n_frequent = carry
        frequent = piece(scratch.cells, start, shape.lane_chunk) >= limits.min_samples_leaf
        before, here = count_before(frequent) + n_frequent, frequent.astype(jnp.int32)
        return with_piece(counted, start, 2 * before + here), before[-1] + here[-1]

    counted, _ = over_chunks(scratch.n_cells, shape.lane_chunk, count, (scratch.frequent, jnp.int32(0)))
    return counted


def count_in(before: Array, first: Array, size: Array) -> Array:
    """Return how many of ``size`` entries from ``first`` on are set, from doubled counts before each entry."""
    # Counts before the last entry, and the last one's own bit: an entry behind the array is never read.
    last = at(before, first + jnp.maximum(size, 1) - 1)
    return jnp.where(size > 0, (last >> 1) + (last & 1) - (at(before, first) >> 1), 0)
