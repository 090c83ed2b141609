"""Growing a block of trees to the end: programs of shrinking size, driven from the host."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int32, UInt32

from jaxunc._numerics import NAN_LAST
from jaxunc.routing import pair_words, split_words

from ._state import Data, Grown, Limits, Open, State
from ._step import Shape, step

SMALLEST_LANES, SMALLEST_OPEN = 4096, 256


def power_of_two(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def grow_block(
    shape: Shape,
    data: Data,
    limits: Limits,
    words: UInt32[Array, "trees 2"],
    sample: Int32[Array, "instances"],
    n_instances: int,
    n_live: int,
) -> Grown:
    """Grow the first ``n_live`` trees of a block on the first ``n_instances`` instances of ``sample``.

    As instances reach leaves, the arrays shrink: a step costs what its open nodes hold. Where arrays are cut does not
    change what is drawn.
    """
    n_lanes = power_of_two(max(n_live * n_instances + 1, SMALLEST_LANES))
    root_open = n_instances >= int(limits.min_split) and int(limits.max_depth) > 0
    if not root_open:
        n_live = 0
    state = _start(shape, n_lanes, power_of_two(max(shape.n_trees, SMALLEST_OPEN)), sample, n_instances, n_live, data)
    least = 1 if shape.n_words else shape.smallest
    n_open, n_instances, room = int(state.n_open), int(state.n_lanes), 0
    while n_open:
        n_lanes = _rung(n_instances + 1, n_lanes)
        sizes = _open_sizes(n_lanes, least)
        room = next((size for size in sizes if size >= n_open and (size > room or not state.stalled)), sizes[-1])
        state = _advance(shape, data, limits, words, _resize(state, n_lanes, room))
        n_open, n_instances = int(state.n_open), int(state.n_lanes)
    return state.grown


def _rung(needed: int, current: int) -> int:
    """The number of lanes to go on with."""
    size = current
    while size > SMALLEST_LANES and needed <= size // _shrink(size):
        size = max(size // _shrink(size), SMALLEST_LANES)
    return size


def _shrink(n_lanes: int) -> int:
    """By how much arrays shrink. Small ones cost little, and each size is a program to compile."""
    return 2 if n_lanes > 2**16 else 4


def _open_sizes(n_lanes: int, least: int) -> list[int]:
    """Room for open nodes: the largest is enough for any step."""
    largest = max(n_lanes // least, SMALLEST_OPEN)
    if n_lanes <= 2**14:  # costs little anyway
        return [largest]
    return sorted({max(largest // 16, SMALLEST_OPEN), max(largest // 4, SMALLEST_OPEN), largest})


@partial(jax.jit, static_argnums=(0, 1, 2))
def _start(shape: Shape, n_lanes: int, n_open: int, sample, n_instances, n_live, data: Data) -> State:
    """Every tree a root with the whole sample."""
    slots = shape.n_trees * shape.n_nodes
    tree = jnp.arange(n_open, dtype=jnp.int32)
    live = tree < n_live
    zeros = jnp.zeros(n_open, jnp.int32)
    opened = Open(
        slot=jnp.where(live, tree * shape.n_nodes, 0),
        first=jnp.where(live, tree * n_instances, 0),
        size=jnp.where(live, n_instances, 0),
        tried=zeros,
        depth=zeros,
        cuts=zeros,
        cutting=zeros - 1,
        low=zeros,
        high=zeros,
        group=zeros,
        used=tuple(jnp.zeros(n_open, jnp.uint32) for _ in range(shape.n_words)),
    )
    lane = jnp.arange(n_lanes, dtype=jnp.int32)
    used = lane < n_instances * n_live
    lanes = pair_words(jnp.where(used, sample[lane % n_instances], 0), jnp.where(used, lane // n_instances, 0))
    grown = Grown(
        feature=jnp.zeros(slots, jnp.int32),
        test=pair_words(jnp.full(slots, NAN_LAST, jnp.int32), jnp.full(slots, -1, jnp.int32)),
        counts=jnp.zeros(slots * shape.n_classes, data.weight.dtype),
        group=jnp.full(slots if shape.n_words else 1, -1, jnp.int32),
        size=jnp.zeros(slots if shape.n_words else 1, jnp.int32),
        n_nodes=jnp.ones(shape.n_trees, jnp.int32),
        depth=jnp.zeros(shape.n_trees, jnp.int32),
    )
    n_live = jnp.asarray(n_live, jnp.int32)
    return State(opened, lanes, grown, n_live, n_live * n_instances, jnp.array(False))


def _resize(state: State, n_lanes: int, n_open: int) -> State:
    fit = lambda n: lambda a: a[:n] if len(a) >= n else jnp.pad(a, (0, n - len(a)))  # noqa: E731
    return state._replace(open=jax.tree.map(fit(n_open), state.open), lanes=fit(n_lanes)(state.lanes))


@partial(jax.jit, static_argnums=0, donate_argnums=4)
def _advance(shape: Shape, data: Data, limits: Limits, words, state: State) -> State:
    """Steps while they fill a good part of the arrays and what they leave open finds room."""
    n_lanes = len(state.lanes)
    enough = n_lanes // _shrink(n_lanes) if n_lanes > SMALLEST_LANES else 0
    going = lambda state: (state.n_open > 0) & (state.n_lanes >= enough) & ~state.stalled  # noqa: E731
    state = state._replace(stalled=jnp.array(False))
    state = lax.while_loop(going, partial(step, shape, data, limits, words), state)
    return _count_leaves(shape, data, state)


def _count_leaves(shape: Shape, data: Data, state: State) -> State:
    """Count the instances that have reached leaves, and clear their lanes."""
    instance, goal = split_words(state.lanes, jnp.int32, jnp.int32)
    counts = state.grown.counts
    done = (jnp.arange(len(goal)) >= state.n_lanes) & (goal < 0)
    cell = jnp.where(done, (-1 - goal) * shape.n_classes + data.label[instance], len(counts))
    counts = counts.at[cell].add(data.weight[instance], mode="drop")
    return state._replace(
        lanes=pair_words(instance, jnp.where(goal < 0, 0, goal)), grown=state.grown._replace(counts=counts)
    )
