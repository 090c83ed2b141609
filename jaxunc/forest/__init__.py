"""A forest as padded arrays, and what must hold of them."""

from ._assemble import TreeNodes, assemble, snap_to_integers
from ._distinct import bucket, distinct_counts, distinct_rows, narrowest_counts, padded_table
from ._forest import Forest
from ._siblings import MODES, Siblings, count_in_parents, settle_empty_leaves
from ._validity import check_forest, validity

__all__ = [
    "MODES",
    "Forest",
    "Siblings",
    "TreeNodes",
    "assemble",
    "bucket",
    "check_forest",
    "count_in_parents",
    "distinct_counts",
    "distinct_rows",
    "narrowest_counts",
    "padded_table",
    "settle_empty_leaves",
    "snap_to_integers",
    "validity",
]
