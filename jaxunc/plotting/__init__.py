"""Displays in scikit-learn's form: ``from_…`` makes one, ``plot(ax=…)`` draws it. They compute nothing themselves.

Needs matplotlib, which the extra ``jaxunc[cli]`` brings.
"""

from ._complexity import ComplexityDisplay
from ._critical_difference import CriticalDifferenceDisplay
from ._interval_reliability import IntervalReliabilityDisplay
from ._leaf_sizes import LeafSizeDisplay
from ._rejection import RejectionDisplay, RiskCoverageDisplay
from ._reliability import ReliabilityDisplay
from ._set_sizes import SetSizeDisplay
from ._strength import StrengthDisplay
from ._style import Line, lines_for
from ._uncertainty import UncertaintyDisplay

__all__ = [
    "ComplexityDisplay",
    "CriticalDifferenceDisplay",
    "IntervalReliabilityDisplay",
    "LeafSizeDisplay",
    "Line",
    "RejectionDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "SetSizeDisplay",
    "StrengthDisplay",
    "UncertaintyDisplay",
    "lines_for",
]
