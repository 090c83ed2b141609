"""Trees and forests as padded arrays, and what must hold of them."""

from ._assemble import TreeNodes, assemble, lay_out, snap_to_integers
from ._forest import (
    MODES,
    OWN,
    CountSet,
    Forest,
    Forks,
    Trees,
    check_is_forest,
    counts_of_forks,
    have_same_arrays,
    way_to_forest,
)
from ._interval_tests import (
    ColumnSets,
    IntervalNode,
    Intervals,
    IntervalTests,
    column_sets,
    interval_nodes,
    interval_tests,
    reached_nodes,
    with_interval_tests,
)
from ._validity import check_forest, check_trees

__all__ = ["Forest", "Trees"]
