"""The state of a growing block of trees, carried from step to step, and the functions that read and write it.

Words of this room:

| word | meaning |
|---|---|
| lane | one instance in one tree: the unit that is moved from node to node |
| slot | one node in one tree: tree · nodes of a tree + node |
| open node | a node that may still be split; it has tries left |
| rank | position of a value of a nominal feature, or of a gap between values, in their order |
| multi-way test | a test of a nominal feature with a child for each value, made as binary cuts of its ranks |
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Complex64, Int32, UInt32

from jaxunc._numerics import NAN_LAST, pair_words, split_words

Carry = TypeVar("Carry")


class Shape(NamedTuple):
    """Sizes and options that a program is compiled for."""

    n_trees: int
    n_nodes: int
    """Room for the nodes of a tree."""
    n_lanes: int
    """Room for the lanes of all trees."""
    n_open: int
    """Room for open nodes: enough for any step."""
    n_cells: int
    """Room for counting the values of multi-way tests; 0 if one instance is enough for a child, or none are nominal."""
    n_classes: int
    n_words: int
    """Number of 32-bit words for the nominal features that a path has used; 0 if no feature is nominal."""
    missing: bool
    """Whether numeric values may be missing, so that nodes draw a side for them."""
    lane_chunk: int
    node_chunk: int
    """Number of lanes, and of nodes, in a chunk: on a CPU as many as stay in the cache, else all."""


class EncodedData(NamedTuple):
    """The sample, numeric features before nominal ones; padded, so that sets of like size share programs."""

    keys: Int32[Array, "cells"]
    """Order keys of numeric features and ranks of nominal ones, feature by feature, ``stride`` cells apart."""
    stride: Int32[Array, ""]
    label: Int32[Array, "instances"]
    weight: Int32[Array, "instances"] | None
    """Weights of the instances if all are integers; else None, and the host sums them."""
    n_features: Int32[Array, ""]
    n_numeric: Int32[Array, ""]
    n_ranks: Int32[Array, "features"]
    """Number of ranks of each nominal feature, gaps included; 0 for a numeric one."""


class Limits(NamedTuple):
    """Conditions under which a node stays a leaf."""

    min_samples_leaf: Int32[Array, ""]  # least number of instances on both sides of a test
    min_split: Int32[Array, ""]  # nodes with fewer instances are leaves
    max_depth: Int32[Array, ""]  # nodes at this depth are leaves


class OpenCuts(NamedTuple):
    """State of open nodes within multi-way tests, each of which is grown as several binary cuts of ranks.

    A part of a test has the ranks ``low … high``. A part of several ranks is an open node, and is cut again. A part of
    a single rank is a child of the test; a part without instances is an empty leaf.
    """

    n_cuts: Int32[Array, "open"]
    """Number of binary tests above the node."""
    cutting: Int32[Array, "open"]
    """Nominal feature whose ranks are being cut; -1 if none is."""
    low: Int32[Array, "open"]
    high: Int32[Array, "open"]
    group: Int32[Array, "open"]
    """Node (number in its tree) whose multi-way test is being cut."""
    used: tuple[UInt32[Array, "open"], ...]
    """Bits of the nominal features that were drawn on the path."""


class Open(NamedTuple):
    """Open nodes, tree by tree."""

    slot: Int32[Array, "open"]
    first: Int32[Array, "open"]
    """Index of the node's first lane."""
    size: Int32[Array, "open"]
    tries: Int32[Array, "open"]
    depth: Int32[Array, "open"]
    """Number of tests above the node, a multi-way test counting once."""
    cuts: OpenCuts | None
    """State within multi-way tests; None if no feature is nominal."""


class BlockNodes(NamedTuple):
    """The nodes of a block of trees, by slot."""

    feature: Int32[Array, "slots"]
    test: Complex64[Array, "slots"]
    """Pairs of the threshold and the left child's number in its tree; the latter is -1 in a leaf."""
    member: Complex64[Array, "slots"]
    """For children and empty leaves of a multi-way test: pairs of its first cut's node and the number of instances.

    Elsewhere pairs of -1 and 0. A single pair if no feature is nominal.
    """
    n_nodes: Int32[Array, "trees"]
    depth: Int32[Array, "trees"]


class Scratch(NamedTuple):
    """Results that the passes of a step hand on to each other."""

    open: Open
    """Open nodes that the step tries."""
    lanes: Complex64[Array, "lanes"]
    """Lanes of the open nodes."""
    test: Complex64[Array, "open"]
    """Packed tests of the open nodes."""
    before: Int32[Array, "lanes"]
    """For each lane twice the number of lanes before it that go right, plus 1 if it goes right itself."""
    move: Complex64[Array, "2*open"]
    """Target of the lanes of open nodes, all left sides before all right ones: a packed shift, and the node or slot."""
    values: Int32[Array, "open"]
    """For each node the first of the cells in which the values of its multi-way test are counted.

    Where one instance is enough for a child, nothing is counted: 1 if there is a value above that of the cut, else 0.
    """
    cells: Int32[Array, "cells"]
    """Number of instances with each value."""
    frequent: Int32[Array, "cells"]
    """For each cell twice the number of cells before it that are large enough for a child, plus 1 if it is itself."""
    n_cells: Int32[Array, ""]


class State(NamedTuple):
    """State between two steps."""

    n_open: Int32[Array, ""]
    n_lanes: Int32[Array, ""]
    """Number of lanes that belong to open nodes."""
    n_done: Int32[Array, ""]
    """Number of lanes that have reached leaves."""
    follow: Open
    """Followers of the last step's nodes: all left sides in the first half, all right sides in the second."""
    open_index: Int32[Array, "open"]
    """Indices of the open nodes among the followers."""
    lanes: Complex64[Array, "2*lanes"]
    """Lanes of open nodes, node after node: pairs of the instance and its node's index among the open nodes.

    In the second half, lanes that have reached leaves: pairs of the instance and the leaf's slot.
    """
    nodes: BlockNodes
    scratch: Scratch


