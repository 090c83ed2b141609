"""The columns of data that a model reads, and rows with these columns."""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from jaxunc._checks import nearest
from jaxunc.tables import Columns, spelled

from ._formats import UnreadableError


class DataChunk(NamedTuple):
    """Rows of data, split into what the model reads and what is carried along."""

    features: pa.Table
    """Columns of the model, in its order."""
    kept: pa.Table
    """Columns that are carried along."""
    where: str
    """Name of the data in messages."""
    are_cells: bool = False
    """Whether strings are cells of a text file."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.features.num_rows


class Wanted(NamedTuple):
    """The columns of the data that are read."""

    columns: Columns
    """Columns as the model knows them."""
    features: tuple[str, ...] | None
    """Names of the model's columns in the data; None: those that it knows, else all that are not kept."""
    keep: tuple[str, ...]
    """Names of columns that are carried along."""

    def names(self, found: Sequence[str], where: str) -> tuple[str, ...]:
        """Return the data's columns that the model reads, in its order; raises a ValueError if some are missing."""
        try:
            check_distinct(found)
        except UnreadableError as error:
            raise ValueError(f"{where} cannot be read: {error}") from error
        features = self.features or self._spelled(found, where)
        needed = [*(features or ()), *self.keep]
        if missing := [name for name in needed if name not in set(found)]:
            raise ValueError(
                f"{where} lacks the columns {missing[:5]} ({len(missing)} in all).{nearest(missing[0], found)} It has "
                f"{list(found)[:10]}. Further columns and their order do not matter."
            )
        if features is None:
            features = tuple(name for name in found if name not in set(self.keep) and not is_index(name))
        if len(features) != self.columns.number:
            raise ValueError(
                f"{where} has {len(features)} columns for the model's {self.columns.number}, which knows no names: "
                "name those to read with features, in the order of training, or those to carry along with keep."
            )
        return tuple(features)

    def _spelled(self, found: Sequence[str], where: str) -> tuple[str, ...] | None:
        """The names that the model knows, as the data write them."""
        known = self.columns.names
        if known is None or not self.columns.spaces_are_underlines:
            return known
        names = spelled(found, self.columns, where)
        return tuple(names.get(name, name) for name in known)


def check_distinct(names: Sequence[str]) -> None:
    """Raise an UnreadableError if two columns have the same name."""
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        raise UnreadableError(f"several columns are named {', '.join(map(repr, twice[:5]))}; give each its own name")


def is_index(name: str) -> bool:
    """Return whether a column is the index of a pandas frame that had no name: no part of its data."""
    return name.startswith("__index_level_") and name.endswith("__")
