"""Shapley values of leaf statistics, level by level: one pass down the trees and one up, for all columns at once.

A coalition has every column with chance t; a column that it lacks sends an instance to a child by the child's share of
the cover. Of a node's column, let z be the product of shares at its tests above the node, and o in {0, 1} whether the
instance passes these (both 1 at the first test); z_l + z_r = z the same with the node's test. With a = t + (1 - t) z,
for a quadrature point t with weight w::

    chance to go left      p = share of the left child        if o = 0
                               1 - (1 - t) z_r / a            if o = 1 and the instance goes left
                               (1 - t) z_l / a                if o = 1 and it goes right
                             = alpha + c beta,                c = (1 - t) / a
    chance to arrive       W_left = W p,  W_right = W (1 - p)             from the root down
    expected statistic     H = p H_left + (1 - p) H_right                 from the leaves up
    share of the node      beta sum_t  w / a^2  W (H_right - H_left)      goes to its column

The sums over nodes are the Shapley values: shares of a column's tests on one path telescope. What is integrated is a
polynomial of one degree less than the path has distinct columns, for which half as many points are exact.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from jaxunc._checks import outside_traces
from jaxunc._numerics import cores, order_key
from jaxunc.forest import Trees
from jaxunc.inference import Chunk, HostProgram, Part, Shapes, cut, drive
from jaxunc.tables import Encoded

from ._paths import Shares, Unrolled

TREES = 4
"""Trees of a group, whose levels are worked on together."""
BYTES = 4_000_000
"""Memory of one number for each node of a group, point and instance: what a block of instances is chosen by."""
FEW = 8
"""Instances of a small call."""
NARROW = 0.05
"""Levels narrower than this part of the widest are padded to one width, and share a program."""


class LevelPlan(NamedTuple):
    """Inner nodes of groups of trees, level after level; without what leaves say."""

    arrays: dict[str, Array]
    """``[groups nodes …]``."""
    widths: tuple[int, ...]
    """Nodes of each level."""
    n_single: int
    """Levels with a program of their own; the others are of one width."""
    rows: int
    """Instances of a call."""
    leaves: Int[np.ndarray, "2 groups nodes"]
    """Where the left and the right child is a leaf: its place among all nodes of the trees; else -1."""


_EMPTY = {
    "tree": 0,
    "column": 0,
    "low": np.int32(2**31 - 1),
    "high": np.int32(2**31 - 1),
    "missing": False,
    "threshold": np.int32(0),
    "missing_right": False,
    "left": 0.0,
    "above": 1.0,
    "parent": 0,
    "is_right": False,
    "to_left": -1,
    "to_right": -1,
    "leaf_left": -1,
    "leaf_right": -1,
}
"""What stands in nodes that are none."""


def make_plan(trees: Trees, unrolled: Unrolled, shares: Shares) -> LevelPlan:
    """Return the plan of trees that have inner nodes."""
    levels, n_groups = unrolled.levels, -(-trees.n_trees // TREES)
    # Trees of like size go to different groups, there and back.
    size = sum(np.bincount(level.tree, minlength=trees.n_trees) for level in levels)
    rank = np.empty(trees.n_trees, int)
    rank[np.argsort(-size, kind="stable")] = np.arange(trees.n_trees)
    group_of = np.where(rank // n_groups % 2 == 0, rank % n_groups, n_groups - 1 - rank % n_groups)
    groups = [group_of[level.tree] for level in levels]
    number = np.stack([np.bincount(group, minlength=n_groups) for group in groups])
    places = [_places(group, n) for group, n in zip(groups, number, strict=True)]
    widths = number.max(axis=1)
    n_single = 1 + int(np.flatnonzero(widths > NARROW * widths.max())[-1])
    if len(widths) - n_single < 4:
        n_single = len(widths)
    else:
        widths[n_single:] = widths[n_single:].max()
    parts: dict[str, list[np.ndarray]] = {name: [] for name in _EMPTY}
    for k, (group, place, width) in enumerate(zip(groups, places, widths, strict=True)):
        for name, own in _of_level(trees, unrolled, shares, k, places).items():
            padded = np.full((n_groups, width, *own.shape[1:]), _EMPTY[name], own.dtype)
            padded[group, place] = own
            parts[name].append(padded)
    arrays = {name: np.concatenate(part, axis=1) for name, part in parts.items()}
    t, weight = np.polynomial.legendre.leggauss(max(1, -(-unrolled.most_columns // 2)))
    t, weight = (t + 1) / 2, weight / 2
    above, left = arrays.pop("above"), arrays["left"]
    a = t + (1 - t) * above[..., None]
    leaves = np.stack([arrays.pop("leaf_left"), arrays.pop("leaf_right")])
    arrays |= {"z_left": above * left, "z_right": above * (1 - left), "c": (1 - t) / a, "weight": weight / a**2}
    dtype = jnp.result_type(float)
    cast = lambda x: x.astype({"f": dtype, "i": np.int32, "b": bool}[x.dtype.kind])  # noqa: E731
    points = BYTES / (int(widths.sum()) * len(t) * dtype.itemsize)
    rows = 2 ** int(np.clip(round(np.log2(points)), 5, 8))
    on_device = jax.device_put({name: cast(array) for name, array in arrays.items()})
    return LevelPlan(on_device, tuple(map(int, widths)), n_single, rows, leaves)


def _places(group: np.ndarray, number: np.ndarray) -> np.ndarray:
    """The place of each node among those of its group."""
    order, place = np.argsort(group, kind="stable"), np.empty(len(group), int)
    place[order] = np.arange(len(group)) - (np.cumsum(number) - number)[group[order]]
    return place


def _of_level(
    trees: Trees, unrolled: Unrolled, shares: Shares, k: int, places: list[np.ndarray]
) -> dict[str, np.ndarray]:
    """The constants of one level's nodes."""
    level, n = unrolled.levels[k], len(unrolled.levels[k].tree)
    at = level.tree, level.node
    column, threshold, missing_right = (
        np.asarray(part)[at] for part in (trees.feature, trees.threshold, trees.missing_right)
    )
    parent, is_right = np.zeros(n, int), np.zeros(n, bool)
    if k:
        above = unrolled.levels[k - 1]
        child = np.flatnonzero(above.is_inner)
        parent, is_right = places[k - 1][child % len(above.tree)], child >= len(above.tree)
    to = np.full(2 * n, -1)
    if level.is_inner.any():
        to[level.is_inner] = places[k + 1]
    leaf = np.where(level.is_inner, -1, np.tile(level.tree, 2) * trees.n_nodes + level.child)
    return {
        "tree": level.tree,
        "column": column,
        "low": level.low,
        "high": level.high,
        "missing": level.missing,
        "threshold": threshold,
        "missing_right": missing_right,
        "left": shares.left[k],
        "above": shares.above[k],
        "parent": parent,
        "is_right": is_right,
        "to_left": to[:n],
        "to_right": to[n:],
        "leaf_left": leaf[:n],
        "leaf_right": leaf[n:],
    }


