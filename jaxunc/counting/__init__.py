"""Instances counted into the leaves of trees: which instances, and of which trees."""

from ._both import both_counts
from ._kinds import COUNTS, PureLeavesWarning, calibration_split, check_counts_mode, counted_forest, warn_of_pure_leaves
from ._leave_one_out import leave_one_out
from ._out_of_bag import oob_mask
from ._recount import recount

__all__ = [
    "COUNTS",
    "PureLeavesWarning",
    "both_counts",
    "calibration_split",
    "check_counts_mode",
    "counted_forest",
    "leave_one_out",
    "oob_mask",
    "recount",
    "warn_of_pure_leaves",
]
