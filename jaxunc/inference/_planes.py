"""Leaf tables as planes ``[trees nodes]``, stored in columns; one gather reads an element of two 32-bit columns.

A *plane* is one number of a statistic, for every node. A *column* is an array that is stored. Most planes are a column
each. In planes of votes an entry is 0 or a tree's mass, which another plane holds. Such planes are stored as bits, so
that fewer numbers are looked up. They take spare bits of other columns (the sign of probabilities, the high bits of
leaf sizes), or else columns of 32 bits. This needs concrete values on the host (`cut_rows`).

An array of the statistic with more than `WIDE` numbers a leaf is one *wide* plane. Its numbers are kept in an array of
*rows* ``[rows width]``, whose first row has neutral values; a column says which row each node has. So the size of a
program does not grow with the number of classes.

An *element* is an integer that holds the bits of one or two columns' entries: functions that change all floats of a
bound forest leave it alone. A *number per tree* is an entry of the statistic that is the same in all leaves of a tree.
The *layout* of a statistic tells where planes and numbers per tree are stored.
"""

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, Shaped

from jaxunc._numerics import as_bits, copy_in, float_dtype, of_bits, pair_bits, split_bits, take_rows
from jaxunc.combiners import Merging, merge_kinds

from ._drive import join

WIDE = 32
"""Most numbers a leaf in an array of the statistic that become a plane each; more become one wide plane."""

UNIT = -1
"""In place of the index of a mass: the mass is 1 in every entry, and needs no column (`mass_among`)."""


class Source(NamedTuple):
    """Where the entries of a plane are stored; columns are given by their index. Static, hashable."""

    column: int | None
    """The column with the entries that are not 0; None if all of these are 1, or are stored in rows."""
    word: int | None = None
    """The column with a bit for each entry, set if the entry is not 0; None if the plane is not stored as bits."""
    bit: int = 0
    """The bit of ``word`` that belongs to this plane."""
    rows: int | None = None
    """A wide plane's index among the arrays of rows, which hold entries or bits (``has_bits``); None for others."""
    width: int | None = None
    """How many numbers a wide plane has for each node; None for other planes."""
    has_bits: bool = False
    """Whether the rows hold a bit for each entry, set if the entry is not 0."""


class Layout(NamedTuple):
    """How a statistic was cut into planes and numbers per tree: static, hashable."""

    structure: Any  # of the statistic: a jax.tree_util.PyTreeDef
    trailing: tuple[tuple[int, ...] | None, ...]
    """Shape of each array of the statistic behind ``[trees nodes]``; None for numbers per tree."""
    planes: Merging
    """Merging of the planes."""
    scalars: Merging
    """Merging of the numbers per tree."""
    sources: tuple[Source, ...]
    """Where each plane is stored."""
    columns: tuple[str, ...]
    """The dtype of each column. If a plane is wide, the last column has the row of each node."""
    groups: tuple[tuple[int, ...], ...]
    """For each array of elements the indices of its columns, one or two."""

    @property
    def is_wide(self) -> bool:
        """Whether any plane is wide."""
        return any(source.width is not None for source in self.sources)

    @property
    def width(self) -> int:
        """How many numbers all planes together have for each node."""
        return sum(source.width or 1 for source in self.sources)

    def shapes(self, n_instances: int, *, scalars: bool = False) -> list[tuple[int, ...]]:
        """Return the shape of each plane, merged for ``n_instances``; with ``scalars`` also of each number per tree."""
        widths = [source.width for source in self.sources] + [None] * (len(self.scalars.kinds) if scalars else 0)
        return [(n_instances,) if width is None else (n_instances, width) for width in widths]

    @property
    def both(self) -> Merging:
        """Merging of the planes and, behind them, of the numbers per tree: a mask makes these differ by instance."""
        return Merging(self.planes.kinds + self.scalars.kinds, self.planes.dtypes + self.scalars.dtypes)


