"""Instances in empty leaves, routed on through the leaves' siblings.

How many leaves an instance reaches that way depends on the data, so the host drives it; each round walks all pairs of
an instance and a tree that are under way.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int32, Num

from jaxunc._checks import is_concrete
from jaxunc.forest import Forest, narrowest_counts

from ._plan import Plan, column_keys, split_words, take

SMALLEST_ROUND = 1024
UNDER_WAY = 2**20
"""Leaves that are walked to at a time."""


class Empty(NamedTuple):
    """The pairs of an instance and a tree that end in an empty leaf."""

    instance: np.ndarray
    tree: np.ndarray
    group: np.ndarray
    """The group of the leaf."""


def follows_siblings(forest: Forest) -> bool:
    """Whether instances in empty leaves of this forest are routed on."""
    return forest.siblings is not None and forest.empty_leaves in ("sum", "average")


def sums_siblings(forest: Forest) -> bool:
    """Whether they are given the sum of the counts that they then reach."""
    return forest.siblings is not None and forest.empty_leaves == "sum"


def refuse_trace(forest: Forest, *arrays) -> None:
    """Raise a ValueError if instances would have to be routed on under a trace."""
    if follows_siblings(forest) and not is_concrete(arrays, forest.child, forest.siblings):
        raise ValueError(
            f"empty leaves of the mode {forest.empty_leaves!r} are followed on the host and cannot be traced. "
            "Inside jit, grad or vmap pass forest.with_empty_leaves('parent') or 'zeros', which stream."
        )


def in_empty_leaf(forest: Forest, leaves: Int32[Array, "instances trees"]) -> Bool[Array, "instances trees"]:
    """Which leaves are empty ones, whose siblings are followed."""
    if forest.siblings is None or not follows_siblings(forest):
        return jnp.zeros(leaves.shape, bool)
    return forest.siblings.group[jnp.arange(forest.n_trees), leaves] >= 0


def empty_pairs(forest: Forest, leaves: Int32[Array | np.ndarray, "instances trees"]) -> Empty:
    """Which instances end in an empty leaf of which trees."""
    assert forest.siblings is not None
    group = np.asarray(forest.siblings.group)[np.arange(forest.n_trees), np.asarray(leaves)]
    instance, tree = np.nonzero(group >= 0)
    return Empty(instance, tree, group[instance, tree])


def follow(forest: Forest, plan: Plan, X, empty: Empty) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Route the pairs on through the siblings of their leaves, recursively; the plan has missing values.

    Yields pairs (their places in ``empty``, ascending) and leaves that they reach, some at a time: where more than
    ``UNDER_WAY`` are to be walked to, pairs are taken in parts, a pair that does so by itself as well. The order in
    which a pair's leaves come depends on the pair alone.
    """
    assert forest.siblings is not None
    table = forest.siblings
    group, first, node = (np.asarray(part) for part in (table.group, table.first, table.node))
    keys = column_keys(jnp.asarray(X, jnp.float32), missing=True)
    todo = [(np.arange(len(empty.group)), empty.group)]
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
        at = group[empty.tree[pair], leaf]
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


def sums_reached(
    forest: Forest, plan: Plan, X, empty: Empty, read: Callable[..., list[np.ndarray]]
) -> list[np.ndarray]:
    """What ``read(tree, node)`` has for leaves, ``[leaves ...]`` each, summed over those that each pair reaches."""
    none = np.zeros(0, np.int64)
    sums = [np.zeros((len(empty.group), *part.shape[1:])) for part in read(none, none)]
    for pair, node in follow(forest, plan, X, empty):
        here, place = slice(pair[0], pair[-1] + 1), pair - pair[0]
        for whole, part in zip(sums, read(empty.tree[pair], node), strict=True):
            columns = part.reshape(len(pair), -1).T
            added = [np.bincount(place, weights=column) for column in columns]
            whole[here] += np.stack(added, axis=1).reshape(-1, *part.shape[1:])
    return sums


def counts_reached(forest: Forest, plan: Plan, X, empty: Empty) -> np.ndarray:
    """Counts of the leaves that each pair reaches, summed: ``[pairs classes]``, exact below 2⁵³."""
    table, code = np.asarray(forest.count_table), np.asarray(forest.code)
    return sums_reached(forest, plan, X, empty, lambda tree, node: [table[code[tree, node]]])[0]


def summed_counts(
    forest: Forest, plan: Plan, X, leaves: Int32[Array, "instances trees"]
) -> Num[Array, "instances trees classes"]:
    """Counts of the leaves, those of empty ones being the sums of what is reached instead."""
    empty = empty_pairs(forest, leaves)
    if is_concrete(forest.count_table, forest.code):
        counts = np.asarray(forest.count_table)[np.asarray(forest.code)[np.arange(forest.n_trees), leaves]]
        sums = counts_reached(forest, plan, X, empty)
        counts = counts.astype(jnp.result_type(counts, narrowest_counts(sums)))  # sums may be too large for integers
        counts[empty.instance, empty.tree] = sums
        return jnp.asarray(counts)
    counts = forest.count_table[forest.code[jnp.arange(forest.n_trees), leaves]]
    counts = jnp.where(in_empty_leaf(forest, leaves)[..., None], 0, counts)
    for pair, node in follow(forest, plan, X, empty):
        more = (0, _round(len(pair)) - len(pair))
        instance = np.pad(empty.instance[pair], more, constant_values=len(counts))
        tree, node = np.pad(empty.tree[pair], more), np.pad(node, more)
        counts = counts.at[instance, tree].add(forest.count_table[forest.code[tree, node]], mode="drop")
    return counts


def _round(n: int) -> int:
    return max(1 << max(n - 1, 0).bit_length(), SMALLEST_ROUND)


def _walk_on(plan: Plan, keys, instance: np.ndarray, tree: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The leaves below inner nodes, for one instance each."""
    n = len(start)
    parts = (np.pad(part.astype(np.int32), (0, _round(n) - n)) for part in (instance, tree, start))
    return np.asarray(_walk_padded(plan, keys, *parts))[:n]


@jax.jit
def _walk_padded(plan: Plan, keys, instance, tree, start):
    n_nodes = plan.nodes.shape[1]
    child_bits = (n_nodes - 1).bit_length()
    nodes, flat_keys = plan.nodes.reshape(-1), keys.reshape(-1)

    def descend(carry):
        node, _ = carry
        place = tree * n_nodes + node
        threshold, word = split_words(take(nodes, place), jnp.int32, jnp.uint32)
        if plan.feature is None:
            column, child = (word >> child_bits).astype(jnp.int32), word & jnp.uint32(2**child_bits - 1)
        else:
            column, child = take(plan.feature.reshape(-1), place), word
        below = child.astype(jnp.int32) + (take(flat_keys, instance * keys.shape[1] + column) > threshold)
        return below, jnp.any(below != node)

    return lax.while_loop(lambda carry: carry[1], descend, (start, jnp.array(True)))[0]
