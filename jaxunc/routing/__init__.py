"""Instances → leaves, and the leaves' statistics merged on the way."""

from ._bind import BoundForest, bind
from ._fold import fold
from ._index import leaf_index
from ._leaf_table import leaf_table
from ._leaves import leaf_counts
from ._stream import Carry, Stream

__all__ = ["BoundForest", "Carry", "Stream", "bind", "fold", "leaf_counts", "leaf_index", "leaf_table"]
