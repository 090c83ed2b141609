"""Shapley values of leaf statistics by the rows that leaves cover, by Quadrature TreeSHAP (arXiv 2605.04497).

Each tree is walked once, depth first, in O(L D) time for each instance: L leaves, D distinct columns on a path at most.

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
from jaxtyping import Array, Float, Int

from jaxunc._numerics import multiple_of, order_key, padded_rows, power_of_two
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
"""Most bytes of a walk's arrays for its current path; calls take fewer instances rather than more memory."""
NODES, DEPTH = 4096, 32
"""The least sizes of programs; larger ones are powers of two."""


class Walk(NamedTuple):
    """The inner nodes of all trees in the order in which a walk enters them; without the statistics of leaves."""

    arrays: tuple[dict[str, Array], Array, dict[str, Array], Array]
    """Arrays of all nodes; the other nodes (without two leaves), in the order in which the walk leaves them; arrays of
    turns; the number of turns. A turn is a node of two leaves; after it the walk leaves some of the other nodes."""
    depth: int
    """Number of entries for a path's nodes; the first entry is above the root."""
    leaves: Int[np.ndarray, "nodes 2"]
    """The paths that end at the first and at the second child; -1 where the child is not a leaf."""
    shares: Float[np.ndarray, "paths"]
    """The share of its tree's rows in the leaf of each path."""


