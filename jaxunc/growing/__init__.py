"""Growing forests: random decision trees."""

from ._random_trees import grow_random_trees

__all__ = ["grow_random_trees"]
