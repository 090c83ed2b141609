"""Many leaves → one answer: the contract of a fold, and the rules."""

from ._answer import Answer, margin
from ._dempster import DempsterRule
from ._evidence import EvidenceAccumulation
from ._fold import Fold, tree_field
from ._lift import lift_forest, read_answer
from ._mean import Mean
from ._merge import accumulator, merge_kinds
from ._pooling import Pooling
from ._together import Together
from ._vote import Vote
from ._weighted import Weighted

__all__ = [
    "Answer",
    "DempsterRule",
    "EvidenceAccumulation",
    "Fold",
    "Mean",
    "Pooling",
    "Together",
    "Vote",
    "Weighted",
    "accumulator",
    "lift_forest",
    "margin",
    "merge_kinds",
    "read_answer",
    "tree_field",
]
