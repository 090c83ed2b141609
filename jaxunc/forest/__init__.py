"""A forest as padded arrays, and what must hold of them."""

from ._assemble import TreeNodes, assemble, snap_to_integers
from ._distinct import bucket, distinct_counts, distinct_rows, padded_table
from ._forest import Forest
from ._siblings import MODES, Siblings, settle_empty_leaves
from ._validity import check_forest, validity

__all__ = [
    "MODES",
    "Forest",
    "Siblings",
    "TreeNodes",
    "assemble",
    "bucket",
    "check_forest",
    "distinct_counts",
    "distinct_rows",
    "padded_table",
    "settle_empty_leaves",
    "snap_to_integers",
    "validity",
]
