"""Instances → leaves, and the leaves' statistics merged on the way."""

from ._bind import BoundForest, bind
from ._fold import fold
from ._leaves import leaf_counts, leaf_index

__all__ = ["BoundForest", "bind", "fold", "leaf_counts", "leaf_index"]
