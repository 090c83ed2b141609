"""Certainty by transduction: the instance is inserted with each label, and the trees that follow are compared."""

from ._certainty import (
    BoundSample,
    LabelAverage,
    check_algorithm,
    counts_of,
    label_average,
    leave_one_out_certainty,
    leave_one_out_leaf_counts,
    settings_of,
    transductive_certainty,
    transductive_leaf_counts,
)
from ._entropy_trees import bagging, checked_limits, entropy_table, forest_of, grow_greedy_tree, grow_greedy_trees
from ._grouped import KeptNodes
from ._pairs import Pairs, PairsProgress
from ._presorted import (
    LOWEST,
    Cuts,
    Presorted,
    Queries,
    as_queries,
    find_cuts,
    halfway,
    own_queries,
    parts_classes,
    presort,
    sorted_sample,
    value_counts,
    values_of,
)
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
