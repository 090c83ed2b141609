"""Importers of other libraries' forests."""

from ._sklearn import from_sklearn

__all__ = ["from_sklearn"]
