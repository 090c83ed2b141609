"""Columns: what is stored of planes whose values the host knows, so that fewer numbers are looked up.

Mostly a plane is a column of its own. The planes of votes are not: a tree gives its mass or nothing to each, and of the
mass itself there is another plane. Of such planes a bit each is kept, in bits that other columns have to spare (the
sign of probabilities, the high bits of leaf sizes), or else in columns of 32 bits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped


class Source(NamedTuple):
    """Where the entries of a plane are: static, hashable."""

    column: int | None
    """The column with what is not 0; None where that is 1."""
    word: int | None = None
    """The column with a bit for each entry that is not 0; None where nothing is told by bits."""
    bit: int = 0


class StoredColumns:
    """Columns ``[distinct]`` on the host, filled one after the other."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.spare: list[tuple[int, int]] = []
        """Columns and bits in them that are 0 throughout and may be used."""

    def add(self, planes: Shaped[np.ndarray, "distinct planes"], *, lends: bool) -> list[Source]:
        """Keep planes as they are; ``lends``: bits that they have to spare may be used."""
        first = len(self.arrays)
        self.arrays += [np.array(plane) for plane in planes.T]
        if lends:
            numbered = enumerate(self.arrays[first:], first)
            self.spare += [(i, bit) for i, column in numbered for bit in _spare_bits(column)]
        return [Source(i) for i in range(first, len(self.arrays))]

    def add_bits(self, planes: Shaped[np.ndarray, "distinct planes"], column: int | None) -> list[Source]:
        """Keep a bit of each entry; what is not 0 is the entry of that column, or 1."""
        n = planes.shape[1]
        if len(self.spare) < n:
            there, first = np.pad(planes != 0, ((0, 0), (0, -n % 32))), len(self.arrays)
            self.arrays += list(np.packbits(there, axis=1, bitorder="little").view("<u4").astype(np.uint32).T.copy())
            return [Source(column, first + i // 32, i % 32) for i in range(n)]
        places, self.spare = self.spare[:n], self.spare[n:]
        for (word, bit), plane in zip(places, planes.T, strict=True):
            bits = self.arrays[word].view(np.uint32)
            bits |= (plane != 0).astype(np.uint32) << np.uint32(bit)
        return [Source(column, *place) for place in places]


def _spare_bits(column: Shaped[np.ndarray, "distinct"]) -> Sequence[int]:
    """Bits of 32-bit numbers >= 0 that none of them has, from the highest on."""
    if column.dtype.itemsize != 4 or not np.all(column >= 0):
        return ()
    if column.dtype.kind == "f":
        return () if np.signbit(column).any() else (31,)
    return range(31, int(column.max(initial=0)).bit_length() - 1, -1)


def told_by(planes: Shaped[np.ndarray, "distinct planes"], masses: dict[int, np.ndarray], one: int) -> int | None:
    """Which of the masses all entries are that are not 0; ``one`` where they are 1, None where they are neither."""
    there = planes != 0
    if np.array_equal(planes, there):
        return one
    same = lambda mass: mass.dtype == planes.dtype and np.array_equal(np.where(there, mass[:, None], 0), planes)  # noqa: E731
    return next((i for i, mass in masses.items() if same(mass)), None)


def is_short(planes: Shaped[np.ndarray, "distinct planes"], n_trees: int) -> bool:
    """Whether sums over the trees fit 32 bits, and the digits of a float where they are votes of 1."""
    if planes.dtype.kind in "iu":
        return planes.min(initial=0) >= 0 and n_trees * int(planes.max(initial=0)) < 2**32
    return planes.dtype == jnp.result_type(float) and n_trees < 2**24 and np.array_equal(planes, planes != 0)


def values_of(columns: list[Array], sources: tuple[Source, ...], dtypes: tuple[str, ...]) -> list[Array]:
    """The planes of columns that were looked up."""
    lent = [~sum(1 << source.bit for source in sources if source.word == i) for i in range(len(columns))]
    words = {i for i, keep in enumerate(lent) if keep != -1}
    bits = {i: columns[i].view(jnp.uint32) for i in words}

    def whole(i: int) -> Array:
        return columns[i] if i not in words else (bits[i] & jnp.uint32(lent[i] & 0xFFFFFFFF)).view(columns[i].dtype)

    def one(source: Source, dtype: str) -> Array:
        value = jnp.ones((), dtype) if source.column is None else whole(source.column)
        if source.word is None:
            return value
        there = (bits[source.word] & jnp.uint32(1 << source.bit)) != 0
        return jnp.where(there, value, jnp.zeros((), dtype))

    return [one(source, dtype) for source, dtype in zip(sources, dtypes, strict=True)]
