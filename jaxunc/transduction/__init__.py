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
from ._grouped import KeptNodes
from ._pairs import Pairs, PairsProgress
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
