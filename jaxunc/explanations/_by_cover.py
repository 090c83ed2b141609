"""Shapley values of leaf statistics by the rows that leaves cover, by Quadrature TreeSHAP (arXiv 2605.04497).

Each tree is traversed once, depth first, in O(L D) time for each instance: L leaves, at most D distinct columns on a
path.

A coalition has every column with chance t. A column that it lacks sends an instance to each child by the child's share
of the cover. Take a node and its column. Let z be the product of the shares at the tests of this column above the node,
and o in {0, 1} whether the instance passes these tests; both are 1 at the first test. With the node's test, z becomes
z_1 for the first child and z_2 for the second, z_1 + z_2 = z. With a = t + (1 - t) z, for a quadrature point t of
weight w::

    chance of the first child   p = its share of the cover   if o = 0
                                  1 - (1 - t) z_2 / a        if o = 1 and the instance goes there
                                  (1 - t) z_1 / a            if o = 1 and it goes to the second
                                = alpha + c beta,            c = (1 - t) / a
    chance to arrive            W_1 = W p,  W_2 = W (1 - p)              on the way down
    expected statistic          H = H_2 + p (H_1 - H_2)                  on the way up
    share of the node           beta sum_t  w / a^2  W (H_2 - H_1)       goes to its column

The sums over nodes are the Shapley values: shares of a column's tests on one path telescope. The integrand is a
polynomial whose degree is one less than the number of distinct columns on the path: half as many points are exact.

A step takes one node, all points and a block of instances. It holds only what belongs to the node's path: chances to
arrive, and the expected statistics at first children that are done. If one child is a leaf, it is the first. The shape
of the trees is data in arrays, so forests of like size share a program.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxunc._numerics import ceil_div, multiple_of, order_key, padded_rows, power_of_two
from jaxunc.inference import Chunk, HostProgram, Shapes

from ._calls import Kernel
from ._paths import Unrolled, shares_of_cover

CALLS = {"cpu": (512, 160), "accelerator": (2**16, 2**16)}
"""(Number of instances in a call, number of instances that take as long as the call's fixed cost). On a CPU the arrays
of a step stay in the cache; an accelerator takes as long to go from step to step as for all instances of a step."""
SMALL = 8, 128
"""Numbers of instances in small calls."""
OF_A_THREAD = 16
"""Number of instances that take as long as waking another thread."""
STEP_BYTES = 2**28
"""Most bytes of a traversal's arrays for its current path; calls take fewer instances rather than more memory."""
NODES, DEPTH = 4096, 32
"""The least sizes of programs; larger ones are powers of two."""


class Steps(NamedTuple):
    """The steps of a traversal, on the device. A *turn* is a node of two leaves; `_turns` draws an example."""

    nodes: dict[str, Array]
    """Numbers of the inner nodes ``[nodes ...]`` by the names of `make_traversal`, in the order of entry."""
    leave_order: Int[Array, "nodes"]
    """The nodes other than turns, in the order in which the traversal leaves them."""
    turns: dict[str, Array]
    """Numbers of the turns ``[turns]`` by name, in the order of entry."""
    n_turns: Int[Array, ""]


class Traversal(NamedTuple):
    """A way through all trees, one after the other, each depth first; without the statistics of leaves."""

    steps: Steps
    depth: int
    """Number of entries for a path's nodes; the first entry is above the root."""
    leaves: Int[np.ndarray, "nodes 2"]
    """The paths that end at the first and at the second child, in the order of entry; -1 where a child is no leaf."""
    shares: Float[np.ndarray, "paths"]
    """The share of its tree's rows in the leaf of each path."""


def make_traversal(unrolled: Unrolled, cover: Float[np.ndarray, "trees nodes"]) -> Traversal:
    """Return the traversal of ``unrolled`` trees; ``cover`` has the number of rows in each leaf."""
    left, above, shares = shares_of_cover(unrolled, cover)
    nodes = unrolled.nodes
    n_nodes = len(nodes.edge)
    # The paths that end at the children of each node; -1 for a child that is no leaf.
    leaves = np.full(2 * n_nodes, -1)
    has_edge = unrolled.edge >= 0  # a leaf that is a root has no edge
    leaves[unrolled.edge[has_edge]] = np.flatnonzero(has_edge)
    leaves = leaves.reshape(n_nodes, 2)
    flip = (leaves[:, 0] < 0) & (leaves[:, 1] >= 0)  # the only leaf of two children becomes the first
    leaves = np.where(flip[:, None], leaves[:, ::-1], leaves)
    parent = nodes.edge // 2
    is_root = nodes.edge < 0
    is_second = ~is_root & ((nodes.edge % 2 == 1) != flip[parent])
    entry, depth, last = _entry_order(unrolled, is_second)
    # The numbers of the module's formulas, at the points t.
    t, weight = _quadrature(unrolled.most_columns)
    a = t + (1 - t) * above[:, None]
    c = (1 - t) / a
    first = np.where(flip, 1 - left, left)  # share of the first child
    # The chance of a child is offset + slope p, with the p of its parent; the chance of a root is 1.
    slope = np.where(is_root, 0, np.where(is_second, -1, 1))
    numbers = nodes._asdict() | {
        "depth": depth,
        "flip": flip,
        "missing_first": nodes.missing_right == flip,
        "share": first,
        "z_first": above * first,
        "z_second": above * (1 - first),
        "c": c,
        "weight": weight / a**2,
        "offset": (is_root | is_second).astype(float),
        "slope": slope.astype(float),
        "c_above": c[parent] * slope[:, None],
        "pops": leaves[:, 0] < 0,
    }
    order = np.argsort(entry)  # from here on nodes are in the order of entry
    numbers, leaves, depth, last = jax.tree.map(lambda array: array[order], (numbers, leaves, depth, last))
    turns, leave_order = _turns((leaves >= 0).all(axis=1), depth, last)
    dtype = jnp.result_type(float)
    n_all = power_of_two(n_nodes, NODES)

    def padded(array: np.ndarray, n_rows: int = n_all) -> np.ndarray:
        """Return ``array`` with ``n_rows`` rows, in the type that programs read."""
        return padded_rows(array.astype({"f": dtype, "i": np.int32, "b": bool}[array.dtype.kind]), n_rows)

    padded_turns = {name: padded(array, n_all // 2) for name, array in turns.items()}
    n_turns = np.int32(len(turns["node"]))
    steps = Steps(*jax.device_put((jax.tree.map(padded, numbers), padded(leave_order), padded_turns, n_turns)))
    return Traversal(steps, power_of_two(len(unrolled.levels) + 1, DEPTH), leaves, shares)


def _entry_order(unrolled: Unrolled, is_second: Bool[np.ndarray, "nodes"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (position, depth, last position) of each node, ``[nodes]``, in the order in which nodes are entered.

    ``is_second`` says whether a node is the second child. The last position is that of the last node which is entered
    below the node, or its own if none is.
    """
    edge = unrolled.nodes.edge
    later_levels = unrolled.levels[1:]
    parent = edge // 2
    size = np.ones(len(edge), int)  # number of nodes below, and the node itself
    for level in reversed(later_levels):
        np.add.at(size, parent[level], size[level])
    # A root follows all trees before it, and a second child all nodes of the first.
    position = np.cumsum(size * (edge < 0)) - size
    depth = np.ones(len(edge), int)
    for k, level in enumerate(later_levels, start=2):
        depth[level] = k
        above = parent[level]
        position[level] = position[above] + np.where(is_second[level], size[above] - size[level], 1)
    return position, depth, position + size - 1


def _quadrature(n_columns: int) -> tuple[Float[np.ndarray, "points"], Float[np.ndarray, "points"]]:
    """Return (points, weights) of a quadrature on [0, 1], exact for paths of up to ``n_columns`` distinct columns."""
    n_points = max(1, ceil_div(n_columns, 2))
    t, weight = np.polynomial.legendre.leggauss(n_points if n_points <= 4 else multiple_of(2, n_points))
    return (t + 1) / 2, weight / 2


def _turns(
    is_turn: Bool[np.ndarray, "nodes"], depth: Int[np.ndarray, "nodes"], last: Int[np.ndarray, "nodes"]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    r"""Return (numbers of the turns by name, the other nodes in the order of leaving); nodes come in order of entry.

    A turn is a node of two leaves. ``last`` is the last node that is entered below a node. At a turn the traversal
    enters the nodes down to it, and leaves those whose last node it is. Then it keeps the statistic of the uppermost of
    them, the turn included, by the depth of its parent. Of three nodes two are turns::

           0           node  enters  n_left  leaves  keeps
          / \          1     0, 1    0       -       1, the statistic of node 1
         1   2         2     2       1       0       0, that of node 0, which is not read
    """
    turn = np.flatnonzero(is_turn)
    others = np.flatnonzero(~is_turn)
    numbers = {
        "node": turn,
        # The last node below a node is a turn.
        "n_left": np.bincount(np.searchsorted(turn, last[others]), minlength=len(turn)),
        # The parent of the uppermost node is that of the node that is entered next, its second child.
        "keeps": depth[(turn + 1) % len(depth)] - 1,
    }
    leave_order = np.lexsort((-depth[others], last[others]))  # turn after turn, the deepest node first
    return numbers, others[leave_order]


def kernel_by_cover(traversal: Traversal, leaf_stats: Float[Array, "nodes 2 stat"], platform: str) -> Kernel:
    """Return the `Kernel` of Shapley values by a traversal; ``leaf_stats`` is a result of `leaf_numbers`.

    ``platform``, "cpu" or "accelerator", sets the shapes of calls.
    """
    nodes = traversal.steps.nodes
    depth = traversal.depth
    n_points = nodes["c"].shape[1]
    n_stats = leaf_stats.shape[2]
    path_bytes = depth * n_points * (1 + n_stats) * leaf_stats.dtype.itemsize
    max_rows, call_cost = CALLS[platform]
    rows = min(max_rows, power_of_two(STEP_BYTES // path_bytes + 1, 2 * SMALL[-1]) // 2)
    shapes = Shapes(Chunk(rows, rows), None, tuple(Chunk(few, few) for few in SMALL), call_cost, OF_A_THREAD)
    steps = traversal.steps._replace(nodes=nodes | {"leaf_stats": leaf_stats})
    return Kernel(_values, setting=depth, arrays=steps, shapes=shapes)


def leaf_numbers(traversal: Traversal, table: Float[np.ndarray, "paths stat"]) -> Float[Array, "nodes 2 stat"]:
    """Return the statistics of both children of each node of the traversal, on the device.

    ``table`` has a row for each path: the statistics of the leaf at its end. A child that is not a leaf gets any row,
    which `kernel_by_cover` does not read.
    """
    leaf_stats = table.astype(jnp.result_type(float))[traversal.leaves]
    return jax.device_put(padded_rows(leaf_stats, len(traversal.steps.nodes["c"])))


def _take(array: Array, index: Array) -> Array:
    """Return ``array[index]`` along the first axis; ``index`` is a traced number in range."""
    return lax.dynamic_index_in_dim(array, index, keepdims=False)


def _put(array: Array, part: Array, index: Array) -> Array:
    """Return ``array`` with ``part`` as ``array[index]``; ``index`` is a traced number in range."""
    return lax.dynamic_update_index_in_dim(array, part, index, 0)


class _Instances(NamedTuple):
    """The instances of a call; they are the last axis of all arrays."""

    keys: Int[Array, "features rows"]
    is_missing: Bool[Array, "features rows"] | None
    mask: Bool[Array, "trees rows"] | None


class _PathNumbers(NamedTuple):
    """Numbers of the nodes on the current path, ``[depth ... rows]``: W, alpha and beta of the module's formulas."""

    arrive: Array
    alpha: Array
    beta: Array


class _WalkState(NamedTuple):
    """The state of a traversal between two turns."""

    total: Float[Array, "features stat rows"]
    """The Shapley values of the nodes that were left."""
    first_stats: Float[Array, "depth stat points rows"]
    """The statistics expected at first children, by their parents' depths."""
    path: _PathNumbers
    n_entered: Int[Array, ""]
    n_left: Int[Array, ""]
    """Number of nodes that were left, without turns."""


@partial(HostProgram, static_argnums=(0, 1))
def _values(has_missing: bool, depth: int, steps: Steps, x: Array, mask: Array | None) -> Array:
    """Return the Shapley values of instances ``x``, ``[instances features stat]``, by one traversal of all trees.

    ``has_missing`` says whether ``x`` may hold missing values. ``depth`` and ``steps`` are those of the `Traversal`,
    with ``leaf_stats`` among the nodes' numbers. ``mask [instances trees]`` is the tree mask, or None.
    """
    points = steps.nodes["c"]
    n_points = points.shape[1]
    n_stats = steps.nodes["leaf_stats"].shape[-1]
    n_features = x.shape[1]
    instances = _Instances(
        keys=order_key(x).T,
        is_missing=jnp.isnan(x).T if has_missing else None,
        mask=None if mask is None else mask.T,
    )

    def zeros(*shape: int) -> Array:
        """Return zeros ``[*shape instances]``."""
        return jnp.zeros((*shape, len(x)), points.dtype)

    path = _PathNumbers(1 + zeros(depth, n_points), zeros(depth), zeros(depth))  # each root is reached with chance 1
    start = _WalkState(
        total=zeros(n_features, n_stats),
        first_stats=zeros(depth, n_stats, n_points),
        path=path,
        n_entered=jnp.int32(0),
        n_left=jnp.int32(0),
    )
    return lax.fori_loop(0, steps.n_turns, partial(_turn, steps, instances), start).total.transpose(2, 0, 1)


def _turn(steps: Steps, instances: _Instances, k: Array, state: _WalkState) -> _WalkState:
    """Return the state after turn k: enter the nodes down to it, add its shares, and leave the nodes that are done."""
    turn = _entries(steps.turns, k)
    n_entered = turn["node"] + 1
    n_left = state.n_left + turn["n_left"]
    path = lax.fori_loop(state.n_entered, n_entered, partial(_enter, steps.nodes, instances), state.path)
    node = _entries(steps.nodes, turn["node"])
    sums = _close(node, path, state.total, *node["leaf_stats"][..., None, None])
    leave = partial(_leave, steps, path, state.first_stats)
    total, statistic = lax.fori_loop(state.n_left, n_left, leave, sums)
    first_stats = _put(state.first_stats, statistic, turn["keeps"])
    return _WalkState(total, first_stats, path, n_entered, n_left)


def _enter(nodes: dict[str, Array], instances: _Instances, i: Array, path: _PathNumbers) -> _PathNumbers:
    """Return the path with the numbers of node i at its depth: alpha, beta, and the chance W to arrive there."""
    node = _entries(nodes, i)
    key = _take(instances.keys, node["column"])
    level = node["depth"]
    dtype = node["c"].dtype
    passes = (key > node["low"]) & (key <= node["high"])  # the tests of this column above the node: o = 1
    goes_first = (key <= node["threshold"]) != node["flip"]
    if instances.is_missing is not None:
        is_absent = _take(instances.is_missing, node["column"])
        passes = jnp.where(is_absent, node["missing"], passes)
        goes_first = jnp.where(is_absent, node["missing_first"], goes_first)
    alpha = jnp.where(passes, goes_first.astype(dtype), node["share"])
    beta = jnp.where(passes, jnp.where(goes_first, -node["z_second"], node["z_first"]), 0)
    alpha = _put(path.alpha, alpha, level)
    beta = _put(path.beta, beta, level)
    # The chance to arrive at the parent, times the chance of this child, which `make_traversal` describes.
    arrive = _take(path.arrive, level - 1)
    if instances.mask is not None:  # an instance does not arrive at the root of a masked tree
        arrive = jnp.where(level == 1, _take(instances.mask, node["tree"]).astype(dtype), arrive)
    alpha_above = _take(alpha, level - 1)
    beta_above = _take(beta, level - 1)
    chance = node["offset"] + node["slope"] * alpha_above + node["c_above"][:, None] * beta_above
    return _PathNumbers(_put(path.arrive, arrive * chance, level), alpha, beta)


def _leave(
    steps: Steps, path: _PathNumbers, first_stats: Array, position: Array, sums: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Return the result of `_close` for the node at ``position`` in the order of leaving.

    ``sums`` are (totals so far, statistic expected at the node's second child, which was left just before).
    ``first_stats`` is that of the `_WalkState`.
    """
    node = _entries(steps.nodes, _take(steps.leave_order, position))
    total, second = sums
    # "pops": the first child is an inner node, whose statistic was kept when the traversal left it.
    first = jnp.where(node["pops"], _take(first_stats, node["depth"]), node["leaf_stats"][0][:, None, None])
    return _close(node, path, total, first, second)


def _close(
    node: dict[str, Array], path: _PathNumbers, total: Array, first: Array, second: Array
) -> tuple[Array, Array]:
    """Return (``total`` with the node's share added to its column, the statistic expected at the node).

    ``node`` has the node's numbers by name. ``first`` and ``second`` are the statistics expected at its children, of
    shapes that broadcast to ``[stat points rows]``.
    """
    arrive, alpha, beta = (_take(part, node["depth"]) for part in path)
    difference = first - second
    share = (node["weight"][:, None] * arrive * difference).sum(axis=1)
    total = _put(total, _take(total, node["column"]) - beta * share, node["column"])
    return total, second + (alpha + node["c"][:, None] * beta) * difference


def _entries(arrays: dict[str, Array], index: Array) -> dict[str, Array]:
    """Return the entry at ``index`` of each of the ``arrays``, by the same names; ``index`` is a traced number."""
    return {name: _take(array, index) for name, array in arrays.items()}
