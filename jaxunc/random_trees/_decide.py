"""Third pass of a step, over open nodes: split, try again, or stay a leaf.

A *lane* is an instance in a tree. The lanes of an open node lie side by side, node after node, tree after tree:

    before the step   | node a: 7 lanes         | node b: 4 lanes |
    a is split        | a left: 3 | a right: 4  | b: tries again  |     all three are open next
    or a left: a leaf | a right: 4  | b: 4 |  …  second half: | a left: 3 |

This pass moves no lane. It writes, for the two sides of every open node, how far the lanes of that side have to go, and
`_move` applies it. Everything is a running sum over the nodes in their order, carried from chunk to chunk: so the order
of trees, nodes and lanes never changes, and the trees do not depend on how many nodes a chunk holds.
"""

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
"""Flag added to the number of a feature where missing values go left."""


class _Totals(NamedTuple):
    """Running totals over the open nodes, carried from chunk to chunk."""

    n_accepted: Int32[Array, ""]
    n_open: Int32[Array, ""]
    """Number of nodes that are open next."""
    n_lanes: Int32[Array, ""]
    """Number of lanes of the nodes that are open next."""
    last_tree: Int32[Array, ""]
    offset: Int32[Array, "trees"]
    """Number of a tree's next left child, less twice the node's rank among all accepted ones."""


def decide(shape: Shape, data: EncodedData, limits: Limits, state: State) -> tuple[State, Array, Array]:
    """Write the nodes that are split, those that are open next, and to ``scratch.move`` where lanes go.

    Also returns how many nodes are open next, and how many lanes they have.
    """
    # ``grown`` is written chunk by chunk, but all chunks number their children from the same counts.
    n_nodes = state.grown.n_nodes

    def some(start, carry):
        followers, places, grown, move, totals = carry
        opened = jax.tree.map(lambda field: piece(field, start, shape.node_chunk), state.scratch.open)
        test = DrawnTests.unpacked(
            *split_words(piece(state.scratch.test, start, shape.node_chunk), jnp.int32, jnp.int32)
        )
        # The last chunk reaches beyond the open nodes, into what earlier steps left there.
        live = start + jnp.arange(shape.node_chunk, dtype=jnp.int32) < state.n_open
        n_right = jnp.where(live, count_in(state.scratch.before, opened.first, opened.size), 0)
        n_left = opened.size - n_right
        fits = _fits(shape, data, limits, state, start, test, n_left, n_right)
        accepted = live & fits & ~test.exhausted
        retry = live & ~accepted & ~test.exhausted & (opened.tried + 1 < data.n_features)

        # Children get the next two numbers of their tree. The rank counts accepted nodes over all trees; the offset,
        # set where a tree's first open node comes by, takes those of the earlier trees off. A tree may go on in the
        # next chunk, which then finds its offset in the carry.
        tree = opened.slot // shape.n_nodes
        rank = count_before(accepted) + totals.n_accepted
        new_tree = live & (tree != jnp.concatenate([totals.last_tree[None], tree[:-1]]))
        offset = put(totals.offset, tree, new_tree, at(n_nodes, tree) - 2 * rank)
        child = at(offset, tree) + 2 * rank
        tried = Tried(opened, test, accepted, retry, child, n_left)
        left, right = (follow(shape, data, limits, tried, side) for side in (False, True))

        # Open nodes follow each other as left, right, left, right, …, and so do their lanes: a tree's nodes stay
        # together, as the numbering above needs them. Lanes that reach leaves go to the second half.
        size_left, size_right = (jnp.where(side.kept, side.nodes.size, 0) for side in (left, right))
        first_left = sum_before(size_left + size_right, shape.n_lanes) + totals.n_lanes
        place_left = count_before(left.kept) + count_before(right.kept) + totals.n_open
        first, place = (first_left, first_left + size_left), (place_left, place_left + left.kept.astype(jnp.int32))
        move = _with_moves(shape, state, move, start, tried, (left, right), first, place)
        for half, (side, f, p) in enumerate(zip((left, right), first, place, strict=True)):
            begin = half * shape.n_open + start
            # All sides are written, open or not; ``places`` says which of them the next step takes.
            nodes = side.nodes._replace(first=f)
            followers = jax.tree.map(lambda old, new, begin=begin: with_piece(old, begin, new), followers, nodes)
            places = put(places, p, side.kept, begin + jnp.arange(shape.node_chunk, dtype=jnp.int32))
        grown = _split(grown, tried, tree, (left, right))
        n_open = place[1][-1] + right.kept[-1].astype(jnp.int32)
        # Counts before each node, and the last node's own: the counts before the next chunk.
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
    """Return whether a test leaves enough instances on two sides."""
    fits = (n_left >= limits.min_samples_leaf) & (n_right >= limits.min_samples_leaf) & ~test.no_threshold
    if not shape.n_words:
        return fits
    # A multi-way test needs two children that are large enough: counted in cells, or, where one instance is enough, by
    # a value on either side of the first cut.
    values = piece(state.scratch.values, start, shape.node_chunk)
    if shape.n_cells:
        several = count_in(state.scratch.frequent, values, at(data.n_ranks, test.feature)) >= 2
    else:
        several = (n_left > 0) | (values > 0)
    # Further cuts only carry out a multi-way test that was accepted: they may leave a side empty.
    return jnp.where(test.multiway, several, fits) | test.cut


def _with_moves(shape: Shape, state: State, move: Array, start, tried: Tried, sides, first, place) -> Array:
    """Return ``move`` with where the lanes of both sides go; ``first`` and ``place`` belong to sides that stay open."""
    opened, accepted = tried.nodes, tried.accepted
    begin = opened.first, opened.first + sides[0].nodes.size
    # Lanes that go left, and that go right, before the node's first lane: over all nodes, as `_move` counts them, too.
    right_before = at(state.scratch.before, opened.first) >> 1
    counted = opened.first - right_before, right_before
    # ``first`` counts the lanes that stay, so the start of a side less its ``first`` is how many lanes before it are
    # done.
    done = shape.n_lanes + state.n_done
    goals = [
        (jnp.where(side.kept, f, done + b - f), jnp.where(side.kept, p, side.nodes.slot))
        for side, f, b, p in zip(sides, first, begin, place, strict=True)
    ]
    # The lanes of a node that was not accepted stay together: both its entries are those of its left side, itself.
    for i in range(2):
        target, goal = (jnp.where(accepted, *both) for both in zip(goals[i], goals[0], strict=True))
        # A shift is added to a lane's place among those of its side if the node is split, else to the lane's number.
        # The lowest bit tells which: a third array would be another gather for every lane.
        shift = target - jnp.where(accepted, counted[i], opened.first)
        move = with_piece(move, i * shape.n_open + start, pair_words(2 * shift + accepted.astype(jnp.int32), goal))
    return move


def _split(grown: Grown, tried: Tried, tree: Array, sides: tuple[Side, Side]) -> Grown:
    """Write the accepted tests."""
    nodes, test, accepted = tried.nodes, tried.test, tried.accepted
    depth = (nodes.depth if nodes.cuts is None else nodes.cuts.n_cuts) + 1
    feature = test.feature + jnp.where(test.missing_right, 0, MISSING_LEFT)
    # A slot is written once a step. A tree is met at each of its nodes, so its number of nodes and its depth are added
    # and compared by the scatter itself; nodes that are not accepted add 0.
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