def cut(leaf_table: PyTree, merge: PyTree, n_trees: int, n_nodes: int) -> tuple[list[Array], list[Array], Layout]:
    """Return (planes ``[trees nodes]``, numbers per tree ``[trees]``, layout) of a leaf table.

    ``leaf_table`` is a pytree of arrays ``[trees nodes ...]`` and ``[trees]``. ``merge`` is a pytree prefix of it with
    names of merges. Wide planes are ``[trees nodes width]``. Raises a ValueError if an array has another shape, a merge
    is unknown, or numbers per tree are to be collected.
    """
    arrays, structure = jax.tree.flatten(leaf_table)
    planes, plane_merges = [], []
    scalars, scalar_merges = [], []
    trailing = []
    for array, kind in zip(arrays, merge_kinds(merge, leaf_table), strict=True):
        array = copy_in(array)
        if kind not in ("exact_sum", "collect"):  # of integers sums would wrap, and extremes lack a neutral value
            array = array.astype(float_dtype(array))
        if array.dtype == bool and kind == "exact_sum":
            array = array.astype(jnp.int32)
        if array.shape[:2] == (n_trees, n_nodes):
            entries = array.reshape(n_trees, n_nodes, -1)
            width = entries.shape[2]
            new_planes = [entries] if width > WIDE else [entries[..., i] for i in range(width)]
            planes += new_planes
            plane_merges += [kind] * len(new_planes)
            trailing.append(array.shape[2:])
        elif array.shape == (n_trees,):
            if kind == "collect":
                raise ValueError("a number per tree cannot be collected; give it the shape of the nodes.")
            scalars.append(array)
            scalar_merges.append(kind)
            trailing.append(None)
        else:
            raise ValueError(
                f"leaf_table holds an array of shape {array.shape}; the forest has {n_trees} trees of {n_nodes} nodes: "
                f"expected {(n_trees, n_nodes)}, {(n_trees, n_nodes, 'k')} or {(n_trees,)}."
            )
    of_planes = Merging(tuple(plane_merges), tuple(plane.dtype.name for plane in planes))
    of_scalars = Merging(tuple(scalar_merges), tuple(array.dtype.name for array in scalars))
    sources, dtypes = _sources_of(planes)
    layout = Layout(structure, tuple(trailing), of_planes, of_scalars, sources, dtypes, _groups(dtypes))
    return planes, scalars, layout


def _sources_of(planes: list[Array]) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    """Return (sources of ``planes``, names of the columns' dtypes), where each plane that is not wide has a column."""
    sources, dtypes = [], []
    n_wide = 0
    for plane in planes:
        if plane.ndim > 2:
            sources.append(Source(column=None, rows=n_wide, width=plane.shape[2]))
            n_wide += 1
        else:
            sources.append(Source(column=len(dtypes)))
            dtypes.append(plane.dtype.name)
    if n_wide:
        dtypes.append("int32")  # the column of rows of wide planes
    return tuple(sources), tuple(dtypes)


def columns_of_planes(planes: list[Array], layout: Layout) -> tuple[list[Array], list[Array]]:
    """Return (columns ``[trees nodes]``, rows ``[rows width]`` of each wide plane) that store the ``planes`` of `cut`.

    ``layout`` is also that of `cut`. In a wide plane each node has a row; the last column holds the row's index.
    """
    wide_planes = [(plane, merge) for plane, merge in zip(planes, layout.planes.planes, strict=True) if plane.ndim > 2]
    columns = [plane for plane in planes if plane.ndim == 2]
    rows = [_behind_neutral(plane.reshape(-1, plane.shape[2]), merge.neutral) for plane, merge in wide_planes]
    if rows:
        row_of_node = jnp.arange(1, len(rows[0]), dtype=jnp.int32)  # row 0 is neutral
        columns.append(row_of_node.reshape(wide_planes[0][0].shape[:2]))
    return columns, rows


def _behind_neutral(rows: Any, neutral: int | float) -> Array:
    """Return ``rows [rows width]`` with a row of the number ``neutral`` in front, which padding trees read."""
    shape = (1, rows.shape[1])
    if isinstance(rows, np.ndarray):
        return jax.device_put(join([np.full(shape, neutral, rows.dtype), rows]))
    return jnp.concatenate([jnp.full(shape, neutral, rows.dtype), rows])