def make_walk(unrolled: Unrolled, cover: Float[np.ndarray, "trees nodes"]) -> Walk:
    """Return the walk through ``unrolled`` trees; ``cover`` has the number of rows in each leaf."""
    left, above, shares = shares_of_cover(unrolled, cover)
    nodes, levels, n_nodes = unrolled.nodes, unrolled.levels, len(unrolled.nodes.edge)
    # By edge: the path that ends there, and the number of inner nodes below; roots share the last entry, edge -1.
    parent, depth, path = nodes.edge // 2, np.empty(n_nodes, int), np.full(2 * n_nodes + 1, -1)
    path[unrolled.edge] = np.arange(len(unrolled.edge))
    below, size = np.zeros(2 * n_nodes + 1, int), np.empty(n_nodes, int)
    for level in reversed(levels):
        size[level] = 1 + below[2 * level.start : 2 * level.stop].reshape(-1, 2).sum(axis=1)
        below[nodes.edge[level]] = size[level]
    leaves, below = path[:-1].reshape(n_nodes, 2), below[:-1].reshape(n_nodes, 2)
    flip = (leaves[:, 0] < 0) & (leaves[:, 1] >= 0)  # the only leaf of two children becomes the first
    leaves, below = (np.where(flip[:, None], array[:, ::-1], array) for array in (leaves, below))
    is_second = (nodes.edge % 2 == 1) != flip[parent]
    entry = np.empty(n_nodes, int)  # position of each node in the order in which the walk enters nodes
    for k, level in enumerate(levels):
        depth[level] = k + 1
        after = 1 + entry[parent[level]] + np.where(is_second[level], below[parent[level], 0], 0)
        entry[level] = after if k else np.cumsum(size[level]) - size[level]  # a root follows all trees before it
    order = np.argsort(entry)
    n_points = max(1, -(-unrolled.most_columns // 2))
    t, weight = np.polynomial.legendre.leggauss(n_points if n_points <= 4 else multiple_of(2, n_points))
    t, weight = (t + 1) / 2, weight / 2
    a = t + (1 - t) * above[:, None]
    first, c = np.where(flip, 1 - left, left), (1 - t) / a
    # The chance of a child is offset + slope p, with the p of its parent; the chance of a root is 1.
    offset, slope = ((depth == 1) | is_second), np.where(depth == 1, 0, np.where(is_second, -1, 1))
    arrays = nodes._asdict() | {
        "depth": depth,
        "flip": flip,
        "missing_first": nodes.missing_right == flip,
        "share": first,
        "z_first": above * first,
        "z_second": above * (1 - first),
        "c": c,
        "weight": weight / a**2,
        "offset": offset.astype(float),
        "slope": slope.astype(float),
        "c_above": c[parent] * slope[:, None],
        "pops": leaves[:, 0] < 0,
    }
    arrays, leaves = jax.tree.map(lambda array: array[order], (arrays, leaves))
    depth, end = depth[order], entry[order] + size[order] - 1  # end: the last node that is entered below a node
    is_turn = (leaves >= 0).all(axis=1)
    turn, others = np.flatnonzero(is_turn), np.flatnonzero(~is_turn)
    leave_order = others[np.lexsort((-depth[others], end[others]))]
    turns = {
        "node": turn,
        "n_left": np.bincount(np.searchsorted(turn, end[others]), minlength=len(turn)),
        # The depth at which a statistic is kept: that of the next entered node's parent, whose first child is done.
        "keeps": depth[(turn + 1) % n_nodes] - 1,
    }
    dtype, n_all = jnp.result_type(float), power_of_two(n_nodes, NODES)

    def padded(array: np.ndarray, n_rows: int = n_all) -> np.ndarray:
        return padded_rows(array.astype({"f": dtype, "i": np.int32, "b": bool}[array.dtype.kind]), n_rows)

    turns = {name: padded(array, n_all // 2) for name, array in turns.items()}
    on_device = jax.device_put((jax.tree.map(padded, arrays), padded(leave_order), turns, np.int32(len(turn))))
    return Walk(on_device, power_of_two(len(levels) + 1, DEPTH), leaves, shares)


def kernel_by_cover(walk: Walk, leaf_stats: Float[Array, "nodes 2 stat"], platform: str) -> Kernel:
    """Return the `Kernel` of Shapley values by a walk; ``leaf_stats`` is made by `leaf_numbers`.

    ``platform``, "cpu" or "accelerator", sets the shapes of calls.
    """
    nodes, *others = walk.arrays
    n_points, n_stats = nodes["c"].shape[1], leaf_stats.shape[2]
    path_bytes = walk.depth * n_points * (1 + n_stats) * leaf_stats.dtype.itemsize
    max_rows, call_cost = CALLS[platform]
    rows = min(max_rows, power_of_two(STEP_BYTES // path_bytes + 1, 2 * SMALL[-1]) // 2)
    shapes = Shapes(Chunk(rows, rows), None, tuple(Chunk(few, few) for few in SMALL), call_cost, OF_A_THREAD)
    return Kernel(_values, walk.depth, (nodes | {"leaf_stats": leaf_stats}, *others), shapes)


def leaf_numbers(walk: Walk, table: Float[np.ndarray, "paths stat"]) -> Float[Array, "nodes 2 stat"]:
    """Return the statistics of both children of each node of the walk, on the device; ``table`` has those of paths.

    A child that is not a leaf has the numbers of some path, which are not read.
    """
    leaf_stats = table.astype(jnp.result_type(float))[walk.leaves]
    return jax.device_put(padded_rows(leaf_stats, len(walk.arrays[0]["c"])))


def _take(array: Array, index: Array) -> Array:
    """Return ``array[index]`` along the first axis; ``index`` is traced and in range."""
    return lax.dynamic_index_in_dim(array, index, keepdims=False)


def _put(array: Array, part: Array, index: Array) -> Array:
    """Return ``array`` with ``part`` at ``index`` along the first axis; ``index`` is traced and in range."""
    return lax.dynamic_update_index_in_dim(array, part, index, 0)


class _PathNumbers(NamedTuple):
    """Numbers of the nodes on the current path, ``[depth ... rows]``: W, alpha and beta of the module's formulas."""

    arrive: Array
    alpha: Array
    beta: Array


@partial(HostProgram, static_argnums=(0, 1))
def _values(has_missing: bool, depth: int, arrays: tuple, x: Array, mask: Array | None) -> Array:
    """Return the Shapley values of instances ``x``, ``[instances features stat]``, by one walk through all trees.

    ``has_missing`` says whether ``x`` may hold missing values. ``depth`` and ``arrays`` are those of the `Walk`, with
    ``leaf_stats`` among the nodes' arrays. ``mask [instances trees]`` is the tree mask, or None. The loop goes from
    turn to turn. It enters the nodes down to the turn, and then leaves those whose second child is done. ``path`` has
    the numbers of the path, ``first_stats`` the statistics expected at first children, by depth.
    """
    nodes, leave_order, turns, n_turns = arrays
    n_stats, n_points, dtype = nodes["leaf_stats"].shape[-1], nodes["c"].shape[1], nodes["c"].dtype
    keys, is_missing = order_key(x).T, jnp.isnan(x).T if has_missing else None
    mask_of_trees = None if mask is None else mask.T

    def zeros(*shape: int) -> Array:
        return jnp.zeros((*shape, len(x)), dtype)

    def enter(i: Array, path: _PathNumbers) -> _PathNumbers:
        """Return the path with node i added: its alpha and beta, and the instances' chance to arrive there."""
        g = {name: _take(part, i) for name, part in nodes.items()}  # the node's numbers by name
        key, level = _take(keys, g["column"]), g["depth"]
        passes, goes_first = (key > g["low"]) & (key <= g["high"]), (key <= g["threshold"]) != g["flip"]
        if is_missing is not None:
            is_absent = _take(is_missing, g["column"])
            passes = jnp.where(is_absent, g["missing"], passes)
            goes_first = jnp.where(is_absent, g["missing_first"], goes_first)
        alpha = jnp.where(passes, goes_first.astype(dtype), g["share"])
        beta = jnp.where(passes, jnp.where(goes_first, -g["z_second"], g["z_first"]), 0)
        alpha, beta = _put(path.alpha, alpha, level), _put(path.beta, beta, level)
        arrive = _take(path.arrive, level - 1)
        if mask_of_trees is not None:  # an instance does not arrive at the root of a masked tree
            arrive = jnp.where(level == 1, _take(mask_of_trees, g["tree"]).astype(dtype), arrive)
        chance = g["offset"] + g["slope"] * _take(alpha, level - 1) + g["c_above"][:, None] * _take(beta, level - 1)
        return _PathNumbers(_put(path.arrive, arrive * chance, level), alpha, beta)

    def leave(i: Array, state: tuple[Array, Array], path: _PathNumbers, first_stats: Array) -> tuple[Array, Array]:
        """Add the shares of the i-th node that the walk leaves; return the totals, and the statistic expected there.

        ``state`` has the totals so far, and the statistic expected at the node's second child.
        """
        total, second = state
        node = _take(leave_order, i)
        g = {name: _take(part, node) for name, part in nodes.items()}
        # "pops": the first child is an inner node, whose statistic was kept when the walk left it.
        difference = jnp.where(g["pops"], _take(first_stats, g["depth"]), g["leaf_stats"][0][:, None, None]) - second
        return add(g, total, path, difference), expect(g, path, second, difference)

    def add(g: dict[str, Array], total: Array, path: _PathNumbers, difference: Array) -> Array:
        """Return ``total`` with the share of a node added to its column.

        ``g`` has the node's numbers by name; ``difference`` is the first child's expected statistic less the second's.
        """
        arrive, beta = (_take(part, g["depth"]) for part in (path.arrive, path.beta))
        share = (g["weight"][:, None] * arrive * difference).sum(axis=1)
        return _put(total, _take(total, g["column"]) - beta * share, g["column"])

    def expect(g: dict[str, Array], path: _PathNumbers, second: Array, difference: Array) -> Array:
        """Return the expected statistic at a node, ``[stat points rows]``; ``second`` is that at its second child.

        ``g``, ``path`` and ``difference`` are as for `add`.
        """
        alpha, beta = (_take(part, g["depth"]) for part in (path.alpha, path.beta))
        return second + (alpha + g["c"][:, None] * beta) * difference

    def turn(k: Array, state: tuple) -> tuple:
        """Enter the nodes down to the k-th turn, add its shares, and leave the nodes that are done.

        ``state`` has the totals, ``first_stats``, ``path``, and the numbers of nodes entered and left so far.
        """
        total, first_stats, path, i, j = state
        turn_numbers = {name: _take(part, k) for name, part in turns.items()}
        node, last = turn_numbers["node"], j + turn_numbers["n_left"]
        path = lax.fori_loop(i, node + 1, enter, path)
        g = {name: _take(part, node) for name, part in nodes.items()}
        first, second = g["leaf_stats"][..., None, None]
        start = add(g, total, path, first - second), expect(g, path, second, first - second)
        total, statistic = lax.fori_loop(j, last, partial(leave, path=path, first_stats=first_stats), start)
        return total, _put(first_stats, statistic, turn_numbers["keeps"]), path, node + 1, last

    path = _PathNumbers(1 + zeros(depth, n_points), zeros(depth), zeros(depth))  # each root is reached with chance 1
    start = zeros(x.shape[1], n_stats), zeros(depth, n_stats, n_points), path, jnp.int32(0), jnp.int32(0)
    return lax.fori_loop(0, n_turns, turn, start)[0].transpose(2, 0, 1)
