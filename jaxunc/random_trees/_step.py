"""Growth of a block of trees to the end, in one program, and the four passes of each of its steps.

A step advances all open nodes of all trees by one try. A node whose test fails stays open with one more try counted. So
nodes at different depths and tries advance together, and the longest path decides the number of steps.

| pass | over | writes |
|---|---|---|
| `draw_tests` | open nodes | a test, from the tree's key, the node's number and the try |
| `find_sides` | lanes | on which side of its node's test each lane lies |
| `decide` | open nodes | what is split, what is open next, and how far the lanes of each side have to go |
| `move_lanes` | lanes | the lanes at their new indices |

A lane is one instance in one tree (`_state` has all words). The lanes of an open node lie side by side, node after
node, tree after tree:

    before the step   | node a: 7 lanes         | node b: 4 lanes |
    a is split        | a left: 3 | a right: 4  | b: tries again  |     all three are open next
    or a left: a leaf | a right: 4  | b: 4 |  …  second half: | a left: 3 |

The new indices of nodes and lanes are running sums over the nodes in their order, carried from chunk to chunk. So the
order of trees, nodes and lanes never changes, and the trees do not depend on how many nodes a chunk holds. Random
numbers are made by counter: what (tree, node, try) draws does not depend on what is grown beside it.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Complex64, Int32, PyTree, UInt32

from jaxunc._numerics import NAN_LAST, count_before, jit, pair_words, split_words, sum_before

from ._state import (
    BlockNodes,
    EncodedData,
    Limits,
    Open,
    OpenCuts,
    Scratch,
    Shape,
    State,
    count_leaves,
    first_state,
    gather,
    gather_pairs,
    leaf_lanes,
    loop_chunks,
    read_piece,
    scatter,
    write_piece,
)

# A packed test has the number of its feature in the lower 24 bits, and above a flag for each bool of `DrawnTests`.
_FEATURE = np.int32(2**24 - 1)
_FLAGS = tuple(np.int32(2**i) for i in range(24, 29))

MISSING_LEFT = np.int32(2**30)
"""Flag added to the number of a feature where missing values go left."""

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Rotations of Threefry-2x32, by turns for four rounds each."""


@jit(static_argnums=0)
def grow_block(
    shape: Shape,
    data: EncodedData,
    limits: Limits,
    words: UInt32[Array, "trees 2"],
    sample: Int32[Array, "instances"],
    n_instances: Int32[Array, ""],
    n_live: Int32[Array, ""],
) -> tuple[BlockNodes, PyTree[Int32[Array, "..."]]]:
    """Return (nodes, class counts of the leaves) of ``n_live`` trees, all grown on the same ``n_instances`` instances.

    ``sample`` has the positions of the instances in ``data``, ``words`` are the trees' random keys (`tree_keys`). Other
    trees of the block, and entries of ``sample`` from ``n_instances`` on, are padding. Where weights are fractions, the
    second entry is a result of `leaf_lanes`. If no root can be split, all counts are 0, or no lane is in a leaf.
    """
    is_root_open = (n_instances >= limits.min_split) & (limits.max_depth > 0)
    state = first_state(shape, sample, n_instances, jnp.where(is_root_open, n_live, 0))
    state = lax.while_loop(lambda state: state.n_open > 0, partial(_step, shape, data, limits, words), state)
    if data.weight is None:
        return state.nodes, leaf_lanes(shape, state)
    return state.nodes, count_leaves(shape, data, data.weight, state)


def _step(shape: Shape, data: EncodedData, limits: Limits, words: UInt32[Array, "trees 2"], state: State) -> State:
    """Advance every open node of ``state`` by one try; ``words`` are the trees' random keys (`tree_keys`)."""
    state = draw_tests(shape, data, words, state)
    state = find_sides(shape, data, limits, state)
    return move_lanes(shape, *decide(shape, data, limits, state))


