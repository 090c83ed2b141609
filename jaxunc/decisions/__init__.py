"""Decisions from answers: a class, a set of classes, a rejection. Sets are bools ``[... classes]``, never empty."""

from ._costs import expected_utility_set, utility_of_sizes
from ._dominance import CautiousAnswer, CautiousReport, interval_dominance, maximality, nondominated
from ._named_costs import cost_matrix, least_cost, plain_costs
from ._of_answers import Calibration, as_shares, best_sets, check_coverage, conformal_sets, decided, promised_sets

__all__ = [
    "CautiousReport",
    "conformal_sets",
    "expected_utility_set",
    "interval_dominance",
    "least_cost",
    "nondominated",
]
