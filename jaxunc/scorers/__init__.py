"""Scores and intervals of one leaf, read from its counts: plain functions, any leading axes, differentiable."""

from jaxunc._checks import FractionsWarning

from ._confidence_bounds import confidence_bounds
from ._frequencies import (
    ChosenScorer,
    as_partial,
    declared,
    laplace,
    linear,
    m_estimate,
    probability,
    reads_sizes,
    score_bound,
    score_width,
    scorer,
    ucb,
)
from ._grid import beta_densities, grid_support_degrees
from ._imprecise_dirichlet import (
    Interval,
    check_strength,
    checked_strength,
    differences,
    dominance,
    idm_interval,
    single_strength,
    undominated,
)
from ._likelihood import likelihood_mass
from ._plausibility import (
    LeafUncertainty,
    class_one,
    degrees_of_preference,
    log_support_degrees,
    mass,
    plausibility,
    support,
    uncertainty,
)

__all__ = [
    "Interval",
    "confidence_bounds",
    "grid_support_degrees",
    "laplace",
    "linear",
    "m_estimate",
    "mass",
    "plausibility",
    "probability",
    "scorer",
    "ucb",
    "uncertainty",
]

_NAMED = (probability, laplace, m_estimate, plausibility, confidence_bounds, linear, ucb)
_OTHERS = (
    *(beta_densities, degrees_of_preference, grid_support_degrees, likelihood_mass, log_support_degrees),
    *(mass, uncertainty),
)

SCORERS = {function.__name__: function for function in _NAMED}
"""The scorers by the names that options have for them: functions that return a leaf's score, or one per class."""

FUNCTIONS_OF_COUNTS = SCORERS | {function.__name__: function for function in _OTHERS}
"""All functions of one leaf's counts, by the names that model files have for them."""