class DrawnTests(NamedTuple):
    """Tests of open nodes, on integer keys: instances with ``key > threshold`` go right."""

    feature: Int32[Array, "open"]
    threshold: Int32[Array, "open"]
    multiway: Bool[Array, "open"]
    """Whether a nominal feature was drawn: if accepted, the test is the first cut of its ranks."""
    cut: Bool[Array, "open"]
    """Whether the test is a further cut of one that was accepted before."""
    exhausted: Bool[Array, "open"]
    """Whether there is no feature left to draw."""
    no_threshold: Bool[Array, "open"]
    """Whether the feature is missing in the drawn instance, so that there is no threshold."""
    missing_right: Bool[Array, "open"]
    """Whether a missing value goes right."""

    def pack(self) -> Complex64[Array, "open"]:
        """Return the tests as pairs of 32-bit words: the feature with its flags, and the threshold."""
        word = self.feature
        for flag, is_set in zip(_FLAGS, self[2:], strict=True):  # all fields but feature and threshold
            word = word | jnp.where(is_set, flag, 0)
        return pair_words(word, self.threshold)

    @classmethod
    def unpack(cls, word: Int32[Array, "..."], threshold: Int32[Array, "..."]) -> "DrawnTests":
        """Return the tests from the two words of `pack`: ``word``, the feature with its flags, and ``threshold``."""
        return cls(word & _FEATURE, threshold, *((word & flag) > 0 for flag in _FLAGS))


def draw_tests(shape: Shape, data: EncodedData, words: UInt32[Array, "trees 2"], state: State) -> State:
    """Return ``state`` with a test for every open node in ``scratch.test``, and the open nodes in ``scratch.open``.

    ``words`` are the trees' random keys (`tree_keys`). Cells are reserved in which the values of multi-way tests are
    counted later.
    """

    def draw(start, carry):
        """Draw the tests of the chunk from ``start`` on; ``carry`` is (scratch, number of cells reserved so far)."""
        scratch, n_cells = carry
        index = read_piece(state.open_index, start, shape.node_chunk)
        # Followers lie where their parents were; gathered they lie tree by tree, as all passes need them.
        nodes = jax.tree.map(lambda field: gather(field, index), state.follow)
        test = _draw(shape, data, words, state, nodes)
        scratch = scratch._replace(
            open=jax.tree.map(lambda field, some: write_piece(field, start, some), scratch.open, nodes),
            test=write_piece(scratch.test, start, test.pack()),
        )
        if shape.n_cells:
            live = start + jnp.arange(shape.node_chunk, dtype=jnp.int32) < state.n_open
            needed = jnp.where(test.multiway & live, gather(data.n_ranks, test.feature), 0)
            # A node with a multi-way test gets as many cells as its feature has ranks, one node after the other.
            cell = jnp.cumsum(needed, dtype=jnp.int32) - needed + n_cells
            scratch = scratch._replace(values=write_piece(scratch.values, start, cell))
            n_cells = cell[-1] + needed[-1]
        elif shape.n_words:
            scratch = scratch._replace(values=write_piece(scratch.values, start, jnp.zeros_like(test.feature)))
        return scratch, n_cells

    scratch, n_cells = loop_chunks(state.n_open, shape.node_chunk, draw, (state.scratch, jnp.int32(0)))
    return state._replace(scratch=scratch._replace(n_cells=n_cells))


