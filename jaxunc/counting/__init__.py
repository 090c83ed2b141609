"""Counts of instances in the leaves of trees: of which instances, and in which trees."""

from typing import TYPE_CHECKING

from jaxunc._renamed import renamed_in

from ._copies import OwnCounts, as_groups, copies_of, first_of_each, first_of_equals, rows_together, together
from ._kinds import COUNTS, PureLeavesWarning, calibration_split, check_counts_mode, counted_forest, warn_of_pure_leaves
from ._leave_one_out import leave_one_out
from ._out_of_bag import has_bags, mask_of_each, oob_mask
from ._recount import recount
from ._unseen import TooFewUnseenError, as_many_trees, check_unseen, of_classes, shares_of_classes

__all__ = ["PureLeavesWarning", "leave_one_out", "oob_mask", "recount"]

if not TYPE_CHECKING:  # so that they still report names that do not exist
    __getattr__ = renamed_in(__name__)
