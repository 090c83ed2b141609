"""Displays in scikit-learn's form: ``from_…`` makes one, ``plot(ax=…)`` draws it. They compute nothing themselves.

Needs matplotlib, which the extra ``jaxunc[cli]`` brings.
"""

from ._complexity import ComplexityDisplay
from ._critical_difference import CriticalDifferenceDisplay
from ._interval_reliability import IntervalReliabilityDisplay
from ._leaf_sizes import LeafSizeDisplay
from ._polled import PolledDisplay
from ._rejection import RejectionDisplay, RiskCoverageDisplay
from ._reliability import ReliabilityDisplay
from ._set_sizes import SetSizeDisplay
from ._settled import SettledDisplay
from ._strength import StrengthDisplay
from ._style import PALETTE, Line, lines_for
from ._trees_needed import TreesNeededDisplay
from ._uncertainty import UncertaintyDisplay
from ._vote_paths import VotePathsDisplay

__all__ = [
    "ComplexityDisplay",
    "CriticalDifferenceDisplay",
    "IntervalReliabilityDisplay",
    "LeafSizeDisplay",
    "Line",
    "PolledDisplay",
    "RejectionDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "SetSizeDisplay",
    "SettledDisplay",
    "StrengthDisplay",
    "TreesNeededDisplay",
    "UncertaintyDisplay",
    "VotePathsDisplay",
    "lines_for",
]
