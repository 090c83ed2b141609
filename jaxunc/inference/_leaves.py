"""The leaf that each instance reaches in each tree, its counts, and the leaves that are reached from an empty leaf.

`leaf_index` and `leaf_counts` are for users; code that has a plan calls `planned_leaf_index` and `planned_leaf_counts`.
The second half of the module (`follow`) routes instances from empty leaves on, through the other children of the
multi-way test. How many leaves an instance reaches then depends on the data, so the host drives the walk in rounds.
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
"""Fewest pairs, or instances, to which arrays of a round of `follow` are padded; all are powers of two, for few
programs."""

UNDER_WAY = 2**20
"""Most walks of one round of `follow`, unless a single pair needs more."""


def leaf_index(trees: Trees | Forest, X: InstancesLike, *, walk: Walk | None = None) -> Int32[Array, "instances trees"]:
    """Return the leaf that each instance reaches in each tree, as an index among the tree's nodes. It has no gradient.

    Parameters
    ----------
    trees
        The trees, or a forest of them.
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
    if (host_trees_and_rows := host_rows(trees, X)) is not None:  # else X is traced, or on an accelerator
        trees, values = on_tested(*host_trees_and_rows)
        with outside_traces():  # functions of the host read the leaves, also while a program is traced
            return jax.device_put(leaf_index_on_host(trees, known_plan(trees), values, walk))
    plan = make_plan(trees, missing=True)
    in_each = lambda beside, x: planned_leaf_index(beside[0], beside[1], x, walk)
    return map_over_devices(in_each, encode_traced(X, trees.columns), beside=(trees, plan))


