"""Growing forests: random decision trees; greedy trees by information gain, and bags of them."""

from ._greedy_trees import bagging, grow_greedy_trees
from ._random_trees import grow_random_trees

__all__ = ["bagging", "grow_greedy_trees", "grow_random_trees"]
