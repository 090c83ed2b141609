"""Random decision trees: every test is drawn, none is chosen by the labels."""

from typing import TYPE_CHECKING

from jaxunc._renamed import renamed_in

from ._random_trees import grow_random_trees

__all__ = ["grow_random_trees"]

if not TYPE_CHECKING:  # so that they still report names that do not exist
    __getattr__ = renamed_in(__name__)
