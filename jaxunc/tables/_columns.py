"""What is known of the columns of the data that trees test."""

from dataclasses import dataclass
from typing import NamedTuple


class Levels(NamedTuple):
    """The values of a nominal column; their positions are its codes."""

    values: tuple
    """In sorted order: texts, or numbers."""
    has_missing: bool
    """Whether missing values are a level of their own, the last one."""


@dataclass(frozen=True)
class Columns:
    """The columns of the data, in their order: hashable, and no part of what is traced."""

    number: int
    """How many there are."""
    names: tuple[str, ...] | None = None
    """The names that a data frame must have, where known."""
    nominal: tuple[bool, ...] | None = None
    """Which hold names of things, not quantities; None: none does."""
    levels: tuple[Levels | None, ...] | None = None
    """Of nominal columns the levels; None where the data come as codes already."""
