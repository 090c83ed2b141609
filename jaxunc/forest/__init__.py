"""A forest as padded arrays, and what must hold of them."""

from ._assemble import TreeNodes, assemble, distinct_counts, snap_to_integers
from ._forest import Forest
from ._validity import check_forest, validity

__all__ = ["Forest", "TreeNodes", "assemble", "check_forest", "distinct_counts", "snap_to_integers", "validity"]
