"""Leaf tables as planes ``[trees nodes]``, two of a size packed into one element, so that one gather reads both."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from jaxunc.combiners import merge_kinds

from ._plan import pair_words, split_words


class Layout(NamedTuple):
    """How a statistic was cut into planes and numbers per tree: static, hashable."""

    structure: Any  # a jax.tree_util.PyTreeDef
    widths: tuple[int, ...]
    """Of each array of the statistic: -1 for numbers per tree, 0 for one plane, else the length of its last axis."""
    dtypes: tuple[str, ...]
    """Of each plane."""
    merges: tuple[str, ...]
    """Of each plane."""
    scalar_merges: tuple[str, ...]
    """Of each array of numbers per tree."""
    groups: tuple[tuple[int, ...], ...]
    """Planes that share an element."""


def cut(leaf_table: PyTree, merge: PyTree, n_trees: int, n_nodes: int) -> tuple[list[Array], list[Array], Layout]:
    """The planes of a leaf table, its numbers per tree, and how they belong together.

    Raises a ValueError if an array has another shape, or a merge is unknown.
    """
    parts, structure = jax.tree.flatten(leaf_table)
    planes, merges, scalars, scalar_merges, widths = [], [], [], [], []
    for part, kind in zip(parts, merge_kinds(merge, leaf_table), strict=True):
        part = jnp.asarray(part)
        if part.shape[:2] == (n_trees, n_nodes) and part.ndim <= 3:
            columns = [part] if part.ndim == 2 else [part[..., i] for i in range(part.shape[2])]
            planes, merges = planes + columns, merges + [kind] * len(columns)
            widths.append(0 if part.ndim == 2 else part.shape[2])
        elif part.shape == (n_trees,):
            scalars, scalar_merges = [*scalars, part], [*scalar_merges, kind]
            widths.append(-1)
        else:
            raise ValueError(
                f"leaf_table holds an array of shape {part.shape}; the forest has {n_trees} trees of {n_nodes} nodes: "
                f"expected {(n_trees, n_nodes)}, {(n_trees, n_nodes, 'k')} or {(n_trees,)}."
            )
    groups: list[tuple[int, ...]] = []
    for size in sorted({plane.dtype.itemsize for plane in planes}):
        same = [i for i, plane in enumerate(planes) if plane.dtype.itemsize == size]
        groups += [tuple(same[i : i + 2]) for i in range(0, len(same), 2)]
    dtypes = tuple(plane.dtype.name for plane in planes)
    return (
        planes,
        scalars,
        Layout(structure, tuple(widths), dtypes, tuple(merges), tuple(scalar_merges), tuple(groups)),
    )


def pack(planes: list[Array], layout: Layout) -> list[Array]:
    """One array per group."""
    packed = []
    for group in layout.groups:
        members = [planes[i] for i in group]
        if len(members) == 1:
            packed.append(members[0])
        elif members[0].dtype.itemsize == 4:
            packed.append(pair_words(*members))
        else:
            packed.append(lax.complex(*members))
    return packed


def unpack(packed: list[Array], layout: Layout) -> list[Array]:
    """The planes of gathered elements, in their order."""
    planes: dict[int, Array] = {}
    for group, elements in zip(layout.groups, packed, strict=True):
        dtypes = [jnp.dtype(layout.dtypes[i]) for i in group]
        if len(group) == 1:
            halves = (elements,)
        elif dtypes[0].itemsize == 4:
            halves = split_words(elements, *dtypes)
        else:
            halves = (lax.real(elements), lax.imag(elements))
        planes.update(zip(group, halves, strict=True))
    return [planes[i] for i in range(len(layout.dtypes))]


def assemble(layout: Layout, merged: list, merged_scalars: list) -> PyTree:
    """The merged statistic, in the structure that was cut."""
    planes, numbers, parts = iter(merged), iter(merged_scalars), []
    for width in layout.widths:
        if width < 0:
            parts.append(next(numbers))
        elif width == 0:
            parts.append(next(planes))
        else:
            parts.append(jax.tree.map(lambda *c: jnp.stack(c, axis=-1), *[next(planes) for _ in range(width)]))
    return jax.tree.unflatten(layout.structure, parts)
