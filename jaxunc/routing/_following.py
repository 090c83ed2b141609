"""Answers through the leaves of all trees, block by block: of forests whose empty leaves are followed, or whose leaf
table would not fit."""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxunc.combiners import Fold, combine_contributions, combine_counts, combine_rows, has_tree_fields, lift_rows
from jaxunc.forest import Forest, distinct_rows, padded_table

from ._empty_leaves import counts_reached, empty_pairs, sums_reached
from ._index import planned_leaf_index
from ._plan import Plan

STRETCH = 2**15
"""Instances whose sums are lifted together, once for each distinct one."""
ENTRIES = 2**20
"""Counts of a block."""

Runs = Callable[[Callable, Iterable], Iterable]
"""A ``map``, perhaps over several threads."""


def answer_following(
    forest: Forest, combiner: Fold, leaf_table: PyTree, plan: Plan, values, mask, readout: str | None, run: Runs
) -> PyTree:
    """What a rule answers; ``leaf_table`` is what it lifts from the leaves, the plan has missing values."""
    size = int(np.clip(ENTRIES // (forest.n_trees * forest.n_classes), 16, 1024))
    answers = []
    for begin in range(0, max(len(values), 1), STRETCH):
        end = min(begin + STRETCH, len(values))
        parts = [slice(start, min(start + size, end)) for start in range(begin, max(end, begin + 1), size)]
        inputs = [(_padded(values[part], size), None if mask is None else _padded(mask[part], size)) for part in parts]
        if forest.siblings is None or forest.empty_leaves == "sum":
            found = _answer_sums(forest, combiner, plan, inputs, readout, run)
        else:
            found = run(
                lambda xm: _fetched(_answer_average(forest, combiner, leaf_table, plan, xm[0], xm[1], readout)), inputs
            )
        sizes = [part.stop - part.start for part in parts]
        answers += [_trimmed(answer, size) for size, answer in zip(sizes, found, strict=True)]
    return jax.tree.map(lambda *a: jnp.asarray(np.concatenate(a) if a[0].ndim else a[0]), *answers)


def _answer_sums(forest: Forest, combiner: Fold, plan: Plan, inputs: list, readout: str | None, run: Runs) -> Iterable:
    """Rows of the forest's count table for leaves; rows after them for the distinct sums of what empty ones reach."""
    blocks = list(run(lambda xm: _routed(forest, plan, xm[0]), inputs))
    distinct, place = distinct_rows(np.concatenate([sums for _, sums in blocks]))
    places = np.split(place + len(forest.count_table), np.cumsum([len(sums) for _, sums in blocks])[:-1])
    for (rows, _), after in zip(blocks, places, strict=True):
        rows[rows < 0] = after
    tables = forest.count_table, padded_table(distinct)
    # Of integers a rule may lift other planes than of floats.
    tables = [table.astype(jnp.result_type(*tables)) for table in tables]
    masks = [in_mask for _, in_mask in inputs]
    if has_tree_fields(combiner):
        counts = np.concatenate([np.asarray(table) for table in tables])
        return run(
            lambda rm: _fetched(combine_counts(combiner, jnp.asarray(counts[rm[0]]), readout, rm[1])),
            [(rows, in_mask) for (rows, _), in_mask in zip(blocks, masks, strict=True)],
        )
    stat = jax.tree.map(_joined, *(lift_rows(combiner, table) for table in tables))
    return run(
        lambda rm: _fetched(combine_rows(combiner, stat, rm[0], readout, rm[1])),
        [(rows, in_mask) for (rows, _), in_mask in zip(blocks, masks, strict=True)],
    )


def _routed(forest: Forest, plan: Plan, x) -> tuple[np.ndarray, np.ndarray]:
    """``[instances trees]`` rows of the count table, -1 for empty leaves; and the sums that those reach, in order."""
    leaves = np.asarray(planned_leaf_index(forest, plan, x))
    rows = np.asarray(forest.code)[np.arange(forest.n_trees), leaves].astype(np.int32)
    if forest.siblings is None:
        return rows, np.zeros((0, forest.n_classes))
    empty = empty_pairs(forest, leaves)
    rows[empty.instance, empty.tree] = -1
    return rows, counts_reached(forest, plan, x, empty)


def _answer_average(forest: Forest, combiner: Fold, leaf_table: PyTree, plan: Plan, x, mask, readout) -> PyTree:
    """What is lifted from the leaves that an empty one reaches, averaged."""
    leaves = np.asarray(planned_leaf_index(forest, plan, x))
    empty = empty_pairs(forest, leaves)
    tables, structure = jax.tree.flatten(jax.tree.map(np.asarray, leaf_table))
    own = [table for table in tables if table.ndim > 1]  # the others are a number per tree

    def read(tree: np.ndarray, node: np.ndarray) -> list[np.ndarray]:
        return [np.ones(len(node)), *(table[tree, node] for table in own)]

    sizes, *sums = sums_reached(forest, plan, x, empty, read)
    averages = iter(part / np.maximum(sizes, 1).reshape(-1, *[1] * (part.ndim - 1)) for part in sums)

    def by_tree(table: np.ndarray) -> np.ndarray:
        if table.ndim == 1:
            return table
        table = table.astype(np.result_type(table, np.float32))
        here = np.stack([table[t, leaf] for t, leaf in enumerate(leaves.T)])
        here[empty.tree, empty.instance] = next(averages)
        return here

    return combine_contributions(combiner, structure.unflatten(map(by_tree, tables)), readout, mask)


def _joined(first: Any, second: Any) -> Any:
    """What was lifted from two tables; a number for the whole tree is the same in both."""
    return jnp.asarray(np.concatenate([first, second])) if first.ndim else first


def _padded(rows: np.ndarray, size: int):
    return jnp.asarray(np.pad(rows, ((0, size - len(rows)), (0, 0))))


def _fetched(answer: PyTree) -> PyTree:
    """On the host: a block is finished before the thread begins the next, so that their memory does not add up."""
    return jax.tree.map(np.asarray, answer)


def _trimmed(answer: PyTree, n: int) -> PyTree:
    return jax.tree.map(lambda part: part[:n] if part.ndim else part, answer)