def cut_rows(lifted: PyTree, merge: PyTree, n_trees: int) -> tuple[list[np.ndarray], list[Array], list[Array], Layout]:
    """Return (columns ``[distinct]``, numbers per tree ``[trees]``, rows of each wide plane, layout) of a statistic.

    ``lifted`` is the statistic on the host: arrays ``[distinct ...]``, an entry for each distinct count vector, and
    numbers, each the same for all trees. ``merge`` is as for `cut`. Columns have an entry for each count vector, not
    for each node.
    """
    leaves, structure = jax.tree.flatten(lifted)
    arrays = [np.asarray(leaf) for leaf in leaves]
    kinds = merge_kinds(merge, lifted)
    planes = {i: array.reshape(len(array), -1) for i, array in enumerate(arrays) if array.ndim}  # [distinct numbers]
    columns, rows, sources = _store(planes, kinds)
    of_planes = []  # (merge, dtype) of each plane
    for i, array in planes.items():
        # Exact sums that fit in 32 bits need no second number.
        kind = "short_sum" if kinds[i] == "exact_sum" and is_short(array, n_trees) else kinds[i]
        of_planes += [(kind, array.dtype.name)] * len(sources[i])
    of_scalars = [(kind, array.dtype.name) for kind, array in zip(kinds, arrays, strict=True) if not array.ndim]
    dtypes = tuple(column.dtype.name for column in columns)
    layout = Layout(
        structure=structure,
        trailing=tuple(array.shape[1:] if array.ndim else None for array in arrays),
        planes=_merging(of_planes),
        scalars=_merging(of_scalars),
        sources=tuple(itertools.chain.from_iterable(sources[i] for i in planes)),
        columns=dtypes,
        groups=_groups(dtypes),
    )
    scalars = [jax.device_put(np.full(n_trees, array)) for array in arrays if not array.ndim]
    return columns, scalars, rows, layout


def _store(
    planes: dict[int, np.ndarray], kinds: Sequence[str]
) -> tuple[list[np.ndarray], list[Array], dict[int, list[Source]]]:
    """Return (columns ``[distinct]``, rows of each wide plane, sources of each array's planes) that store ``planes``.

    ``planes`` has arrays ``[distinct numbers]`` by their index, and ``kinds`` the name of each array's merge. The
    sources are by the same index.
    """
    mass_of = _masses_of_bits(planes, kinds)
    columns = StoredColumns()
    sources: dict[int, list[Source]] = {}
    rows: list[Array] = []
    # Arrays of numbers come first: planes of bits refer to the columns of their masses.
    for i, array in planes.items():
        if i in mass_of:
            continue
        width = array.shape[1]
        if width > WIDE:
            sources[i] = [Source(column=None, rows=len(rows), width=width)]
            neutral = _merging([(kinds[i], array.dtype.name)]).planes[0].neutral
            rows.append(_behind_neutral(array, neutral))
        else:
            # In these merges 0 is neutral, so that the entries of padding trees have no bits.
            sources[i] = columns.add(array, lends=kinds[i] in ("sum", "exact_sum"))
    for i, mass in mass_of.items():
        column = None if mass == UNIT else sources[mass][0].column
        width = planes[i].shape[1]
        if width > WIDE:
            sources[i] = [Source(column, rows=len(rows), width=width, has_bits=True)]
            rows.append(_behind_neutral(_words(planes[i]), neutral=0))
        else:
            sources[i] = columns.add_bits(planes[i], column)
    if rows:
        columns.arrays.append(np.arange(1, len(rows[0]), dtype=np.int32))  # row 0 is neutral
    return columns.arrays, rows, sources


def _masses_of_bits(planes: dict[int, np.ndarray], kinds: Sequence[str]) -> dict[int, int]:
    """Return {index of an array: index of its mass} for the arrays in ``planes`` that can be stored as bits.

    Arguments are those of `_store`. An array of several exact sums, such as votes, can be stored as bits if its entries
    are a mass or 0. A mass is an array of one exact sum, or `UNIT`.
    """
    exact_sums = {i: array for i, array in planes.items() if kinds[i] == "exact_sum"}
    masses = {i: array[:, 0] for i, array in exact_sums.items() if array.shape[1] == 1}
    mass_of = {i: mass_among(array, masses) for i, array in exact_sums.items() if array.shape[1] > 1}
    return {i: mass for i, mass in mass_of.items() if mass is not None}


def _merging(kinds_and_dtypes: list[tuple[str, str]]) -> Merging:
    """Return the merging of planes, given (name of the merge, name of the dtype) for each plane."""
    return Merging(tuple(kind for kind, _ in kinds_and_dtypes), tuple(dtype for _, dtype in kinds_and_dtypes))


