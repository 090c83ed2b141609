"""Leaf tables as planes ``[trees nodes]``, two of a size packed into one element, so that one gather reads both."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from jaxunc._numerics import pair_words, split_words
from jaxunc.combiners import Merging, merge_kinds


class Layout(NamedTuple):
    """How a statistic was cut into planes and numbers per tree: static, hashable."""

    structure: Any  # a jax.tree_util.PyTreeDef
    trailing: tuple[tuple[int, ...] | None, ...]
    """Of each array of the statistic: its shape after ``[trees nodes]``, one plane each; None for numbers per tree."""
    planes: Merging
    """Of the planes."""
    scalars: Merging
    """Of the numbers per tree."""
    groups: tuple[tuple[int, ...], ...]
    """Planes that share an element."""

    @property
    def both(self) -> Merging:
        """Merging of the planes, and behind them the numbers per tree: where a mask tells instances apart."""
        return Merging(self.planes.kinds + self.scalars.kinds, self.planes.dtypes + self.scalars.dtypes)


def cut(leaf_table: PyTree, merge: PyTree, n_trees: int, n_nodes: int) -> tuple[list[Array], list[Array], Layout]:
    """The planes of a leaf table, its numbers per tree, and how they belong together.

    Raises a ValueError if an array has another shape, or a merge is unknown.
    """
    parts, structure = jax.tree.flatten(leaf_table)
    planes, merges, scalars, scalar_merges, trailing = [], [], [], [], []
    for part, kind in zip(parts, merge_kinds(merge, leaf_table), strict=True):
        part = jnp.asarray(part)
        if part.shape[:2] == (n_trees, n_nodes):
            columns = part.reshape(n_trees, n_nodes, -1)
            columns = [columns[..., i] for i in range(columns.shape[2])]
            planes, merges = planes + columns, merges + [kind] * len(columns)
            trailing.append(part.shape[2:])
        elif part.shape == (n_trees,):
            if kind == "collect":
                raise ValueError("a number per tree cannot be collected; give it the shape of the nodes.")
            scalars, scalar_merges = [*scalars, part], [*scalar_merges, kind]
            trailing.append(None)
        else:
            raise ValueError(
                f"leaf_table holds an array of shape {part.shape}; the forest has {n_trees} trees of {n_nodes} nodes: "
                f"expected {(n_trees, n_nodes)}, {(n_trees, n_nodes, 'k')} or {(n_trees,)}."
            )
    of_planes = Merging(tuple(merges), tuple(plane.dtype.name for plane in planes))
    of_scalars = Merging(tuple(scalar_merges), tuple(part.dtype.name for part in scalars))
    return planes, scalars, Layout(structure, tuple(trailing), of_planes, of_scalars, _groups(of_planes.dtypes))


def _groups(dtypes: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Which planes share an element: 32-bit numbers of any kind two by two, and float64s; others are alone."""
    words = [i for i, dtype in enumerate(dtypes) if jnp.dtype(dtype).itemsize == 4]
    doubles = [i for i, dtype in enumerate(dtypes) if dtype == "float64"]
    pairs = [tuple(kind[i : i + 2]) for kind in (words, doubles) for i in range(0, len(kind), 2)]
    return (*pairs, *((i,) for i in range(len(dtypes)) if i not in words and i not in doubles))


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
        dtypes = [jnp.dtype(layout.planes.dtypes[i]) for i in group]
        if len(group) == 1:
            halves = (elements,)
        elif dtypes[0].itemsize == 4:
            halves = split_words(elements, *dtypes)
        else:
            halves = (lax.real(elements), lax.imag(elements))
        planes.update(zip(group, halves, strict=True))
    return [planes[i] for i in range(len(layout.planes.dtypes))]


def rejoin(layout: Layout, merged: list, merged_scalars: list) -> PyTree:
    """The merged statistic, in the structure that was cut."""
    planes, numbers, parts = iter(merged), iter(merged_scalars), []
    for shape in layout.trailing:
        if shape is None:
            parts.append(next(numbers))
            continue
        columns = [next(planes) for _ in range(math.prod(shape))]
        parts.append(jax.tree.map(lambda *c, shape=shape: _stack(c, shape), *columns))
    return jax.tree.unflatten(layout.structure, parts)


def _stack(columns: tuple[Array, ...], shape: tuple[int, ...]) -> Array:
    if not shape:
        return columns[0]
    return jnp.stack(columns, axis=-1).reshape(*columns[0].shape, *shape)
