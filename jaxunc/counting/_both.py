"""Two kinds of counts in one forest."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc.forest import Forest
from jaxunc.forest._distinct import padded_table
from jaxunc.forest._given import check_is_forest


def both_counts(inbag: Forest, out_of_bag: Forest) -> Forest:
    """A forest whose leaves hold both kinds of counts: for rules that read both, such as ``LearnedPool(both=True)``.

    Parameters
    ----------
    inbag
        The forest, with the counts of the sample that it was grown on.
    out_of_bag
        The same trees with the counts of others: ``recount(inbag, X, y, tree_mask=oob_mask(model, len(y)))``.

    Returns
    -------
    Forest
        Its ``count_table`` and ``counts`` have 2·classes columns, in-bag before out-of-bag; prior, number of instances
        and labels are those of ``inbag``.

    Raises
    ------
    ValueError
        If the trees are not the same, the labels differ, or a forest holds both kinds already.
    """
    check_is_forest(inbag, "inbag")
    check_is_forest(out_of_bag, "out_of_bag")
    if inbag.count_kinds != 1 or out_of_bag.count_kinds != 1:
        raise ValueError("a forest of both counts was given; pass two forests with one kind of counts each.")
    if inbag.class_labels != out_of_bag.class_labels:
        raise ValueError(f"the forests' labels differ: {inbag.class_labels} and {out_of_bag.class_labels}.")
    same = inbag.trees is out_of_bag.trees or _equal(inbag.trees, out_of_bag.trees)
    if not same or inbag.empty_leaves != out_of_bag.empty_leaves:
        raise ValueError("the forests are not of the same trees; pass a forest and its recount.")
    tables = [np.asarray(forest.count_table, np.float64) for forest in (inbag, out_of_bag)]
    first, second = (np.asarray(forest.code, np.int64) for forest in (inbag, out_of_bag))
    # Row 0 is that of no counts, as in every forest.
    pair = np.concatenate([[0], (first * len(tables[1]) + second).ravel()])
    pairs, code = np.unique(pair, return_inverse=True)
    rows = np.concatenate([tables[0][pairs // len(tables[1])], tables[1][pairs % len(tables[1])]], axis=1)
    forks = [forest.fork_counts for forest in (inbag, out_of_bag)]
    forest = dataclasses.replace(
        inbag,
        count_table=padded_table(rows),
        code=jnp.asarray(code[1:].reshape(first.shape), jnp.int32),
        fork_counts=None if any(part is None for part in forks) else _side_by_side(forks),
    )
    return (
        forest.with_counts(forest.counts) if forest.fork_counts is None and forest.empty_leaves == "parent" else forest
    )


def _equal(first, second) -> bool:
    a, b = jax.tree.leaves(first), jax.tree.leaves(second)
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def _side_by_side(forks: list) -> jax.Array:
    return padded_table(np.concatenate([np.asarray(part, np.float64) for part in forks], axis=1))
