"""Third pass of a step, over open nodes: split, try again, or stay a leaf."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32

from jaxunc._numerics import count_before, pair_words, split_words, sum_before

from ._chunks import at, over_chunks, piece, put, with_piece
from ._follow import Side, Tried, follow
from ._node_tests import DrawnTests
from ._sides import count_in
from ._state import EncodedData, Grown, Limits, Shape, State

MISSING_LEFT = np.int32(2**30)
"""Added to the number of a feature where missing values go left."""


class _Totals(NamedTuple):
    """Running totals over the open nodes."""

    n_accepted: Int32[Array, ""]
    n_open: Int32[Array, ""]
    """How many are open next."""
    n_lanes: Int32[Array, ""]
    """How many lanes they have."""
    last_tree: Int32[Array, ""]
    offset: Int32[Array, "trees"]
    """Twice the rank of a tree's node among the accepted ones, and this, is the number of the node's left child."""


def decide(shape: Shape, data: EncodedData, limits: Limits, state: State) -> tuple[State, Array, Array]:
    """Write the nodes that are split, those that are open next, and to ``scratch.move`` where lanes go.

    Also returns how many nodes are open next, and how many lanes they have.
    """
    n_nodes = state.grown.n_nodes  # as they are before the step

    def some(start, carry):
        followers, places, grown, move, totals = carry
        opened = jax.tree.map(lambda field: piece(field, start, shape.node_chunk), state.scratch.open)
        test = DrawnTests.unpacked(
            *split_words(piece(state.scratch.test, start, shape.node_chunk), jnp.int32, jnp.int32)
        )
        live = start + jnp.arange(shape.node_chunk, dtype=jnp.int32) < state.n_open
        n_right = jnp.where(live, count_in(state.scratch.before, opened.first, opened.size), 0)
        n_left = opened.size - n_right
        fits = _fits(shape, data, limits, state, start, test, n_left, n_right)
        accepted = live & fits & ~test.exhausted
        retry = live & ~accepted & ~test.exhausted & (opened.tried + 1 < data.n_features)

        # Children get the next two numbers of their tree.
        tree = opened.slot // shape.n_nodes
        rank = count_before(accepted) + totals.n_accepted
        new_tree = live & (tree != jnp.concatenate([totals.last_tree[None], tree[:-1]]))
        offset = put(totals.offset, tree, new_tree, at(n_nodes, tree) - 2 * rank)
        child = at(offset, tree) + 2 * rank
        tried = Tried(opened, test, accepted, retry, child, n_left)
        left, right = (follow(shape, data, limits, tried, side) for side in (False, True))

        # The lanes of open nodes lie side by side, those that reach leaves lie in the second half.
        size_left, size_right = (jnp.where(side.kept, side.nodes.size, 0) for side in (left, right))
        first_left = sum_before(size_left + size_right, shape.n_lanes) + totals.n_lanes
        place_left = count_before(left.kept) + count_before(right.kept) + totals.n_open
        first, place = (first_left, first_left + size_left), (place_left, place_left + left.kept.astype(jnp.int32))
        move = _with_moves(shape, state, move, start, tried, (left, right), first, place)
        for half, (side, f, p) in enumerate(zip((left, right), first, place, strict=True)):
            begin = half * shape.n_open + start
            nodes = side.nodes._replace(first=f)
            followers = jax.tree.map(lambda old, new, begin=begin: with_piece(old, begin, new), followers, nodes)
            places = put(places, p, side.kept, begin + jnp.arange(shape.node_chunk, dtype=jnp.int32))
        grown = _split(grown, tried, tree, (left, right))
        n_open = place[1][-1] + right.kept[-1].astype(jnp.int32)
        last = rank[-1] + accepted[-1].astype(jnp.int32), n_open, first[1][-1] + size_right[-1], tree[-1]
        return followers, places, grown, move, _Totals(*last, offset)

    zero = jnp.int32(0)
    totals = _Totals(zero, zero, zero, jnp.int32(-1), jnp.zeros(shape.n_trees, jnp.int32))
    carry = state.follow, state.place, state.grown, state.scratch.move, totals
    followers, places, grown, move, totals = over_chunks(state.n_open, shape.node_chunk, some, carry)
    state = state._replace(follow=followers, place=places, grown=grown, scratch=state.scratch._replace(move=move))
    return state, totals.n_open, totals.n_lanes


def _fits(
    shape: Shape, data: EncodedData, limits: Limits, state: State, start, test: DrawnTests, n_left, n_right
) -> Array:
    """Whether a test leaves enough instances on two sides."""
    fits = (n_left >= limits.min_samples_leaf) & (n_right >= limits.min_samples_leaf) & ~test.no_threshold
    if not shape.n_words:
        return fits
    values = piece(state.scratch.values, start, shape.node_chunk)
    if shape.n_cells:
        several = count_in(state.scratch.frequent, values, at(data.n_ranks, test.feature)) >= 2
    else:
        several = (n_left > 0) | (values > 0)
    return jnp.where(test.multiway, several, fits) | test.cut


def _with_moves(shape: Shape, state: State, move: Array, start, tried: Tried, sides, first, place) -> Array:
    """``move`` with where the lanes of both sides go; ``first`` and ``place`` are those of the sides that stay open."""
    opened, accepted = tried.nodes, tried.accepted
    begin = opened.first, opened.first + sides[0].nodes.size
    right_before = at(state.scratch.before, opened.first) >> 1
    counted = opened.first - right_before, right_before
    done = shape.n_lanes + state.n_done
    goals = [
        (jnp.where(side.kept, f, done + b - f), jnp.where(side.kept, p, side.nodes.slot))
        for side, f, b, p in zip(sides, first, begin, place, strict=True)
    ]
    for i in range(2):
        target, goal = (jnp.where(accepted, *both) for both in zip(goals[i], goals[0], strict=True))
        # The lowest bit tells whether a lane's place among those of its side is added, or its number.
        shift = target - jnp.where(accepted, counted[i], opened.first)
        move = with_piece(move, i * shape.n_open + start, pair_words(2 * shift + accepted.astype(jnp.int32), goal))
    return move


def _split(grown: Grown, tried: Tried, tree: Array, sides: tuple[Side, Side]) -> Grown:
    """Write the accepted tests."""
    nodes, test, accepted = tried.nodes, tried.test, tried.accepted
    depth = (nodes.depth if nodes.cuts is None else nodes.cuts.n_cuts) + 1
    feature = test.feature + jnp.where(test.missing_right, 0, MISSING_LEFT)
    grown = grown._replace(
        feature=put(grown.feature, nodes.slot, accepted, feature),
        test=put(grown.test, nodes.slot, accepted, pair_words(test.threshold, tried.child)),
        n_nodes=grown.n_nodes.at[tree].add(2 * accepted.astype(jnp.int32), mode="promise_in_bounds"),
        depth=grown.depth.at[tree].max(jnp.where(accepted, depth, 0), mode="promise_in_bounds"),
    )
    for side in sides:
        if side.closed is not None and side.nodes.cuts is not None:
            member = pair_words(side.nodes.cuts.group, side.nodes.size)
            grown = grown._replace(member=put(grown.member, side.nodes.slot, side.closed, member))
    return grown