def _groups(dtypes: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return `Layout.groups` for columns of these ``dtypes``: 32-bit columns two by two, any others alone."""
    of_32_bits = [i for i, dtype in enumerate(dtypes) if jnp.dtype(dtype).itemsize == 4]
    pairs = [tuple(of_32_bits[i : i + 2]) for i in range(0, len(of_32_bits), 2)]
    singles = [(i,) for i in range(len(dtypes)) if i not in of_32_bits]
    return (*pairs, *singles)


def pack(columns: list[Any], layout: Layout) -> list[Any]:
    """Return ``columns`` packed into arrays of elements, one for each group of ``layout``.

    The arrays are NumPy's if the columns are, else JAX's.
    """
    grouped_columns = [[columns[i] for i in group] for group in layout.groups]
    return [pair_bits(*group) if len(group) == 2 else as_bits(*group) for group in grouped_columns]


def unpack(packed: list[Array], layout: Layout) -> list[Array]:
    """Return the columns, in ``layout``'s order, of the elements in ``packed``: the inverse of `pack`.

    The elements may also be those at some nodes alone; the result then has the columns' entries at these nodes.
    """
    columns: dict[int, Array] = {}
    for group, elements in zip(layout.groups, packed, strict=True):
        dtypes = [jnp.dtype(layout.columns[i]) for i in group]
        group_columns = split_bits(elements, *dtypes) if len(group) == 2 else (of_bits(elements, *dtypes),)
        columns.update(zip(group, group_columns, strict=True))
    return [columns[i] for i in range(len(layout.columns))]


def neutral_columns(layout: Layout) -> list[float]:
    """Return for each column the entry that changes no merge of the column's planes, for trees that only pad."""
    # Bits of 0 are neutral, and so is row 0 of wide planes.
    entries = [0.0] * len(layout.columns)
    for source, merge in zip(layout.sources, layout.planes.planes, strict=True):
        if source.column is not None and source.word is None and source.width is None:
            entries[source.column] = float(merge.neutral)
    return entries


def rejoin(layout: Layout, merged: list, merged_scalars: list) -> PyTree:
    """Return the merged statistic, a pytree like the one that was cut into ``layout``.

    ``merged`` has the merged planes, in the order of ``layout.sources``, and ``merged_scalars`` the merged numbers per
    tree. Each is an array, or a pytree of arrays such as `TwoFloat`.
    """
    planes = iter(zip(merged, layout.sources, strict=True))
    scalars = iter(merged_scalars)
    arrays = []
    for shape in layout.trailing:
        if shape is None:  # a number per tree
            arrays.append(next(scalars))
            continue
        plane, source = next(planes)
        if source.width is not None:  # a wide plane is a whole array
            arrays.append(jax.tree.map(lambda array, shape=shape: array.reshape(*array.shape[:-1], *shape), plane))
        else:  # any other array was cut into a plane for each of its numbers at a node
            further_planes = [next(planes)[0] for _ in range(math.prod(shape) - 1)]
            arrays.append(jax.tree.map(partial(_stack, shape), plane, *further_planes))
    return jax.tree.unflatten(layout.structure, arrays)


def _stack(shape: tuple[int, ...], *planes: Array) -> Array:
    """Return planes ``[...]`` as one array ``[... *shape]``; the single plane if ``shape`` is ``()``."""
    if not shape:
        return planes[0]
    return jnp.stack(planes, axis=-1).reshape(*planes[0].shape, *shape)


class StoredColumns:
    """Columns ``[distinct]`` on the host that store planes; an entry belongs to a distinct count vector."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.spare: list[tuple[int, int]] = []
        """(column, bit) for each bit that is 0 in all entries of the column, and may still store another plane."""

    def add(self, planes: Shaped[np.ndarray, "distinct planes"], *, lends: bool) -> list[Source]:
        """Add a column for each of ``planes``, and return their sources, in order.

        With ``lends`` planes that are added later may be stored in spare bits of these columns.
        """
        first = len(self.arrays)
        self.arrays += [np.array(plane) for plane in planes.T]
        new_columns = range(first, len(self.arrays))
        if lends:
            self.spare += [(i, bit) for i in new_columns for bit in _spare_bits(self.arrays[i])]
        return [Source(i) for i in new_columns]

    def add_bits(self, planes: Shaped[np.ndarray, "distinct planes"], column: int | None) -> list[Source]:
        """Add planes that are stored as bits, and return their sources.

        Entries other than 0 must equal those of the column with the index ``column``; if that is None, they must be 1.
        Bits go into spare bits of other columns, or all into new columns if too few are spare.
        """
        n_planes = planes.shape[1]
        if len(self.spare) < n_planes:
            first_word = len(self.arrays)
            self.arrays += list(_words(planes).T.copy())
            return [Source(column, first_word + i // 32, i % 32) for i in range(n_planes)]
        spare_bits = self.spare[:n_planes]
        self.spare = self.spare[n_planes:]
        for (word, bit), plane in zip(spare_bits, planes.T, strict=True):
            bits = self.arrays[word].view(np.uint32)  # a view: what is set in it is set in the column
            bits |= (plane != 0).astype(np.uint32) << np.uint32(bit)
        return [Source(column, word, bit) for word, bit in spare_bits]


def _words(planes: Shaped[np.ndarray, "distinct planes"]) -> Shaped[np.ndarray, "distinct words"]:
    """Return ``planes`` as bits of 32-bit words: the bit of an entry is set if the entry is not 0.

    Plane j is bit ``j % 32`` of word ``j // 32``.
    """
    is_nonzero = np.pad(planes != 0, ((0, 0), (0, -planes.shape[1] % 32)))  # zeros up to whole words
    return np.packbits(is_nonzero, axis=1, bitorder="little").view("<u4").astype(np.uint32)


def _spare_bits(column: Shaped[np.ndarray, "distinct"]) -> Sequence[int]:
    """Return the positions of bits that are 0 in all numbers of a 32-bit column, the highest first.

    Of floats only the sign counts. There are none if a number is NaN or has a minus sign, or has not 32 bits.
    """
    if column.dtype.itemsize != 4 or not np.all(column >= 0):
        return ()
    if column.dtype.kind == "f":
        return () if np.signbit(column).any() else (31,)
    return range(31, int(column.max(initial=0)).bit_length() - 1, -1)


def mass_among(planes: Shaped[np.ndarray, "distinct planes"], masses: dict[int, np.ndarray]) -> int | None:
    """Return the index of the mass among ``masses`` that all entries of ``planes`` other than 0 equal.

    ``masses`` has planes ``[distinct]`` by their index. The result is `UNIT` for entries 0 and 1, None if none fits.
    """
    is_nonzero = planes != 0
    if np.array_equal(planes, is_nonzero):
        return UNIT
    for i, mass in masses.items():
        if mass.dtype == planes.dtype and np.array_equal(np.where(is_nonzero, mass[:, None], 0), planes):
            return i
    return None


def is_short(planes: Shaped[np.ndarray, "distinct planes"], n_trees: int) -> bool:
    """Return whether ``planes`` are integers ≥ 0, or floats 0 and 1, whose sums over ``n_trees`` fit in 32 bits."""
    if planes.dtype.kind in "iu":
        return planes.min(initial=0) >= 0 and n_trees * int(planes.max(initial=0)) < 2**32
    # A sum of ones is at most the number of trees, and float32 holds each integer below 2**24.
    return planes.dtype == jnp.result_type(float) and n_trees < 2**24 and np.array_equal(planes, planes != 0)


def values_of(columns: list[Array], rows: list[Array], layout: Layout) -> list[Array]:
    """Return the values of all planes of ``layout`` at some nodes.

    ``columns`` has the entries of each column at these nodes, ``[...]``; ``rows`` has the array of rows of each wide
    plane. Values are ``[...]``, of wide planes ``[... width]``.
    """
    sources = layout.sources
    all_bits = ~0
    bit_masks = [all_bits] * len(columns)  # the bits of each column that do not store other planes
    for source in sources:
        if source.word is not None:
            bit_masks[source.word] &= ~(1 << source.bit)
    shared_columns = {i for i, mask in enumerate(bit_masks) if mask != all_bits}
    bits = {i: columns[i].view(jnp.uint32) for i in shared_columns}

    def read_column(i: int) -> Array:
        """Return the entries of column i, with 0 in the bits that store other planes."""
        if i not in shared_columns:
            return columns[i]
        # The mask is a negative integer in Python; its lowest 32 bits are the word.
        return (bits[i] & jnp.uint32(bit_masks[i] & 0xFFFFFFFF)).view(columns[i].dtype)

    def read_plane(source: Source, dtype: str) -> Array:
        """Return the values, of type ``dtype``, of the plane that is stored as ``source`` says."""
        if source.rows is not None and not source.has_bits:
            return take_rows(rows[source.rows], columns[-1])
        # Of a plane that is stored as bits this is the value where a bit is set.
        value = jnp.ones((), dtype) if source.column is None else read_column(source.column)
        if source.rows is not None:
            packed = take_rows(rows[source.rows], columns[-1])
            row_bits = ((packed[..., None] >> _BIT_NUMBERS) & 1).reshape(*packed.shape[:-1], -1)
            return jnp.where(row_bits[..., : source.width] != 0, value[..., None], jnp.zeros((), dtype))
        if source.word is None:
            return value
        is_nonzero = (bits[source.word] & jnp.uint32(1 << source.bit)) != 0
        return jnp.where(is_nonzero, value, jnp.zeros((), dtype))

    return [read_plane(source, dtype) for source, dtype in zip(sources, layout.planes.dtypes, strict=True)]


_BIT_NUMBERS = np.arange(32, dtype=np.uint32)
