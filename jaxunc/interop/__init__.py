"""Forests of other libraries."""

from ._sklearn import from_sklearn

__all__ = ["from_sklearn"]
