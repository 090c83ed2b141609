"""Forests of other libraries."""

from ._out_of_bag import oob_mask
from ._sklearn import from_sklearn

__all__ = ["from_sklearn", "oob_mask"]