def leaf_counts(forest: Forest, X: InstancesLike) -> Num[Array, "instances trees classes"]:
    """Return the class counts of the leaf that each instance reaches in each tree: the tensor that `bind` avoids.

    Differentiable in the forest's counts; traceable, unless empty leaves are followed (`Forest.with_empty_leaves`).

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

        def in_each(beside, x):
            forest, plan = beside
            return planned_leaf_counts(forest, plan, x, planned_leaf_index(forest.trees, plan, x))

        return map_over_devices(in_each, encode_traced(X, forest.trees.columns), beside=(forest, plan))
    trees, values = on_tested(*host_trees_and_rows)
    if trees is not forest.trees:
        forest = dataclasses.replace(forest, trees=trees)
    plan = known_plan(forest.trees)
    if forest.follows_forks or not is_concrete(forest.count_table, forest.code):
        return planned_leaf_counts(forest, plan, values, leaf_index_on_host(forest.trees, plan, values))
    with outside_traces():
        table, code = forest.leaf_rows()
    return jax.device_put(leaf_index_on_host(forest.trees, plan, values, then=partial(_rows_of, table, code)))


def host_rows(
    trees: Trees, X: InstancesLike
) -> tuple[Trees, Float32[np.ndarray, "instances features"] | SparseRows] | None:
    """Return (trees, instances on the host as float32 or `SparseRows`), encoded by `encode_for`; None if not concrete.

    Instances on the host are answered by calls of few shapes (`leaf_index_on_host`). Also returns None for instances on
    an accelerator, which a program for their number answers there.
    """
    if not is_concrete(trees, X):
        return None
    trees, (values, _) = encode_for(trees, X, infinite=True)
    if isinstance(values, SparseRows):
        return trees, values
    return None if isinstance(values, jax.Array) and default_platform() != "cpu" else (trees, np.asarray(values))


def leaf_index_on_host(
    trees: Trees,
    plan: Plan,
    values: Float32[np.ndarray, "instances features"] | SparseRows,
    walk: Walk | None = None,
    then: Callable[[Int32[Array, "instances trees"]], Array] = lambda leaves: leaves,
) -> Int32[np.ndarray, "instances trees"] | Shaped[np.ndarray, "instances trees *each"]:
    """Return the leaf that each instance reaches in each tree, or ``then(leaves)``, as an array of NumPy.

    ``values`` are any number of instances on the host, as `host_rows` returns them. ``then`` is a function of the
    leaves of each call. ``plan`` is for data with missing values, ``walk`` as for `bind`. Calls have few shapes.
    """
    shapes = call_shapes(walk or default_walk(), trees.n_trees, 2 * trees.n_features)
    return drive_on_host(
        lambda part: then(planned_leaf_index(trees, plan, np.asarray(part.of(values)), walk, part)),
        cut(len(values), cap_shapes(shapes, values), 1),
        1,
        ahead=default_platform() != "cpu",
    )


def planned_leaf_index(
    trees: Trees,
    plan: Plan,
    X: Num[Array | np.ndarray, "instances features"],
    walk: Walk | None = None,
    part: Part | None = None,
):
    """Return the leaf that each encoded instance in ``X`` reaches in each tree, by a plan for missing values.

    If ``X`` are the rows of a ``part``, its blocks of padding are not walked. ``walk`` is as for `bind`.
    """
    walk = walk or default_walk()
    n_blocks = None if part is None else part.number
    block = None if part is None or n_blocks is None else part.chunk.block
    return _leaf_index(plan, X, n_blocks, block=block, walk=walk, depth=unrolled_depth(walk, trees))


@jit(static_argnames=("block", "walk", "depth"))
def _leaf_index(plan: Plan, x, number, *, block: int | None, walk: Walk, depth: int):
    """Return the leaf of each instance in each tree ``[instances trees]``, by a plan for data with missing values.

    With ``number`` only the first ``number`` blocks of ``block`` instances are walked; zeros stand for other leaves.
    For None all are walked, in blocks of `block_size`. ``depth`` is the number of levels to unroll (`unrolled_depth`).
    """
    n, n_trees = x.shape[0], plan.nodes.shape[0]
    # Each column has two keys: with a missing value as the smallest, and as the largest.
    size = block or block_size(walk, n_trees, 2 * x.shape[1], n)

    def write_block(out, start, _):
        keys = column_keys(lax.dynamic_slice_in_dim(x, start, min(size, n)), missing=True)
        return lax.dynamic_update_slice_in_dim(out, _leaves_of(plan, keys, walk, depth), start, axis=0)

    out = varying_as(x, jnp.zeros((n, n_trees), jnp.int32))
    return over_blocks(write_block, out, n, size, number) if n else out


def _leaves_of(plan: Plan, keys, walk: Walk, depth: int):
    """Return the leaf of each row of ``keys`` in each tree ``[rows trees]``: the index of a node in its tree.

    Walks return places (`jaxunc.inference`), which all but `walk_tree` count over all trees.
    """
    n_rows, (n_trees, n_places) = len(keys), plan.nodes.shape
    if walk == "levels":  # begins behind the exits, so that each place is a node
        return walk_levels(plan, keys, depth) - (jnp.arange(n_trees, dtype=jnp.int32) * n_places + plan.n_exits)
    if walks_at_once(n_rows, n_trees):
        place = walk_one(plan, keys)[0][:, None] if n_rows == 1 else walk_few(plan, keys)
        first_place = jnp.arange(n_trees, dtype=jnp.int32)[:, None] * n_places
        return jax.vmap(node_at)(plan, place - first_place).T
    rows_of_keys = by_column(keys)
    leaf_of = lambda _, tree: (None, node_at(tree, walk_tree(tree, rows_of_keys)))
    return lax.scan(leaf_of, None, plan)[1].T


@jit
def _rows_of(table, code, leaves):
    """Return the counts ``[instances trees classes]`` of ``leaves``, from `Forest.leaf_rows` (``table``, ``code``)."""
    row = code.at[jnp.arange(len(code)), leaves].get(mode="promise_in_bounds")
    return table.at[row].get(mode="promise_in_bounds")


def refuse_average(forest: Forest) -> None:
    """Raise a ValueError if empty leaves have the mode "average", in which they have statistics but no counts."""
    if forest.follows_forks and forest.empty_leaves == "average":
        raise ValueError(
            "empty leaves of the mode 'average' have no counts of their own: the scores of several leaves are "
            "averaged. Bind a combiner, or choose forest.with_empty_leaves('sum')."
        )


def planned_leaf_counts(
    forest: Forest, plan: Plan, X: InstancesLike | SparseRows, leaves: Array | np.ndarray
) -> Num[Array, "instances trees classes"]:
    """Return the class counts for encoded ``X`` that reach ``leaves [instances trees]``; ``plan`` for missing values.

    Instances in empty leaves have the sum over the leaves that they reach (`follow`), if the forest follows forks.
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
    leaf_nodes = np.asarray(leaves)
    if is_concrete(forest.count_table, forest.code):
        counts = np.asarray(forest.count_table)[np.asarray(forest.code)[np.arange(forest.n_trees), leaf_nodes]]
        sums = counts_reached(forest, plan, X, empty)
        # Sums may be too large for int32, and are floats then.
        counts = counts.astype(counts_dtype(counts, np.zeros(0, narrowest_dtype(sums))))
        counts[empty.instance, empty.tree] = sums
        return jax.device_put(counts)
    counts = forest.count_table[forest.code[jnp.arange(forest.n_trees), leaves]]
    counts = counts.at[empty.instance, empty.tree].set(0)
    for pair, node in follow(forest.trees, plan, X, empty):
        padding = (0, power_of_two(len(pair), SMALLEST_ROUND) - len(pair))
        instance = np.pad(empty.instance[pair], padding, constant_values=len(counts))  # out of range: dropped below
        tree, node = np.pad(empty.tree[pair], padding), np.pad(node, padding)
        counts = counts.at[instance, tree].add(forest.count_table[forest.code[tree, node]], mode="drop")
    return counts


class Empty(NamedTuple):
    """The pairs of an instance and a tree in which the instance ends in an empty leaf: an entry for each pair."""

    instance: np.ndarray
    tree: np.ndarray
    fork: np.ndarray
    """The number of the multi-way test that the empty leaf belongs to."""


