"""Decisions from answers: a class, a set of classes, a rejection. Sets are bools ``[... classes]``, never empty."""

from ._cautious_report import CautiousAnswer, CautiousReport
from ._expected_utility import expected_utility_set, utility_of_sizes
from ._interval_dominance import interval_dominance
from ._maximality import maximality
from ._nondominated import nondominated
from ._reject import reject

__all__ = [
    "CautiousAnswer",
    "CautiousReport",
    "expected_utility_set",
    "interval_dominance",
    "maximality",
    "nondominated",
    "reject",
]