def first_state(shape: Shape, sample: Array, n_instances: Array, n_live: Array) -> State:
    """Return the state in which each of the first ``n_live`` trees has an open root with the whole sample.

    The sample is the first ``n_instances`` of the numbers of instances in ``sample``; the others are padding.
    """
    # Twice the room: `State.follow` has a half for left and a half for right sides.
    tree = jnp.arange(2 * shape.n_open, dtype=jnp.int32)
    is_live = tree < n_live
    zeros = jnp.zeros_like(tree)
    used = tuple(zeros.astype(jnp.uint32) for _ in range(shape.n_words))
    roots = Open(
        slot=jnp.where(is_live, tree * shape.n_nodes, 0),
        first=jnp.where(is_live, tree * n_instances, 0),
        size=jnp.where(is_live, n_instances, 0),
        tries=zeros,
        depth=zeros,
        cuts=OpenCuts(zeros, zeros - 1, zeros, zeros, zeros, used) if shape.n_words else None,
    )
    # The second half is for lanes that have reached leaves.
    lane = jnp.arange(2 * shape.n_lanes, dtype=jnp.int32)
    is_used = lane < n_instances * n_live
    lanes = pair_words(jnp.where(is_used, sample[lane % n_instances], 0), jnp.where(is_used, lane // n_instances, 0))
    n_slots = shape.n_trees * shape.n_nodes
    # Where no feature is nominal nothing reads these pairs.
    n_member_slots = n_slots if shape.n_words else 1
    # At first every node is a leaf: -1 stands for no child, and no key is beyond the threshold.
    nodes = BlockNodes(
        feature=jnp.zeros(n_slots, jnp.int32),
        test=pair_words(jnp.full(n_slots, NAN_LAST, jnp.int32), jnp.full(n_slots, -1, jnp.int32)),
        member=pair_words(jnp.full(n_member_slots, -1, jnp.int32), jnp.zeros(n_member_slots, jnp.int32)),
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
    return State(n_live, n_live * n_instances, jnp.int32(0), roots, tree[: shape.n_open], lanes, nodes, scratch)


def count_leaves(
    shape: Shape, data: EncodedData, weight: Int32[Array, "instances"], state: State
) -> Int32[Array, "cells"]:
    """Return the class counts of all nodes ``[slots*classes]``: of the lanes in leaves, by their instances' weight."""

    def count(start, counts):
        is_in_leaf = start + jnp.arange(shape.lane_chunk, dtype=jnp.int32) < state.n_done
        pairs = read_piece(state.lanes, shape.n_lanes + start, shape.lane_chunk)
        instance, slot = split_words(pairs, jnp.int32, jnp.int32)
        instance = jnp.where(is_in_leaf, instance, 0)
        # Other lanes get an index behind the end, and are dropped.
        cell = jnp.where(is_in_leaf, slot * shape.n_classes + data.label[instance], len(counts))
        return counts.at[cell].add(weight[instance], mode="drop")

    counts = jnp.zeros(shape.n_trees * shape.n_nodes * shape.n_classes, jnp.int32)
    return loop_chunks(state.n_done, shape.lane_chunk, count, counts)


def leaf_lanes(shape: Shape, state: State) -> tuple[Int32[Array, "lanes"], Int32[Array, "lanes"]]:
    """Return (instance of each lane, slot of the leaf that the lane has reached); the slot is -1 for other lanes."""
    instance, slot = split_words(state.lanes[shape.n_lanes :], jnp.int32, jnp.int32)
    return instance, jnp.where(jnp.arange(shape.n_lanes) < state.n_done, slot, -1)


def loop_chunks(n: Array, size: int, body: Callable[[Array, Carry], Carry], carry: Carry) -> Carry:
    """Return the carry after ``carry = body(start, carry)`` for each chunk of the first ``n`` entries.

    A chunk has ``size`` entries, from ``start`` on; the last one may reach beyond ``n``.
    """
    # A traced number of chunks: a step costs what is open, not what there is room for.
    return lax.fori_loop(0, (n + (size - 1)) // size, lambda i, carry: body(i * size, carry), carry)


def read_piece(array: Array, start, size: int) -> Array:
    """Return ``array[start : start + size]``, a slice that lies within the array (JAX would move ``start`` back)."""
    return lax.dynamic_slice(array, (start,), (size,))


def write_piece(array: Array, start, values: Array) -> Array:
    """Return ``array`` with ``values`` written from ``start`` on, within the array (JAX would move ``start`` back)."""
    return lax.dynamic_update_slice(array, values, (start,))


def gather(array: Array, index: Int32[Array, "..."]) -> Array:
    """Return ``array[index]``; ``index`` lies within the array, and is not negative."""
    return array.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def gather_pairs(pairs: Array, index: Int32[Array, "..."]) -> tuple[Array, Array]:
    """Return both int32 numbers of the packed ``pairs`` at ``index``, by one gather of 8-byte elements."""
    return split_words(gather(pairs, index), jnp.int32, jnp.int32)


def scatter(array: Array, index: Int32[Array, "n"], keep: Bool[Array, "n"], values) -> Array:
    """Return ``array`` with ``values`` written at ``index`` where ``keep`` is True; these indices are distinct."""
    # Other values go beyond the end, and are dropped: no branch, and no read of the old value.
    return array.at[jnp.where(keep, index, array.shape[0])].set(
        values, mode="drop", unique_indices=True, wrap_negative_indices=False
    )
