"""The leaf that each instance reaches in each tree, its counts, and the leaves that are reached from an empty leaf.

`leaf_index` and `leaf_counts` are for users; code that has a plan calls `planned_leaf_index` and `planned_leaf_counts`.
`follow` routes instances from empty leaves on, through the other children of the multi-way test. How many leaves an
instance reaches then depends on the data, so the host drives the walk in rounds.
"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float32, Int32, Num, Shaped

from jaxunc._checks import check_one_of, is_concrete, outside_traces
from jaxunc._numerics import (
    counts_dtype,
    default_platform,
    jit,
    map_over_devices,
    narrowest_dtype,
    padded_rows,
    power_of_two,
    varying_as,
)
from jaxunc.forest import Forest, Trees, check_is_forest
from jaxunc.tables import InstancesLike, SparseRows, encode_traced

from ._drive import Part, call_shapes, cap_shapes, cut, drive_on_host, encode_for, on_tested
from ._plan import Plan, column_keys, known_plan, make_plan, node_at
from ._walk import (
    Walk,
    block_size,
    by_column,
    default_walk,
    over_blocks,
    unrolled_depth,
    walk_few,
    walk_levels,
    walk_one,
    walk_pairs,
    walk_tree,
    walks_at_once,
)

SMALLEST_ROUND = 1024
"""Fewest entries to which arrays of a round of `follow` are padded. Sizes are powers of two, for few programs."""

UNDER_WAY = 2**20
"""Most walks in one round of `follow`; only the walks of a single pair may be more."""


def leaf_index(trees: Trees | Forest, X: InstancesLike, *, walk: Walk | None = None) -> Int32[Array, "instances trees"]:
    """Return the leaf that each instance reaches in each tree, as an index among the tree's nodes; no gradient.

    Parameters
    ----------
    trees
        The trees, or a forest.
    X
        Instances ``[instances features]``, NumPy, JAX, pandas or a sparse matrix. They are compared as float32; NaN is
        a missing value, ±inf and subnormals are compared exactly.
    walk
        The way instances are walked to their leaves, as for `bind`.

    Returns
    -------
    Int32[Array, "instances trees"]
        Indices into the node axis of the trees' arrays, such as ``trees.feature``.

    Raises
    ------
    TypeError, ValueError
        If the columns of X are not those of the trees, or do not hold numbers, as for a bound forest. Of a traced X
        only the shape is checked. A ValueError also if the walk is unknown.
    """
    check_is_forest(trees, "trees", or_trees=True)
    if walk is not None:
        check_one_of("walk", walk, get_args(Walk))
    trees = trees.trees if isinstance(trees, Forest) else trees
    host_trees_and_rows = host_rows(trees, X)
    if host_trees_and_rows is None:  # X is traced, or on an accelerator
        plan = make_plan(trees, missing=True)

        def leaves_on_device(trees_and_plan, rows):
            trees, plan = trees_and_plan
            return planned_leaf_index(trees, plan, rows, walk)

        return map_over_devices(leaves_on_device, encode_traced(X, trees.columns), beside=(trees, plan))
    trees, rows = on_tested(*host_trees_and_rows)
    with outside_traces():  # functions of the host read the leaves, also while a program is traced
        return jax.device_put(leaf_index_on_host(trees, known_plan(trees), rows, walk))


def leaf_counts(forest: Forest, X: InstancesLike) -> Num[Array, "instances trees classes"]:
    """Return the class counts of the leaf that each instance reaches in each tree.

    `bind` gives the answers of a combiner without this large tensor. The result has a gradient in the forest's counts.
    The function can be traced, unless empty leaves are followed (`Forest.with_empty_leaves`).

    Parameters
    ----------
    forest
        The forest.
    X
        Instances, as for `leaf_index`.

    Returns
    -------
    Num[Array, "instances trees classes"]
        Counts of the type that the forest holds; floats if sums behind empty leaves are too large for int32.

    Raises
    ------
    TypeError, ValueError
        As `leaf_index` raises them. A ValueError also if empty leaves have the mode ``"average"``, which averages
        statistics and not counts, or the mode ``"sum"`` under a trace.
    """
    check_is_forest(forest)
    refuse_average(forest)
    host_trees_and_rows = host_rows(forest.trees, X)
    if host_trees_and_rows is None:
        plan = make_plan(forest.trees, missing=True)

        def counts_on_device(forest_and_plan, rows):
            forest, plan = forest_and_plan
            leaves = planned_leaf_index(forest.trees, plan, rows)
            return planned_leaf_counts(forest, plan, rows, leaves)

        return map_over_devices(counts_on_device, encode_traced(X, forest.trees.columns), beside=(forest, plan))
    trees, rows = on_tested(*host_trees_and_rows)
    if trees is not forest.trees:
        forest = dataclasses.replace(forest, trees=trees)
    plan = known_plan(forest.trees)
    if forest.follows_forks or not is_concrete(forest.count_table, forest.code):
        leaves = leaf_index_on_host(forest.trees, plan, rows)
        return planned_leaf_counts(forest, plan, rows, leaves)
    with outside_traces():
        table, code = forest.leaf_rows()
    counts_of = partial(_rows_of, table, code)
    return jax.device_put(leaf_index_on_host(forest.trees, plan, rows, then=counts_of))


def host_rows(
    trees: Trees, X: InstancesLike
) -> tuple[Trees, Float32[np.ndarray, "instances features"] | SparseRows] | None:
    """Return (trees, encoded rows of ``X``), as `encode_for` returns them, for an ``X`` of the host; else None.

    The result is None if ``trees`` or ``X`` are traced, or ``X`` is on an accelerator.
    """
    if not is_concrete(trees, X):
        return None
    trees, (values, _) = encode_for(trees, X, infinite=True)
    if isinstance(values, SparseRows):
        return trees, values
    if isinstance(values, jax.Array) and default_platform() != "cpu":
        return None
    return trees, np.asarray(values)


def leaf_index_on_host(
    trees: Trees,
    plan: Plan,
    values: Float32[np.ndarray, "instances features"] | SparseRows,
    walk: Walk | None = None,
    then: Callable[[Int32[Array, "instances trees"]], Array] = lambda leaves: leaves,
) -> Int32[np.ndarray, "instances trees"] | Shaped[np.ndarray, "instances trees *each"]:
    """Return the leaf that each row of ``values`` reaches in each tree, or ``then(leaves)``, as a NumPy array.

    ``values`` are any number of rows on the host, as `host_rows` returns them; programs are compiled for few sizes of
    parts. ``then`` takes the leaves ``[rows trees]`` of a part, and its results are joined. ``plan`` is the trees' plan
    for missing values, ``walk`` is as for `bind`.
    """

    def answer_part(part: Part) -> Array:
        rows = np.asarray(part.of(values))
        return then(planned_leaf_index(trees, plan, rows, walk, part))

    shapes = call_shapes(walk or default_walk(), trees.n_trees, 2 * trees.n_features)
    parts = cut(len(values), cap_shapes(shapes, values), threads=1)
    return drive_on_host(answer_part, parts, threads=1, ahead=default_platform() != "cpu")


def planned_leaf_index(
    trees: Trees,
    plan: Plan,
    X: Num[Array | np.ndarray, "instances features"],
    walk: Walk | None = None,
    part: Part | None = None,
):
    """Return the leaf that each encoded row of ``X`` reaches in each tree: int32 ``[instances trees]``.

    ``plan`` is the trees' plan for missing values, ``walk`` is as for `bind`. With a ``part``, ``X`` are its padded
    rows; zeros then stand for the leaves of blocks that hold only padding.
    """
    walk = walk or default_walk()
    n_blocks = block = None  # all of X is walked, in blocks of `block_size`
    if part is not None and part.number is not None:
        n_blocks = part.number
        block = part.chunk.block
    return _leaf_index(plan, X, n_blocks, block=block, walk=walk, depth=unrolled_depth(walk, trees))


@jit(static_argnames=("block", "walk", "depth"))
def _leaf_index(plan: Plan, x, n_blocks, *, block: int | None, walk: Walk, depth: int):
    """Return the leaf of each encoded instance of ``x`` in each tree ``[instances trees]``.

    ``plan`` is for data with missing values. Only the first ``n_blocks`` blocks of ``block`` instances are walked;
    zeros stand for the leaves of others. If both are None, all instances are walked, in blocks of `block_size`.
    ``depth`` is that of `unrolled_depth`.
    """
    n = x.shape[0]
    n_trees = plan.nodes.shape[0]
    # Each column has two keys: with a missing value as the smallest, and as the largest.
    size = block or block_size(walk, n_trees, 2 * x.shape[1], n)

    def write_block(out, start, _):
        keys = column_keys(lax.dynamic_slice_in_dim(x, start, min(size, n)), missing=True)
        leaves = _leaves_of(plan, keys, walk, depth)
        return lax.dynamic_update_slice_in_dim(out, leaves, start, axis=0)

    out = varying_as(x, jnp.zeros((n, n_trees), jnp.int32))
    return over_blocks(write_block, out, n, size, n_blocks) if n else out


def _leaves_of(plan: Plan, keys, walk: Walk, depth: int):
    """Return the leaf that each instance reaches in each tree ``[instances trees]``, as an index in its tree's nodes.

    ``keys [instances columns]`` are those of `column_keys`, and ``depth`` is that of `unrolled_depth`.
    """
    n_instances = len(keys)
    n_trees, n_places = plan.nodes.shape
    # Walks return places (`jaxunc.inference`), which all but `walk_tree` count over all trees.
    if walk == "levels":  # begins behind the exits, so that each place is a node's
        first_node = jnp.arange(n_trees, dtype=jnp.int32) * n_places + plan.n_exits
        return walk_levels(plan, keys, depth) - first_node
    if walks_at_once(n_instances, n_trees):
        place = walk_one(plan, keys)[0][:, None] if n_instances == 1 else walk_few(plan, keys)
        first_place = jnp.arange(n_trees, dtype=jnp.int32)[:, None] * n_places
        return jax.vmap(node_at)(plan, place - first_place).T
    rows_of_keys = by_column(keys)

    def leaf_of_tree(_, tree):
        return None, node_at(tree, walk_tree(tree, rows_of_keys))

    _, leaves = lax.scan(leaf_of_tree, init=None, xs=plan)  # [trees instances]
    return leaves.T


@jit
def _rows_of(table, code, leaves):
    """Return the counts ``[instances trees classes]`` of ``leaves [instances trees]``.

    ``table`` (distinct count vectors) and ``code`` (the row of each leaf) are those of `Forest.leaf_rows`.
    """
    row = code.at[jnp.arange(len(code)), leaves].get(mode="promise_in_bounds")
    return table.at[row].get(mode="promise_in_bounds")


def refuse_average(forest: Forest) -> None:
    """Raise a ValueError if the forest's empty leaves have the mode "average", which gives them no counts."""
    if forest.follows_forks and forest.empty_leaves == "average":
        raise ValueError(
            "empty leaves of the mode 'average' have no counts of their own: the scores of several leaves are "
            "averaged. Bind a combiner, or choose forest.with_empty_leaves('sum')."
        )


