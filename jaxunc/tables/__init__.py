"""Data frames in; nominal levels and their codes."""

from ._columns import Columns, Levels

__all__ = ["Columns", "Levels"]
