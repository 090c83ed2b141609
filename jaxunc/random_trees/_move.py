"""Last pass of a step, over lanes: instances move, stably, to the nodes that follow theirs."""

import jax.numpy as jnp
from jaxtyping import Array, Int32

from jaxunc._numerics import pair_words, split_words

from ._chunks import over_chunks, pair_at, piece, put
from ._sides import lane_piece
from ._state import EncodedData, Shape, State


def move_lanes(shape: Shape, state: State, n_open: Array, n_lanes: Array) -> State:
    """Write the lanes of the ``n_open`` nodes that are open next, and those that have reached leaves."""

    def move(start, lanes):
        lane, used, instance, node = lane_piece(shape, state, state.scratch.lanes, start)
        before = piece(state.scratch.before, start, shape.lane_chunk)
        before, right = before >> 1, before & 1
        # A lane's new place is a shift of its node's side plus its place among the lanes of that side, or its own
        # number: so the order within a node never changes, and the next step draws the same instances whatever the
        # chunks are.
        shift, goal = pair_at(state.scratch.move, right * shape.n_open + node)
        counted = jnp.where(shift & 1 == 0, lane, jnp.where(right == 1, before, lane - before))
        return put(lanes, (shift >> 1) + counted, used, pair_words(instance, goal))

    lanes = over_chunks(state.n_lanes, shape.lane_chunk, move, state.lanes)
    n_done = state.n_done + state.n_lanes - n_lanes
    return state._replace(n_open=n_open, n_lanes=n_lanes, n_done=n_done, lanes=lanes)


def count_leaves(
    shape: Shape, data: EncodedData, weight: Int32[Array, "instances"], state: State
) -> Int32[Array, "cells"]:
    """Return the class counts of all nodes, from the lanes that have reached leaves."""

    def count(start, counts):
        done = start + jnp.arange(shape.lane_chunk, dtype=jnp.int32) < state.n_done
        pairs = piece(state.lanes, shape.n_lanes + start, shape.lane_chunk)
        instance, slot = split_words(pairs, jnp.int32, jnp.int32)
        instance = jnp.where(done, instance, 0)
        # Counted once, at the end, from the lanes in leaves: nodes on the way need no counts.
        cell = jnp.where(done, slot * shape.n_classes + data.label[instance], len(counts))
        return counts.at[cell].add(weight[instance], mode="drop")

    counts = jnp.zeros(shape.n_trees * shape.n_nodes * shape.n_classes, jnp.int32)
    return over_chunks(state.n_done, shape.lane_chunk, count, counts)


def leaf_lanes(shape: Shape, state: State) -> tuple[Int32[Array, "lanes"], Int32[Array, "lanes"]]:
    """Return the instances of the lanes that have reached leaves, and the leaves' slots; -1 for all other lanes."""
    instance, slot = split_words(state.lanes[shape.n_lanes :], jnp.int32, jnp.int32)
    return instance, jnp.where(jnp.arange(shape.n_lanes) < state.n_done, slot, -1)
