"""Instances in empty leaves, routed on through the leaves' siblings.

How many leaves an instance reaches that way depends on the data, so the host drives it; each round walks all pairs of
an instance and a tree that are under way.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int32, Num

from jaxunc._checks import is_concrete
from jaxunc.forest import Forest

from ._plan import Plan, column_keys, split_words, take

SMALLEST_ROUND = 1024


class Reached(NamedTuple):
    """The leaves that pairs of an instance and a tree reach through siblings."""

    instance: np.ndarray
    """Of each pair that ended in an empty leaf."""
    tree: np.ndarray
    pair: np.ndarray
    """Of each leaf that is reached: the pair's place in the two arrays above, ascending."""
    node: np.ndarray
    """The leaf."""


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


def follow(forest: Forest, plan: Plan, X, leaves: Int32[Array | np.ndarray, "instances trees"]) -> Reached:
    """Route every pair in an empty leaf through the leaf's siblings, recursively; the plan has missing values."""
    assert forest.siblings is not None
    group, first, node = (np.asarray(part) for part in jax.tree.leaves(forest.siblings))
    at = group[np.arange(forest.n_trees), np.asarray(leaves)]
    instance, tree = np.nonzero(at >= 0)
    keys = column_keys(jnp.asarray(X, jnp.float32), missing=True)
    pair, open_group = np.arange(len(instance)), at[instance, tree]
    pairs, nodes = [], []
    while len(pair):
        members = first[open_group + 1] - first[open_group]
        pair = np.repeat(pair, members)
        place = np.arange(len(pair)) - np.repeat(np.cumsum(members) - members, members)
        start = node[np.repeat(first[open_group], members) + place]
        leaf = _walk_on(plan, keys, instance[pair], tree[pair], start)
        open_group = group[tree[pair], leaf]
        done = open_group < 0
        pairs.append(pair[done])
        nodes.append(leaf[done])
        pair, open_group = pair[~done], open_group[~done]
    pair = np.concatenate(pairs) if pairs else np.zeros(0, np.int64)
    order = np.argsort(pair, kind="stable")
    return Reached(instance, tree, pair[order], (np.concatenate(nodes) if nodes else pair)[order])


def summed_counts(
    forest: Forest, leaves: Int32[Array, "instances trees"], reached: Reached
) -> Num[Array, "instances trees classes"]:
    """Counts of the leaves, those of empty ones being the sums of what was reached instead."""
    counts = forest.count_table[forest.code[jnp.arange(forest.n_trees), leaves]]
    n_pairs, n = len(reached.instance), len(reached.pair)
    if not n_pairs:
        return counts
    # Padded, so that the programs serve other data too: what is beyond the end is dropped.
    size, n_sums = _round(n), _round(n_pairs)
    node = np.pad(reached.tree[reached.pair] * forest.n_nodes + reached.node, (0, size - n))
    pair = np.pad(reached.pair, (0, size - n), constant_values=n_sums)
    instance = np.pad(reached.instance, (0, n_sums - n_pairs), constant_values=leaves.shape[0])
    tree = np.pad(reached.tree, (0, n_sums - n_pairs))
    return _replace_sums(counts, forest.count_table, forest.code, node, pair, instance, tree)


@jax.jit
def _replace_sums(counts, table, code, node, pair, instance, tree):
    sums = jnp.zeros((instance.shape[0], table.shape[1]), table.dtype)
    sums = sums.at[pair].add(table[code.reshape(-1)[node]], mode="drop")
    return counts.at[instance, tree].set(sums, mode="drop")


def sums_reached(forest: Forest, reached: Reached) -> np.ndarray:
    """Counts of the leaves that each pair reached, summed: ``[pairs classes]``, exact below 2⁵³."""
    table, code = np.asarray(forest.count_table), np.asarray(forest.code)
    counts = table[code[reached.tree[reached.pair], reached.node]]
    n_pairs = len(reached.instance)
    by_class = [np.bincount(reached.pair, weights=column, minlength=n_pairs) for column in counts.T]
    return np.stack(by_class, axis=1)


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
