"""Counts of instances in the leaves of trees: which instances are counted, and in which trees."""

from ._copies import (
    GroupCounts,
    advise_on_trees,
    as_groups,
    copies_of,
    find_rows_of_fit,
    first_of_each,
    first_of_equals,
    mask_by_group,
    row_hashes,
    rows_together,
)
from ._counts_modes import (
    COUNTS,
    LabelledRows,
    PureLeavesWarning,
    TooFewUnseenError,
    check_counts_mode,
    check_enough_unseen,
    count_leaves,
    counted_forest,
    describe_lost_rows,
    even_out_trees,
    held_out_split,
    shares_of_classes,
    warn_of_one_doubt,
    warn_of_pure_leaves,
)
from ._leave_one_out import leave_one_out
from ._out_of_bag import OtherRowsError, bags_of, counts_in_nodes, has_bags, oob_mask, ungrouped_mask

__all__ = ["PureLeavesWarning", "count_leaves", "leave_one_out", "oob_mask"]
