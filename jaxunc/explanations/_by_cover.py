"""Shapley values of leaf statistics by the rows that leaves cover: each tree is walked once, depth first.

A coalition has every column with chance t; a column that it lacks sends an instance to a child by the child's share of
the cover. Of a node's column, let z be the product of shares at its tests above the node, and o in {0, 1} whether the
instance passes these (both 1 at the first test); z_1 + z_2 = z the same with the node's test, for its two children. With
a = t + (1 - t) z, for a quadrature point t with weight w::

    chance of the first child   p = its share of the cover   if o = 0
                                  1 - (1 - t) z_2 / a        if o = 1 and the instance goes there
                                  (1 - t) z_1 / a            if o = 1 and it goes to the second
                                = alpha + c beta,            c = (1 - t) / a
    chance to arrive            W_1 = W p,  W_2 = W (1 - p)              on the way down
    expected statistic          H = H_2 + p (H_1 - H_2)                  on the way up
    share of the node           beta sum_t  w / a^2  W (H_2 - H_1)       goes to its column

The sums over nodes are the Shapley values: shares of a column's tests on one path telescope. What is integrated is a
polynomial of one degree less than the path has distinct columns, for which half as many points are exact.

A step takes one node, all points and a block of instances. What the steps hold is the path alone: chances to arrive, and
what is expected of first children that are done. Of a node with one leaf the leaf is the first child. So the program
knows nothing of a tree's form but numbers in arrays, and forests share it.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from jaxunc._checks import outside_traces
from jaxunc._numerics import cores, multiple_of, order_key, padded_rows, power_of_two
from jaxunc.forest import Trees
from jaxunc.inference import Chunk, HostProgram, Part, Shapes, cut, drive
from jaxunc.tables import Encoded

from ._paths import Shares, Unrolled

ROWS = 512
"""Instances of a call."""
FEW = 8
"""Instances of a small call."""
DEPTHS = 16
"""Depths are padded to multiples of this, and nodes to powers of two, so that forests share programs."""


class Walk(NamedTuple):
    """The inner nodes of all trees in the order in which they are entered; without what leaves say."""

    nodes: dict[str, Array]
    """``[nodes …]``."""
    turns: dict[str, Array]
    """``[turns]``: nodes of two leaves, the nodes entered before them, and the nodes left after them."""
    left: Array
    """``[nodes]``: nodes that do not have two leaves, in the order in which they are left."""
    entered: Array
    """``[nodes]``: the same, in the order in which they are entered."""
    n_turns: np.int32
    depth: int
    leaves: Int[np.ndarray, "2 nodes"]
    """Where a child is a leaf: its place among all nodes of the trees; else -1."""


def make_walk(trees: Trees, unrolled: Unrolled, shares: Shares) -> Walk:
    """Return the walk through trees that have inner nodes."""
    levels = unrolled.levels
    sizes, flips, firsts = [], [], []
    below = np.zeros(0, int)
    for level in reversed(levels):
        n = len(level.tree)
        size = np.zeros(2 * n, int)
        size[level.is_inner] = below
        left, right = size.reshape(2, n)
        flips.insert(0, (right == 0) & (left > 0))
        firsts.insert(0, np.where(flips[0], right, left))
        below = 1 + left + right
        sizes.insert(0, below)
    # Where each node is entered: after its parent, the second child after all of the first.
    order = np.argsort(levels[0].tree, kind="stable")
    at = np.zeros(len(order), int)
    at[order] = np.cumsum(sizes[0][order]) - sizes[0][order]
    parent, side = at, np.full(len(at), -1)
    parts: dict[str, list[np.ndarray]] = {}
    for k, level in enumerate(levels):
        n, flip = len(level.tree), flips[k]
        column, threshold, missing_right = (
            np.asarray(part)[level.tree, level.node] for part in (trees.feature, trees.threshold, trees.missing_right)
        )
        share = np.where(flip, 1 - shares.left[k], shares.left[k])
        leaf = np.where(level.is_inner, -1, np.tile(level.tree, 2) * trees.n_nodes + level.child).reshape(2, n)
        own = {
            "at": at, "parent": parent, "side": side, "depth": np.full(n, k + 1), "end": at + sizes[k] - 1,
            "tree": level.tree, "column": column, "low": level.low, "high": level.high, "missing": level.missing,
            "threshold": threshold, "missing_first": missing_right == flip, "flip": flip,
            "share": share, "above": shares.above[k],
            "leaf_first": np.where(flip, leaf[1], leaf[0]), "leaf_second": np.where(flip, leaf[0], leaf[1]),
        }  # fmt: skip
        for name, part in own.items():
            parts.setdefault(name, []).append(part)
        is_second = np.concatenate([flip, ~flip])[level.is_inner]
        parent = np.tile(at, 2)[level.is_inner]
        at = parent + 1 + np.where(is_second, np.tile(firsts[k], 2)[level.is_inner], 0)
        side = is_second.astype(int)
    arrays = {name: np.concatenate(part) for name, part in parts.items()}
    order = np.argsort(arrays.pop("at"))
    arrays = {name: part[order] for name, part in arrays.items()}
    end, depth, above, share = (arrays.pop(name) for name in ("end", "depth", "above", "share"))
    leaves = np.stack([arrays.pop("leaf_first"), arrays.pop("leaf_second")])
    is_turn = (leaves >= 0).all(axis=0)
    others, turn = np.flatnonzero(~is_turn), np.flatnonzero(is_turn)
    left = others[np.lexsort((-depth[others], end[others]))]
    n_points = max(1, -(-unrolled.most_columns // 2))
    t, weight = np.polynomial.legendre.leggauss(n_points if n_points <= 4 else multiple_of(2, n_points))
    t, weight = (t + 1) / 2, weight / 2
    a = t + (1 - t) * above[:, None]
    side = arrays.pop("side")
    c = (1 - t) / a
    arrays |= {"depth": depth, "share": share, "z_first": above * share, "z_second": above * (1 - share)}
    arrays |= {"enters": (side != 0).astype(float), "turned": 1.0 - 2 * side * (side >= 0) - (side < 0), "is_root": side < 0}
    arrays |= {"c": c, "weight": weight / a**2, "pops": leaves[0] < 0}
    arrays["c_above"] = c[arrays.pop("parent")] * arrays["turned"][:, None]
    start = np.concatenate([[0], turn[:-1] + 1])
    turns = {
        "node": turn,
        "n_entered": turn - start + 1,
        "n_left": np.bincount(np.searchsorted(turn, end[others]), minlength=len(turn)),
        "pushed_at": np.append(depth[start[1:]] - 1, 0),
    }
    dtype = jnp.result_type(float)

    def on_device(x: np.ndarray) -> np.ndarray:
        return padded_rows(x.astype({"f": dtype, "i": np.int32, "b": bool}[x.dtype.kind]), power_of_two(len(x), 64))

    put = jax.device_put(jax.tree.map(on_device, (arrays, turns, left, others)))
    return Walk(*put, np.int32(len(turn)), multiple_of(DEPTHS, len(levels) + 1), leaves)


def values_by_cover(
    walk: Walk, table: Float[np.ndarray, "trees nodes stat"], X: Encoded, mask: np.ndarray | None
) -> Float[Array, "instances features stat"]:
    """Return the shares of each column; parts of the instances go to threads."""
    shapes = Shapes(Chunk(ROWS, ROWS), None, (Chunk(FEW, FEW), Chunk(128, 128)))
    threads = cores() if jax.default_backend() == "cpu" else 1
    dtype, flat = jnp.result_type(float), table.reshape(-1, table.shape[-1])
    n = len(walk.nodes["c"])
    said = padded_rows(np.moveaxis(np.where(walk.leaves[..., None] < 0, 0, flat[walk.leaves]), 0, 1).astype(dtype), n)
    said = jax.device_put(said)

    def values(part: Part) -> Array:
        return _values(X.missing, walk.depth, walk[:5], said, part.of(X.values), part.of(mask))

    with outside_traces():
        return drive(values, cut(len(X.values), shapes, threads), threads)


def _at(array: Array, index: Array) -> Array:
    return lax.dynamic_index_in_dim(array, index, 0, False)


def _point(array: Array, depth: Array, j: int) -> Array:
    """One point of what is at a depth, ``[... rows]``."""
    start = (depth, *[0] * (array.ndim - 3), j, 0)
    return lax.dynamic_slice(array, start, (1, *array.shape[1:-2], 1, array.shape[-1])).reshape(*array.shape[1:-2], -1)


def _with(array: Array, part: Array, index: Array) -> Array:
    return lax.dynamic_update_index_in_dim(array, part, index, 0)


@partial(HostProgram, static_argnums=(0, 1))
def _values(has_missing, depth, walk, said, x, mask):
    nodes, turns, lefts, others, n_turns = walk
    n_rows, n_features = x.shape
    n_stats, n_points, dtype = said.shape[-1], nodes["c"].shape[1], said.dtype
    keys, is_missing = order_key(x).T, jnp.isnan(x).T if has_missing else None
    of_trees = None if mask is None else mask.T.astype(dtype)

    def chances(u):
        """alpha and beta ``[rows]`` of a node."""
        g = {name: _at(nodes[name], u) for name in ("column", "low", "high", "threshold", "flip", "missing", "missing_first", "share", "z_first", "z_second")}
        key = _at(keys, g["column"])
        passes, goes_first = (key > g["low"]) & (key <= g["high"]), (key <= g["threshold"]) != g["flip"]
        if is_missing is not None:
            lacks = _at(is_missing, g["column"])
            passes = jnp.where(lacks, g["missing"], passes)
            goes_first = jnp.where(lacks, g["missing_first"], goes_first)
        alpha = jnp.where(passes, goes_first.astype(dtype), g["share"])
        return alpha, jnp.where(passes, jnp.where(goes_first, -g["z_second"], g["z_first"]), 0)

    def arriving(u, W, A, B):
        """The chance to arrive ``[points rows]``."""
        d = _at(nodes["depth"], u) - 1
        above = _at(W, d)
        if of_trees is not None:
            above = jnp.where(_at(nodes["is_root"], u), _at(of_trees, _at(nodes["tree"], u)), above)
        return above * (_at(nodes["enters"], u) + _at(nodes["turned"], u) * _at(A, d) + _at(nodes["c_above"], u)[:, None] * _at(B, d))

    def enter(i, state):
        W, A, B = state
        u = i
        d = _at(nodes["depth"], u)
        alpha, beta = chances(u)
        A, B = _with(A, alpha, d), _with(B, beta, d)
        return _with(W, arriving(u, W, A, B), d), A, B

    def leave(i, state, W, A, B, H):
        total, h = state
        u = _at(lefts, i)
        d = _at(nodes["depth"], u)
        alpha, beta, column, c, weight = _at(A, d), _at(B, d), _at(nodes["column"], u), _at(nodes["c"], u), _at(nodes["weight"], u)
        first, pops = _at(said, u)[0][:, None], _at(nodes["pops"], u)
        share = sum(weight[j] * _point(W, d, j) * (jnp.where(pops, _point(H, d, j), first) - h[:, j]) for j in range(n_points))
        total = _with(total, _at(total, column) - beta * share, column)
        more = jnp.where(pops, _at(H, d), first[..., None]) - h
        return total, h + (alpha + c[:, None] * beta) * more

    def turn(k, state):
        total, H, W, A, B, i, j = state
        g = {name: _at(part, k) for name, part in turns.items()}
        end = i + g["n_entered"]
        W, A, B = lax.fori_loop(i, end, enter, (W, A, B))
        u = g["node"]
        d = _at(nodes["depth"], u)
        alpha, beta, column, c, weight = _at(A, d), _at(B, d), _at(nodes["column"], u), _at(nodes["c"], u), _at(nodes["weight"], u)
        first, second = _at(said, u)
        share = sum(weight[j] * _point(W, d, j) for j in range(n_points)) * beta
        total = _with(total, _at(total, column) + (second - first)[:, None] * share, column)
        h = second[:, None, None] + (alpha + c[:, None] * beta) * (first - second)[:, None, None]
        last = j + g["n_left"]
        total, h = lax.fori_loop(j, last, lambda i, s: leave(i, s, W, A, B, H), (total, h))
        return total, _with(H, h, g["pushed_at"]), W, A, B, end, last

    zeros = lambda *shape: jnp.zeros((*shape, n_rows), dtype)  # noqa: E731
    start = zeros(n_features, n_stats), zeros(depth, n_stats, n_points), jnp.ones((depth, n_points, n_rows), dtype), zeros(depth), zeros(depth), jnp.int32(0), jnp.int32(0)
    total = lax.fori_loop(0, n_turns, turn, start)[0]
    return total.transpose(2, 0, 1)
