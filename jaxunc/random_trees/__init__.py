"""Random decision trees: every test is drawn, none is chosen by the labels."""

from ._grow_random_trees import grow_random_trees

__all__: list[str] = []  # what users call stands at the root
