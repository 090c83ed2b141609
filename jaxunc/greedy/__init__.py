"""Greedy trees: every test is the one of largest information gain. One tree, trees on samples, and bags of them."""

from ._grow import bagging, grow_greedy_trees

__all__ = ["bagging", "grow_greedy_trees"]
