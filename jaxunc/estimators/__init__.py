"""The fit and predict classes that scikit-learn's users expect."""

from ._combined_forest import CombinedForestClassifier
from ._counts import COUNTS, PureLeavesWarning, calibration_split, counted_forest

__all__ = [
    "COUNTS",
    "CombinedForestClassifier",
    "PureLeavesWarning",
    "calibration_split",
    "counted_forest",
]
