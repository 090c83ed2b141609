"""From the flat nodes of grown blocks to the arrays of a forest (on the host)."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._numerics import NAN_LAST
from jaxunc.forest import Forest, Siblings, bucket, distinct_rows, padded_table
from jaxunc.routing import split_words

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
    whole = _arrays(
        shape, grown, jnp.asarray(sample.order, jnp.int32), jnp.asarray(sample.boundaries), sample.data.n_numeric
    )
    # On a CPU these are views.
    arrays = {name: np.asarray(array)[:n_live, :width] for name, array in whole.items()}
    counts = np.asarray(counts).reshape(shape.n_trees, shape.n_nodes, shape.n_classes)[:n_live, :width]
    if np.any(n_nodes == 1):  # a root that was never open holds the sample
        counts = np.array(counts)
        counts[n_nodes == 1, 0] = sample.totals
    table, code = distinct_rows(counts.reshape(-1, shape.n_classes))
    return Part(
        arrays={**arrays, "code": code.reshape(n_live, width)},
        table=table,
        depth=np.asarray(grown.depth)[:n_live],
        group=arrays.pop("group") if shape.n_words else None,
        empty=arrays.pop("empty") if shape.n_words else None,
    )


@partial(jax.jit, static_argnums=0)
def _arrays(shape: Shape, grown: Grown, order, boundaries, n_numeric) -> dict[str, jax.Array]:
    """The nodes in a forest's terms, ``[trees nodes]``."""
    place = jnp.arange(shape.n_trees * shape.n_nodes, dtype=jnp.int32) % shape.n_nodes
    threshold, left = split_words(grown.test, jnp.int32, jnp.int32)
    inner = left >= 0
    missing_right = grown.feature < MISSING_LEFT
    feature = jnp.where(missing_right, grown.feature, grown.feature - MISSING_LEFT)
    nodes = {
        "feature": jnp.where(inner, order[feature], 0),
        "threshold": threshold,
        "child": jnp.where(inner, left, place),
        "missing_right": missing_right,
    }
    if shape.n_words:
        rank = jnp.where(inner & (feature >= n_numeric), threshold, -1)
        edge = boundaries[feature, jnp.maximum(rank, 0)]
        nodes["threshold"] = jnp.where(rank >= 0, edge, threshold)
        nodes["group"], nodes["empty"] = grown.group, (grown.group >= 0) & (grown.size == 0)
    return {name: array.reshape(shape.n_trees, shape.n_nodes) for name, array in nodes.items()}


def assemble_parts(parts: list[Part], sample: Sample) -> Forest:
    """Put blocks of trees together, array by array: a part's is given up before the next is made."""
    width = bucket(max(part.arrays["child"].shape[1] for part in parts), 64)
    rows = np.concatenate([np.zeros((1, len(sample.labels)), parts[0].table.dtype), *(part.table for part in parts)])
    table, place = distinct_rows(rows)  # row 0 is the zero vector: counts are not negative
    place, row = place.astype(np.int32), 1
    for part in parts:
        part.arrays["code"] = place[row : row + len(part.table)][part.arrays["code"]]
        row += len(part.table)
    depth = np.concatenate([part.depth for part in parts])
    siblings = _siblings(parts, width)

    def stacked(name: str, beyond) -> jax.Array:
        whole, begin = _aligned((len(depth), width), parts[0].arrays[name].dtype), 0
        for part in parts:
            own = part.arrays.pop(name)
            here = whole[begin : begin + len(own)]
            here[:, : own.shape[1]] = own
            here[:, own.shape[1] :] = np.broadcast_to(beyond, width)[own.shape[1] :]
            begin += len(own)
        return jax.device_put(whole, may_alias=True)

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


def _aligned(shape: tuple[int, ...], dtype) -> np.ndarray:
    """An array to be filled, at an address that JAX takes over without a copy on a CPU."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(n_bytes + 64, np.uint8)
    return raw[-raw.ctypes.data % 64 :][:n_bytes].view(dtype).reshape(shape)


def _siblings(parts: list[Part], width: int) -> Siblings | None:
    """The empty leaves' table, None without multi-way tests."""
    if parts[0].group is None:
        return None
    groups = _aligned((sum(len(part.depth) for part in parts), width), np.int32)
    groups[:] = -1
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
        group=jax.device_put(groups, may_alias=True),
        first=jnp.asarray(np.concatenate(firsts), jnp.int32),
        node=jnp.asarray(np.concatenate(nodes)),
    )
