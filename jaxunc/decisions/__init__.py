"""Decisions from answers: a class, a set of classes, a rejection. Sets are bools ``[... classes]``, never empty."""

from ._costs import expected_utility_set, reject, utility_of_sizes
from ._dominance import CautiousAnswer, CautiousReport, interval_dominance, maximality, nondominated

__all__ = ["CautiousReport", "expected_utility_set", "interval_dominance", "nondominated", "reject"]
