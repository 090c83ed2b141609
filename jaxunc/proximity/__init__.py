"""Which training rows stand behind an answer, and how far from these a row lies."""

from ._neighbours import NeighbourIndex, Neighbours, neighbour_weights, neighbours
from ._outside import outside_share

__all__ = ["NeighbourIndex", "neighbour_weights", "neighbours", "outside_share"]