def empty_pairs(trees: Trees, leaves: Int32[Array | np.ndarray, "instances trees"]) -> Empty:
    """Return the pairs of an instance and a tree in which the instance's leaf, one of ``leaves``, is empty."""
    feature = np.asarray(trees.feature)[np.arange(trees.n_trees), np.asarray(leaves)]
    instance, tree = np.nonzero(feature < 0)
    return Empty(instance, tree, -1 - feature[instance, tree])


def follow(trees: Trees, plan: Plan, X, empty: Empty) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (pairs, leaves), two arrays at a time, until each leaf that a pair in ``empty`` reaches was yielded.

    Pairs are positions in ``empty``, in ascending order, repeated as often as needed; each entry of leaves is reached
    by its pair. From an empty leaf an instance goes on through all children of the leaf's fork that are not empty, and
    from empty leaves below these likewise. The order in which a pair's leaves come depends on the pair alone. ``X`` has
    the instances, encoded; ``plan`` is one for data with missing values.
    """
    assert trees.forks is not None
    feature, start, children = (np.asarray(array) for array in (trees.feature, trees.forks.first, trees.forks.node))
    X = np.asarray(X, np.float32)
    with outside_traces():
        keys = _keys(padded_rows(X, power_of_two(len(X), SMALLEST_ROUND)))
    # Rounds to come: pairs, and the fork of an empty leaf that each is in. A pair may be in several.
    rounds = [(np.arange(len(empty.fork)), empty.fork)]
    while rounds:
        pair, fork = rounds.pop()
        n_children = start[fork + 1] - start[fork]
        if n_children.sum(dtype=np.int64) > UNDER_WAY and len(pair) > 1:
            rounds += [(pair[half], fork[half]) for half in reversed(_halves(pair))]
            continue
        pair, index = np.repeat(pair, n_children), np.arange(n_children.sum())
        # The index counts over the round: less the children of earlier forks, it is a position within the fork.
        child = children[index + np.repeat(start[fork] - (np.cumsum(n_children) - n_children), n_children)]
        leaf = _walk_on(plan, keys, empty.instance[pair], empty.tree[pair], child)
        fork = -1 - feature[empty.tree[pair], leaf]
        is_empty = fork >= 0
        if not is_empty.all():
            yield pair[~is_empty], leaf[~is_empty]
        if is_empty.any():
            rounds.append((pair[is_empty], fork[is_empty]))


def _halves(pair: np.ndarray) -> tuple[slice, slice]:
    """Return two slices that cut sorted pairs in about halves: never between equal pairs, unless all are equal."""
    middle = len(pair) // 2
    begin, end = np.searchsorted(pair, pair[middle], "left"), np.searchsorted(pair, pair[middle], "right")
    split = int(begin or (end if end < len(pair) else middle))
    return slice(split), slice(split, None)


def sums_reached(trees: Trees, plan: Plan, X, empty: Empty, read: Callable[..., list[np.ndarray]]) -> list[np.ndarray]:
    """Return sums ``[pairs ...]`` over the leaves that each pair in ``empty`` reaches (`follow`).

    ``read(tree, node)`` takes the tree and the node of many leaves, arrays ``[leaves]``. It returns the arrays
    ``[leaves ...]`` that are summed; there is a sum for each. Other arguments are as for `follow`.
    """
    no_leaves = np.zeros(0, np.int64)
    sums = [np.zeros((len(empty.fork), *array.shape[1:])) for array in read(no_leaves, no_leaves)]
    for pair, node in follow(trees, plan, X, empty):
        # Pairs ascend, so that sums are needed only for the range from the first to the last.
        pair_range, pair_index = slice(pair[0], pair[-1] + 1), pair - pair[0]
        for total, array in zip(sums, read(empty.tree[pair], node), strict=True):
            columns = array.reshape(len(pair), -1).T  # `np.bincount` sums one column of numbers at a time
            added = [np.bincount(pair_index, weights=column) for column in columns]
            total[pair_range] += np.stack(added, axis=1).reshape(-1, *array.shape[1:])
    return sums


def counts_reached(forest: Forest, plan: Plan, X, empty: Empty) -> np.ndarray:
    """Return sums of counts ``[pairs classes]`` over the leaves that pairs in ``empty`` reach; exact below 2⁵³."""
    table, code = np.asarray(forest.count_table), np.asarray(forest.code)
    return sums_reached(forest.trees, plan, X, empty, lambda tree, node: [table[code[tree, node]]])[0]


def _walk_on(plan: Plan, keys, instance: np.ndarray, tree: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the leaf that each ``instance`` (a row of ``keys``) reaches from the node ``start`` of ``tree``."""
    n_padded = power_of_two(len(start), SMALLEST_ROUND)
    arrays = (padded_rows(array.astype(np.int32), n_padded) for array in (instance, tree, start))
    with outside_traces():
        return np.asarray(_walk_padded(plan, keys, *arrays))[: len(start)]


_walk_padded = jit(walk_pairs)


_keys = jit(partial(column_keys, missing=True))
