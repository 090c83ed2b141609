"""Instances in empty leaves, routed on through the other children of the multi-way test.

How many leaves an instance reaches that way depends on the data, so the host drives it; each round walks all pairs of
an instance and a tree that are under way.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Int32

from jaxunc._numerics import jit
from jaxunc.forest import Forest, Trees

from ._plan import Plan, column_keys
from ._walk import walk_pairs

SMALLEST_ROUND = 1024
UNDER_WAY = 2**20
"""Leaves that are walked to at a time."""


class Empty(NamedTuple):
    """The pairs of an instance and a tree that end in an empty leaf."""

    instance: np.ndarray
    tree: np.ndarray
    fork: np.ndarray
    """The multi-way test of the leaf."""


def empty_pairs(trees: Trees, leaves: Int32[Array | np.ndarray, "instances trees"]) -> Empty:
    """Which instances end in an empty leaf of which trees."""
    feature = np.asarray(trees.feature)[np.arange(trees.n_trees), np.asarray(leaves)]
    instance, tree = np.nonzero(feature < 0)
    return Empty(instance, tree, -1 - feature[instance, tree])


def follow(trees: Trees, plan: Plan, X, empty: Empty) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Route the pairs on through the siblings of their leaves, recursively; the plan has missing values.

    Yields pairs (their places in ``empty``, ascending) and leaves that they reach, some at a time: where more than
    ``UNDER_WAY`` are to be walked to, pairs are taken in parts, a pair that does so by itself as well. The order in
    which a pair's leaves come depends on the pair alone.
    """
    assert trees.forks is not None
    feature, first, node = (np.asarray(part) for part in (trees.feature, trees.forks.first, trees.forks.node))
    X = np.asarray(X, np.float32)
    keys = _keys(np.pad(X, ((0, round_up(len(X)) - len(X)), (0, 0))))
    todo = [(np.arange(len(empty.fork)), empty.fork)]
    while todo:
        pair, at = todo.pop()
        members = first[at + 1] - first[at]
        if members.sum(dtype=np.int64) > UNDER_WAY and len(pair) > 1:
            todo += [(pair[part], at[part]) for part in reversed(_halves(pair))]
            continue
        place = np.arange(members.sum()) - np.repeat(np.cumsum(members) - members, members)
        start = node[np.repeat(first[at], members) + place]
        pair = np.repeat(pair, members)
        leaf = _walk_on(plan, keys, empty.instance[pair], empty.tree[pair], start)
        at = -1 - feature[empty.tree[pair], leaf]
        done = at < 0
        if done.any():
            yield pair[done], leaf[done]
        if not done.all():
            todo.append((pair[~done], at[~done]))


def _halves(pair: np.ndarray) -> tuple[slice, slice]:
    """Two parts of sorted pairs, none of which is in both unless there is but one."""
    middle = len(pair) // 2
    begin, end = np.searchsorted(pair, pair[middle], "left"), np.searchsorted(pair, pair[middle], "right")
    cut = int(begin or (end if end < len(pair) else middle))
    return slice(cut), slice(cut, None)


def sums_reached(trees: Trees, plan: Plan, X, empty: Empty, read: Callable[..., list[np.ndarray]]) -> list[np.ndarray]:
    """Sum ``read(tree, node)``, ``[leaves ...]`` each, over the leaves that each pair reaches."""
    none = np.zeros(0, np.int64)
    sums = [np.zeros((len(empty.fork), *part.shape[1:])) for part in read(none, none)]
    for pair, node in follow(trees, plan, X, empty):
        here, place = slice(pair[0], pair[-1] + 1), pair - pair[0]
        for whole, part in zip(sums, read(empty.tree[pair], node), strict=True):
            columns = part.reshape(len(pair), -1).T
            added = [np.bincount(place, weights=column) for column in columns]
            whole[here] += np.stack(added, axis=1).reshape(-1, *part.shape[1:])
    return sums


def counts_reached(forest: Forest, plan: Plan, X, empty: Empty) -> np.ndarray:
    """Counts of the leaves that each pair reaches, summed: ``[pairs classes]``, exact below 2⁵³."""
    table, code = np.asarray(forest.count_table), np.asarray(forest.code)
    return sums_reached(forest.trees, plan, X, empty, lambda tree, node: [table[code[tree, node]]])[0]


def round_up(n: int) -> int:
    """The length to which so many pairs, or instances, are padded: few lengths make few programs."""
    return max(1 << max(n - 1, 0).bit_length(), SMALLEST_ROUND)


def _walk_on(plan: Plan, keys, instance: np.ndarray, tree: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The leaves below inner nodes, for one instance each."""
    n = len(start)
    parts = (np.pad(part.astype(np.int32), (0, round_up(n) - n)) for part in (instance, tree, start))
    return np.asarray(_walk_padded(plan, keys, *parts))[:n]


_walk_padded = jit(walk_pairs)
_keys = jit(partial(column_keys, missing=True))