def _draw(shape: Shape, data: EncodedData, words, state: State, nodes: Open) -> DrawnTests:
    """Return a random test for each of the open ``nodes``, by the trees' random keys ``words``."""
    tree = nodes.slot // shape.n_nodes
    node = (nodes.slot - tree * shape.n_nodes).astype(jnp.uint32)
    tree_key = (gather(words[:, 0], tree), gather(words[:, 1], tree))
    feature_bits, row_bits = threefry(tree_key, (node, nodes.tries.astype(jnp.uint32)))
    # The drawn value goes left or right with equal chance, so that neither end of a feature's range is preferred. The
    # lowest two bits decide this and the side of missing values: `draw_below` makes rows of the highest bits.
    strict = (row_bits & np.uint32(1)).astype(jnp.int32)  # 1: the drawn value itself goes right (key > value - 1)
    no_flags = jnp.zeros(tree.shape, bool)
    missing_right = (row_bits & np.uint32(2)) > 0 if shape.missing else ~no_flags
    row = nodes.first + draw_below(row_bits, nodes.size)
    if nodes.cuts is None:
        feature = draw_below(feature_bits, jnp.broadcast_to(data.n_features, tree.shape))
        value = _read_value(shape, data, state, feature, row)
        return DrawnTests(
            feature=feature,
            threshold=value - strict,
            multiway=no_flags,
            cut=no_flags,
            exhausted=no_flags,
            no_threshold=value == NAN_LAST,
            missing_right=missing_right,
        )
    feature, is_cut, exhausted = _draw_feature(data, nodes.cuts, feature_bits)
    multiway = (feature >= data.n_numeric) & ~is_cut & ~exhausted
    # Ranks are cut at the rank of the instance in the middle, so that frequent ranks tend to be separated first.
    row = jnp.where(is_cut | multiway, nodes.first + nodes.size // 2, row)
    value = _read_value(shape, data, state, feature, row)
    low = jnp.where(is_cut, nodes.cuts.low, 0)
    # The cut lies just below that rank, or just above it if it is the lowest: so each part has a rank.
    strict = jnp.where(is_cut | multiway, (low < value).astype(jnp.int32), strict)
    return DrawnTests(
        feature=feature,
        threshold=value - strict,
        multiway=multiway,
        cut=is_cut,
        exhausted=exhausted,
        no_threshold=value == NAN_LAST,
        missing_right=missing_right | multiway | is_cut,  # nominal features miss no value, and get no `MISSING_LEFT`
    )


def _draw_feature(data: EncodedData, cuts: OpenCuts, bits: UInt32[Array, "open"]) -> tuple[Array, Array, Array]:
    """Return (feature, whether it is cut further, whether no feature is left) for each open node.

    A node within a multi-way test keeps the feature whose ranks are being cut. Others draw one, by 32 random ``bits``:
    uniformly from the numeric features, and from the nominal ones that the path has not used.
    """
    n_nominal = data.n_features - data.n_numeric
    # Nominal features that the path has not used, as bits; the drawn index counts numeric ones first, then these.
    free_words = [_first_bits(n_nominal - 32 * i) & ~word for i, word in enumerate(cuts.used)]
    n_drawable = data.n_numeric + sum(lax.population_count(word).astype(jnp.int32) for word in free_words)
    index = draw_below(bits, jnp.broadcast_to(n_drawable, bits.shape))
    feature = jnp.where(index < data.n_numeric, index, data.n_numeric + find_bit(index - data.n_numeric, free_words))
    is_cut = cuts.cutting >= 0
    exhausted = (n_drawable == 0) & ~is_cut
    return jnp.where(is_cut, cuts.cutting, jnp.where(exhausted, 0, feature)), is_cut, exhausted


def _read_value(shape: Shape, data: EncodedData, state: State, feature: Array, row: Array) -> Array:
    """Return the value of ``feature`` in the instance of lane ``row``: an order key, or a rank of a nominal feature."""
    instance, _ = gather_pairs(state.lanes, row)
    return gather(data.keys, feature * data.stride + instance)


def _first_bits(n) -> Array:
    """Return a 32-bit word whose n lowest bits are set: none if n is negative, all if it is above 32."""
    n = jnp.clip(n, 0, 32).astype(jnp.uint32)
    return jnp.where(n == 32, np.uint32(0xFFFFFFFF), (np.uint32(1) << (n % 32)) - np.uint32(1))


def find_sides(shape: Shape, data: EncodedData, limits: Limits, state: State) -> State:
    """Return ``state`` with the side of every lane in ``scratch.before``, and the lanes in ``scratch.lanes``.

    The values that lanes have at multi-way tests are counted in ``scratch.cells``.
    """
    scratch = state.scratch
    if shape.n_cells:
        zeros = jnp.zeros(shape.lane_chunk, jnp.int32)
        clear = lambda start, cells: write_piece(cells, start, zeros)
        scratch = scratch._replace(cells=loop_chunks(scratch.n_cells, shape.lane_chunk, clear, scratch.cells))

    def find(start, carry):
        """Find the sides of the chunk from ``start`` on; ``carry`` is (scratch, how many lanes so far go right)."""
        scratch, n_right = carry
        _, used, instance, node = lane_piece(shape, state, state.lanes, start)
        test = DrawnTests.unpack(*gather_pairs(scratch.test, node))
        # Keys lie feature by feature: the lanes of a node read the same feature, at indices close to each other.
        key = gather(data.keys, test.feature * data.stride + instance)
        goes_right = key > test.threshold
        if shape.missing:
            goes_right = jnp.where(key == NAN_LAST, test.missing_right, goes_right)
        goes_right &= used
        before = count_before(goes_right) + n_right
        scratch = scratch._replace(
            lanes=write_piece(scratch.lanes, start, pair_words(instance, node)),
            # Doubled, with the lane's own side as the lowest bit: `move_lanes` needs both, and reads them at once.
            before=write_piece(scratch.before, start, 2 * before + goes_right.astype(jnp.int32)),
        )
        if shape.n_cells:
            # An index beyond the cells is dropped: lanes of other tests are counted nowhere.
            cell = jnp.where(used & test.multiway, gather(scratch.values, node) + key, shape.n_cells)
            scratch = scratch._replace(cells=scratch.cells.at[cell].add(1, mode="drop"))
        elif shape.n_words:  # the first cut lies just below a value, threshold + 1: is there a larger one?
            above = (used & (key > test.threshold + 1)).astype(jnp.int32)
            scratch = scratch._replace(values=scratch.values.at[node].max(above, mode="promise_in_bounds"))
        return scratch, before[-1] + goes_right[-1].astype(jnp.int32)

    scratch, _ = loop_chunks(state.n_lanes, shape.lane_chunk, find, (scratch, jnp.int32(0)))
    if shape.n_cells:
        scratch = scratch._replace(frequent=_count_frequent(shape, limits, scratch))
    return state._replace(scratch=scratch)


def lane_piece(shape: Shape, state: State, lanes: Array, start) -> tuple[Array, Array, Array, Array]:
    """Return (number, whether in use, instance, index of the open node) of each lane of the chunk from ``start`` on.

    ``lanes`` is ``state.lanes``, or a copy of it. Lanes that are not in use have the instance 0 and the node 0.
    """
    lane = start + jnp.arange(shape.lane_chunk, dtype=jnp.int32)
    used = lane < state.n_lanes
    instance, node = split_words(read_piece(lanes, start, shape.lane_chunk), jnp.int32, jnp.int32)
    return lane, used, jnp.where(used, instance, 0), jnp.where(used, node, 0)


def _count_frequent(shape: Shape, limits: Limits, scratch: Scratch) -> Array:
    """Return the array `Scratch.frequent`, which counts the cells of ``min_samples_leaf`` instances or more."""

    def count(start, carry):
        """Count the cells of the chunk from ``start`` on; ``carry`` is (the array, number of large cells so far)."""
        counts, n_frequent = carry
        frequent = read_piece(scratch.cells, start, shape.lane_chunk) >= limits.min_samples_leaf
        before = count_before(frequent) + n_frequent
        is_frequent = frequent.astype(jnp.int32)
        return write_piece(counts, start, 2 * before + is_frequent), before[-1] + is_frequent[-1]

    counts, _ = loop_chunks(scratch.n_cells, shape.lane_chunk, count, (scratch.frequent, jnp.int32(0)))
    return counts


def count_in(before: Array, first: Array, size: Array) -> Array:
    """Return how many entries of an array of bools are True, among the ``size`` entries from ``first`` on.

    ``before`` has for each entry twice the number of True entries before it, plus 1 if the entry is True itself.
    """
    # The count before the last entry and the last entry's bit: nothing behind the array is read.
    last = gather(before, first + jnp.maximum(size, 1) - 1)
    return jnp.where(size > 0, (last >> 1) + (last & 1) - (gather(before, first) >> 1), 0)


class TestedNodes(NamedTuple):
    """Open nodes, and the outcome of their tests."""

    nodes: Open
    test: DrawnTests
    accepted: Bool[Array, "open"]
    retry: Bool[Array, "open"]
    """Whether the test failed, and there are tries left."""
    child: Int32[Array, "open"]
    """Number of the left child in its tree, if accepted; the right child has the next number."""
    n_left: Int32[Array, "open"]


class Followers(NamedTuple):
    """The left or the right follower of each open node: its child on this side if the node is split.

    A node that is not split is its own left follower, and its right follower has no lanes.
    """

    nodes: Open
    """The followers; `decide` sets ``first``."""
    is_open: Bool[Array, "open"]
    """Whether each is open in the next step; the lanes of others have reached a leaf."""
    is_member: Bool[Array, "open"] | None
    """Whether each is a child of a multi-way test, or an empty leaf: its entry of `BlockNodes.member` is written.

    None if no feature is nominal.
    """


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
    """Return (state, number of nodes that are open next, number of their lanes) after the open nodes' tests.

    Nodes that accept their tests are split. In the state are the nodes of the trees, the followers, which of these are
    open next, and in ``scratch.move`` where the lanes go.
    """
    # Nodes are written chunk by chunk, but all chunks number their children from these counts.
    n_nodes = state.nodes.n_nodes

    def decide_chunk(start, carry):
        """Decide on the tests of the chunk from ``start`` on; ``carry`` is what earlier chunks wrote, and `_Totals`."""
        followers, indices, tree_nodes, move, totals = carry
        nodes = jax.tree.map(lambda field: read_piece(field, start, shape.node_chunk), state.scratch.open)
        test = DrawnTests.unpack(
            *split_words(read_piece(state.scratch.test, start, shape.node_chunk), jnp.int32, jnp.int32)
        )
        # The last chunk reaches beyond the open nodes, into what earlier steps left there.
        is_live = start + jnp.arange(shape.node_chunk, dtype=jnp.int32) < state.n_open
        n_right = jnp.where(is_live, count_in(state.scratch.before, nodes.first, nodes.size), 0)
        n_left = nodes.size - n_right
        test_fits = _fits(shape, data, limits, state.scratch, start, test, (n_left, n_right))
        accepted = is_live & test_fits & ~test.exhausted
        retry = is_live & ~accepted & ~test.exhausted & (nodes.tries + 1 < data.n_features)

        # Children get the next two numbers of their tree. The rank counts accepted nodes over all trees; the offset,
        # set where a tree's first open node comes by, takes those of the earlier trees off. A tree may go on in the
        # next chunk, which then finds its offset in the carry.
        tree = nodes.slot // shape.n_nodes
        rank = count_before(accepted) + totals.n_accepted
        is_first_of_tree = is_live & (tree != jnp.concatenate([totals.last_tree[None], tree[:-1]]))
        offset = scatter(totals.offset, tree, is_first_of_tree, gather(n_nodes, tree) - 2 * rank)
        child = gather(offset, tree) + 2 * rank
        tested = TestedNodes(nodes, test, accepted, retry, child, n_left)
        left, right = (follow(shape, data, limits, tested, is_right) for is_right in (False, True))

        # Open nodes follow each other as left, right, left, right, …, and so do their lanes: a tree's nodes stay
        # together, as the numbering above needs them. Lanes that reach leaves go to the second half.
        size_left, size_right = (jnp.where(side.is_open, side.nodes.size, 0) for side in (left, right))
        first_left = sum_before(size_left + size_right, shape.n_lanes) + totals.n_lanes
        first = (first_left, first_left + size_left)  # first lane of each side
        index_left = count_before(left.is_open) + count_before(right.is_open) + totals.n_open
        index = (index_left, index_left + left.is_open.astype(jnp.int32))  # index of each side among open nodes
        move = _write_moves(shape, state, move, start, tested, (left, right), first, index)
        for i, side in enumerate((left, right)):
            begin = i * shape.n_open + start
            # All followers are written, open or not; ``indices`` says which of them are open next.
            side_nodes = side.nodes._replace(first=first[i])
            followers = jax.tree.map(lambda old, new, begin=begin: write_piece(old, begin, new), followers, side_nodes)
            indices = scatter(indices, index[i], side.is_open, begin + jnp.arange(shape.node_chunk, dtype=jnp.int32))
        tree_nodes = _split(tree_nodes, tested, tree, (left, right))
        # The counts before the last node plus that node's own are those before the next chunk.
        _, first_right = first
        _, index_right = index
        totals_after = _Totals(
            n_accepted=rank[-1] + accepted[-1].astype(jnp.int32),
            n_open=index_right[-1] + right.is_open[-1].astype(jnp.int32),
            n_lanes=first_right[-1] + size_right[-1],
            last_tree=tree[-1],
            offset=offset,
        )
        return followers, indices, tree_nodes, move, totals_after

    zero, no_tree = jnp.int32(0), jnp.int32(-1)
    totals = _Totals(zero, zero, zero, last_tree=no_tree, offset=jnp.zeros(shape.n_trees, jnp.int32))
    carry = state.follow, state.open_index, state.nodes, state.scratch.move, totals
    followers, indices, tree_nodes, move, totals = loop_chunks(state.n_open, shape.node_chunk, decide_chunk, carry)
    state = state._replace(
        follow=followers, open_index=indices, nodes=tree_nodes, scratch=state.scratch._replace(move=move)
    )
    return state, totals.n_open, totals.n_lanes


def _fits(shape: Shape, data: EncodedData, limits: Limits, scratch: Scratch, start, test: DrawnTests, sizes) -> Array:
    """Return whether each test sends ``min_samples_leaf`` instances or more to both sides.

    A multi-way test needs two children of that size instead. ``test`` has the tests of the chunk of open nodes from
    ``start`` on; ``sizes`` are the numbers of instances that go left and right at each node.
    """
    n_left, n_right = sizes
    fits = (n_left >= limits.min_samples_leaf) & (n_right >= limits.min_samples_leaf) & ~test.no_threshold
    if not shape.n_words:
        return fits
    has_two_children = _has_two_children(shape, data, scratch, start, test, n_left)
    # Further cuts only carry out a multi-way test that was accepted: they may leave a side empty.
    return jnp.where(test.multiway, has_two_children, fits) | test.cut


def _has_two_children(shape: Shape, data: EncodedData, scratch: Scratch, start, test: DrawnTests, n_left) -> Array:
    """Return whether two children or more of each multi-way test have ``min_samples_leaf`` instances.

    ``n_left`` is the number of instances that go left at each node; the other arguments are those of `_fits`. The
    result has no meaning for other tests.
    """
    values = read_piece(scratch.values, start, shape.node_chunk)
    if shape.n_cells:  # a cell for each value of the feature, from ``values`` on
        return count_in(scratch.frequent, values, gather(data.n_ranks, test.feature)) >= 2
    # Without cells one instance is enough for a child, so that two different values in the node are. The first cut lies
    # just below one of them: instances on its left have another, and ``values`` tells whether there is one above.
    return (n_left > 0) | (values > 0)


def follow(shape: Shape, data: EncodedData, limits: Limits, tested: TestedNodes, right: bool) -> Followers:
    """Return the right followers of the ``tested`` open nodes if ``right``, else their left followers."""
    nodes, test, split = tested.nodes, tested.test, tested.accepted
    tree_start = nodes.slot // shape.n_nodes * shape.n_nodes
    slot = jnp.where(split, tree_start + tested.child + int(right), nodes.slot)
    size = nodes.size - tested.n_left if right else tested.n_left
    # A node that is not split goes on as its own left side, and its right side is empty: one rule for both cases.
    size = jnp.where(split, size, 0 if right else nodes.size)
    n_tried = jnp.where(split, 0, nodes.tries + 1)
    depth = nodes.depth + split.astype(jnp.int32)
    if nodes.cuts is None:
        is_open = split & (size >= limits.min_split) & (depth < limits.max_depth)
        if not right:
            is_open = is_open | tested.retry
        # `decide` sets ``first``; any array of its shape will do here.
        follower_nodes = Open(slot, first=size, size=size, tries=n_tried, depth=depth, cuts=None)
        return Followers(follower_nodes, is_open, is_member=None)
    cuts = nodes.cuts
    # The ranks on this side of the cut. A new multi-way test has the ranks from 0 to the feature's last one.
    if right:
        low = test.threshold + 1
        high = jnp.where(test.cut, cuts.high, gather(data.n_ranks, test.feature) - 1)
    else:
        low = jnp.where(test.cut, cuts.low, 0)
        high = test.threshold
    is_nominal = split & (test.multiway | test.cut)
    # A part of several ranks is cut again, a part of a single rank is a child, a part without instances an empty leaf.
    is_part = is_nominal & (low < high)
    is_member = is_nominal & ~((low < high) & (size > 0))
    # The path's depth grows with the first cut, and a part of several ranks is at the depth of the children to be.
    depth = jnp.where(test.cut, nodes.depth, depth)
    may_split = (size >= limits.min_split) & (depth < limits.max_depth)
    # Parts of several ranks stay open however small and deep: a multi-way test is always carried to its end.
    is_open = jnp.where(is_part, size > 0, split & may_split)
    # The feature of a new multi-way test is used up on this path; -1 sets no bit.
    bit = jnp.where(test.multiway, test.feature - data.n_numeric, -1)
    cuts = OpenCuts(
        n_cuts=cuts.n_cuts + split.astype(jnp.int32),
        cutting=jnp.where(is_part, test.feature, -1),
        low=low,
        high=high,
        group=jnp.where(test.cut, cuts.group, nodes.slot % shape.n_nodes),
        used=tuple(
            word | jnp.where(bit // 32 == i, np.uint32(1) << (bit % 32).astype(jnp.uint32), np.uint32(0))
            for i, word in enumerate(cuts.used)
        ),
    )
    if not right:
        is_open = is_open | tested.retry
    follower_nodes = Open(slot, first=size, size=size, tries=n_tried, depth=depth, cuts=cuts)
    return Followers(follower_nodes, is_open, is_member)


def _write_moves(shape: Shape, state: State, move: Array, start, tested: TestedNodes, sides, first, index) -> Array:
    """Return ``move`` (`Scratch.move`) with the entries for the chunk of open nodes from ``start`` on.

    ``sides`` are the left and the right followers of the ``tested`` nodes. ``first`` and ``index`` have, for each side,
    the first lane of each follower, and its index among the open nodes. A follower that is not open next has the
    numbers of the next one that is.
    """
    nodes, accepted = tested.nodes, tested.accepted
    # Lanes before a node's first lane that go left, and right: `move_lanes` counts the lanes of a side from the first.
    # An entry of `Scratch.before` is twice the number that go right, plus the lane's own side, which the shift drops.
    n_right_before = gather(state.scratch.before, nodes.first) >> 1
    n_before = (nodes.first - n_right_before, n_right_before)
    # ``begin`` is the number of lanes before a follower's own, left and right ones taken in turn. Of them ``first``
    # stay in open nodes, so that ``begin - first`` go to leaves in this step. Lanes in leaves lie in the second half:
    # those of earlier steps (``n_done``), then these, then the follower's own if it is a leaf.
    begin = (nodes.first, nodes.first + sides[0].nodes.size)
    first_done = shape.n_lanes + state.n_done
    new_first = [jnp.where(sides[i].is_open, first[i], first_done + begin[i] - first[i]) for i in range(2)]
    new_node = [jnp.where(sides[i].is_open, index[i], sides[i].nodes.slot) for i in range(2)]
    for i in range(2):
        # A node that is not split keeps its lanes together: both its entries are those of its left follower, itself.
        target = jnp.where(accepted, new_first[i], new_first[0])
        node = jnp.where(accepted, new_node[i], new_node[0])
        # `move_lanes` adds a shift to a lane's position among all lanes of its side if the node is split, else to the
        # lane's number. The lowest bit tells which: a third array would be another gather for every lane.
        shift = target - jnp.where(accepted, n_before[i], nodes.first)
        move = write_piece(move, i * shape.n_open + start, pair_words(2 * shift + accepted.astype(jnp.int32), node))
    return move


def _split(trees: BlockNodes, tested: TestedNodes, tree: Array, sides: tuple[Followers, Followers]) -> BlockNodes:
    """Return the nodes of the trees with the accepted tests, and with the children of multi-way tests.

    ``tree`` is the tree of each tested node, and ``sides`` has their left and their right followers.
    """
    nodes, test, accepted = tested.nodes, tested.test, tested.accepted
    depth = (nodes.depth if nodes.cuts is None else nodes.cuts.n_cuts) + 1
    feature = test.feature + jnp.where(test.missing_right, 0, MISSING_LEFT)
    # A slot is written once a step. A tree is met at each of its nodes, so its number of nodes and its depth are added
    # and compared by the scatter itself; nodes that are not accepted add 0.
    trees = trees._replace(
        feature=scatter(trees.feature, nodes.slot, accepted, feature),
        test=scatter(trees.test, nodes.slot, accepted, pair_words(test.threshold, tested.child)),
        n_nodes=trees.n_nodes.at[tree].add(2 * accepted.astype(jnp.int32), mode="promise_in_bounds"),
        depth=trees.depth.at[tree].max(jnp.where(accepted, depth, 0), mode="promise_in_bounds"),
    )
    for side in sides:
        if side.is_member is not None and side.nodes.cuts is not None:
            member = pair_words(side.nodes.cuts.group, side.nodes.size)
            trees = trees._replace(member=scatter(trees.member, side.nodes.slot, side.is_member, member))
    return trees


def move_lanes(shape: Shape, state: State, n_open: Array, n_lanes: Array) -> State:
    """Return ``state`` with the lanes moved: ``n_lanes`` to the ``n_open`` nodes that are open next, others to leaves.

    `decide` has written where each lane goes to ``scratch.move``.
    """

    def move(start, lanes):
        """Return ``lanes`` with those of the chunk from ``start`` on at their new indices."""
        lane, used, instance, node = lane_piece(shape, state, state.scratch.lanes, start)
        before = read_piece(state.scratch.before, start, shape.lane_chunk)
        before, right = before >> 1, before & 1
        # A lane's new index is a shift of its node's side plus its position among the lanes of that side, or its
        # number: the order within a node never changes, and the next step draws the same instances for any chunks.
        shift, goal = gather_pairs(state.scratch.move, right * shape.n_open + node)
        position = jnp.where(shift & 1 == 0, lane, jnp.where(right == 1, before, lane - before))
        return scatter(lanes, (shift >> 1) + position, used, pair_words(instance, goal))

    lanes = loop_chunks(state.n_lanes, shape.lane_chunk, move, state.lanes)
    n_done = state.n_done + state.n_lanes - n_lanes
    return state._replace(n_open=n_open, n_lanes=n_lanes, n_done=n_done, lanes=lanes)


def tree_keys(key: jax.Array, first: int, n_trees: int) -> UInt32[Array, "trees 2"]:
    """Return two random words for each of ``n_trees`` trees, by ``key`` and the tree's number, from ``first`` on."""
    return _tree_keys(key, jnp.arange(first, first + n_trees, dtype=jnp.uint32))


@jit
def _tree_keys(key, trees):
    """Return two random words ``[trees 2]`` for each number in ``trees``, by the random ``key``."""
    return jax.vmap(lambda tree: jax.random.bits(jax.random.fold_in(key, tree), (2,), jnp.uint32))(trees)


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return two random words for each pair of key and counter, by Threefry-2x32-20 (Salmon et al. 2011)."""
    # One call of `jax.random` for each node would cost far more.
    words = (*key, key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))  # the constant of Threefry's key schedule
    a = counter[0] + words[0]
    b = counter[1] + words[1]
    for block in range(5):  # of four rounds each; then words of the key are added
        for rotation in _ROTATIONS[block % 2]:
            a = a + b
            b = a ^ ((b << np.uint32(rotation)) | (b >> np.uint32(32 - rotation)))
        a = a + words[(block + 1) % 3]
        b = b + words[(block + 2) % 3] + np.uint32(block + 1)
    return a, b


def draw_below(bits: UInt32[Array, "..."], n: Int32[Array, "..."]) -> Int32[Array, "..."]:
    """Return a random number from 0 to n - 1, made of 32 random ``bits``: the high word of bits · n.

    It is uniform up to less than n / 2³²: a hundredth of a per cent for a million instances.
    """
    n = n.astype(jnp.uint32)
    # A product of 64 bits in quarters of 16, since JAX has no 64-bit integers by default.
    high, low = bits >> 16, bits & np.uint32(0xFFFF)
    n_high, n_low = n >> 16, n & np.uint32(0xFFFF)
    middle = high * n_low + ((low * n_low) >> 16)
    low_sum = (middle & np.uint32(0xFFFF)) + low * n_high
    return (high * n_high + (middle >> 16) + (low_sum >> 16)).astype(jnp.int32)


def find_bit(rank: Int32[Array, "..."], free: list[UInt32[Array, "..."]]) -> Int32[Array, "..."]:
    """Return the position of the bit that has number ``rank``, from 0, among the bits set in ``free``.

    ``free`` is a list of 32-bit words; positions go on from word to word.
    """
    position = jnp.zeros_like(rank)
    word = jnp.zeros(rank.shape, jnp.uint32)
    for i, bits in enumerate(free):
        count = lax.population_count(bits).astype(jnp.int32)
        in_word = (rank >= 0) & (rank < count)
        word = jnp.where(in_word, bits, word)
        position = jnp.where(in_word, 32 * i, position)
        # In the word that has the bit, the rank becomes negative in a way that keeps it: -1 - rank.
        rank = jnp.where(rank < 0, rank, jnp.where(in_word, -1 - rank, rank - count))
    rank = -1 - rank
    # Within the word by halving: five steps for any rank, without a branch.
    for width in (16, 8, 4, 2, 1):
        low = word & np.uint32((1 << width) - 1)
        count = lax.population_count(low).astype(jnp.int32)
        upper = rank >= count
        rank = jnp.where(upper, rank - count, rank)
        word = jnp.where(upper, word >> np.uint32(width), low)
        position = position + jnp.where(upper, width, 0)
    return position
