"""Decisions from answers: a class, a set of classes, a rejection. Sets are bools ``[... classes]``, never empty."""

from ._conformal import conformal_sets, least_probabilities
from ._costs import by_rows, expected_utility_set, is_of_jax, utility_of_sizes
from ._dominance import CautiousAnswer, CautiousReport, interval_dominance, maximality, nondominated
from ._least_cost import cost_matrix, least_cost, plain_costs

__all__ = [
    "CautiousReport",
    "conformal_sets",
    "expected_utility_set",
    "interval_dominance",
    "least_cost",
    "nondominated",
]
