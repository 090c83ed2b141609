"""Certainty by transduction: the instance is inserted with each label, and the trees that follow are compared."""

from ._certainty import (
    label_average,
    leave_one_out_certainty,
    leave_one_out_leaf_counts,
    transductive_certainty,
    transductive_leaf_counts,
)

__all__ = [
    "label_average",
    "leave_one_out_certainty",
    "leave_one_out_leaf_counts",
    "transductive_certainty",
    "transductive_leaf_counts",
]
