"""Which training rows stand behind an answer, and how far from these a row lies."""

from ._leaf_rows import unwrap_model
from ._neighbours import NeighbourIndex, Neighbours, neighbour_weights, neighbours
from ._outside import LeafBoxes, outside_share
from ._target_doubt import target_doubt

__all__ = ["NeighbourIndex", "neighbour_weights", "neighbours", "outside_share", "target_doubt"]
