"""Certainty by transduction: an instance is inserted with each label, and the trees that are then grown are compared.

The two algorithms here are for greedy entropy trees. `jaxunc.estimators.TransductiveClassifier` fits other classifiers
again for each label.
"""

from ._certainty import (
    ALGORITHMS,
    BoundSample,
    LabelAverage,
    counts_of,
    label_average,
    settings_of,
    transductive_certainty,
    transductive_leaf_counts,
)
from ._entropy_trees import (
    SplitLimits,
    best_test,
    checked_limits,
    entropy_table,
    forest_of,
    grow_greedy_tree,
    grow_greedy_trees,
    split,
)
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
    parts_classes,
    presort,
    sample_queries,
    sorted_sample,
    value_counts,
    values_of,
)
from ._scores import scores_with

__all__ = ["grow_greedy_trees", "transductive_certainty", "transductive_leaf_counts"]
