"""Trees and forests as padded arrays, and checks of their invariants."""

from ._assemble import (
    ColumnSets,
    IntervalNode,
    Intervals,
    IntervalTests,
    TreeNodes,
    assemble,
    column_sets,
    has_several_parents,
    interval_nodes,
    interval_tests,
    lay_out,
    reached_nodes,
    snap_to_integers,
    with_interval_tests,
)
from ._forest import (
    DEFAULT_COUNTS,
    MODES,
    CountSet,
    Forest,
    Forks,
    Trees,
    check_is_forest,
    counts_of_forks,
    have_same_arrays,
    way_to_forest,
)
from ._validity import check_forest, check_trees

__all__ = ["Forest", "Trees"]