def planned_leaf_counts(
    forest: Forest, plan: Plan, X: InstancesLike | SparseRows, leaves: Array | np.ndarray
) -> Num[Array, "instances trees classes"]:
    """Return the class counts of ``leaves [instances trees]``, the leaves that encoded instances ``X`` reach.

    ``plan`` is the trees' plan for missing values. If the forest follows forks, an instance in an empty leaf has the
    sum over the leaves that it reaches from there (`follow`). If X or trees are traced then, a ValueError is raised.
    """
    if not forest.follows_forks:
        table, code = forest.leaf_rows()
        return table[code[jnp.arange(forest.n_trees), leaves]]
    if not is_concrete(X, forest.trees):
        raise ValueError(
            f"empty leaves of the mode {forest.empty_leaves!r} are followed on the host and cannot be traced. "
            "Inside jit, grad or vmap pass forest.with_empty_leaves('parent') or 'zeros', which do not."
        )
    empty = empty_pairs(forest.trees, leaves)
    if is_concrete(forest.count_table, forest.code):
        table, code = np.asarray(forest.count_table), np.asarray(forest.code)
        counts = table[code[np.arange(forest.n_trees), np.asarray(leaves)]]
        sums = counts_reached(forest, plan, X, empty)
        # Sums may be too large for int32, and are floats then: the dtype that holds both decides.
        narrowest_sums = np.zeros(0, narrowest_dtype(sums))
        counts = counts.astype(counts_dtype(counts, narrowest_sums))
        counts[empty.instance, empty.tree] = sums
        return jax.device_put(counts)
    # The counts are traced: JAX adds them up, so that the sums have gradients.
    counts = forest.count_table[forest.code[jnp.arange(forest.n_trees), leaves]]
    counts = counts.at[empty.instance, empty.tree].set(0)
    for pair, node in follow(forest.trees, plan, X, empty):
        # Few sizes, for few programs. The instance of a padding entry is out of range, so that the entry is dropped.
        padding = (0, power_of_two(len(pair), SMALLEST_ROUND) - len(pair))
        instance = np.pad(empty.instance[pair], padding, constant_values=len(counts))
        tree = np.pad(empty.tree[pair], padding)
        padded_node = np.pad(node, padding)
        counts_of_leaves = forest.count_table[forest.code[tree, padded_node]]
        counts = counts.at[instance, tree].add(counts_of_leaves, mode="drop")
    return counts


