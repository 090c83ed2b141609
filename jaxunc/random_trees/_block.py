"""Growth of a block of trees to the end, in one program.

All open nodes of all trees are tried at a time. A node that fails stays open with one try more. So nodes at different
depths and tries advance together, and the number of steps is that of the longest path.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int32, PyTree, UInt32

from jaxunc._numerics import NAN_LAST, jit, pair_words

from ._decide import decide
from ._move import count_leaves, leaf_lanes, move_lanes
from ._node_tests import draw_tests
from ._sides import find_sides
from ._state import EncodedData, Grown, Limits, Open, OpenCuts, Scratch, Shape, State


@jit(static_argnums=0)
def grow_block(
    shape: Shape,
    data: EncodedData,
    limits: Limits,
    words: UInt32[Array, "trees 2"],
    sample: Int32[Array, "instances"],
    n_instances: Int32[Array, ""],
    n_live: Int32[Array, ""],
) -> tuple[Grown, PyTree[Int32[Array, "..."]]]:
    """Grow the first ``n_live`` trees of a block on the first ``n_instances`` instances of ``sample``.

    Also returns the class counts of their leaves; where weights are fractions, `leaf_lanes`. Trees whose root cannot be
    split have none.
    """
    root_open = (n_instances >= limits.min_split) & (limits.max_depth > 0)
    state = _start(shape, sample, n_instances, jnp.where(root_open, n_live, 0))
    # One loop for all trees and depths: its length is known to nobody before, and each step works on what is still
    # open.
    state = lax.while_loop(lambda state: state.n_open > 0, partial(_step, shape, data, limits, words), state)
    weight = data.weight
    return state.grown, leaf_lanes(shape, state) if weight is None else count_leaves(shape, data, weight, state)


def _step(shape: Shape, data: EncodedData, limits: Limits, words: UInt32[Array, "trees 2"], state: State) -> State:
    """Advance every open node by one try."""
    state = draw_tests(shape, data, words, state)
    state = find_sides(shape, data, limits, state)
    return move_lanes(shape, *decide(shape, data, limits, state))


def _start(shape: Shape, sample: Array, n_instances: Array, n_live: Array) -> State:
    """Give every tree a root with the whole sample."""
    # Twice the room: `State.follow` has a half for left and a half for right sides.
    tree = jnp.arange(2 * shape.n_open, dtype=jnp.int32)
    live = tree < n_live
    none = jnp.zeros_like(tree)
    used = tuple(none.astype(jnp.uint32) for _ in range(shape.n_words))
    roots = Open(
        slot=jnp.where(live, tree * shape.n_nodes, 0),
        first=jnp.where(live, tree * n_instances, 0),
        size=jnp.where(live, n_instances, 0),
        tried=none,
        depth=none,
        cuts=OpenCuts(none, none - 1, none, none, none, used) if shape.n_words else None,
    )
    # The second half is for lanes that have reached leaves.
    lane = jnp.arange(2 * shape.n_lanes, dtype=jnp.int32)
    is_used = lane < n_instances * n_live
    lanes = pair_words(jnp.where(is_used, sample[lane % n_instances], 0), jnp.where(is_used, lane // n_instances, 0))
    slots = shape.n_trees * shape.n_nodes
    # Where no feature is nominal nothing reads these pairs.
    nominal_slots = slots if shape.n_words else 1
    grown = Grown(
        feature=jnp.zeros(slots, jnp.int32),
        test=pair_words(jnp.full(slots, NAN_LAST, jnp.int32), jnp.full(slots, -1, jnp.int32)),
        member=pair_words(jnp.full(nominal_slots, -1, jnp.int32), jnp.zeros(nominal_slots, jnp.int32)),
        n_nodes=jnp.ones(shape.n_trees, jnp.int32),
        depth=jnp.zeros(shape.n_trees, jnp.int32),
    )
    scratch = Scratch(
        open=jax.tree.map(lambda field: field[: shape.n_open], roots),
        lanes=lanes[: shape.n_lanes],
        test=jnp.zeros(shape.n_open, jnp.complex64),
        before=jnp.zeros(shape.n_lanes, jnp.int32),
        move=jnp.zeros(2 * shape.n_open, jnp.complex64),
        values=jnp.zeros(shape.n_open if shape.n_words else 1, jnp.int32),
        cells=jnp.zeros(max(shape.n_cells, 1), jnp.int32),
        frequent=jnp.zeros(max(shape.n_cells, 1), jnp.int32),
        n_cells=jnp.int32(0),
    )
    return State(n_live, n_live * n_instances, jnp.int32(0), roots, tree[: shape.n_open], lanes, grown, scratch)
