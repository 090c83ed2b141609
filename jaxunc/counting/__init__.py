"""Instances counted into the leaves of trees: which instances, and of which trees."""

from ._kinds import PureLeavesWarning
from ._leave_one_out import leave_one_out
from ._out_of_bag import oob_mask
from ._recount import recount

__all__ = ["PureLeavesWarning", "leave_one_out", "oob_mask", "recount"]
