"""The fit and predict classes that scikit-learn's users expect."""

from ._cautious_forest import CautiousForestClassifier
from ._combined_forest import CombinedForestClassifier
from ._counts import COUNTS, PureLeavesWarning, calibration_split, counted_forest
from ._random_trees import RandomDecisionTreesClassifier

__all__ = [
    "COUNTS",
    "CautiousForestClassifier",
    "CombinedForestClassifier",
    "PureLeavesWarning",
    "RandomDecisionTreesClassifier",
    "calibration_split",
    "counted_forest",
]
