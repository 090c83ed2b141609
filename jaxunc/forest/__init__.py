"""A forest as padded arrays, and what must hold of them."""

from ._assemble import TreeNodes, assemble, snap_to_integers
from ._forest import Forest
from ._validity import check_forest, validity

__all__ = ["Forest", "TreeNodes", "assemble", "check_forest", "snap_to_integers", "validity"]
