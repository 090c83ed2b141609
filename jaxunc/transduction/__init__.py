"""Certainty by transduction: the instance is inserted with each label, and the trees that follow are compared."""

from ._algorithms import check_algorithm
from ._bound_sample import BoundSample, LabelAverage
from ._certainty import (
    counts_of,
    label_average,
    leave_one_out_certainty,
    leave_one_out_leaf_counts,
    settings_of,
    transductive_certainty,
    transductive_leaf_counts,
)
from ._cuts import LOWEST, Cuts, find_cuts, halfway, parts_classes, value_counts
from ._entropy_table import entropy_table
from ._grouped import KeptNodes
from ._grow import bagging, checked_limits, forest_of, grow_greedy_trees
from ._one_tree import grow_greedy_tree
from ._pairs import Pairs, PairsProgress
from ._presorted import Presorted, Queries, as_queries, own_queries, presort, sorted_sample, values_of
from ._reliability import (
    Reliability,
    Threshold,
    ThresholdStatus,
    j_divergence,
    kukar_kononenko,
    leave_one_out_kukar_kononenko,
    reliability_of,
    reliability_threshold,
)

__all__ = [
    "BoundSample",
    "LabelAverage",
    "PairsProgress",
    "Reliability",
    "Threshold",
    "ThresholdStatus",
    "bagging",
    "grow_greedy_trees",
    "j_divergence",
    "kukar_kononenko",
    "label_average",
    "leave_one_out_certainty",
    "leave_one_out_kukar_kononenko",
    "leave_one_out_leaf_counts",
    "reliability_of",
    "reliability_threshold",
    "transductive_certainty",
    "transductive_leaf_counts",
]
