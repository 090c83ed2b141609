"""Random decision trees: every test is drawn, none is chosen by the labels."""

from ._grow_random_trees import grow_random_trees

__all__ = ["grow_random_trees"]
