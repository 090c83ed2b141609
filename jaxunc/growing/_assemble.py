"""From the flat nodes of grown blocks to the arrays of a forest (on the host)."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from jaxunc._numerics import NAN_LAST
from jaxunc.forest import Forest, Siblings, bucket, distinct_rows, padded_table

from ._decide import MISSING_LEFT
from ._sample import Sample
from ._state import Grown, Shape


@dataclass
class Part:
    """Some trees, their nodes cut to the largest of them: ``[trees nodes]`` and so on."""

    arrays: dict[str, np.ndarray]
    """Arrays of a forest by name; codes are rows of ``table``. They are taken out one by one."""
    table: np.ndarray
    depth: np.ndarray
    group: np.ndarray | None
    """Topmost node of the multi-way test of which a node is a child or an empty leaf; else -1."""
    empty: np.ndarray | None
    """Which nodes are empty leaves."""


def read_block(shape: Shape, grown: Grown, counts, n_live: int, sample: Sample) -> Part:
    """Copy a block's trees from the device."""
    n_nodes = np.asarray(grown.n_nodes)[:n_live]
    width = int(n_nodes.max())

    def cut(flat, *more):
        return np.asarray(flat).reshape(shape.n_trees, shape.n_nodes, *more)[:n_live, :width]

    threshold, child = (np.array(half) for half in np.moveaxis(cut(np.asarray(grown.test).view(np.int32), 2), -1, 0))
    feature, counts = cut(grown.feature), np.ascontiguousarray(cut(counts, shape.n_classes))
    missing_right = feature < MISSING_LEFT
    feature = np.where(missing_right, feature, feature - MISSING_LEFT)
    if np.any(n_nodes == 1):  # a root that was never open holds the sample
        counts[n_nodes == 1, 0] = sample.totals
    if shape.n_words:
        nominal = (feature >= int(sample.data.n_numeric)) & (child >= 0)
        threshold[nominal] = sample.boundaries[feature[nominal], threshold[nominal]]
    table, code = distinct_rows(counts.reshape(-1, shape.n_classes))
    child = np.where(child < 0, np.arange(width, dtype=np.int32), child)
    group = np.array(cut(grown.group)) if shape.n_words else None
    return Part(
        arrays={
            "feature": sample.order.astype(np.int32)[feature] * (child != np.arange(width)),
            "threshold": threshold,
            "child": child,
            "code": code.reshape(n_live, width).astype(np.int32),
            "missing_right": missing_right,
        },
        table=table,
        depth=np.asarray(grown.depth)[:n_live],
        group=group,
        empty=None if group is None else (group >= 0) & (cut(grown.size) == 0),
    )


def assemble_parts(parts: list[Part], sample: Sample) -> Forest:
    """Put blocks of trees together, array by array: a part's is given up before the next is made."""
    width = bucket(max(part.arrays["child"].shape[1] for part in parts), 64)
    rows = np.concatenate([np.zeros((1, len(sample.labels)), parts[0].table.dtype), *(part.table for part in parts)])
    table, place = distinct_rows(rows)  # row 0 is the zero vector: counts are not negative
    row = 1
    for part in parts:
        part.arrays["code"] = place[row : row + len(part.table)].astype(np.int32)[part.arrays["code"]]
        row += len(part.table)
    depth = np.concatenate([part.depth for part in parts])
    siblings = _siblings(parts, width)

    def stacked(name: str, beyond) -> jnp.ndarray:
        whole, begin = np.empty((len(depth), width), parts[0].arrays[name].dtype), 0
        for part in parts:
            own = part.arrays.pop(name)
            here = whole[begin : begin + len(own)]
            here[:, : own.shape[1]] = own
            here[:, own.shape[1] :] = np.broadcast_to(beyond, width)[own.shape[1] :]
            begin += len(own)
        return jnp.asarray(whole)

    total = sample.totals.sum()
    return Forest(
        feature=stacked("feature", 0),
        threshold=stacked("threshold", NAN_LAST),
        child=stacked("child", np.arange(width)),
        missing_right=stacked("missing_right", True),
        tree_depth=jnp.asarray(depth),
        count_table=padded_table(table),
        code=stacked("code", 0),
        prior=jnp.asarray(sample.totals / total, jnp.result_type(float)),
        n_samples=jnp.asarray(total, jnp.result_type(float)),
        class_labels=sample.labels,
        feature_names=sample.names,
        siblings=siblings,
        n_features=len(sample.order),
    )


def _siblings(parts: list[Part], width: int) -> Siblings | None:
    """The empty leaves' table, None without multi-way tests."""
    if parts[0].group is None:
        return None
    groups = np.full((sum(len(part.depth) for part in parts), width), -1, np.int32)
    firsts, nodes, begin, n_groups, n_members = [np.zeros(1, np.int64)], [], 0, 0, 0
    for part in parts:
        assert part.group is not None
        assert part.empty is not None
        own = part.group >= 0
        empty, member = part.empty, own & ~part.empty
        n_trees, n_nodes = own.shape
        # Every multi-way test has two children or more, and empty leaves below and above all values.
        cell = part.group.astype(np.int64) + n_nodes * np.arange(n_trees)[:, None]
        top = np.zeros(n_trees * n_nodes, bool)
        top[cell[member]] = True
        number = np.cumsum(top) - 1
        groups[begin : begin + n_trees, :n_nodes][empty] = number[cell[empty]] + n_groups
        begin, part.group, part.empty = begin + n_trees, None, None
        of_member = number[cell[member]]
        nodes.append(np.nonzero(member)[1][np.argsort(of_member, kind="stable")].astype(np.int32))
        firsts.append(n_members + np.cumsum(np.bincount(of_member, minlength=int(top.sum()))))
        n_groups, n_members = n_groups + int(top.sum()), n_members + len(of_member)
    if not n_groups:
        return None
    return Siblings(
        group=jnp.asarray(groups),
        first=jnp.asarray(np.concatenate(firsts), jnp.int32),
        node=jnp.asarray(np.concatenate(nodes)),
    )
