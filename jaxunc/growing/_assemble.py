"""From the flat nodes of grown blocks to the arrays of a forest (on the host)."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxunc.forest import Forest, Siblings, bucket, distinct_rows, padded_table

from ._sample import Sample
from ._state import Grown
from ._step import Shape


class Part(NamedTuple):
    """Some trees, their nodes cut to the largest of them: ``[trees nodes]`` and so on."""

    feature: np.ndarray
    threshold: np.ndarray
    child: np.ndarray
    code: np.ndarray
    """Rows of ``table``."""
    table: np.ndarray
    depth: np.ndarray
    group: np.ndarray | None
    """Topmost node of the multi-way test of which a node is a child or an empty leaf; else -1."""
    size: np.ndarray | None


def read_block(shape: Shape, grown: Grown, n_live: int, root: np.ndarray) -> Part:
    """Copy a block's trees from the device. ``root`` are the class counts of the whole sample."""
    n_nodes = np.asarray(grown.n_nodes)[:n_live]
    width = int(n_nodes.max())

    def cut(flat, *more):
        return np.asarray(flat).reshape(shape.n_trees, shape.n_nodes, *more)[:n_live, :width]

    threshold, child = np.moveaxis(cut(np.asarray(grown.test).view(np.int32), 2), -1, 0)
    counts = cut(grown.counts, shape.n_classes)
    if width == 1 or np.any(n_nodes == 1):
        counts = np.where((n_nodes == 1)[:, None, None] & (np.arange(width) == 0)[:, None], root, counts)
        counts = counts.astype(grown.counts.dtype)
    table, code = distinct_rows(np.ascontiguousarray(counts).reshape(-1, shape.n_classes))
    return Part(
        feature=np.array(cut(grown.feature)),
        threshold=np.array(threshold),
        child=np.where(child < 0, np.arange(width, dtype=np.int32), child),
        code=code.reshape(n_live, width),
        table=table,
        depth=np.asarray(grown.depth)[:n_live],
        group=np.array(cut(grown.group)) if shape.n_words else None,
        size=np.array(cut(grown.size)) if shape.n_words else None,
    )


def assemble_parts(parts: list[Part], sample: Sample) -> Forest:
    """Put blocks of trees together."""
    n_trees = sum(len(part.depth) for part in parts)
    width = bucket(max(part.feature.shape[1] for part in parts), 64)
    n_classes = len(sample.labels)
    rows = np.concatenate([np.zeros((1, n_classes), parts[0].table.dtype), *(part.table for part in parts)])
    table, place = distinct_rows(rows)  # row 0 is the zero vector: counts are not negative
    feature, code = np.zeros((n_trees, width), np.int32), np.zeros((n_trees, width), np.int32)
    threshold = np.full((n_trees, width), np.iinfo(np.int32).max, np.int32)
    child = np.tile(np.arange(width, dtype=np.int32), (n_trees, 1))
    n_numeric, begin, row = int(sample.data.n_numeric), 0, 1
    for part in parts:
        here = slice(begin, begin + len(part.depth)), slice(0, part.feature.shape[1])
        cuts = part.threshold
        if part.group is not None:
            nominal = part.feature >= n_numeric
            nominal &= part.child != np.arange(part.child.shape[1])
            cuts[nominal] = sample.boundaries[part.feature[nominal], cuts[nominal]]
        feature[here] = sample.order[part.feature]
        threshold[here], child[here] = cuts, part.child
        code[here] = place[row : row + len(part.table)][part.code]
        begin, row = begin + len(part.depth), row + len(part.table)
    total = sample.totals.sum()
    return Forest(
        feature=jnp.asarray(feature),
        threshold=jnp.asarray(threshold),
        child=jnp.asarray(child),
        missing_right=jnp.ones((n_trees, width), bool),
        tree_depth=jnp.asarray(np.concatenate([part.depth for part in parts])),
        count_table=padded_table(table),
        code=jnp.asarray(code),
        prior=jnp.asarray(sample.totals / total, jnp.result_type(float)),
        n_samples=jnp.asarray(total, jnp.result_type(float)),
        class_labels=sample.labels,
        feature_names=sample.names,
        siblings=_siblings(parts, width),
        n_features=len(sample.order),
    )


def _siblings(parts: list[Part], width: int) -> Siblings | None:
    """The empty leaves' table, None without multi-way tests."""
    groups, firsts, nodes, n_groups, n_members = [], [np.zeros(1, np.int64)], [], 0, 0
    for part in parts:
        if part.group is None or part.size is None:
            return None
        own = part.group >= 0
        empty, member = own & (part.size == 0), own & (part.size > 0)
        n_trees, n_nodes = own.shape
        # Every multi-way test has two children or more, and empty leaves below and above all values.
        cell = part.group.astype(np.int64) + n_nodes * np.arange(n_trees)[:, None]
        top = np.zeros(n_trees * n_nodes, bool)
        top[cell[member]] = True
        number = np.cumsum(top) - 1
        group = np.full((n_trees, width), -1, np.int32)
        group[:, :n_nodes][empty] = number[cell[empty]] + n_groups
        groups.append(group)
        of_member = number[cell[member]]
        nodes.append(np.nonzero(member)[1][np.argsort(of_member, kind="stable")].astype(np.int32))
        firsts.append(n_members + np.cumsum(np.bincount(of_member, minlength=int(top.sum()))))
        n_groups, n_members = n_groups + int(top.sum()), n_members + len(of_member)
    if not n_groups:
        return None
    return Siblings(
        group=jnp.asarray(np.concatenate(groups)),
        first=jnp.asarray(np.concatenate(firsts), jnp.int32),
        node=jnp.asarray(np.concatenate(nodes)),
    )