class Empty(NamedTuple):
    """The pairs of an instance and a tree in which the instance ends in an empty leaf: arrays ``[pairs]``."""

    instance: np.ndarray
    """The row of the instance."""
    tree: np.ndarray
    """The tree."""
    fork: np.ndarray
    """The number of the multi-way test that the empty leaf belongs to (`Trees.forks`)."""


def empty_pairs(trees: Trees, leaves: Int32[Array | np.ndarray, "instances trees"]) -> Empty:
    """Return the pairs of an instance and a tree that end in an empty leaf; ``leaves`` has the leaf of every pair."""
    feature = np.asarray(trees.feature)[np.arange(trees.n_trees), np.asarray(leaves)]
    instance, tree = np.nonzero(feature < 0)  # an empty leaf of fork k has the feature -1 - k
    return Empty(instance, tree, -1 - feature[instance, tree])


def follow(trees: Trees, plan: Plan, X, empty: Empty) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield each leaf that the pairs in ``empty`` reach, as (pairs, leaves): arrays of equal length, for many leaves.

    Leaves are nodes. Pairs are positions in ``empty``; they ascend, and a pair comes once for each of its leaves. From
    an empty leaf an instance goes on through all children of the leaf's fork that are not empty, and likewise from
    empty leaves below these. The order of a pair's leaves does not depend on other pairs. ``X`` has the encoded
    instances, ``plan`` is the trees' plan for missing values.
    """
    assert trees.forks is not None
    feature = np.asarray(trees.feature)
    first_child = np.asarray(trees.forks.first)  # of each fork, as an index into `children`
    children = np.asarray(trees.forks.node)
    X = np.asarray(X, np.float32)
    with outside_traces():
        keys = _keys(padded_rows(X, power_of_two(len(X), SMALLEST_ROUND)))
    # Rounds to come: pairs, and for each pair the fork of an empty leaf that it has reached. A pair may reach several.
    rounds = [(np.arange(len(empty.fork)), empty.fork)]
    while rounds:
        pair, fork = rounds.pop()
        n_children = first_child[fork + 1] - first_child[fork]
        if n_children.sum(dtype=np.int64) > UNDER_WAY and len(pair) > 1:
            # Too many walks for one round: two rounds, of which the first half of the pairs is popped first.
            first_half, second_half = _halves(pair)
            rounds.append((pair[second_half], fork[second_half]))
            rounds.append((pair[first_half], fork[first_half]))
            continue
        # A walk for each child. Less the walks of earlier forks, a walk's index is the child's position in its fork.
        pair = np.repeat(pair, n_children)
        n_earlier = np.cumsum(n_children) - n_children
        child_index = np.arange(n_children.sum()) + np.repeat(first_child[fork] - n_earlier, n_children)
        leaf = _walk_on(plan, keys, empty.instance[pair], empty.tree[pair], children[child_index])
        fork = -1 - feature[empty.tree[pair], leaf]  # as `empty_pairs` reads it: negative for other leaves
        is_empty = fork >= 0
        if not is_empty.all():
            yield pair[~is_empty], leaf[~is_empty]
        if is_empty.any():
            rounds.append((pair[is_empty], fork[is_empty]))


def _halves(pair: np.ndarray) -> tuple[slice, slice]:
    """Return two slices that cut the sorted array ``pair`` in about halves, between entries that differ if any do."""
    middle = len(pair) // 2
    # The entries from `begin` to `end - 1` equal the middle one.
    begin = np.searchsorted(pair, pair[middle], "left")
    end = np.searchsorted(pair, pair[middle], "right")
    if begin > 0:
        border = int(begin)
    elif end < len(pair):
        border = int(end)
    else:
        border = middle
    return slice(border), slice(border, None)


def sums_reached(trees: Trees, plan: Plan, X, empty: Empty, read: Callable[..., list[np.ndarray]]) -> list[np.ndarray]:
    """Return sums over the leaves that each pair in ``empty`` reaches (`follow`): arrays ``[pairs ...]``.

    ``read(tree, node)`` takes the trees and the nodes of many leaves, arrays ``[leaves]``. It returns a list of arrays
    ``[leaves ...]``; each is summed into one of the results. Other arguments are as for `follow`.
    """
    no_leaves = np.zeros(0, np.int64)
    sums = [np.zeros((len(empty.fork), *array.shape[1:])) for array in read(no_leaves, no_leaves)]
    for pair, node in follow(trees, plan, X, empty):
        # Pairs ascend, so that sums are needed only for the range from the first to the last.
        pair_range = slice(pair[0], pair[-1] + 1)
        pair_index = pair - pair[0]
        for total, array in zip(sums, read(empty.tree[pair], node), strict=True):
            columns = array.reshape(len(pair), -1).T  # `np.bincount` sums one column of numbers at a time
            sums_of_pairs = [np.bincount(pair_index, weights=column) for column in columns]
            total[pair_range] += np.stack(sums_of_pairs, axis=1).reshape(-1, *array.shape[1:])
    return sums


def counts_reached(forest: Forest, plan: Plan, X, empty: Empty) -> np.ndarray:
    """Return the sum of the counts of the leaves that each pair in ``empty`` reaches, as float64 ``[pairs classes]``.

    Sums are exact below 2⁵³. ``forest`` has the counts; other arguments are as for `follow`.
    """
    table, code = np.asarray(forest.count_table), np.asarray(forest.code)
    counts_of_leaves = lambda tree, node: [table[code[tree, node]]]
    return sums_reached(forest.trees, plan, X, empty, counts_of_leaves)[0]


def _walk_on(plan: Plan, keys, instance: np.ndarray, tree: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the leaf ``[pairs]`` that each ``instance`` reaches from the node ``start`` of ``tree``.

    The three arrays ``[pairs]`` have an entry for each walk; an instance is a row of ``keys``, those of `column_keys`.
    """
    n_padded = power_of_two(len(start), SMALLEST_ROUND)
    arrays = (padded_rows(array.astype(np.int32), n_padded) for array in (instance, tree, start))
    with outside_traces():
        return np.asarray(_walk_padded(plan, keys, *arrays))[: len(start)]


_walk_padded = jit(walk_pairs)


_keys = jit(partial(column_keys, missing=True))