def values_by_level(
    plan: LevelPlan, table: Float[np.ndarray, "trees nodes stat"], X: Encoded, mask: np.ndarray | None
) -> Float[Array, "instances features stat"]:
    """Return the shares of each column; parts of the instances go to threads."""
    shapes = Shapes(Chunk(plan.rows, plan.rows), None, (Chunk(FEW, FEW),))
    threads = cores() if jax.default_backend() == "cpu" else 1
    dtype, flat = jnp.result_type(float), table.reshape(-1, table.shape[-1])
    said = np.where(plan.leaves[..., None] < 0, 0, flat[plan.leaves]).astype(dtype)
    arrays = plan.arrays | dict(zip(("value_left", "value_right"), jax.device_put(tuple(said)), strict=True))

    def values(part: Part) -> Array:
        return _values(X.missing, plan.widths, plan.n_single, arrays, part.of(X.values), part.of(mask))

    with outside_traces():
        return drive(values, cut(len(X.values), shapes, threads), threads)


@partial(HostProgram, static_argnums=(0, 1, 2))
def _values(missing: bool, widths: tuple[int, ...], n_single: int, arrays: dict[str, Array], x: Array, mask) -> Array:
    """The shares of a block of instances, group after group."""
    n_rows, n_features = x.shape
    n_stats, dtype = arrays["value_left"].shape[-1], arrays["c"].dtype
    keys, is_missing = order_key(x).T, jnp.isnan(x).T if missing else None

    def with_group(total, group):
        return total + _of_group(group, keys, is_missing, mask, widths, n_single), None

    start = jnp.zeros((n_features, n_stats * n_rows), dtype)
    total, _ = lax.scan(with_group, start, arrays)
    return total.reshape(n_features, n_stats, n_rows).transpose(2, 0, 1)


def _take(array: Array, index: Array) -> Array:
    return jnp.take(array, index, axis=0, mode="clip")


