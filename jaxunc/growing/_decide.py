"""Third pass of a step, over open nodes: split, try again, or stay a leaf."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from jaxunc.routing import pair_words, split_words

from ._chunks import at, over_chunks, piece, put, with_piece
from ._draw import Test
from ._follow import Next, follow
from ._running import count_before, sum_before
from ._sides import count_in
from ._state import Data, Grown, Limits, Open, Shape, State

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


def decide(shape: Shape, data: Data, limits: Limits, state: State) -> tuple[State, Array, Array]:
    """Write the nodes that are split, those that are open next, and to ``scratch.move`` where lanes go.

    Also returns how many nodes are open next, and how many lanes they have.
    """
    n_nodes = state.grown.n_nodes  # as they are before the step

    def some(start, carry):
        opened_next, grown, move, totals = carry
        opened = jax.tree.map(lambda field: piece(field, start, shape.node_chunk), state.scratch.open)
        test = Test.unpacked(*split_words(piece(state.scratch.test, start, shape.node_chunk), jnp.int32, jnp.int32))
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
        next_ = follow(shape, data, limits, test, opened, accepted, retry, child, n_left)
        nodes, kept = next_.nodes, next_.kept

        # The lanes of open nodes lie side by side, those that reach leaves lie in the second half.
        size = jnp.where(kept, nodes.size, 0)
        first = sum_before(size.reshape(-1), shape.n_lanes).reshape(-1, 2) + totals.n_lanes
        place = count_before(kept.reshape(-1)).reshape(-1, 2) + totals.n_open
        begin = jnp.stack([opened.first, opened.first + nodes.size[:, 0]], axis=1)
        goal = jnp.where(kept, place, nodes.slot)
        target = jnp.where(kept, first, shape.n_lanes + state.n_done + begin - first)
        side = _moves(accepted[:, None], target, goal, opened.first, at(state.scratch.before, opened.first) >> 1)
        move = with_piece(move, 2 * start, side.reshape(-1))

        flat_kept, where = kept.reshape(-1), place.reshape(-1)
        opened_next = jax.tree.map(
            lambda old, new: put(old, where, flat_kept, new.reshape(-1)), opened_next, nodes._replace(first=first)
        )
        grown = _split(shape, grown, opened, test, accepted, tree, child, next_)
        last = rank[-1] + accepted[-1], place[-1, 1] + kept[-1, 1], first[-1, 1] + size[-1, 1], tree[-1]
        return opened_next, grown, move, _Totals(*last, offset)

    zero = jnp.int32(0)
    totals = _Totals(zero, zero, zero, jnp.int32(-1), jnp.zeros(shape.n_trees, jnp.int32))
    carry = state.open, state.grown, state.scratch.move, totals
    opened, grown, move, totals = over_chunks(state.n_open, shape.node_chunk, some, carry)
    state = state._replace(open=opened, grown=grown, scratch=state.scratch._replace(move=move))
    return state, totals.n_open, totals.n_lanes


def _fits(shape: Shape, data: Data, limits: Limits, state: State, start, test: Test, n_left, n_right) -> Array:
    """Whether a test leaves enough instances on two sides."""
    fits = (n_left >= limits.min_leaf) & (n_right >= limits.min_leaf) & ~test.no_threshold
    if not shape.n_words:
        return fits
    values = piece(state.scratch.values, start, shape.node_chunk)
    if shape.n_cells:
        several = count_in(state.scratch.frequent, values, at(data.n_ranks, test.feature)) >= 2
    else:
        several = (n_left > 0) | (values > 0)
    return jnp.where(test.multiway, several, fits) | test.cut


def _moves(split: Bool[Array, "open 1"], target: Array, goal: Array, first: Array, n_right: Array) -> Array:
    """For both sides of nodes, packed: what to add to a lane's count of those on its side before it, and its goal.

    Where there are no sides, it is added to the lane's number. The lowest bit tells.
    """
    counted = jnp.stack([first - n_right, n_right], axis=1)
    shift = jnp.where(split, target - counted, (target[:, 0] - first)[:, None])
    return pair_words(2 * shift + split, jnp.where(split, goal, goal[:, :1]))


def _split(shape: Shape, grown: Grown, opened: Open, test: Test, accepted, tree, child, next_: Next) -> Grown:
    """Write the accepted tests."""
    depth = (opened.depth if opened.cuts is None else opened.cuts.n_cuts) + 1
    feature = test.feature + MISSING_LEFT * ~test.missing_right
    grown = grown._replace(
        feature=put(grown.feature, opened.slot, accepted, feature),
        test=put(grown.test, opened.slot, accepted, pair_words(test.threshold, child)),
        n_nodes=grown.n_nodes.at[tree].add(2 * accepted.astype(jnp.int32), mode="promise_in_bounds"),
        depth=grown.depth.at[tree].max(jnp.where(accepted, depth, 0), mode="promise_in_bounds"),
    )
    if next_.closed is None or next_.nodes.cuts is None:
        return grown
    slot, closed = next_.nodes.slot.reshape(-1), next_.closed.reshape(-1)
    return grown._replace(
        group=put(grown.group, slot, closed, next_.nodes.cuts.group.reshape(-1)),
        size=put(grown.size, slot, closed, next_.nodes.size.reshape(-1)),
    )
