"""Greedy trees: every test is the one of largest information gain. One tree, trees on samples, and bags of them."""

from ._cuts import LOWEST, Cuts, find_cuts, halfway, parts_classes, value_counts
from ._entropy_table import entropy_table
from ._grow import bagging, checked_limits, forest_of, grow_greedy_trees
from ._one_tree import grow_greedy_tree
from ._presorted import Presorted, Queries, as_queries, own_queries, presort, sorted_sample, values_of

__all__ = ["bagging", "grow_greedy_trees"]