def _of_group(
    g: dict[str, Array],
    keys: Array,
    is_missing: Array | None,
    mask: Array | None,
    widths: tuple[int, ...],
    n_single: int,
) -> Array:
    """The shares of a group of trees, ``[features, stat · rows]``."""
    ends, n_levels, dtype = np.cumsum((0, *widths)), len(widths), g["c"].dtype
    wide = {name: g[name][:, None] for name in ("low", "high", "threshold", "left", "z_left", "z_right")}
    key = _take(keys, g["column"])
    passes, goes_left = (key > wide["low"]) & (key <= wide["high"]), key <= wide["threshold"]
    if is_missing is not None:
        lacks = _take(is_missing, g["column"])
        passes = jnp.where(lacks, g["missing"][:, None], passes)
        goes_left = jnp.where(lacks, ~g["missing_right"][:, None], goes_left)
    alpha = jnp.where(passes, goes_left.astype(dtype), wide["left"])
    beta = jnp.where(passes, jnp.where(goes_left, -wide["z_right"], wide["z_left"]), 0)
    alpha, beta = lax.optimization_barrier((alpha, beta))  # which are read twice
    every = g | {"alpha": alpha, "beta": beta}
    level = [{name: array[ends[k] : ends[k + 1]] for name, array in every.items()} for k in range(n_single)]
    arrive = [jnp.ones((widths[0], g["c"].shape[-1], keys.shape[1]), dtype)]
    for k in range(n_single - 1):
        arrive.append(_down(level[k], arrive[k], level[k + 1]))
    expected, shares = None, []
    if n_single < n_levels:
        width, n_rest = widths[n_single], n_levels - n_single
        rest = {name: array[ends[n_single] :].reshape(n_rest, width, *array.shape[1:]) for name, array in every.items()}
        upper, lower = (jax.tree.map(lambda array, s=s: array[s], rest) for s in (slice(-1), slice(1, None)))
        first = _down(level[-1], arrive[-1], jax.tree.map(lambda array: array[0], rest))
        down = lambda W, both: (_down(both[0], W, both[1]), W)  # noqa: E731
        last, arrived = lax.scan(down, first, (upper, lower))
        arrived = jnp.concatenate([arrived, last[None]])
        start = jnp.zeros((width, g["value_left"].shape[-1], *last.shape[1:]), dtype)
        up = lambda H, both: _up(both[0], both[1], H)  # noqa: E731
        expected, of_rest = lax.scan(up, start, (rest, arrived), reverse=True)
        shares = [of_rest.reshape(-1, *of_rest.shape[2:])]
    for k in reversed(range(n_single)):
        expected, share = _up(level[k], arrive[k], expected)
        shares.insert(0, share)
    joined = jnp.concatenate(shares)
    if mask is not None:
        joined = jnp.where(_take(mask.T, g["tree"])[:, None], joined, 0)
    is_of = (jnp.arange(keys.shape[0])[:, None] == g["column"]).astype(dtype)
    return jnp.matmul(is_of, joined.reshape(len(joined), -1), precision=lax.Precision.HIGHEST)


def _down(g: dict[str, Array], arrive: Array, below: dict[str, Array]) -> Array:
    """The chances to arrive at the nodes of the next level, ``[nodes points rows]``."""
    parent = below["parent"]
    alpha, beta = (_take(g[name], parent)[:, None] for name in ("alpha", "beta"))
    p = alpha + _take(g["c"], parent)[..., None] * beta
    return _take(arrive, parent) * jnp.where(below["is_right"][:, None, None], 1 - p, p)


def _up(g: dict[str, Array], arrive: Array, below: Array | None) -> tuple[Array, Array]:
    """What is expected at a level's nodes ``[nodes stat points rows]``, and their shares ``[nodes stat rows]``."""
    left, right = g["value_left"][..., None, None], g["value_right"][..., None, None]
    if below is not None:
        is_leaf = lambda to: (g[to] < 0)[:, None, None, None]  # noqa: E731
        left = jnp.where(is_leaf("to_left"), left, _take(below, g["to_left"]))
        right = jnp.where(is_leaf("to_right"), right, _take(below, g["to_right"]))
    n_points = arrive.shape[1]
    more = jnp.broadcast_to(right - left, (*right.shape[:2], *arrive.shape[1:]))
    if n_points <= 4:  # XLA reduces slowly along short axes
        terms = (g["weight"][:, j, None, None] * arrive[:, None, j] * more[:, :, j] for j in range(n_points))
        share = sum(terms, start=jnp.zeros((), arrive.dtype))
    else:
        share = (g["weight"][:, None, :, None] * arrive[:, None] * more).sum(axis=2)
    p = g["alpha"][:, None] + g["c"][..., None] * g["beta"][:, None]
    return right - p[:, None] * more, share * g["beta"][:, None]
