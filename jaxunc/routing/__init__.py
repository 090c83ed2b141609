"""Instances → leaves, and the leaves' statistics merged on the way."""

from ._bind import BoundForest, bind
from ._fold import fold
from ._index import leaf_index
from ._instances import frame_values
from ._leave_one_out import leave_one_out
from ._leaves import leaf_counts
from ._plan import pair_words, split_words
from ._recount import class_indices, recount

__all__ = [
    "BoundForest",
    "bind",
    "class_indices",
    "fold",
    "frame_values",
    "leaf_counts",
    "leaf_index",
    "leave_one_out",
    "pair_words",
    "recount",
    "split_words",
]
