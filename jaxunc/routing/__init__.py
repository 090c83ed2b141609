"""Instances → leaves, and the leaves' statistics merged on the way."""

from typing import TYPE_CHECKING

from jaxunc._renamed import renamed_in

from ._answering import Answering, HasColumns
from ._bind import BoundForest, bind
from ._fold import fold
from ._index import leaf_index
from ._leaf_table import leaf_table
from ._leaves import leaf_counts
from ._packed_trees import Carry, PackedTrees

__all__ = [
    "Answering",
    "BoundForest",
    "Carry",
    "HasColumns",
    "PackedTrees",
    "bind",
    "fold",
    "leaf_counts",
    "leaf_index",
    "leaf_table",
]

if not TYPE_CHECKING:  # so that they still report names that do not exist
    __getattr__ = renamed_in(__name__)
